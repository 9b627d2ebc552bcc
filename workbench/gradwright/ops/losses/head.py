"""Log-probabilities of tokens at the head of a language model, without its logits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError, ShapeError
from ...op import (
    LINEAR,
    OPAQUE,
    ZERO,
    Autocast,
    Cotangent,
    Dependence,
    ErrorSample,
    Op,
    Sample,
    attr,
    multiplied,
    seams,
)
from ...spec import TensorSpec, check_floats, differ, kind, shapes_differ
from ..core.activation import Tanh
from ..core.choice import Where
from ..core.exponential import Exp, Log
from ..core.joining import filled
from ..core.like import ZerosLike
from ..core.movement import Cast, ExpandDims
from ..core.quantifiers import Argmax
from ..core.scatter import TakeAlongAxis
from ..core.special import widened
from ..layers.nn import LogSoftmax
from .labels import class_numbers
from .passes import Asked, Passes

Array = np.ndarray[Any, Any]
LOGITS = 1 << 22
"""Logits held at once, at the most: 16 MB in float32, 27 rows of 152k words, 131 of 32k."""
CACHED = 1 << 20
"""Logits that are looked at together, 4 MB in float32: half as many take a twentieth longer."""
FEWEST = 128
"""Rows of a run where memory allows: products of fewer read the weight more often than need be."""


class _OfHead(Op):
    """What forward and backward share: settings, and the logits of a run of rows."""

    temperature: float = attr(1.0, doc="What logits are divided by.")
    softcap: float | None = attr(None, doc="c of c·tanh(logits/c), before the temperature.")
    ignore_index: int = attr(
        -100, doc="Id of positions that do not count: all their results are 0."
    )

    def check(self, hidden: TensorSpec, weight: TensorSpec, ids: TensorSpec, bias: Any) -> None:
        check_floats(self.name, hidden, weight, *(() if bias is None else (bias,)))
        if self.temperature <= 0 or (self.softcap is not None and self.softcap <= 0):
            raise GraphError(
                f"temperature={self.temperature}, softcap={self.softcap} make no logits",
                need="numbers above 0",
            )
        if kind(ids.dtype) not in "iu":
            raise ShapeError(f"ids are token numbers, got {ids.dtype}", need="i64[…]")
        if weight.rank != 2 or not hidden.rank or differ(hidden.shape[-1], weight.shape[1]):
            raise ShapeError(
                "the head does not fit the hidden states",
                need="hidden f32[…, D], weight f32[V, D]",
                facts=[f"got {hidden} and {weight}"],
            )
        if shapes_differ(ids.shape, hidden.shape[:-1]):
            raise ShapeError(
                f"one id per hidden state: got {ids} for {hidden}", need=str(hidden.shape[:-1])
            )
        if bias is not None and shapes_differ(bias.shape, weight.shape[:1]):
            raise ShapeError(f"the bias is {bias}", need=f"f32[{weight.shape[0]}]")

    def runs(self, kept: Array, n_words: int) -> list[Array]:
        """Return the rows that count, as many at a time as `CACHED`, `FEWEST`, `LOGITS` allow."""
        rows, n_words = np.flatnonzero(kept), max(n_words, 1)
        size = max(min(max(CACHED // n_words, FEWEST), LOGITS // n_words), 1)
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def scores(
        self, hidden: Array, weight: Array, bias: Array | None, room: Array
    ) -> tuple[Array, Any]:
        """Return a run's logits, and their slope in what stands before cap and temperature."""
        x = np.matmul(hidden, weight.T, out=room[: len(hidden)])
        if bias is not None:
            x += bias
        slope: Any = 1.0
        if self.softcap is not None:
            x /= self.softcap
            np.tanh(x, out=x)
            slope = 1 - x * x
            x *= self.softcap
        if self.temperature != 1:
            x /= self.temperature
            slope = slope / self.temperature
        return x, slope

    def whole(self, hidden: Any, weight: Any, ids: Any, bias: Any = None) -> tuple[Any, ...]:
        """Return all results by way of whole logits, as a graph."""
        x = hidden @ weight.mT if bias is None else hidden @ weight.mT + bias
        if self.softcap is not None:
            x = Tanh()(x / self.softcap) * self.softcap
        x = x / self.temperature
        kept = ids != self.ignore_index
        label = Where()(kept, ids, ZerosLike()(ids))
        log_p = LogSoftmax()(x)
        p = Exp()(log_p)
        each = (
            TakeAlongAxis(axis=-1)(log_p, ExpandDims(axis=-1)(label)).sum(-1),
            -(p * log_p).sum(-1),
            Log()((p * p).sum(-1)),
            x.mean(-1),
        )
        return *(Where()(kept, y, 0) for y in each), kept & (Argmax(axis=-1)(x) == label)


