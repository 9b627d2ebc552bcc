"""Examples: users' data as tokens, checked row by row, with a report of what became of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...errors import FeedError, GradwrightError
from ...models.tokenizers import TextCodec
from ..rollouts.rollout import Prompt
from .codec import Codec, Encoder
from .columns import Row, checked
from .records import records
from .report import DataReport, Note, Problems
from .rows import Examples, TokenRow

EMPTY = "empty completion"
SAME = "chosen and rejected are the same"
UNLEARNT = "no token left to learn"
MERGED = "tokens of prompt and completion merge"
ENDLESS = "does not end with eos"


def examples(
    data: Any,
    kind: str | None = None,
    tokenizer: TextCodec | None = None,
    codec: Codec | None = None,
    **settings: Any,
) -> Examples:
    """Return data in the columns of the field as rows of tokens, with a report.

    ==========  ==================================================================
    kind        columns
    ==========  ==================================================================
    text        text, or messages
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
    kind, rows = checked(records(data), kind)
    encoder.check(rows, completes=kind != "prompt")
    made, notes = _made(rows, _makers(encoder)[kind])
    report = DataReport(len(rows), len(made), notes)
    numbers = [row.number for row, _ in made]
    if kind == "prompt":
        return Examples(kind, report, numbers, prompts=[found for _, found in made])
    if kind == "pair":
        margin = [row.margin for row, _ in made if row.margin is not None]
        return Examples(
            kind,
            report,
            numbers,
            chosen=[pair[0] for _, pair in made],
            rejected=[pair[1] for _, pair in made],
            margin=margin if len(margin) == len(made) > 0 else None,
        )
    desirable = [row.label for row, _ in made] if kind == "label" else []
    return Examples(kind, report, numbers, rows=[r for _, (r,) in made], desirable=desirable)


def prompts(
    data: Any,
    tokenizer: TextCodec | None = None,
    codec: Codec | None = None,
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
    return list(examples(data, "prompt", tokenizer, codec, **settings).prompts)


Noted = Callable[[str, str], None]
Make = Callable[[Row, Noted], Any]
"""Makes an example of a row, or None, and notes fate and reason."""


def _codec(codec: Codec | None, settings: dict[str, Any]) -> Codec:
    known = Codec.__dataclass_fields__
    if unknown := [name for name in settings if name not in known]:
        raise FeedError(f"a codec has no setting {unknown[0]!r}", need=", ".join(known))
    return replace(codec or Codec(), **settings)


def _made(rows: Sequence[Row], make: Make) -> tuple[list[tuple[Row, Any]], list[Note]]:
    """Return what is made of rows, and notes; raises FeedError of all that cannot be tokenised."""
    made: list[tuple[Row, Any]] = []
    notes: list[Note] = []
    problems = Problems()
    for row in rows:
        try:
            found = make(row, lambda fate, why, n=row.number: notes.append(Note(n, fate, why)))
        except Exception as error:  # a tokenizer or template of the user's may raise anything
            problems.add(row.number, next(iter(row.parts)), *_said(error))
            continue
        if found is not None:
            made.append((row, found))
    problems.check()
    return made, notes


def _said(error: Exception) -> tuple[str, str]:
    if isinstance(error, GradwrightError):
        came = "; ".join([error.problem, *error.facts])
        return came, error.need or "what the tokenizer takes"
    return f"{type(error).__name__}: {error!s:.200}", "what the tokenizer takes"


def _makers(encoder: Encoder) -> dict[str, Make]:
    codec = encoder.codec

    def fitted(row: TokenRow, note: Noted) -> TokenRow | None:
        """Return a row that is not too long; None where nothing is left of it."""
        most = codec.max_length
        if most is not None and len(row) > most:
            why = f"longer than {most:,} tokens"
            if codec.truncation == "drop":
                note("dropped", why)
                return None
            row = row.cut(most, keep_end=codec.truncation == "keep_end")
            if row.learns:
                note("cut", why)
        if not row.learns:
            note("dropped", UNLEARNT)
            return None
        return row

    def alone(row: Row, note: Noted) -> tuple[TokenRow] | None:
        found = fitted(encoder.alone(row, next(iter(row.parts))), note)
        return None if found is None else (found,)

    def behind(*names: str) -> Make:
        def make(row: Row, note: Noted) -> tuple[TokenRow, ...] | None:
            parts = [row.parts[name] for name in names]
            if not all(map(len, parts)):
                note("dropped", EMPTY)
                return None
            if len(parts) == 2 and parts[0] == parts[1]:
                note("dropped", SAME)
                return None
            found, merged = encoder.behind(row, *names)
            ended = all(map(encoder.ends, found)) or not encoder.eos
            notes: list[tuple[str, str]] = []
            kept = [fitted(one, lambda *said: notes.append(said)) for one in found]
            for said in dict.fromkeys(notes):
                if said[0] == "dropped" or None not in kept:
                    note(*said)
            if None in kept:
                return None
            if merged:
                note("kept", MERGED)
            if not ended:
                note("kept", ENDLESS)
            return tuple(one for one in kept if one is not None)

        return make

    def prompt(row: Row, note: Noted) -> Prompt | None:
        tokens, text = encoder.prompt(row) if len(row.parts["prompt"]) else ([], "")
        if not tokens:
            note("dropped", "empty prompt")
            return None
        if codec.max_length is not None and len(tokens) > codec.max_length:
            note("dropped", f"longer than {codec.max_length:,} tokens")
            return None
        return Prompt(tokens, text, dict(row.others))

    return {
        "text": alone,
        "completion": behind("completion"),
        "label": behind("completion"),
        "pair": behind("chosen", "rejected"),
        "prompt": prompt,
    }
