"""SIGTERM ends a training after its step, with a checkpoint; signals that are ignored stay so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import gradwright as gw
from gradwright.errors import Terminated
from gradwright.train import control
from tests.train.checkpoints.resumed import DATA, fit, trainer_of, whole

sent = pytest.mark.skipif(sys.platform == "win32", reason="there, a SIGTERM that is sent just ends")


class Sends(gw.Callback):
    """Sends signals to the process when a step has ended, or by another hook."""

    def __init__(self, *numbers, step=5, hook="on_step_end"):
        self.numbers, self.step = numbers, step
        setattr(self, hook, self.send)

    def send(self, trainer, *what):
        if trainer.steps_done == self.step:
            for number in self.numbers:
                signal.raise_signal(number)


@pytest.fixture(autouse=True)
def as_python_begins():
    """Have signals do what they do in a new process, and look that this is put back."""
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    assert signal.getsignal(signal.SIGINT) is before[signal.SIGINT]
    for number, handler in before.items():
        signal.signal(number, handler)


def test_sigterm_ends_after_the_step_with_a_checkpoint(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path / "c")
    run = gw.Run(tmp_path / "run", store=None)
    trainer = trainer_of(Sends(signal.SIGTERM), run, checkpoints)
    with pytest.raises(Terminated) as caught:
        fit(trainer, 3)
    assert caught.value.code == 143
    assert (trainer.steps_done, trainer.status) == (5, "idle")
    assert trainer.progress.outcome == run.read().status == "terminated"
    assert [c.step for c in checkpoints.list()] == [5]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    again = trainer_of()
    gw.resume(again, checkpoints.folder)
    fit(again, 3)
    fit(undisturbed := trainer_of(), 3)
    assert whole(again) == whole(undisturbed)


def test_what_catches_errors_does_not_catch_it():
    with pytest.raises(SystemExit):
        try:
            fit(trainer_of(Sends(signal.SIGTERM)), 1)
        except Exception:
            raise AssertionError from None


@pytest.mark.parametrize("hook", ["on_fit_start", "on_epoch_end", "on_fit_end"])
def test_it_waits_for_the_end_of_hooks(hook):
    step = {"on_fit_start": 0, "on_epoch_end": 7, "on_fit_end": 14}[hook]
    heard = []
    last = gw.Callback()
    setattr(last, hook, lambda trainer, *what: heard.append(trainer.steps_done))
    trainer = trainer_of(Sends(signal.SIGTERM, step=step, hook=hook), last)
    with pytest.raises(Terminated):
        fit(trainer, 2)
    assert heard[-1] == step == trainer.steps_done


def test_a_second_one_does_not_wait():
    class Hangs(gw.Callback):
        def on_step_end(self, trainer, record):
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            raise AssertionError("the second should have come through")

    with pytest.raises(Terminated):
        fit(trainer_of(Hangs()), 1)


def test_it_acts_at_once_while_data_is_waited_for():
    def batches():
        yield {name: rows[:8] for name, rows in DATA.items()}
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("it should have ended")

    trainer = trainer_of()
    with pytest.raises(Terminated):
        trainer.fit(batches(), progress=False)
    assert trainer.steps_done == 1 and trainer.progress.outcome == "terminated"


class Heard:
    """A lock at which a signal comes as soon as it is taken, or before it is given back."""

    def __init__(self, lock, at):
        self.lock, self.at = lock, at

    def acquire(self, *args):
        taken = self.lock.acquire(*args)
        self.hear("acquire")
        return taken

    def release(self):
        self.hear("release")
        self.lock.release()

    def hear(self, at):
        if at == self.at:
            self.at = None
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("at", ["acquire", "release"])
@pytest.mark.parametrize("way", ["step", "fit"])
def test_ctrl_c_where_a_loop_begins_or_ends_does_not_leave_it_running(way, at):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    trainer, batch = trainer_of(), {name: rows[:8] for name, rows in DATA.items()}
    trainer.step(batch)
    held = trainer.parts.control
    held._busy = Heard(held._busy, at)
    with pytest.raises(KeyboardInterrupt):
        fit(trainer, 1) if way == "fit" else trainer.step(batch)
    trainer.step(batch)
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_in_the_main_thread_is_not_that_of_a_loop_elsewhere(monkeypatch):
    """Of a trainer that took a step here, the first to do so, and goes on in another thread."""
    monkeypatch.setattr(control, "_loops", {})
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    begun, over = threading.Event(), threading.Event()

    def wait(trainer, record):
        begun.set()
        over.wait(10)

    trainer = trainer_of(gw.train.on_step(wait))
    over.set()
    trainer.step({name: rows[:8] for name, rows in DATA.items()})
    begun.clear()
    over.clear()
    thread = threading.Thread(target=fit, args=(trainer, 1))
    thread.start()
    begun.wait(10)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    over.set()
    thread.join()
    assert trainer.progress.outcome == "finished"
    signal.signal(signal.SIGINT, before)


@sent
def test_it_acts_while_a_thread_prefetches():
    over = threading.Event()

    def batches():
        yield {name: rows[:8] for name, rows in DATA.items()}
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        over.wait()

    trainer = trainer_of()
    with pytest.raises(Terminated):
        trainer.fit(gw.data.dataset(batches).prefetch(1), progress=False)
    over.set()
    assert trainer.steps_done == 1


@sent
@pytest.mark.parametrize("takes", ["main", "another"])
def test_it_ends_a_pause(takes):
    """A signal that another thread takes does not wake the main one."""

    def ends():
        while trainer.status != "paused":
            time.sleep(0.001)
        time.sleep(0.3)  # until the main thread sleeps
        if takes == "main":
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    trainer = trainer_of(gw.train.on_step(lambda trainer, record: trainer.pause()))
    threading.Thread(target=ends, daemon=True).start()
    with pytest.raises(Terminated):
        fit(trainer, 1)
    assert (trainer.steps_done, trainer.status) == (1, "idle")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_ignored_stays_so(number):
    """As ``nohup`` and shells do for what runs in the background."""
    held = signal.signal(number, signal.SIG_IGN)
    try:
        trainer = trainer_of(Sends(number))
        fit(trainer, 1)
        assert trainer.steps_done == 7 and signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, held)


def test_a_handler_that_is_there_goes_on_to_decide():
    heard = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    trainer = trainer_of(Sends(signal.SIGTERM))
    fit(trainer, 1)
    assert heard == [signal.SIGTERM] and trainer.progress.outcome == "finished"
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL


def test_other_threads_leave_signals_alone():
    seen = []
    look = gw.train.on_step(lambda trainer, record: seen.append(signal.getsignal(signal.SIGTERM)))
    thread = threading.Thread(target=fit, args=(trainer_of(look), 1))
    thread.start()
    thread.join()
    assert set(seen) == {signal.SIG_DFL}


@pytest.mark.parametrize("own", [None, lambda number, frame: None])
def test_steps_of_an_own_loop_end_between_two_of_them(monkeypatch, own):
    """Ctrl-C waits for their end; between them it does what it did, as SIGTERM always does."""
    before = signal.signal(signal.SIGINT, own or signal.default_int_handler)
    batch = {name: rows[:8] for name, rows in DATA.items()}
    trainer = trainer_of()
    trainer.step(batch)
    run = trainer.parts.taker.keeper.run

    def interrupted(*args, **options):
        signal.raise_signal(signal.SIGINT)
        return run(*args, **options)

    monkeypatch.setattr(trainer.parts.taker.keeper, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.step(batch)
    assert (trainer.steps_done, trainer.status) == (2, "idle")
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if own is None:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    else:
        assert signal.getsignal(signal.SIGINT) is own
    signal.signal(signal.SIGINT, before)


def test_a_step_within_a_hook_leaves_ctrl_c_to_wait():
    """A training that steps in a callback of another, as one does that learns from it."""
    inner, batch = trainer_of(), {name: rows[:8] for name, rows in DATA.items()}
    heard = []

    class Steps(gw.Callback):
        def on_step_end(self, trainer, record):
            inner.step(batch)
            signal.raise_signal(signal.SIGINT)
            heard.append(trainer.steps_done)

    with pytest.raises(KeyboardInterrupt):
        fit(trainer_of(Steps()), 1)
    assert heard == [1]


@sent
def test_a_process_ends_with_status_143_and_says_nothing(tmp_path):
    """As a scheduler sees it, which sends SIGTERM and waits."""
    program = textwrap.dedent(f"""
        import gradwright as gw
        from tests.train.checkpoints.resumed import fit, trainer_of
        say = gw.train.on_step(lambda trainer, record: print(record.step, flush=True))
        fit(trainer_of(say, gw.Checkpoints({str(tmp_path)!r})), 1_000_000)
    """)
    command = [sys.executable, "-W", "error", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        for _ in range(3):
            process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (143, b"")
    last = gw.Checkpoints(tmp_path).list()[-1]
    assert last.step >= int(out.split()[-1]) if out else last.step >= 3
