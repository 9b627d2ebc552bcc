"""TrainingConfig: one value with all settings, its JSON, and what a trainer makes of it."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, TrainingError
from gradwright.words.jsonable import from_json, jsonable, to_json


def line(**options):
    """Return a trainer of y = w·x with a mean squared error."""
    g = gw.Graph("line")
    x, t = g.placeholder("x", (None,)), g.placeholder("t", (None,))
    w = g.variable("w", (), init=1.0)
    error = x * w - t
    gw.mean(gw.abs(error), name="distance")
    return gw.Trainer(g, gw.mean(error * error, name="loss"), **options)


def rows(n=16):
    x = np.linspace(-1, 1, n).astype("float32")
    return {"x": x, "t": 3 * x}


def state_bytes(trainer):
    return {name: trainer.values[name].tobytes() for name in trainer.values}


FULL = {
    "optimizer": gw.optim.AdamW(gw.schedules.Cosine(0.1, steps=100, warmup=5), weight_decay=0.1),
    "groups": [gw.Group(("*/b", "c"), optimizer=gw.optim.Muon(0.02), l2=0.5)],
    "lr_multipliers": {"w": 0.5},
    "l1": 1e-5,
    "clip_norm": 1.0,
    "clip_value": 10,
    "nonfinite": "skip",
    "accumulation": gw.Accumulation(4, by="token", tokens="mask"),
    "precision": "float16",
    "loss_scale": 1024,
    "ema": gw.EMA(0.99, buffers=True),
    "swa": gw.SWA(start=10),
    "validate_with": "swa",
    "features": "x",
    "labels": ["t"],
    "seed": 3,
    "checkpoint": ["block_*/out"],
    "deterministic": True,
    "losses": ["loss"],
    "metrics": {"error": "distance"},
}


# -- as JSON ---------------------------------------------------------------------------------------


def test_a_configuration_comes_back_from_strict_json():
    config = gw.TrainingConfig(**FULL)
    text = json.dumps(config.to_json(), allow_nan=False)
    again = gw.TrainingConfig.from_json(json.loads(text))
    assert again == config
    assert again.to_json() == config.to_json()
    assert (again.loss_scale.mode, again.loss_scale.initial) == ("static", 1024.0)
    assert again.optimizer.learning_rate(0) == config.optimizer.learning_rate(0)
    assert again.differences(config) == []
    assert again.but(seed=4, l1=0.0).differences(config) == ["l1: 0.0, not 1e-05", "seed: 4, not 3"]
    assert gw.TrainingConfig.from_json(gw.TrainingConfig().to_json()) == gw.TrainingConfig()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"$class": "TrainingConfig", "l3": 1.0}, r"TrainingConfig has no field 'l3'"),
        ({"$class": "Popen", "args": "ls"}, "class 'Popen', which is not known"),
        ({"$class": ["os"]}, "is not known"),
        ({"$class": "TrainingConfig", "l2": -1}, "l2=-1 is out of range"),
        ({"$class": "TrainingConfig", "optimizer": {"$class": "EMA"}}, "is no optimizer"),
        ({"$class": "EMA", "decay": "much"}, "decay='much' is out of range"),
        ({"$class": "EMA", "decay": {"$number": "exp(1)"}}, "'decay' is no number: 'exp"),
        ({"$class": "Group"}, "is no Group: .*variables"),
        ({"$class": "EMA"}, "no TrainingConfig, but EMA"),
        ({"l2": 1.0}, "no TrainingConfig, but dict"),
    ],
)
def test_json_that_is_no_configuration_is_named(data, message):
    with pytest.raises(TrainingError, match=message):
        gw.TrainingConfig.from_json(data)


def test_what_json_cannot_hold_is_named_with_its_field():
    g = gw.Graph()
    for value, message in (
        (gw.TrainingConfig(gw.optim.SGD(lambda step: 0.1)), r"'optimizer.learning_rate' is a func"),
        ({"a": [1, g.variable("w", ())]}, r"\"\['a'\]\[1\]\" is a Tensor"),
        ({"a": {3: 1}}, r"has the key 3"),
        ({"$class": 1}, r"has the key '\$class'"),
    ):
        with pytest.raises(TrainingError, match=message):
            to_json(value)


def test_numbers_without_a_word_in_json_come_back():
    data = {"a": (float("inf"), -float("inf"), np.float32(0.5), np.int64(3), None, True)}
    again = from_json(json.loads(json.dumps(to_json(data), allow_nan=False)))
    assert again == data
    assert np.isnan(from_json(to_json(float("nan"))))


def test_names_of_other_classes_are_not_taken():
    @jsonable
    @dataclasses.dataclass
    class Mine:
        n: int = 0

    assert from_json(to_json(Mine(3))) == Mine(3)
    other = dataclasses.make_dataclass("EMA", ["n"])
    with pytest.raises(TypeError, match=r"'EMA' is the name of gradwright.train.settings.EMA"):
        jsonable(other)
    with pytest.raises(TypeError, match="int is no dataclass"):
        jsonable(int)


# -- checks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"l1": -0.1}, "l1=-0.1 is out of range"),
        ({"l2": True}, "l2=True is out of range"),
        ({"weight_decay": float("inf")}, "weight_decay=inf is out of range"),
        ({"clip_norm": 0}, "clip_norm=0 is out of range"),
        ({"clip_value": "1"}, "clip_value='1' is out of range"),
        ({"lr_multipliers": {"w": -1}}, r"lr_multipliers\['w'\]=-1 is out of range"),
        ({"nonfinite": "ignore"}, "nonfinite='ignore' is not known"),
        ({"ema": 0.99}, r"ema=0.99 is none(.|\n)*gw.EMA"),
        ({"accumulation": 0}, "steps=0 are no batches"),
        ({"accumulation": "4"}, r"accumulation='4' is none(.|\n)*gw.Accumulation"),
        ({"groups": ["w"]}, r"'w' is no group"),
        ({"precision": "float99"}, "cannot be computed in 'float99'"),
        ({"loss_scale": "sometimes"}, "loss scaling 'sometimes' is not known"),
        ({"seed": 1.5}, "seed=1.5 is no seed"),
        ({"optimizer": "adamm"}, "'adamm' is no optimizer"),
        ({"features": [1]}, r"features cannot be \[1\]"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, message):
    with pytest.raises(TrainingError, match=message):
        gw.TrainingConfig(**settings)
    with pytest.raises(TrainingError, match=message):
        line(**settings)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("max_grad_norm", "clip_norm="),
        ("gradient_accumulation_steps", "accumulation="),
        ("lr", "optimizer=gw.optim.Adam"),
        ("kernel", "'kernels'"),
        ("gradient_checkpointing", "checkpoint='sqrt'"),
        ("epochs", "fit"),
    ],
)
def test_names_of_other_libraries_are_understood(name, meant):
    with pytest.raises(TypeError, match=f"Trainer has no {name!r}; did you mean .*{meant}"):
        line(**{name: 1})
    with pytest.raises(TypeError, match="TrainingConfig has no"):
        gw.TrainingConfig(**{name: 1})


# -- what a trainer makes of it --------------------------------------------------------------------


def test_keywords_and_a_configuration_are_the_same_training():
    settings = {"optimizer": gw.optim.Adam(0.1), "clip_norm": 1.0, "l2": 0.01, "seed": 7}
    by_keywords = line(**settings, metrics={"distance": "distance"}, deterministic=True)
    graph = line().graph
    config = gw.TrainingConfig.from_json(by_keywords.config.to_json())
    by_config = gw.Trainer(graph, config=config)
    assert by_config.config == by_keywords.config
    assert by_config.config.losses == ("loss",)
    for trainer in (by_keywords, by_config):
        trainer.fit(rows(), epochs=3, batch_size=4, progress=False)
    assert by_config.values["w"] == by_keywords.values["w"]
    for name in ("loss", "distance", "l2_penalty"):
        np.testing.assert_array_equal(
            by_config.history.steps[name], by_keywords.history.steps[name]
        )
    changed = gw.Trainer(graph, config=config, clip_norm=None, seed=8)
    assert changed.config.differences(config) == ["clip_norm: None, not 1.0", "seed: 8, not 7"]


def test_a_configuration_changes_between_two_steps():
    trainer = line(optimizer=gw.optim.SGD(0.1))
    trainer.step(rows())
    before = trainer.values["w"].item()
    trainer.config = trainer.config.but(clip_norm=1e-3)
    trainer.step(rows())
    assert abs(trainer.values["w"] - before) == pytest.approx(1e-4, rel=1e-3)
    trainer.clip_norm = None
    assert trainer.config.clip_norm is None
    for name, value in (("kernels", "off"), ("losses", ["distance"])):
        with pytest.raises(TrainingError, match=f"{name} cannot change"):
            trainer.config = trainer.config.but(**{name: value})


def test_a_trainer_makes_its_session_as_it_is_told():
    trainer = line(kernels="off", threads=1, checkpoint="sqrt", deterministic=True, seed=5)
    options = trainer.session.options
    assert (options.kernels, options.checkpoint) == ("off", "sqrt")
    assert trainer.session.deterministic
    assert (trainer.seed, trainer.session.seed) == (5, 5)
    assert not line().session.deterministic

    class Exact(gw.Callback):
        needs_deterministic = True

    assert line(callbacks=[Exact()]).session.deterministic
    assert not line(callbacks=[Exact()], deterministic=False).session.deterministic
    graph = trainer.graph
    with pytest.raises(TrainingError, match=r"checkpoint= is for the session(.|\n)*gw.Session"):
        gw.Trainer(graph, "loss", session=gw.Session(graph), checkpoint="sqrt")


def test_activations_that_are_computed_again_give_the_same_numbers():
    def deep(**options):
        g = gw.Graph()
        x = g.placeholder("x", (None, 8))
        h = x
        for i in range(6):
            w = np.random.default_rng(i).standard_normal((8, 8)).astype("float32") * 0.3
            h = gw.tanh(h @ g.variable(f"w{i}", init=w))
        return gw.Trainer(g, gw.mean(h * h), deterministic=True, **options)

    data = {"x": np.random.default_rng(0).standard_normal((32, 8)).astype("float32")}
    found = []
    for checkpoint in (None, "sqrt", 2):
        trainer = deep(checkpoint=checkpoint)
        trainer.fit(data, epochs=2, batch_size=8, progress=False)
        found.append(np.concatenate([trainer.values[f"w{i}"].ravel() for i in range(6)]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-6)


def test_features_and_labels_say_what_arrays_are_for():
    x, t = rows().values()
    results = []
    for data in ((x, t), ((x,), t), {"x": x, "t": t}, None):
        options = {"optimizer": gw.optim.SGD(0.1), "deterministic": True}
        trainer = line(features=("x",), labels=("t",), **options)
        given = (x, t) if data is None else (data,)
        trainer.fit(*given, epochs=2, batch_size=4, progress=False)
        assert trainer.evaluate((x, t))["loss"] == trainer.evaluate({"x": x, "t": t})["loss"]
        trainer.step((x, t))
        results.append(trainer.values["w"].item())
    assert len(set(results)) == 1
    with pytest.raises(FeedError, match=r"'?x'?, '?t'?"):
        trainer.fit((x, t, t), progress=False)
    with pytest.raises(TrainingError, match="one argument of data"):
        line().fit(x, t, progress=False)


def test_the_state_of_callbacks_is_part_of_the_trainer_s():
    class Counting(gw.Callback):
        steps = 0

        def on_step_end(self, trainer, record):
            self.steps += 1

        def state_dict(self):
            return {"steps": self.steps}

        def load_state_dict(self, state):
            self.steps = int(state["steps"])

    trainer = line(callbacks=[gw.Callback(), Counting()])
    for _ in range(3):
        trainer.step(rows())
    again = line(callbacks=[gw.Callback(), Counting()])
    again.load_state_dict(trainer.state_dict())
    assert again.callbacks[1].steps == 3


# -- the scale of the loss -------------------------------------------------------------------------


def overflowing(**options):
    """Return a trainer whose gradient overflows float16 where the scale is above 2^10."""
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    w = g.variable("w", (), init=1.0)
    seen = g.variable("seen", (), trainable=False)
    g.update(seen, seen + 1.0)
    half = gw.cast(gw.cast(w, "float16") * gw.cast(x, "float16"), "float32")
    options.setdefault("optimizer", gw.optim.Adam(0.01))
    loss = gw.mean(half, name="loss")
    return gw.Trainer(g, loss, ema=gw.EMA(0.9), deterministic=True, **options)


def test_an_overflow_skips_the_whole_step_and_moves_the_scale():
    trainer = overflowing(loss_scale=gw.LossScale(initial=2.0**12, interval=3))
    data = {"x": np.full(1, 40.0)}  # 40·2^11 > 65504
    trainer.parts.taker.current()
    before = state_bytes(trainer)
    for scale in (2.0**12, 2.0**11):
        record = trainer.step(data)
        assert record.metrics["loss_scale"] == scale
        assert state_bytes(trainer) == before
    assert (trainer.skipped, trainer.scaler.scale) == (2, 2.0**10)
    trainer.step(data)
    assert state_bytes(trainer) != before
    assert trainer.values["seen"] == 1.0
    trainer.step(data), trainer.step(data)
    assert trainer.scaler.scale == 2.0**11
    assert trainer.history.steps["loss_scale"].tolist() == [4096, 2048, 1024, 1024, 1024]


def test_a_scale_of_a_power_of_two_changes_no_bit():
    found = []
    for scale in (None, 256.0, "dynamic"):
        trainer = line(optimizer=gw.optim.Adam(0.05), loss_scale=scale, deterministic=True)
        trainer.fit(rows(), epochs=3, batch_size=4, progress=False)
        found.append((trainer.values["w"].item(), trainer.history.steps["grad_norm"].tolist()))
    assert found[0] == found[1] == found[2]


def test_the_scale_is_saved_and_continued_to_the_bit():
    def fresh():
        return overflowing(loss_scale=gw.LossScale(initial=2.0**13, interval=2))

    whole, first, second = fresh(), fresh(), fresh()
    data = {"x": np.full(1, 40.0)}
    for _ in range(9):
        whole.step(data)
    for _ in range(4):
        first.step(data)
    for t in first.graph.variables:
        second.values[t.name] = first.values[t.name]
    second.load_state_dict(first.state_dict())
    assert second.skipped == first.skipped
    for _ in range(5):
        second.step(data)
    for t in whole.graph.variables:
        assert second.values[t.name].tobytes() == whole.values[t.name].tobytes()
    saved, expected = second.state_dict(), whole.state_dict()
    assert saved.keys() == expected.keys()
    for name in saved.keys() - {"history/steps/seconds"}:
        np.testing.assert_array_equal(saved[name], expected[name])
    assert second.scaler.state_dict() == whole.scaler.state_dict()
    with pytest.raises(TrainingError, match="state with a loss scale"):
        overflowing().load_state_dict(first.state_dict())


def test_a_loss_that_no_scale_mends_is_refused_in_the_end():
    trainer = overflowing(loss_scale="dynamic")
    trainer.step({"x": np.ones(1)})
    with pytest.raises(TrainingError, match="the data of placeholder 'x' is not finite"):
        for _ in range(60):
            trainer.step({"x": np.full(1, np.nan)})
    assert 30 < trainer.skipped < 60
    skipping = overflowing(loss_scale="dynamic", nonfinite="skip")
    for _ in range(60):
        skipping.step({"x": np.full(1, np.nan)})
    assert skipping.skipped == 60


def test_help_describes_every_field():
    said = inspect.getdoc(gw.TrainingConfig).partition("Args:\n")[2].partition("\n\n")[0]
    described = re.findall(r"^    (\w+): \S", said, re.MULTILINE)
    assert described == [f.name for f in dataclasses.fields(gw.TrainingConfig)]
    assert "help(gw.TrainingConfig)" in inspect.getdoc(gw.Trainer)
