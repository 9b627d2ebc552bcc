"""Adam with moments of 8 bits as one kernel: a row is a block of elements that share a scale.

Two million weights take 2.4 ms, those of Adam 0.86 (one core of an AMD EPYC with AVX-512), and 17
on numpy. Codes are read and found by arithmetic instead of tables, which would cost loads one by
one. A dynamic type has seven decades, in each of which its numbers lie evenly,

    number = first + step·r        r = ⌈(x − middle below first)/step⌉ − 1, from 0 to n − 1

so that a code is the decade's n and r. What is read is within two roundings of the table's number,
and a code is another one than the table's only for what lies that near to a middle.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...fuse.builder import FLOAT32, FLOAT64, Builder, Term, call, where
from ..call import Call
from .steps import Step, Steps

Array = np.ndarray[Any, Any]
INT32, UINT8 = np.dtype(np.int32), np.dtype(np.uint8)
LARGEST = float(np.finfo(np.float32).max)
NUMBERS = ("step", "learning_rate", "beta1", "beta2", "eps", "weight_decay")
TENSORS = ("param", "grad", "m", "m_absmax", "v", "v_absmax")


class Decade(NamedTuple):
    """The numbers of a dynamic type between two powers of ten."""

    n: float
    first: float
    step: float
    per: float
    """1/step, to many digits."""
    above: float
    """The middle between what lies before it and its first number."""


@functools.cache
def decades(*, signed: bool) -> tuple[tuple[Decade, ...], float]:
    """Return the decades of the positive numbers below 1, and the middle between them and 1.

    >>> [int(d.n) for d in decades(signed=True)[0]], [int(d.n) for d in decades(signed=False)[0]]
    ([1, 2, 4, 8, 16, 32, 64], [2, 4, 8, 16, 32, 64, 128])
    """
    from ...ops.quantised.nf4 import dynamic_map  # a family of ops that few need

    numbers = dynamic_map(signed=signed)
    numbers = numbers[numbers >= 0]
    middles = (numbers[:-1] + numbers[1:]) / 2
    found, at = [], 1
    for i in range(7):
        n = 2 ** (i if signed else i + 1)
        first, step = float(numbers[at]), 0.9 * 10.0 ** (i - 6) / n
        found.append(Decade(float(n), first, step, 1 / step, float(middles[at - 1])))
        at += n
    return tuple(found), float(middles[-1])


def bind_adam8bit(block_size: int, xs: Sequence[Array], ys: Sequence[Array]) -> Sequence[Call]:
    """Return the calls of an update, for inputs and outputs of ``adam8bit_update``."""
    steps = Steps([*xs, *ys])
    kernel = _kernel(tuple(x.dtype for x in xs[len(TENSORS) :]))
    given = [*TENSORS, *NUMBERS, *(f"new {name}" for name in TENSORS if name != "grad")]
    dense = [*map(steps.dense, xs), *ys]
    flat = dict(zip(given, (x.reshape(-1) for x in dense), strict=True))
    size = flat["param"].size
    whole = size // block_size
    for rows, columns, start in ((whole, block_size, 0), (1, size % block_size, whole)):
        if not rows * columns:
            continue
        arrays = {}
        for name, x in flat.items():
            if name.endswith("absmax"):
                arrays[name] = x[start : start + rows].reshape(rows, 1)
            elif name in NUMBERS:
                arrays[name] = x.reshape(1, 1)
            else:
                at = start * block_size
                arrays[name] = x[at : at + rows * columns].reshape(rows, columns)
        steps.run(kernel, (rows, columns), arrays)
    return steps.calls


@functools.cache
def _kernel(dtypes: tuple[np.dtype[Any], ...]) -> Step:
    """Return the kernel over [blocks, elements] for numbers of these dtypes."""
    b, element, row = Builder(2, 1), (0, 1), (0,)
    numbers = [b.load(n, (), d).to(FLOAT64) for n, d in zip(NUMBERS, dtypes, strict=True)]
    t, lr, b1, b2, eps, decay = numbers
    p, g = (b.load(name, element, FLOAT32) for name in ("param", "grad"))
    m = _read(b.load("m", element, UINT8).to(FLOAT32), signed=True)
    v = _read(b.load("v", element, UINT8).to(FLOAT32), signed=False)
    m, v = m * b.load("m_absmax", row, FLOAT32), v * b.load("v_absmax", row, FLOAT32)
    m = b1.to(FLOAT32) * m + (1.0 - b1).to(FLOAT32) * g
    v = b2.to(FLOAT32) * v + (1.0 - b2).to(FLOAT32) * (g * g)
    root = call("sqrt", 1.0 - call("pow", b2, t))
    rate = lr / (1.0 - call("pow", b1, t))
    size = call("sqrt", v) * (1.0 / root).to(FLOAT32) + eps.to(FLOAT32)
    p = p * (1.0 - lr * decay).to(FLOAT32) - rate.to(FLOAT32) * (m / size)
    m_code, m_absmax = _coded(m, signed=True)
    v_code, v_absmax = _coded(v, signed=False)
    kernel, reads = b.kernel(
        [
            (p, element, "set", FLOAT32),
            (m_code, element, "set", UINT8),
            (m_absmax, row, "set", FLOAT32),
            (v_code, element, "set", UINT8),
            (v_absmax, row, "set", FLOAT32),
        ]
    )
    new = [name for name in TENSORS if name != "grad"]
    pairs = tuple((len(reads) + i, reads.index(name)) for i, name in enumerate(new))
    return Step(replace(kernel, in_place=pairs), (*reads, *(f"new {name}" for name in new)))


def _read(code: Term, *, signed: bool) -> Term:
    """Return the number that a code stands for."""
    steps, _ = decades(signed=signed)
    place = call("abs", code - 127.0) if signed else code
    lead = 0.0 if signed else 1.0  # how far the first place of a decade is from its n
    first, step, n = (place.builder.const(x, FLOAT32) for x in (steps[0].first, steps[0].step, 1.0))
    n = n * steps[0].n
    for d in steps[1:]:
        is_in = place > d.n - lead - 0.5
        first, step = where(is_in, d.first, first), where(is_in, d.step, step)
        n = where(is_in, d.n, n)
    y = (place - (n - lead)) * step + first
    y = where(place > 2 * steps[-1].n - lead - 0.5, 1.0, where(place < 0.5, 0.0, y))
    return call("copysign", y, code - 127.0) if signed else y


def _coded(x: Term, *, signed: bool) -> tuple[Term, Term]:
    """Return the codes of a block's numbers, and its largest size."""
    steps, to_one = decades(signed=signed)
    x = call("minimum", call("maximum", x, -LARGEST), LARGEST)  # else 0·∞ is read as NaN
    absmax = call("abs", x).reduce("max")
    x = x * (1.0 / call("maximum", absmax, 1e-38))
    y, lead = call("abs", x), 0.0 if signed else 1.0
    const = y.builder.const
    n, per = const(steps[0].n, FLOAT32), const(steps[0].per, FLOAT32)
    for d in steps[1:]:
        is_in = y > d.above
        n, per = where(is_in, d.n, n), where(is_in, d.per, per)
    r = call("ceil", y * per - n * (1 / 9)) - 1.0
    place = n - lead + call("maximum", call("minimum", r, n - 1.0), 0.0)
    most = 2 * steps[-1].n - lead
    place = where(y > to_one, most, where(y > steps[0].above, place, 0.0))
    if signed:
        place = where(x < 0.0, 127.0 - call("minimum", place, 127.0), place + 127.0)
    return place.to(INT32), absmax
