"""Kernels of a plan as a table: what each step runs as, and why some are left to numpy."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..cpu.call import Native
from ..cpu.dense import Dense
from ..fuse.fused import Fused
from ..fuse.rules import HALVES, RULES, VALUES, has_rule
from ..graph import Node, Tensor
from ..op import Op
from ..program.lowering import Found
from ..program.program import Instr, Program
from ..spec import TensorSpec
from ..words.tables import Table
from .segment import RUNS, Part

What = Literal["kernel", "product", "copy", "machine code", "plans", "numpy", "view"]
PRODUCTS = frozenset({"matmul"})
SHOWN = 60
"""How many rows a text shows."""
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
    _op: Op | None = field(default=None, repr=False)
    _functions: tuple[int, ...] = field(default=(), repr=False)

    @property
    def ir(self) -> str:
        """What a kernel computes, one line a value; empty for other steps."""
        return str(self._op.kernel) if isinstance(self._op, Fused) else ""

    @property
    def llvm(self) -> str:
        """The LLVM text that a kernel was compiled from; empty before, and for other steps."""
        if not self._functions:
            return ""
        from ..cpu.llvm.compiler import KERNELS  # llvmlite, which no import of ours may load
        from ..cpu.llvm.emit import emit

        of = {address: key for key, address in KERNELS.addresses.copy().items()}
        return "\n".join(emit(*of[a]) for a in self._functions if a in of)

    def __str__(self) -> str:
        said = f"{self.what} {self.node!r}: {' '.join(self.ops)} over {sizes(self.space)}"
        return "\n".join(filter(None, (said, self.ir, self.why)))


class Kernels:
    """What a plan runs, step after step; a table in a notebook, and as text.

    While kernels are being compiled numpy runs, and the table shows those that will come.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> plan = gw.Session(g, kernels="off").plan(gw.exp(x).sum(), {"x": (4, 3)})
    >>> plan.kernels
    <Kernels: 2 steps in numpy: kernels="off">
    >>> [(row.what, row.node, row.ops) for row in plan.kernels]
    [('numpy', 'exp', ('exp',)), ('numpy', 'sum', ('sum',))]
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.rows: list[Row] = []
        self.state = ", ".join(dict.fromkeys(filter(None, map(_state, parts))))
        """Why not all of it is machine code by now; empty when it is as it stays."""
        for part in parts:
            self.rows += _rows(part, len(self.rows), 1 + max(self._chains(), default=0))

    def _chains(self) -> list[int]:
        return list(dict.fromkeys(row.chain for row in self.rows if row.chain is not None))

    @property
    def counts(self) -> dict[str, int]:
        """How many steps run as what; a kernel that is not compiled yet counts as one."""
        found: dict[str, int] = {}
        for row in self.rows:
            found[row.what] = found.get(row.what, 0) + 1
        return found

    def of(self, node: Node | Tensor | str) -> list[Row]:
        """Return the rows that serve a node of the graph, given itself or by name.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", (3,))
        >>> kernels = gw.Session(g).plan(gw.exp(x, name="e") * 2.0, {"x": (3,)}).kernels
        >>> [row.node for row in kernels.of("e")]
        ['e']
        """
        name = node if isinstance(node, str) else node.name
        return [row for row in self.rows if any(name == n.name for n in row.origins)]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, step: int) -> Row:
        return self.rows[step]

    def __repr__(self) -> str:
        return f"<Kernels: {self.said()}>"

    def __str__(self) -> str:
        return str(self._table())

    def said(self) -> str:
        """Say in a line what there is."""
        counts, n_ops = self.counts, sum(len(r.ops) for r in self.rows if r.what == "kernel")
        words = {
            "kernel": f"kernel{{s}} for {n_ops} ops",
            "product": "product{s}",
            "copy": "cop{ies}",
            "machine code": "other{s} in machine code",
            "plans": "step{s} with plans inside",
            "numpy": "step{s} in numpy",
            "view": "view{s}",
        }
        parts = [
            f"{counts[what]} {text.format(**_endings(counts[what]))}"
            for what, text in words.items()
            if what in counts
        ]
        if chains := self._chains():
            parts.append("{} chain{s}".format(len(chains), **_endings(len(chains))))
        return ", ".join(parts or ["no steps"]) + (f": {self.state}" if self.state else "")

    def _table(self, shown: int = SHOWN) -> Table:
        """Return what takes time, step by step: views are left out."""
        columns = ["step", "what", "node", "ops", "over", "chain", "why not machine code"]
        listed = [row for row in self.rows if row.what != "view"]
        rows = [
            [
                str(row.step),
                row.what if row.is_ready else f"({row.what})",
                _short(row.node),
                _short(" ".join(row.ops)),
                sizes(row.space),
                "" if row.chain is None else str(row.chain),
                row.why,
            ]
            for row in listed[:shown]
        ]
        used = [i for i in range(len(columns)) if i < 5 or any(row[i] for row in rows)]
        more = len(listed) - shown
        return Table(
            [columns[i] for i in used],
            [[row[i] for i in used] for row in rows],
            title=self.said(),
            notes=[f"and {more} more"] if more > 0 else [],
        )

    def _repr_html_(self) -> str:
        def block(row: Row) -> str:
            title = html.escape(f"{row.step} {row.node}: {' '.join(row.ops)}")
            text = html.escape(row.ir)
            return f"<details><summary>{title}</summary><pre>{text}</pre></details>"

        table = self._table(len(self.rows))
        title, table.title = table.title, ""
        kernels = "".join(block(row) for row in self.rows if row.ir)
        inside = f"<details><summary>what each kernel computes</summary>{kernels}</details>"
        return (
            f"<p>{html.escape(title)}</p>"
            f'<div style="max-height: 26em; overflow: auto">{table._repr_html_()}</div>'
            f"{inside if kernels else ''}"
        )


