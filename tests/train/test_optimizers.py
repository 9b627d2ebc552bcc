"""Twenty steps of each optimizer beside torch.optim, optax and schedulefree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright import optim
from tests.support.fed_gradients import (
    MATRICES,
    SHAPES,
    Arrays,
    fed,
    gradients,
    linear,
    optax_trajectory,
    starts,
    torch_trajectory,
    trajectory,
)

STEPS = 20
BETAS = {"beta1": 0.8, "beta2": 0.99}
MOMENTS = {"betas": (0.8, 0.99)}


def agree(ours: Iterator[Arrays], theirs: Iterator[Arrays], tolerance: float) -> None:
    """Compare all parameters after each step."""
    steps = 0
    for steps, (mine, other) in enumerate(zip(ours, theirs, strict=True), 1):
        for name, expected in other.items():
            np.testing.assert_allclose(
                mine[name], expected, tolerance, tolerance, err_msg=f"{name}, step {steps}"
            )
    assert steps == STEPS


# ours, torch's class and its options
TORCH: dict[str, tuple[optim.Optimizer, str, dict[str, Any]]] = {
    "momentum": (optim.SGD(0.1, momentum=0.8, weight_decay=0.1), "SGD",
                 {"lr": 0.1, "momentum": 0.8, "weight_decay": 0.1}),
    "sgd, nesterov": (optim.SGD(0.1, momentum=0.8, nesterov=True, weight_decay=0.1), "SGD",
                      {"lr": 0.1, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1}),
    "nesterov": (optim.Nesterov(0.1, momentum=0.8, weight_decay=0.1), "SGD",
                 {"lr": 0.1, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1}),
    "adagrad": (optim.AdaGrad(0.1, eps=1e-4, initial=0.3, weight_decay=0.1), "Adagrad",
                {"lr": 0.1, "eps": 1e-4, "initial_accumulator_value": 0.3, "weight_decay": 0.1}),
    "adadelta": (optim.AdaDelta(0.7, rho=0.9, weight_decay=0.1), "Adadelta",
                 {"lr": 0.7, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.1}),
    "rmsprop": (optim.RMSProp(0.01, rho=0.8, eps=1e-3, weight_decay=0.1), "RMSprop",
                {"lr": 0.01, "alpha": 0.8, "eps": 1e-3, "weight_decay": 0.1}),
    "rmsprop, momentum": (optim.RMSProp(0.01, rho=0.8, momentum=0.7, weight_decay=0.1), "RMSprop",
                          {"lr": 0.01, "alpha": 0.8, "momentum": 0.7, "weight_decay": 0.1}),
    "rmsprop, centered": (optim.RMSProp(0.01, rho=0.8, centered=True, weight_decay=0.1), "RMSprop",
                          {"lr": 0.01, "alpha": 0.8, "centered": True, "weight_decay": 0.1}),
    "rmsprop, both": (optim.RMSProp(0.01, rho=0.8, centered=True, momentum=0.7), "RMSprop",
                      {"lr": 0.01, "alpha": 0.8, "centered": True, "momentum": 0.7}),
    "adam": (optim.Adam(0.05, **BETAS), "Adam", {"lr": 0.05, **MOMENTS}),
    "adamw": (optim.AdamW(0.05, **BETAS, weight_decay=0.2), "AdamW",
              {"lr": 0.05, **MOMENTS, "weight_decay": 0.2}),
    "amsgrad": (optim.AMSGrad(0.05, **BETAS, weight_decay=0.2), "AdamW",
                {"lr": 0.05, **MOMENTS, "weight_decay": 0.2, "amsgrad": True}),
    "adamax": (optim.AdaMax(0.05, **BETAS, weight_decay=0.2), "Adamax",
               {"lr": 0.05, **MOMENTS, "weight_decay": 0.2}),
    "nadam, by the paper": (
        optim.Nadam(0.05, **BETAS, momentum_decay=0.004, weight_decay=0.2), "NAdam",
        {"lr": 0.05, **MOMENTS, "momentum_decay": 0.004, "weight_decay": 0.2,
         "decoupled_weight_decay": True}),
    "radam": (optim.RAdam(0.05, **BETAS, weight_decay=0.2), "RAdam",
              {"lr": 0.05, **MOMENTS, "weight_decay": 0.2}),
    "adafactor": (optim.Adafactor(0.3, weight_decay=0.2), "Adafactor",
                  {"lr": 0.3, "weight_decay": 0.2}),
    "adafactor, unclipped": (optim.Adafactor(0.05, clip_threshold=1e9, beta2_decay=0.5),
                             "Adafactor", {"lr": 0.05, "d": 1e9, "beta2_decay": -0.5}),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TORCH)
def test_optimizers_step_as_torch_s(name: str, dtype: str, torch: Any) -> None:
    optimizer, theirs, options = TORCH[name]
    shapes = {n: s for n, s in SHAPES.items() if theirs != "Adafactor" or 0 not in s}
    given = list(gradients(STEPS, shapes, dtype))

    def make(params: Any) -> Any:
        return getattr(torch.optim, theirs)(params, **options)

    agree(
        trajectory(linear(optimizer, shapes, dtype), iter(given)),
        torch_trajectory(torch, make, iter(given), shapes, dtype),
        1e-5 if dtype == "float32" else 1e-7 if theirs == "NAdam" else 1e-10,  # its Π is float32
    )


# ours, and how optax makes it
OPTAX: dict[str, tuple[optim.Optimizer, Any]] = {
    "adabelief": (
        optim.AdaBelief(0.05, **BETAS, eps=1e-10),
        lambda o: o.adabelief(0.05, 0.8, 0.99, eps=1e-10, eps_root=1e-10),
    ),
    "nadam": (optim.Nadam(0.05, **BETAS), lambda o: o.nadam(0.05, 0.8, 0.99)),
    "nadamw": (
        optim.Nadam(0.05, **BETAS, weight_decay=0.2),
        lambda o: o.nadamw(0.05, 0.8, 0.99, weight_decay=0.2),
    ),
    "lamb": (
        optim.LAMB(0.05, **BETAS, weight_decay=0.2),
        lambda o: o.lamb(0.05, 0.8, 0.99, weight_decay=0.2),
    ),
    "lion": (
        optim.Lion(0.05, beta1=0.8, weight_decay=0.2),
        lambda o: o.lion(0.05, 0.8, 0.99, weight_decay=0.2),
    ),
    "adamax": (optim.AdaMax(0.05, **BETAS), lambda o: o.adamax(0.05, 0.8, 0.99)),
    "rmsprop, eps inside": (
        optim.RMSProp(0.01, rho=0.8, eps=1e-3, eps_inside=True),
        lambda o: o.rmsprop(0.01, 0.8, eps=1e-3),
    ),
    "rmsprop, all": (
        optim.RMSProp(0.01, rho=0.8, eps=1e-3, eps_inside=True, centered=True, momentum=0.7),
        lambda o: o.rmsprop(0.01, 0.8, eps=1e-3, centered=True, momentum=0.7),
    ),
    "adafactor": (
        optim.Adafactor(0.05, relative_step=False),
        lambda o: o.adafactor(0.05, min_dim_size_to_factor=1),
    ),
    "adafactor, absolute": (
        optim.Adafactor(0.05, relative_step=False, scale_parameter=False),
        lambda o: o.adafactor(0.05, min_dim_size_to_factor=1, multiply_by_parameter_scale=False),
    ),
}


@pytest.mark.parametrize("name", OPTAX)
def test_optimizers_step_as_optax_s(name: str, jax: Any) -> None:
    optax = pytest.importorskip("optax", reason="no optax: pip install -e '.[oracle]'")
    optimizer, make = OPTAX[name]
    kept = {"adafactor": ("w", "b", "s"), "lamb": ("w", "b", "s", "t")}.get(name.split(",")[0])
    shapes = {n: s for n, s in SHAPES.items() if kept is None or n in kept}
    given = list(gradients(STEPS, shapes))
    theirs = optax_trajectory(make(optax), iter(given), starts(shapes))
    exact = 1e-7 if name.startswith("adafactor") else 1e-9  # its β is float32
    agree(trajectory(linear(optimizer, shapes), iter(given)), theirs, exact)


@pytest.mark.parametrize("r", [0.0, 1.0])
def test_schedule_free_is_its_authors(r: float, torch: Any) -> None:
    """Both points: y, where gradients are taken, and x, which is used; with a warm-up."""
    schedulefree = pytest.importorskip(
        "schedulefree", reason="no schedulefree: pip install -e '.[oracle]'"
    )
    ours = linear(
        optim.ScheduleFreeAdamW(
            lambda step: 0.05 * min(1, (step + 1) / 5), beta1=0.8, beta2=0.99, r=r,
            weight_decay=0.2,
        )
    )  # fmt: skip
    params = {n: torch.nn.Parameter(torch.tensor(a)) for n, a in starts().items()}
    theirs = schedulefree.AdamWScheduleFree(
        params.values(), lr=0.05, betas=(0.8, 0.99), weight_decay=0.2, warmup_steps=5, r=r,
        foreach=False,
    )  # fmt: skip
    theirs.train()
    for grads in gradients(STEPS):
        ours.step(fed(grads))
        for n, p in params.items():
            p.grad = torch.tensor(grads[n])
        theirs.step()
        y = {n: p.detach().numpy().copy() for n, p in params.items()}
        theirs.eval()
        x = {n: p.detach().numpy().copy() for n, p in params.items()}
        theirs.train()
        state = ours.state_dict()
        for n in SHAPES:
            np.testing.assert_allclose(ours.values[n], y[n], 1e-9, 1e-9)
            np.testing.assert_allclose(state[f"state/{n}/average"], x[n], 1e-9, 1e-9)


# -- Muon ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 4), (5, 2), (3, 3), (1, 4)])
def test_newton_schulz_is_optax_s(shape: tuple[int, int], jax: Any, rng: Any) -> None:
    muon = pytest.importorskip("optax.contrib._muon", reason="no optax: pip install -e '.[oracle]'")
    x = rng.standard_normal(shape)
    coefficients = jax.numpy.asarray((3.4445, -4.775, 2.0315))
    expected = muon.orthogonalize_via_newton_schulz(jax.numpy.asarray(x), coefficients, eps=1e-7)
    g = gw.Graph()
    y = gw.training.newton_schulz(g.constant(x))
    np.testing.assert_allclose(g.output({}, y)[y.name], np.asarray(expected), 1e-10)


def newton_schulz(x: Any) -> Any:
    x = x.T if (tall := x.shape[0] > x.shape[1]) else x
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(5):
        s = x @ x.T
        x = 3.4445 * x + (-4.775 * s + 2.0315 * s @ s) @ x
    return x.T if tall else x


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("scaling", ["original", "match_rms_adamw"])
def test_muon_is_torch_s_but_for_its_bfloat16(
    scaling: str, nesterov: bool, torch: Any, monkeypatch: Any
) -> None:
    """torch's, whose iteration is put into float64; with its own, the steps are near."""
    module = pytest.importorskip("torch.optim._muon", reason="torch < 2.9 has no Muon")
    options = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.2, "nesterov": nesterov}
    optimizer = optim.Muon(
        0.05, momentum=0.9, nesterov=nesterov, weight_decay=0.2, scaling=scaling, outputs="rows"
    )
    given = list(gradients(STEPS, MATRICES))

    def theirs() -> Iterator[Arrays]:
        def make(params: Any) -> Any:
            return torch.optim.Muon(params, adjust_lr_fn=scaling, **options)

        return torch_trajectory(torch, make, iter(given), MATRICES, "float64")

    coarse = list(theirs())
    monkeypatch.setattr(
        module, "_zeropower_via_newtonschulz",
        lambda x, *_: torch.tensor(newton_schulz(x.numpy())),
    )  # fmt: skip
    ours = list(trajectory(linear(optimizer, MATRICES), iter(given)))
    agree(iter(ours), theirs(), 1e-9)
    moved = ours[-1]["w"] - starts(MATRICES)["w"]
    assert np.abs(ours[-1]["w"] - coarse[-1]["w"]).max() < 0.05 * np.abs(moved).max()


