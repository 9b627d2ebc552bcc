"""IA³: what comes out of a layer, or goes in, is rescaled (Liu et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...graph import Tensor
from ...ops.core.movement import cast_to
from ...words.jsonable import jsonable
from ..adapter import Adapter, Array, Leaf, Leaves, added, computed
from ..low_rank import LowRank
from ..site import Site, Use
from ..targeting import fits


@jsonable
@dataclass(frozen=True)
class IA3(Adapter):
    """Learned factors of activations (Liu et al. 2022, "Few-Shot Parameter-Efficient Fine-Tuning").

    y = l ⊙ (x·Wᵀ + bias), with l: f32[out, 1], or of layers that ``feedforward`` names
    y = (l ⊙ x)·Wᵀ + bias, with l: f32[1, in]. All begin as 1.

    Merging multiplies rows of W and the bias, or columns of W.

    Args:
        feedforward: patterns of the places whose input is rescaled.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2, inner=12))
    >>> method = gw.adapters.IA3(feedforward="down")
    >>> adapted = gw.adapters.add(model, method, where="k|v|down")
    >>> [t.shape for t in adapted.parameters]
    [(8, 1), (8, 1), (1, 12)]
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"linear", "conv"})
    by_row = "product"
    feedforward: str | tuple[str, ...] = ()

    def is_feedforward(self, place: Site) -> bool:
        """Tell whether the input of a place is rescaled."""
        one = isinstance(self.feedforward, str)
        patterns: Iterable[str] = [self.feedforward] if one else self.feedforward  # type: ignore[list-item]
        return any(fits(pattern, place.name) for pattern in patterns)

    def variables(self, place: Site) -> Mapping[str, Leaf]:
        kernel = tuple(1 for _ in place.kernel)
        if self.is_feedforward(place):
            return {"ia3_l": Leaf((1, place.n_in, *kernel), 1.0)}
        return {"ia3_l": Leaf((1, place.n_out, *kernel) if kernel else (place.n_out, 1), 1.0)}

    def apply(self, place: Site, use: Use, x: Tensor, y: Tensor, p: Leaves) -> Tensor:
        factor = p["ia3_l"].reshape(-1)
        if place.kind == "conv" and not use.node.op.attributes()["data_format"].endswith("C"):
            factor = factor.reshape(-1, *(1 for _ in place.kernel))
        if self.is_feedforward(place):
            whole = use.instead(y, cast_to(y.dtype, x * factor))
            return added(y, use.again(x * (factor - 1.0))) if whole is None else whole
        return y * factor.astype(y.dtype)

    def low_rank(self, place: Site, p: Mapping[str, Array]) -> LowRank:
        factor, n_out, n_in = p["ia3_l"].reshape(-1), place.n_out, place.n_in
        nothing = np.zeros((0, n_in), factor.dtype), np.zeros((n_out, 0), factor.dtype)
        if self.is_feedforward(place):
            return LowRank(*nothing, input_gain=factor)
        return LowRank(*nothing, gain=factor)

    def multiplies_input(self, place: Site) -> bool:
        return self.is_feedforward(place)

    def changed(self, place: Site, w: Tensor, p: Leaves) -> Tensor:
        if not self.is_feedforward(place):
            return w * p["ia3_l"].reshape(-1, *(1 for _ in w.shape[1:]))
        each = w.reshape(place.groups, -1, *place.shape[1:])  # a group sees inputs of its own
        factor = p["ia3_l"].reshape(place.groups, 1, -1, *(1 for _ in place.kernel))
        whole: Tensor = (each * factor).reshape(*place.shape)
        return whole

    def merge(
        self, place: Site, w: Array, bias: Array | None, p: Mapping[str, Array]
    ) -> tuple[Array, Array | None] | None:
        whole = computed(lambda t, q: self.changed(place, t, q), w, p)
        if bias is None or self.is_feedforward(place):
            return whole, bias
        return whole, (bias * p["ia3_l"].reshape(-1)).astype(bias.dtype)
