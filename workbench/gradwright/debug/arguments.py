"""Arguments of the debugging tools: each is of its kind, or an error says what is needed.

SEED.check(seed=seed, step=step)
FUNCTION.check(TrainingError, on_alarm=on_alarm)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import FeedError, GradientError, GradwrightError, GraphError
from ..graph import Graph, Tensor, Values

_LONGEST = 60
"""Characters of a wrong value that an error shows."""


@dataclass(frozen=True)
class Kind:
    """What some arguments have to be.

    >>> WHOLE.check(n=3)
    >>> WHOLE.check(n="x")
    Traceback (most recent call last):
    gradwright.errors.GraphError: n='x' makes no sense
      need: a whole number >= 0
    """

    need: str
    fits: Callable[[Any], bool]

    @property
    def or_none(self) -> Kind:
        """This kind, or None."""
        return Kind(f"{self.need}, or None", lambda value: value is None or self.fits(value))

    def check(self, error: type[GradwrightError] = GraphError, /, **given: Any) -> None:
        """Raise an error for the first that is of another kind, by its name."""
        for name, value in given.items():
            if not self.fits(value):
                raise error(f"{name}={_shown(value)} makes no sense", need=self.need)


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _is_number(value: object) -> bool:
    real = isinstance(value, int | float | np.integer | np.floating)
    return real and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def one_of(value: object, words: Sequence[str]) -> bool:
    """Tell whether a value is one of some words."""
    return isinstance(value, str) and value in words


INDEX = Kind("a whole number", _is_whole)
FLAG = Kind("True or False", lambda value: isinstance(value, bool | np.bool_))
WHOLE = Kind("a whole number >= 0", lambda value: _is_whole(value) and value >= 0)
COUNT = Kind("a whole number >= 1", lambda value: _is_whole(value) and value >= 1)
MOST, EVERY = WHOLE.or_none, COUNT.or_none
SEED = Kind("a whole number from 0 to 2**64 - 1", lambda value: WHOLE.fits(value) and value < 2**64)
FRACTION = Kind("a number between 0 and 1", lambda value: _is_number(value) and 0 < value < 1)
SHARE = Kind("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
BYTES = Kind("a number >= 0", lambda value: _is_number(value) and value >= 0)
BOUND = Kind("a number", _is_number).or_none
TEXT = Kind("text", lambda value: isinstance(value, str))
NAME = Kind("a name or a pattern of names", TEXT.fits).or_none
FUNCTION = Kind("a function", callable)
HOOK = FUNCTION.or_none
STOP = Kind(
    "a function, a threading.Event",
    lambda value: callable(value) or isinstance(value, threading.Event),
).or_none
PROGRESS = Kind(
    "True, False, or a function of (done, total, name)",
    lambda value: FLAG.fits(value) or callable(value),
)
VALUES = Kind("graph.values, a snapshot of it", lambda value: isinstance(value, Values)).or_none


def check_run(call: str, graph: object, training: object, values: object, **seeds: object) -> None:
    """Raise GradientError for what no graph can be run with; ``call`` says how one is given."""
    if not isinstance(graph, Graph):
        raise GradientError(f"{_shown(graph)} is no graph", need=call)
    FLAG.check(GradientError, training=training)
    VALUES.check(GradientError, values=values)
    SEED.check(GradientError, **seeds)


def placeholder_named(graph: Graph, name: object) -> Tensor:
    """Return the tensor that a key of feeds means; raises FeedError."""
    if not isinstance(name, str):
        raise FeedError(f"{_shown(name)} is fed", need="a placeholder, or the name of one, as key")
    found = graph.get(name)
    if found is None:
        names = ", ".join(repr(t.name) for t in graph.placeholders) or "none"
        raise FeedError(
            f"graph {graph.name!r} has no tensor {name!r}", facts=[f"placeholders: {names}"]
        )
    return found
