"""Layers and adapters beside PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwright as gw
from gradwright.ops.layers.gated import FusedElementwiseChain
from gradwright.ops.layers.projections import FusedBiasDropoutResidual
from tests.oracle.rows import Row, ints, normal, unary, uniform

KINKS = np.array([-8.0, -2.0, -1.0, 0.0, 0.25, 1.0, 2.0, 8.0])


def F(name: str) -> str:
    return f"nn.functional.{name}"


def act(*more: Any) -> list[Any]:
    return [*unary(-4, 4, KINKS), *more]


def slope_of(name: str, **attrs: Any) -> Any:
    """Return a derivative that torch's autograd takes of its own activation."""

    def theirs(t: Any, x: Any, g: Any = None, **given: Any) -> Any:
        function = getattr(t.nn.functional, name)
        with t.enable_grad():
            y = function(x if x.requires_grad else x.requires_grad_(), **attrs, **given)
        (dx,) = t.autograd.grad(y.sum(), x, create_graph=True)
        return dx if g is None else g * dx

    return theirs


SMOOTH = [(normal(3, 4), normal(3, 4)), (normal(),), (normal(0, 2), normal(0, 2))]
KINKED = [(normal(3, 4),), (normal(0, 2),)]

ACTIVATIONS: dict[str, Row] = {
    "log_sigmoid": Row(F("logsigmoid"), act((KINKS * 50,))),
    "selu": Row(F("selu"), act()),
    "celu": Row(F("celu"), act((KINKS, {"alpha": 0.5}))),
    "softsign": Row(F("softsign"), act()),
    "swish": Row(lambda t, x, alpha=1.0: x * t.sigmoid(alpha * x), act((KINKS, {"alpha": -0.3}))),
    "quick_gelu": Row(lambda t, x: x / (1 + t.exp(-1.702 * x)), act()),
    "fused_gelu": Row(
        lambda t, x, b=0.0: t.nn.functional.gelu(x + b, approximate="tanh"),
        [(normal(2, 3), normal(3)), (normal(),), (normal(0, 2), normal(2))],
    ),
    "mish": Row(F("mish"), act()),
    "tanh_shrink": Row(F("tanhshrink"), act()),
    "hard_tanh": Row(
        lambda t, x, min=-1.0, max=1.0: t.nn.functional.hardtanh(x, min, max),
        act((KINKS, {"min": -0.5, "max": 3.0})),
    ),
    "squared_relu": Row(lambda t, x: x.relu() ** 2, act()),
    "thresholded_relu": Row(
        lambda t, x, alpha=1.0: t.nn.functional.threshold(x, alpha, 0.0),
        act((KINKS, {"alpha": 0.2})),
    ),
    # torch's own hardswish takes 1/6 in float32, whatever the dtype.
    "hard_swish": Row(lambda t, x: x * t.nn.functional.relu6(x + 3) / 6, act()),
    "shrink": Row(
        lambda t, x, lambd=0.5, bias=0.0: t.where(
            x > lambd, x - bias, t.where(x < -lambd, x + bias, x * 0)
        ),
        act((KINKS, {"lambd": 1.5, "bias": 0.3})),
    ),
    "hard_shrink": Row(F("hardshrink"), act((KINKS, {"lambd": 1.5}))),
    "soft_shrink": Row(F("softshrink"), act((KINKS, {"lambd": 1.5}))),
    "prelu": Row(
        lambda t, x, w: t.nn.functional.prelu(x, w.flatten()),
        [(normal(2, 3, 2, 2), normal(3, 1, 1)), (normal(4, 3), normal(3)), (KINKS, np.array(0.3))],
    ),
    "crelu": Row(
        lambda t, x, axis=-1: t.cat([x, -x], axis).relu(),
        [(normal(2, 3),), (normal(2, 3, 1, 2), {"axis": 1}), (normal(0, 2),)],
    ),
    "sigmoid_derivative": Row(slope_of("sigmoid"), SMOOTH),
    "tanh_derivative": Row(slope_of("tanh"), SMOOTH),
    "softsign_derivative": Row(slope_of("softsign"), SMOOTH),
    "hard_tanh_derivative": Row(slope_of("hardtanh"), KINKED),
    "leaky_relu_derivative": Row(
        slope_of("leaky_relu"), [*KINKED, (normal(5), {"negative_slope": 0.3})]
    ),
    "hardmax": Row(
        lambda t, x, axis=-1: (
            t.nn.functional.one_hot(x.argmax(axis), x.shape[axis]).movedim(-1, axis).to(x.dtype)
        ),
        [(normal(3, 4),), (normal(2, 3, 4), {"axis": 1}), (np.array([1.0, 2.0, 2.0]),)],
        fixed=(0,),
    ),
}

