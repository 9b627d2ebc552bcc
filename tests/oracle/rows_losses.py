"""Losses beside PyTorch."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from tests.oracle.rows import Row, ints, normal, uniform
from tests.oracle.rows_nn import pairs, reduced

TARGETS, FOUND = normal(3, 5), normal(3, 5)
SIGNS = np.where(normal(3, 5) > 0, 1.0, -1.0)
MEAN = "mean_by_nonzero_weight_count"


def F(name: str) -> Any:
    return lambda t, y, p, **k: getattr(t.nn.functional, name)(p, y, reduction="none", **k)


def of_three(each: Any) -> Any:
    """Return torch's loss of three tensors, with our weights and reductions."""

    def theirs(t: Any, *xs: Any, reduction: str = MEAN, **attrs: Any) -> Any:
        loss = each(t, *xs[:3], **attrs)
        w = xs[3].expand_as(loss) if len(xs) > 3 else t.ones_like(loss)
        total = loss * w
        if reduction == "none":
            return total
        if reduction == "sum":
            return total.sum()
        return total.sum() / (w.sum() if reduction == "mean_by_weight" else (w != 0).sum())

    return theirs


REDUCED = ({"reduction": "mean_by_weight"}, {"reduction": "none"}, {"reduction": "sum"})


def weighed(*xs: Any, more: Any = None) -> list[Any]:
    """Return the inputs plain, and with weights of examples in all reductions."""
    w = uniform(0.5, 2, *xs[-1].shape[:1])
    return [(*xs, more or {}), *((*xs, w, {**(more or {}), **r}) for r in REDUCED)]


ERRORS: dict[str, Row] = {
    "smooth_l1": Row(
        reduced(F("smooth_l1_loss")),
        pairs(TARGETS, FOUND, (TARGETS, FOUND, {"beta": 0.3}), (TARGETS, FOUND, {"beta": 0.0})),
    ),
    "log_cosh": Row(reduced(lambda t, y, p: t.cosh(p - y).log()), pairs(TARGETS, FOUND)),
    "pinball": Row(
        reduced(lambda t, y, p, q=0.5: t.where(y > p, q * (y - p), (1 - q) * (p - y))),
        pairs(TARGETS, FOUND, (TARGETS, FOUND, {"q": 0.9})),
    ),
    "mean_squared_log_error": Row(
        reduced(lambda t, y, p: (((p + 1) / (y + 1)).log()) ** 2),
        pairs(uniform(0, 3, 3, 5), uniform(0, 3, 3, 5)),
    ),
    "poisson_nll": Row(
        reduced(
            lambda t, y, p, eps=1e-8: t.nn.functional.poisson_nll_loss(
                p, y, log_input=False, eps=eps, reduction="none"
            )
        ),
        pairs(ints(0, 5, 3, 5).astype(float), uniform(0.2, 4, 3, 5)),
    ),
    "gaussian_nll": Row(
        of_three(
            lambda t, y, p, v, full=False, eps=1e-6: t.nn.functional.gaussian_nll_loss(
                p, y, v, full=full, eps=eps, reduction="none"
            )
        ),
        [
            (TARGETS, FOUND, uniform(0.5, 2, 3, 5)),
            (TARGETS, FOUND, uniform(0.5, 2, 3, 1), {"full": True}),
            (TARGETS, FOUND, uniform(0.5, 2, 3, 5), uniform(0.5, 2, 3, 1), REDUCED[0]),
        ],
    ),
    "soft_margin": Row(reduced(F("soft_margin_loss")), pairs(SIGNS, FOUND), fixed=(0,)),
    "hinge_embedding": Row(
        reduced(F("hinge_embedding_loss")),
        pairs(SIGNS, uniform(0.1, 2, 3, 5), (SIGNS, FOUND, {"margin": 0.4})),
        fixed=(0,),
    ),
}

LABELS, LOGITS = ints(0, 4, 2, 3), normal(2, 4, 3)
NAMES = {"mean_by_weight": "mean", "sum": "sum", "none": "none"}


def by_class(name: str) -> Any:
    def theirs(
        t: Any, y: Any, p: Any, w: Any, c: Any, axis: int = 1, reduction: str = "", **k: Any
    ) -> Any:
        return getattr(t.nn.functional, name)(p, y, c, reduction=NAMES[reduction], **k)

    return theirs


def focal(t: Any, y: Any, x: Any, alpha: float | None = 0.25, gamma: float = 2.0) -> Any:
    loss = t.nn.functional.binary_cross_entropy_with_logits(x, y, reduction="none")
    p = t.sigmoid(x)
    loss = loss * (1 - (p * y + (1 - p) * (1 - y))) ** gamma
    return loss if alpha is None else loss * (alpha * y + (1 - alpha) * (1 - y))


