"""What goes wrong in a vjp: what people write, as changes of right cotangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gradwright as gw
from gradwright.op import OPAQUE, ZERO, Op
from gradwright.ops.core.like import IotaLike
from gradwright.ops.core.pullback import Pullback


@dataclass(frozen=True)
class Call:
    """A vjp in the making: the op's right cotangents beside what they are made of."""

    right: list[Any]
    gs: Sequence[Any]
    ys: Sequence[Any]
    xs: Sequence[Any]
    slot: int
    """Which of the cotangents goes wrong, counted among those that are tensors."""

    @property
    def places(self) -> list[int]:
        """The inputs that get a tensor."""
        return [i for i, g in enumerate(self.right) if isinstance(g, gw.Tensor)]

    @property
    def i(self) -> int:
        """The input whose cotangent goes wrong."""
        return self.places[self.slot % len(self.places)]


Fault = Callable[[Call], "Any | None"]
"""Returns the wrong cotangent of input i, or None where there is nothing to get wrong so."""


def rights(op: Op, base: type[Op], gs: Sequence[Any], ys: Any, xs: Any) -> list[Any]:
    """Return the cotangents that a class states, or that its expansion gives."""
    right = base(**op.attributes())
    if base.has_vjp():
        stated = right.pull(gs, ys, xs, [x is not None for x in xs])
        return [g() if callable(g) else g for g in stated]
    wrt = tuple(i for i, x in enumerate(xs) if x is not None and x.dtype.kind == "f")
    present = tuple(g is not ZERO for g in gs)
    given = [*xs, *(g for g in gs if g is not ZERO)]
    made = Pullback(op=right, n_inputs=len(xs), wrt=wrt, present=present)(*given)
    found: list[Any] = [ZERO] * len(xs)
    for i, g in zip(wrt, made if isinstance(made, tuple) else (made,), strict=True):
        found[i] = g
    return found


def planted(base: type[Op], fault: Fault, slot: int, opaque: bool = False) -> type[Op]:
    """Return a copy of an op with a fault in its vjp; an opaque one declares no dependence."""

    def vjp(self: Op, gs: Sequence[Any], ys: Any, xs: Any) -> Any:
        right = rights(self, base, gs, ys, xs)
        call = Call(right, gs, ys, xs, slot)
        if call.places and (made := fault(call)) is not None:
            if isinstance(made, tuple):
                return made
            right[call.i] = made
        return right

    def pull(self: Op, gs: Sequence[Any], ys: Any, xs: Any, wanted: Sequence[bool]) -> Any:
        return vjp(self, gs, ys, xs)

    members: dict[str, Any] = {"vjp": vjp, "pull": pull, "__doc__": base.__doc__}
    members |= {"name": base.name, "registered": False}  # or the right op would take its place
    if opaque:
        members["depends"] = lambda self, i: OPAQUE
    return type(base)(f"Wrong{base.__name__}", (base,), members)


def sign(c: Call) -> Any:
    """The other sign."""
    return -c.right[c.i]


def half_more(c: Call) -> Any:
    """A factor of 1.5."""
    return c.right[c.i] * 1.5


def percent(c: Call) -> Any:
    """A factor of 1.01."""
    return c.right[c.i] * 1.01


def zeros(c: Call) -> Any:
    """Zeros."""
    return c.right[c.i] * 0.0


def forgotten(c: Call) -> Any:
    """Nothing."""
    return ZERO


def one_element(c: Call) -> Any:
    """One element off by half."""
    g = c.right[c.i]
    place = gw.cast(IotaLike()(g) == c.slot, g.dtype)
    return g * (1.0 + 0.5 * place)


def one_element_slightly(c: Call) -> Any:
    """One element off by a thousandth."""
    g = c.right[c.i]
    return g * (1.0 + 1e-3 * gw.cast(IotaLike()(g) == c.slot, g.dtype))


def on_one_side(c: Call) -> Any:
    """A factor of 1.5 where the input is negative."""
    return c.right[c.i] * gw.where(c.xs[c.i] < 0.0, 1.5, 1.0)


