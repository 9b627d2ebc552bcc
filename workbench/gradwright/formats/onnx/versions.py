"""Schemas of operators, and how older opsets spell them: what is an input now was an attribute."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class CannotExport(Exception):  # noqa: N818  # no error: the next way is tried
    """ONNX has no such op, or not with these attributes."""


NEWEST = 28
"""The newest opset that is written."""
OWN = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
"""Domains whose schemas the onnx package knows."""
_CALLED = {("Pad", "constant_value"): "value", ("TopK", "K"): "k"}
"""(operator, input) -> the attribute that it was, where that had another name."""
_SILENT = ("allowzero", "num_outputs")
"""Attributes that older versions have not, and mean by themselves."""


@functools.cache
def schema_of(domain: str, op_type: str, opset: int) -> Any:
    """Return the schema that an operator has in an opset; CannotExport if it has none yet."""
    import onnx

    version = opset if not domain else onnx.defs.onnx_opset_version()
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        raise CannotExport from None


def as_inputs(
    schema: Any, xs: Sequence[str], attrs: dict[str, Any], constant: Callable[[Any], str]
) -> tuple[list[str], dict[str, Any]]:
    """Return inputs and attributes of an older node where what was an attribute is an input now."""
    given, kept = list(xs), dict(attrs)
    for i, formal in enumerate(schema.inputs):
        key = _CALLED.get((schema.name, formal.name), formal.name)
        if key in kept and key not in schema.attributes:
            given += [""] * (i + 1 - len(given))
            given[i] = constant(kept.pop(key))
    return given, kept


def spelled_in(
    opset: int,
    domain: str,
    op_type: str,
    xs: Sequence[str],
    attrs: dict[str, Any],
    value: Callable[[str], Array | None],
) -> tuple[list[str], dict[str, Any]]:
    """Return the inputs and attributes of an operator in an opset.

    ``value`` returns what is known of an input. Raises CannotExport where the operator is not
    there yet, or does not do that yet.
    """
    if domain not in OWN:
        return list(xs), attrs
    schema, newest = (schema_of(domain, op_type, v) for v in (opset, NEWEST))
    if schema.since_version == newest.since_version:
        return list(xs), attrs
    given, kept = list(xs), dict(attrs)
    for i in reversed(range(1, len(given))):
        name = newest.inputs[min(i, len(newest.inputs) - 1)].name
        key = _CALLED.get((op_type, name), name)
        had = i < len(schema.inputs) and schema.inputs[i].name == name
        if had or len(newest.inputs) <= i or schema.max_input > len(schema.inputs):
            continue
        x = given.pop(i) if i == len(given) - 1 else given[i]
        if not x:
            continue
        held = value(x)
        if held is None:
            raise CannotExport
        if key in schema.attributes:
            kept[key] = held.tolist() if held.ndim else held.item()
        elif not (key == "steps" and (held == 1).all()):
            raise CannotExport
    for key in [k for k in kept if k not in schema.attributes and kept[k] is not None]:
        if key not in _SILENT and not _is_default(newest, key, kept[key]):
            raise CannotExport
        del kept[key]
    if op_type == "Reshape" and len(given) > 1 and "allowzero" not in schema.attributes:
        shape = value(given[1])
        if shape is not None and (shape == 0).any():
            raise CannotExport  # a 0 keeps the size that the input has
    return given, kept


def _is_default(newest: Any, key: str, value: Any) -> bool:
    """Tell whether an attribute says what an operator without it does."""
    from onnx import helper

    attribute = newest.attributes.get(key)
    if attribute is None or not attribute.default_value.name:
        return False
    stated = helper.get_attribute_value(attribute.default_value)
    stated = stated.decode() if isinstance(stated, bytes) else stated
    return bool(np.array_equal(stated, value))


def means_the_same(then: Any, now: Any, *, may_have_new: bool = False) -> bool:
    """Tell whether versions differ in types alone, or in what may be left out.

    With ``may_have_new``, the newer one may have any attributes that the older one has not.
    """
    if then.since_version == now.since_version:
        return True
    if now.deprecated:
        return False
    before, after = map(_parts, (then, now))
    after.pop(("", "stash_type"), None)  # how precise halves are computed
    same = all(after.pop(k, None) == part for k, part in before.items())
    added = [part for (label, _), part in after.items() if part and (label or not may_have_new)]
    return same and all("Optional" in str(part) for part in added)


def _parts(schema: Any) -> dict[tuple[str, str], Any]:
    """Return inputs and outputs with their places, and attributes with their defaults."""
    found: dict[tuple[str, str], Any] = {}
    for label, formals in (("input", schema.inputs), ("output", schema.outputs)):
        found |= {(label, f.name): (i, str(f.option)) for i, f in enumerate(formals)}
    attributes = schema.attributes.items()
    return found | {("", k): a.default_value.SerializeToString() for k, a in attributes}
