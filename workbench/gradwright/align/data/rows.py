"""Rows of tokens: a prompt and what stands behind it, and which of the tokens count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import FeedError
from ...models.decoder.rows import IGNORED
from ..rollouts.rollout import Prompt
from .report import DataReport

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class TokenRow:
    """Tokens of a row, of which the first ``n_prompt`` are its prompt.

    ``counts`` says of each token whether a loss is taken at it; without it, all behind the prompt.
    Raises FeedError for a prompt that is longer than the row, and for counts of another length.

    >>> from gradwright.align import TokenRow
    >>> row = TokenRow([5, 6, 7, 2], 2)
    >>> row.labels, row.cut(3).labels, row.cut(3, keep_end=True).labels
    ([-100, -100, 7, 2], [-100, -100, 7], [-100, 7, 2])
    """

    tokens: Sequence[int]
    n_prompt: int = 0
    counts: Sequence[bool] | None = None

    def __post_init__(self) -> None:
        n = len(self.tokens)
        if not 0 <= self.n_prompt <= n or len(self.counts or self.tokens) != n:
            raise FeedError(
                f"a row of {n} tokens has a prompt of {self.n_prompt}"
                + ("" if self.counts is None else f", and {len(self.counts)} that count or do not"),
                need="a prompt that is part of the row, and a bool for each token",
            )

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def labels(self) -> list[int]:
        """The tokens, and -100 where none counts."""
        if self.counts is None:
            return [IGNORED] * self.n_prompt + list(self.tokens[self.n_prompt :])
        return [t if c else IGNORED for t, c in zip(self.tokens, self.counts, strict=True)]

    @property
    def learns(self) -> bool:
        """Whether a token counts that another stands before, so that there is a loss."""
        return any(label != IGNORED for label in self.labels[1:])

    def cut(self, length: int, *, keep_end: bool = False) -> TokenRow:
        """Return the first ``length`` tokens, or the last ones."""
        first = max(0, len(self) - length) if keep_end else 0
        return self.part(first, first + length)

    def part(self, start: int, end: int) -> TokenRow:
        """Return the tokens from start to end as a row."""
        tokens = self.tokens[start:end]
        counts = None if self.counts is None else self.counts[start:end]
        return TokenRow(tokens, min(max(0, self.n_prompt - start), len(tokens)), counts)


@dataclass(frozen=True)
class Examples:
    """What data has become; which of the sequences are filled, its kind says.

    =================  =============================================================
    kind               what it has
    =================  =============================================================
    text, completion   ``rows``
    pair               ``chosen``, ``rejected``; ``margin`` where the data has it
    label              ``rows``, ``desirable``
    prompt             ``prompts``
    =================  =============================================================

    >>> import gradwright as gw
    >>> data = {"prompt": [[5], [6]], "completion": [[7], [8]], "label": [True, False]}
    >>> found = gw.align.examples(data, eos=2)
    >>> found, found.rows[1].tokens, found.desirable
    (<2 examples of the kind 'label'>, [6, 8, 2], [True, False])
    """

    kind: str
    report: DataReport
    numbers: Sequence[int]
    """Which row of the data each example is."""
    rows: Sequence[TokenRow] = ()
    chosen: Sequence[TokenRow] = ()
    rejected: Sequence[TokenRow] = ()
    margin: Sequence[float] | None = None
    desirable: Sequence[bool] = ()
    prompts: Sequence[Prompt] = ()
    feeds: Mapping[str, Array] = field(default_factory=dict)
    """What each example but a prompt feeds to placeholders of a model, [examples, ...] by name."""

    def __len__(self) -> int:
        return len(self.numbers)

    def __repr__(self) -> str:
        return f"<{len(self)} examples of the kind {self.kind!r}>"
