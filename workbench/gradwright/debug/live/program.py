"""The float64 copy of what is trained, kept over a training and computed anew from its values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...gradient import gradients
from ...graph import Node, Source, Tensor, Values, ancestors
from ...op import OPS, Op, redefinitions, run_forward
from ...ops.core.identity import StopGradient
from ...spec import Dim, TensorSpec, is_floating
from ..address import parts, specs_of
from ..check.nodes import reaching
from ..check.probe import Probe, gradient_spread
from ..float64 import known_specs
from .again import RunAgain

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Sight:
    """One moment of a training: what is trained, with which values, feeds and random numbers."""

    step: int
    """Number of the step, from 1."""
    loss: Tensor
    parameters: Sequence[Tensor]
    values: Values
    """Of all that the loss depends on; not written any more."""
    feeds: Mapping[Tensor, Array]
    seed: int
    key: int
    """Second half of the random key."""


def narrowed(feeds: Mapping[Tensor, Array], rows: int, start: int) -> dict[Tensor, Array]:
    """Return copies of so many rows of a batch: of what is fed with a leading size left open.

    What has another number of rows than most is no part of the batch, and stays whole.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, table = g.placeholder("x", (None, 2)), g.placeholder("table", (3,))
    >>> found = narrowed({x: np.ones((8, 2)), table: np.ones(3)}, 2, 0)
    >>> found[x].shape, found[table].shape
    ((2, 2), (3,))
    """
    arrays = {t: np.asarray(a) for t, a in feeds.items()}
    batched = [t for t in feeds if t.rank and isinstance(t.shape[0], Dim)]
    sizes = [len(arrays[t]) for t in batched]
    size = max(sizes, key=sizes.count, default=0)
    if size > rows:
        at = slice(start % (size - rows + 1), start % (size - rows + 1) + rows)
        for t in batched:
            if len(arrays[t]) == size:
                arrays[t] = arrays[t][at]
    return {t: a.copy() for t, a in arrays.items()}


class Program:
    """Forward and gradient of a loss in float64, for one state of the graph and of its ops.

    ``compute`` goes node by node, so that whoever has little time may rest between any two. The
    copy is made when it first runs, and made anew where shapes have changed.
    """

    def __init__(self, loss: Tensor, parameters: Sequence[Tensor]) -> None:
        self.loss, self.parameters = loss, tuple(parameters)
        self.stamp = stamp(loss)
        self.active, nodes = _active(loss, parameters)
        self.reached = reaching(nodes, [loss])
        self.nodes = {n.name: n for n in nodes}
        """What the gradient passes through, by name."""
        self.run: RunAgain | None = None
        self.is_whole = False
        """Whether every node has a value."""
        self._pullbacks: dict[Tensor, tuple[Tensor, list[Node]]] = {}
        self._behind: dict[Tensor, list[Node]] = {}
        self._known: dict[str, set[type[Op]]] = {}

    def fits(self, now: Sight) -> bool:
        """Tell whether graph, ops and choice of parameters are still these."""
        mine, theirs = (self.loss, *self.parameters), (now.loss, *now.parameters)
        return [*map(id, mine)] == [*map(id, theirs)] and self.stamp == stamp(now.loss)

    def compute(self, now: Sight, feeds: Mapping[Tensor, Array]) -> Iterator[Node]:
        """Compute the values of a moment; yields each node's copy when its value is there."""
        options: Any = {"values": now.values, "seed": now.seed, "step": now.key}
        if self.run is not None and self.is_whole:
            try:
                yield from self.run.again(feeds, **options)
                return
            except (ShapeError, KeyError):
                pass  # other sizes, or other feeds
        self.is_whole = False
        self._pullbacks.clear()
        self._behind.clear()
        targets = [self.loss, *self.parameters]
        self.run = RunAgain(targets, feeds, training=True, at_once=False, **options)
        for copy in self.run.coming:
            if copy.name in self.nodes:
                specs = known_specs(copy.op, self.arrays(copy)[0])
                self._known[copy.name] = ops_of(copy.op, specs)
            yield copy
        self.is_whole = True

    def arrays(self, copy: Node) -> tuple[list[Array | None], list[Array]]:
        """Return what goes into a node's copy, and what comes out."""
        env = self._run().env
        return [None if t is None else env[t] for t in copy.inputs], [env[t] for t in copy.outputs]

    def asked(self, copy: Node) -> dict[str, list[int]]:
        """Return which inputs come from a parameter, and which outputs lead on to the loss."""
        node = self.nodes[copy.name]
        return {
            "active": [i for i, t in enumerate(node.inputs) if t in self.active],
            "reached": [i for i, t in enumerate(node.outputs) if t in self.reached],
        }

    def changed(self) -> list[tuple[Node, Op]]:
        """Return the nodes with an op that has been defined anew since, itself or inside of it.

        Beside it is the op as it is now. There are none before the values are.
        """
        if self.run is None or not self.is_whole:
            return []
        copies = {n.name: n for n in self.run.nodes}
        return [
            (copies[name], self.run.settled(self.nodes[name]))
            for name, known in self._known.items()
            if any(OPS.get(cls.name, cls) is not cls for cls in known)
        ]

    @property
    def own(self) -> list[str]:
        """Return the nodes with an op that is not one of the library's, itself or inside of it."""
        return [name for name, known in self._known.items() if not all(map(_is_core, known))]

    def pulled(self, parameter: Tensor) -> Iterator[Array | None]:
        """Compute the gradient of a parameter; yields None after each node, and then the array."""
        run = self._run()
        env = dict(run.env)
        if not self._pullbacks:
            copies = [run.copies[p] for p in self.parameters]
            found = gradients(run.copies[self.loss], copies)
            for p, g in zip(self.parameters, found, strict=True):
                self._pullbacks[p] = g, ancestors([g], stop=set(env))
            yield None
        target, order = self._pullbacks[parameter]
        for node in order:
            if isinstance(node.op, Source):
                env[node.outputs[0]] = node.graph.values.array(node.name)
                continue
            xs = [None if t is None else env[t] for t in node.inputs]
            ys = run_forward(node.op.for_mode(run.training), xs, training=run.training)
            env.update(zip(node.outputs, ys, strict=True))
            yield None
        yield env[target]

    def moved(self, parameter: Tensor, array: Array) -> Iterator[float | None]:
        """Compute the loss for other values of a parameter; yields None after each node.

        A run that fails, as outside of a domain, has the loss NaN. What does not depend on the
        parameter, and what is stopped, keeps its value.
        """
        run = self._run()
        copy = run.copies[parameter]
        if copy not in self._behind:
            self._behind[copy] = run.dependents([copy])
        env = {copy: array}
        for node in self._behind[copy]:
            xs = [None if t is None else env.get(t, run.env[t]) for t in node.inputs]
            try:
                ys = run_forward(node.op, xs, training=run.training)
            except (ArithmeticError, ValueError):
                yield math.nan
                return
            env.update(zip(node.outputs, ys, strict=True))
            yield None
        yield float(env[run.copies[self.loss]])

    def probe(self, parameter: Tensor, rtol: float) -> Probe:
        """Return what looks at a parameter closely."""
        run = self._run()
        return Probe(run, run.copies[parameter], run.copies[self.loss], rtol)

    def spread(self, parameter: Tensor) -> Array:
        """Return how far rounding alone moves the gradient of a parameter."""
        run = self._run()
        return gradient_spread(run, run.copies[self.loss], [run.copies[parameter]])[0]

    def array(self, parameter: Tensor) -> Array:
        """Return the value of a parameter."""
        run = self._run()
        return run.env[run.copies[parameter]]

    def value(self) -> float:
        """Return the loss."""
        return float(self.array(self.loss))

    def _run(self) -> RunAgain:
        assert self.run is not None  # nobody asks before it has run
        return self.run


