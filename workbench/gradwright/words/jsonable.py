"""JSON of settings: dataclasses of a closed registry, written with their fields and read back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from ..errors import GradwrightError, TrainingError
from .spelling import meant

Array = np.ndarray[Any, Any]
T = TypeVar("T")
CLASS = "$class"
"""The key that says of which class a JSON object is; no other key begins with ``$``."""
NUMBER = "$number"
"""The key of numbers that JSON has no word for: inf, -inf and nan."""
_known: dict[str, type[Any]] = {}


def jsonable(cls: type[T]) -> type[T]:
    """Register a dataclass, so that settings which hold instances of it can be saved as JSON.

    What is read back is called with its fields by keyword, so its own checks see them. A class that
    a notebook cell defines again takes the place of the old one.

    Raises TypeError for what is no dataclass, and for a name that another class has.

    >>> import gradwright as gw
    >>> from dataclasses import dataclass
    >>> from gradwright.words.jsonable import from_json, jsonable, to_json
    >>> @jsonable
    ... @dataclass(frozen=True)
    ... class Warm:
    ...     steps: int = 10
    ...     shape: tuple[float, ...] = (0.0, 1.0)
    >>> to_json(Warm(20))
    {'$class': 'Warm', 'steps': 20, 'shape': [0.0, 1.0]}
    >>> from_json(to_json(Warm(20)))
    Warm(steps=20, shape=(0.0, 1.0))
    """
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__name__} is no dataclass: @jsonable goes above @dataclass")
    held, where = _known.get(cls.__name__), f"{cls.__module__}.{cls.__qualname__}"
    if held is not None and f"{held.__module__}.{held.__qualname__}" != where:
        raise TypeError(f"{cls.__name__!r} is the name of {held.__module__}.{held.__qualname__}")
    _known[cls.__name__] = cls
    return cls


def defaults_of(name: Any) -> dict[str, Any]:
    """Return the fields that a registered class has defaults for; none of another name.

    >>> import gradwright as gw
    >>> from gradwright.words.jsonable import defaults_of
    >>> gw.EMA().decay, defaults_of("EMA")
    (0.999, {'decay': 0.999, 'start': 1, 'every': 1, 'buffers': False})
    """
    cls = _known.get(name) if isinstance(name, str) else None
    found = {}
    for field in fields(cls) if cls is not None else ():
        if field.default is not MISSING:
            found[field.name] = field.default
        elif field.default_factory is not MISSING:
            found[field.name] = field.default_factory()
    return found


def to_json(value: Any, at: str = "") -> Any:
    """Return ``value`` as what ``json.dumps`` takes: numbers, strings, lists, objects.

    ``at`` names the value in errors. Raises TrainingError, with the field, for functions, tensors,
    and classes that are not registered.

    >>> import gradwright as gw
    >>> from gradwright.words.jsonable import to_json
    >>> to_json({"rates": (0.1, float("inf"))})
    {'rates': [0.1, {'$number': 'inf'}]}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {NUMBER: str(value)}
    if isinstance(value, list | tuple):
        return [to_json(v, f"{at}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key.startswith("$"):
                raise TrainingError(
                    f"{_at(at)} has the key {key!r}, which cannot be saved as JSON",
                    need="strings that do not begin with '$'",
                )
        return {k: to_json(v, f"{at}[{k!r}]") for k, v in value.items()}
    name = type(value).__name__
    if _known.get(name) is not type(value):
        what = f"a function, {value!r}" if callable(value) and name == "function" else f"a {name}"
        raise TrainingError(
            f"{_at(at)} is {what}, which cannot be saved as JSON",
            need="numbers, strings, lists, dicts, and instances of: " + ", ".join(sorted(_known)),
            hint="put @jsonable of gradwright.words.jsonable above your dataclass",
        )
    saved = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    return {CLASS: name} | {k: to_json(v, f"{at}.{k}" if at else k) for k, v in saved.items()}


def from_json(data: Any, at: str = "") -> Any:
    """Return what ``to_json`` was given; lists come back as tuples.

    Classes are looked up among those registered: nothing is imported or evaluated. Raises
    TrainingError for a class or field that is not known, and for values that a class refuses.

    >>> from gradwright.words.jsonable import from_json
    >>> from_json({"rates": [0.1, {"$number": "inf"}]})
    {'rates': (0.1, inf)}
    """
    if isinstance(data, list | tuple):
        return tuple(from_json(v, f"{at}[{i}]") for i, v in enumerate(data))
    if not isinstance(data, Mapping):
        return data
    if data.keys() == {NUMBER}:
        if data[NUMBER] not in ("inf", "-inf", "nan"):
            raise TrainingError(f"{_at(at)} is no number: {data[NUMBER]!r}", need="inf, -inf, nan")
        return float(data[NUMBER])
    if CLASS not in data:
        return {k: from_json(v, f"{at}[{k!r}]") for k, v in data.items()}
    name = data[CLASS]
    cls = _known.get(name) if isinstance(name, str) else None
    if cls is None:
        raise _unknown(f"{_at(at)} is of the class {name!r}, which is not known", name, _known)
    given = {k: v for k, v in data.items() if k != CLASS}
    known = [f.name for f in fields(cls) if f.init]
    for key in given:
        if key not in known:
            raise _unknown(f"{name} has no field {key!r}", key, known)
    values = {k: from_json(v, f"{at}.{k}" if at else k) for k, v in given.items()}
    try:
        return cls(**values)
    except GradwrightError:
        raise
    except Exception as error:  # of whatever kind: a file has said so
        raise TrainingError(f"{_at(at)} is no {name}: {error}") from error


def json_array(value: Any, *, default: Callable[[Any], Any] | None = None) -> Array:
    """Return JSON as bytes, ``u8[n]``, so that it stands among the arrays of a checkpoint.

    ``default`` is what ``json.dumps`` does with what JSON has no word for.

    >>> from gradwright.words.jsonable import from_json_array, json_array
    >>> from_json_array(json_array({"seen": [1, 2]}))
    {'seen': [1, 2]}
    """
    return np.frombuffer(json.dumps(value, default=default).encode(), np.uint8)


def from_json_array(array: Any) -> Any:
    """Return what JSON in bytes stands for; raises ValueError for what is none."""
    return json.loads(bytes(np.asarray(array, np.uint8)))


def _at(at: str) -> str:
    return repr(at) if at else "the value"


def _unknown(what: str, name: Any, known: Any) -> TrainingError:
    close = meant(str(name), list(known))
    return TrainingError(
        what,
        need="one of " + ", ".join(sorted(known)),
        hint=f"did you mean {close!r}?" if close else "",
    )
