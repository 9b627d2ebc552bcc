"""Planned: what a session keeps from run to run: plans, their memory, and how long they took."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any

from ..errors import GraphError
from ..graph import Graph, Tensor, Values
from ..op import redefinitions
from ..plan import Plan
from ..plan.template import Templates
from ..program.device import Device
from ..program.ledger import Ledger, Released
from ..program.lowering import lowering_revision
from ..program.options import PlanOptions
from ..shared import Bounded, default_bytes
from ..spec import TensorSpec, spec_of
from . import diary
from .request import Request
from .timing import Timing

ANSWERS = 256
"""How much callers remember."""


class Planned:
    """The plans of a session: made, found again, and let go; under the lock of the session."""

    def __init__(
        self,
        graph: Graph,
        values: Values,
        device: Device,
        options: PlanOptions,
        max_plans: int,
        cache_bytes: int | None,
    ) -> None:
        self.graph, self.values, self.device, self.options = graph, values, device, options
        most = default_bytes() if cache_bytes is None else cache_bytes
        self.plan_cache = Bounded[Plan](max_plans, most, Plan.buffers, diary.let_go)
        self.timing = Timing()
        """How often what has run, and how long it took; print it, or ``reset`` it."""
        self.deterministic = False
        self._templates = Templates(max_plans)
        self._requests: dict[Any, Request] = {}
        self._answers: tuple[Any, dict[Any, Any]] = None, {}
        self._latest: Request | None = None
        """The request that ran last, whose plan is the last to go."""
        self._lock = threading.RLock()
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise GraphError("this session is closed", hint="with gw.Session(g) as session: ...")

    # -- what there is ---------------------------------------------------------------------------

    @property
    def plans(self) -> list[Plan]:
        """The plans that are kept; the one that ran last, or was asked for last, comes last.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", (None,))
        >>> session = gw.Session(g)
        >>> y = session.run(x * 2.0, {"x": [1.0]})
        >>> session.plans[-1].targets
        [<Tensor 'mul': f32[x_0]>]
        """
        with self._lock:  # a run of another thread may add one
            return self.plan_cache.values()

    @property
    def memory(self) -> Ledger:
        """What memory is held for plans, how much it was at most, and what was freed and why."""
        return self.device.ledger

    @property
    def tuning(self) -> dict[str, Any]:
        """What decides the last bits and the speed of a run here: versions, machine, threads.

        ``choices`` says how many threads each kind of call uses, as far as that is known by now; a
        deterministic session has chosen before its first step. JSON can keep it, and
        ``Session(tuning=...)`` takes it back.
        """
        record = self.device.record()
        return {"device": self.device.name, **record, "kernels": self.options.kernels}

    def retune(self, record: Mapping[str, Any]) -> None:
        """Take over the choices of another session's ``tuning``, for plans that are there, too.

        Raises GraphError for what is no record.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> session = gw.Session(g)
        >>> session.retune(gw.Session(g, threads=1).tuning)
        >>> session.tuning["threads"]
        1
        """
        self.device.retune(record, deterministic=self.deterministic)

    def wait_for_kernels(self, timeout: float | None = None) -> bool:
        """Have the kernels of all plans compiled that are kept, and wait for them.

        From then on these plans run on kernels, without the first three runs that they would wait
        for otherwise. Returns False if ``timeout`` seconds were too few; they come later, then.
        ``plan.kernels`` shows what came.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", (None,))
        >>> with gw.Session(g) as session:
        ...     plan = session.plan(gw.tanh(x * 2.0), {"x": (3,)})
        ...     session.wait_for_kernels()
        True
        """
        with self._lock:
            self._check_open()
            for plan in self.plan_cache.values():
                plan.ask_for_kernels()
        return self.device.wait(timeout)

    # -- letting go ------------------------------------------------------------------------------

    def release_plans(self, why: str = "the plans were released") -> Released:
        """Let all plans go with their memory; return how many, and what was freed.

        The next run of each makes it anew. ``why`` is what the log of ``memory`` says.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> session = gw.Session(g)
        >>> y = session.run(gw.exp(g.placeholder("x", (None,))), {"x": [0.0] * 1000})
        >>> session.release_plans()
        1 plan, 4 kB
        """
        with self._lock:
            kept = sum(part.kept for plan in self.plan_cache.values() for part in plan.parts)
            found = self.release(why)
            self.plan_cache.clear()
            self._templates.clear()
            self._requests.clear()
            self._latest = None
            return Released(found.plans, found.nbytes + kept)

    def release(self, why: str = "the memory of all plans was released") -> Released:
        """Let go of the memory of all plans, which are kept: the next run of each takes it anew.

        Returns of how many, and how much was freed. What somebody else holds, such as a plan that
        runs for another session, is none of it.
        """
        with self._lock, self.memory.ending(why):
            plans, before = self.plan_cache.values(), self.memory.held
            for plan in plans:
                plan.release()
            self.device.release()
            return Released(len(plans), max(0, before - self.memory.held))

    @property
    def answers(self) -> dict[Any, Any]:
        """What callers remember of the graph by what they were asked, until it is edited."""
        graph = self.graph
        graph.settle()
        stamp = graph.revision, graph.marked
        if stamp != self._answers[0] or len(self._answers[1]) > ANSWERS:
            self._answers = stamp, {}
        return self._answers[1]

    # -- making and finding ----------------------------------------------------------------------

    def _planned(self, request: Request, shapes: Any, env: Mapping[Tensor, Any]) -> Plan:
        """Return the plan of a request for what is fed now; that which ran last, without a look."""
        is_same = shapes == request.shapes
        if is_same and request is self._latest and (plan := request.plan()) is not None:
            return plan
        plan = self.plan_cache.find(request.key) if is_same else None
        if plan is None:
            specs = {t: spec_of(a) for t, a in env.items()}
            request.key, plan = self._plan(request, specs)
            request.shapes, request.plan = shapes, weakref.ref(plan)
        elif diary.is_on():
            diary.tell(plan, env, "found, as it ran before")
        self._latest = request
        return plan

    def _plan(self, request: Request, specs: dict[Tensor, TensorSpec]) -> tuple[Any, Plan]:
        if request.rng is not None:
            specs[request.rng] = request.rng.spec
        key = (
            tuple(request.fetches),
            tuple((t, s.shape, s if s.by_reference else s.dtype) for t, s in specs.items()),
            tuple(request.updates.items()),
            request.commit_if,
            request.training,
            self.options,
            self.graph.revision,
            redefinitions(),
            lowering_revision(),
        )
        request.times = self.timing.of(request.fetches, request.training)
        plan = self.plan_cache.find(key)
        reason = diary.why(key, plan, self.plan_cache)
        if plan is None:
            began = time.perf_counter()
            plan = self._templates.plan(
                request.fetches,
                specs,
                self.device,
                training=request.training,
                options=self.options,
                updates=request.updates,
                commit_if=request.commit_if,
            )
            if lost := [t for t in plan.variables if not self.values.fits(t.node)]:
                self.values.stored(lost[0].node)  # raises: it is another than when they were taken
            self.plan_cache.keep(key, plan)
            request.times.planned(time.perf_counter() - began)
        if reason:
            diary.tell(plan, specs, reason)
        return key, plan
