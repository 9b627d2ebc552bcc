"""Networks' ops beside PyTorch: activations, norms, attention, convolution, pooling, losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwright.ops.layers.norm import BatchNorm
from tests.oracle.rows import Array, Case, Row, bools, ints, normal, probabilities, unary, uniform

KINKS = np.array([-8.0, -3.0, -1.0, 0.0, 0.5, 3.0, 6.0, 8.0])
IMAGES = normal(2, 4, 9, 8)
YES_NO = ints(0, 2, 3, 5).astype(float)
LOGITS = normal(3, 5) * 10
CLASSES = np.array([1, 4, 0])
HEADS = normal(2, 3, 4, 8), normal(2, 3, 6, 8), normal(2, 3, 6, 5)
SHORT = normal(2, 4, 4), normal(2, 5, 4), normal(2, 5, 3)


def activations(*cases: Case, more: Sequence[Array] = ()) -> list[Case]:
    """Return inputs of all shapes, and the kinks."""
    return [*unary(-4, 4, KINKS, *more), *cases]


def F(name: str) -> str:
    return f"nn.functional.{name}"


ACTIVATIONS: dict[str, Row] = {
    "relu": Row("relu", activations()),
    "relu6": Row(F("relu6"), activations()),
    "leaky_relu": Row(F("leaky_relu"), activations((KINKS, {"negative_slope": 0.2}))),
    "elu": Row(F("elu"), activations((KINKS, {"alpha": 0.7}))),
    "gelu": Row(F("gelu"), activations((KINKS, {"approximate": "tanh"}))),
    "silu": Row(F("silu"), activations()),
    "sigmoid": Row("sigmoid", activations(more=[KINKS * 50])),
    # torch's own hardsigmoid takes 1/6 in float32, whatever the dtype.
    "hard_sigmoid": Row(
        lambda t, x, alpha=1 / 6, beta=0.5: t.nn.functional.relu6(x * (6 * alpha) + 6 * beta) / 6,
        [*unary(-4, 4, np.array([-9.0, 9.0])), (normal(9), {"alpha": 0.2, "beta": 0.4})],
    ),
    "softplus": Row(F("softplus"), activations(more=[KINKS * 2])),
}


def normed(kind: str) -> Any:
    def theirs(t: Any, x: Any, *parameters: Any, axis: int = -1, eps: float = 1e-5) -> Any:
        shape = x.shape[axis:]
        return getattr(t.nn.functional, kind)(x, shape, *parameters, eps=eps)

    return theirs


def batch_norm(t: Any, x: Any, w: Any, b: Any, mean: Any, var: Any, **attrs: Any) -> Any:
    axis = attrs.pop("axis", 1)
    mean, var = mean.clone(), var.clone()
    y = t.nn.functional.batch_norm(x.movedim(axis, 1), mean, var, w, b, **attrs)
    return y.movedim(1, axis), mean, var


def statistics(n: int) -> tuple[Array, ...]:
    return normal(n), normal(n), normal(n), uniform(0.5, 2, n)


def attend(t: Any, q: Any, k: Any, v: Any, mask: Any = None, **attrs: Any) -> Any:
    return t.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, **attrs)


LAYERS: dict[str, Row] = {
    "softmax": Row(
        lambda t, x, axis=-1: x.softmax(axis),
        [(LOGITS, {"axis": 0}), (normal(2, 3, 1, 2, 2), {"axis": -4}), (normal(0, 3),)],
    ),
    "log_softmax": Row(
        lambda t, x, axis=-1: x.log_softmax(axis),
        [(LOGITS * 9,), (normal(2, 3, 1, 2, 2), {"axis": 1}), (normal(0, 3),)],
    ),
    "embedding": Row(
        F("embedding"),
        [(np.array([[0, 3, 3], [1, 0, 3]]), normal(5, 4)), (np.zeros((0, 2), int), normal(3, 2))],
    ),
    "linear": Row(
        lambda t, x, w, b=None: t.nn.functional.linear(x, w.T, b),
        [
            (normal(2, 3, 5), normal(5, 4), normal(4)),
            (normal(3, 5), normal(5, 4)),
            (normal(0, 5), normal(5, 1), normal(1)),
        ],
    ),
    "layer_norm": Row(
        normed("layer_norm"),
        [
            (normal(3, 4, 5), normal(4, 5), normal(4, 5), {"axis": 1}),
            (normal(2, 1, 2, 1, 6), normal(6), {"eps": 1e-3}),
            (normal(3, 5) * 100 + 1000,),
            (normal(0, 3), normal(3), normal(3)),
        ],
    ),
    "rms_norm": Row(
        normed("rms_norm"),
        [(normal(3, 5), normal(5)), (normal(2, 3, 4), {"axis": -2}), (normal(0, 3), normal(3))],
    ),
    "batch_norm": Row(
        batch_norm,
        [
            (normal(*shape), *statistics(3), {"training": training, **attrs})
            for shape, attrs in (
                ((6, 3), {}),
                ((4, 3, 5, 5), {"eps": 1e-3}),
                ((2, 4, 3), {"axis": -1}),
            )
            for training in (True, False)
        ],
        lambda *xs, **attrs: BatchNorm(**attrs)(*xs)[:3],
        fixed=(3, 4),
    ),
    "causal_mask": Row(
        lambda t, x: t.ones(x.shape[-2:], dtype=t.bool).tril(),
        [(normal(3, 3),), (normal(2, 2, 4),), (normal(4, 2),), (normal(0, 3),)],
    ),
    "scaled_dot_product_attention": Row(
        attend,
        [
            HEADS,
            (*SHORT, bools(4, 5) | (np.arange(5) == 0)),
            (*SHORT, normal(2, 4, 5)),
            (normal(2, 5, 4), normal(2, 5, 4), normal(2, 5, 4), {"is_causal": True, "scale": 0.2}),
            (normal(5, 4), normal(5, 4), normal(5, 4), {"is_causal": True}),
        ],
    ),
}


def conv(attrs: dict[str, Any], *weight: int) -> Case:
    return IMAGES, normal(*weight), normal(weight[0]), attrs


CNN: dict[str, Row] = {
    "conv2d": Row(
        F("conv2d"),
        [
            conv({}, 3, 4, 3, 2),
            conv({"stride": (2, 3), "padding": (1, 2)}, 3, 4, 3, 2),
            conv({"dilation": (2, 1), "padding": 2}, 3, 4, 3, 3),
            conv({"groups": 2, "stride": 2}, 6, 2, 2, 2),
            conv({"groups": 4, "padding": 1}, 8, 1, 3, 3),
            conv({"padding": "same", "dilation": 2}, 2, 4, 5, 3),
            conv({"padding": "valid", "stride": 2}, 2, 4, 1, 1),
            (IMAGES, normal(3, 4, 9, 8)),
            (normal(0, 2, 3, 3), normal(1, 2, 2, 2)),
        ],
    ),
    "max_pool2d": Row(
        F("max_pool2d"),
        [
            (IMAGES, {"kernel_size": 2}),
            (IMAGES, {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1}),
            (IMAGES, {"kernel_size": 2, "stride": 1, "dilation": (3, 2)}),
            (np.ones((1, 1, 4, 4)), {"kernel_size": 3, "stride": 1}),
        ],
    ),
    "avg_pool2d": Row(
        F("avg_pool2d"),
        [
            (IMAGES, {"kernel_size": (2, 3)}),
            (IMAGES, {"kernel_size": 3, "stride": 2, "padding": 1}),
            (IMAGES, {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False}),
        ],
    ),
    "global_avg_pool": Row(
        lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 1), [(IMAGES,), (normal(1, 2, 1, 3),)]
    ),
    "global_max_pool": Row(
        lambda t, x: t.nn.functional.adaptive_max_pool2d(x, 1), [(IMAGES,), (normal(1, 2, 1, 3),)]
    ),
}

# -- losses: what they are per element, and the four ways to make many numbers one ----------------


def reduced(each: Any) -> Any:
    """Return a loss of torch with our weights and reductions."""

    def theirs(t: Any, y: Any, p: Any, w: Any = None, reduction: str = MEAN, **attrs: Any) -> Any:
        loss = each(t, y, p, **attrs)
        w = t.ones_like(loss) if w is None else w.expand_as(loss)
        if reduction == "none":
            return loss * w
        total = (loss * w).sum()
        if reduction == "sum":
            return total
        return total / (w.sum() if reduction == "mean_by_weight" else (w != 0).sum())

    return theirs


MEAN = "mean_by_nonzero_weight_count"
REDUCTIONS = (MEAN, "mean_by_weight", "sum", "none")


def pairs(
    labels: Any, predictions: Any, *more: Case, weights: tuple[int, ...] = (3, 1)
) -> list[Case]:
    """Return labels and predictions plain and with weights, some of them 0, reduced in all ways."""
    some = uniform(0.5, 2, *weights)
    some[0] = 0.0
    return [
        (labels, predictions),
        *((labels, predictions, some, {"reduction": r}) for r in REDUCTIONS),
        *more,
    ]


def nn(name: str) -> Any:
    return lambda t, y, p, **k: getattr(t.nn.functional, name)(p, y, reduction="none", **k)


def smooth(t: Any, y: Any, p: Any, label_smoothing: float = 0.0) -> Any:
    y = y * (1 - label_smoothing) + label_smoothing / 2
    return t.nn.functional.binary_cross_entropy_with_logits(p, y, reduction="none")


def over_classes(t: Any, y: Any, p: Any, axis: int = -1, label_smoothing: float = 0.0) -> Any:
    y, p = (x.movedim(axis, 1) for x in (y, p))
    return t.nn.functional.cross_entropy(p, y, reduction="none", label_smoothing=label_smoothing)


def of_differences(t: Any, y: Any, p: Any) -> Any:
    d = (p - y).flatten(1)
    n = d.shape[1]
    total = ((d[:, :, None] - d[:, None, :]) ** 2).sum((1, 2)) / 2
    return total / (n * (n - 1) / 2)


TARGETS = normal(3, 5)
FOUND = normal(3, 5)
SHARES = probabilities(3, 5), probabilities(3, 5)
COUNTS = ints(1, 6, 3, 5).astype(float)

LOSSES: dict[str, Row] = {
    "mean_squared_error": Row(
        reduced(nn("mse_loss")), pairs(TARGETS, FOUND, (ints(0, 5, 4), normal(4)))
    ),
    "absolute_difference": Row(reduced(nn("l1_loss")), pairs(TARGETS, FOUND)),
    "huber": Row(
        reduced(nn("huber_loss")),
        pairs(TARGETS, FOUND, (TARGETS, FOUND, {"delta": 0.7, "reduction": "none"})),
    ),
    "hinge": Row(
        reduced(lambda t, y, p: (1 - (2 * y - 1) * p).clamp(min=0)), pairs(YES_NO, FOUND * 2)
    ),
    "log_loss": Row(
        reduced(lambda t, y, p, eps=1e-7: -y * (p + eps).log() - (1 - y) * (1 - p + eps).log()),
        pairs(YES_NO, SHARES[0], (YES_NO, SHARES[0], {"eps": 0.0})),
    ),
    "log_poisson": Row(
        reduced(lambda t, y, p, full=False: nn("poisson_nll_loss")(t, y, p, full=full)),
        pairs(COUNTS, FOUND, (COUNTS, FOUND, {"full": True})),
        fixed=(0,),
    ),
    "cosine_distance": Row(
        reduced(lambda t, y, p, axis=-1: 1 - (y * p).sum(axis)),
        pairs(TARGETS, FOUND, (TARGETS, FOUND, {"axis": 0}), weights=(3,)),
    ),
    "kl_divergence": Row(
        reduced(lambda t, y, p, axis=-1: nn("kl_div")(t, y, p.log()).sum(axis)),
        pairs(*SHARES, (*SHARES, {"axis": 0}), weights=(3,)),
    ),
    "mean_pairwise_squared_error": Row(
        reduced(of_differences),
        pairs(TARGETS, FOUND, (normal(2, 3, 2), normal(2, 3, 2)), weights=(3,)),
    ),
    "sigmoid_cross_entropy": Row(
        reduced(smooth), pairs(YES_NO, LOGITS, (YES_NO, LOGITS, {"label_smoothing": 0.2}))
    ),
    "softmax_cross_entropy": Row(
        reduced(over_classes),
        pairs(
            SHARES[0],
            LOGITS,
            (SHARES[0], LOGITS, {"label_smoothing": 0.1}),
            (probabilities(2, 4, 3).swapaxes(1, 2), normal(2, 3, 4), {"axis": 1}),
            weights=(3,),
        ),
    ),
    "sparse_softmax_cross_entropy": Row(
        reduced(nn("cross_entropy")), pairs(CLASSES, LOGITS, weights=(3,))
    ),
    "sparse_softmax_cross_entropy, ignoring": Row(
        lambda t, y, p, **k: t.nn.functional.cross_entropy(p, y, **k),
        [
            (np.array([1, -100, 0]), normal(3, 5), {"ignore_index": -100}),
            (np.array([2, 2, 0]), normal(3, 5), {"ignore_index": 2}),
        ],
    ),
    "sparse_softmax_cross_entropy, of classes": Row(
        lambda t, y, p, w, c, axis=1, reduction="mean", **k: t.nn.functional.cross_entropy(
            p, y, c, reduction="mean" if "mean" in reduction else reduction, **k
        ),
        [
            (ints(0, 4, 2, 3), normal(2, 4, 3), np.ones(()), uniform(0.5, 2, 4), attrs)
            for attrs in (
                {"axis": 1, "reduction": "mean_by_weight"},
                {"axis": 1, "reduction": "sum", "ignore_index": 2},
                {"axis": 1, "reduction": "mean_by_weight", "label_smoothing": 0.3},
                {"axis": 1, "reduction": "none", "label_smoothing": 0.3, "ignore_index": 2},
            )
        ],
        fixed=(2, 3),
    ),
    "l2_loss": Row(lambda t, x: (x**2).sum() / 2, [(normal(3, 4),), (normal(),), (normal(0),)]),
}

# -- optimizers ------------------------------------------------------------------------------------


def clip_together(t: Any, limit: Any, *xs: Any) -> Any:
    total = t.stack([(x**2).sum() for x in xs]).sum().sqrt()
    factor = limit / t.maximum(total, limit)
    return total, *(x * factor for x in xs)


OPTIM: dict[str, Row] = {
    "global_norm": Row(
        lambda t, *xs: t.nn.utils.get_total_norm(xs, error_if_nonfinite=False),
        [(normal(2, 3), normal(), normal(4)), (normal(3) * 1e-3,)],
    ),
    "clip_by_global_norm": Row(
        clip_together, [(np.array(limit), normal(2, 3), normal(4)) for limit in (1.0, 100.0)]
    ),
    "all_finite": Row(
        lambda t, *xs: t.stack([x.isfinite().all() for x in xs]).all(),
        [(normal(2, 3), normal()), (np.array([1.0, np.nan]), normal()), (np.array([np.inf]),)],
    ),
}

ROWS = {**ACTIVATIONS, **LAYERS, **CNN, **LOSSES, **OPTIM}