PAIRS = [(normal(3, 4), normal(3, 4)), (normal(), normal()), (normal(0, 2), normal(0, 2))]


def chain(*xs: Any, chain: Any) -> Any:
    return FusedElementwiseChain(chain=chain)(*xs)


GATED: dict[str, Row] = {
    "glu": Row(
        lambda t, x, axis=-1: t.nn.functional.glu(x, axis),
        [(normal(3, 4),), (normal(2, 6, 1, 3), {"axis": 1}), (normal(0, 2),)],
    ),
    "swiglu": Row(
        lambda t, a, x, alpha=1.0: a * t.sigmoid(alpha * a) * x,
        [*PAIRS, (normal(5), normal(5), {"alpha": 0.3})],
    ),
    "geglu": Row(
        lambda t, a, x, **k: t.nn.functional.gelu(a, **k) * x,
        [*PAIRS, (normal(5), normal(5), {"approximate": "tanh"})],
    ),
    "reglu": Row(lambda t, a, x: a.relu() * x, PAIRS),
    "fused_elementwise_chain": Row(
        lambda t, x, b, chain: (t.tanh(x * b) + 1).log() if len(chain) == 3 else t.exp(-x) + b,
        [
            (normal(2, 3), normal(3), {"chain": ("mul", "tanh", "log1p")}),
            (normal(2, 0, 3), normal(3), {"chain": ("neg", "exp", "identity", "add")}),
        ],
        chain,
    ),
}


def layer_norm(t: Any, x: Any, w: Any = None, b: Any = None, axis: int = -1, eps: float = 1e-5):
    axes = list(range(axis % x.ndim, x.ndim))
    mean = x.mean(axes, keepdim=True)
    inverse = (((x - mean) ** 2).mean(axes, keepdim=True) + eps).rsqrt()
    return t.nn.functional.layer_norm(x, x.shape[axis:], w, b, eps), mean, inverse


def rms(t: Any, x: Any, w: Any = None, eps: float = 1e-5) -> Any:
    return t.nn.functional.rms_norm(x, x.shape[-1:], w, eps)


def skip_rms(t: Any, x: Any, s: Any, w: Any = None, b: Any = 0.0, eps: float = 1e-5) -> Any:
    total = x + s + b
    return rms(t, total, w, eps), total


def quantised(t: Any, x: Any, w: Any = None, b: Any = None, norm: str = "rms") -> Any:
    n = rms(t, x, w) if norm == "rms" else t.nn.functional.layer_norm(x, x.shape[-1:], w, b)
    scale = n.abs().amax(-1, keepdim=True) / 127
    return (n / scale).round().to(t.int8), scale


def mvn(t: Any, x: Any, axis: Any = (0, 2, 3), eps: float = 1e-9) -> Any:
    return (x - x.mean(axis, keepdim=True)) / (x.std(axis, unbiased=False, keepdim=True) + eps)


