"""Frame: one level of step-by-step execution, forwards and backwards.

Values of all steps are kept while they fit into a budget. Beyond it a frame keeps, at every
⌈√n⌉-th step, what later steps need; a value that was dropped is computed again from the checkpoint
before it, so going back one step re-executes fewer than √n ops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ...errors import ContractError, FeedError, GradwrightError, GraphError
from ...graph import Node, Source, Tensor
from ...graph.build import check_shapes, misshapen
from ...graph.expand import bind_dims, run_node
from ...op import Op
from ...spec import Dim, TensorSpec, spec_of
from ..address import Address, Level, Part
from ..inside import Edits, Inside

Array = np.ndarray[Any, Any]


class Frame:
    """The steps of one graph level: nodes in order, given sources, values so far.

    ``at`` says what encloses the level, outermost first; nothing encloses the graph's own.
    """

    def __init__(
        self,
        at: tuple[Level, ...],
        order: Sequence[Node],
        given: Mapping[Tensor, Array],
        outputs: Sequence[Tensor],
        *,
        training: bool,
        max_bytes: int,
        sizes: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.at, self.training, self.max_bytes = at, training, max_bytes
        self.prefix = str(Address("x", at))[:-1]
        """What stands before the name of a node in its address."""
        self.inside: Inside | None = None
        """The node around it as it runs, which says what comes after this level."""
        self.edited: dict[Part, Frame] = {}
        """The turns of this loop in which values were edited."""
        self.edits: dict[tuple[Address, int], Array] = {}
        """What was edited inside of nodes that have run."""
        self.outputs = list(outputs)
        self.steps = [
            n
            for n in order
            if not isinstance(n.op, Source) and any(t not in given for t in n.outputs)
        ]
        self.index = {node: i for i, node in enumerate(self.steps)}
        self._named: dict[str, Node] | None = None
        self.position = 0
        self.executed = 0
        """How many ops have run, re-executions included."""
        self.overrides: dict[Tensor, Array] = {}
        self._env: dict[Tensor, Array] = self._sources(order, given)
        self._sizes = {**sizes, **bind_dims({t: a.shape for t, a in self._env.items()})}
        self._stated = dict(self._sizes)  # sizes that no edit changes
        self._start = dict(self._env)
        self._reach = 0  # steps before this one have their live values in _env
        self._every = max(1, math.ceil(math.sqrt(len(self.steps))))
        self._held = 0
        self._last_use = self._last_uses()
        self._checkpoints: dict[int, dict[Tensor, Array]] | None = None
        """By position, what later steps need; None while all values are kept."""

    def copy(self) -> Frame:
        """Return a frame at the start of the same steps, with what was edited here."""
        made = Frame(
            self.at,
            self.steps,
            self._start,
            self.outputs,
            training=self.training,
            max_bytes=self.max_bytes,
            sizes=self._stated,
        )
        made.overrides, made.edits = dict(self.overrides), dict(self.edits)
        return made

    @staticmethod
    def _sources(order: Sequence[Node], given: Mapping[Tensor, Array]) -> dict[Tensor, Array]:
        env = dict(given)
        for node in order:
            if isinstance(node.op, Source) and (t := node.outputs[0]) not in env:
                if node.kind == "placeholder":
                    raise FeedError(f"placeholder {node.name!r} is not fed", need=str(t.spec))
                env[t] = node.graph.values.array(node.name)
        return env

    def _last_uses(self) -> dict[Tensor, int]:
        last = {t: i for i, node in enumerate(self.steps) for t in node.inputs if t is not None}
        last.update(dict.fromkeys(self.outputs, len(self.steps)))
        return last

    # -- where we are ----------------------------------------------------------------------------

    @property
    def label(self) -> str:
        """What encloses the level, such as ``decoder/scan:3``; "" for the graph's own."""
        return self.prefix.rstrip(":")

    @property
    def turns(self) -> list[Part]:
        """The turns of the loop around it that were begun, this one last."""
        return [] if self.inside is None else self.inside.parts

    def path(self, node: Node) -> str:
        """Return the address of a node as text."""
        return self.prefix + node.name

    def address(self, node: Node) -> Address:
        """Return the address of a node."""
        return Address(node.name, self.at)

    def named(self, name: str) -> Node | None:
        """Return the node of this level that is called so."""
        if self._named is None:
            self._named = {n.name: n for n in self.steps}
        return self._named.get(name)

    def tensor(self, name: str, index: int = 0) -> Tensor | None:
        """Return an output of a node of this level, or one of what the level was given."""
        node = self.named(name)
        if node is None:
            given = (t for t in self._start if t.node.name == name and t.node.kind == "placeholder")
            return next(given, None)
        return node.outputs[index] if index < len(node.outputs) else None

    @property
    def current(self) -> Node | None:
        """The node that runs next, None at the end."""
        return self.steps[self.position] if self.position < len(self.steps) else None

    def is_known(self, t: Tensor) -> bool:
        """Tell whether the tensor has a value at this position."""
        return t in self._start or self.index.get(t.node, self.position) < self.position

    def op(self, node: Node) -> Op:
        """Return the op as it runs here: mode settled, sizes bound."""
        return node.op.for_mode(self.training).bind(self._sizes)

    def value(self, t: Tensor) -> Array:
        """Return a value that is known, computing it again if it was dropped."""
        if not self.is_known(t):
            raise GraphError(f"{t.name!r} has not been computed yet", hint="step or run further")
        if t not in self._env:  # with its neighbours up to the next checkpoint: they may be next
            block = self.index[t.node] // self._every + 1
            self._recompute(min(block * self._every, self.position))
        return self._env[t]

    def spec(self, t: Tensor) -> TensorSpec:
        """Return the spec of a tensor with the sizes that are known here."""
        spec = t.spec.substitute(self._sizes)
        return spec if spec.is_concrete or not self.is_known(t) else spec_of(self.value(t))

    def inputs(self, node: Node) -> list[Array | None]:
        """Return the input values of a node whose inputs are known."""
        return [None if t is None else self.value(t) for t in node.inputs]

    # -- moving ----------------------------------------------------------------------------------

    def forward(self) -> None:
        """Run the current node; on an error nothing changes."""
        node = self.steps[self.position]
        if not all(t in self._env for t in node.outputs):
            if self._reach < self.position:
                self._recompute(self.position)
            self._execute(node)
        self._advance()

    def finish_with(self, ys: Iterable[Array]) -> None:
        """Take the current node's outputs from a frame that ran inside it, unless they are known.

        What is known stays, to the bit: a composite may compute faster, in another order of sums.
        """
        node = self.steps[self.position]
        if not all(t in self._env for t in node.outputs):
            if self._reach < self.position:
                self._recompute(self.position)
            self._store(node, tuple(ys))
        self._advance()

    def _advance(self) -> None:
        self.position += 1
        if self._checkpoints is None:
            if self._held > self.max_bytes:
                self._become_sparse()
        elif self.position % self._every == 0 and self.position not in self._checkpoints:
            self._checkpoints[self.position] = self._env = self._live(self._env, self.position)
            self._env = dict(self._env)

    def backward(self) -> None:
        """Go back before the last node; its values are kept or can be computed again."""
        self.position -= 1

    def _execute(self, node: Node) -> None:
        if any(t not in self._env for t in node.inputs if t is not None):
            self._recompute(self.index[node])
        xs = [None if t is None else self._env[t] for t in node.inputs]
        try:
            with np.errstate(all="ignore"):
                ys = run_node(node, self.op(node), xs, training=self.training)
            self._check(node, ys)
        except GradwrightError as error:
            for level in reversed(self.at):
                error.part = "" if level.part is None else str(level.part)
                error.inside(level.node)
            raise
        self._store(node, ys)
        self.executed += 1

    def _check(self, node: Node, ys: Sequence[Array]) -> None:
        """Refuse what contradicts the node's own specs at the sizes that no edit changes."""
        for t, y in zip(node.outputs, ys, strict=True):
            spec = t.spec if t.spec.is_concrete else t.spec.substitute(self._stated)
            try:
                check_shapes([y], [spec])
                if y.dtype != spec.dtype:
                    raise misshapen(y, spec)
            except ContractError as error:
                raise error.met_at(node.op.name, node.name, node.where or "no line") from None

    def _store(self, node: Node, ys: Sequence[Array]) -> None:
        for t, y in zip(node.outputs, ys, strict=True):
            if t in self._start:  # one of several outputs was fed
                continue
            kept = self.overrides.get(t, y)
            before = self._env.get(t)
            self._held += kept.nbytes - (0 if before is None else before.nbytes)
            self._env[t] = kept
            if not t.spec.is_concrete:
                self._sizes.update(bind_dims({t: kept.shape}))
        self._reach = max(self._reach, self.index[node] + 1)

    def _live(self, env: Mapping[Tensor, Array], at: int) -> dict[Tensor, Array]:
        """Return what steps from ``at`` on need, and the sources."""
        return {t: a for t, a in env.items() if self._last_use.get(t, -1) >= at or t in self._start}

    def _become_sparse(self) -> None:
        """Go over to checkpoints: the values kept so far become those they would have been."""
        live, self._checkpoints = dict(self._start), {0: dict(self._start)}
        for number, node in enumerate(self.steps[: self.position], 1):
            live.update((t, self._env[t]) for t in node.outputs)
            if number % self._every == 0:
                live = self._live(live, number)
                self._checkpoints[number] = dict(live)
        self._env = live

    def _recompute(self, end: int) -> None:
        """Compute the steps before ``end`` from the checkpoint before them: at most √n ops."""
        assert self._checkpoints is not None, "all values are kept"
        start = max(c for c in self._checkpoints if c < max(end, 1))
        self._env, self._reach = dict(self._checkpoints[start]), start
        for node in self.steps[start:end]:
            self._execute(node)

    # -- editing ---------------------------------------------------------------------------------

    def override(self, t: Tensor, array: Array) -> list[Node]:
        """Set a value from now on; returns the nodes that depend on it, not yet run again."""
        self.overrides[t] = array
        if t in self._env or t.node not in self.index:
            self._env[t] = array
        if t in self._start:
            self._start[t] = array
        return self._dependents(t)

    def keep_edits(self, node: Node, turns: Iterable[Frame]) -> None:
        """Note what was edited inside of a node, in the turns of it that are given."""
        depth = len(self.at)
        self.edits = {k: a for k, a in self.edits.items() if k[0].levels[depth].node != node.name}
        for turn in turns:
            self.edits |= turn.all_edits()

    def all_edits(self) -> dict[tuple[Address, int], Array]:
        """Return what was edited at this level, and inside of its nodes."""
        here = {(self.address(t.node), t.index): array for t, array in self.overrides.items()}
        return {**self.edits, **here}

    def take_edits(self, edits: Edits) -> None:
        """Set what was edited at this level; nothing of it has run yet."""
        for (at, index), array in edits.items():
            t = self.tensor(at.node, index) if at.levels == self.at else None
            if t is not None:
                self.override(t, array)

    def _dependents(self, t: Tensor) -> list[Node]:
        changed = {t}
        affected = []
        for node in self.steps:
            shapes = node.op.shape_only  # a value changes what reads the shape only if that moves
            if any(
                x in changed and (i not in shapes or self._moves(x))
                for i, x in enumerate(node.inputs)
                if x is not None
            ):
                affected.append(node)
                changed.update(o for o in node.outputs if o not in self.overrides)
        return affected

    def _moves(self, t: Tensor) -> bool:
        """Tell whether the shape of a tensor depends on values."""
        return any(isinstance(d, Dim) and not d.symbols <= self._stated.keys() for d in t.shape)

    def rerun(self, edited: Iterable[Tensor], affected: Sequence[Node]) -> int:
        """Run again exactly the nodes that depend on edits and had run; returns how many ops ran.

        Where values were dropped to save memory, all steps since the checkpoint before run again.
        If an op fails we stand before it, with nothing known of what follows.
        """
        before, target = self.executed, self.position
        if self._checkpoints is None:
            kept = self.overrides.keys() | self._start.keys()
            stale = {t for n in affected for t in n.outputs} - kept
            self._env = {t: a for t, a in self._env.items() if t not in stale}
            for node in affected:
                if self.index[node] < target:
                    self.position = self.index[node]
                    self._execute(node)
            self.position = target
            return self.executed - before
        first = min([self.index.get(t.node, -1) for t in edited], default=target)
        self._checkpoints = {
            at: {t: self.overrides.get(t, a) for t, a in saved.items()}
            for at, saved in self._checkpoints.items()
            if at <= max(first, 0)
        }
        self.position = max(self._checkpoints)
        self._env, self._reach = dict(self._checkpoints[self.position]), self.position
        while self.position < target:
            self.forward()
        return self.executed - before
