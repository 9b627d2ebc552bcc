"""What is kept on disk for later processes, and trusted only if this user wrote it.

A file is the magic of its kind, its key, the length of the content, an HMAC over all of these under
the user's own random secret, and the content. Whatever is amiss with a file or the folder, it is as
if it were not there: no trouble with the disk ever fails a run.

The folder is ``$GRADWRIGHT_CACHE``, else ``gradwright/native`` in the user's cache folder;
``GRADWRIGHT_CACHE=off`` keeps nothing.
"""

from __future__ import annotations

import contextlib
import hmac
import itertools
import logging
import os
import secrets
import stat
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

LOG = logging.getLogger("gradwright.cpu")
LIMIT = 200 * 2**20
"""Bytes the folder may hold; beyond them the files used longest ago go."""
_stores = itertools.count()
_LENGTH = struct.Struct("<Q")
_SECRET = "secret"
_DIGEST = 32


@dataclass(frozen=True)
class Kind:
    """What a file holds: its suffix, and how it begins."""

    suffix: str
    magic: bytes

    def load(self, name: str) -> bytes | None:
        """Return what is kept under a key; None if nothing is, or not as this user wrote it."""
        root = folder()
        try:
            if root is None or (secret := _read_secret(root)) is None:
                return None
            path = self.path(root, name)
            if not _is_ours(path, directory=False):
                return None
            data, start = path.read_bytes(), self._start
            content = data[start:]
            if len(data) <= start or not hmac.compare_digest(
                data[:start], self._head(name, content, secret)
            ):
                return None
            with contextlib.suppress(OSError):
                os.utime(path)  # used just now
            return content
        except OSError:
            return None

    def store(self, name: str, content: bytes) -> None:
        """Keep bytes under a key, if the disk lets us."""
        root = folder()
        try:
            if root is None:
                return
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            secret = _read_secret(root) or _make_secret(root)
            if secret is not None:
                _write(self.path(root, name), self._head(name, content, secret) + content)
                if next(_stores) % 64 == 0:
                    trim(root)
        except OSError:
            return

    def holds(self, name: str) -> bool:
        """Tell whether a file of that key is there, whatever is in it."""
        root = folder()
        return root is not None and self.path(root, name).exists()

    def path(self, root: Path, name: str) -> Path:
        """Return where in a folder the file of a key lies."""
        return root / f"{name}.{self.suffix}"

    @property
    def _start(self) -> int:
        return len(self.magic) + _DIGEST + _LENGTH.size + _DIGEST

    def _head(self, name: str, content: bytes, secret: bytes) -> bytes:
        start = self.magic + bytes.fromhex(name) + _LENGTH.pack(len(content))
        return start + hmac.digest(secret, start + content, "sha256")


OBJECTS = Kind("o", b"gradwright object 1\n")
"""Machine code, and what was measured of it."""
PLANS = Kind("plan", b"gradwright plan 1\n")
"""Programs, and the same with kernels."""
CUBINS = Kind("cubin", b"gradwright cubin 1\n")
"""Machine code for GPUs."""
KINDS = OBJECTS, PLANS, CUBINS


def folder() -> Path | None:
    """Return the folder, which need not exist; None if nothing is to be kept.

    >>> folder() is None or folder().is_absolute()
    True
    """
    chosen = os.environ.get("GRADWRIGHT_CACHE", "")
    if chosen.lower() == "off":
        return None
    if chosen:
        return Path(chosen).absolute()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
    with contextlib.suppress(RuntimeError):  # no home folder
        root = Path(base or "~/.cache").expanduser()
        return root / "gradwright" / "native" if root.is_absolute() else None
    return None


def files(root: Path) -> list[tuple[float, int, Path]]:
    """Return what is kept in a folder, by when it was used last: time, bytes and path."""
    found = []
    for kind in KINDS:
        for path in root.glob(f"*.{kind.suffix}*"):  # drafts that a killed process left, too
            with contextlib.suppress(OSError):
                info = path.lstat()
                found.append((info.st_mtime, info.st_size, path))
    return sorted(found)


def trim(root: Path, most: int | None = None) -> None:
    """Delete the files used longest ago, until a tenth of ``most`` is free, when it is passed."""
    limit, found = LIMIT if most is None else most, files(root)
    total = sum(size for _, size, _ in found)
    if total <= limit:
        return
    LOG.debug("kept on disk: %d bytes, over %d: those used longest ago go", total, limit)
    for _, size, path in found:
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
        if total <= limit * 0.9:
            return


def _is_ours(path: Path, *, directory: bool) -> bool:
    """Tell whether only this user can have written here; a link does not count."""
    info = path.lstat()
    if stat.S_ISDIR(info.st_mode) if directory else stat.S_ISREG(info.st_mode):
        getuid = getattr(os, "getuid", None)  # elsewhere the profile folder's own rights must do
        return getuid is None or (info.st_uid == getuid() and not info.st_mode & 0o022)
    return False


def _read_secret(root: Path) -> bytes | None:
    """Return the user's secret; None if there is none, or somebody else could have put it there."""
    path = root / _SECRET
    try:
        if not (_is_ours(root, directory=True) and _is_ours(path, directory=False)):
            return None
        secret = path.read_bytes()
    except OSError:
        return None
    return secret if len(secret) == _DIGEST else None


def _make_secret(root: Path) -> bytes | None:
    """Write a new secret; of several processes the last wins, and what others signed goes."""
    if not _is_ours(root, directory=True):
        return None
    _write(root / _SECRET, secrets.token_bytes(_DIGEST))
    return _read_secret(root)


def _write(path: Path, data: bytes) -> None:
    """Write a file that only this user can read, so that readers see all of it or none."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}.draft")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


class DiskCache:
    """What is on disk for later processes, as it is now: plans, and the machine code of kernels."""

    def __init__(self) -> None:
        self.folder = folder()
        """Where it is; None: switched off by ``GRADWRIGHT_CACHE=off``."""
        found = [] if self.folder is None else files(self.folder)
        suffixes = [path.suffix for _, _, path in found]
        plans, *kernels = (suffixes.count(f".{k.suffix}") for k in (PLANS, OBJECTS, CUBINS))
        self.plans, self.kernels = plans, sum(kernels)
        self.nbytes = sum(n for _, n, _ in found)
        """Bytes of all files; beyond 200 MB those used longest ago go."""

    def clear(self) -> None:
        """Delete all of it; what runs goes on, and later processes begin anew.

        What cannot be deleted stays, and so does what is no file of ours.
        """
        if self.folder is not None:
            trim(self.folder, 0)

    def __repr__(self) -> str:
        if self.folder is None:
            return "<DiskCache: switched off>"
        what = f"{self.plans} plans, {self.kernels} kernels, {self.nbytes / 1e6:,.1f} MB"
        return f"<DiskCache {str(self.folder)!r}: {what}>"


def disk_cache() -> DiskCache:
    """Return what is on disk for later processes: look at it, or ``clear`` it.

    Plans of 64 nodes and more, and the machine code of kernels, are found there again by their
    content. ``GRADWRIGHT_CACHE`` names another folder, or is ``off``; ``GRADWRIGHT_PLANS=off``
    keeps machine code alone.

    >>> import gradwright as gw
    >>> cache = gw.disk_cache()
    >>> cache.plans >= 0, cache.nbytes >= 0
    (True, True)
    """
    return DiskCache()