NORMS: dict[str, Row] = {
    "fused_layer_norm": Row(
        layer_norm,
        [
            (normal(3, 4), normal(4), normal(4)),
            (normal(2, 3, 4), normal(3, 4), {"axis": 1, "eps": 1e-3}),
            (normal(0, 3), normal(3)),
        ],
    ),
    "skip_rms_norm": Row(
        skip_rms,
        [
            (normal(3, 4), normal(3, 4), normal(4), normal(4)),
            (normal(2, 1, 3, 4), normal(2, 1, 3, 4), {"eps": 1e-3}),
            (normal(0, 3), normal(0, 3), normal(3)),
        ],
    ),
    "rms_norm_linear": Row(
        lambda t, x, g, w, b=None: t.nn.functional.linear(rms(t, x, g, 1e-5), w.T, b),
        [
            (normal(3, 4), normal(4), normal(4, 2), normal(2)),
            (normal(0, 3), normal(3), normal(3, 2)),
        ],
    ),
    "fused_rms_norm_swiglu": Row(
        lambda t, x, g, w, v: t.nn.functional.silu(rms(t, x, g) @ w) * (rms(t, x, g) @ v),
        [
            (normal(2, 3, 4), normal(4), normal(4, 5), normal(4, 5)),
            (normal(0, 3), normal(3), normal(3, 2), normal(3, 2)),
        ],
    ),
    "fused_norm_quantize": Row(
        quantised,
        [
            (normal(3, 4), normal(4)),
            (normal(2, 2, 5), normal(5), normal(5), {"norm": "layer"}),
            (normal(0, 3),),
        ],
    ),
    "fused_norm_quantize, bias alone": Row(
        lambda t, x, b: quantised(t, x, None, b, "layer"),
        [(normal(2, 5), normal(5))],
        ours=lambda x, b, **k: gw.nn.fused_norm_quantize(x, bias=b, norm="layer", **k),
    ),
    "mean_square": Row(
        lambda t, x, axis=None, keepdims=False: (x**2).mean(axis, keepdim=keepdims),
        [(normal(3, 4),), (normal(3, 4, 1), {"axis": (0, -1), "keepdims": True}), (normal(),)],
    ),
    "instance_norm": Row(
        lambda t, x, w=None, b=None, **k: t.nn.functional.instance_norm(x, weight=w, bias=b, **k),
        [
            (normal(2, 3, 5), normal(3), normal(3)),
            (normal(2, 3, 2, 3, 2), {"eps": 1e-2}),
        ],
    ),
    "group_norm": Row(
        lambda t, x, *p, num_groups, **k: t.nn.functional.group_norm(x, num_groups, *p, **k),
        [
            (normal(2, 6, 5), normal(6), normal(6), {"num_groups": 3}),
            (normal(2, 4, 2, 3), {"num_groups": 4, "eps": 1e-2}),
            (normal(3, 4), normal(4), {"num_groups": 1}),
        ],
    ),
    "mean_variance_normalization": Row(
        mvn, [(normal(2, 3, 4, 2),), (normal(3, 4), {"axis": -1, "eps": 0.1})]
    ),
    "lp_normalize": Row(
        lambda t, x, p=2.0, axis=-1, eps=0.0: t.nn.functional.normalize(x, p, axis, eps),
        [
            (normal(3, 4),),
            (normal(2, 3, 1, 2), {"p": 1.0, "axis": 1}),
            (normal(3, 4), {"p": 3.0, "eps": 2.0}),
            (normal(0, 3),),
        ],
    ),
}


def part_of_columns(t: Any, x: Any, w: Any, b: Any = 0.0, parts: int = 1, part: Any = None) -> Any:
    y = x @ w + b
    return y if part is None else t.chunk(y, parts, -1)[part]


def part_of_rows(t: Any, x: Any, w: Any, b: Any = 0.0, parts: int = 1, part: Any = None) -> Any:
    n = w.shape[0] // parts
    if part is None:
        return sum(x[..., n * i : n * i + n] @ w[n * i : n * i + n] for i in range(parts)) + b
    rows = x if x.shape[-1] == n else x[..., n * part : n * part + n]
    return rows @ w[n * part : n * part + n] + (b if part == 0 else 0)


