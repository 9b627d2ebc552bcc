"""Weights by the names of Hugging Face: where each of ours lies in theirs, and the way back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ArchiveError
from ...spec import TensorSpec, dtype_name
from ..decoder.config import DecoderConfig
from .families import Family

Array = np.ndarray[Any, Any]
FLOATS = ("float32", "float16", "bfloat16", "float64")
IGNORED = re.compile(r"rotary_emb\.inv_freq$|(^|\.)h\.\d+\.attn\.(masked_)?bias$")
"""Tensors of old files that are no weights: speeds of rotary positions, masks."""
_LAYER = re.compile(r"layer(\d+)/(.+)")


@dataclass(frozen=True)
class Place:
    """Where a weight lies: some of the rows of a tensor, or those of several, one an expert."""

    names: tuple[str, ...]
    start: int
    stop: int
    whole: int
    """How many rows the tensor has."""
    turned: bool
    """Whether its rows are columns."""


def places(family: Family, config: DecoderConfig) -> Iterator[tuple[str, tuple[int, ...], Place]]:
    """Yield name, shape and place of each weight of a decoder."""
    rows: dict[str, int] = {}
    for _, shape, theirs, _ in _named(family, config):
        rows[theirs[0]] = rows.get(theirs[0], 0) + shape[-2 if len(shape) == 3 else 0]
    begun: dict[str, int] = {}
    for name, shape, theirs, turned in _named(family, config):
        start = begun.get(theirs[0], 0)
        begun[theirs[0]] = stop = start + shape[-2 if len(shape) == 3 else 0]
        yield name, shape, Place(theirs, start, stop, rows[theirs[0]], turned)


def _named(
    family: Family, config: DecoderConfig
) -> Iterator[tuple[str, tuple[int, ...], tuple[str, ...], bool]]:
    """Yield names and shapes, whose tensors hold them, and whether these lie turned."""
    for name, shape in config.weights():
        found = _LAYER.fullmatch(name)
        i, label = found.groups() if found else ("", name)
        plain = label.removesuffix("_bias")
        theirs = family.names[plain] + (".weight" if plain == label else ".bias")
        experts = range(config.experts) if "{e}" in theirs else range(1)
        turned = family.turned and i != "" and len(shape) == 2
        yield name, shape, tuple(theirs.format(i=i, e=e) for e in experts), turned


class Weight:
    """A weight in tensors of somebody else: read when it is first used, a view where it can be."""

    def __init__(self, shape: tuple[int, ...], place: Place, read: Callable[[str], Array]) -> None:
        self.spec = TensorSpec(shape, "float32")
        self.nbytes = self.spec.nbytes
        self._place, self._read = place, read

    def host(self) -> Array:
        """Return it in float32; what lies so in the tensor, row by row, is not copied."""
        place = self._place
        parts = [self._read(name) for name in place.names]
        parts = [(p.T if place.turned else p)[place.start : place.stop] for p in parts]
        array = np.stack(parts) if len(self.spec.shape) == 3 else parts[0]
        return np.ascontiguousarray(array, np.float32)

    def load(self, array: Array) -> None:
        """Raise: it is not ours."""
        raise ArchiveError("a model's file is not written", hint="gw.models.save_pretrained")


def found_weights(
    family: Family,
    config: DecoderConfig,
    specs: Mapping[str, TensorSpec],
    read: Callable[[str], Array],
) -> dict[str, Weight]:
    """Return all weights of a decoder, none of which is read yet.

    Raises ArchiveError for tensors that are missing, left over, or of another shape or dtype.
    """
    begins = family.names["embed"].partition(".")[0] + "."
    bare = not any(name.startswith(begins) for name in specs)  # a model without a head, saved alone
    left = {name for name in specs if not IGNORED.search(name)}
    if config.layers > len(specs):
        raise ArchiveError(f"{config.layers} layers, and {len(specs)} tensors", need="one or more")

    def held(name: str) -> str:
        return name.removeprefix(begins) if bare else name

    found: dict[str, Weight] = {}
    missing: dict[str, None] = {}
    for name, shape, place in places(family, config):
        theirs = tuple(map(held, place.names))
        lacking = [n for n in theirs if n not in specs]
        if lacking:
            missing |= dict.fromkeys(lacking)
            continue
        for n in theirs:
            _check(n, specs[n], (place.whole, *shape[1 if len(shape) < 3 else 2 :]), place.turned)
        left.difference_update(theirs)
        own = Place(theirs, place.start, place.stop, place.whole, place.turned)
        found[name] = Weight(shape, own, read)
    if config.tied:
        left.discard("lm_head.weight")
    if missing or left:
        raise ArchiveError(
            f"the tensors are not those of a model of the kind {family.name!r}",
            facts=[f"{what}: {_some(names)}" for what, names in
                   (("missing", list(missing)), ("left over", sorted(left))) if names],
        )  # fmt: skip
    return found


def _check(name: str, spec: TensorSpec, wanted: tuple[int, ...], turned: bool) -> None:
    wanted = wanted[::-1] if turned else wanted
    if spec.shape != wanted:
        raise ArchiveError(f"{name} is {spec}", need=f"float32{list(wanted)}, as config.json tells")
    if dtype_name(spec.dtype) not in FLOATS:
        raise ArchiveError(f"{name} is {spec}", need=", ".join(FLOATS))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(name[:80] for name in names[:4]) + more


def written_weights(
    family: Family, config: DecoderConfig, values: Mapping[str, Array]
) -> dict[str, Array]:
    """Return tensors by the names of a family."""
    parts: dict[str, list[Array]] = {}
    turned: dict[str, bool] = {}
    for name, shape, place in places(family, config):
        array = values[name]
        for e, theirs in enumerate(place.names):
            parts.setdefault(theirs, []).append(array[e] if len(shape) == 3 else array)
            turned[theirs] = place.turned
    found = {}
    for name, arrays in parts.items():
        array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        found[name] = array.T if turned[name] else array
    return found
