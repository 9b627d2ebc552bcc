"""EfficientNet's MBConv blocks (Tan and Le 2019) train as Keras's layers, in torch, do."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw

SIDE, STEM, CLASSES, BATCH, STEPS = 8, 4, 3, 8, 20
RATE, RHO, MOMENTUM, EPS, BN_EPS, BN_MOMENTUM = 3e-3, 0.9, 0.9, 1e-3, 1e-3, 0.99
BLOCKS = [  # name, inputs, outputs, expansion, kernel, stride; the second has a residual
    ("block1a", 4, 6, 1, 3, 1),
    ("block2a", 6, 6, 4, 3, 1),
    ("block3a", 6, 8, 4, 5, 2),
]
rng = np.random.default_rng(0)
LABELS = rng.integers(0, CLASSES, (STEPS, BATCH))
IMAGES = rng.standard_normal((STEPS, BATCH, SIDE, SIDE, 3)).astype("float32")
IMAGES += LABELS[:, :, None, None, None] * np.linspace(0, 1, SIDE, dtype="float32")[:, None]


def published(torch, w, x, labels):
    """Return Keras's loss of a batch in training mode, and (mean, variance) of each batch norm.

    Images are NHWC and kernels HWIO. The variance that is averaged is unbiased, as in TensorFlow's
    fused batch norm.
    """
    functional, seen = torch.nn.functional, {}

    def conv(name, x, stride=1):
        kernel = w[f"{name}/kernel"]  # of depthwise ones (k, k, in, 1)
        k, groups = kernel.shape[0], x.shape[-1] if "dwconv" in name else 1
        kernel = kernel.permute(2, 3, 0, 1) if groups > 1 else kernel.permute(3, 2, 0, 1)
        total = max(k - stride if x.shape[1] % stride == 0 else k - x.shape[1] % stride, 0)
        pad = (total // 2, total - total // 2)  # "same": what is odd is at the end
        x = functional.pad(x.permute(0, 3, 1, 2), pad + pad)
        y = functional.conv2d(x, kernel, None, stride, groups=groups).permute(0, 2, 3, 1)
        return y + w.get(f"{name}/bias", 0.0)

    def norm(name, x):
        var, mean = torch.var_mean(x, (0, 1, 2), correction=0)
        seen[name] = mean.detach(), x.detach().var((0, 1, 2))
        return (x - mean) * torch.rsqrt(var + BN_EPS) * w[f"{name}/gamma"] + w[f"{name}/beta"]

    swish = functional.silu
    x = swish(norm("stem_bn", conv("stem_conv", x, 2)))
    for name, inputs, outputs, expansion, _, stride in BLOCKS:
        h = x
        if expansion != 1:
            h = swish(norm(f"{name}_expand_bn", conv(f"{name}_expand_conv", h)))
        h = swish(norm(f"{name}_bn", conv(f"{name}_dwconv", h, stride)))
        squeezed = swish(conv(f"{name}_se_reduce", h.mean((1, 2), keepdim=True)))
        h = h * torch.sigmoid(conv(f"{name}_se_expand", squeezed))
        h = norm(f"{name}_project_bn", conv(f"{name}_project_conv", h))
        x = h + x if stride == 1 and inputs == outputs else h
    logits = x.mean((1, 2)) @ w["predictions/kernel"] + w["predictions/bias"]
    return functional.cross_entropy(logits, labels), seen


def rmsprop(torch, w, state):
    """Make a step of keras.optimizers.RMSprop: epsilon under the root, the rate in the momentum."""
    for name, p in w.items():
        v, u = state.get(name, (0.0, 0.0))
        v = RHO * v + (1 - RHO) * p.grad**2
        u = MOMENTUM * u + RATE * p.grad / torch.sqrt(v + EPS)
        w[name], state[name] = (p.detach() - u).requires_grad_(), (v, u)


def ported() -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph("mbconv")

    def conv(name, x, outputs, k, stride=1, bias=False):
        """Convolve images; as depthwise convolution where outputs is None."""
        shape = (outputs or x.shape[1], x.shape[1] if outputs else 1, k, k)
        kernel = g.variable(f"{name}/kernel", shape, init=gw.init.glorot_uniform(seed=len(g.nodes)))
        b = g.variable(f"{name}/bias", (outputs,)) if bias else None
        layer = gw.cnn.conv2d if outputs else gw.cnn.depthwise_conv2d
        return layer(x, kernel, b, stride=stride, padding="same")

    def norm(name, x):
        return gw.nn.batch_norm(x, momentum=1 - BN_MOMENTUM, eps=BN_EPS, name=name)

    x = g.placeholder("x", (None, SIDE, SIDE, 3)).transpose(0, 3, 1, 2)
    labels = g.placeholder("labels", (None,), "int64")
    x = gw.nn.swish(norm("stem_bn", conv("stem_conv", x, STEM, 3, 2)))
    for name, inputs, outputs, expansion, k, stride in BLOCKS:
        h = x
        if expansion != 1:
            h = conv(f"{name}_expand_conv", h, inputs * expansion, 1)
            h = gw.nn.swish(norm(f"{name}_expand_bn", h))
        h = gw.nn.swish(norm(f"{name}_bn", conv(f"{name}_dwconv", h, None, k, stride)))
        reduced = max(1, inputs // 4)
        squeezed = conv(f"{name}_se_reduce", gw.cnn.global_avg_pool(h), reduced, 1, bias=True)
        squeezed = conv(f"{name}_se_expand", gw.nn.swish(squeezed), h.shape[1], 1, bias=True)
        h = norm(
            f"{name}_project_bn",
            conv(f"{name}_project_conv", h * gw.nn.sigmoid(squeezed), outputs, 1),
        )
        x = h + x if stride == 1 and inputs == outputs else h
    w = g.variable("predictions/kernel", (x.shape[1], CLASSES), init=gw.init.glorot_uniform(seed=0))
    b = g.variable("predictions/bias", (CLASSES,))
    logits = gw.nn.linear(x.mean(axis=(2, 3)), w, b)
    return g, gw.loss.sparse_softmax_cross_entropy(labels, logits, name="loss")


def keras(g: gw.Graph) -> dict[str, np.ndarray]:
    """Return values of the variables in Keras's names and layouts."""
    held = {}
    for variable in g.variables:
        layer, _, part = variable.name.rpartition("/")
        a, axes = g.values[variable.name], (2, 3, 0, 1) if "dwconv" in layer else (2, 3, 1, 0)
        part = {"weight": "gamma", "running_mean": "mean", "running_var": "variance"}.get(
            part, part
        )
        if layer.endswith("bn"):
            part = part.replace("bias", "beta")
        held[f"{layer}/{part}"] = np.array(a.transpose(axes) if a.ndim == 4 else a)
    return held