def bag(t: Any, ids: Any, w: Any, per: Any = None, mode: str = "sum", padding_idx: Any = None):
    flat = ids.reshape(-1, ids.shape[-1])
    y = t.nn.functional.embedding_bag(
        flat, w, mode=mode, padding_idx=padding_idx,
        per_sample_weights=None if per is None else per.reshape(flat.shape),
    )  # fmt: skip
    return y.reshape(*ids.shape[:-1], w.shape[1])


def merged(t: Any, text: Any, vision: Any, ids: Any, token: int) -> Any:
    out = []
    for b in range(len(ids)):
        rows, queue = [], list(vision[b])
        for i, row in zip(ids[b], text[b], strict=True):
            rows.append(queue.pop(0) if i == token and queue else row)
        out.append(t.stack(rows))
    return t.stack(out)


BLOCKS: dict[str, Row] = {
    "bias_add": Row(
        lambda t, x, b, axis=-1: (x.movedim(axis, -1) + b).movedim(-1, axis),
        [
            (normal(3, 4), normal(4)),
            (normal(2, 3, 2, 2), normal(3), {"axis": 1}),
            (normal(0, 3), normal(3)),
        ],
    ),
    "relu_layer": Row(
        lambda t, x, w, b=0.0: (x @ w + b).relu(),
        [(normal(2, 3, 4), normal(4, 2), normal(2)), (normal(0, 3), normal(3, 2))],
    ),
    "fused_gemm_swiglu": Row(
        lambda t, x, w, v, b=0.0, c=0.0: t.nn.functional.silu(x @ w + b) * (x @ v + c),
        [
            (normal(2, 3, 4), normal(4, 5), normal(4, 5), normal(5), normal(5)),
            (normal(0, 3), normal(3, 2), normal(3, 2)),
        ],
    ),
    "fused_bias_dropout_residual": Row(  # in eval; its mask in training is dropout's
        lambda t, x, b, r: x + b + r,
        [(normal(2, 3), normal(3), normal(2, 3)), (normal(0, 3), normal(3), normal(0, 3))],
        lambda x, b, r: FusedBiasDropoutResidual()(x.graph.rng, x, b, r),
    ),
    "column_parallel_linear": Row(
        part_of_columns,
        [
            (normal(2, 3), normal(3, 4), normal(4), {"parts": 2, "part": 1}),
            (normal(2, 2, 3), normal(3, 4), {"parts": 4}),
        ],
    ),
    "row_parallel_linear": Row(
        part_of_rows,
        [
            (normal(2, 4), normal(4, 3), normal(3), {"parts": 2, "part": 1}),
            (normal(2, 4), normal(4, 3), normal(3), {"parts": 2, "part": 0}),
            (normal(2, 2), normal(4, 3), {"parts": 2, "part": 1}),
            (normal(5, 4), normal(4, 3), normal(3), {"parts": 4}),
        ],
    ),
    "embedding_bag": Row(
        bag,
        [
            (ints(0, 5, 3, 4), normal(5, 3), normal(3, 4)),
            (ints(0, 5, 2, 3, 4), normal(5, 3), {"mode": "mean"}),
            (ints(0, 5, 3, 4), normal(5, 3), {"mode": "max"}),
            (ints(0, 3, 4, 4), normal(3, 2), {"mode": "mean", "padding_idx": 1}),
            (np.array([[1, 1], [0, 1]]), normal(3, 2), {"mode": "max", "padding_idx": 1}),
        ],
    ),
    "per_layer_embedding": Row(
        lambda t, x, w, ids, scale=1.0: x + scale * w[ids],
        [
            (normal(2, 3, 4), normal(5, 4), ints(0, 5, 2, 3)),
            (normal(4), normal(5, 4), ints(0, 5), {"scale": 0.3}),
        ],
    ),
    "vision_embedding_merge": Row(
        merged,
        [
            (
                normal(2, 5, 3),
                normal(2, 2, 3),
                np.array([[9, 1, 9, 2, 9], [1, 2, 3, 9, 4]]),
                {"token": 9},
            ),
        ],
    ),
    "center_and_sharpen": Row(
        lambda t, x, c, T, axis=-1: t.softmax((x - c) / T, axis),
        [(normal(3, 4), normal(4), np.array(0.1)), (normal(0, 3), normal(3), np.array(2.0))],
    ),
    "copy": Row("clone", [(normal(2, 3),), (ints(0, 5, 3),), (normal(),), (normal(0, 2),)]),
}


