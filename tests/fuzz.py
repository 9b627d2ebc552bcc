"""Random programs: chains of ops over all dtypes and lengths, kernels against numpy.

    python -m tests.fuzz [count] [--seed N]    programs of the seeds N, N + 1, ... (10,000)
    python -m tests.fuzz --seed N --one        one program, here: printed, run, compared

Programs run in subprocesses, 250 in each, as `campaign` says. `random_graphs` is about what plans
rewrite; this is about what machine code can be made to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.cpu.llvm.compiler import available
from gradwright.errors import GradwrightError
from gradwright.graph import Tensor
from tests.support.campaign import Campaign
from tests.support.fuzz_steps import EPS, FLOATS, Known, Steps

Array = Any
INTS = ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
COMPLEX = ("complex64", "complex128")
NARROW = ("float8_e4m3fn", "float8_e5m2")
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-310, 65520.0, 3e38, -1e300)
SMOOTH: dict[str, Callable[[Tensor], Tensor]] = {
    **{name: getattr(gw, name) for name in ("tanh", "sin", "cos", "neg", "arctan")},
    **{name: getattr(gw.nn, name) for name in ("sigmoid", "relu", "gelu", "silu", "softplus")},
    "exp": lambda x: gw.exp(-gw.abs(x)),
    "expm1": lambda x: gw.expm1(gw.minimum(x, 1.0)),
    "log1p": lambda x: gw.log1p(gw.abs(x)),
    "log": lambda x: gw.log(gw.abs(x) + 1.0),
    "sqrt": lambda x: gw.sqrt(gw.abs(x) + 1.0),
    "rsqrt": lambda x: gw.rsqrt(x * x + 1.0),
    "erf": gw.erf,
    "reciprocal": lambda x: 1.0 / (gw.abs(x) + 1.0),
    "cube": lambda x: gw.tanh(x) ** 3,
    "half": lambda x: x * 0.5 + 0.25,
}
"""Functions under which a small error stays one."""
EXACT: dict[str, Callable[[Tensor], Tensor]] = {
    name: getattr(gw, name) for name in ("abs", "neg", "sign", "floor", "ceil", "trunc", "round")
}
PAIRS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: gw.tanh(a) * gw.sin(b),
    "div": lambda a, b: gw.tanh(a) / (gw.abs(b) + 1.0),
    "maximum": gw.maximum,
    "minimum": gw.minimum,
}
INT_PAIRS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "maximum": gw.maximum,
    "minimum": gw.minimum,
}
PARTS: dict[str, Callable[[Tensor], Tensor]] = {
    name: getattr(gw, name) for name in ("real", "imag", "abs", "conj", "neg")
}
"""Functions of complex numbers, which numpy computes between kernels."""
TESTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "less": lambda a, b: a < b,
    "equal": gw.equal,
    "greater_equal": lambda a, b: a >= b,
}


class Program(Steps):
    """A random program, which its seed determines."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        n = self.n = self._choose([*range(10), *self._rng.integers(10, 201, 20).tolist()])
        rows = self._choose([1, 2, 3, 7, 20])
        self.shapes = [(n,), (n,), (rows, n), (rows, 1), ()]
        self.is_special, self.is_tied = self._draw(6) == 0, self._draw(4) == 0
        with self.graph:
            for _ in range(1 + self._draw(3)):
                self._input()
            for _ in range(1 + self._draw(7)):
                self._step()
        last = {k.tensor: k for k in self.pool[-2:]} | {self.pool[-1].tensor: self.pool[-1]}
        self.fetches = [k for k in last.values() if k.tensor not in self.feeds] or self.pool[-1:]
        self._differentiate()

    def _input(self) -> None:
        shape = self.shapes[min(self._draw(8), 4)]
        dtype = self._choose(["bool", *INTS, *COMPLEX, *FLOATS, *FLOATS, *FLOATS, *FLOATS])
        with np.errstate(all="ignore"):
            x = self._rng.normal(size=shape) * 2
            if self.is_tied:  # and zeros of both signs
                x = np.rint(x)
            if dtype in COMPLEX:
                x = x + 1j * self._rng.normal(size=shape)
            if self.is_special and dtype in FLOATS and x.size:
                where = self._rng.random(shape) < 0.2
                x = np.where(where, self._rng.choice(SPECIAL, shape), x)
            if dtype in INTS:
                x = self._rng.integers(0, 100, shape) if dtype[0] == "u" else np.rint(x * 20)
            x = (x > 0) if dtype == "bool" else np.asarray(x).astype(gw.spec.dtype(dtype))
        open_ = tuple(None if size == shape[-1] else size for size in shape[-1:]) if shape else ()
        t = self.graph.placeholder(f"x{len(self.feeds)}", (*shape[:-1], *open_), dtype=dtype)
        self.feeds[t] = x
        self._add(t, f"{dtype}{list(shape)}", EPS.get(dtype, 0.0), True)

    def _step(self) -> None:
        """Apply a function to something that is there; what does not fit is left out."""
        at = self._draw(len(self.pool)) if self._draw(3) else len(self.pool) - 1
        known = self.pool[at]
        kind = known.tensor.dtype.name
        steps = [self._cast]
        if kind in FLOATS:
            steps += [self._smooth] * 4 + [self._pair] * 3 + [self._reduce] * 2
            steps += [self._test, self._where, self._softmax, self._take, self._join]
            steps += [self._windows, *self._further(known)]
            steps += [self._jump] if known.is_exact else []
        elif kind in COMPLEX:
            steps = [self._part] * 3 + [self._complex_pair]
        elif kind in INTS:
            steps += [self._int_pair, self._reduce, self._test, self._where, self._take]
            steps += self._further(known)
        elif kind == "bool":
            steps += [self._where] * 2
        try:
            self._choose(steps)(at, known)
        except GradwrightError:  # such dtypes or shapes do not meet
            return

    def _smooth(self, at: int, known: Known) -> None:
        name = self._choose(SMOOTH)
        self._add(SMOOTH[name](known.tensor), f"{name}({at})", known.eps, False)

    def _windows(self, at: int, known: Known) -> None:
        """Have windows slide over rows, which are channels; small weights keep errors small."""
        t, name = known.tensor, self._choose(["conv", "wide", "depthwise", "mean"])
        if t.rank != 2 or self.is_special:  # sums of huge numbers depend on their order
            return
        rows, k = int(t.shape[0]), self._choose([1, 3, 5])
        x = gw.expand_dims(t, 0)
        if name == "mean":
            y = gw.cnn.avg_pool1d(x, k, stride=1, padding=k // 2)
        elif name == "wide":  # weights stand in blocks, what follows runs in registers
            n = self._choose([16, 33, 48, 70])
            y = gw.nn.relu(self._convolved(x, (n, rows, k)) * 0.5 + 0.25)
            y = self._convolved(y, (rows, n, 1))
        elif name == "conv":
            y = self._convolved(x, (rows, rows, k))
        else:
            y = self._convolved(x, (rows, 1, k), rows)
        self._add(gw.squeeze(y, 0), f"{name}({at}, {k})", known.eps, False)

    def _convolved(self, x: Tensor, shape: tuple[int, int, int], groups: int = 1) -> Tensor:
        w = self._rng.normal(size=shape) / (shape[1] * shape[2])
        weight = self.graph.constant(w, dtype=x.dtype)
        return gw.cnn.conv1d(x, weight, padding=shape[2] // 2, groups=groups)

    def _jump(self, at: int, known: Known) -> None:
        name = self._choose(EXACT)
        self._add(EXACT[name](known.tensor), f"{name}({at})", known.eps, True)

    def _cast(self, at: int, known: Known) -> None:
        into = self._choose([*FLOATS, *FLOATS, *INTS, "bool", *NARROW])
        if into not in EPS and (not known.is_exact or self.is_special or not known.tensor.rank):
            into = self._choose(FLOATS)
        if known.tensor.dtype.name in FLOATS and into in INTS:  # what no int holds is any int
            t = gw.cast(gw.clip(known.tensor, 0.0, 100.0), into)
        else:
            t = gw.cast(known.tensor, into)
        if into in NARROW:  # which take no arithmetic
            self._add(t, f"cast({at}, {into})", known.eps, known.is_exact)
            at, t = len(self.pool) - 1, gw.cast(t, "float32")
            self._add(t, f"cast({at}, float32)", self.pool[at].eps, known.is_exact)
            return
        self._add(t, f"cast({at}, {into})", known.eps, known.is_exact)

    def _pair(self, at: int, known: Known) -> None:
        name, (b, other) = self._choose(PAIRS), self._other(known)
        t = PAIRS[name](known.tensor, other.tensor)
        self._add(t, f"{name}({at}, {b})", max(known.eps, other.eps), False)

    def _int_pair(self, at: int, known: Known) -> None:
        name, (b, other) = self._choose(INT_PAIRS), self._other(known)
        t = INT_PAIRS[name](known.tensor, other.tensor)
        self._add(t, f"{name}({at}, {b})", 0.0, True)

    def _part(self, at: int, known: Known) -> None:
        name = self._choose(PARTS)
        self._add(PARTS[name](known.tensor), f"{name}({at})", known.eps, False)

    def _complex_pair(self, at: int, known: Known) -> None:
        name, (b, other) = self._choose(["add", "sub"]), self._other(known)
        t = PAIRS[name](known.tensor, other.tensor)
        self._add(t, f"{name}({at}, {b})", max(known.eps, other.eps), False)

    def _test(self, at: int, known: Known) -> None:
        name, (b, other) = self._choose(TESTS), self._other(known)
        if known.is_exact and other.is_exact:
            self._add(TESTS[name](known.tensor, other.tensor), f"{name}({at}, {b})", 0.0, True)

    def _where(self, at: int, known: Known) -> None:
        masks = [n for n, k in enumerate(self.pool) if k.tensor.dtype == bool]
        if not masks or known.tensor.dtype == bool:
            return
        m, (b, other) = self._choose(masks), self._other(known)
        t = gw.where(self.pool[m].tensor, known.tensor, other.tensor)
        both = known.is_exact and other.is_exact
        self._add(t, f"where({m}, {at}, {b})", max(known.eps, other.eps), both)

    def _reduce(self, at: int, known: Known) -> None:
        name = self._choose(["mean", "max", "min", "sum"])
        axis = self._choose([None, -1, 0])
        keepdims = bool(self._draw(2))
        t = getattr(gw, name)(known.tensor, axis=axis, keepdims=keepdims)
        if name == "sum" and t.dtype.kind not in "iu":  # stays small
            t = t * 0.05
        is_exact = name in ("max", "min") and known.is_exact
        is_exact |= name == "sum" and t.dtype.kind in "iu" and known.is_exact
        self._add(t, f"{name}({at}, {axis}, {keepdims})", known.eps, is_exact)

    def _softmax(self, at: int, known: Known) -> None:
        self._add(gw.nn.softmax(known.tensor, axis=-1), f"softmax({at})", known.eps, False)

    def _take(self, at: int, known: Known) -> None:
        shape = self._sizes(known.tensor)
        if not shape or 0 in shape:
            return
        axis, m = self._draw(len(shape)), self._choose([1, 3, 17])
        name = self._choose(["gather", "take_along_axis"])
        wide = (m,) if name == "gather" else (*shape[:axis], m, *shape[axis + 1 :])
        indices = self._indices(wide, -shape[axis], shape[axis])
        t = getattr(gw, name)(known.tensor, indices, axis=axis)
        self._add(t, f"{name}({at}, {axis})", known.eps, known.is_exact)

    def _join(self, at: int, known: Known) -> None:
        shape = self._sizes(known.tensor)
        if not shape or 0 in shape:
            return
        how, m = self._choose(["sum", "max", "mean"]), self._choose([1, 2, 5])
        ids = self._indices((shape[0],), -self._draw(2), m)
        t = getattr(gw, f"unsorted_segment_{how}")(known.tensor, ids, m)
        t = gw.maximum(t, -9.0) if how == "max" else t * 0.05  # no infinities where there is none
        self._add(t, f"{how} of segments of {at}", known.eps, known.is_exact and how == "max")

    def _differentiate(self) -> None:
        ys = [k for k in self.fetches if k.tensor.dtype.name in FLOATS]
        wrt = [t for t in self.feeds if t.dtype.name in FLOATS]
        if not ys or not wrt or self._draw(2):
            return
        try:
            slopes = gw.gradients([gw.sum(gw.cast(ys[-1].tensor, "float32"))], wrt,
                                  unreachable="zero")  # fmt: skip
        except GradwrightError:
            return
        self.lines.append(f"slopes of {ys[-1].tensor.name}")
        eps = max(k.eps for k in self.pool)
        self.fetches += [Known(t, eps, False) for t in slopes]

    def run(self, kernels: str, device: str = "cpu") -> list[Array] | str:
        """Return what it computes the second time, or how it fails."""
        tensors = [k.tensor for k in self.fetches]
        how: Any = {"kernels": kernels, "device": device}
        with gw.Session(self.graph, **how, fallback="cpu") as session:
            try:
                for _ in range(2):
                    found = session.run(tensors, self.feeds)
                state = session.plans[-1].kernels.state
                if kernels == "wait" and state and available():
                    return f"all of it stays on numpy: {state}"
            except (GradwrightError, ValueError) as error:  # as the maximum of nothing
                return type(error).__name__
        return list(found)


def problem(program: Program, device: str = "cpu") -> str:
    """Return what kernels of a device compute otherwise than numpy; empty if nothing."""
    expected, found = program.run("off"), program.run("wait", device)
    if isinstance(expected, str) or isinstance(found, str):
        return "" if expected == found else f"numpy: {expected!r:.60}, kernels: {found!r:.60}"
    for known, x, y in zip(program.fetches, expected, found, strict=True):
        if x.dtype != y.dtype or x.shape != y.shape:
            return f"{known.tensor.name}: {x.dtype}{x.shape} and {y.dtype}{y.shape}"
        if not x.size:
            continue
        with np.errstate(all="ignore"):
            wide = "c16" if x.dtype.kind == "c" else "f8"
            a, b = (np.asarray(v).astype(wide) for v in (x, y))
            finite = np.isfinite(a) & np.isfinite(b)
            size = max(1.0, float(np.abs(a[finite]).max(initial=0.0)))
            off = float(np.abs(a - b)[finite].max(initial=0.0))
            same = np.array_equal(np.where(finite, 0, a), np.where(finite, 0, b), equal_nan=True)
        most = 0.0 if known.is_exact else 400 * known.eps * size
        if off > most:
            return f"{known.tensor.name} ({x.dtype}): off by {off:.3g}, allowed {most:.3g}"
        if not same and not program.is_special:  # where sums overflow depends on their order
            return f"{known.tensor.name} ({x.dtype}): infinities or NaN differ"
    return ""


CAMPAIGN = Campaign(
    "tests.fuzz", "programs", lambda seed: problem(Program(seed)),
    lambda seed: Program(seed).lines, "the same with and without kernels",
)  # fmt: skip


if __name__ == "__main__":
    CAMPAIGN.main(__doc__)
