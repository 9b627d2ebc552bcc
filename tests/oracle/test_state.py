"""What is more than one op and one gradient beside PyTorch: statistics, second order, fans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from tests.oracle.rows import normal


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
        lambda x, w: torch.nn.functional.conv2d(x, w),
        lambda x: torch.nn.functional.max_pool2d(x, 2),
        lambda x: x.reshape(2, 12),
    )
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(labels))
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
