"""Named: settings by name, of which those that do not exist are told from those that do."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, Self

from .advice import advice_on_keyword


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

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Refuse names that are no fields."""
        known = [f.name for f in fields(cls)] if is_dataclass(cls) else named.keys()
        for name in named:
            if name not in known:
                said = f"{cls.__name__} has no {name!r}; it has {', '.join(known)}"
                advised = advice_on_keyword(cls.__name__, name, known)
                raise TypeError(f"{said}; {advised}" if advised else said)
        return super().__new__(cls)
