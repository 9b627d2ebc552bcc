"""Gathering, scattering and masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....graph import Tensor
from ....spec import Dim, TensorSpec, differ, normalize_axis
from ..by_rule import write_by_rule
from ..node import op, writes
from ..nodes import spell
from ..output import Call
from ..versions import CannotExport
from .convolutions import along_axes

INT64 = np.dtype("int64")
_PLACES = (np.dtype("int32"), INT64)


def _places(call: Call, i: int = 1) -> str:
    """Return the indices among the inputs as integers that ONNX takes."""
    spec = call.specs[i]
    assert spec is not None
    return call.xs[i] if spec.dtype in _PLACES else call.cast(call.xs[i], spec.dtype, INT64)


def _far_places(call: Call, i: int = 1) -> str:
    spec = call.specs[i]
    assert spec is not None
    return call.cast(call.xs[i], spec.dtype, INT64)


@writes("gather")
def gather(call: Call) -> str:
    return call.add("Gather", call.xs[0], _places(call), axis=call.axis)


@writes("embedding")
def embedding(call: Call) -> str:
    spec = call.specs[0]
    assert spec is not None
    return call.add("Gather", call.xs[1], call.cast(call.xs[0], spec.dtype, INT64), axis=0)


def _broadcasts(call: Call, axis: int) -> bool:
    """Tell whether indices may broadcast along other axes, as ONNX's do not."""
    x, places = call.x, call.specs[1]
    if places is None or places.rank != x.rank:
        raise CannotExport
    pairs = enumerate(zip(x.shape, places.shape, strict=True))
    return not call.corner and any(
        i != axis and a != b and (1 in (a, b) or differ(a, b)) for i, (a, b) in pairs
    )


@writes("take_along_axis")
def take_along_axis(call: Call) -> str:
    axis = normalize_axis(call.axis, call.x.rank)
    if _broadcasts(call, axis):
        return spell(call, _broadcast_taken)[0]
    return call.add("GatherElements", call.xs[0], _places(call), axis=axis)


def _broadcast_taken(of: Any, x: Tensor, places: Tensor) -> Any:
    axis = normalize_axis(of.axis, x.rank)
    shape = of.infer(x.spec, places.spec).shape
    wide = (*shape[:axis], x.shape[axis], *shape[axis + 1 :])
    return of(*(op("broadcast_to", shape=s)(t) for t, s in ((x, wide), (places, shape))))


@writes("gather_nd")
def gather_nd(call: Call) -> str:
    return call.add("GatherND", call.xs[0], _far_places(call))


