"""State-space models: Mamba's selective scan, and Mamba-2's in chunks of matrix products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import Autocast, ErrorSample, Op, Sample, attr
from ...spec import AnyDim, Dim, TensorSpec, kind, shapes_differ
from ..arrays.recurrence import LinearScan, shifted
from ..core.activation import Silu, Softplus
from ..core.choice import Where
from ..core.creation import Tril
from ..core.exponential import Exp
from ..core.joining import Concat
from ..core.like import OnesLike, ZerosLike
from ..core.reduce import Cumsum
from .halves import narrowed, wide


def check(op: Op, known: Sequence[tuple[str, TensorSpec | None, tuple[AnyDim, ...]]]) -> None:
    """Raise unless every tensor that is given is floating and of its shape."""
    for name, spec, shape in known:
        if spec is None:
            continue
        if kind(spec.dtype) != "f":
            raise DTypeError(f"{op.name} does not take {spec.dtype}", hint="gw.cast(x, 'float32')")
        if shapes_differ(spec.shape, shape):
            raise ShapeError(f"{name} does not fit", need=f"{list(shape)}", facts=[f"got {spec}"])


class SelectiveScan(Op):
    """State-space model whose steps depend on the input (Gu and Dao 2023): Mamba's core.

    Δ = delta + delta_bias, through softplus with ``delta_softplus``;
    h_t = exp(Δ_t·A)⊙h_{t-1} + Δ_t·x_t·B_t, y_t = h_t·C_t + D⊙x_t, times silu(z) if z is given

    x, delta, z: f32[B, T, D], A: f32[D, N] (below 0), B, C: f32[B, T, N], D, delta_bias: f32[D],
    initial: f32[B, D, N] -> y: f32[B, T, D], last h: f32[B, D, N]. Holds all states,
    f32[B, T, D, N], for the gradient. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, one = g.constant([[[1.0], [0.0]]]), g.constant([[[1.0], [1.0]]])
    >>> y, h = gw.nn.selective_scan(x, one, g.constant([[-0.6931472]]), one, one, name="ssm")
    >>> g.output({}, y)[y.name].round(4).tolist()
    [[[1.0], [0.5]]]
    """

    namespace = "nn"
    drawing = "activation"
    autocast = Autocast.STATE
    delta_softplus: bool = attr(False, doc="Send Δ through softplus.")

    def infer(
        self,
        x: TensorSpec,
        delta: TensorSpec,
        a: TensorSpec,
        b: TensorSpec,
        c: TensorSpec,
        d: TensorSpec | None = None,
        z: TensorSpec | None = None,
        delta_bias: TensorSpec | None = None,
        initial: TensorSpec | None = None,
    ) -> Any:
        if x.rank != 3 or a.rank != 2:
            raise ShapeError("x or A has other axes", need="x: [B, T, D], A: [D, N]",
                             facts=[f"got {x} and {a}"])  # fmt: skip
        batch, steps, width = x.shape
        n = a.shape[1]
        check(
            self,
            [
                ("x", x, x.shape),
                ("delta", delta, x.shape),
                ("A", a, (width, n)),
                ("B", b, (batch, steps, n)),
                ("C", c, (batch, steps, n)),
                ("D", d, (width,)),
                ("z", z, x.shape),
                ("delta_bias", delta_bias, (width,)),
                ("initial", initial, (batch, width, n)),
            ],
        )
        return super().infer(x, delta, a, b, c, d, z, delta_bias, initial)

    def expand(
        self,
        x: Any,
        delta: Any,
        a: Any,
        b: Any,
        c: Any,
        d: Any = None,
        z: Any = None,
        delta_bias: Any = None,
        initial: Any = None,
    ) -> Any:
        given = x
        x, delta, a, b, c, d, z, delta_bias, initial = wide(
            x, delta, a, b, c, d, z, delta_bias, initial
        )
        step = delta if delta_bias is None else delta + delta_bias
        if self.delta_softplus:
            step = Softplus()(step)
        kept = Exp()(step.expand_dims(-1) * a)
        added = (step * x).expand_dims(-1) * b.expand_dims(2)
        start = () if initial is None else (initial,)
        h = LinearScan(axis=1)(kept, added, *start)
        y = (h @ c.expand_dims(-1)).squeeze(-1)
        if d is not None:
            y = y + x * d
        if z is not None:
            y = y * Silu()(z)
        return narrowed(given, y, last_state(h, initial))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        n = rng.standard_normal
        x, delta, z = n((2, 3, 2)), np.abs(n((2, 3, 2))), n((2, 3, 2))
        a, b, c = -np.abs(n((2, 2))), n((2, 3, 2)), n((2, 3, 2))
        yield Sample((x, delta, a, b, c))
        more = n(2), z, n(2), n((2, 2, 2))
        yield Sample((x, delta, a, b, c, *more), {"delta_softplus": True})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, a, b = TensorSpec((2, 3, 4)), TensorSpec((4, 5)), TensorSpec((2, 3, 5))
        yield ErrorSample((x, x, a, b, x), {}, "C does not fit")
        yield ErrorSample((x, x, TensorSpec((5,)), b, b), {}, "other axes")
        yield ErrorSample((x, x, a, b, b.with_dtype("int64")), {}, "does not take int64")


def last_state(states: Any, initial: Any, axis: int = 1) -> Any:
    """Return the state after the last step; without steps the first one."""
    first = ZerosLike()(states.sum(axis)) if initial is None else initial
    return Concat(axis=axis)(first.expand_dims(axis), states)[(*(slice(None),) * axis, -1)]


def in_chunks(x: Any, size: int, axis: int = 1) -> Any:
    """Return steps as chunks of equal size, [B, T, …] -> [B, ⌈T/size⌉, size, …], 0 at the end."""
    steps = x.shape[axis]
    if isinstance(steps, Dim):
        raise ShapeError("the number of steps has no value yet", need="a size")
    if missing := -steps % size:
        nothing = ZerosLike()(x.sum(axis, keepdims=True))
        x = Concat(axis=axis)(x, *[nothing] * missing)
    lead = x.shape[:axis]
    return x.reshape((*lead, (steps + missing) // size, size, *x.shape[axis + 1 :]))


def between(decay: Any) -> Any:
    """Return exp(Σ of decay over the steps j + 1 to i) as [..., i, j], and 0 for j > i."""
    total = Cumsum(axis=-1)(decay)
    gap = total.expand_dims(-1) - total.expand_dims(-2)
    seen = Tril()(OnesLike()(gap)) > 0.0
    return Where()(seen, Exp()(Where()(seen, gap, 0.0)), 0.0)


class Mamba2Ssm(Op):
    """State-space model with one decay per head, in chunks of matrix products (Dao and Gu 2024).

    h_t = exp(Δ_t·A)·h_{t-1} + Δ_t·B_t ⊗ x_t, y_t = C_t·h_t + D·x_t

    x: f32[B, T, H, P], delta: f32[B, T, H], A: f32[H] (below 0), B, C: f32[B, T, G, N] with H a
    multiple of G, D: f32[H], initial: f32[B, H, N, P] -> y: f32[B, T, H, P], last h:
    f32[B, H, N, P]. Within a chunk y is a product with a matrix of decays; only from chunk to chunk
    there is a loop. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, one = g.constant([[[[1.0]], [[0.0]]]]), g.constant([[[[1.0]], [[1.0]]]])
    >>> y, h = gw.nn.mamba2_ssm(x, one[..., 0], g.constant([-0.6931472]), one, one, name="ssd")
    >>> g.output({}, y)[y.name].round(4).ravel().tolist()
    [1.0, 0.5]
    """

    namespace = "nn"
    returns = "y", "state"
    drawing = "activation"
    chunk_size: int = attr(64, doc="Steps of a chunk.")

    def infer(
        self,
        x: TensorSpec,
        delta: TensorSpec,
        a: TensorSpec,
        b: TensorSpec,
        c: TensorSpec,
        d: TensorSpec | None = None,
        initial: TensorSpec | None = None,
    ) -> tuple[TensorSpec, TensorSpec]:
        if x.rank != 4 or b.rank != 4 or self.chunk_size < 1:
            raise ShapeError(
                "x or B has other axes, or chunk_size is below 1",
                need="x: [B, T, H, P], B: [B, T, G, N]",
                facts=[f"got {x}, {b}, {self.chunk_size}"],
            )
        batch, steps, heads, width = x.shape
        groups, n = b.shape[2:]
        check(
            self,
            [
                ("x", x, x.shape),
                ("delta", delta, (batch, steps, heads)),
                ("A", a, (heads,)),
                ("B", b, (batch, steps, groups, n)),
                ("C", c, (batch, steps, groups, n)),
                ("D", d, (heads,)),
                ("initial", initial, (batch, heads, n, width)),
            ],
        )
        if isinstance(heads, int) and isinstance(groups, int) and (not groups or heads % groups):
            raise ShapeError(f"{groups} groups for {heads} heads", need="a divisor")
        return x.with_shape(x.shape), x.with_shape((batch, heads, n, width))

    def expand(
        self, x: Any, delta: Any, a: Any, b: Any, c: Any, d: Any = None, initial: Any = None
    ) -> Any:
        given = x
        x, delta, a, b, c, d, initial = wide(x, delta, a, b, c, d, initial)
        batch, steps, heads, width = x.shape
        size = min(self.chunk_size, max(int(steps), 1)) if isinstance(steps, int) else 1
        repeats = heads // b.shape[2]
        # [batch, chunk, head, step, …]: products of matrices run over the last two axes.
        u, step, keys, queries = (
            in_chunks(v, size).transpose((0, 1, 3, 2, *range(4, v.rank + 1)))
            for v in (x * delta.expand_dims(-1), delta, b, c)
        )
        if repeats != 1:
            keys, queries = (_repeated(v, repeats) for v in (keys, queries))
        decay = step * a.expand_dims(-1)
        inside = ((queries @ keys.mT) * between(decay)) @ u
        total = Cumsum(axis=-1)(decay)
        whole = total[..., -1:]
        left = Exp()(whole - total)  # of a step, at the end of its chunk
        made = (keys * left.expand_dims(-1)).mT @ u
        start = () if initial is None else (initial,)
        states = LinearScan(axis=1)(Exp()(whole).expand_dims(-1), made, *start)
        came = (queries * Exp()(total).expand_dims(-1)) @ shifted(states, initial, 1)
        y = (inside + came).transpose((0, 1, 3, 2, 4))
        y = y.reshape((batch, y.shape[1] * size, heads, width))[:, :steps]
        if d is not None:
            y = y + x * d.expand_dims(-1)
        return narrowed(given, y, last_state(states, initial))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        n = rng.standard_normal
        x, delta, a = n((1, 3, 2, 2)), np.abs(n((1, 3, 2))), -np.abs(n(2))
        b, c = n((1, 3, 1, 2)), n((1, 3, 1, 2))
        yield Sample((x, delta, a, b, c, n(2), n((1, 2, 2, 2))), {"chunk_size": 2})
        yield Sample((x[:, :2], delta[:, :2], a, b[:, :2], c[:, :2]))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, delta, a = TensorSpec((1, 3, 2, 2)), TensorSpec((1, 3, 2)), TensorSpec((2,))
        b = TensorSpec((1, 3, 1, 4))
        yield ErrorSample((x, delta, a, b, x), {}, "C does not fit")
        yield ErrorSample((delta, delta, a, b, b), {}, "other axes")
        wrong = TensorSpec((1, 3, 3, 4))
        yield ErrorSample((x, delta, a, wrong, wrong), {}, "3 groups for 2 heads")


def _repeated(x: Any, times: int) -> Any:
    """Return each head of a group, [B, K, G, …] -> [B, K, G·times, …]."""
    wide = Concat(axis=3)(*[x.expand_dims(3)] * times)
    return wide.reshape((*x.shape[:2], x.shape[2] * times, *x.shape[3:]))