def test_muon_is_optax_s_without_its_correction(jax: Any) -> None:
    contrib = pytest.importorskip("optax.contrib", reason="no optax: pip install -e '.[oracle]'")
    given = list(gradients(STEPS, MATRICES))
    transform = contrib.muon(0.05, beta=0.9, weight_decay=0.2, nesterov=False, eps=1e-12)
    ours = linear(optim.Muon(0.05, momentum=0.9, nesterov=False, weight_decay=0.2, eps=1e-12),
                  MATRICES)  # fmt: skip
    theirs = optax_trajectory(transform, iter(given), starts(MATRICES))
    agree(trajectory(ours, iter(given)), theirs, 1e-8)


def test_muon_says_what_it_does_not_move() -> None:
    trainer = linear(optim.Muon())
    with pytest.raises(gw.errors.TrainingError, match=r"'b' is f64\[4\].*\n(.*\n)*.*gw.Group\('b'"):
        trainer.step(fed(next(gradients(1))))


# -- conventions -----------------------------------------------------------------------------------


def test_the_two_conventions_of_nesterov_part_where_the_rate_changes() -> None:
    """By hand: torch's step is all of the new rate, Sutskever's keeps what the old one put in."""

    def rate(step: int) -> float:
        return 1.0 if step == 0 else 0.1

    moves = []
    for optimizer in (optim.SGD(rate, momentum=0.5, nesterov=True), optim.Nesterov(rate, 0.5)):
        trainer = linear(optimizer, {"s": ()})
        at = [trainer.values["s"].item()]
        at += [p["s"].item() for p in trajectory(trainer, iter([{"s": np.ones(())}] * 2))]
        moves.append(-np.diff(at))
    np.testing.assert_allclose(moves, [[1.5, 0.1 * 1.75], [1.5, 0.5 * (0.5 + 0.1) + 0.1]])


