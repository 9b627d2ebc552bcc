"""How control flow runs inside a plan: each sub-graph is a plan of its own, made when first taken.

A loop makes the plan of its step once and runs it as often as needed; carries go from one step to
the next by reference, because each result of a plan is an array of its own.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..control.steps import Step
from ..device import Device, open_device
from ..graph import SubGraph, Tensor
from ..lowering import Launch, Returning, lowering
from ..spec import BOXED, TensorSpec, spec_of
from .plan import Plan

MAX_PLANS = 64
"""How many plans of one sub-graph are kept, least recently used first to go."""


class Compiled:
    """A sub-graph as plans, one for each set of specs that comes in; usually there is one."""

    def __init__(self, sub: SubGraph, device: Device, training: bool) -> None:
        self._sub, self._device, self._training = sub, device, training
        self._plans: collections.OrderedDict[Any, Plan] = collections.OrderedDict()
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

    def _plan(self, xs: Sequence[Any]) -> Plan:
        specs = [spec_of(x) for x in xs]
        key = tuple(s.key() for s in specs)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = Plan(
                self._sub.outputs,
                dict(zip(self._sub.inputs, specs, strict=True)),
                self._device,
                training=self._training,
                sizes=self._sub.sizes,
            )
            if len(self._plans) > MAX_PLANS:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(key)
        return plan


def _fitting(run: Any, outs: Sequence[TensorSpec]) -> Launch | Returning:
    """Return a launcher that writes into the plan's buffers, where all sizes are known before."""
    if not all(s.is_concrete for s in outs):
        return Returning(run)

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        for y, found in zip(ys, run(xs), strict=True):
            np.copyto(y, found)

    return launch


def branches(
    op: Any, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec], device: str
) -> Launch | Returning:
    """Run the plan of the chosen branch."""
    compiled: dict[bool, Compiled] = {}

    def run(xs: Sequence[Any]) -> list[Any]:
        taken = bool(xs[0])
        if taken not in compiled:
            branch = op.chosen(taken)
            compiled[taken] = Compiled(branch, open_device(device), bool(op.training))
        return compiled[taken](xs[1:])

    return _fitting(run, outs)


def loop(
    op: Any, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec], device: str
) -> Launch | Returning:
    """Run the plan of one step as often as the loop says."""
    step: Step = Compiled(op.body, open_device(device), bool(op.training))
    return _fitting(lambda xs: op.run(xs, step), outs)


for _device in ("cpu", "guard"):
    lowering("cond", _device)(functools.partial(branches, device=_device))
    for _name in ("scan", "while"):
        lowering(_name, _device)(functools.partial(loop, device=_device))
