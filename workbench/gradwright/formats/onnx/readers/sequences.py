"""Sequences and optionals."""

from __future__ import annotations

from typing import Any

from ....ops.control.scan import map_items
from ....spec.containers import OptionalSpec, SequenceSpec
from ..declarations import spec_of_type
from ..dtypes import from_element_type
from ..node import OnnxNode, op, reads
from .control import scope_of


def _place(position: Any) -> list[Any]:
    """Return a position as a scalar; models may give it as a vector of one."""
    if position is None:
        return []
    return [op("reshape", shape=())(position) if position.rank else position]


@reads("SequenceAt", since=11)
def sequence_at(node: OnnxNode, items: Any, position: Any) -> Any:
    return op("at")(items, *_place(position))


@reads("SequenceInsert", since=11)
def sequence_insert(node: OnnxNode, items: Any, item: Any, position: Any = None) -> Any:
    return op("insert")(items, item, *_place(position))


@reads("SequenceErase", since=11)
def sequence_erase(node: OnnxNode, items: Any, position: Any = None) -> Any:
    return op("erase")(items, *_place(position))


@reads("SequenceEmpty", since=11)
def sequence_empty(node: OnnxNode) -> Any:
    return op("empty", dtype=from_element_type(node.get("dtype", 1)))()


@reads("SequenceMap", since=17)
def sequence_map(node: OnnxNode, *xs: Any) -> Any:
    scope, body = scope_of(node), node["body"]
    return map_items(lambda *items: scope.subgraph(body, items), *xs)


@reads("Optional", since=15)
def optional(node: OnnxNode, x: Any = None) -> Any:
    if x is not None:
        return op("optional")(x)
    spec = spec_of_type(node["type"], "an optional")
    element = spec.element if isinstance(spec, OptionalSpec) else spec
    if isinstance(element, SequenceSpec):
        attrs = {"shape": _sizes(element.item_shape), "is_sequence": True}
        return op("optional", dtype=element.item_dtype, **attrs)()
    return op("optional", dtype=element.dtype, shape=_sizes(element.shape))()


def _sizes(shape: Any) -> tuple[int | None, ...] | None:
    """Return a shape as far as it is numbers."""
    return None if shape is None else tuple(d if isinstance(d, int) else None for d in shape)
