"""Writing an op by its rule, as far as the operator's schema allows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ops.convolutions.windows import read_padding
from ...spec import Dim, TensorSpec, dtype_name, promote_all
from ...spec import dtype as as_dtype
from ...spec.containers import OptionalSpec, SequenceSpec
from .dtypes import element_type
from .output import Call
from .versions import CannotExport, means_the_same, schema_of

_ONNX_NAMES = {
    "float32": "float", "float64": "double", "str": "string", "float4_e2m1fn": "float4e2m1",
    "float8_e4m3fn": "float8e4m3fn", "float8_e4m3fnuz": "float8e4m3fnuz",
    "float8_e5m2": "float8e5m2", "float8_e5m2fnuz": "float8e5m2fnuz",
    "float8_e8m0fnu": "float8e8m0",
}  # fmt: skip
PROMOTING = {
    *("add", "sub", "mul", "div", "maximum", "minimum", "add_n", "matmul", "concat"),
    *("less", "less_equal", "greater", "greater_equal", "equal"),
    *("bitwise_and", "bitwise_or", "bitwise_xor"),
    *(f"{kind}{n}d" for kind in ("conv", "conv_transpose") for n in (1, 2, 3)),
}
"""Ops that bring their inputs to one dtype, which ONNX leaves to casts."""
_WINDOWS = ("strides", "dilations", "kernel_shape", "output_padding", "output_shape")


def takes(schema: Any, i: int, spec: TensorSpec, *, output: bool = False) -> bool:
    """Tell whether an operator has an input or output of such a type."""
    formal = schema.outputs if output else schema.inputs
    return type_name(spec) in formal[min(i, len(formal) - 1)].types


def type_name(spec: TensorSpec) -> str:
    """Return the type of a tensor, a sequence or an optional as schemas call it."""
    if isinstance(spec, OptionalSpec):
        return f"optional({type_name(spec.element)})"
    if isinstance(spec, SequenceSpec):
        return f"seq({type_name(TensorSpec((), spec.item_dtype))})"
    name = dtype_name(spec.dtype)
    return f"tensor({_ONNX_NAMES.get(name, name)})"


def write_by_rule(call: Call) -> list[str]:
    """Write the one node that the op's rule names, if its schema has all that the op says."""
    rule = call.op.onnx
    if rule is None:
        raise CannotExport
    schema = schema_of(rule.domain, rule.op_type, call.out.opset)
    if rule.since > call.out.opset and not rule.domain:
        since = schema_of(rule.domain, rule.op_type, rule.since)
        if not means_the_same(schema, since, may_have_new=True):
            raise CannotExport
    attrs: dict[str, Any] = dict(rule.fixed)
    for key, value in call.op.attributes().items():
        name = rule.rename.get(key, key)
        if key in rule.inputs or value is None or value == ():
            continue
        if name == "pads" and "auto_pad" not in schema.attributes and isinstance(value, str):
            raise CannotExport
        if name in schema.attributes:
            attrs.update(_attribute(call, name, value, str(schema.attributes[name].type)))
        elif value != type(call.op).attrs[key].default:
            raise CannotExport
    xs, specs = list(call.xs), list(call.specs)
    if call.op.name in PROMOTING:
        joint = promote_all(*(s for s in specs if s is not None))
        xs, specs = call.joined(), [None if s is None else s.with_dtype(joint) for s in specs]
    if rule.inputs:
        n_inputs = len(type(call.op).inputs)
        xs += [""] * (n_inputs - len(xs))
        for key in rule.inputs:
            value = call.op.attributes()[key]
            xs.append("" if value is None else call.out.constant(_array(value)))
    _check_inputs(schema, xs, specs)
    n_public = len(call.results) if call.op.n_public is None else call.op.n_public
    n = min(n_public, len(call.results))
    if n > schema.max_output or not all(
        takes(schema, i, r, output=True) for i, r in enumerate(call.results[:n])
    ):
        raise CannotExport
    made = call.out.add(rule.op_type, xs, n=n, base=call.name, domain=rule.domain, **attrs)
    unused = [i for i in range(1, n) if not call.wanted[i] and _is_optional(schema.outputs, i)]
    for i in unused:
        call.out.nodes[-1].output[i] = ""
    return made


def _is_optional(formals: Any, i: int) -> bool:
    return "Optional" in str(formals[min(i, len(formals) - 1)].option)


def _check_inputs(schema: Any, xs: list[str], specs: list[TensorSpec | None]) -> None:
    """Refuse dtypes that the operator does not take, and lack of what it needs."""
    if not schema.min_input <= len(xs) <= schema.max_input:
        raise CannotExport
    for i, x in enumerate(xs):
        if not x and not _is_optional(schema.inputs, i):
            raise CannotExport
    for i, spec in enumerate(specs):
        if spec is not None and not takes(schema, i, spec):
            raise CannotExport


def _attribute(call: Call, name: str, value: Any, kind: str) -> dict[str, Any]:
    """Return an attribute of an op as ONNX has it; padding may have another name there."""
    n = call.y.rank - 2
    if name == "pads":
        return padding(value, n)
    if name in _WINDOWS and isinstance(value, int):
        return {name: [value] * n}
    match value:
        case bool():
            return {name: int(value)}
        case float() if kind.endswith("INT"):
            if value != int(value):
                raise CannotExport
            return {name: int(value)}
        case str() if kind.endswith("INT"):
            return {name: element_type(as_dtype(value))}
        case np.dtype():
            return {name: element_type(value)}
        case int() | float() | str():
            return {name: value}
        case tuple() if all(type(v) in (int, float, str, bool) for v in value):
            return {name: [int(v) if isinstance(v, bool) else v for v in value]}
    raise CannotExport


def padding(value: Any, n: int) -> dict[str, Any]:
    """Return padding as ONNX lists it: all befores, then all afters; or its name for "same"."""
    pads = read_padding(value, n)
    if isinstance(pads, str):
        return {"auto_pad": "SAME_UPPER" if pads == "same" else "SAME_LOWER"}
    flat = [*(a for a, _ in pads), *(b for _, b in pads)]
    if any(isinstance(p, Dim) or p < 0 for p in flat):
        raise CannotExport
    return {"pads": flat}


def _array(value: Any) -> Any:
    """Return an attribute that is an input of the operator as an array."""
    parts = value if isinstance(value, tuple) else (value,)
    if any(isinstance(v, Dim) for v in parts):
        raise CannotExport
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array
