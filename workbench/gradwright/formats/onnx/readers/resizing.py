"""Images in another size, and sampled at other places."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import ArchiveError
from ....spec import TensorSpec
from ..node import OnnxNode, ints, op, open_dims, reads


def _numbers(value: Any) -> tuple[Any, ...] | None:
    """Return an input that may be left out, or be empty, which means the same."""
    return None if value is None or not np.size(value) else tuple(np.ravel(value).tolist())


@reads("Resize", since=11, values=(1, 2, 3))
def resize(node: OnnxNode, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    attrs = dict(node.attributes)
    for flag in ("antialias", "exclude_outside"):
        if flag in attrs:
            attrs[flag] = bool(attrs[flag])
    attrs.setdefault("mode", "nearest")
    given = {"scales": _numbers(scales), "sizes": _numbers(sizes)}
    if attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        given["roi"] = _numbers(roi)
    return op("resize", **attrs, **given)(x)


@reads("Upsample", since=9, values=(1,))
@reads("Resize", since=10, values=(1,))
def resize_asymmetric(node: OnnxNode, x: Any, scales: Any) -> Any:
    """Resize as opsets 7 to 10 do: pixel i stands at i/scale, and the nearest is the one below."""
    return _asymmetric(x, node.get("mode", "nearest"), _numbers(scales))


@reads("Upsample", since=7)
def upsample_by_attribute(node: OnnxNode, x: Any) -> Any:
    return _asymmetric(x, node.get("mode", "nearest"), tuple(node["scales"]))


def _asymmetric(x: Any, mode: str, scales: Any) -> Any:
    if mode not in ("nearest", "linear"):
        raise ArchiveError(f"mode {mode!r} is not known")
    return op(
        "resize", scales=scales, mode=mode, nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )(x)  # fmt: skip


@reads("GridSample", since=16)
def grid_sample(node: OnnxNode, x: Any, grid: Any) -> Any:
    """Sample at the places of a grid; before opset 20 modes had other names."""
    mode = node.get("mode", "linear").removeprefix("bi")
    attrs = {"mode": mode, "padding_mode": node.get("padding_mode", "zeros")}
    return op("grid_sample", **attrs, align_corners=node.flag("align_corners"))(x, grid)


def _grid(node: OnnxNode, theta: TensorSpec, size: TensorSpec) -> list[TensorSpec]:
    return [open_dims(size.size, theta.dtype)]


@reads("AffineGrid", since=20, values=(1,), outputs=_grid)
def affine_grid(node: OnnxNode, theta: Any, size: Any) -> Any:
    return op("affine_grid", size=ints(size), align_corners=node.flag("align_corners"))(theta)
