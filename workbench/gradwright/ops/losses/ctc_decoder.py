"""Labels read off frame by frame: the likeliest path of connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ZERO, Autocast, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, differ, kind
from ..attention.weights import VisibleKeys
from ..core.choice import Where
from ..core.quantifiers import Argmax
from ..core.reduce import Max


class CtcGreedyDecoder(Op):
    """Labels along the likeliest path: repeats merged, blanks dropped (Graves et al. 2006).

    path_t = argmax_c logits[t, b, c] for t < lengths[b]; labels = path without repeats and blanks

    logits: f32[T, B, C], lengths: i64[B], all T if not given. Returns decoded: i64[B, T], filled
    with −1, their numbers: i64[B], and the score Σ_t max_c logits[t, b, c]: f32[B], through which
    gradients flow (torch's layout; TensorFlow's ``ctc_greedy_decoder`` returns the score negated).

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> logits = g.constant(np.eye(3)[[1, 1, 0, 1, 2]][:, None])
    >>> labels, n, score = gw.nn.ctc_greedy_decoder(logits, name="y")
    >>> g.output({}, labels)["y"].tolist()
    [[1, 1, 2, -1, -1]]
    """

    namespace = "nn"
    returns = "labels", "lengths", "score"
    drawing = "activation"
    autocast = Autocast.FREE
    blank: int = attr(0, doc="Class that stands for no label.")
    merge_repeated: bool = attr(True, doc="Whether repeats without a blank between are one label.")

    def infer(self, logits: TensorSpec, lengths: TensorSpec | None = None) -> tuple[Any, ...]:
        if kind(logits.dtype) != "f":
            raise DTypeError(f"ctc_greedy_decoder does not take {logits}", need="f32[T, B, C]")
        if logits.rank != 3:
            raise ShapeError("logits are not frames by samples by classes", need="f32[T, B, C]")
        t, b, c = logits.shape
        if isinstance(c, int) and not 0 <= self.blank < c:
            raise ShapeError(f"class {self.blank} is none of {c}", need="0 <= blank < C")
        check_lengths(lengths, b)
        labels = TensorSpec((b, t), "int64")
        return labels, TensorSpec((b,), "int64"), logits.with_shape((b,))

    def expand(self, logits: Any, lengths: Any = None) -> Any:
        given = () if lengths is None else (lengths,)
        collapse = CtcCollapse(blank=self.blank, merge_repeated=self.merge_repeated)
        labels, n = collapse(Argmax(axis=2)(logits), *given)
        best = Max(axis=2)(logits)
        if lengths is not None:
            exists = VisibleKeys()(best.mT[:, None, None], lengths)[:, 0, 0]
            best = Where()(exists.mT, best, 0.0)
        return labels, n, best.sum(0)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        logits = rng.permuted(np.tile(np.arange(4.0), (5, 2, 1)), axis=2)
        yield Sample((logits,))
        yield Sample((logits, np.array([4, 0])), {"blank": 3, "merge_repeated": False})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        logits = TensorSpec((4, 2, 3))
        yield ErrorSample((TensorSpec((4, 3)),), {}, "frames by samples by classes")
        yield ErrorSample((logits,), {"blank": 3}, "is none of 3")
        yield ErrorSample((logits, TensorSpec((3,), "int64")), {}, "lengths do not fit")


class CtcCollapse(Op):
    """A path of classes without repeats and blanks, moved to the front and filled with −1.

    labels[b] = path[: lengths[b], b] without blanks and repeats, path: i64[T, B]
    """

    namespace = "gradient"
    returns = "labels", "lengths"
    drawing = "math"
    autocast = Autocast.FREE
    blank: int = attr(0, doc="Class that stands for no label.")
    merge_repeated: bool = attr(True, doc="Whether repeats without a blank between are one label.")

    def infer(
        self, path: TensorSpec, lengths: TensorSpec | None = None
    ) -> tuple[TensorSpec, TensorSpec]:
        if path.rank != 2 or kind(path.dtype) not in "iu":
            raise DTypeError("a path is of class numbers", need="i64[T, B]")
        check_lengths(lengths, path.shape[1])
        b = path.shape[1]
        return TensorSpec((b, path.shape[0]), "int64"), TensorSpec((b,), "int64")

    def forward(self, path: Any, lengths: Any = None) -> Any:
        rows = path.T.astype(np.int64)
        kept = rows != self.blank
        if self.merge_repeated:
            kept[:, 1:] &= rows[:, 1:] != rows[:, :-1]
        if lengths is not None:
            kept &= np.arange(rows.shape[1]) < lengths[:, None]
        labels = np.full(rows.shape, -1, np.int64)
        sample, _ = np.nonzero(kept)
        labels[sample, (np.cumsum(kept, 1) - 1)[kept]] = rows[kept]
        return labels, kept.sum(1)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [ZERO] * len(xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.integers(0, 3, (6, 2)), np.array([6, 3])))
        yield Sample((np.zeros((0, 2), np.int64),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3, 2)),), {}, "of class numbers")


def check_lengths(lengths: TensorSpec | None, b: Any) -> None:
    """Refuse what is not one number of frames per sample."""
    if lengths is not None and (
        kind(lengths.dtype) not in "iu" or lengths.rank != 1 or differ(lengths.shape[0], b)
    ):
        raise ShapeError("lengths do not fit", need=f"i64[{b}]")
