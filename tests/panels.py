"""What tests of widgets share: hearing what a widget sends, waiting for another thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

PATIENCE = 30.0
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
