"""How far two results of one op may be apart, and why: what lies beyond is no rounding.

Two orders of one sum differ, and two approximations of one function do. How far is measured on the
inputs of the node: its op is run again on inputs that are off by some roundings, at random, and

    |y − y'| ≤ SAFETY · √terms · (ε·(|y'| + floor) + spread),

where ``spread`` is how far an element moved per rounding, ``terms`` how many products or summands
an element is made of, ε the rounding of the narrowest float that is involved, and ``floor`` what
some functions are computed to: parts of 1, or of the whole result, and not of the element.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import finfo

from .....spec import BOXED, dtype_name, is_floating
from .....spec.containers import contents

Array = np.ndarray[Any, Any]
SAFETY, SAFETY_OF_HALVES = 8.0, 2.0
"""Of right nodes the largest seen is half of what these allow, over the cases of ONNX's suite and
the networks that come with it. Halves are summed in float32, and so whatever the terms are."""
HALF = 1e-5
"""Rounding from which on a float is a half."""
TRIALS = 4
OFF, OFF_OF_HALVES = 32.0, 2.0
"""Roundings by which inputs are off: many are seen well above the rounding of the run itself, and
of halves would leave where the op is smooth."""
APPROXIMATE = frozenset(
    {
        *("Sigmoid", "Tanh", "Erf", "Gelu", "Softmax", "LogSoftmax", "Softplus", "Mish", "Swish"),
        *("LSTM", "GRU", "RNN", "Attention", "MultiHeadAttention", "GroupQueryAttention"),
        *("FastGelu", "BiasGelu", "QuickGelu", "QAttention", "Sin", "Cos", "Tan"),
    }
)
"""Operators whose results ONNX Runtime computes to parts of 1: a sigmoid below 1e-8 is 0 there."""
WHOLE = frozenset({"DFT", "STFT"})
"""Operators whose results it computes to parts of the largest: by a longer transform, after
Bluestein, whose rounding is spread over all frequencies."""


@dataclass(frozen=True)
class Judgement:
    """One result beside another: relative error, and share of what rounding explains."""

    error: float
    """‖y − y'‖ / ‖y'‖ over what is finite."""
    ratio: float
    """Largest |y − y'| over what is allowed; above 1 it is no rounding, inf where nothing is."""
    reason: str
    """Why a difference is one of rounding, or what it is."""

    @property
    def differs(self) -> bool:
        """Whether rounding does not explain it."""
        return not self.ratio <= 1.0


