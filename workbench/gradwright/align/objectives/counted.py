"""Tokens that a training has seen: counted batch by batch, and kept with it."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from ...data import Batches
from ...data.batches import Batch
from ...evaluation.metrics import Metric
from ...graph import Tensor
from ...train.callbacks.base import Callback
from ...train.history import Record
from ...train.position import Position

Array = np.ndarray[Any, Any]
NAME = "num_tokens"


class Latest(Metric):
    """A number that is fed with each batch; that of an epoch is its last."""

    def __init__(self, fed: Tensor) -> None:
        self.fetches = (fed,)

    def start(self) -> Any:
        """Return what stands for no batch."""
        return float("nan")

    def add(self, total: Any, arrays: Sequence[Array], rows: float) -> Any:
        """Return the number of the batch."""
        return float(arrays[0])

    def result(self, total: Any) -> float:
        """Return the number."""
        return float(total)


class Seen(Callback):
    """How many tokens the batches had that steps were taken on, prompts included.

    Of batches that ``trainer.step`` gathers, the last of each window counts.
    """

    def __init__(self, fed: Tensor) -> None:
        self.fed, self.n = fed, 0

    def on_step_end(self, trainer: Any, record: Record) -> None:
        """Take over what the step has been fed."""
        self.n = int(record.metrics[NAME])

    def state_dict(self) -> dict[str, Any]:
        """Return the number."""
        return {NAME: self.n}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a number."""
        self.n = int(state[NAME])


class Counted:
    """Batches that are fed how many tokens there have been with them; held-out ones count nothing.

    ``lengths`` are the tokens of each row, ``at`` is where the training stands, None for held-out
    rows. Batches that wait for their update are counted again: nothing has been noted of them.
    """

    def __init__(self, source: Batches, lengths: Array, seen: Seen, at: Position | None) -> None:
        self._source, self._lengths, self._seen, self._at = source, lengths, seen, at
        self.signature, self.origin = source.signature, source.origin
        self.row_numbers = source.row_numbers
        self.seconds = 0.0
        """Time spent waiting for data so far."""

    @property
    def n_batches(self) -> int | None:
        """Batches per epoch."""
        return self._source.n_batches

    def epoch(self, number: int, skip: int = 0) -> Generator[Batch, None, None]:
        """Give the batches of an epoch, without the first ``skip``."""
        rows, counts = self._source.row_numbers(number) or (), self._at is not None
        sums = np.cumsum([0, *(self._lengths[some].sum() * counts for some in rows)])
        waiting = 0 if self._at is None else self._at.begun.gathered
        before = self._seen.n - sums[max(skip - waiting, 0)]
        for i, (feeds, size) in enumerate(self._source.epoch(number, skip), skip + 1):
            self.seconds = self._source.seconds
            yield {**feeds, self._seen.fed: np.float64(before + sums[i])}, size
