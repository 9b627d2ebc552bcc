"""NF4 and 8-bit dynamic blocks, byte for byte as bitsandbytes stores them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import Cotangent, ErrorSample, NotDifferentiable, Op, Sample, attr
from ...spec import AnyDim, TensorSpec, differ, dtype, kind
from ..core.special import widened
from .scales import ROUNDED, check_result

Array = np.ndarray[Any, Any]

FROZEN = NotDifferentiable("packed weights are frozen; train adapters beside them")

NF4 = np.array(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ],
    np.float32,
)
"""The 16 numbers: quantiles of a normal distribution, over the largest one."""

_PAIRS = np.stack([np.repeat(NF4, 16), np.tile(NF4, 16)], axis=1).view(np.complex64).ravel()
"""The two numbers of each byte, as 8 bytes that are copied at once."""


@functools.cache
def dynamic_map(*, signed: bool = True) -> Array:
    """Return the 256 numbers of a dynamic 8-bit type, from -1 or 0 to 1 (Dettmers et al. 2022).

    The signed one has, to the bit, those of files: edges go in steps of a float32 from both ends,
    each rounded once.
    """
    found = [0.0, 1.0]
    low, high = np.float32(0.1), np.float32(1)
    for i in range(7):
        n = 2 ** (i if signed else i + 1)
        at, step = np.arange(n + 1), float((high - low) / np.float32(n))
        edges = np.where(at < (n + 1) // 2, float(low) + step * at, 1 - step * (n - at))
        edges = edges.astype(np.float32)
        middle = (edges[:-1] + edges[1:]) / np.float32(2) * np.float32(10.0 ** (i - 6))
        found += [*middle, *-middle] if signed else middle.tolist()
    return np.sort(np.array(found, np.float32))


def codes(x: Array, table: Array, block_size: int) -> tuple[Array, Array]:
    """Return the code of each element, block by block, and the largest size in each block.

    A code is the number of middles between neighbours in the table that lie below x/absmax, so that
    ties take the lower one. A NaN makes its block's absmax NaN, and has the code of 0.
    """
    flat = np.ravel(x).astype(np.float32)
    padded = np.zeros(-(-flat.size // block_size) * block_size, np.float32)
    padded[: flat.size] = flat
    blocks = padded.reshape(-1, block_size)
    top = np.finfo(np.float32).max
    np.clip(blocks, -top, top, out=blocks)  # a block of 0 and ∞ would be read as NaN
    absmax = np.abs(blocks).max(1, initial=0)
    with np.errstate(over="ignore"):
        scaled = np.clip(blocks * (1 / np.maximum(absmax, np.float32(1e-38)))[:, None], -1, 1)
    middles = (table[:-1] + table[1:]) / 2
    np.copyto(scaled, 0, where=np.isnan(scaled))
    found = np.searchsorted(middles, scaled.ravel()[: flat.size], side="left")
    return found.astype(np.uint8), absmax


def packed_nf4(x: Array, block_size: int) -> tuple[Array, Array]:
    """Return two codes per byte, the first in the high half, and the blocks' largest sizes."""
    code, absmax = codes(x, NF4, block_size)
    if code.size % 2:
        code = np.append(code, np.uint8(7))  # the code of 0
    return (code[::2] << 4 | code[1::2])[:, None], absmax


