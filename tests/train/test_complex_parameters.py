"""Complex parameters train as torch's do: two real ones each, along 2·∂L/∂p̄."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright import optim

RNG = np.random.default_rng(0)
START = RNG.standard_normal((3, 4)) + 1j * RNG.standard_normal((3, 4))
BIAS = RNG.standard_normal(4)
X = RNG.standard_normal((16, 3)) + 1j * RNG.standard_normal((16, 3))
T = RNG.standard_normal((16, 4))
STEPS = 8

OURS: dict[str, tuple[optim.Optimizer, str, dict[str, Any]]] = {
    "sgd": (optim.SGD(0.05, momentum=0.9, weight_decay=0.1), "SGD",
            {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1}),
    "adam": (optim.Adam(0.05), "Adam", {"lr": 0.05}),
    "adamw": (optim.AdamW(0.05, weight_decay=0.2), "AdamW", {"lr": 0.05, "weight_decay": 0.2}),
    "amsgrad": (optim.AMSGrad(0.05), "Adam", {"lr": 0.05, "amsgrad": True}),
    "rmsprop": (optim.RMSProp(0.01, rho=0.99, momentum=0.5, centered=True), "RMSprop",
                {"lr": 0.01, "momentum": 0.5, "centered": True}),
    "adagrad": (optim.AdaGrad(0.1, eps=1e-10), "Adagrad", {"lr": 0.1}),
    "adadelta": (optim.AdaDelta(rho=0.9), "Adadelta", {"lr": 1.0}),
    "radam": (optim.RAdam(0.05), "RAdam", {"lr": 0.05}),
    "adamax": (optim.AdaMax(0.05), "Adamax", {"lr": 0.05}),
}  # fmt: skip


def net(optimizer: optim.Optimizer, dtype: str = "complex128", **options: Any) -> gw.Trainer:
    """Return a trainer of mean (|x·w|² + b − t)²."""
    real = "float64" if dtype == "complex128" else "float32"
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 3), dtype), g.placeholder("t", (None, 4), real)
    w, b = g.variable("w", init=START.astype(dtype)), g.variable("b", init=BIAS.astype(real))
    h = x @ w
    loss = ((gw.real(h * gw.conj(h)) + b - t) ** 2.0).mean()
    return gw.Trainer(g, loss, optimizer, **options)


def torch_s(torch: Any, name: str, options: Any, clip: float | None = None) -> Any:
    """Return torch's parameters after the steps."""
    w, b = (torch.nn.Parameter(torch.tensor(a)) for a in (START, BIAS))
    optimizer = getattr(torch.optim, name)([w, b], **options)
    for _ in range(STEPS):
        optimizer.zero_grad()
        h = torch.tensor(X) @ w
        ((h.abs() ** 2 + b - torch.tensor(T)) ** 2).mean().backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_([w, b], clip)
        optimizer.step()
    return w.detach().numpy(), b.detach().numpy()


@pytest.mark.parametrize("name", OURS)
def test_steps_are_those_of_torch(name: str, torch: Any) -> None:
    ours, theirs, options = OURS[name]
    trainer = net(ours)
    for _ in range(STEPS):
        trainer.step({"x": X, "t": T})
    w, b = torch_s(torch, theirs, options)
    np.testing.assert_allclose(trainer.values["w"], w, 1e-8)
    np.testing.assert_allclose(trainer.values["b"], b, 1e-8)


def test_clipping_counts_both_parts(torch: Any) -> None:
    trainer = net(optim.Adam(0.05), clip_norm=0.5)
    for _ in range(STEPS):
        trainer.step({"x": X, "t": T})
    w, _ = torch_s(torch, "Adam", {"lr": 0.05}, clip=0.5)
    np.testing.assert_allclose(trainer.values["w"], w, 1e-5)


def test_state_is_of_pairs_and_a_resume_ends_with_the_same_bits() -> None:
    whole, half = (net(optim.Adam(0.05), "complex64", deterministic=True) for _ in range(2))
    for i in range(6):
        whole.step({"x": X, "t": T})
        if i < 3:
            half.step({"x": X, "t": T})
    again = net(optim.Adam(0.05), "complex64", deterministic=True)
    again.values.commit({n: half.values[n] for n in ("w", "b")})
    state = half.state_dict()
    again.load_state_dict(state)
    for _ in range(3):
        again.step({"x": X, "t": T})
    assert state["state/w/m"].shape == (3, 4, 2) and state["state/w/m"].dtype == np.float32
    assert whole.values["w"].tobytes() == again.values["w"].tobytes()
    assert whole.values["w"].dtype == np.complex64


@pytest.mark.parametrize(
    "optimizer",
    [optim.LAMB(0.01), optim.Nadam(0.01), optim.Lion(0.01), optim.AdaBelief(0.01),
     optim.ScheduleFreeAdamW(0.01), optim.Nesterov(0.001), optim.Adafactor(0.01),
     optim.Adam8bit(0.01, min_size=0, block_size=8)],
    ids=lambda o: type(o).__name__,
)  # fmt: skip
def test_the_other_optimizers_make_the_loss_smaller(optimizer: optim.Optimizer) -> None:
    trainer = net(optimizer, "complex64")
    losses = [trainer.step({"x": X, "t": T}) for _ in range(25)]
    first, last = (record.metrics["loss"] for record in (losses[0], losses[-1]) if record)
    assert np.isfinite(last) and last < first
    if optimizer.average:
        with trainer.averaged("optimizer"):
            assert trainer.values["w"].dtype == np.complex64


def test_penalties_and_decay_are_of_moduli() -> None:
    trainer = net(optim.SGD(0.0), l2=0.5, l1=0.25)
    record = trainer.step({"x": X, "t": T})
    assert record is not None
    every = [np.abs(START), np.abs(BIAS)]
    l1, l2 = (sum(float((a**n).sum()) for a in every) for n in (1, 2))
    np.testing.assert_allclose(record.metrics["l1_penalty"], 0.25 * l1)
    np.testing.assert_allclose(record.metrics["l2_penalty"], 0.25 * l2)
    shrunk = net(optim.Adam(0.1), weight_decay=0.5)
    plain = net(optim.Adam(0.1))
    for other in (shrunk, plain):
        other.step({"x": X, "t": T})
    np.testing.assert_allclose(shrunk.values["w"], plain.values["w"] - 0.05 * START, 1e-12)
