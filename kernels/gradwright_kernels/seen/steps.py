"""From a node to its launches: what a plan runs on a GPU, on the numbers of a real step.

What a step reads is computed on the host, op by op; then its kernels run on a simulated GPU, each
array in memory of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwright.debug.flops import flops
from gradwright.errors import GradwrightError, GraphError, LoweringError
from gradwright.fuse.dense import stand_in
from gradwright.fuse.fused import Fused
from gradwright.fuse.ir import Level
from gradwright.graph import Node, Tensor, Values
from gradwright.op import Op, infer_specs
from gradwright.plan import Plan
from gradwright.program.lowering import load
from gradwright.program.program import Program
from gradwright.session import Session
from gradwright.spec import TensorSpec, spec_of
from gradwright.train import Trainer

from ..compile.compiler import Call
from ..device.array import Block, DeviceArray
from ..device.launcher import Eager
from ..device.lying import Lying
from ..device.simulated.driver import Simulated
from ..fused.group import group
from ..launch import Strided, find, use
from .launch import SeenLaunch

Array = np.ndarray[Any, Any]
DEVICE = "cuda-sim"


class Seeing(Eager):
    """A runtime that looks at each launch as it runs."""

    def __init__(self, cuda: Simulated, nodes: Sequence[str] = ()) -> None:
        super().__init__(cuda)
        self._simulated, self._nodes = cuda, nodes
        self.launches: list[SeenLaunch] = []

    def prepare(self, call: Call) -> Any:
        """Return a function of arrays that runs the call and keeps what is seen."""

        def launch(*arrays: DeviceArray) -> None:
            self.launches.append(SeenLaunch(call, arrays, self._simulated, self._nodes))

        return launch


@dataclass(frozen=True)
class Seen:
    """An op that was run and looked at."""

    launches: list[SeenLaunch]
    results: list[Array]


def see(op: Op, *inputs: Any, nodes: Sequence[str] = (), names: Sequence[str] = ()) -> Seen:
    """Run the kernels of an op on arrays, on a simulated GPU, and return what each launch did.

    ``names`` are those of inputs and outputs, ``nodes`` those of what it computes, for the reader.
    Raises LoweringError where the op has no kernel for these arrays.

    >>> import gradwright as gw, numpy as np
    >>> seen = see(gw.nn.softmax.op(axis=-1), np.zeros((3, 5), "f4"))
    >>> [launch] = seen.launches
    >>> launch.n_programs, launch.findings, launch.nbytes(), seen.results[0][0, 0].round(2)
    (1, [], 120, np.float32(0.2))
    """
    load(DEVICE)
    xs = [None if x is None else np.asarray(x) for x in inputs]
    ins = [None if x is None else spec_of(x) for x in xs]
    outs = infer_specs(op, ins)
    cuda = Simulated()
    runtime = Seeing(cuda, nodes)
    with use(runtime):
        found = group(op) if isinstance(op, Fused) else find(op, ins, outs)
        if isinstance(found, Strided):
            found = found.bind(xs, [stand_in(s) for s in outs])
        else:
            xs = [None if x is None else np.ascontiguousarray(x) for x in xs]
    if not callable(found):
        raise LoweringError(
            f"device 'cuda' has no kernel for {op.name} of {', '.join(map(str, ins))}",
            hint=f'@gw.lowering("{op.name}", device="cuda") registers one; what is generated for a '
            "graph is seen by KernelView(graph)",
        )
    n = len(xs)
    called = [*names, *(f"input {k}" for k in range(len(names), n)), *names[n:]]
    called += [f"output {k}" for k in range(len(called) - n, len(outs))]
    given = [None if x is None else _put(cuda, x, called[k]) for k, x in enumerate(xs)]
    taken = [_room(cuda, s, name) for s, name in zip(outs, called[n:], strict=False)]
    found(given, taken)
    for y in taken:
        _must_be_whole(cuda, y, runtime.launches)
    return Seen(runtime.launches, [_read(cuda, y) for y in taken])


def _put(cuda: Simulated, x: Array, name: str) -> DeviceArray:
    """Return a copy of an array on the device, whose elements lie as they do here."""
    array = DeviceArray(0, spec_of(x), x.strides, name=name)
    raw = np.zeros(array.extent, np.uint8)
    if x.size:
        np.ndarray(x.shape, x.dtype, raw, -array.low, x.strides)[...] = x
    block = Block(cuda, array.extent)
    cuda.copy_in(block.address, raw.ctypes.data, raw.nbytes, 0)
    cuda.wait(0)
    array.address, array.held = block.address - array.low, block
    return array


def _room(cuda: Simulated, spec: TensorSpec, name: str) -> DeviceArray:
    block = Block(cuda, spec.nbytes)
    return DeviceArray(block.address, spec, name=name, held=block)


def _read(cuda: Simulated, y: DeviceArray) -> Array:
    """Return what a dense array holds, be it written or not."""
    block = cuda.blocks.find(y.address)
    assert block is not None, "its memory is held"
    raw = block.raw[y.address - block.raw.ctypes.data :][: y.extent]
    return raw.view(y.dtype).reshape(y.shape).copy()


def _must_be_whole(cuda: Simulated, y: DeviceArray, launches: Sequence[SeenLaunch]) -> None:
    """Note what no program has written of a result, where all were looked at."""
    block = cuda.blocks.find(y.address)
    assert block is not None, "its memory is held"
    missing = np.flatnonzero(block.written[: y.extent] == 0)
    for launch in reversed(launches):
        for operand in launch.operands:
            if missing.size and operand.array is y:
                launch.miss(operand, int(missing[0]) // y.dtype.itemsize)
                return


# -- of a graph -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepRow:
    """A step of a plan: its number, what runs it, the ops that it stands for, and its nodes."""

    number: int
    what: str
    ops: tuple[str, ...]
    nodes: tuple[str, ...]
    why: str
    """Why it runs on the host, or with which others it is one launch."""


class Steps:
    """The steps of a plan on a simulated GPU, with the numbers that go through them.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph("net")
    >>> x, w = g.placeholder("x", (None, 4)), g.variable("w", (4, 3))
    >>> steps = Steps.of([gw.nn.gelu(x @ w, name="y")], {"x": np.ones((5, 4), "f4")})
    >>> [(row.what, row.nodes) for row in steps.rows]
    [('product', ('matmul',)), ('kernel', ('y',))]
    >>> [launch] = steps.see(1).launches
    >>> launch.operands[0].name, launch.findings
    ('matmul', [])
    """

    def __init__(self, plan: Plan, feeds: Mapping[Tensor, Any], values: Values) -> None:
        laid: Any = plan.head.executor.laid
        self._lying: Lying = laid
        self.program: Program = laid.program
        self._arrays: dict[int, Any] = dict(self.program.constants)
        for number, t in self.program.sources.items():
            held = feeds[t] if t in feeds else values.array(t.node.name)
            self._arrays[number] = np.asarray(held, t.dtype)
        if self._lying.ok is not None:  # the device's own: whether updates become values
            self._arrays[self._lying.ok] = np.array(True)
        self._done = 0
        rows = plan.head.executor.rows(0, 0)
        self.rows = [
            StepRow(
                n, r.what, r.ops, tuple(dict.fromkeys(o.name for o in r.origins)), r.why or s.why
            )
            for n, (r, s) in enumerate(zip(rows, self._lying.steps, strict=True))
        ]
        self._sizes = {k: int(v) for k, v in plan.head.sizes.items()}
        self._names = {i: t.name for i, t in self.program.sources.items()}
        self._names |= {o: i.path for i in self.program.instrs for o in i.outs}

    @classmethod
    def of(cls, what: Trainer | Tensor | Sequence[Tensor], feeds: Mapping[Any, Any]) -> Steps:
        """Return the steps of tensors, or of an update of a trainer, on feeds.

        Nothing is trained. Raises GraphError for a tensor of no graph, FeedError for wrong feeds.
        """
        if isinstance(what, Trainer):
            return cls._of_trainer(what, feeds)
        fetches = [what] if isinstance(what, Tensor) else list(what)
        if not fetches:
            raise GraphError("there is nothing to compute", need="a tensor, or several")
        graph = fetches[0].graph
        given = {graph[str(getattr(k, "name", k))]: np.asarray(v) for k, v in feeds.items()}
        session = Session(graph, device=DEVICE, fallback="cpu")
        plan = session.plan(fetches, {t: a.shape for t, a in given.items()})
        return cls(plan, _with_words(given, plan), graph.values)

    @classmethod
    def _of_trainer(cls, trainer: Trainer, feeds: Mapping[Any, Any]) -> Steps:
        graph, run = trainer.graph, trainer.parts.taker.next(dict(feeds))
        given = {graph[str(getattr(k, "name", k))]: np.asarray(v) for k, v in feeds.items()}
        given |= {t: np.asarray(n) for t, n in zip(run.phase.numbers, run.numbers, strict=False)}
        session = Session(graph, device=DEVICE, fallback="cpu", values=trainer.values)
        phase = run.phase
        plan = session.plan(
            phase.fetches,
            {t: a.shape for t, a in given.items()},
            phase.updates,
            training=True,
            commit_if=phase.finite,
        )
        return cls(plan, _with_words(given, plan), trainer.values)

    def at(self, node: str) -> int | None:
        """Return the last step that serves a node, or a scope with a slash behind it."""
        found = [
            row.number
            for row in self.rows
            if any(n == node or (node.endswith("/") and n.startswith(node)) for n in row.nodes)
        ]
        return found[-1] if found else None

    def see(self, number: int) -> Seen:
        """Run the kernels of a step on its inputs; raises GraphError where it has none."""
        row = self.rows[number]
        if row.what not in ("kernel", "product"):
            raise GraphError(
                f"step {number} of {', '.join(row.nodes)} runs no kernel",
                facts=[row.why or f"it is a {row.what}"],
            )
        instr = self.program.instrs[number]
        self._compute(number)
        names = [self._names.get(i, "constant") for i in (*instr.ins, *instr.outs) if i is not None]
        held = [None if i is None else self._lie(i) for i in instr.ins]
        return see(instr.op, *held, nodes=row.nodes, names=names)

    def flops(self, number: int) -> int | None:
        """Return how much arithmetic a step is: of a kernel that was generated, one a value."""
        instr = self.program.instrs[number]
        if isinstance(instr.op, Fused):
            kernel, shape = instr.op.kernel, instr.op.shape
            rows = math.prod(shape[: kernel.rank - kernel.n_columns])
            sizes = {Level.SCALAR: 1, Level.ROW: rows, Level.ELEMENT: math.prod(shape)}
            of = (Level.ELEMENT if v.op == "reduce" else v.level for v in kernel.values if v.args)
            return sum(sizes[level] for level in of)
        nodes: list[Node | Tensor] = [instr.origin]
        try:
            return sum(flops(nodes, self._sizes).values())
        except GradwrightError:
            return None

    def _lie(self, value: int) -> Array:
        """Return a value's elements as they lie on the device."""
        array, ghost = self._arrays[value], self._lying.ghost(value)
        if ghost.strides == array.strides:
            return np.asarray(array)
        found = DeviceArray(0, spec_of(ghost), ghost.strides)
        raw = np.zeros(found.extent, np.uint8)
        held = np.ndarray(ghost.shape, ghost.dtype, raw, -found.low, ghost.strides)
        if held.size:
            held[...] = array
        return held

    def _compute(self, until: int) -> None:
        """Compute what steps before one make, on the host."""
        for n in range(self._done, until):
            for o, y in zip(self.program.instrs[n].outs, self._forward(n), strict=True):
                self._arrays[o] = y
            self._done = n + 1

    def _forward(self, number: int) -> Sequence[Array]:
        ins = self.program.instrs[number].ins
        return self._lying.forward(number, [None if i is None else self._arrays[i] for i in ins])


def _with_words(given: dict[Tensor, Any], plan: Plan) -> dict[Tensor, Any]:
    """Return feeds with the words that random ops draw from, those of a first step."""
    missing = {t: np.zeros(2, np.uint64) for t in plan.feeds if t not in given}
    sources = plan.program.sources.values()
    missing |= {t: np.zeros(2, np.uint64) for t in sources if _is_words(t) and t not in given}
    return {**given, **missing}


def _is_words(t: Tensor) -> bool:
    return t.kind != "variable" and t is getattr(t.graph, "rng", None)
