"""Dtypes, promotion and specs: what a graph knows about a tensor before any number exists."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

from ..errors import DTypeError
from .dims import AnyDim, Dim, Shape, joined, larger, smaller, substitute
from .shapes import broadcast, differ, normalize_axes, normalize_axis, same_dim, shapes_differ

__all__ = [
    "BOXED",
    "FLOATS",
    "NARROW",
    "SMALL",
    "AnyDim",
    "Dim",
    "Shape",
    "TensorSpec",
    "at_least_float32",
    "broadcast",
    "check_floats",
    "content_of",
    "differ",
    "dtype",
    "dtype_name",
    "is_floating",
    "is_half",
    "joined",
    "kind",
    "known_spec",
    "larger",
    "normalize_axes",
    "normalize_axis",
    "promote",
    "promote_all",
    "same_dim",
    "shapes_differ",
    "smaller",
    "spec_of",
    "substitute",
]

_NARROW_FLOATS = (
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
)
_NARROW_INTS = ("int4", "uint4", "int2", "uint2")
FLOATS = ("float64", "float32", "float16", "bfloat16", *_NARROW_FLOATS)
_DTYPES: dict[str, np.dtype[Any]] = {
    **{name: np.dtype(name) for name in FLOATS[:3]},
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in FLOATS[3:]},
    **{
        f"{sign}int{bits}": np.dtype(f"{sign}int{bits}")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in _NARROW_INTS},
    **{name: np.dtype(name) for name in ("complex64", "complex128", "bool")},
    "str": np.dtypes.StringDType(),
}
_NAMES = {d: name for name, d in _DTYPES.items()}
_SHORT = {
    n: "f" + n[5:].replace("_", "").removesuffix("fnu").removesuffix("fn") for n in _NARROW_FLOATS
}
_SHORT |= {"bfloat16": "bf16", "bool": "bool", "str": "str"}
_KINDS = {d: "f" if n in FLOATS else "u" if n[0] == "u" else n[0] for n, d in _DTYPES.items()}
BOXED = np.dtype(object)
"""Dtype of a 0-d array that holds a sequence or an optional (see ``containers``)."""
_KINDS[BOXED] = "o"
_SCALE = _DTYPES["float8_e8m0fnu"]
NARROW = frozenset(_DTYPES[name] for name in (*_NARROW_FLOATS, *_NARROW_INTS))
"""Dtypes of at most 8 bits in which numbers are kept, not computed; each takes a byte here."""


def dtype(name: DTypeLike) -> np.dtype[Any]:
    """Return the numpy dtype called ``name``; bfloat16 and those below 8 bits are ml_dtypes'.

    >>> from gradwright.spec import dtype
    >>> dtype("bfloat16").itemsize
    2
    """
    if name is str:
        name = "str"
    if isinstance(name, str) and name in _DTYPES:
        return _DTYPES[name]
    try:
        found = np.dtype(name)
    except TypeError:
        found = None
    if found not in _NAMES:
        raise DTypeError(f"{name!r} is not a dtype of gradwright", need=", ".join(_DTYPES))
    return found


def dtype_name(d: np.dtype[Any]) -> str:
    """Return the name that :func:`dtype` reads back."""
    return _NAMES[d]


def kind(d: np.dtype[Any]) -> str:
    """Return ``f`` float, ``c`` complex, ``i`` signed, ``u`` unsigned, ``b`` bool, ``s`` text.

    ``o`` is what holds a sequence or an optional.
    """
    return _KINDS[d]


def is_floating(d: np.dtype[Any]) -> bool:
    """Tell whether gradients flow through tensors of this dtype (float or complex).

    Through float8_e8m0fnu none can: it holds scales, powers of two without a sign or a zero.
    """
    return _KINDS[d] in "fc" and d != _SCALE


@functools.cache
def promote(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of an operation on ``a`` and ``b``.

    The Array API's table, with float beating int (as in torch and JAX) so that an index never
    widens a float32 graph, and bfloat16 with float16 meeting in float32. The narrow types, float8
    and all below 8 bits, meet no other type of their kind.

    >>> from gradwright.spec import dtype, promote
    >>> promote(dtype("int64"), dtype("float32")).name, promote(dtype("bool"), dtype("int8")).name
    ('float32', 'int8')
    """
    if a == b:
        return a
    ka, kb = kind(a), kind(b)
    if ka in "so" or kb in "so":
        names = [_NAMES.get(d, "a container") for d in (a, b)]
        raise DTypeError(f"{names[0]} and {names[1]} have no common dtype")
    order = "buifc"
    if ka == "b" or kb == "b":
        return b if ka == "b" else a
    if (ka in "ui") != (kb in "ui"):
        return a if order.index(ka) > order.index(kb) else b
    if {ka, kb} == {"f", "c"}:
        wide = (
            "complex128"
            if np.dtype("float64") in (a, b) or np.dtype("complex128") in (a, b)
            else "complex64"
        )
        return _DTYPES[wide]
    if a in NARROW or b in NARROW:
        raise DTypeError(
            f"{dtype_name(a)} and {dtype_name(b)} have no common dtype", hint="gw.cast one of them"
        )
    if ka == kb == "f" and a.itemsize == b.itemsize == 2:
        return _DTYPES["float32"]
    if ka == kb == "f":
        return a if a.itemsize > b.itemsize else b
    joint = np.result_type(a, b)
    if joint not in _NAMES or joint.kind not in "iuc":
        raise DTypeError(
            f"{dtype_name(a)} and {dtype_name(b)} have no common dtype", hint="gw.cast one of them"
        )
    return joint


