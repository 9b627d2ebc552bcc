"""What acts between steps: pause, resume, stop and signals by Control, callbacks by Hooks."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import math
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import get_ident
from time import perf_counter
from typing import Any

from ..errors import Terminated, TrainingError
from ..shared import wait_for
from .callbacks import Callback, Stopping
from .stateful import beneath
from .training import Training

_ENDINGS: dict[int, type[BaseException]]
_ENDINGS = {_signal.SIGINT: KeyboardInterrupt, _signal.SIGTERM: Terminated}
"""What the signals that end a training raise. Plain ints: the enums of ``signal`` hash in Python,
and look old handlers up among enums, which costs 13 us, a small step.
"""
_loops: dict[int, Control] = {}
"""The loop that ran last in a thread, by its number; of several within each other the innermost."""


def _heard(number: int, frame: Any) -> None:
    """Have the loop of the main thread end; where none runs, do what Python does by itself."""
    while frame is not None and frame.f_code not in _EDGES:
        frame = frame.f_back
    if frame is not None:
        frame.f_locals["self"].put_off(number)
        return
    loop = _loops.get(get_ident())
    # In a child that another thread has forked there is none; or it runs in another thread now.
    if loop is None or not loop.is_here:
        raise _ENDINGS[number]
    loop.interrupt_by(number)


class Control:
    """What other threads and signals want of a training loop, and its clock.

    The loop runs in its ``with`` block, sets ``in_loop`` while it can attend to wishes between
    steps, ``in_step`` while a step runs and is committed and ``in_hooks`` while callbacks are told,
    and asks ``pauses`` and ``stops`` between steps when
    ``attention`` is set. Ctrl-C or SIGTERM during a step or in hooks, which hold locks and files,
    waits for the end; a second one does not wait, for what hangs. Elsewhere, such as in a data
    loader, they act at once. Where a signal is ignored it stays so, and a handler for SIGTERM that
    is there already, such as a server's, goes on to decide.

    A single step lies between ``begin`` and ``end`` instead, and minds Ctrl-C alone: setting two
    handlers and setting them back takes 8 us, half of a small step. So what it sets in the place of
    Python's own handler of Ctrl-C stays, and does the same between steps.
    """

    def __init__(self) -> None:
        self.status = "idle"
        self.attention = self.in_step = self.in_hooks = self.in_loop = False
        self.is_torn = False
        """Whether a second signal has ended a step midway, so that what it did may lack its record.
        """
        self._busy = threading.Lock()
        """Taken while it runs."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        """How many threads wait for a change; to tell nobody takes 1 us."""
        self._pausing = self._stopping = False
        self._signal = 0
        """The one that waits."""
        self._until = math.inf
        self._thread = 0
        self._outer: Control | None = None
        """The loop in a callback of which this one runs."""
        self._seconds, self._since = 0.0, 0.0
        self._handlers: dict[int, Any] = {}
        """What the signals did before that do something else now."""

    @property
    def seconds(self) -> float:
        """Time spent running, without pauses."""
        return self._seconds + (perf_counter() - self._since if self.status == "running" else 0.0)

    @seconds.setter
    def seconds(self, value: float) -> None:
        self._seconds, self._since = value, perf_counter()

    @property
    def is_here(self) -> bool:
        """Whether the loop runs in this thread."""
        return self._thread == get_ident()

    @property
    def is_elsewhere(self) -> bool:
        """Whether the loop runs in another thread, and is not paused."""
        return self.status == "running" and not self.is_here

    def __enter__(self) -> None:
        """Mark the loop as running in this thread; raises TrainingError where it runs already."""
        self._run()
        try:
            if self._thread == threading.main_thread().ident:
                for number in _ENDINGS:
                    held = _signal.getsignal(number)  # None where something else than Python has it
                    if (number == _signal.SIGINT and callable(held)) or held == _signal.SIG_DFL:
                        self._handlers[number] = held
                        _signal.signal(number, _heard)
        except BaseException:  # Python's own handler
            self.end()
            raise

    def __exit__(self, *exc: object) -> None:
        self.end()

    def begin(self) -> None:
        """Mark a single step as running in this thread, as the ``with`` block does a loop."""
        self._run()
        held = _signal.getsignal(_signal.SIGINT)
        if held is _heard or not callable(held) or self._thread != threading.main_thread().ident:
            return
        try:
            if held is not _signal.default_int_handler:
                self._handlers[_signal.SIGINT] = held
            _signal.signal(_signal.SIGINT, _heard)
        except BaseException:
            self.end()
            raise

    def _run(self) -> None:
        if not self._busy.acquire(False):
            raise TrainingError(
                f"the trainer is {self.status} already",
                hint="trainer.stop(), or one trainer per thread",
            )
        if self.attention:  # who asked for something has seen it run, a moment too late
            self._calm()
        self._thread = thread = get_ident()
        outer = _loops.get(thread)
        if outer is not self:
            self._outer, _loops[thread] = outer, self
        self._since, self.is_torn, self.status = perf_counter(), False, "running"

    def end(self) -> None:
        """Mark it as ended, and have signals do what they did before; raise what came meanwhile."""
        if self.status == "running":
            self._seconds += perf_counter() - self._since
        self.status = "idle"
        self.in_step = self.in_hooks = self.in_loop = False
        if self.attention or self._waiting:
            self._calm()
        if self._outer is not None:
            _loops[self._thread], self._outer = self._outer, None
        handlers, self._handlers = self._handlers, {}
        self._busy.release()
        while handlers:
            _signal.signal(*handlers.popitem())
        if self._signal:
            number, self._signal = self._signal, 0
            if sys.exc_info()[1] is None:
                raise _ENDINGS[number]

    def _calm(self) -> None:
        """Forget what was asked of a loop that has ended, and tell who waits for its end."""
        with self._lock:
            self._pausing, self._stopping, self._until = False, False, math.inf
            self.attention = self._signal > 0
            self._changed.notify_all()

    def interrupt_by(self, number: int) -> None:
        """End the loop by a signal: at once between steps, and where one waits already."""
        if not (self.in_step or self.in_hooks) or self._signal:
            self.is_torn = self.in_step
            raise _ENDINGS[number]
        self.put_off(number)

    def put_off(self, number: int) -> None:
        """Have a signal wait until the loop attends to it, or ends."""
        self._signal, self.attention = number, True

    def left(self, done: int) -> float:
        """Return how many steps may be taken before the next pause, ``done`` being done."""
        return self._until - done

    def pauses(self, done: int) -> bool:
        """Be paused if that was asked for, ``done`` steps being done; return whether it was.

        Raises KeyboardInterrupt after Ctrl-C, and Terminated after SIGTERM.
        """
        with self._changed:
            self.interrupt()
            if self._stopping or not (self._pausing or done >= self._until):
                return False
            self._pausing, self._until = False, math.inf
            self.seconds, self.status = self.seconds, "paused"
            self._changed.notify_all()
            return True

    def wait(self) -> None:
        """Return when ``resume`` or ``stop`` has been called; raises as ``pauses`` does."""
        self.interrupt()
        with self._changed:
            self._wait_while("paused")

    def interrupt(self) -> None:
        """Raise what a signal that has waited stands for; the next one waits again."""
        number, self._signal = self._signal, 0
        if number:
            raise _ENDINGS[number]

    def is_wanted(self) -> bool:
        """Return whether somebody waits for the loop to pause or to end, and it can right now.

        It cannot while callbacks are told, nor in another thread, whatever runs there.
        """
        can = self.in_loop and not self.in_hooks and self.is_here
        return can and (self._pausing or self._stopping)

    def stops(self) -> bool:
        """Return whether the loop is to end."""
        with self._changed:
            due = self._pausing or self._signal > 0 or self._until < math.inf
            self.attention = self._stopping or due
            return self._stopping

    def pause(self, wait: bool = False) -> None:
        """Ask the loop to pause; with ``wait`` return when it has."""
        with self._changed:
            self._check_wait(wait)
            if self.status == "running":
                self._pausing = self.attention = True
            if wait:
                self._wait_while("running")

    def resume(self, until: float = math.inf, wait: bool = False) -> None:
        """Let a paused loop go on, and pause again when ``until`` steps are done."""
        with self._changed:
            self._check_wait(wait)
            if self.status == "idle":
                return
            self._pausing, self._until, self.attention = False, until, True
            self._go()
            if wait:
                self._wait_while("running")

    def stop(self) -> None:
        """Ask the loop to end after the present step; nothing happens when none runs."""
        with self._changed:
            if self.status != "idle":
                self._stopping = self.attention = True
                self._go()

    def _wait_while(self, status: str) -> None:
        """Wait, holding the lock, as long as the loop has this status."""
        self._waiting += 1
        try:
            wait_for(self._changed, lambda: self.status != status)
        finally:
            self._waiting -= 1

    def _check_wait(self, wait: bool) -> None:
        if wait and self.status != "idle" and self.is_here:
            raise TrainingError("the training thread cannot wait for itself", hint="wait=False")

    def _go(self) -> None:
        # Here and not where the loop wakes up, so that who waits next sees it run.
        if self.status == "paused":
            self._since, self.status = perf_counter(), "running"
            self._changed.notify_all()


_EDGES = {f.__code__ for f in (Control.__enter__, Control.begin, Control.__exit__, Control.end)}
"""What runs where a loop begins and ends: ended there, it would count as running for good."""


class Hooks:
    """The callbacks of a training; any thread may have one join or leave.

    Ctrl-C waits for the end of what they do: ``control.in_hooks`` is set meanwhile. The training is
    held weakly: what it keeps goes when nobody else holds it.
    """

    def __init__(self, training: Training, callbacks: Iterable[Callback], control: Control) -> None:
        if isinstance(callbacks, Callback):
            raise TrainingError(
                f"the callbacks are {callbacks!r}", need="a list of them", hint="callbacks=[...]"
            )
        self.callbacks: tuple[Callback, ...] = ()
        self.may_watch = False
        """Whether some callback may want to see the changes of a step."""
        self._training, self._control = weakref.ref(training), control
        self._joining = threading.Lock()
        callbacks = tuple(callbacks)
        for callback in callbacks:
            if not isinstance(callback, Callback):
                raise TrainingError(
                    f"{callback!r} is no callback", need="instances of subclasses of gw.Callback"
                )
        self._call(callbacks)

    def add(self, callback: Callback) -> None:
        """Call the hooks of a callback, too."""
        with self._joining:
            self._call((*self.callbacks, callback))

    def remove(self, callback: Callback) -> None:
        """Call the hooks of a callback no more."""
        with self._joining:
            self._call(c for c in self.callbacks if c is not callback)

    def _call(self, callbacks: Iterable[Callback]) -> None:
        """Have these be the ones, in the order in which they are told: those that come last, last.

        What wants changes is a method of their class: it is looked for once.
        """
        self.callbacks = tuple(sorted(callbacks, key=lambda c: getattr(c, "comes_last", False)))
        wanting = {type(c).wants_changes for c in self.callbacks} - {Callback.wants_changes}
        self.may_watch = bool(wanting)

    def watching(self) -> list[Callback]:
        """Return those that want to see the changes of the next step."""
        training = self._of()
        return [c for c in self.callbacks if c.wants_changes(training)]

    def _of(self) -> Training:
        """Return the training, which is there as long as something calls it."""
        training = self._training()
        assert training is not None
        return training

    def tell(self, hook: str, *what: Any, callbacks: Sequence[Callback] | None = None) -> None:
        """Call a hook of all callbacks; of several that fail, the first says why.

        At the end of a fit all are told, whatever some of them raise: they hold locks and files.
        """
        told = self.callbacks if callbacks is None else callbacks
        if not told:
            return
        training = self._of()
        failed: Exception | None = None
        self._control.in_hooks = True
        try:
            for callback in told:
                try:
                    getattr(callback, hook)(training, *what)
                except Exception as error:
                    if hook != "on_fit_end":
                        raise
                    failed = failed or error
        finally:
            self._control.in_hooks = False
        if failed is not None:
            raise failed

    def reasons(self) -> str:
        """Return why callbacks have ended the training; empty where none has."""
        return "; ".join(c.reason for c in self.callbacks if isinstance(c, Stopping) and c.reason)

    def written(self) -> tuple[Path, ...]:
        """Return the files that callbacks have written for training to go on from."""
        return tuple(path for callback in self.callbacks for path in callback.written())

    # -- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each callback under its name."""
        return {
            f"{name}/{k}": v
            for name, callback in self._named()
            for k, v in callback.state_dict().items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Have callbacks take over their state, as far as there is some."""
        for name, callback in self._named():
            if own := beneath(f"{name}/", state):
                callback.load_state_dict(own)

    def _named(self) -> Iterator[tuple[str, Callback]]:
        """Yield callbacks by class, numbered within it: others may come, go, or stand elsewhere."""
        seen: Counter[str] = Counter()
        for callback in self.callbacks:
            kind = type(callback).__name__
            yield f"{kind}_{seen[kind]}", callback
            seen[kind] += 1