def overlap(t: Any, y: Any, p: Any, smooth: float = 1.0) -> Any:
    y, p = y.flatten(1), p.flatten(1)
    return 1 - (2 * (y * p).sum(1) + smooth) / ((y + p).sum(1) + smooth)


CLASSES: dict[str, Row] = {
    "nll": Row(
        by_class("nll_loss"),
        [
            (LABELS, LOGITS, np.ones(()), uniform(0.5, 2, 4), {"axis": 1, **more})
            for more in (*REDUCED, {**REDUCED[0], "ignore_index": 2})
        ],
        fixed=(2, 3),
    ),
    "nll, plain": Row(
        lambda t, y, p, w=None, reduction="none": reduced(F("nll_loss"))(
            t, y, p, w, reduction=reduction
        ),
        [(ints(0, 5, 3), normal(3, 5), {"reduction": MEAN}),
         (ints(0, 5, 3), normal(3, 5), uniform(0.5, 2, 3), {"reduction": MEAN})],
    ),
    "multi_margin": Row(
        lambda t, y, x, w=None, reduction=MEAN, **k: reduced(
            lambda t, y, x: t.nn.functional.multi_margin_loss(x, y, reduction="none", **k)
        )(t, y, x, w, reduction=reduction),
        [
            (ints(0, 5, 3), normal(3, 5)),
            (ints(0, 5, 3), normal(3, 5), {"p": 2, "margin": 0.3}),
            (ints(0, 5, 3), normal(3, 5), uniform(0.5, 2, 3), REDUCED[1]),
        ],
    ),
    "sigmoid_focal": Row(
        reduced(focal),
        pairs(
            (SIGNS + 1) / 2, FOUND * 3, ((SIGNS + 1) / 2, FOUND, {"alpha": None, "gamma": 0.5})
        ),
        fixed=(0,),
    ),
    "dice": Row(
        reduced(overlap),
        pairs(
            uniform(0, 1, 3, 4, 2), uniform(0, 1, 3, 4, 2),
            (uniform(0, 1, 3, 5), uniform(0, 1, 3, 5), {"smooth": 0.1}), weights=(3,),
        ),
    ),
}  # fmt: skip


def info_nce(
    t: Any, a: Any, b: Any, w: Any = None, T: Any = 1.0, normalize: bool = True, **attrs: Any
) -> Any:
    if normalize:
        a, b = t.nn.functional.normalize(a), t.nn.functional.normalize(b)
    s = a @ b.T / attrs.pop("temperature", T)
    at = t.arange(len(a))
    loss = (
        t.nn.functional.cross_entropy(s, at, reduction="none")
        + t.nn.functional.cross_entropy(s.T, at, reduction="none")
    ) / 2
    return reduced(lambda *_: loss)(t, a, b, w, **attrs)


def triplet(t: Any, a: Any, b: Any, c: Any, **k: Any) -> Any:
    return t.nn.functional.triplet_margin_loss(a, b, c, reduction="none", **k)


def cosine(t: Any, y: Any, a: Any, b: Any, margin: float = 0.0) -> Any:
    return t.nn.functional.cosine_embedding_loss(a, b, y, margin, reduction="none")


PAIRED: dict[str, Row] = {
    "contrastive": Row(
        info_nce,
        [
            (normal(4, 3), normal(4, 3)),
            (normal(4, 3), normal(4, 3), uniform(0.5, 2, 4), REDUCED[0]),
            (normal(4, 3), normal(4, 3), {"temperature": 0.2, "normalize": False}),
            (normal(4, 3), normal(4, 3), uniform(0.5, 2, 4), np.array(0.3), REDUCED[1]),
        ],
    ),
    "triplet_margin": Row(
        of_three(triplet),
        [
            *weighed(normal(4, 3), normal(4, 3), normal(4, 3)),
            (normal(4, 3), normal(4, 3), normal(4, 3), {"swap": True, "margin": 2.0}),
            (normal(4, 3), normal(4, 3), normal(4, 3), {"p": 3.0}),
        ],
    ),
    "margin_ranking": Row(
        of_three(lambda t, y, a, b, margin=0.0: t.nn.functional.margin_ranking_loss(
            a, b, y, margin, reduction="none")),
        weighed(SIGNS[0], normal(5), normal(5), more={"margin": 0.3}),
        fixed=(0,),
    ),
    "cosine_embedding": Row(
        of_three(cosine),
        weighed(SIGNS[0], normal(5, 3), normal(5, 3), more={"margin": 0.1}),
        fixed=(0,),
    ),
}  # fmt: skip


