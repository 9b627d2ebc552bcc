"""Templates: what the plans of one request share over all shapes, so that a new shape is cheap.

The first shape is compiled plainly. For the second the request is flattened once more, with the
graph's symbolic sizes left in; every further shape fills them in and begins at the rewrites. Where
two shapes in a row are rewritten to the same instructions, these are kept, too, and the next shape
only fills in sizes, computes the constants that depend on them, and is laid out.

Nothing is taken on trust: the op of each kind of instruction infers its specs anew, what a rewrite
left out or put in the place of another must have the same shape again, and sizes of 0 and 1, which
broadcast, are compiled plainly. Whatever does not fit is compiled plainly, which explains errors.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..graph import Tensor
from ..op import redefinitions
from ..program.device import Device
from ..program.lowering import lowering_revision
from ..program.options import DEFAULTS, PlanOptions
from ..program.program import Program
from ..rewrite import rewrite
from ..rewrite.schedule import schedule
from ..shared import Bounded
from ..spec import TensorSpec
from .flat import Flat, Known, Sized, Sizes, SpecialError, UnfitError
from .plan import Plan
from .rewritten import Rewritten

Filled = tuple[Program, int, Sequence[Tensor], Known]
"""A part after its rewrites, where it ends, the tensors met there, and the specs known then."""
Made = tuple[str, Program, Sized]
TRIES = 3
"""How often in a row sizes may not fit before a request is always compiled plainly."""
KNOWN = 8
"""How many different lists of instructions are kept for one request."""


class Templates:
    """Makes plans, and keeps what those of one request have in common; threads may share it.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.tanh(g.placeholder("x", ("B", 4))).sum()
    >>> from gradwright.program.device import open_device
    >>> templates, device = Templates(), open_device("cpu")
    >>> plans = [
    ...     templates.plan([y], {g["x"]: TensorSpec((n, 4))}, device, training=False)
    ...     for n in range(2, 7)
    ... ]
    >>> [plan.memory().arena for plan in plans]
    [64, 64, 64, 128, 128]
    >>> plans[0].shapes.counts
    {'plain': 1, 'flat': 2, 'filled': 2}
    """

    def __init__(self, most: int = 64) -> None:
        self._requests = Bounded[Plan](most)

    def clear(self) -> None:
        """Forget all requests."""
        self._requests.clear()

    def plan(
        self,
        targets: Sequence[Tensor],
        feeds: Mapping[Tensor, TensorSpec],
        device: Device,
        *,
        training: bool,
        options: PlanOptions = DEFAULTS,
        sizes: Sizes = MappingProxyType({}),
        **more: Any,
    ) -> Plan:
        """Return a plan; the arguments are those of :class:`Plan`."""
        key = (
            tuple(targets), tuple((t, s.dtype) for t, s in feeds.items()), device.name, training,
            options, _revisions([*targets, *more.get("updates", ())]), tuple(sorted(sizes)),
            *_hashable(more),
        )  # fmt: skip
        if options.verify or any(s.by_reference for s in feeds.values()):
            return Plan(
                targets, feeds, device, training=training, options=options, sizes=sizes, **more
            )
        held = self._requests.find(key)
        if held is not None:
            return held.again(feeds, sizes, device)
        plan = Plan(
            targets, feeds, device, training=training, options=options, sizes=sizes,
            shapes=Shapes(), **more,
        )  # fmt: skip
        self._requests.keep(key, plan.bare())
        return plan


class Shapes:
    """What the plans of one request share: for each part, by where it begins, a template."""

    def __init__(self) -> None:
        self._parts: dict[int, _Template] = {}
        self.counts = {"plain": 0, "flat": 0, "filled": 0}
        """How many parts were compiled plainly, from flat programs, or from known instructions."""

    def fill(self, plan: Plan, start: int, known: Known, sizes: Sizes) -> Filled | None:
        """Return the program of a part after its rewrites, with where it ends and what is known."""
        template = self._parts.get(start)
        if template is None or template.fails >= TRIES:
            return None
        try:
            how, program, at = template.program(plan, start, known, sizes)
        except Exception:  # the plain way says what is wrong, if anything is
            return None
        self.counts[how] += 1
        if template.end < len(plan.order):
            known = {**known, **at.known()}
        return program, template.end, template.dynamic, known

    def learn(self, start: int, end: int, dynamic: Sequence[Tensor], by_value: bool) -> None:
        """Remember how a part came out that was compiled plainly."""
        self.counts["plain"] += 1
        if start not in self._parts and not by_value:
            self._parts[start] = _Template(end, tuple(dynamic))


class _Template:
    """One part of a request: its flat program, and the instructions that shapes have in common."""

    def __init__(self, end: int, dynamic: tuple[Tensor, ...]) -> None:
        self.end, self.dynamic = end, dynamic
        self.fails = 0
        """How often in a row sizes did not fit."""
        self._flat: Flat | None = None
        self._known: list[Rewritten] = []
        self._last: tuple[Sizes, Program] | None = None

    def program(self, plan: Plan, start: int, known: Known, sizes: Sizes) -> Made:
        """Return how the program for some sizes was made, after and before its rewrites."""
        try:
            if self._flat is None:
                self._flat = Flat(plan, start, self.end, self.dynamic, known, sizes)
            at = Sized(self._flat, sizes)
        except SpecialError:
            raise
        except Exception:
            self.fails += 1
            raise
        self.fails = 0
        for rewritten in self._known:
            filled = rewritten.at(at)
            if filled is not None:
                return "filled", filled, at
        program = at.program()
        rewrite(program, plan.options.skip)
        schedule(program)
        self._learn(at, program)
        return "flat", program, at

    def _learn(self, at: Sized, program: Program) -> None:
        """Keep the instructions if the shape before was rewritten to the same ones."""
        kept = dataclasses.replace(  # what follows goes on to change the program
            program,
            specs=list(program.specs),
            instrs=list(program.instrs),
            constants=dict(program.constants),
        )
        if self._last is not None and len(self._known) < KNOWN:
            sizes, before = self._last
            with contextlib.suppress(UnfitError):
                self._known.insert(0, Rewritten(at, kept, Sized(at.flat, sizes), before))
        self._last = at.sizes, kept


def _revisions(tensors: Iterable[Tensor]) -> tuple[int, ...]:
    """Return what changes when a graph is edited, or an op or a lowering defined anew."""
    return *[t.graph.revision for t in tensors][:1], redefinitions(), lowering_revision()


def _hashable(more: Mapping[str, Any]) -> list[Any]:
    return [(k, tuple(v.items()) if isinstance(v, Mapping) else v) for k, v in more.items()]
