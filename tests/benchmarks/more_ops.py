"""More ops beside torch on one thread: ``python -m tests.benchmarks.more_ops``.

One function per family yields its cases, in the form of ``ops.py``; forward and backward are timed
together. An argument keeps the cases with that word in their name.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.ops import Case, f32, sides
from tests.benchmarks.timing import race


def convolutions(torch: Any) -> Iterator[Case]:
    """Yield convolutions in the sizes of small networks."""
    cnn, F = gw.cnn, torch.nn.functional
    x = f32(8, 32, 32, 32)
    yield Case(
        "conv2d, first layer",
        [f32(16, 3, 64, 64), f32(16, 3, 5, 5), f32(16)],
        lambda *a: cnn.conv2d(*a, stride=2, padding=2),
        lambda *a: F.conv2d(*a, stride=2, padding=2),
    )
    yield Case("conv2d, one channel", [f32(32, 1, 28, 28), f32(8, 1, 3, 3)], cnn.conv2d, F.conv2d)
    yield Case(
        "conv2d, small images",
        [f32(64, 16, 8, 8), f32(32, 16, 3, 3)],
        lambda x, w: cnn.conv2d(x, w, padding=1),
        lambda x, w: F.conv2d(x, w, padding=1),
    )
    yield Case("conv2d, pointwise", [x, f32(64, 32, 1, 1)], cnn.conv2d, F.conv2d)
    yield Case(
        "conv2d, groups",
        [x, f32(64, 8, 3, 3)],
        lambda x, w: cnn.conv2d(x, w, groups=4, padding=1),
        lambda x, w: F.conv2d(x, w, groups=4, padding=1),
    )
    yield Case(
        "conv2d, dilated",
        [x, f32(32, 32, 3, 3)],
        lambda x, w: cnn.conv2d(x, w, dilation=2, padding=2),
        lambda x, w: F.conv2d(x, w, dilation=2, padding=2),
    )
    yield Case(
        "conv1d, dilated",
        [f32(8, 32, 512), f32(32, 32, 3)],
        lambda x, w: cnn.conv1d(x, w, dilation=8, padding=8),
        lambda x, w: F.conv1d(x, w, dilation=8, padding=8),
    )
    yield Case(
        "conv_transpose1d",
        [f32(8, 32, 128), f32(32, 16, 4)],
        lambda x, w: cnn.conv_transpose1d(x, w, stride=2, padding=1),
        lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1),
    )
    yield Case(
        "conv_transpose2d, stride 1",
        [x, f32(32, 16, 3, 3)],
        lambda x, w: cnn.conv_transpose2d(x, w, padding=1),
        lambda x, w: F.conv_transpose2d(x, w, padding=1),
    )
    yield Case(
        "conv_transpose3d",
        [f32(2, 16, 6, 6, 6), f32(16, 16, 2, 2, 2)],
        lambda x, w: cnn.conv_transpose3d(x, w, stride=2),
        lambda x, w: F.conv_transpose3d(x, w, stride=2),
    )


def _with(module: Any, name: str, *attrs: int) -> Callable[[Any], Any]:
    function = getattr(module, name)
    return lambda x: function(x, *attrs)


def poolings(torch: Any) -> Iterator[Case]:
    """Yield poolings and rearrangements."""
    cnn, F = gw.cnn, torch.nn.functional
    signal, image, volume = f32(16, 32, 1024), f32(8, 32, 32, 32), f32(2, 16, 16, 16, 16)
    for n, x in ((1, signal), (2, image), (3, volume)):
        for name in (f"max_pool{n}d", f"avg_pool{n}d"):
            yield Case(f"{name}, overlapping", [x], *(_with(m, name, 3, 2, 1) for m in (cnn, F)))
    for name in ("adaptive_avg_pool2d", "adaptive_max_pool2d"):
        yield Case(name, [image], *(_with(m, name, 7) for m in (cnn, F)))
    yield Case(
        "lp_pool2d", [image], lambda x: cnn.lp_pool2d(x, 2), lambda x: F.lp_pool2d(x, 2.0, 2)
    )
    yield Case(
        "local_response_norm",
        [image],
        lambda x: cnn.local_response_norm(x, 5),
        lambda x: F.local_response_norm(x, 5),
    )
    yield Case("im2col", [image], lambda x: cnn.im2col(x, 3), lambda x: F.unfold(x, 3))
    yield Case(
        "depth_to_space",
        [image],
        lambda x: cnn.depth_to_space(x, 2, "crd"),
        lambda x: F.pixel_shuffle(x, 2),
    )
    yield Case(
        "upsampling2d",
        [image],
        cnn.upsampling2d,
        lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
    )


def images(torch: Any) -> Iterator[Case]:
    """Yield resizing and sampling."""
    image, F = gw.image, torch.nn.functional
    x = f32(4, 16, 64, 64)
    for mode, size in (("linear", 96), ("linear", 40), ("cubic", 96), ("nearest", 96)):
        theirs = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest-exact"}[mode]
        yield Case(
            f"resize, {mode} to {size}",
            [x],
            lambda x, mode=mode, size=size: image.resize(x, (size, size), mode=mode),
            lambda x, mode=theirs, size=size: F.interpolate(x, (size, size), mode=mode),
        )
    yield Case(
        "resize, antialias",
        [x],
        lambda x: image.resize(x, (24, 24), antialias=True, exclude_outside=True),
        lambda x: F.interpolate(x, (24, 24), mode="bilinear", antialias=True),
    )
    grid = (np.random.default_rng(1).uniform(-1, 1, (4, 48, 48, 2))).astype(np.float32)
    for mode in ("linear", "cubic"):
        theirs = {"linear": "bilinear", "cubic": "bicubic"}[mode]
        yield Case(
            f"grid_sample, {mode}",
            [x, grid],
            lambda x, at, mode=mode: image.grid_sample(x, at, mode=mode),
            lambda x, at, mode=theirs: F.grid_sample(x, at, mode, align_corners=False),
        )
    yield Case(
        "affine_grid",
        [f32(16, 2, 3)],
        lambda t: image.affine_grid(t, (16, 3, 64, 64)),
        lambda t: F.affine_grid(t, (16, 3, 64, 64), align_corners=False),
    )


FAMILIES: tuple[Callable[[Any], Iterator[Case]], ...] = (convolutions, poolings, images)


def main(only: str = "") -> None:
    """Print a line per op with the ratio torch/ours and its quartiles, and geometric means."""
    import torch

    torch.set_num_threads(1)
    print(f"\nforward + backward, 1 thread: torch {torch.__version__} / gradwright")
    for family in FAMILIES:
        ratios = []
        for case in family(torch):
            if only not in case.name:
                continue
            ours, theirs = sides(case, torch)
            timings = race({"ours": ours, "torch": theirs}, rounds=5)
            mine, other = timings["ours"], timings["torch"]
            ratios.append(other.median / mine.median)
            spread = f"[{other.low / mine.high:.2f}–{other.high / mine.low:.2f}]"
            print(f"  {case.name:<30} {mine}  {ratios[-1]:6.2f}x {spread}")
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"  {family.__name__}, geometric mean of {len(ratios)}: {mean:.2f}x")


if __name__ == "__main__":
    main(*sys.argv[1:2])
