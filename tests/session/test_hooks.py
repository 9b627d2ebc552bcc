"""Hooks and metrics of users: what they raise, and Ctrl-C in them, leaves trainings exact."""

from __future__ import annotations

import signal
import sys
import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.files.lock import Lock
from gradwright.train.checkpoints.writer import Background

DATA = {"x": np.random.default_rng(5).standard_normal((20, 3)).astype("float32")}
STEPS = 5


class Failing(gw.metrics.Metric):
    """Counts batches, and fails once."""

    def __init__(self, tensor, where, at):
        self.fetches, self.where, self.left = (tensor,), where, at

    def fail(self, where):
        self.left -= where == self.where
        if where == self.where and self.left == 0:
            raise ZeroDivisionError(where)

    def start(self):
        self.fail("start")
        return 0.0

    def add(self, total, arrays, rows):
        self.fail("add")
        return total + 1.0

    def result(self, total):
        self.fail("result")
        return float(total)


class Hook(gw.Callback):
    """Does something in one hook."""

    def __init__(self, hook, do):
        setattr(self, hook, lambda trainer, *_: do(trainer))


def net(**options):
    """Return a trainer whose rate, momentum and bias tell how many steps it has counted."""
    g = gw.Graph()
    w = g.variable("w", (3,), init=[1.0, 2.0, -1.0])
    loss = gw.mean((g.placeholder("x", (None, 3)) @ w - 1.0) ** 2.0, name="loss")
    options.setdefault("optimizer", gw.optim.Adam(gw.schedules.Cosine(0.1, steps=20)))
    return gw.Trainer(g, loss, deterministic=True, **options)


def failing(where, at, **options):
    g = (trainer := net()).graph
    metrics = {"m": Failing(g["loss"], where, at)}
    optimizer = trainer.optimizer
    return gw.Trainer(g, g["loss"], optimizer, metrics=metrics, deterministic=True, **options)


def finish(trainer, **options):
    return trainer.fit(
        DATA, epochs=3 - trainer.epochs_done, batch_size=4, progress=False, **options
    )


def outcome(trainer):
    return trainer.steps_done, trainer.batches_done, trainer.values["w"].tobytes()


# -- metrics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"accumulation": 2}])
@pytest.mark.parametrize("unroll", [1, 3])
@pytest.mark.parametrize("where", ["start", "add", "result"])
@pytest.mark.parametrize("at", [1, 4, 6])
def test_a_step_counts_whatever_a_metric_raises(where, at, unroll, options):
    whole = net(**options)
    finish(whole)
    trainer = failing(where, at, **options)
    with pytest.raises(ZeroDivisionError):
        finish(trainer, unroll=unroll)
    finish(trainer, unroll=unroll)
    assert outcome(trainer) == outcome(whole)


def test_a_result_that_is_no_number_names_the_metric():
    class Nothing(Failing):
        def result(self, total):
            return None

    g = net().graph
    trainer = gw.Trainer(g, g["loss"], metrics={"m": Nothing(g["loss"], "", 0)})
    with pytest.raises(TrainingError, match="result of metric 'm' is None"):
        finish(trainer)
    with pytest.raises(TrainingError, match="result of metric 'm' is None"):
        trainer.evaluate(DATA)


# -- arguments -------------------------------------------------------------------------------------


def test_arguments_of_another_kind_say_what_was_meant():
    g = net().graph
    with pytest.raises(TrainingError, match="the metrics are a list"):
        net(metrics=["loss"])
    with pytest.raises(TrainingError, match="metric 'm' fetches 'loss', a str"):
        gw.Trainer(g, g["loss"], metrics={"m": Failing("loss", "", 0)})
    with pytest.raises(TrainingError, match="the callbacks are"):
        net(callbacks=gw.EarlyStopping())


@pytest.mark.parametrize("counts", [{"epochs": 1.5}, {"epochs": "2"}, {"steps": 0.5}])
def test_counts_that_are_no_whole_numbers_are_refused(counts):
    trainer = net()
    with pytest.raises(TrainingError, match="cannot train"):
        trainer.fit(DATA, progress=False, **counts)
    assert trainer.steps_done == 0


def test_one_parameter_needs_no_list():
    g = (trainer := net()).graph
    nodes = len(g.nodes)
    for one in ("w", g["w"]):
        assert [t.name for t in gw.Trainer(g, g["loss"], parameters=one).parameters] == ["w"]
    assert len(g.nodes) == nodes and trainer.steps_done == 0


