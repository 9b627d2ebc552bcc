"""Ops made of a user's own numpy or numba function, in one line."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, GradwrightError, GraphError
from ..graph.build import check_shapes
from ..op import (
    AFFINE,
    ELEMENT,
    LINEAR,
    OPAQUE,
    ROWS,
    ZERO,
    Cotangent,
    Dependence,
    NotDifferentiable,
    Op,
    Sample,
    attr,
    register,
)
from ..op.calling import function
from ..op.declare import freeze
from ..spec import TensorSpec, broadcast, kind, spec_of
from .core.like import ZerosLike

Array = np.ndarray[Any, Any]


def define_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    *,
    vjp: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    infer: Callable[..., Any] | None = None,
    like: int | tuple[int, ...] | None = None,
    samples: Iterable[Any] | Callable[[np.random.Generator], Iterable[Any]] | None = None,
    kinds: str = "buif",
    depends: str | tuple[str, ...] | None = None,
    overwrites: int | tuple[int | None, ...] | None = None,
) -> Any:
    """Make an op of a function on numpy arrays, numba's included; returns the op as a function.

    y = fn(x₀, x₁, ..., attributes)

    Parameters without a default are inputs, those with one are attributes. Without more the result
    is taken to be elementwise: inputs broadcast, and the dtype is found by trying the function on
    single ones. ``like=0`` says that the output has shape and dtype of input 0 (a tuple: one entry
    per output); ``infer(*specs, **attributes)`` returns the spec of anything else.

    ``vjp(g, y, *xs, **attributes)`` returns one cotangent per input, or None, in terms of tensors:
    numpy's functions work on them, so that it is differentiable again. Without it the op has no
    gradient, and asking for one says so. With several outputs, ``g`` and ``y`` are tuples.

    A gradient that is deliberately not the derivative, of a step or of rounding, is declared:
    ``surrogate``, a function of arrays like ``fn``, is what ``vjp`` is the derivative of. Gradient
    checks hold the vjp against it, and show the op, and the parameters behind it, as such.

    Defining a name again, as by running the cell again, replaces the op in graphs that exist. An
    archive stores the name and the attributes, not the function: define the op before using what
    was loaded. Arrays that the function captures belong to it and are not saved; pass them as
    inputs. ``gw.testing.check_op`` checks the op on ``samples``, tuples of arrays. Half precision
    is computed in float32, and ``kinds`` are the dtypes taken (add ``c`` for complex numbers).

    ``depends`` says how the result moves with an input while the others are held (a tuple: one
    entry per input): ``"element"`` by element, as ops are that state no shape; ``"affine"``, the
    same along straight lines; ``"linear"``; in ``"rows"`` along the attribute ``axis``, or else the
    last axis; ``"opaque"``. A gradient check is then faster, and no less strict: a claim is tried
    before it is used.

    A function with an argument ``out=None`` is given the array to write into (a tuple: one per
    output), as a ufunc of numpy is; plans then allocate nothing for it. ``overwrites=0`` says that
    this may be input 0 itself (a tuple: an input, or None, per output), if it has the same shape
    and dtype and nothing reads it afterwards. The function must then read an element before it
    writes there, and ``fn(x)`` alone still returns a new array.

    Raises GraphError for a name without an owner, DTypeError where the function fails.

    >>> import gradwright as gw, numpy as np
    >>> softcap = gw.define_op(
    ...     "me/softcap",
    ...     lambda x, cap=30.0: cap * np.tanh(x / cap),
    ...     vjp=lambda g, y, x, cap: g * (1.0 - (y / cap) ** 2),
    ... )
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (2,))
    >>> y = softcap(x, cap=1.0)
    >>> dx, = gw.gradients(y, [x])
    >>> for array in g.output({"x": [0.0, 1.0]}, y, dx).values():
    ...     print(array.round(3))
    [0.    0.762]
    [1.   0.42]
    >>> gw.testing.check_op(softcap)
    >>> spike = gw.define_op(  # a step forwards, the slope of a sigmoid backwards
    ...     "me/spike",
    ...     lambda x: (x > 0) * 1.0,
    ...     vjp=lambda g, y, x: g * gw.nn.sigmoid(4 * x) * gw.nn.sigmoid(-4 * x) * 4,
    ...     surrogate=lambda x: 1 / (1 + np.exp(-4 * x)),
    ... )
    >>> w = g.variable("w", init=[0.3, -0.2])
    >>> report = gw.gradient_check(g, spike(w).sum())
    >>> report.passed, [node.verdict for node in report.nodes]
    (True, ['surrogate', 'ok'])
    >>> @gw.define_op("me/hypotenuse")
    ... def hypotenuse(a, b):
    ...     return np.sqrt(a * a + b * b)
    >>> g.output({"x": [3.0, 6.0]}, hypotenuse(x, 4.0))
    {'hypotenuse': array([5.       , 7.2111025], dtype=float32)}
    >>> centred = gw.define_op(
    ...     "me/centred",
    ...     lambda x: x - x.mean(-1, keepdims=True),
    ...     vjp=lambda g, y, x: g - g.mean(-1, keepdims=True),
    ...     like=0,
    ...     depends="linear",
    ...     samples=[np.array([[1.0, 2.0], [0.5, -3.0]])],
    ... )
    >>> gw.testing.check_op(centred)
    >>> clipped = gw.define_op(  # in the memory of its input, where that is needed no more
    ...     "me/clipped", lambda x, out=None: np.clip(x, -1.0, 1.0, out=out), overwrites=0
    ... )
    >>> g.output({"x": [3.0, 0.5]}, clipped(x * 2.0))
    {'clipped': array([1., 1.], dtype=float32)}
    """
    if fn is None:
        return lambda fn: define_op(
            name, fn, vjp=vjp, surrogate=surrogate, infer=infer, like=like, samples=samples,
            kinds=kinds, depends=depends, overwrites=overwrites,
        )  # fmt: skip
    if not callable(fn):
        raise GraphError(f"{name} is defined by {fn!r}", need="a function of numpy arrays")
    inputs, attributes, writes = _parameters(name, fn)
    _check_parameters(name, "vjp", vjp, ["g", "y", *inputs], attributes)
    _check_parameters(name, "infer", infer, inputs, attributes)
    _check_parameters(name, "surrogate", surrogate, inputs, attributes)
    if surrogate is not None and vjp is None:
        raise GraphError(f"{name}: a surrogate without its gradient", need="vjp=")
    if depends is None:
        depends = "element" if infer is None and like is None else "opaque"
    members: dict[str, Any] = {
        "__doc__": _documentation(name, fn, inputs),
        "__module__": f"ops.{name.rpartition('/')[0]}",  # not of the core, which names its own
        "_fn": staticmethod(fn),
        "_vjp": staticmethod(vjp) if vjp is not None else None,
        "_surrogate": staticmethod(surrogate) if surrogate is not None else None,
        "_infer": staticmethod(infer) if infer is not None else None,
        "_like": like,
        "_samples": staticmethod(samples) if callable(samples) else samples,
        "_kinds": kinds,
        "overwrites": _overwrites(name, overwrites, len(inputs), writes),
        "dependence": _dependence(name, depends, len(inputs), "axis" in attributes),
        **{k: attr(v, doc=f"{k} of {name}.") for k, v in attributes.items()},
        "__annotations__": {k: _type_of(k, v) for k, v in attributes.items()},
    }
    cls: Any = type(_title(name), (WritingOp if writes else FunctionOp,), members)
    cls.inputs = tuple(inspect.Parameter(k, _POSITIONAL) for k in inputs)
    return function(register(name)(cls))


_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD


class FunctionOp(Op, abstract=True):
    """An op that calls a user's function."""

    _fn: Callable[..., Any]
    _vjp: Callable[..., Any] | None = None
    _surrogate: Callable[..., Any] | None = None
    _infer: Callable[..., Any] | None = None
    _like: int | tuple[int, ...] | None = None
    _samples: Any = None
    _kinds = "buif"

    def infer(self, *xs: TensorSpec) -> Any:
        """Return what the user states, or find it out by trying the function."""
        for x in xs:
            if kind(x.dtype) not in self._kinds:
                hint = 'define_op(..., kinds="buifc")' if kind(x.dtype) == "c" else "gw.cast"
                raise DTypeError(f"{self.name} is not defined for {x}", hint=hint)
        if self._infer is not None:
            return self._infer(*xs, **self.attributes())
        if self._like is not None:
            found = self._like if isinstance(self._like, tuple) else (self._like,)
            out = tuple(xs[i].with_shape(xs[i].shape) for i in found)
            return out if isinstance(self._like, tuple) else out[0]
        shape = broadcast(*(x.shape for x in xs)) if xs else ()
        tried = _tried(self, tuple((x.dtype, x.rank) for x in xs))
        for _, rank in tried:
            if rank != len(shape):
                raise GraphError(
                    f"{self.name} is not elementwise: it makes rank {rank} of rank {len(shape)}",
                    need="what its output is",
                    hint="define_op(..., infer=lambda x: x.with_shape(x.shape[:-1])), or like=0",
                )
        specs = tuple(TensorSpec(shape, dtype) for dtype, _ in tried)
        return specs if len(specs) > 1 else specs[0]

    def forward(self, *xs: Any) -> Any:
        """Call the function; half precision is computed in float32."""
        narrow = [x.dtype for x in xs if kind(x.dtype) == "f" and x.dtype.itemsize <= 2]
        wide = [x.astype(np.float32) if x.dtype in narrow else x for x in xs]
        found = self._fn(*wide, **self.attributes())
        ys = [np.asarray(y) for y in (found if isinstance(found, tuple) else (found,))]
        if any(y.dtype.kind == "O" for y in ys):
            got = type(found).__name__
            raise DTypeError(f"the function returned {got}", need="arrays of numbers")
        if narrow and not any(x.dtype in (np.float32, np.float64) for x in xs):
            ys = [y.astype(narrow[0]) if kind(y.dtype) == "f" else y for y in ys]
        ys = [y.copy() for y in ys]  # it may be an input, or a buffer that the next call writes
        return tuple(ys) if isinstance(found, tuple) else ys[0]

    def vjp(self, gs: Sequence[Any], ys: Sequence[Any], xs: Sequence[Any]) -> Sequence[Cotangent]:
        """Call the user's vjp, or say that there is none."""
        if self._vjp is None:
            reason = f"{self.name} was defined without vjp=, so nothing states its gradient"
            return [NotDifferentiable(reason)] * len(xs)
        present = [ZerosLike()(y) if g is ZERO else g for g, y in zip(gs, ys, strict=True)]
        one = len(ys) == 1
        given = present[0] if one else tuple(present), ys[0] if one else tuple(ys)
        found = self._vjp(*given, *xs, **self.attributes())
        out = found if isinstance(found, (tuple, list)) else (found,)
        return [ZERO if g is None else g for g in out]

    def surrogate(self, xs: Sequence[Any], at: Sequence[Any]) -> Any:
        """Call the function whose derivative the user's vjp is."""
        assert self._surrogate is not None
        found = self._surrogate(*xs, **self.attributes())
        return tuple(map(np.asarray, found)) if isinstance(found, tuple) else np.asarray(found)

    @classmethod
    def has_surrogate(cls) -> bool:
        """Tell whether the user has declared one."""
        return cls._surrogate is not None

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        """Yield the user's samples, or normal numbers of a few shapes."""
        own = cls._samples(rng) if callable(cls._samples) else cls._samples
        if own is None and (cls._infer is not None or cls._like is not None):
            raise GraphError(f"{cls.name} has no samples", hint="define_op(..., samples=[(x,)])")
        shapes = [(2, 3), (3,)], [(), (2,)], [(0, 2), (1, 2)]
        n = len(cls.inputs)
        drawn = (
            tuple(rng.standard_normal(s) for s in itertools.islice(itertools.cycle(pair), n))
            for pair in shapes
        )
        for sample in drawn if own is None else own:
            if isinstance(sample, Sample):
                yield sample
            else:
                given = sample if isinstance(sample, (tuple, list)) else (sample,)
                yield Sample(tuple(map(np.asarray, given)), smooth=cls._vjp is not None)


