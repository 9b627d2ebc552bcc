"""Layers: windows that slide, normalisations, recurrence."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ....graph import Tensor
from ....spec import Dim
from ..by_rule import write_by_rule
from ..node import op, writes
from ..nodes import spell
from ..output import Call, to_tensor
from ..versions import CannotExport, schema_of
from .windows import largest_only, max_pool_places, with_taps


@writes(
    *(f"{kind}_pool{n}d" for kind in ("max", "avg", "lp") for n in (1, 2, 3)),
    "max_pool_with_argmax",
)
def pool(call: Call) -> list[str]:
    """Write by rule, with the step that ``None`` stands for."""
    if call.stride is None:
        call = call.with_op(call.op.replace(stride=call.kernel_size))
    if call.op.name == "max_pool_with_argmax" and call.x.shape[:2] != (1, 1):
        return spell(call, max_pool_places)  # ONNX's places count from each channel's start
    largest = call.op.name.startswith("max")
    if call.ceil_mode and call.out.opset < 22 and _rounds_beyond(call):
        if not largest:
            raise CannotExport
        return with_taps(call, spell(call, largest_only))
    made = write_by_rule(call)
    return with_taps(call, made) if largest else made


def _rounds_beyond(call: Call) -> bool:
    """Tell whether older opsets would add a window that starts behind the image."""
    windows = call.op.windows(call.x.rank - 2)  # type: ignore[attr-defined]
    parts = zip(call.x.shape[2:], call.y.shape[2:], windows.reach, windows.stride, strict=True)
    if isinstance(windows.padding, str):
        return False
    return any(
        isinstance(n, Dim) or m != -(-(n + before + after - r) // s) + 1
        for (n, m, r, s), (before, after) in zip(parts, windows.padding, strict=True)
    )


@writes("softmax", "log_softmax", "hardmax")
def along_an_axis(call: Call) -> Any:
    """Write by rule since opset 13; before, what is from an axis on was one row: the last axis."""
    if call.out.opset >= 13:
        return write_by_rule(call)
    rule, rank = call.op.onnx, call.x.rank
    axis = call.axis % rank
    assert rule is not None
    order = [i for i in range(rank) if i != axis] + [axis]
    moved = axis != rank - 1
    x = call.add("Transpose", call.xs[0], perm=order) if moved else call.xs[0]
    y = call.add(rule.op_type, x, axis=rank - 1)
    back = [order.index(i) for i in range(rank)]
    return call.add("Transpose", y, perm=back) if moved else y


@writes("linear")
def linear(call: Call) -> str:
    """Write a Gemm of matrices; of more axes it is opened."""
    if call.x.rank != 2:
        raise CannotExport
    return call.add("Gemm", *call.joined())


@writes("layer_norm")
def layer_norm(call: Call) -> str:
    _same_dtypes(call)
    scale = call.xs[1] if len(call.xs) > 1 and call.xs[1] else _ones(call)
    bias = call.xs[2] if len(call.xs) > 2 else ""
    return call.add("LayerNormalization", call.xs[0], scale, bias, axis=call.axis, epsilon=call.eps)


@writes("rms_norm")
def rms_norm(call: Call) -> str:
    _same_dtypes(call)
    if call.out.opset < 23:
        raise CannotExport
    scale = call.xs[1] if len(call.xs) > 1 and call.xs[1] else _ones(call)
    return call.add("RMSNormalization", call.xs[0], scale, axis=call.axis, epsilon=call.eps)


def _same_dtypes(call: Call) -> None:
    if len({s.dtype for s in call.specs if s is not None}) > 1:
        raise CannotExport


def _ones(call: Call) -> str:
    shape = call.x.shape[call.axis % call.x.rank :]
    if any(isinstance(d, Dim) for d in shape):
        raise CannotExport
    return call.out.constant(np.ones(shape, call.x.dtype))


@writes("fused_layer_norm", "mean_variance_normalization")
def only_float32(call: Call) -> list[str]:
    """Write by rule in float32 alone: ONNX's definitions mix it into other dtypes."""
    if call.x.dtype != np.dtype("float32"):
        raise CannotExport
    return write_by_rule(call)


@writes("space_to_depth", "depth_to_space")
def blocks(call: Call) -> str:
    op_type = "SpaceToDepth" if call.op.name == "space_to_depth" else "DepthToSpace"
    modes = "mode" in schema_of("", op_type, call.out.opset).attributes
    if call.x.rank != 4 or (call.mode != "dcr" and not modes):
        raise CannotExport
    mode = call.mode.upper() if modes else None
    return call.add(op_type, call.xs[0], blocksize=call.block_size, mode=mode)


