"""Random graphs: samples of ops, wired into each other, with gradients, updates and streams.

All that is random comes from ``choose(n)``, a number below n: hypothesis draws it, or a generator.
0 stands for the plainest choice everywhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.debug.float64 import known_specs
from gradwright.errors import GradwrightError
from gradwright.graph import Source, Tensor, ancestors
from gradwright.graph.expand import bind_dims, run_node, stand_in
from gradwright.op import OPS, Op
from gradwright.ops.core.pullback import Pullback
from gradwright.ops.loading import load
from gradwright.rewrite import RULES
from gradwright.rewrite.examples import INPUTS
from gradwright.spec import Dim, TensorSpec, is_floating
from gradwright.spec.containers import ContainerSpec
from gradwright.testing import samples
from gradwright.testing.common import cast

Array = Any
Choose = Callable[[int], int]

load()
ALL = [
    cls
    for name, cls in sorted(OPS.items())
    if "/" not in name
    and cls.__module__.startswith("gradwright.")  # and not of a test that was collected before
    and not issubclass(cls, Source)  # made by the graph
    and cls is not Pullback  # made by gradients of composites
]
"""Every op of ours; sorted, so that what is drawn does not depend on what was imported first."""
samples_of = functools.cache(samples)
ALONE = frozenset({"recurrent_grad"})
"""Ops whose inputs belong together: results of one op, from which the other inputs follow."""


class RandomGraph:
    """A graph in which each of ``ops`` and the example of each of ``rules`` is used.

    Its values are computed while it is built, so that only what an op can take is wired into it.
    """

    def __init__(self, choose: Choose, ops: Sequence[type[Op]], rules: Sequence[str] = ()) -> None:
        self.choose = choose
        self.graph = gw.Graph("random")
        self.training = bool(choose(2))
        self.open = choose(4) == 1
        """Whether sizes are open: placeholders have a symbol per size."""
        self.feeds: dict[Tensor, Array] = {}
        self.env: dict[Tensor, Array] = {}
        self.pool: list[Tensor] = []
        """What may be wired into other ops, oldest first."""
        self.made: list[Tensor] = []
        """What the ops and examples have made."""
        self._seen = 0
        with np.errstate(all="ignore"):
            steps: list[tuple[Any, Any]] = [(self._add_op, cls) for cls in ops]
            for rule in rules:
                steps.insert(choose(len(steps) + 1), (self._add_rule, rule))
            for step, what in steps:
                step(what)
        self.fetches = self._sinks()
        self.slopes: dict[Tensor, Tensor] = {}
        """The gradient by each of some sources."""
        self.updates: dict[Tensor, Tensor] = {}
        self.commit_if: Tensor | None = None
        if choose(2):
            self._differentiate()
        if choose(3) == 1:
            self._update()

    # -- steps -----------------------------------------------------------------------------------

    def _add_op(self, cls: type[Op]) -> None:
        """Add one op on one of its samples, some of whose arrays others of the graph replace."""
        found = samples_of(cls)
        sample = found[self.choose(len(found))]
        op = cls(**sample.attrs)
        xs = tuple(None if x is None else np.asarray(x) for x in sample.inputs)
        narrow = cast(op, xs, "float32") if self.choose(2) else None
        xs = xs if narrow is None else narrow
        specs = known_specs(op, xs)
        for how in ("wired", "open", "plain"):
            if how == "open" and not self.open:
                continue
            with_wires = how == "wired" and self.choose(4) != 0 and cls.name not in ALONE
            may_vary = how != "plain" and cls.name not in ALONE
            near = cls.namespace == "linalg"  # a constant matrix has any eigenvectors
            ins = [
                None if x is None else self._input(x, s, with_wires, may_vary, near)
                for x, s in zip(xs, specs, strict=True)
            ]
            if self._place(lambda ins=ins: self.graph.add(op, ins)):
                return
        raise AssertionError(f"{cls.name} refuses its own sample")

    def _add_rule(self, name: str) -> None:
        """Add the example of a rewrite."""
        ins = {}
        for given in RULES[name].inputs:
            shape, dtype = INPUTS[given]
            sized = tuple(2 if d == "B" else d for d in shape)
            rng = np.random.default_rng(self.choose(1000))
            drawn = rng.standard_normal(sized) if dtype == "float32" else rng.integers(0, 2, sized)
            x = drawn.astype(dtype)
            spec = TensorSpec(sized, x.dtype)
            found = self._wire(x, near=True) if self.choose(3) == 1 else None
            if found is None:  # a constant would be folded
                with self.graph:
                    found = stand_in(self.graph, f"s{len(self.graph.nodes)}", spec)
                self.feeds[found] = self.env[found] = x
            ins[given] = found
        assert self._place(lambda: RULES[name].example(**ins)), name

    def _place(self, build: Callable[[], Any]) -> bool:
        """Build nodes and compute them; tell whether that went well."""
        before = len(self.graph.nodes)
        try:
            with self.graph:
                build()
            self._compute()
        except (GradwrightError, ValueError, ArithmeticError, np.linalg.LinAlgError, IndexError):
            self._seen = len(self.graph.nodes)  # what was added stays unused
            return False
        new = self.graph.nodes[before:]
        self.made += new[-1].public
        self.pool += [t for t in new[-1].outputs if is_plain(t) and np.isfinite(self.env[t]).all()]
        return True

    def _compute(self) -> None:
        """Compute the nodes that are new."""
        sizes = bind_dims({t: a.shape for t, a in self.feeds.items() if is_plain(t)})
        for node in self.graph.nodes[self._seen :]:
            if node.outputs[0] in self.env:
                continue
            if isinstance(node.op, Source):
                if node.kind == "rng":
                    self.env[node.outputs[0]] = np.array((0, 0), np.uint64)
                else:
                    self.env[node.outputs[0]] = self.graph.values.array(node.name)
                continue
            xs = [None if t is None else self.env[t] for t in node.inputs]
            op = node.op.for_mode(self.training).bind(sizes)
            ys = run_node(node, op, xs, training=self.training)
            self.env.update(zip(node.outputs, ys, strict=True))
        self._seen = len(self.graph.nodes)

    # -- inputs ----------------------------------------------------------------------------------

    def _input(
        self, x: Array, spec: TensorSpec, wired: bool, may_open: bool, near: bool = False
    ) -> Tensor:
        """Return a tensor for a sample's array: itself as a source, or something else like it."""
        if wired and is_plain_dtype(x.dtype) and x.size:
            found = self._wire(x, near)
            if found is not None:
                return found
        return self._source(x, spec, may_open)

    def _source(self, x: Array, spec: TensorSpec, may_open: bool) -> Tensor:
        name = f"s{len(self.graph.nodes)}"
        known = isinstance(spec, ContainerSpec) or spec.value is not None
        kind = 0 if known or not may_open or not is_plain_dtype(x.dtype) else self.choose(6)
        with self.graph:
            if kind == 4 and x.dtype.kind == "f":
                t = self.graph.variable(name, init=x)
            elif kind == 5:
                t = self.graph.constant(x, name=name)
            elif self.open and may_open and not known and x.dtype.kind in "bif":
                shape = [d if d < 2 else Dim.symbol(f"d{d}") for d in x.shape]
                t = self.graph.placeholder(name, shape, x.dtype)
            else:
                t = stand_in(self.graph, name, spec)
        self.env[t] = self.graph.values.array(name) if t.kind != "placeholder" else x
        if t.kind == "placeholder":
            self.feeds[t] = x
        return t

    def _wire(self, x: Array, near: bool) -> Tensor | None:
        """Return something of the pool with the shape and dtype of an array, or near its values."""
        same = [t for t in self.pool if self.env[t].shape == x.shape and t.dtype == x.dtype]
        if x.dtype.kind not in "f":
            least, most = x.min(), x.max()
            fit = [t for t in same if self.env[t].min() >= least and self.env[t].max() <= most]
            return fit[-1 - self.choose(len(fit))] if fit else None
        floats = [t for t in self.pool if t.dtype.kind == "f" and self.env[t].size]
        if self.open or (same and self.choose(3)):
            floats = same
        if not floats:
            return None
        t = floats[-1 - self.choose(min(len(floats), 24))]
        how = self.choose(2 if near else 4)
        anchor = self._source(x, TensorSpec(x.shape, x.dtype), True) if how < 2 else None
        with self.graph:
            t = self._shaped(t, x)
            if anchor is not None:  # stays within the domain of the op
                t = anchor * (1.0 - 0.05 * gw.nn.sigmoid(t))
            elif how == 2 or np.abs(self.env.get(t, np.inf)).max(initial=0.0) > 100:
                t = gw.tanh(t)
        self._compute()
        if self.env[t].shape != x.shape or t.dtype != x.dtype:
            return None
        return t

    def _shaped(self, t: Tensor, x: Array) -> Tensor:
        """Return a tensor's numbers in the shape and dtype of an array."""
        shape, size = self.env[t].shape, self.env[t].size
        if t.dtype != x.dtype:
            t = gw.cast(t, x.dtype)
        if shape == x.shape:
            return t
        if size == x.size:
            return t.reshape(*x.shape) if x.shape else t.reshape(())
        if size > x.size:
            return t.reshape(-1)[: x.size].reshape(*x.shape)
        if shape and x.ndim >= len(shape):
            ends = x.shape[x.ndim - len(shape) :]
            if all(a in (1, b) for a, b in zip(shape, ends, strict=True)):
                return gw.broadcast_to(t, x.shape)
        return gw.broadcast_to(t.mean(), x.shape)

    # -- what is asked of it ---------------------------------------------------------------------

    def _sinks(self) -> list[Tensor]:
        """Return what nobody reads, and some of what others read, too."""
        read = {t for node in ancestors(self.made) for t in node.inputs}
        return [t for t in self.made if t not in read or self.choose(8) == 1]

    def _differentiate(self) -> None:
        """Fetch gradients by some sources as well."""
        ys = [t for t in self.fetches if is_real(t) and np.all(np.isfinite(self.env[t]))]
        wrt = [t for t in self.env if isinstance(t.op, Source) and is_real(t)]
        wrt = [t for t in wrt if t.kind != "constant" and self.choose(4)][:24]
        if not wrt:
            return
        good = []
        for y in ys:
            try:
                gw.gradients([y], wrt, unreachable="zero")
                good.append(y)
            except GradwrightError:  # some op on the way has no gradient
                continue
        if good:
            weighed = [y * (0.5 + 0.25 * n) for n, y in enumerate(good[:20])]
            slopes = gw.gradients(weighed, wrt, unreachable="zero")
            try:
                self._compute()
            except GradwrightError:  # the inverse of a singular matrix
                return
            self.fetches += slopes
            self.slopes = dict(zip(wrt, slopes, strict=True))

    def _update(self) -> None:
        """Update the variables, by their gradients where there are some."""
        for t in list(self.env):
            if t.kind == "variable":
                step = self.slopes.get(t)
                self.updates[t] = t * 0.9 + 0.01 if step is None else t - 0.01 * gw.tanh(step)
        if self.updates and self.choose(2):
            first = next(iter(self.updates.values()))
            self.commit_if = gw.all(gw.is_finite(first))


def is_plain_dtype(dtype: Any) -> bool:
    """Tell whether numpy itself computes with a dtype."""
    return dtype.kind in "biufc" and dtype.isbuiltin == 1


def is_plain(t: Tensor) -> bool:
    """Tell whether a tensor holds numbers of a dtype of numpy."""
    return not isinstance(t.spec, ContainerSpec) and is_plain_dtype(t.dtype)


def is_real(t: Tensor) -> bool:
    """Tell whether a tensor can be differentiated, or be differentiated by."""
    return is_plain(t) and is_floating(t.dtype) and t.dtype.kind == "f"


def resized(feeds: dict[Tensor, Array], more: int) -> dict[Tensor, Array]:
    """Return feeds of other sizes: axes with a symbol are ``more`` longer, and begin again."""
    found = {}
    for t, x in feeds.items():
        widths = [(0, more if isinstance(d, Dim) else 0) for d in t.shape] if x.ndim else []
        found[t] = np.pad(x, widths, mode="wrap") if any(map(sum, widths)) else x
    return found
