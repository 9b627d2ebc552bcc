"""Choosing the next token: filters of logits, and draws from what they leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import ZERO, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, differ, kind
from ..core.choice import Where
from ..draws import philox
from . import picking  # noqa: F401 - functions that are more than the ops here

Array = np.ndarray[Any, Any]
_KEY = TensorSpec((2,), "uint64")


def probabilities(logits: Array) -> Array:
    """Return the softmax over the last axis in float64; −∞ has probability 0."""
    x = logits.astype(np.float64)
    top = x.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(x - np.where(np.isfinite(top), top, 0.0))
    return np.asarray(p / np.maximum(p.sum(-1, keepdims=True), np.finfo(np.float64).tiny))


def among_top_k(p: Array, k: int) -> Array:
    """Return where the k largest stand; equal ones at the border all count."""
    k = min(k, p.shape[-1])
    border = np.partition(p, p.shape[-1] - k, -1)[..., p.shape[-1] - k, None]
    return np.asarray(p >= border)


def among_top_p(p: Array, mass: float) -> Array:
    """Return where the fewest stand that together have the mass, the largest first."""
    order = np.argsort(-p, -1, kind="stable")
    ranked = np.take_along_axis(p, order, -1)
    kept = np.cumsum(ranked, -1) - ranked < mass * (1 - 1e-12)  # what stands before lacks it
    kept[..., 0] = True
    seen = np.empty(p.shape, bool)
    np.put_along_axis(seen, order, kept, -1)
    return seen


def check_logits(op: Op, logits: TensorSpec) -> None:
    """Refuse logits that name no token."""
    if kind(logits.dtype) != "f":
        raise DTypeError(f"{op.name} does not take {logits}", need="f32[..., V]")
    if not logits.rank or not differ(logits.shape[-1], 0):
        raise ShapeError(f"{op.name} needs tokens to choose from", need="f32[..., V], V >= 1")


def check_key(op: Op, rng: TensorSpec) -> None:
    """Refuse what is no random key."""
    if rng.dtype != _KEY.dtype or rng.rank != 1 or differ(rng.shape[0], 2):
        raise DTypeError(f"{op.name} needs a random key, got {rng}", need="g.rng: u64[2]")


def check_share(name: str, value: float) -> None:
    """Refuse what is no probability."""
    if not 0 <= value <= 1:
        raise GraphError(f"{name}={value} is no probability", need=f"0 <= {name} <= 1")


class _Sampler(Op):
    """A token drawn by what the filter leaves of the probabilities."""

    namespace = "nn"
    temperature: float = attr(1.0, doc="Divides the logits; 0 always takes the largest.")
    stream: int = attr(0, doc="Random stream, given by the graph.")

    def check(self) -> None:
        """Refuse attributes that leave nothing."""

    def kept(self, p: Array) -> Array:
        """Return which tokens may be drawn."""
        raise NotImplementedError

    def infer(self, rng: TensorSpec, logits: TensorSpec) -> TensorSpec:
        check_key(self, rng)
        check_logits(self, logits)
        if not self.temperature >= 0:
            raise GraphError(f"temperature={self.temperature} is negative", need="0 or above")
        self.check()
        return TensorSpec(logits.shape[:-1], "int64")

    def forward(self, rng: Any, logits: Any) -> Any:
        x = logits.astype(np.float64)
        top = x.max(-1, keepdims=True)
        if not np.isfinite(top).all():
            raise GraphError(
                f"the largest logit of a row is {top[~np.isfinite(top)][0]}: no token to draw",
                need="no NaN, no ∞, and in each row something above −∞",
            )
        if self.temperature == 0:
            return np.argmax(x, -1)
        p = probabilities((x - top) / self.temperature)
        p = np.where(self.kept(p), p, 0.0)
        total = np.cumsum(p, -1)
        lead = total.shape[:-1]
        u = philox.uniform(rng, self.stream, int(np.prod(lead)), np.dtype("float64"))
        # The first token whose total exceeds u; one of probability 0 never does before another.
        below = total <= u.reshape(lead)[..., None] * total[..., -1:]
        return np.minimum(below.sum(-1), logits.shape[-1] - 1)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        key = np.array([7, 3], np.uint64)
        # Near-ties would fall either way in half precision; these are far apart.
        logits = rng.permuted(np.tile(np.arange(5) * 4.0, (3, 1)), axis=1)
        yield Sample((key, logits), {"temperature": 0.5, "stream": 1})
        yield Sample((key, logits[0]), {"temperature": 0.0})
        yield Sample((key, logits[:0]))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        logits = TensorSpec((2, 5))
        yield ErrorSample((TensorSpec((2,)), logits), {}, "needs a random key")
        yield ErrorSample((_KEY, TensorSpec((2, 0))), {}, "tokens to choose from")
        yield ErrorSample((_KEY, TensorSpec((2,), "int32")), {}, "does not take")
        yield ErrorSample((_KEY, logits), {"temperature": -1.0}, "is negative")


class TokenSample(_Sampler):
    """A token drawn from logits, after the usual filters in their usual order.

    y ~ softmax(logits/temperature) among the ``top_k`` likeliest, the fewest of them that have the
    mass ``top_p``, and those at least ``min_p`` times as likely as the likeliest

    logits: f32[…, V] gives i64[…]. Raises GraphError when run on a row of −∞, or one with NaN.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.token_sample(g.constant([[0.0, 5.0, 1.0]]), top_k=1, name="y")
    >>> g.output({}, y)["y"].tolist()
    [1]
    """

    top_k: int = attr(0, doc="How many of the likeliest may be drawn; 0 is all.")
    top_p: float = attr(1.0, doc="Mass of the likeliest that may be drawn.")
    min_p: float = attr(0.0, doc="Least share of the largest probability that may be drawn.")

    def check(self) -> None:
        if self.top_k < 0:
            raise GraphError(f"top_k={self.top_k} is negative", need="0 for all, or above")
        check_share("top_p", self.top_p)
        check_share("min_p", self.min_p)

    def kept(self, p: Array) -> Array:
        seen = among_top_k(p, self.top_k) if self.top_k else np.ones(p.shape, bool)
        if self.top_p < 1:
            left = np.where(seen, p, 0.0)
            seen &= among_top_p(left / left.sum(-1, keepdims=True), self.top_p)
        if self.min_p > 0:
            seen &= p >= self.min_p * p.max(-1, keepdims=True)
        return seen

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        key, logits = np.array([7, 3], np.uint64), np.arange(5)[::-1] * 4.0
        yield Sample((key, logits), {"top_k": 3, "top_p": 0.999, "min_p": 1e-3})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((_KEY, TensorSpec((5,))), {"top_p": 1.5}, "is no probability")
        yield ErrorSample((_KEY, TensorSpec((5,))), {"top_k": -1}, "is negative")


class TopKSample(_Sampler):
    """A token drawn from the k likeliest (Fan et al. 2018).

    y ~ softmax(logits/temperature) among the k largest logits; equal ones at the border all count

    logits: f32[…, V] gives i64[…].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.top_k_sample(g.constant([[0.0, 5.0, 1.0]]), k=1, name="y")
    >>> g.output({}, y)["y"].tolist()
    [1]
    """

    k: int = attr(50, doc="How many of the likeliest may be drawn.")

    def check(self) -> None:
        if self.k < 1:
            raise GraphError(f"the {self.k} likeliest are nothing", need="k >= 1")

    def kept(self, p: Array) -> Array:
        return among_top_k(p, self.k)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((_KEY, TensorSpec((5,))), {"k": 0}, "are nothing")


class TopPSample(_Sampler):
    """A token drawn from the likeliest that together have the mass p (Holtzman et al. 2020).

    y ~ softmax(logits/temperature) among the fewest tokens, likeliest first, with Σ probability ≥ p

    logits: f32[…, V] gives i64[…].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.top_p_sample(g.constant([[0.0, 5.0, 1.0]]), p=0.5, name="y")
    >>> g.output({}, y)["y"].tolist()
    [1]
    """

    p: float = attr(0.9, doc="Mass of the likeliest that may be drawn.")

    def check(self) -> None:
        check_share("p", self.p)

    def kept(self, p: Array) -> Array:
        return among_top_p(p, self.p)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((_KEY, TensorSpec((5,))), {"p": -0.5}, "is no probability")


class TypicalPFilter(Op):
    """Logits of the tokens whose surprise is nearest to the expected one; −∞ elsewhere.

    Kept are, by rising |−ln pᵢ − H(p)|, tokens up to the one with which Σ p reaches the mass
    (Meister et al. 2023, locally typical sampling)

    logits: f32[…, V]. The gradient flows through what is kept.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.typical_p_filter(g.constant([0.0, 0.0, -9.0]), p=0.9, name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.0, 0.0, -inf]
    """

    namespace = "nn"
    p: float = attr(0.95, doc="Mass that is kept.")

    def infer(self, logits: TensorSpec) -> TensorSpec:
        check_logits(self, logits)
        check_share("p", self.p)
        return logits.with_shape(logits.shape)

    def forward(self, logits: Any) -> Any:
        p = probabilities(logits)
        surprise = -np.log(np.where(p > 0, p, 1.0))
        away = np.abs(surprise - (p * surprise).sum(-1, keepdims=True))
        away = np.where(p > 0, away, np.inf)
        order = np.argsort(away, -1, kind="stable")
        total = np.cumsum(np.take_along_axis(p, order, -1), -1)
        last = np.minimum((total < self.p).sum(-1, keepdims=True), p.shape[-1] - 1)
        border = np.take_along_axis(away, np.take_along_axis(order, last, -1), -1)
        return np.where(away <= border, logits, logits.dtype.type(-np.inf))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (Where()(ys[0] > -np.inf, gs[0], 0.0),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(
            (np.array([[3.0, 1.0, -2.0, 0.0], [0.0, 4.0, 1.0, -1.0]]),), {"p": 0.6}, smooth=False
        )
        yield Sample((np.zeros((0, 3)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {"p": 2.0}, "is no probability")
        yield ErrorSample((TensorSpec((3,), "int64"),), {}, "does not take")


class XtcFilter(Op):
    """Logits without the likeliest tokens, in some draws: of those above a threshold one is left.

    With the given probability, for each row: all tokens with softmax(logits) ≥ threshold become −∞
    but the least likely of them; a row with fewer than two such stays as it is ("exclude top
    choices", 2024)

    logits: f32[…, V]. The gradient flows through what is kept.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.xtc_filter(g.constant([3.0, 2.0, -9.0]), probability=1.0, name="y")
    >>> g.output({}, y)["y"].tolist()
    [-inf, 2.0, -9.0]
    """

    namespace = "nn"
    threshold: float = attr(0.1, doc="Probability from which a token is likely.")
    probability: float = attr(0.5, doc="How often rows are filtered at all.")
    stream: int = attr(0, doc="Random stream, given by the graph.")

    def infer(self, rng: TensorSpec, logits: TensorSpec) -> TensorSpec:
        check_key(self, rng)
        check_logits(self, logits)
        check_share("threshold", self.threshold)
        check_share("probability", self.probability)
        return logits.with_shape(logits.shape)

    def forward(self, rng: Any, logits: Any) -> Any:
        p = probabilities(logits)
        likely = p >= self.threshold
        # The last of the least likely stays, so that one of several equal ones does.
        least = np.where(likely, p, np.inf)
        left = p.shape[-1] - 1 - np.argmin(least[..., ::-1], -1)
        lead = p.shape[:-1]
        drawn = philox.bernoulli(rng, self.stream, int(np.prod(lead)), self.probability)
        struck = likely & drawn.reshape(lead)[..., None]
        struck &= np.arange(p.shape[-1]) != left[..., None]
        return np.where(struck, logits.dtype.type(-np.inf), logits)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, Where()(ys[0] > -np.inf, gs[0], 0.0)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        key = np.array([7, 3], np.uint64)
        logits = np.array([[3.0, 2.0, 1.0, -4.0], [5.0, -4.0, -3.0, -2.0]])
        yield Sample((key, logits), {"probability": 1.0, "threshold": 0.05}, smooth=False)
        yield Sample((key, logits[0]), {"probability": 0.0})
        yield Sample((key, logits[:0]))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        logits = TensorSpec((3,))
        yield ErrorSample((logits, logits), {}, "needs a random key")
        yield ErrorSample((_KEY, logits), {"threshold": 2.0}, "is no probability")
