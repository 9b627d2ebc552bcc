"""Files as arrays: memory maps, of which only the rows of a batch are read, and windows of text."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FeedError
from .columns import Array, Columns
from .dataset import At, Table, places, positive
from .digest import digest, spread


def memmap(
    path: str | Path, dtype: Any = None, shape: Sequence[int] | None = None, offset: int = 0
) -> Array:
    """Return a ``.npy`` file, or a file of plain numbers, as an array that stays on disk.

    Args:
        path: the file; what does not end in ``.npy`` is plain numbers.
        dtype: their type; needed for plain numbers, and refused if a ``.npy`` file has another.
        shape: their shape; by default all of them in one row. One size may be -1.
        offset: bytes of a plain file before the first number.

    Raises FeedError for a file whose size does not fit, and OSError for one that cannot be read.

    >>> import gradwright as gw, numpy as np, tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tokens.bin")
    ...     np.arange(6, dtype="uint16").tofile(path)
    ...     gw.data.memmap(path, "uint16", shape=(-1, 2)).tolist()
    [[0, 1], [2, 3], [4, 5]]
    """
    file = Path(path)
    if file.suffix == ".npy":
        try:
            array: Array = np.load(file, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            raise FeedError(f"{file.name} is no array", facts=[str(error)]) from None
        if dtype is not None and array.dtype != np.dtype(dtype):
            raise FeedError(f"{file.name} is {array.dtype}", need=str(np.dtype(dtype)))
        return array if shape is None else array.reshape(tuple(shape))
    if dtype is None:
        raise FeedError(
            f"{file.name} does not say what its numbers are", need="a dtype", hint='"uint16"'
        )
    kind, size = np.dtype(dtype), file.stat().st_size - offset
    if size <= 0 or size % kind.itemsize:
        raise FeedError(
            f"{file.name} holds {max(size, 0)} bytes beyond offset {offset}",
            need=f"a multiple of {kind.itemsize}, for {kind}",
        )
    flat = np.memmap(file, kind, "r", offset)
    try:
        return flat if shape is None else flat.reshape(tuple(shape))
    except ValueError:
        raise FeedError(
            f"{file.name} holds {flat.size} numbers", need=f"shape {tuple(shape or ())}"
        ) from None


class Windows(Table):
    """Windows of a long sequence, and the same one step later."""

    def __init__(self, tokens: Array, length: int, stride: int, names: tuple[str, str]) -> None:
        self._tokens, self._length, self._stride, self._names = tokens, length, stride, names

    @property
    def n(self) -> int:
        """Windows of an epoch."""
        return (len(self._tokens) - self._length - 1) // self._stride + 1

    def rows(self, epoch: int, at: At) -> Columns:
        """Return windows as ``[B, T]``, and what follows each of their places."""
        starts = places(at, self.n) * self._stride
        both = self._tokens[starts[:, None] + np.arange(self._length + 1)]
        return dict(zip(self._names, (both[:, :-1], both[:, 1:]), strict=True))

    def where(self, epoch: int, at: int, row: int = 0) -> str:
        """Say where a window begins."""
        return f"the window from {at * self._stride}"

    def signature(self) -> list[int]:
        """Return the number of tokens, length, stride, and a digest of some windows."""
        return [15, len(self._tokens), self._length, self._stride, self._digest]

    @functools.cached_property
    def _digest(self) -> int:
        return digest(self.rows(0, spread(self.n)))

    def __repr__(self) -> str:
        return f"<{self.n} windows of {self._length} tokens>"


def windows(
    tokens: Any, length: int, *, stride: int | None = None, names: tuple[str, str] = ("x", "t")
) -> Table:
    """Return windows of a sequence of tokens as examples for predicting the next one.

    Row i is ``tokens[i * stride:][:length]`` and, one step later, what follows each token of it.

    Args:
        tokens: one long sequence, such as a memory map.
        length: tokens per window.
        stride: how far apart windows begin; by default they do not overlap.
        names: names of the two columns.

    Raises FeedError if the sequence is shorter than a window and its next token.

    >>> import gradwright as gw
    >>> gw.data.windows(b"a graph", 3).rows(0, slice(0, 2))["t"].tobytes()
    b' graph'
    """
    positive("length", length)
    positive("stride", length if stride is None else stride)
    array = np.frombuffer(tokens, np.uint8) if isinstance(tokens, bytes) else np.asarray(tokens)
    if array.ndim != 1 or len(array) <= length:
        raise FeedError(
            f"a sequence of shape {array.shape} has no window of {length} tokens",
            need=f"one axis, and at least {length + 1} tokens",
        )
    return Windows(array, length, stride or length, names)
