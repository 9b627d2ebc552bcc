"""GradientWatch: what it leaves as it is, how it stops a training, and what it keeps."""

from __future__ import annotations

import gc
import json
import weakref

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.live.points import Point
from gradwright.errors import TrainingError
from tests.support.watched import HEALTHY, bend, bent, dense, each_step, fit, weight

pytestmark = pytest.mark.filterwarnings("ignore:step [0-9]+. .* is wrong:UserWarning")


# -- what it leaves alone --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["cnn with batch norm and dropout", "float16, scaled", "accumulation", "lstm, a scan"]
)
def test_bits_of_a_training_stay(name):
    found = []
    for watch in (None, each_step(precision=True)):
        model = HEALTHY[name]()
        callbacks = [] if watch is None else [watch]
        trainer = model.trainer(*callbacks, deterministic=True, seed=5)
        history = fit(trainer, model.batches(), epochs=2)
        values = {n: a.tobytes() for n, a in trainer.values.items()}
        found.append((values, [history.steps[k].tobytes() for k in ("loss", "grad_norm")]))
    assert found[0] == found[1]


def test_it_goes_on_with_what_training_does_to_a_graph():
    model = HEALTHY["norms"]()
    g, batches = model.loss.graph, model.batches()
    watch = each_step()
    trainer = model.trainer(watch)
    fit(trainer, batches)
    g.freeze("w", "w2")
    fit(trainer, batches, epochs=4)
    seen = {p.name for p in watch.points if p.kind == "element" and p.step > 9}
    assert seen
    assert not seen & {"w", "w2"}
    g.unfreeze("w")
    with g:
        other = gw.square(g["v"], name="squared")
    fit(trainer, [*batches[:3], {k: a[:5] for k, a in batches[3].items()}])  # another size
    trainer.optimizer = gw.optim.SGD(0.01)
    fit(trainer, batches)
    assert other.graph is g
    assert watch.alarms == ()
    assert len(watch.points) == trainer.steps_done


def test_a_batch_that_has_to_stay_whole_stays_whole():
    g = gw.Graph()
    x = g.placeholder("x", (None, 3))
    w = weight_of(g)
    pairs = gw.reshape(x @ w, (4, 2, 2))  # eight rows, no fewer
    loss = gw.mean(gw.tanh(pairs[:, 0] * pairs[:, 1]), name="loss")
    watch = each_step()
    trainer = gw.Trainer(g, loss, callbacks=[watch])
    fit(trainer, [{"x": np.random.default_rng(0).standard_normal((8, 3)).astype("f4")}] * 12)
    assert {p.name for p in watch.points if p.kind == "node"} >= {"matmul", "tanh", "loss"}
    assert watch.alarms == ()


def weight_of(graph):
    with graph:
        return weight("w", 3, 2)


def test_what_cannot_be_watched_is_said_once_and_trained_all_the_same():
    op = gw.define_op("watching/eight", lambda x: eight(x), vjp=lambda g, y, x: g)
    g = gw.Graph()
    loss = gw.mean(op(g.placeholder("x", (None, 3)) @ weight_of(g)), name="loss")
    watch = each_step()
    trainer = gw.Trainer(g, loss, callbacks=[watch], kernels="off")
    with pytest.warns(UserWarning, match="cannot be watched: .*only float32") as caught:
        fit(trainer, [{"x": np.ones((8, 3), "f4")}] * 4)
    assert len(caught) == 1
    assert trainer.steps_done == 4


def eight(x):
    if x.dtype != np.float32 and x.size > 1:
        raise ValueError("only float32")
    return x + 0


# -- stopping, telling, keeping --------------------------------------------------------------------


def test_an_alarm_may_stop_a_fit_and_is_told_once():
    model, batches, _ = bent(factor=0.25)
    told, heard = [], []
    watch = each_step(stop=True, on_alarm=told.append)
    end = watch.listen(lambda w: heard.append((w.state, w.version)))
    trainer = model.trainer(watch)
    fit(trainer, batches, epochs=9)
    assert trainer.progress.outcome == "stopped"
    assert watch.reason.startswith(f"step {watch.alarm.step}: watching/bend 'bend'")
    assert told == [watch.alarm]
    assert watch.state == "idle"
    assert heard[0][0] == "watching"
    assert "alarm" in dict(heard)
    assert [v for _, v in heard] == sorted({v for _, v in heard})
    end()
    count = len(heard)
    fit(trainer, batches)
    assert trainer.progress.outcome == "finished"
    assert len(heard) == count
    assert told == [watch.alarm]


