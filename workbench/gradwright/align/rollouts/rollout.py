"""Rollouts: completions that a policy has drawn for prompts, in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ...errors import FeedError
from ...models.decoder.rows import padded_rows

Array = np.ndarray[Any, Any]
SAID = ("log_probs", "entropy")
"""What may be told of each token of a completion."""


@dataclass(frozen=True)
class Prompt:
    """A prompt to draw completions for."""

    tokens: Sequence[int]
    text: str = ""
    """As the template gives it; empty without a tokenizer."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """What else the row of the data has: an answer, a label; rewards are given it by name."""
    feeds: Mapping[str, Any] = field(default_factory=dict)
    """What the row feeds to other placeholders of the model, such as an image."""


@dataclass(frozen=True)
class Rollout:
    """Completions of prompts: row i is one of prompt ``i // group``.

    >>> from gradwright.align import Prompt, Rollout
    >>> drawn = Rollout([Prompt([1, 2])], 2, [[3, 9], [4]], ["c", "d"], ["eos", "length"], [0, 1])
    >>> {name: rows.tolist() for name, rows in drawn.arrays().items()}
    {'ids': [[1, 2, 3, 9], [1, 2, 4, 0]], 'labels': [[-100, -100, 3, 9], [-100, -100, 4, -100]]}
    """

    prompts: Sequence[Prompt]
    group: int
    """How many completions there are of each prompt."""
    completions: Sequence[Sequence[int]]
    """Tokens of each row, with the one that ended it."""
    texts: Sequence[str]
    """What rewards read: completions without what ended them; empty without a tokenizer."""
    reasons: Sequence[str]
    """Why each row ended, as ``models.Completion`` has it: "eos", "stop", "length", "time"."""
    seeds: Sequence[int]
    seconds: float = 0.0
    """How long it took to draw them."""
    log_probs: Sequence[Sequence[float]] | None = None
    """Those of each token by what drew it, of the whole softmax at the temperature that log ratios
    are of; None has them measured."""
    entropy: Sequence[Sequence[float]] | None = None
    """Likewise, of the softmax that each token was drawn from."""

    def __post_init__(self) -> None:
        rows = len(self.prompts) * self.group
        for name in ("completions", "texts", "reasons", "seeds"):
            if len(getattr(self, name)) != rows:
                raise FeedError(
                    f"a rollout has {len(getattr(self, name))} {name}",
                    need=f"{rows}: {self.group} for each of {len(self.prompts)} prompts",
                )

    def __len__(self) -> int:
        return len(self.completions)

    def prompt(self, row: int) -> Prompt:
        """Return the prompt of a row."""
        return self.prompts[row // self.group]

    @property
    def ended(self) -> Array:
        """Whether each row came to an end of its own, and was not cut: bool[rows]."""
        return np.array([reason in ("eos", "stop", "grammar") for reason in self.reasons], bool)

    @property
    def lengths(self) -> Array:
        """How many tokens each completion has: i64[rows]."""
        return np.array([len(tokens) for tokens in self.completions], np.int64)

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of the data, with a value for each row.

        Raises FeedError where a prompt lacks one that the first has.
        """
        names = self.prompts[0].columns if self.prompts else ()
        for i, prompt in enumerate(self.prompts):
            if missing := [name for name in names if name not in prompt.columns]:
                raise FeedError(
                    f"prompt {i} has no column {missing[0]!r}", need="the columns of prompt 0"
                )
        rows = range(len(self))
        return {name: [self.prompt(row).columns[name] for row in rows] for name in names}

    def arrays(self) -> dict[str, Array]:
        """Return ``ids`` and ``labels``, i64[rows, T], padded on the right.

        Labels are -100 at prompts and padding; the token that ended a row is one that counts.
        """
        rows = range(len(self))
        whole = [[*self.prompt(row).tokens, *self.completions[row]] for row in rows]
        return padded_rows(whole, [len(self.prompt(row).tokens) for row in rows])

    def said(self, width: int) -> dict[str, Array]:
        """Return what is told of tokens, f32[rows, width − 1]: place t is about token t + 1."""
        found = {}
        for name in SAID:
            if (told := getattr(self, name)) is None:
                continue
            found[name] = held = np.zeros((len(self), width - 1), np.float32)
            for row, numbers in enumerate(told):
                begin = len(self.prompt(row).tokens) - 1
                held[row, begin : begin + len(numbers)] = numbers
        return found


class Sampler(Protocol):
    """Draws completions; what it draws is a function of weights, prompts and seeds alone."""

    def sample(self, prompts: Sequence[Prompt], group: int, seed: int) -> Rollout:
        """Return ``group`` completions of each prompt; row i draws with ``seed + i``."""
