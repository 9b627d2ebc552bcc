"""What makes two calls alike: the structure of the arguments, dtypes, shapes and static values."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from ..errors import TraceError
from .lazy import LazyArray

Array = np.ndarray[Any, Any]
Rebuild = Callable[[Iterator[Any]], Any]


class Leaf:
    """One argument, or part of one, that is traced."""

    __slots__ = ("argument", "kind", "path", "value")

    def __init__(self, argument: str, path: str, value: Any, kind: str) -> None:
        self.argument, self.path, self.value, self.kind = argument, path, value, kind


class Signature:
    """How the arguments of a function are split into what is traced and what is static."""

    def __init__(
        self, fn: Callable[..., Any], static: Collection[str], dynamic: Collection[str]
    ) -> None:
        try:
            self.parameters = list(inspect.signature(fn).parameters.values())
        except (TypeError, ValueError):
            self.parameters = []
        known = [p.name for p in self.parameters]
        open_ended = any(p.kind is p.VAR_KEYWORD for p in self.parameters) or not known
        for name in (*static, *dynamic):
            if name not in known and not open_ended:
                raise TraceError(
                    f"{getattr(fn, '__name__', fn)} has no argument {name!r}",
                    need=", ".join(known) or "an argument",
                )
        self.static, self.dynamic = frozenset(static), frozenset(dynamic)
        self._positional = [
            p.name
            for p in self.parameters
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        self._rest = next((p.name for p in self.parameters if p.kind is p.VAR_POSITIONAL), "args")

    def name_of(self, place: int) -> str:
        """Return the name of a positional argument."""
        return self._positional[place] if place < len(self._positional) else self._rest

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Leaf]]:
        """Return the key of a call and the leaves that are traced."""
        leaves: list[Leaf] = []
        key: list[Any] = []
        for i, value in enumerate(args):
            name = self.name_of(i)
            key.append(self._key(name, name, value, leaves))
        for name in sorted(kwargs):
            key.append((name, self._key(name, name, kwargs[name], leaves)))
        if len(leaves) > 1:
            ids = [id(leaf.value) for leaf in leaves if leaf.kind == "array"]
            if len(set(ids)) != len(ids):
                key.append(tuple(ids.index(i) for i in ids))
        return tuple(key), leaves

    def _key(self, argument: str, path: str, value: Any, leaves: list[Leaf]) -> Any:
        if argument in self.static:
            return _static(value)
        kind = type(value)
        if kind is np.ndarray or isinstance(value, np.ndarray):
            leaves.append(Leaf(argument, path, value, "array"))
            layout = None if value.flags.c_contiguous else value.strides
            return value.dtype, value.shape, layout, value.flags.writeable
        if isinstance(value, np.generic):
            leaves.append(Leaf(argument, path, value, "scalar"))
            return "scalar", value.dtype
        if kind in (float, complex) or (kind is int and argument in self.dynamic):
            leaves.append(Leaf(argument, path, value, "number"))
            return kind
        if isinstance(value, dict):
            parts = [(k, self._key(argument, f"{path}_{k}", v, leaves)) for k, v in value.items()]
            return kind, tuple(parts)
        if isinstance(value, (list, tuple)):
            items = enumerate(value)
            return kind, tuple(self._key(argument, f"{path}_{i}", v, leaves) for i, v in items)
        if isinstance(value, LazyArray):
            return self._key(argument, path, value.elements(f"the argument {path}"), leaves)
        return _static(value)

    def lifted(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], made: Iterator[Any], kept: list[Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with lazy arrays for the leaves, in the order of ``flatten``.

        ``kept`` collects the dicts and lists made on the way, with what they hold.
        """

        def lift(argument: str, value: Any) -> Any:
            if argument in self.static:
                return value
            if isinstance(value, (np.ndarray, np.generic, LazyArray)):
                return next(made)
            if type(value) in (float, complex):
                return next(made)
            if type(value) is int and argument in self.dynamic:
                return next(made)
            if isinstance(value, dict):
                found = copy.copy(value)
                for k, v in value.items():
                    found[k] = lift(argument, v)
                kept.append((argument, found, dict(found)))
                return found
            if isinstance(value, (list, tuple)):
                kind: Any = type(value)
                parts = [lift(argument, v) for v in value]
                same = kind._make(parts) if hasattr(kind, "_make") else kind(parts)
                if isinstance(same, list):
                    kept.append((argument, same, list(same)))
                return same
            return value

        positional = tuple(lift(self.name_of(i), v) for i, v in enumerate(args))
        return positional, {k: lift(k, kwargs[k]) for k in sorted(kwargs)}


def _static(value: Any) -> Any:
    """Return the identity of a static value: type and value, or the object where it has none."""
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_static, value))
    if isinstance(value, dict):
        return dict, tuple((k, _static(v)) for k, v in value.items())
    if isinstance(value, np.ndarray):
        raise TraceError(
            "an array cannot be static: it may change", hint="a tuple, or leave it traced"
        )
    if isinstance(value, float):
        return float, value.hex()
    try:
        hash(value)
    except TypeError:
        return Same(value)
    return type(value), value


class Same:
    """The identity of an object that cannot be compared otherwise."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
