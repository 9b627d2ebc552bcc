"""Rewards: what each completion of a rollout is worth, by one rule or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...errors import FeedError

Array = np.ndarray[Any, Any]

OWN = ("prompts", "completions", "prompt_ids", "completion_ids", "ended")
"""Columns that rewards are given of a rollout, whatever the data have."""
SHOWN = 8
"""How many rows a message names."""


class Reward(Protocol):
    """A rule that says what completions are worth; functions of the same arguments are rewards."""

    def __call__(
        self, prompts: Sequence[str], completions: Sequence[str], **columns: Sequence[Any]
    ) -> Any:
        """Return a number for each completion; None or NaN where the rule has nothing to say.

        ``columns`` are those of the data, ``prompt_ids`` and ``completion_ids``, the tokens of
        each, and ``ended``, whether it came to an end of its own and was not cut. A function is
        given those that it names, or all if it takes ``**columns``.
        """


@dataclass(frozen=True)
class Failure:
    """A row that a reward could not judge, and why."""

    reward: str
    row: int
    error: str


class RowsError(FeedError):
    """A reward could not judge some rows: ``values`` has NaN there, ``failed`` says why by row.

    >>> from gradwright.align.rewards.reward import RowsError
    >>> print(RowsError("tests", [1.0, float("nan")], {1: "took 2 s"}))
    the reward 'tests' could not judge 1 of 2 rows
      row 1: took 2 s
    """

    def __init__(self, reward: str, values: Sequence[float], failed: Mapping[int, str]) -> None:
        shown = [f"row {row}: {why}" for row, why in list(failed.items())[:SHOWN]]
        more = [f"and {len(failed) - SHOWN} more"] if len(failed) > SHOWN else []
        super().__init__(
            f"the reward {reward!r} could not judge {len(failed)} of {len(values)} rows",
            facts=[*shown, *more],
        )
        self.values, self.failed = values, failed


@dataclass(frozen=True)
class Scores:
    """What each reward gave each row, and their sum.

    >>> import numpy as np
    >>> from gradwright.align import Scores
    >>> scores = Scores(("exact",), np.array([[1.0], [0.0]]), np.array([1.0, 0.0]))
    >>> {name: column.tolist() for name, column in scores.by_name().items()}
    {'exact': [1.0, 0.0]}
    """

    names: tuple[str, ...]
    each: Array
    """f64[rows, rewards]; NaN where a reward had nothing to say."""
    total: Array
    """f64[rows]: the weighted sum of what was said; NaN where nothing was."""
    failures: tuple[Failure, ...] = ()
    facts: tuple[str, ...] = ()
    """What an eye on a training should see, such as that all rows have the same total."""
    composed: Array | None = None
    """f64[rows, terms]: a column for each reward as it was given; None where none is composed."""

    @property
    def terms(self) -> Array:
        """What weights weigh: f64[rows, terms]."""
        return self.each if self.composed is None else self.composed

    def by_name(self) -> dict[str, Array]:
        """Return a column for each reward."""
        return {name: self.each[:, i] for i, name in enumerate(self.names)}
