"""Which file a path of a request means: one within the server's root, or none."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

from jupyter_core.paths import is_hidden

from .refused import RefusedError

ENTRIES = 2000
"""Entries of a folder that its stamp looks at."""
LIVE = ("events.jsonl", "config.json")
"""What grows in the folder of a run, so that the folder above is another one."""


def file_of(path: str, root: str, *, hidden: bool = False) -> Path:
    """Return what a path of the contents API means, wherever links lead to.

    Raises RefusedError for a path that is none, leads out of the root or, unless ``hidden``, to
    what is hidden there; for what is not there, and for what is no plain file or folder.
    """
    parts = path.split("/") if path else []
    odd = "\\:" if os.name == "nt" else ""
    for part in parts:
        if part in ("", ".", "..") or "\0" in part or any(c in part for c in odd):
            raise RefusedError(400, "this is no path below the root", where=path[:200])
    try:
        return within(Path(root).joinpath(*parts), root, hidden=hidden)
    except RefusedError as error:
        error.where = path[:200]
        raise


def within(path: Path, root: str, *, hidden: bool = False) -> Path:
    """Return where a path leads to, if that is a file or folder in the root."""
    missing = RefusedError(404, "there is no such file or folder")
    try:
        real, base = os.path.realpath(path), os.path.realpath(root)
        mode = os.stat(real).st_mode  # noqa: PTH116 - follows what realpath could not
    except (OSError, ValueError):  # missing, a circle of links, no name for this file system
        raise missing from None
    if not _holds(base, real):
        raise RefusedError(
            403, "a link leads out of the folder that the server shows", code="outside"
        )
    if not hidden and is_hidden(str(path), root):
        raise missing
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise RefusedError(403, "it is a pipe, a socket or a device", need="a file or a folder")
    return Path(real)


def _holds(folder: str, path: str) -> bool:
    """Tell whether a path is a folder, or below it, as the file system compares names.

    >>> _holds("/a", "/a/b"), _holds("/a", "/ab"), _holds("/", "/ab")
    (True, False, True)
    """
    folder, path = os.path.normcase(folder), os.path.normcase(path)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def stamp_of(path: Path) -> dict[str, Any]:
    """Return what is cheaply told of a file or folder; another ``stamp``, and it has changed."""
    try:
        held = path.stat()
        is_folder = stat.S_ISDIR(held.st_mode)
        marks = [_mark(held), *(_marks(path) if is_folder else [])]
    except OSError:
        raise RefusedError(404, "there is no such file or folder") from None
    text = "\n".join(marks)
    return {
        "stamp": hashlib.blake2b(text.encode(), digest_size=12).hexdigest(),
        "kind": "folder" if is_folder else "file",
        "bytes": 0 if is_folder else held.st_size,
        "modified": held.st_mtime_ns // 1_000_000,
    }


def _marks(folder: Path) -> list[str]:
    """Return what is known of the entries of a folder, and of what grows in folders of runs."""
    found = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name)[:ENTRIES]:
            try:
                found.append(f"{entry.name!a} {_mark(entry.stat())}")
                if entry.is_dir():
                    inside = (Path(entry.path, name) for name in LIVE)
                    found += [_mark(p.stat()) for p in inside if p.is_file()]
            except OSError:  # gone meanwhile, or a link that leads nowhere
                continue
    return found


def _mark(held: os.stat_result) -> str:
    return f"{held.st_mtime_ns} {held.st_size} {held.st_ino} {held.st_dev}"
