"""Functions of the namespace linalg; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike, DTypeLike

from gradwright.graph import Tensor
from gradwright.spec import AnyDim

def band_part(x: Tensor | ArrayLike, lower: int, upper: int, *, name: str | None = None) -> Tensor:
    """Band around the main diagonal of matrices, the rest zero.

    y[…, i, j] = x[…, i, j] if i − j ≤ lower and j − i ≤ upper, else 0; −1 keeps the whole side

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.linalg.band_part(g.constant([[1, 2], [3, 4]]), 0, -1))["band_part"].tolist()
    [[1, 2], [0, 4]]

    Attributes:
        lower: How many diagonals below the main one stay; -1: all.
        upper: How many diagonals above the main one stay; -1: all.
    """

def cholesky(x: Tensor | ArrayLike, upper: bool = False, *, name: str | None = None) -> Tensor:
    """Cholesky factor of Hermitian positive definite matrices.

    y·yᴴ = (x + xᴴ)/2, y lower triangular; or yᴴ·y with ``upper``

    Both triangles are read, so that the gradient is Hermitian (Murray 2016). Matrices that are not
    positive definite raise an error when run.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[4.0, 2.0], [2.0, 5.0]])
    >>> g.output({}, gw.linalg.cholesky(x))["cholesky"].tolist()
    [[2.0, 0.0], [1.0, 2.0]]

    Attributes:
        upper: Whether to return the upper factor yᴴ instead.
    """

def condition_number(
    x: Tensor | ArrayLike, p: float | str = 2, *, name: str | None = None
) -> Tensor:
    """Condition of matrices: how much larger a relative error may become when solving.

    y = s₀ / sₖ₋₁ for ``p`` 2, its reciprocal for −2, else ‖x‖·‖x⁻¹‖

    A singular matrix has condition ∞ for ``p`` 2, and raises an error for norms that need x⁻¹.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[4.0, 0.0], [0.0, 2.0]])
    >>> float(g.output({}, gw.linalg.condition_number(x))["condition_number"])
    2.0

    Attributes:
        p: Norm: 2, -2, 1, inf (largest sums of columns, rows) or "fro".
    """

def cross(
    a: Tensor | ArrayLike, b: Tensor | ArrayLike, axis: int = -1, *, name: str | None = None
) -> Tensor:
    """Cross product of vectors of three components; other axes broadcast.

    y = (a₁b₂ − a₂b₁, a₂b₀ − a₀b₂, a₀b₁ − a₁b₀)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = g.constant([1, 0, 0]), g.constant([0, 1, 0])
    >>> g.output({}, gw.linalg.cross(a, b))["cross"].tolist()
    [0, 0, 1]

    Attributes:
        axis: Axis of the components.
    """

def det(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Determinant of square matrices; its gradient is right for singular ones, too.

    y = det x,  ∂y/∂x = adj(x)ᵀ

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.linalg.det(g.constant([[1.0, 2.0], [3.0, 4.0]])))["det"].round(4))
    -2.0
    """