def test_it_may_join_and_leave_in_the_midst_of_a_fit():
    model, batches, _ = bent(factor=0.5)
    watch = each_step()

    class Join(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 10:
                trainer.add_callback(watch)
            if record.step == 20:
                assert watch.state == "alarm"
                trainer.remove_callback(watch)

    fit(model.trainer(Join()), batches, epochs=4)
    assert 10 < watch.alarm.step < 20
    assert watch.points[-1].step <= 20
    assert watch.cost.share < 1e3  # time is counted from where it joined


def test_short_fits_and_single_steps_make_one_turn():
    model = HEALTHY["norms"]()
    watch = each_step()
    trainer = model.trainer(watch)
    for batch in model.batches():
        fit(trainer, [batch])
        trainer.step(batch)
    nodes = [p.name for p in watch.points if p.kind == "node"]
    assert len(watch.points) == 16
    assert len(set(nodes[:10])) == 10


def test_an_alarm_may_pause_a_training():
    model, batches, _ = bent(factor=0.25)
    paused = []

    class Resume(gw.Callback):
        def on_pause(self, trainer):
            paused.append(trainer.steps_done)
            trainer.resume()

    watch = each_step()
    trainer = model.trainer(watch, Resume())
    watch.on_alarm = lambda alarm: trainer.pause()
    fit(trainer, batches, epochs=4)
    assert len(paused) == 1
    assert watch.alarm.step <= paused[0] < 8
    assert trainer.steps_done == 32


def test_a_mended_op_may_be_broken_again():
    model, batches, _ = bent(factor=0.5)
    watch = each_step()
    trainer = model.trainer(watch)
    fit(trainer, batches, epochs=4)
    bend()
    fit(trainer, batches, epochs=4)
    bend(factor=2.0)
    fit(trainer, batches, epochs=4)
    assert [a.address for a in watch.alarms] == ["bend", "bend"]
    assert watch.alarms[0].step < 32
    assert watch.alarms[1].step == 65


def test_a_run_keeps_what_was_seen(tmp_path):
    model, batches, _ = bent()
    run, watch = gw.Run(tmp_path / "run", store=None), each_step()
    trainer = model.trainer(run, watch)
    fit(trainer, batches, epochs=2)
    bend(factor=0.5)
    fit(trainer, batches, epochs=2)
    seen = run.read().gradient_watch
    assert seen.points == watch.points
    assert seen.alarms == list(watch.alarms)
    assert "bend" in str(seen)
    figure = seen.plot()
    assert sum(len(t.x) for t in figure.data if t.mode == "markers") == len(seen.points)
    assert gw.train.RunFolder(tmp_path / "run").status == "finished"


def test_a_run_without_a_watch_has_seen_nothing(tmp_path):
    model = dense(gw.tanh)
    run = gw.Run(tmp_path / "run", store=None)
    fit(model.trainer(run), model.batches())
    assert run.read().gradient_watch is None


def test_a_damaged_event_is_said(tmp_path):
    model = dense(gw.tanh)
    run = gw.Run(tmp_path / "run", store=None)
    fit(model.trainer(run, each_step()), model.batches())
    with (tmp_path / "run" / "events.jsonl").open("a") as file:
        file.write('{"event": "gradients", "step": [1]}\n')
    with pytest.raises(TrainingError, match="an event that is none"):
        run.read().gradient_watch  # noqa: B018


def test_it_goes_on_where_a_checkpoint_was_taken(tmp_path):
    def training():
        model, batches, _ = bent(factor=0.5, deterministic=True)
        watch = each_step()
        return model.trainer(watch, gw.Checkpoints(tmp_path, every_epochs=1)), watch, batches

    trainer, watch, batches = training()
    fit(trainer, batches)
    points, alarms = watch.points, watch.alarms
    fit(trainer, batches)
    values = dict(trainer.values)
    again, other, batches = training()
    gw.resume(again, tmp_path, 8)
    assert (other.points, other.alarms) == (points, alarms)
    fit(again, batches)
    assert all(np.array_equal(again.values[n], a) for n, a in values.items())
    assert other.alarms == alarms  # what was told is not told again


def test_what_it_says_is_json_and_text():
    model, batches, _ = bent(factor=0.5)
    watch = each_step()
    assert "nothing seen yet" in repr(watch)
    fit(model.trainer(watch), batches)
    found = json.loads(json.dumps(watch.to_dict(), allow_nan=False))
    assert found["alarms"][0]["address"] == "bend"
    assert len(found["points"]["step"]) == len(watch.points)
    assert "wrong since step" in repr(watch)
    assert str(watch).splitlines()[2].startswith("bend")
    assert "<table>" in watch._repr_html_()
    assert watch.worst.name == "bend"
    assert isinstance(watch.worst, Point)


@pytest.mark.parametrize("options", [{"budget": -0.1}, {"budget": 2.0}, {"every": 0}, {"rtol": 0}])
def test_settings_that_make_no_sense_are_refused(options):
    with pytest.raises(TrainingError, match="makes no sense"):
        gw.GradientWatch(**options)


def test_it_forgets_another_training():
    model, batches, _ = bent(factor=0.5)
    watch = each_step()
    fit(model.trainer(watch), batches)
    assert watch.alarm
    other = dense(gw.tanh)
    fit(other.trainer(watch), other.batches())
    assert watch.alarm is None
    assert {p.name for p in watch.points} <= {
        "matmul",
        "add",
        "tanh",
        "matmul_1",
        "sub",
        "pow",
        "loss",
        *"wbv",
    }


def test_a_training_that_is_watched_goes_when_nobody_holds_it():
    model = dense(gw.tanh)
    watch = each_step()
    trainer = model.trainer(watch)
    fit(trainer, model.batches(), epochs=2)
    held = weakref.ref(trainer)
    gc.disable()
    try:
        del trainer
        assert held() is None
    finally:
        gc.enable()
    assert watch.points


@pytest.mark.filterwarnings("error")
def test_an_alarm_that_nobody_takes_is_a_warning():
    """A watch beside a training in a terminal would else find a mistake and say nothing."""
    model, batches, late = bent()
    late[...] = 1.0
    with pytest.warns(UserWarning, match=r"step \d+: .* is wrong: its vjp"):
        fit(model.trainer(watch := each_step()), batches)
    assert watch.alarm is not None
    heard = []
    fit(model.trainer(watch := each_step(on_alarm=heard.append)), batches)
    assert heard == list(watch.alarms) != []
