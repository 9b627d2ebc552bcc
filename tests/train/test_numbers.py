"""Numbers that are fed: no plan for another momentum, and schedules for all of them, as torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright import optim, schedules
from gradwright.errors import TrainingError
from gradwright.train.step.numbers import numbers
from tests.support.fed_gradients import fed, gradients, linear, starts

SHAPES = {"w": (3, 4), "b": (4,)}
STEPS = 12
RISING = schedules.Points(((0, 0.5), (STEPS, 0.95)))
FALLING = schedules.Points(((0, 0.3), (STEPS, 0.01)))


def net(**options: Any) -> gw.Trainer:
    """Return a trainer of two parameters, deterministic."""
    return linear(options.pop("optimizer"), SHAPES, deterministic=True, **options)


def made(trainer: gw.Trainer) -> tuple[int, int]:
    """Return how many plans and nodes there are."""
    return len(trainer.session.plans), len(list(trainer.graph.derived))


SETTABLE = [
    (optim.SGD(0.1, momentum=0.9), ("momentum", "weight_decay")),
    (optim.Nesterov(0.1), ("momentum",)),
    (optim.AdamW(0.1), ("beta1", "beta2", "eps", "weight_decay")),
    (optim.RMSProp(0.1, momentum=0.5), ("rho", "eps", "momentum", "weight_decay")),
    (optim.Nadam(0.1, momentum_decay=0.004), ("beta1", "momentum_decay")),
    (optim.Adafactor(0.1), ("beta2_decay", "eps1", "eps2", "clip_threshold", "weight_decay")),
    (optim.ScheduleFreeAdamW(0.1), ("beta1", "beta2")),
    (optim.Adam8bit(0.1, min_size=4), ("beta1", "eps")),
    (optim.Lion(0.1), ("beta1", "beta2")),
]


@pytest.mark.parametrize("optimizer, names", SETTABLE, ids=lambda x: type(x).__name__)
def test_setting_a_number_makes_no_plan_and_counts(optimizer: Any, names: Any) -> None:
    """What is set while a training runs is what a training with it from there on does."""
    trainer, given = net(optimizer=replace(optimizer)), [fed(g) for g in gradients(6, SHAPES)]
    for batch in given[:3]:
        trainer.step(batch)
    before, state = made(trainer), trainer.state_dict()
    values = {n: trainer.values[n] for n in SHAPES}
    for name in names:
        setattr(trainer.optimizer, name, 0.5 * getattr(trainer.optimizer, name) + 0.011)
    other = net(optimizer=replace(trainer.optimizer))
    other.values.commit(values)
    other.load_state_dict(state)
    for batch in given[3:]:
        record = trainer.step(batch)
        other.step(batch)
    assert made(trainer) == before
    assert all(trainer.values[n].tobytes() == other.values[n].tobytes() for n in SHAPES)
    assert record is not None and record.metrics[names[0]] == getattr(trainer.optimizer, names[0])


def test_settings_around_an_optimizer_are_fed_too() -> None:
    options = {"clip_norm": 0.5, "clip_value": 0.3, "clip_tensor_norm": 0.4, "l1": 0.1, "l2": 0.2}
    group = gw.Group("b", lr_multiplier=0.5, weight_decay=0.3)
    trainer = net(
        optimizer=optim.SGD(0.1), groups=[group], weight_decay=0.1, ema=gw.EMA(0.9), **options,
        lr_multipliers={"w": 2.0},
    )  # fmt: skip
    given = [fed(g) for g in gradients(4, SHAPES)]
    trainer.step(given[0])
    before = made(trainer)
    changed = {name: 0.7 * value for name, value in options.items()} | {
        "groups": [replace(group, lr_multiplier=0.8, weight_decay=0.4)], "weight_decay": 0.2,
        "ema": gw.EMA(0.5), "lr_multipliers": {"w": 3.0},
    }  # fmt: skip
    trainer.config = trainer.config.but(**changed)
    record = trainer.step(given[1])
    assert made(trainer) == before
    assert record is not None
    shown = {n: record.metrics[n] for n in numbers(trainer.config) if n in record.metrics}
    assert shown == {name: changed[name] for name in (*options, "weight_decay")} | {
        "groups[0].weight_decay": 0.4, "groups[0].lr_multiplier": 0.8,
        "lr_multipliers['w']": 3.0, "ema.decay": 0.5,
    }  # fmt: skip
    again = net(optimizer=optim.SGD(0.1), **{**options, **changed})
    first = net(optimizer=optim.SGD(0.1), groups=[group], weight_decay=0.1, ema=gw.EMA(0.9),
                lr_multipliers={"w": 2.0}, **options)  # fmt: skip
    first.step(given[0])
    again.values.commit({n: first.values[n] for n in SHAPES})
    again.load_state_dict(first.state_dict())
    again.step(given[1])
    assert all(trainer.values[n].tobytes() == again.values[n].tobytes() for n in SHAPES)


# ours, torch's class, its options of a step
SCHEDULED: dict[str, tuple[optim.Optimizer, str, Any]] = {
    "sgd": (
        optim.SGD(0.1, momentum=RISING, weight_decay=FALLING), "SGD",
        lambda s: {"momentum": RISING(s), "weight_decay": FALLING(s)},
    ),
    "adamw": (
        optim.AdamW(0.05, beta1=RISING, beta2=schedules.Constant(0.97), weight_decay=FALLING,
                    eps=schedules.Points(((0, 1e-3), (STEPS, 1e-8)))), "AdamW",
        lambda s: {"betas": (RISING(s), 0.97), "weight_decay": FALLING(s),
                   "eps": schedules.Points(((0, 1e-3), (STEPS, 1e-8)))(s)},
    ),
    "rmsprop": (
        optim.RMSProp(0.01, rho=RISING, momentum=FALLING), "RMSprop",
        lambda s: {"alpha": RISING(s), "momentum": FALLING(s)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("unroll", [1, 4])
@pytest.mark.parametrize("name", SCHEDULED)
def test_schedules_of_numbers_as_in_torch(name: str, unroll: int, torch: Any) -> None:
    ours, theirs, options = SCHEDULED[name]
    given = list(gradients(STEPS, SHAPES))
    params = {n: torch.nn.Parameter(torch.tensor(a)) for n, a in starts(SHAPES).items()}
    other = getattr(torch.optim, theirs)(params.values(), lr=ours.learning_rate, **options(0))
    for step, grads in enumerate(given):
        other.param_groups[0].update(options(step))
        for n, p in params.items():
            p.grad = torch.tensor(grads[n])
        other.step()
    trainer = net(optimizer=ours)
    trainer.fit([fed(g) for g in given], unroll=unroll, progress=False)
    for n, p in params.items():
        np.testing.assert_allclose(trainer.values[n], p.detach().numpy(), 1e-12, err_msg=n)
    moving = next(n for n in ("momentum", "beta1") if callable(getattr(ours, n, None)))
    expected = [getattr(ours, moving)(s) for s in range(STEPS)]
    np.testing.assert_allclose(trainer.history.steps[moving], expected, 1e-15)
    assert len(trainer.session.plans) == 1


def test_clipping_and_decay_follow_schedules_as_in_torch(torch: Any) -> None:
    given = list(gradients(STEPS, SHAPES))
    params = {n: torch.nn.Parameter(torch.tensor(a)) for n, a in starts(SHAPES).items()}
    other = torch.optim.AdamW(params.values(), lr=0.05, weight_decay=0.0)
    for step, grads in enumerate(given):
        other.param_groups[0]["weight_decay"] = FALLING(step)
        for n, p in params.items():
            p.grad = torch.tensor(grads[n])
        torch.nn.utils.clip_grad_norm_(list(params.values()), RISING(step))
        other.step()
    trainer = net(optimizer=optim.Adam(0.05), weight_decay=FALLING, clip_norm=RISING)
    trainer.fit([fed(g) for g in given], progress=False)
    for n, p in params.items():  # torch adds 1e-6 to the norm
        np.testing.assert_allclose(trainer.values[n], p.detach().numpy(), 1e-5, err_msg=n)
    assert len(trainer.session.plans) == 1


def test_scheduled_numbers_resume_and_are_saved(tmp_path: Any) -> None:
    """A configuration keeps schedules, and a training that goes on takes them up where it was."""
    optimizer = optim.SGD(0.1, momentum=RISING, weight_decay=FALLING)
    given = [fed(g) for g in gradients(8, SHAPES)]
    config = gw.TrainingConfig(optimizer, clip_norm=RISING)
    assert gw.TrainingConfig.from_json(config.to_json()) == config
    whole = net(optimizer=optimizer, clip_norm=RISING)
    whole.fit(given, progress=False)
    checkpoints = gw.Checkpoints(tmp_path, every_steps=4)
    half = net(optimizer=optimizer, clip_norm=RISING, callbacks=[checkpoints])
    half.fit(given, steps=4, progress=False)
    again = net(optimizer=optimizer, clip_norm=RISING)
    gw.resume(again, tmp_path)
    again.fit(given, progress=False)
    assert all(whole.values[n].tobytes() == again.values[n].tobytes() for n in SHAPES)
    for name in ("momentum", "weight_decay", "clip_norm"):
        np.testing.assert_array_equal(whole.history.steps[name], again.history.steps[name])


def test_numbers_out_of_range_name_step_and_range() -> None:
    given = [fed(g) for g in gradients(3, SHAPES)]
    trainer = net(optimizer=optim.Adam(0.1, beta1=lambda step: 0.5 + 0.4 * step))
    trainer.step(given[0])
    trainer.step(given[1])
    before = {n: trainer.values[n].tobytes() for n in SHAPES}
    with pytest.raises(TrainingError, match=r"step 3: the beta1 is 1\.3") as caught:
        trainer.step(given[2])
    assert caught.value.need == "0 <= beta1 < 1" and trainer.steps_done == 2
    assert before == {n: trainer.values[n].tobytes() for n in SHAPES}
    trainer.optimizer.beta1 = 1.0
    with pytest.raises(TrainingError, match=r"Adam: beta1=1\.0 is out of range"):
        trainer.step(given[2])
    trainer.optimizer.beta1 = 0.9
    trainer.step(given[2])
    with pytest.raises(TrainingError, match="Muon: eps follows no schedule"):
        optim.Muon(eps=RISING)  # type: ignore[arg-type]
    clipped = net(optimizer=optim.SGD(0.1), clip_norm=lambda step: -1.0)
    with pytest.raises(TrainingError, match=r"step 1: the clip_norm is -1\.0"):
        clipped.step(given[0])


def test_what_is_zero_has_no_part_and_may_come_to_have_one() -> None:
    trainer, given = net(optimizer=optim.SGD(0.1)), [fed(g) for g in gradients(4, SHAPES)]
    trainer.step(given[0])
    assert "state/w/velocity" not in trainer.state_dict()
    trainer.optimizer.momentum = 0.9
    trainer.step(given[1])
    assert "state/w/velocity" in trainer.state_dict()
    before = made(trainer)
    trainer.optimizer.momentum = 0.8
    trainer.step(given[2])
    assert made(trainer) == before


@dataclass
class Own(optim.Optimizer):
    """p ← p − lr·(g·scale + shift), with ``scale`` as it is."""

    learning_rate: float = 0.5
    scale: float = 1.0
    shift: float = 0.0

    def update(self, param: Any, grad: Any, slots: Any, scalars: Any) -> Any:
        rate, shift = (scalars[n].astype(param.dtype) for n in ("learning_rate", "shift"))
        return (param - rate * (grad * self.scale + shift),)


def test_an_optimizer_that_builds_a_number_in_is_built_anew_for_another() -> None:
    trainer = net(optimizer=Own())
    grads = {n: np.ones(s) for n, s in SHAPES.items()}

    def moved() -> float:
        before = trainer.values["b"].copy()
        trainer.step(fed(grads))
        return float((before - trainer.values["b"]).mean())

    assert moved() == pytest.approx(0.5)
    before = made(trainer)
    trainer.optimizer.shift = 1.0
    assert moved() == pytest.approx(1.0) and made(trainer) == before
    trainer.optimizer.scale = 3.0
    assert moved() == pytest.approx(2.0) and made(trainer) != before


def test_a_rate_that_stays_is_fed_again_until_it_is_set_follows_something_or_is_wrong():
    @dataclass
    class Halving(optim.SGD):
        """A rate that only its own method knows."""

        def rate(self, step: int) -> float:
            return self.learning_rate * 0.5**step

    g = gw.Graph()
    w = g.variable("w", (), init=0.0)
    trainer = gw.Trainer(g, w * 1.0, optimizer=optim.SGD(0.5))

    def moved() -> float:
        before = float(g.values["w"])
        record = trainer.step({})
        assert record is not None
        assert before - float(g.values["w"]) == record.metrics["learning_rate"]
        return record.metrics["learning_rate"]

    assert [moved(), moved()] == [0.5, 0.5]
    trainer.optimizer.learning_rate = 0.25
    assert [moved(), moved()] == [0.25, 0.25]
    trainer.optimizer.learning_rate = -1.0
    with pytest.raises(TrainingError, match="step 5: the learning rate is -1"):
        trainer.step({})
    trainer.optimizer.learning_rate = lambda step: 2.0 ** (step - 4)
    assert [moved(), moved()] == [1.0, 2.0]
    trainer.optimizer = Halving(64.0)
    assert [moved(), moved()] == [1.0, 0.5]
    trainer.optimizer.learning_rate = held = np.array(1024.0)
    assert moved() == 4.0
    held[...] = 512.0
    assert moved() == 1.0
