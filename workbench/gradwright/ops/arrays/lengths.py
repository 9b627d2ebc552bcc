"""Sequences of different lengths in one tensor: masks, and reversal of what is not padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import LINEAR, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import AnyDim, Dim, TensorSpec, differ, dtype, normalize_axis
from ..core.index import check_indices


class SequenceMask(Op):
    """Mask of the places that belong to sequences of given lengths.

    y[…, t] = [t < lengths[…]] for t < maxlen; without maxlen, up to the longest

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.sequence_mask(g.constant([1, 3]), name="y"))["y"].tolist()
    [[True, False, False], [True, True, True]]
    """

    namespace = "base"
    maxlen: AnyDim | None = attr(None, doc="Number of places; None: the largest length.")
    dtype: np.dtype[Any] = attr(dtype("bool"), doc="Dtype of the result.")

    def infer(self, lengths: TensorSpec) -> TensorSpec:
        check_indices(lengths)
        if isinstance(self.maxlen, int) and self.maxlen < 0:
            raise ShapeError(f"maxlen {self.maxlen} is negative", need="maxlen >= 0")
        n = Dim.fresh("maxlen") if self.maxlen is None else self.maxlen
        return TensorSpec((*lengths.shape, n), self.dtype)

    def forward(self, lengths: Any) -> Any:
        n: Any = lengths.max(initial=0) if self.maxlen is None else self.maxlen
        return (np.arange(int(n)) < lengths[..., None]).astype(self.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[1, 3], [0, 2]]),))
        yield Sample((np.array([1, 9], np.uint8),), {"maxlen": 4, "dtype": "float32"})
        yield Sample((np.array(2, np.int32),), {"maxlen": 3})
        yield Sample((np.zeros(0, np.int64),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "not integers")
        yield ErrorSample((TensorSpec((2,), "int64"),), {"maxlen": -1}, "is negative")


class ReverseSequence(Op):
    """Reverse the first elements of each sequence, as many as its length; padding stays in place.

    y[b, t] = x[b, lengths[b] − 1 − t] for t < lengths[b], else x[b, t]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1, 2, 3], [4, 5, 6]])
    >>> g.output({}, gw.reverse_sequence(x, [2, 3], name="y"))["y"].tolist()
    [[2, 1, 3], [6, 5, 4]]
    """

    namespace = "base"
    dependence = LINEAR
    seq_axis: int = attr(1, doc="Axis along which a sequence runs.")
    batch_axis: int = attr(0, doc="Axis along which sequences differ.")
    onnx = OnnxRule(
        "ReverseSequence",
        since=10,
        rename={"seq_axis": "time_axis"},
        defaults={"time_axis": 0, "batch_axis": 1},
    )

    def infer(self, x: TensorSpec, lengths: TensorSpec) -> TensorSpec:
        check_indices(lengths)
        time, batch = (normalize_axis(a, x.rank) for a in (self.seq_axis, self.batch_axis))
        if time == batch:
            raise ShapeError("sequences run along the batch axis", need="two different axes")
        if lengths.rank != 1 or differ(lengths.shape[0], x.shape[batch]):
            raise ShapeError("lengths do not fit", need=f"one per row: {x.shape[batch]}")
        return x.with_shape(x.shape)

    def forward(self, x: Any, lengths: Any) -> Any:
        time, batch = (normalize_axis(a, x.ndim) for a in (self.seq_axis, self.batch_axis))
        n = x.shape[time]
        if lengths.size and not 0 <= lengths.min() <= lengths.max() <= n:
            raise IndexError(f"lengths of reverse_sequence are not all in 0..{n}")
        moved = np.moveaxis(x, (batch, time), (0, 1))
        t, end = np.arange(n), lengths.astype(np.intp)[:, None]
        y = moved[np.arange(len(end))[:, None], np.where(t < end, end - 1 - t, t)]
        return np.moveaxis(y, (0, 1), (batch, time))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return self(gs[0], xs[1]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((3, 2, 4))
        yield Sample((x, np.array([0, 1, 2])))
        yield Sample((x, np.array([3, 4], np.int32)), {"seq_axis": -1, "batch_axis": 1})
        yield Sample((x[:, :, 0], np.array([3, 2])), {"seq_axis": 0, "batch_axis": 1})
        yield Sample((x[:0], np.zeros(0, int)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        specs = TensorSpec((2, 3)), TensorSpec((3,), "int64")
        yield ErrorSample(specs, {}, "one per row")
        yield ErrorSample(specs, {"seq_axis": 0}, "two different axes")
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2,))), {}, "not integers")
