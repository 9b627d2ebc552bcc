"""Functions of the namespace bitwise; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence

from numpy.typing import ArrayLike, DTypeLike

from gradwright.graph import Tensor

def bit_cast(x: Tensor | ArrayLike, dtype: DTypeLike, *, name: str | None = None) -> Tensor:
    """The same bytes, read as another dtype of the same width.

    bytes(y) = bytes(x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> hex(g.output({}, gw.bitwise.bit_cast(g.constant(1.0), "int32", name="y"))["y"])
    '0x3f800000'

    Attributes:
        dtype: Dtype that the bytes are read as.
    """

def bits_hamming_distance(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Number of bits in which two tensors differ.

    y = Σ popcount(a ⊕ b) : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.bitwise.bits_hamming_distance(g.constant([7, 1]), g.constant([4, 0]), name="y")
    >>> int(g.output({}, y)["y"])
    3

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def bitwise_and(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Bits that are set in both.

    y = a ∧ b, bit by bit

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.bitwise.bitwise_and(g.constant(6), 3, name="y"))["y"])
    2
    """

def bitwise_not(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """All bits the other way.

    y = ¬x, bit by bit

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.bitwise.bitwise_not(g.constant([0, 5]), name="y"))["y"].tolist()
    [-1, -6]
    """

def bitwise_or(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Bits that are set in at least one.

    y = a ∨ b, bit by bit

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.bitwise.bitwise_or(g.constant(6), 3, name="y"))["y"])
    7
    """

def bitwise_xor(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Bits that are set in exactly one.

    y = a ⊕ b, bit by bit

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.bitwise.bitwise_xor(g.constant(6), 3, name="y"))["y"])
    5
    """

def left_shift(x: Tensor | ArrayLike, n: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Bits moved up; zeros come in, and a shift by the width or more leaves none.

    y = x·2ⁿ, cut to the dtype of x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.bitwise.left_shift(g.constant(3), 2, name="y"))["y"])
    12
    """

def popcount(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Number of bits that are set, in two's complement.

    y = Σᵢ bit i of x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.bitwise.popcount(g.constant([7, -1], dtype="int8"), name="y"))["y"].tolist()
    [3, 8]
    """

def right_shift(x: Tensor | ArrayLike, n: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Bits moved down; the sign comes in, zeros for unsigned numbers.

    y = ⌊x / 2ⁿ⌋

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.bitwise.right_shift(g.constant([12, -12]), 2, name="y"))["y"].tolist()
    [3, -3]
    """

def rotate_left(x: Tensor | ArrayLike, n: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Bits moved up; those that leave come in at the lower end.

    y = x·2ⁿ mod 2ʷ + ⌊x / 2ʷ⁻ⁿ⌋ for w bits

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([129, 1], dtype="uint8")
    >>> g.output({}, gw.bitwise.rotate_left(x, 1, name="y"))["y"].tolist()
    [3, 2]
    """

def rotate_right(
    x: Tensor | ArrayLike, n: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Bits moved down; those that leave come in at the upper end.

    y = ⌊x / 2ⁿ⌋ + x·2ʷ⁻ⁿ mod 2ʷ for w bits

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([129, 2], dtype="uint8")
    >>> g.output({}, gw.bitwise.rotate_right(x, 1, name="y"))["y"].tolist()
    [192, 1]
    """
