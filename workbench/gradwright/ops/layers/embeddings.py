"""Embeddings beyond the lookup, copies, and the centring of self-supervised teachers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import AFFINE, Cotangent, ErrorSample, Op, Sample, WeightSite, attr
from ...spec import TensorSpec, differ, kind, normalize_axis, promote, promote_all, shapes_differ
from ..core.choice import Maximum, Where
from ..core.elementwise import _Unary
from ..core.like import SizeOf
from ..core.movement import Cast, ExpandDims, alike
from ..core.reduce import Cumsum
from ..core.scatter import TakeAlongAxis
from .nn import Embedding, Softmax


class EmbeddingBag(Op):
    """Sum, mean or maximum of the rows of a table that each bag names.

    Default of torch: ``mode="mean"``.

    y[…, :] = Σₖ w[…, k]·weight[ids[…, k], :], with ids: i64[…, K], weight: f32[n, D]

    ``mode`` "mean" divides by the number of ids, "max" takes the largest per column. Ids equal to
    ``padding_idx`` do not count; a bag of none gives 0. ``per_sample_weights`` are for sums only.

    Bags of different lengths, torch's ``offsets``, are padded with ``padding_idx``, a row of the
    table, or are ``gw.unsorted_segment_sum(gw.nn.embedding(ids, weight), bag_of_id, n_bags)``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> table = g.constant([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]])
    >>> y = gw.nn.embedding_bag(g.constant([[1, 2], [2, 0]]), table, mode="mean", name="y")
    >>> g.output({}, y)["y"].tolist()
    [[2.0, 3.0], [1.5, 2.0]]
    """

    namespace = "nn"
    mode: str = attr("sum", doc="How rows become one.", choices=("sum", "mean", "max"))
    padding_idx: int | None = attr(None, doc="Id that does not count; None: all count.", least=0)

    def infer(
        self, ids: TensorSpec, weight: TensorSpec, per_sample_weights: TensorSpec | None = None
    ) -> TensorSpec:
        rows = Embedding().infer(ids, weight)
        if kind(weight.dtype) != "f":
            raise DTypeError(
                f"embedding_bag does not take {weight.dtype}", need="weight: f32[n, D]"
            )
        if not ids.rank:
            raise ShapeError("a bag has an axis of ids", need="ids: i64[…, K]")
        y = rows.with_shape((*ids.shape[:-1], rows.shape[-1]))
        if per_sample_weights is None:
            return y
        w = per_sample_weights
        if kind(w.dtype) != "f":
            raise DTypeError(
                f"embedding_bag does not take {w.dtype} as per_sample_weights",
                need="f32[…, K], one per id; torch's offsets of ragged bags are not here",
                hint="gw.unsorted_segment_sum(gw.nn.embedding(ids, weight), bag_of_id, n_bags)",
            )
        if shapes_differ(w.shape, ids.shape):
            raise ShapeError("per_sample_weights do not fit", need=f"one per id: {ids.shape}")
        if self.mode != "sum":
            raise GraphError(f"mode={self.mode!r} takes no weights", hint='mode="sum"')
        return y.with_dtype(promote(y.dtype, w.dtype))

    def expand(self, ids: Any, weight: Any, per_sample_weights: Any = None) -> Any:
        rows = Embedding()(ids, weight)
        if per_sample_weights is not None:
            rows = rows * ExpandDims(axis=-1)(per_sample_weights)
        counts = None
        if self.padding_idx is not None:
            counts = ExpandDims(axis=-1)(ids != self.padding_idx)
            rows = Where()(counts, rows, -np.inf if self.mode == "max" else 0.0)
        if self.mode == "max" and ids.shape[-1] != 0:
            y = rows.max(-2)
            return y if counts is None else Where()(counts.any(-2), y, 0.0)
        y = rows.sum(-2)
        if self.mode == "mean":
            n = SizeOf(axis=(-1,))(ids) if counts is None else counts.sum(-2)
            y = y / Maximum()(Cast(dtype=weight.dtype)(n), 1.0)
        return y

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return (WeightSite(1, "in,out", "embedding"),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        ids, weight = np.array([[0, 2, 2], [1, 3, 0]]), rng.standard_normal((4, 2))
        yield Sample((ids, weight, rng.standard_normal((2, 3))))
        yield Sample((ids, weight), {"mode": "mean", "padding_idx": 0})
        yield Sample((ids[:, :2], weight), {"mode": "max"})
        yield Sample((np.zeros((0, 2), np.int64), weight))
        for mode in ("mean", "max"):
            yield Sample((np.zeros((2, 0), np.int64), weight), {"mode": mode})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        ids, w = TensorSpec((2, 3), "int64"), TensorSpec((4, 2))
        yield ErrorSample((TensorSpec((), "int64"), w), {}, "an axis of ids")
        yield ErrorSample((ids, w, TensorSpec((2, 3))), {"mode": "max"}, "takes no weights")
        yield ErrorSample((ids, w, TensorSpec((3,))), {}, "do not fit")
        yield ErrorSample((ids, w, ids), {}, "does not take int64 as per_sample_weights")


class PerLayerEmbedding(Op):
    """Hidden states plus a layer's own embedding of the tokens (Gemma 3n).

    y = x + scale·weight[ids], with x: f32[…, D], weight: f32[n, D], ids: i64[…]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, table = g.constant([[1.0, 1.0]]), g.constant([[1.0, 2.0], [3.0, 4.0]])
    >>> y = gw.nn.per_layer_embedding(x, table, g.constant([1]), scale=2.0, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[7.0, 9.0]]
    """

    namespace = "nn"
    scale: float = attr(1.0, doc="Factor of the embedding.")

    def infer(self, x: TensorSpec, weight: TensorSpec, ids: TensorSpec) -> TensorSpec:
        rows = Embedding().infer(ids, weight)
        if shapes_differ(rows.shape, x.shape):
            raise ShapeError("ids and weight do not fit x", need=f"x: {rows}")
        joint = promote(x.dtype, weight.dtype)
        if kind(joint) != "f":
            raise DTypeError(f"{self.name} does not take {joint}", hint="gw.cast(x, 'float32')")
        return TensorSpec(x.shape, joint)

    def expand(self, x: Any, weight: Any, ids: Any) -> Any:
        rows = Embedding()(ids, weight)
        return x + (rows if self.scale == 1.0 else rows * self.scale)

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return (WeightSite(1, "in,out", "embedding"),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        w = rng.standard_normal((4, 3))
        yield Sample((rng.standard_normal((2, 2, 3)), w, np.array([[0, 3], [3, 1]])))
        yield Sample((rng.standard_normal(3), w, np.array(2)), {"scale": 0.5})
        yield Sample((np.zeros((0, 3)), w, np.zeros(0, np.int64)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        w, ids = TensorSpec((4, 3)), TensorSpec((2,), "int64")
        yield ErrorSample((TensorSpec((2, 2)), w, ids), {}, "do not fit x")
        yield ErrorSample((TensorSpec((2, 3)), w, TensorSpec((2,))), {}, "needs integer ids")
        whole = TensorSpec((2, 3), "int32")
        yield ErrorSample((whole, w.with_dtype("int32"), ids), {}, "does not take int32")


class VisionEmbeddingMerge(Op):
    """Image embeddings put where a prompt has image tokens, in order (LLaVA).

    y[b, t] = vision[b, k] where ids[b, t] = token, the k-th such place of the row, else text[b, t]

    With text: f32[B, T, D], vision: f32[B, N, D], ids: i64[B, T]. Places beyond the N-th keep
    their text; vision rows that no place takes have gradient 0.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> text, vision = g.constant([[[1.0], [2.0], [3.0]]]), g.constant([[[10.0], [20.0]]])
    >>> ids = g.constant([[9, 5, 9]])
    >>> y = gw.nn.vision_embedding_merge(text, vision, ids, token=9, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[10.0], [2.0], [20.0]]]
    """

    namespace = "nn"
    token: int = attr(doc="Id of the image token.")

    def infer(self, text: TensorSpec, vision: TensorSpec, ids: TensorSpec) -> TensorSpec:
        if text.rank != 3 or vision.rank != 3 or ids.rank != 2:
            raise ShapeError(
                "ranks do not fit", need="text: f32[B, T, D], vision: f32[B, N, D], ids: i64[B, T]"
            )
        if kind(ids.dtype) not in "iu":
            raise DTypeError(
                f"ids are token numbers, got {ids.dtype}", hint="gw.cast(ids, 'int64')"
            )
        pairs = (
            (text.shape[0], vision.shape[0]),
            (text.shape[2], vision.shape[2]),
            (text.shape[0], ids.shape[0]),
            (text.shape[1], ids.shape[1]),
        )
        if any(differ(a, b) for a, b in pairs) or vision.shape[1] == 0:
            raise ShapeError("text, vision and ids do not fit", need="equal B, T and D, and N >= 1")
        return TensorSpec(text.shape, promote(text.dtype, vision.dtype))

    def expand(self, text: Any, vision: Any, ids: Any) -> Any:
        image = ids == self.token
        place = Cumsum(axis=1, exclusive=True)(Cast(dtype="int64")(image))
        taken = image & (place < vision.shape[1])
        at = ExpandDims(axis=-1)(Where()(taken, place, 0))
        rows = TakeAlongAxis(axis=1)(vision, at)
        return Where()(ExpandDims(axis=-1)(taken), rows, text)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        ids = np.array([[9, 1, 9, 2], [9, 9, 9, 9]])
        yield Sample(
            (rng.standard_normal((2, 4, 2)), rng.standard_normal((2, 3, 2)), ids), {"token": 9}
        )
        yield Sample((rng.standard_normal((2, 4, 2)), np.ones((2, 1, 2)), ids), {"token": 7})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        text, vision = TensorSpec((2, 4, 3)), TensorSpec((2, 5, 3))
        ids = TensorSpec((2, 4), "int64")
        yield ErrorSample((text, vision, TensorSpec((2, 3), "int64")), {"token": 1}, "do not fit")
        yield ErrorSample((text, vision, TensorSpec((2, 4))), {"token": 1}, "token numbers")
        yield ErrorSample((text, TensorSpec((2, 3)), ids), {"token": 1}, "ranks do not fit")


class CenterAndSharpen(Op):
    """Teacher's probabilities of self-distillation, centred against collapse (Caron et al. 2021).

    y = softmax((x − center)/temperature) over ``axis``; center broadcasts to x, temperature is 0-d

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, c = g.constant([[1.0, 2.0]]), g.constant([1.0, 2.0])
    >>> g.output({}, gw.nn.center_and_sharpen(x, c, g.constant(0.04), name="y"))["y"].tolist()
    [[0.5, 0.5]]
    """

    namespace = "nn"
    axis: int = attr(-1, doc="Axis that sums to one.")

    def infer(self, x: TensorSpec, center: TensorSpec, temperature: TensorSpec) -> TensorSpec:
        joint = promote_all(x, center, temperature)
        if kind(joint) != "f":
            raise DTypeError(f"{self.name} does not take {joint}", hint="gw.cast(x, 'float32')")
        if temperature.rank:
            raise ShapeError("temperature must be a scalar", need="a 0-d tensor")
        if center.rank > x.rank or any(
            c != 1 and differ(c, d)
            for c, d in zip(reversed(center.shape), reversed(x.shape), strict=False)
        ):
            raise ShapeError("center does not fit", need=f"broadcastable to {x.shape}")
        normalize_axis(self.axis, x.rank)
        return TensorSpec(x.shape, joint)

    def expand(self, x: Any, center: Any, temperature: Any) -> Any:
        x, center, temperature = alike(x, center, temperature)
        return Softmax(axis=self.axis)((x - center) / temperature)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, c = rng.standard_normal((2, 3)), rng.standard_normal(3)
        yield Sample((x, c, np.array(0.5)))
        yield Sample((x, np.array(0.1), np.array(2.0)), {"axis": 0})
        yield Sample((np.zeros((0, 3)), c, np.array(1.0)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, c, t = TensorSpec((2, 3)), TensorSpec((3,)), TensorSpec(())
        yield ErrorSample((x, c, c), {}, "must be a scalar")
        yield ErrorSample((x, TensorSpec((2,)), t), {}, "center does not fit")


class Copy(_Unary):
    """The tensor in memory of its own, row-major.

    y = x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.copy(g.constant([1.0, 2.0])))["copy"].tolist()
    [1.0, 2.0]
    """

    namespace = "nn"
    is_method = False
    accepts = "buifc"
    dependence = AFFINE

    def forward(self, x: Any) -> Any:
        return np.array(x, order="C")

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (gs[0],)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        return iter(())
