"""Taking rows apart by a label and putting them together again, and branches that have no rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import LINEAR, ZERO, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import Dim, TensorSpec, differ, kind, promote_all
from ..core.choice import Where
from ..core.comparison import LogicalNot
from ..core.index import Gather, check_indices
from ..core.joining import Concat
from ..core.like import IotaLike
from ..core.masking import BooleanMask
from ..core.movement import ExpandDims
from ..core.reshape import BroadcastTo


class DynamicPartition(Op):
    """Take slices of ``x`` apart by their label, one tensor per label; sizes are known when run.

    yₖ = x[labels = k, …] for k = 0 … n − 1, in the order of x

    Slices with other labels are in none of them.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = gw.dynamic_partition(g.constant([1.0, 2.0, 3.0]), [0, 1, 0], 2)
    >>> [y.tolist() for y in g.output({}, a, b).values()]
    [[1.0, 3.0], [2.0]]
    """

    namespace = "base"
    returns = ("*parts",)
    many = True
    num_partitions: int = attr(doc="Number of labels.")

    def infer(self, x: TensorSpec, labels: TensorSpec) -> tuple[TensorSpec, ...]:
        check_indices(labels)
        if self.num_partitions < 1:
            raise ShapeError(f"{self.num_partitions} partitions", need="num_partitions >= 1")
        covered = x.shape[: labels.rank]
        if len(covered) < max(labels.rank, 1) or any(map(differ, covered, labels.shape)):
            raise ShapeError(
                "labels do not fit x", need=f"the first sizes of {x.shape}, got {labels.shape}"
            )
        rest = x.shape[labels.rank :]
        return tuple(
            x.with_shape((Dim.fresh("partition"), *rest)) for _ in range(self.num_partitions)
        )

    def expand(self, x: Any, labels: Any) -> Any:
        return tuple(BooleanMask()(x, labels == k) for k in range(self.num_partitions))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((3, 2))
        yield Sample((x, np.array([2, 0, 2])), {"num_partitions": 3})
        yield Sample((x, np.array([[0, 1], [1, 1], [0, 0]], np.int32)), {"num_partitions": 2})
        yield Sample((x[:0], np.zeros(0, int)), {"num_partitions": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        specs = TensorSpec((3,)), TensorSpec((2,), "int64")
        yield ErrorSample(specs, {"num_partitions": 2}, "do not fit")
        yield ErrorSample(specs, {"num_partitions": 0}, "0 partitions")


class DynamicStitch(Op):
    """Put slices together at stated places: index tensors first, then as many tensors of slices.

    y[indicesₖ[i], …] = xₖ[i, …], the last write counts; the largest index decides the size, places
    that are never written hold 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.dynamic_stitch([2, 0], [1], g.constant([5, 6]), g.constant([7]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [6, 7, 5]
    """

    namespace = "base"
    dependence = LINEAR

    def infer(self, *parts: TensorSpec) -> TensorSpec:
        n = len(parts) // 2
        if not n or len(parts) % 2:
            raise ShapeError(f"{len(parts)} tensors", need="n index tensors and n of slices")
        indices, xs = parts[:n], parts[n:]
        rest = xs[0].shape[indices[0].rank :]
        for i, x in zip(indices, xs, strict=True):
            check_indices(i)
            mine = x.shape[i.rank :]
            if x.rank < i.rank or any(map(differ, i.shape, x.shape)):
                raise ShapeError(
                    "slices do not fit their indices", need=f"{i.shape} first, got {x}"
                )
            if len(mine) != len(rest) or any(map(differ, mine, rest)):
                raise ShapeError("slices differ in shape", need=f"{rest}, got {mine}")
        return TensorSpec((Dim.fresh("stitched"), *rest), promote_all(*xs))

    def forward(self, *parts: Any) -> Any:
        n = len(parts) // 2
        indices, xs = parts[:n], parts[n:]
        joint = promote_all(*(TensorSpec(x.shape, x.dtype) for x in xs))
        at = np.concatenate([i.reshape(-1) for i in indices])
        if at.size and at.min() < 0:
            raise IndexError(f"index {at.min()} of dynamic_stitch is negative")
        rest = xs[0].shape[indices[0].ndim :]
        y = np.zeros((int(at.max()) + 1 if at.size else 0, *rest), joint)
        for i, x in zip(indices, xs, strict=True):
            y[i.reshape(-1)] = x.reshape(i.size, *rest)
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        n = len(xs) // 2
        indices = xs[:n]
        # The number of the write that each place keeps tells whose gradient it takes.
        writes = [IotaLike()(i) + (k << 48) + 1 for k, i in enumerate(indices)]
        kept = DynamicStitch()(*indices, *writes)
        out: list[Cotangent] = [ZERO] * n
        for index, write, x in zip(indices, writes, xs[n:], strict=True):
            mine = Gather()(kept, index) == write
            inner = tuple(range(index.rank, x.rank))
            mine = ExpandDims(axis=inner)(mine) if inner else mine
            out.append(Where()(mine, Gather()(gs[0], index), 0.0))
        return out

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = rng.standard_normal((2, 3)), rng.standard_normal((2, 2, 3))
        yield Sample((np.array([4, 0]), np.array([[1, 2], [4, 2]]), a, b))
        yield Sample((np.array(1), np.array([0], np.int32), a[0, 0], a[0, :1]))
        yield Sample((np.array([2, 0]), a[:, :0]))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        index = TensorSpec((2,), "int64")
        yield ErrorSample((index,), {}, "n index tensors and n of slices")
        yield ErrorSample((index, TensorSpec((3,))), {}, "do not fit their indices")
        yield ErrorSample(
            (index, index, TensorSpec((2,)), TensorSpec((2, 1))), {}, "differ in shape"
        )


class Switch(Op):
    """Send rows one of two ways: those where ``pred`` is false, then those where it is true.

    y₀ = x[¬pred, …],  y₁ = x[pred, …]

    One truth value sends all rows of x : f32[B, …] the same way, one per row sends each its own.
    A way that nothing takes has no rows, so that what follows costs nothing there; ``gw.merge``
    joins the two again. ``gw.cond`` chooses between sub-graphs of any shapes.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, pred = g.placeholder("x", (2,)), g.placeholder("pred", (), "bool")
    >>> off, on = gw.switch(x, pred)
    >>> y = gw.merge(off * 10.0, on, name="y")
    >>> g.output({"x": [1.0, 2.0], "pred": False}, y)["y"].tolist()
    [10.0, 20.0]
    """

    namespace = "base"
    returns = "at_false", "at_true"

    def infer(self, x: TensorSpec, pred: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        if kind(pred.dtype) != "b" or pred.rank > 1:
            raise DTypeError("pred is no truth value", need=f"bool[] or bool[rows], got {pred}")
        if not x.rank:
            raise ShapeError("a scalar has no rows to send", hint="gw.where or gw.cond")
        if pred.rank and differ(pred.shape[0], x.shape[0]):
            raise ShapeError("pred does not fit", need=f"bool[{x.shape[0]}], got {pred}")
        rest = x.shape[1:]
        return (
            x.with_shape((Dim.fresh("switch"), *rest)),
            x.with_shape((Dim.fresh("switch"), *rest)),
        )

    def expand(self, x: Any, pred: Any) -> Any:
        rows = pred if pred.rank else BroadcastTo(shape=x.shape[:1])(pred)
        return BooleanMask()(x, LogicalNot()(rows)), BooleanMask()(x, rows)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((3, 2))
        yield Sample((x, np.array(True)))
        yield Sample((x, np.array([True, False, True])))
        yield Sample((x[:, 0], np.array(False)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec(())), {}, "no truth value")
        yield ErrorSample((TensorSpec(()), TensorSpec((), "bool")), {}, "has no rows")


class Merge(Op):
    """Join the ways of a switch: the one that has rows, or the rows of all in order.

    y = (x₀, x₁, …) along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> off, on = gw.switch(g.constant([1.0, -2.0]), [True, False])
    >>> g.output({}, gw.merge(off * 0.5, on, name="y"))["y"].tolist()
    [-1.0, 1.0]
    """

    namespace = "base"

    def expand(self, *xs: Any) -> Any:
        return Concat(axis=0)(*xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3))
        yield Sample((x[:0], x))
        yield Sample((x, x[:1], x[:0]))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2, 4))), {}, "sizes on axis 1 differ")
