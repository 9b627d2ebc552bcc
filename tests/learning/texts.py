"""Texts that any machine with Python has: its language reference, its own source, its licences.

Characters are token 1 to 96, printable ASCII and the newline; token 0 is left for padding. What is
neither is left out. Parts to test with are those that nothing is trained on.
"""

from __future__ import annotations

import functools
import importlib.util
import pydoc_data.topics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
VOCABULARY = 1 + len(CHARACTERS)
SOURCE = ("asyncio", "email", "logging", "argparse", "_pydecimal", "pathlib")
HELD_OUT = ("ipaddress", "tarfile", "configparser", "subprocess")
LICENCES = Path("/usr/share/common-licenses")
"""Of Debian; another domain to shift to."""


@functools.cache
def reference() -> tuple[Array, Array]:
    """Return tokens of Python's language reference, and the last tenth of them apart."""
    topics = pydoc_data.topics.topics
    tokens = encoded("\n".join(topics[name] for name in sorted(topics)))
    cut = len(tokens) * 9 // 10
    return tokens[:cut], tokens[cut:]


@functools.cache
def source() -> tuple[Array, Array]:
    """Return tokens of modules of Python, and those of other modules."""
    return _modules(SOURCE), _modules(HELD_OUT)


@functools.cache
def licences() -> tuple[Array, Array]:
    """Return tokens of licences, and the last fifth of each apart."""
    texts = [encoded(p.read_text("utf-8", "replace")) for p in sorted(LICENCES.iterdir())]
    cuts = [len(t) * 4 // 5 for t in texts]
    return (
        np.concatenate([t[:cut] for t, cut in zip(texts, cuts, strict=True)]),
        np.concatenate([t[cut:] for t, cut in zip(texts, cuts, strict=True)]),
    )


def encoded(text: str) -> Array:
    """Return i64[n], a number of each character that counts.

    >>> encoded("a\\té!").tolist()
    [67, 3]
    """
    known = {c: i for i, c in enumerate(CHARACTERS, 1)}
    return np.array([known[c] for c in text if c in known], np.int64)


def rows(tokens: Array, n: int, length: int, seed: int) -> Array:
    """Return n stretches of a text, from places that are drawn."""
    starts = np.random.default_rng(seed).integers(0, len(tokens) - length, n)
    return np.lib.stride_tricks.sliding_window_view(tokens, length)[starts]


def spread(tokens: Array, n: int, length: int) -> Array:
    """Return n stretches of a text, as far from one another as they can be."""
    starts = np.linspace(0, len(tokens) - length, n).astype(np.int64)
    return np.lib.stride_tricks.sliding_window_view(tokens, length)[starts]


def _modules(names: Iterable[str]) -> Array:
    return np.concatenate([encoded(_source_of(name)) for name in names])


def _source_of(name: str) -> str:
    """Return the source of a module, or of all modules of a package, not of their tests."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin)
    paths = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    return "\n".join(p.read_text("utf-8") for p in paths)
