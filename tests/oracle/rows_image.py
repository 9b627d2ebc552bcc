"""Image ops beside PyTorch: its own where it has them, else a formulation in its terms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracle.rows import Case, Row, normal, uniform

IMAGE, VOLUME = normal(2, 3, 5, 6), normal(1, 2, 3, 4, 3)
COLOURS = uniform(0.05, 0.95, 2, 3, 3, 4)
BOXES = uniform(-0.2, 1.2, 4, 4)
ROIS = np.array([[0.5, 1.0, 4.5, 3.0], [-1.0, 0.0, 3.3, 6.0], [2.0, 2.0, 2.5, 2.2]])

TORCH_MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}


def resized(
    t: Any,
    x: Any,
    sizes: Sequence[int],
    mode: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    antialias: bool = False,
    **_: Any,
) -> Any:
    """torch.interpolate; its nearest-exact is ours of half pixels that rounds up."""
    corners = coordinate_transformation_mode == "align_corners"
    names = {"linear": TORCH_MODES[x.ndim - 2], "cubic": "bicubic", "nearest": "nearest-exact"}
    if mode == "nearest" and coordinate_transformation_mode == "asymmetric":
        names["nearest"] = "nearest"
    attrs: dict[str, Any] = {} if mode in ("nearest", "area") else {"align_corners": corners}
    if antialias:
        attrs["antialias"] = True
    return t.nn.functional.interpolate(x, list(sizes), mode=names.get(mode, mode), **attrs)


def cropped(t: Any, x: Any, roi: Sequence[float], sizes: Sequence[int], **attrs: Any) -> Any:
    """tf_crop_and_resize by grid_sample, and constants outside."""
    value = attrs["extrapolation_value"]
    y1, x1, y2, x2 = roi
    h, w = x.shape[2:]
    v = t.linspace(y1, y2, sizes[0], dtype=t.float64)
    u = t.linspace(x1, x2, sizes[1], dtype=t.float64)
    grid = t.stack(t.meshgrid(2 * u - 1, 2 * v - 1, indexing="xy"), -1).to(x.dtype)
    y = t.nn.functional.grid_sample(
        x, grid.expand(len(x), *grid.shape), padding_mode="border", align_corners=True
    )
    inside = ((v >= 0) & (v <= 1))[:, None] & (u >= 0) & (u <= 1)
    assert h > 1 and w > 1
    return t.where(inside, y, value)


def filtered(t: Any, x: Any, sizes: Sequence[int], mode: str, antialias: bool = False) -> Any:
    """Resizing by dense matrices of a filter's values, rows of sum 1."""

    def lanczos(radius: int) -> Any:
        return lambda d: t.where(d < radius, t.sinc(d) * t.sinc(d / radius), 0.0)

    def mitchell(d: Any) -> Any:
        near = (7 * d**3 - 12 * d**2 + 16 / 3) / 6
        far = (-7 / 3 * d**3 + 12 * d**2 - 20 * d + 32 / 3) / 6
        return t.where(d < 1, near, t.where(d < 2, far, 0.0))

    function = {
        "lanczos3": lanczos(3),
        "lanczos5": lanczos(5),
        "mitchell": mitchell,
        "gaussian": lambda d: t.where(d < 1.5, t.exp(-(d**2) / (2 * 0.5**2)), 0.0),
    }[mode]
    for axis, m in enumerate(sizes, 2):
        n = x.shape[axis]
        centre = (t.arange(m, dtype=t.float64) + 0.5) * n / m - 0.5
        stretch = max(1.0, n / m) if antialias else 1.0
        weight = function(abs(centre[:, None] - t.arange(n)) / stretch)
        weight = weight / weight.sum(1, keepdim=True)
        x = (x.movedim(axis, -1) @ weight.T.to(x.dtype)).movedim(-1, axis)
    return x


def by_size(mode: str) -> Any:
    def theirs(
        t: Any, x: Any, size: Sequence[int], align_corners: bool = False, **attrs: Any
    ) -> Any:
        attrs.pop("cubic_coeff_a", None)
        f = t.nn.functional.interpolate
        return f(x, list(size), mode=mode, align_corners=align_corners, **attrs)

    return theirs


def grid_sample(t: Any, x: Any, grid: Any, mode: str = "linear", **attrs: Any) -> Any:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    attrs = {"align_corners": False, **attrs}
    return t.nn.functional.grid_sample(x, grid, mode, **attrs)


