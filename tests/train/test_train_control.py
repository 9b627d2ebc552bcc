"""Pause, stop, Ctrl-C, failure, saving: however training is interrupted, it goes on exactly."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError

EPOCHS, BATCH = 3, 8
STEPS = 9  # 20 rows in batches of 8, three times


def data():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((20, 6)).astype("float32")
    return {"x": x, "t": rng.integers(0, 3, 20)}


def net(*, hook=lambda x: x, **options):
    """Return a trainer with all that has state: momentum, schedule, dropout, a running mean."""
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 6)), g.placeholder("t", (None,), "int64")
    rng = np.random.default_rng(1)
    w = g.variable("w", init=rng.standard_normal((6, 12)).astype("float32"))
    v = g.variable("v", init=rng.standard_normal((12, 3)).astype("float32"))
    h = gw.nn.dropout(gw.nn.relu(hook(x) @ w), p=0.3)
    mean = g.variable("mean", (12,), trainable=False)
    g.update(mean, mean * 0.9 + gw.mean(h, axis=0) * 0.1)
    logits = h @ v
    loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    schedule = gw.schedules.Cosine(0.05, steps=STEPS, warmup=3)
    options.setdefault("metrics", {"accuracy": gw.metrics.accuracy(t, logits)})
    options.setdefault("session", gw.Session(g, seed=4, deterministic=True))  # to the bit
    return gw.Trainer(g, loss, optimizer=gw.optim.AdamW(schedule), clip_norm=1.0, seed=4, **options)


def outcome(trainer):
    """Return all numbers of a training, wall time apart, to be compared bit for bit."""
    state = {k: v for k, v in trainer.state_dict().items() if not k.endswith("seconds")}
    values = {n: trainer.values[n] for n in ("w", "v", "mean")}
    return {k: np.asarray(v).tobytes() for k, v in {**state, **values}.items()}


def finish(trainer):
    return trainer.fit(
        data(),
        epochs=EPOCHS - trainer.epochs_done,
        batch_size=BATCH,
        validation=data(),
        progress=False,
    )


@pytest.fixture(scope="module")
def uninterrupted():
    trainer = net()
    finish(trainer)
    assert trainer.steps_done == STEPS
    return outcome(trainer)


class At(gw.Callback):
    """Does something after one step, or at the end of one epoch."""

    def __init__(self, do, step=0, epoch=0):
        self.do, self.step, self.epoch = do, step, epoch

    def on_step_end(self, trainer, record):
        if record.step == self.step:
            self.do(trainer)

    def on_epoch_end(self, trainer, record):
        if record.epoch == self.epoch:
            self.do(trainer)


def interrupt(trainer=None):
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_stopped_and_continued_is_uninterrupted(step, uninterrupted):
    trainer = net(callbacks=[At(lambda trainer: trainer.stop(), step)])
    finish(trainer)
    assert trainer.steps_done == step
    finish(trainer)
    assert outcome(trainer) == uninterrupted


def test_stopped_at_the_end_of_an_epoch(uninterrupted):
    trainer = net(callbacks=[At(lambda trainer: trainer.stop(), epoch=2)])
    finish(trainer)
    assert (trainer.epochs_done, trainer.batches_done) == (2, 0)
    finish(trainer)
    assert outcome(trainer) == uninterrupted


@pytest.mark.parametrize("where", [{"step": 2}, {"step": 3}, {"epoch": 1}, {"epoch": 3}])
def test_interrupted_in_a_callback(where, uninterrupted):
    trainer = net(callbacks=[At(interrupt, **where)])
    with pytest.raises(KeyboardInterrupt):
        finish(trainer)
    assert trainer.status == "idle"
    finish(trainer)
    assert outcome(trainer) == uninterrupted


@gw.register("test/interrupting")
class Interrupting(gw.Op):
    """The input; a chosen run receives Ctrl-C while it computes."""

    countdown = 0

    def infer(self, x):
        return x

    def forward(self, x):
        Interrupting.countdown -= 1
        if Interrupting.countdown == 0:
            interrupt()
        return x

    def vjp(self, gs, ys, xs):
        return gs


def test_ctrl_c_during_a_step_waits_for_its_commit(uninterrupted):
    trainer = net(hook=Interrupting())
    Interrupting.countdown = 2
    with pytest.raises(KeyboardInterrupt):
        finish(trainer)
    assert trainer.history.steps.rows == trainer.steps_done
    finish(trainer)
    assert outcome(trainer) == uninterrupted


@pytest.mark.parametrize("count", range(1, 7))
def test_ctrl_c_at_any_run_of_the_first_epoch(count, uninterrupted):
    trainer = net(hook=Interrupting())
    Interrupting.countdown = count
    with pytest.raises(KeyboardInterrupt):
        finish(trainer)
    assert trainer.steps_done == min(count, 3)
    finish(trainer)
    assert outcome(trainer) == uninterrupted


def test_the_second_ctrl_c_does_not_wait():
    class Hangs:
        """A session whose run would never end."""

        def __init__(self, session):
            self.values, self.seed = session.values, session.seed

        def prepare(self, *args, **options):
            return self

        def on(self, *args, **options):
            interrupt()
            interrupt()
            raise AssertionError("the second one should have ended this")

    trainer = net()
    trainer.fit(data(), batch_size=BATCH, steps=1, progress=False)
    before = outcome(trainer)
    session, trainer.session = trainer.session, Hangs(trainer.session)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(data(), batch_size=BATCH, progress=False)
    trainer.session = session
    assert outcome(trainer) == before


def test_ctrl_c_in_a_data_loader_acts_at_once(uninterrupted):
    class Loader:
        def __init__(self):
            self.given = 0

        def __iter__(self):
            for batch in ({"x": a["x"], "t": a["t"]} for a in parts):
                self.given += 1
                if self.given == 2:
                    interrupt()
                    raise AssertionError("Ctrl-C should have come through")
                yield batch

    whole = data()
    parts = [{k: a[i : i + 5] for k, a in whole.items()} for i in range(0, 20, 5)]
    trainer, plain = net(), net()
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(Loader(), epochs=2, progress=False)
    assert trainer.steps_done == 1
    loader = Loader()
    loader.given = 2
    trainer.fit(loader, epochs=2, progress=False)
    plain.fit(parts, epochs=2, progress=False)
    found, expected = outcome(trainer), outcome(plain)
    assert {k: v for k, v in found.items() if k != "data"} == {
        k: v for k, v in expected.items() if k != "data"
    }


def test_the_signal_handler_is_put_back():
    held = signal.getsignal(signal.SIGINT)
    finish(net())
    assert signal.getsignal(signal.SIGINT) is held


def test_a_step_that_fails_can_be_taken_again(uninterrupted):
    trainer = net()
    broken = {k: np.array(a) for k, a in data().items()}
    broken["x"][:, 0] = np.nan
    trainer.fit(data(), batch_size=BATCH, steps=3, validation=data(), progress=False)
    with pytest.raises(TrainingError, match="placeholder 'x' is not finite"):
        trainer.fit(broken, batch_size=BATCH, progress=False)
    finish(trainer)
    assert outcome(trainer) == uninterrupted


# -- from another thread ---------------------------------------------------------------------------


class Gate(gw.Callback):
    """Lets the main thread act while the training thread stands after a step."""

    def __init__(self, step):
        self.step, self.reached, self.go = step, threading.Event(), threading.Event()

    def on_step_end(self, trainer, record):
        if record.step == self.step:
            self.reached.set()
            assert self.go.wait(60)


def in_background(trainer):
    thread = threading.Thread(target=finish, args=(trainer,), daemon=True)
    thread.start()
    return thread


def test_paused_and_resumed_is_uninterrupted(uninterrupted):
    gate = Gate(5)
    trainer = net(callbacks=[gate])
    assert trainer.status == "idle"
    trainer.pause(wait=True)  # nothing runs, so nothing to wait for
    began = time.perf_counter()
    thread = in_background(trainer)
    assert gate.reached.wait(60)
    trainer.pause()
    assert trainer.status == "running"
    gate.go.set()
    trainer.pause(wait=True)
    assert (trainer.status, trainer.steps_done) == ("paused", 5)
    assert not thread.join(0.2)
    assert trainer.steps_done == 5
    trainer.resume()
    thread.join(60)
    assert trainer.status == "idle"
    assert outcome(trainer) == uninterrupted
    assert trainer.history.seconds <= time.perf_counter() - began - 0.2  # the pause is not in it


def test_a_paused_training_can_be_edited_and_stopped(uninterrupted):
    gate = Gate(4)
    trainer = net(callbacks=[gate])
    thread = in_background(trainer)
    assert gate.reached.wait(60)
    trainer.pause()
    gate.go.set()
    trainer.pause(wait=True)
    held = trainer.values["w"]
    trainer.values["w"] = np.zeros_like(held)
    trainer.graph.freeze("v")
    trainer.graph.unfreeze("v")
    trainer.values["w"] = held
    trainer.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert trainer.steps_done == 4
    finish(trainer)
    assert outcome(trainer) == uninterrupted


def test_stopped_from_another_thread(uninterrupted):
    gate = Gate(2)
    trainer = net(callbacks=[gate])
    trainer.stop()  # nothing runs, so this is forgotten
    thread = in_background(trainer)
    assert gate.reached.wait(60)
    trainer.stop()
    gate.go.set()
    thread.join(60)
    assert trainer.steps_done == 2
    finish(trainer)
    assert outcome(trainer) == uninterrupted


def test_a_trainer_runs_once_at_a_time():
    gate = Gate(1)
    trainer = net(callbacks=[gate])
    thread = in_background(trainer)
    assert gate.reached.wait(60)
    for call in (lambda: finish(trainer), lambda: trainer.step(data())):
        with pytest.raises(TrainingError, match="the trainer is running already"):
            call()
    with pytest.raises(TrainingError, match="the trainer is running"):
        trainer.load_state_dict(trainer.state_dict())
    gate.go.set()
    thread.join(60)


def test_the_training_thread_cannot_wait_for_itself(uninterrupted):
    def wait(trainer):
        for call in (trainer.resume, trainer.pause):
            with pytest.raises(TrainingError, match="cannot wait for itself"):
                call(wait=True)

    trainer = net(callbacks=[At(wait, 1)])
    finish(trainer)
    assert outcome(trainer) == uninterrupted


def test_single_steps_of_a_paused_training_are_uninterrupted(uninterrupted):
    told = []

    class Told(gw.Callback):
        def on_pause(self, trainer):
            told.append(("pause", trainer.status, trainer.steps_done))

        def on_resume(self, trainer):
            told.append(("resume", trainer.status, trainer.steps_done))

    gate = Gate(1)
    trainer = net(callbacks=[gate, Told()])
    trainer.resume(steps=1)  # nothing is paused, so nothing happens
    thread = in_background(trainer)
    assert gate.reached.wait(60)
    trainer.pause()
    gate.go.set()
    trainer.pause(wait=True)
    for done in range(2, 5):
        trainer.resume(steps=1, wait=True)
        assert (trainer.status, trainer.steps_done) == ("paused", done)
    trainer.resume(steps=3, wait=True)  # over the end of an epoch, which is no step
    trainer.pause()  # it is paused already, and will not pause once more
    with pytest.raises(TrainingError, match="steps=0"):
        trainer.resume(steps=0)
    trainer.resume()
    thread.join(60)
    assert outcome(trainer) == uninterrupted
    paused = [1, 2, 3, 4, 7]
    assert [e for e in told if e[0] == "pause"] == [("pause", "paused", n) for n in paused]
    assert [e for e in told if e[0] == "resume"] == [("resume", "running", n) for n in paused]


def test_one_step_at_a_time_from_idle_is_uninterrupted(uninterrupted):
    trainer = net()
    for _ in range(STEPS):
        trainer.fit(
            data(), epochs=EPOCHS, batch_size=BATCH, validation=data(), steps=1, progress=False
        )
    assert outcome(trainer) == uninterrupted


def test_progress_tells_how_far_a_fit_is():
    seen = []
    trainer = net(callbacks=[At(lambda trainer: seen.append(trainer.progress), 4)])
    assert trainer.progress is None
    finish(trainer)
    (now,) = seen
    assert (now.outcome, now.steps, now.total, now.per_epoch) == ("running", 4, 9, 3)
    assert (now.epoch, now.epochs) == (2, 3)
    assert 0 < now.seconds < trainer.history.seconds
    assert now.left > 5 / 4 * (now.seconds - 0.05)  # five steps and two validations
    end = trainer.progress
    assert (end.outcome, end.steps, end.epoch, end.left) == ("finished", 9, 3, 0.0)
    trainer.step({"x": data()["x"], "t": data()["t"]})
    assert trainer.progress == end, "a step of its own belongs to no fit"


def test_progress_tells_how_a_fit_ended():
    trainer = net(callbacks=[At(lambda trainer: trainer.stop(), 2), At(interrupt, 5)])
    finish(trainer)
    assert (trainer.progress.outcome, trainer.progress.steps) == ("stopped", 2)
    with pytest.raises(KeyboardInterrupt):
        finish(trainer)
    assert (trainer.progress.outcome, trainer.progress.steps) == ("stopped", 3)
    trainer.fit(data(), batch_size=BATCH, steps=1, progress=False)
    assert trainer.progress.outcome == "finished"
    broken = {**data(), "x": data()["x"] * np.float32("nan")}
    with pytest.raises(TrainingError):
        trainer.fit(broken, batch_size=BATCH, progress=False)
    assert trainer.progress.outcome == "failed"
    assert trainer.progress.error.startswith("TrainingError: step 7")


# -- saving ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0, 3, 4])
def test_saved_and_loaded_is_uninterrupted(step, uninterrupted, tmp_path):
    first = net()
    first.fit(data(), epochs=9, batch_size=BATCH, steps=step, validation=data(), progress=False)
    path = tmp_path / "run.gw"
    gw.save(first.graph, path, state={"trainer": first.state_dict()})
    second = net()
    graph = gw.load(path)
    second.values.restore({n: graph.values[n] for n in ("w", "v", "mean")})
    second.load_state_dict(gw.load_state(path, "trainer"))
    assert second.history.seconds == first.history.seconds
    finish(second)
    assert outcome(second) == uninterrupted


def test_state_that_does_not_fit_is_refused_and_changes_nothing():
    trainer = net()
    finish(trainer)
    state, before = trainer.state_dict(), outcome(trainer)

    def refuse(message, **changes):
        with pytest.raises(TrainingError, match=message):
            trainer.load_state_dict({**state, **changes})
        assert outcome(trainer) == before

    refuse("this is state of Adam", optimizer=np.frombuffer(b"Adam", np.uint8))
    refuse(r"'w/m' is float64\[6, 12\]", **{"state/w/m": np.zeros((6, 12))})
    refuse(r"'w/m' is float32\[2\]", **{"state/w/m": np.zeros(2, "float32")})
    refuse("'w/u' has no place here", **{"state/w/u": np.zeros(2)})
    refuse("'q/m' has no place here", **{"state/q/m": np.zeros(2)})
    refuse("totals of f1 do not belong", **{"totals/f1": np.zeros(2)})
    refuse("differ in length", **{"history/steps/loss": np.zeros(2)})
    with pytest.raises(TrainingError, match="'counters' is missing"):
        trainer.load_state_dict({k: v for k, v in state.items() if k != "counters"})
    trainer.load_state_dict(state)
    assert outcome(trainer) == before