def test_rmsprop_with_momentum_and_running_statistics_go_the_same_way() -> None:
    torch = pytest.importorskip("torch", reason="pip install -e '.[oracle]'")
    g, loss = ported()
    w = {k: v for k, v in keras(g).items() if not k.endswith(("mean", "variance"))}
    w = {name: torch.tensor(a, requires_grad=True) for name, a in w.items()}
    optimizer = gw.optim.RMSProp(RATE, rho=RHO, eps=EPS, momentum=MOMENTUM, eps_inside=True)
    trainer = gw.Trainer(g, loss, optimizer)
    wanted, found, state, running = [], [], {}, {}
    for images, labels in zip(IMAGES, LABELS, strict=True):
        value, seen = published(torch, w, torch.tensor(images), torch.tensor(labels))
        value.backward()
        rmsprop(torch, w, state)
        for name, now in seen.items():
            old = zip(running.get(name, (0.0, 1.0)), now, strict=True)
            running[name] = [o * BN_MOMENTUM + n * (1 - BN_MOMENTUM) for o, n in old]
        wanted.append(value.item())
        found.append(trainer.step({"x": images, "labels": labels}).metrics["loss"])
    np.testing.assert_allclose(found, wanted, 1e-4)
    assert found[-1] < 0.9 * found[0]
    after = keras(g)
    for name, p in w.items():
        np.testing.assert_allclose(after[name], p.detach().numpy(), 1e-3, 1e-4, err_msg=name)
    for name, (mean, var) in running.items():
        np.testing.assert_allclose(after[f"{name}/mean"], mean, 1e-3, 1e-5, err_msg=name)
        np.testing.assert_allclose(after[f"{name}/variance"], var, 1e-4, err_msg=name)
