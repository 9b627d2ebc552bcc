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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.all(g.constant([True, False]))
    >>> g.output({}, y)["all"].tolist()
    False

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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.any(g.constant([True, False]))
    >>> g.output({}, y)["any"].tolist()
    True

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
    last: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Place of the largest element; the first of equal ones, unless the last is asked for.

    y = argmax x : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.argmax(g.constant([3, 9, 5]))
    >>> g.output({}, y)["argmax"].tolist()
    1

    Attributes:
        axis: Axis to search; None searches the flattened tensor.
        keepdims: Keep reduced axes with size 1.
        last: Take the last of equal ones, not the first.
    """

def argmin(
    x: Tensor | ArrayLike,
    axis: int | None = None,
    keepdims: bool = False,
    last: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Place of the smallest element; the first of equal ones, unless the last is asked for.

    y = argmin x : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.argmin(g.constant([3, 9, 5]))
    >>> g.output({}, y)["argmin"].tolist()
    0

    Attributes:
        axis: Axis to search; None searches the flattened tensor.
        keepdims: Keep reduced axes with size 1.
        last: Take the last of equal ones, not the first.
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

def assign(x: Tensor | ArrayLike, value: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """What ``x`` holds after ``value`` is assigned to it: ``value`` in the shape and dtype of x.

    y = value, broadcast to the shape of x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.assign(g.constant([1.0, 2.0]), 5, name="y"))["y"].tolist()
    [5.0, 5.0]
    """

def bincount(
    x: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    minlength: int = 0,
    name: str | None = None,
) -> Tensor:
    """How often each number ≥ 0 occurs, or the sum of its weights.

    y[k] = Σᵢ [xᵢ = k]·weightsᵢ for k < max(max x + 1, minlength)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.bincount(g.constant([1, 3, 1]), minlength=5, name="y"))["y"].tolist()
    [0, 2, 0, 1, 0]

    Attributes:
        minlength: Least number of counts.
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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.broadcast_like(g.constant([1, 2]), g.constant([[0, 0], [0, 0]]))
    >>> g.output({}, y)["broadcast_like"].tolist()
    [[1, 2], [1, 2]]
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

def cast(
    x: Tensor | ArrayLike,
    dtype: DTypeLike,
    saturate: bool = True,
    round_mode: str = "up",
    *,
    name: str | None = None,
) -> Tensor:
    """Convert the elements to another dtype; float to int rounds toward zero, to float to nearest.

    y = dtype(x). An integer that does not fit loses its higher bits, a float becomes infinite; to
    float8, ``saturate`` (ONNX Cast-25) gives the largest number instead, also for infinities.
    float8_e8m0fnu holds powers of two: ``round_mode`` says which one is taken.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([-1.5, 2.5, 1000.0])
    >>> g.output({}, gw.cast(x, "int32", name="y"))["y"].tolist()
    [-1, 2, 1000]
    >>> g.output({}, gw.cast(x, "float8_e4m3fn", name="z"))["z"].tolist()
    [-1.5, 2.5, 448.0]

    Attributes:
        dtype: Dtype of the result.
        saturate: Whether float8 takes its largest number for larger ones.
        round_mode: Power of two for float8_e8m0fnu. One of 'up', 'down', 'nearest'.
    """