def _state(part: Part) -> str:
    """Say why a segment does not run its kernels now; empty if it does, or there is nothing."""
    if part.bound is not None or not part.plain.program.instrs:
        return ""
    coming = part.coming
    if coming is not None:
        steps = [n for n, i in enumerate(coming.program.instrs) if isinstance(i.op, Fused)]
        return f"compiling: {len(coming.code.keys() & set(steps))} of {len(steps)}"
    if part.why:
        return _short(part.why, 2 * WIDE)
    if part.kernels == "wait":
        return "compiled before the first run"
    return "waits to be compiled" if part.is_asked else f"kernels come after {RUNS} runs"


def _rows(part: Part, first: int, chain: int) -> list[Row]:
    """Return the steps of a segment, numbered from ``first``, chains from ``chain``."""
    segment = part.bound or part.coming
    program = part.plain.program if segment is None else segment.program
    found = part.plain.found if segment is None else segment.found
    code = {} if segment is None else segment.code
    is_ready = part.bound is not None
    n_body = len(program.instrs) if program.n_body is None else program.n_body
    chains: dict[Any, int] = {}
    rows = []
    for n, instr in enumerate(program.instrs):
        what, why = _kind(instr, found[n], program, n in code)
        if segment is not None and segment.is_view(n):
            what, why = "view", ""
        elif what in ("numpy", "plans") and segment is None:
            why = ""  # the line above the table says why for all
        number, functions = code.get(n, (None, ()))
        in_last = segment is not None and n >= len(program.instrs) - len(segment.overwrites)
        phase = number, n >= n_body, in_last
        rows.append(
            Row(
                first + n,
                what,
                instr.path,
                _ops(instr.op),
                _space(instr, program),
                tuple(program.specs[o] for o in instr.outs),
                is_ready or segment is None or what in ("view", "numpy", "plans"),
                None if number is None else chains.setdefault(phase, chain + len(chains)),
                why,
                instr.origins,
                instr.op,
                functions,
            )
        )
    return rows


def _kind(instr: Instr, found: Found, program: Program, is_code: bool) -> tuple[What, str]:
    """Return what a step runs as, and what keeps it from being machine code."""
    op = instr.op
    if isinstance(op, Fused):
        return "kernel", ""
    if is_code and isinstance(op, Dense):
        return "copy", ""
    if is_code:
        return ("product" if op.name in PRODUCTS else "machine code"), ""
    plans = getattr(found, "plans", None)
    if plans is not None:
        inner = [plan.kernels for plan in plans()]
        return "plans", "; ".join(k.said() for k in inner) or "made when it first runs"
    return "numpy", _reason(instr, found, program)


def _reason(instr: Instr, found: Found, program: Program) -> str:
    op, specs = instr.op, program.specs
    ins = [None if i is None else specs[i] for i in instr.ins]
    outs = [specs[o] for o in instr.outs]
    if any(s is not None and s.by_reference for s in [*ins, *outs]):
        return "its values are objects of Python"
    if not all(s.is_concrete for s in outs):
        return "the size of its result is known when it has run"
    odd = [str(s.dtype) for s in [*ins, *outs] if s is not None and s.dtype not in VALUES | HALVES]
    if odd and (isinstance(found, Native) or op.name in RULES):
        return f"kernels do not compute in {odd[0]}"
    if isinstance(found, Native):
        return "machine code does not take its arrays as they lie"
    if has_rule(op, ins, outs):
        return "alone, and of this size, numpy is as fast"
    return f"no kernel for {op.name}{' on these shapes' if op.name in RULES else ''}"


def _ops(op: Op) -> tuple[str, ...]:
    if isinstance(op, Fused):
        return op.names
    return (op.viewing.name if isinstance(op, Dense) else op.name,)


def _space(instr: Instr, program: Program) -> tuple[int, ...]:
    """Return the sizes that a step loops over; none where they are not known."""
    shape: Any = instr.op.shape if isinstance(instr.op, Fused) else ()
    if not isinstance(instr.op, Fused) and instr.outs:
        spec = program.specs[instr.outs[0]]
        shape = spec.shape if spec.is_concrete else ()
    return tuple(map(int, shape))


def _endings(n: int) -> dict[str, str]:
    """Return how words end that are counted."""
    return {"s": "" if n == 1 else "s", "ies": "y" if n == 1 else "ies"}


def sizes(space: tuple[int, ...]) -> str:
    """Return the sizes of an index space as text."""
    return "×".join(map(str, space)) or "-"


def _short(text: str, wide: int = WIDE) -> str:
    """Return a text with its middle left out where it is long: ends tell names apart."""
    if len(text) <= wide:
        return text
    return f"{text[: wide // 3]}…{text[wide // 3 + 1 - wide :]}"
