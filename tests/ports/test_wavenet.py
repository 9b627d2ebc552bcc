"""A WaveNet (van den Oord et al. 2016) of Keras's causal layers trains as one written in torch."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw

LEVELS, RESIDUAL, SKIP, TIME, BATCH, STEPS = 16, 8, 12, 24, 4, 20
DILATIONS = [1, 2, 4, 8]
RATE, EVERY, FACTOR, START, EPS, CLIP = 0.2, 5, 0.7, 0.1, 1e-7, 0.5

rng = np.random.default_rng(0)
PHASES = rng.uniform(0, 2 * np.pi, (STEPS, BATCH, 1))
WAVES = np.sin(PHASES + np.arange(TIME + 1) / 3)
LOUD = np.log1p(255 * np.abs(WAVES)) / np.log(256) * np.sign(WAVES)  # μ-law
IDS = np.clip(np.floor((LOUD + 1) / 2 * LEVELS), 0, LEVELS - 1).astype("int64")


def published(torch, w, ids):
    """Return logits [B, T, levels]; kernels are [k, in, out] and see the past alone."""
    from torch.nn import functional

    def conv(name, x, dilation=1):
        kernel, y = w[f"{name}/kernel"], w[f"{name}/bias"]
        for back, tap in enumerate(reversed(kernel.unbind())):
            late = back * dilation
            y = y + functional.pad(x, (0, 0, late, 0))[:, : x.shape[1]] @ tap
        return y

    x = conv("front", functional.one_hot(ids, LEVELS).to(torch.float32))
    skips = 0.0
    for i, dilation in enumerate(DILATIONS):
        gated = torch.tanh(conv(f"{i}/filter", x, dilation))
        gated = gated * torch.sigmoid(conv(f"{i}/gate", x, dilation))
        x = x + conv(f"{i}/residual", gated)
        skips = skips + conv(f"{i}/skip", gated)
    return conv("last", torch.relu(conv("out", torch.relu(skips))))


def adagrad(torch, w, squares, rate):
    """Make a step of keras.optimizers.Adagrad with global_clipnorm; epsilon is under the root."""
    norm = torch.sqrt(sum((p.grad**2).sum() for p in w.values() if p.grad is not None))
    for name, p in w.items():
        if p.grad is None:
            continue
        grad = p.grad * min(1.0, CLIP / norm.item())
        squares[name] = squares.get(name, START) + grad**2
        w[name] = (p.detach() - rate * grad / torch.sqrt(squares[name] + EPS)).requires_grad_()
    return norm.item()


def ported() -> tuple[gw.Graph, gw.Tensor, gw.Tensor]:
    g = gw.Graph("wavenet")

    def conv(name, x, outputs, k=1, dilation=1):
        """Convolve signals f32[B, C, T] with what came before."""
        start = gw.init.glorot_uniform(seed=len(g.nodes))
        kernel = g.variable(f"{name}/kernel", (outputs, x.shape[1], k), init=start)
        bias = g.variable(f"{name}/bias", (outputs,))
        return gw.cnn.conv1d(x, kernel, bias, padding=[((k - 1) * dilation, 0)], dilation=dilation)

    ids = g.placeholder("ids", (None, TIME), "int64")
    following = g.placeholder("following", (None, TIME), "int64")
    x = conv("front", gw.one_hot(ids, LEVELS).transpose(0, 2, 1), RESIDUAL, 2)
    skips = []
    for i, dilation in enumerate(DILATIONS):
        gated = gw.tanh(conv(f"{i}/filter", x, RESIDUAL, 2, dilation))
        gated = gated * gw.nn.sigmoid(conv(f"{i}/gate", x, RESIDUAL, 2, dilation))
        x = x + conv(f"{i}/residual", gated, RESIDUAL)
        skips.append(conv(f"{i}/skip", gated, SKIP))
    x = conv("out", gw.nn.relu(gw.add_n(skips)), SKIP)
    logits = conv("last", gw.nn.relu(x), LEVELS)
    g.freeze(f"{i}/residual/*")  # nothing follows it; Keras only warns that it has no gradient
    loss = gw.loss.sparse_softmax_cross_entropy(following, logits, axis=1, name="loss")
    return g, loss, logits


def keras(g: gw.Graph) -> dict[str, np.ndarray]:
    """Return the parameters with kernels as Keras has them: [k, in, out]."""
    held = {v.name: g.values[v.name] for v in g.variables}
    return {n: np.array(a.transpose(2, 1, 0) if a.ndim == 3 else a) for n, a in held.items()}


def test_adagrad_with_clipping_and_a_staircase_goes_the_same_way() -> None:
    torch = pytest.importorskip("torch", reason="pip install -e '.[oracle]'")
    g, loss, _ = ported()
    w = {name: torch.tensor(a, requires_grad=True) for name, a in keras(g).items()}
    rate = gw.schedules.Step(RATE, EVERY, FACTOR)
    trainer = gw.Trainer(g, loss, gw.optim.AdaGrad(rate, eps=EPS, initial=START), clip_norm=CLIP)
    wanted, norms, found, squares = [], [], [], {}
    for step, ids in enumerate(IDS):
        logits = published(torch, w, torch.tensor(ids[:, :-1]))
        value = torch.nn.functional.cross_entropy(logits.mT, torch.tensor(ids[:, 1:]))
        value.backward()
        norms.append(adagrad(torch, w, squares, RATE * FACTOR ** (step // EVERY)))
        wanted.append(value.item())
        record = trainer.step({"ids": ids[:, :-1], "following": ids[:, 1:]})
        found.append(record.metrics["loss"])
    assert min(norms) < CLIP < max(norms)  # some steps are clipped, and some are not
    np.testing.assert_allclose(found, wanted, 1e-5)
    assert found[-1] < 0.7 * found[0]
    after = keras(g)
    for name, p in w.items():
        np.testing.assert_allclose(after[name], p.detach().numpy(), 1e-4, 1e-5, err_msg=name)


def test_no_sample_depends_on_later_ones() -> None:
    g, _, logits = ported()
    changed = IDS[0][:, :-1].copy()
    changed[:, 10:] = 0
    one, two = (g.output({"ids": ids}, logits)[logits.name] for ids in (IDS[0][:, :-1], changed))
    np.testing.assert_array_equal(one[..., :10], two[..., :10])
    assert (one[..., 10] != two[..., 10]).any()
