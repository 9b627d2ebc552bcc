"""Dropping parts of an adapter in training: rows of what it adds, or all of it, for a step."""

from __future__ import annotations

import numpy as np

from .. import nn
from ..graph import Tensor
from ..ops.core.choice import Maximum
from ..ops.core.movement import cast_to


def kept(like: Tensor, p: float, shape: tuple[int, ...] = ()) -> Tensor:
    """Return ones, of which each is 0 with probability ``p`` in training.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, kept(g.constant(2.0), 0.5, (3,)))["cast"].tolist()
    [1.0, 1.0, 1.0]
    """
    ones = like.graph.constant(np.ones(shape), dtype=like.dtype)
    mask: Tensor = cast_to(like.dtype, nn.dropout(ones, p=p) > 0.0)
    return mask


def kept_rows(delta: Tensor, p: float, *, scaled: bool = True) -> Tensor:
    """Return [out, 1, …] of 0 and 1, divided by their mean if ``scaled``."""
    mask = kept(delta, p, (int(delta.shape[0]), *(1 for _ in delta.shape[1:])))
    return mask / Maximum()(mask.mean(), 1e-6) if scaled else mask