class Rounding:
    """What rounding explains of the results of one node.

    Args:
        run: the results for given inputs.
        inputs: the inputs.
        results: the results for these.
        operators: the operators of ONNX that it is.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Array]], list[Array]],
        inputs: Sequence[Array],
        results: Sequence[Array],
        operators: Sequence[str] = (),
    ) -> None:
        self._run, self._inputs, self._results = run, list(inputs), list(results)
        self._of_one = bool(APPROXIMATE.intersection(operators))
        self._of_whole = bool(WHOLE.intersection(operators))
        floats = [a.dtype for a in (*inputs, *results) if is_floating(a.dtype)]
        self._eps = max(map(rounding, floats), default=0.0)
        self._half = self._eps > HALF
        self._safety = SAFETY_OF_HALVES if self._half else SAFETY

    def judge(self, k: int, theirs: Array, ours: Array | None = None) -> Judgement:
        """Return how the k-th result, or one in its place, stands beside another."""
        ours = self._results[k] if ours is None else ours
        if BOXED in (ours.dtype, theirs.dtype):
            return self._judge_items(k, ours, theirs)
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            mine, other = (f"{dtype_name(a.dtype)}{list(a.shape)}" for a in (ours, theirs))
            return Judgement(math.inf, math.inf, f"{mine} against {other}")
        if np.array_equal(ours, theirs):
            return Judgement(0.0, 0.0, "")
        if ours.dtype.kind == "T":
            return Judgement(1.0, math.inf, "other text")
        return self._judge_numbers(k, _wide(ours), _wide(theirs), is_floating(ours.dtype))

    def _judge_items(self, k: int, ours: Array, theirs: Array) -> Judgement:
        mine, other = (contents(a).items if a.dtype == BOXED else (a,) for a in (ours, theirs))
        if len(mine) != len(other):
            return Judgement(math.inf, math.inf, f"{len(mine)} items against {len(other)}")
        alone = [Rounding(self._item(k, i), self._inputs, [a]) for i, a in enumerate(mine)]
        found = [r.judge(0, b) for r, b in zip(alone, other, strict=True)]
        return max(found, key=lambda j: j.ratio, default=Judgement(0.0, 0.0, ""))

    def _item(self, k: int, i: int) -> Callable[[Sequence[Array]], list[Array]]:
        """Return what computes the i-th item of the k-th result."""
        return lambda xs: [contents(self._run(xs)[k]).items[i]]

    def _judge_numbers(self, k: int, a: Array, b: Array, floating: bool) -> Judgement:
        apart = distances(a, b)
        if not apart.any():  # NaN at NaN
            return Judgement(0.0, 0.0, "")
        error = relative(a, b)
        where = f"{_text(a, apart)} against {_text(b, apart)} at {_place(apart)}"
        size = np.abs(np.where(np.isfinite(b), b, 0.0))
        if floating:
            allowed = self._safety * self._eps * np.maximum(size, np.median(size))
            ratio = _ratio(apart, allowed)
            if ratio <= 0.5:
                return Judgement(error, ratio, "last bits")
        spread = self._spreads[k]
        if not floating:
            ratio = _ratio(apart, spread)
            return Judgement(error, ratio, "a tie" if ratio <= 1.0 else where)
        terms = max((contracted(x.shape, b.shape) for x in self._inputs), default=1)
        terms = 1 if self._half else terms
        floor = float(self._of_one) + (size.max(initial=0.0) if self._of_whole else 0.0)
        allowed = self._safety * math.sqrt(terms) * (self._eps * (size + floor) + spread)
        ratio = _ratio(apart, allowed)
        if ratio > 1.0:
            return Judgement(error, ratio, where)
        summed = f", {terms:,} terms" if terms > 1 else ""
        return Judgement(error, ratio, f"as inputs that are off by a rounding{summed}")

    @functools.cached_property
    def _spreads(self) -> list[Array]:
        """How far each element of the results moves where inputs are off by one rounding."""
        off = OFF_OF_HALVES if self._half else OFF
        rng, spreads = np.random.default_rng(0), [np.zeros(y.shape) for y in self._results]
        exact = [not is_floating(y.dtype) for y in self._results]
        for trial in range(TRIALS):
            moved = [self._moved(x, off, trial, rng) for x in self._inputs]
            with np.errstate(all="ignore"):
                ys = self._run(moved)
            for k, (y, spread) in enumerate(zip(ys, spreads, strict=True)):
                if y.dtype == BOXED or y.dtype.kind == "T" or y.shape != spread.shape:
                    continue
                far = distances(_wide(y), _wide(self._results[k]))
                spreads[k] = np.maximum(spread, far if exact[k] else far / off)
        return spreads

    def _moved(self, x: Array, off: float, trial: int, rng: np.random.Generator) -> Array:
        """Return an input whose floats are off: all away from 0, then at random."""
        if x.dtype == BOXED or not is_floating(x.dtype):
            return x
        signs = 1.0 if not trial else rng.choice([-1.0, 1.0], x.shape)
        with np.errstate(all="ignore"):
            return np.asarray(_wide(x) * (1.0 + off * rounding(x.dtype) * signs)).astype(x.dtype)


@functools.cache
def rounding(d: np.dtype[Any]) -> float:
    """Return ε of a float or complex dtype.

    >>> rounding(np.dtype("float32")) == 2.0**-23
    True
    """
    return float(finfo(d).eps)  # type: ignore[no-untyped-call]


def contracted(x: Sequence[int], y: Sequence[int]) -> int:
    """Return how many elements of an input meet in one of the output: sizes that y lacks.

    >>> contracted((8, 64), (8, 10)), contracted((16, 3, 5, 5), (2, 16, 9, 9))
    (64, 75)
    """
    left, terms = list(y), 1
    for size in x:
        if size in left:
            left.remove(size)
        else:
            terms *= size
    return max(terms, 1)


def distances(a: Array, b: Array) -> Array:
    """Return how far elements are apart: NaN is nowhere but at NaN, infinity at infinity."""
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
    apart = np.where((a == b) | ((a != a) & (b != b)), 0.0, apart)
    return np.where(np.isnan(apart), np.inf, apart)


def _wide(a: Array) -> Array:
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def _ratio(apart: Array, allowed: Array) -> float:
    with np.errstate(all="ignore"):
        return float(np.max(np.where(apart == 0.0, 0.0, apart / allowed), initial=0.0))


def relative(a: Array, b: Array) -> float:
    """Return ‖a − b‖ / ‖b‖ over what is finite in both; inf for other shapes, 0 for no numbers.

    >>> relative(np.float32([3.0, 4.0]), np.float32([3.0, 5.0])) == 1 / 34**0.5
    True
    """
    if a.shape != b.shape:
        return math.inf
    if BOXED in (a.dtype, b.dtype) or "T" in (a.dtype.kind, b.dtype.kind):
        return 0.0
    a, b = _wide(a), _wide(b)
    finite = np.isfinite(a) & np.isfinite(b)
    size, off = float(np.linalg.norm(b[finite])), float(np.linalg.norm(a[finite] - b[finite]))
    return off / size if size else math.inf if off else 0.0


def _place(apart: Array) -> str:
    where = np.unravel_index(int(np.argmax(apart)), apart.shape)
    return str([int(i) for i in where])


def _text(x: Array, apart: Array) -> str:
    return f"{x.reshape(-1)[int(np.argmax(apart))]:.6g}"
