"""Files written whole or not at all: readers see the one before, or the new one."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from .plain import check_plain


@contextlib.contextmanager
def replacing(
    path: str | os.PathLike[str], prefix: str = ".gw", *, follow: bool = True
) -> Iterator[BinaryIO]:
    """Give a new file beside ``path`` that takes its place when the block ends without an error.

    Until then it is called ``prefix``, sixteen hexadecimal digits and ``.tmp``.
    An existing file keeps its permissions, a new one gets those of the umask, and a link keeps
    pointing to the file that is replaced; without ``follow`` it is refused. So are pipes and
    devices, by a NotPlainError.
    """
    target = Path(path).resolve() if follow else Path(path).absolute()
    check_plain(target)
    temporary = target.with_name(f"{prefix}-{os.urandom(8).hex()}.tmp")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o666)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            with contextlib.suppress(FileNotFoundError):
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # make the new name durable too
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write text, as a whole or not at all.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.txt")
    >>> write_text(path, "one line")
    >>> path.read_text()
    'one line'
    """
    with replacing(path) as file:
        file.write(text.encode())