class HeadLogProbs(_OfHead):
    """Log-probabilities of given tokens, and what else logits say, a few rows at a time.

    x = softcap·tanh((hidden @ weightᵀ + bias)/softcap)/temperature,  log p = log softmax(x):
    log_probs = log p[id], entropy = −Σ p·log p, log_sum_squares = log Σ p², mean_logit = mean x,
    is_top = [id = argmax x], all of the shape of ids

    hidden: f32[…, D], weight: f32[V, D] as embeddings are, bias: f32[V], ids: i64[…]. Logits f32[…,
    V] are never held: backward computes those of each run of rows again. A gradient of order 2
    holds them. Ids are not shifted here: hidden state t is asked about id t.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> h, w = g.constant([[1.0], [1.0]]), g.constant([[0.0], [0.0]])
    >>> lp, entropy, *_ = gw.nn.head_log_probs(h, w, [1, -100])
    >>> for x in g.output({}, lp, entropy).values():
    ...     print(x.round(4))
    [-0.6931  0.    ]
    [0.6931 0.    ]
    """

    namespace = "nn"
    drawing = "linear"
    autocast = Autocast.FREE
    returns = "log_probs", "entropy", "log_sum_squares", "mean_logit", "is_top"
    dependence = Dependence("rows", -1), OPAQUE, OPAQUE, OPAQUE

    def infer(
        self,
        hidden: TensorSpec,
        weight: TensorSpec,
        ids: TensorSpec,
        bias: TensorSpec | None = None,
    ) -> tuple[TensorSpec, ...]:
        self.check(hidden, weight, ids, bias)
        wide = "float64" if np.float64 in (hidden.dtype, weight.dtype) else "float32"
        return (*[ids.with_dtype(wide)] * 4, ids.with_dtype("bool"))

    def forward(self, hidden: Any, weight: Any, ids: Any, bias: Any = None) -> Any:
        return self.read(Passes(), hidden, weight, ids, bias)

    def read(self, passes: Passes, hidden: Any, weight: Any, ids: Any, bias: Any = None) -> Any:
        """Return the results, for which runs of logits are read in such passes."""
        index, kept = class_numbers(ids, len(weight), self.ignore_index)
        h, w = widened(hidden).reshape(-1, hidden.shape[-1]), widened(weight)
        label, top = index.reshape(-1), np.zeros(ids.size, bool)
        found = np.zeros((4, ids.size), np.result_type(h, w))
        runs = self.runs(kept, len(weight))
        room = passes.room((max(map(len, runs), default=0), len(w)), found.dtype)
        for run in runs:
            x, _ = self.scores(h[run], w, bias, room)
            *found[:, run], top[run] = passes.told(x, label[run])
        return tuple(y.reshape(ids.shape) for y in (*found, top))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        made = HeadLogProbsGrad(**self.attributes())(*filled(gs[:4], ys[:4]), *xs)
        return made[0], made[1], ZERO, *(made[2:] or [ZERO] * len(xs[3:]))  # bias=None

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return multiplied(outs[0], ins[1].shape[0] * ins[1].shape[1])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        h, w, b = (rng.standard_normal(s) for s in ((2, 3, 2), (5, 2), (5,)))
        ids = np.array([[4, -100, 0], [1, 2, 4]])
        yield Sample((h, w, ids))
        yield Sample((h, w, ids, b), {"temperature": 0.7, "softcap": 1.5})
        yield Sample((h[0], w, np.array([-1, 0, 3]), b), {"ignore_index": -1})
        yield Sample((h[:, :0], w, ids[:, :0], None))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        h, w, y = TensorSpec((3, 2)), TensorSpec((5, 2)), TensorSpec((3,), "int64")
        yield ErrorSample((h, TensorSpec((2, 5)), y), {}, "does not fit the hidden states")
        yield ErrorSample((h, w, TensorSpec((2,), "int64")), {}, "one id per hidden state")
        yield ErrorSample((h, w, TensorSpec((3,))), {}, "ids are token numbers")
        yield ErrorSample((h, w, y, TensorSpec((2,))), {}, "the bias is")
        yield ErrorSample((h, w, y), {"temperature": 0.0}, "make no logits")


