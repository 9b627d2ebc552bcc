"""Functions of the namespace sequence; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence

from numpy.typing import ArrayLike, DTypeLike

from gradwright.graph import Tensor

def at(items: Tensor | ArrayLike, index: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """The item of a sequence at a place; negative places count from the end.

    y = xᵢ

    Where the items differ in size, the size of y is known when it has run. Raises ShapeError for a
    place that is not there. ONNX SequenceAt.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> items = gw.sequence.construct(g.constant([1.0, 2.0]), g.constant([3.0]))
    >>> g.output({}, gw.sequence.at(items, -1))["at"].tolist()
    [3.0]
    """

def concat_from_sequence(
    items: Tensor | ArrayLike, axis: int, new_axis: bool = False, *, name: str | None = None
) -> Tensor:
    """The items of a sequence, concatenated along an axis, or stacked on a new one.

    y = concat(x₀, x₁, ...)

    The size along the axis is known when it has run. Raises ShapeError for a sequence without
    items, or items that do not fit. ONNX ConcatFromSequence.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> items = gw.sequence.construct(g.constant([1.0, 2.0]), g.constant([3.0]))
    >>> y = gw.sequence.concat_from_sequence(items, axis=0)
    >>> g.output({}, y)["concat_from_sequence"].tolist()
    [1.0, 2.0, 3.0]

    Attributes:
        axis: Axis to join along; of the result, if it is new.
        new_axis: Whether items are stacked on a new axis.
    """

def construct(*xs: Tensor | ArrayLike | Sequence[Tensor], name: str | None = None) -> Tensor:
    """A sequence of tensors, which may differ in size but not in dtype and rank.

    y = [x₀, x₁, ...]

    Raises DTypeError or ShapeError where the tensors cannot stand in one sequence. ONNX
    SequenceConstruct.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.sequence.construct(g.constant([1.0, 2.0]), g.constant([3.0]))
    <Tensor 'construct': seq(f32[?])>
    """

def empty(
    dtype: DTypeLike = "float32",
    shape: tuple[int | None, ...] | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """A sequence without items.

    y = []

    ``shape`` is that of the items it will hold, None for sizes that differ; left out, the first
    item put in says it. ONNX SequenceEmpty.

    >>> import gradwright as gw
    >>> with gw.Graph():
    ...     y = gw.sequence.empty(dtype="int64", shape=(None, 3))
    >>> y
    <Tensor 'empty': seq(i64[?, 3])>

    Attributes:
        dtype: Dtype of the items.
        shape: Shape of the items, as far as known.
    """

def erase(
    items: Tensor | ArrayLike, index: Tensor | ArrayLike | None = None, *, name: str | None = None
) -> Tensor:
    """The sequence without one item, by default without its last.

    y = [x₀, ..., xᵢ₋₁, xᵢ₊₁, ...]

    Raises ShapeError for a place that is not there. ONNX SequenceErase.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> items = gw.sequence.construct(g.constant([1.0]), g.constant([2.0]))
    >>> g.output({}, gw.sequence.erase(items, 0))["erase"]
    [array([2.], dtype=float32)]
    """

def insert(
    items: Tensor | ArrayLike,
    item: Tensor | ArrayLike,
    index: Tensor | ArrayLike | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """The sequence with one more item, by default at its end.

    y = [x₀, ..., xᵢ₋₁, item, xᵢ, ...]

    ``index`` is from −n to n, for n items. Raises ShapeError beyond that, DTypeError for an item of
    another dtype. ONNX SequenceInsert.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> items = gw.sequence.construct(g.constant([1.0]))
    >>> y = gw.sequence.insert(items, g.constant([2.0, 3.0]), 0)
    >>> [item.tolist() for item in g.output({}, y)["insert"]]
    [[2.0, 3.0], [1.0]]
    """

def length(items: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """How many items a sequence has.

    n: i64[]. ONNX SequenceLength.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> items = gw.sequence.construct(g.constant([1.0]), g.constant([2.0]))
    >>> int(g.output({}, gw.sequence.length(items))["length"])
    2
    """

def optional(
    x: Tensor | ArrayLike | None = None,
    *,
    dtype: DTypeLike = "float32",
    shape: tuple[int | None, ...] | None = None,
    is_sequence: bool = False,
    name: str | None = None,
) -> Tensor:
    """A tensor or a sequence as something that may not be there; without an input, nothing.

    y = x, or nothing

    What an empty one could hold is stated by ``dtype``, ``shape`` and ``is_sequence``. ONNX
    Optional.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sequence.optional(g.constant([1.0, 2.0]))
    >>> y, g.output({}, y)["optional"].tolist()
    (<Tensor 'optional': opt(f32[2])>, [1.0, 2.0])

    Attributes:
        dtype: Dtype of what an empty one could hold.
        shape: Shape of that; None where it is open.
        is_sequence: Whether that would be a sequence.
    """

def optional_get_element(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """What an optional holds.

    y = x

    A tensor or a sequence is itself. Raises ShapeError, when run, where there is nothing. ONNX
    OptionalGetElement.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sequence.optional_get_element(gw.sequence.optional(g.constant([1.0, 2.0])))
    >>> g.output({}, y)["optional_get_element"].tolist()
    [1.0, 2.0]
    """

def optional_has_element(x: Tensor | ArrayLike | None = None, *, name: str | None = None) -> Tensor:
    """Whether an optional holds anything.

    y: bool[]. False without an input, True for a tensor or a sequence. ONNX OptionalHasElement.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sequence.optional_has_element(gw.sequence.optional(g.constant(1.0)))
    >>> bool(g.output({}, y)["optional_has_element"])
    True
    """

def put(
    items: Tensor | ArrayLike,
    index: Tensor | ArrayLike,
    item: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """The sequence with another item at a place.

    yᵢ = item,  yⱼ = xⱼ elsewhere

    Raises ShapeError for a place that is not there, DTypeError for an item of another dtype.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> items = gw.sequence.construct(g.constant([1.0]), g.constant([2.0]))
    >>> g.output({}, gw.sequence.put(items, 0, g.constant([5.0])))["put"][0].tolist()
    [5.0]
    """

def split_to_sequence(
    x: Tensor | ArrayLike,
    split: Tensor | ArrayLike | None = None,
    *,
    axis: int = 0,
    keepdims: bool = True,
    name: str | None = None,
) -> Tensor:
    """A tensor cut along an axis into a sequence.

    x = concat(y₀, y₁, ...)

    Without ``split`` the pieces have one row each, and lose the axis unless ``keepdims``. A number
    is the size of all pieces, of which the last may be smaller; a vector gives their sizes. Raises
    ShapeError where the sizes do not add up. ONNX SplitToSequence.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sequence.split_to_sequence(g.constant([1.0, 2.0, 3.0]), 2)
    >>> [item.tolist() for item in g.output({}, y)["split_to_sequence"]]
    [[1.0, 2.0], [3.0]]

    Attributes:
        axis: Axis to cut along.
        keepdims: Whether pieces of one row keep the axis; without split only.
    """
