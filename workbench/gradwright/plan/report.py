"""Memory of a plan as a report: its peak before anything runs, and why each array is there."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import MemoryLimitError
from ..program.executor import Laid
from ..program.program import Instr
from ..spec import TensorSpec
from ..words.tables import Table, size

TOP = 12
"""Rows that a printed report shows of the largest arrays."""


@dataclass(frozen=True)
class Held:
    """One array that a plan holds for some of its steps."""

    node: str
    op: str
    spec: TensorSpec
    nbytes: int
    """Memory of its own; 0 for views."""
    born: int
    """Step that makes it; what is there before has the first step."""
    dies: int
    """Last step that needs it."""
    place: str
    """``arena``, ``result``, ``loose`` (made anew by its op), ``constant``, ``feed``,
    ``variable`` or ``earlier`` (made by a segment before)."""
    reason: str
    """Why it is kept until then, or where it lies."""
    at_peak: bool = False


class Memory:
    """What a plan holds: bytes in total, live bytes in each step, and every array with its reason.

    Known before anything runs, except sizes that depend on values; what numpy needs inside of one
    op is not part of it.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (4, 1000))
    >>> memory = gw.Session(g).plan(gw.tanh(x @ x.mT).sum(), {"x": (4, 1000)}).memory()
    >>> memory.arena, memory.feeds, memory.results, memory.peak
    (64, 16000, 4, 16068)
    >>> [(held.node, held.reason) for held in memory.at_peak()][1:]
    [('tanh', 'in place over matmul, freed after sum'), ('sum', 'result sum')]
    """

    def __init__(self, parts: Sequence[Laid]) -> None:
        self.rows: list[Held] = []
        self.live: list[int] = []
        """Bytes alive in each step."""
        seen: set[Any] = set()
        for part in parts:
            rows = _rows(part, len(self.live), seen)
            self.live += _live(rows, len(self.live), len(part.program.instrs))
            self.rows += rows
        self.peak_step = max(range(len(self.live)), key=self.live.__getitem__, default=0)
        """Step in which most bytes are alive."""
        self.rows = [
            Held(**{**vars(r), "at_peak": r.born <= self.peak_step <= r.dies}) for r in self.rows
        ]
        self.arena = sum(part.layout.nbytes for part in parts)
        """Bytes of the buffers that steps share."""
        self.unshared = sum(part.layout.unshared for part in parts)
        """What these would take without sharing."""
        self.constants, self.feeds, self.variables, self.results, self.earlier = (
            sum(r.nbytes for r in self.rows if r.place == place)
            for place in ("constant", "feed", "variable", "result", "earlier")
        )
        made = [r for r in self.rows if r.place in ("result", "loose")]
        steps = range(len(self.live))
        passing = max(
            (sum(r.nbytes for r in made if r.born <= s <= r.dies) for s in steps), default=0
        )
        self.peak = self.arena + self.constants + self.feeds + self.variables + passing
        """Most bytes held at once: arena, constants, feeds, variables, and what leaves."""

    def at_peak(self) -> list[Held]:
        """Return the arrays alive in the step with most bytes, largest first."""
        return sorted((r for r in self.rows if r.at_peak and r.nbytes), key=lambda r: -r.nbytes)

    def __repr__(self) -> str:
        parts = [
            f"{name} {size(n)}"
            for name, n in (
                ("arena", self.arena),
                ("constants", self.constants),
                ("feeds", self.feeds),
                ("variables", self.variables),
                ("results", self.results),
            )
            if n
        ]
        return f"<Memory: peak {size(self.peak)}: {', '.join(parts) or 'nothing'}>"

    def __str__(self) -> str:
        return "\n".join([repr(self)[1:-1], self._where(), "", str(self._table())])

    def print(self) -> None:
        """Print totals, and the largest arrays of the peak with their reasons."""
        print(self)  # noqa: T201  it is what the name says

    def _where(self) -> str:
        saved = f"; the arena would be {size(self.unshared)} without sharing"
        return f"peak in step {self.peak_step} of {len(self.live)}{saved if self.unshared else ''}"

    def _table(self) -> Table:
        found = self.at_peak()
        rows = [
            (size(r.nbytes), f"{r.born}-{r.dies}", r.node, f"{r.spec}", r.reason)
            for r in found[:TOP]
        ]
        if len(found) > TOP:
            rest = sum(r.nbytes for r in found[TOP:])
            rows.append((size(rest), "", f"{len(found) - TOP} more", "", ""))
        return Table(("bytes", "steps", "node", "what", "why"), rows)

    def _repr_html_(self) -> str:
        said = html.escape(f"{repr(self)[1:-1]}; {self._where()}")
        return f"<p>{said}</p>{self._table()._repr_html_()}"

    def plot(self) -> Any:
        """Return a plotly figure: live bytes over the steps, with the step of the peak."""
        import plotly.graph_objects as go

        made = {r.born: r.node for r in reversed(self.rows)}
        figure = go.Figure(
            go.Scatter(
                x=list(range(len(self.live))),
                y=self.live,
                text=[html.escape(made.get(s, "")) for s in range(len(self.live))],
                line={"shape": "hv"},
                fill="tozeroy",
                name="live",
            )
        )
        figure.add_vline(x=self.peak_step, line_dash="dash", line_color="#7a7a7a")
        figure.update_layout(
            title=f"Peak {size(self.peak)} in step {self.peak_step}",
            xaxis_title="step",
            yaxis_title="live bytes",
            yaxis_exponentformat="SI",
            paper_bgcolor="rgba(0,0,0,0)",
            plot_bgcolor="rgba(0,0,0,0)",
            font_color="#7a7a7a",  # reads on light and on dark pages
        )
        return figure


def exhausted(
    memory: Memory,
    asked: str,
    need: str = "buffers, after those of idle plans were released",
    least: int = 0,
) -> MemoryLimitError:
    """Return the error for a plan that the machine has no memory for, with what takes most.

    It takes ``least`` bytes, should the report tell less: views of results become copies.
    """
    return MemoryLimitError(
        f"no memory for {asked}",
        facts=[
            f"the plan needs {size(max(memory.peak, least))}: {repr(memory)[9:-1]}",
            *(f"{size(r.nbytes)} {r.node!r} {r.spec}: {r.reason}" for r in memory.at_peak()[:5]),
        ],
        need=need,
        hint='a smaller batch, or Session(checkpoint="sqrt")',
    )


def beyond(laid: Laid, least: int, most: int) -> MemoryLimitError:
    """Return the error for a program that can never run, as it takes more than there is.

    A system may well promise that much, and end the process that takes it.
    """
    asked = ", ".join(t.name for t in laid.program.outputs) or "the updates"
    need = f"{size(most)} at most, all that the machine has"
    return exhausted(Memory([laid]), asked, need, least)


def _live(rows: Sequence[Held], start: int, n: int) -> list[int]:
    """Return the bytes alive in each of the ``n`` steps that a segment adds."""
    changes = [0] * (n + 1)
    for r in rows:
        changes[r.born - start] += r.nbytes
        if r.dies - start + 1 <= n:
            changes[r.dies - start + 1] -= r.nbytes
    live, total = [], 0
    for change in changes[:n]:
        total += change
        live.append(total)
    return live


def _rows(part: Laid, start: int, seen: set[Any]) -> list[Held]:
    """Return the arrays of one segment, whose first step has the number ``start``."""
    program, lives = part.program, part.lives
    last = start + max(len(program.instrs) - 1, 0)
    rows = []
    for number, t in program.sources.items():
        place = {"variable": "variable", "placeholder": "feed"}.get(t.kind, "feed")
        if t in seen:
            place = "earlier"
        seen.add(t)
        spec = program.specs[number]
        nbytes = _bytes(spec) if place != "earlier" else 0
        rows.append(Held(t.name, t.op.name, spec, nbytes, start, last, place, _SAID[place]))
    for number, array in program.constants.items():
        uniform = array.ndim > 0 and not any(array.strides)
        nbytes = array.itemsize if uniform else array.nbytes
        reason = "a shape alone" if uniform else _SAID["constant"]
        rows.append(
            Held("constant", "constant", program.specs[number], nbytes, start, last,
                 "constant", reason)
        )  # fmt: skip
    makers = {o: instr for instr in program.instrs for o in instr.outs}
    overwritten = {x: o for o, x in part.over.items()}
    homes = {o: v.name for o, v in part.homes.items()}
    within = part.layout.within
    filled = lives.filled(within)
    outputs: dict[int, list[Any]] = {}
    for t in program.outputs:
        outputs.setdefault(program.numbers[t], []).append(t)
        seen.add(t)
    for step, instr in enumerate(program.instrs):
        for o in instr.outs:
            born, dies = filled.get(o, (step, lives.dies[lives.roots[o]]))
            dies = min(start + dies, last)
            if o in overwritten:  # from that step on the bytes are those of the other
                dies = start + lives.born[overwritten[o]] - 1
            place = (
                "result" if o in lives.leaving else "arena" if o in part.layout.offsets else "loose"
            )
            is_apart = lives.roots[o] == o and o not in homes and o not in within
            nbytes = _bytes(program.specs[o]) if is_apart else 0
            reason = (
                f"written over {homes[o]}, or new while somebody holds its array"
                if o in homes
                else _reason(o, instr, part, makers, outputs, overwritten)
            )
            rows.append(
                Held(instr.path, instr.op.name, program.specs[o], nbytes, start + born, dies,
                     place, reason)
            )  # fmt: skip
    return rows


_SAID = {
    "feed": "fed",
    "variable": "a variable's value",
    "constant": "kept by the plan",
    "earlier": "made by the segment before",
}


def _reason(
    o: int,
    maker: Instr,
    part: Laid,
    makers: dict[int, Instr],
    outputs: dict[int, list[Any]],
    overwritten: dict[int, int],
) -> str:
    program, lives = part.program, part.lives
    root = lives.roots[o]
    if root != o:
        return f"view of {makers[root].path if root in makers else 'what came in'}"
    if o in part.layout.within:
        return f"part of {makers[part.layout.within[o][0]].path}, where it is made"
    before = f"in place over {makers[part.over[o]].path}, " if o in part.over else ""
    if maker.recompute:
        before += "computed again, "
    if o in outputs:
        return f"{before}result {outputs[o][0].name}"
    if o in lives.leaving:
        return f"{before}holds a result"
    end = program.instrs[lives.dies[o]]
    if end is maker:
        return f"{before}read by nobody"
    then = f", written over by {end.path}" if o in overwritten else ""
    if end.origin.derived and not maker.origin.derived:
        served = end.origin.origin or end.origin
        return f"{before}kept for the backward of {served.name}{then}"
    return before + (then.removeprefix(", ") or f"freed after {end.path}")


def _bytes(spec: TensorSpec) -> int:
    return spec.nbytes if spec.is_concrete and not spec.by_reference else 0
