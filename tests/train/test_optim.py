"""Optimizers against torch.optim and hand formulas, schedules against torch, clipping, updates."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.graph import interpret
from gradwright.op import run_forward
from gradwright.ops.updates.base import (
    AdamUpdate,
    AllFinite,
    ClipByGlobalNorm,
    GlobalNorm,
    MomentumUpdate,
    SgdUpdate,
)
from gradwright.program.lowering import find_launch
from gradwright.spec import dtype as as_dtype
from gradwright.spec import spec_of

SHAPES = {"w": (3, 4), "b": (4,), "s": ()}


def linear(dtype="float32", **options):
    """Return a trainer whose gradients are what is fed: loss = Σ p·c, so ∂loss/∂p = c."""
    rng = np.random.default_rng(7)
    g = gw.Graph()
    loss = None
    for name, shape in SHAPES.items():
        c = g.placeholder(f"c_{name}", shape, dtype)
        p = g.variable(name, init=rng.standard_normal(shape).astype(dtype))
        part = (p * c).sum()
        loss = part if loss is None else loss + part
    return gw.Trainer(g, loss, **options)


def gradients_of_step(step, dtype="float32"):
    rng = np.random.default_rng(100 + step)
    return {n: (rng.standard_normal(s) * 10.0**step).astype(dtype) for n, s in SHAPES.items()}


def feed(grads):
    return {f"c_{name}": c for name, c in grads.items()}


TORCH = {
    "sgd": (lambda: gw.optim.SGD(0.1), "SGD", {"lr": 0.1}),
    "decay": (lambda: gw.optim.SGD(0.1, weight_decay=0.3), "SGD", {"lr": 0.1, "weight_decay": 0.3}),
    "momentum": (
        lambda: gw.optim.SGD(0.1, momentum=0.8, weight_decay=0.1),
        "SGD",
        {"lr": 0.1, "momentum": 0.8, "weight_decay": 0.1},
    ),
    "nesterov": (
        lambda: gw.optim.SGD(0.1, momentum=0.8, nesterov=True),
        "SGD",
        {"lr": 0.1, "momentum": 0.8, "nesterov": True},
    ),
    "adam": (
        lambda: gw.optim.Adam(0.05, beta1=0.8, beta2=0.99),
        "Adam",
        {"lr": 0.05, "betas": (0.8, 0.99)},
    ),
    "adamw": (
        lambda: gw.optim.AdamW(0.05, weight_decay=0.2),
        "AdamW",
        {"lr": 0.05, "weight_decay": 0.2},
    ),
    "eps": (lambda: gw.optim.Adam(0.05, eps=0.5), "Adam", {"lr": 0.05, "eps": 0.5}),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TORCH)
def test_optimizers_step_as_torch_does(name, dtype, torch):
    make, theirs, options = TORCH[name]
    trainer = linear(dtype, optimizer=make())
    values = trainer.graph.values
    params = {n: torch.nn.Parameter(torch.tensor(values[n])) for n in SHAPES}
    reference = getattr(torch.optim, theirs)(params.values(), **options)
    for step in range(6):
        grads = gradients_of_step(step % 3, dtype)
        for n, p in params.items():
            p.grad = torch.tensor(grads[n])
        reference.step()
        trainer.step(feed(grads))
        tolerance = 2e-6 if dtype == "float32" else 1e-12
        for n, p in params.items():
            np.testing.assert_allclose(values[n], p.detach().numpy(), tolerance, tolerance)


def test_adamw_is_the_formula_of_the_paper():
    trainer = linear("float64", optimizer=gw.optim.AdamW(0.1, weight_decay=0.5))
    values = trainer.graph.values
    p = {n: values[n].copy() for n in SHAPES}
    m, v = ({n: np.zeros(s) for n, s in SHAPES.items()} for _ in range(2))
    for t in range(1, 5):
        grads = gradients_of_step(t, "float64")
        trainer.step(feed(grads))
        for n, g in grads.items():
            m[n] = 0.9 * m[n] + 0.1 * g
            v[n] = 0.999 * v[n] + 0.001 * g**2
            unbiased = m[n] / (1 - 0.9**t), v[n] / (1 - 0.999**t)
            p[n] -= 0.1 * (unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8) + 0.5 * p[n])
            np.testing.assert_allclose(values[n], p[n], 1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_updated_in_float32_and_rounded_once(dtype):
    trainer = linear(dtype, optimizer=gw.optim.Adam(0.01))
    wide = linear("float32", optimizer=gw.optim.Adam(0.01))
    for n in SHAPES:
        wide.graph.values[n] = trainer.graph.values[n].astype("float32")
    grads = {n: c.astype(as_dtype(dtype)) for n, c in gradients_of_step(0).items()}
    trainer.step(feed(grads))
    wide.step(feed({n: c.astype("float32") for n, c in grads.items()}))
    for n in SHAPES:
        rounded = wide.graph.values[n].astype(as_dtype(dtype))
        np.testing.assert_array_equal(trainer.graph.values[n], rounded)
    slots = [n.outputs[0] for n in trainer.graph.derived if n.name.endswith("/m")]
    assert slots and all(s.dtype == np.float32 for s in slots)


@pytest.mark.parametrize("op", [SgdUpdate, MomentumUpdate, AdamUpdate, ClipByGlobalNorm])
def test_expansions_agree_with_the_reference(op, rng):
    for sample in op.samples(rng):
        made = op(**sample.attrs)
        again = interpret(made, sample.inputs, training=True)
        again = again if isinstance(again, tuple) else (again,)
        for a, b in zip(run_forward(made, sample.inputs), again, strict=True):
            np.testing.assert_allclose(a, b, 1e-14, 1e-15)


@pytest.mark.parametrize("device", ["cpu", "guard"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adam_in_blocks_is_bit_equal_to_the_reference(dtype, device, rng, monkeypatch):
    monkeypatch.setattr("gradwright.cpu.lowerings.adam.BLOCK", 7)
    scalars = [np.asarray(v) for v in AdamUpdate.scalars()]
    for shape in ((5, 6), (), (0, 3), (7,)):
        tensors = [rng.standard_normal(shape).astype(dtype) for _ in range(3)]
        tensors = [*tensors, rng.random(shape).astype(dtype)]
        if len(shape) == 2:
            tensors[1] = np.asfortranarray(tensors[1])  # gradients may be transposed views
        expected = run_forward(AdamUpdate(), [*tensors, *scalars])
        outs = [np.full_like(y, np.nan) for y in expected]
        launch = find_launch(
            AdamUpdate(),
            device,
            [spec_of(x) for x in (*tensors, *scalars)],
            list(map(spec_of, outs)),
        )
        launch([*tensors, *scalars], outs)
        for a, b in zip(outs, expected, strict=True):
            np.testing.assert_array_equal(a, b)


# -- clipping --------------------------------------------------------------------------------------


def test_clipping_is_global(torch):
    trainer = linear(optimizer=gw.optim.SGD(1.0), clip_norm=2.0)
    values = trainer.graph.values
    before = {n: values[n] for n in SHAPES}
    grads = gradients_of_step(1)
    params = {n: torch.nn.Parameter(torch.zeros(s)) for n, s in SHAPES.items()}
    for n, p in params.items():
        p.grad = torch.tensor(grads[n])
    norm = torch.nn.utils.clip_grad_norm_(params.values(), 2.0)
    record = trainer.step(feed(grads))
    assert record.metrics["grad_norm"] == pytest.approx(float(norm), rel=1e-6)
    moves = {n: before[n] - values[n] for n in SHAPES}
    total = math.sqrt(sum(float((d.astype("float64") ** 2).sum()) for d in moves.values()))
    assert total == pytest.approx(2.0, rel=1e-6)
    for n, p in params.items():
        np.testing.assert_allclose(moves[n], p.grad.numpy(), 1e-5, 1e-6)


def test_a_gradient_within_the_norm_is_left_alone_to_the_bit():
    clipped, plain = (linear(optimizer=gw.optim.SGD(0.1), clip_norm=c) for c in (1000.0, None))
    for trainer in (clipped, plain):
        trainer.step(feed(gradients_of_step(0)))
    for n in SHAPES:
        np.testing.assert_array_equal(clipped.graph.values[n], plain.graph.values[n])


@pytest.mark.parametrize(
    ("arrays", "norm"),
    [
        ([np.full(4, 3e20, np.float32)], 6e20),
        ([np.full(4, 3e200)], 6e200),
        ([np.full(4, 300, np.float16)], 600.0),
        ([np.zeros((0, 3)), np.zeros(2)], 0.0),
        ([np.array([1.0, np.nan])], np.nan),
        ([np.array([1.0, -np.inf])], np.inf),
    ],
)
def test_global_norm_overflows_only_if_the_result_does(arrays, norm):
    np.testing.assert_allclose(GlobalNorm().forward(*arrays), norm, 1e-6)


def test_the_gradient_of_the_norm_is_zero_at_zero():
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    (dx,) = gw.gradients(gw.optim.global_norm(x), [x])
    assert g.output({"x": [0.0, 0.0]}, dx)[dx.name].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(g.output({"x": [3.0, 4.0]}, dx)[dx.name], [0.6, 0.8], 1e-6)


def test_complex_parameters_descend_as_torch_does(torch):
    start = np.array([1 + 2j, -3j], "complex64")
    g = gw.Graph()
    z = g.variable("z", init=start)
    trainer = gw.Trainer(g, gw.real(z * gw.conj(z) * (2 + 1j)).sum(), gw.optim.SGD(0.1))
    theirs = torch.tensor(start, requires_grad=True)
    (theirs * theirs.conj() * (2 + 1j)).real.sum().backward()
    record = trainer.step({})
    moved = start - 0.1 * theirs.grad.numpy()
    np.testing.assert_allclose(trainer.values["z"], moved, 1e-6)
    norm = float(theirs.grad.abs().square().sum().sqrt())
    assert record.metrics["grad_norm"] == pytest.approx(norm, rel=1e-6)


def test_all_finite():
    assert AllFinite().forward(np.ones(3), np.zeros(()))
    assert not AllFinite().forward(np.ones(3), np.array(np.inf))


# -- optimizers as declarations --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gw.optim.Adam(-1.0), "learning_rate=-1.0 is out of range"),
        (lambda: gw.optim.Adam(float("nan")), "learning_rate=nan is out of range"),
        (lambda: gw.optim.Adam(beta2=1.0), "beta2=1.0 is out of range"),
        (lambda: gw.optim.Adam([]), "learning_rate is a list, not a number"),
        (lambda: gw.optim.SGD(momentum=-0.1), "momentum=-0.1 is out of range"),
        (lambda: gw.optim.SGD(nesterov=True), "needs momentum"),
        (lambda: gw.optim.SGD(None), r"learning_rate=None is no number(.|\n)*or a schedule"),
        (lambda: gw.optim.Adam(beta2=None), r"beta2=None is no number(.|\n)*or a schedule"),
        (lambda: gw.optim.Adam(eps="1e-8"), r"eps='1e-8' is no number"),
        (lambda: gw.optim.SGD(0.1, momentum=True), r"momentum=True is no number"),
        (lambda: gw.optim.RMSProp(rho=np.ones(2)), r"rho=array(.|\n)*is no number"),
        (lambda: gw.optim.AdaGrad(initial=None), r"initial=None is no number(.|\n)*a number$"),
    ],
)
def test_hyperparameters_that_make_no_sense_are_refused(make, message):
    with pytest.raises(TrainingError, match=message):
        make()


def test_hyperparameters_count_from_the_next_step():
    trainer = linear("float64", optimizer=gw.optim.SGD(1.0, momentum=0.5))
    values, ones = trainer.graph.values, {n: np.ones(s) for n, s in SHAPES.items()}

    def moved():
        before = values["s"].item()
        trainer.step(feed(ones))
        return before - values["s"].item()

    assert moved() == pytest.approx(1.0)
    trainer.optimizer.learning_rate = 0.1
    assert moved() == pytest.approx(0.15)
    trainer.optimizer.nesterov = True
    assert moved() == pytest.approx(0.1 * (1 + 0.5 * (1 + 0.5 * 1.5)))
    trainer.optimizer.momentum = 0.0
    assert moved() == pytest.approx(0.1)
    trainer.optimizer = gw.optim.Adam(0.01)
    assert moved() == pytest.approx(0.01)
    trainer.optimizer.beta1 = 2.0
    with pytest.raises(TrainingError, match=r"beta1=2\.0 is out of range"):
        moved()


# -- schedules -------------------------------------------------------------------------------------


def test_cosine_is_torch_s(torch):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50, eta_min=0.02)
    ours = gw.schedules.Cosine(0.3, steps=50, floor=0.02)
    for step in range(51):
        assert ours(step) == pytest.approx(theirs.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        theirs.step()
    assert ours(10_000) == 0.02


def test_warm_up_is_linear_and_meets_the_peak():
    schedule = gw.schedules.Cosine(1.0, steps=100, warmup=10)
    rates = [schedule(s) for s in range(100)]
    assert rates[0] > 0
    np.testing.assert_allclose(np.diff(rates[:11]), 1 / 11)
    assert max(rates) == rates[10] == 1.0
    assert (np.diff(rates[10:]) < 0).all()


def test_steps_fall_where_they_should():
    schedule = gw.schedules.Step(0.8, every=3, factor=0.5)
    assert [schedule(s) for s in range(7)] == [0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gw.schedules.Step(0.1, every=0), "every=0"),
        (lambda: gw.schedules.Cosine(0.1, steps=10, warmup=10), "warmup=10"),
    ],
)
def test_schedules_that_make_no_sense_are_refused(make, message):
    with pytest.raises(TrainingError, match=message):
        make()


def test_schedules_draw_themselves():
    figure = gw.schedules.Cosine(0.3, steps=5000, warmup=100).plot()
    (line,) = figure.data
    assert max(line.y) == pytest.approx(0.3, rel=1e-3)
    assert line.x[-1] == 5499
    assert list(gw.schedules.Constant(0.2).plot(3).data[0].y) == [0.2, 0.2, 0.2]


def test_a_learning_rate_that_makes_no_sense_stops_before_the_step():
    trainer = linear(optimizer=gw.optim.SGD(lambda step: float("nan") if step else 1.0))
    trainer.step(feed(gradients_of_step(0)))
    held = trainer.values["w"].tobytes()
    with pytest.raises(TrainingError, match="step 2: the learning rate is nan"):
        trainer.step(feed(gradients_of_step(0)))
    assert trainer.values["w"].tobytes() == held


def test_a_schedule_is_fed_step_by_step():
    trainer = linear("float64", optimizer=gw.optim.SGD(lambda step: 0.5**step))
    ones = {n: np.ones(s) for n, s in SHAPES.items()}
    rates = [trainer.step(feed(ones)).metrics["learning_rate"] for _ in range(3)]
    assert rates == [1.0, 0.5, 0.25]
    assert len(trainer.session.plan_cache) == 1
