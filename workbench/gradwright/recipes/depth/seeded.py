"""Gradients that begin elsewhere than at a loss: from any tensor, with any cotangent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...gradient import gradients
from ...graph import Tensor
from ...op import find_op
from ...ops.core.choice import Maximum
from ...ops.core.like import OnesLike
from ...ops.core.masking import OneHot
from ...ops.core.movement import ExpandDims, cast_to
from ...ops.layers.nn import Softmax
from ...ops.losses.cross_entropy import SoftmaxCrossEntropy, SparseSoftmaxCrossEntropy
from ...spec import at_least_float32, kind


def backward_from(
    root: Tensor,
    cotangent: Tensor | Any,
    params: Sequence[Tensor],
    *,
    stop: Iterable[Tensor] = (),
) -> dict[Tensor, Tensor]:
    """Return the gradient of each parameter, given that of ``root``.

    gₚ = (∂root/∂p)ᵀ · cotangent

    The cotangent may be fed, so a graph can be trained by what another program says of its output.
    Raises GradientError for a parameter that ``root`` does not depend on.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", (2,)), g.variable("w", (2,), init=[1.0, 2.0])
    >>> y = x * w
    >>> told = g.placeholder("told", (2,))
    >>> grads = gw.backward_from(y, told, [w])
    >>> gw.Session(g).run(grads[w], {"x": [3.0, 4.0], "told": [1.0, -1.0]})
    array([ 3., -4.], dtype=float32)
    """
    found = gradients(root, params, cotangent, stop=stop)
    return dict(zip(params, found, strict=True))


def seeded_cross_entropy(logits: Tensor, labels: Tensor, *, ignore_index: int = -100) -> Tensor:
    """Return a softmax cross-entropy whose gradient enters at the logits.

    loss = −(1/n) Σᵢ log softmax(zᵢ)[tᵢ]        ∂loss/∂z := (softmax(z) − onehot(t)) / n

    The number and the gradient are those of the losses in ``gw.loss``; the gradient is one formula
    in place of the derivative of a logarithm. Rows labelled ``ignore_index`` have no part in
    either, and n counts the others.

    Args:
        logits: z, f32[..., classes].
        labels: class numbers t, i64[...], or probabilities, f32[..., classes].
        ignore_index: class number of rows to leave out.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, t = g.placeholder("x", (None, 2)), g.placeholder("t", (None,), "int64")
    >>> w = g.variable("w", (2, 3), init=0.0)
    >>> loss = seeded_cross_entropy(x @ w, t)
    >>> trainer = gw.Trainer(g, loss, gw.optim.SGD(3.0))
    >>> round(trainer.step({"x": [[1.0, 0.0]], "t": [2]}).metrics["loss"], 4)
    1.0986
    >>> g.values["w"][0].round(3)
    array([-1., -1.,  2.], dtype=float32)
    """
    wide = at_least_float32(logits.dtype)
    p: Tensor = Softmax()(cast_to(wide, logits))
    if kind(labels.dtype) in "iu":
        loss: Tensor = SparseSoftmaxCrossEntropy(ignore_index=ignore_index)(labels, logits)
        counts = cast_to(wide, labels != ignore_index)
        apart = p - OneHot(depth=logits.shape[-1], dtype=wide)(labels)
    else:
        loss = SoftmaxCrossEntropy()(labels, logits)
        counts = OnesLike()(p[..., 0])
        soft = cast_to(wide, labels)
        apart = p * soft.sum(-1, keepdims=True) - soft
    each = counts / Maximum()(counts.sum(), 1.0)
    seed = cast_to(logits.dtype, apart * ExpandDims(axis=-1)(each))
    found: Tensor = find_op("with_gradient")()(loss, logits, seed)
    return found
