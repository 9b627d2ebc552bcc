"""Steps: keeps the graph of a training step as settings and graph ask for it, and runs it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import TrainingError
from ..graph import Tensor, Values
from ..session import Prepared, Session
from .data import Feeds
from .measure import Measures, now
from .optim import Optimizer
from .state import OptimizerState
from .step import StepGraph, candidates, trained
from .unroll import Unrolled


@dataclass(slots=True)
class Outcome:
    """What one step gave."""

    finite: bool
    """Whether loss and gradients are; without that it was not committed."""
    norm: float
    """Norm of all gradients together, before clipping."""
    measured: Sequence[Any]
    grads: Mapping[Tensor, Any]


class Steps:
    """The steps of one trainer, singly or several in one run.

    The graph of a step is built anew when an edit, freezing or the optimizer asks for it; the
    session runs it prepared.
    """

    def __init__(
        self,
        loss: Tensor,
        measures: Measures,
        chosen: Sequence[Tensor | str] | None,
    ) -> None:
        self.loss = loss
        self.state: OptimizerState | None = None
        self.watched: list[Tensor] = []
        """What may be trained, frozen or not."""
        self._measures, self._chosen = measures, chosen
        self._wrt: list[Tensor] = []
        self._session: Session
        self._step: StepGraph | None = None
        self._stamp: Any = None
        self._single: Prepared | None = None
        self._watching: Prepared | None = None
        self._rate = 0.0, np.array(0.0)
        """The rate that was fed last, as a number and as an array."""
        self._unrolled: dict[tuple[int, bool], tuple[Unrolled, Prepared]] = {}

    @property
    def parameters(self) -> list[Tensor]:
        """The variables that the next step trains."""
        return [t for t in candidates(self.loss.graph, self._chosen) if t.trainable]

    def load(self, arrays: Mapping[str, Any], values: Values, optimizer: Optimizer) -> None:
        """Take over saved state of the optimizer, all or none; the next step is built anew."""
        self._held_state(values).load(arrays, optimizer)
        self._step = None

    def _held_state(self, values: Values) -> OptimizerState:
        """Return the state of the optimizer, made when first asked for."""
        if self.state is None:
            self.state = OptimizerState(self.loss.graph, values)
        return self.state

    def current(self, session: Session, optimizer: Optimizer, clip_norm: float | None) -> StepGraph:
        """Return the graph of the next step, to be run by ``session``."""
        step = self._step
        if step is None or self._seen(session, optimizer, clip_norm) != self._stamp:
            self._step = self._single = self._watching = None
            self._unrolled.clear()
            self._session = session
            step = self._step = self._build(session, optimizer, clip_norm)
            self._stamp = self._seen(session, optimizer, clip_norm)
        return step

    def _seen(self, session: Session, optimizer: Optimizer, clip_norm: float | None) -> Any:
        """Return what the graph of a step depends on; costs about 1 us for ten parameters."""
        graph = self.loss.graph
        settings = dict(vars(optimizer))
        settings.pop("learning_rate", None)  # fed, so it may change in every step
        return (
            session,
            graph.revision,
            [id(value) for value in graph.updates.values()],
            [t.node.trainable for t in self.watched],
            type(optimizer),
            settings,
            clip_norm,
        )

    def _build(self, session: Session, optimizer: Optimizer, clip_norm: float | None) -> StepGraph:
        graph = self.loss.graph
        graph.settle()
        optimizer.check()
        if clip_norm is not None and not 0 < clip_norm < math.inf:
            raise TrainingError(f"clip_norm={clip_norm!r} is out of range", need="0 < clip_norm")
        self.loss = now(graph, self.loss)
        self.watched = candidates(graph, self._chosen)
        params, reached = trained(self.loss, self.watched)
        held = [t for t in self._wrt if t in reached]
        self._wrt = list(dict.fromkeys([*held, *params]))
        return StepGraph(
            self.loss,
            self._measures.fetches(),
            params,
            gradients_of=self._wrt,
            optimizer=optimizer,
            state=self._held_state(session.values),
            clip_norm=clip_norm,
        )

    # -- running ---------------------------------------------------------------------------------

    def take(
        self, step: StepGraph, feeds: Feeds, rate: float, number: int, *, watching: bool
    ) -> Outcome:
        """Run a step and commit it if it is finite; with ``watching`` fetch the gradients, too."""
        run = self._watching if watching else self._single
        if run is None:
            run = self._prepare(step, watching)
        if rate != self._rate[0]:
            self._rate = rate, np.array(rate)
        finite, norm, *measured = run(*[feeds[t] for t in step.needed], self._rate[1], step=number)
        if not watching:
            return Outcome(bool(finite), float(norm), measured, {})
        count = len(measured) - len(step.grads)
        grads = dict(zip(step.grads, measured[count:], strict=True))
        return Outcome(bool(finite), float(norm), measured[:count], grads)

    def _prepare(self, step: StepGraph, watching: bool) -> Prepared:
        run = self._session.prepare(
            [*step.fetches, *(step.grads.values() if watching else ())],
            [*step.needed, step.rate],
            step.updates,
            training=True,
            commit_if=step.finite,
        )
        if watching:
            self._watching = run
        else:
            self._single = run
        return run

    def take_many(
        self,
        step: StepGraph,
        batches: Sequence[Feeds],
        rates: Sequence[float],
        number: int,
        *,
        skip: bool,
    ) -> list[Outcome] | None:
        """Run steps ``number``, ``number + 1`` ... in one plan and commit what they lead to.

        Those that are not finite are skipped; without ``skip``, nothing is committed if one is, and
        the answer is None.
        """
        key = len(batches), skip
        held = self._unrolled.get(key)
        if held is None:
            unrolled = Unrolled(step, len(batches), select=skip)
            run = self._session.prepare(
                unrolled.fetches,
                unrolled.feeds,
                unrolled.updates,
                training=True,
                commit_if=unrolled.finite,
            )
            held = self._unrolled[key] = unrolled, run
        unrolled, run = held
        seed = self._session.seed
        found = run(*unrolled.arrays(batches, rates, seed, number), step=number)
        outcomes = [Outcome(bool(f), float(n), m, {}) for f, n, *m in found]
        return outcomes if skip or all(o.finite for o in outcomes) else None