def hinton(
    t: Any, y: Any, x: Any, w: Any = None, targets: Any = None, temperature: float = 1.0,
    alpha: float = 0.5, axis: int = -1, **attrs: Any,
) -> Any:  # fmt: skip
    log = t.nn.functional.log_softmax
    loss = (
        t.nn.functional.kl_div(
            log(x / temperature, axis),
            log(y / temperature, axis),
            reduction="none",
            log_target=True,
        ).sum(axis)
        * temperature**2
    )
    if targets is not None:
        hard = t.nn.functional.cross_entropy(x, targets, reduction="none")
        loss = alpha * loss + (1 - alpha) * hard
    return reduced(lambda *_: loss)(t, y, x, w, **attrs)


def generalized(
    t: Any, y: Any, x: Any, w: Any, beta: float = 0.5, temperature: float = 1.0, **attrs: Any
) -> Any:
    """Return the loss as TRL's GKD trainer computes it, with kl_div of log probabilities."""
    kl = partial(t.nn.functional.kl_div, reduction="none", log_target=True)
    teacher, student = (t.log_softmax(z / temperature, -1) for z in (y, x))
    if beta in (0, 1):
        loss = kl(student, teacher) if beta == 0 else kl(teacher, student)
    else:
        parts = [student + math.log(1 - beta), teacher + math.log(beta)]
        mixed = t.logsumexp(t.stack(parts), dim=0)
        loss = beta * kl(mixed, teacher) + (1 - beta) * kl(mixed, student)
    return reduced(lambda *_: loss.sum(-1))(t, y, x, w, **attrs)


def fitted(t: Any, y: Any, x: Any, w: Any, projection: Any, **attrs: Any) -> Any:
    return reduced(F("mse_loss"))(t, y, x @ projection, w, **attrs)


def attended(t: Any, y: Any, x: Any) -> Any:
    if x.shape[1] != y.shape[1]:
        x, y = x.mean(1, keepdim=True), y.mean(1, keepdim=True)
    return (x - y) ** 2


DISTILLED: dict[str, Row] = {
    "distillation_kl": Row(
        hinton,
        [
            (normal(3, 5), normal(3, 5)),
            (normal(3, 5), normal(3, 5), uniform(0.5, 2, 3), {"temperature": 3.0, **REDUCED[0]}),
            (normal(3, 5), normal(3, 5), {"axis": 0, "reduction": "none"}),
            (normal(3, 5), normal(3, 5), np.ones(3), ints(0, 5, 3),
             {"temperature": 2.0, "alpha": 0.3}),
        ],
    ),
    "generalized_jsd": Row(
        generalized,
        [
            (normal(3, 5), normal(3, 5), uniform(0.5, 2, 3), {"beta": beta, "temperature": 1.5})
            for beta in (0.0, 0.3, 0.5, 1.0)
        ],
    ),
    "feature_distillation": Row(
        fitted,
        [(normal(3, 2, 5), normal(3, 2, 4), uniform(0.5, 2, 3, 1, 1), normal(4, 5), REDUCED[0])],
    ),
    "feature_distillation, plain": Row(reduced(F("mse_loss")), pairs(TARGETS, FOUND)),
    "attention_distillation": Row(
        reduced(attended),
        [
            (uniform(0, 1, 2, 3, 4, 4), uniform(0, 1, 2, 3, 4, 4)),
            (uniform(0, 1, 2, 3, 4, 4), uniform(0, 1, 2, 2, 4, 4), REDUCED[2]),
        ],
    ),
}  # fmt: skip


def ctc(
    t: Any, y: Any, x: Any, w: Any, sizes: Any, times: Any, blank: int = 0, **attrs: Any
) -> Any:
    zero = attrs.pop("zero_infinity", False)
    loss = t.nn.functional.ctc_loss(
        x.log_softmax(-1).movedim(1, 0), y, times, sizes, blank, "none", zero
    )
    return reduced(lambda *_: loss)(t, y, x, w, **attrs)


CTC: dict[str, Row] = {
    "ctc": Row(
        ctc,
        [
            (np.array([[1, 2, 2], [3, 1, 1], [2, 2, 2]]), normal(3, 8, 5) * 2, uniform(0.5, 2, 3),
             np.array([3, 2, 0]), np.array([8, 6, 7]), attrs)
            for attrs in REDUCED
        ]
        + [
            (ints(0, 6, 4, 5), normal(4, 30, 7), np.ones(4), np.array([5, 4, 1, 2]),
             np.array([30, 25, 10, 12]), {"blank": 6}),
            (ints(1, 4, 2, 4), normal(2, 5, 4), np.ones(2), np.array([4, 2]), np.array([2, 5]),
             {"zero_infinity": True, "reduction": "none"}),
        ],
        fixed=(2,),
    ),
}  # fmt: skip

ELSEWHERE = {
    "head_log_probs": "of five results: held against whole logits in tests/align/test_losses.py",
}

ROWS = {**ERRORS, **CLASSES, **PAIRED, **DISTILLED, **CTC}
