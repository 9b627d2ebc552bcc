"""evaluate: prompts in, answers out, each held against a verifier."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from ...errors import TrainingError
from ..model import LanguageModel
from ..rewards.judge import judge
from ..rewards.reward import Reward
from ..rollouts.rollout import Prompt, Rollout
from ..rollouts.sampler import complete
from .held_out import Answers, HeldOut

T = TypeVar("T")


def evaluate(
    model: LanguageModel,
    prompts: Sequence[Prompt],
    verifier: Reward,
    *,
    samples: int = 1,
    temperature: float = 1.0,
    max_new_tokens: int = 64,
    seed: int = 0,
    threshold: float = 1.0,
    must_end: bool = True,
    form: str | None = None,
    slices: Sequence[str] = (),
    **sampling: Any,
) -> HeldOut:
    """Return how a model answers prompts, greedily and drawn; it is left as it is.

    An answer is right where ``verifier`` gives it ``threshold`` or more and, with ``must_end``, it
    came to an end of its own. It is well-formed where it ended and, with ``form``, that regular
    expression matches all of its text: so learning a format is told apart from learning a task.

    Args:
        model: what answers.
        prompts: what is asked; none that anything was trained on.
        verifier: a reward, such as ``gw.align.ExactMatch("answer")``.
        samples: how many answers are drawn of each prompt beside the greedy one; 0 is none.
        temperature: of these.
        max_new_tokens: where an answer is cut.
        seed: prompt i draws with seeds from ``seed + i·samples`` on.
        threshold: from which reward on an answer is right.
        must_end: whether one that was cut is wrong whatever it says.
        form: what a well-formed answer looks like.
        slices: columns of the prompts to tell apart.
        **sampling: further settings of ``gw.align.GenerationSampler``, such as ``stop``.

    Raises TrainingError where there is no prompt, or a prompt lacks such a column.

    >>> import gradwright as gw
    >>> from gradwright.models import CharTokenizer, Decoder, DecoderConfig
    >>> codec = CharTokenizer("ab.")
    >>> model = Decoder(DecoderConfig(vocabulary=3, width=8, heads=2), tokenizer=codec, eos=2)
    >>> prompts = [gw.align.Prompt(codec.encode(t), t) for t in ("a", "ab", "ba")]
    >>> def short(prompts, completions, **columns):
    ...     return [float(len(c) < 3) for c in completions]
    >>> seen = gw.align.evaluate(model, prompts, short, max_new_tokens=4, form="a*")
    >>> list(seen.ways), seen.right("sampled").shape
    (['greedy', 'sampled'], (3, 1))
    """
    if not prompts:
        raise TrainingError("there is no prompt to evaluate on", need="one or more")
    for i, prompt in enumerate(prompts):
        if missing := [name for name in slices if name not in prompt.columns]:
            raise TrainingError(
                f"prompt {i} has no column {missing[0]!r}", need=", ".join(prompt.columns)
            )
    like = None if form is None else re.compile(form)
    sampling |= {"max_new_tokens": max_new_tokens}
    ways = {"greedy": complete(model, prompts, **sampling)}
    if samples:
        ways["sampled"] = complete(
            model, prompts, group=samples, seed=seed, temperature=temperature, **sampling
        )
    return HeldOut(
        tuple(prompt.text for prompt in prompts),
        {way: _judged(drawn, verifier, threshold, must_end, like) for way, drawn in ways.items()},
        {name: tuple(prompt.columns[name] for prompt in prompts) for name in slices},
    )


def _judged(
    drawn: Rollout, verifier: Reward, threshold: float, must_end: bool, like: re.Pattern[str] | None
) -> Answers:
    """Return the answers of a rollout with what is right of them."""
    scores, ended = judge([verifier], drawn).total, drawn.ended
    right = scores >= threshold  # of NaN, where nothing was said, this is false
    formed = [
        bool(e) and (like is None or like.fullmatch(text) is not None)
        for e, text in zip(ended, drawn.texts, strict=True)
    ]

    def by_prompt(values: Sequence[T]) -> tuple[tuple[T, ...], ...]:
        starts = range(0, len(values), drawn.group)
        return tuple(tuple(values[i : i + drawn.group]) for i in starts)

    return Answers(
        texts=by_prompt(drawn.texts),
        right=by_prompt((right & ended if must_end else right).tolist()),
        formed=by_prompt(formed),
        lengths=by_prompt(drawn.lengths.tolist()),
    )
