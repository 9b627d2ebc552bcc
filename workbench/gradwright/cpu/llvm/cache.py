"""Object code on disk: compiled once per machine, trusted only if this user wrote it.

A file is its magic, its key, the length of the code, an HMAC over all of these under the user's
own random secret, and the code. Whatever is amiss with a file or the folder, the kernel is just
compiled again: no trouble with the disk ever fails a run.

The folder is ``$GRADWRIGHT_CACHE``, else ``gradwright/native`` in the user's cache folder;
``GRADWRIGHT_CACHE=off`` switches the cache off.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import itertools
import logging
import os
import secrets
import stat
import struct
import sys
from pathlib import Path

LOG = logging.getLogger("gradwright.cpu")
MAGIC = b"gradwright object 1\n"
LIMIT = 200 * 2**20
"""Bytes the folder may hold; beyond them the files used longest ago go."""
_stores = itertools.count()
_LENGTH = struct.Struct("<Q")
_SECRET = "secret"


def folder() -> Path | None:
    """Return the cache's folder, which need not exist; None if the cache is switched off.

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


def key(text: str, identity: str) -> str:
    """Return the name of a text's object code, by the compiler and for the CPU of ``identity``.

    >>> key("define ...", "llvm 20 x86") == key("define ...", "llvm 20 x86")
    True
    """
    return hashlib.sha256("\0".join([_revision(), identity, text]).encode()).hexdigest()


def load(name: str) -> bytes | None:
    """Return the object code under a key; None if it is not there, or not as this user wrote it."""
    root = folder()
    try:
        if root is None or (secret := _read_secret(root)) is None:
            return None
        path = root / f"{name}.o"
        data = path.read_bytes()
        head, code = _split(data)
        if head is None or not hmac.compare_digest(head, _head(name, code, secret)):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used just now
        return code
    except OSError:
        return None


def store(name: str, code: bytes) -> None:
    """Keep object code under a key, if the disk lets us."""
    root = folder()
    try:
        if root is None:
            return
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        secret = _read_secret(root) or _make_secret(root)
        if secret is not None:
            _write(root / f"{name}.o", _head(name, code, secret) + code)
            if next(_stores) % 64 == 0:
                trim(root)
    except OSError:
        return


def _head(name: str, code: bytes, secret: bytes) -> bytes:
    start = MAGIC + bytes.fromhex(name) + _LENGTH.pack(len(code))
    return start + hmac.digest(secret, start + code, "sha256")


_HEAD = len(MAGIC) + 32 + _LENGTH.size + 32


def _split(data: bytes) -> tuple[bytes | None, bytes]:
    return (data[:_HEAD] if len(data) > _HEAD else None), data[_HEAD:]


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
    return secret if len(secret) == 32 else None


def _make_secret(root: Path) -> bytes | None:
    """Write a new secret; of several processes the last wins, and what others signed goes."""
    if not _is_ours(root, directory=True):
        return None
    _write(root / _SECRET, secrets.token_bytes(32))
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


def trim(root: Path) -> None:
    """Delete the files used longest ago, until a tenth of `LIMIT` is free, when it is passed."""
    files = []
    for path in root.glob("*.o*"):
        with contextlib.suppress(OSError):
            info = path.stat()
            files.append((info.st_mtime, info.st_size, path))
    total = sum(size for _, size, _ in files)
    if total <= LIMIT:
        return
    LOG.debug("kernels on disk: %d bytes, over %d: those used longest ago go", total, LIMIT)
    for _, size, path in sorted(files):
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
        if total <= LIMIT * 0.9:
            return


@functools.cache
def _revision() -> str:
    """Return the version that the object code belongs to."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("gradwright")
    except PackageNotFoundError:
        return ""