def compress(
    x: Tensor | ArrayLike,
    condition: Tensor | ArrayLike,
    axis: int | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Slices along an axis at which a condition holds; what lies beyond it is left out.

    y = x[…, {i: conditionᵢ}, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.compress(g.constant([1, 2, 3]), [True, False], axis=0, name="y")
    >>> g.output({}, y)["y"].tolist()
    [1]

    Attributes:
        axis: Axis to go along; None flattens x.
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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.count_nonzero(g.constant([0, 5, 7]))
    >>> g.output({}, y)["count_nonzero"].tolist()
    2

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def cummax(x: Tensor | ArrayLike, axis: int, *, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Largest element so far along an axis, and its place; of equal ones, the last.

    yᵢ = maxⱼ₍ⱼ≤ᵢ₎ xⱼ = x[indicesᵢ]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> values, places = gw.cummax(g.constant([1, 3, 2]), 0)
    >>> [y.tolist() for y in g.output({}, values, places).values()]
    [[1, 3, 3], [0, 1, 1]]

    Attributes:
        axis: Axis to go along.
    """

def cummin(x: Tensor | ArrayLike, axis: int, *, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Smallest element so far along an axis, and its place; of equal ones, the last.

    yᵢ = minⱼ₍ⱼ≤ᵢ₎ xⱼ = x[indicesᵢ]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> values, places = gw.cummin(g.constant([2, 3, 1]), 0)
    >>> [y.tolist() for y in g.output({}, values, places).values()]
    [[2, 2, 1], [0, 0, 2]]

    Attributes:
        axis: Axis to go along.
    """

def cumprod(
    x: Tensor | ArrayLike,
    axis: int,
    reverse: bool = False,
    exclusive: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Running product along an axis; its gradient is right at zeros, too.

    yᵢ = Πⱼ₍ⱼ≤ᵢ₎ xⱼ;  exclusive: j < i;  reverse: from the end

    The gradient is a product of two linear recurrences, without a division. Halves accumulate in
    float32, bools and ints in 64-bit ints.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cumprod(g.constant([2, 3, 4]), 0, exclusive=True, name="y"))["y"].tolist()
    [1, 2, 6]

    Attributes:
        axis: Axis to multiply along.
        reverse: Multiply from the end.
        exclusive: Leave out the element itself.
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

def dynamic_partition(
    x: Tensor | ArrayLike,
    labels: Tensor | ArrayLike,
    num_partitions: int,
    *,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Take slices of ``x`` apart by their label, one tensor per label; sizes are known when run.

    yₖ = x[labels = k, …] for k = 0 … n − 1, in the order of x

    Slices with other labels are in none of them.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = gw.dynamic_partition(g.constant([1.0, 2.0, 3.0]), [0, 1, 0], 2)
    >>> [y.tolist() for y in g.output({}, a, b).values()]
    [[1.0, 3.0], [2.0]]

    Attributes:
        num_partitions: Number of labels.
    """

def dynamic_stitch(
    *parts: Tensor | ArrayLike | Sequence[Tensor], name: str | None = None
) -> Tensor:
    """Put slices together at stated places: index tensors first, then as many tensors of slices.

    y[indicesₖ[i], …] = xₖ[i, …], the last write counts; the largest index decides the size, places
    that are never written hold 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.dynamic_stitch([2, 0], [1], g.constant([5, 6]), g.constant([7]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [6, 7, 5]
    """

def expand_dims(
    x: Tensor | ArrayLike, axis: int | Sequence[int], *, name: str | None = None
) -> Tensor:
    """Insert axes of size 1.

    y[…, 0, …] = x[…]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.expand_dims(g.constant([1, 2]), 0)
    >>> g.output({}, y)["expand_dims"].tolist()
    [[1, 2]]

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

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.eye(2)
    >>> g.output({}, y)["eye"].tolist()
    [[1.0, 0.0], [0.0, 1.0]]

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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.flatten(g.constant([[1, 2], [3, 4]]))
    >>> g.output({}, y)["flatten"].tolist()
    [1, 2, 3, 4]

    Attributes:
        start_axis: First axis to join.
        end_axis: Last axis to join.
    """

def flip(
    x: Tensor | ArrayLike, axis: int | Sequence[int] | None = None, *, name: str | None = None
) -> Tensor:
    """Reverse the order of the elements along axes.

    y[…, i, …] = x[…, n − 1 − i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.flip(g.constant([1, 2, 3]))
    >>> g.output({}, y)["flip"].tolist()
    [3, 2, 1]

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

def full_like(
    x: Tensor | ArrayLike,
    fill_value: float,
    dtype: DTypeLike | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """A tensor of the input's shape, filled with one number.

    yᵢ = fill_value

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.full_like(g.constant([1.0, 2.0]), 7, name="y"))["y"].tolist()
    [7.0, 7.0]

    Attributes:
        fill_value: The number.
        dtype: Dtype of the result; None: that of x.
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

def histogram(
    x: Tensor | ArrayLike,
    bins: int = 10,
    range: Sequence[float] | None = None,
    *,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """How many elements fall into bins of equal width, and the edges of the bins.

    counts[k] = |{i: edges[k] ≤ xᵢ < edges[k + 1]}|; the last bin holds its upper edge, too

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> counts, edges = gw.histogram(g.constant([0.0, 0.2, 1.0]), bins=2)
    >>> [y.tolist() for y in g.output({}, counts, edges).values()]
    [[2, 1], [0.0, 0.5, 1.0]]

    Attributes:
        bins: Number of bins.
        range: Lowest and highest edge; None: those of the elements.
    """

def identity(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """The tensor itself, as a node of its own.

    y = x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.identity(g.constant([1, 2]))
    >>> g.output({}, y)["identity"].tolist()
    [1, 2]
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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.index_add(g.constant([0.0, 0.0]), g.constant([1, 1]), g.constant([2.0, 3.0]))
    >>> g.output({}, y)["index_add"].tolist()
    [0.0, 5.0]

    Attributes:
        axis: Axis of x to add along.
    """

def invert_permutation(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """The permutation that undoes another.

    y[x[i]] = i

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.invert_permutation(g.constant([2, 0, 1]), name="y"))["y"].tolist()
    [1, 2, 0]
    """

def is_numeric_tensor(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether a tensor holds numbers, not bools.

    y = [dtype ≠ bool] : bool

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> bool(g.output({}, gw.is_numeric_tensor(g.constant([True]), name="y"))["y"])
    False
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

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.linspace(0.0, 1.0, 3)
    >>> g.output({}, y)["linspace"].tolist()
    [0.0, 0.5, 1.0]

    Attributes:
        start: First number.
        stop: Last number.
        num: How many.
        endpoint: Whether stop is the last number, or the one after it.
        dtype: Dtype of the result.
    """

def logcumsumexp(x: Tensor | ArrayLike, axis: int, *, name: str | None = None) -> Tensor:
    """Logarithm of the running sum of exponentials, safe from overflow.

    yᵢ = ln Σⱼ₍ⱼ≤ᵢ₎ exp xⱼ

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.logcumsumexp(g.constant([1000.0, -1000.0, 1000.0]), 0, name="y")
    >>> g.output({}, y)["y"].round(2).tolist()
    [1000.0, 1000.0, 1000.6900024414062]

    Attributes:
        axis: Axis to go along.
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

def match_condition(
    x: Tensor | ArrayLike, condition: str, value: float = 0.0, *, name: str | None = None
) -> Tensor:
    """Mask of the elements that fulfil a condition.

    y = [condition(x, value)], such as [x > value]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.match_condition(g.constant([1.0, -3.0]), "abs_greater", 2.0, name="y")
    >>> g.output({}, y)["y"].tolist()
    [False, True]

    Attributes:
        condition: What is asked of each element. One of 'equal', 'not_equal', 'less', 'less_equal', 'greater', 'greater_equal', 'abs_equal', 'abs_not_equal', 'abs_less', 'abs_less_equal', 'abs_greater', 'abs_greater_equal', 'is_nan', 'is_inf', 'is_finite', 'not_finite'.
        value: What it is compared with.
    """

def match_condition_count(
    x: Tensor | ArrayLike,
    condition: str,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    value: float = 0.0,
    *,
    name: str | None = None,
) -> Tensor:
    """Number of the elements that fulfil a condition.

    y = Σ [condition(x, value)] : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> n = gw.match_condition_count(g.constant([1.0, -3.0, 0.0]), "less_equal", name="n")
    >>> int(g.output({}, n)["n"])
    2

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
        condition: What is asked of each element. One of 'equal', 'not_equal', 'less', 'less_equal', 'greater', 'greater_equal', 'abs_equal', 'abs_not_equal', 'abs_less', 'abs_less_equal', 'abs_greater', 'abs_greater_equal', 'is_nan', 'is_inf', 'is_finite', 'not_finite'.
        value: What it is compared with.
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

def merge(*xs: Tensor | ArrayLike | Sequence[Tensor], name: str | None = None) -> Tensor:
    """Join the ways of a switch: the one that has rows, or the rows of all in order.

    y = (x₀, x₁, …) along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> off, on = gw.switch(g.constant([1.0, -2.0]), [True, False])
    >>> g.output({}, gw.merge(off * 0.5, on, name="y"))["y"].tolist()
    [-1.0, 1.0]
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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.min(g.constant([3, 9, 5]))
    >>> g.output({}, y)["min"].tolist()
    3

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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.ones_like(g.constant([3.0, 4.0]))
    >>> g.output({}, y)["ones_like"].tolist()
    [1.0, 1.0]
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

    y[i] = x[i − before], and beyond the ends a constant, the edge, x mirrored at the element of the
    edge (reflect) or behind it (symmetric), or x from its other end on (wrap)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.pad(g.constant([1, 2, 3]), 2, mode="reflect"))["pad"].tolist()
    [3, 2, 1, 2, 3, 2, 1]

    Attributes:
        pad_width: Places before and after, for all axes or per axis.
        mode: What to fill with. One of 'constant', 'edge', 'reflect', 'symmetric', 'wrap'.
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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.prod(g.constant([2.0, 3.0]))
    >>> g.output({}, y)["prod"].tolist()
    6.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def rank(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Number of axes.

    y = r : i64[]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.rank(g.placeholder("x", ("B", 3))).spec.value.item()
    2
    """

def repeat(
    x: Tensor | ArrayLike,
    repeats: Tensor | ArrayLike | int | Sequence[int] | None = None,
    axis: int | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Repeat each element along an axis: all equally often, or each as often as stated.

    y = (x₀, x₀, …, x₁, x₁, …) along the axis, xᵢ in repeats[i] copies

    The repeats are an attribute or an integer tensor; of the latter, the size is known when run.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.repeat(g.constant([1, 2]), (1, 3), name="y"))["y"].tolist()
    [1, 2, 2, 2]

    Attributes:
        repeats: Copies, of all or of each, unless they are given as a tensor.
        axis: Axis to repeat along; None flattens.
    """

def replace_where(
    x: Tensor | ArrayLike,
    replacement: Tensor | ArrayLike,
    condition: str,
    value: float = 0.0,
    *,
    name: str | None = None,
) -> Tensor:
    """Replace the elements that fulfil a condition.

    y = condition(x, value) ? replacement : x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.replace_where(g.constant([1.0, float("nan")]), 0.0, "is_nan", name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.0, 0.0]

    Attributes:
        condition: What is asked of each element. One of 'equal', 'not_equal', 'less', 'less_equal', 'greater', 'greater_equal', 'abs_equal', 'abs_not_equal', 'abs_less', 'abs_less_equal', 'abs_greater', 'abs_greater_equal', 'is_nan', 'is_inf', 'is_finite', 'not_finite'.
        value: What it is compared with.
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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.reshape_like(g.constant([1, 2, 3, 4]), g.constant([[0, 0], [0, 0]]))
    >>> g.output({}, y)["reshape_like"].tolist()
    [[1, 2], [3, 4]]
    """

def reverse_sequence(
    x: Tensor | ArrayLike,
    lengths: Tensor | ArrayLike,
    seq_axis: int = 1,
    batch_axis: int = 0,
    *,
    name: str | None = None,
) -> Tensor:
    """Reverse the first elements of each sequence, as many as its length; padding stays in place.

    y[b, t] = x[b, lengths[b] − 1 − t] for t < lengths[b], else x[b, t]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1, 2, 3], [4, 5, 6]])
    >>> g.output({}, gw.reverse_sequence(x, [2, 3], name="y"))["y"].tolist()
    [[2, 1, 3], [6, 5, 4]]

    Attributes:
        seq_axis: Axis along which a sequence runs.
        batch_axis: Axis along which sequences differ.
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

def scatter_div(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    updates: Tensor | ArrayLike,
    axis: int = -1,
    *,
    name: str | None = None,
) -> Tensor:
    """Divide elements along an axis, at the places that ``indices`` name.

    y = x,  y[indices[i, j], j] /= updates[i, j] along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_div(g.constant([1.0, 8.0]), [1, 1], [2.0, 4.0], name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.0, 1.0]

    Attributes:
        axis: Axis of x that indices count along.
    """

def scatter_max(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    updates: Tensor | ArrayLike,
    axis: int = -1,
    *,
    name: str | None = None,
) -> Tensor:
    """Raise elements along an axis to at least the updates at the places that ``indices`` name.

    y = x,  y[indices[i, j], j] = max(y[indices[i, j], j], updates[i, j]) along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_max(g.constant([1, 5]), [0, 1, 0], [3, 4, 2], name="y")
    >>> g.output({}, y)["y"].tolist()
    [3, 5]

    Attributes:
        axis: Axis of x that indices count along.
    """

def scatter_min(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    updates: Tensor | ArrayLike,
    axis: int = -1,
    *,
    name: str | None = None,
) -> Tensor:
    """Lower elements along an axis to at most the updates at the places that ``indices`` name.

    y = x,  y[indices[i, j], j] = min(y[indices[i, j], j], updates[i, j]) along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_min(g.constant([4, 5]), [0, 1, 0], [3, 6, 2], name="y")
    >>> g.output({}, y)["y"].tolist()
    [2, 5]

    Attributes:
        axis: Axis of x that indices count along.
    """

def scatter_mul(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    updates: Tensor | ArrayLike,
    axis: int = -1,
    *,
    name: str | None = None,
) -> Tensor:
    """Multiply elements along an axis, at the places that ``indices`` name.

    y = x,  y[indices[i, j], j] *= updates[i, j] along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_mul(g.constant([1, 2, 3]), [2, 0, 2], [2, 3, 4], name="y")
    >>> g.output({}, y)["y"].tolist()
    [3, 2, 24]

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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, indices = g.constant([1.0, 2.0]), g.constant([[0], [0]])
    >>> y = gw.scatter_nd_add(x, indices, g.constant([10.0, 20.0]))
    >>> g.output({}, y)["scatter_nd_add"].tolist()
    [31.0, 2.0]
    """

def scatter_nd_max(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    updates: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Raise slices to at least the updates at the coordinates that ``indices`` hold.

    y = x,  y[indices[i, 0], …] = max(y[indices[i, 0], …], updates[i, …])

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_nd_max(g.constant([1, 5]), [[0], [1]], [3, 4], name="y")
    >>> g.output({}, y)["y"].tolist()
    [3, 5]
    """

def scatter_nd_min(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    updates: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Lower slices to at most the updates at the coordinates that ``indices`` hold.

    y = x,  y[indices[i, 0], …] = min(y[indices[i, 0], …], updates[i, …])

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_nd_min(g.constant([1, 5]), [[0], [1]], [3, 4], name="y")
    >>> g.output({}, y)["y"].tolist()
    [1, 4]
    """

def scatter_nd_mul(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    updates: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Multiply slices at the coordinates that ``indices`` hold.

    y = x,  y[indices[i, 0], …, indices[i, n − 1], …] *= updates[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_nd_mul(g.constant([[1, 2], [3, 4]]), [[1, 0], [1, 0]], [2, 5], name="y")
    >>> g.output({}, y)["y"].tolist()
    [[1, 2], [30, 4]]
    """

def scatter_nd_sub(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    updates: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Subtract slices at the coordinates that ``indices`` hold; repeated places add up.

    y = x,  y[indices[i, 0], …, indices[i, n − 1], …] −= updates[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_nd_sub(g.constant([[9, 9], [9, 9]]), [[1], [1]], [[1, 2], [3, 4]], name="y")
    >>> g.output({}, y)["y"].tolist()
    [[9, 9], [5, 3]]
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

def scatter_sub(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    updates: Tensor | ArrayLike,
    axis: int = -1,
    *,
    name: str | None = None,
) -> Tensor:
    """Subtract elements along an axis, at the places that ``indices`` name; repeated ones add up.

    y = x,  y[indices[i, j], j] −= updates[i, j] along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_sub(g.constant([9, 9, 9]), [2, 0, 2], [1, 2, 3], name="y")
    >>> g.output({}, y)["y"].tolist()
    [7, 9, 5]

    Attributes:
        axis: Axis of x that indices count along.
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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_update(g.constant([1.0, 2.0]), g.constant([1]), g.constant([20.0]))
    >>> g.output({}, y)["scatter_update"].tolist()
    [1.0, 20.0]

    Attributes:
        axis: Axis of x that indices count along.
    """

def searchsorted(
    a: Tensor | ArrayLike,
    values: Tensor | ArrayLike,
    side: str = "left",
    *,
    name: str | None = None,
) -> Tensor:
    """Places at which values could be put into a sorted vector so that it stays sorted.

    side "left": a[y − 1] < v ≤ a[y];  side "right": a[y − 1] ≤ v < a[y]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.searchsorted(g.constant([1, 3, 5]), g.constant([3, 6]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [1, 3]

    Attributes:
        side: Before or after equal elements. One of 'left', 'right'.
    """

def segment_max(
    x: Tensor | ArrayLike, segment_ids: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Largest elements of each segment; segment numbers never fall, equal ones share the gradient.

    y[s, …] = max₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.segment_max(g.constant([1.0, 2.0, 3.0]), [0, 0, 1], name="y")
    >>> g.output({}, y)["y"].tolist()
    [2.0, 3.0]
    """

def segment_mean(
    x: Tensor | ArrayLike, segment_ids: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Means of the slices of each segment; segment numbers never fall, empty segments give 0.

    y[s, …] = Σ₍ᵢ: segment_ids[i] = s₎ x[i, …] / n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.segment_mean(g.constant([1.0, 2.0, 3.0]), [0, 0, 2], name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.5, 0.0, 3.0]
    """

def segment_min(
    x: Tensor | ArrayLike, segment_ids: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Smallest elements of each segment; segment numbers never fall, equal ones share the gradient.

    y[s, …] = min₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.segment_min(g.constant([1.0, 2.0, 3.0]), [0, 0, 1], name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.0, 3.0]
    """

def segment_prod(
    x: Tensor | ArrayLike, segment_ids: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Products of the slices of each segment; segment numbers never fall.

    y[s, …] = Π₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.segment_prod(g.constant([2, 3, 4]), [0, 0, 2], name="y")
    >>> g.output({}, y)["y"].tolist()
    [6, 1, 4]
    """

def segment_sum(
    x: Tensor | ArrayLike, segment_ids: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Sums of the slices of each segment; segment numbers never fall.

    y[s, …] = Σ₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.segment_sum(g.constant([1, 2, 3]), [0, 0, 2], name="y")
    >>> g.output({}, y)["y"].tolist()
    [3, 0, 3]
    """

def sequence_mask(
    lengths: Tensor | ArrayLike,
    maxlen: AnyDim | None = None,
    dtype: DTypeLike = "bool",
    *,
    name: str | None = None,
) -> Tensor:
    """Mask of the places that belong to sequences of given lengths.

    y[…, t] = [t < lengths[…]] for t < maxlen; without maxlen, up to the longest

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.sequence_mask(g.constant([1, 3]), name="y"))["y"].tolist()
    [[True, False, False], [True, True, True]]

    Attributes:
        maxlen: Number of places; None: the largest length.
        dtype: Dtype of the result.
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

def size_at(x: Tensor | ArrayLike, axis: int, *, name: str | None = None) -> Tensor:
    """Size of one axis.

    y = d[axis] : i64[]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.size_at(g.placeholder("x", ("B", 3)), 0).spec.value.item()
    B

    Attributes:
        axis: The axis.
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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.size_of(g.constant([[1, 2, 3]]))
    >>> g.output({}, y)["size_of"].tolist()
    3

    Attributes:
        axis: Axes that count; None counts all.
        dtype: Dtype of the result.
    """

def slice(
    x: Tensor | ArrayLike,
    begin: Sequence[AnyDim],
    size: Sequence[AnyDim],
    *,
    name: str | None = None,
) -> Tensor:
    """Part of a tensor of a given size, from a given place on.

    y[i₀, …] = x[begin₀ + i₀, …], sizeₖ elements along axis k; size −1 stands for all that is left

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.slice(g.constant([[1, 2, 3], [4, 5, 6]]), (0, 1), (-1, 2), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[2, 3], [5, 6]]

    Attributes:
        begin: First place, per axis.
        size: Number of elements, per axis; -1: all that are left.
    """

def sort(
    x: Tensor | ArrayLike, axis: int = -1, descending: bool = False, *, name: str | None = None
) -> Tensor:
    """Elements in order.

    y₀ ≤ y₁ ≤ …, or ≥ if descending. The places they come from are a residual, for gradients.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sort(g.constant([3, 9, 5]))
    >>> g.output({}, y)["sort"].tolist()
    [3, 5, 9]

    Attributes:
        axis: Axis to sort along.
        descending: Largest first.
    """

def sparse_to_dense(
    indices: Tensor | ArrayLike,
    values: Tensor | ArrayLike,
    shape: Tensor | ArrayLike | Sequence[AnyDim] | None = None,
    default_value: float = 0.0,
    *,
    name: str | None = None,
) -> Tensor:
    """A tensor of one number, with values at some coordinates; the last write counts.

    y[indices[i, 0], …] = values[i], default_value elsewhere

    The shape is an attribute or an integer tensor; ``indices`` is i64[n, rank], or i64[n] for a
    vector.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sparse_to_dense([[0, 1], [1, 0]], g.constant([5, 6]), shape=(2, 2), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[0, 5], [6, 0]]

    Attributes:
        shape: Shape, unless it is given as a tensor.
        default_value: What stands at all other places.
    """

def split(
    x: Tensor | ArrayLike,
    parts: int | Sequence[AnyDim],
    axis: int = 0,
    uneven: str = "refuse",
    *,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Take a tensor apart along an axis: into equal parts, or into parts of given sizes.

    yₖ = x[…, k·n/parts : (k + 1)·n/parts, …]

    A number that does not divide the axis is refused unless ``uneven`` says which parts are
    smaller: the last, as in ``torch.chunk`` and ONNX (nothing may be left for it), or all but the
    first n mod parts by one, as in ``numpy.array_split`` and ``torch.tensor_split``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 6))
    >>> [str(y.spec) for y in gw.split(x, (1, -1), axis=1)]
    ['f32[B, 1]', 'f32[B, 5]']
    >>> [[y.shape[1] for y in gw.split(x, 4, axis=1, uneven=u)] for u in ("last", "spread")]
    [[2, 2, 2, 0], [2, 2, 1, 1]]

    Attributes:
        parts: Number of equal parts, or sizes (one may be -1).
        axis: Axis to take apart.
        uneven: Which of equal parts are smaller. One of 'refuse', 'last', 'spread'.
    """

def squeeze(
    x: Tensor | ArrayLike, axis: int | Sequence[int] | None = None, *, name: str | None = None
) -> Tensor:
    """Drop axes of size 1.

    y[…] = x[…, 0, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.squeeze(g.constant([[1, 2]]))
    >>> g.output({}, y)["squeeze"].tolist()
    [1, 2]

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

    y = √(Σ (x − mean x)² / max(0, n − ddof))

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.std(g.constant([1.0, 3.0]))
    >>> g.output({}, y)["std"].tolist()
    1.0

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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1, 2, 3], [4, 5, 6]])
    >>> g.output({}, gw.strided_slice(x, (0, slice(None, None, -1)), name="y"))["y"].tolist()
    [3, 2, 1]

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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sum_like(g.constant([[1.0, 2.0], [3.0, 4.0]]), g.constant([0.0, 0.0]))
    >>> g.output({}, y)["sum_like"].tolist()
    [4.0, 6.0]
    """

def swapaxes(x: Tensor | ArrayLike, axis1: int, axis2: int, *, name: str | None = None) -> Tensor:
    """Exchange two axes.

    y[…, j, …, i, …] = x[…, i, …, j, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.swapaxes(g.constant([[1, 2], [3, 4]]), 0, 1)
    >>> g.output({}, y)["swapaxes"].tolist()
    [[1, 3], [2, 4]]

    Attributes:
        axis1: One axis.
        axis2: The other axis.
    """

def switch(
    x: Tensor | ArrayLike, pred: Tensor | ArrayLike, *, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Send rows one of two ways: those where ``pred`` is false, then those where it is true.

    y₀ = x[¬pred, …],  y₁ = x[pred, …]

    One truth value sends all rows of x : f32[B, …] the same way, one per row sends each its own.
    A way that nothing takes has no rows, so that what follows costs nothing there; ``gw.merge``
    joins the two again. ``gw.cond`` chooses between sub-graphs of any shapes.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, pred = g.placeholder("x", (2,)), g.placeholder("pred", (), "bool")
    >>> off, on = gw.switch(x, pred)
    >>> y = gw.merge(off * 10.0, on, name="y")
    >>> g.output({"x": [1.0, 2.0], "pred": False}, y)["y"].tolist()
    [10.0, 20.0]
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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.triu(g.constant([[1, 2], [3, 4]]))
    >>> g.output({}, y)["triu"].tolist()
    [[1, 2], [0, 4]]

    Attributes:
        k: Diagonal up to which elements stay: 0 the main one, above it positive.
    """

def unique(
    x: Tensor | ArrayLike, sorted: bool = True, axis: int | None = None, *, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Distinct elements, or distinct slices along an axis, with their places and counts.

    values = the distinct elements;  values = x[indices],  x = values[inverse],  counts[k] = how
    often; indices are those of the first of equal ones. The gradient goes to these.

    Without ``axis``, x counts as flat, and ``inverse`` has its shape. NaN equals NaN.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> found = gw.unique(g.constant([3, 1, 3]), sorted=False)
    >>> [y.tolist() for y in g.output({}, *found).values()]
    [[3, 1], [0, 1], [0, 1, 0], [2, 1]]

    Attributes:
        sorted: In order; otherwise as they first appear.
        axis: Axis whose slices are compared; None: single elements.
    """

def unravel_index(
    indices: Tensor | ArrayLike, shape: Sequence[AnyDim], *, name: str | None = None
) -> tuple[Tensor, ...]:
    """Coordinates of elements of a shape, from their row-major numbers; one tensor per axis.

    i = ((y₀·d₁ + y₁)·d₂ + …)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> rows, columns = gw.unravel_index(g.constant([0, 5]), (2, 3))
    >>> [y.tolist() for y in g.output({}, rows, columns).values()]
    [[0, 1], [0, 2]]

    Attributes:
        shape: The shape.
    """

def unsorted_segment_max(
    x: Tensor | ArrayLike,
    segment_ids: Tensor | ArrayLike,
    num_segments: AnyDim,
    *,
    name: str | None = None,
) -> Tensor:
    """Largest elements of each segment; equal ones share the gradient.

    y[s, …] = max₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.unsorted_segment_max(g.constant([1.0, 2.0, 3.0]), [1, 0, 1], 2, name="y")
    >>> g.output({}, y)["y"].tolist()
    [2.0, 3.0]

    Attributes:
        num_segments: Number of segments.
    """

def unsorted_segment_mean(
    x: Tensor | ArrayLike,
    segment_ids: Tensor | ArrayLike,
    num_segments: AnyDim,
    *,
    name: str | None = None,
) -> Tensor:
    """Means of the slices of each segment; an empty segment gives 0.

    y[s, …] = Σ₍ᵢ: segment_ids[i] = s₎ x[i, …] / n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.unsorted_segment_mean(g.constant([1.0, 2.0, 3.0]), [1, -1, 1], 2, name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.0, 2.0]

    Attributes:
        num_segments: Number of segments.
    """

def unsorted_segment_min(
    x: Tensor | ArrayLike,
    segment_ids: Tensor | ArrayLike,
    num_segments: AnyDim,
    *,
    name: str | None = None,
) -> Tensor:
    """Smallest elements of each segment; equal ones share the gradient.

    y[s, …] = min₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.unsorted_segment_min(g.constant([1.0, 2.0, 3.0]), [1, 0, 1], 2, name="y")
    >>> g.output({}, y)["y"].tolist()
    [2.0, 1.0]

    Attributes:
        num_segments: Number of segments.
    """

def unsorted_segment_prod(
    x: Tensor | ArrayLike,
    segment_ids: Tensor | ArrayLike,
    num_segments: AnyDim,
    *,
    name: str | None = None,
) -> Tensor:
    """Products of the slices of each segment; an empty segment gives 1.

    y[s, …] = Π₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.unsorted_segment_prod(g.constant([2, 3, 4]), [1, 2, 1], 3, name="y")
    >>> g.output({}, y)["y"].tolist()
    [1, 8, 3]

    Attributes:
        num_segments: Number of segments.
    """

def unsorted_segment_sqrt_n(
    x: Tensor | ArrayLike,
    segment_ids: Tensor | ArrayLike,
    num_segments: AnyDim,
    *,
    name: str | None = None,
) -> Tensor:
    """Sums of the slices of each segment, divided by the square root of their number.

    y[s, …] = Σ₍ᵢ: segment_ids[i] = s₎ x[i, …] / √n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.unsorted_segment_sqrt_n(g.constant([1.0] * 4), [0, 0, 0, 0], 1, name="y")
    >>> g.output({}, y)["y"].tolist()
    [2.0]

    Attributes:
        num_segments: Number of segments.
    """

def unsorted_segment_sum(
    x: Tensor | ArrayLike,
    segment_ids: Tensor | ArrayLike,
    num_segments: AnyDim,
    *,
    name: str | None = None,
) -> Tensor:
    """Sums of the slices of each segment; slices with a negative number are left out.

    y[s, …] = Σ₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.unsorted_segment_sum(g.constant([1, 2, 3]), [1, -1, 1], 2, name="y")
    >>> g.output({}, y)["y"].tolist()
    [0, 4]

    Attributes:
        num_segments: Number of segments.
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

    y = Σ (x − mean x)² / max(0, n − ddof), which is infinite or NaN where ddof >= n

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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.zeros_like(g.constant([3.0, 4.0]))
    >>> g.output({}, y)["zeros_like"].tolist()
    [0.0, 0.0]
    """
