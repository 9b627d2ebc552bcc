"""Given: arrays that a caller provides for results, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import FeedError
from ..graph import Graph, Tensor
from ..plan import Plan
from ..spec import TensorSpec, spec_of
from .feeds import named
from .request import Env, Request

Array = np.ndarray[Any, Any]
OUT = "out={y: np.empty((32, 10), np.float32)}"
"""How arrays for results are given, as errors show it."""


def lend(graph: Graph, out: Any, request: Request, plan: Plan, env: Env) -> dict[Tensor, Array]:
    """Lend a plan what is given for results, and return it by fetched tensor.

    Runs write what is dense and aligned, others are copied to. What a plan makes of each tensor is
    looked up once. Raises FeedError for what cannot be written.
    """
    if type(out) is not dict and not isinstance(out, Mapping):
        raise FeedError(f"out is a {type(out).__name__}", need="a dict by tensor or name", hint=OUT)
    if request.places[0] is not plan:
        request.places = plan, {}
    places = request.places[1]
    given: dict[Tensor, Array] = {}
    fit: dict[Tensor, Array] = {}
    for key, array in out.items():
        t = key if type(key) is Tensor else named(graph, key)
        spec = places.get(t)
        if spec is None:
            spec = places[t] = _spec(t, request, plan, env)
        check_array(t, array, spec)
        is_whole = array.base is None
        for other, fed in env.items():
            if not is_whole or fed.base is not None or fed is array:
                check_apart(t.name, array, f"the feed of {other.name!r}", fed)
        for other, before in given.items():
            check_apart(t.name, array, f"out of {other.name!r}", before)
        given[t] = array
        flags = array.flags
        if flags.c_contiguous and flags.aligned:
            fit[t] = array
    plan.lend(fit)
    return given


def check_array(t: Tensor, array: Any, spec: TensorSpec) -> None:
    """Raise FeedError for what cannot hold a result of this spec, or not be written."""
    if type(array) is not np.ndarray or array.dtype != spec.dtype or array.shape != spec.shape:
        is_array = isinstance(array, np.ndarray)
        came = f"{array.dtype}{list(array.shape)}" if is_array else f"a {type(array).__name__}"
        raise FeedError(f"out of {t.name!r} is {came}", need=f"an array for {spec}", hint=OUT)
    if not array.flags.writeable:
        raise FeedError(f"out of {t.name!r} is read-only", need="an array that may be written")


def check_apart(name: str, array: Array, what: str, other: Any) -> None:
    """Raise FeedError for an array that shares memory with another one.

    With variables none does: what others see of these is read-only.
    """
    if np.may_share_memory(array, other) and np.shares_memory(array, other):
        raise FeedError(f"out of {name!r} and {what} share memory", need="an array of its own")


def _spec(t: Tensor, request: Request, plan: Plan, env: Env) -> TensorSpec:
    """Return what a fetched tensor will be; raises FeedError where only its values tell."""
    if t not in {*request.fetches}:
        names = ", ".join(repr(f.name) for f in request.fetches) or "nothing"
        raise FeedError(f"out has {t.name!r}, which is not fetched", need=f"of {names}")
    number = plan.program.numbers.get(t)
    spec = t.spec if number is None else plan.program.specs[number]
    spec = spec_of(env[t]) if t in env else spec
    if spec.by_reference or not spec.is_concrete:
        raise FeedError(
            f"{t.name!r} is {spec}, whose memory is known only when it is there",
            need="out for tensors that have a shape before they are computed",
            hint="session.run returns it in an array of its own",
        )
    return spec


def fill(given: Mapping[Tensor, Array], fetches: Sequence[Tensor], found: list[Any]) -> None:
    """Put arrays that were given in the places of results, and copy what was not written there."""
    for n, t in enumerate(fetches):
        if t in given:
            array = given[t]
            if found[n] is not array:
                np.copyto(array, found[n])
                found[n] = array
