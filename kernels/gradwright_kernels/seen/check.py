"""An op's kernel, checked three ways: its numbers, its gradient, and what it does to memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwright.debug.check.directions import typical_size
from gradwright.debug.check.numeric import Slope, slope
from gradwright.errors import GradwrightError
from gradwright.gradient.reverse import gradients
from gradwright.graph import Graph, Tensor
from gradwright.op import Op, run_forward
from gradwright.session.session import Session
from gradwright.spec import TensorSpec, dtype_name, is_floating, spec_of
from gradwright.words.tables import Table, Tabular

from .launch import SeenLaunch
from .steps import DEVICE, see

Array = np.ndarray[Any, Any]
TOLERANCE = {"float64": 1e-13, "float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}
"""What results may differ by, of a number and beside it: a few roundings of each dtype."""
STEEP = 50.0
"""Times that by which a gradient may: it is a product of several such numbers."""
ELEMENTS = 6
"""Elements of each input whose slopes are measured, beside one direction in which all move."""


@dataclass(frozen=True)
class Verdict:
    """One of the three: whether it holds, None where it could not be tried, and why."""

    name: str
    is_right: bool | None
    text: str

    @property
    def sign(self) -> str:
        """A sign for the reader."""
        return {True: "✓", False: "✗", None: "–"}[self.is_right]


@dataclass(frozen=True)
class KernelCheck(Tabular):
    """What a check of a kernel found; it prints as a table."""

    op: Op
    graph: Graph
    """The op alone, for who wants to see its launches: ``KernelView(found.graph, seen=found)``."""
    inputs: tuple[TensorSpec | None, ...]
    verdicts: tuple[Verdict, ...]
    launches: list[SeenLaunch] = field(repr=False)

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return all(v.is_right is not False for v in self.verdicts)

    def __getitem__(self, name: str) -> Verdict:
        """Return a verdict: ``"forward"``, ``"gradient"`` or ``"memory"``."""
        return {v.name: v for v in self.verdicts}[name]

    def table(self) -> Table:
        """Return what is shown."""
        names = ", ".join(dict.fromkeys(launch.name for launch in self.launches))
        title = f"{self.op.name} of {', '.join(map(str, self.inputs))} by {names or 'no kernel'}"
        rows = [[v.sign, v.name, v.text] for v in self.verdicts]
        return Table(["", "check", "found"], rows, title=title)


def check_kernel(op: Any, *inputs: Any, rtol: float | None = None, seed: int = 0) -> KernelCheck:
    """Run an op's kernel on a simulated GPU and hold it against what else is known of the op.

    ``forward``: its numbers beside those of the op's own ``forward`` in float64; ``gradient``: the
    gradient that a session on the GPU computes, beside finite differences of that; ``memory``: what
    each program reads and writes, with the line, the program and the element of what is wrong.

    Args:
        op: an op, as ``gw.nn.softmax.op(axis=-1)``, its class, or what ``gw.define_op`` returned.
        inputs: arrays in the dtype to be checked.
        rtol: what numbers may differ by; default a few roundings of the dtype.
        seed: draws which elements are moved.

    >>> import gradwright as gw, numpy as np
    >>> x = np.linspace(-2, 2, 15, dtype="f4").reshape(3, 5)
    >>> found = check_kernel(gw.nn.softmax.op(axis=-1), x)
    >>> found.passed, [verdict.sign for verdict in found.verdicts]
    (True, ['✓', '✓', '✓'])

    Raises:
        LoweringError: the op has no kernel for these inputs.
    """
    made: Op = op if isinstance(op, Op) else (op if isinstance(op, type) else op.op)()
    xs = [None if x is None else np.asarray(x) for x in inputs]
    seen = see(made, *xs)
    memory = _memory(seen.launches)
    wide = [x if x is None or not is_floating(x.dtype) else x.astype(np.float64) for x in xs]
    least = max((TOLERANCE.get(dtype_name(y.dtype), 0.0) for y in seen.results), default=0.0)
    tolerance = least if rtol is None else rtol
    forward = _forward(seen.results, run_forward(made, wide), tolerance)
    if memory.is_right:
        gradient = _gradient(made, xs, wide, STEEP * tolerance, np.random.default_rng(seed))
    else:
        gradient = Verdict("gradient", None, "not tried: its memory is wrong")
    specs = tuple(None if x is None else spec_of(x) for x in xs)
    return KernelCheck(made, _alone(made, xs)[0], specs, (forward, gradient, memory), seen.launches)


def _memory(launches: Sequence[SeenLaunch]) -> Verdict:
    wrong = [f"{launch.name} {f}" for launch in launches for f in launch.findings]
    wrong += [f"{launch.name} fails: {launch.error}" for launch in launches if launch.error]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return Verdict("memory", False, wrong[0] + more)
    accesses = sum(len(launch.accesses) for launch in launches)
    programs = sum(len(launch.programs) for launch in launches)
    nbytes = sum(launch.nbytes() for launch in launches)
    text = f"{accesses} accesses of {programs} programs, {nbytes:,} bytes, nothing wrong"
    return Verdict("memory", True, text)


def _forward(ys: Sequence[Array], expected: Sequence[Array], tolerance: float) -> Verdict:
    worst, where = 0.0, ""
    for number, (y, e) in enumerate(zip(ys, expected, strict=True)):
        kind = np.complex128 if y.dtype.kind == "c" else np.float64
        got, right = y.astype(kind), e.astype(kind)
        both = (got == right) | (np.isnan(got) & np.isnan(right))
        with np.errstate(invalid="ignore"):
            off = np.abs(got - right) / (np.abs(right) + 1)
        off = np.where(both, 0.0, np.where(np.isnan(off), np.inf, off))
        if off.size and off.max() > worst:
            at = np.unravel_index(int(off.argmax()), off.shape)
            worst = float(off.max())
            of = f" of output {number}" if len(ys) > 1 else ""
            where = f" at {list(map(int, at))}{of}: {y[at]:.7g}, not {e[at]:.7g}"
    if worst > tolerance:
        return Verdict("forward", False, f"differs{where}")
    text = "equal to numpy's" if not worst else f"off numpy's in float64 by {worst:.1g} at most"
    return Verdict("forward", True, text)


def _gradient(
    op: Op,
    xs: Sequence[Array | None],
    wide: Sequence[Array | None],
    tolerance: float,
    rng: np.random.Generator,
) -> Verdict:
    moved = [n for n, x in enumerate(xs) if x is not None and is_floating(x.dtype) and x.size]
    if not moved:
        return Verdict("gradient", None, "nothing to differentiate")
    try:
        weights, found, host = _on_device(op, xs, moved, rng)
    except GradwrightError as error:
        return Verdict("gradient", False, str(error).splitlines()[0])

    def value(at: Sequence[Array | None]) -> float:
        ys = run_forward(op, at)
        return sum(float((y * c).sum()) for y, c in zip(ys, weights, strict=True) if c is not None)

    n, worst = 0, 0.0
    # Terms of a slope may cancel; each is about the weight of a result by the size of an input.
    steep = max(float(np.abs(c).max(initial=0)) for c in weights if c is not None)
    for number, g in zip(moved, found, strict=True):
        x = wide[number]
        assert x is not None, "only floating inputs are moved"
        for name, direction in _directions(g.shape, rng):
            n += 1
            numeric = slope(_along(value, wide, number, direction))
            analytic = float((g.astype(np.float64) * direction).sum())
            size = float(np.abs(g * direction).astype(np.float64).sum()) + float(np.abs(g).max())
            size += steep / typical_size(x)
            allowed = tolerance * max(size, abs(numeric.value)) + numeric.error
            off = 0.0 if _admits(numeric, analytic, allowed) else abs(analytic - numeric.value)
            worst = max(worst, abs(analytic - numeric.value) / max(size, 1e-300))
            if off:
                text = f"of input {number}, {name}: {analytic:.6g}, not {numeric.value:.6g}"
                return Verdict("gradient", False, text)
    beside = f"; on the host: {', '.join(host)}" if host else ""
    return Verdict(
        "gradient", True, f"{n} slopes by finite differences, off by {worst:.1g}{beside}"
    )


def _on_device(
    op: Op, xs: Sequence[Array | None], moved: Sequence[int], rng: np.random.Generator
) -> tuple[list[Array | None], list[Array], list[str]]:
    """Return weights of the results, the gradient of their sum, and which ops had no kernel."""
    g, held, ys = _alone(op, xs)
    weights = [
        rng.standard_normal(y.shape).astype(y.dtype) if is_floating(y.dtype) else None for y in ys
    ]
    wanted = [(y, w) for y, w in zip(ys, weights, strict=True) if w is not None]
    wrt = [t for n in moved if (t := held[n]) is not None]
    outs = gradients([y for y, _ in wanted], wrt, [w for _, w in wanted], unreachable="zero")
    feeds = {t: x for t, x in zip(held, xs, strict=True) if t is not None}
    with Session(g, device=DEVICE, fallback="cpu") as session:
        found = [np.asarray(a) for a in session.run(outs, feeds)]
        rows = [row for plan in session.plans for row in plan.kernels]
    host = dict.fromkeys(" ".join(row.ops) for row in rows if row.what == "numpy")
    return weights, found, list(host)


def _alone(op: Op, xs: Sequence[Array | None]) -> tuple[Graph, list[Tensor | None], list[Tensor]]:
    """Return a graph of the op alone, with its inputs and outputs."""
    g = Graph(op.name.rpartition("/")[2])
    held = [
        None if x is None else g.placeholder(f"x{n}", x.shape, x.dtype) for n, x in enumerate(xs)
    ]
    made = op(*held)
    return g, held, list(made) if isinstance(made, tuple) else [made]


def _directions(shape: tuple[int, ...], rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Yield single elements, and one direction in which all move."""
    size = int(np.prod(shape))
    for flat in rng.permutation(size)[:ELEMENTS]:
        direction = np.zeros(shape)
        direction.flat[flat] = 1.0
        yield f"element {list(map(int, np.unravel_index(flat, shape)))}", direction
    yield "all elements", rng.standard_normal(shape)


def _along(
    value: Callable[[Sequence[Array | None]], float],
    at: Sequence[Array | None],
    number: int,
    direction: Array,
) -> Callable[[float], float]:
    def f(t: float) -> float:
        moved = [x if n != number or x is None else x + t * direction for n, x in enumerate(at)]
        return value(moved)

    return f


def _admits(numeric: Slope, analytic: float, allowed: float) -> bool:
    near = abs(analytic - numeric.value) <= allowed
    return near or numeric.lost or (numeric.kink and numeric.admits(analytic, allowed))
