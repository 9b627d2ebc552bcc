"""Padding: extending a tensor at its ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import LINEAR, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, kind
from ...spec.rounding import rounded
from .index import add_rows
from .special import widened

MODES = "constant", "edge", "reflect", "symmetric", "wrap"


class Pad(Op):
    """Extend a tensor at the ends of its axes.

    y[i] = x[i − before], and beyond the ends a constant, the edge, x mirrored at the element of the
    edge (reflect) or behind it (symmetric), or x from its other end on (wrap)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.pad(g.constant([1, 2, 3]), 2, mode="reflect"))["pad"].tolist()
    [3, 2, 1, 2, 3, 2, 1]
    """

    namespace = "base"
    drawing = "shape"
    is_method = True
    dependence = LINEAR
    pad_width: int | tuple[Any, ...] = attr(
        doc="Places before and after, for all axes or per axis."
    )
    mode: str = attr("constant", doc="What to fill with.", choices=MODES)
    value: float = attr(0.0, doc="The constant.")
    onnx = OnnxRule("Pad", since=13)

    def widths(self, rank: int) -> tuple[tuple[int, int], ...]:
        """Return places before and after for each axis."""
        given: Any = self.pad_width
        pair = not isinstance(given, int) and len(given) == 2 and isinstance(given[0], int)
        widths = (
            ((given, given),) * rank
            if isinstance(given, int)
            else (given,) * rank
            if pair
            else given
        )
        if len(widths) != rank or any(len(w) != 2 or min(w) < 0 for w in widths):
            raise ShapeError(
                f"pad_width {given} does not fit rank {rank}", need="(before, after) per axis, >= 0"
            )
        return widths

    def infer(self, x: TensorSpec) -> TensorSpec:
        widths = self.widths(x.rank)
        if self.mode != "constant":
            for i, (d, (before, after)) in enumerate(zip(x.shape, widths, strict=True)):
                least = max(before, after) + 1 if self.mode == "reflect" else 1
                if (before or after) and isinstance(d, int) and d < least:
                    raise ShapeError(
                        f"cannot pad axis {i} by its {self.mode}", need=f"size >= {least}, got {d}"
                    )
        return x.with_shape([b + d + a for d, (b, a) in zip(x.shape, widths, strict=True)])

    def forward(self, x: Any) -> Any:
        widths = self.widths(x.ndim)
        if self.mode == "constant":
            fill = rounded(self.value, x.dtype)
            return np.pad(x, widths, constant_values=fill) if widths else x.copy()
        mode: Any = self.mode
        return np.pad(x, widths, mode) if widths else x.copy()

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (PadGrad(pad_width=self.widths(xs[0].rank), mode=self.mode)(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((3, 4))
        yield Sample((x,), {"pad_width": ((1, 0), (0, 2)), "value": 0.5})
        yield Sample((x,), {"pad_width": ((2, 2), (3, 1)), "mode": "reflect"})
        yield Sample((x,), {"pad_width": ((2, 1), (0, 0)), "mode": "edge"})
        yield Sample((x,), {"pad_width": ((3, 1), (0, 5)), "mode": "symmetric"})
        yield Sample((x,), {"pad_width": ((4, 1), (0, 2)), "mode": "wrap"})
        yield Sample((rng.standard_normal((0, 2)),), {"pad_width": 1})
        yield Sample((rng.standard_normal(()),), {"pad_width": ()})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"pad_width": ((1, 1),)}, "does not fit rank 2")
        yield ErrorSample((TensorSpec((2, 3)),), {"pad_width": -1}, "does not fit rank 2")
        yield ErrorSample(
            (TensorSpec((2, 3)),), {"pad_width": ((2, 0), (0, 0)), "mode": "reflect"}, "size >= 3"
        )
        yield ErrorSample((TensorSpec((2,)),), {"pad_width": 1, "mode": "mirror"}, "is not known")


class PadGrad(Op):
    """Add what lies in the padding onto the elements it was copied from, and drop the padding.

    y[i] = Σ g over all places that ``pad`` fills from x[i]
    """

    namespace = "gradient"
    dependence = LINEAR
    pad_width: tuple[tuple[int, int], ...] = attr(doc="Places before and after, per axis.")
    mode: str = attr("constant", doc="How they were filled.", choices=MODES)

    def infer(self, g: TensorSpec) -> TensorSpec:
        if len(self.pad_width) != g.rank:
            raise ShapeError(f"pad_width does not fit rank {g.rank}")
        return g.with_shape([d - b - a for d, (b, a) in zip(g.shape, self.pad_width, strict=True)])

    def forward(self, g: Any) -> Any:
        wide = widened(g) if kind(g.dtype) == "f" else g
        for axis, (before, after) in enumerate(self.pad_width):
            if not before and not after:
                continue
            moved = np.moveaxis(wide, axis, 0)
            n = len(moved) - before - after
            y = moved[before : before + n].copy()
            if self.mode != "constant":
                mode: Any = self.mode
                source = np.pad(np.arange(n), (before, after), mode)
                ends = [slice(before), slice(before + n, None)]
                at, rows = (np.concatenate([a[end] for end in ends]) for a in (source, moved))
                y += add_rows(n, at, rows.reshape(len(rows), -1)).reshape(y.shape)
            wide = np.moveaxis(y, 0, axis)
        return wide.astype(g.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (Pad(pad_width=self.pad_width, mode=self.mode)(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for mode in MODES:
            yield Sample(
                (rng.standard_normal((6, 3)),), {"pad_width": ((1, 2), (0, 0)), "mode": mode}
            )

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"pad_width": ((1, 1),)}, "does not fit rank 2")
