"""Which of numpy's functions traced code may call, and what they do there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DTypeError, GradwrightError
from .refusals import refusal

FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
"""numpy's function -> what it is on lazy arrays."""

INSTEAD = {
    "nditer": "operations on whole arrays",
    "vectorize": "operations on whole arrays, or gw.map_fn",
    "apply_along_axis": "an axis= argument, or gw.map_fn",
    "apply_over_axes": "an axis= argument",
    "piecewise": "np.where or np.select",
    "fromfunction": "np.arange and broadcasting",
    "array2string": "the array that the function returns",
    "array_repr": "the array that the function returns",
    "array_str": "the array that the function returns",
    "save": "the array that the function returns",
    "savez": "the arrays that the function returns",
    "savetxt": "the array that the function returns",
    "lexsort": "np.argsort, key by key from the last",
    "partition": "np.sort",
    "argpartition": "np.argsort",
    "correlate": "a sum of shifted slices, or gw.cnn.conv1d",
    "polyfit": "np.linalg.lstsq on np.vander",
    "setdiff1d": "np.isin and np.where",
    "fill_diagonal": "np.where on np.eye(n, dtype=bool)",
    "place": "x[mask] = value",
    "putmask": "x[mask] = value",
}
"""Functions without an op -> what to use."""


def implements(*functions: Any) -> Callable[[Any], Any]:
    """Declare what some of numpy's functions are on lazy arrays."""

    def declare(made: Any) -> Any:
        for function in functions:
            FUNCTIONS[function] = made
        return made

    return declare


def full_name(function: Any) -> str:
    """Return how a function is called: ``np.linalg.qr``."""
    module = (getattr(function, "__module__", "") or "").removeprefix("numpy").strip(".")
    path = "" if not module or module.startswith("_") else f"{module}."
    return f"np.{path}{getattr(function, '__name__', function)}"


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call one of numpy's functions on arguments that hold lazy arrays."""
    made = FUNCTIONS.get(function)
    name = full_name(function)
    if made is None:
        short = getattr(function, "__name__", "")
        raise refusal(
            f"{name} has no op, so a trace cannot hold it",
            hint=f"{INSTEAD.get(short, 'other functions of numpy')}; or "
            '@gw.compile(fallback="eager") for plain numpy',
        )
    try:
        return made(*args, **kwargs)
    except DTypeError as error:
        raise refusal(
            f"{name} has no op for this: {error.problem}",
            hint='another dtype, or @gw.compile(fallback="eager") for plain numpy',
        ) from None
    except GradwrightError:
        raise
    except TypeError as error:
        text = str(error)
        if "argument" in text and made.__name__ in text:  # an option that no op has
            asked = text.partition(")")[2].strip()
            raise refusal(
                f"{name} {asked}: a trace does not have this option",
                hint='leave it out, or @gw.compile(fallback="eager") for plain numpy',
            ) from None
        raise


def first(x: Any, *_: Any) -> Any:
    """Return the first argument: a ufunc that changes nothing."""
    return x


UNSAID = np._NoValue
"""What numpy's functions have where nothing was said."""
