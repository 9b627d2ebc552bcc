"""Rules: rewards that are settings, and what is made of several: sums, products, gates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...errors import FeedError, GraphError
from ...words.jsonable import jsonable
from ...words.spelling import meant
from .calling import called
from .reward import Reward

Array = np.ndarray[Any, Any]
Texts = Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A reward that is a frozen setting: it can be saved as JSON, added, weighted and multiplied.

    ``name`` is that of its curve; without one it is made of the class's.

    >>> import gradwright as gw
    >>> rule = gw.align.ExactMatch() + 0.1 * gw.align.Length(target=2)
    >>> rule([""], ["42"], completion_ids=[[4, 2]], answer=["42"])
    [1.1]
    """

    name: str = ""
    limited: ClassVar[bool] = False
    """Whether it keeps to a limit of time of its own, so that nobody else has to end it."""

    def __call__(self, prompts: Texts, completions: Texts, **columns: Sequence[Any]) -> Any:
        """Return a number for each completion, NaN where there is nothing to say."""
        raise NotImplementedError

    def __add__(self, other: Reward) -> RewardSum:
        return RewardSum((*_terms(self), *_terms(other)))

    def __radd__(self, other: Reward) -> RewardSum:
        return RewardSum((*_terms(other), *_terms(self)))

    def __sub__(self, other: Reward) -> RewardSum:
        return self + Weighted(other, -1.0)

    def __mul__(self, other: Any) -> Rule:
        if isinstance(other, int | float):
            return Weighted(self, float(other))
        return RewardProduct((self, other))

    def __rmul__(self, other: Any) -> Rule:
        if isinstance(other, int | float):
            return Weighted(self, float(other))
        return RewardProduct((other, self))


def name_of(reward: Reward) -> str:
    """Return what the curve of a reward is called: its name, or its class's in small letters.

    >>> import gradwright as gw
    >>> from gradwright.align.rewards.rule import name_of
    >>> name_of(0.5 * gw.align.ExactMatch()), name_of(gw.align.ExactMatch(name="right"))
    ('exact_match', 'right')
    """
    if isinstance(reward, Weighted) and not reward.name:
        return name_of(reward.reward)
    if isinstance(reward, Rule):
        return reward.name or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(reward).__name__).lower()
    return str(getattr(reward, "__name__", type(reward).__name__)).strip("<>")


def column_of(columns: Mapping[str, Any], name: str, rows: int, asks: Rule) -> Sequence[Any]:
    """Return a column that a rule asks for; raises FeedError where there is none of so many rows.

    >>> import gradwright as gw
    >>> from gradwright.align.rewards.rule import column_of
    >>> column_of({"answer": ["42"]}, "answer", 1, gw.align.ExactMatch())
    ['42']
    """
    if name not in columns:
        close = meant(name, list(columns))
        raise FeedError(
            f"{name_of(asks)!r} asks for the column {name!r}, which is not there",
            facts=["columns: " + (", ".join(sorted(columns)) or "none")],
            hint=f"did you mean {close!r}?" if close else "",
        )
    held: Sequence[Any] = columns[name]
    if len(held) != rows:
        raise FeedError(f"the column {name!r} has {len(held)} values", need=f"{rows}, one a row")
    return held


@dataclass(frozen=True)
class Composed(Rule):
    """A rule that is made of others, each of which keeps a curve of its own."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not self.parts:
            raise GraphError(f"{name} of nothing", need="one reward or more")
        for part in self.parts:
            if not callable(part):
                raise GraphError(
                    f"{name} has the part {part!r}", need="rewards: rules or functions"
                )

    @property
    def parts(self) -> tuple[Reward, ...]:
        """What it is made of."""
        raise NotImplementedError

    def combined(self, values: Sequence[Array]) -> Array:
        """Return its numbers, f64[rows], of those of its parts; NaN is nothing to say."""
        raise NotImplementedError

    def __call__(self, prompts: Texts, completions: Texts, **columns: Sequence[Any]) -> Any:
        given = {"prompts": prompts, "completions": completions, **columns}
        values = [called(part, name_of(part), given) for part in self.parts]
        return self.combined(values).tolist()


@jsonable
@dataclass(frozen=True)
class Weighted(Composed):
    """A reward times a number: weight·r; ``0.5 * reward`` is short for it.

    >>> import gradwright as gw
    >>> gw.align.Weighted(gw.align.ExactMatch(), 0.5)([""], ["a"], answer=["a"])
    [0.5]
    """

    reward: Reward
    weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.isfinite(self.weight):
            raise GraphError(f"the weight {self.weight} makes no sense", need="a finite number")

    @property
    def parts(self) -> tuple[Reward, ...]:
        return (self.reward,)

    def combined(self, values: Sequence[Array]) -> Array:
        return values[0] * self.weight


@dataclass(frozen=True)
class _Several(Composed):
    """A rule that is made of any number of others."""

    rewards: tuple[Reward, ...]

    @property
    def parts(self) -> tuple[Reward, ...]:
        return self.rewards


@jsonable
@dataclass(frozen=True)
class RewardSum(_Several):
    """The sum of what rewards say; NaN where none of them says anything. ``a + b`` makes one.

    >>> import gradwright as gw
    >>> both = gw.align.ExactMatch() + gw.align.Format("<a>", "</a>")
    >>> both([""], ["42"], answer=["42"])
    [1.0]
    """

    def combined(self, values: Sequence[Array]) -> Array:
        return said_sum(np.stack(values, -1))


@jsonable
@dataclass(frozen=True)
class RewardProduct(_Several):
    """The product of what rewards say; NaN where one says nothing. ``a * b`` makes one.

    >>> import gradwright as gw
    >>> short = gw.align.ExactMatch() * gw.align.Length(target=4)
    >>> short([""], ["42"], completion_ids=[[4, 2]], answer=["42"])
    [0.5]
    """

    def combined(self, values: Sequence[Array]) -> Array:
        return np.asarray(np.prod(np.stack(values, -1), -1))


@jsonable
@dataclass(frozen=True)
class Gate(Composed):
    """A reward that counts where a condition is met: r if c >= threshold, else ``otherwise``.

    Both are asked of all rows, so that both curves are whole. NaN where the condition says nothing.

    >>> import gradwright as gw
    >>> gate = gw.align.Gate(gw.align.Pattern("[0-9]+"), gw.align.ExactMatch(), otherwise=-1.0)
    >>> gate(["", "", ""], ["42", "41", "forty"], answer=["42"] * 3)
    [1.0, 0.0, -1.0]
    """

    condition: Reward
    reward: Reward
    threshold: float = 0.5
    otherwise: float = 0.0

    @property
    def parts(self) -> tuple[Reward, ...]:
        return self.condition, self.reward

    def combined(self, values: Sequence[Array]) -> Array:
        condition, reward = values
        found = np.where(condition >= self.threshold, reward, self.otherwise)
        return np.where(np.isnan(condition), np.nan, found)


def said_sum(values: Array) -> Array:
    """Return sums over the last axis of what is not NaN; NaN where nothing is said.

    >>> import numpy as np
    >>> from gradwright.align.rewards.rule import said_sum
    >>> said_sum(np.array([[1.0, np.nan], [np.nan, np.nan]])).tolist()
    [1.0, nan]
    """
    return np.where(np.isnan(values).all(-1), np.nan, np.nansum(values, -1))


def _terms(reward: Reward) -> tuple[Reward, ...]:
    return reward.rewards if isinstance(reward, RewardSum) and not reward.name else (reward,)