@writes("causal_mask")
def causal_mask(call: Call) -> str:
    """Write it as it is where sizes are known, else what is left of ones by a triangle."""
    rows, columns = call.x.shape[-2:]
    if isinstance(rows, int) and isinstance(columns, int):
        return call.out.store(np.tri(rows, columns, dtype=bool), call.name)
    last = call.out.ints([call.x.rank - 2, call.x.rank - 1])
    shape = call.add("Gather", call.add("Shape", call.xs[0]), last)
    ones = call.add("ConstantOfShape", shape, value=to_tensor(np.ones(1, bool), "value"))
    return call.add("Trilu", ones, upper=0)


@writes("batch_norm")
def batch_norm(call: Call) -> list[str]:
    if call.axis % call.x.rank != 1 or call.x.rank < 2:
        raise CannotExport
    _same_dtypes(call)
    y = call.add("BatchNormalization", *call.xs[:5], epsilon=call.eps)
    return [y, *call.xs[3:5]][: max(1, len(call.results))]


@writes("rnn", "gru", "lstm")
def recurrent(call: Call) -> list[str]:
    n = call.op.n_public or 2
    if any(call.wanted[n:]):  # ONNX hands on no gates and no cells
        return spell(call, lambda of, *xs: op("recurrent_steps", op=of)(*xs))
    if call.layout:  # ONNX Runtime has no layer that takes the batch first
        return spell(call, _time_first)
    attrs = {k: v for k, v in call.op.attributes().items() if v not in (None, ())}
    weight = call.specs[2]
    assert weight is not None
    for key, value in attrs.items():
        if isinstance(value, bool):
            attrs[key] = int(value)
        elif isinstance(value, tuple):
            attrs[key] = list(value)
    if "activations" in attrs:
        attrs["activations"] = [_ACTIVATIONS.get(a, a.capitalize()) for a in attrs["activations"]]
    attrs["hidden_size"] = int(weight.shape[-1])
    xs = list(call.xs)
    if len(xs) > 4 and xs[4]:
        lengths = call.specs[4]
        assert lengths is not None
        xs[4] = call.cast(xs[4], lengths.dtype, np.dtype("int32"))
    return call.out.add(call.op.name.upper(), xs, n=n, base=call.name, **attrs)


def _time_first(of: Any, *xs: Tensor | None) -> Any:
    """Turn what is by batch first, and the results back."""
    turn = op("swapaxes", axis1=0, axis2=1)
    places = (0, *range(5, 5 + len(of.states)))
    turned = [turn(x) if x is not None and i in places else x for i, x in enumerate(xs)]
    y, *states = of.replace(layout=0)(*turned)[: 1 + len(of.states)]
    return op("transpose", axes=(2, 0, 1, 3))(y), *map(turn, states)


_ACTIVATIONS = {
    "hardsigmoid": "HardSigmoid", "leakyrelu": "LeakyRelu", "thresholdedrelu": "ThresholdedRelu",
    "scaledtanh": "ScaledTanh",
}  # fmt: skip


@writes("attention")
def attention(call: Call) -> list[str]:
    """Write by rule; one number of keys for all of the batch is repeated."""
    if len(call.xs) > 6 and call.xs[6] and any(call.wanted[1:3]):
        raise CannotExport  # ONNX hands on no cache whose used part is stated
    return write_by_rule(_per_query(per_batch(call, 6)))


def _per_query(call: Call) -> Call:
    """Return the call with one mask for all queries repeated, as ONNX Runtime wants it."""
    mask = call.specs[3] if len(call.specs) > 3 else None
    queries = call.x.shape[1 if call.x.rank == 3 else 2]
    if mask is None or mask.rank < 2 or mask.shape[-2] != 1 or queries == 1:
        return call
    xs, specs = list(call.xs), list(call.specs)
    shape = (*mask.shape[:-2], queries, mask.shape[-1])
    xs[3], specs[3] = call.add("Expand", xs[3], call.out.shape(shape)), mask.with_shape(shape)
    return dataclasses.replace(call, xs=xs, specs=specs)


def per_batch(call: Call, i: int) -> Call:
    """Return the call with a scalar among its inputs repeated for each item of the batch."""
    spec = call.specs[i] if i < len(call.specs) else None
    if spec is None or spec.rank:
        return call
    xs, specs = list(call.xs), list(call.specs)
    xs[i] = call.add("Expand", xs[i], call.out.dim(call.x.shape[0]))
    specs[i] = spec.with_shape((call.x.shape[0],))
    return dataclasses.replace(call, xs=xs, specs=specs)
