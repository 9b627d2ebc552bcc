"""Plan: what a pipeline is going to do, and what it will roughly cost, before it does it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...words.tables import Table, Tabular
from ..rollouts.rollout import Prompt

SAMPLED = 64
"""How many rows of the data their length is estimated from."""


@dataclass(frozen=True)
class Planned:
    """One training of a plan: a stage, or a control beside it."""

    stage: str
    control: str
    """Empty for the stage itself."""
    method: str
    model: str
    weights: int
    """How many weights the model has."""
    rows: int | None
    """Of its data; None where they do not say."""
    steps: int | None
    """None where it is told in epochs of data whose rows are not known."""
    batch_size: int | None
    tokens: int | None
    """Roughly, all tokens that it trains on or draws."""
    flops: float | None
    """6 for each weight and token that is trained on, and 2 for one that is drawn."""
    is_done: bool


@dataclass(frozen=True)
class Plan(Tabular):
    """What a pipeline is going to do: rows for a table, arrows for a drawing.

    ``arrows`` are (from, to, what is handed on); places are stages, ``data:`` and ``start:`` names.

    >>> from gradwright.align.pipeline.plan import Plan, Planned
    >>> tune = Planned("tune", "", "SFT", "policy", 1000, 64, 10, 8, 1600, 9.6e6, False)
    >>> print(Plan((tune,), (("data:tune", "tune", "data"),), prompts=0))
    plan
    stage  method  model   weights  rows  steps  batch  tokens  FLOP
    tune   SFT     policy  1,000    64    10     8      1,600   9.6e+06
    about 9.6e+06 FLOP to do
    """

    trainings: tuple[Planned, ...]
    arrows: tuple[tuple[str, str, str], ...]
    prompts: int
    """How many held-out prompts judge."""

    def table(self) -> Table:
        """Return a row for each training."""
        rows = [
            [
                p.stage + (f", {p.control}" if p.control else ""),
                *(p.method, p.model, f"{p.weights:,}", _told(p.rows), _told(p.steps)),
                *(_told(p.batch_size), _told(p.tokens), _power(p.flops)),
                "done" if p.is_done else "",
            ]
            for p in self.trainings
        ]
        total = sum(p.flops or 0 for p in self.trainings if not p.is_done)
        columns = ["stage", "method", "model", "weights", "rows", "steps", "batch", "tokens"]
        judged = f"{self.prompts} held-out prompts judge before, between and after"
        is_done = all(p.is_done for p in self.trainings)
        left = "all is done" if is_done else f"about {_power(total)} FLOP to do"
        notes = [left, *([judged] if self.prompts else [])]
        return Table([*columns, "FLOP", ""], rows, title="plan", notes=notes)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as what ``json.dumps`` takes."""
        return asdict(self)


def rows_of(data: Any) -> int | None:
    """Return how many rows data have, where they say.

    >>> rows_of([{"text": "a"}]), rows_of({"text": ["a", "b"]}), rows_of(iter(()))
    (1, 2, None)
    """
    if isinstance(data, Mapping):
        return len(next(iter(data.values()), ()))
    return len(data) if hasattr(data, "__len__") and not isinstance(data, str) else None


def row_tokens(data: Any, tokenizer: Any) -> float | None:
    """Return about how many tokens a row of data has: the mean of the first ones' texts."""
    if isinstance(data, Mapping):
        columns = {name: list(itertools.islice(c, SAMPLED)) for name, c in data.items()}
        rows: Sequence[Any] = [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]
    elif hasattr(data, "__getitem__") and rows_of(data):
        rows = [data[i] for i in range(min(SAMPLED, len(data)))]
    else:
        return None
    counts = [_tokens(row, tokenizer) for row in rows]
    known = [n for n in counts if n]
    return sum(known) / len(known) if known else None


def _tokens(row: Any, tokenizer: Any) -> int:
    """Return how many tokens the texts of a row have."""
    if isinstance(row, Prompt):
        return len(row.tokens)
    if isinstance(row, str):
        return len(tokenizer.encode(row)) if tokenizer is not None else len(row)
    if isinstance(row, Mapping):
        return sum(_tokens(v, tokenizer) for v in row.values() if isinstance(v, str | list))
    if isinstance(row, list):
        return sum(_tokens(v, tokenizer) for v in row if isinstance(v, Mapping))
    return 0


def _told(n: int | None) -> str:
    return "?" if n is None else f"{n:,}"


def _power(flops: float | None) -> str:
    return "?" if flops is None else f"{flops:.1e}"
