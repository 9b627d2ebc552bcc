"""Named: settings by name, of which those that do not exist are told from those that do."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, Self

from .advised import refuse_keyword


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
        if is_dataclass(cls):
            refuse_keyword(cls.__name__, named, [f.name for f in fields(cls)])
        return super().__new__(cls)
