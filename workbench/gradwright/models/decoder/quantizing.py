"""Matrices of a decoder put into blocks of few bits, and what each loses by it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import GraphError
from ...ops.quantised.blocks import FORMATS, WRITTEN, packed_ggml, unpacked
from ...words.tables import Table, Tabular, size
from .config import DecoderConfig
from .weights import is_packable

if TYPE_CHECKING:
    from .decoder import Decoder

Array = np.ndarray[Any, Any]
KEPT = "float32"
COARSER = {"q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"}
"""What takes the place of a format of 256 numbers where these do not divide a row, but 32 do."""
PIECE = 1 << 22
"""Numbers that are packed and compared at a time."""
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
    packed: Mapping[str, str],
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
        wanted = formats.get(name, formats.get(name.rpartition("/")[2], format))
        data = values[name]
        held = packed.get(name)
        if held == wanted:
            kind, note, loss = wanted, "as it was", 0.0
        else:
            kind, note = _kind(name, shape, data, wanted, held)
            data, loss = _packed(data, shape, held, kind)
        found[name] = data
        if kind != KEPT:
            kinds[name] = kind
        rows.append(QuantizedTensor(name, kind, shape, data.nbytes, loss, note))
    return found, kinds, rows


def _check(format: str, formats: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> None:
    for kind in (format, *formats.values()):
        if kind not in (*WRITTEN, KEPT):
            raise GraphError(f"no format {kind!r} to quantize to", need=", ".join((*WRITTEN, KEPT)))
    known = {*shapes, *(name.rpartition("/")[2] for name in shapes)}
    if wrong := sorted(formats.keys() - known):
        raise GraphError(
            f"the model has no weight {wrong[0]!r}", need=", ".join(sorted(known)[:30])
        )


def _kind(
    name: str, shape: tuple[int, ...], data: Array, wanted: str, held: str | None
) -> tuple[str, str]:
    """Return what a weight is packed as, and why, if that is not what was wanted."""
    if wanted == KEPT or len(shape) == 1:
        return KEPT, ""
    if not is_packable(name, shape):
        return KEPT, "no product of blocks takes it"
    if held is None and not np.isfinite(data).all():
        return KEPT, "it has numbers that are not finite"
    n = shape[-1]
    for kind in (wanted, COARSER.get(wanted, wanted)):
        if n % FORMATS[kind].size == 0:
            said = f"{FORMATS[wanted].size} do not divide its rows of {n}"
            return kind, "" if kind == wanted else said
    return KEPT, f"{FORMATS[wanted].size} do not divide its rows of {n}"


def _packed(
    data: Array, shape: tuple[int, ...], held: str | None, kind: str
) -> tuple[Array, float]:
    """Return a weight in another format, and what it loses by that."""
    if kind == KEPT:
        return (data, 0.0) if held is None else (unpacked(data, held), 0.0)
    form = FORMATS[kind]
    made = np.empty((math.prod(shape[:-1]), shape[-1] // form.size * form.n_bytes), np.uint8)
    data = data.reshape(len(made), -1)
    error = total = 0.0
    step = max(1, PIECE // shape[-1])
    for start in range(0, len(made), step):
        x = (
            data[start : start + step]
            if held is None
            else unpacked(data[start : start + step], held)
        )
        x = x.astype(np.float32, copy=False)
        made[start : start + step] = q = packed_ggml(x, kind)
        error += float(np.square(unpacked(q, kind) - x, dtype=np.float64).sum())
        total += float(np.square(x, dtype=np.float64).sum())
    made = made.reshape(*shape[:-1], -1)
    return made, math.sqrt(error / total) if total else 0.0
