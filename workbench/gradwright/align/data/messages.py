"""Messages of a conversation: roles, and the order in which they may stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .report import told

ROLES = ("system", "developer", "user", "assistant", "tool")
FIRST = ("system", "developer")
"""Roles that only the first message can have."""
SHAREGPT = {"human": "user", "gpt": "assistant"}
"""What ShareGPT calls roles; others have the same name."""


def standard(part: Any) -> Any:
    """Return messages of ``from`` and ``value``, as ShareGPT has them, with role and content.

    Anything else is returned as it is.

    >>> standard([{"from": "human", "value": "hi"}, {"from": "gpt", "value": "Hello!"}])
    [{'role': 'user', 'content': 'hi'}, {'role': 'assistant', 'content': 'Hello!'}]
    """
    if not (isinstance(part, list) and all(isinstance(m, Mapping) and "from" in m for m in part)):
        return part
    names = {"from": "role", "value": "content"}
    found = [{names.get(key, key): value for key, value in m.items()} for m in part]
    for message in found:
        if isinstance(message["role"], str):
            message["role"] = SHAREGPT.get(message["role"], message["role"])
    return found


def wrong_messages(messages: Sequence[Any]) -> tuple[str, str] | None:
    """Return what is wrong with messages, and what was needed; None if nothing is.

    >>> wrong_messages([{"role": "user", "content": "hi"}])
    >>> wrong_messages([{"role": "human", "content": "hi"}])[0]
    "message 0 is of the role 'human'"
    """
    before = ""
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping):
            return f"message {i} is {told(message)}", 'dicts: {"role": ..., "content": ...}'
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            return f"message {i} is of the role {role!r:.40}", "one of " + ", ".join(ROLES)
        if not (isinstance(content, str) or _are_parts(content) or message.get("tool_calls")):
            return f"the content of message {i} is {told(content)}", "a text"
        if role in FIRST and i:
            return f"message {i} is of the role {role!r}", f"{role!r} only at the begin"
        if role == "tool" and before not in ("assistant", "tool"):
            return (
                f"message {i} is a tool's, behind {before or 'nothing'!r}",
                "behind an assistant's",
            )
        before = role
    return None


def _are_parts(content: Any) -> bool:
    """Tell content of parts, such as texts and images."""
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(part, Mapping) and isinstance(part.get("type"), str) for part in content)
    )