def promote_all(*specs: TensorSpec) -> np.dtype[Any]:
    """Promote the dtypes of several specs."""
    return functools.reduce(promote, (s.dtype for s in specs))


def check_floats(what: str, *specs: TensorSpec | None) -> None:
    """Refuse tensors of ints, bools or complex numbers, naming the first; None is none.

    >>> check_floats("attention", TensorSpec((2,)), None)
    """
    for s in specs:
        if s is not None and kind(s.dtype) != "f":
            raise DTypeError(f"{what} does not take {s.dtype}", hint="gw.cast(x, 'float32')")


def is_half(x: np.dtype[Any]) -> bool:
    """Tell whether a dtype is float16 or bfloat16.

    >>> is_half(dtype("bfloat16")), is_half(dtype("int16"))
    (True, False)
    """
    return x.itemsize == 2 and x.kind not in "iu"


def at_least_float32(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which an op computes: float32 for halves and float8, else the same.

    >>> from gradwright.spec import at_least_float32, dtype
    >>> at_least_float32(dtype("bfloat16")).name, at_least_float32(dtype("float64")).name
    ('float32', 'float64')
    """
    return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)


class TensorSpec:
    """Shape and dtype of a tensor, and its values where they are small integers known early.

    ``value`` is an array of ints or dims (dtype object), so that shapes computed by ops
    (``concat([shape_of(x)[:1], [10]])``) are known without running anything.

    >>> from gradwright.spec import Dim, TensorSpec
    >>> print(TensorSpec((Dim.symbol("B"), 64)), TensorSpec((), "int64"))
    f32[B, 64] i64[]
    """

    __slots__ = ("dtype", "shape", "value")

    def __init__(
        self, shape: Sequence[AnyDim], dtype_: DTypeLike = "float32", value: Any = None
    ) -> None:
        self.shape: Shape = tuple(shape)
        known: Any = dtype_
        self.dtype: np.dtype[Any] = known if type(known) in _DTYPE_TYPES else dtype(known)
        self.value: Any = value

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_concrete(self) -> bool:
        """Whether every dimension is an int."""
        return not any(isinstance(d, Dim) for d in self.shape)

    @property
    def size(self) -> int:
        """Number of elements; needs a concrete shape."""
        n = 1
        for d in self.shape:
            n *= int(d)
        return n

    @property
    def nbytes(self) -> int:
        """Bytes of a dense array of this spec."""
        return self.size * self.dtype.itemsize

    @property
    def by_reference(self) -> bool:
        """Whether values live outside a plan's arena: text, sequences, optionals."""
        return self.dtype.kind in "TO"

    @property
    def differentiable(self) -> bool:
        """Whether gradients flow through values of this spec."""
        return is_floating(self.dtype)

    def of_rank(self, rank: int) -> TensorSpec:
        """Return the spec itself; one of a tensor that may have several ranks has one for each."""
        return self

    def bare(self) -> TensorSpec:
        """Return the spec without what is known of its value."""
        return self.with_shape(self.shape)

    def with_shape(self, shape: Sequence[AnyDim]) -> TensorSpec:
        """Return the spec with another shape."""
        return TensorSpec(shape, self.dtype)

    def with_dtype(self, dtype_: DTypeLike) -> TensorSpec:
        """Return the spec with another dtype."""
        return TensorSpec(self.shape, dtype_)

    def substitute(self, sizes: Mapping[str, int]) -> TensorSpec:
        """Return the spec with known symbols replaced."""
        return TensorSpec(substitute(self.shape, sizes), self.dtype, self.value)

    def key(self) -> tuple[Any, ...]:
        """Return a hashable identity that includes the known value."""
        known = None if self.value is None else tuple(np.ravel(self.value).tolist())
        return self.shape, self.dtype, known

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorSpec)
            and self.shape == other.shape
            and self.dtype == other.dtype
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        name = dtype_name(self.dtype)
        short = _SHORT.get(name) or name[0] + name.lstrip("abcdefghijklmnopqrstuvwxyz")
        return f"{short}[{', '.join(map(str, self.shape))}]"


_DTYPE_TYPES = {type(d) for d in _DTYPES.values()}


SMALL = 64
"""Integer arrays up to this many elements are known to shape inference."""


def spec_of(array: np.ndarray[Any, Any]) -> TensorSpec:
    """Return the spec of an array; what a sequence or optional is, it says itself."""
    if array.dtype.kind == "O":
        boxed: Any = array[()]
        return boxed.spec  # type: ignore[no-any-return]
    return TensorSpec(array.shape, array.dtype)


def known_spec(array: np.ndarray[Any, Any]) -> TensorSpec:
    """Return the spec of an array, with a copy of its value where that may decide shapes."""
    if array.dtype.kind == "O":
        return spec_of(array)
    may_decide = array.dtype.kind in "iu" and array.size <= SMALL
    return TensorSpec(array.shape, array.dtype, array.copy() if may_decide else None)


def content_of(array: np.ndarray[Any, Any]) -> bytes:
    """Return bytes that are equal for equal elements; a text array holds only where they lie."""
    if array.dtype.kind == "T":
        return repr(array.tolist()).encode("utf-8", "surrogatepass")
    return array.tobytes()
