"""Control flow in traced code: ``gw.cond``, ``gw.scan`` and loops on lazy arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from ..graph import Tensor
from ..ops.control import branch
from ..ops.control import loop as loops
from ..ops.control import scan as scans
from .arguments import current
from .lazy import LazyArray
from .nested import replaced
from .state import Recording

F = TypeVar("F", bound=Callable[..., Any])


def lazily(function: F) -> F:
    """Let a function that builds control flow take lazy arrays, and functions of them, as well."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        trace = current.get()
        if trace is None:
            return function(*args, **kwargs)
        given = [_built(trace, a) for a in args]
        options = {k: _built(trace, v) for k, v in kwargs.items()}
        return _lazy(trace, function(*given, **options))

    return cast(F, wrapped)


def _built(trace: Recording, value: Any) -> Any:
    """Return an argument in terms of tensors; numbers have the dtypes that numpy gives them."""
    if callable(value) and not isinstance(value, (LazyArray, Tensor)):
        return lambda *args: _tensors(trace, value(*(_lazy(trace, a) for a in args)))
    return _tensors(trace, value)


def _tensors(trace: Recording, value: Any) -> Any:
    kinds = (LazyArray, np.ndarray, np.generic, float, complex)
    return replaced(value, lambda v: trace.lift(v).tensor, lambda v: isinstance(v, kinds))


def _lazy(trace: Recording, value: Any) -> Any:
    return replaced(value, trace.fresh, lambda v: isinstance(v, Tensor))


cond = lazily(branch.cond)
loop = lazily(loops.loop)
map_fn = lazily(scans.map_fn)
scan = lazily(scans.scan)
while_loop = lazily(loops.while_loop)
