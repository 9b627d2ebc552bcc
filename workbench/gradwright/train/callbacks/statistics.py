"""Parameter statistics: what steps do to every parameter, sampled while a graph trains."""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import TrainingError
from ..history import Record
from ..training import Training
from . import Callback, Change
from .moments import norms, value_statistics

Array = np.ndarray[Any, Any]

VALUE_COLUMNS = ("mean", "std", "norm", "min", "max", "zeros")
COLUMNS = (*VALUE_COLUMNS, "gradient_norm", "update_norm", "ratio")
FLAGS = ("dead", "exploding", "not finite")
_NORM, _GRADIENT, _UPDATE, _RATIO = map(COLUMNS.index, ("norm", *COLUMNS[-3:]))

MOST_BYTES = 32_000_000
"""What a history may take: 256 samples of 1,700 parameters, 88 of 5,000."""
REST = 20
"""A sampler that goes by the clock rests this many times as long as a sample took."""
EXPLODING = 100.0
"""A gradient is exploding when its norm is so many times the usual one."""


@dataclass(frozen=True)
class Samples:
    """What ``ParameterStatistics`` holds at one moment."""

    names: list[str]
    steps: Array
    """Numbers of the sampled steps, i64[n]."""
    table: Array
    """f64[n, parameters, columns], in the order of ``names`` and ``COLUMNS``."""
    flags: Array
    """bool[parameters, 3], of the latest sample, in the order of ``FLAGS``."""
    versions: list[int]
    """How often each value had been replaced when the latest sample was taken."""
    layout: int
    """Changes when samples that were there move: others are watched, or the history is thinned."""


