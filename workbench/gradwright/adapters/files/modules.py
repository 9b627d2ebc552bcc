"""Which module of a file is which weight of a model: paths of Hugging Face, tensors of GGUF.

A weight is a module, rows of one that is fused, such as ``qkv_proj``, or one expert of a stack.
Queries and keys of a model whose pairs of rotary features lie side by side have their rows in
another order than such files. Models that are declared, or read from ONNX, have no other names than
their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ArchiveError
from ...models.decoder import Decoder
from ...models.decoder.pairs import by_halves, by_neighbours
from ...models.gguf.architectures import known
from ...models.gguf.names import places as gguf_places
from ...models.huggingface.config import tells
from ...models.huggingface.families import FAMILIES
from ...models.huggingface.kinds import KINDS, Kind
from ...models.huggingface.weights import places
from ...models.huggingface.writing import kind_of_model
from ..site import sites

Array = np.ndarray[Any, Any]
OUT = (
    *("lora_B", "lora_B.bias", "lora_magnitude_vector", "hada_w1_a", "hada_w2_a"),
    *("weight", "bias", "ln_tuning_layers", "ln_tuning_layers.bias"),
)
"""Leaves whose first axis is the features that a module returns."""
WHOLE = ("lora_A", "lora_E", "hada_w1_b", "hada_w2_b", "vera_lambda_d")
"""Leaves that have no such axis."""


@dataclass(frozen=True)
class Part:
    """A weight of a model in a module of a file.

    Args:
        weight: its name in the graph.
        path: the module.
        own: which of its own leaves it is: ``"weight"`` or ``"bias"``.
        start: the first of its rows, which are features that the module returns.
        stop: the row after its last one.
        whole: how many rows the module has.
        turned: whether the module's matrix is ``[in, out]``.
        heads: how many heads its rows are, if their order is another one in the model.
        to_neighbours: whether they lie side by side in the model, and by halves in the file.
        expert: which element of the weight it is, of a stack of experts.
    """

    weight: str
    path: str
    own: str = "weight"
    start: int = 0
    stop: int = 0
    whole: int = 0
    turned: bool = False
    heads: int | None = None
    to_neighbours: bool = True
    expert: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it is the module, row for row."""
        return self.stop - self.start == self.whole and self.heads is None

    def read(self, leaf: str, array: Array) -> Array:
        """Return of a leaf of the module what belongs to the weight.

        Raises ArchiveError for a leaf whose rows cannot be told apart.
        """
        if leaf == "weight" and self.turned and array.ndim == 2:
            array = array.T
        if self.is_whole or self.is_common(leaf, array):
            return array
        if array.shape[:1] != (self.whole,):
            raise ArchiveError(
                f"{self.path[:80]}, {leaf}: {list(array.shape)}",
                need=f"{self.whole} rows, as the model has it",
            )
        found = array[self.start : self.stop]
        if self.heads is None:
            return found
        return (by_neighbours if self.to_neighbours else by_halves)(found, self.heads)

    def written(self, leaf: str, array: Array) -> Array:
        """Return a leaf as files have it; the rows of this weight alone."""
        if self.heads is not None and not self.is_common(leaf, array):
            array = (by_halves if self.to_neighbours else by_neighbours)(array, self.heads)
        return array.T if leaf == "weight" and self.turned and array.ndim == 2 else array

    def is_common(self, leaf: str, array: Array) -> bool:
        """Whether all rows of a module share a leaf; raises ArchiveError where nobody can say."""
        if leaf in WHOLE or (leaf == "ia3_l" and array.shape[:1] == (1,)):
            return True
        if leaf in OUT or leaf == "ia3_l":
            return False
        what = "rows in another order" if self.heads is not None else "some of the rows"
        raise ArchiveError(
            f"{self.path[:80]}, {leaf}: {self.weight!r} is {what} of it, and such a leaf has none",
            hint="the model as transformers saves it, or a method with lora_A and lora_B",
        )


Parts = Mapping[str, tuple[Part, ...]]
"""Path of a module -> its weights, in the order of its rows."""


def parts(model: Any, names: str = "huggingface", architecture: str = "") -> Parts:
    """Return the modules of a model, or of a graph, by the names of a kind of file.

    ``architecture`` is that of a GGUF file, or the family of a folder; by default the model's own.
    """
    if names == "gguf":
        found = _gguf(model, architecture)
    elif (kind := _kind(model, architecture)) is not None:
        found = _huggingface(model, kind)
    else:
        found = _own(getattr(model, "graph", model))
    grouped: dict[str, list[Part]] = {}
    for part in found:
        grouped.setdefault(part.path, []).append(part)
    return {path: tuple(held) for path, held in grouped.items()}


