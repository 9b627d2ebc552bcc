"""Schedules against torch.optim.lr_scheduler, optax and their formulas; JSON, figures, refusals."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import gradwright as gw
from gradwright import schedules as s
from gradwright.errors import TrainingError
from gradwright.words.jsonable import from_json, to_json

EXACT = 1e-12


def numbers(schedule, n):
    return [schedule(step) for step in range(n)]


# -- against torch ---------------------------------------------------------------------------------

TORCH = {
    "step": (s.Step(0.3, every=7, factor=0.4), "StepLR", {"step_size": 7, "gamma": 0.4}),
    "exponential": (s.Exponential(0.3, 0.93), "ExponentialLR", {"gamma": 0.93}),
    "polynomial": (
        s.Polynomial(0.3, steps=40, power=1.7),
        "PolynomialLR",
        {"total_iters": 40, "power": 1.7},
    ),
    "map": (
        s.Map({0: 0.3, 10: 0.03, 30: 0.003}),
        "MultiStepLR",
        {"milestones": [10, 30], "gamma": 0.1},
    ),
    "ramp": (
        s.Ramp(0.3, steps=20),
        "LinearLR",
        {"start_factor": 1 / 20, "end_factor": 1.0, "total_iters": 19},
    ),
    "points": (
        s.Points({0: 0.06, 25: 0.24}),
        "LinearLR",
        {"start_factor": 0.2, "end_factor": 0.8, "total_iters": 25},
    ),
    "cosine": (
        s.Cosine(0.3, steps=49, floor=0.02),
        "CosineAnnealingLR",
        {"T_max": 49, "eta_min": 0.02},
    ),
    "restarts": (
        s.CosineRestarts(0.3, period=7, growth=2, floor=0.01),
        "CosineAnnealingWarmRestarts",
        {"T_0": 7, "T_mult": 2, "eta_min": 0.01},
    ),
    "equal restarts": (
        s.CosineRestarts(0.3, period=9),
        "CosineAnnealingWarmRestarts",
        {"T_0": 9},
    ),
    "constant": (
        s.Constant(0.1).then(s.Constant(0.3), at=12),
        "ConstantLR",
        {"factor": 1 / 3, "total_iters": 12},
    ),
    "function": (
        0.3 * s.Inverse(1.0, gamma=0.2, power=0.5),
        "LambdaLR",
        {"lr_lambda": lambda i: (1 + 0.2 * i) ** -0.5},
    ),
}


@pytest.mark.parametrize("name", TORCH)
def test_schedules_are_torch_s(name, torch):
    ours, theirs, options = TORCH[name]
    assert numbers(ours, 50) == pytest.approx(torch_rates(torch, theirs, options), rel=EXACT)


@pytest.mark.parametrize("three_phases", [False, True])
@pytest.mark.parametrize("anneal", ["cosine", "linear"])
def test_one_cycle_is_torch_s_with_its_momentum(anneal, three_phases, torch):
    ours = s.OneCycle(0.5, steps=47, warmup=0.37, anneal=anneal, three_phases=three_phases)
    options = {
        "max_lr": 0.5,
        "total_steps": 47,
        "pct_start": 0.37,
        "anneal_strategy": anneal[:3] if anneal == "cosine" else anneal,
        "three_phase": three_phases,
    }
    rates, momenta = torch_rates(torch, "OneCycleLR", options, 47, also="momentum")
    assert numbers(ours, 47) == pytest.approx(rates, rel=EXACT)
    assert numbers(ours.momentum(), 47) == pytest.approx(momenta, rel=EXACT)
    assert ours(500) == ours(46)


def test_sequences_and_products_are_torch_s(torch):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.3)
    made = torch.optim.lr_scheduler
    parts = [
        made.LinearLR(optimizer, 0.1, total_iters=10),
        made.ExponentialLR(optimizer, 0.9),
        made.CosineAnnealingWarmRestarts(optimizer, 6),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of its own use of an epoch argument
        theirs = made.SequentialLR(optimizer, parts, milestones=[10, 25])
        rates = walk(optimizer, theirs, 40)
    warm, down = s.Points({0: 0.03, 10: 0.3}), s.Exponential(0.3, 0.9)
    ours = s.Sequence((warm, down, s.CosineRestarts(0.3, 6)), (10, 25))
    assert numbers(ours, 40) == pytest.approx(rates, rel=EXACT)

    optimizer = torch.optim.SGD([parameter], lr=0.3)
    parts = [made.StepLR(optimizer, 7, 0.5), made.LinearLR(optimizer, 0.2, total_iters=15)]
    rates = walk(optimizer, made.ChainedScheduler(parts), 40)
    ours = s.Step(0.3, every=7, factor=0.5) * s.Points({0: 0.2, 15: 1.0})
    assert numbers(ours, 40) == pytest.approx(rates, rel=EXACT)


def torch_rates(torch, name, options, n=50, also=None):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.3, momentum=0.9)
    return walk(optimizer, getattr(torch.optim.lr_scheduler, name)(optimizer, **options), n, also)


def walk(optimizer, scheduler, n, also=None):
    rates, others = [], []
    for step in range(n):
        rates.append(optimizer.param_groups[0]["lr"])
        others.append(optimizer.param_groups[0].get(also))
        optimizer.step()
        if step < n - 1:
            scheduler.step()
    return (rates, others) if also else rates


# -- against optax ---------------------------------------------------------------------------------


def optax_pairs(optax):
    warm = optax.linear_schedule(0.4 / 9, 0.4, 8)
    down = optax.linear_schedule(0.4, 0.05, 40)
    plateau = [warm, optax.constant_schedule(0.4), optax.linear_schedule(0.4, 0.1, 12)]
    return [
        (
            s.Cosine(0.4, steps=48, warmup=8, floor=0.1),
            optax.warmup_cosine_decay_schedule(0.4 / 9, 0.4, 8, 48, 0.1),
        ),
        (s.Linear(0.4, steps=48, warmup=8, floor=0.05), optax.join_schedules([warm, down], [8])),
        (
            s.WarmupStableDecay(0.4, steps=50, warmup=8, decay=12, floor=0.1),
            optax.join_schedules(plateau, [8, 38]),
        ),
        (
            s.Exponential(0.4, 0.5, every=6, floor=0.02),
            optax.exponential_decay(0.4, 6, 0.5, end_value=0.02),
        ),
        (s.Step(0.4, every=6, factor=0.5), optax.exponential_decay(0.4, 6, 0.5, staircase=True)),
        (
            s.Polynomial(0.4, steps=30, power=2.0, floor=0.1),
            optax.polynomial_schedule(0.4, 0.1, 2.0, 30),
        ),
        (
            s.Map({0: 0.4, 5: 0.2, 20: 0.02}),
            optax.piecewise_constant_schedule(0.4, {5: 0.5, 20: 0.1}),
        ),
        (
            s.Points({0: 0.1, 10: 0.4, 30: 0.02}, anneal="cosine"),
            optax.piecewise_interpolate_schedule("cosine", 0.1, {10: 4.0, 30: 0.05}),
        ),
    ]


def test_schedules_are_optax_s():
    jax = pytest.importorskip("jax", reason="no jax: pip install -e '.[oracle]'")
    optax = pytest.importorskip("optax", reason="no optax: pip install -e '.[oracle]'")
    with jax.enable_x64(True):
        for ours, theirs in optax_pairs(optax):
            # optax computes in the dtype of the count, so the count is a float64
            expected = [float(theirs(np.float64(step))) for step in range(60)]
            assert numbers(ours, 60) == pytest.approx(expected, rel=EXACT), ours


# -- against their formulas ------------------------------------------------------------------------


def test_formulas():
    inverse, sigmoid = s.Inverse(0.5, gamma=0.3, power=1.5), s.Sigmoid(0.5, gamma=0.2, center=20)
    for i in range(100):
        assert inverse(i) == pytest.approx(0.5 / (1 + 0.3 * i) ** 1.5, rel=EXACT)
        assert sigmoid(i) == pytest.approx(0.5 / (1 + math.exp(-0.2 * (i - 20))), rel=EXACT)
    assert s.Sigmoid(1.0, gamma=-1.0, center=0)(10**6) == 0.0
    assert s.Sigmoid(1.0, gamma=1.0, center=10**6)(0) == 0.0


def test_a_polynomial_decays_and_stays_at_its_floor():
    for power in (0.5, 1.0, 3.0):
        rates = numbers(s.Polynomial(1.0, steps=20, power=power, floor=0.1), 30)
        assert all(a > b for a, b in itertools.pairwise(rates[:21]))
        assert rates[20:] == [0.1] * 10


def test_restarts_shrink_their_peaks():
    schedule = s.CosineRestarts(1.0, period=5, growth=3, decay=0.5)
    assert [schedule(i) for i in (0, 5, 20, 65)] == [1.0, 0.5, 0.25, 0.125]
    equal = s.CosineRestarts(1.0, period=5, decay=0.5)
    assert [equal(i) for i in (0, 5, 10)] == [1.0, 0.5, 0.25]


def test_one_cycle_begins_and_ends_where_the_paper_says():
    schedule = s.OneCycle(1.0, steps=100, warmup=0.45, divide=10.0, final_divide=10.0)
    assert (schedule(0), schedule(44), schedule(99)) == pytest.approx((0.1, 1.0, 0.01), rel=EXACT)
    assert max(numbers(schedule, 100)) == 1.0


def test_epochs():
    schedule = s.Cosine(1.0, steps=5).per_epoch(10)
    rates = numbers(schedule, 60)
    assert rates == [s.Cosine(1.0, steps=5)(i // 10) for i in range(60)]
    assert schedule == s.ByEpoch(s.Cosine(1.0, steps=5), 10)


def test_plain_functions_combine_with_schedules():
    schedule = (s.Constant(0.5) * (lambda step: step + 1.0)).then(lambda step: -1.0 * step, at=3)
    assert numbers(schedule, 6) == [0.5, 1.0, 1.5, 0.0, -1.0, -2.0]


# -- as data ---------------------------------------------------------------------------------------

ALL = [
    s.Constant(0.1),
    s.Step(0.1, every=3, factor=0.5),
    s.Exponential(0.1, 0.9, every=2, floor=0.01),
    s.Inverse(0.1, gamma=0.1),
    s.Polynomial(0.1, steps=10),
    s.Sigmoid(0.1, gamma=-0.5, center=9),
    s.Map({9: 0.01, 0: 0.1}),
    s.Points({0: 0.1, 4.5: 0.2}, anneal="cosine"),
    s.Cosine(0.1, steps=20, warmup=3),
    s.Linear(0.1, steps=20, warmup=3),
    s.WarmupStableDecay(0.1, steps=20, warmup=3, decay=5, anneal="cosine"),
    s.CosineRestarts(0.1, period=4, growth=2),
    s.OneCycle(0.1, steps=20, three_phases=True),
    s.OneCycle(0.1, steps=20).momentum(),
    s.Ramp(s.Step(0.1, every=3), steps=4),
    s.Ramp(0.1, steps=4),
    (0.5 * s.Step(0.1, every=3)).then(s.Cosine(0.1, steps=8), at=5).per_epoch(2),
]


@pytest.mark.parametrize("schedule", ALL, ids=lambda schedule: type(schedule).__name__)
def test_schedules_come_back_from_json(schedule):
    again = from_json(json.loads(json.dumps(to_json(schedule))))
    assert again == schedule and hash(again) == hash(schedule)
    assert repr(again) == repr(schedule)
    assert numbers(again, 30) == numbers(schedule, 30)


@pytest.mark.parametrize("schedule", ALL, ids=lambda schedule: type(schedule).__name__)
def test_schedules_draw_themselves(schedule):
    (line,) = schedule.plot().data
    assert len(line.x) >= 2 and list(line.y) == [schedule(x) for x in line.x]


def test_a_plain_function_cannot_be_saved():
    with pytest.raises(TrainingError, match="function"):
        to_json(s.Product((0.5, lambda step: 1.0)))


def test_schedules_are_compared_in_one_figure():
    figure = s.plot({"<b>a</b>": s.Constant(0.1), "b": lambda step: 0.5**step}, steps=4)
    assert [line.name for line in figure.data] == ["&lt;b&gt;a&lt;/b&gt;", "b"]
    assert list(figure.data[1].y) == [1.0, 0.5, 0.25, 0.125]
    with pytest.raises(TrainingError, match="no schedule"):
        s.plot({})


def test_an_own_schedule_has_what_the_others_have():
    @dataclass(frozen=True)
    class Own(s.Plan):
        value: float

        def __call__(self, step):
            return self.value * step

    assert (2 * Own(0.5)).then(Own(1.0), at=4)(5) == 1.0
    assert list(Own(1.0).plot(3).data[0].y) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: s.Constant(float("nan")), "value=nan is no finite number"),
        (lambda: s.Step(0.1, every=2.5), "every=2.5 is not a number of steps"),
        (lambda: s.Exponential(0.1, factor=-0.5), "factor=-0.5 has no powers"),
        (lambda: s.Inverse(0.1, gamma=-0.1), "divides by zero"),
        (lambda: s.Polynomial(0.1, steps=0), "steps=0"),
        (lambda: s.Polynomial(0.1, steps=5, power=0.0), "does not decay"),
        (lambda: s.Map({1: 0.1}), "nothing of step 0"),
        (lambda: s.Map({}), "nothing of step 0"),
        (lambda: s.Map({0: 0.1, 2.5: 0.2}), "2.5 is not a number of steps"),
        (lambda: s.Map(((0, 0.1), (0, 0.2))), "two values for one step"),
        (lambda: s.Map([0.1, 0.2]), "does not say a value by step"),
        (lambda: s.Points({}), "no points"),
        (lambda: s.Points({0: 1.0}, anneal="square"), "anneal='square' is not known"),
        (lambda: s.Linear(0.1, steps=5, warmup=-1), "warmup=-1"),
        (lambda: s.WarmupStableDecay(0.1, 10, 5, 5), "warmup=5, decay=5 does not fit"),
        (lambda: s.CosineRestarts(0.1, period=3, growth=0), "growth=0"),
        (lambda: s.OneCycle(0.1, steps=3), "leaves no step"),
        (lambda: s.OneCycle(0.1, steps=100, warmup=0.6, three_phases=True), "leaves no step"),
        (lambda: s.OneCycle(0.1, steps=100, divide=-1.0), "divide=-1.0"),
        (lambda: s.Sequence((s.Constant(1.0),) * 3, (5,)), "do not part 3 schedules"),
        (lambda: s.Sequence((s.Constant(1.0),) * 3, (5, 5)), "do not part"),
        (lambda: s.Constant(1.0).then(0.5, at=3), "0.5 is no schedule"),
        (lambda: s.Constant(1.0).then(s.Constant(0.5), at=0), "a boundary=0"),
        (lambda: s.Constant(1.0) * float("inf"), "no finite number"),
        (lambda: s.Constant(1.0).per_epoch(0), "steps_per_epoch=0"),
        (lambda: s.Ramp("0.1", steps=3), "no finite number"),
    ],
)
def test_schedules_that_make_no_sense_are_refused(make, message):
    with pytest.raises(TrainingError, match=message):
        make()


def test_momentum_follows_its_schedule_through_a_callback(torch):
    class Momentum(gw.Callback):
        def on_fit_start(self, trainer):
            trainer.optimizer.momentum = momentum(trainer.steps_done)

        def on_step_end(self, trainer, record):
            trainer.optimizer.momentum = momentum(trainer.steps_done)

    cycle = s.OneCycle(0.1, steps=12)
    momentum = cycle.momentum()
    g = gw.Graph()
    w = g.variable("w", init=np.array([3.0, -2.0]))
    optimizer = gw.optim.SGD(cycle, momentum=0.95)
    gw.Trainer(g, (w**2.0).sum(), optimizer, callbacks=[Momentum()]).fit([{}] * 12, progress=False)
    theirs = torch.nn.Parameter(torch.tensor([3.0, -2.0], dtype=torch.float64))
    reference = torch.optim.SGD([theirs], lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(reference, 0.1, total_steps=12)
    for step in range(12):
        reference.zero_grad()
        (theirs**2).sum().backward()
        reference.step()
        if step < 11:
            scheduler.step()
    np.testing.assert_allclose(g.values["w"], theirs.detach().numpy(), rtol=1e-10)


def test_a_trainer_follows_a_composed_schedule():
    g = gw.Graph()
    w = g.variable("w", (), init=4.0)
    schedule = s.Ramp(0.2, steps=2).then(s.Step(0.2, every=1, factor=0.5).per_epoch(2), at=2)
    trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(schedule))
    trainer.fit([{}] * 6, progress=False)
    assert trainer.history.steps["learning_rate"].tolist() == numbers(schedule, 6)