class WritingOp(FunctionOp, abstract=True):
    """An op that calls a user's function, which writes where it is told."""

    def forward_into(self, xs: Sequence[Any], ys: Sequence[Any]) -> None:
        """Call the function with ``out``; halves, which are computed wide, are copied there."""
        if any(kind(x.dtype) == "f" and x.dtype.itemsize <= 2 for x in xs):
            found: Any = self.forward(*xs)
        else:
            found = self._fn(*xs, **self.attributes(), out=ys[0] if len(ys) == 1 else tuple(ys))
        made = [np.asarray(y) for y in (found if isinstance(found, tuple) else (found,))]
        check_shapes(made, [spec_of(y) for y in ys])
        for y, own in zip(ys, made, strict=True):
            if own is not y:  # the function has made another array
                np.copyto(y, own)


@functools.lru_cache(maxsize=1024)
def _tried(op: FunctionOp, inputs: tuple[tuple[Any, int], ...]) -> list[tuple[Any, int]]:
    """Return dtype and rank of what a function makes of single ones."""
    ones = [np.ones((1,) * rank, dtype) for dtype, rank in inputs]
    try:
        with np.errstate(all="ignore"):
            found = op.forward(*ones)
    except GradwrightError:
        raise
    except Exception as error:
        given = ", ".join(str(TensorSpec(x.shape, x.dtype)) for x in ones)
        raise DTypeError(
            f"{op.name} fails on ones, {given}: {type(error).__name__}: {error}",
            hint="mend the function, or say what it makes: define_op(..., infer=...)",
        ) from error
    return [(y.dtype, y.ndim) for y in (found if isinstance(found, tuple) else (found,))]


