"""Chat templates: messages as the text that a model was trained on."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import FeedError, GradwrightError
from .metering import METER, Meter
from .sandbox import BEGUN, ENDED, environment

MAX_SOURCE = 1 << 18
"""Characters of a template; those of models have some thousands."""


class Rendered(NamedTuple):
    """Messages as text, and from where to where of it the assistant has spoken."""

    text: str
    spans: list[tuple[int, int]]


class ChatTemplate:
    r"""A chat template of Jinja, with the conventions of transformers.

    It sees ``messages``, ``tools``, ``add_generation_prompt``, special tokens by name such as
    ``bos_token``, and what else it is given. What stands in ``{% generation %}`` is the
    assistant's. It runs in a sandbox with limits of time and size.

    Raises FeedError where jinja2 is missing, for source that is none, and, when it renders, for
    messages that it refuses and for all that goes wrong in it.

    >>> from gradwright.align import ChatTemplate
    >>> template = ChatTemplate(
    ...     "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    ...     "{% if add_generation_prompt %}<assistant>{% endif %}"
    ... )
    >>> template.render([{"role": "user", "content": "2+2?"}], add_generation_prompt=True).text
    '<user>2+2?\n<assistant>'
    """

    def __init__(self, source: str, variables: Mapping[str, Any] | None = None) -> None:
        if not isinstance(source, str) or len(source) > MAX_SOURCE:
            raise FeedError(
                "the chat template is no text, or too long",
                need=f"{MAX_SOURCE:,} characters or fewer",
            )
        self.source, self.variables = source, dict(variables or {})
        self._compiled = _compiled(source)

    @property
    def marks_assistant(self) -> bool:
        """Whether it says what the assistant has spoken."""
        return _marks(self.source)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = False,
        **variables: Any,
    ) -> Rendered:
        """Return messages as text; further variables take the place of those of the template.

        A key of a message whose value is None is left out.
        """
        given = {
            **self.variables,
            "documents": None,
            **variables,
            "messages": [{k: v for k, v in m.items() if v is not None} for m in messages],
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
        }
        held = METER.set(Meter())
        try:
            text = self._compiled.render({str(k): _plain(v) for k, v in given.items()})
        except GradwrightError:
            raise
        except Exception as error:  # whatever a template of anybody's makes Python raise
            raise FeedError(
                "the chat template does not take the messages",
                facts=[f"{type(error).__name__.removesuffix('Error')}: {error!s:.200}"],
            ) from None
        finally:
            METER.reset(held)
        return _spanned(text)


@functools.lru_cache(32)
def _compiled(source: str) -> Any:
    made = environment()
    try:
        return made.from_string(source)
    except Exception as error:  # SyntaxErrors of jinja's, RecursionError and more
        raise FeedError(
            "the chat template is no template of jinja2",
            facts=[f"{error!s:.200}", f"line {getattr(error, 'lineno', '?')}"],
        ) from None


@functools.lru_cache(32)
def _marks(source: str) -> bool:
    tokens = list(environment().lex(source))
    return any(kind == "name" and text == "generation" for _, kind, text in tokens)


def _spanned(text: str) -> Rendered:
    """Return text without its marks, and the spans between these."""
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    begun = at = 0
    for piece in re.split(f"([{BEGUN}{ENDED}])", text):
        if piece == BEGUN:
            begun = at
        elif piece == ENDED:
            spans.append((begun, at))
        else:
            parts.append(piece)
            at += len(piece)
    return Rendered("".join(parts), spans)


def _plain(value: Any) -> Any:
    """Return a value as plain data, whose methods can do no harm; anything else is named."""
    if isinstance(value, str):
        if BEGUN in value or ENDED in value:
            raise FeedError(
                "a text has the code point U+FDD0 or U+FDD1", need="characters of Unicode"
            )
        return str.__str__(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return {_plain(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return f"<{type(value).__name__}>"


def template_of(tokenizer: Any) -> ChatTemplate | None:
    """Return the chat template that came with a tokenizer, with its special tokens; None without.

    >>> import gradwright as gw
    >>> from gradwright.align.data.template import template_of
    >>> template_of(gw.models.CharTokenizer("ab"))
    """
    source = getattr(tokenizer, "chat_template", None)
    return ChatTemplate(source, specials_of(tokenizer)) if isinstance(source, str) else None


def specials_of(tokenizer: Any) -> dict[str, str]:
    """Return the special tokens of a tokenizer by name, such as ``"eos_token"``."""
    held = getattr(tokenizer, "special_tokens_map", None) or {}
    return {str(name): str(token) for name, token in held.items() if isinstance(token, str)}
