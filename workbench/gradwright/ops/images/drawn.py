"""Functions of images that draw from a stream of the graph."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Tensor
from ...op import find_op, maker
from ...spec import AnyDim


@maker("image")
def random_crop(x: Tensor, size: Sequence[AnyDim], *, name: str | None = None) -> Tensor:
    """Take a part of a tensor at a place that is drawn anew in every run.

    y[…, p, q] = x[…, a + p, b + q], a and b uniform among all places where the part fits

    ``size`` is that of the last axes. Raises ShapeError where the part does not fit.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("N", 3, 32, 32))
    >>> gw.image.random_crop(x, (28, 28)).shape
    (N, 3, 28, 28)
    """
    op = find_op("random_crop")(size=tuple(size), stream=x.graph.next_stream())
    y: Tensor = op(x.graph.rng, x, name=name)
    return y
