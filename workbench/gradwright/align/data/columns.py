"""Columns of the field: which kind of data they are, and whether each row holds what it must."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ...errors import FeedError
from ..rewards.reward import OWN
from .messages import standard, wrong_messages
from .records import Record, names_of
from .report import Problems, told

Array = np.ndarray[Any, Any]
Message = Mapping[str, Any]
Part = str | list[Any]
"""A text, messages, or tokens."""
KINDS = {
    "pair": "prompt, chosen, rejected and perhaps margin; or chosen, rejected",
    "label": "prompt, completion, label",
    "completion": "prompt, completion",
    "prompt": "prompt, and any others",
    "text": "text, messages, or conversations",
}
CONVERSATIONS = ("messages", "conversations")
"""Columns of messages alone; the second is what data of ``from`` and ``value`` call it."""
OPTIONS = ("tools", "chat_template_kwargs")
"""Columns that tell the chat template more."""


@dataclass(frozen=True)
class Row:
    """A row that has been checked: its number in the data, and its parts by column."""

    number: int
    parts: Mapping[str, Part]
    tools: Sequence[Any] | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    """What the row tells the template beyond its messages."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """Further columns."""
    feeds: Mapping[str, Array] = field(default_factory=dict)
    """What the row feeds to placeholders of the model, such as an image."""
    label: bool = False
    margin: float | None = None


def kind_of(names: Sequence[str]) -> str:
    """Return the kind of data that columns tell; raises FeedError where they tell none, or two.

    >>> kind_of(["prompt", "completion", "label"]), kind_of(["messages"])
    ('label', 'text')
    """
    held = set(names)
    fits = {
        "pair": {"chosen", "rejected"} <= held,
        "completion": {"prompt", "completion"} <= held,
        "text": bool({"text", *CONVERSATIONS} & held),
    }
    found = [kind for kind, fit in fits.items() if fit]
    if not found and "prompt" in held:
        return "prompt"
    if len(found) != 1:
        raise FeedError(
            f"the columns {', '.join(names) or 'nothing'} do not tell what kind of data they are",
            facts=[f"{kind}: {columns}" for kind, columns in KINDS.items()],
            hint=f"kind={found[0] if found else 'completion'!r}, or rename columns",
        )
    return "label" if found == ["completion"] and "label" in held else found[0]


def checked(
    rows: Sequence[Record], kind: str | None, feeds: Sequence[str] = ()
) -> tuple[str, list[Row]]:
    """Return the kind of data, found from its columns if it is not given, and its rows, checked.

    ``feeds`` are columns of numbers, such as images. Raises FeedError of all that is wrong.

    >>> kind, rows = checked([{"prompt": "2+2=", "completion": "4"}], None)
    >>> kind, dict(rows[0].parts)
    ('completion', {'prompt': '2+2=', 'completion': '4'})
    """
    names = names_of(rows)
    kind = kind_of(names) if kind is None else kind
    if kind not in KINDS:
        raise FeedError(f"there is no kind of data {kind!r}", need=", ".join(KINDS))
    needed = _needed(kind, names)
    if absent := [name for name in (*needed, *feeds) if name not in names]:
        raise FeedError(
            f"the data has no column {', '.join(map(repr, absent))}",
            facts=[f"columns: {', '.join(map(repr, names)) or 'none'}"],
            need=", and ".join([f"{kind}: {KINDS[kind]}", *feeds]),
        )
    left_out = ("prompt", *OPTIONS, *feeds)
    further = [n for n in names if n not in left_out] if kind == "prompt" else []
    if taken := [name for name in further if name in OWN]:
        raise FeedError(
            f"the data has a column {taken[0]!r}, as which rewards are given something else",
            need="another name",
        )
    has_margin = kind == "pair" and "margin" in names
    check = _Check(kind, needed, further, feeds, has_margin=has_margin)
    found = [check.row(number, record) for number, record in enumerate(rows)]
    check.problems.check()
    return kind, found


def _needed(kind: str, names: Sequence[str]) -> list[str]:
    if kind == "text":
        return [next((n for n in ("text", *CONVERSATIONS) if n in names), "text")]
    if kind == "pair":
        prompt = ["prompt"] if "prompt" in names else []
        return [*prompt, "chosen", "rejected"]
    return ["prompt"] if kind == "prompt" else ["prompt", "completion"]


class _Check:
    """Turns records of one kind into rows, and notes every problem of each."""

    def __init__(
        self,
        kind: str,
        needed: Sequence[str],
        further: Sequence[str],
        feeds: Sequence[str],
        *,
        has_margin: bool,
    ) -> None:
        self.problems = Problems()
        self._kind, self._needed, self._further = kind, needed, further
        self._has_margin = has_margin
        self._shapes: dict[str, tuple[int, ...] | None] = dict.fromkeys(feeds)
        """Of what rows feed: that of the first."""

    def row(self, number: int, record: Record) -> Row:
        """Return a row, which is whole where nothing is wrong with it."""
        note = partial(self.problems.add, number)
        parts: dict[str, Part] = {}
        for name in self._needed:
            part = _listed(record.get(name))
            if wrong := _wrong(part, needs_messages=name in CONVERSATIONS):
                note(name, *wrong)
            else:
                parts[name] = part
        if len(parts) == len(self._needed):
            parts = _with_prompt(parts) if self._kind == "pair" else parts
            for wrong_together in _wrong_together(parts):
                note(*wrong_together)
        tools, variables = _json(record.get("tools")), record.get("chat_template_kwargs")
        variables = {} if variables is None else variables
        if tools is not None and not isinstance(tools, list):
            note("tools", told(record.get("tools")), "a list, or one as JSON")
        if not isinstance(variables, Mapping):
            note("chat_template_kwargs", told(variables), "a dict")
        label, margin = record.get("label"), record.get("margin")
        if self._kind == "label" and not isinstance(label, bool):
            note("label", told(label), "True or False")
        if self._has_margin and _number(margin) is None:
            note("margin", told(margin), "a finite number")
        others = {name: record.get(name) for name in self._further}
        fed = self._fed(number, record)
        return Row(number, parts, tools, variables, others, fed, label is True, _number(margin))

    def _fed(self, number: int, record: Record) -> dict[str, Array]:
        """Return the arrays of a row, all of a column of one shape."""
        found = {}
        for name, shape in self._shapes.items():
            try:
                array = np.asarray(record.get(name))
            except ValueError:  # a list of lists of unequal lengths
                array = np.asarray(None)
            if array.dtype.kind not in "biuf":
                self.problems.add(number, name, told(record.get(name)), "an array of numbers")
            elif shape not in (None, array.shape):
                self.problems.add(number, name, f"an array of shape {array.shape}", f"{shape}")
            else:
                found[name], self._shapes[name] = array, array.shape
        return found


def _listed(part: Any) -> Any:
    """Return an array of tokens or messages, which Parquet may hold, and a tuple, as a list.

    Messages of ``from`` and ``value`` get role and content.
    """
    if isinstance(part, np.ndarray) and part.ndim == 1:
        part = part.tolist()
    return standard(list(part) if isinstance(part, tuple) else part)


def _wrong(part: Any, *, needs_messages: bool) -> tuple[str, str] | None:
    """Return what came and what was needed, if a part is none."""
    if isinstance(part, str) and not needs_messages:
        return None
    if isinstance(part, list):
        if part and isinstance(part[0], Mapping):
            return wrong_messages(part)
        if not needs_messages and all(type(token) is int and token >= 0 for token in part):
            return None
    need = "messages" if needs_messages else "a text, messages, or tokens"
    return told(part), need


def _wrong_together(parts: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield parts of different kinds, and messages that cannot follow each other."""
    forms = {name: form(part) for name, part in parts.items() if len(part)}
    if len(set(forms.values())) > 1:
        came = ", ".join(f"{name} is {kind}" for name, kind in forms.items())
        yield next(iter(parts)), came, "all texts, all messages, or all tokens"
    elif "messages" in forms.values():
        if "prompt" in forms and parts["prompt"][-1]["role"] == "assistant":
            yield "prompt", "its last message is the assistant's", "user's or tool's"
        for name in ("completion", "chosen", "rejected"):
            if name in forms and (role := parts[name][0]["role"]) != "assistant":
                yield name, f"its first message is of {role!r}", "'assistant'"


