"""Sampling: completions of prompts, in groups, by the weights of a model as they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...errors import FeedError, GraphError
from ...models.completion import Completion, Stops
from ...models.generation import Generation
from ...models.sampling import (
    Greedy,
    MinP,
    RepetitionPenalty,
    Strategy,
    Temperature,
    TopK,
    TopP,
    in_order,
)
from ..model import LanguageModel
from .rollout import SAID, Prompt, Rollout

Array = np.ndarray[Any, Any]
_KEPT = "_generations"
"""The attribute of a model that keeps what generates, which holds the model itself."""


class Progress(NamedTuple):
    """How far a rollout has come."""

    ended: int
    """How many rows have ended."""
    rows: int
    """How many there are."""
    tokens: int
    """How many tokens have been drawn."""
    seconds: float

    @classmethod
    def of(cls, rows: Sequence[Completion], n: int, seconds: float) -> Progress:
        """Return how far the rows that have begun have come, of ``n`` in all."""
        ended = sum([row.reason is not None for row in rows])
        return cls(ended, n, sum([len(row.tokens) for row in rows]), seconds)


class GenerationSampler:
    """Draws completions from a model by its own generation, from the weights that train.

    Nothing is copied: each rollout begins by taking over what has changed in ``model.graph``, its
    adapters too. Row i of a call draws with ``seed + i``, whichever rows run beside it.

    Args:
        model: what draws.
        max_new_tokens: after how many tokens a row is cut.
        temperature: of the softmax; 0 takes the likeliest token, and draws nothing.
        top_k: how many of the likeliest tokens may come; 0 is all.
        top_p: what probability those that may come have together, at the least; 1 is all.
        min_p: share of the likeliest token's probability that a token needs; 0 is none.
        repetition_penalty: what logits of tokens that were there already are divided by.
        rules: strategies beside these, such as ``gw.models.Regex``.
        stop: texts that appear in a completion and tokens that come, which end it.
        rows_at_once: how many rows run together, whole groups; more take turns.
        said_at: the temperature at which rollouts tell log-probabilities and entropies, as the
            method that trains on them has it; by default they do not, and are measured.
        session: settings of the session of the generation; ``deterministic=True`` is one if it is
            not given otherwise, so that the same call draws the same again, to the bit.

    Whatever ``watchers`` raise ends a rollout after the token that was drawn last, as Ctrl-C does.
    Nothing is lost by that: a sampler has no state of its own. Raises GraphError for settings that
    make no sense, FeedError for prompts that are empty or too long.

    >>> from gradwright.align import GenerationSampler, Prompt
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    >>> sampler = GenerationSampler(model, max_new_tokens=3)
    >>> rollout = sampler.sample([Prompt([1, 2]), Prompt([3])], 2, seed=7)
    >>> len(rollout), rollout.seeds, rollout.lengths.tolist(), rollout.reasons[0]
    (4, [7, 8, 9, 10], [3, 3, 3, 3], 'length')
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        max_new_tokens: int = 256,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        rules: Sequence[Strategy] = (),
        stop: Stops = (),
        rows_at_once: int = 512,
        said_at: float | None = None,
        session: Mapping[str, Any] | None = None,
    ) -> None:
        for what, n in (("max_new_tokens", max_new_tokens), ("rows_at_once", rows_at_once)):
            if not isinstance(n, int) or n < 1:
                raise GraphError(f"{what} is {n!r}", need="an int >= 1")
        self.model, self.max_new_tokens, self.rows_at_once = model, max_new_tokens, rows_at_once
        self.stop, self.session = stop, {"deterministic": True, **(session or {})}
        self.said_at = said_at
        self.sampling = strategies(temperature, top_k, top_p, min_p, repetition_penalty, rules)
        self.watchers: list[Callable[[Progress], None]] = []
        """Called after each token of the rows that run together."""

    @property
    def generation(self) -> Generation:
        """What generates: all samplers of a model with the same session share it."""
        return _generation(self.model, self.session)

    def sample(self, prompts: Sequence[Prompt], group: int, seed: int) -> Rollout:
        """Return ``group`` completions of each prompt; row i draws with ``seed + i``."""
        if not prompts:
            raise FeedError("there is no prompt", need="one or more")
        if not isinstance(group, int) or group < 1:
            raise GraphError(f"a group of {group!r}", need="an int >= 1: completions of a prompt")
        began, generation = time.perf_counter(), self.generation
        feeds, n_rows = _feeds(prompts), len(prompts) * group
        # Positions that turn by how long a row is were others when its first tokens were drawn.
        said_at = self.said_at if generation.reread is None else None
        rows: list[Completion] = []
        for part in _parts(len(prompts), max(1, self.rows_at_once // group)):
            run, steps = generation.begin(
                [prompts[i].tokens for i in part],
                self.max_new_tokens,
                sampling=self.sampling,
                seed=seed + part.start * group,
                stop=self.stop,
                feeds={name: each[part.start : part.stop] for name, each in feeds.items()},
                group=group,
                said_at=said_at,
            )
            rows += run
            for _ in steps:
                if self.watchers:
                    self._tell(Progress.of(rows, n_rows, time.perf_counter() - began))
        said = () if said_at is None else ([getattr(row, n) for row in rows] for n in SAID)
        return Rollout(
            prompts,
            group,
            [row.tokens for row in rows],
            [row.text for row in rows],
            [str(row.reason) for row in rows],
            [row.seed for row in rows],
            time.perf_counter() - began,
            *said,
        )

    def _tell(self, progress: Progress) -> None:
        for watch in self.watchers:
            watch(progress)


def complete(
    model: LanguageModel,
    prompts: Sequence[Prompt],
    *,
    group: int = 1,
    seed: int = 0,
    temperature: float = 0.0,
    **settings: Any,
) -> Rollout:
    """Return completions of prompts, greedy ones or drawn, as evaluations want them.

    ``settings`` are those of ``GenerationSampler``; its errors are raised.

    >>> from gradwright.align import Prompt, complete
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    >>> greedy = complete(model, [Prompt([1, 2])], max_new_tokens=4)
    >>> drawn = complete(model, [Prompt([1, 2])], group=3, temperature=1.0, max_new_tokens=4)
    >>> len(greedy), len(drawn)
    (1, 3)
    """
    return GenerationSampler(model, temperature=temperature, **settings).sample(
        prompts, group, seed
    )


def strategies(
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    repetition_penalty: float,
    rules: Sequence[Strategy] = (),
) -> tuple[Strategy, ...]:
    """Return the strategies that settings of the field stand for; those that do nothing are none.

    >>> from gradwright.align.rollouts.sampler import strategies
    >>> strategies(0.7, 5, 1.0, 0.0, 1.0), strategies(0.0, 5, 1.0, 0.0, 1.0)
    ((Temperature(temperature=0.7), TopK(k=5)), (Greedy(),))
    """
    listed: list[Strategy] = list(rules)
    if repetition_penalty != 1:
        listed.append(RepetitionPenalty(repetition_penalty))
    if temperature == 0:
        return in_order([*listed, Greedy()])
    if temperature != 1:
        listed.append(Temperature(temperature))
    if top_k != 0:
        listed.append(TopK(top_k))
    if top_p != 1:
        listed.append(TopP(top_p))
    if min_p != 0:
        listed.append(MinP(min_p))
    return in_order(listed)


def _generation(model: LanguageModel, session: Mapping[str, Any]) -> Generation:
    """Return the generation that all samplers of a model share, with its plans.

    Another one is made after variables have come or gone, as those of adapters do.
    """
    held: dict[str, tuple[tuple[str, ...], Generation]] = vars(model).setdefault(_KEPT, {})
    key, stamp = repr(sorted(session.items())), tuple(v.name for v in model.graph.variables)
    if key not in held or held[key][0] != stamp:
        held[key] = stamp, model.generation(**session)
    return held[key][1]


def _feeds(prompts: Sequence[Prompt]) -> dict[str, Array]:
    """Return what prompts feed, an array of all for each name."""
    names = prompts[0].feeds.keys()
    for i, prompt in enumerate(prompts):
        if prompt.feeds.keys() != names:
            raise FeedError(
                f"prompt {i} feeds {sorted(prompt.feeds)}", need=f"{sorted(names)}, as prompt 0"
            )
    return {name: np.stack([np.asarray(p.feeds[name]) for p in prompts]) for name in names}


def _parts(n: int, at_once: int) -> Iterator[range]:
    """Yield rows that run together, parts as equal as they can be."""
    count = -(-n // at_once)
    bounds = [n * i // count for i in range(count + 1)]
    for start, stop in pairwise(bounds):
        yield range(start, stop)