def _parameters(name: str, fn: Any) -> tuple[list[str], dict[str, Any], bool]:
    """Return the names of inputs, attributes with their defaults, and whether it takes ``out``."""
    if isinstance(fn, np.ufunc) or hasattr(fn, "ufunc"):
        n = fn.nin if isinstance(fn, np.ufunc) else fn.ufunc.nin
        return [f"x{i}" for i in range(n)], {}, isinstance(fn, np.ufunc)
    try:
        parameters = inspect.signature(getattr(fn, "py_func", fn)).parameters.values()
    except (TypeError, ValueError):
        raise GraphError(
            f"{name}: the parameters of {fn!r} are not known", hint="lambda x: f(x)"
        ) from None
    inputs, attributes, writes = [], {}, False
    for p in parameters:
        if p.name == "out" and p.default is None:
            writes = True
            continue
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise GraphError(f"{name} takes {p}", need="a fixed number of inputs")
        if hasattr(Op, p.name):
            raise GraphError(f"{name}: {p.name!r} means something else to an op", hint="rename it")
        if p.default is p.empty:
            inputs.append(p.name)
        else:
            attributes[p.name] = freeze(p.default, f"{p.name} of {name}")
    if not inputs:
        raise GraphError(f"{name} takes no input", need="a function of at least one array")
    return inputs, attributes, writes