def test_noop_moves_nothing_and_keeps_nothing() -> None:
    trainer = linear(optim.NoOp())
    before = {n: trainer.values[n].tobytes() for n in SHAPES}
    record = trainer.step(fed(next(gradients(1))))
    assert {n: trainer.values[n].tobytes() for n in SHAPES} == before
    assert record.metrics["grad_norm"] > 0
    assert not [k for k in trainer.state_dict() if k.startswith("state/")]


# -- schedule-free: the weights to use are the average ---------------------------------------------


def fitted(**options: Any) -> tuple[gw.Trainer, dict[str, Any]]:
    """Return a trainer of a line after some steps, and its data."""
    g = gw.Graph()
    x, t = g.placeholder("x", (None,), "float64"), g.placeholder("t", (None,), "float64")
    w = g.variable("w", init=np.array(0.5))
    trainer = gw.Trainer(
        g, ((x * w - t) ** 2.0).mean(), optim.ScheduleFreeAdamW(0.1, weight_decay=0.0), **options
    )
    xs = np.linspace(-1, 1, 8)
    data = {"x": xs, "t": 3 * xs}
    trainer.fit(data, batch_size=4, epochs=3, validation=data, progress=False)
    return trainer, data


def test_evaluation_and_validation_see_the_average_and_training_does_not() -> None:
    trainer, data = fitted()
    y = trainer.values["w"].item()
    x = trainer.state_dict()["state/w/average"].item()
    assert x != y
    expected = np.mean((data["x"] * x - data["t"]) ** 2)
    assert trainer.evaluate(data)["loss"] == pytest.approx(expected, rel=1e-12)
    assert trainer.history.epochs["val_loss"][-1] == pytest.approx(expected, rel=1e-12)
    assert trainer.values["w"].item() == y
    with trainer.averaged("optimizer"):
        assert trainer.values["w"].item() == x
        assert trainer.evaluate(data)["loss"] == pytest.approx(expected, rel=1e-12)
    assert trainer.values["w"].item() == y


