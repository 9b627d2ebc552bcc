"""The plain recurrent layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...op import ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec
from ..core.choice import Clip
from ..core.movement import alike
from ..numerics.products import product
from ..numerics.summing import add_up
from .activations import activations
from .arrays import Array, Arrays, Cotangents, gates_of
from .layer import RecurrentLayer


class RnnCell(Op):
    """One step of a plain recurrent layer (Elman 1990).

    h' = f(x wᵀ + h rᵀ + b_w + b_r), x: f32[B, I], h: f32[B, H], w: f32[H, I], r: f32[H, H],
    b: f32[2·H]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> one = g.constant([[1.0]])
    >>> g.output({}, gw.rnn.rnn_cell(one, one, one, one, activation="relu", name="h"))["h"].item()
    2.0
    """

    namespace = "rnn"
    activation: str = attr("tanh", doc="Function by its ONNX name.")
    alpha: float | None = attr(None, doc="α of the function, if it has one.")
    beta: float | None = attr(None, doc="β of the function, if it has one.")
    clip: float | None = attr(None, doc="Largest size of what goes into the function.")

    def expand(self, x: Any, h: Any, w: Any, r: Any, b: Any = None) -> Any:
        given = ([] if v is None else [v] for v in (self.alpha, self.beta))
        [f] = activations([self.activation], *given)
        x, h, w, r, b = alike(x, h, w, r, b)
        return f.build(clipped(joined(x, h, w, r, b), self.clip))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        shapes = (2, 3), (2, 2), (2, 3), (2, 2), (4,)
        yield Sample(tuple(rng.standard_normal(s) for s in shapes))
        attrs = {"activation": "Elu", "alpha": 0.7, "clip": 0.9}
        yield Sample(tuple(rng.standard_normal(s) for s in shapes[:4]), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        shapes = (2, 4), (2, 2), (2, 3), (2, 2)
        yield ErrorSample(tuple(map(TensorSpec, shapes)), {}, "inner dimensions differ")


def joined(x: Any, h: Any, w: Any, r: Any, b: Any) -> Any:
    """Return x wᵀ + h rᵀ + b_w + b_r as graph."""
    z = x @ w.T + h @ r.T
    if b is None:
        return z
    n = w.shape[0]
    return z + b[:n] + b[n:]


def clipped(x: Any, size: float | None) -> Any:
    """Return x between −size and size; None leaves it as it is."""
    return x if size is None else Clip()(x, -size, size)


class Rnn(RecurrentLayer):
    """Recurrent layer of one direction or two (Elman 1990).

    h_t = f(x_t wᵀ + h_{t-1} rᵀ + b_w + b_r), with f tanh by default

    x: f32[T, B, I], w: f32[D, H, I], r: f32[D, H, H], b: f32[D, 2·H], lengths: i32[B],
    initial_h: f32[D, B, H] -> y: f32[T, D, B, H] and the last h: f32[D, B, H]; D is 2 for
    bidirectional. ``layout=1`` moves the batch to the front of x, y and h. Past the end of a
    sequence y is 0 and h stays. Raises ShapeError where these differ (ONNX RNN-22).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[1.0]], [[2.0]], [[3.0]]]), g.constant([[[1.0]]])
    >>> y, last = gw.rnn.rnn(x, w, w, activations=("relu",), name="rnn")
    >>> g.output({}, y)[y.name].ravel().tolist()
    [1.0, 3.0, 6.0]
    """

    returns = "y", "last_h"
    n_public = 2
    n_gates = 1
    functions = ("tanh",)
    onnx = OnnxRule("RNN", since=14)

    def sweep(self, layer: Arrays, d: int, y: Array, saved: Sequence[Array]) -> Sequence[Array]:
        [f] = self.chosen()[d]
        [z], r, h = layer.projected(d, saved[0]), layer.r[d].T.copy(), layer.initial[0][d]
        for t in self.orders(layer.n_steps)[d]:
            new = z[t]
            new += h @ r
            if self.clip is not None:
                np.clip(new, -self.clip, self.clip, out=new)
            f.apply(new)
            if layer.valid is None:
                h = y[t] = new
            else:
                h = np.where(layer.valid[t], new, h)
                new *= layer.valid[t]
                y[t] = new
        return (h,)

    def unsweep(
        self, layer: Arrays, d: int, y: Array, saved: Sequence[Array], g: Cotangents
    ) -> dict[str, Array]:
        [f], order, r = self.chosen()[d], self.orders(layer.n_steps)[d], layer.r[d]
        hidden = saved[0][0]
        before = layer.before(d, order, hidden, layer.initial[0][d])
        slopes = f.slope(hidden) * np.ones((), layer.dtype)
        if self.clip is not None:
            raw = layer.projected(d, np.empty_like(saved[0]))[0] + before @ r.T
            slopes *= np.abs(raw) <= self.clip
        if layer.valid is not None:
            slopes *= layer.valid
        dz = slopes * (g.y if g.saved[0] is None else g.y + g.saved[0][0])
        dh = g.last[0]
        for t in reversed(order):
            dz[t] += slopes[t] * dh
            passed = 0 if layer.valid is None else dh * ~layer.valid[t]
            dh = dz[t] @ r + passed
        return {**of_weights(layer, d, dz[None], dz[None], before), "initial_h": dh}

    def cell(
        self, x: Any, states: Sequence[Any], weights: Sequence[Any], more: Sequence[Any], d: int
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        w, r, b = weights
        h = self.chosen()[d][0].build(clipped(joined(x, states[0], w, r, b), self.clip))
        return [h], [h.expand_dims(0)]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield cls.sample(rng)
        yield cls.sample(rng, "b", "initial_h", direction="bidirectional", lengths=[2, 0])
        attrs = {"activations": ("Softsign",), "clip": 0.8, "direction": "reverse", "layout": 1}
        yield cls.sample(rng, "b", "initial_h", lengths=[3, 1], **attrs)


def of_weights(layer: Arrays, d: int, dz: Array, dr: Array, before: Array) -> dict[str, Array]:
    """Return cotangents of x, w, r, b from those of what went into the gates, [G, T, B, H].

    ``dr`` is what went into the products with r, where that is not ``dz``.
    """
    n, size = layer.n_steps * layer.n_batch, before.shape[2]
    x, h = layer.x.reshape(n, layer.x.shape[2]), before.reshape(n, size)
    flat, of_r = (v.reshape(len(v), n, size) for v in (dz, dr))
    dx = np.zeros_like(x)
    for part, w in zip(flat, gates_of(layer.w[d], len(flat)), strict=True):
        dx += part @ w
    return {
        "x": dx.reshape(layer.x.shape),
        "w": np.concatenate([product(part.T, x) for part in flat]),
        "r": np.concatenate([product(part.T, h) for part in of_r]),
        "b": np.concatenate([add_up(v, (1,)).ravel() for v in (flat, of_r)]),
    }