class HeadLogProbsGrad(_OfHead):
    """Cotangents of hidden states, head and bias, a few rows of logits at a time.

    dx = a·([j = id] − p) − b·p·(log p + entropy) + 2c·(softmax(2x) − p) + d/V,  dhidden = dx @
    weight, dweight = dxᵀ @ hidden, for the cotangents a, b, c, d of the four floating results
    """

    namespace = "gradient"
    drawing = "math"
    autocast = Autocast.FREE
    returns = "dhidden", "dweight", "*dbias"
    dependence = LINEAR, LINEAR, LINEAR, LINEAR, OPAQUE, OPAQUE, OPAQUE, OPAQUE

    def infer(
        self,
        a: TensorSpec,
        b: TensorSpec,
        c: TensorSpec,
        d: TensorSpec,
        hidden: TensorSpec,
        weight: TensorSpec,
        ids: TensorSpec,
        bias: TensorSpec | None = None,
    ) -> tuple[TensorSpec, ...]:
        self.check(hidden, weight, ids, bias)
        check_floats(self.name, a, b, c, d)
        for given in (a, b, c, d):
            if shapes_differ(given.shape, ids.shape):
                raise ShapeError("a cotangent does not fit the ids", need=str(ids.shape))
        return tuple(x.with_shape(x.shape) for x in (hidden, weight, bias) if x is not None)

    def forward(self, *xs: Any) -> Any:
        return self.read(Passes(), *xs)

    def read(
        self, passes: Passes, a: Any, b: Any, c: Any, d: Any, hidden: Any, weight: Any, ids: Any,
        bias: Any = None,
    ) -> Any:  # fmt: skip
        """Return the cotangents, for which runs of logits are read in such passes."""
        index, kept = class_numbers(ids, len(weight), self.ignore_index)
        h, w = widened(hidden).reshape(-1, hidden.shape[-1]), widened(weight)
        asked = [widened(g).reshape(-1) for g in (a, b, c, d)]
        wide = np.result_type(h, w, asked[0])
        label, dh, dw = index.reshape(-1), np.zeros(h.shape, wide), np.zeros(w.shape, wide)
        db = np.zeros(len(w), wide)
        runs = self.runs(kept, len(weight))
        room = passes.room((max(map(len, runs), default=0), len(w)), np.result_type(h, w))
        for run in runs:
            x, slope = self.scores(h[run], w, bias, room)
            of_run = Asked(*(g[run] for g in asked))
            number = 1.0 if np.ndim(slope) else slope
            dx = passes.slopes(x, label[run], of_run, number)
            if np.ndim(slope):
                dx *= slope
            dh[run] = dx @ w
            dw += dx.T @ h[run]
            if bias is not None:
                db += dx.sum(0)
        found = [dh.reshape(hidden.shape).astype(hidden.dtype), dw.astype(weight.dtype)]
        return (*found, *(() if bias is None else (db.astype(bias.dtype),)))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        u, v, *t = filled(gs, ys)
        made = HeadLogProbsGradGrad(**self.attributes())(u, v, *xs, *t)
        return *made[:6], ZERO, *(made[6:] or [ZERO] * len(xs[7:]))

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return multiplied(ins[0], 3 * ins[5].shape[0] * ins[5].shape[1])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in HeadLogProbs.samples(rng):
            gs = rng.standard_normal((4, *sample.inputs[2].shape))
            yield Sample((*gs, *sample.inputs), sample.attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        h, w, y = TensorSpec((3, 2)), TensorSpec((5, 2)), TensorSpec((3,), "int64")
        yield ErrorSample((*[TensorSpec((2,))] * 4, h, w, y), {}, "does not fit the ids")


class HeadLogProbsGradGrad(_OfHead):
    """Cotangents of what the gradient of a head read, by whole logits: for gradients of order 2.

    u·dhidden + v·dweight + t·dbias, derived by a, b, c, d, hidden, weight and bias
    """

    namespace = "gradient"
    drawing = "math"
    autocast = Autocast.FREE
    returns = "da", "db", "dc", "dd", "dhidden", "dweight", "*dbias"

    def infer(
        self,
        u: TensorSpec,
        v: TensorSpec,
        a: TensorSpec,
        b: TensorSpec,
        c: TensorSpec,
        d: TensorSpec,
        hidden: TensorSpec,
        weight: TensorSpec,
        ids: TensorSpec,
        bias: TensorSpec | None = None,
        t: TensorSpec | None = None,
    ) -> tuple[TensorSpec, ...]:
        slopes = HeadLogProbsGrad(**self.attributes())
        need = slopes.infer(a, b, c, d, hidden, weight, ids, bias)
        for given, like in zip((u, v, t), need, strict=False):
            if given is None:
                continue
            check_floats(self.name, given)
            if shapes_differ(given.shape, like.shape):
                raise ShapeError("a cotangent does not fit the gradient", need=str(like))
        rest = () if bias is None else (bias,)
        return tuple(x.with_shape(x.shape) for x in (a, b, c, d, hidden, weight, *rest))

    def expand(
        self,
        u: Any,
        v: Any,
        a: Any,
        b: Any,
        c: Any,
        d: Any,
        hidden: Any,
        weight: Any,
        ids: Any,
        bias: Any = None,
        t: Any = None,
    ) -> Any:
        xs = [hidden, weight] if bias is None else [hidden, weight, bias]
        ys = self.whole(hidden, weight, ids, bias)[:4]
        along = [u, v] if bias is None else [u, v, ZerosLike()(bias) if t is None else t]
        value = sum((g * y).sum() for g, y in zip((a, b, c, d), ys, strict=True))
        slopes = seams.gradients([value], xs, unreachable="zero")
        along = [Cast(dtype=y.dtype)(g) for g, y in zip(along, slopes, strict=True)]
        return tuple(seams.gradients(slopes, [a, b, c, d, *xs], along, unreachable="zero"))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in list(HeadLogProbsGrad.samples(rng))[:2]:
            _, _, _, _, h, w, _, *bias = sample.inputs
            u, v, *t = (rng.standard_normal(x.shape) for x in (h, w, *bias))
            yield Sample((u, v, *sample.inputs, *t), sample.attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        h, w, y, g = (
            TensorSpec((3, 2)),
            TensorSpec((5, 2)),
            TensorSpec((3,), "int64"),
            TensorSpec((3,)),
        )
        yield ErrorSample((w, w, g, g, g, g, h, w, y), {}, "does not fit the gradient")
