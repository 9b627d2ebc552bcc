"""The OpenBLAS that numpy has loaded, as addresses that machine code can call.

A wheel of numpy brings OpenBLAS along, and its symbols carry a prefix and a suffix that say so; a
distribution links one of its own. Both are found through numpy's extension module, whose libraries
are in the process already. Any other BLAS (Accelerate, MKL) is None here: numpy calls it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SPELLINGS = (("scipy_", "64_"), ("", "64_"), ("scipy_", ""), ("", ""))
"""Prefixes and suffixes of the symbols: of numpy's wheels, of 64-bit builds, of plain builds."""
ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112


@dataclass(frozen=True)
class Blas:
    """Addresses of products by dtype character, ``"f"`` and ``"d"``, and how threads are set."""

    gemm: dict[str, int]
    gemv: dict[str, int]
    int_bits: int
    """Size of the integers that it takes."""
    get_threads: Callable[[], int]
    set_threads: Callable[[int], Any]
    version: str

    @property
    def int_type(self) -> Any:
        """Return the ctypes type of its integers."""
        return ctypes.c_int64 if self.int_bits == 64 else ctypes.c_int32


@functools.cache
def blas() -> Blas | None:
    """Return numpy's OpenBLAS, or None if numpy has another BLAS or it does not pass a test.

    Examples:
        >>> found = blas()
        >>> found is None or found.get_threads() >= 1
        True
    """
    for library in _libraries():
        for prefix, suffix in SPELLINGS:
            found = _open(library, prefix, suffix)
            if found is not None and _is_right(found):
                return found
    return None


def _libraries() -> Iterator[ctypes.CDLL]:
    """Yield what may hold the symbols: numpy's own module, then the files of its wheel."""
    folder = pathlib.Path(np.__file__).parent
    beside = [folder.parent / "numpy.libs", folder / ".dylibs"]
    modules = [*folder.glob("_core/_multiarray_umath*.so"), *folder.glob("_core/*umath*.pyd")]
    for path in (*modules, *(f for d in beside if d.is_dir() for f in d.glob("*openblas*"))):
        try:
            yield ctypes.CDLL(str(path))
        except OSError:  # a file of that name for another machine
            continue


def _open(library: ctypes.CDLL, prefix: str, suffix: str) -> Blas | None:
    def symbol(name: str) -> Any:
        return getattr(library, f"{prefix}{name}{suffix}")

    try:
        config, getter, setter = (
            symbol(f"openblas_{name}")
            for name in ("get_config", "get_num_threads", "set_num_threads")
        )
        gemm = {c: _address(symbol(f"cblas_{c}gemm")) for c in ("s", "d")}
        gemv = {c: _address(symbol(f"cblas_{c}gemv")) for c in ("s", "d")}
    except AttributeError:
        return None
    config.restype, getter.restype = ctypes.c_char_p, ctypes.c_int
    setter.argtypes, setter.restype = [ctypes.c_int], None
    bits = 64 if b"USE64BITINT" in config() else 32
    chars = {"s": "f", "d": "d"}
    return Blas(
        {chars[c]: a for c, a in gemm.items()},
        {chars[c]: a for c, a in gemv.items()},
        bits,
        getter,
        setter,
        config().decode("ascii", "replace").strip(),
    )


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _is_right(found: Blas) -> bool:
    """Tell whether small products come out right: names alone do not tell how arguments pass."""
    number = found.int_type
    pointer = ctypes.c_void_p
    for char, real in (("f", ctypes.c_float), ("d", ctypes.c_double)):
        a, b = np.arange(6.0, dtype=char).reshape(2, 3), np.arange(12.0, dtype=char).reshape(4, 3)
        c, y = np.empty((2, 4), char), np.empty(2, char)
        at = [x.ctypes.data for x in (a, b, c, y)]
        enums, sizes = [ctypes.c_int] * 3, [number] * 3
        gemm = ctypes.CFUNCTYPE(
            None, *enums, *sizes, real, pointer, number, pointer, number, real, pointer, number
        )(found.gemm[char])
        gemm(ROW_MAJOR, PLAIN, TRANSPOSED, 2, 4, 3, 1.0, at[0], 3, at[1], 3, 0.0, at[2], 4)
        gemv = ctypes.CFUNCTYPE(
            None,
            *enums[:2],
            *sizes[:2],
            real,
            pointer,
            number,
            pointer,
            number,
            real,
            pointer,
            number,
        )(found.gemv[char])
        gemv(ROW_MAJOR, PLAIN, 2, 3, 1.0, at[0], 3, at[1], 1, 0.0, at[3], 1)
        if not (np.array_equal(c, [[5, 14, 23, 32], [14, 50, 86, 122]]) and y.tolist() == [5, 14]):
            return False
    return found.get_threads() >= 1


class _Count:
    """OpenBLAS's number of threads, which is one for the process: the least that anybody wants.

    It is put back when nobody is left that wants a number.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.wanted: list[int] = []
        self.before = self.now = 1
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def get(self) -> int:
        """Ask OpenBLAS; another BLAS counts as one thread."""
        library = blas()
        return 1 if library is None else library.get_threads()

    def set(self, n: int) -> None:
        """Tell OpenBLAS."""
        if (library := blas()) is not None:
            library.set_threads(n)
        self.now = n

    def _in_child(self) -> None:
        """Forget what threads wanted that are not in this process."""
        self.lock = Lock()
        if self.wanted:
            self.wanted = []
            self.set(self.before)


_count = _Count()


class Limit:
    """Let OpenBLAS have at most ``n`` threads inside of a ``with``; None changes nothing.

    Where others want less at the same time, that holds. It costs 1.4 µs, and 2.1 where the number
    changes.

    >>> library = blas()
    >>> with Limit(1):
    ...     library is None or library.get_threads() == 1
    True
    """

    __slots__ = ("n",)

    def __init__(self, n: int | None) -> None:
        self.n = n

    def __enter__(self) -> None:
        if self.n is None:
            return
        with _count.lock:
            wanted = _count.wanted
            if not wanted:
                _count.before = _count.now = _count.get()
            wanted.append(self.n)
            if (least := min(wanted)) != _count.now:
                _count.set(least)

    def __exit__(self, *exc: object) -> None:
        if self.n is None:
            return
        with _count.lock:
            wanted = _count.wanted
            if self.n in wanted:  # else the process has been forked meanwhile
                wanted.remove(self.n)
            if (least := min(wanted, default=_count.before)) != _count.now:
                _count.set(least)


def default_threads() -> int:
    """Return how many threads OpenBLAS uses where nobody limits it; 1 if numpy has another BLAS."""
    with _count.lock:
        return _count.before if _count.wanted else _count.get()
