"""Products in any order and grouping, and terms that may stand inside of another op."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...spec import TensorSpec, kind
from ..terms import INNER, Binds, Place, Term, term

MISFITS = "misfits"
"""In binds: what is otherwise in a form that has all its ops, in words."""
DEPTH = 6
"""How many nodes of one product are looked through."""


@dataclass(frozen=True)
class Power:
    """A factor with an exponent, of a :class:`Product`."""

    base: Term
    exponent: float


class Product(Term):
    """A number times powers of terms, multiplied and divided in whatever order and grouping.

    Another number is a misfit, rather than another form.
    """

    def __init__(self, *factors: Term | Power | float) -> None:
        self.number = 1.0
        self.factors: list[Power] = []
        for factor in factors:
            if isinstance(factor, (int, float)):
                self.number *= factor
            else:
                self.factors.append(factor if isinstance(factor, Power) else Power(factor, 1.0))

    def __str__(self) -> str:
        texts = [f"{self.number:.6g}"] if self.number != 1 else []
        for factor in self.factors:
            text = str(factor.base)
            sign = {1.0: "", -0.5: "^-½", -1.0: "^-1"}.get(factor.exponent, f"^{factor.exponent:g}")
            texts.append(f"({text})" if " " in text else text)
            texts[-1] += sign
        return "·".join(texts)

    def match(self, at: Place, value: int | None, binds: Binds) -> Iterator[Binds]:
        """Yield all ways in which a value is such a product."""
        if value is None:
            return
        for number, leaves, steps in _splits(at, value, len(self.factors), 1.0, DEPTH):
            if not steps:
                continue
            held: Binds = {**binds, INNER: (*binds.get(INNER, ()), *steps)}
            if not agrees(number, self.number, at.spec(value)):
                said = f"the factor is {number:.7g} where {self.number:.7g} is meant"
                held = {**held, MISFITS: (*held.get(MISFITS, ()), said)}
            for order in itertools.permutations(leaves):
                fits = all(
                    leaf[1] == factor.exponent
                    for leaf, factor in zip(order, self.factors, strict=True)
                )
                if fits:
                    yield from _match_each(at, self.factors, [v for v, _ in order], held)


def _match_each(
    at: Place, factors: Sequence[Power], values: Sequence[int], binds: Binds
) -> Iterator[Binds]:
    if not factors:
        yield binds
        return
    for found in factors[0].base.match(at, values[0], binds):
        yield from _match_each(at, factors[1:], values[1:], found)


Leaves = list[tuple[int, float]]


def _splits(
    at: Place, value: int, k: int, power: float, depth: int
) -> Iterator[tuple[float, Leaves, tuple[Any, ...]]]:
    """Yield the ways to write a value as a number times powers of ``k`` values."""
    spec = at.spec(value)
    is_one = all(d == 1 for d in spec.shape)  # weights that are still all ones are no number
    number = at.number(value) if is_one and kind(spec.dtype) in "iuf" else None
    if number is not None:
        if k == 0 and (number or power > 0):
            yield float(number) ** power, [], ()
        return
    if k == 1:
        yield 1.0, [(value, power)], ()
    step = at.producer(value) if depth else None
    if step is None:
        return
    match step.op.name, step.ins:
        case "mul" | "div" as name, (int() as a, int() as b):
            sign = 1.0 if name == "mul" else -1.0
            for i in range(k + 1):
                for x, xs, x_steps in _splits(at, a, i, power, depth - 1):
                    for y, ys, y_steps in _splits(at, b, k - i, power * sign, depth - 1):
                        yield x * y, xs + ys, (step, *x_steps, *y_steps)
        case "neg" | "reciprocal" as name, (int() as a,):
            sign, inner = (-1.0, power) if name == "neg" else (1.0, -power)
            for x, xs, steps in _splits(at, a, k, inner, depth - 1):
                yield sign * x, xs, (step, *steps)
        case ("sqrt" | "rsqrt") as name, (int() as a,) if k == 1:
            yield 1.0, [(a, power * (0.5 if name == "sqrt" else -0.5))], (step,)
        case "square", (int() as a,):
            yield from _powers(step, a, 2.0, k, power)
        case "pow", (int() as a, b) if (exponent := at.number(b)) is not None:
            yield from _powers(step, a, float(exponent), k, power)


def _powers(
    step: Any, base: int, exponent: float, k: int, power: float
) -> Iterator[tuple[float, Leaves, tuple[Any, ...]]]:
    """Yield a power as one leaf, and as several equal ones."""
    if k == 1:
        yield 1.0, [(base, power * exponent)], (step,)
    elif k == exponent:
        yield 1.0, [(base, power)] * k, (step,)


_STEPS: Mapping[str, float] = {
    "float16": 0.51 * 2.0**-10,
    "bfloat16": 0.51 * 2.0**-7,
    "float32": 4 * 2.0**-23,
    "float64": 4 * 2.0**-52,
}
"""How far from a number its rounding may be, in shares of it: of halves half a unit, of what is
finer a few, for it may be a product of roundings."""


def agrees(found: float, wanted: float, spec: TensorSpec) -> bool:
    """Tell whether a number is another one, but for rounding.

    >>> from gradwright.rewrite.recognition.products import agrees
    >>> from gradwright.spec import TensorSpec
    >>> [agrees(x, 2**0.5, TensorSpec(())) for x in (1.4142135, 1.41421)]
    [True, False]
    """
    return abs(found - wanted) <= _STEPS.get(spec.dtype.name, 0.0) * abs(wanted)


class Maybe(Term):
    """A term, or an op on it, such as a cast."""

    def __init__(self, name: str, inner: Term) -> None:
        self.name, self.inner = name, term(inner)

    def __str__(self) -> str:
        return str(self.inner)

    def match(self, at: Place, value: int | None, binds: Binds) -> Iterator[Binds]:
        """Yield all ways in which a value is one of both."""
        yield from self.inner.match(at, value, binds)
        step = at.producer(value, self.name)
        if step is not None:
            held = {**binds, INNER: (*binds.get(INNER, ()), step)}
            yield from self.inner.match(at, step.ins[0], held)
