"""Blocks of quantised numbers as ggml and GGUF files store them, byte for byte.

A row of n numbers is n/size blocks, one after the other. A block begins with its float16 scale d
(and minimum m); low and high halves of bytes hold elements j and j + 16:

    q4_0   32 numbers, 18 bytes: d, 16 bytes              x = (q − 8)·d
    q4_1   32 numbers, 20 bytes: d, m, 16 bytes           x = q·d + m
    q5_0   32 numbers, 22 bytes: d, fifth bits, 16 bytes  x = (q − 16)·d
    q5_1   32 numbers, 24 bytes: d, m, fifth bits, 16     x = q·d + m
    q8_0   32 numbers, 34 bytes: d, 32 int8               x = q·d
    q4_k  256 numbers, 144 bytes: d, m, 12 bytes with the 6-bit scales and minima of 8 parts, then
          128 bytes                                       x = q·d·scale − m·minimum
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import Cotangent, ErrorSample, Op, Sample, attr
from ...spec import Dim, TensorSpec, dtype, kind
from .nf4 import FROZEN
from .scales import ROUNDED, check_result

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Format:
    """How a block is stored: functions of f32[blocks, size] and u8[blocks, n_bytes]."""

    size: int
    n_bytes: int
    pack: Callable[[Array], Array]
    unpack: Callable[[Array], Array]


def _half(x: Array) -> Array:
    """Return numbers as the two bytes of a float16."""
    found: Array = x.astype("<f2").view(np.uint8).reshape(len(x), -1)
    return found


def _floats(raw: Array) -> Array:
    """Return the float16 of two bytes, as float32."""
    found: Array = np.ascontiguousarray(raw).view("<f2").astype(np.float32)
    return found


def _inverse(d: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.where(d == 0, 0, 1 / d).astype(np.float32)


def _nibbles(raw: Array) -> Array:
    """Return the low halves of bytes, then the high ones."""
    return np.concatenate([raw & 15, raw >> 4], axis=1)


def _paired(q: Array) -> Array:
    """Return numbers of 4 bits as bytes: the first half low, the second high."""
    low, high = np.split(q & 15, 2, axis=1)
    found: Array = (low | high << 4).astype(np.uint8)
    return found


def _fifth(q: Array) -> Array:
    """Return bit 4 of 32 numbers as four bytes."""
    return np.packbits(q >> 4 & 1, axis=1, bitorder="little")


def _with_fifth(bits: Array, raw: Array) -> Array:
    found: Array = _nibbles(raw) | np.unpackbits(bits, axis=1, bitorder="little") << 4
    return found


def _signed(x: Array, steps: int) -> tuple[Array, Array]:
    """Return d and q of x = (q − steps)·d, where the largest number becomes −steps."""
    at = np.abs(x).argmax(1)[:, None]
    d = np.take_along_axis(x, at, 1) / np.float32(-steps)
    q = np.trunc(x.astype(np.float64) * _inverse(d) + (steps + 0.5))
    return d, q.astype(np.uint8).clip(0, 2 * steps - 1)


def _affine(x: Array, steps: int) -> tuple[Array, Array, Array]:
    """Return d, m and q of x = q·d + m."""
    low, high = x.min(1, keepdims=True), x.max(1, keepdims=True)
    d = (high - low) / np.float32(steps)
    q = np.trunc((x - low) * _inverse(d) + np.float32(0.5))
    return d, low, q.astype(np.uint8).clip(0, steps)


def _pack_q4_0(x: Array) -> Array:
    d, q = _signed(x, 8)
    return np.concatenate([_half(d), _paired(q)], axis=1)


def _pack_q4_1(x: Array) -> Array:
    d, m, q = _affine(x, 15)
    return np.concatenate([_half(d), _half(m), _paired(q)], axis=1)


def _pack_q5_0(x: Array) -> Array:
    d, q = _signed(x, 16)
    return np.concatenate([_half(d), _fifth(q), _paired(q)], axis=1)


def _pack_q5_1(x: Array) -> Array:
    d, m, q = _affine(x, 31)
    return np.concatenate([_half(d), _half(m), _fifth(q), _paired(q)], axis=1)


def _pack_q8_0(x: Array) -> Array:
    d = np.abs(x).max(1, keepdims=True) / np.float32(127)
    scaled = x * _inverse(d)
    q = np.copysign(np.floor(np.abs(scaled) + np.float32(0.5)), scaled)  # halves away from 0
    return np.concatenate([_half(d), q.astype(np.int8).view(np.uint8)], axis=1)


def _unpack_q4_0(raw: Array) -> Array:
    return (_nibbles(raw[:, 2:]).astype(np.float32) - 8) * _floats(raw[:, :2])


def _unpack_q4_1(raw: Array) -> Array:
    return _nibbles(raw[:, 4:]) * _floats(raw[:, :2]) + _floats(raw[:, 2:4])


def _unpack_q5_0(raw: Array) -> Array:
    q = _with_fifth(raw[:, 2:6], raw[:, 6:])
    return (q.astype(np.float32) - 16) * _floats(raw[:, :2])


def _unpack_q5_1(raw: Array) -> Array:
    q = _with_fifth(raw[:, 4:8], raw[:, 8:])
    return q * _floats(raw[:, :2]) + _floats(raw[:, 2:4])


def _unpack_q8_0(raw: Array) -> Array:
    q = np.ascontiguousarray(raw[:, 2:]).view(np.int8)
    return q.astype(np.float32) * _floats(raw[:, :2])


def _unpack_q4_k(raw: Array) -> Array:
    n = len(raw)
    low, high, mixed = np.split(raw[:, 4:16], 3, axis=1)
    scales = np.concatenate([low & 63, (mixed & 15) | (low >> 6) << 4], axis=1)
    minima = np.concatenate([high & 63, mixed >> 4 | (high >> 6) << 4], axis=1)
    quarters = raw[:, 16:].reshape(n, 4, 1, 32)  # each: 32 low halves, then 32 high ones
    q = np.concatenate([quarters & 15, quarters >> 4], axis=2).reshape(n, 8, 32)
    d, m = _floats(raw[:, :2]) * scales, _floats(raw[:, 2:4]) * minima
    found: Array = (q * d[:, :, None] - m[:, :, None]).reshape(n, 256)
    return found


def _pack_q4_k(x: Array) -> Array:
    """Pack with the range of each part as its scale: ggml also searches for better scales."""
    parts = x.reshape(len(x), 8, 32)
    low = np.minimum(parts.min(2), 0)
    step, least = (parts.max(2) - low) / np.float32(15), -low
    d, m = (v.max(1, keepdims=True) / np.float32(63) for v in (step, least))
    scales, minima = (
        np.clip(np.rint(v * _inverse(unit)), 0, 63).astype(np.uint8)
        for v, unit in ((step, d), (least, m))
    )
    raw_d, raw_m = _half(d), _half(m)
    unit, offset = _floats(raw_d) * scales, _floats(raw_m) * minima
    q = np.rint((parts + offset[:, :, None]) * _inverse(unit)[:, :, None]).clip(0, 15)
    pairs = q.astype(np.uint8).reshape(len(x), 4, 2, 32)
    (s, t), (u, v) = (np.split(k, 2, axis=1) for k in (scales, minima))
    bits = [s | (t >> 4) << 6, u | (v >> 4) << 6, (t & 15) | (v & 15) << 4]
    body = (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(len(x), 128)
    return np.concatenate([raw_d, raw_m, *bits, body], axis=1)


FORMATS: Mapping[str, Format] = {
    "q4_0": Format(32, 18, _pack_q4_0, _unpack_q4_0),
    "q4_1": Format(32, 20, _pack_q4_1, _unpack_q4_1),
    "q5_0": Format(32, 22, _pack_q5_0, _unpack_q5_0),
    "q5_1": Format(32, 24, _pack_q5_1, _unpack_q5_1),
    "q8_0": Format(32, 34, _pack_q8_0, _unpack_q8_0),
    "q4_k": Format(256, 144, _pack_q4_k, _unpack_q4_k),
}
"""Name of a format -> how its blocks are stored."""


def unpacked(raw: Array, name: str) -> Array:
    """Return rows of bytes as float32."""
    form = FORMATS[name]
    y = form.unpack(raw.reshape(-1, form.n_bytes))
    return y.reshape(*raw.shape[:-1], raw.shape[-1] // form.n_bytes * form.size)


def columns(w: TensorSpec, name: str) -> Any:
    """Return how many numbers a row of bytes holds; raise unless it is whole blocks."""
    form = FORMATS[name]
    if w.dtype != np.dtype("uint8") or not w.rank:
        raise DTypeError(f"{name} blocks are {w}", need="u8[…, bytes]")
    n = w.shape[-1]
    if isinstance(n, int) and n % form.n_bytes:
        raise ShapeError(f"{n} bytes are no blocks of {name}", need=f"a multiple of {form.n_bytes}")
    return n // form.n_bytes * form.size


class QuantizeGgml(Op):
    """Store rows of numbers in blocks of a ggml format.

    x: f32[…, n] -> u8[…, n/size·bytes], with size and bytes of the format: q4_0 (32, 18), q4_1 (32,
    20), q5_0 (32, 22), q5_1 (32, 24), q8_0 (32, 34), q4_k (256, 144). Raises ShapeError unless the
    block size divides n (ggml-quants, 2023).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> packed = gw.quant.quantize_ggml(g.placeholder("x", ("B", 64)), format="q4_0")
    >>> packed.spec
    u8[B, 36]
    """

    namespace = "quant"
    format: str = attr("q8_0", doc="Name of the format.", choices=tuple(FORMATS))

    def infer(self, x: TensorSpec) -> TensorSpec:
        form = FORMATS[self.format]
        if kind(x.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        n = x.shape[-1] if x.rank else 1
        if not isinstance(n, Dim) and n % form.size:
            raise ShapeError(f"rows of {n} are no whole blocks", need=f"a multiple of {form.size}")
        return TensorSpec((*x.shape[:-1], n // form.size * form.n_bytes), "uint8")

    def forward(self, x: Any) -> Any:
        form = FORMATS[self.format]
        blocks = x.astype(np.float32).reshape(x.size // form.size, form.size)
        packed = form.pack(blocks) if len(blocks) else np.empty(0, np.uint8)
        return packed.reshape(*x.shape[:-1], x.shape[-1] // form.size * form.n_bytes)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ROUNDED,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for name, form in FORMATS.items():
            yield Sample((rng.standard_normal((2, form.size)),), {"format": name})
        yield Sample((np.zeros((1, 64)),), {"format": "q5_1"})
        yield Sample((np.zeros((0, 32)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 33)),), {}, "no whole blocks")
        yield ErrorSample((TensorSpec((32,), "int8"),), {}, "does not take int8")


class DequantizeGgml(Op):
    """Numbers in blocks of a ggml format.

    u8[…, n/size·bytes] -> f32[…, n], with size and bytes of the format as in ``quantize_ggml``.
    Raises ShapeError unless the bytes are whole blocks.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> block = g.constant([0, 60, *range(32)], dtype="uint8")  # d = 1
    >>> g.output({}, gw.quant.dequantize_ggml(block, format="q8_0", name="y"))["y"][:3].tolist()
    [0.0, 1.0, 2.0]
    """

    namespace = "quant"
    format: str = attr("q8_0", doc="Name of the format.", choices=tuple(FORMATS))
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")

    def infer(self, packed: TensorSpec) -> TensorSpec:
        n = columns(packed, self.format)
        check_result(self, self.dtype)
        return TensorSpec((*packed.shape[:-1], n), self.dtype)

    def forward(self, packed: Any) -> Any:
        return unpacked(packed, self.format).astype(self.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (FROZEN,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for name, form in FORMATS.items():
            packed = form.pack(rng.standard_normal((2, form.size)).astype("f4"))
            yield Sample((packed,), {"format": name})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 33), "uint8"),), {}, "33 bytes are no blocks")
        yield ErrorSample((TensorSpec((34,)),), {}, "blocks are f32")
        yield ErrorSample((TensorSpec((34,), "uint8"),), {"dtype": "int8"}, "does not give int8")
