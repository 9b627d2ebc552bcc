"""Matrices of a decoder put into few bits, and what each loses by it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import GraphError
from ...ops.quantised.blocks import FORMATS, WRITTEN
from ...words.tables import Table, Tabular, size
from .config import DecoderConfig
from .packing import NF4, floats, is_packable, lies_in, packed, pieces

if TYPE_CHECKING:
    from .decoder import Decoder

Array = np.ndarray[Any, Any]
KEPT = "float32"
COARSER = {"q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"}
"""What takes the place of a format of 256 numbers where these do not divide a row, but 32 do."""
UNTOUCHED = ("embed", "head")
"""What NF4 leaves as it is unless it is said, as bitsandbytes does."""
KNOWN = (*WRITTEN, *NF4, KEPT)
SHOWN = 20


@dataclass(frozen=True)
class QuantizedTensor:
    """What became of a weight: ``loss`` is √(Σ(q − x)²/Σx²), ``note`` why it is kept or coarser."""

    name: str
    kind: str
    shape: tuple[int, ...]
    nbytes: int
    loss: float = 0.0
    note: str = ""


@dataclass(frozen=True, repr=False)
class Quantized(Tabular):
    """A quantised model, and what each of its tensors has lost; it prints as a table.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=32, width=32, layers=1, heads=2, inner=64))
    >>> found = gw.quant.quantize(model, "q8_0")
    >>> found.tensors[1].name, found.tensors[2].kind, found.worst.loss < 0.01
    ('layer0/attention_norm', 'q8_0', True)
    """

    model: Decoder
    tensors: tuple[QuantizedTensor, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(t.nbytes for t in self.tensors)

    @property
    def worst(self) -> QuantizedTensor:
        """The tensor that lost most."""
        return max(self.tensors, key=lambda t: t.loss)

    def table(self) -> Table:
        """Return what is told of the tensors, those of the greatest losses first."""
        before = sum(4 * math.prod(t.shape) for t in self.tensors)
        rows = [
            [t.name, t.kind, "x".join(map(str, t.shape)), size(t.nbytes), f"{t.loss:.2%}", t.note]
            for t in sorted(self.tensors, key=lambda t: (-t.loss, not t.note))
        ]
        more = [f"and {len(rows) - SHOWN:,} more"] if len(rows) > SHOWN else []
        return Table(
            ["tensor", "kind", "shape", "bytes", "loss", "note"],
            rows[:SHOWN],
            title=f"{size(before)} as float32, {size(self.nbytes)} now",
            notes=[*more, "loss: root mean square error relative to that of the tensor"],
        )


def quantized_weights(
    config: DecoderConfig,
    values: Mapping[str, Array],
    packed_as: Mapping[str, str],
    format: str,
    formats: Mapping[str, str],
) -> tuple[dict[str, Array], dict[str, str], list[QuantizedTensor]]:
    """Return weights, which of them are packed as what, and what each has lost.

    ``formats`` says otherwise for some, by name (``"layer0/q"``) or what they are (``"head"``).
    """
    shapes = dict(config.weights())
    _check(format, formats, shapes)
    found: dict[str, Array] = {}
    kinds: dict[str, str] = {}
    rows: list[QuantizedTensor] = []
    for name, shape in shapes.items():
        was = packed_as.get(name, KEPT)
        usual = was if format in NF4 and name in UNTOUCHED else format
        wanted = formats.get(name, formats.get(name.rpartition("/")[2], usual))
        data = {part: values[part] for part in _parts(name, shape, was)}
        if was == wanted != KEPT:
            kind, note, loss = wanted, "as it was", 0.0
        else:
            kind, note = _kind(name, shape, data[name], wanted, was)
            data, loss = _changed(name, data, shape, was, kind)
        found |= data
        if kind != KEPT:
            kinds[name] = kind
        n_bytes = sum(part.nbytes for part in data.values())
        rows.append(QuantizedTensor(name, kind, shape, n_bytes, loss, note))
    return found, kinds, rows


def _parts(name: str, shape: tuple[int, ...], kind: str) -> Iterable[str]:
    """Return the variables that hold a weight."""
    return (name,) if kind == KEPT else lies_in(name, shape, kind)


def _check(format: str, formats: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> None:
    for kind in (format, *formats.values()):
        if kind not in KNOWN:
            raise GraphError(f"no format {kind!r} to quantize to", need=", ".join(KNOWN))
    known = {*shapes, *(name.rpartition("/")[2] for name in shapes)}
    if wrong := sorted(formats.keys() - known):
        raise GraphError(
            f"the model has no weight {wrong[0]!r}", need=", ".join(sorted(known)[:30])
        )


def _kind(name: str, shape: tuple[int, ...], data: Array, wanted: str, was: str) -> tuple[str, str]:
    """Return what a weight is packed as, and why, if that is not what was wanted."""
    if wanted == KEPT or len(shape) == 1:
        return KEPT, ""
    if not is_packable(name, shape, wanted):
        return KEPT, "no product of blocks takes it"
    if was == KEPT and not np.isfinite(data).all():
        return KEPT, "it has numbers that are not finite"
    n = shape[-1]
    for kind in (wanted, COARSER.get(wanted, wanted)):
        if n % _unit(kind) == 0:
            said = f"{_unit(wanted)} do not divide its rows of {n}"
            return kind, "" if kind == wanted else said
    return KEPT, f"{_unit(wanted)} do not divide its rows of {n}"


def _unit(kind: str) -> int:
    """Return what divides the rows that a format holds."""
    return 2 if kind in NF4 else FORMATS[kind].size


def _changed(
    name: str, data: Mapping[str, Array], shape: tuple[int, ...], was: str, kind: str
) -> tuple[dict[str, Array], float]:
    """Return what a weight in another format lies in, and what it loses by that."""
    if kind == KEPT:
        return {name: data[name] if was == KEPT else floats(data, shape, was)}, 0.0
    x = (data[name] if was == KEPT else floats(data, shape, was)).astype(np.float32, copy=False)
    made = packed(name, x, kind)
    flat = x.reshape(-1, shape[-1])
    error = total = 0.0
    for rows, part in pieces(made, shape, kind):
        error += float(np.square(part - flat[rows], dtype=np.float64).sum())
        total += float(np.square(flat[rows], dtype=np.float64).sum())
    return made, math.sqrt(error / total) if total else 0.0