def parts_of(model: Any, names: str, architecture: str, paths: Collection[str]) -> Parts:
    """Return the modules of a model, by the names of the first family that has all ``paths``.

    A decoder may be written as one of several families, such as a phi3 that was read from GGUF.
    """
    found = parts(model, names, architecture)
    if architecture or names == "gguf" or not isinstance(model, Decoder):
        return found
    for family in FAMILIES.values():
        if all(whole_path(path, found) in found for path in paths):
            break
        if tells(model.config, family):
            found = parts(model, names, family.name)
    else:
        return parts(model, names)
    return found


def whole_path(path: str, found: Parts) -> str:
    """Return a path as a model has it: one that was saved without its head lacks the first part."""
    if path in found:
        return path
    first = dict.fromkeys(held.partition(".")[0] for held in found)
    return next((p for p in (f"{f}.{path}" for f in first) if p in found), path)


def _kind(model: Any, family: str) -> Kind | None:
    """Return the kind of a model of Hugging Face; None of any other, and of a graph."""
    is_known = any(isinstance(model, kind.model) for kind in KINDS.values())
    return kind_of_model(model, family or None) if is_known else None


def _huggingface(model: Any, kind: Kind) -> Iterator[Part]:
    turns = getattr(model.config, "interleaved", False)
    for name, _, place in places(kind.family, model.config):
        for e, tensor in enumerate(place.names):
            path, own = _split(tensor)
            yield Part(
                name,
                path,
                own,
                place.start,
                place.stop,
                place.whole,
                turned=place.turned,
                heads=_heads(model.config, name) if turns else None,
                expert=e if place.stacked else None,
            )


def _gguf(model: Any, architecture: str) -> Iterator[Part]:
    if not isinstance(model, Decoder):
        raise ArchiveError(f"{model!r} is no decoder", need="a gw.models.Decoder")
    in_file = bool(known(architecture).settings.get("interleaved", False))
    turns = model.config.interleaved != in_file
    found = list(gguf_places(model.config, architecture))
    whole: dict[str, int] = {}
    for place in found:
        whole[place.tensor] = max(whole.get(place.tensor, 0), place.rows.stop)
    for place in found:
        path, own = _split(place.tensor)
        heads = _heads(model.config, place.name) if turns else None
        rows = place.rows.start, place.rows.stop, whole[place.tensor]
        yield Part(place.name, path, own, *rows, heads=heads, to_neighbours=not in_file)


def _own(graph: Any) -> Iterator[Part]:
    """Yield the weights of a graph: a module is called as its weight, without ``.weight``."""
    for site in sites(graph):
        path, _ = _split(site.name)
        yield Part(site.name, path, "weight", 0, site.n_out, site.n_out)
        for name in dict.fromkeys(use.bias.name for use in site.uses if use.bias is not None):
            yield Part(name, path, "bias", 0, site.n_out, site.n_out)


def _split(tensor: str) -> tuple[str, str]:
    """Return the path of a tensor's module, and which leaf it is there.

    >>> _split("model.norm.weight"), _split("layer0/q")
    (('model.norm', 'weight'), ('layer0/q', 'weight'))
    """
    path, _, own = tensor.rpartition(".")
    return (path, own) if path and own in ("weight", "bias") else (tensor, "weight")


def _heads(config: Any, name: str) -> int | None:
    """Return how many heads the rows of a weight are; None where it has none that turn."""
    label = name.rpartition("/")[2].removesuffix("_bias")
    if label not in ("q", "k"):
        return None
    heads: int = config.heads if label == "q" else config.shared
    return heads


def turned_keys(model: Any, flat: Array, *, to_file: bool = False) -> Array:
    """Return a prefix [P, 2·layers·heads·E] whose keys have features in the order of a model.

    Those of a file lie by halves; ``to_file`` is the way back.
    """
    if not isinstance(model, Decoder) or not model.config.interleaved or flat.ndim != 2:
        return flat
    config, order = model.config, by_halves if to_file else by_neighbours
    heads = config.shared
    parts = np.split(flat, 2 * config.layers, axis=1)
    return np.concatenate(
        [part if i % 2 else order(part.T, heads).T for i, part in enumerate(parts)], axis=1
    )