def affine_grid(t: Any, theta: Any, size: Sequence[int], align_corners: bool = False) -> Any:
    return t.nn.functional.affine_grid(theta, list(size), align_corners)


def crop_and_resize(
    t: Any,
    x: Any,
    boxes: Any,
    image: Any,
    size: Sequence[int],
    extrapolation_value: float = 0.0,
) -> Any:
    """Each box by grid_sample with aligned corners, and a constant outside."""
    parts = []
    for box, number in zip(boxes, image, strict=True):
        along = []
        for axis in range(2):
            start, end, m = box[axis], box[axis + 2], size[axis]
            even = t.linspace(0, 1, m, dtype=t.float64).to(x.dtype) if m > 1 else t.tensor([0.5])
            along.append(start + (end - start) * even)
        v, u = along
        points = t.stack([(2 * u - 1).expand(len(v), -1), (2 * v - 1)[:, None].expand(-1, len(u))])
        seen = t.nn.functional.grid_sample(
            x[number][None], points.movedim(0, -1)[None], padding_mode="border", align_corners=True
        )
        inside = ((v >= 0) & (v <= 1))[:, None] & (u >= 0) & (u <= 1)
        parts.append(t.where(inside, seen[0], extrapolation_value))
    return t.stack(parts)


def roi_align(
    t: Any,
    x: Any,
    rois: Any,
    image: Any,
    size: Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    half_pixel_centers: bool = True,
) -> Any:
    """Each cell's points by grid_sample, one region at a time."""
    h, w = x.shape[2:]
    parts = []
    for roi, number in zip(rois.tolist(), image.tolist(), strict=True):
        x1, y1, x2, y2 = (v * spatial_scale - 0.5 * half_pixel_centers for v in roi)
        wide, high = x2 - x1, y2 - y1
        if not half_pixel_centers:
            wide, high = max(wide, 1.0), max(high, 1.0)
        points = []
        for start, extent, m in ((y1, high, size[0]), (x1, wide, size[1])):
            k = sampling_ratio or max(math.ceil(extent / m), 1)
            points.append((start + (t.arange(m * k, dtype=t.float64) + 0.5) * extent / (m * k), k))
        (v, kv), (u, ku) = points
        grid = t.stack(t.meshgrid(2 * u / (w - 1) - 1, 2 * v / (h - 1) - 1, indexing="xy"), -1)
        seen = t.nn.functional.grid_sample(
            x[number][None],
            grid[None].to(x.dtype),
            padding_mode="border",
            align_corners=True,
        )[0]
        inside = ((v >= -1) & (v <= h))[:, None] & (u >= -1) & (u <= w)
        cells = (seen * inside).reshape(len(seen), size[0], kv, size[1], ku)
        parts.append(cells.mean((2, 4)))
    return t.stack(parts)


def suppressed(
    t: Any,
    boxes: Any,
    scores: Any,
    max_output_boxes_per_class: int | None = None,
    iou_threshold: float = 0.0,
    score_threshold: float = -math.inf,
) -> Any:
    """Box after box, as the definition goes."""
    rows = []
    for n, c in np.ndindex(*scores.shape[:2]):
        taken: list[int] = []
        for i in t.argsort(scores[n, c], descending=True, stable=True).tolist():
            if len(taken) == max_output_boxes_per_class or scores[n, c, i] <= score_threshold:
                break
            if all(overlap(t, boxes[n, i], boxes[n, j]) <= iou_threshold for j in taken):
                taken.append(i)
        rows += [[n, c, i] for i in taken]
    return t.tensor(rows, dtype=t.int64).reshape(-1, 3)


def overlap(t: Any, a: Any, b: Any) -> Any:
    (a1, a2), (b1, b2) = ((t.minimum(v[:2], v[2:]), t.maximum(v[:2], v[2:])) for v in (a, b))
    shared = (t.minimum(a2, b2) - t.maximum(a1, b1)).clip(0).prod()
    return shared / ((a2 - a1).prod() + (b2 - b1).prod() - shared)


def patches(t: Any, x: Any, kernel_size: Sequence[int], stride: int = 1) -> Any:
    kh, kw = kernel_size
    views = x.unfold(2, kh, stride).unfold(3, kw, stride)
    return t.einsum("nchwij->nijchw", views).reshape(len(x), -1, *views.shape[2:4])