def first_row(c: Call) -> Any:
    """The first row, where the sum over a broadcast axis belongs."""
    g, x = c.right[c.i], c.xs[c.i]
    if g.shape == x.shape:
        return None
    index: list[Any] = [0] * (g.rank - x.rank)
    inner = g.shape[g.rank - x.rank :]
    index += [
        slice(0, 1) if a == 1 != b else slice(None) for a, b in zip(x.shape, inner, strict=True)
    ]
    return g[tuple(index)]


def swapped(c: Call) -> Any:
    """The cotangents of two inputs exchanged."""
    if len(c.places) < 2:
        return None
    a, b = c.places[:2]
    if c.right[a].shape != c.right[b].shape or c.xs[a].shape != c.xs[b].shape:
        return None
    found = list(c.right)
    found[a], found[b] = found[b], found[a]
    return tuple(found)


def transposed(c: Call) -> Any:
    """A square matrix transposed."""
    g = c.right[c.i]
    square = g.rank >= 2 and g.shape[-1] == g.shape[-2]
    return gw.swapaxes(g, -1, -2) if square else None


def flipped(c: Call) -> Any:
    """In the other order along the last axis."""
    g = c.right[c.i]
    return gw.flip(g, -1) if g.rank else None


def without_mean(c: Call) -> Any:
    """A term too many: the mean along the last axis taken off."""
    g = c.right[c.i]
    return g - gw.mean(g, -1, keepdims=True) if g.rank else None


def absolute(c: Call) -> Any:
    """Without its signs."""
    return gw.abs(c.right[c.i])


def own_value(c: Call) -> Any:
    """A term too many: a tenth of the input."""
    return c.right[c.i] + 0.1 * c.xs[c.i]


def passed_on(c: Call) -> Any:
    """The cotangent as it came, without the slope."""
    g, x = c.gs[0], c.xs[c.i]
    return g if isinstance(g, gw.Tensor) and g.shape == x.shape else None


SLIPS: dict[str, Callable[[Any, Any, Sequence[Any]], Any]] = {
    "tanh": lambda g, y, xs: g * (1.0 - y),
    "sigmoid": lambda g, y, xs: g * y,
    "softmax": lambda g, y, xs: g * y,
    "log_softmax": lambda g, y, xs: g - gw.exp(y),
    "square": lambda g, y, xs: g * xs[0],
    "sqrt": lambda g, y, xs: g / y,
    "exp": lambda g, y, xs: g * xs[0],
    "log": lambda g, y, xs: g * xs[0],
    "sin": lambda g, y, xs: g * y,
    "cos": lambda g, y, xs: g * gw.sin(xs[0]),
    "mean": lambda g, y, xs: g * gw.ones_like(xs[0]) if not g.rank else None,
    "softplus": lambda g, y, xs: g * gw.tanh(xs[0]),
    "gelu": lambda g, y, xs: g * gw.nn.sigmoid(1.702 * xs[0]),
    "silu": lambda g, y, xs: g * gw.nn.sigmoid(xs[0]),
    "abs": lambda g, y, xs: g,
    "layer_norm": lambda g, y, xs: g * gw.rsqrt(gw.mean(gw.square(xs[0]), -1, keepdims=True)),
    "div": lambda g, y, xs: (g / xs[1], g * y / xs[1]),
    "sub": lambda g, y, xs: (g, g),
    "maximum": lambda g, y, xs: (g, g),
    "minimum": lambda g, y, xs: (g, g),
    "mul": lambda g, y, xs: (g * xs[0], g * xs[1]),
}
"""What is easily written for the gradient of an op."""


def slip(c: Call) -> Any:
    """What is easily written for it."""
    op = c.ys[0].op
    written = SLIPS.get(op.name.rpartition("/")[2])
    g = c.gs[0]
    return None if written is None or g is ZERO else written(g, c.ys[0], c.xs)


def above(threshold: float) -> Fault:
    """A factor of 1.5 where the mean of the first input is above a number: in one turn of many."""

    def in_one_turn(c: Call) -> Any:
        wrong = gw.mean(c.xs[0]) > threshold
        return c.right[c.i] * gw.where(wrong, 1.5, 1.0)

    return in_one_turn


FAULTS: tuple[Fault, ...] = (
    *(sign, half_more, percent, zeros, forgotten, one_element, first_row, swapped, transposed),
    *(flipped, without_mean, absolute, own_value, passed_on, slip, slip),
    *(one_element_slightly, on_one_side),
)
