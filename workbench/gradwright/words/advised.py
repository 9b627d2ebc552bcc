"""Advised: classes and functions that say what others' names and keywords are here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, TypeVar

from .advice import advice, advice_on, advice_on_keyword
from .rows import GRAPH, OPTIMIZER

__all__ = ["GRAPH", "OPTIMIZER", "Advised", "advised", "no_attribute", "refuse_keyword"]
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


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
        found = advice(self._words, name)
        what = f"a {type(self).__name__} has no attribute {name!r}"
        raise no_attribute(f"{what}; {found}" if found else what, name, advised=bool(found))


def no_attribute(said: str, name: str, *, advised: bool) -> AttributeError:
    """Return the error for a missing name; what is advised keeps Python from guessing on its own.

    >>> no_attribute("a Model has no attribute 'fti'; did you mean fit?", "fti", advised=True).name
    'fti'
    """
    return AttributeError(said, name=name, obj=None) if advised else AttributeError(said)


def advised(function: FunctionT) -> FunctionT:
    """Have a function say what a keyword is here that it does not have.

    >>> @advised
    ... def mean(x, axis=None):
    ...     return x
    >>> mean(1.0, dim=0)
    Traceback (most recent call last):
        ...
    TypeError: mean has no 'dim'; it has x, axis; did you mean axis=dim?
    """
    signature = inspect.signature(function)
    known = signature.parameters
    assert not any(p.kind is p.VAR_KEYWORD for p in known.values())

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        refuse_keyword(function.__name__, named, [k for k in known if k != "self"])
        try:
            return function(*args, **named)
        except TypeError:
            wrong = _misfit(signature, args, named)
            if not wrong:
                raise
            found = advice_on(function.__name__)
            said = f"{function.__name__}: {wrong}; it has {', '.join(known)}"
            raise TypeError(f"{said}; {found}" if found else said) from None

    return call  # type: ignore[return-value]


def _misfit(signature: inspect.Signature, args: Any, named: Mapping[str, Any]) -> str:
    """Return why a call does not fit a signature, "" where it does."""
    try:
        signature.bind(*args, **named)
    except TypeError as error:
        return str(error)
    return ""


def refuse_keyword(of: str, named: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise TypeError for the first keyword that is not known, and say what it is here."""
    wrong = next((name for name in named if name not in known), None)
    if wrong is not None:
        said = f"{of} has no {wrong!r}; it has {', '.join(known) or 'none'}"
        found = advice_on_keyword(of, wrong, known)
        raise TypeError(f"{said}; {found}" if found else said)
