"""What became of a gradient on its way: steps, causes, words, and a figure."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...words.tables import Table
from ..address import Address
from .numbers import about
from .opening import Turns

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Step:
    """One node that a gradient passes."""

    address: Address
    op: str
    where: str
    """The user's line."""
    tensor: str
    """What it goes on to: the input of the node."""
    norm_in: float
    """Norm of the cotangent that arrives."""
    norm_out: float
    """Norm of what goes on from it along the path."""
    kind: str = ""
    reason: str = ""
    """What the op does to it, where that is worth a word."""

    @property
    def gain(self) -> float:
        """How many times as long as what arrives is what goes on."""
        return self.norm_out / self.norm_in if self.norm_in else 0.0

    def __repr__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"<{self.op} {str(self.address)!r} ×{self.gain:.3g}{reason}>"


@dataclass(frozen=True)
class Cause:
    """One reason why a gradient is what it is, in a sentence; ``nodes`` are texts of addresses."""

    kind: str
    text: str
    nodes: tuple[str, ...] = ()
    gain: float = 1.0


@dataclass(frozen=True, repr=False)
class Explanation:
    """The result of :func:`explain_gradient`; a notebook shows its words and its steps.

    ``verdict`` is ``unreachable``, ``zero``, ``small``, ``large``, ``nonfinite`` or ``ordinary``.
    """

    loss: str
    parameter: str
    verdict: str
    norm: float = math.nan
    """Norm of the gradient; NaN where none arrives."""
    zeros: float = 1.0
    """The share of its elements that are 0."""
    relative: float = 0.0
    """‖g‖·‖w‖ / |L|: by how much of itself the loss moves where the parameter moves by as much."""
    causes: tuple[Cause, ...] = ()
    """What it comes from, what matters most first."""
    steps: tuple[Step, ...] = ()
    """The path along which most of it flows, or to where it dies: from the loss on."""
    norms: Mapping[str, float] = field(default_factory=dict)
    """Norms of the cotangents of all nodes between loss and parameter, by name; for a drawing."""
    turns: Mapping[str, Turns] = field(default_factory=dict)
    """Loops on the path: the norm of what is carried from turn to turn."""

    @property
    def text(self) -> str:
        """All of it in words."""
        return "\n".join([_headline(self), *(f"- {c.text}" for c in self.causes)])

    @property
    def nodes(self) -> tuple[str, ...]:
        """Addresses of the nodes on the path, as text, from the loss to the parameter."""
        names = [*(str(s.address) for s in self.steps), self.parameter]
        return tuple(dict.fromkeys([self.loss, *names]))

    @property
    def culprits(self) -> tuple[str, ...]:
        """Addresses of the nodes that the causes name."""
        return tuple(dict.fromkeys(n for c in self.causes for n in c.nodes))

    def table(self) -> Table:
        """Return one row per step of the path."""
        rows = [
            [str(s.address), s.op, s.where, f"{s.norm_in:.3g}", f"{s.norm_out:.3g}",
             f"{s.gain:.3g}", s.reason]
            for s in self.steps
        ]  # fmt: skip
        columns = ["node", "op", "where", "arrives", "goes on", "gain", ""]
        return Table(columns, rows, title=f"from {self.loss!r} to {self.parameter!r}")

    def figure(self) -> go.Figure:
        """Return a figure of the norm along the path, and from turn to turn of its loops."""
        import plotly.graph_objects as go

        figure = go.Figure()
        names = [self.loss, *(f"{s.address} → {s.tensor}" for s in self.steps)]
        norms = [self.steps[0].norm_in, *(s.norm_out for s in self.steps)] if self.steps else []
        causes = [False, *(str(s.address) in self.culprits for s in self.steps)]
        figure.add_scatter(
            x=names[: len(norms)],
            y=[n if 0 < n < math.inf else None for n in norms],
            mode="lines+markers",
            name="norm of the cotangent",
            marker={"size": 8, "color": ["#d1495b" if c else "#2e6f95" for c in causes]},
            line={"color": "#2e6f95"},
            hovertext=["", *(s.reason for s in self.steps)],
        )
        for name, turns in self.turns.items():
            figure.add_scatter(
                x=[f"{name}, turn {n}" for n in turns.numbers],
                y=[n if 0 < n < math.inf else None for n in turns.norms],
                mode="lines+markers",
                name=f"carried by {name}",
            )
        figure.update_layout(
            template="plotly_white",
            title=f"The gradient of {self.loss!r} on its way to {self.parameter!r}",
            xaxis={"title": "from the loss to the parameter", "tickangle": -40},
            yaxis={"title": "norm", "type": "log", "exponentformat": "power"},
            margin={"t": 60},
            height=420,
        )
        return figure

    def to_dict(self) -> dict[str, Any]:
        """Return it as what JSON can hold; NaN and infinities become text."""
        return {
            "parameter": self.parameter,
            "loss": self.loss,
            "verdict": self.verdict,
            "norm": _number(self.norm),
            "zeros": _number(self.zeros),
            "relative": _number(self.relative),
            "text": self.text,
            "causes": [
                {"kind": c.kind, "text": c.text, "nodes": list(c.nodes), "gain": _number(c.gain)}
                for c in self.causes
            ],
            "steps": [
                {
                    "address": str(s.address),
                    "op": s.op,
                    "where": s.where,
                    "tensor": s.tensor,
                    "norm_in": _number(s.norm_in),
                    "norm_out": _number(s.norm_out),
                    "gain": _number(s.gain),
                    "kind": s.kind,
                    "reason": s.reason,
                }
                for s in self.steps
            ],
            "norms": {name: _number(n) for name, n in self.norms.items()},
            "turns": {
                name: {
                    "numbers": list(t.numbers),
                    "norms": [_number(n) for n in t.norms],
                    "rate": _number(t.rate),
                }
                for name, t in self.turns.items()
            },
            "nodes": list(self.nodes),
            "culprits": list(self.culprits),
        }

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<gradient of {self.loss!r} for {self.parameter!r}: {self.verdict}>"

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{html.escape(c.text)}</li>" for c in self.causes)
        head = f"<p><b>{html.escape(_headline(self))}</b></p>"
        rows = self.table()._repr_html_() if self.steps else ""
        return f"{head}<ul>{lines}</ul>{rows}" if lines else head + rows


def _headline(found: Explanation) -> str:
    subject = f"The gradient of {found.loss!r} for {found.parameter!r}"
    share = f"; it is 0 in {found.zeros:.0%} of its elements" if found.zeros > 0.005 else ""
    size = f"its norm is {about(found.norm)}, ‖g‖·‖w‖ is {about(found.relative)} of the loss"
    return {
        "unreachable": f"No gradient of {found.loss!r} reaches {found.parameter!r}",
        "zero": f"{subject} is 0" + (f", but for rounding ({found.norm:.1e})" * (found.norm > 0)),
        "nonfinite": f"The loss {found.loss!r} is not finite"
        if math.isfinite(found.norm)
        else f"{subject} is not finite",
        "small": f"{subject} is small: {size}{share}",
        "large": f"{subject} is large: {size}{share}",
        "ordinary": f"{subject} is ordinary: {size}{share}",
    }[found.verdict]


def _number(x: float) -> float | str:
    return float(x) if math.isfinite(x) else str(x)


def named(names: Sequence[str], most: int = 3) -> str:
    """Return a few names in a row."""
    more = len(names) - most
    return ", ".join(map(repr, names[:most])) + (f" and {more:,} more" if more > 0 else "")
