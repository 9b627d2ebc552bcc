"""The garbage collector waits while much is built that stays: it would look through it in vain."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator

from ..shared import module_lock

_lock = module_lock()
_waiting = [0]
"""How many blocks make it wait, in all threads; it was running before the first of them."""


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Let the garbage collector wait, if it runs: a tenth to two thirds of the time of a plan.

    >>> import gc
    >>> with without_collecting():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    with _lock:
        counts = bool(_waiting[0]) or gc.isenabled()
        _waiting[0] += counts
        if counts:
            gc.disable()
    try:
        yield
    finally:
        with _lock:
            _waiting[0] = max(0, _waiting[0] - counts)  # 0 after a fork
            if counts and not _waiting[0]:
                gc.enable()


def _forked() -> None:
    """Let it run again in a child, where the threads that made it wait are not."""
    if _waiting[0]:
        _waiting[0] = 0
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