def mixed(rows: Sequence[Sequence[float]], inverse: bool = False) -> Any:
    """Return a colour space by its three formulas."""

    def theirs(t: Any, x: Any) -> Any:
        m = t.tensor(rows, dtype=t.float64)
        m = t.linalg.inv(m) if inverse else m
        return t.einsum("ij,njhw->nihw", m.to(x.dtype), x)

    return theirs


YIQ = (
    (0.299, 0.587, 0.114),
    (0.59590059, -0.27455667, -0.32134392),
    (0.21153661, -0.52273617, 0.31119955),
)
YUV = (
    (0.299, 0.587, 0.114),
    (-0.14714119, -0.28886916, 0.43601035),
    (0.61497538, -0.51496512, -0.10001026),
)


def to_hsv(t: Any, x: Any) -> Any:
    """Hue by the angle's sextant, through the order of the channels."""
    top, which = x.max(1)
    span = top - x.min(1).values
    r, g, b = x.unbind(1)
    sixth = t.stack([(g - b) / span % 6, (b - r) / span + 2, (r - g) / span + 4], 1)
    hue = sixth.gather(1, which[:, None])[:, 0] / 6
    return t.stack([hue, span / top, top], 1)


def from_hsv(t: Any, x: Any) -> Any:
    """Red, green and blue by the six sextants of the colour circle."""
    h, s, v = x.unbind(1)
    sextant = t.floor(h * 6)
    f = h * 6 - sextant
    p, q, u = v * (1 - s), v * (1 - f * s), v * (1 - (1 - f) * s)
    table = [(v, u, p), (q, v, p), (p, v, u), (p, q, v), (u, p, v), (v, p, q)]
    choices = t.stack([t.stack(c, 1) for c in table])
    number = (sextant.long() % 6)[None, :, None].expand(1, -1, 3, *h.shape[1:])
    return choices.gather(0, number)[0]


def turned(t: Any, x: Any, delta: float) -> Any:
    h, s, v = to_hsv(t, x).unbind(1)
    return from_hsv(t, t.stack([(h + delta) % 1, s, v], 1))


def vivid(t: Any, x: Any, factor: float) -> Any:
    h, s, v = to_hsv(t, x).unbind(1)
    return from_hsv(t, t.stack([h, (s * factor).clip(0, 1), v], 1))


def contrast(t: Any, x: Any, factor: float) -> Any:
    return factor * x + (1 - factor) * x.mean((-2, -1), keepdim=True)


def sampling(x: Any, *grid: int) -> list[Case]:
    at = uniform(-1.5, 1.5, *grid)
    modes = ("linear", "nearest", "cubic") if x.ndim == 4 else ("linear", "nearest")
    return [
        (x, at, {"mode": mode, "padding_mode": padding, "align_corners": corners})
        for mode in modes
        for padding in ("zeros", "border", "reflection")
        for corners in (False, True)
    ]


NEAREST_UP = {"mode": "nearest", "nearest_mode": "round_prefer_ceil"}
FLOOR = {
    "mode": "nearest",
    "nearest_mode": "floor",
    "coordinate_transformation_mode": "asymmetric",
}
CORNERS = {"coordinate_transformation_mode": "align_corners"}
SMOOTH = {"antialias": True, "exclude_outside": True}

