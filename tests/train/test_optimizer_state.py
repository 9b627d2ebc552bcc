"""What optimizers keep: saved and loaded to the bit, apart for each parameter, wide for halves."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright import optim
from gradwright.errors import TrainingError
from gradwright.spec import TensorSpec
from gradwright.train.slots import Slots
from gradwright.words.jsonable import from_json, to_json
from tests.support.fed_gradients import MATRICES, SHAPES, fed, gradients, linear, trajectory

ALL: dict[str, optim.Optimizer] = {
    "sgd": optim.SGD(0.1),
    "momentum": optim.SGD(0.1, momentum=0.9),
    "nesterov": optim.Nesterov(0.1),
    "lion": optim.Lion(0.01),
    "noop": optim.NoOp(),
    "adagrad": optim.AdaGrad(0.1, initial=0.1),
    "adadelta": optim.AdaDelta(),
    "rmsprop": optim.RMSProp(0.01),
    "rmsprop, all": optim.RMSProp(0.01, centered=True, momentum=0.5, weight_decay=0.1),
    "adam": optim.Adam(0.01),
    "adamw": optim.AdamW(0.01),
    "amsgrad": optim.AMSGrad(0.01),
    "adamax": optim.AdaMax(0.01),
    "nadam": optim.Nadam(0.01),
    "nadam, by the paper": optim.Nadam(0.01, momentum_decay=0.004),
    "sparse_adam": optim.SparseAdam(0.01),
    "radam": optim.RAdam(0.01, beta2=0.9),
    "adabelief": optim.AdaBelief(0.01),
    "lamb": optim.LAMB(0.01),
    "adafactor": optim.Adafactor(0.1),
    "adam8bit": optim.Adam8bit(0.01, block_size=4, min_size=6),
    "muon": optim.Muon(0.01),
    "schedule-free": optim.ScheduleFreeAdamW(0.01),
}
COUNTED = [n for n, o in ALL.items() if o.counts]


def shapes_of(name: str) -> Any:
    return MATRICES if name == "muon" else SHAPES


def made(name: str, dtype: str = "float32", **options: Any) -> gw.Trainer:
    """Return a trainer with an optimizer of its own, whose numbers do not depend on timing."""
    trainer = linear(replace(ALL[name]), shapes_of(name), dtype, **options)
    trainer.session = gw.Session(trainer.graph, deterministic=True)
    return trainer


def test_each_optimizer_is_here() -> None:
    named = {getattr(optim, name) for name in optim.__all__}
    public = named - {optim.Optimizer, optim.Slot, optim.get}
    assert {type(o) for o in ALL.values()} == public


@pytest.mark.parametrize("name", ALL)
def test_a_continuation_from_saved_state_is_the_same_to_the_bit(name: str) -> None:
    given = list(gradients(6, shapes_of(name), "float32"))
    whole, first, second = (made(name) for _ in range(3))
    expected = list(trajectory(whole, iter(given)))
    *_, held = trajectory(first, iter(given[:3]))
    saved = first.state_dict()
    for n, value in held.items():
        second.values[n] = value
    second.load_state_dict(saved)
    for mine, other in zip(trajectory(second, iter(given[3:])), expected[3:], strict=True):
        for n in mine:
            assert mine[n].tobytes() == other[n].tobytes()
    now, then = second.state_dict(), whole.state_dict()
    assert {k for k in now if k.startswith("state/")} == {k for k in then if k.startswith("state/")}
    for key, value in then.items():
        if key.startswith("state/"):
            assert np.asarray(now[key]).tobytes() == np.asarray(value).tobytes(), key


@pytest.mark.parametrize("name", ALL)
def test_optimizers_become_json_and_come_back(name: str) -> None:
    assert from_json(json.loads(json.dumps(to_json(ALL[name])))) == ALL[name]


@pytest.mark.parametrize("name", COUNTED)
def test_a_parameter_unfrozen_late_starts_at_its_own_first_step(name: str) -> None:
    late = "w"
    given = list(gradients(7, shapes_of(name), "float32"))
    trainer, fresh = made(name), made(name)
    trainer.graph.freeze(late)
    list(trajectory(trainer, iter(given[:3])))
    assert not [k for k in trainer.state_dict() if k.startswith(f"state/{late}/")]
    trainer.graph.unfreeze(late)
    for mine, other in zip(
        trajectory(trainer, iter(given[3:])), trajectory(fresh, iter(given[3:])), strict=True
    ):
        np.testing.assert_allclose(mine[late], other[late], 1e-6, 1e-7)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ALL)
def test_halves_are_moved_in_float32_and_rounded_once(name: str, dtype: str) -> None:
    shapes = shapes_of(name)
    narrow, wide = made(name, dtype), made(name)
    (grads,) = gradients(1, shapes, dtype)
    for n in shapes:
        wide.values[n] = narrow.values[n].astype("float32")
    narrow.step(fed(grads))
    wide.step(fed({n: c.astype("float32") for n, c in grads.items()}))
    for n in shapes:
        rounded = wide.values[n].astype(gw.spec.dtype(dtype))
        np.testing.assert_array_equal(narrow.values[n], rounded)
    kept, others = narrow.state_dict(), wide.state_dict()
    for key in others:
        if key.startswith("state/"):
            assert kept[key].dtype == others[key].dtype, key


CHANGES: dict[str, tuple[Any, str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "adamw": (optim.AdamW, "AdamW", {}, {"learning_rate": 0.1, "beta1": 0.5, "weight_decay": 0.3},
              {"lr": 0.1, "betas": (0.5, 0.999), "weight_decay": 0.3}),
    "amsgrad": (optim.AMSGrad, "AdamW", {"amsgrad": True, "weight_decay": 0.0},
                {"beta2": 0.9}, {"betas": (0.9, 0.9)}),
    "adagrad": (optim.AdaGrad, "Adagrad", {"eps": 1e-6}, {"learning_rate": 0.3, "eps": 0.1},
                {"lr": 0.3, "eps": 0.1}),
    "adadelta": (optim.AdaDelta, "Adadelta", {"rho": 0.95}, {"learning_rate": 0.3, "rho": 0.5},
                 {"lr": 0.3, "rho": 0.5}),
    "rmsprop": (optim.RMSProp, "RMSprop", {"alpha": 0.9}, {"rho": 0.5, "weight_decay": 0.1},
                {"alpha": 0.5, "weight_decay": 0.1}),
    "adamax": (optim.AdaMax, "Adamax", {}, {"learning_rate": 0.2, "beta1": 0.2},
               {"lr": 0.2, "betas": (0.2, 0.999)}),
    "radam": (optim.RAdam, "RAdam", {}, {"learning_rate": 0.2, "weight_decay": 0.1},
              {"lr": 0.2, "weight_decay": 0.1}),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_number_changed_between_steps_counts_from_the_next(name: str, torch: Any) -> None:
    cls, theirs, options, ours, changes = CHANGES[name]
    trainer = linear(cls(0.05))
    params = {n: torch.nn.Parameter(torch.tensor(trainer.values[n].copy())) for n in SHAPES}
    reference = getattr(torch.optim, theirs)(params.values(), lr=0.05, **options)
    for step, grads in enumerate(gradients(8)):
        if step == 4:
            for number, value in ours.items():
                setattr(trainer.optimizer, number, value)
            reference.param_groups[0].update(changes)
        trainer.step(fed(grads))
        for n, p in params.items():
            p.grad = torch.tensor(grads[n])
        reference.step()
        for n, p in params.items():
            np.testing.assert_allclose(trainer.values[n], p.detach().numpy(), 1e-9, 1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.RMSProp(rho=1.0), r"rho=1\.0 is out of range"),
        (lambda: optim.Muon(scaling="none at all"), "scaling='none at all' is not known"),
        (lambda: optim.Muon(outputs="depth"), "outputs='depth' is not known"),
        (lambda: optim.Muon(steps=-1), "steps=-1 is out of range"),
        (lambda: optim.Adam8bit(block_size=100), "block_size=100"),
        (lambda: optim.Adafactor(clip_threshold=0.0), "allows no step"),
        (lambda: optim.ScheduleFreeAdamW(beta1=1.0), r"beta1=1\.0 is out of range"),
        (lambda: optim.Nadam(momentum_decay=-1.0), r"momentum_decay=-1\.0 is out of range"),
    ],
)
def test_hyperparameters_that_make_no_sense_are_refused(make: Any, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        make()


@pytest.mark.parametrize("name", ["adafactor", "adam8bit", "schedule-free"])
def test_state_that_does_not_fit_changes_nothing(name: str) -> None:
    trainer = made(name)
    trainer.step(fed(next(gradients(1, SHAPES, "float32"))))
    saved, slot = trainer.state_dict(), next(iter(ALL[name].state(trainer.graph["w"])))
    for key, value in (
        (f"state/w/{slot}", np.zeros((9, 9), "float32")),
        ("state/w/none", np.zeros((3, 4), "float32")),
        ("state/nobody/m", np.zeros((3, 4), "float32")),
    ):
        with pytest.raises(TrainingError, match="saved optimizer state"):
            trainer.load_state_dict({**saved, key: value})
        for k, v in trainer.state_dict().items():
            assert np.asarray(v).tobytes() == np.asarray(saved[k]).tobytes(), k


# -- other state of a step -------------------------------------------------------------------------


def test_other_parts_of_a_step_keep_their_state_by_name() -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.ones(3, "float32"))
    state = Slots(g, g.values)
    (m, _) = state.slots(w, optim.Adam())
    total = state.variable("accumulated/w", TensorSpec((3,)), init=2.0)
    assert g.values[total.name].tolist() == [2.0] * 3
    assert state.variable("accumulated/w", TensorSpec((3,))) is total
    g.values[total.name] = np.arange(3, dtype="float32")
    g.values[m.name] = np.full(3, 5, "float32")
    saved = {k: v.copy() for k, v in state.arrays().items()}
    assert saved.keys() == {"w/m", "w/v", "accumulated/w"}
    state.variable("accumulated/w", TensorSpec((2,)))  # another shape: it begins anew
    assert state.arrays()["accumulated/w"].tolist() == [0.0, 0.0]
    for name in ("step", "step_1", "w/m"):
        with pytest.raises(TrainingError, match="is a name of optimizer state"):
            state.variable(name, TensorSpec(()))
    state.clear_graph()
    assert "accumulated/w" in state.arrays(), "the next step is not built yet"
    state.settle()
    assert "accumulated/w" not in state.arrays(), "nobody asked for it in this step"


def test_slots_begin_as_they_say_and_follow_the_parameter_s_shape() -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.array([1.5, 2.5], gw.spec.dtype("bfloat16")))
    state = Slots(g, g.values)
    z, v, average, total, _ = state.slots(w, optim.ScheduleFreeAdamW())
    assert z.spec == v.spec == average.spec == TensorSpec((2,), "float32")
    assert total.spec == TensorSpec((), "float64")
    assert g.values[z.name].tolist() == g.values[average.name].tolist() == [1.5, 2.5]
    codes, _, zeros, _ = state.slots(w, optim.Adam8bit(min_size=0))
    assert g.values[codes.name].tolist() == [127, 127]
    assert g.values[zeros.name].tolist() == [0, 0]


PER_WEIGHT = {
    "sgd": 0, "noop": 0, "momentum": 1, "nesterov": 1, "lion": 1, "adagrad": 1, "muon": 1,
    "rmsprop": 1, "rmsprop, all": 3, "adadelta": 2, "adam": 2, "adamw": 2, "adamax": 2,
    "nadam": 2, "nadam, by the paper": 2 + 2 / 4096, "radam": 2, "adabelief": 2, "lamb": 2,
    "sparse_adam": 2,
    "amsgrad": 3, "schedule-free": 3 + 4 / 4096, "adafactor": 2 / 64, "adam8bit": 0.5 + 2 / 4,
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_the_state_of_a_weight_is_as_small_as_the_table_says(name: str) -> None:
    w = gw.Graph().variable("w", (64, 64))
    kept = ALL[name].state(w).values()
    size = sum(int(np.prod(s.shape)) * np.dtype(s.dtype).itemsize for s in kept)
    assert size / 4 / 4096 == PER_WEIGHT[name]


# -- in a trainer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_unrolled_steps_are_single_ones(name: str) -> None:
    shapes = shapes_of(name)
    given = [fed(grads) for grads in gradients(4, shapes, "float32")]
    single, unrolled = made(name), made(name)
    for trainer, count in ((single, 1), (unrolled, 4)):
        trainer.fit(given, epochs=1, unroll=count, progress=False)
    for n in shapes:
        assert single.values[n].tobytes() == unrolled.values[n].tobytes()


@pytest.mark.parametrize("name", sorted(ALL.keys() - {"sgd", "noop"}))
def test_a_step_that_is_not_finite_leaves_all_state_as_it_was(name: str) -> None:
    trainer = made(name, nonfinite="skip")
    first, second = gradients(2, shapes_of(name), "float32")
    trainer.step(fed(first))
    before = {n: trainer.values[n].tobytes() for n in trainer.values}
    second["w"][0, 0] = np.inf
    trainer.step(fed(second))
    assert trainer.skipped == 1
    assert {n: trainer.values[n].tobytes() for n in trainer.values} == before


def test_muon_moves_matrices_and_a_group_the_rest() -> None:
    others = ("b", "s", "t", "e")
    mixed = linear(optim.Muon(0.1), groups=[gw.Group(others, optimizer=optim.AdamW(0.1))])
    muon, adamw = linear(optim.Muon(0.1), {"w": SHAPES["w"]}), linear(optim.AdamW(0.1))
    muon.values["w"] = mixed.values["w"]
    for grads in gradients(3):
        mixed.step(fed(grads))
        muon.step(fed({"w": grads["w"]}))
        adamw.step(fed(grads))
    np.testing.assert_allclose(mixed.values["w"], muon.values["w"], 1e-12)
    for n in others:
        np.testing.assert_allclose(mixed.values[n], adamw.values[n], 1e-12)


@pytest.mark.parametrize("names", [{"u": "first/u", "v": "v2"}, {"u": "v", "v": "u"}])
@pytest.mark.parametrize("settings", [{}, {"accumulation": 2, "ema": gw.EMA(0.5)}])
def test_state_is_renamed_with_its_parameter(
    names: dict[str, str], settings: dict[str, Any]
) -> None:
    def trained(renames: bool) -> tuple[gw.Trainer, list[gw.Tensor]]:
        g = gw.Graph()
        x, u, v = g.placeholder("x", (2,)), g.variable("u", (2,)), g.variable("v", (2,), init=0.5)
        loss = ((u - x) ** 2.0 + u * v).sum() + (v**2.0).sum()
        session = gw.Session(g, deterministic=True)
        trainer = gw.Trainer(g, loss, optim.Adam(0.1), session=session, **settings)
        for step in range(9):
            if renames and step == 5:
                for t in (u, v):
                    t.rename(f"away/{t.name}")
                for t in (u, v):
                    t.rename(names[t.name.removeprefix("away/")])
                saved = trainer.state_dict()
                assert {f"state/{n}/m" for n in names.values()} < {*saved}
                trainer.load_state_dict(saved)
            trainer.step({"x": [1.0, -1.0]})
        return trainer, [u, v]

    (plain, expected), (renamed, found) = trained(False), trained(True)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(plain.session.values[a.name], renamed.session.values[b.name])
    state, others = plain.state_dict(), renamed.state_dict()
    assert len(state) == len(others)
    forms = ["{}/m", "{}/v", "{}/step"] + ["accumulated/{}", "averaged/ema/{}"] * bool(settings)
    for form in forms:
        for old, new in names.items():
            a, b = state[f"state/{form.format(old)}"], others[f"state/{form.format(new)}"]
            np.testing.assert_array_equal(a, b)


def test_what_has_become_a_constant_has_no_state_in_a_saved_training() -> None:
    g = gw.Graph()
    u, v = g.variable("u", (2,), init=0.5), g.variable("v", (2,), init=0.5)
    trainer = gw.Trainer(g, (u * v).sum(), optim.Adam(0.1))
    trainer.step({})
    g.to_constant("u")
    trainer.step({})
    saved = trainer.state_dict()
    assert {name for name in saved if name.startswith("state/")} == {
        *("state/v/m", "state/v/v", "state/v/step")
    }
    trainer.load_state_dict(saved)


def test_weights_come_back_to_what_has_another_name_meanwhile() -> None:
    g = gw.Graph()
    u, v = g.variable("u", (2,), init=0.5), g.variable("v", (2,), init=0.5)
    trainer = gw.Trainer(g, (u * v).sum(), optim.Adam(0.1), ema=gw.EMA(0.5))
    for _ in range(3):
        trainer.step({})
    before = {t: g.values[t.name] for t in (u, v)}
    with trainer.averaged("ema"):
        assert not np.array_equal(g.values["u"], before[u])
        u.rename("first")
    for t, array in before.items():
        np.testing.assert_array_equal(g.values[t.name], array)
    assert not trainer.swapped
    trainer.step({})
