"""Functions of the namespace base; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike, DTypeLike

from gradwright.graph import Tensor
from gradwright.spec import AnyDim

def all(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Whether all hold.

    y = ∀ x

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def any(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Whether at least one holds.

    y = ∃ x

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def arange(
    start: float | AnyDim,
    stop: float | AnyDim | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Numbers from ``start`` up to ``stop``, which is left out.

    yᵢ = start + i·step

    With one number, it is ``stop``. Whole numbers give int64, others float32, unless ``dtype`` says
    else; where they are known while building, they may decide shapes.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> with g:
    ...     gw.arange(x.shape[0] * 2).shape, gw.arange(5, 0, -2).spec.value.tolist()
    ((2*B,), [5, 3, 1])

    Attributes:
        start: First number, or how many numbers from 0 on.
        stop: Where to stop.
        step: Distance of two numbers.
        dtype: Dtype of the result.
    """

def argmax(
    x: Tensor | ArrayLike,
    axis: int | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Place of the largest element; the first of equal ones.

    y = argmax x : i64

    Attributes:
        axis: Axis to search; None searches the flattened tensor.
        keepdims: Keep reduced axes with size 1.
    """

def argmin(
    x: Tensor | ArrayLike,
    axis: int | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Place of the smallest element; the first of equal ones.

    y = argmin x : i64

    Attributes:
        axis: Axis to search; None searches the flattened tensor.
        keepdims: Keep reduced axes with size 1.
    """

def argsort(
    x: Tensor | ArrayLike, axis: int = -1, descending: bool = False, *, name: str | None = None
) -> Tensor:
    """Places of the elements in order; equal ones keep theirs.

    x[…, y₀], x[…, y₁], … is in order

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([2.0, 3.0, 1.0])
    >>> g.output({}, gw.argsort(x, descending=True))["argsort"].tolist()
    [1, 0, 2]

    Attributes:
        axis: Axis to sort along.
        descending: Largest first.
    """

def boolean_mask(
    x: Tensor | ArrayLike, mask: Tensor | ArrayLike, axis: int = 0, *, name: str | None = None
) -> Tensor:
    """Slices of ``x`` where the mask holds; their number is known only when run.

    y = x[…, mask, …], the axes of the mask joined into one

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None,))
    >>> g.output({"x": [1.0, -2.0, 3.0]}, gw.boolean_mask(x, x > 0.0))["boolean_mask"].tolist()
    [1.0, 3.0]

    Attributes:
        axis: First axis of x that the mask covers.
    """

def broadcast_like(
    x: Tensor | ArrayLike, like: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Broadcast ``x`` to the shape of ``like``.

    y = x, repeated along the axes that ``x`` lacks
    """

def broadcast_to(
    x: Tensor | ArrayLike,
    shape: Tensor | ArrayLike | Sequence[AnyDim] | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Repeat ``x`` along the axes in which it has size 1, or which it lacks.

    y = x, broadcast as by numpy

    The shape is an attribute or an integer tensor.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.broadcast_to(g.constant([1, 2]), (2, 2)))["broadcast_to"].tolist()
    [[1, 2], [1, 2]]

    Attributes:
        shape: New shape, unless it is given as a tensor.
    """

def cast(x: Tensor | ArrayLike, dtype: DTypeLike, *, name: str | None = None) -> Tensor:
    """Convert the elements to another dtype; float to int rounds toward zero.

    y = dtype(x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cast(g.constant([-1.5, 2.5]), "int32"))["cast"].tolist()
    [-1, 2]

    Attributes:
        dtype: Dtype of the result.
    """

def concat(
    *xs: Tensor | ArrayLike | Sequence[Tensor], axis: int = 0, name: str | None = None
) -> Tensor:
    """Join tensors along an existing axis.

    y = (x₀, x₁, …) along the axis

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.concat([g.placeholder("a", ("B", 2)), g.placeholder("b", (3, 2))]).shape
    (B + 3, 2)

    Attributes:
        axis: Axis to join along.
    """

def count_nonzero(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Number of elements that are not 0.

    y = Σ [x ≠ 0] : i64

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def cumsum(
    x: Tensor | ArrayLike,
    axis: int,
    reverse: bool = False,
    exclusive: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Running sum along an axis; halves accumulate in float32, bools and ints in 64-bit ints.

    yᵢ = Σⱼ₍ⱼ≤ᵢ₎ xⱼ;  exclusive: j < i;  reverse: from the end

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cumsum(g.constant([1, 2, 3]), 0, exclusive=True))["cumsum"].tolist()
    [0, 1, 3]

    Attributes:
        axis: Axis to sum along.
        reverse: Sum from the end.
        exclusive: Leave out the element itself.
    """

def diag(x: Tensor | ArrayLike, k: int = 0, *, name: str | None = None) -> Tensor:
    """Matrix with the vector on a diagonal; of matrices, that diagonal of the last two axes.

    y[i, i + k] = x[i], or y[…, i] = x[…, i, i + k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.diag(g.constant([1, 2])))["diag"].tolist()
    [[1, 0], [0, 2]]

    Attributes:
        k: Diagonal: 0 the main one, above it positive.
    """

def expand_dims(
    x: Tensor | ArrayLike, axis: int | Sequence[int], *, name: str | None = None
) -> Tensor:
    """Insert axes of size 1.

    y[…, 0, …] = x[…]

    Attributes:
        axis: Positions of the new axes in the result.
    """

def eye(
    n: AnyDim,
    m: AnyDim | None = None,
    k: int = 0,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Matrix with ones on a diagonal and zeros elsewhere.

    y[i, j] = [j − i = k]

    Attributes:
        n: Number of rows.
        m: Number of columns; None: as many as rows.
        k: Diagonal: 0 the main one, above it positive.
        dtype: Dtype of the result.
    """

def flatten(
    x: Tensor | ArrayLike, start_axis: int = 0, end_axis: int = -1, *, name: str | None = None
) -> Tensor:
    """Join neighbouring axes into one.

    y[…, i·n + j, …] = x[…, i, j, …]

    Attributes:
        start_axis: First axis to join.
        end_axis: Last axis to join.
    """

def flip(
    x: Tensor | ArrayLike, axis: int | Sequence[int] | None = None, *, name: str | None = None
) -> Tensor:
    """Reverse the order of the elements along axes.

    y[…, i, …] = x[…, n − 1 − i, …]

    Attributes:
        axis: Axes to reverse; None reverses all.
    """

def full(
    shape: Tensor | ArrayLike | Sequence[AnyDim] | None = None,
    fill_value: float = 0.0,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """A tensor filled with one number.

    yᵢ = fill_value

    The shape is an attribute or an integer tensor.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> with g:
    ...     y = gw.full((2,), 0.5)
    >>> g.output({}, y)["full"].tolist()
    [0.5, 0.5]

    Attributes:
        shape: Shape, unless it is given as a tensor.
        fill_value: The number.
        dtype: Dtype of the result.
    """

def gather(
    x: Tensor | ArrayLike, indices: Tensor | ArrayLike, axis: int = 0, *, name: str | None = None
) -> Tensor:
    """Slices along an axis, at the places that ``indices`` name; negative ones count from the end.

    y[…, i, …] = x[…, indices[i], …], where i runs over all axes of ``indices``

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> table = g.placeholder("table", (1000, 64))
    >>> gw.gather(table, g.placeholder("ids", ("B", "T"), "int64")).shape
    (B, T, 64)

    Attributes:
        axis: Axis of x to take from.
    """

def gather_nd(
    x: Tensor | ArrayLike, indices: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Slices at the coordinates that the last axis of ``indices`` holds.

    y[i, …] = x[indices[i, 0], …, indices[i, n − 1], …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1, 2], [3, 4]])
    >>> g.output({}, gw.gather_nd(x, [[0, 1], [1, 0]]))["gather_nd"].tolist()
    [2, 3]
    """

def identity(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """The tensor itself, as a node of its own.

    y = x
    """

def index_add(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    updates: Tensor | ArrayLike,
    axis: int = 0,
    *,
    name: str | None = None,
) -> Tensor:
    """Add slices to those of ``x`` that ``indices`` name; repeated places add up.

    y = x,  y[…, indices[i], …] += updates[…, i, …]

    Attributes:
        axis: Axis of x to add along.
    """

def linspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """``num`` numbers at equal distances from ``start`` to ``stop``.

    yᵢ = start + i·(stop − start)/(num − 1)

    Attributes:
        start: First number.
        stop: Last number.
        num: How many.
        endpoint: Whether stop is the last number, or the one after it.
        dtype: Dtype of the result.
    """

def logsumexp(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Logarithm of the sum of exponentials, safe from overflow.

    y = ln Σ exp x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.logsumexp(g.constant([1000.0, -1000.0])))["logsumexp"])
    1000.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def max(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Largest element over axes; equal ones share the gradient.

    y = max x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (3,))
    >>> dx, = gw.gradients(x.max(), [x])
    >>> g.output({"x": [1.0, 2.0, 2.0]}, dx)[dx.name].tolist()
    [0.0, 0.5, 0.5]

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def mean(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Mean over axes; of ints as float32, halves accumulate in float32.

    y = Σ x / n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", "T", 3))
    >>> x.mean(axis=(0, 1)).shape, x.mean(axis=-1, keepdims=True).shape
    ((3,), (B, T, 1))

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def min(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Smallest element over axes; equal ones share the gradient.

    y = min x

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def nonzero(x: Tensor | ArrayLike, *, name: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates of the elements that are not 0, one tensor per axis, in row-major order.

    (i₀, i₁, …) with x[i₀ₖ, i₁ₖ, …] ≠ 0 for k = 0 … n − 1

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> rows, columns = gw.nonzero(g.constant([[0, 1], [2, 0]]))
    >>> [a.tolist() for a in g.output({}, rows, columns).values()]
    [[0, 1], [1, 0]]
    """

def one_hot(
    indices: Tensor | ArrayLike,
    depth: AnyDim,
    axis: int = -1,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Rows that are 1 at one place and 0 elsewhere; all 0 for an index outside.

    y[…, k] = [indices[…] = k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.one_hot(g.constant([2, 0]), 3))["one_hot"].tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]

    Attributes:
        depth: Number of places.
        axis: Position of the new axis in the result.
        dtype: Dtype of the result.
    """

def ones_like(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Ones of the input's shape and dtype.

    yᵢ = 1
    """

def pad(
    x: Tensor | ArrayLike,
    pad_width: int | Sequence[Any],
    mode: str = "constant",
    value: float = 0.0,
    *,
    name: str | None = None,
) -> Tensor:
    """Extend a tensor at the ends of its axes.

    y[i] = x[i − before], and beyond the ends a constant, the edge, or x mirrored at the edge

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.pad(g.constant([1, 2, 3]), 2, mode="reflect"))["pad"].tolist()
    [3, 2, 1, 2, 3, 2, 1]

    Attributes:
        pad_width: Places before and after, for all axes or per axis.
        mode: What to fill with.
        value: The constant.
    """

def prod(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Product over axes; its gradient is right at zeros, too.

    y = Π x,  ∂y/∂xᵢ = Πⱼ﹙ⱼ≠ᵢ﹚ xⱼ

    Halves of the axis are multiplied with each other until one element is left, so that
    gradients of every order follow without a division.

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def reshape(
    x: Tensor | ArrayLike,
    shape: Tensor | ArrayLike | Sequence[AnyDim] | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Give the elements, read in row-major order, another shape.

    y.ravel() = x.ravel()

    The shape is an attribute or an integer tensor; one -1 stands for whatever is left.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 2, 3))
    >>> gw.reshape(x, (-1, 3)).shape, x.reshape(gw.shape_of(x)[:1] * 2, 3).shape
    ((2*B, 3), (2*B, 3))

    Attributes:
        shape: New shape, unless it is given as a tensor.
    """

def reshape_like(
    x: Tensor | ArrayLike, like: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Give ``x`` the shape of ``like``; both have the same number of elements.

    y = x, read in row-major order
    """

def roll(
    x: Tensor | ArrayLike,
    shift: int | Sequence[int],
    axis: int | Sequence[int] | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Shift elements along axes; those that leave at one end come in at the other.

    y[…, (i + shift) mod n, …] = x[…, i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.roll(g.constant([1, 2, 3]), 1))["roll"].tolist()
    [3, 1, 2]

    Attributes:
        shift: Places to shift by, per axis.
        axis: Axes; None rolls the flattened tensor.
    """

def scatter_add(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    updates: Tensor | ArrayLike,
    axis: int = -1,
    *,
    name: str | None = None,
) -> Tensor:
    """Add elements along an axis, at the places that ``indices`` name; repeated places add up.

    y = x,  y[indices[i, j], j] += updates[i, j] along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_add(g.constant([0, 0, 0]), [2, 0, 2], [1, 2, 3], name="y")
    >>> g.output({}, y)["y"].tolist()
    [2, 0, 4]

    Attributes:
        axis: Axis of x that indices count along.
    """

def scatter_nd_add(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    updates: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Add slices at the coordinates that ``indices`` hold; repeated places add up.

    y = x,  y[indices[i, 0], …, indices[i, n − 1], …] += updates[i, …]
    """

def scatter_nd_update(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    updates: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Write slices at the coordinates that ``indices`` hold; the last write counts.

    y = x,  y[indices[i, 0], …, indices[i, n − 1], …] = updates[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_nd_update(g.constant([[0, 0], [0, 0]]), [[1]], [[5, 6]], name="y")
    >>> g.output({}, y)["y"].tolist()
    [[0, 0], [5, 6]]
    """

def scatter_update(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    updates: Tensor | ArrayLike,
    axis: int = -1,
    *,
    name: str | None = None,
) -> Tensor:
    """Write elements along an axis, at the places that ``indices`` name; the last write counts.

    y = x,  y[indices[i, j], j] = updates[i, j] along axis 0

    Attributes:
        axis: Axis of x that indices count along.
    """

def shape_of(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Shape of a tensor as an integer vector.

    y = (d₀, …, dᵣ₋₁) : i64[r]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> gw.shape_of(x).spec.value.tolist(), x.reshape(gw.shape_of(x)[::-1]).shape
    ([B, 3], (3, B))
    """

def size_of(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike = "int64",
    *,
    name: str | None = None,
) -> Tensor:
    """Number of elements, in all or along some axes, as a scalar.

    y = Π d over the axes

    Attributes:
        axis: Axes that count; None counts all.
        dtype: Dtype of the result.
    """

def sort(
    x: Tensor | ArrayLike, axis: int = -1, descending: bool = False, *, name: str | None = None
) -> Tensor:
    """Elements in order.

    y₀ ≤ y₁ ≤ …, or ≥ if descending

    Attributes:
        axis: Axis to sort along.
        descending: Largest first.
    """

def split(
    x: Tensor | ArrayLike, parts: int | Sequence[AnyDim], axis: int = 0, *, name: str | None = None
) -> tuple[Tensor, ...]:
    """Take a tensor apart along an axis: into equal parts, or into parts of given sizes.

    yₖ = x[…, k·n/parts : (k + 1)·n/parts, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 6))
    >>> [str(y.spec) for y in gw.split(x, (1, -1), axis=1)]
    ['f32[B, 1]', 'f32[B, 5]']

    Attributes:
        parts: Number of equal parts, or sizes (one may be -1).
        axis: Axis to take apart.
    """

def squeeze(
    x: Tensor | ArrayLike, axis: int | Sequence[int] | None = None, *, name: str | None = None
) -> Tensor:
    """Drop axes of size 1.

    y[…] = x[…, 0, …]

    Attributes:
        axis: Axes to drop; None drops all of size 1.
    """

def stack(
    *xs: Tensor | ArrayLike | Sequence[Tensor], axis: int = 0, name: str | None = None
) -> Tensor:
    """Join tensors of one shape along a new axis.

    y[…, k, …] = xₖ[…]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> gw.stack([x, x], axis=1).shape
    (B, 2, 3)

    Attributes:
        axis: Position of the new axis in the result.
    """

def std(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ddof: int = 0,
    *,
    name: str | None = None,
) -> Tensor:
    """Standard deviation; its gradient where all elements are equal is taken to be 0.

    y = √(Σ (x − mean x)² / (n − ddof))

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
        ddof: What is taken off the number of elements; 1 gives the unbiased estimate.
    """

def stop_gradient(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """The tensor itself, taken as a constant by gradients.

    y = x,  ∂y/∂x := 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ())
    >>> dx, = gw.gradients(x * gw.stop_gradient(x), [x])
    >>> float(g.output({"x": 3.0}, dx)[dx.name])
    3.0
    """

def strided_slice(
    x: Tensor | ArrayLike, index: Sequence[Any], *, name: str | None = None
) -> Tensor:
    """Elements at regular places along axes: ``x[1:, ::-2, 0, None]``.

    y[i, …] = x[start + i·step, …]

    Attributes:
        index: Per axis a place or a slice; None for a new axis.
    """

def sum(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Sum over axes; halves accumulate in float32, bools and ints in 64-bit ints.

    y = Σ x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> x.sum(axis=1).shape, str((x > 0.0).sum().spec)
    ((B,), 'i64[]')

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def sum_like(x: Tensor | ArrayLike, like: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Sum ``x`` over the axes along which ``like`` was broadcast to it: broadcasting undone.

    yᵢ = Σ over the broadcast axes of x
    """

def swapaxes(x: Tensor | ArrayLike, axis1: int, axis2: int, *, name: str | None = None) -> Tensor:
    """Exchange two axes.

    y[…, j, …, i, …] = x[…, i, …, j, …]

    Attributes:
        axis1: One axis.
        axis2: The other axis.
    """

def take_along_axis(
    x: Tensor | ArrayLike, indices: Tensor | ArrayLike, axis: int = -1, *, name: str | None = None
) -> Tensor:
    """Elements along an axis, at the places that ``indices`` name.

    y[i, j] = x[indices[i, j], j] along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1, 2, 3], [4, 5, 6]])
    >>> g.output({}, gw.take_along_axis(x, [[2], [0]]))["take_along_axis"].tolist()
    [[3], [4]]

    Attributes:
        axis: Axis of x that indices count along.
    """

def tile(x: Tensor | ArrayLike, reps: int | Sequence[int], *, name: str | None = None) -> Tensor:
    """Repeat the whole tensor along axes.

    y[…, i, …] = x[…, i mod n, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.tile(g.constant([1, 2]), 2))["tile"].tolist()
    [1, 2, 1, 2]

    Attributes:
        reps: Repeats per axis; as many as axes, or for the last.
    """

def top_k(
    x: Tensor | ArrayLike, k: int, axis: int = -1, largest: bool = True, *, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along an axis, in order, and their places.

    values, indices = the first k of sort(x) and argsort(x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> values, places = gw.top_k(g.placeholder("x", (4,)), 2)
    >>> [a.tolist() for a in g.output({"x": [1.0, 4.0, 2.0, 4.0]}, values, places).values()]
    [[4.0, 4.0], [1, 3]]

    Attributes:
        k: How many.
        axis: Axis to search along.
        largest: The largest; otherwise the smallest.
    """

def transpose(
    x: Tensor | ArrayLike, axes: Sequence[int] | None = None, *, name: str | None = None
) -> Tensor:
    """Permute the axes.

    y[i₀, …] = x[permuted i]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.transpose(g.placeholder("x", ("B", "T", 8)), (0, 2, 1)).shape
    (B, 8, T)

    Attributes:
        axes: New order of the axes; None reverses them.
    """

def tril(x: Tensor | ArrayLike, k: int = 0, *, name: str | None = None) -> Tensor:
    """Lower triangle of the last two axes, zeros above.

    y[…, i, j] = x[…, i, j] if j − i ≤ k, else 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.tril(g.constant([[1, 2], [3, 4]])))["tril"].tolist()
    [[1, 0], [3, 4]]

    Attributes:
        k: Diagonal up to which elements stay: 0 the main one, above it positive.
    """

def triu(x: Tensor | ArrayLike, k: int = 0, *, name: str | None = None) -> Tensor:
    """Upper triangle of the last two axes, zeros below.

    y[…, i, j] = x[…, i, j] if j − i ≥ k, else 0

    Attributes:
        k: Diagonal up to which elements stay: 0 the main one, above it positive.
    """

def unstack(x: Tensor | ArrayLike, axis: int = 0, *, name: str | None = None) -> tuple[Tensor, ...]:
    """Take a tensor apart along an axis, which goes: one tensor per index.

    yₖ[…] = x[…, k, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> rows, columns = gw.unstack(gw.shape_of(g.placeholder("x", ("B", 3))))
    >>> str(rows.spec), rows.spec.value.item()
    ('i64[]', B)

    Attributes:
        axis: Axis to take apart; its size must be known.
    """

def var(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ddof: int = 0,
    *,
    name: str | None = None,
) -> Tensor:
    """Variance: mean squared distance from the mean.

    y = Σ (x − mean x)² / (n − ddof)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.var(g.constant([1.0, 3.0]), ddof=1))["var"])
    2.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
        ddof: What is taken off the number of elements; 1 gives the unbiased estimate.
    """

def zeros_like(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Zeros of the input's shape and dtype.

    yᵢ = 0
    """
