"""Sequences and optionals: lists of tensors, and what may hold nothing."""

from __future__ import annotations

from ....spec.containers import OptionalSpec
from ..dtypes import element_type
from ..node import writes
from ..output import Call, type_of


@writes("empty")
def empty(call: Call) -> list[str]:
    """Write a sequence of no items; what shape they would have is not said."""
    return call.out.add("SequenceEmpty", [], base=call.name, dtype=element_type(call.dtype))


@writes("optional")
def optional(call: Call) -> list[str]:
    """Write an optional of a value, or of a type where it holds nothing."""
    if call.xs and call.xs[0]:
        return call.out.add("Optional", call.xs, base=call.name)
    assert isinstance(call.y, OptionalSpec)
    return call.out.add("Optional", [], base=call.name, type=type_of(call.y.element))
