"""gradient_check: analytic gradients beside finite differences, element by element, in float64."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from ...errors import GradientError
from ...graph import Graph, Node, Tensor, Values, member, members
from ..address import Address
from ..arguments import (
    COUNT,
    FRACTION,
    HOOK,
    MOST,
    PROGRESS,
    STOP,
    Kind,
    check_run,
    one_of,
)
from ..float64 import Float64Run
from ..stepping.nonfinite import Ran, Range, find_origin
from .blame import NodeCheck
from .chain.cache import borrowed
from .chain.program import Program
from .chain.settle import Settlement
from .chain.sweep import Sweep
from .directions import typical_size
from .judging import Comparison
from .local import InputCheck
from .nodes import between, check_node
from .probe import Probe, analytic_gradients, check_floating, check_loss, gradient_spread
from .progress import Progress, ShouldStop, asked, bar
from .report import Occasion, ParameterCheck, Report

Array = np.ndarray[Any, Any]
Method = Literal["auto", "differences"]
_METHOD = Kind(" or ".join(get_args(Method)), lambda value: one_of(value, get_args(Method)))
_ORDER = Kind("1 or 2", lambda value: COUNT.fits(value) and value <= 2)
_DRAWS = 8
"""Directions along which a rule is looked at of which single elements disagreed: one direction
misses an element that is off by a thousandth in every second case."""


def gradient_check(
    graph: Graph,
    loss: Tensor | str,
    feeds: Mapping[Any, Any] | None = None,
    *,
    wrt: Sequence[Tensor | str] | None = None,
    max_per_param: int | None = None,
    rtol: float = 1e-5,
    order: int = 1,
    training: bool = False,
    seed: int = 0,
    values: Values | None = None,
    progress: Progress = False,
    should_stop: ShouldStop = None,
    watch: Callable[[Report], None] | None = None,
    method: Method = "auto",
) -> Report:
    """Check the gradient of ``loss`` against finite differences, and find the op at fault.

    (L(w + h·eᵢ) − L(w − h·eᵢ)) / 2h  against  ∂L/∂wᵢ

    Everything is computed in float64 on a copy: feeds are rounded to their placeholder's dtype
    first, and casts to narrower dtypes do nothing, so what is checked is the formulas at this
    run's values. Neither the graph nor its values change, and a check may run in another thread
    while training goes on.

    Args:
        graph: the graph that holds ``loss``.
        loss: a real scalar tensor, or its name.
        feeds: placeholder -> value, as for ``Session.run``.
        wrt: tensors to check - variables, placeholders or activations; default all trainable ones.
        max_per_param: check at most this many elements of each, chosen by ``seed``, beside one
            random direction through all of them. With 0 only the nodes are checked, each by
            itself: a few ms for a small network, whatever the number of parameters.
        rtol: relative difference that passes even where the numeric value is more precise.
        order: 2 also holds the derivative of every node's vjp against differences of the vjp. What
            is wrong there, a ``stop_gradient`` in a vjp perhaps, spoils Hessians and penalties on
            gradients alone.
        training: mode of dropout, batch norm and the like. Random ops draw the same numbers in all
            evaluations.
        seed: of random ops, of the choice of elements and of directions.
        values: where variables are read; default a snapshot of ``graph.values``.
        progress: True for a tqdm bar, or a function of (done, total, name).
        should_stop: a function or ``threading.Event``; a report of what was done comes back.
        watch: called once, before anything is checked, with the report that then grows;
            ``report.copy()`` keeps a state of it, also from another thread.
        method: ``"auto"`` certifies what it can by a chain of measured slopes; ``"differences"``
            moves the loss by every element, which takes 10 to 500 times as long.

    The slope of every call is measured by differences of its own forward, many at once; a chain
    rule written for this alone joins them, and what it brings to a parameter is held against the
    graph's gradient, element by element. One difference of the loss along a direction through all
    parameters ties the chain to it. Elements on whose way an op does not say how it depends on its
    inputs (``Op.depends``), on kinks, and all that do not agree are settled by differences of the
    loss; the report says which were. What a graph was taken apart into is kept, in at most 128 MB
    for all graphs, so that the next check of it is several times faster.

    The step size of an element is swept when one step does not settle it, so there is no epsilon to
    choose. A kink (relu at 0, a tie of max) is told from a mistake by the slopes on its two sides.
    An analytic gradient of exactly zero passes only if the numeric one is zero, too.

    Raises GradientError for settings out of range, and if ``loss`` is not a real scalar, is not
    finite, or does not depend on one of ``wrt``; FeedError for feeds that do not fit.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None, 2))
    >>> w = g.variable("w", (2,), init=[1.0, -2.0])
    >>> loss = gw.exp(x @ w).sum(name="loss")
    >>> report = gw.gradient_check(g, loss, {"x": [[1.0, 2.0], [0.5, 0.0]]})
    >>> report.passed, report.blame
    (True, [])
    >>> report
    <gradient check of 'loss' passed: 2 elements of 1 parameter, 3 nodes>
    """
    check_run("gradient_check(graph, loss, feeds)", graph, training, values, seed=seed)
    MOST.check(GradientError, max_per_param=max_per_param)
    FRACTION.check(GradientError, rtol=rtol)
    _ORDER.check(GradientError, order=order)
    PROGRESS.check(GradientError, progress=progress)
    STOP.check(GradientError, should_stop=should_stop)
    HOOK.check(GradientError, watch=watch)
    _METHOD.check(GradientError, method=method)
    target = member(graph, loss)
    check_loss(target)
    held = graph.values.snapshot() if values is None else values
    parameters = _parameters(graph, wrt)
    feeds = {} if feeds is None else feeds
    occasion = Occasion(graph, target.name, feeds, held, training, seed, rtol)
    options: dict[str, Any] = {"values": held, "seed": seed, "training": training}
    with contextlib.ExitStack() as stack:
        chain = None
        if method == "auto" and order == 1:
            chain = stack.enter_context(borrowed(target, parameters, feeds, **options))
        if chain is None or chain.is_declared:  # what is declared is no slope that can be measured
            chain, run = None, Float64Run([target, *parameters], feeds, **options)
            end, copies = run.copies[target], [run.copies[p] for p in parameters]
            value = run.env[end]
        else:
            run, end, copies = chain.run, chain.loss_copy, chain.copies
            value = chain.held[chain.loss]
        report = Report(target.name, float(value), occasion=occasion)
        if watch is not None:
            watch(report)
        how = max_per_param, order, progress, should_stop
        chosen = dict(zip(parameters, copies, strict=True))
        return _Check(run, chain, end, chosen, report, *how).run()


def _parameters(graph: Graph, wrt: Sequence[Tensor | str] | None) -> list[Tensor]:
    if wrt is None:
        if not graph.trainable:
            raise GradientError(
                f"graph {graph.name!r} has no trainable parameter",
                hint="wrt=[...], or g.unfreeze()",
            )
        return graph.trainable
    return list(map(check_floating, members(graph, wrt, "wrt")))


class _Check:
    """One check: first every node by itself, then every parameter, element by element."""

    def __init__(
        self,
        run: Float64Run,
        chain: Program | None,
        loss: Tensor,
        parameters: Mapping[Tensor, Tensor],
        report: Report,
        max_per_param: int | None,
        order: int,
        progress: Progress,
        should_stop: ShouldStop,
    ) -> None:
        assert report.occasion is not None
        self.rtol, self.seed = report.occasion.rtol, report.occasion.seed
        self.forward, self.chain, self.report = run, chain, report
        self.loss, self.parameters = loss, parameters
        self.max_per_param, self.order = max_per_param, order
        copies = list(self.parameters.values())
        if chain is None:
            self.active, self.reached = between(run, copies, self.loss)
        else:
            self.active, self.reached = chain.between
        self.analytic: dict[Tensor, Array] = {}
        self.progress, self.should_stop = progress, should_stop
        self.is_watched = bool(progress) or should_stop is not None

    def run(self) -> Report:
        """Run to the end, or until told to stop."""
        self._refuse_nonfinite()
        total = len(self.forward.nodes)
        if self.max_per_param != 0:
            limit = math.inf if self.max_per_param is None else self.max_per_param
            sizes = list(map(_size, self.parameters.values()))
            total += sum(1 + int(min(limit, size)) for size in sizes)
        steps = self._differences() if self.chain is None else self._certificates(self.chain)
        with bar(self.progress, total) as show, np.errstate(all="ignore"):
            for done, name in enumerate(steps):
                show(done, name)
                if asked(self.should_stop):
                    self.report.stopped = True
                    return self.report
            self._look_again()
            show(total, "")
        return self.report

    def _certificates(self, chain: Program) -> Iterator[str]:
        """Do one node or one element after the other, by measured slopes; as ``_differences``."""
        sweep = Sweep(chain, self.rtol)
        analytic = chain.gradients()
        self.analytic = dict(zip(self.parameters.values(), analytic, strict=True))
        sweep.run_rules()
        sweep.measure()
        rng = np.random.default_rng(self.seed)
        fresh = False
        for part in chain.parts:
            yield part.node.name
            if not self._asks(part.node):
                continue
            check = sweep.check_part(part)
            if check is None and not part.is_constant:
                if not fresh:
                    chain.refresh()
                    fresh = True
                check = self._checked(part.node, rng, 1 if part.rule is None else _DRAWS)
            if check is not None and check.verdict != "none":
                self.report.nodes.append(check)
        settlement = None if self.max_per_param == 0 else Settlement(chain, sweep, analytic)
        for k, (parameter, copy) in enumerate(self.parameters.items()):
            found = self._begin(parameter, analytic[k])
            if settlement is None or not analytic[k].size:
                continue
            yield parameter.name
            sample = self._sample(copy)
            if sample is not None:  # of the other elements it is all there is
                found.add(settlement.direction(k, found, rng))
            for count in settlement.settle(k, found, sample):
                if self.is_watched:
                    yield from itertools.repeat(parameter.name, count)
            self._forgive(found, copy)

    def _differences(self) -> Iterator[str]:
        """Do one node or one element after the other; yields the name of what comes next."""
        copies = list(self.parameters.values())
        arrays = analytic_gradients(self.forward, self.loss, copies)
        analytic = self.analytic = dict(zip(copies, arrays, strict=True))
        rng = np.random.default_rng(self.seed)
        for node in self.forward.nodes:
            yield node.name
            if not self._asks(node):
                continue
            check = self._checked(node, rng)
            if check.verdict != "none":
                self.report.nodes.append(check)
        for parameter, copy in self.parameters.items():
            found = self._begin(parameter, analytic[copy])
            if self.max_per_param == 0 or not analytic[copy].size:
                continue
            probe = Probe(self.forward, copy, self.loss, self.rtol)
            calls = probe.function.calls
            found.surrogates = (
                *calls.surrogates,
                *(c.label for c in calls.calls if c.label in calls.veiled),
            )
            yield parameter.name
            found.add(probe.direction(parameter.name, analytic[copy], rng))
            for index in self._chosen(copy):
                yield parameter.name
                for element in probe.element(parameter.name, index, analytic[copy]):
                    found.add(element)
            if any(c.label in calls.veiled for c in calls.calls):
                found.veil()
            self._forgive(found, copy)
        self._blame_opened()

    def _forgive(self, found: ParameterCheck, copy: Tensor) -> None:
        """Take back what rounding alone explains: a gradient may have lost its own digits."""
        if found.verdict == "fail" and not self.report.blame:
            if self.chain is not None:
                self.chain.refresh()
            size = np.maximum(np.abs(self.forward.env[copy]), typical_size(self.forward.env[copy]))
            found.forgive(self._spread[copy], size)

    @functools.cached_property
    def _spread(self) -> dict[Tensor, Array]:
        copies = list(self.analytic)
        found = gradient_spread(self.forward, self.loss, copies)
        return dict(zip(copies, found, strict=True))

    def _blame_opened(self) -> None:
        """Blame what a vjp takes as constant, where a gradient is wrong and no node alone is."""
        failed = any(p.verdict == "fail" for p in self.report.parameters.values())
        if not failed or self.report.blame:
            return
        for node in self.forward.opened:
            if self._asks(node):
                cause = "none, since a vjp takes it as constant, and a gradient is differentiated"
                lost = InputCheck("x", Comparison("fail", 0.0, math.nan, math.nan), cause)
                at, name = Address(node.name), node.op.name
                self.report.nodes.append(NodeCheck(at, name, node.where, "fail", cause, (lost,)))

    def _asks(self, node: Node) -> bool:
        """Tell whether a node lies on a way from a parameter to the loss."""
        ends = self.active.isdisjoint(t for t in node.inputs if t is not None)
        return not ends and not self.reached.isdisjoint(node.outputs)

    def _refuse_nonfinite(self) -> None:
        """Raise if the loss is not finite, and say where that begins."""
        if math.isfinite(self.report.value):
            return
        if self.chain is not None:
            self.chain.refresh()
        run = self.forward
        facts = [str(Range.of(t.name, a)) for t, a in run.env.items() if t.node.kind != "array"]
        facts = [f for f in facts if "NaN" in f or "Inf" in f]
        origin = find_origin(
            Ran(run.nodes, run.env.__getitem__, lambda n: n.op, [self.loss], run.training)
        )
        if origin is not None and origin.direction != "source":
            where = f" ({origin.where})" if origin.where else ""
            facts += [f"it begins at {origin.node.op.name} {str(origin.address)!r}{where}"]
            facts += [*(f"in  {r}" for r in origin.inputs), *(f"out {r}" for r in origin.outputs)]
        raise GradientError(
            f"the loss {self.report.loss!r} is {self.report.value}",
            facts=facts,
            need="a finite loss",
        )

    def _checked(self, node: Node, rng: np.random.Generator, draws: int = 1) -> NodeCheck:
        """Check a node by itself, along new directions until one shows that something is wrong."""
        env = self.forward.env
        xs = [None if t is None else env[t] for t in node.inputs]
        ys = [env[t] for t in node.outputs]
        for _ in range(draws):
            check = check_node(
                node, node.op, xs, ys, rng,
                training=self.forward.training, rtol=self.rtol, order=self.order,
                active=[i for i, t in enumerate(node.inputs) if t in self.active],
                reached=[i for i, t in enumerate(node.outputs) if t in self.reached],
            )  # fmt: skip
            if check.verdict != "ok":
                break
        return check

    def _look_again(self) -> None:
        """Look along more directions at nodes that seem right, where a gradient is wrong."""
        report, rng = self.report, np.random.default_rng((self.seed, _DRAWS))
        if report.blame or all(p.verdict != "fail" for p in report.parameters.values()):
            return
        if self.chain is not None:
            self.chain.refresh()
        nodes = {n.name: n for n in self.forward.nodes}
        for k, check in enumerate(report.nodes):
            if check.verdict == "ok" and not asked(self.should_stop):
                report.nodes[k] = self._checked(nodes[check.name], rng, _DRAWS)

    def _begin(self, parameter: Tensor, analytic: Array) -> ParameterCheck:
        found = self.report.parameters[parameter.name] = ParameterCheck(
            parameter.name,
            parameter.node.where,
            analytic,
            np.full_like(analytic, np.nan),
            np.zeros(analytic.shape, np.uint8),
            np.zeros(analytic.shape, np.uint8),
        )
        return found

    def _chosen(self, copy: Tensor) -> Iterable[tuple[int, ...]]:
        """Return the indices to check."""
        shape, sample = self.forward.env[copy].shape, self._sample(copy)
        if sample is None:
            return np.ndindex(shape)
        return [tuple(map(int, np.unravel_index(i, shape))) for i in sample]

    def _sample(self, copy: Tensor) -> Array | None:
        """Return the flat numbers of a random choice that depends on the seed alone; None: all."""
        size, limit = _size(copy), self.max_per_param
        if limit is None or limit >= size:
            return None
        rng = np.random.default_rng((self.seed, copy.node.serial))
        return np.sort(rng.choice(size, limit, replace=False))


def _size(t: Tensor) -> int:
    return math.prod(d for d in t.shape if isinstance(d, int))  # copies have no other sizes
