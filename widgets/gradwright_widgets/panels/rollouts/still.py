"""Rollouts for readers without JavaScript: curves as a picture, rows as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gradwright.models.tokenizers import TextCodec

from ...still.tables import curve_svg, html_table
from .history import curves
from .measures import by_token, means
from .words import text_of

if TYPE_CHECKING:
    from gradwright.align import Experience

MOST = 200
"""Rows of a table."""
HEAD = ("row", "prompt", "completion", "reward", "advantage", "tokens", "ended by")


def still_curves(history: Mapping[str, Sequence[float]]) -> str:
    """Return facts of rollouts as curves, "" before the second; rewards share a chart."""
    found = {name: curve for name, curve in curves(history).items() if len(curve) > 1}
    return curve_svg(
        (
            "rewards" if name.startswith("reward") else name,
            name,
            [float(n) for n in range(len(curve))],
            curve.tolist(),
        )
        for name, curve in found.items()
    )


def still_rows(seen: Experience, groups: Sequence[int], tokenizer: TextCodec | None) -> str:
    """Return the rows of some groups as an HTML table."""
    rollout, rows = seen.rollout, []
    advantage = means(by_token(seen.advantages, seen.log_probs), seen.mask)
    listed = [at * rollout.group + k for at in groups for k in range(rollout.group)]
    for row in listed[:MOST]:
        prompt, tokens = rollout.prompt(row), rollout.completions[row]
        rows.append([
            str(row), text_of(prompt.text, prompt.tokens, tokenizer),
            text_of(rollout.texts[row], tokens, tokenizer), f"{seen.scores.total[row]:.4g}",
            f"{advantage[row]:.4g}", f"{len(tokens):,}", rollout.reasons[row],
        ])  # fmt: skip
    if len(listed) > len(rows):
        rows.append([f"{len(listed) - len(rows):,} more", *[""] * (len(HEAD) - 1)])
    return html_table(HEAD, rows)
