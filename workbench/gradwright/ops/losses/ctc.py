"""Connectionist temporal classification (Graves et al. 2006): loss, gradient, second derivative.

With l′ the labels between blanks, 2S + 1 states, the probability of a labelling is a sum over paths
through states, which α gathers, in logarithms and float64:

    α[t, s] = x[t, l′ₛ] + log(exp α[t−1, s] + exp α[t−1, s−1] + [may skip] exp α[t−1, s−2])
    log p   = log(exp α[T−1, 2S] + exp α[T−1, 2S−1])

β, which gathers what leads on from a state, is α of states and times in reverse, so that both take
one loop over time on arrays of all examples and states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import ZERO, Autocast, Cotangent, ErrorSample, NotDifferentiable, Op, Sample, attr
from ...spec import Shape, TensorSpec, check_floats, differ, kind
from ..core.choice import Where
from ..core.comparison import IsFinite, LogicalOr
from ..core.like import OnesLike
from ..core.movement import Cast
from ..layers.nn import LogSoftmax, refuse_outside
from .loss import _Loss, check_floating

Array = np.ndarray[Any, Any]


class Lattice:
    """States and times of a batch, and the sums over paths through them."""

    def __init__(self, labels: Array, x: Array, sizes: Array, times: Array, blank: int) -> None:
        n, longest = labels.shape
        counted = np.arange(longest) < sizes[:, None]
        fits = ~counted | ((labels >= 0) & (labels < x.shape[2]) & (labels != blank))
        refuse_outside(labels, fits, "label", x.shape[2], f"blank={blank} is no label")
        self.states = np.full((n, 2 * longest + 1), blank, np.int64)
        self.states[:, 1::2] = np.where(counted, labels, blank)
        self.x, self.sizes, self.times = x, sizes, times
        at, t = np.arange(2 * longest + 1), np.arange(x.shape[1])[:, None]
        backwards = 2 * sizes[:, None] - at  # where each state stands in reverse
        self.inside = (t < times)[..., None] & (backwards >= 0)
        # State and time in reverse, for arrays of times, examples and states.
        self.reverse = (
            np.maximum(times - 1 - t, 0)[..., None],
            np.arange(n)[:, None],
            np.maximum(backwards, 0),
        )
        self.emitted = self.on_states(x)

    def on_states(self, x: Array) -> Array:
        """Return what the symbol of each state has at each time: f64[T, B, 2S + 1]."""
        found = np.take_along_axis(x, self.states[:, None, :], 2)
        return found.transpose(1, 0, 2).astype(np.float64)

    def log_probability(self) -> Array:
        """Return log p."""
        alpha, _ = _gathered(self.emitted, _skips(self.states), None)
        n = np.arange(len(self.sizes))
        last = np.full((2, len(n)), -np.inf)
        if len(alpha):
            ended = alpha[np.maximum(self.times - 1, 0), n]
            last[0] = ended[n, 2 * self.sizes]
            last[1] = np.where(self.sizes > 0, ended[n, np.maximum(2 * self.sizes - 1, 0)], -np.inf)
        nothing = np.where(self.sizes == 0, 0.0, -np.inf)  # heard: certain for no label
        found: Array = np.where(self.times > 0, np.logaddexp(*last), nothing)
        return found

    def shares(self, u: Array | None = None) -> tuple[Array, Array]:
        """Return p(state at a time | labels), and its slope where x moves along u."""
        emitted = np.concatenate([self.emitted, self.emitted[self.reverse]], 1)
        turned = np.take_along_axis(self.states, self.reverse[2], 1)
        skips = np.concatenate([_skips(self.states), _skips(turned)])
        moved = None if u is None else self.on_states(u)
        both = None if moved is None else np.concatenate([moved, moved[self.reverse]], 1)
        found, slopes = _gathered(emitted, skips, both)
        inside = self.inside & np.isfinite(self.emitted)
        share = self.joined(found) - np.where(inside, self.emitted, np.inf)
        share -= np.maximum(share.max(2, keepdims=True, initial=-np.inf), -1e300)
        np.exp(share, out=share)
        share /= np.maximum(share.sum(2, keepdims=True), 1)  # 0 where the labels do not fit
        if moved is None:
            return share, share
        slope = self.joined(slopes) - moved
        mean = (share * slope).sum(2, keepdims=True)  # at every time that of log p
        return share, share * (slope - mean)

    def joined(self, found: Array) -> Array:
        """Return the sum of what was gathered forwards and in reverse, each at its own place."""
        n = len(self.sizes)
        total: Array = found[:, :n] + found[:, n:][self.reverse]
        return total

    def spread(self, of_states: Array) -> Array:
        """Add what lies on states up on their symbols: f64[T, B, 2S + 1] to f64[B, T, C]."""
        n, n_times, n_classes = self.x.shape
        cell = np.arange(n)[:, None] * n_times + np.arange(n_times)[:, None, None]
        at = (cell * n_classes + self.states).reshape(-1)
        flat = np.bincount(at, of_states.reshape(-1), n * n_times * n_classes)
        return flat.reshape(n, n_times, n_classes)


def _skips(states: Array) -> Array:
    """Return 0 where a state may be reached from the one before the last, else −∞: f64[B, 2S + 1].

    Those are labels that differ from the label before them.
    """
    skips = np.full(states.shape, -np.inf)
    skips[:, 3::2] = np.where(states[:, 3::2] != states[:, 1:-2:2], 0.0, -np.inf)
    return skips


def _gathered(emitted: Array, skips: Array, moved: Array | None) -> tuple[Array, Array]:
    """Return α, and its slopes where ``emitted`` moves along ``moved``."""
    n_times, n, n_states = emitted.shape
    alpha = np.full((n_times, n, n_states + 2), -np.inf)  # two states before the first
    slope = np.zeros_like(alpha) if moved is not None else alpha
    ways, top = np.empty((3, n, n_states)), np.empty((n, n_states))
    if n_times:
        alpha[0, :, 2:4] = emitted[0, :, :2]
        if moved is not None:
            slope[0, :, 2:4] = moved[0, :, :2]
    for t in range(1, n_times):
        before = alpha[t - 1]
        for k in range(3):
            ways[k] = before[:, 2 - k : n_states + 2 - k]
        ways[2] += skips
        np.max(ways, 0, out=top)
        np.maximum(top, -1e300, out=top)  # −∞ − (−∞) is not a number
        ways -= top
        np.exp(ways, out=ways)
        total = ways.sum(0)
        if moved is not None:
            ways /= np.where(total > 0, total, 1.0)
            before = slope[t - 1]
            for k in range(3):
                ways[k] *= before[:, 2 - k : n_states + 2 - k]
            slope[t, :, 2:] = ways.sum(0) + moved[t]
        with np.errstate(divide="ignore"):
            np.log(total, out=total)
        total += top
        np.add(total, emitted[t], out=alpha[t, :, 2:])
    return alpha[..., 2:], slope[..., 2:]


class CtcOfLogs(Op):
    """Negative log probability of labellings, of log probabilities per time and symbol.

    l[b] = −log Σ over paths π with labels[b] of exp Σₜ x[b, t, πₜ] : f32[B]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = gw.log(g.constant([[[0.5, 0.5], [0.5, 0.5]]]))
    >>> y = CtcOfLogs()(g.constant([[1]]), x, g.constant([1]), g.constant([2]), name="y")
    >>> g.output({}, y)["y"].round(4).tolist()
    [0.28769999742507935]
    """

    namespace = "inner"  # of ctc, which is the public one
    drawing = "math"
    autocast = Autocast.FREE
    blank: int = attr(0, doc="Symbol that stands for no label.")

    def infer(
        self, labels: TensorSpec, x: TensorSpec, sizes: TensorSpec, times: TensorSpec
    ) -> TensorSpec:
        check_floating(self, x)
        for name, n in (("labels", labels), ("label_lengths", sizes), ("lengths", times)):
            if kind(n.dtype) not in "iu":
                raise DTypeError(f"{name} are whole numbers, got {n.dtype}", need="int64")
        if labels.rank != 2 or x.rank != 3 or differ(labels.shape[0], x.shape[0]):
            raise ShapeError("labels do not fit", need="i64[B, S] and f32[B, T, C]")
        for n in (sizes, times):
            if n.rank != 1 or differ(n.shape[0], x.shape[0]):
                raise ShapeError("lengths do not fit", need=f"one per example: {x.shape[0]}")
        n_symbols = x.shape[2]
        if isinstance(n_symbols, int) and not 0 <= self.blank < n_symbols:
            raise GraphError(f"blank={self.blank} is no symbol", need=f"0 <= blank < {n_symbols}")
        return TensorSpec(x.shape[:1], x.dtype)

    def lattice(self, labels: Any, x: Any, sizes: Any, times: Any) -> Lattice:
        """Return the lattice; refuse lengths that the arrays do not have."""
        for name, given, room in (
            ("label_lengths", sizes, labels.shape[1]),
            ("lengths", times, x.shape[1]),
        ):
            if given.size and not (given.min() >= 0 and given.max() <= room):
                wrong = given[(given < 0) | (given > room)][0]
                raise GraphError(f"{name}: {wrong} does not fit", need=f"0 to {room}")
        return Lattice(labels, x, sizes.astype(np.int64), times.astype(np.int64), self.blank)

    def forward(self, labels: Any, x: Any, sizes: Any, times: Any) -> Any:
        return -self.lattice(labels, x, sizes, times).log_probability().astype(x.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        labels, x, sizes, times = xs
        return ZERO, CtcGrad(blank=self.blank)(gs[0], labels, x, sizes, times), ZERO, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        labels, x = np.array([[1, 1], [2, 9]]), rng.standard_normal((2, 4, 3))
        yield Sample((labels, x, np.array([2, 1]), np.array([4, 3])))
        yield Sample((np.array([[0, 1]]), x[:1], np.array([2]), np.array([4])), {"blank": 2})
        yield Sample((labels[:, :0], x, np.array([0, 0]), np.array([4, 0])))
        yield Sample((labels[:0], x[:0], np.zeros(0, np.int64), np.zeros(0, np.int64)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        y, x, n = TensorSpec((2, 3), "int64"), TensorSpec((2, 5, 4)), TensorSpec((2,), "int64")
        yield ErrorSample((y, TensorSpec((3, 5, 4)), n, n), {}, "labels do not fit")
        yield ErrorSample((y, x, TensorSpec((3,), "int64"), n), {}, "lengths do not fit")
        yield ErrorSample((y, x, n, TensorSpec((2,))), {}, "whole numbers")
        yield ErrorSample((y, x, n, n), {"blank": 4}, "is no symbol")


class CtcGrad(CtcOfLogs):
    """Gradient of the loss: minus the probability of each symbol at each time, given the labels.

    y[b, t, c] = −g[b]·Σ over s with l′ₛ = c of p(state s at t | labels)
    """

    namespace = "gradient"

    def infer(  # type: ignore[override]
        self,
        g: TensorSpec,
        labels: TensorSpec,
        x: TensorSpec,
        sizes: TensorSpec,
        times: TensorSpec,
    ) -> TensorSpec:
        super().infer(labels, x, sizes, times)
        check_floats(self.name, g)
        return x.with_shape(x.shape)

    def forward(self, g: Any, labels: Any, x: Any, sizes: Any, times: Any) -> Any:  # type: ignore[override]
        lattice = self.lattice(labels, x, sizes, times)
        return (-g[:, None, None] * lattice.spread(lattice.shares()[0])).astype(x.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        u, (g, *rest) = gs[0], xs
        ones = g * 0 + 1
        return (
            lambda: (CtcGrad(blank=self.blank)(ones, *rest) * u).sum((1, 2)),
            ZERO,
            lambda: CtcCurvature(blank=self.blank)(u, g, *rest),
            ZERO,
            ZERO,
        )

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in CtcOfLogs.samples(rng):
            n = len(sample.inputs[0])
            if not n:
                continue
            # By x it is the loss's second derivative, which is checked with the loss.
            inputs = (rng.standard_normal(n), *sample.inputs)
            yield Sample(inputs, sample.attrs, differentiate=(0,))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        y, x, n = TensorSpec((2, 3), "int64"), TensorSpec((2, 5, 4)), TensorSpec((2,), "int64")
        g = TensorSpec((2,))
        yield ErrorSample((g, y, x, n, TensorSpec((3,), "int64")), {}, "lengths do not fit")


class CtcCurvature(CtcOfLogs):
    """Second derivative of the loss along a direction u.

    y = −g·d p(symbol c at t | labels)(x + ε·u)/dε at ε = 0, by slopes of α and β
    """

    namespace = "gradient"

    def infer(  # type: ignore[override]
        self,
        u: TensorSpec,
        g: TensorSpec,
        labels: TensorSpec,
        x: TensorSpec,
        sizes: TensorSpec,
        times: TensorSpec,
    ) -> TensorSpec:
        super().infer(labels, x, sizes, times)
        check_floats(self.name, u, g)
        return x.with_shape(x.shape)

    def forward(  # type: ignore[override]
        self, u: Any, g: Any, labels: Any, x: Any, sizes: Any, times: Any
    ) -> Any:
        lattice = self.lattice(labels, x, sizes, times)
        return (-g[:, None, None] * lattice.spread(lattice.shares(u)[1])).astype(x.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        reason = NotDifferentiable("ctc has gradients of orders 1 and 2 only")
        return reason, reason, ZERO, reason, ZERO, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in CtcOfLogs.samples(rng):
            labels, x, *lengths = sample.inputs
            u, g = rng.standard_normal(x.shape), rng.standard_normal(len(x))
            yield Sample((u, g, labels, x, *lengths), sample.attrs, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        y, x, n = TensorSpec((2, 3), "int64"), TensorSpec((2, 5, 4)), TensorSpec((2,), "int64")
        yield ErrorSample((x, TensorSpec((2,)), y, x, y, n), {}, "lengths do not fit")


def _lengths(x: Any) -> Any:
    """Return the number of times that each example of ``x`` has, all of them: i64[B]."""
    return Cast(dtype="int64")(OnesLike()(x)).max(2).sum(1)


class Ctc(_Loss):
    """Loss of label sequences that are not aligned to their inputs (Graves et al. 2006).

    torch takes log probabilities f32[T, B, C], and a mean with ``weights=1/label_lengths``.

    l = −log Σ over alignments of Πₜ softmax(predictions[t])[symbol], one per example: f32[B]

    Labels are i64[B, S], predictions logits f32[B, T, C], of which ``label_lengths`` and
    ``prediction_lengths``, i64[B], count; None: all. Labels have no blank among them; what lies
    beyond their length is not looked at. A label sequence that does not fit into its time has loss
    ∞, or 0 with ``zero_infinity``, and gradient 0. Gradients exist to order 2.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[0.0, 0.0], [0.0, 0.0]]])
    >>> round(float(g.output({}, gw.loss.ctc(g.constant([[1]]), x, name="l"))["l"]), 4)
    0.2877
    """

    blank: int = attr(0, doc="Symbol that stands for no label.")
    zero_infinity: bool = attr(False, doc="Whether what does not fit has loss 0 instead of ∞.")

    def infer(
        self,
        labels: TensorSpec,
        predictions: TensorSpec,
        weights: TensorSpec | None = None,
        label_lengths: TensorSpec | None = None,
        prediction_lengths: TensorSpec | None = None,
    ) -> TensorSpec:
        check_floating(self, predictions)
        some = TensorSpec(predictions.shape[:1], "int64")
        given = label_lengths or some, prediction_lengths or some
        CtcOfLogs(blank=self.blank).infer(labels, predictions, *given)
        return super().infer(labels, predictions, weights)

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Shape:
        return predictions.shape[:1]

    def expand(
        self,
        labels: Any,
        predictions: Any,
        weights: Any = None,
        label_lengths: Any = None,
        prediction_lengths: Any = None,
    ) -> Any:
        sizes = _lengths(labels[:, :, None]) if label_lengths is None else label_lengths
        times = _lengths(predictions) if prediction_lengths is None else prediction_lengths
        logs = LogSoftmax()(self.settled(predictions, weights, 2))
        each = CtcOfLogs(blank=self.blank)(labels, logs, sizes, times)
        if self.zero_infinity:
            each = Where()(IsFinite()(each), each, 0)
        elif weights is not None:
            each = Where()(LogicalOr()(weights != 0, IsFinite()(each)), each, 0)
        return self.reduced(each, weights)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        labels, x = np.array([[1, 1], [2, 0]]), rng.standard_normal((2, 4, 3))
        sizes, times = np.array([2, 1]), np.array([4, 3])
        yield Sample((labels, x, rng.uniform(0.5, 2, 2), sizes, times))
        yield Sample((labels - 1, x, None, sizes), {"reduction": "none", "blank": 2})
        yield Sample((labels[:, :1], x), {"reduction": "sum"})
        late = {"zero_infinity": True}
        yield Sample((labels, x, None, sizes, np.array([2, 3])), late)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        y, x = TensorSpec((2, 3), "int64"), TensorSpec((2, 5, 4))
        yield ErrorSample((y, x, TensorSpec((3,))), {}, "weights do not fit")
        yield ErrorSample((x, y), {}, "needs floating predictions")
        yield ErrorSample((y, x), {"blank": -1}, "is no symbol")
