"""Weights by the names of Hugging Face: where each of ours lies in theirs, and the way back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...errors import ArchiveError
from ...spec import TensorSpec, dtype_name
from .family import Family

Array = np.ndarray[Any, Any]
FLOATS = ("float32", "float16", "bfloat16", "float64")
_LAYER = re.compile(r"((?:\w+_)?layer)(\d+)/(.+)")


class Weighted(Protocol):
    """What a config of a model says of its weights."""

    @property
    def layers(self) -> int:
        """How many layers there are."""

    def weights(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield name and shape of each."""


@dataclass(frozen=True)
class Place:
    """Where a weight lies: some of the rows of a tensor, or in several tensors, one an expert."""

    names: tuple[str, ...]
    start: int
    stop: int
    whole: int
    """How many rows the tensor has."""
    turned: bool
    """Whether its rows are columns."""
    stacked: bool
    """Whether each tensor is an element of it."""

    def wanted(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a tensor that holds a weight of a shape."""
        rest = shape[2 if self.stacked else 1 :]
        return (*rest, self.whole) if self.turned else (self.whole, *rest)


def places(family: Family, config: Weighted) -> Iterator[tuple[str, tuple[int, ...], Place]]:
    """Yield name, shape and place of each weight of a model."""
    named = list(_named(family, config))
    whole: dict[str, int] = {}
    for _, shape, theirs, stacked in named:
        whole[theirs[0]] = whole.get(theirs[0], 0) + shape[stacked]
    begun: dict[str, int] = {}
    for name, shape, theirs, stacked in named:
        start = begun.get(theirs[0], 0)
        begun[theirs[0]] = stop = start + shape[stacked]
        turned = family.turned and "/" in name and len(shape) == 2
        yield name, shape, Place(theirs, start, stop, whole[theirs[0]], turned, stacked)


def _named(
    family: Family, config: Weighted
) -> Iterator[tuple[str, tuple[int, ...], tuple[str, ...], bool]]:
    """Yield names and shapes, the tensors that hold them, and whether one is an expert's."""
    for name, shape in config.weights():
        found = _LAYER.fullmatch(name)
        kind, i, label = found.groups() if found else ("", "", name)
        label = label if kind in ("", "layer") else f"{kind}/{label}"
        if label in family.exact:
            theirs = family.exact[label]
        else:
            plain = label.removesuffix("_bias")
            theirs = family.names[plain] + (".weight" if plain == label else ".bias")
        stacked = "{e}" in theirs
        yield (
            name,
            shape,
            tuple(theirs.format(i=i, e=e) for e in range(shape[0] if stacked else 1)),
            stacked,
        )


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
        return np.ascontiguousarray(np.stack(parts) if place.stacked else parts[0], np.float32)

    def load(self, array: Array) -> None:
        """Raise: it is not ours."""
        raise ArchiveError("a model's file is not written", hint="gw.models.save_pretrained")


def found_weights(
    family: Family,
    config: Weighted,
    specs: Mapping[str, TensorSpec],
    read: Callable[[str], Array],
) -> dict[str, Weight]:
    """Return all weights of a model, none of which is read yet.

    Raises ArchiveError for tensors that are missing, left over, or of another shape or dtype.
    """
    if config.layers > len(specs):
        raise ArchiveError(
            f"{config.layers} layers, and {len(specs)} tensors",
            need="one or more of each layer",
        )
    ours = _by_our_names(family, specs)
    left = {name for name in ours if not re.search(family.ignored, name)}
    found: dict[str, Weight] = {}
    missing: dict[str, None] = {}
    for name, shape, place in places(family, config):
        lacking = [n for n in place.names if n not in ours]
        if lacking:
            missing |= dict.fromkeys(lacking)
            continue
        for n in place.names:
            _check(n, specs[ours[n]], place.wanted(shape))
        left.difference_update(place.names)
        found[name] = Weight(shape, place, lambda n: read(ours[n]))
    if "head" not in found:  # it is tied to the embedding, and may be there all the same
        left.discard(family.names.get("head", "") + ".weight")
    if missing or left:
        facts = {"missing": list(missing), "left over": sorted(left)}
        raise ArchiveError(
            f"the tensors are not those of a model of the kind {family.name!r}",
            facts=[f"{what}: {_some(names)}" for what, names in facts.items() if names],
        )
    return found


def _by_our_names(family: Family, specs: Mapping[str, TensorSpec]) -> dict[str, str]:
    """Return the names that a family has for tensors, and those that they have.

    A model that was saved without a head lacks the prefix; very old files call a norm's weight and
    bias gamma and beta.
    """
    own = {name for name in specs if name.startswith(family.prefix)}
    heads = {*family.names.values(), *family.exact.values()}
    found = {}
    for name in specs:
        new = re.sub(r"LayerNorm\.(gamma|beta)$", _newer, name)
        is_head = new.rpartition(".")[0] in heads
        found[new if own or is_head else family.prefix + new] = name
    return found


def _newer(old: re.Match[str]) -> str:
    return "LayerNorm.weight" if old[1] == "gamma" else "LayerNorm.bias"


def _check(name: str, spec: TensorSpec, wanted: tuple[int, ...]) -> None:
    if spec.shape != wanted:
        raise ArchiveError(f"{name} is {spec}", need=f"float32{list(wanted)}, as config.json tells")
    if dtype_name(spec.dtype) not in FLOATS:
        raise ArchiveError(f"{name} is {spec}", need=", ".join(FLOATS))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(name[:80] for name in names[:4]) + more


def written_weights(
    family: Family, config: Weighted, values: Mapping[str, Array]
) -> dict[str, Array]:
    """Return tensors by the names of a family."""
    parts: dict[str, list[Array]] = {}
    turned: set[str] = set()
    for name, _, place in places(family, config):
        array = values[name]
        for e, theirs in enumerate(place.names):
            parts.setdefault(theirs, []).append(array[e] if place.stacked else array)
            if place.turned:
                turned.add(theirs)
    found = {}
    for theirs, arrays in parts.items():
        array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        found[theirs] = array.T if theirs in turned else array
    return found
