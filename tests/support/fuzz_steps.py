"""Steps of random programs: what they draw from, and ops whose order or places vary.

`tests.fuzz` makes programs of these, and of its own steps of elements, rows and windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.graph import Tensor

Array = Any
FLOATS = ("float32", "float64", "float16", "bfloat16")
EPS = {
    **{"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7},
    **{"float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2},
    **{"complex64": 2.0**-23, "complex128": 2.0**-52},
}


@dataclass(frozen=True)
class Known:
    """A tensor of a program: the worst last place on the way to it, and whether any rounding is
    the same in machine code, so that functions that jump may follow."""

    tensor: Tensor
    eps: float
    is_exact: bool


class Steps:
    """A program that is being drawn: what is known so far, and steps that add to it."""

    n: int
    is_special: bool

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.lines: list[str] = []
        self.graph = gw.Graph("program")
        self.feeds: dict[Tensor, Array] = {}
        self.pool: list[Known] = []

    def _draw(self, n: int) -> int:
        return int(self._rng.integers(n))

    def _choose(self, values: Any) -> Any:
        return list(values)[self._draw(len(list(values)))]

    def _add(self, t: Tensor, text: str, eps: float, is_exact: bool) -> None:
        self.lines.append(f"{len(self.pool)}: {text}")
        self.pool.append(Known(t, max(eps, EPS.get(t.dtype.name, 0.0)), is_exact))

    def _other(self, known: Known) -> tuple[int, Known]:
        same = [n for n, k in enumerate(self.pool) if k.tensor.dtype == known.tensor.dtype]
        at = self._choose(same)
        return at, self.pool[at]

    def _sizes(self, t: Tensor) -> list[int]:
        """Return the sizes of a tensor's axes; the only one that may be a symbol is n."""
        return [d if isinstance(d, int) else self.n for d in t.shape]

    def _indices(self, shape: tuple[int, ...], low: int, n: int) -> Tensor:
        """Return indices that are fed; now and then one of them names no place."""
        dtype = self._choose(["int64", "int32"] if low < 0 else ["int64", "int32", "uint8"])
        x = self._rng.integers(low, n, shape).astype(dtype)
        if x.size and not self._draw(16):
            x.flat[self._draw(x.size)] = n
        t = self.graph.placeholder(f"x{len(self.feeds)}", shape, dtype=dtype)
        self.feeds[t] = x
        return t

    def _fit(self, known: Known, rank: int = 1) -> list[int] | None:
        """Return the sizes of what has so many axes, or more, and elements."""
        shape = self._sizes(known.tensor)
        return None if len(shape) < rank or 0 in shape else shape

    def _matrix(self, known: Known) -> list[int] | None:
        """Return the sizes of a matrix of small numbers: sums of others depend on their order."""
        shape = self._fit(known, 2)
        return None if self.is_special or known.tensor.dtype.itemsize < 4 else shape

    def _order(self, at: int, known: Known) -> None:
        """Put in order, or run along an axis."""
        t, shape = known.tensor, self._fit(known)
        if shape is None:
            return
        names = ["cumsum", "cummax", "cummin", "cumprod", "scan"]
        if known.is_exact:
            names += ["sort", "argsort", "top_k", "searchsorted"]
        name, axis = self._choose(names), self._draw(len(shape))
        is_exact = known.is_exact and name[:4] not in ("cums", "cump", "scan")
        match name:
            case "cumsum":
                y = gw.cumsum(t, axis, reverse=bool(self._draw(2)), exclusive=bool(self._draw(2)))
                y = y if t.dtype.kind in "iu" else y * 0.05
            case "cumprod":
                y = gw.cumprod(gw.cos(t) if t.dtype.kind not in "iu" else t, axis)
            case "scan":
                if t.dtype.kind in "iu":
                    return
                y = gw.nn.linear_scan(gw.tanh(t), gw.sin(t), axis=axis)
            case "top_k":
                y = gw.top_k(t, 1 + self._draw(shape[axis]), axis=axis)[0]
            case "searchsorted":
                y = gw.searchsorted(gw.sort(gw.flatten(t)), t)
            case "cummax" | "cummin":
                y = getattr(gw, name)(t, axis)[self._draw(2) if known.is_exact else 0]
            case _:
                y = getattr(gw, name)(t, axis=axis, descending=bool(self._draw(2)))
        self._add(y, f"{name}({at}, {axis})", known.eps, is_exact)

    def _scatter(self, at: int, known: Known) -> None:
        """Write, add or keep extremes at places along an axis."""
        shape = self._fit(known)
        if shape is None:
            return
        axis, m = self._draw(len(shape)), self._choose([1, 3, 17])
        wide = (*shape[:axis], m, *shape[axis + 1 :])
        there, taken = (self._indices(wide, -shape[axis], shape[axis]) for _ in range(2))
        values = gw.take_along_axis(known.tensor, taken, axis=axis)
        name = self._choose(["update", "max", "min", "add"])
        t = getattr(gw, f"scatter_{name}")(known.tensor, there, values, axis=axis)
        is_exact = known.is_exact and (name != "add" or t.dtype.kind in "iu")
        self._add(t, f"scatter_{name}({at}, {axis})", known.eps, is_exact)

    def _rows(self, at: int, known: Known) -> None:
        """Move the rows of a table that are named."""
        t, shape = known.tensor, self._matrix(known)
        if shape is None:
            return
        n = self._choose([1, 4, 50])
        made = self._rng.normal(size=(n, *shape[1:]))
        table = self.graph.constant(made, dtype=t.dtype)
        rows, sums = gw.training.sum_rows(self._indices((shape[0],), -n, n), t, table)
        new = gw.training.take_rows(table, rows) - sums * 0.1
        self._add(gw.training.put_rows(table, rows, new), f"rows of {at}", known.eps, False)

    def _attend(self, at: int, known: Known) -> None:
        """Attend, whole or tile by tile, to what is shown, or with something added."""
        if self._matrix(known) is None:
            return
        x, is_causal = gw.expand_dims(known.tensor, 0), bool(self._draw(2))
        name = self._choose(["scaled_dot_product_attention", "flash_attention"])
        how = self._choose(["all", "shown", "added"])
        masks = {"shown": lambda: x[..., :1].mT > 0.0, "added": lambda: gw.sin(x) @ gw.cos(x).mT}
        more = [masks[how]()] if how in masks else []
        y = getattr(gw.nn, name)(gw.sin(x), gw.cos(x), x, *more, is_causal=is_causal)
        self._add(gw.squeeze(y, 0), f"{name}({at}, {how}, {is_causal})", known.eps, False)

    def _loop(self, at: int, known: Known) -> None:
        """Go through steps, as many as rows, as a number says, or one branch of two."""
        t = known.tensor
        if self._fit(known) is None or self.is_special:
            return
        name = self._choose(["scan", "while", "cond"])
        if name == "scan":
            first = gw.zeros_like(gw.max(t, axis=0))

            def step(c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
                held = gw.tanh(c * 0.5 + x)
                return held, held * x

            _, y = gw.scan(step, first, t)
        elif name == "while":
            last = self._draw(4)
            _, y = gw.while_loop(
                lambda c: c[0] < last,
                lambda c: (c[0] + 1, gw.tanh(c[1]) + gw.sin(t)),
                (self.graph.constant(0), t),
            )
        else:
            pred = self.graph.placeholder(f"x{len(self.feeds)}", (), dtype="bool")
            self.feeds[pred] = np.array(bool(self._draw(2)))
            y = gw.cond(pred, lambda: gw.tanh(t) * 2.0, lambda: gw.nn.softmax(t, axis=-1))
        self._add(y, f"{name}({at})", known.eps, False)

    def _joined(self, at: int, known: Known) -> None:
        """Join what convolutions make to what they were given, as dense blocks do."""
        t, shape = known.tensor, self._matrix(known)
        if shape is None:
            return
        x, channels = gw.expand_dims(t, 0), shape[0]
        for k in [self._choose([1, 3]) for _ in range(1 + self._draw(3))]:
            w = self._rng.normal(size=(4, channels, k)) / (k * channels)
            y = gw.cnn.conv1d(gw.nn.relu(x), self.graph.constant(w, dtype=t.dtype), padding=k // 2)
            x, channels = gw.concat([x, y], axis=1), channels + 4
        self._add(gw.squeeze(x, 0), f"convolutions joined to {at}", known.eps, False)

    def _further(self, known: Known) -> Sequence[Any]:
        """Return what may be done with numbers."""
        steps = [self._order, self._scatter]
        is_float = known.tensor.dtype.name in FLOATS
        return steps + [self._rows, self._attend, self._loop, self._joined] * is_float
