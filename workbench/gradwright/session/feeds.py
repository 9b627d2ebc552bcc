"""Feeds: what a run is given, as arrays of the dtype and shape that the graph states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, FeedError, GradwrightError
from ..graph import Graph, Tensor, coerce
from ..spec import Dim, TensorSpec
from ..spec.buffer import There
from ..spec.containers import ContainerSpec

Array = np.ndarray[Any, Any]


def as_feed(t: Tensor, value: Any) -> Array:
    """Return a fed value as an array of the tensor's dtype, checked against its shape."""
    try:
        return _fitted(t, value)
    except GradwrightError as error:
        raise error.of(t.node) from None


def _fitted(t: Tensor, value: Any) -> Array:
    label = f"{t.kind} {t.name!r}"
    if isinstance(t.spec, ContainerSpec):
        try:
            return coerce(value, t.spec, label)
        except GradwrightError as error:
            raise FeedError(
                error.problem, need=error.need, facts=error.facts, hint=error.hint
            ) from None
    try:
        array: Any = value if isinstance(value, There) else np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise FeedError(f"{label} is fed with no array: {error}", need=str(t.spec)) from None
    known = t.spec.of_rank(array.ndim)
    if array.ndim != known.rank:
        raise FeedError(
            f"{label} is fed with rank {array.ndim}",
            need=f"rank {known.rank}, {t.spec}",
            facts=[f"got {array.dtype}{list(array.shape)}"],
        )
    sized = TensorSpec(array.shape, t.dtype)
    for axis, (stated, size) in enumerate(zip(known.shape, array.shape, strict=True)):
        if not isinstance(stated, Dim) and stated != size:
            raise FeedError(
                f"{label} is fed with size {size} on axis {axis}",
                need=str(t.spec),
                facts=[f"got {array.dtype}{list(array.shape)}"],
            )
    if isinstance(array, There):
        fed: Array = value
        return fed
    try:
        return coerce(array, sized, label)
    except DTypeError as error:
        raise FeedError(error.problem, need=error.need, hint=error.hint) from None


def named(graph: Graph, key: Any) -> Tensor:
    """Return the tensor that a key of feeds or a fetch stands for."""
    if isinstance(key, Tensor):
        return graph.check_member(key)
    if isinstance(key, str) and (found := graph.get(key)) is not None:
        return found
    names = ", ".join(repr(t.name) for t in graph.placeholders) or "none"
    raise FeedError(f"graph {graph.name!r} has no tensor {key!r}", facts=[f"placeholders: {names}"])


def keyed(graph: Graph, feeds: Any) -> dict[Tensor, Any]:
    """Return feeds by tensor; raises FeedError for what is no dict of them."""
    if not isinstance(feeds, Mapping):
        raise FeedError(
            f"the feeds are a {type(feeds).__name__}",
            need="a dict by placeholder or name",
            hint=f"session.run(y, {example(graph)})",
        )
    return {k if type(k) is Tensor else named(graph, k): v for k, v in feeds.items()}


def are_named(keys: Sequence[Any], tensors: Sequence[Tensor]) -> bool:
    """Tell whether keys are tensors or their names: until one is renamed, they stay theirs."""
    return all(
        k is t or (type(k) is str and k == t.name) for k, t in zip(keys, tensors, strict=True)
    )


def example(graph: Graph, names: Mapping[str, Any] | None = None) -> str:
    """Return what feeds of the graph, or of these names, look like: ``{"x": X, "t": T}``."""
    shown = list(names or [t.name for t in graph.placeholders][:4]) or ["x"]
    return "{" + ", ".join(f'"{n}": {n.rpartition("/")[2]}' for n in shown) + "}"
