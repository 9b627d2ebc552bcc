"""Named: settings by name, of which those that do not exist are told from those that do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self

from .spelling import meant


class Named:
    """A base of dataclasses that refuse other names than their fields', and say what was meant.

    It is a base, as what changes ``__init__`` would hide the fields from ``help``.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size(Named):
    ...     width: int = 1
    >>> Size(widht=2)
    Traceback (most recent call last):
        ...
    TypeError: Size has no 'widht'; it has width; did you mean 'width'?
    """

    instead: ClassVar[Mapping[str, str]] = {}
    """What does what is hoped of a name, where that is no field of another spelling."""

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Refuse names that are no fields."""
        known = [f.name for f in fields(cls)]  # type: ignore[arg-type]  # a dataclass is made of it
        for name in named:
            if name not in known:
                close = meant(name, known)
                hint = cls.instead.get(name) or (f"did you mean {close!r}?" if close else "")
                parts = [f"{cls.__name__} has no {name!r}", f"it has {', '.join(known)}", hint]
                raise TypeError("; ".join(filter(None, parts)))
        return super().__new__(cls)
