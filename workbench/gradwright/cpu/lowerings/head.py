"""Heads of language models: what runs of their logits are read for, as kernels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...fuse.builder import Builder, Term, call
from ...fuse.ir import Kernel
from ...ops.losses.passes import LOWEST, Asked, Passes, first_largest, picked
from ...program.lowering import lowering
from ...spec import TensorSpec, kind
from ..blocks import aligned
from ..call import NativeReturning
from ..llvm.bind import bind_kernel
from ..llvm.chain import chain
from .common import Specs, floats

Array = np.ndarray[Any, Any]


@lowering("head_log_probs")
@lowering("head_log_probs_grad")
def _head(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> NativeReturning | None:
    """Look twice at what numpy looks at seven times."""
    if not floats(*(s for s in ins if s is not None and kind(s.dtype) == "f")):
        return None

    def forward(xs: Sequence[Any]) -> Sequence[Any]:
        return op.forward(*xs)  # type: ignore[no-any-return]

    return NativeReturning(forward, lambda xs: op.read(Kernels(), *xs))


class Kernels(Passes):
    """Passes that are kernels over the rows of a run.

    >>> from gradwright.cpu.llvm.compiler import available
    >>> passes = Kernels() if available() else Passes()
    >>> [round(float(y[0]), 4) for y in passes.told(np.zeros((1, 2)), np.array([1]))]
    [-0.6931, 0.6931, -0.6931, 0.0, 0.0]
    """

    def room(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        """Return memory that begins with a cache line."""
        return aligned(shape[0] * shape[1] * dtype.itemsize).view(dtype).reshape(shape)

    def told(self, x: Array, label: Array) -> tuple[Array, ...]:
        """Return what a run says of its labels, by two looks at each row."""
        of_label, made = picked(x, label), np.empty((5, len(x)), x.dtype)
        if not x.size or not _run(_told(x.dtype), x, [*made]):
            return super().told(x, label)
        top, norm, entropy, squares, total = made
        is_top = first_largest(x, label, top)
        return of_label - top - norm, entropy, squares, total / x.shape[1], is_top

    def slopes(self, x: Array, label: Array, asked: Asked, slope: float) -> Array:
        """Return what comes back to a run's logits, in their place."""
        a, b, c, d = (g * x.dtype.type(slope) for g in asked)
        rows = [-a] if asked.is_plain else [a + 2 * c, b, 2 * c, d / max(x.shape[1], 1)]
        if not x.size or not _run(_slopes(x.dtype, asked.is_plain), x, [*rows, x]):
            return super().slopes(x, label, asked, slope)
        x[np.arange(len(x)), label] += a
        return x


def _run(kernel: Kernel, x: Array, rows: Sequence[Array]) -> bool:
    """Run a kernel on logits and what else there is of each row; tell whether it could."""
    calls = bind_kernel(kernel, x.shape, [x, *rows])
    if calls is None:
        return False
    chain([(call.address, call.block.ctypes.data) for call in calls])()
    return True


@functools.cache
def _told(dtype: np.dtype[Any]) -> Kernel:
    """Return the kernel that stores max x, log Σ eˣ less that, entropy, log Σ p², Σ x of rows."""
    b = Builder(2, 1)
    x = b.load("x", (0, 1), dtype)
    top, total = x.reduce("max"), x.reduce("sum")
    e, low = _powers(x - top)
    norm = call("log", e.reduce("sum"))
    entropy = norm - (e * low).reduce("sum") / e.reduce("sum")
    squares = call("log", (e * e).reduce("sum")) - 2 * norm
    rows = top, norm, entropy, squares, total
    return b.kernel([(row, (0,), "set", dtype) for row in rows])[0]


@functools.cache
def _slopes(dtype: np.dtype[Any], is_plain: bool) -> Kernel:
    """Return the kernel that stores slopes of logits over them, but for what labels get."""
    b = Builder(2, 1)
    x = b.load("x", (0, 1), dtype)

    def row(name: str) -> Term:
        return b.load(name, (0,), dtype)

    e, low = _powers(x - x.reduce("max"))
    share = 1 / e.reduce("sum")
    if is_plain:
        dx = e * (row("straight") * share)
    else:
        straight, of_entropy, of_squares = (row(n) for n in ("straight", "entropy", "squares"))
        p = e * share
        average, square = (e * low).reduce("sum") * share, (e * e).reduce("sum") * share
        dx = p * (e * (of_squares / square) - of_entropy * (low - average) - straight) + row("mean")
    kernel = b.kernel([(dx, (0, 1), "set", dtype)])[0]
    return replace(kernel, in_place=((kernel.n_inputs, 0),))


def _powers(z: Term) -> tuple[Term, Term]:
    """Return powers of e, and their exponents, of which none is −∞."""
    return call("exp", z), call("maximum", z, LOWEST)
