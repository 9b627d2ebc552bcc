"""Advised: classes and functions that say what others' names and keywords are here.

What is said is found by ``advice.py``, which is imported, in 6 ms, when something is wrong.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, TypeVar

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class Advised:
    """A base of classes whose missing names may be those of torch and Keras.

    >>> from gradwright.words import GRAPH
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
        said = f"a {type(self).__name__} has no attribute {name!r}"
        raise no_attribute(said, name, self._words)


def no_attribute(
    said: str, name: str, *owners: str, find: Callable[[str], str] | None = None, **texts: str
) -> AttributeError:
    """Return the error for a missing name, with advice for the first owner that has some.

    ``find`` and ``texts`` are those of ``advice``; ``find`` is asked for the last owner. What is
    advised keeps Python from guessing on its own.

    >>> from gradwright.words import TENSOR
    >>> no_attribute("no 'unsqueeze'", "unsqueeze", TENSOR)
    AttributeError("no 'unsqueeze'; did you mean x.expand_dims(dim)?")
    """
    if not name.startswith("_"):
        from .advice import advice

        for owner in owners:
            last = owner == owners[-1]
            if found := advice(owner, name, find if last else None, **texts):
                return AttributeError(f"{said}; {found}", name=name, obj=None)
    return AttributeError(said)


def _with(said: str, found: object) -> str:
    """Return what is wrong with advice behind it, if there is some."""
    return f"{said}; {found}" if found else said


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

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except TypeError:
            if said := _misfit(function, args, named):
                raise TypeError(said) from None
            raise

    return call  # type: ignore[return-value]


def _misfit(function: Callable[..., Any], args: Any, named: Mapping[str, Any]) -> str:
    """Return why a call does not fit a function, and what would; "" where it does."""
    of, signature = function.__name__, inspect.signature(function)
    known = [name for name in signature.parameters if name != "self"]
    if said := _unknown(of, named, known):
        return said
    try:
        signature.bind(*args, **named)
    except TypeError as error:
        from .advice import advice_on

        return _with(f"{of}: {error}; it has {', '.join(known)}", advice_on(of))
    return ""


def refuse_keyword(of: str, named: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise TypeError for the first keyword that is not known, and say what it is here."""
    if said := _unknown(of, named, known):
        raise TypeError(said)


def _unknown(of: str, named: Mapping[str, Any], known: Collection[str]) -> str:
    """Return what is wrong with the first keyword that is not known, "" where there is none."""
    wrong = next((name for name in named if name not in known), None)
    if wrong is None:
        return ""
    from .advice import advice_on_keyword

    said = f"{of} has no {wrong!r}; it has {', '.join(known) or 'none'}"
    return _with(said, advice_on_keyword(of, wrong, known))
