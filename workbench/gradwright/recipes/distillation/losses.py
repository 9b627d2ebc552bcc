"""The terms of a distillation; the teacher's side gets no gradient."""

from __future__ import annotations

from typing import Any

from ...errors import ShapeError
from ...graph import Tensor
from ...init import orthogonal
from ...op import Op
from ...ops.core.functions import Rsqrt
from ...ops.core.identity import StopGradient
from ...ops.losses.distillation import (
    AttentionDistillation,
    DistillationKl,
    FeatureDistillation,
    GeneralizedJsd,
)


def _of(loss: Op, teacher: Tensor, student: Tensor, *rest: Any) -> Tensor:
    found: Tensor = loss(StopGradient()(teacher), student, *rest)
    return found


def soft_targets(
    student: Tensor,
    teacher: Tensor,
    labels: Tensor | None = None,
    *,
    temperature: float = 2.0,
    alpha: float = 0.5,
    mask: Tensor | None = None,
) -> Tensor:
    """Return Hinton's loss of logits, f32[..., classes] (Hinton, Vinyals and Dean 2015).

    α·T²·KL(softmax(t/T) ‖ softmax(s/T)) + (1 − α)·CE(labels, s); without labels the KL alone

    ``mask``, f32[...] or bool[...], says which rows count; the loss is their mean.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> s, t = g.variable("s", (1, 2), init=0.0), g.constant([[2.0, 0.0]])
    >>> loss = gw.distillation.soft_targets(s, t, temperature=2.0)
    >>> round(float(gw.Session(g).run(loss)), 4)
    0.4438
    """
    weights = None if mask is None else mask.astype(student.dtype)
    loss = DistillationKl(temperature=temperature, alpha=alpha)
    return _of(loss, teacher, student, weights, labels)


def on_policy(
    student: Tensor,
    teacher: Tensor,
    *,
    beta: float = 0.5,
    temperature: float = 0.9,
    mask: Tensor | None = None,
) -> Tensor:
    """Return GKD's divergence of logits, f32[..., classes] (Agarwal et al. 2024).

    β·KL(t ‖ m) + (1 − β)·KL(s ‖ m), m = β·t + (1 − β)·s;  β = 0: KL(t ‖ s),  β = 1: KL(s ‖ t)

    Defaults are the paper's for sequences that the student has written itself.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> s, t = g.variable("s", (1, 2), init=0.0), g.constant([[2.0, 0.0]])
    >>> loss = gw.distillation.on_policy(s, t, temperature=1.0)
    >>> round(float(gw.Session(g).run(loss)), 4)
    0.0895
    """
    weights = None if mask is None else mask.astype(student.dtype)
    return _of(GeneralizedJsd(beta=beta, temperature=temperature), teacher, student, weights)


def attention(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the mean squared distance of attention, f32[B, heads, T, S] (Jiao et al. 2020).

    With other numbers of heads the means over heads are compared.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> s = g.variable("s", (1, 1, 1, 1), init=4.0)
    >>> loss = gw.distillation.attention(s, g.constant([[[[1.0]], [[3.0]]]]))
    >>> float(gw.Session(g).run(loss))
    4.0
    """
    return _of(AttentionDistillation(), teacher, student)


def attention_maps(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the distance of normalised activation maps (Zagoruyko and Komodakis 2017).

    Q(a) = Σ_channels a²,  l = mean over examples of ‖Q(s)/‖Q(s)‖ − Q(t)/‖Q(t)‖‖²

    Activations are f32[B, channels, *space]; channels may differ, space may not.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> s, t = g.variable("s", (1, 1, 2), init=[[[1.0, 0.0]]]), g.constant([[[0.0, 3.0]]])
    >>> round(float(gw.Session(g).run(gw.distillation.attention_maps(s, t))), 4)
    2.0
    """
    if student.rank < 3 or student.rank != teacher.rank:
        raise ShapeError(
            f"{student.name!r} is {student.spec}, {teacher.name!r} {teacher.spec}",
            need="activations f32[B, channels, *space] on both sides",
        )
    maps = []
    for x in (student, StopGradient()(teacher)):
        q = (x * x).sum(1)
        squared = (q * q).sum(tuple(range(1, q.rank)), keepdims=True)
        maps.append(q * Rsqrt()(squared + 1e-12))
    apart = maps[0] - maps[1]
    found: Tensor = (apart * apart).sum(tuple(range(1, apart.rank))).mean()
    return found


def features(student: Tensor, teacher: Tensor, *, name: str = "projection") -> Tensor:
    """Return the mean squared distance of features (Romero et al. 2015, "FitNets").

    l = mean (s @ w − t)²;  w: f32[D, E], a variable of this name, only where D ≠ E

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> s, t = g.placeholder("s", (None, 2)), g.placeholder("t", (None, 3))
    >>> loss = gw.distillation.features(s, t)
    >>> g["projection"]
    <Tensor 'projection': f32[2, 3]>
    """
    d, e = student.shape[-1], teacher.shape[-1]
    if d == e:
        return _of(FeatureDistillation(), teacher, student)
    if not isinstance(d, int) or not isinstance(e, int):
        raise ShapeError(
            f"the widths of {student.name!r} and {teacher.name!r} are {d} and {e}",
            need="known widths, for a projection from one to the other",
        )
    w = student.graph.variable(name, (d, e), init=orthogonal(seed=0), dtype=student.dtype)
    return _of(FeatureDistillation(), teacher, student, None, w)