def stamp(loss: Tensor) -> tuple[int, int]:
    """Return what changes when the graph is edited, or an op defined anew."""
    return loss.graph.revision, redefinitions()


def _is_core(cls: type[Op]) -> bool:
    return cls.__module__.partition(".")[0] == "gradwright"


def _active(loss: Tensor, parameters: Sequence[Tensor]) -> tuple[set[Tensor], list[Node]]:
    """Return the tensors that lie between parameters and loss, and the nodes that make them."""
    active, found = set(parameters), []
    for node in ancestors([loss]):
        if isinstance(node.op, Source | StopGradient):
            continue
        shapes = () if node.op.has_surrogate() else node.op.shape_only
        if any(t in active for i, t in enumerate(node.inputs) if i not in shapes):
            active.update(t for t in node.outputs if is_floating(t.dtype))
            found.append(node)
    return active, found


def ops_of(op: Op, specs: Sequence[TensorSpec | None]) -> set[type[Op]]:
    """Return the classes of an op and of all that are inside of it: in bodies and expansions."""
    found: set[type[Op]] = set()
    waiting: list[tuple[Op, Sequence[TensorSpec | None]]] = [(op.current(), specs)]
    while waiting:
        op, specs = waiting.pop()
        found.add(type(op))
        found |= {type(v.current()) for v in op.attributes().values() if isinstance(v, Op)}
        waiting += [
            (n.op.current(), specs_of(n))
            for sub in parts(op, specs).values()
            for n in sub.nodes
            if not isinstance(n.op, Source)
        ]
    return found
