"""Machine code for GPUs on disk: compiled once, and found again by what it was made of.

It lies beside that of the CPU, under the same rules: `gradwright.files.trusted`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
from typing import Any

from gradwright.files.trusted import CUBINS

_LENGTH = struct.Struct("<I")


def key(*parts: Any) -> str:
    """Return the name of what is made of parts, which their texts tell apart.

    >>> key("text", 90) == key("text", 90), key("text", 90) == key("text", 80)
    (True, False)
    """
    return hashlib.sha256("\0".join(map(repr, parts)).encode()).hexdigest()


def load(kind: type[Any], name: str) -> Any:
    """Return what was kept under a name, as a dataclass of that kind; None if nothing is."""
    content = CUBINS.load(name)
    if content is None:
        return None
    (length,) = _LENGTH.unpack_from(content)
    start = _LENGTH.size + length
    about = json.loads(content[_LENGTH.size : start])
    end = start + about.pop("cubin")
    types = tuple(about.pop("types"))
    return kind(cubin=content[start:end], ptx=content[end:].decode(), types=types, **about)


def store(binary: Any, name: str) -> None:
    """Keep a binary under a name: its facts as JSON, its code, its PTX."""
    facts = {f.name: getattr(binary, f.name) for f in dataclasses.fields(binary)}
    cubin, ptx = facts.pop("cubin"), facts.pop("ptx")
    about = json.dumps(facts | {"cubin": len(cubin)}).encode()
    CUBINS.store(name, _LENGTH.pack(len(about)) + about + cubin + ptx.encode())
