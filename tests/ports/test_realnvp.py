"""A normalising flow, RealNVP (Dinh et al. 2017), trains as torch's does, in float64."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gradwright as gw

SIZE, HIDDEN, LAYERS, BATCH, STEPS = 4, 16, 4, 16, 20
RATE, CLIP, EVERY, FACTOR = 0.05, 2.0, 6, 0.5

rng = np.random.default_rng(0)
BATCHES = [rng.standard_normal((BATCH, SIZE)) for _ in range(STEPS)]
BATCHES = [
    np.stack([a[:, 0], a[:, 0] ** 2 + a[:, 1], 2 * a[:, 2], a[:, 3] + 1], 1) for a in BATCHES
]
MASKS = [np.array([i % 2, 1 - i % 2] * (SIZE // 2), "float64") for i in range(LAYERS)]


def published():
    """Return the flow as a torch module, in float64."""
    torch = pytest.importorskip("torch", reason="pip install -e '.[oracle]'")
    from torch import nn

    def net(last: type[nn.Module] | None) -> nn.Sequential:
        layers = [nn.Linear(SIZE, HIDDEN), nn.LeakyReLU(), nn.Linear(HIDDEN, HIDDEN)]
        layers += [nn.LeakyReLU(), nn.Linear(HIDDEN, SIZE)]
        return nn.Sequential(*layers, *([last()] if last else []))

    class RealNVP(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask = [torch.tensor(mask) for mask in MASKS]
            self.s = nn.ModuleList(net(nn.Tanh) for _ in MASKS)
            self.t = nn.ModuleList(net(None) for _ in MASKS)
            self.prior = torch.distributions.MultivariateNormal(
                torch.zeros(SIZE, dtype=torch.float64), torch.eye(SIZE, dtype=torch.float64)
            )

        def log_prob(self, x):
            log_det, z = x.new_zeros(x.shape[0]), x
            for i in reversed(range(len(self.mask))):
                seen = self.mask[i] * z
                s = self.s[i](seen) * (1 - self.mask[i])
                t = self.t[i](seen) * (1 - self.mask[i])
                z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + seen
                log_det -= s.sum(dim=1)
            return self.prior.log_prob(z) + log_det

    torch.manual_seed(0)
    return RealNVP().double(), torch


def net(g: gw.Graph, name: str, x: gw.Tensor) -> gw.Tensor:
    """Return three linear layers of x, with leaky relus between."""
    sizes = [SIZE, HIDDEN, HIDDEN, SIZE]
    for i, shape in enumerate(itertools.pairwise(sizes)):
        start = gw.init.fan_in_uniform(seed=i)
        w = g.variable(f"{name}/{2 * i}/weight", shape, init=start, dtype="float64")
        b = g.variable(f"{name}/{2 * i}/bias", shape[1:], dtype="float64")
        x = gw.nn.linear(x if i == 0 else gw.nn.leaky_relu(x), w, b)
    return x


def ported() -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph("realnvp")
    z = g.placeholder("x", (None, SIZE), dtype="float64")
    log_det = 0.0
    for i in reversed(range(LAYERS)):
        seen = MASKS[i] * z
        s = gw.tanh(net(g, f"s/{i}", seen)) * (1 - MASKS[i])
        t = net(g, f"t/{i}", seen) * (1 - MASKS[i])
        z = (1 - MASKS[i]) * (z - t) * gw.exp(-s) + seen
        log_det = log_det - s.sum(axis=1)
    log_prior = -0.5 * (z**2).sum(axis=1) - 0.5 * SIZE * math.log(2 * math.pi)
    return g, gw.identity(-(log_prior + log_det).mean(), name="loss")


def test_sgd_with_nesterov_momentum_clipping_and_steps_goes_the_same_way() -> None:
    theirs, torch = published()
    g, loss = ported()
    named = {name.replace(".", "/"): p for name, p in theirs.named_parameters()}
    assert sorted(named) == sorted(v.name for v in g.trainable)
    for name, p in named.items():
        g.values[name] = p.detach().numpy().T.copy()
    optimizer = torch.optim.SGD(theirs.parameters(), RATE, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, EVERY, FACTOR)
    trainer = gw.Trainer(
        g,
        loss,
        gw.optim.SGD(gw.schedules.Step(RATE, EVERY, FACTOR), momentum=0.9, nesterov=True),
        clip_norm=CLIP,
    )
    wanted, norms, found = [], [], []
    for x in BATCHES:
        optimizer.zero_grad()
        nll = -theirs.log_prob(torch.tensor(x)).mean()
        nll.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(theirs.parameters(), CLIP).item())
        optimizer.step()
        schedule.step()
        wanted.append(nll.item())
        found.append(trainer.step({"x": x}).metrics["loss"])
    assert min(norms) < CLIP < max(norms)  # some steps are clipped, and some are not
    np.testing.assert_allclose(found, wanted, 1e-5)  # torch divides by ‖g‖ + 1e-6
    for name, p in named.items():
        np.testing.assert_allclose(g.values[name].T, p.detach().numpy(), 1e-4, 1e-6, err_msg=name)