def dot(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Product as by ``numpy.dot``: of vectors, of matrices, or over the last axis of ``a``.

    y[i…, j…, k] = Σₙ a[i…, n]·b[j…, n, k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.dot(g.constant([1.0, 2.0]), g.constant([3.0, 4.0]))
    >>> g.output({}, y)["dot"].tolist()
    11.0
    """

def eig(x: Tensor | ArrayLike, *, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of general square matrices; always complex.

    x·v = v·diag(w), |vⱼ| = 1

    For ``x: f32[..., N, N]``, ``w: c64[..., N]`` in LAPACK's order and ``v: c64[..., N, N]``, one
    vector per column, its largest component real and positive. The gradient needs as many
    independent vectors as there are columns, and that by v eigenvalues that differ (Boeddeker et
    al. 2017).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w, v = gw.linalg.eig(g.constant([[0.0, 1.0], [-1.0, 0.0]]))
    >>> sorted(g.output({}, w)[w.name].imag.round(4).tolist())
    [-1.0, 1.0]
    """

def eigh(x: Tensor | ArrayLike, *, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues, in ascending order, and orthonormal eigenvectors of Hermitian matrices.

    (x + xᴴ)/2 = v·diag(w)·vᴴ

    For ``x: f32[..., N, N]``, ``w: f32[..., N]`` and ``v: f32[..., N, N]``, one vector per column,
    its largest component positive. Both triangles of x are read, so that the gradient is Hermitian.
    Where eigenvalues are equal (to 4 roundings of the largest), functions of v alone have the
    gradient of functions of the eigenspaces, as v[:, :2] @ v[:, :2].mT is one of the first; those
    of w and v have NaN, unless nothing flows to the vectors there and the same to both values.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w, v = gw.linalg.eigh(g.constant([[2.0, 1.0], [1.0, 2.0]]))
    >>> g.output({}, w)[w.name].round(4).tolist()
    [1.0, 3.0]
    """

def eigvals(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Eigenvalues of general square matrices, in the order of ``eig``; always complex.

    det(x − w) = 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = gw.linalg.eigvals(g.constant([[0.0, 1.0], [-1.0, 0.0]]), name="w")
    >>> g.output({}, w)["w"].real.tolist()
    [0.0, 0.0]
    """

def eigvalsh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Eigenvalues of Hermitian matrices, in ascending order.

    det((x + xᴴ)/2 − w) = 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = gw.linalg.eigvalsh(g.constant([[2.0, 1.0], [1.0, 2.0]]), name="w")
    >>> g.output({}, w)["w"].round(4).tolist()
    [1.0, 3.0]
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

def inv(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Inverse of square matrices.

    y·x = x·y = 1

    Singular matrices raise an error when run.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[2.0, 0.0], [1.0, 1.0]])
    >>> g.output({}, gw.linalg.inv(x))["inv"].tolist()
    [[0.5, 0.0], [-0.5, 1.0]]
    """

def logdet(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Logarithm of determinants; NaN where one is negative, −∞ for 0.

    y = ln det x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.linalg.logdet(g.constant([[2.0, 0.0], [0.0, 0.5]])))["logdet"])
    0.0
    """

def lstsq(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    rtol: float | None = None,
    l2_regularizer: float = 0.0,
    *,
    name: str | None = None,
) -> Tensor:
    """Least-squares solution, the smallest one where there are several.

    y = argmin ‖a·y − b‖² + ℓ·‖y‖², which is a⁺·b without regularisation

    ``a: f32[..., M, N]``, ``b: f32[..., M, K]`` or one vector ``f32[M]``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = g.constant([[1.0], [1.0]]), g.constant([1.0, 2.0])
    >>> g.output({}, gw.linalg.lstsq(a, b))["lstsq"].round(4).tolist()
    [1.5]

    Attributes:
        rtol: Relative size of singular values that count as 0; None: max(M, N)·eps.
        l2_regularizer: The weight ℓ of the solution's own size.
    """

def lu(x: Tensor | ArrayLike, *, name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Product of a permutation, a unit lower and an upper triangular matrix.

    x = p·l·u

    For ``x: f32[..., M, N]`` and K = min(M, N): ``p: f32[..., M, M]``, ``l: f32[..., M, K]`` with
    ones on its diagonal, ``u: f32[..., K, N]``. Pivots are the largest of their column. The first
    K rows and columns have to be regular for the gradient, and M and N to be known.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, l, u = gw.linalg.lu(g.constant([[1.0, 2.0], [2.0, 2.0]]))
    >>> [y.tolist() for y in g.output({}, l, u).values()]
    [[[1.0, 0.0], [0.5, 1.0]], [[2.0, 2.0], [0.0, 1.0]]]
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

def matrix_exp(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Exponential of square matrices, by scaling, a Padé approximant and squaring.

    y = Σₖ xᵏ / k!

    The gradient is a block of the exponential of ``[[xᴴ, g], [0, xᴴ]]`` (Najfeld and Havel 1995).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[0.0, 1.0], [0.0, 0.0]])
    >>> g.output({}, gw.linalg.matrix_exp(x))["matrix_exp"].tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """

def matrix_power(x: Tensor | ArrayLike, n: int, *, name: str | None = None) -> Tensor:
    """Whole power of square matrices, by repeated squaring.

    y = xⁿ, of the inverse for n < 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1.0, 1.0], [0.0, 1.0]])
    >>> g.output({}, gw.linalg.matrix_power(x, 5))["matrix_power"].tolist()
    [[1.0, 5.0], [0.0, 1.0]]

    Attributes:
        n: The exponent.
    """

def matrix_rank(
    x: Tensor | ArrayLike, rtol: float | None = None, *, name: str | None = None
) -> Tensor:
    """Number of singular values above ``rtol`` times the largest.

    y = #{i : sᵢ > rtol·s₀}

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1.0, 2.0], [2.0, 4.0]])
    >>> int(g.output({}, gw.linalg.matrix_rank(x))["matrix_rank"])
    1

    Attributes:
        rtol: Relative size that counts as 0; None: max(M, N)·eps.
    """

def multi_dot(*xs: Tensor | ArrayLike | Sequence[Tensor], name: str | None = None) -> Tensor:
    """Product of several matrices in the order that multiplies the fewest numbers.

    y = x₀·x₁·…·xₙ₋₁; the first may be a row vector and the last a column vector

    The order is found by dynamic programming (Cormen et al., section 15.2) where all sizes are
    known, else it is from left to right.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = g.placeholder("a", (2, 99)), g.placeholder("b", (99, 3))
    >>> gw.linalg.multi_dot(a, b, g.placeholder("c", (3,))).shape
    (2,)
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

    y = (Σ |x|ᵖ)^(1/p) for p = ord, max |x| for ord = ∞, min |x| for −∞, Σ [x ≠ 0] for 0

    Orders below 1 are no norms, but numpy and torch take them, too. There elements that are 0 get
    the gradient 0, as in torch, even where the true slope is infinite, and order 0 has none.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.norm(g.constant([3.0, 4.0])))["norm"])
    5.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
        ord: Order p: any number, ∞ or −∞.
    """

def outer(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """All products of an element of ``a`` and one of ``b``, both read in row-major order.

    y[i, j] = a[i]·b[j]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.outer(g.constant([1.0, 2.0]), g.constant([3.0, 4.0]))
    >>> g.output({}, y)["outer"].tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """

def pinv(x: Tensor | ArrayLike, rtol: float | None = None, *, name: str | None = None) -> Tensor:
    """Moore-Penrose inverse, from the singular values above ``rtol`` times the largest.

    y = V·S⁺·Uᴴ for x = U·S·Vᴴ

    Its gradient (Golub and Pereyra 1973) holds as long as the rank stays.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.linalg.pinv(g.constant([[2.0], [0.0]])))["pinv"].tolist()
    [[0.5, 0.0]]

    Attributes:
        rtol: Relative size of singular values that count as 0; None: max(M, N)·eps.
    """

def qr(
    x: Tensor | ArrayLike, mode: str = "reduced", *, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Product of a matrix with orthonormal columns and an upper triangular one.

    x = q·r,  qᴴ·q = 1

    For ``x: f32[..., M, N]`` and K = min(M, N), "reduced" gives ``q: f32[..., M, K]`` and
    ``r: f32[..., K, N]``, "complete" ``q: f32[..., M, M]`` and ``r: f32[..., M, N]``. Signs are
    those of Householder reflections, as in LAPACK. The first K columns of x have to be
    independent for the gradient. The columns of q beyond the N-th may turn among themselves: the
    gradient is that of functions which do not see such turns. M and N have to be known.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, r = gw.linalg.qr(g.placeholder("x", ("B", 4, 3)))
    >>> q.shape, r.shape
    ((B, 4, 3), (B, 3, 3))

    Attributes:
        mode: Shape of the results. One of 'reduced', 'complete'.
    """