ROWS: dict[str, Row] = {
    "resize": Row(
        resized,
        [
            (IMAGE, {"sizes": (9, 4)}),
            (IMAGE[:, :, 0], {"sizes": (11,)}),
            (VOLUME, {"sizes": (5, 2, 4)}),
            (IMAGE, {"sizes": (9, 4), **CORNERS}),
            (IMAGE, {"sizes": (1, 13), **CORNERS}),
            (IMAGE, {"sizes": (8, 3), "mode": "cubic"}),
            (IMAGE, {"sizes": (8, 3), "mode": "cubic", **CORNERS}),
            (IMAGE, {"sizes": (2, 9), **SMOOTH}),
            (IMAGE, {"sizes": (3, 9), "mode": "cubic", "cubic_coeff_a": -0.5, **SMOOTH}),
            (IMAGE, {"sizes": (12, 4), **NEAREST_UP}),
            (IMAGE, {"sizes": (12, 4), **FLOOR}),
            (normal(1, 1, 70, 130), {"sizes": (150, 60)}),
        ],
    ),
    "resize, area": Row(
        lambda t, x, sizes, mode: t.nn.functional.interpolate(x, sizes, mode=mode),
        [(normal(1, 2, 6, 8), {"sizes": (3, 2), "mode": "area"})],
    ),
    "resize, part": Row(
        cropped,
        [
            (
                IMAGE,
                {
                    "sizes": (4, 3),
                    "roi": (0.25, -0.3, 0.8, 1.1),
                    "extrapolation_value": 9.0,
                    "coordinate_transformation_mode": "tf_crop_and_resize",
                },
            )
        ],
    ),
    "resize, filters": Row(
        filtered,
        [
            (IMAGE, {"sizes": (8, 4), "mode": mode, "antialias": anti})
            for mode in ("lanczos3", "lanczos5", "mitchell", "gaussian")
            for anti in (False, True)
        ],
    ),
    "resize_bilinear": Row(
        by_size("bilinear"),
        [
            (IMAGE, {"size": (3, 9)}),
            (IMAGE, {"size": (2, 3), "antialias": True}),
            (IMAGE, {"size": (3, 9), "align_corners": True}),
        ],
    ),
    "resize_bicubic": Row(
        by_size("bicubic"),
        [
            (IMAGE, {"size": (3, 9)}),
            (IMAGE, {"size": (2, 3), "antialias": True, "cubic_coeff_a": -0.5}),
            (IMAGE, {"size": (7, 2), "align_corners": True}),
        ],
    ),
    "grid_sample": Row(grid_sample, sampling(IMAGE, 2, 3, 4, 2)),
    "grid_sample, volumes": Row(grid_sample, sampling(VOLUME, 1, 2, 3, 2, 3)),
    "affine_grid": Row(
        affine_grid,
        [
            (normal(2, 2, 3), {"size": (2, 1, 3, 4), "align_corners": corners})
            for corners in (False, True)
        ]
        + [
            (normal(1, 3, 4), {"size": (1, 1, 2, 3, 4), "align_corners": corners})
            for corners in (False, True)
        ],
    ),
    "crop_and_resize": Row(
        crop_and_resize,
        [
            (IMAGE, BOXES, np.array([1, 0, 0, 1]), {"size": (3, 4)}),
            (IMAGE, BOXES, np.array([1, 0, 0, 1]), {"size": (2, 2), "extrapolation_value": -3.0}),
        ],
    ),
    "roi_align": Row(
        roi_align,
        [
            (IMAGE, ROIS, np.array([1, 0, 1]), {"size": (2, 3)}),
            (IMAGE, ROIS, np.array([1, 0, 1]), {"size": (2, 2), "sampling_ratio": 2}),
            (
                *(IMAGE, 2 * ROIS, np.array([0, 0, 1])),
                {"size": (3, 1), "half_pixel_centers": False, "spatial_scale": 0.5},
            ),
        ],
        fixed=(1,),
    ),
    "non_max_suppression": Row(
        suppressed,
        [
            (uniform(0, 3, 2, 12, 4), uniform(0, 1, 2, 3, 12), attrs)
            for attrs in (
                {},
                {"iou_threshold": 0.4},
                {"iou_threshold": 0.1, "score_threshold": 0.5},
                {"max_output_boxes_per_class": 2, "iou_threshold": 0.5},
                {"score_threshold": 2.0},
            )
        ],
    ),
    "extract_image_patches": Row(
        patches,
        [
            (IMAGE, {"kernel_size": (2, 3)}),
            (IMAGE, {"kernel_size": (3, 2), "stride": 2}),
        ],
    ),
    "rgb_to_yiq": Row(mixed(YIQ), [(COLOURS,)]),
    "yiq_to_rgb": Row(mixed(YIQ, inverse=True), [(COLOURS,)]),
    "rgb_to_yuv": Row(mixed(YUV), [(COLOURS,)]),
    "yuv_to_rgb": Row(mixed(YUV, inverse=True), [(COLOURS,)]),
    "rgb_to_hsv": Row(to_hsv, [(COLOURS,)]),
    "hsv_to_rgb": Row(from_hsv, [(COLOURS,)]),
    "adjust_hue": Row(turned, [(COLOURS, {"delta": d}) for d in (0.3, -0.6)]),
    "adjust_saturation": Row(vivid, [(COLOURS, {"factor": f}) for f in (0.5, 1.7)]),
    "adjust_contrast": Row(contrast, [(COLOURS, {"factor": f}) for f in (0.5, 1.7)]),
}
ELSEWHERE = {
    "random_crop": "random: its places are counted in tests/ops/test_images.py",
    "decode_image": "Pillow's: nine cases of ONNX's suite, and tests/ops/test_images.py",
}
