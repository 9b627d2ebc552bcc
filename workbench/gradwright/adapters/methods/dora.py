"""DoRA: a weight's direction is adapted by LoRA, its size is learned (Liu et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ... import nn
from ...errors import GraphError
from ...graph import Tensor
from ...ops.core.choice import Maximum
from ...ops.core.identity import StopGradient
from ...ops.core.movement import cast_to
from ...words.jsonable import jsonable
from ..adapter import Adapter, Array, Leaf, Leaves, added
from ..low_rank import LowRank
from ..site import Site, Use
from .lora import LoRA


@jsonable
@dataclass(frozen=True)
class DoRA(LoRA):
    """A low-rank change of a weight's direction, with its size learned (Liu et al. 2024, "DoRA").

    y = m/n ⊙ (x·Vᵀ) + bias, V = W + s·B·A, with m: f32[out] learned, which begins as the sizes of
    W's rows, and n: f32[out] the sizes of V's. Gradients take n as a constant (§4.3 there). A, B
    and s are those of `LoRA`, whose settings it has, but for ``lora_bias``.

    n² = ‖w‖² + 2s·Σᵣ(W·Aᵀ ⊙ B) + s²·Σᵣ(B·A·Aᵀ ⊙ B) row by row, so that V is never made. Merging
    makes m/n ⊙ V of W.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 3)) @ g.variable("w", (3, 2), init=1.0)
    >>> adapted = gw.adapters.add(g, gw.adapters.DoRA(r=1), where="w")
    >>> (adapted.state()["w/lora_magnitude_vector"] ** 2).round(3).tolist()
    [3.0, 3.0]
    """

    kinds: ClassVar[frozenset[str]] = Adapter.kinds
    reads_weights: ClassVar[bool] = True
    by_row = "product"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lora_bias:
            raise GraphError("DoRA has no bias of B", hint="LoRA(lora_bias=True)")

    def variables(self, place: Site) -> Mapping[str, Leaf]:
        if place.kind == "embedding" and place.packed:
            raise GraphError(
                f"DoRA cannot stand at {place.name!r}: its rows are never multiplied, but found",
                facts=[f"it lies in blocks of {place.packed}"],
                hint=f"LoRA(), or exclude={place.name!r}",
            )
        return {**super().variables(place), "lora_magnitude_vector": Leaf(_held(place))}

    def prepare(
        self, place: Site, w: Array, data: Any = None
    ) -> tuple[Mapping[str, Array], Array | None]:
        values, base = super().prepare(place, w, data)
        sizes = np.sqrt(_squares(w))  # of PiSSA's W − s·B·A with s·B·A, that is W, too
        return {**values, "lora_magnitude_vector": sizes.reshape(_held(place))}, base

    def apply(self, place: Site, use: Use, x: Tensor, y: Tensor, p: Leaves) -> Tensor:
        z: Tensor
        ratio = self._ratio(place, use, p)
        if place.kind == "conv" and not use.node.op.attributes()["data_format"].endswith("C"):
            ratio = ratio.reshape(-1, *(1 for _ in place.kernel))
        if self.dropout and place.kind != "embedding":  # what is dropped is what the base sees, too
            x = nn.dropout(x, p=self.dropout)
            shift = replace(self, dropout=0.0).shift(place, use, x, p)
            return added(y, (ratio - 1.0) * use.again(x) + ratio * shift)
        shift = self.shift(place, use, x, p)
        wide = cast_to(shift.dtype, y)
        if use.bias is None:
            z = cast_to(y.dtype, (wide + shift) * ratio)
            return z
        bias = cast_to(shift.dtype, use.bias)
        if ratio.rank > 1:
            bias = bias.reshape(*ratio.shape)
        z = cast_to(y.dtype, (wide - bias + shift) * ratio + bias)
        return z

    def changed(self, place: Site, w: Tensor, p: Leaves) -> Tensor:
        magnitude = p["lora_magnitude_vector"].reshape(-1)
        v = cast_to(magnitude.dtype, w) + self.delta(place, p)
        sizes = _size(StopGradient()((v * v).reshape(place.n_out, -1).sum(1)))
        ratio = (magnitude / sizes).reshape(-1, *(1 for _ in v.shape[1:]))
        whole: Tensor = cast_to(w.dtype, v * ratio)
        return whole

    def low_rank(self, place: Site, p: Mapping[str, Array]) -> LowRank:
        found = super().low_rank(place, p)
        ratio = p["lora_magnitude_vector"] / np.sqrt(
            _squares(place.array() + found.scale * (found.b @ found.a))
        )
        biases = {use.bias for use in place.uses}
        if len(biases) > 1:
            raise GraphError(f"{place.name!r} is read with several biases", need="one, or none")
        (bias,) = biases
        values = place.weight.graph.values
        offset = None if bias is None else (1 - ratio) * values.stored(bias.node)
        return replace(found, gain=ratio, offset=offset)

    def _ratio(self, place: Site, use: Use, p: Leaves) -> Tensor:
        """Return m/n, of shape [out]."""
        if place.groups > 1:
            self.delta(place, p)  # raises: A sees all groups
        s, r = self.scale(place), self.rank(place)
        names = ("lora_embedding_A", "lora_embedding_B"), ("lora_A", "lora_B")
        a, b = (StopGradient()(p[name]) for name in names[place.kind != "embedding"])
        a, b = a.reshape(r, -1), b.reshape(-1, r)
        if place.packed:
            across = use.again(a).mT
            squares = place.weight.graph.constant(_squares(place.array()), dtype=a.dtype)
        else:
            w = cast_to(a.dtype, use.weight).transpose(*use.order).reshape(place.n_out, -1)
            w = StopGradient()(w)
            across, squares = w @ a.mT, (w * w).sum(1)
        mixed = across * (2 * s) + (b @ (a @ a.mT)) * (s * s)
        return p["lora_magnitude_vector"].reshape(-1) / _size(squares + (mixed * b).sum(1))


def _held(place: Site) -> tuple[int, ...]:
    """Return the shape in which files hold m."""
    ones = tuple(1 for _ in place.kernel)
    return (1, place.n_out, *ones) if ones else (place.n_out,)


def _squares(w: Array) -> Array:
    """Return Σ w² of each row, f32[out]."""
    rows = w.reshape(len(w), -1).astype(np.float32 if w.dtype.itemsize < 4 else w.dtype)
    found: Array = np.einsum("oi,oi->o", rows, rows)
    return found


def _size(squares: Tensor) -> Tensor:
    """Return √squares; of a row of zeros what may be divided by."""
    size: Tensor = Maximum()(squares, 1e-30).sqrt()
    return size