def _overwrites(
    name: str, stated: int | tuple[int | None, ...] | None, n_inputs: int, writes: bool
) -> tuple[tuple[int, int], ...]:
    """Return pairs of an output and the input that it may be written over."""
    each = stated if isinstance(stated, tuple) else (stated,)
    pairs = tuple((o, i) for o, i in enumerate(each) if i is not None)
    if not all(type(i) is int and 0 <= i < n_inputs for _, i in pairs):
        raise GraphError(
            f"{name}: overwrites={stated!r}", need=f"inputs 0 to {n_inputs - 1}, or None"
        )
    if pairs and not writes:
        need, hint = "an argument out=None", "lambda x, out=None: np.tanh(x, out=out)"
        raise GraphError(f"{name} is not told where to write", need=need, hint=hint)
    return pairs


def _check_parameters(
    name: str, what: str, fn: Any, inputs: Sequence[str], attributes: Iterable[str]
) -> None:
    """Refuse a function that cannot be called with the inputs and attributes of the op."""
    if fn is None:
        return
    if not callable(fn):
        raise GraphError(f"{name}: {what} is {fn!r}", need="a function")
    try:
        known = inspect.signature(fn)
    except (TypeError, ValueError):
        return  # one that numpy or C made does not say
    try:
        known.bind(*inputs, **dict.fromkeys(attributes))
    except TypeError:
        raise GraphError(
            f"{name}: {what} takes {known}", need=f"{what}({', '.join([*inputs, *attributes])})"
        ) from None


_CLAIMS = {"element": ELEMENT, "affine": AFFINE, "linear": LINEAR, "opaque": OPAQUE}


def _dependence(
    name: str, depends: str | tuple[str, ...], n_inputs: int, has_axis: bool
) -> tuple[Dependence, ...]:
    """Return what ``depends`` says of each input."""
    each = tuple(depends) if isinstance(depends, (tuple, list)) else (depends,) * n_inputs
    known = {**_CLAIMS, "rows": ROWS if has_axis else Dependence("rows", -1)}
    if len(each) != n_inputs or any(k not in tuple(known) for k in each):
        raise GraphError(
            f"{name}: depends={depends!r} is not understood",
            need=f"one of {', '.join(map(repr, known))}, or {n_inputs} of them, one per input",
        )
    return tuple(known[k] for k in each)


def _type_of(name: str, default: Any) -> str:
    """Return the declared type of an attribute, from its default; every op's dtype is a dtype."""
    if name == "dtype":
        return "Any"
    known = {bool: "bool", int: "int | float", float: "float", str: "str", tuple: "tuple"}
    return known.get(type(default), "Any")


def _title(name: str) -> str:
    return "".join(word.capitalize() for word in name.rpartition("/")[2].split("_"))


def _documentation(name: str, fn: Any, inputs: Sequence[str]) -> str:
    """Return the function's own text, completed to what an op's looks like."""
    written = inspect.cleandoc(getattr(fn, "__doc__", None) or "")
    own = "" if isinstance(fn, np.ufunc) else written
    first, _, rest = (own or f"The function {name} of numpy arrays.").partition("\n\n")
    first = first if first.rstrip().endswith(".") else f"{first.rstrip()}."
    formula = f"y = {name.rpartition('/')[2]}({', '.join(inputs)})"
    return f"{first}\n\n{rest or formula}\n"
