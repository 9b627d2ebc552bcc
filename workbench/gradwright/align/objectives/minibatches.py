"""Minibatches: an epoch of prompts as rollouts, each as batches that steps are taken on."""

from __future__ import annotations

import time
import zlib
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data.batches import Batch
from ...errors import TrainingError
from ...train.position import Position
from ..rollouts.rollout import Prompt

if TYPE_CHECKING:
    from .policy import PolicyObjective

Array = np.ndarray[Any, Any]
ROWS = 32
"""Completions in a batch, unless it is said."""


class Minibatches:
    """The batches of an epoch: each rollout is drawn when its first batch is asked for.

    ``size`` rows a batch; a rollout has ``size·steps_per_generation`` rows, in groups of
    ``num_generations``. What prompts are left at the end of an epoch do not make a rollout, and
    are left out.
    """

    def __init__(
        self,
        objective: PolicyObjective,
        prompts: Sequence[Prompt],
        at: Position,
        size: int | None,
        *,
        shuffle: bool,
    ) -> None:
        self._objective, self._prompts, self._at = objective, prompts, at
        self._shuffle = shuffle
        method = objective.method
        group, parts = method.num_generations, method.steps_per_generation
        self.size = max(group, ROWS // group * group) if size is None else size
        rows = self.size * parts
        if rows % group or not rows:
            raise TrainingError(
                f"a rollout of {rows} rows is no number of groups of {group}",
                facts=[f"batch_size={self.size}, steps_per_generation={parts}"],
                need=f"batch_size·steps_per_generation as a multiple of num_generations={group}",
            )
        self.n_prompts = rows // group
        """How many prompts a rollout is of."""
        if len(prompts) < self.n_prompts:
            raise TrainingError(
                f"{len(prompts)} prompts are too few for a rollout of {self.n_prompts}",
                hint=f"batch_size={max(len(prompts) * group // parts, 1)}, or more prompts",
            )
        self._per_rollout = parts * method.num_iterations
        self.seconds = 0.0
        """Time spent drawing so far."""

    @property
    def n_batches(self) -> int:
        """Batches per epoch."""
        return len(self._prompts) // self.n_prompts * self._per_rollout

    def epoch(self, number: int, skip: int = 0) -> Generator[Batch, None, None]:
        """Give the batches of an epoch, without the first ``skip``."""
        objective, order = self._objective, self._order(number)
        begun, first = divmod(skip, self._per_rollout)
        done, steps = self._at.begun.batches, 0
        for part in range(begun, self.n_batches // self._per_rollout):
            self._check_done(done + steps, "a rollout")
            rows = order[part * self.n_prompts : (part + 1) * self.n_prompts]
            prompts = [self._prompts[i] for i in rows]
            began = time.perf_counter()
            objective.collect(
                *(prompts, (number, part), self._at.steps, self.size, self._further), first=first
            )
            self.seconds += time.perf_counter() - began
            for k in range(first, self._per_rollout):
                if objective.entropy_control is not None:
                    self._check_done(done + steps, "an entropy bonus")
                feeds = objective.minibatch(*divmod(k, objective.method.steps_per_generation))
                if k == 0:
                    objective.check_ratio(feeds)
                steps += 1
                yield feeds, self.size
            first = 0

    def _check_done(self, batches: int, what: str) -> None:
        """Refuse to make what follows from steps that are not taken yet."""
        if self._at.begun.batches != batches:
            raise TrainingError(
                f"{what} is due before the steps before it are taken",
                need=f"unroll=1: {what} depends on every step before",
            )

    def _order(self, number: int) -> Array:
        """Return the order of prompts in an epoch; one below 0 is for what refills draw."""
        n = len(self._prompts)
        if not self._shuffle:
            return np.arange(n)
        return np.random.default_rng((self._objective.seed, 1, number % (1 << 62))).permutation(n)

    def _further(self, start: int, n: int) -> list[Prompt]:
        """Return prompts of an endless order beside that of epochs."""
        found = []
        for i in range(start, start + n):
            lap, at = divmod(i, len(self._prompts))
            found.append(self._prompts[self._order(-1 - lap)[at]])
        return found

    def signature(self) -> list[int]:
        """Return rows, order and batches, and a sum of the prompts."""
        held = [np.array([len(p.tokens), *p.tokens], np.int64).tobytes() for p in self._prompts]
        method = self._objective.method
        sizes = [self.size, method.num_generations, method.steps_per_generation]
        shape = [method.num_iterations, int(self._shuffle), self._objective.seed % (1 << 62)]
        return [21, len(self._prompts), *sizes, *shape, zlib.crc32(b"".join(held))]

    def origin(self, epoch: int, batch: int, row: int) -> str:
        """Say which completion a row of a batch is."""
        within = batch % self._per_rollout
        parts = self._objective.method.steps_per_generation
        i = int(self._objective.rows_of(*divmod(within, parts))[row])
        group = self._objective.method.num_generations
        return f"completion {i % group} of prompt {i // group} of the rollout"

    def row_numbers(self, epoch: int) -> list[Array] | None:
        """Return None: rows are drawn."""
        return None


class HeldOut:
    """Batches of held-out prompts: each is sampled, judged and measured, and leaves no trace."""

    def __init__(
        self, objective: PolicyObjective, prompts: Sequence[Prompt], size: int | None
    ) -> None:
        self._objective, self._prompts = objective, prompts
        self._n = max(1, (ROWS if size is None else size) // objective.method.num_generations)
        self.seconds = 0.0
        """Time spent drawing so far."""

    @property
    def n_batches(self) -> int:
        """Batches in all."""
        return -(-len(self._prompts) // self._n)

    def epoch(self, number: int, skip: int = 0) -> Generator[Batch, None, None]:
        """Give the batches, without the first ``skip``; they are the same in each epoch."""
        for i in range(skip, self.n_batches):
            prompts = self._prompts[i * self._n : (i + 1) * self._n]
            began = time.perf_counter()
            feeds = self._objective.measured(prompts, i)
            self.seconds += time.perf_counter() - began
            yield feeds, len(prompts) * self._objective.method.num_generations

    def signature(self) -> list[int]:
        """Return how many prompts and batches there are."""
        return [22, len(self._prompts), self._n]

    def origin(self, epoch: int, batch: int, row: int) -> str:
        """Say which completion a row of a batch is."""
        group = self._objective.method.num_generations
        return f"completion {row % group} of prompt {batch * self._n + row // group}"

    def row_numbers(self, epoch: int) -> list[Array] | None:
        """Return None: rows are drawn."""
        return None
