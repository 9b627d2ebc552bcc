"""Rewards: what each completion of a rollout is worth, by one rule or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]


class Reward(Protocol):
    """A rule that says what completions are worth; functions of the same arguments are rewards."""

    def __call__(
        self, prompts: Sequence[str], completions: Sequence[str], **columns: Sequence[Any]
    ) -> Any:
        """Return a number for each completion; None or NaN where the rule has nothing to say.

        ``columns`` are those of the data, and ``completion_ids``: the tokens of each.
        """


@dataclass(frozen=True)
class Failure:
    """A row that a reward could not judge, and why."""

    reward: str
    row: int
    error: str


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

    def by_name(self) -> dict[str, Array]:
        """Return a column for each reward."""
        return {name: self.each[:, i] for i, name in enumerate(self.names)}
