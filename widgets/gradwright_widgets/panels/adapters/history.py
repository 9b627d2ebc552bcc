"""Samples of a training: at some of its steps size, rank and spectrum of each place."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...host.wire import Message
from .spectra import LARGEST, spectrum

Array = np.ndarray[Any, Any]
Key = tuple[str, str]
"""Adapter and place."""
MOST = 1000
"""Samples that are kept; of more, every second one."""
SECONDS, SHARE = 0.25, 0.1
"""How far apart samples are at the least, and what part of the time they may take."""


@dataclass(frozen=True)
class Snapshot:
    """What is measured of a step, copied so that training may go on."""

    step: int
    held: Mapping[Key, tuple[Any, Any, Mapping[str, Array], int | None]]
    """Method, place and variables, and how many ranks training has left."""


class DeltaHistory:
    """What has been measured, and what of it the page has."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.steps: list[int] = []
        self._norms: list[Array] = []
        self._ranks: list[Array] = []
        self._spectra = np.empty((0, LARGEST))
        self.lock = threading.RLock()
        """Held while a message is sent: those of two threads must leave in their order."""
        self._layout = self._sent = self._sent_layout = 0
        self._next = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the last sample is old enough for another one."""
        return time.monotonic() >= self._next

    def measure(self, taken: Snapshot) -> None:
        """Add a sample; one of the same step takes the place of the last."""
        began = time.monotonic()
        norms, ranks = np.full((2, len(taken.held)), np.nan)
        spectra = np.full((len(taken.held), LARGEST), np.nan)
        for k, (adapter, place, p, rank) in enumerate(taken.held.values()):
            norms[k], values = spectrum(adapter, place, p)
            spectra[k, : len(values)] = values
            ranks[k] = np.nan if rank is None else rank
        with self.lock:
            if self.steps and taken.step < self.steps[-1]:  # a training that has begun anew
                self.steps, self._norms, self._ranks = [], [], []
                self._layout += 1
            if list(taken.held) != self.keys:
                old = {key: k for k, key in enumerate(self.keys)}
                at = [old.get(key, -1) for key in taken.held]
                self._norms, self._ranks = (
                    [np.append(row, np.nan)[at] for row in held]
                    for held in (self._norms, self._ranks)
                )
                self.keys, self._layout = list(taken.held), self._layout + 1
            if self.steps and self.steps[-1] == taken.step:
                del self.steps[-1], self._norms[-1], self._ranks[-1]
            elif len(self.steps) >= MOST:
                self.steps, self._norms = self.steps[::2], self._norms[::2]
                self._ranks, self._layout = self._ranks[::2], self._layout + 1
            self.steps.append(taken.step)
            self._norms.append(norms)
            self._ranks.append(ranks)
            self._spectra = spectra
        took = time.monotonic() - began
        self._next = time.monotonic() + max(SECONDS, took / SHARE)

    def now(self) -> dict[Key, tuple[float, Array]]:
        """Return norm and largest singular values of each place, as measured last."""
        with self.lock:
            if not self.steps:
                return {}
            rows = zip(self.keys, self._norms[-1], self._spectra, strict=True)
            return {key: (float(norm), s[~np.isnan(s)]) for key, norm, s in rows}

    def message(self, *, everything: bool) -> Message:
        """Return the samples that the page does not have; the last may have been measured again."""
        with self.lock:
            sent = self._sent if self._sent_layout == self._layout and not everything else 0
            start = max(0, min(sent, len(self.steps)) - 1)
            self._sent, self._sent_layout = len(self.steps), self._layout
            past = [np.array(held[start:]) for held in (self._norms, self._ranks)]
            content = {
                "kind": "adapters.deltas", "layout": self._layout, "start": start,
                "keys": [list(key) for key in self.keys], "steps": self.steps[start:],
                "values": LARGEST,
            }  # fmt: skip
            with np.errstate(over="ignore"):
                arrays = [a.astype("<f4").tobytes() for a in (*past, self._spectra)]
        return content, [memoryview(array) for array in arrays]
