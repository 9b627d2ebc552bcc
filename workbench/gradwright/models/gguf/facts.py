"""The keys of a GGUF file, asked for by what they should be: claims are checked where used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import ArchiveError

MISSING: Any = object()


class Facts:
    """Keys of one architecture, or of another prefix.

    >>> facts = Facts({"llama.block_count": 2}, "llama")
    >>> facts.size("block_count"), facts.number("rope.freq_base", 1e4), facts.held("rope.base")
    (2, 10000.0, False)
    """

    def __init__(self, keys: Mapping[str, Any], prefix: str) -> None:
        self._keys, self._prefix = keys, prefix

    def held(self, key: str) -> bool:
        """Tell whether a key is there."""
        return f"{self._prefix}.{key}" in self._keys

    def size(self, key: str, default: Any = MISSING, least: int = 1) -> int:
        """Return an integer; that of all layers, where each has one and they are the same."""
        value = self._value(key, default)
        if isinstance(value, np.ndarray) and value.size and np.all(value == value[0]):
            value = value[0].item()
        if isinstance(value, np.ndarray):
            raise self.refused(key, value.tolist()[:8], "the same number for all layers")
        if value is default:
            return value  # type: ignore[no-any-return]
        if type(value) is not int or not least <= value < 1 << 31:
            raise self.refused(key, value, f"an integer of {least} or more")
        return value

    def number(self, key: str, default: Any = MISSING) -> float:
        """Return a finite number."""
        value = self._value(key, default)
        if value is not default and (type(value) not in (int, float) or not np.isfinite(value)):
            raise self.refused(key, value, "a number")
        return value  # type: ignore[no-any-return]

    def text(self, key: str, default: Any = MISSING) -> str:
        """Return text."""
        found: str = self._of(str, key, default, "text")
        return found

    def flag(self, key: str, default: Any = MISSING) -> bool:
        """Return whether."""
        found: bool = self._of(bool, key, default, "true or false")
        return found

    def texts(self, key: str, default: Any = MISSING) -> Sequence[str]:
        """Return an array of texts."""
        value = self._value(key, default)
        if value is default:
            return value  # type: ignore[no-any-return]
        if isinstance(value, str | np.ndarray | int | float):
            raise self.refused(key, type(value).__name__, "texts")
        found: Sequence[str] = value
        return found

    def numbers(self, key: str, kinds: str, default: Any = MISSING) -> np.ndarray[Any, Any]:
        """Return an array of numbers whose dtype is of these kinds, such as ``"f"``."""
        value = self._value(key, default)
        if value is default:
            return value  # type: ignore[no-any-return]
        if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
            raise self.refused(key, type(value).__name__, f"numbers of kind {' or '.join(kinds)}")
        return value

    def refused(self, key: str, value: Any, need: str) -> ArchiveError:
        """Return the error that says what a key should be."""
        return ArchiveError(f"{self._prefix}.{key} is {value!r:.60}", need=need)

    def _of(self, kind: type, key: str, default: Any, need: str) -> Any:
        value = self._value(key, default)
        if value is not default and type(value) is not kind:
            raise self.refused(key, value, need)
        return value

    def _value(self, key: str, default: Any) -> Any:
        value = self._keys.get(f"{self._prefix}.{key}", default)
        if value is MISSING:
            raise ArchiveError(f"the file has no key {self._prefix}.{key}")
        return value
