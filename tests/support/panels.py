"""What tests of widgets share: a hostile name, what a widget sends, waiting for a thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

EVIL = '<img src=x onerror="alert(1)">'
"""A name that would run if a page took it for HTML."""
PATIENCE = 150.0
"""Seconds; nothing that is waited for takes one on a machine that is not busy."""


def sent(widget: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect the custom messages that a widget sends from now on, with their buffers."""
    messages: list[Any] = []
    monkeypatch.setattr(
        widget, "send", lambda content, buffers=None: messages.append((content, buffers))
    )
    return messages


def wait_for(question: Callable[[], object]) -> None:
    """Ask until the answer is true."""
    end = time.monotonic() + PATIENCE
    while not question():
        assert time.monotonic() < end, f"waited for {PATIENCE:.0f} s"
        time.sleep(0.001)