_REDUCTIONS = {"update": "none", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@writes(*(f"scatter_{name}" for name in _REDUCTIONS))
def scatter(call: Call) -> str:
    x, updates, axis = call.x, call.specs[2], normalize_axis(call.axis, call.x.rank)
    places = call.specs[1]
    if updates is None or places is None or not x.rank == updates.rank == places.rank:
        raise CannotExport
    if updates.dtype != x.dtype or x.dtype == np.dtype(bool):
        raise CannotExport
    if not call.corner and _wider(x, updates, axis):
        return spell(call, _scattered_wide)[0]
    if updates.shape != places.shape:
        return spell(call, _scattered_each)[0]
    reduction = _REDUCTIONS[call.op.name.removeprefix("scatter_")]
    return call.add(
        "ScatterElements", call.xs[0], _places(call), call.xs[2], axis=axis, reduction=reduction
    )


def _wider(x: TensorSpec, updates: TensorSpec, axis: int) -> list[int]:
    """Return the axes along which many places are in the same one of ``x``."""
    pairs = enumerate(zip(x.shape, updates.shape, strict=True))
    return [i for i, (a, b) in pairs if i != axis and a == 1 and b != 1]


def _scattered_each(of: Any, x: Tensor, places: Tensor, updates: Tensor) -> Any:
    return of(x, op("broadcast_to", shape=updates.shape)(places), updates)


def _scattered_wide(of: Any, x: Tensor, places: Tensor, updates: Tensor) -> Any:
    """Make one axis of those along which places are in the same one, and of that they count on."""
    axis = normalize_axis(of.axis, x.rank)
    wide = [*_wider(x.spec, updates.spec, axis), axis]
    rest = [i for i in range(x.rank) if i not in wide]
    order = (*rest, *wide)

    def merged(t: Tensor) -> Any:
        t = op("transpose", axes=order)(t)
        return op("reshape", shape=(*t.shape[: len(rest)], -1))(t)

    places = op("broadcast_to", shape=updates.shape)(places)
    y = of.replace(axis=-1)(*map(merged, (x, places, updates)))
    y = op("reshape", shape=tuple(x.shape[i] for i in order))(y)
    return op("transpose", axes=tuple(order.index(i) for i in range(x.rank)))(y)


@writes(*(f"scatter_nd_{name}" for name in _REDUCTIONS))
def scatter_nd(call: Call) -> str:
    updates = call.specs[2]
    if updates is None or updates.dtype != call.x.dtype:
        raise CannotExport
    reduction = _REDUCTIONS[call.op.name.removeprefix("scatter_nd_")]
    return call.add("ScatterND", call.xs[0], _far_places(call), call.xs[2], reduction=reduction)


@writes("boolean_mask")
def boolean_mask(call: Call) -> str:
    mask = call.specs[1]
    assert mask is not None
    axis = normalize_axis(call.axis, call.x.rank)
    x, chosen = call.xs[0], call.xs[1]
    if mask.rank != 1:
        if not call.x.is_concrete:
            raise CannotExport
        shape: list[Any] = [*call.x.shape[:axis], -1, *call.x.shape[axis + mask.rank :]]
        if 0 in call.x.shape:
            raise CannotExport
        x = call.add("Reshape", x, call.out.ints(shape))
        chosen = call.add("Reshape", chosen, call.out.ints([-1]))
    return call.add("Compress", x, chosen, axis=axis)


@writes("nonzero")
def nonzero(call: Call) -> list[str]:
    rows = call.add("NonZero", call.xs[0])
    n = len(call.results)
    parts = call.out.add("Split", [rows], n=n, base=f"{call.name}/split", axis=0, num_outputs=n)
    return [call.add("Squeeze", part, call.out.ints([0])) for part in parts]


@writes("one_hot")
def one_hot(call: Call) -> str:
    """Compare with all classes: unlike ONNX's OneHot, a negative index is none."""
    axis = normalize_axis(call.axis, call.y.rank)
    ids = call.add("Unsqueeze", _far_places(call, 0), call.out.ints([axis]))
    depth = call.add("Squeeze", call.out.dim(call.depth))
    zero, one = call.out.constant(np.int64(0)), call.out.constant(np.int64(1))
    classes = call.add("Range", zero, depth, one)
    after = call.y.rank - axis - 1
    if after:
        classes = call.add("Unsqueeze", classes, call.out.ints(range(1, after + 1)))
    return call.cast(call.add("Equal", ids, classes), np.dtype(bool), call.y.dtype)


@writes("einsum")
def einsum(call: Call) -> list[str]:
    """Write by rule, unless ellipses stand for axes of different number."""
    terms = call.equation.partition("->")[0].replace(" ", "").split(",")
    ranks = {
        spec.rank - len(term.replace("...", ""))
        for term, spec in zip(terms, call.specs, strict=True)
        if spec is not None and "..." in term
    }
    if len(ranks) > 1:
        raise CannotExport
    return write_by_rule(call)


@writes("resize")
def resize(call: Call) -> str:
    """Write scales or sizes for the axes that change, which ONNX also takes by number."""
    op = call.op.attributes()
    axes = call.op.resized_axes(call.x.shape)  # type: ignore[attr-defined]
    older = call.out.opset < 18 and (
        op["antialias"] or op["keep_aspect_ratio_policy"] != "stretch" or call.out.opset < 11
    )
    if op["mode"] not in ("nearest", "linear", "cubic") or older:
        return spell(call, along_axes)[0]
    if any(isinstance(v, Dim) for v in op["sizes"] or ()):
        raise CannotExport
    scales = "" if op["scales"] is None else call.out.constant(np.array(op["scales"], np.float32))
    sizes = "" if op["sizes"] is None else call.out.ints(op["sizes"])
    if call.out.opset < 18 or op["roi"] is not None:
        return _resized_whole(call, op, axes)
    left_out = ("sizes", "scales", "roi", "axes")
    attrs = {k: int(v) if isinstance(v, bool) else v for k, v in op.items() if k not in left_out}
    if op["keep_aspect_ratio_policy"] == "stretch":
        del attrs["keep_aspect_ratio_policy"]
    return call.add("Resize", call.xs[0], "", scales, sizes, axes=list(axes), **attrs)


def _resized_whole(call: Call, op: dict[str, Any], axes: Sequence[int]) -> str:
    """State all axes: older opsets have no others, and of regions ONNX Runtime reads no others."""
    rank, roi, sizes = call.x.rank, "", ""
    empty = call.out.constant(np.zeros(0, np.float32))
    scales = empty if call.out.opset < 13 else ""
    if op["scales"] is not None:
        each = np.ones(rank, np.float32)
        each[list(axes)] = op["scales"]
        scales = call.out.constant(each)
    else:
        sizes = call.out.shape(call.y.shape)
    if op["roi"] is not None:
        starts, ends = np.zeros(rank, np.float32), np.ones(rank, np.float32)
        starts[list(axes)], ends[list(axes)] = np.reshape(op["roi"], (2, -1))
        roi = call.out.constant(np.concatenate([starts, ends]))
    elif call.out.opset < 13:
        roi = empty
    keys = ("mode", "coordinate_transformation_mode", "cubic_coeff_a", "nearest_mode")
    attrs = {k: op[k] for k in (*keys, "extrapolation_value")}
    attrs["exclude_outside"] = int(op["exclude_outside"])
    return call.add("Resize", call.xs[0], roi, scales, sizes, **attrs)


@writes("affine_grid")
def affine_grid(call: Call) -> list[str]:
    """Write by rule but where an axis of one element lies at 0 here, and at −1 in ONNX."""
    if call.align_corners and 1 in call.y.shape[1:-1]:
        raise CannotExport
    return write_by_rule(call)


@writes("non_max_suppression")
def non_max_suppression(call: Call) -> list[str]:
    """Write by rule; ONNX wants a number where ours keeps all boxes."""
    if call.max_output_boxes_per_class is None:
        call = call.with_op(call.op.replace(max_output_boxes_per_class=(1 << 31) - 1))
    return write_by_rule(call)


@writes("roi_align")
def roi_align(call: Call) -> str:
    if len({s.dtype for s in call.specs[:2] if s is not None}) > 1:
        raise CannotExport
    size = (call.size,) * 2 if isinstance(call.size, int) else call.size
    places = "half_pixel" if call.half_pixel_centers else "output_half_pixel"
    return call.add(
        "RoiAlign", *call.xs[:2], _far_places(call, 2), output_height=size[0],
        output_width=size[1], spatial_scale=float(call.spatial_scale), mode=call.mode,
        sampling_ratio=call.sampling_ratio, coordinate_transformation_mode=places,
    )  # fmt: skip
