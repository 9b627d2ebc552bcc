"""Numbers and gradients of the neural-network ops against PyTorch, in float64 and float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gradwright as gw

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 5))
IMAGES = RNG.standard_normal((2, 4, 9, 8))
KINKS = np.array([-8.0, -3.0, -1.0, 0.0, 0.5, 3.0, 6.0, 8.0])
CLASSES = np.array([1, 4, 0])
YES_NO = np.array([[1.0, 0, 0, 1, 1], [0, 0, 1, 1, 0], [1, 1, 1, 0, 0]])


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape)


def probabilities(*shape: int) -> np.ndarray[Any, Any]:
    e = np.exp(normal(*shape))
    return e / e.sum(-1, keepdims=True)


def F(torch: Any) -> Any:
    return torch.nn.functional


Case = tuple[Callable[..., Any], Callable[..., Any], Sequence[Any]]

ACTIVATIONS: dict[str, Case] = {
    "relu": (gw.nn.relu, lambda t, x: F(t).relu(x), [KINKS]),
    "relu6": (gw.nn.relu6, lambda t, x: F(t).relu6(x), [KINKS]),
    "leaky_relu": (
        lambda x: gw.nn.leaky_relu(x, negative_slope=0.2),
        lambda t, x: F(t).leaky_relu(x, 0.2),
        [KINKS],
    ),
    "elu": (lambda x: gw.nn.elu(x, alpha=0.7), lambda t, x: F(t).elu(x, 0.7), [KINKS]),
    "gelu": (gw.nn.gelu, lambda t, x: F(t).gelu(x), [KINKS]),
    "gelu tanh": (
        lambda x: gw.nn.gelu(x, approximate="tanh"),
        lambda t, x: F(t).gelu(x, approximate="tanh"),
        [KINKS],
    ),
    "silu": (gw.nn.silu, lambda t, x: F(t).silu(x), [KINKS]),
    "sigmoid": (gw.nn.sigmoid, lambda t, x: t.sigmoid(x), [KINKS * 50]),
    # torch's own hardsigmoid takes 1/6 in float32, whatever the dtype.
    "hard_sigmoid": (gw.nn.hard_sigmoid, lambda t, x: F(t).relu6(x + 3) / 6, [X * 4]),
    "tanh": (gw.nn.tanh, lambda t, x: t.tanh(x), [KINKS]),
    "softplus": (gw.nn.softplus, lambda t, x: F(t).softplus(x), [KINKS * 2]),
    "erf": (gw.erf, lambda t, x: t.erf(x), [KINKS / 2]),
    "erfc": (gw.erfc, lambda t, x: t.erfc(x), [KINKS / 2]),
}

SHAPED: dict[str, Case] = {
    "softmax": (
        lambda x: gw.nn.softmax(x, axis=0),
        lambda t, x: F(t).softmax(x, 0),
        [X * 10],
    ),
    "log_softmax": (gw.nn.log_softmax, lambda t, x: F(t).log_softmax(x, -1), [X * 10]),
    "embedding": (
        gw.nn.embedding,
        lambda t, ids, w: F(t).embedding(ids, w),
        [np.array([[0, 3, 3], [1, 0, 3]]), normal(5, 4)],
    ),
    "linear": (
        gw.nn.linear,
        lambda t, x, w, b: F(t).linear(x, w.T, b),
        [normal(2, 3, 5), normal(5, 4), normal(4)],
    ),
    "layer_norm": (
        lambda x, w, b: gw.nn.layer_norm(x, w, b, axis=1),
        lambda t, x, w, b: F(t).layer_norm(x, (4, 5), w, b),
        [normal(3, 4, 5), normal(4, 5), normal(4, 5)],
    ),
    "rms_norm": (
        gw.nn.rms_norm,
        lambda t, x, w: F(t).rms_norm(x, (5,), w, 1e-5),
        [X, normal(5)],
    ),
    "attention": (
        gw.nn.scaled_dot_product_attention,
        lambda t, q, k, v: F(t).scaled_dot_product_attention(q, k, v),
        [normal(2, 3, 4, 8), normal(2, 3, 6, 8), normal(2, 3, 6, 5)],
    ),
    "attention, causal": (
        lambda q, k, v: gw.nn.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.2),
        lambda t, q, k, v: F(t).scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.2),
        [normal(2, 5, 4), normal(2, 5, 4), normal(2, 5, 4)],
    ),
    "attention, bool mask": (
        gw.nn.scaled_dot_product_attention,
        lambda t, q, k, v, m: F(t).scaled_dot_product_attention(q, k, v, attn_mask=m),
        [normal(2, 4, 4), normal(2, 5, 4), normal(2, 5, 3), RNG.random((4, 5)) < 0.6],
    ),
    "attention, bias": (
        gw.nn.scaled_dot_product_attention,
        lambda t, q, k, v, m: F(t).scaled_dot_product_attention(q, k, v, attn_mask=m),
        [normal(2, 4, 4), normal(2, 5, 4), normal(2, 5, 3), normal(2, 4, 5)],
    ),
}


def conv(attrs: dict[str, Any], weight: tuple[int, ...], images: Any = IMAGES) -> Case:
    return (
        lambda x, w, b: gw.cnn.conv2d(x, w, b, **attrs),
        lambda t, x, w, b: F(t).conv2d(x, w, b, **attrs),
        [images, normal(*weight), normal(weight[0])],
    )


def pool(ours: str, theirs: str, attrs: dict[str, Any]) -> Case:
    return (
        lambda x: getattr(gw.cnn, ours)(x, **attrs),
        lambda t, x: getattr(F(t), theirs)(x, **attrs),
        [IMAGES],
    )


CNN: dict[str, Case] = {
    "conv2d": conv({}, (3, 4, 3, 2)),
    "conv2d, strided": conv({"stride": (2, 3), "padding": (1, 2)}, (3, 4, 3, 2)),
    "conv2d, dilated": conv({"dilation": (2, 1), "padding": 2}, (3, 4, 3, 3)),
    "conv2d, grouped": conv({"groups": 2, "stride": 2}, (6, 2, 2, 2)),
    "conv2d, depthwise": conv({"groups": 4, "padding": 1}, (8, 1, 3, 3)),
    "conv2d, same": conv({"padding": "same", "dilation": 2}, (2, 4, 5, 3)),
    "conv2d, valid": conv({"padding": "valid", "stride": 2}, (2, 4, 1, 1)),
    "max_pool2d": pool("max_pool2d", "max_pool2d", {"kernel_size": 2}),
    "max_pool2d, padded": pool(
        "max_pool2d", "max_pool2d", {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1}
    ),
    "max_pool2d, dilated": pool(
        "max_pool2d", "max_pool2d", {"kernel_size": 2, "stride": 1, "dilation": (3, 2)}
    ),
    "avg_pool2d": pool("avg_pool2d", "avg_pool2d", {"kernel_size": (2, 3)}),
    "avg_pool2d, padded": pool(
        "avg_pool2d", "avg_pool2d", {"kernel_size": 3, "stride": 2, "padding": 1}
    ),
    "avg_pool2d, padding left out": pool(
        "avg_pool2d",
        "avg_pool2d",
        {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    ),
    "global_avg_pool2d": (
        gw.cnn.global_avg_pool2d,
        lambda t, x: F(t).adaptive_avg_pool2d(x, 1),
        [IMAGES],
    ),
    "global_max_pool2d": (
        gw.cnn.global_max_pool2d,
        lambda t, x: F(t).adaptive_max_pool2d(x, 1),
        [IMAGES],
    ),
}

LOSSES: dict[str, Case] = {
    "mean_squared_error": (
        gw.loss.mean_squared_error,
        lambda t, y, p: F(t).mse_loss(p, y),
        [normal(3, 5), X],
    ),
    "absolute_difference": (
        gw.loss.absolute_difference,
        lambda t, y, p: F(t).l1_loss(p, y),
        [normal(3, 5), X],
    ),
    "huber": (
        lambda y, p: gw.loss.huber(y, p, delta=0.7, reduction="sum"),
        lambda t, y, p: F(t).huber_loss(p, y, delta=0.7, reduction="sum"),
        [normal(3, 5), X],
    ),
    "log_loss": (
        lambda y, p: gw.loss.log_loss(y, p, epsilon=0.0, reduction="none"),
        lambda t, y, p: F(t).binary_cross_entropy(p, y, reduction="none"),
        [YES_NO, probabilities(3, 5)],
    ),
    "log_poisson": (
        lambda y, p: gw.loss.log_poisson(y, p, full=True),
        lambda t, y, p: F(t).poisson_nll_loss(p, y, log_input=True, full=True),
        [RNG.integers(1, 6, (3, 5)).astype(float), X],
    ),
    "sigmoid_cross_entropy": (
        gw.loss.sigmoid_cross_entropy,
        lambda t, y, p: F(t).binary_cross_entropy_with_logits(p, y),
        [YES_NO, X * 10],
    ),
    "softmax_cross_entropy": (
        lambda y, p: gw.loss.softmax_cross_entropy(y, p, label_smoothing=0.1),
        lambda t, y, p: F(t).cross_entropy(p, y, label_smoothing=0.1),
        [probabilities(3, 5), X * 10],
    ),
    "sparse_softmax_cross_entropy": (
        gw.loss.sparse_softmax_cross_entropy,
        lambda t, y, p: F(t).cross_entropy(p, y),
        [CLASSES, X * 10],
    ),
    "sparse_softmax_cross_entropy, ignoring": (
        lambda y, p: gw.loss.sparse_softmax_cross_entropy(y, p, ignore_index=-100),
        lambda t, y, p: F(t).cross_entropy(p, y),
        [np.array([1, -100, 0]), X],
    ),
    "kl_divergence": (
        lambda y, p: gw.loss.kl_divergence(y, p, reduction="none"),
        lambda t, y, p: F(t).kl_div(p.log(), y, reduction="none").sum(-1),
        [probabilities(3, 5), probabilities(3, 5)],
    ),
}

CASES = {**ACTIVATIONS, **SHAPED, **CNN, **LOSSES}


def compare(torch: Any, case: Case, dtype: str, tolerance: float) -> None:
    """Compare result and the gradients of all floating inputs for one random cotangent."""
    ours, theirs, arrays = case
    arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays]
    tensors = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    expected = theirs(torch, *tensors)
    seed = np.random.default_rng(1).standard_normal(expected.shape).astype(dtype)
    expected.backward(torch.tensor(seed))

    g = gw.Graph()
    xs = [g.placeholder(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
    y = ours(*xs)
    wrt = [x for x, a in zip(xs, arrays, strict=True) if a.dtype.kind == "f"]
    fetches = [y, *gw.gradients(y, wrt, g.constant(seed))]
    with gw.Session(g) as session:
        found = session.run(fetches, dict(zip(xs, arrays, strict=True)))
    wanted = [expected, *(t.grad for t in tensors if t.requires_grad)]
    for f, w in zip(found, wanted, strict=True):
        reference = w.detach().numpy()
        scale = np.abs(reference).max(initial=1.0)
        np.testing.assert_allclose(f, reference, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("name", CASES)
def test_float64(torch: Any, name: str) -> None:
    compare(torch, CASES[name], "float64", 1e-10)


@pytest.mark.parametrize("name", CASES)
def test_float32(torch: Any, name: str) -> None:
    compare(torch, CASES[name], "float32", 1e-5)


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5, 5), (2, 3, 2)])
def test_batch_norm(torch: Any, shape: tuple[int, ...]) -> None:
    """Two training steps and an eval run: results, gradients and running statistics."""
    batches = [normal(*shape) for _ in range(3)]
    norm = torch.nn.BatchNorm1d(3) if len(shape) < 4 else torch.nn.BatchNorm2d(3)
    norm = norm.double()
    weight, bias = normal(3), normal(3)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor(weight)), norm.bias.copy_(torch.tensor(bias))

    g = gw.Graph()
    x = g.placeholder("x", shape, "float64")
    y = gw.nn.batch_norm(x, name="bn")
    g.values["bn/weight"], g.values["bn/bias"] = weight, bias
    wrt = [x, g["bn/weight"], g["bn/bias"]]
    fetches = [y, *gw.gradients((y * y * y).sum(), wrt)]
    with gw.Session(g) as session:
        for batch, training in zip(batches, (True, True, False), strict=True):
            norm.train(training), norm.zero_grad()
            t = torch.tensor(batch, requires_grad=True)
            expected = norm(t)
            (expected**3).sum().backward()
            updates = g.updates if training else None
            found = session.run(fetches, {x: batch}, updates, training=training)
            wanted = [expected, t.grad, norm.weight.grad, norm.bias.grad]
            for f, w in zip(found, wanted, strict=True):
                np.testing.assert_allclose(f, w.detach().numpy(), rtol=1e-10, atol=1e-10)
    for name in ("running_mean", "running_var"):
        reference = getattr(norm, name).numpy()
        np.testing.assert_allclose(g.values[f"bn/{name}"], reference, rtol=1e-12)


def test_second_order(torch: Any) -> None:
    """Hessian-vector products through convolution, pooling and cross entropy."""
    arrays = [normal(2, 2, 6, 6), normal(3, 2, 3, 3), normal(12, 4)]
    labels = np.array([3, 1])

    def network(x: Any, w: Any, v: Any, tanh: Any, conv: Any, pool: Any, flat: Any) -> Any:
        return flat(pool(tanh(conv(x, w)))) @ v

    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    logits = network(
        *tensors,
        torch.tanh,
        lambda x, w: F(torch).conv2d(x, w),
        lambda x: F(torch).max_pool2d(x, 2),
        lambda x: x.reshape(2, 12),
    )
    loss = F(torch).cross_entropy(logits, torch.tensor(labels))
    first = torch.autograd.grad(loss, tensors, create_graph=True)
    expected = torch.autograd.grad(sum((d * d).sum() for d in first), tensors)

    g = gw.Graph()
    xs = [g.placeholder(f"x{i}", a.shape, "float64") for i, a in enumerate(arrays)]
    logits = network(
        *xs,
        gw.tanh,
        gw.cnn.conv2d,
        lambda x: gw.cnn.max_pool2d(x, 2),
        lambda x: x.reshape(2, 12),
    )
    loss = gw.loss.sparse_softmax_cross_entropy(g.constant(labels), logits)
    first = gw.gradients(loss, xs)
    second = gw.gradients(sum((d * d).sum() for d in first), xs)
    found = g.output(dict(zip(xs, arrays, strict=True)), *second).values()
    for f, w in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, w.numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("shape", [(16, 3, 5, 7), (8, 4, 3), (2, 3, 4, 5, 6)])
def test_fans(torch: Any, shape: tuple[int, ...]) -> None:
    reference = torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(shape))
    assert gw.init.fans(shape) == reference


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves(torch: Any, dtype: str) -> None:
    """Norms and softmax of halves are as near to float64 as torch's own."""
    x = (normal(4, 64) * 3 + 2).astype(np.float32)
    half = gw.spec.dtype(dtype)
    for ours, theirs in (
        (gw.nn.layer_norm, lambda x: F(torch).layer_norm(x, (64,))),
        (gw.nn.rms_norm, lambda x: F(torch).rms_norm(x, (64,), None, 1e-5)),
        (gw.nn.softmax, lambda x: F(torch).softmax(x, -1)),
        (gw.nn.log_softmax, lambda x: F(torch).log_softmax(x, -1)),
        (gw.nn.gelu, lambda x: F(torch).gelu(x)),
    ):
        g = gw.Graph()
        y = ours(g.placeholder("x", x.shape, dtype), name="y")
        found = g.output({"x": x.astype(half)}, y)["y"].astype(np.float64)
        rounded = torch.tensor(x.astype(half).astype(np.float64))
        exact = theirs(rounded).numpy()
        other = theirs(rounded.to(getattr(torch, dtype))).double().numpy()
        assert np.abs(found - exact).max() <= 2 * np.abs(other - exact).max() + 1e-6
