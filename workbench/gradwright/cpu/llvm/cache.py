"""Object code on disk: compiled once per machine, and found by its text, compiler and processor."""

from __future__ import annotations

import functools
import hashlib


def key(text: str, identity: str) -> str:
    """Return the name of a text's object code, by the compiler and for the CPU of ``identity``.

    >>> key("define ...", "llvm 20 x86") == key("define ...", "llvm 20 x86")
    True
    """
    return hashlib.sha256("\0".join([_revision(), identity, text]).encode()).hexdigest()


@functools.cache
def _revision() -> str:
    """Return the version that the object code belongs to."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("gradwright")
    except PackageNotFoundError:
        return ""
