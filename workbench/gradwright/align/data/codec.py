"""From checked parts of a row to its tokens, by settings that are JSON."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from ...errors import FeedError
from ...models.completion import tokens_of
from ...models.tokenizers import TextCodec
from ...words.jsonable import jsonable
from .columns import Message, Part, Row, form
from .rows import TokenRow
from .template import ChatTemplate, Rendered, specials_of, template_of
from .tokenizing import Tokenizing

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
        self.codec, self._tokenizer = codec, tokenizer

    def check(self, rows: Sequence[Row], *, completes: bool) -> None:
        """Raise FeedError for what is missing for all rows: tokenizer, template, or eos."""
        codec = self.codec
        forms = {form(part) for row in rows for part in row.parts.values() if len(part)}
        if forms - {"tokens"}:
            _ = self.tokenizing
        if "messages" in forms:
            _ = self.template
        if codec.assistant_only_loss and forms - {"messages"}:
            raise FeedError("assistant_only_loss=True, but there are texts", need="messages")
        if completes and codec.add_eos and not self.eos and forms - {"messages"}:
            raise FeedError(
                "nothing says which token ends a completion",
                need="eos=..., a token",
                hint="model.eos; or add_eos=False, and no model learns to end",
            )

    @functools.cached_property
    def tokenizing(self) -> Tokenizing:
        """The tokenizer; raises FeedError where there is none."""
        if self._tokenizer is None:
            raise FeedError("there is no tokenizer for texts", hint="tokenizer=..., or tokens")
        return Tokenizing(self._tokenizer)

    @functools.cached_property
    def eos(self) -> list[int]:
        """Tokens that end a row, perhaps none."""
        given = tokens_of(self.codec.eos)
        return given if given or self._tokenizer is None else self.tokenizing.eos()

    @functools.cached_property
    def template(self) -> ChatTemplate:
        """The chat template; raises FeedError where there is none, or it lacks what is asked."""
        source, found = self.codec.template, template_of(self._tokenizer)
        if source is not None:
            found = ChatTemplate(source, specials_of(self._tokenizer))
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

    def prompt(self, row: Row) -> tuple[list[int], str]:
        """Return the tokens of a prompt that shall be answered, and its text."""
        part = row.parts["prompt"]
        if isinstance(part, str):
            return self.tokenizing.plain(part), part
        if form(part) == "tokens":
            return list(part), "" if self._tokenizer is None else self.tokenizing.text(part)
        text = self._rendered(row, part, add_generation_prompt=True).text
        return self.tokenizing.written(text), text

    def alone(self, row: Row, name: str) -> TokenRow:
        """Return the tokens of a text or conversation that all count, or the assistant's."""
        tokens, counts = self._whole(row, [], row.parts[name])
        return TokenRow(tokens, 0, counts)

    def behind(self, row: Row, *names: str) -> tuple[list[TokenRow], bool]:
        """Return the prompt with each of its completions, and whether tokens merge between them.

        A prompt's own tokens need not be those that its text begins with: the last ones may merge
        with the completion's first. The prompt ends where tokens differ, the same for all.
        """
        prompt = row.parts["prompt"]
        mine = self.prompt(row)[0] if len(prompt) else []
        whole = [self._whole(row, prompt, row.parts[name]) for name in names]
        shared = min(_shared(mine, tokens) for tokens, _ in whole)
        rows = []
        for tokens, counts in whole:
            if self.codec.completion_only_loss:
                counts = counts and [c and i >= shared for i, c in enumerate(counts)]
            rows.append(TokenRow(tokens, shared, counts or self._counts_all(tokens)))
        return rows, shared < len(mine)

    def ends(self, row: TokenRow) -> bool:
        """Whether an eos ends it; a template may put a line break behind it."""
        return bool(set(row.tokens[-2:]) & set(self.eos))

    def _counts_all(self, tokens: Sequence[int]) -> list[bool] | None:
        return None if self.codec.completion_only_loss else [True] * len(tokens)

    def _whole(self, row: Row, prompt: Part, part: Part) -> tuple[list[int], list[bool] | None]:
        """Return the tokens of prompt and part, and which of them are the assistant's."""
        if form(part) == "messages":
            text, spans = self._rendered(row, [*prompt, *part])
            if not self.codec.assistant_only_loss:
                return self.tokenizing.written(text), None
            tokens, places = self.tokenizing.placed(text)
            said = [any(a < end and b > begin for begin, end in spans) for a, b in places]
            return tokens, said
        if isinstance(part, str):
            tokens = self.tokenizing.plain(f"{prompt or ''}{part}")
        else:
            tokens = [*prompt, *part]
        if self.codec.add_eos and self.eos and not (tokens and tokens[-1] in self.eos):
            tokens.append(self.eos[0])
        return tokens, None

    def _rendered(self, row: Row, messages: Sequence[Message], **more: Any) -> Rendered:
        return self.template.render(messages, tools=row.tools, **more, **row.variables)


def _shared(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many tokens both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