def slogdet(x: Tensor | ArrayLike, *, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Sign and logarithm of the modulus of determinants, which themselves would overflow.

    (sign, l) with det x = sign·eˡ; 0 and −∞ for singular matrices

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> sign, l = gw.linalg.slogdet(g.constant([[0.0, 1e-30], [1e-30, 0.0]]))
    >>> [round(float(y), 2) for y in g.output({}, sign, l).values()]
    [-1.0, -138.16]
    """

def solve(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Solution of systems of linear equations, by LU with partial pivoting.

    a·y = b

    ``a: f32[..., N, N]``, ``b: f32[..., N, K]`` or one vector ``f32[N]`` for all systems. Singular
    matrices raise an error when run.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = g.constant([[2.0, 0.0], [1.0, 1.0]]), g.constant([2.0, 3.0])
    >>> g.output({}, gw.linalg.solve(a, b))["solve"].tolist()
    [1.0, 2.0]
    """

def svd(
    x: Tensor | ArrayLike, full_matrices: bool = True, *, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Singular value decomposition.

    x = u·diag(s)·vh,  uᴴ·u = vh·vhᴴ = 1,  s₀ ≥ s₁ ≥ … ≥ 0

    For ``x: f32[..., M, N]`` and K = min(M, N): ``u: f32[..., M, K]``, ``s: f32[..., K]`` and
    ``vh: f32[..., K, N]``, or ``u: f32[..., M, M]`` and ``vh: f32[..., N, N]`` with
    ``full_matrices``, where M and N have to be known. The largest component of each column of u is
    real and positive (of those within 0.1 % the first), so that results are the same everywhere.

    Gradients by u and vh need singular values that differ and, unless x is square, are not 0
    (Townsend 2016). Where they do not (to 4 roundings of the largest), functions of u and vh alone
    have the gradient of functions of the spaces, as the nearest orthogonal matrix u @ vh is one;
    those of s, too, have NaN, unless nothing flows to the vectors there. The vectors beyond the
    K-th may turn among themselves: the gradient is that of functions which do not see such turns.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> u, s, vh = gw.linalg.svd(g.constant([[3.0, 0.0], [0.0, -4.0], [0.0, 0.0]]))
    >>> u.shape, vh.shape, g.output({}, s)[s.name].round(4).tolist()
    ((3, 3), (2, 2), [4.0, 3.0])

    Attributes:
        full_matrices: Whether u and vh are square.
    """

def svdvals(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Singular values, in descending order.

    s = √ of the eigenvalues of xᴴ·x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> s = gw.linalg.svdvals(g.constant([[3.0, 0.0], [0.0, -4.0]]), name="s")
    >>> g.output({}, s)["s"].round(4).tolist()
    [4.0, 3.0]
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

def tri(
    n: AnyDim,
    m: AnyDim | None = None,
    k: int = 0,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Matrix of ones at and below a diagonal, zeros above.

    y[i, j] = [j − i ≤ k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> with g:
    ...     y = gw.linalg.tri(2, 3)
    >>> g.output({}, y)["tri"].tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]

    Attributes:
        n: Number of rows.
        m: Number of columns; None: as many as rows.
        k: Diagonal: 0 the main one, above it positive.
        dtype: Dtype of the result.
    """

def triangular_solve(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    lower: bool = True,
    adjoint: bool = False,
    unit_diagonal: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Solution of systems with a triangular matrix; its other triangle is not read.

    tri(a)·y = b, or tri(a)ᴴ·y = b with ``adjoint``

    ``a: f32[..., N, N]``, ``b: f32[..., N, K]`` or one vector ``f32[N]`` for all systems.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = g.constant([[2.0, 9.0], [1.0, 1.0]]), g.constant([2.0, 3.0])
    >>> g.output({}, gw.linalg.triangular_solve(a, b))["triangular_solve"].tolist()
    [1.0, 2.0]

    Attributes:
        lower: Whether the lower triangle is meant, or the upper one.
        adjoint: Whether to solve with the conjugate transpose.
        unit_diagonal: Whether the diagonal counts as ones.
    """

def vander(
    x: Tensor | ArrayLike,
    n: AnyDim | None = None,
    increasing: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Powers of the elements of vectors, one row each (a Vandermonde matrix).

    y[…, i, j] = x[…, i]ⁿ⁻¹⁻ʲ, or x[…, i]ʲ with ``increasing``

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.linalg.vander(g.constant([2.0, 3.0]), 3))["vander"].tolist()
    [[4.0, 2.0, 1.0], [9.0, 3.0, 1.0]]

    Attributes:
        n: Number of powers; None: as many as elements.
        increasing: Whether powers grow to the right.
    """