def test_an_average_that_no_optimizer_keeps_is_refused() -> None:
    trainer = linear(optim.AdamW())
    with (
        pytest.raises(gw.errors.TrainingError, match="no average 'optimizer'"),
        trainer.averaged("optimizer"),
    ):
        pass


def test_the_configured_decay_is_schedule_free_s_own() -> None:
    """It acts at y, on z and x: taken from y alone it would be gone with the next step."""
    given = list(gradients(5))
    own = linear(optim.ScheduleFreeAdamW(0.1, weight_decay=0.3), deterministic=True)
    configured = linear(optim.ScheduleFreeAdamW(0.1), weight_decay=0.3, deterministic=True)
    agreed = zip(trajectory(own, iter(given)), trajectory(configured, iter(given)), strict=True)
    for mine, other in agreed:
        for n in mine:
            np.testing.assert_array_equal(mine[n], other[n])


@pytest.mark.parametrize("name", ["learning_rat", "lr", "learningRate"])
def test_a_setting_that_does_not_exist_cannot_be_set(name):
    optimizer = gw.optim.Adam(0.1)
    said = f"no '{name}'; it has learning_rate, beta1, .*; did you mean 'learning_rate'"
    with pytest.raises(AttributeError, match=said):
        setattr(optimizer, name, 0.2)
    optimizer.learning_rate, optimizer.beta1 = 0.2, 0.8
    assert optimizer == gw.optim.Adam(0.2, beta1=0.8)
    with pytest.raises(TypeError, match=r"beta_1.*beta1"):
        gw.optim.Adam(beta_1=0.8)
