"""Operations on the bits of integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError
from ...op import ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, broadcast, kind, promote
from ..core.elementwise import _Binary, _Unary, promoted
from ..core.reduce import _Reduction


class _Bits(_Binary):
    """An operation on the bits of two tensors."""

    namespace = "bitwise"
    accepts = "bui"

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[5], [-3]]), np.array([1, 6, 127])))
        yield Sample((np.array([0xF0, 7], np.uint8), np.array(0x1F, np.uint8)))
        yield Sample((np.zeros((0, 2), np.int32), np.array([1, 2], np.int8)))
        if "b" in cls.accepts:
            yield Sample((np.array([True, False]), np.array(True)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2,))), {}, "does not take float32")
        whole = TensorSpec((2,), "int64"), TensorSpec((3,), "int64")
        yield ErrorSample(whole, {}, "do not broadcast")


class BitwiseAnd(_Bits):
    """Bits that are set in both.

    y = a ∧ b, bit by bit

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.bitwise.bitwise_and(g.constant(6), 3, name="y"))["y"])
    2
    """

    element = "and"
    ufunc = np.bitwise_and
    onnx = OnnxRule("BitwiseAnd", since=18)


class BitwiseOr(_Bits):
    """Bits that are set in at least one.

    y = a ∨ b, bit by bit

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.bitwise.bitwise_or(g.constant(6), 3, name="y"))["y"])
    7
    """

    element = "or"
    ufunc = np.bitwise_or
    onnx = OnnxRule("BitwiseOr", since=18)


class BitwiseXor(_Bits):
    """Bits that are set in exactly one.

    y = a ⊕ b, bit by bit

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.bitwise.bitwise_xor(g.constant(6), 3, name="y"))["y"])
    5
    """

    element = "xor"
    ufunc = np.bitwise_xor
    onnx = OnnxRule("BitwiseXor", since=18)


class BitwiseNot(_Unary):
    """All bits the other way.

    y = ¬x, bit by bit

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.bitwise.bitwise_not(g.constant([0, 5]), name="y"))["y"].tolist()
    [-1, -6]
    """

    namespace = "bitwise"
    element = "not"
    is_method = False
    accepts = "bui"
    ufunc = np.bitwise_not
    onnx = OnnxRule("BitwiseNot", since=18)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[0, 5], [-1, 7]]),))
        yield Sample((np.array([True, False]),))
        yield Sample((np.zeros((0, 2), np.uint8),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "does not take float32")


class _Shift(_Bits):
    """A shift of the bits of ``x``; its result has the dtype of ``x``."""

    accepts = "ui"

    def infer(self, x: TensorSpec, n: TensorSpec) -> TensorSpec:
        for s in (x, n):
            if kind(s.dtype) not in "ui":
                raise DTypeError(f"{self.name} does not take {s.dtype}")
        return TensorSpec(broadcast(x.shape, n.shape), x.dtype)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[5], [-3]]), np.array([1, 6, 63])))
        yield Sample((np.array([0xF1, 7], np.uint8), np.array(3, np.uint8)))
        yield Sample((np.array(-100, np.int16), np.array([0, 2, 17], np.int64)))
        yield Sample((np.zeros((0, 2), np.int32), np.array([1, 2], np.int8)))


class LeftShift(_Shift):
    """Bits moved up; zeros come in, and a shift by the width or more leaves none.

    y = x·2ⁿ, cut to the dtype of x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.bitwise.left_shift(g.constant(3), 2, name="y"))["y"])
    12
    """

    onnx = OnnxRule("BitShift", since=11, fixed={"direction": "LEFT"})

    def forward(self, x: Any, n: Any) -> Any:
        width = 8 * x.dtype.itemsize
        inside = (n >= 0) & (n < width)
        moved = np.left_shift(x, np.where(inside, n, 0).astype(x.dtype))
        return np.where(inside, moved, 0).astype(x.dtype)


class RightShift(_Shift):
    """Bits moved down; the sign comes in, zeros for unsigned numbers.

    y = ⌊x / 2ⁿ⌋

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.bitwise.right_shift(g.constant([12, -12]), 2, name="y"))["y"].tolist()
    [3, -3]
    """

    onnx = OnnxRule("BitShift", since=11, fixed={"direction": "RIGHT"})

    def forward(self, x: Any, n: Any) -> Any:
        width = 8 * x.dtype.itemsize
        inside = (n >= 0) & (n < width)
        moved = np.right_shift(x, np.where(inside, n, 0).astype(x.dtype))
        return np.where(inside, moved, np.where(x < 0, -1, 0).astype(x.dtype))


class _Rotation(_Shift):
    """Bits that leave at one end come in at the other."""

    left: ClassVar[bool]

    def forward(self, x: Any, n: Any) -> Any:
        width = 8 * x.dtype.itemsize
        unsigned = np.dtype(f"uint{width}")
        bits, up = x.astype(unsigned), n % width
        up = (up if self.left else (width - up) % width).astype(unsigned)
        down = ((width - up) % width).astype(unsigned)
        return np.asarray((bits << up) | (bits >> down)).astype(x.dtype)


class RotateLeft(_Rotation):
    """Bits moved up; those that leave come in at the lower end.

    y = x·2ⁿ mod 2ʷ + ⌊x / 2ʷ⁻ⁿ⌋ for w bits

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([129, 1], dtype="uint8")
    >>> g.output({}, gw.bitwise.rotate_left(x, 1, name="y"))["y"].tolist()
    [3, 2]
    """

    left = True


class RotateRight(_Rotation):
    """Bits moved down; those that leave come in at the upper end.

    y = ⌊x / 2ⁿ⌋ + x·2ʷ⁻ⁿ mod 2ʷ for w bits

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([129, 2], dtype="uint8")
    >>> g.output({}, gw.bitwise.rotate_right(x, 1, name="y"))["y"].tolist()
    [192, 1]
    """

    left = False


class Popcount(_Unary):
    """Number of bits that are set, in two's complement.

    y = Σᵢ bit i of x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.bitwise.popcount(g.constant([7, -1], dtype="int8"), name="y"))["y"].tolist()
    [3, 8]
    """

    namespace = "bitwise"
    is_method = False
    accepts = "ui"

    def infer(self, x: TensorSpec) -> TensorSpec:
        return super().infer(x).with_dtype(x.dtype)

    def forward(self, x: Any) -> Any:
        return np.bitwise_count(x.astype(f"uint{8 * x.dtype.itemsize}")).astype(x.dtype)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[0, 5], [-1, 7]]),))
        yield Sample((np.array(255, np.uint8),))
        yield Sample((np.zeros((0, 2), np.int32),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "does not take float32")


class BitsHammingDistance(_Reduction):
    """Number of bits in which two tensors differ.

    y = Σ popcount(a ⊕ b) : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.bitwise.bits_hamming_distance(g.constant([7, 1]), g.constant([4, 0]), name="y")
    >>> int(g.output({}, y)["y"])
    3
    """

    namespace = "bitwise"
    is_method = False
    accepts: ClassVar[str] = "ui"

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:  # type: ignore[override]
        joint = TensorSpec(broadcast(a.shape, b.shape), promote(a.dtype, b.dtype))
        return super().infer(joint).with_dtype("int64")

    def forward(self, a: Any, b: Any) -> Any:
        joint = promoted(a, b)
        apart = a.astype(joint, copy=False) ^ b.astype(joint, copy=False)
        counts = np.bitwise_count(apart.astype(f"uint{8 * joint.itemsize}"))
        axes = self.axes(apart.ndim)
        return counts.sum(axes, dtype=np.int64, keepdims=self.keepdims)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = np.array([[7, 1], [-1, 0]]), np.array([4, 0])
        yield Sample((a, b))
        yield Sample((a, b), {"axis": 1, "keepdims": True})
        yield Sample((np.zeros((0, 2), np.uint8), np.ones((0, 2), np.uint8)), {"axis": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2,))), {}, "does not take float32")


class BitCast(Op):
    """The same bytes, read as another dtype of the same width.

    bytes(y) = bytes(x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> hex(g.output({}, gw.bitwise.bit_cast(g.constant(1.0), "int32", name="y"))["y"])
    '0x3f800000'
    """

    namespace = "bitwise"
    dtype: np.dtype[Any] = attr(doc="Dtype that the bytes are read as.")
    onnx = OnnxRule("BitCast", since=26, rename={"dtype": "to"})

    def infer(self, x: TensorSpec) -> TensorSpec:
        if x.dtype.itemsize != self.dtype.itemsize:
            raise DTypeError(
                f"{x.dtype} and {self.dtype} differ in width",
                need=f"a dtype of {x.dtype.itemsize} bytes",
            )
        return x.with_dtype(self.dtype)

    def forward(self, x: Any) -> Any:
        return np.array(x, order="C").view(self.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[1, -1]], np.int64),), {"dtype": "uint64"})
        yield Sample((np.array(0x3C00, np.uint16),), {"dtype": "float16"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"dtype": "int64"}, "differ in width")
