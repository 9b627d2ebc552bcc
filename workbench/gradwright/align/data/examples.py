"""Examples: users' data as tokens, checked row by row, with a report of what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import FeedError
from ...models.tokenizers import TextCodec
from ..rollouts.rollout import Prompt
from .codec import Codec, Encoder
from .columns import checked
from .making import Maker
from .records import records
from .report import DataReport
from .rows import Examples


def examples(
    data: Any,
    kind: str | None = None,
    tokenizer: TextCodec | None = None,
    codec: Codec | None = None,
    *,
    feeds: Sequence[str] = (),
    **settings: Any,
) -> Examples:
    """Return data in the columns of the field as rows of tokens, with a report.

    ==========  ==================================================================
    kind        columns
    ==========  ==================================================================
    text        text, messages, or conversations
    completion  prompt, completion
    pair        prompt, chosen, rejected, perhaps margin; or chosen, rejected alone,
                whose shared beginning is the prompt
    label       prompt, completion, label
    prompt      prompt, and any others, which rewards are given
    ==========  ==================================================================

    Columns hold texts, messages (dicts of role and content) or tokens. Prompt and completion are
    tokenised together, and completions end with eos. Messages go through a chat template, with a
    row's ``tools`` and ``chat_template_kwargs`` where it has these columns.

    Rows that nothing can be learnt from are dropped, long ones cut, and ``report`` says which.

    Args:
        data: a list of dicts, a dict of lists, a path of JSON lines, JSON, CSV or Parquet, a
            DataFrame, a Hugging Face dataset, one of ``gw.data``.
        kind: one of these; by default what the columns tell.
        tokenizer: what texts are tokens by.
        codec: settings.
        feeds: columns of numbers that a row feeds to placeholders of the model, such as
            ``["images"]``; trainers say so themselves.
        settings: fields of `Codec`, in place of those of ``codec``.

    Raises FeedError for rows that are not what their columns say, all of them in one, and for
    what is missing for all of them: a tokenizer, an eos, a chat template.

    >>> import gradwright as gw
    >>> tokenizer = gw.models.CharTokenizer("0123456789+=;")
    >>> data = [{"prompt": "2+2=", "chosen": "4", "rejected": "5"}]
    >>> found = gw.align.examples(data, "pair", tokenizer, eos=12)
    >>> found.chosen[0].tokens, found.chosen[0].n_prompt
    ([2, 10, 2, 11, 4, 12], 4)
    """
    encoder = Encoder(_codec(codec, settings), tokenizer)
    kind, rows = checked(records(data), kind, feeds)
    encoder.check(rows, completes=kind != "prompt")
    maker = Maker(encoder, kind)
    made = maker.made(rows)
    report = DataReport(len(rows), len(made), maker.notes)
    numbers = [row.number for row, _ in made]
    if kind == "prompt":
        return Examples(kind, report, numbers, prompts=[found for _, found in made])
    fed = {name: np.stack([row.feeds[name] for row, _ in made]) for name in feeds if made}
    if kind == "pair":
        margin = [row.margin for row, _ in made if row.margin is not None]
        return Examples(
            kind,
            report,
            numbers,
            chosen=[pair[0] for _, pair in made],
            rejected=[pair[1] for _, pair in made],
            margin=margin if len(margin) == len(made) > 0 else None,
            feeds=fed,
        )
    desirable = [row.label for row, _ in made] if kind == "label" else []
    found = [row for _, (row,) in made]
    return Examples(kind, report, numbers, rows=found, desirable=desirable, feeds=fed)


def prompts(
    data: Any,
    tokenizer: TextCodec | None = None,
    codec: Codec | None = None,
    *,
    feeds: Sequence[str] = (),
    **settings: Any,
) -> list[Prompt]:
    """Return the prompts of data, with their further columns; ``examples`` gives a report, too.

    Prompts longer than ``max_length`` and empty ones are left out. Arguments and errors are those
    of ``examples``.

    >>> import gradwright as gw
    >>> tokenizer = gw.models.CharTokenizer("0123456789+=")
    >>> gw.align.prompts([{"prompt": "2+2=", "answer": 4}], tokenizer)
    [Prompt(tokens=[2, 10, 2, 11], text='2+2=', columns={'answer': 4}, feeds={})]
    """
    return list(examples(data, "prompt", tokenizer, codec, feeds=feeds, **settings).prompts)


def _codec(codec: Codec | None, settings: dict[str, Any]) -> Codec:
    known = Codec.__dataclass_fields__
    if unknown := [name for name in settings if name not in known]:
        raise FeedError(f"a codec has no setting {unknown[0]!r}", need=", ".join(known))
    return replace(codec or Codec(), **settings)
