"""LazyArray: what traced code works on, an array whose elements are computed later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph import Tensor
from ..spec import Shape
from . import indexing
from .nested import replaced
from .refusals import BRANCH, refusal, unread
from .registry import call as record
from .shadow import shadow
from .sole import holders
from .views import Part, Step, Storage, read, write

if TYPE_CHECKING:
    from .state import Recording

Array = np.ndarray[Any, Any]

UFUNCS: list[Callable[..., Any]] = []
"""What a ufunc does to lazy arrays, one function; the ufuncs put it here."""


def settled(value: Any) -> Any:
    """Return a value, or some in lists, tuples and dicts, with ended lazy arrays as elements."""
    return replaced(
        value,
        lambda x: x.elements("numpy"),
        lambda x: isinstance(x, LazyArray) and x.ended,
    )


def call(function: Any, x: LazyArray, *args: Any, **kwargs: Any) -> Any:
    """Call one of numpy's functions on a lazy array: recorded, or computed after the end."""
    if x.ended:
        return function(*settled((x, *args)), **settled(kwargs))
    x.owner.require_open(f"np.{function.__name__}")
    return record(function, x, *args, **kwargs)


class LazyArray:
    """An array of a trace: shape and dtype are known, elements are computed when the graph runs.

    numpy's functions, operators, indexing and writing in place work on it and build the graph;
    what needs the elements now is an error that says so. After the end of a ``with gw.trace()``
    block it is its value, computed when it is first needed: an array that nobody writes into, for
    numpy, for other traces and for graphs.

    >>> import gradwright as gw, numpy as np
    >>> with gw.trace() as t:
    ...     x = t.array(np.arange(6.0).reshape(2, 3))
    ...     y = np.exp(x - x.max(axis=1, keepdims=True))
    ...     y /= y.sum(axis=1, keepdims=True)
    >>> y.shape, y.dtype.name, len(y)
    ((2, 3), 'float64', 2)
    >>> np.asarray(y)[0].round(2).tolist(), float(y.sum() + 1)
    ([0.09, 0.24, 0.67], 3.0)
    """

    __slots__ = ("_cache", "_seen", "name", "owner", "scalar", "shadow", "steps", "storage", "weak")
    __array_priority__ = 1000.0
    __hash__ = object.__hash__  # by identity, although == compares elements

    def __init__(
        self, trace: Recording, storage: Storage, steps: tuple[Step, ...], shape: Array
    ) -> None:
        self.owner, self.storage, self.steps, self.shadow = trace, storage, steps, shape
        self.scalar = self.weak = False
        self.name = ""
        self._seen, self._cache = -1, storage.tensor

    @classmethod
    def of(cls, trace: Recording, tensor: Tensor, like: Array | None = None) -> LazyArray:
        """Return an array with elements of its own; one element is a scalar, as in numpy."""
        if not tensor.spec.is_concrete:
            trace.dynamic = True
        stand_in = shadow(tensor.shape, tensor.dtype, trace.sizes) if like is None else like
        made = cls(trace, Storage(tensor), (), stand_in)
        made.scalar = not tensor.rank
        return made

    # -- what is known at once -------------------------------------------------------------------

    @property
    def tensor(self) -> Tensor:
        """The tensor of the graph that holds the elements as they are now."""
        if self._seen == self.storage.version:
            return self._cache
        found = read(self.storage.tensor, self.steps)
        if found.graph is self.storage.tensor.graph:  # not one inside a branch or a loop
            self._cache, self._seen = found, self.storage.version
        return found

    @property
    def shape(self) -> Shape:
        """Sizes of the axes; symbols for those known only when run."""
        return self.tensor.shape if self.owner.dynamic else self.shadow.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type, the one that numpy would give."""
        found: np.dtype[Any] = self.shadow.dtype
        return found

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.shadow.ndim

    @property
    def size(self) -> Any:
        """Number of elements."""
        total: Any = 1
        for d in self.shape:
            total = total * d
        return total

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return self.size * self.itemsize

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        n = self.shape[0]
        if not isinstance(n, int):
            raise refusal(
                f"{self.label} has {n} rows, a number known only when it runs",
                hint="x.shape[0] in arithmetic and shapes; gw.scan for a loop over rows",
            )
        return n

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    @property
    def label(self) -> str:
        """How errors call the array: ``x: f64[3]``."""
        return f"{self.name or 'lazy array'}: {self.tensor.spec}"

    def __repr__(self) -> str:
        return f"<LazyArray {self.label}>"

    # -- what has to wait ------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Whether the trace is over and can be run: the array is its elements then."""
        return not self.owner.open and self.owner.compute is not None

    def elements(self, how: str, hint: str = "") -> Array:
        """Return the elements if the trace has ended and can be run, else say why not."""
        if not self.owner.open and self.owner.compute is not None:
            return self.owner.compute(self)
        if not self.owner.open:
            raise refusal(
                f"{how} reads {self.label} after the end of {self.owner.what}",
                hint="return it from the function",
            )
        raise unread(how, self.label, hint)

    def __bool__(self) -> bool:
        return bool(self.elements("`if`, `and`, `or` or bool()", BRANCH))

    def __float__(self) -> float:
        return float(
            self.elements("float()", "array.astype(...), static_argnames=(...), np.zeros_like(x)")
        )

    def __int__(self) -> int:
        return int(self.elements("int()", "array.astype(int), or static_argnames=(...)"))

    def __complex__(self) -> complex:
        return complex(self.elements("complex()", "array.astype(complex)"))

    def __index__(self) -> int:
        value = self.elements(
            "a Python index, range() or a size",
            "static_argnames=(...) for a number that decides sizes, np.take for a place",
        )
        return int(value.__index__())

    def __contains__(self, item: Any) -> bool:
        return item in self.elements("`in`", "(x == item).any()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        hint = "the array itself, x.copy(), np.stack([...]) or np.array([...], like=x)"
        found = np.asarray(self.elements("np.asarray, or numpy itself,", hint), dtype)
        return found.copy() if copy else found

    def __format__(self, spec: str) -> str:
        return format(self.elements(f"format {spec!r}") if spec else repr(self))

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.elements("round()", "np.round(...)").item(), digits)

    def item(self, *at: int) -> Any:
        """Return an element as a Python number, once the trace has ended."""
        return self.elements("item()").item(*at)

    def tolist(self) -> Any:
        """Return the elements as lists, once the trace has ended."""
        return self.elements("tolist()").tolist()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"a LazyArray has no attribute {name!r}")
        if self.ended:
            return getattr(self.elements(name), name)
        raise refusal(
            f"an array's {name} is not there while it is traced ({self.label})",
            hint='another way to say it, or @gw.compile(fallback="eager") for plain numpy',
        )

    # -- what builds graph -----------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if self.ended:
            return getattr(ufunc, method)(*settled(inputs), **settled(options))
        count = holders(options)
        self.owner.require_open(f"np.{ufunc.__name__}")
        return UFUNCS[0](self.owner, ufunc, method, inputs, options, count)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if self.ended:
            return function(*settled(args), **settled(kwargs))
        self.owner.require_open(f"np.{function.__name__}")
        with np.errstate(all="ignore"):
            return record(function, *args, **kwargs)

    def __op__(self, op: Any, inputs: Any, name: str | None) -> Any:
        """Apply an op of gradwright, such as ``gw.nn.softmax(lazy)``; the graph asks for this."""
        if self.ended:
            return op(*settled(inputs), name=name)
        self.owner.require_open(op.name)
        found = op(*(x.tensor if isinstance(x, LazyArray) else x for x in inputs), name=name)
        many = isinstance(found, tuple)
        return tuple(map(self.owner.fresh, found)) if many else self.owner.fresh(found)

    def __getitem__(self, index: Any) -> Any:
        if self.ended:
            return self.elements("an index")[settled(index)]
        self.owner.require_open("an index")
        return indexing.get(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.owner.require_open("a write")
        indexing.put(self, index, value)

    def view_of(self, step: Step, stand_in: Array, *, scalar: bool = False) -> LazyArray:
        """Return a view; a scalar is a copy."""
        made = LazyArray(self.owner, self.storage, (*self.steps, step), stand_in)
        return self.owner.fresh(made.tensor) if scalar else made

    def write(self, value: Tensor) -> None:
        """Replace all elements by those of a tensor of the same spec."""
        if not self.shadow.flags.writeable:
            raise ValueError("assignment destination is read-only")
        if self.scalar:
            raise TypeError(f"{self.label} is a numpy scalar, which nobody writes into")
        self.storage.replace(write(self.storage.tensor, self.steps, value))

    if TYPE_CHECKING:  # operators and methods come from the tables below

        def __add__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __rmul__(self, other: Any) -> Any: ...
        def __truediv__(self, other: Any) -> Any: ...
        def __mod__(self, other: Any) -> Any: ...
        def __pow__(self, other: Any) -> Any: ...
        def __invert__(self) -> Any: ...
        def __le__(self, other: Any) -> Any: ...
        def __gt__(self, other: Any) -> Any: ...

    @property
    def T(self) -> Any:
        """The array with all axes reversed."""
        return call(np.transpose, self)

    @property
    def mT(self) -> Any:
        """The array with its last two axes swapped."""
        return call(np.swapaxes, self, -1, -2)

    @property
    def real(self) -> Any:
        """The real part, a view."""
        if self.dtype.kind != "c":
            return self
        if self.ended:
            return self.elements("real").real
        return self.view_of(Part(False), self.shadow.real, scalar=self.scalar)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Any:
        """The imaginary part, a view; zeros of a real array."""
        if self.dtype.kind != "c":
            return call(np.zeros_like, self)
        if self.ended:
            return self.elements("imag").imag
        return self.view_of(Part(True), self.shadow.imag, scalar=self.scalar)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    def astype(self, dtype: Any, **options: Any) -> Any:
        """Convert the elements to another dtype."""
        return call(np.astype, self, dtype, **options)

    def copy(self, order: str = "C") -> Any:
        """Return an array with the same elements that shares none."""
        return call(np.copy, self)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """Give the elements another shape; one size may be -1."""
        return call(np.reshape, self, shape[0] if len(shape) == 1 else shape, **options)

    def transpose(self, *axes: Any) -> Any:
        """Permute the axes; without arguments reverse them."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return call(np.transpose, self, order)

    def view(self, dtype: Any = None) -> Any:
        """Return a view of all elements; one of another dtype has no op."""
        if dtype is not None and np.dtype(dtype) != self.dtype:
            raise refusal("a view of another dtype has no op", hint="x.astype(dtype)")
        return self[...]

    def flatten(self, order: str = "C") -> Any:
        """Return a copy with one axis."""
        return call(np.ravel, self, order).copy()

    def compress(self, condition: Any, axis: int | None = None) -> Any:
        """Return the slices where the condition holds."""
        return np.compress(condition, self, axis)

    def fill(self, value: Any) -> None:
        """Write one value everywhere."""
        self[...] = value

    def sort(self, axis: int = -1, **options: Any) -> None:
        """Sort in place."""
        self[...] = call(np.sort, self, axis, **options)

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Write values at places of the flat array."""
        call(np.put, self, indices, values, mode)