def unpacked_nf4(packed: Array, absmax: Array, start: int, stop: int, block_size: int) -> Array:
    """Return elements ``start`` to ``stop`` of the flat array, as float32."""
    first = start // block_size * block_size  # block sizes are even: a byte's first element
    pairs = packed.ravel()[first // 2 : -(-stop // 2)]
    y = _PAIRS[pairs].view(np.float32)[: stop - first]
    y *= np.repeat(absmax[first // block_size : -(-stop // block_size)], block_size)[: y.size]
    return y[start - first :]


def nested(absmax: Array, block_size: int) -> tuple[Array, Array, Array]:
    """Return scales stored in 8 bits each, less their mean: codes, scales of those, and the mean.

    This is double quantisation (Dettmers et al. 2023).
    """
    offset = absmax.mean(dtype=np.float32)
    found, outer = codes(absmax - offset, dynamic_map(), block_size)
    return found, outer, np.asarray(offset)


def unnested(code: Array, outer: Array, offset: Array, block_size: int) -> Array:
    """Return the scales that `nested` has stored."""
    found: Array = dynamic_map()[code] * np.repeat(outer, block_size)[: code.size] + offset
    return found


def check_blocks(op: Op, block_size: int) -> None:
    """Refuse block sizes that the format does not have."""
    if block_size < 2 or block_size & (block_size - 1):
        raise ShapeError(f"{op.name}: block_size {block_size}", need="a power of two, such as 64")


def count(shape: Sequence[AnyDim]) -> Any:
    """Return the number of elements, which may be symbolic."""
    n: Any = 1
    for d in shape:
        n = n * d
    return n


def blocks(n: Any, size: int) -> Any:
    """Return how many blocks of a size hold n elements."""
    return (n + (size - 1)) // size


def _check_floating(op: Op, x: TensorSpec) -> None:
    if kind(x.dtype) != "f":
        raise DTypeError(f"{op.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")


class QuantizeNf4(Op):
    """Store numbers as 4 bits each and a scale per block (Dettmers et al. 2023).

    absmax_b = max |x| of the block; code = the nearest of 16 normal quantiles to x/absmax, the
    lower one of two

    x: f32[…] of n elements, read in row-major order -> packed: u8[⌈n/2⌉, 1], two codes per byte,
    the first in the high half, and absmax: f32[⌈n/block_size⌉]. ``quantize_blockwise`` of
    absmax − mean in blocks of 256 is double quantisation. Raises ShapeError unless block_size is a
    power of two.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> packed, absmax = gw.quant.quantize_nf4(g.constant([0.0, 2.0, -2.0, 1.0]), name="q")
    >>> [a.tolist() for a in g.output({}, packed, absmax).values()]
    [[[127], [12]], [2.0]]
    """

    namespace = "quant"
    returns = "codes", "absmax"
    block_size: int = attr(64, doc="Elements that share a scale.")

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        check_blocks(self, self.block_size)
        _check_floating(self, x)
        n = count(x.shape)
        return (
            TensorSpec(((n + 1) // 2, 1), "uint8"),
            TensorSpec((blocks(n, self.block_size),), "float32"),
        )

    def forward(self, x: Any) -> Any:
        return packed_nf4(x, self.block_size)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ROUNDED,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((3, 3)),), {"block_size": 4}, smooth=False)
        yield Sample((np.zeros((0, 2)),), smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((4,)),), {"block_size": 3}, "block_size 3")
        yield ErrorSample((TensorSpec((4,), "int8"),), {}, "does not take int8")


class DequantizeNf4(Op):
    """Numbers that ``quantize_nf4`` has packed.

    y = table[code]·absmax of the block, in float32, then cast

    packed: u8[⌈n/2⌉, 1], absmax: f32[⌈n/block_size⌉] -> an array of ``shape``, which has n
    elements. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> packed, absmax = gw.quant.quantize_nf4(g.constant([0.0, 2.0, -2.0, 1.0]))
    >>> y = gw.quant.dequantize_nf4(packed, absmax, shape=(2, 2), name="y")
    >>> [round(v, 2) for v in g.output({}, y)["y"].ravel().tolist()]
    [0.0, 2.0, -2.0, 0.88]
    """

    namespace = "quant"
    shape: tuple[AnyDim, ...] = attr(doc="Shape of the result.")
    block_size: int = attr(64, doc="Elements that share a scale.")
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")

    def infer(self, packed: TensorSpec, absmax: TensorSpec) -> TensorSpec:
        check_blocks(self, self.block_size)
        check_result(self, self.dtype)
        if any(isinstance(d, int) and d < 0 for d in self.shape):
            raise ShapeError(f"{self.shape} is no shape", need="sizes of 0 or more")
        check_packed(packed, absmax, count(self.shape), self.block_size)
        return TensorSpec(self.shape, self.dtype)

    def forward(self, packed: Any, absmax: Any) -> Any:
        shape: Any = self.shape
        n = int(np.prod(shape))
        return unpacked_nf4(packed, absmax, 0, n, self.block_size).reshape(shape).astype(self.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return FROZEN, FROZEN

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        packed, absmax = packed_nf4(rng.standard_normal((3, 3)), 4)
        yield Sample((packed, absmax), {"shape": (3, 3), "block_size": 4}, smooth=False)
        attrs = {"shape": (0, 2), "dtype": "float16"}
        yield Sample((packed[:0], absmax[:0]), attrs, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        packed, absmax = TensorSpec((2, 1), "uint8"), TensorSpec((1,))
        yield ErrorSample((packed, absmax), {"shape": (5,)}, "does not hold 5")
        yield ErrorSample((packed, TensorSpec((2,))), {"shape": (4,)}, "absmax")
        yield ErrorSample((packed, absmax), {"shape": (-2, -2)}, "is no shape")
        yield ErrorSample((packed, absmax), {"shape": (4,), "dtype": "int8"}, "does not give int8")


def check_packed(packed: TensorSpec, absmax: TensorSpec, n: Any, block_size: int) -> None:
    """Raise ShapeError unless codes and scales are those of n elements."""
    if packed.dtype != np.dtype("uint8") or differ(count(packed.shape), (n + 1) // 2):
        raise ShapeError(
            f"packed does not hold {n} codes of 4 bits",
            facts=[f"got {packed}"],
            need=f"u8[{(n + 1) // 2}, 1], two codes per byte",
        )
    if absmax.rank != 1 or differ(absmax.shape[0], blocks(n, block_size)):
        raise ShapeError(
            f"absmax is {absmax}", need=f"f32[{blocks(n, block_size)}], one per {block_size}"
        )


class QuantizeBlockwise(Op):
    """Store numbers as 8 bits each and a scale per block, close ones near 0 (Dettmers et al. 2022).

    absmax_b = max |x| of the block; code = the nearest of 256 numbers of the signed dynamic type to
    x/absmax

    x: f32[…] of n elements -> u8[…], absmax: f32[⌈n/block_size⌉]. Raises ShapeError unless
    block_size is a power of two.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> code, absmax = gw.quant.quantize_blockwise(g.constant([0.0, 2.0, -0.01]), name="q")
    >>> [a.tolist() for a in g.output({}, code, absmax).values()]
    [[127, 255, 104], [2.0]]
    """

    namespace = "quant"
    returns = "codes", "absmax"
    block_size: int = attr(256, doc="Elements that share a scale.")

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        check_blocks(self, self.block_size)
        _check_floating(self, x)
        n = blocks(count(x.shape), self.block_size)
        return x.with_dtype("uint8"), TensorSpec((n,), "float32")

    def forward(self, x: Any) -> Any:
        found, absmax = codes(x, dynamic_map(), self.block_size)
        return found.reshape(x.shape), absmax

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ROUNDED,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((3, 3)),), {"block_size": 4}, smooth=False)
        yield Sample((np.zeros((0, 2)),), smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((4,)),), {"block_size": 5}, "block_size 5")


class DequantizeBlockwise(Op):
    """Numbers that ``quantize_blockwise`` has stored.

    y = table[code]·absmax of the block

    code: u8[…] of n elements, absmax: f32[⌈n/block_size⌉] -> f32[…].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> code = g.constant([127, 255], dtype="uint8")
    >>> g.output({}, gw.quant.dequantize_blockwise(code, g.constant([2.0]), name="y"))["y"].tolist()
    [0.0, 2.0]
    """

    namespace = "quant"
    block_size: int = attr(256, doc="Elements that share a scale.")

    def infer(self, code: TensorSpec, absmax: TensorSpec) -> TensorSpec:
        check_blocks(self, self.block_size)
        n = blocks(count(code.shape), self.block_size)
        if code.dtype != np.dtype("uint8") or absmax.rank != 1 or differ(absmax.shape[0], n):
            raise ShapeError("code and absmax do not fit", need=f"u8[…] and f32[{n}]",
                             facts=[f"got {code} and {absmax}"])  # fmt: skip
        return code.with_dtype("float32")

    def forward(self, code: Any, absmax: Any) -> Any:
        y = dynamic_map()[code.ravel()]
        y *= np.repeat(widened(absmax).astype(np.float32), self.block_size)[: y.size]
        return y.reshape(code.shape)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return FROZEN, FROZEN

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        code = rng.integers(0, 256, (3, 3)).astype("u1")
        scales = rng.standard_normal(3).astype("f4")
        yield Sample((code, scales), {"block_size": 4}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((4,), "uint8"), TensorSpec((2,))), {}, "do not fit")
