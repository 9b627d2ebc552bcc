"""explain_gradient: why the gradient of a parameter is zero, small, large or not finite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...graph import Graph, Node, Tensor, Values, member
from ...spec.containers import ContainerSpec
from ..arguments import check_run
from ..check.probe import analytic_gradients, check_floating, check_loss
from ..float64 import Float64Run
from .causes import broken, changes, cuts, deaths, is_finite, partial, told, unreached
from .explanation import Cause, Explanation, Step
from .level import level_of, norm, stabilised
from .measured import Measured
from .narrow import AsItTrains, as_it_trains, is_narrow
from .numbers import about
from .paths import Use, ends_of, find_path, size
from .walk import Place, Walk

SMALL, LARGE = 1e-5, 1e3
"""Bounds of ‖g‖·‖w‖ / |L|, by how much of itself the loss moves, and of ‖g‖ / ‖w‖, by how much of
itself a step of rate 1 moves the parameter. Networks that train have 0.001 to 100 of both."""


def explain_gradient(
    graph: Graph,
    loss: Tensor | str,
    parameter: Tensor | str,
    feeds: Mapping[Any, Any] | None = None,
    *,
    training: bool = True,
    seed: int = 0,
    values: Values | None = None,
) -> Explanation:
    """Explain why the gradient of ``loss`` for a parameter is zero, small, large or not finite.

    ḡ(x) = Σ over uses of x of (∂y/∂x)ᵀ·ḡ(y), followed back along what adds most

    Forward and backward run node by node in float64, on a copy. The path is followed from the loss
    to the parameter, into calls, branches and loops, and each op on it is measured: its slopes
    where the cotangent arrives, what else it multiplies by, what cancels. Where the gradient is 0,
    the path ends at the op that lets nothing through. A second run in the graph's own dtypes tells
    what underflows or overflows there alone. It costs a few runs, node by node.

    Args:
        graph: the graph that holds ``loss``.
        loss: a real scalar tensor, or its name.
        parameter: a variable, placeholder or activation, or its name.
        feeds: placeholder -> value, as for ``Session.run``.
        training: mode of dropout, batch norm and the like; as in training, unlike other checks.
        seed: of random ops.
        values: where variables are read; default a snapshot of ``graph.values``.

    Raises GradientError if ``loss`` is not a real scalar or ``parameter`` is not floating;
    FeedError for feeds that do not fit.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None, 2))
    >>> w = g.variable("w", (2, 3), init=-1.0)
    >>> loss = gw.nn.relu(x @ w).mean(name="loss")
    >>> why = gw.explain_gradient(g, loss, w, {"x": [[1.0, 2.0], [0.5, 0.0]]})
    >>> why.verdict, why.causes[0].kind, why.culprits
    ('zero', 'flat', ('relu',))
    >>> why.steps[1].reason
    'its slope is 0 at all 6 elements: x lies between -3 and -0.5, and it has a slope only above 0'
    """
    call = "explain_gradient(graph, loss, parameter, feeds)"
    check_run(call, graph, training, values, seed=seed)
    target = member(graph, loss)
    check_loss(target)
    chosen = member(graph, parameter)
    check_floating(chosen)
    held = graph.values.snapshot() if values is None else values
    options: Any = {"values": held, "seed": seed, "training": training}
    run = Float64Run([target, chosen], {} if feeds is None else feeds, **options)
    found = _Explained(run, target, chosen).made()
    if found.verdict in ("unreachable", "zero", "nonfinite") or not is_narrow(run):
        return found
    own = AsItTrains([target, chosen], {} if feeds is None else feeds, **options)
    return as_it_trains(found, own, own.copies[chosen], own.copies[target])


class _Explained:
    """One explanation in the making."""

    def __init__(self, run: Float64Run, loss: Tensor, parameter: Tensor) -> None:
        self.run, self.loss, self.parameter = run, loss, parameter
        self.start = run.copies[parameter]
        self.end = stabilised(run, self.start, run.copies[loss])
        self.level = level_of(run, self.start, self.end)
        self.walk = Walk()
        self.place = Place(None, None, "", {copy: t.name for t, copy in run.copies.items()})

    def made(self) -> Explanation:
        """Return the explanation."""
        level, seeds = self.level, {self.end: np.ones(())}
        for node, _, _ in level.cuts:
            given = node.outputs[0].spec
            if isinstance(given, ContainerSpec) and given.differentiable:
                return self._unfollowed(node, f"gives, {given}")
        if self.end not in level.active:
            return self._result("unreachable", self._unreachable())
        level.pull(seeds)
        for node, _ in level.nodes:
            if any(t in level.total for t in node.outputs[len(node.public) :]):
                return self._unfollowed(node, "keeps for its gradient, which this loss is made of")
        norms = {self.place.address(t.node).node: size(level, t) for t in reversed(level.total)}
        path = find_path(level, self.start, seeds)
        steps = self.walk.steps(level, path, self.place)
        gradient = level.total.get(self.start, np.zeros(()))
        length, relative = norm(gradient), self._relative(norm(gradient), path)
        zeros = float((gradient == 0).mean()) if gradient.size else 1.0
        dead = list(deaths(steps))
        if not np.isfinite(self.run.env[self.end]):
            verdict, causes = "nonfinite", self._forward()
        elif not math.isfinite(length):
            verdict, causes = "nonfinite", [*_backward(steps)][:1]
        elif not gradient.size:  # nothing could come here, whatever lies on the way
            name, shape = self.parameter.name, list(gradient.shape)
            text = f"{name!r} has no elements, its shape is {shape}"
            verdict, causes, steps = "zero", [Cause("unused", text, (name,), 0.0)], []
        elif length == 0 or dead:
            verdict, causes = "zero", [*dead, *self._other_ends(path), *self._behind(path)]
        else:
            verdict = self._verdict(length, relative)
            causes = [] if verdict == "ordinary" else changes(steps, grows=verdict == "large")
            if verdict != "ordinary" and not causes:
                causes = [self._own_size()]
            known = [c.nodes for c in causes]
            causes += [c for c in partial(steps) if zeros > 0.05 and c.nodes not in known]
            causes += [*cuts(level, self.place.address), *self.walk.inner_cuts]
        return self._result(
            verdict, causes, norm=length, zeros=zeros, relative=relative,
            steps=tuple(steps), norms=norms, turns=self.walk.turns,
        )  # fmt: skip

    def _result(self, verdict: str, causes: Sequence[Cause], **facts: Any) -> Explanation:
        node = self.parameter.node
        if node.kind == "variable" and not node.trainable:
            text = f"{node.name!r} is frozen: trainers do not change it, whatever its gradient"
            causes = [*causes, Cause("frozen", text, (node.name,))]
        return Explanation(
            self.loss.name, self.parameter.name, verdict, causes=tuple(causes), **facts
        )

    def _forward(self) -> list[Cause]:
        """Return where the loss ceases to be finite: at a node, or else at what comes in."""
        for cause in broken(self.run.nodes, self.run.env):
            return [cause]
        sources = (t for t in self.place.names if t.kind != "array")
        names = [self.place.names[t] for t in sources if not is_finite(self.run.env[t])]
        return [Cause("nonfinite", f"{n!r} holds NaN or infinity", (n,), math.inf) for n in names]

    def _unfollowed(self, node: Node, what: str) -> Explanation:
        """Return what can be said of a gradient that is not followed everywhere: how long it is."""
        (gradient,) = analytic_gradients(self.run, self.end, [self.start])
        length, relative = norm(gradient), self._relative(norm(gradient), [])
        verdict = self._verdict(length, relative) if length else "zero"
        name = self.place.address(node).node
        text = f"it is not followed through what {node.op.title} {name!r} {what}"
        return self._result(
            verdict if math.isfinite(length) else "nonfinite",
            [Cause("unfollowed", text, (name,))],
            norm=length,
            zeros=float((gradient == 0).mean()) if gradient.size else 1.0,
            relative=relative,
        )

    def _own_size(self) -> Cause:
        name, w = self.parameter.name, norm(self.run.env[self.start])
        text = f"no op on the path changes it much; the norm of {name!r} itself is {about(w)}"
        return Cause("factor", text, (name,))

    def _unreachable(self) -> list[Cause]:
        found = unreached(self.level)
        if found:
            return found
        name = self.parameter.name
        return [Cause("unused", f"nothing that the loss is made of reads {name!r}", (name,), 0.0)]

    def _other_ends(self, path: Sequence[Use]) -> Iterator[Cause]:
        """Yield where else it dies, on other paths."""
        others = {use: size for use, size in ends_of(self.level).items() if use not in path}
        for use in sorted(others, key=lambda use: -others[use])[:2]:
            yield from deaths(self.walk.steps(self.level, [use], self.place))

    def _behind(self, path: Sequence[Use]) -> Iterator[Cause]:
        """Yield where it would die next, if the first place let something through."""
        for _ in range(2):
            dying = next((use for use in reversed(path) if not self.level.parts[use]), None)
            t = None if dying is None else dying[0].inputs[dying[1]]
            if t is None or t is self.start:
                return
            seeds = {t: np.asarray(np.random.default_rng(0).normal(size=self.run.env[t].shape))}
            self.level.pull(seeds)
            if size(self.level, self.start):
                return
            path = find_path(self.level, self.start, seeds)
            for cause in deaths(self.walk.steps(self.level, path, self.place)):
                yield replace(cause, text=f"behind that, {cause.text}")

    def _relative(self, length: float, path: Sequence[Use]) -> float:
        """Return ‖g‖·‖w‖ / |L|; where L adds up terms of both signs, by the size of these."""
        scale = abs(float(self.run.env[self.end]))
        for node, i in reversed(path):
            edge = self.level.edge(node, i)
            if not Measured(edge).is_linear:
                break
            scale = max(scale, float(np.abs(edge.part * edge.x).sum()))
        return length * self._typical() / scale if scale else math.inf if length else 0.0

    def _typical(self) -> float:
        """Return the norm of the parameter, or that of small numbers where it is 0."""
        w = self.run.env[self.start]
        return max(norm(w), 0.01 * math.sqrt(w.size))

    def _verdict(self, length: float, relative: float) -> str:
        step = length / self._typical()
        if min(relative, step) < SMALL:
            return "small"
        return "large" if max(relative, step) > LARGE else "ordinary"


def _backward(steps: Sequence[Step]) -> Iterator[Cause]:
    """Yield the steps that make what is not finite of a finite cotangent."""
    for step in steps:
        if math.isfinite(step.norm_in) and not math.isfinite(step.norm_out):
            reason = step.reason or "passes what is not finite"
            at = (str(step.address),)
            yield Cause("nonfinite", f"it begins at {told(step)}: {reason}", at, math.inf)
