"""Samples as a page gets them: texts, rewards, and the colours of what is shown alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwright.errors import GraphError
from gradwright.models.tokenizers import TextCodec

from ...host.wire import Message, finite
from .measures import MEASURES, Measured, by_token, means, measured
from .order import alike, group_means, group_spreads, rows_of
from .words import pieces, text_of

if TYPE_CHECKING:
    from gradwright.align import Experience

Array = np.ndarray[Any, Any]
AT_ONCE = 4
"""Groups on a page."""
MOST_ROWS = 16
MOST_TOKENS = 400
"""Rows of a group, and tokens of a row, that are sent; a page says how many more there are."""


def page_of(
    seen: Experience,
    groups: Sequence[int],
    first: int,
    sort: str,
    shown: tuple[str, Measured | None],
    tokenizer: TextCodec | None,
) -> Message:
    """Return some groups of those that are asked for, with a number for each of their tokens."""
    name, found = shown
    spreads, levels, same = group_spreads(seen), group_means(seen), alike(seen)
    advantage = means(by_token(seen.advantages, seen.log_probs), seen.mask)
    errors = {failure.row: f"{failure.reward}: {failure.error}" for failure in seen.scores.failures}
    values: list[Array] = []
    sent = []
    for at in groups[first : first + AT_ONCE]:
        prompt = seen.rollout.prompts[at]
        n_prompt = len(prompt.tokens)
        rows, held = rows_of(seen, at, sort), []
        for row in rows[:MOST_ROWS]:
            tokens = seen.rollout.completions[row]
            words = pieces([*prompt.tokens, *tokens[:MOST_TOKENS]], n_prompt, tokenizer)
            values.append(_row_values(found, row, n_prompt - 1, len(words)))
            held.append({
                "row": row, "start": n_prompt - 1, "tokens": words,
                "length": len(tokens), "reason": seen.rollout.reasons[row],
                "reward": finite(float(seen.scores.total[row])),
                "parts": [finite(float(x)) for x in seen.scores.each[row]],
                "advantage": finite(float(advantage[row])), "error": errors.get(row, ""),
            })  # fmt: skip
        sent.append({
            "at": at, "prompt": text_of(prompt.text, prompt.tokens, tokenizer), "rows": held,
            "all": len(rows), "mean": finite(float(levels[at])),
            "spread": finite(float(spreads[at])), "alike": bool(same[at]),
        })  # fmt: skip
    content = {
        "kind": "rollouts.page", "number": seen.number, "measure": name, "first": first,
        "found": len(groups), "names": list(seen.scores.names), "groups": sent,
        "known": found is not None, "middle": 0.0 if found is None else found.middle,
        "limit": 0.0 if found is None else found.limit,
    }  # fmt: skip
    joined = np.concatenate(values) if values else np.empty(0)
    return content, [np.ascontiguousarray(joined, "<f4").tobytes()]


def _row_values(found: Measured | None, row: int, start: int, n: int) -> Array:
    """Return the numbers of the first tokens of a completion; NaN where there is none."""
    out = np.full(n, np.nan, np.float32)
    if found is not None:
        held = found.values[row, max(start, 0) : max(start + n, 0)]
        at = max(-start, 0)
        out[at : at + len(held)] = held
    return out


def check_token(mask: Array, row: int, place: int) -> None:
    """Raise GraphError for a place of bool[rows, T - 1] that has no token of a completion."""
    rows, width = mask.shape
    if not (0 <= row < rows and 0 <= place < width and mask[row, place]):
        raise GraphError(
            f"there is no token at place {place} of row {row}",
            need=f"one of a completion, in rows 0 to {rows - 1}",
        )


def token_of(
    seen: Experience, row: int, place: int, ratios: Array | None, tokenizer: TextCodec | None
) -> Message:
    """Return all that is known of one token: place t of a row is about token t + 1."""
    rollout, ids = seen.rollout, seen.ids[row]
    n_prompt = len(rollout.prompt(row).tokens)
    at = place + 1 - n_prompt
    words = pieces([*rollout.prompt(row).tokens, *rollout.completions[row]], n_prompt, tokenizer)
    of_token: dict[str, Array | None] = {
        "log π as it drew": seen.log_probs,
        "log π of the reference": seen.ref_log_probs,
        "value": seen.values,
        "return": seen.returns,
    }
    for name in MEASURES:
        found = measured(name, seen, ratios)
        of_token[name] = None if found is None else found.values
    facts = [
        [name, finite(float(values[row, place]))]
        for name, values in of_token.items()
        if values is not None
    ]
    content = {
        "kind": "rollouts.token", "number": seen.number, "step": seen.step, "row": row,
        "place": place, "at": at, "text": words[at] if 0 <= at < len(words) else "",
        "id": int(ids[place + 1]), "seed": int(rollout.seeds[row]), "facts": facts,
    }  # fmt: skip
    return content, []
