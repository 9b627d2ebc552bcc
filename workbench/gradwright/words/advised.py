"""Advised: what tells of a name that it does not have what that is here, where others have it."""

from __future__ import annotations

from typing import Any, ClassVar

from .advice import advice
from .rows import GRAPH, OPTIMIZER

__all__ = ["GRAPH", "OPTIMIZER", "Advised"]


class Advised:
    """A base of classes whose missing names may be those of torch and Keras.

    >>> class Model(Advised, words=GRAPH):
    ...     pass
    >>> Model().parameters()
    Traceback (most recent call last):
        ...
    AttributeError: a Model has no attribute 'parameters'; did you mean g.trainable?
    """

    _words: ClassVar[str] = ""
    """Whose rows of ``theirs`` are meant."""

    def __init_subclass__(cls, *, words: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._words = words or cls._words

    def __getattr__(self, name: str) -> Any:
        advised = advice(self._words, name)
        what = f"a {type(self).__name__} has no attribute {name!r}"
        raise AttributeError(f"{what}; {advised}" if advised else what)
