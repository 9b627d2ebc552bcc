"""How control flow runs inside a plan: each sub-graph is a plan of its own, made when first taken.

A loop makes the plan of its step once and runs it as often as needed; carries go from one step to
the next by reference, because each result of a plan is an array of its own. Plans of a sub-graph
have the options of the plan around them, and an arena of their own: they run while that one runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import GradwrightError
from ..graph import SubGraph, Tensor
from ..ops.control.branch import taken
from ..ops.control.scan_op import Scan
from ..program.device import Device
from ..program.lowering import Launch, Returning, lowering
from ..program.options import PlanOptions, current
from ..shared import Bounded, default_bytes
from ..spec import BOXED, TensorSpec, spec_of
from .plan import Plan
from .template import Templates

Run = Callable[[Sequence[Any], Sequence[Any] | None], Sequence[Any]]
"""(inputs, the arrays that outputs may be put into) -> outputs."""
MAX_PLANS = 256
"""How many plans of one sub-graph are kept, least recently used first to go."""


class SubPlan:
    """A sub-graph as plans, one for each set of specs that comes in; usually there is one."""

    def __init__(self, sub: SubGraph, device: Device, training: bool, options: PlanOptions) -> None:
        self._sub, self._device, self._training, self._options = sub, device, training, options
        self._plans = Bounded[Plan](MAX_PLANS, default_bytes(), Plan.buffers)
        self._templates: Templates = sub.__dict__.setdefault("_templates", Templates())
        """What plans of all loops and sessions with this sub-graph have in common."""
        self._current: Plan | None = None
        self._met: list[Any] = []

    def __call__(self, xs: Sequence[Any]) -> list[Any]:
        """Return the outputs for inputs."""
        sub = self._sub
        # Dtypes are those of the sub-graph; what a sequence holds, its shape does not say.
        met = [x.shape if x.dtype != BOXED else spec_of(x) for x in xs]
        plan = self._current
        if plan is None or met != self._met:
            plan = self._plan(xs)
            self._current, self._met = plan, met
        env: dict[Tensor, Any] = dict(zip(sub.inputs, xs, strict=True))
        plan.run(env)
        return [env[t] for t in sub.outputs]

    def release(self) -> None:
        """Let all buffers go until the next call."""
        for plan in self._plans.values():
            plan.release()
        self._device.release()

    @property
    def plans(self) -> list[Plan]:
        """The plans made so far, the latest used last."""
        return self._plans.values()

    def _plan(self, xs: Sequence[Any]) -> Plan:
        specs = [spec_of(x) for x in xs]
        key = tuple(s.key() for s in specs)
        plan = self._plans.find(key)
        if plan is None:
            plan = self._templates.plan(
                self._sub.outputs,
                dict(zip(self._sub.inputs, specs, strict=True)),
                self._device,
                training=self._training,
                options=self._options,
                sizes=self._sub.sizes,
            )
            self._plans.keep(key, plan)
        return plan


@lowering("cond", "*")
def branches(
    op: Any, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]
) -> Launch | Returning:
    """Run the plan of the chosen branch."""
    compiled: dict[bool, SubPlan] = {}
    options, device = current()

    def run(xs: Sequence[Any]) -> list[Any]:
        chosen = bool(xs[0])
        if chosen not in compiled:
            made = SubPlan(op.chosen(chosen), device.nested(), bool(op.training), options)
            compiled[chosen] = made
        try:
            return compiled[chosen](xs[1:])
        except GradwrightError as error:
            error.part = taken(chosen)
            raise

    return _fitting(lambda xs, ys: run(xs), outs, compiled)


@lowering("scan", "*")
@lowering("while", "*")
def loop(
    op: Any, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]
) -> Launch | Returning:
    """Run the plan of one step as often as the loop says.

    The results of a scan are put right where the plan around it has room for all of them.
    """
    options, device = current()
    step = SubPlan(op.body, device.nested(), bool(op.training), options)
    if isinstance(op, Scan) and not any(s.by_reference for s in outs):
        return _fitting(lambda xs, ys: op.run(xs, step, ys), outs, {0: step})
    return _fitting(lambda xs, ys: op.run(xs, step), outs, {0: step})


class Nested:
    """Launcher of plans inside a plan: it writes into that plan's buffers, as sizes are known."""

    def __init__(self, run: Run, compiled: Mapping[Any, SubPlan]) -> None:
        self._run, self._compiled = run, compiled

    def __call__(self, xs: Sequence[Any], ys: Sequence[Any]) -> None:
        """Run the plans, and copy what they did not write where it belongs."""
        for y, found in zip(ys, self._run(xs, ys), strict=True):
            if found.base is not y:
                np.copyto(y, found)

    def release(self) -> None:
        """Let the buffers of the plans inside go."""
        for compiled in self._compiled.values():
            compiled.release()

    def plans(self) -> list[Plan]:
        """Return the plans inside that were made so far."""
        return [plan for compiled in list(self._compiled.values()) for plan in compiled.plans]


@dataclass(frozen=True)
class Growing(Returning):
    """Plans inside a plan whose results have sizes that are known only when they have run."""

    release: Callable[[], None]
    plans: Callable[[], list[Plan]]


def _fitting(
    run: Run, outs: Sequence[TensorSpec], compiled: Mapping[Any, SubPlan]
) -> Nested | Growing:
    nested = Nested(run, compiled)
    if all(s.is_concrete for s in outs):
        return nested
    return Growing(lambda xs: run(xs, None), nested.release, nested.plans)
