"""Rows: what each step of a plan runs as, as its device tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from ..graph import Node, Tensor
from ..spec import TensorSpec

What = Literal["kernel", "product", "copy", "machine code", "plans", "numpy", "view"]
WIDE = 44
"""Characters of a cell, beyond which its middle is left out."""


@dataclass(frozen=True)
class Row:
    """One step of a plan: the ops it stands for, and what runs them."""

    step: int
    what: What
    """``kernel`` (generated), ``product`` (BLAS), ``copy``, ``machine code`` (of many steps, as a
    recurrent layer), ``plans`` (of a loop or branch), ``numpy``, or ``view``, which costs nothing.
    """
    node: str
    ops: tuple[str, ...]
    space: tuple[int, ...]
    """The sizes that a kernel loops over; of other steps the shape of the first result."""
    outs: tuple[TensorSpec, ...]
    is_ready: bool
    """Whether it runs so now; False: numpy does until it is compiled."""
    chain: int | None = None
    """Neighbours of machine code are one call from Python, and have one number."""
    why: str = ""
    """What keeps it in numpy."""
    origins: tuple[Node, ...] = field(default=(), repr=False)
    """The nodes of the graph that it serves."""
    texts: Callable[[str], str] = field(default=lambda kind: "", repr=False)
    """What was generated for it, as its device has it, ``llvm`` or ``triton``, and as ``ir``."""

    @property
    def ir(self) -> str:
        """What a kernel computes, one line a value; empty for other steps."""
        return self.texts("ir")

    @property
    def llvm(self) -> str:
        """The LLVM text that a kernel was compiled from; empty before, and for other steps."""
        return self.texts("llvm")

    def __str__(self) -> str:
        said = f"{self.what} {self.node!r}: {' '.join(self.ops)} over {sizes(self.space)}"
        return "\n".join(filter(None, (said, self.ir, self.why)))


def sizes(space: tuple[int, ...]) -> str:
    """Return the sizes of an index space as text."""
    return "×".join(map(str, space)) or "-"


def names_of(tensors: Iterable[Tensor], most: int = 3) -> str:
    """Return what a run is of: the first names, how many more, and of no tensor "updates"."""
    names = [t.name for t in tensors]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more or "updates"


def short(text: str, wide: int = WIDE) -> str:
    """Return a text with its middle left out where it is long: ends tell names apart."""
    if len(text) <= wide:
        return text
    return f"{text[: wide // 3]}…{text[wide // 3 + 1 - wide :]}"
