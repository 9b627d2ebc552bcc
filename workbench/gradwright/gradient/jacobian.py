"""Jacobians, products with Hessians, and the gradient of each example by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import GradientError
from ..graph import Tensor, ancestors
from ..ops.control.scan import map_fn
from ..ops.core.comparison import Equal
from ..ops.core.like import IotaLike
from ..ops.core.movement import Cast
from ..ops.core.reshape import Reshape
from ..spec import differ, kind
from .reverse import check_unreachable, gradients, listed


def jacobian(
    ys: Tensor | Sequence[Tensor], wrt: Sequence[Tensor], *, unreachable: str = "error"
) -> list[Any]:
    """Return ∂y/∂w for each w in ``wrt``, as tensors of the derived layer.

    J[i, j] = ∂yᵢ/∂wⱼ : f32[*y.shape, *w.shape]

    Of several ``ys`` it returns a list for each, with a tensor for each w, so that
    ``gw.jacobian(gw.gradients(loss, [w]), [w])`` is ``[[H]]``, the Hessian. Rows are made one after
    the other in a loop: y is computed once, and each of its elements costs one gradient. Sizes may
    be symbolic, and the result has a gradient of every order.

    Raises GradientError for a y that is complex or a sequence, and where y does not depend on w
    (zeros with ``unreachable="zero"``).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (2,))
    >>> dy, = gw.jacobian(gw.stack([x[0] * x[1], x[0]]), [x])
    >>> g.output({"x": [3.0, 5.0]}, dy)[dy.name].tolist()
    [[5.0, 3.0], [1.0, 0.0]]
    """
    if isinstance(ys, Tensor):
        return _rows(ys, wrt, unreachable)
    if isinstance(ys, str) or not isinstance(ys, Iterable):
        raise GradientError(f"{ys!r} has no Jacobian", need="a tensor, or a list of tensors")
    return [_rows(y, wrt, unreachable) for y in ys]


def _rows(y: Tensor, wrt: Sequence[Tensor], unreachable: str) -> list[Tensor]:
    if not isinstance(y, Tensor) or kind(y.dtype) != "f":
        raise GradientError(f"{y!r} has no Jacobian", need="a real floating tensor")
    wrt = listed(wrt, "wrt")
    check_unreachable(unreachable)
    reached = set(ancestors([y]))
    if unreachable == "error" and (lost := [w for w in wrt if w.node not in reached]):
        gradients(y, lost)  # says so, not from inside of a loop that the user has not written
    prefix = "jacobian/" + y.name.replace(":", "_")
    with y.graph.deriving(prefix):
        places = IotaLike()(y)

        def row(place: Tensor) -> list[Tensor]:
            unit = Cast(dtype=y.dtype)(Equal()(places, place))
            return gradients(y, wrt, unit, unreachable=unreachable)

        rows = map_fn(row, Reshape(shape=(-1,))(places))
        if y.rank == 1:
            return list(rows)
        return [Reshape(shape=(*y.shape, *w.shape))(r) for r, w in zip(rows, wrt, strict=True)]


def hvp(loss: Tensor, wrt: Sequence[Tensor], vectors: Sequence[Any]) -> list[Tensor]:
    """Return the product of the Hessian of ``loss`` with ``vectors``, without the Hessian.

    H·v = ∇(∇L · v), a tensor of the shape of each w in ``wrt``

    It costs about two gradients (Pearlmutter 1994). ``vectors`` are tensors or arrays, one for each
    w, and are held; the result may be differentiated again. Raises GradientError for a loss that is
    no real scalar, that does not depend on one of ``wrt``, or for vectors that do not fit.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[3.0, 5.0])
    >>> hv, = gw.hvp(w[0] * w[0] * w[1], [w], [g.constant([1.0, 0.0])])
    >>> g.output({}, hv)[hv.name].tolist()
    [10.0, 6.0]
    """
    _check_loss(loss, ())
    wrt = listed(wrt, "wrt")
    if not isinstance(vectors, Sequence | np.ndarray):
        raise GradientError(f"the vectors are a {type(vectors).__name__}", need="a list of them")
    if len(vectors) != len(wrt):
        raise GradientError(f"{len(wrt)} tensors need {len(wrt)} vectors, got {len(vectors)}")
    slopes = gradients(loss, wrt)
    for w, v in zip(wrt, vectors, strict=True):
        shape = v.shape if isinstance(v, Tensor) else np.shape(v)
        if len(shape) != w.rank or any(map(differ, shape, w.shape)):
            raise GradientError(
                f"the vector for {w.name!r} does not fit",
                need=str(w.spec),
                facts=[f"got shape {tuple(shape)}"],
            )
    return gradients(slopes, wrt, list(vectors), unreachable="zero")


def per_example_gradients(losses: Tensor, wrt: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradient of the loss of each example by itself.

    G[b] = ∂losses[b]/∂w : f32[B, *w.shape], for losses : f32[B]

    As for privacy, for the noise scale of a batch, or to find the examples that
    pull hardest. It is the Jacobian of the losses, so it is right also where examples meet, as in
    batch norm; each example costs one gradient of the whole batch. Raises GradientError for losses
    that are no real vector, and where they do not depend on one of ``wrt``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", (None, 2)), g.variable("w", (2,), init=[1.0, 2.0])
    >>> each, = gw.per_example_gradients(gw.square(x @ w), [w])
    >>> g.output({"x": [[1.0, 0.0], [0.0, 1.0]]}, each)[each.name].tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    _check_loss(losses, ("B",))
    return _rows(losses, wrt, "error")


def _check_loss(loss: Tensor, axes: Sequence[str]) -> None:
    if not isinstance(loss, Tensor) or loss.rank != len(axes) or kind(loss.dtype) != "f":
        need = f"a real tensor f32[{', '.join(axes)}]"
        raise GradientError(f"{loss!r} does not fit", need=need, hint="reduction='none', or .sum()")
