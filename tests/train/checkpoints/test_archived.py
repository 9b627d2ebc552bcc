"""A model's archive holds its training: loaded, the trainer goes on to the same bits."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GradwrightError, GraphError, TrainingError
from tests.formats.archives import forge
from tests.support.fed_gradients import fed, gradients
from tests.train.checkpoints.resumed import DATA, StopAfter, fit, trainer_of, whole
from tests.train.test_optimizer_state import ALL, made, shapes_of


def reloaded(trainer, path, **options):
    """Return the trainer that an archive of another one gives, in a graph of its own."""
    gw.save(trainer.graph, path, trainer=trainer)
    return gw.load(path).trainer(**options)


# -- to the bit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_every_optimizer_goes_on_to_the_same_bits(name, tmp_path):
    given = [fed(grads) for grads in gradients(6, shapes_of(name), "float32")]
    straight, first = made(name), made(name)
    for batch in given[:3]:
        straight.step(batch)
        first.step(batch)
    again = reloaded(first, tmp_path / "model.gw")
    assert again.optimizer == replace(ALL[name]) and again.session.deterministic
    assert whole(again) == whole(first)
    for batch in given[3:]:
        straight.step(batch)
        again.step(batch)
    assert whole(again) == whole(straight)


SETTINGS = {
    "schedules and clipping": {},
    "averages": {"ema": gw.EMA(0.9), "swa": gw.SWA(2), "validate_with": "ema"},
    "a window that was begun": {"accumulation": gw.Accumulation(3)},
    "bfloat16": {"precision": "bfloat16"},
    "float16, scaled": {"precision": "float16", "nonfinite": "skip"},
    "float8": {"fp8": True},
    "groups": {
        "groups": [gw.Group("v", optimizer=gw.optim.SGD(0.1, momentum=0.9), l2=0.01)],
        "lr_multipliers": {"w": 0.5},
    },
    "decays": {"l1": 1e-4, "weight_decay": 0.1, "clip_value": 0.5},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_training_stopped_in_an_epoch_goes_on_as_if_it_had_not(name, tmp_path):
    straight = trainer_of(**SETTINGS[name])
    fit(straight, 3)
    stopped = trainer_of(StopAfter(4 if "accumulation" in SETTINGS[name] else 11), **SETTINGS[name])
    fit(stopped, 3)
    again = reloaded(stopped, tmp_path / "net.gw")
    assert whole(again) == whole(stopped)
    assert again.config == stopped.config and again.batches_done == stopped.batches_done > 0
    fit(again, 3 - again.epochs_done)
    assert whole(again) == whole(straight)


def test_values_of_a_session_apart_are_those_that_are_kept(tmp_path):
    def apart():
        g = gw.Graph()
        w = g.variable("w", (3,), init=2.0)
        session = gw.Session(g, deterministic=True, values=g.values.snapshot())
        return gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.Adam(0.1), session=session)

    trainer = apart()
    trainer.step({})
    again = reloaded(trainer, tmp_path / "apart.gw")
    assert again.values["w"].tobytes() == trainer.values["w"].tobytes()
    assert trainer.graph.values["w"].tolist() == [2.0] * 3
    again.step({})
    trainer.step({})
    assert again.values["w"].tobytes() == trainer.values["w"].tobytes()


def test_losses_keep_their_names_and_frozen_variables_stay_frozen(tmp_path):
    g = gw.Graph()
    w, b = g.variable("w", (), init=2.0), g.variable("b", (), init=1.0)
    losses = {"square": w * w, "near": (b - 3.0) ** 2.0}
    trainer = gw.Trainer(g, losses, optimizer=gw.optim.SGD(0.1), deterministic=True)
    g.freeze("b")
    trainer.step({})
    again = reloaded(trainer, tmp_path / "two.gw")
    record = again.step({})
    assert {"square", "near", "loss"} <= record.metrics.keys()
    assert [t.name for t in again.parameters] == ["w"]
    assert record.metrics == trainer.step({}).metrics


def test_how_the_session_ran_is_kept(tmp_path):
    g = gw.Graph()
    w = g.variable("w", (8,), init=2.0)
    session = gw.Session(
        g, deterministic=True, kernels="off", checkpoint=2, skip_rewrites="square_neg", seed=5
    )
    trainer = gw.Trainer(g, (w * w).sum(), session=session)
    again = reloaded(trainer, tmp_path / "how.gw")
    assert again.session.options == session.options
    assert (again.session.seed, again.session.deterministic) == (5, True)
    default = reloaded(gw.Trainer(g, "sum"), tmp_path / "how.gw")
    assert not default.session.deterministic


# -- code is given anew ----------------------------------------------------------------------------


def test_metrics_and_callbacks_that_are_code_are_given_anew(tmp_path):
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 4)), g.placeholder("t", (None,), "int64")
    logits = gw.identity(x @ g.variable("w", (4, 3)), name="logits")
    loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    metrics = {"f1": gw.metrics.MacroF1(t, logits), "norm": gw.mean(logits * logits, name="n")}
    rng = np.random.default_rng(0)
    data = {"x": rng.standard_normal((12, 4)).astype("f4"), "t": rng.integers(0, 3, 12)}
    trainer = gw.Trainer(g, loss, metrics=metrics, callbacks=[StopAfter(2)], deterministic=True)
    trainer.fit(data, epochs=2, batch_size=4, progress=False)
    path = tmp_path / "f1.gw"
    gw.save(g, path, trainer=trainer)
    with pytest.raises(TrainingError, match=r"measured 'f1'[\s\S]*metrics=\{'f1': MacroF1"):
        gw.load(path).trainer()
    loaded = gw.load(path)
    again = loaded.trainer(
        metrics={"f1": gw.metrics.MacroF1(loaded["t"], loaded["logits"])},
        callbacks=[StopAfter(5)],
    )
    again.fit(data, epochs=2, batch_size=4, progress=False)
    assert again.steps_done == 5
    assert again.history.epochs["f1"].size == 1 and np.isfinite(again.history.epochs["f1"]).all()
    assert {"f1", "norm"} <= set(again.history.epochs)


def test_a_schedule_that_is_a_function_is_refused_before_anything_is_written(tmp_path):
    g = gw.Graph()
    w = g.variable("w", (), init=2.0)
    trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(lambda step: 0.1))
    with pytest.raises(TrainingError, match=r"optimizer.learning_rate.*is a function"):
        gw.save(g, tmp_path / "f.gw", trainer=trainer)
    assert not list(tmp_path.iterdir())


def test_an_objective_is_given_anew(tmp_path):
    class Own:
        def __init__(self, graph):
            self.graph = graph
            self.losses, self.metrics = {"loss": graph["square"]}, {}

        def batches(self, data, at, **how):
            return data

        def feeds(self, batch):
            return {}

    g = gw.Graph()
    w = g.variable("w", (), init=2.0)
    gw.square(w, name="square")
    trainer = gw.Trainer(g, Own(g), optimizer=gw.optim.SGD(0.1))
    trainer.step({})
    path = tmp_path / "own.gw"
    gw.save(g, path, trainer=trainer)
    loaded = gw.load(path)
    with pytest.raises(TrainingError, match="objective of its own, Own"):
        loaded.trainer()
    again = loaded.trainer(Own(loaded))
    assert again.steps_done == 1 and isinstance(again.parts.objective, Own)


# -- what it is no training of ---------------------------------------------------------------------


def test_a_trainer_is_that_of_the_graph(tmp_path):
    g, other = trainer_of().graph, trainer_of()
    with pytest.raises(TrainingError, match="another graph"):
        gw.save(g, tmp_path / "g.gw", trainer=other)
    with pytest.raises(TrainingError, match="is no trainer"):
        gw.save(g, tmp_path / "g.gw", trainer=gw.optim.Adam())
    with pytest.raises(GraphError, match="state 'trainer'"):
        gw.save(other.graph, tmp_path / "g.gw", trainer=other, state={"trainer": {}})
    averaging = trainer_of(ema=gw.EMA(0.5))
    fit(averaging, 1)
    with averaging.averaged("ema"), pytest.raises(TrainingError, match="average"):
        gw.save(averaging.graph, tmp_path / "g.gw", trainer=averaging)
    assert not list(tmp_path.iterdir())


def test_archives_without_a_training_say_so(tmp_path):
    g = trainer_of().graph
    with pytest.raises(TrainingError, match="was not loaded from an archive"):
        g.trainer()
    g.save(tmp_path / "g.gw", state={"trainer": trainer_of().state_dict()})
    with pytest.raises(TrainingError, match="holds a model and no trainer"):
        gw.load(tmp_path / "g.gw").trainer()


def test_a_file_that_has_changed_since_is_not_mixed_with_what_was_loaded(tmp_path):
    trainer, path = trainer_of(), tmp_path / "net.gw"
    fit(trainer, 1)
    gw.save(trainer.graph, path, trainer=trainer)
    loaded = gw.load(path, mmap=True)
    fit(trainer, 1)
    gw.save(trainer.graph, path, trainer=trainer)
    with pytest.raises(ArchiveError, match="has changed since"):
        loaded.trainer()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        loaded.trainer()


def test_checkpoints_and_archived_trainings_are_read_by_both(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path / "c")
    trainer = trainer_of(checkpoints)
    fit(trainer, 2)
    mark = whole(trainer)
    again = gw.load(checkpoints.list()[-1].path).trainer()
    assert whole(again) == mark and again.session.deterministic
    path = tmp_path / "net.gw"
    gw.save(trainer.graph, path, trainer=trainer)
    assert gw.inspect(path).states == ("trainer",)
    fresh = trainer_of()
    one = gw.resume(fresh, tmp_path, path)
    assert whole(fresh) == mark and one.metrics["val_loss"] == trainer.history.last()["val_loss"]
    fit(again, 1, data=DATA)
    fit(trainer, 1)
    assert whole(again) == whole(trainer)


# -- forged ----------------------------------------------------------------------------------------


def fields(value, at=()):
    yield at
    for key in value if isinstance(value, dict) else ():
        yield from fields(value[key], (*at, key))


def test_forged_records_and_states_give_our_errors(tmp_path):
    trainer, path = trainer_of(ema=gw.EMA(0.9)), tmp_path / "net.gw"
    fit(trainer, 1)
    gw.save(trainer.graph, path, trainer=trainer)
    data = path.read_bytes()
    refusals = 0

    def forged(at, wrong):
        def change(held):
            record = holder = json.loads(held["checkpoint.json"])
            for key in at[:-1]:
                holder = holder[key]
            holder[at[-1]] = copy.deepcopy(wrong)
            held["checkpoint.json"] = json.dumps(record).encode()

        return change

    def record(held):
        found.update(json.loads(held["checkpoint.json"]))

    found = {}
    forge(path, record)
    own = {"made": found["made"], "present": {"session": found["present"]["session"]}}
    deep = [[[[[[]]]]]]
    for at in [at for at in fields(own) if at]:
        for wrong in (None, -1, 2**70, "x", deep, {"a": 1}, {"$class": "Adam"}, 0.5):
            path.write_bytes(data)
            forge(path, forged(at, wrong))
            loaded = gw.load(path)
            before = {t.name: loaded.values[t.name].tobytes() for t in loaded.variables}
            try:
                again = loaded.trainer()
            except GradwrightError:
                refusals += 1
            else:
                again.evaluate(DATA)
            assert before == {t.name: loaded.values[t.name].tobytes() for t in loaded.variables}
    assert refusals > 40