def form(part: Part) -> str:
    """Return what a part is; an empty list are tokens.

    >>> form("a"), form([{"role": "user", "content": "a"}]), form([1])
    ('text', 'messages', 'tokens')
    """
    if isinstance(part, str):
        return "text"
    return "messages" if len(part) and isinstance(part[0], Mapping) else "tokens"


def _with_prompt(parts: dict[str, Part]) -> dict[str, Part]:
    """Return a pair with a prompt: by default the beginning that both completions share.

    Each keeps something behind it. Of texts, a space before the first difference belongs to what
    follows.
    """
    chosen, rejected = parts["chosen"], parts["rejected"]
    if "prompt" in parts or form(chosen) != form(rejected):
        return parts
    most = max(0, min(len(chosen), len(rejected)) - 1)
    n = next((i for i in range(most) if chosen[i] != rejected[i]), most)
    if isinstance(chosen, str) and n and chosen[n - 1] == " ":
        n -= 1
    return {"prompt": chosen[:n], "chosen": chosen[n:], "rejected": rejected[n:]}


def _json(tools: Any) -> Any:
    """Return tools that are told as JSON."""
    if not isinstance(tools, str):
        return tools
    try:
        return json.loads(tools)
    except (ValueError, RecursionError):
        return tools


def _number(value: Any) -> float | None:
    """Return a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
