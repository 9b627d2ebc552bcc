"""Windows that slide over images ``f32[N, C, H, W]``, for convolution and pooling.

Windows of size k move over the padded image in steps of ``stride``; ``dilation`` spreads a window's
elements, so that it reaches over r = dilation·(k − 1) + 1. Along each axis the result has

    ⌊(n + before + after − r)/stride⌋ + 1

elements. ``padding`` is one int, (height, width), ((top, bottom), (left, right)), "valid" (0), or
"same": the result has ⌈n/stride⌉ elements, and an odd one of padding goes to the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..errors import DTypeError, ShapeError
from ..op import Op
from ..spec import AnyDim, TensorSpec, differ, kind

Array = np.ndarray[Any, Any]
Sizes = tuple[AnyDim, AnyDim]


def pair(value: Any, name: str, least: int) -> tuple[int, int]:
    """Return one or two ints as two."""
    both = (value, value) if isinstance(value, int) else value
    if not (isinstance(both, tuple) and len(both) == 2) or not all(
        isinstance(v, int) and v >= least for v in both
    ):
        raise ShapeError(f"{name}={value!r} is not understood", need=f"one or two ints >= {least}")
    return both[0], both[1]


@dataclass(frozen=True)
class Windows:
    """How windows slide over images; ``padding`` is None for "same"."""

    kernel: Sizes
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]] | None

    @staticmethod
    def of(kernel: Sizes, stride: Any, padding: Any, dilation: Any) -> Windows:
        """Read the attributes of an op."""
        pads: Any = None
        match padding:
            case "valid":
                pads = (0, 0), (0, 0)
            case "same":
                pass
            case ((_, _), (_, _)):
                pads = tuple(pair(p, "padding", 0) for p in padding)
            case str():
                raise ShapeError(
                    f"padding={padding!r} is not known", need="'same', 'valid' or ints"
                )
            case _:
                pads = tuple((p, p) for p in pair(padding, "padding", 0))
        return Windows(kernel, pair(stride, "stride", 1), pair(dilation, "dilation", 1), pads)

    @property
    def reach(self) -> Sizes:
        """How far a window reaches from its first to its last element."""
        (k, m), (d, e) = self.kernel, self.dilation
        return (k - 1) * d + 1, (m - 1) * e + 1

    def n_out(self, size: Sequence[AnyDim]) -> Sizes:
        """Return the size of the result for an image of a size."""
        out: list[AnyDim] = []
        for i, (n, r, s) in enumerate(zip(size, self.reach, self.stride, strict=True)):
            if self.padding is None:
                out.append((n + s - 1) // s)
                continue
            room = n + sum(self.padding[i]) - r
            if isinstance(room, int) and room < 0:
                raise ShapeError(
                    "the kernel reaches beyond the padded image",
                    need=f"{r} elements on axis {i + 2}, got {n} and padding {self.padding[i]}",
                )
            out.append(room // s + 1)
        return out[0], out[1]

    def pads(self, size: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the padding before and after, for an image of a known size."""
        if self.padding is not None:
            return self.padding
        out = []
        for n, m, r, s in zip(size, self.n_out(size), self.reach, self.stride, strict=True):
            total = max((int(m) - 1) * s + int(r) - n, 0)
            out.append((total // 2, total - total // 2))
        return out[0], out[1]

    def padded(self, x: Array, fill: float = 0.0) -> Array:
        """Return images with their padding."""
        pads = self.pads(x.shape[-2:])
        if pads == ((0, 0), (0, 0)):
            return x
        return np.pad(x, [(0, 0)] * (x.ndim - 2) + list(pads), constant_values=fill)

    def cropped(self, padded: Array, size: Sequence[int]) -> Array:
        """Return padded images of a size without their padding."""
        (top, _), (left, _) = self.pads(size)
        return padded[..., top : top + size[0], left : left + size[1]]

    def slices(self, padded: Array, n_out: Sizes) -> Iterator[Array]:
        """Yield per element of the kernel the view that it sees, row by row."""
        (k, m), (s, t), (d, e) = self.kernel, self.stride, self.dilation
        h, w = int(n_out[0]), int(n_out[1])
        for i, j in itertools.product(range(int(k)), range(int(m))):
            rows = slice(i * d, i * d + (h - 1) * s + 1, s)
            yield padded[..., rows, slice(j * e, j * e + (w - 1) * t + 1, t)]

    def columns(self, x: Array, groups: int) -> Array:
        """Return windows as ``[G, C/G·kh·kw, N·Ho·Wo]``, so that a convolution is a matmul."""
        (s, t), (d, e) = self.stride, self.dilation
        windows = sliding_window_view(self.padded(x), self.reach, axis=(2, 3))  # type: ignore[arg-type]
        windows = windows[:, :, ::s, ::t, ::d, ::e].transpose(1, 4, 5, 0, 2, 3)
        rows = x.shape[1] // groups * windows.shape[1] * windows.shape[2]
        return windows.reshape(groups, rows, -1) if x.size else np.zeros((groups, rows, 0), x.dtype)


def check_images(op: Op, x: TensorSpec) -> None:
    """Refuse what is not a batch of floating images."""
    if x.rank != 4 or 0 in x.shape[1:]:
        raise ShapeError(f"{op.name} takes images", need="f32[N, C, H, W], none of C, H, W is 0")
    if kind(x.dtype) != "f":
        raise DTypeError(f"{op.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")


def check_cotangent(g: TensorSpec, y: TensorSpec) -> None:
    """Refuse a cotangent that has another shape than the result it belongs to."""
    if g.rank != y.rank or any(map(differ, g.shape, y.shape)):
        raise ShapeError("the cotangent does not fit", need=f"the shape of the result, {y.shape}")
