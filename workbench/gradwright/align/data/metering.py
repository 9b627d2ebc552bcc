"""What a chat template may use up: characters that it writes, turns that it takes, time."""

from __future__ import annotations

import re
import time
from collections.abc import ItemsView, KeysView, ValuesView
from contextvars import ContextVar
from typing import Any

SPENT = 1 << 25
"""Characters and turns that a rendering may pay for."""
WEIGHT = 1 << 22
"""Characters that one value may have."""
PRODUCT = 1 << 26
"""Characters that an operation could make of what it is given."""
ELEMENTS = 1 << 18
"""Elements of lists, and of what these hold, that one value may have."""
WIDEST = 10_000
"""The largest number that a method or filter is given, such as a width."""
BITS = 10_000
"""Bits that a whole number may have."""
SECONDS = 5.0
"""How long a rendering may take, of its thread's own time."""
READ = 1 << 12
"""After how much that is paid the clock is read, which takes as long as fifty turns."""
WIDE = re.compile(r"[%)][-+ #.\d]*(\*|\d{5})|\{[^{}]*(\d{5}|\{)")
"""Fields of formats as wide as they like: of five digits, or told by an argument."""


class SpentError(Exception):
    """A template has used up what it may."""


class Meter:
    """What a rendering has left to spend."""

    def __init__(self) -> None:
        self._left = self._read_at = SPENT
        self._end = time.thread_time() + SECONDS

    def spend(self, amount: int) -> None:
        """Pay for something; raises SpentError when nothing is left."""
        self._left -= amount
        if self._left < 0:
            raise SpentError(f"it writes more than {SPENT:,} characters")
        if self._read_at - self._left >= READ:
            self._read_at = self._left
            if time.thread_time() > self._end:
                raise SpentError(f"it takes more than {SECONDS:g} seconds")


METER: ContextVar[Meter | None] = ContextVar("meter", default=None)
"""The meter of the rendering that goes on, if one does."""


def spend(amount: int) -> None:
    """Pay for something, where a rendering goes on."""
    if (meter := METER.get()) is not None:
        meter.spend(amount)


def paid(made: Any) -> Any:
    """Return what an operation has made, and pay for its length."""
    spend(len(made) if isinstance(made, str | list | tuple | dict) else 1)
    return made


def weigh(*values: Any) -> int:
    """Return how many characters and elements plain values have; raises SpentError above limits.

    What lists hold twice counts twice, as whoever writes or compares them meets it twice. To walk
    through them is paid for.

    >>> weigh("abc", [1, "de"])
    7
    """
    total, walked, waiting = 0, 0, list(values)
    while waiting:
        value = waiting.pop()
        walked += 1
        total += len(value) if isinstance(value, str | range) else 1
        if isinstance(value, int) and value.bit_length() > BITS:
            raise SpentError(f"a number in it has more than {BITS:,} bits")
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list | tuple | KeysView | ValuesView | ItemsView):
            waiting += value
        if total > WEIGHT or walked + len(waiting) > ELEMENTS:
            raise SpentError(
                f"a value in it has more than {WEIGHT:,} characters or {ELEMENTS:,} elements"
            )
    spend(walked)
    return total


def check_product(size: int, times: int) -> None:
    """Raise SpentError where something of a size would be made too many times."""
    if size * times > PRODUCT:
        raise SpentError(f"it could make a value of more than {PRODUCT:,} characters")


def check_given(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise SpentError where a method or filter could make too much of what it is given.

    The first argument is what it is a method of. None makes more than what is largest, as often as
    the second is long: so ``replace``, ``join`` and ``format`` do.
    """
    given = [*args, *kwargs.values()]
    second, largest = [0, 0, *sorted(map(weigh, given))][-2:]
    check_product(second, largest)
    numbers = (abs(v) for v in [*args[1:], *kwargs.values()] if isinstance(v, int))
    widest = max(numbers, default=0)
    if widest > WIDEST:
        raise SpentError(f"{name} is given the number {widest}")
    check_product(widest, largest)
    if name in ("format", "format_map") and given and isinstance(given[0], str):
        check_format(given[0])


def check_format(text: str) -> None:
    """Raise SpentError for a format whose fields could be very wide."""
    if WIDE.search(text.replace("{{", "").replace("}}", "")):
        raise SpentError("a format in it is too wide")
    check_product(text.count("{") + text.count("%"), WIDEST)


def check_operands(operator: str, left: Any, right: Any) -> None:
    """Raise SpentError where an operator would make too much of its operands."""
    sizes = weigh(left), weigh(right)
    if operator == "*" and isinstance(left, int) != isinstance(right, int):
        number, size = (left, sizes[1]) if isinstance(left, int) else (right, sizes[0])
        check_product(size, max(0, number))
    if operator == "**" and isinstance(left, int) and isinstance(right, int):
        check_product(left.bit_length() * PRODUCT // BITS, max(0, right))
    if operator == "%" and isinstance(left, str):
        check_product(*sizes)
        check_format(left)
