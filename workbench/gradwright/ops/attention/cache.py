"""Key-value caches: writing into room of fixed size, and keeping it in few bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import AFFINE, LINEAR, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, differ, kind, normalize_axis
from ...spec.rounding import rounded
from ..core.comparison import Sign
from ..core.elementwise import Abs
from ..core.like import ReshapeLike, ZerosLike
from ..core.movement import Cast
from ..core.special import widened


def _check_places(op: Any, cache: TensorSpec, part: TensorSpec, at: TensorSpec | None) -> int:
    """Return the axis along which ``part`` is a piece of ``cache``; refuse what does not fit."""
    if cache.rank < 2 or cache.rank != part.rank:
        raise ShapeError("a cache and what goes into it have one rank", need="[B, ..., S, ...]")
    axis = normalize_axis(op.axis, cache.rank)
    if axis == 0:
        raise ShapeError("axis 0 is the batch, not the positions", hint="axis=-2")
    for i, (d, e) in enumerate(zip(cache.shape, part.shape, strict=True)):
        known = isinstance(d, int) and isinstance(e, int)
        if differ(d, e) if i != axis else known and e > d:  # type: ignore[operator]
            raise ShapeError(
                f"{e} do not fit into {d} on axis {i}",
                need="equal sizes but for the positions, of which there may be fewer",
            )
    if at is not None:
        if kind(at.dtype) not in "iu" or at.rank > 1:
            raise DTypeError("places are no vector of integers", need="i64[B], or i64[]")
        if at.rank and differ(at.shape[0], cache.shape[0]):
            raise ShapeError("there is not one place per sample", need=f"i64[{cache.shape[0]}]")
    return axis


def _places(op: Any, cache_shape: Any, n: int, at: Any) -> tuple[Any, ...]:
    """Return the index of the places that ``n`` positions have in a cache with axis 1 positions."""
    b, room = cache_shape[:2]
    start = np.broadcast_to(np.int64(0) if at is None else at.astype(np.int64), (b,))
    if op.mode == "circular":
        return np.arange(b)[:, None], (start[:, None] + np.arange(n)) % max(room, 1)
    wrong = (start < 0) | (start + n > room)
    if wrong.any():
        raise GraphError(
            f"{n} positions from {start[wrong][0]} do not fit into {room}",
            need="0 <= place, place + positions <= room",
            hint='more room, or mode="circular", which overwrites the oldest',
        )
    if b and (start == start[0]).all():  # one block for all samples: no list of places
        return slice(None), slice(int(start[0]), int(start[0]) + n)
    return np.arange(b)[:, None], start[:, None] + np.arange(n)


class KvScatter(Op):
    """A cache with new positions written at a place of its own in each sample.

    y = cache,  y[b, …, (place_b + i) mod S, …] = update[b, …, i, …] along ``axis``

    cache: f32[B, …, S, …], update: f32[B, …, T, …] with T ≤ S, write_indices: i64[B], or i64[] for
    all samples; 0 if not given. In ``linear`` mode places do not wrap, and what does not fit is
    an error when run. ONNX operator TensorScatter-24.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> cache, new = g.constant([[[0.0], [0.0], [0.0]]]), g.constant([[[1.0], [2.0]]])
    >>> y = gw.nn.kv_scatter(cache, new, g.constant([2]), mode="circular", name="y")
    >>> g.output({}, y)["y"].ravel().tolist()
    [2.0, 0.0, 1.0]
    """

    namespace = "nn"
    dependence = AFFINE, LINEAR
    axis: int = attr(-2, doc="Axis of the positions.")
    mode: str = attr("linear", doc="Whether places wrap.", choices=("linear", "circular"))
    onnx = OnnxRule("TensorScatter", since=24)

    def infer(
        self, cache: TensorSpec, update: TensorSpec, write_indices: TensorSpec | None = None
    ) -> TensorSpec:
        _check_places(self, cache, update, write_indices)
        return cache.with_shape(cache.shape)

    def forward(self, cache: Any, update: Any, write_indices: Any = None) -> Any:
        y = np.array(cache)
        rows, new = np.moveaxis(y, self.axis, 1), np.moveaxis(update, self.axis, 1)
        rows[_places(self, rows.shape, new.shape[1], write_indices)] = rounded(new, y.dtype)
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), at = gs, xs[2:]
        return [
            lambda: KvScatter(axis=self.axis, mode=self.mode)(g, ZerosLike()(xs[1]), *at),
            lambda: KvTake(axis=self.axis, mode=self.mode)(g, xs[1], *at),
            ZERO,
        ][: len(xs)]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        cache, update = rng.standard_normal((2, 3, 4, 2)), rng.standard_normal((2, 3, 2, 2))
        yield Sample((cache, update, np.array([2, 0])))
        yield Sample((cache, update, np.array([3, 1])), {"mode": "circular"})
        yield Sample((cache[:, 0], update[:, 0], np.array(1)))
        yield Sample((cache[:, 0], update[:, 0, :, :1].repeat(4, 1)[:, :4]), {"axis": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        cache = TensorSpec((2, 3, 4))
        yield ErrorSample((cache, TensorSpec((2, 4, 4))), {}, "do not fit into 3")
        yield ErrorSample((cache, cache), {"axis": 0}, "is the batch")
        yield ErrorSample((cache, cache, TensorSpec((2,))), {}, "no vector of integers")
        yield ErrorSample((cache, cache, TensorSpec((3,), "int64")), {}, "one place per sample")


class KvTake(Op):
    """Positions of a cache from a place of its own in each sample, as many as ``like`` has.

    y[b, …, i, …] = cache[b, …, (place_b + i) mod S, …] along ``axis``
    """

    namespace = "gradient"
    drawing = "math"
    shape_only = (1,)
    dependence = LINEAR
    axis: int = attr(-2, doc="Axis of the positions.")
    mode: str = attr("linear", doc="Whether places wrap.", choices=("linear", "circular"))

    def infer(
        self, cache: TensorSpec, like: TensorSpec, write_indices: TensorSpec | None = None
    ) -> TensorSpec:
        _check_places(self, cache, like, write_indices)
        return cache.with_shape(like.shape)

    def forward(self, cache: Any, like: Any, write_indices: Any = None) -> Any:
        rows = np.moveaxis(cache, self.axis, 1)
        at = _places(self, rows.shape, like.shape[self.axis], write_indices)
        return np.moveaxis(np.array(rows[at]), 1, self.axis)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        cache, at = xs[0], xs[2:]
        scatter = KvScatter(axis=self.axis, mode=self.mode)
        return [lambda: scatter(ZerosLike()(cache), gs[0], *at), ZERO, ZERO][: len(xs)]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from KvScatter.samples(rng)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        cache = TensorSpec((2, 3, 4))
        yield ErrorSample((cache, TensorSpec((2, 4, 4))), {}, "do not fit into 3")


class KvCacheUpdate(Op):
    """Caches of keys and values with new positions written from ``position`` on.

    present[…, position + i, :] = new[…, i, :], for keys and for values

    key_cache: f32[B, H, S, E], value_cache: f32[B, H, S, D], key: f32[B, H, T, E],
    value: f32[B, H, T, D], position: i64[], or i64[B] where samples differ. What does not fit is an
    error when run, unless ``circular`` lets it overwrite the oldest.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> room, new = g.constant([[[0.0], [0.0]]]), g.constant([[[5.0]]])
    >>> keys, values = gw.nn.kv_cache_update(room, room, new, new, g.constant(1), name="kv")
    >>> g.output({}, keys)["kv"].ravel().tolist()
    [0.0, 5.0]
    """

    namespace = "nn"
    returns = "present_key", "present_value"
    circular: bool = attr(False, doc="Wrap around at the end of the room.")

    def infer(
        self,
        key_cache: TensorSpec,
        value_cache: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        position: TensorSpec,
    ) -> tuple[TensorSpec, TensorSpec]:
        write = KvScatter()
        return write.infer(key_cache, key, position), write.infer(value_cache, value, position)

    def expand(self, key_cache: Any, value_cache: Any, key: Any, value: Any, position: Any) -> Any:
        write = KvScatter(mode="circular" if self.circular else "linear")
        return write(key_cache, key, position), write(value_cache, value, position)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        keys, values = rng.standard_normal((1, 2, 3, 2)), rng.standard_normal((1, 2, 3, 1))
        yield Sample((keys, values, keys[:, :, :1] + 1, values[:, :, :1] + 1, np.array(2)))
        new = keys[:, :, :2] + 1, values[:, :, :2] + 1
        yield Sample((keys, values, *new, np.array([5])), {"circular": True})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        cache, at = TensorSpec((2, 3, 4)), TensorSpec((), "int64")
        yield ErrorSample((cache, cache, TensorSpec((2, 4, 4)), cache, at), {}, "do not fit into 3")


class KvCacheQuantize(Op):
    """Integers of few bits with one scale for each block of features, symmetric about zero.

    code = round(x/scale), scale = max |x| / (2ᵇⁱᵗˢ⁻¹ − 1) over each block of the last axis

    x: f32[…, D] gives codes: i8[…, D] and scale: f32[…, D/block_size] (one block by default). A
    block of zeros has scale 0. Gradients flow through the scale; codes are integers.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> codes, scale = gw.nn.kv_cache_quantize(g.constant([[1.27, -0.5, 0.0]]), name="q")
    >>> g.output({}, codes)["q"].tolist()
    [[127, -50, 0]]
    """

    namespace = "nn"
    returns = "codes", "scales"
    bits: int = attr(8, doc="Bits of a code.", choices=(2, 3, 4, 5, 6, 7, 8))
    block_size: int = attr(0, doc="Features that share a scale; 0 is all.")

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        if kind(x.dtype) != "f" or not x.rank:
            raise DTypeError(f"kv_cache_quantize does not take {x}", need="f32[..., D]")
        n = _blocks(x, self.block_size)
        return x.with_dtype("int8"), x.with_shape((*x.shape[:-1], n))

    def forward(self, x: Any) -> Any:
        n = _blocks(TensorSpec(x.shape, x.dtype), self.block_size)
        parts = widened(x).reshape(*x.shape[:-1], n, x.shape[-1] // max(n, 1))
        top = 2 ** (self.bits - 1) - 1
        scale = (np.abs(parts).max(-1, initial=0) / top).astype(x.dtype)
        divisor = np.where(scale == 0, 1, scale)[..., None]
        codes = np.clip(np.rint(parts / divisor.astype(parts.dtype)), -top, top)
        return codes.astype(np.int8).reshape(x.shape), scale

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g, x), (*lead, d) = (gs[1], xs[0]), xs[0].shape
        if g is ZERO:
            return (ZERO,)
        n = _blocks(x.spec, self.block_size)
        parts = x.reshape(*lead, n, self.block_size or d)
        size = Abs()(parts)
        first = Cast(dtype=g.dtype)(size == size.max(-1, keepdims=True))
        share = first / first.sum(-1, keepdims=True) / float(2 ** (self.bits - 1) - 1)
        return (ReshapeLike()(g[..., None] * share * Sign()(parts), x),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3, 4))
        yield Sample((x,))
        x = x * np.array([[1.0], [0.0], [1.0]])
        yield Sample((x,), {"bits": 3}, smooth=False)
        yield Sample((x[:, 2],), {"bits": 4, "block_size": 2})
        yield Sample((np.zeros((0, 4)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((4,), "int32"),), {}, "does not take")
        yield ErrorSample((TensorSpec((4,)),), {"block_size": 3}, "no blocks of 3")


class KvCacheDequantize(Op):
    """Numbers from integer codes and the scale of each block of features.

    y = code·scale, codes: i8[…, D], scale: f32[…, D/block_size]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> codes = gw.cast(g.constant([[127, -50]]), "int8")
    >>> y = gw.nn.kv_cache_dequantize(codes, g.constant([[0.01]]), name="y")
    >>> g.output({}, y)["y"].round(2).tolist()
    [[1.2699999809265137, -0.5]]
    """

    namespace = "nn"

    def infer(self, codes: TensorSpec, scale: TensorSpec) -> TensorSpec:
        if kind(codes.dtype) not in "iu" or kind(scale.dtype) != "f":
            raise DTypeError(
                "codes are integers, scales are floats", need="i8[..., D] and f32[..., n]"
            )
        lead = scale.rank == codes.rank > 0 and not any(
            map(differ, codes.shape[:-1], scale.shape[:-1])
        )
        d, n = (codes.shape[-1], scale.shape[-1]) if lead else (0, 1)
        known = isinstance(d, int) and isinstance(n, int)
        if not lead or (known and (d % n if n else d)):  # type: ignore[operator]
            raise ShapeError("scale does not fit the codes", need="one per block of features")
        return scale.with_shape(codes.shape)

    def expand(self, codes: Any, scale: Any) -> Any:
        *lead, d = codes.shape
        n = scale.shape[-1]
        parts = Cast(dtype=scale.dtype)(codes).reshape(*lead, n, d // max(n, 1))
        return (parts * scale.reshape(*lead, n, 1)).reshape(*lead, d)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        codes = rng.integers(-7, 8, (2, 3, 4)).astype(np.int8)
        yield Sample((codes, rng.random((2, 3, 2))))
        yield Sample((codes, rng.random((2, 3, 1))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        codes, scale = TensorSpec((2, 4), "int8"), TensorSpec((2, 3))
        yield ErrorSample((codes, scale), {}, "scale does not fit")
        yield ErrorSample((scale, scale), {}, "codes are integers")


def _blocks(x: TensorSpec, size: int) -> Any:
    """Return the number of blocks along the last axis."""
    d = x.shape[-1]
    if not size:
        return 1
    if size < 0 or differ(d // size * size, d):
        raise ShapeError(f"{d} features are no blocks of {size}", need="a multiple")
    return d // size
