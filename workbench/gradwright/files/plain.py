"""Plain files: what a folder of ours holds, and neither links, pipes nor devices.

A folder may come from somebody else. A link in it would have us read, or write over, what lies
elsewhere; opening a pipe waits for somebody to write, and opening a device may do anything.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, cast

_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_QUIETLY = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
"""A pipe that took a file's place in between does not make us wait."""
UNLINKED = getattr(os, "O_NOFOLLOW", 0)
"""Nor does a link."""


class NotPlainError(OSError):
    """A path that should be a file is a link, a pipe or a device; its ``strerror`` says which."""


def check_plain(path: str | os.PathLike[str], *, follow: bool = False) -> None:
    """Raise NotPlainError for what is there and is no plain file, IsADirectoryError for a folder.

    Nothing may be there. With ``follow``, a link to a plain file will do.

    >>> import os, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> check_plain(folder / "missing")
    >>> os.symlink(folder / "missing", folder / "link")
    >>> check_plain(folder / "link")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    gradwright.files.plain.NotPlainError: [Errno 22] it is a symbolic link, and no file: '...'
    """
    try:
        mode = (os.stat if follow else os.lstat)(path).st_mode
    except FileNotFoundError:
        return
    _check(mode, path)


def opened(path: str | os.PathLike[str], mode: str = "rb", *, follow: bool = False) -> BinaryIO:
    """Open a plain file: ``"rb"``, ``"rb+"``, or ``"ab"``, which makes one that is missing.

    Raises NotPlainError for what is none, without opening it, and OSError as ``open`` does.
    """
    check_plain(path, follow=follow)
    flags = {"rb": os.O_RDONLY, "rb+": os.O_RDWR, "ab": os.O_WRONLY | os.O_APPEND | os.O_CREAT}
    descriptor = os.open(path, flags[mode] | _QUIETLY | (0 if follow else UNLINKED), 0o666)
    try:
        _check(os.fstat(descriptor).st_mode, path)
        return cast(BinaryIO, os.fdopen(descriptor, mode, buffering=0 if mode == "ab" else -1))
    except BaseException:
        os.close(descriptor)
        raise


def read_text(path: str | os.PathLike[str], most: int) -> str:
    """Return the text of a plain file of at most ``most`` bytes; raises OSError, ValueError."""
    with opened(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{str(Path(path))!r} has over {most:,} bytes")
    return data.decode("utf-8")


def _check(mode: int, path: str | os.PathLike[str]) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, and no file", str(path))
    if not stat.S_ISREG(mode):
        what = _KINDS.get(stat.S_IFMT(mode), "of an unknown kind")
        raise NotPlainError(errno.EINVAL, f"it is {what}, and no file", str(path))
