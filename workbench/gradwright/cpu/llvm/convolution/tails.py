"""What follows a product, element by element, where a tile can do it before it is written.

Batch norms, relus, clips and residuals are a few instructions a vector. Kernels of anything else
read a scratch instead, as they do after other products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....fuse.ir import Kernel, Value
from ..kernels.elements import apply
from ..text import Num
from .machine import Text

Array = np.ndarray[Any, Any]
SIMPLE = frozenset(
    (
        *("add", "sub", "mul", "div", "neg", "abs", "square", "maximum", "minimum", "where"),
        *("eq", "ne", "lt", "le", "gt", "ge"),
    )
)
"""Functions whose text is the same for vectors."""
MOST = 16
"""Values of a tail at most: they share the registers with a turned tile."""


@dataclass(frozen=True)
class Tail:
    """A kernel whose operand ``at`` is the product; the others move as it does, or by channel."""

    kernel: Kernel
    at: int
    moves: tuple[bool | None, ...]
    """Of each operand: with each element, with each channel (False), or not at all (None)."""

    @property
    def others(self) -> list[int]:
        """Operands but the product and the first output."""
        return [k for k in range(len(self.moves)) if k not in (self.at, self.kernel.n_inputs)]

    def turned(self, text: Text, product: Num, places: Mapping[int, Num], mask: Num) -> list[Num]:
        """Return what the kernel stores, of a vector of positions of a channel."""
        found: list[Num] = []
        values = self.kernel.values
        for value in values:
            if value.op == "load" and value.extra == self.at:
                found.append(product)
            elif value.op == "load":
                place = places[value.extra]
                is_whole = self.moves[value.extra]
                one = None if is_whole else text.fill(text.load(place, text.real))
                found.append(one or text.masked_load(place, mask))
            elif value.op == "const":
                found.append(text.code.const(text.type, value.extra))
            else:
                args = [found[a] for a in value.args]
                found.append(apply(value.op, args, [values[a] for a in value.args]))
        return [found[store.value] for store in self.kernel.stores]


@dataclass(frozen=True)
class Following:
    """A tail with its operands: images ``[N, C, D, H, W]``, numbers of channels, or one number."""

    tail: Tail
    arrays: Sequence[Array | None]
    numbers: Sequence[int]

    @property
    def results(self) -> Array:
        """The first output."""
        found = self.arrays[self.tail.kernel.n_inputs]
        assert found is not None
        return found


def following(
    kernel: Kernel,
    at: int,
    size: Sequence[int],
    axes: Sequence[int | None],
    arrays: Sequence[Array | None],
    numbers: Sequence[int],
) -> Following | None:
    """Return a kernel as the tail of a product ``[N, C, D, H, W]``; None: it is not simple.

    ``axes`` are those of its index space where the product has any.
    """
    dtype = kernel.operands[at].dtype
    if len(kernel.values) > MOST or any(o.dtype != dtype for o in kernel.operands):
        return None
    if any(v.op not in SIMPLE | {"load", "const"} for v in kernel.values):
        return None
    if any(v.op == "const" and v.dtype != dtype for v in kernel.values):
        return None
    if any(_is_ambiguous(v, kernel.values) for v in kernel.values):
        return None
    moves: list[bool | None] = []
    lying: list[Array | None] = []
    there = [a for a in axes if a is not None]
    for operand, array in zip(kernel.operands, arrays, strict=True):
        moved = {a for a in there if operand.moves[a]}
        is_whole = len(moved) == len(there)
        if not is_whole and moved - {axes[1]}:
            return None
        moves.append(True if is_whole else False if moved else None)
        lying.append(None if array is None else array.reshape(size if is_whole else -1))
    whole = [a for a, m in zip(lying, moves, strict=True) if m and a is not None]
    first = whole[-1].strides
    if first[4] != dtype.itemsize or any(a.strides != first for a in whole):
        return None
    if any(a is not None and a.ndim == 1 and not a.flags.c_contiguous for a in lying):
        return None
    return Following(Tail(kernel, at, tuple(moves)), lying, numbers)


def _is_ambiguous(value: Value, values: Sequence[Value]) -> bool:
    """Tell whether a compiler may choose which product it rounds together with a sum."""
    products = [a for a in value.args if values[a].op in ("mul", "square")]
    return value.op in ("add", "sub") and len(products) > 1
