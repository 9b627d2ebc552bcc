"""What a traced function sees outside its arguments, and whether that has changed since."""

from __future__ import annotations

import functools
import inspect
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_DEPTH, _ITEMS = 4, 2000
"""How deep and how much of the lists, dicts and objects that a function sees is watched."""
_LIBRARIES = {"numpy", "gradwright", "ml_dtypes", *sys.stdlib_module_names}
_MISSING = object()


class Guards:
    """Names that a function reads and what they were: other objects there ask for a new trace.

    Watched are closures, globals, defaults, functions that these name, and the items of lists,
    dicts and objects, a few levels deep. Arrays found on the way are read anew at each call.

    >>> scale = {"by": np.ones(2)}
    >>> guards = Guards(lambda x: x * scale["by"])
    >>> list(guards.arrays.values()), guards.changed()
    (["scale['by']"], '')
    >>> scale["by"] = np.zeros(2)
    >>> guards.changed()
    'scale'
    """

    def __init__(self, fn: Callable[..., Any], objects: dict[str, Any] | None = None) -> None:
        self.arrays: dict[int, str] = {}
        """Address of an array that others hold -> how it is called."""
        self._kept: list[Any] = []  # addresses stay theirs while these live
        self._checks: list[tuple[str, Callable[[], bool]]] = []
        self._generators: list[tuple[str, Any, Any]] = []
        self._seen: set[int] = set()
        self._function(fn)
        for name, value in (objects or {}).items():
            self._value(name, value, 0)
        self._random = _random_state()

    def changed(self) -> str:
        """Return the name of what is another object now, "" if all is as it was."""
        for name, holds in self._checks:
            if not holds():
                return name
        return ""

    def drawn(self) -> str:
        """Return what random numbers were drawn from since, "" for nothing."""
        now = _random_state()
        for name, before, after in zip(("np.random", "random"), self._random, now, strict=True):
            if before != after:
                return name
        for name, generator, state in self._generators:
            if _state_of(generator) != state:
                return name
        return ""

    def _function(self, fn: Any) -> None:
        fn = inspect.unwrap(fn)
        if isinstance(fn, types.MethodType):
            self._value("self", fn.__self__, 0)
            fn = fn.__func__
        if isinstance(fn, functools.partial):
            for part in (*fn.args, *fn.keywords.values()):
                self._value("argument of partial", part, 0)
            self._function(fn.func)
            return
        if not isinstance(fn, types.FunctionType):
            self._value(type(fn).__name__, fn, 0)
            return
        if id(fn) in self._seen:
            return
        self._seen.add(id(fn))
        self._kept.append(fn)
        for name, value in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            self._cell(name, value)
        names = list(_names(fn.__code__))
        space = fn.__globals__
        for name in names:
            if name in space:
                value = space[name]
                self._entry(name, space, name, value)
                self._value(name, value, 0, names)
        for value in (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()):
            self._value("default", value, 0)

    def _cell(self, name: str, cell: Any) -> None:
        try:
            value = cell.cell_contents
        except ValueError:  # not set yet
            return
        self._check(name, lambda: cell.cell_contents is value)
        self._value(name, value, 0)

    def _entry(self, name: str, space: dict[str, Any], key: str, value: Any) -> None:
        self._checks.append((name, lambda: space.get(key, _MISSING) is value))

    def _check(self, name: str, holds: Callable[[], bool]) -> None:
        self._checks.append((name, holds))

    def _value(self, name: str, value: Any, depth: int, names: Any = ()) -> None:
        if isinstance(value, np.ndarray):
            self.arrays.setdefault(id(value), name)
            self._kept.append(value)
        elif isinstance(value, (np.random.Generator, np.random.RandomState)):
            self._generators.append((name, value, _state_of(value)))
        elif isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            if isinstance(value, functools.partial) or not _of_library(value.__module__):
                self._function(value)
        elif callable(value) and hasattr(value, "__wrapped__"):
            self._function(value)
        elif isinstance(value, types.ModuleType):
            if not _of_library(value.__name__):
                self._module(name, value, names)
        elif isinstance(value, type):
            self._class(name, value, depth)
        elif isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
            return
        elif depth < _DEPTH and id(value) not in self._seen and len(self._seen) < _ITEMS:
            self._seen.add(id(value))
            self._kept.append(value)
            self._items(name, value, depth)

    def _module(self, name: str, module: types.ModuleType, names: Any) -> None:
        space = vars(module)
        for key in names:
            if key in space:
                value = space[key]
                self._entry(f"{name}.{key}", space, key, value)
                self._value(f"{name}.{key}", value, 1)

    def _items(self, name: str, value: Any, depth: int) -> None:
        if isinstance(value, (dict, list)) and len(value) > _ITEMS:
            n = len(value)
            self._check(name, lambda: len(value) == n)
        elif isinstance(value, dict):
            held = dict(value)
            self._check(name, lambda: same_items(value, held))
            for key, item in held.items():
                self._value(f"{name}[{key!r}]", item, depth + 1)
        elif isinstance(value, (list, tuple)):
            found = list(value)
            if isinstance(value, list):
                self._check(name, lambda: same_items(value, found))
            for i, item in enumerate(found):
                self._value(f"{name}[{i}]", item, depth + 1)
        elif not _of_library(type(value).__module__):
            self._object(name, value, depth)

    def _object(self, name: str, value: Any, depth: int) -> None:
        """Watch the attributes of an object, those of its class, and the methods' names."""
        if isinstance(getattr(value, "__dict__", None), dict):
            own = dict(vars(value))
            self._check(name, lambda: same_items(vars(value), own))
            for key, item in own.items():
                self._value(f"{name}.{key}", item, depth + 1)
        for cls in type(value).__mro__:
            self._class(type(value).__name__, cls, depth)
            for key, member in vars(cls).items():
                if isinstance(member, types.MemberDescriptorType):  # of __slots__
                    self._slot(f"{name}.{key}", value, key, depth)

    def _slot(self, name: str, value: Any, key: str, depth: int) -> None:
        held = getattr(value, key, _MISSING)
        self._check(name, lambda: getattr(value, key, _MISSING) is held)
        self._value(name, held, depth + 1)

    def _class(self, name: str, cls: type, depth: int) -> None:
        if _of_library(cls.__module__) or id(cls) in self._seen:
            return
        self._seen.add(id(cls))
        for key, member in list(vars(cls).items()):
            if isinstance(member, types.FunctionType):
                self._function(member)
            elif not key.startswith("__"):
                self._check(
                    f"{name}.{key}",
                    lambda key=key, member=member: vars(cls).get(key, _MISSING) is member,  # type: ignore[misc]
                )
                self._value(f"{name}.{key}", member, depth + 1)


def _of_library(module: Any) -> bool:
    return str(module).partition(".")[0] in _LIBRARIES


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield the names that a function and those inside it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def same_items(now: Any, before: Any) -> bool:
    """Tell whether a dict or list holds the very objects that it held."""
    if len(now) != len(before):
        return False
    if isinstance(before, dict):
        return all(now.get(k, _MISSING) is v for k, v in before.items())
    return all(a is b for a, b in zip(now, before, strict=True))


def _state_of(generator: Any) -> str:
    """Return the state of a random generator as text."""
    if isinstance(generator, np.random.RandomState):
        return repr(generator.get_state(legacy=False))
    return repr(generator.bit_generator.state)


def _random_state() -> tuple[Any, Any]:
    state: Any = np.random.mtrand._rand.get_state(legacy=False)
    return repr((state["state"]["pos"], state["state"]["key"][:8].tolist(), state["gauss"])), hash(
        random.getstate()
    )
