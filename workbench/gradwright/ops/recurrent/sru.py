"""Simple recurrent units, whose products do not wait for the step before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import ErrorSample, Op, Sample
from ...spec import TensorSpec, differ
from ..arrays.recurrence import LinearScan
from ..core.activation import Sigmoid, Tanh
from ..core.movement import alike


def _check(x: TensorSpec, w: TensorSpec, b: TensorSpec | None, c: TensorSpec | None) -> None:
    """Raise ShapeError unless the weights fit the features, and c a step."""
    n = x.shape[-1]
    if w.rank != 2 or any(map(differ, w.shape, (n * 3, n))):
        raise ShapeError("w does not fit", need=f"[{n * 3}, {n}]", facts=[f"w: {w}"])
    if b is not None and (b.rank != 1 or differ(b.shape[0], n * 2)):
        raise ShapeError("b does not fit", need=f"[{n * 2}]", facts=[f"b: {b}"])
    if c is not None and (c.rank != 2 or any(map(differ, c.shape, x.shape[-2:]))):
        raise ShapeError("c does not fit", need=f"{x.shape[-2:]}", facts=[f"c: {c}"])


def _gates(x: Any, w: Any, b: Any) -> tuple[Any, Any, Any]:
    """Return the candidate and the gates f and r of all steps."""
    n = x.shape[-1]
    z = x @ w.T
    both = z[..., n:] if b is None else z[..., n:] + b
    both = Sigmoid()(both)
    return z[..., :n], both[..., :n], both[..., n:]


class SruCell(Op):
    """One step of simple recurrent units (Lei et al. 2018).

    u, f, r = x wᵀ, σ(x wᵀ + b), σ(x wᵀ + b), c' = f⊙c + (1 − f)⊙u, h = r⊙tanh(c') + (1 − r)⊙x

    x, c: f32[B, N], w: f32[3·N, N] with the blocks u, f, r, b: f32[2·N] -> h, c': f32[B, N]; raises
    ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> c, w = g.constant([[1.0]]), g.constant([[0.0]] * 3)
    >>> h, after = gw.rnn.sru_cell(c, c, w, name="cell")
    >>> g.output({}, after)[after.name].tolist()
    [[0.5]]
    """

    namespace = "rnn"

    def infer(
        self, x: TensorSpec, c: TensorSpec, w: TensorSpec, b: TensorSpec | None = None
    ) -> Any:
        if x.rank != 2:
            raise ShapeError("x is no batch of vectors", need="f32[B, N]")
        _check(x, w, b, c)
        return super().infer(x, c, w, b)

    def expand(self, x: Any, c: Any, w: Any, b: Any = None) -> Any:
        x, c, w, b = alike(x, c, w, b)
        u, f, r = _gates(x, w, b)
        c = f * c + (1.0 - f) * u
        return r * Tanh()(c) + (1.0 - r) * x, c

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, c, w, b = (rng.standard_normal(s) for s in ((2, 2), (2, 2), (6, 2), (4,)))
        yield Sample((x, c, w, b))
        yield Sample((x[:1], c[:1], w))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((2, 3)), TensorSpec((9, 3))
        yield ErrorSample((x, x, TensorSpec((6, 3))), {}, "w does not fit")
        yield ErrorSample((x, x, w, TensorSpec((9,))), {}, "b does not fit")
        yield ErrorSample((x, TensorSpec((3, 3)), w), {}, "c does not fit")


class Sru(Op):
    """Layer of simple recurrent units, where only a linear recurrence goes step by step.

    u, f, r = x wᵀ, σ(x wᵀ + b), σ(x wᵀ + b), c_t = f_t⊙c_{t-1} + (1 − f_t)⊙u_t,
    h_t = r_t⊙tanh(c_t) + (1 − r_t)⊙x_t (Lei et al. 2018)

    x: f32[T, B, N], w: f32[3·N, N] with the blocks u, f, r, b: f32[2·N], initial_c: f32[B, N]
    -> h, c: f32[T, B, N]; raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[0.0]], [[0.0]]]), g.constant([[0.0]] * 3)
    >>> h, c = gw.rnn.sru(x, w, None, g.constant([[4.0]]), name="sru")
    >>> g.output({}, c)[c.name].ravel().tolist()
    [2.0, 1.0]
    """

    namespace = "rnn"

    def infer(
        self,
        x: TensorSpec,
        w: TensorSpec,
        b: TensorSpec | None = None,
        initial_c: TensorSpec | None = None,
    ) -> Any:
        if x.rank != 3:
            raise ShapeError("x is no batch of sequences", need="f32[T, B, N]")
        _check(x, w, b, initial_c)
        return super().infer(x, w, b, initial_c)

    def expand(self, x: Any, w: Any, b: Any = None, initial_c: Any = None) -> Any:
        x, w, b, initial_c = alike(x, w, b, initial_c)
        u, f, r = _gates(x, w, b)
        c = LinearScan()(f, (1.0 - f) * u, *(() if initial_c is None else (initial_c,)))
        return r * Tanh()(c) + (1.0 - r) * x, c

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, w, b, c = (rng.standard_normal(s) for s in ((3, 2, 2), (6, 2), (4,), (2, 2)))
        yield Sample((x, w, b, c))
        yield Sample((x[:2, :1], w))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((9, 3))), {}, "no batch of sequences")
        yield ErrorSample((TensorSpec((4, 2, 3)), TensorSpec((9, 2))), {}, "w does not fit")
