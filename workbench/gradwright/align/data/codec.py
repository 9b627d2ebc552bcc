"""Codecs: from checked parts of a row to its tokens, with settings that are JSON."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from ...errors import FeedError
from ...models.completion import tokens_of
from ...models.tokenizers import TextCodec, TextStream
from ...words.jsonable import jsonable
from .columns import Message, Part, Row, form
from .rows import TokenRow
from .template import ChatTemplate, specials_of, template_of

TRUNCATIONS = ("keep_start", "keep_end", "drop")


@jsonable
@dataclass(frozen=True)
class Codec:
    """How texts and messages become tokens; names and defaults are TRL's where it has them.

    Raises FeedError for a setting that makes no sense.

    >>> from gradwright.align import Codec
    >>> Codec(max_length=64).truncation
    'keep_start'
    """

    template: str | None = None
    """Source of a chat template; None: the one that came with the tokenizer."""
    max_length: int | None = 1024
    """Tokens of a row at most; None: as many as there are."""
    truncation: str = "keep_start"
    """What stays of longer rows: ``"keep_start"``, ``"keep_end"``, or nothing: ``"drop"``."""
    eos: int | Sequence[int] = ()
    """Tokens that end a row; the first is put behind completions. (): what the tokenizer says."""
    add_eos: bool = True
    """Whether texts that do not end with one get it; messages end as their template has it."""
    completion_only_loss: bool = True
    """Whether no loss is taken at prompts."""
    assistant_only_loss: bool = False
    """Whether it is taken only at what the template says that the assistant has spoken."""

    def __post_init__(self) -> None:
        if self.truncation not in TRUNCATIONS:
            raise FeedError(
                f"there is no truncation {self.truncation!r}", need=", ".join(TRUNCATIONS)
            )
        if self.max_length is not None and (
            type(self.max_length) is not int or self.max_length < 2
        ):
            raise FeedError(f"max_length={self.max_length!r}", need="2 or more, or None")
        if any(type(token) is not int or token < 0 for token in tokens_of(self.eos)):
            raise FeedError(f"eos={self.eos!r}", need="tokens")


class Encoder:
    """A codec and a tokenizer at work."""

    def __init__(self, codec: Codec, tokenizer: TextCodec | None) -> None:
        self.codec, self.tokenizer = codec, tokenizer

    @functools.cached_property
    def eos(self) -> list[int]:
        """Tokens that end a row, perhaps none; one that the tokenizer has if none was given."""
        if given := tokens_of(self.codec.eos):
            return given
        token = specials_of(self.tokenizer).get("eos_token")
        found = [] if token is None else self._plain(token)
        return found if len(found) == 1 else []

    @functools.cached_property
    def template(self) -> ChatTemplate:
        """The chat template; raises FeedError where there is none, or it lacks what is asked."""
        source = self.codec.template
        found = (
            template_of(self.tokenizer)
            if source is None
            else ChatTemplate(source, specials_of(self.tokenizer))
        )
        if found is None:
            raise FeedError(
                "there is no chat template for messages",
                need="a tokenizer that came with one",
                hint="template=..., a text of Jinja",
            )
        if self.codec.assistant_only_loss and not found.marks_assistant:
            raise FeedError(
                "the chat template does not say what the assistant has spoken",
                need="{% generation %} ... {% endgeneration %} around it",
            )
        return found

    def check(self, rows: Sequence[Row], *, completes: bool) -> None:
        """Raise FeedError for what is missing for all rows: tokenizer, template, or eos."""
        forms = {form(part) for row in rows for part in row.parts.values() if len(part)}
        if self.tokenizer is None and forms != {"tokens"}:
            raise FeedError("there is no tokenizer for texts", hint="tokenizer=..., or tokens")
        if "messages" in forms:
            _ = self.template
        if self.codec.assistant_only_loss and forms - {"messages"}:
            raise FeedError("assistant_only_loss=True, but there are texts", need="messages")
        if completes and self.codec.add_eos and not self.eos and forms - {"messages"}:
            raise FeedError(
                "nothing says which token ends a completion",
                need="eos=..., a token",
                hint="model.eos; or add_eos=False, and no model learns to end",
            )

    def prompt(self, row: Row) -> tuple[list[int], str]:
        """Return the tokens of a prompt that shall be answered, and its text."""
        part = row.parts["prompt"]
        if isinstance(part, str):
            return self._with_specials(part), part
        if form(part) == "tokens":
            held = [int(token) for token in part]  # type: ignore[call-overload]
            return held, "" if self.tokenizer is None else self.tokenizer.decode(held)
        text = self._rendered(row, part, add_generation_prompt=True).text  # type: ignore[arg-type]
        return self._plain(text), text

    def alone(self, row: Row, name: str) -> TokenRow:
        """Return the tokens of a text or conversation that all count, or the assistant's."""
        return self._row(row, [], row.parts[name], 0)

    def behind(self, row: Row, *names: str) -> tuple[list[TokenRow], bool]:
        """Return the prompt with each of its completions, and whether tokens merge between them.

        A prompt's own tokens need not be those that its text begins with: the last ones may merge
        with the completion's first. The prompt ends where tokens differ, the same for all.
        """
        prompt = row.parts["prompt"]
        mine = self.prompt(row)[0] if len(prompt) else []
        rows = [self._row(row, prompt, row.parts[name], len(mine)) for name in names]
        shared = min(_shared(mine, found.tokens) for found in rows)
        fitted = [self._counted(TokenRow(found.tokens, shared, found.counts)) for found in rows]
        return fitted, shared < len(mine)

    def ends(self, row: TokenRow) -> bool:
        """Whether an eos ends it; a template may put a line break behind it."""
        return bool(set(row.tokens[-2:]) & set(self.eos))

    def _counted(self, row: TokenRow) -> TokenRow:
        """Return a row with what counts behind its prompt, of what the assistant has spoken."""
        if not self.codec.completion_only_loss:
            return row if row.counts else TokenRow(row.tokens, row.n_prompt, [True] * len(row))
        if row.counts is None:
            return row
        counts = [c and i >= row.n_prompt for i, c in enumerate(row.counts)]
        return TokenRow(row.tokens, row.n_prompt, counts)

    def _row(self, row: Row, prompt: Part, part: Part, n_prompt: int) -> TokenRow:
        if form(part) == "messages":
            return self._conversation(row, [*prompt, *part], n_prompt)  # type: ignore[list-item]
        if isinstance(part, str):
            tokens = self._with_specials(f"{prompt or ''}{part}")
        else:
            tokens = [int(token) for token in [*prompt, *part]]  # type: ignore[call-overload]
        if self.codec.add_eos and self.eos and not (tokens and tokens[-1] in self.eos):
            tokens.append(self.eos[0])
        return TokenRow(tokens, n_prompt)

    def _conversation(self, row: Row, messages: Sequence[Message], n_prompt: int) -> TokenRow:
        text, spans = self._rendered(row, messages)
        if not self.codec.assistant_only_loss:
            return TokenRow(self._plain(text), n_prompt)
        tokens, offsets = self._with_offsets(text)
        counts = [any(a < end and b > begin for begin, end in spans) for a, b in offsets]
        return TokenRow(tokens, n_prompt, counts)

    def _rendered(self, row: Row, messages: Sequence[Message], **more: Any) -> Any:
        return self.template.render(messages, tools=row.tools, **more, **row.variables)

    def _with_specials(self, text: str) -> list[int]:
        """Return the tokens of a text, with those that the tokenizer puts around it by itself."""
        assert self.tokenizer is not None
        return [int(token) for token in self.tokenizer.encode(text)]

    def _plain(self, text: str) -> list[int]:
        """Return the tokens of a text that has its special tokens written out."""
        return self._with_offsets(text)[0] if hasattr(self.tokenizer, "inner") else self._bare(text)

    def _bare(self, text: str) -> list[int]:
        if hasattr(self.tokenizer, "special_tokens_map"):  # a tokenizer of transformers
            found = self.tokenizer.encode(text, add_special_tokens=False)  # type: ignore[union-attr, call-arg]
            return [int(token) for token in found]
        return self._with_specials(text)

    def _with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return tokens, and from where to where of the text each of them is."""
        inner = getattr(self.tokenizer, "inner", getattr(self.tokenizer, "backend_tokenizer", None))
        if inner is not None:
            found = inner.encode(text, add_special_tokens=False)
            return list(found.ids), list(found.offsets)
        tokens = self._bare(text)
        assert self.tokenizer is not None
        return tokens, streamed_offsets(self.tokenizer, tokens, text)


def streamed_offsets(
    tokenizer: TextCodec, tokens: Sequence[int], text: str
) -> list[tuple[int, int]]:
    """Return from where to where of a text each token is; raises FeedError if they give another.

    >>> import gradwright as gw
    >>> streamed_offsets(gw.models.CharTokenizer("ab"), [0, 1, 0], "aba")
    [(0, 1), (1, 2), (2, 3)]
    """
    stream, offsets, at = TextStream(tokenizer), [], 0
    for token in tokens:
        size = len(stream.push(token))
        offsets.append((at, at + max(1, size)))
        at += size
    if tokenizer.decode(list(tokens)) != text:
        raise FeedError(
            "the tokens of the conversation decode to another text",
            need="a tokenizer that says where its tokens stand, for assistant_only_loss",
        )
    return offsets


def _shared(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many tokens both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
