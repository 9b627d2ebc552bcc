"""Drawing: prompts become completions, scores, and what policy and reference say of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...graph import Graph, Tensor
from ...models.decoder.rows import IGNORED
from ...session import Session
from ..experience import Experience
from ..model import LanguageModel
from ..rewards.judge import Rewards, judge, named
from ..rewards.reward import Scores
from ..rollouts.rollout import SAID, Prompt, Rollout, Sampler
from .looks import Looks
from .valuation import Valuation

if TYPE_CHECKING:
    from ..methods.sampled import Sampled

Array = np.ndarray[Any, Any]
EQUAL = 1e-8
"""Rewards that differ by less are the same."""
SAME = 1e-4
"""Log-probabilities of generation and training that differ by less are those of one policy."""
LOOKED_AT = 8
"""Rows of a batch whose log-probabilities are computed once more, at the most."""
Further = Callable[[int], Sequence[Prompt]]
"""Gives as many prompts again, for the n-th time."""


@dataclass(frozen=True)
class Refills:
    """How groups of equal rewards were replaced."""

    times: int = 0
    left_out: int = 0
    """How many such groups were left out."""
    of: int = 0
    """How many groups were drawn in all."""


class Drawing:
    """What makes experience of prompts; it changes nothing, and draws the same by the same seed.

    ``told`` are the tensors that are measured once when a rollout is drawn, by the names that
    ``Experience`` has for them; ``lowered`` gives what stands for them in a step.
    """

    def __init__(
        self,
        model: LanguageModel,
        method: Sampled,
        sampler: Sampler,
        session: Session,
        told: Mapping[str, Tensor],
        lowered: Callable[[Sequence[Tensor]], Sequence[Tensor]],
    ) -> None:
        self.model, self.method, self.sampler = model, method, sampler
        self._session, self._lowered, self.told = session, lowered, dict(told)
        self.looks = Looks(session)
        """Log-probabilities of a few rows by the weights as they are."""
        self.valuation: Valuation | None = None
        """What makes advantages of scores, once there are any."""
        self.rows_at_once: int | None = None
        """How many rows are measured together: those of a batch."""
        self.reward_seconds: float | None = None
        """How long a reward may take for a rollout."""
        self.on_reward_error = "raise"
        """What becomes of rows that a reward cannot judge."""

    def drawn(
        self,
        prompts: Sequence[Prompt],
        rewards: Rewards,
        seeds: Iterator[int],
        *,
        further: Further | None = None,
    ) -> tuple[Rollout, Scores, Refills]:
        """Return completions of prompts, and what they are worth.

        With ``further``, groups of equal rewards are replaced as long as the method says. ``seeds``
        has one for each call of the sampler.
        """
        n, method = len(prompts), self.method
        drawn = self._judged(prompts, rewards, next(seeds))
        if not method.refills or further is None:
            return *drawn, Refills(of=n)
        groups = _split(*drawn)
        told: list[_Group] = []
        equal: list[_Group] = []
        for times in itertools.count():
            for group in groups:
                (equal if group.is_equal else told).append(group)
            if len(told) >= n or times == method.refills:
                break
            groups = _split(*self._judged(further(times), rewards, next(seeds)))
        refills = Refills(times, len(equal), of=n * (times + 1))
        return *_joined((told + equal)[:n], method.num_generations), refills

    def _judged(
        self, prompts: Sequence[Prompt], rewards: Rewards, seed: int
    ) -> tuple[Rollout, Scores]:
        rollout = self.sampler.sample(prompts, self.method.num_generations, seed)
        weights = self.method.reward_weights
        shaped = self.method.shaped(rewards)
        if weights is not None:  # what a method adds counts 1
            weights = (*weights, *[1.0] * (len(named(shaped)) - len(named(rewards))))
        return rollout, judge(
            shaped,
            rollout,
            weights=weights,
            limit_seconds=self.reward_seconds,
            on_error=self.on_reward_error,
        )

    def experience(self, rollout: Rollout, scores: Scores, *, number: int, step: int) -> Experience:
        """Return a rollout with all that is known of its tokens, by the weights as they are."""
        ids, labels = _padded(rollout, self.method.max_completion_length)
        if self.method.mask_truncated_completions:
            labels[~rollout.ended] = IGNORED
        mask = labels[:, 1:] != IGNORED
        feeds = {self.model.ids: ids, self.model.labels: labels, **fed(self.model.graph, rollout)}
        said = self._known(rollout, feeds, mask)
        if rest := [name for name in self.told if name not in said]:
            said |= self._said(feeds, rest)
        n_terms = scores.terms.shape[1]
        if self.valuation is None or self.valuation.n_terms != n_terms:
            self.valuation = Valuation(self.method, n_terms)
        worth = self.valuation.of(scores, {"ended": rollout.ended, "mask": mask, **said})
        return Experience(number, step, rollout, scores, ids, labels, **said, **worth)

    def _known(
        self, rollout: Rollout, feeds: Mapping[Tensor, Array], mask: Array
    ) -> dict[str, Array]:
        """Return what has been told with a rollout, where the graph says the same of a few rows.

        Generation computes what training does, in other products and another order. In fewer bits
        nothing is the same.
        """
        told = {n: np.where(mask, x, 0) for n, x in rollout.said(mask.shape[1] + 1).items()}
        tensor = self.told["log_probs"]
        if "log_probs" not in told or self._lowered([tensor])[0] is not tensor:
            return {}
        few = looked_at(len(mask))
        now = self.looks.at(tensor, {t: a[few] for t, a in feeds.items()})
        is_same = np.abs(now - told["log_probs"][few]).max(initial=0) <= SAME
        return told if is_same else {}

    def _said(self, feeds: Mapping[Tensor, Array], names: Sequence[str]) -> dict[str, Array]:
        """Return what is measured of all rows, as many at a time as a step has."""
        rows, at_once = len(next(iter(feeds.values()))), self.rows_at_once or 1 << 62
        wanted = [self.told[name] for name in names]
        told = dict(zip(names, self._lowered(wanted), strict=True))
        parts = [
            self._session.run(told, {t: a[i : i + at_once] for t, a in feeds.items()})
            for i in range(0, rows, at_once)
        ]
        return {n: np.concatenate([part[n] for part in parts]) for n in names}


@dataclass(frozen=True)
class _Group:
    """The completions of one prompt, and what they are worth."""

    rollout: Rollout
    scores: Scores

    @property
    def is_equal(self) -> bool:
        return bool(equal_groups(self.scores.total, self.rollout.group).all())


def equal_groups(total: Array, group: int) -> Array:
    """Return whether the rewards of each group are all equal: bool[groups].

    >>> import numpy as np
    >>> equal_groups(np.array([1.0, 1.0, 0.0, 1.0]), 2).tolist()
    [True, False]
    """
    rows = total.reshape(-1, group)
    said = ~np.isnan(rows)
    most, least = np.where(said, rows, -np.inf).max(1), np.where(said, rows, np.inf).min(1)
    return np.asarray(most - least <= EQUAL)


def _split(rollout: Rollout, scores: Scores) -> list[_Group]:
    """Return the groups of a rollout, of which the first has its time and its failures."""
    found, n = [], rollout.group
    for i, prompt in enumerate(rollout.prompts):
        rows = slice(i * n, (i + 1) * n)
        drawn = Rollout(
            [prompt],
            n,
            rollout.completions[rows],
            rollout.texts[rows],
            rollout.reasons[rows],
            rollout.seeds[rows],
            rollout.seconds * (i == 0),
            *(told and told[rows] for told in (rollout.log_probs, rollout.entropy)),
        )
        failures = tuple(
            replace(one, row=one.row - rows.start)
            for one in scores.failures
            if rows.start <= one.row < rows.stop
        )
        judged = replace(
            scores,
            each=scores.each[rows],
            total=scores.total[rows],
            failures=failures,
            composed=scores.terms[rows],
        )
        found.append(_Group(drawn, judged))
    return found


def _joined(groups: Sequence[_Group], n: int) -> tuple[Rollout, Scores]:
    """Return groups as one rollout."""
    parts = [group.rollout for group in groups]
    rollout = Rollout(
        [part.prompts[0] for part in parts],
        n,
        [row for part in parts for row in part.completions],
        [row for part in parts for row in part.texts],
        [row for part in parts for row in part.reasons],
        [row for part in parts for row in part.seeds],
        sum(part.seconds for part in parts),
        *(_rows([getattr(part, name) for part in parts]) for name in SAID),
    )
    told = [group.scores for group in groups]
    failures = tuple(
        replace(one, row=one.row + i * n) for i, each in enumerate(told) for one in each.failures
    )
    each, total, terms = (
        np.concatenate([getattr(s, name) for s in told]) for name in ("each", "total", "terms")
    )
    facts = tuple(dict.fromkeys(fact for scores in told for fact in scores.facts))
    return rollout, Scores(told[0].names, each, total, failures, facts, terms)


def _rows(parts: Sequence[Sequence[Sequence[float]] | None]) -> list[Sequence[float]] | None:
    """Return the rows of all parts, where each of them has some."""
    told = [part for part in parts if part is not None]
    return [row for part in told for row in part] if len(told) == len(parts) else None


def _padded(rollout: Rollout, longest: int) -> tuple[Array, Array]:
    """Return ids and labels in one of few widths, within what the longest completion needs."""
    made = rollout.arrays()
    width = made["ids"].shape[1]
    most = max(len(prompt.tokens) for prompt in rollout.prompts) + longest
    more = [(0, 0), (0, max(0, min(rounded(width), most) - width))]
    return np.pad(made["ids"], more), np.pad(made["labels"], more, constant_values=IGNORED)


def looked_at(n: int) -> slice:
    """Return the first rows of a batch that are computed once more: a sixteenth, two to eight.

    >>> looked_at(32), looked_at(512)
    (slice(None, 2, None), slice(None, 8, None))
    """
    return slice(min(max(n // 16, 2), LOOKED_AT))


def rounded(n: int) -> int:
    """Return a width of at most an eighth more, of which there are eight up to each double.

    >>> [rounded(n) for n in (7, 15, 17, 100, 1000)]
    [7, 15, 18, 104, 1024]
    """
    step = 1 << max(0, n.bit_length() - 4)
    return -(-n // step) * step


def fed(graph: Graph, rollout: Rollout) -> dict[Tensor, Array]:
    """Return what prompts feed to other placeholders, such as images: a row for each completion."""
    names = rollout.prompts[0].feeds if rollout.prompts else ()
    found = {}
    for name in names:
        rows = np.stack([np.asarray(prompt.feeds[name]) for prompt in rollout.prompts])
        found[graph[name]] = np.repeat(rows, rollout.group, axis=0)
    return found