class ParameterStatistics(Callback):
    """Watches every parameter of a training: its values, its gradient and how far a step moves it.

    Columns, computed in float64, of the values after a sampled step:
        ``mean``, ``std``, ``norm``, ``min``, ``max``, and ``zeros``, the fraction of zeros.
        ``gradient_norm``: ‖g‖ before clipping; NaN where the step trains the parameter not.
        ``update_norm``: ‖Δw‖, the change the step really made, whatever the optimizer is.
        ``ratio``: ‖Δw‖/‖w‖, the update-to-weight ratio. About 1e-3 is healthy; far less learns
        slowly, far more learns badly.
    Of complex parameters the real and imaginary parts are elements.

    Flags: ``"dead"`` if the gradient was exactly 0 in ``dead_after`` samples in a row;
    ``"exploding"`` if its norm is over 100 times the usual one, a geometric mean that gives the
    latest sample the weight 0.1; ``"not finite"`` if a value or the gradient is NaN or infinite.

    The numbers of the training stay the same, bit for bit. A step that is not sampled takes as long
    as ever; a sampled one reads the parameters and gradients once more.

    Args:
        every: sample the steps whose number, counted from 0, is a multiple of it.
        seconds: and only after so many seconds without a sample. A sampler that goes by the clock
            also takes at most 5 % of the time.
        keep: how many samples are kept, fewer where they would take over 32 MB. When there are
            more, every second one goes and every second one comes, so that all of the training is
            there; the latest is always kept.
        dead_after: samples without any gradient that make a parameter dead.

    Raises TrainingError for arguments out of range. It can be read from other threads.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[3.0, 4.0])
    >>> watch = gw.ParameterStatistics(every=2)
    >>> sgd = gw.optim.SGD(0.05)                        # takes a tenth of w away in each step
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=sgd, callbacks=[watch])
    >>> history = trainer.fit([{}], epochs=3, progress=False)
    >>> watch.history("w")["step"].tolist(), watch.history("w")["gradient_norm"].round(3).tolist()
    ([1, 3], [10.0, 8.1])
    >>> round(watch.last()["w"]["ratio"], 3), watch.flags()
    (0.111, {})
    """

    def __init__(
        self, every: int = 10, *, seconds: float = 0.0, keep: int = 256, dead_after: int = 5
    ) -> None:
        if every < 1 or not 0 <= seconds < float("inf") or keep < 2 or dead_after < 1:
            raise TrainingError(
                f"every={every}, seconds={seconds}, keep={keep}, dead_after={dead_after} "
                "make no sense",
                need="every >= 1; seconds >= 0; keep >= 2; dead_after >= 1",
            )
        self.every, self.seconds, self.keep, self.dead_after = every, seconds, keep, dead_after
        self._lock = threading.Lock()
        self._due = 0.0
        self._layout = 0
        self._watch([])

    def _watch(self, names: Sequence[str]) -> None:
        """Begin anew with these parameters."""
        count = len(names)
        self._layout += 1
        self._names = list(names)
        self._versions = [-1] * count
        self._steps: list[int] = []
        self._taken, self._stride = 0, 1
        self._latest = np.full((count, len(COLUMNS)), np.nan)
        row = 8 * len(COLUMNS) * max(1, count)
        room = max(2, min(self.keep, MOST_BYTES // row))
        self._table = np.empty((room, count, len(COLUMNS)))
        self._past = np.zeros((count, 3))  # samples with a gradient, latest ones without, log ‖g‖
        self._flags = np.zeros((count, len(FLAGS)), bool)

    # -- what was measured -----------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Return the names of the parameters that are watched, frozen ones included."""
        return list(self._names)

    @property
    def steps(self) -> list[int]:
        """Return the numbers of the steps whose samples are kept."""
        return list(self._steps)

    def history(self, name: str) -> dict[str, Array]:
        """Return all columns of a parameter as f64[n], and ``"step"``; NaN before it was there."""
        held = self.samples()
        if name not in held.names:
            raise KeyError(f"{name!r}; there are {', '.join(held.names) or 'no samples yet'}")
        rows = held.table[:, held.names.index(name)]
        return {"step": held.steps, **{c: rows[:, k] for k, c in enumerate(COLUMNS)}}

    def last(self) -> dict[str, dict[str, float]]:
        """Return the columns of the latest sample by parameter."""
        held = self.samples()
        rows = held.table[-1:].reshape(-1, len(COLUMNS)).tolist()
        return {
            name: dict(zip(COLUMNS, row, strict=True))
            for name, row in zip(held.names, rows, strict=False)
        }

    def flags(self) -> dict[str, tuple[str, ...]]:
        """Return the parameters that need a look, and why."""
        held = self.samples()
        return {
            name: tuple(word for word, on in zip(FLAGS, row, strict=True) if on)
            for name, row in zip(held.names, held.flags, strict=True)
            if row.any()
        }

    def samples(self, start: int = 0) -> Samples:
        """Return all samples from number ``start`` on, as they are at one moment."""
        with self._lock:
            steps = np.array(self._steps[start:], np.int64)
            table = self._table[start : len(self._steps)].copy()
            return Samples(self._names, steps, table, self._flags, self._versions, self._layout)

    @property
    def stamp(self) -> tuple[int, int]:
        """Return a pair that changes with every sample; costs nothing to ask for."""
        return self._layout, self._taken

    def __repr__(self) -> str:
        flags = "; ".join(f"{name}: {', '.join(words)}" for name, words in self.flags().items())
        at = f", the latest of step {self._steps[-1]:,}" if self._steps else ""
        return (
            f"<ParameterStatistics of {len(self._names)} parameters: {len(self._steps)} samples"
            f"{at}{'; ' if flags else ''}{flags}>"
        )

    # -- sampling --------------------------------------------------------------------------------

    def wants_changes(self, trainer: Training) -> bool:
        """Tell whether the next step is a sample."""
        if trainer.steps_done % self.every:
            return False
        return not self.seconds or time.perf_counter() >= self._due

    def on_changes(self, trainer: Training, record: Record, changes: Mapping[str, Change]) -> None:
        """Measure what a step has changed."""
        began = time.perf_counter()
        names = list(changes)
        with self._lock:
            if names != self._names:
                self._watch_others(names)
            self._forget(record.step)
        versions = [trainer.values.version(name) for name in names]
        row, past, flags = self._measure(list(changes.values()), versions)
        with self._lock:
            self._append(record.step, row)
            self._past, self._flags, self._versions = past, flags, versions
        now = time.perf_counter()
        self._due = now + max(self.seconds, REST * (now - began))

    def _measure(
        self, changes: Sequence[Change], versions: Sequence[int]
    ) -> tuple[Array, Array, Array]:
        """Return the columns of a sample, f64[parameters, columns], the new past and the flags."""
        row = np.full((len(changes), len(COLUMNS)), np.nan)
        values = len(VALUE_COLUMNS)
        row[:, :values] = self._latest[:, :values]
        # What has kept its version, such as a frozen backbone, is not read again.
        new = [k for k, v in enumerate(versions) if v != self._versions[k]]
        row[new, :values] = value_statistics([changes[k].after for k in new])
        row[:, _UPDATE] = row[:, _RATIO] = 0.0
        moved = [k for k, c in enumerate(changes) if c.after is not c.before]
        update, _ = norms([changes[k].after for k in moved], [changes[k].before for k in moved])
        row[moved, _UPDATE] = update
        with np.errstate(all="ignore"):
            row[moved, _RATIO] = np.where(update == 0, 0.0, update / row[moved, _NORM])
        gradients = {k: c.gradient for k, c in enumerate(changes) if c.gradient is not None}
        trained = list(gradients)
        row[trained, _GRADIENT], peak = norms(list(gradients.values()))
        return row, *self._judged(row, trained, peak)

    def _judged(self, row: Array, trained: Sequence[int], peak: Array) -> tuple[Array, Array]:
        """Return past and flags; ``peak`` has the largest element of each gradient there is."""
        norm = row[trained, _GRADIENT]
        seen, without, usual = self._past[trained].T
        without = np.where(peak == 0, without + 1, 0)
        usable = (norm > 0) & np.isfinite(norm)
        size = np.log(np.where(usable, norm, 1.0))
        flags = np.zeros((len(row), len(FLAGS)), bool)
        flags[:, 2] = ~np.isfinite(row[:, _NORM])
        flags[trained, 0] = without >= self.dead_after
        flags[trained, 1] = usable & (seen >= 5) & (size - usual > np.log(EXPLODING))
        flags[trained, 2] |= ~np.isfinite(norm)
        weight = np.where(seen == 0, 1.0, 0.1) * usable
        past = self._past.copy()
        past[trained] = np.stack([seen + usable, without, usual + weight * (size - usual)], axis=1)
        return past, flags

    # -- keeping ---------------------------------------------------------------------------------

    def _append(self, step: int, row: Array) -> None:
        """Keep every ``_stride``-th sample, and the latest."""
        if self._steps and (self._taken - 1) % self._stride:
            self._steps.pop()
        if len(self._steps) == len(self._table):
            self._steps = self._steps[::2]
            self._table[: len(self._steps)] = self._table[::2]
            self._stride *= 2
            self._layout += 1
        self._table[len(self._steps)] = self._latest = row
        self._steps.append(step)
        self._taken += 1

    def _forget(self, step: int) -> None:
        """Drop what comes after a saved state that was loaded."""
        kept = bisect.bisect_left(self._steps, step)
        if kept < len(self._steps):
            del self._steps[kept:]
            self._taken = self._count(kept)
            self._layout += 1

    def _count(self, kept: int) -> int:
        """Return how many samples were taken when the latest is one of ``kept`` that stay."""
        return (kept - 1) * self._stride + 1 if kept else 0

    def _watch_others(self, names: Sequence[str]) -> None:
        """Go on with other parameters; those that stay keep their history."""
        before, table, past, stride = self._names, self._table, self._past, self._stride
        steps = self._steps[: -(-self._taken // stride)]  # without a latest that would not stay
        self._watch(names)
        held = {name: k for k, name in enumerate(before)}
        stay = [k for k, name in enumerate(names) if name in held]
        if not stay or not steps:
            return
        every = -(-len(steps) // len(self._table))
        old = [held[names[k]] for k in stay]
        self._steps, self._stride = steps[::every], stride * every
        self._taken = self._count(len(self._steps))
        self._table[: len(self._steps)] = np.nan
        self._table[: len(self._steps), stay] = table[: len(steps) : every][:, old]
        self._past[stay] = past[old]
