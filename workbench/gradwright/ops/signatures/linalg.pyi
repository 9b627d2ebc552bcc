"""Functions of the namespace linalg; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from gradwright.graph import Tensor

def dot(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Product as by ``numpy.dot``: of vectors, of matrices, or over the last axis of ``a``.

    y[i…, j…, k] = Σₙ a[i…, n]·b[j…, n, k]
    """

def einsum(
    equation: str, *operands: Tensor | ArrayLike | Sequence[Tensor], name: str | None = None
) -> Tensor:
    """Sum of products over axes named by letters, in numpy's notation.

    y[out] = Σ over all other labels of Π operands[labels]

    ``...`` stands for further axes, which broadcast; a label that an operand repeats takes its
    diagonal; without ``->`` the result has the labels that occur once, in alphabetical order.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, k = g.placeholder("q", ("B", "T", 4)), g.placeholder("k", ("B", "S", 4))
    >>> gw.einsum("btd,bsd->bts", q, k).shape
    (B, T, S)

    Attributes:
        equation: Labels of the operands and of the result, such as "ij,jk->ik".
    """

def matmul(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Matrix product over the last two axes; leading axes broadcast, vectors as in numpy.

    y[…, i, j] = Σₖ a[…, i, k]·b[…, k, j]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", ("B", "T", 8)), g.placeholder("w", (8, 4))
    >>> (x @ w).shape
    (B, T, 4)
    """

def norm(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ord: float = 2.0,
    *,
    name: str | None = None,
) -> Tensor:
    """Vector norm over axes; its gradient at 0 is taken to be 0.

    y = (Σ |x|ᵖ)^(1/p) for p = ord, max |x| for ord = ∞

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.norm(g.constant([3.0, 4.0])))["norm"])
    5.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
        ord: Order p >= 1 of the norm, or infinity.
    """

def outer(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """All products of an element of ``a`` and one of ``b``, both read in row-major order.

    y[i, j] = a[i]·b[j]
    """

def tensordot(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    axes: int | tuple[Any, Any] = 2,
    *,
    name: str | None = None,
) -> Tensor:
    """Sum of products over the last axes of ``a`` and the first of ``b``, or over given axes.

    y[i…, j…] = Σₖ… a[i…, k…]·b[k…, j…]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = g.placeholder("a", ("B", 3, 4)), g.placeholder("b", (3, 4, 5))
    >>> gw.tensordot(a, b).shape
    (B, 5)

    Attributes:
        axes: How many axes, or those of a and those of b.
    """
