"""What a checkpoint keeps of a method and of experience: arrays, to go on from to the bit."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ...errors import TrainingError
from ...words.jsonable import from_json_array, json_array, to_json
from ..experience import Experience
from ..rewards.reward import Failure, Scores
from ..rollouts.rollout import Prompt, Rollout

Array = np.ndarray[Any, Any]
ALWAYS = ("ids", "labels", "advantages", "log_probs", "entropy")
MAYBE = ("ref_log_probs", "values", "returns", "token_rewards")
FEEDS = "feeds/"


def arrays_of(experience: Experience) -> dict[str, Array]:
    """Return experience as arrays; what columns hold that JSON has no word for, as its text."""
    rollout, scores = experience.rollout, experience.scores
    told = {
        "group": rollout.group,
        "prompts": [{"text": p.text, "columns": dict(p.columns)} for p in rollout.prompts],
        "texts": list(rollout.texts),
        "reasons": list(rollout.reasons),
        "names": list(scores.names),
        "failures": [asdict(failure) for failure in scores.failures],
        "facts": list(scores.facts),
    }
    found = {
        "text": json_array(told, default=str),
        "numbers": np.array([experience.number, experience.step]),
        "seconds": np.array(rollout.seconds),
        "seeds": np.array(rollout.seeds, np.uint64),
        "each": scores.each,
        "terms": scores.terms,
        "total": scores.total,
        **_ragged("prompts", [prompt.tokens for prompt in rollout.prompts]),
        **_ragged("completions", rollout.completions),
        **{name: getattr(experience, name) for name in ALWAYS},
    }
    for name in MAYBE:
        if (array := getattr(experience, name)) is not None:
            found[name] = array
    for name in rollout.prompts[0].feeds if rollout.prompts else ():
        found[FEEDS + name] = np.stack([np.asarray(p.feeds[name]) for p in rollout.prompts])
    return found


def experience_of(state: Mapping[str, Any]) -> Experience:
    """Return the experience of what ``arrays_of`` returned; raises TrainingError for other."""
    try:
        told = from_json_array(state["text"])
        fed = {k.removeprefix(FEEDS): v for k, v in state.items() if k.startswith(FEEDS)}
        prompts = [
            Prompt(tokens, held["text"], held["columns"], {k: v[i] for k, v in fed.items()})
            for i, (tokens, held) in enumerate(
                zip(_rows("prompts", state), told["prompts"], strict=True)
            )
        ]
        rollout = Rollout(
            prompts,
            told["group"],
            _rows("completions", state),
            told["texts"],
            told["reasons"],
            [int(seed) for seed in state["seeds"]],
            float(state["seconds"]),
        )
        failures = tuple(Failure(**failure) for failure in told["failures"])
        each, total, terms = (np.asarray(state[name]) for name in ("each", "total", "terms"))
        scores = Scores(tuple(told["names"]), each, total, failures, tuple(told["facts"]), terms)
        number, step = map(int, state["numbers"])
        held = {n: np.asarray(state[n]) for n in (*ALWAYS, *MAYBE) if n in state}
        rows, width = held["ids"].shape
        for name, array in held.items():
            if len(array) != rows or (array.ndim == 2 and width - array.shape[1] not in (0, 1)):
                raise ValueError(f"{name} is {array.dtype}{list(array.shape)}")
        return Experience(number, step, rollout, scores, **held)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrainingError(f"this is no state of a rollout: {error}") from error


def check_method(method: Any, state: Mapping[str, Any]) -> None:
    """Refuse state of another method, or of other settings of it."""
    own = to_json(method)
    try:
        came = from_json_array(state["method"])
        names = sorted(own.keys() | came.keys())
    except (KeyError, ValueError, AttributeError, TypeError):
        raise TrainingError("this is no state of a method", need="'method' as JSON") from None
    other = [name for name in names if own.get(name) != came.get(name)]
    if other:
        raise TrainingError(
            "this training was by another method",
            facts=[f"{name}: {came.get(name)!r}, not {own.get(name)!r}" for name in other],
            hint="the same settings as before, or a new training from the weights alone",
        )


def _ragged(name: str, rows: Sequence[Sequence[int]]) -> dict[str, Array]:
    lengths = [len(row) for row in rows]
    tokens = [token for row in rows for token in row]
    return {f"{name}/tokens": np.array(tokens, np.int64), f"{name}/lengths": np.array(lengths)}


def _rows(name: str, state: Mapping[str, Any]) -> list[list[int]]:
    tokens = [int(t) for t in state[f"{name}/tokens"]]
    ends = np.cumsum([0, *state[f"{name}/lengths"]])
    return [tokens[start:end] for start, end in itertools.pairwise(ends)]
