"""Given: arrays that a caller provides for results, checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..errors import FeedError
from ..graph import Graph, Tensor
from ..plan import Plan
from ..spec import spec_of
from .feeds import named
from .request import Env, Request

Array = np.ndarray[Any, Any]
OUT = "out={y: np.empty((32, 10), np.float32)}"
"""How arrays for results are given, as errors show it."""


def given_out(graph: Graph, out: Any, request: Request) -> dict[Tensor, Array]:
    """Return the arrays by fetched tensor; raises FeedError for what cannot be written.

    What their shapes must be, ``check_shapes`` knows when there is a plan.
    """
    if not isinstance(out, Mapping):
        raise FeedError(f"out is a {type(out).__name__}", need="a dict by tensor or name", hint=OUT)
    found = {named(graph, key): array for key, array in out.items()}
    for t, array in found.items():
        if t not in {*request.fetches}:
            names = ", ".join(repr(f.name) for f in request.fetches) or "nothing"
            raise FeedError(f"out has {t.name!r}, which is not fetched", need=f"of {names}")
        check_array(t, array)
    return found


def check_array(t: Tensor, array: Any) -> None:
    """Raise FeedError for what cannot hold a tensor, or not be written."""
    if type(array) is not np.ndarray or array.dtype != t.dtype or t.spec.by_reference:
        came = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise FeedError(f"out of {t.name!r} is {came}", need=f"an array for {t.spec}", hint=OUT)
    if not array.flags.writeable:
        raise FeedError(f"out of {t.name!r} is read-only", need="an array that may be written")


def check_apart(given: Mapping[str, Array], feeds: Mapping[str, Any]) -> None:
    """Raise FeedError for arrays that share memory with a feed, or with each other; by name.

    With variables none does: what others see of these is read-only.
    """
    taken = [(f"the feed of {name!r}", a) for name, a in feeds.items()]
    for name, array in given.items():
        for what, other in taken:
            if np.may_share_memory(array, other) and np.shares_memory(array, other):
                raise FeedError(
                    f"out of {name!r} and {what} share memory", need="an array of its own"
                )
        taken.append((f"out of {name!r}", array))


def check_shapes(given: Mapping[Tensor, Array], plan: Plan, env: Env) -> None:
    """Raise FeedError for arrays of other shapes than results will have."""
    program = plan.program
    for t, array in given.items():
        number = program.numbers.get(t)
        spec = t.spec if number is None else program.specs[number]
        spec = spec_of(env[t]) if t in env else spec
        if not spec.is_concrete:
            raise FeedError(
                f"the shape of {t.name!r} is known only when it is there: values decide it",
                need="out for what has a shape before it is computed",
                hint="session.run returns it in an array of its own",
            )
        if array.shape != spec.shape:
            raise FeedError(f"out of {t.name!r} has shape {array.shape}", need=f"{spec}", hint=OUT)


def fit_to_lend(given: Mapping[Tensor, Array]) -> dict[Tensor, Array]:
    """Return those that a run may write itself: dense and aligned; others are copied to."""
    flags = {t: array.flags for t, array in given.items()}
    return {t: given[t] for t, f in flags.items() if f.c_contiguous and f.aligned}


def fill(given: Mapping[Tensor, Array], results: Iterable[tuple[Tensor, Any]]) -> list[Any]:
    """Return results, those of ``given`` in its arrays."""
    found = []
    for t, result in results:
        array = given.get(t)
        if array is not None and array is not result:
            np.copyto(array, result)
        found.append(result if array is None else array)
    return found