# -- hooks -----------------------------------------------------------------------------------------


def test_a_stop_before_the_first_step_takes_none():
    trainer = net(callbacks=[hook := Hook("on_fit_start", lambda trainer: trainer.stop())])
    finish(trainer)
    assert (trainer.steps_done, trainer.progress.outcome) == (0, "stopped")
    trainer.remove_callback(hook)
    finish(trainer)
    finish(whole := net())
    assert outcome(trainer) == outcome(whole)


def test_all_hear_that_a_fit_ends_whatever_one_raises(tmp_path):
    heard = []
    hooks = [
        Hook("on_fit_end", lambda trainer: 1 // 0),
        gw.Run(tmp_path / "run", store=None),
        Hook("on_fit_end", heard.append),
    ]
    trainer = net(callbacks=hooks)
    with pytest.raises(ZeroDivisionError):
        finish(trainer)
    assert heard == [trainer]
    with Lock(tmp_path / "run" / ".lock"):
        pass


@pytest.mark.parametrize("hook", ["on_fit_start", "on_step_end", "on_epoch_end", "on_fit_end"])
def test_ctrl_c_waits_for_the_end_of_hooks(hook):
    done = []

    def work(trainer):
        if not done:
            signal.raise_signal(signal.SIGINT)
        done.append(trainer.steps_done)

    trainer = net(callbacks=[Hook(hook, work), Hook(hook, lambda trainer: done.append("all"))])
    with pytest.raises(KeyboardInterrupt):
        finish(trainer)
    steps = {"on_fit_start": 0, "on_step_end": 1, "on_epoch_end": 5, "on_fit_end": 15}[hook]
    assert done == [steps, "all"] and trainer.steps_done == steps
    finish(trainer)
    finish(whole := net())
    assert outcome(trainer) == outcome(whole)


def test_a_second_ctrl_c_does_not_wait_for_a_hook():
    def hang(trainer):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the second should have come through")

    with pytest.raises(KeyboardInterrupt):
        finish(net(callbacks=[Hook("on_step_end", hang)]))


def test_ctrl_c_while_callbacks_hear_of_a_pause_ends_it():
    hook = Hook("on_pause", lambda trainer: signal.raise_signal(signal.SIGINT))
    trainer = net(callbacks=[hook, Hook("on_step_end", lambda trainer: trainer.pause())])
    with pytest.raises(KeyboardInterrupt):
        finish(trainer)
    assert (trainer.status, trainer.steps_done) == ("idle", 1)


# -- what they hold --------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal to a thread")
def test_a_wait_that_ctrl_c_ends_does_not_pass_for_done():
    gate, found, background = threading.Event(), [], Background()
    background.start(lambda: (gate.wait(10), found.append(1)), "waiting")
    main = threading.get_ident()
    ctrl_c = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        ctrl_c.start()
        background.wait()
    assert background.is_busy
    gate.set()
    background.wait()
    assert found == [1] and not background.is_busy


def test_a_thread_that_cannot_be_had_leaves_nothing_to_wait_for(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    background, found = Background(), []
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            background.start(lambda: found.append(1), "working")
    background.wait()
    background.start(lambda: found.append(2), "working")
    background.wait()
    assert found == [2]


def test_a_run_and_checkpoints_in_one_folder_are_told_how_to_share_it(tmp_path):
    trainer = net(callbacks=[gw.Run(tmp_path, store=None), gw.Checkpoints(tmp_path)])
    with pytest.raises(TrainingError, match=r"in use by this process(.|\n)*gw\.Checkpoints\(run\)"):
        finish(trainer)
    finish(net(callbacks=[run := gw.Run(tmp_path, store=None), gw.Checkpoints(run)]))
    assert len(gw.Checkpoints(run).list()) == 3


def test_a_release_that_ctrl_c_ends_leaves_no_lock(tmp_path, monkeypatch):
    def interrupted(descriptor, size):
        raise KeyboardInterrupt

    lock = Lock(tmp_path / ".lock")
    lock.acquire()
    with monkeypatch.context() as patched:
        patched.setattr("os.ftruncate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lock.release()
    with Lock(tmp_path / ".lock"):
        pass
