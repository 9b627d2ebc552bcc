"""Rows of mean 0 and variance 1, norms, and gradients of layers that ONNX has whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import Tensor
from ....op import find_op
from ....ops.core.pullback import Pullback
from ....spec import promote
from ..node import cast, op
from ..nodes import spelled


def _axes(of: Any, x: Tensor) -> tuple[int, ...]:
    return tuple(range(of.axis % x.rank, x.rank))


@spelled("standard_rows")
def standard_rows(of: Any, x: Tensor) -> Any:
    axes = _axes(of, x)
    mean_of = op("sum" if 0 in x.shape else "mean", axis=axes, keepdims=True)  # of nothing it is 0
    mean = mean_of(x)
    apart = x - mean
    variance = mean_of(apart * apart)
    inverse = op("reciprocal")(op("sqrt")(variance + of.eps))
    return apart * inverse, mean, inverse


@spelled("standard_rows_grad")
def standard_rows_grad(of: Any, g: Tensor, y: Tensor, inverse: Tensor) -> Any:
    mean = op("mean", axis=_axes(of, g), keepdims=True)
    return inverse * (g - mean(g) - y * mean(g * y))


@spelled("global_norm")
def global_norm(of: Any, *xs: Tensor) -> Any:
    """Scale by the largest element, so that no square overflows."""
    dtype = of.infer(*(x.spec for x in xs)).dtype
    flat = [cast(abs(x), "float64").reshape(-1) for x in xs]
    whole = op("concat", axis=0)(op("full", shape=(1,), fill_value=0, dtype="float64")(), *flat)
    top = op("max")(whole)
    scale = op("where")((top == 0.0) | (top == np.inf), 1.0, top)
    part = whole / scale
    return cast(op("sqrt")(op("sum")(part * part)) * scale, dtype)


def _saved(of: Any, n: int) -> range:
    """Return the inputs of a layer's gradient that are its results, which are made again."""
    first = of.layer.n_inputs
    return range(first, first + (n - first) // 2)


@spelled("recurrent_grad", unread=_saved)
def recurrent_grad(of: Any, *args: Tensor | None) -> Any:
    """Differentiate the layer as a scan of its cell."""
    n, gs = of.layer.n_inputs, args[_saved(of, len(args)).stop :]
    pull = Pullback(
        op=find_op("recurrent_steps")(op=of.op), n_inputs=n, wrt=of.wrt,
        present=tuple(g is not None for g in gs),
    )  # fmt: skip
    return pull(*args[:n], *(g for g in gs if g is not None))


@spelled("weighted_rows")
def weighted_rows(of: Any, x: Tensor, index: Tensor, weight: Tensor) -> Any:
    joint = promote(x.dtype, weight.dtype)
    rows = op("gather", axis=0)(cast(x, joint), index)
    return op("sum", axis=1)(rows * op("expand_dims", axis=-1)(cast(weight, joint)))


@spelled("weighted_rows_add")
def weighted_rows_add(of: Any, g: Tensor, index: Tensor, weight: Tensor, x: Tensor) -> Any:
    joint = promote(g.dtype, weight.dtype)
    rows = op("expand_dims", axis=1)(cast(g, joint)) * op("expand_dims", axis=-1)(
        cast(weight, joint)
    )
    return op("gather_grad", axis=0)(rows, index, x)


@spelled("row_products")
def row_products(of: Any, g: Tensor, x: Tensor, index: Tensor) -> Any:
    joint = promote(g.dtype, x.dtype)
    rows = op("gather", axis=0)(cast(x, joint), index)
    return op("sum", axis=-1)(op("expand_dims", axis=1)(cast(g, joint)) * rows)