def lora(t: Any, x: Any, w: Any, a: Any, b: Any, bias: Any = 0.0, scale: float = 1.0) -> Any:
    return x @ (w + scale * a @ b) + bias


def dora(t: Any, x: Any, w: Any, a: Any, b: Any, m: Any, bias: Any = 0.0, scale: float = 1.0):
    v = w + scale * a @ b
    return x @ (v * (m / v.norm(dim=0).detach())) + bias


def lokr(t: Any, x: Any, w: Any, w1: Any, w2: Any, *more: Any, scale: float = 1.0) -> Any:
    if more:
        w1, w2 = w1 @ more[0], w2 @ more[1]
    return x @ (w + scale * t.kron(w1, w2)) + (more[2] if len(more) > 2 else 0.0)


def multi(
    t: Any,
    x: Any,
    w: Any,
    a: Any,
    b: Any,
    at: Any,
    s: Any = None,
    bias: Any = 0.0,
    scale: Any = 1.0,
) -> Any:
    rows = []
    for i, n in enumerate(at.tolist()):
        delta = 0 if n < 0 else scale * (1 if s is None else s[n]) * a[n] @ b[n]
        rows.append(x[i] @ (w + delta) + bias)
    return t.stack(rows)


FACTORS = normal(5, 4), normal(4, 6), normal(4, 2), normal(2, 6)

ADAPTERS: dict[str, Row] = {
    "lora_matmul": Row(
        lora,
        [
            (*FACTORS, normal(6), {"scale": 0.3}),
            (normal(2, 3, 4), *FACTORS[1:]),
            (normal(0, 4), *FACTORS[1:]),
        ],
    ),
    "dora_matmul": Row(
        dora,
        [
            (*FACTORS, uniform(0.5, 2, 6), normal(6), {"scale": 0.3}),
            (normal(2, 3, 4), *FACTORS[1:], normal(6)),
        ],
    ),
    "loha_matmul": Row(
        lambda t, x, w, a, b, c, d, bias=0.0, scale=1.0: (
            x @ (w + scale * (a @ b) * (c @ d)) + bias
        ),
        [
            (*FACTORS, normal(4, 3), normal(3, 6), normal(6), {"scale": 0.3}),
            (normal(0, 4), *FACTORS[1:], normal(4, 3), normal(3, 6)),
        ],
    ),
    "lokr_matmul": Row(
        lokr,
        [
            (*FACTORS[:2], normal(2, 3), normal(2, 2), {"scale": 0.3}),
            (*FACTORS[:2], normal(2, 1), normal(2, 1), normal(1, 2), normal(1, 3), normal(6)),
            (normal(2, 3, 4), normal(4, 6), normal(1, 2), normal(4, 3)),
        ],
    ),
    "multi_lora_matmul": Row(
        multi,
        [
            (normal(4, 3), normal(3, 2), normal(3, 3, 2), normal(3, 2, 2), np.array([2, 0, -1, 2]),
             normal(3), normal(2), {"scale": 0.3}),
            (normal(2, 5, 3), normal(3, 2), normal(3, 3, 2), normal(3, 2, 2), np.array([1, 2])),
        ],
    ),
}  # fmt: skip

ROWS = {**ACTIVATIONS, **GATED, **NORMS, **BLOCKS, **ADAPTERS}
