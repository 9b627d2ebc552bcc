"""One launch for kernels that do the same to arrays of many sizes: the updates of an optimizer.

    of      i32[programs]           the arrays that a program works on, by number
    table   i64[arrays, 2 + k]      its first program, its elements, and k addresses

A model has hundreds of variables, most of them small; a launch for each would take longer than its
work. Bytes moved are those of the arrays, and 20 a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradwright.fuse.fused import Fused
from gradwright.fuse.ir import Kernel
from gradwright.fuse.layout import Access, Loops, Pattern

from ..compile.compiler import Call
from ..launch import index_type
from .emit import emit
from .generated import MOST_EVEN, loaded
from .tiles import Form, tiled

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Several:
    """A launch for arrays of these sizes; pointers to ``of`` and to ``table`` are all it takes."""

    call: Call
    source: str
    of: Array
    firsts: Array
    """The first program of each."""
    sizes: Array

    def table(self, addresses: Sequence[Sequence[int]]) -> Array:
        """Return the table for arrays that lie there, those of one kernel in its order."""
        head = np.stack([self.firsts, self.sizes], 1)
        return np.concatenate([head, np.array(addresses, np.int64)], 1)


def flat(op: Fused) -> Kernel | None:
    """Return a kernel over one axis that computes the same, where no axis matters; else None.

    Its operands are whole or single numbers, and each element is computed by itself.
    """
    kernel = op.kernel
    if not kernel.rank or any(s.mode != "set" or s.places for s in kernel.stores):
        return None
    if any(v.op in ("reduce", "column", "place") for v in kernel.values):
        return None
    if any(o.named or any(o.moves) != all(o.moves) for o in kernel.operands):
        return None
    operands = tuple(replace(o, moves=o.moves[:1]) for o in kernel.operands)
    return replace(kernel, rank=1, n_columns=1, operands=operands)


def even(size: int) -> bool:
    """Tell whether arrays of a size are loaded 16 bytes at once; the others have a launch apart."""
    return size % MOST_EVEN == 0


def several(kernel: Kernel, sizes: Sequence[int], names: Sequence[str] = ()) -> Several:
    """Return the launch of a kernel of one axis on dense arrays of these sizes.

    >>> from gradwright.fuse.builder import Builder
    >>> builder, f32 = Builder(1, 1), np.dtype("float32")
    >>> x = builder.load("x", (0,), f32)
    >>> made = several(builder.kernel([(x + x, (0,), "set", f32)])[0], [5000, 3])
    >>> made.call.grid, made.of.tolist(), made.table([[256, 512], [768, 1024]]).tolist()
    ((4, 1, 1), [0, 0, 0, 1], [[0, 5000, 256, 512], [3, 3, 768, 1024]])
    """
    pattern = Pattern(tuple(Access("unit" if o.moves[0] else "zero", ()) for o in kernel.operands))
    steps = tuple((o.dtype.itemsize if o.moves[0] else 0,) for o in kernel.operands)
    _, tile = tiled(kernel, Loops(pattern, (), max(sizes), steps))
    programs = [-(-n // tile.columns) for n in sizes]
    text = emit(kernel, pattern, Form(is_split=True, is_several=True))
    args: dict[str, Any] = {"of": np.dtype(np.int32), "table": np.dtype(np.int64)}
    unit = MOST_EVEN if all(map(even, sizes)) else 1
    args |= {"ROWS": 1, "BLOCK": tile.columns, "EVEN": unit, "INDEX": index_type(max(sizes))}
    call = Call(loaded(text), (sum(programs), 1, 1), args, tile.warps, contracts=False)
    of = np.repeat(np.arange(len(sizes), dtype=np.int32), programs)
    firsts = np.cumsum([0, *programs[:-1]])
    comments = "".join(f"# {name}\n" for name in names)
    return Several(call, comments + text, of, firsts, np.array(sizes, np.int64))
