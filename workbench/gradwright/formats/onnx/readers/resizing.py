"""Images in another size, and sampled at other places."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import ArchiveError
from ....spec import TensorSpec
from ...foreign import Chosen, Value
from ..node import OnnxNode, maps, op, open_dims, reads


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


_MODES = {
    "linear": "linear", "bilinear": "linear", "nearest": "nearest",
    "cubic": "cubic", "bicubic": "cubic",
}  # fmt: skip
"""Modes of GridSample, which had other names before opset 20, and ours."""
maps(
    "GridSample", "grid_sample", since=16, takes={"mode": Chosen("mode", _MODES)},
    attributes={"mode": "linear", "padding_mode": "zeros", "align_corners": False},
)  # fmt: skip


def _grid(node: OnnxNode, theta: TensorSpec, size: TensorSpec) -> list[TensorSpec]:
    return [open_dims(size.size, theta.dtype)]


maps(
    "AffineGrid", "affine_grid", since=20, attributes={"align_corners": False},
    takes={"size": Value(1)}, outputs=_grid,
)  # fmt: skip
