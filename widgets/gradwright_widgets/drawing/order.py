"""The order in which names are listed."""

from __future__ import annotations

import re


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return what names sort by, so that ``layer10`` comes after ``layer9``.

    >>> sorted(["a10", "a9", "a"], key=natural)
    ['a', 'a9', 'a10']
    """
    return [
        (0, int(part), "") if part.isdigit() and part.isascii() else (1, 0, part)
        for part in re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    ]
