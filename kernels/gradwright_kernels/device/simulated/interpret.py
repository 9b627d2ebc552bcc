"""Kernels in Triton's interpreter, in a process that compiles kernels, too; without torch.

The interpreter executes a kernel's Python once for each program, on real memory. Triton itself
takes a process that does so for one that never compiles, ``TRITON_INTERPRET=1``, since it puts
functions of its own in the place of the language's. Here they are put there for one launch and
taken away again, while nobody compiles. They are found once: a launch costs a quarter of Triton's
own, which looks for them in each call from one function to another.
"""

from __future__ import annotations

import functools
import itertools
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.jit import ConstexprFunction, JITFunction

from ...compile.compiler import TRITON, Call, pointer_type

Array = np.ndarray[Any, Any]
_MISSING = object()
_BUILDER: Any = interpreter.interpreter_builder
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class Watch:
    """Sees each access of a kernel to memory, and says where it really goes; this one lets all be.

    ``at`` are addresses, ``mask`` tells which of them count; both have one shape.
    """

    def load(self, at: Array, mask: Array, dtype: np.dtype[Any]) -> Array:
        """See a load."""
        return at

    def store(self, at: Array, mask: Array, values: Array) -> Array:
        """See a store of ``values``."""
        return at

    def atomic(self, at: Array, mask: Array, dtype: np.dtype[Any]) -> Array:
        """See what reads and writes at once."""
        return at


def interpret(call: Call, arrays: Sequence[Array]) -> None:
    """Run a kernel on numpy arrays, given in the order of ``call.pointers``.

    Raises:
        LoweringError: an array is not of the dtype that the call is for.

    Examples:
        >>> import numpy as np, triton
        >>> from gradwright_kernels.updates.adamw import _adam_scalars_kernel as kernel
        >>> names = kernel.arg_names
        >>> numbers = [np.array(x) for x in (1, 0.1, 0.5, 0.75, 0.0, 0.0)] + [np.zeros(8)]
        >>> args = {name: a.dtype for name, a in zip(names, numbers)}
        >>> interpret(Call(kernel, (1, 1, 1), args), numbers)
        >>> numbers[-1][:4].tolist()
        [0.5, 0.5, 0.75, 0.25]
    """
    call.check(arrays)
    run(call, [a.ctypes.data for a in arrays], Watch())


def run(
    call: Call,
    addresses: Sequence[int],
    watch: Watch,
    programs: Iterable[tuple[int, ...]] | None = None,
) -> None:
    """Run programs of a call, all unless told, the last index fastest; pointers are in order."""
    given = iter(addresses)
    declared = {p.name for p in call.kernel.params if p.is_constexpr}
    args = {
        name: _pointer(next(given), value)
        if isinstance(value, np.dtype)
        else value
        if name in declared or value is None
        else _number(value)
        for name, value in call.ordered()
    }
    with _interpreting(watch):
        function = _rewritten(call.kernel)
        _BUILDER.set_grid_dim(*call.grid)
        for index in itertools.product(*map(range, call.grid)) if programs is None else programs:
            _BUILDER.set_grid_idx(*index)
            function(**args)


def program() -> tuple[int, int, int]:
    """Return the index of the program that runs."""
    found: tuple[int, int, int] = _BUILDER.grid_idx
    return found


def is_kernel(code: types.CodeType) -> bool:
    """Tell whether code is that of a kernel, or of a function that one has called."""
    name = code.co_filename
    return any(f.__code__ is code and "/triton/" not in name for f in _functions.values())


def _pointer(address: int, dtype: np.dtype[Any]) -> Any:
    return _tensor(np.array([address], np.uint64), tl.str_to_ty(pointer_type(dtype), None))


def _number(value: int) -> Any:
    kind, dtype = (tl.int32, np.int32) if -(2**31) <= value < 2**31 else (tl.int64, np.int64)
    return _tensor(np.array([value], dtype), kind)


def _tensor(data: Array, kind: Any) -> Any:
    return tl.tensor(interpreter.TensorHandle(data, kind), kind)


# -- what is put in the place of Triton's own -----------------------------------------------------


@contextmanager
def _interpreting(watch: Watch) -> Iterator[None]:
    """Let Triton's language compute; nobody compiles meanwhile."""
    with TRITON:
        hooks = [(_BUILDER, name, hook) for name, hook in _hooks(watch).items()]
        held = []
        try:
            for owner, name, new in (*_language(), *hooks):
                held.append((owner, name, vars(owner).get(name, _MISSING)))
                setattr(owner, name, new)
            yield
        finally:
            for owner, name, old in reversed(held):
                if old is _MISSING:
                    delattr(owner, name)
                else:
                    setattr(owner, name, old)


@functools.cache
def _language() -> list[tuple[Any, str, Any]]:
    """Return what interpreting changes: owner, name, and the new attribute.

    Beside Triton's own changes, a bound of ``range`` may be a tensor (that fails in 3.6 with numpy
    2.4), functions of kernels may be called, and no overflow of integers is looked for, which takes
    half of the time.
    """
    seen = types.FunctionType((lambda: None).__code__, {"tl": tl, "core": tl.core})
    scope = interpreter._patch_lang(seen)
    found = [(owner, name, getattr(owner, name)) for owner, name, _ in scope._changes]
    scope.restore()
    calm = interpreter.InterpreterOptions(sanitize_overflow=False)
    return [
        *found,
        (tl.tensor, "__index__", lambda self: int(self.handle.data.item())),
        (JITFunction, "__call__", lambda self, *xs, **kw: _rewritten(self)(*xs, **kw)),
        (ConstexprFunction, "__call__", _call_plainly),
        (_BUILDER, "options", calm),
    ]


def _call_plainly(self: Any, *xs: Any, _semantic: Any = None, **kw: Any) -> Any:
    plain = tl.core._unwrap_if_constexpr
    return self.fn(*map(plain, xs), **{name: plain(x) for name, x in kw.items()})


_functions: weakref.WeakKeyDictionary[Any, Callable[..., Any]] = weakref.WeakKeyDictionary()


def _rewritten(kernel: Any) -> Callable[..., Any]:
    """Return a kernel, or a function of one, as the interpreter calls it."""
    found = _functions.get(kernel.fn)
    if found is None:
        found = _functions[kernel.fn] = interpreter.FunctionRewriter(kernel.fn).rewrite_ast()
    return found


def _hooks(watch: Watch) -> dict[str, Any]:
    """Return the calls of the interpreter that its others go through: memory, casts, products.

    Of the arithmetic of Triton 3.6 to 3.9 two things are mended: a cast to bfloat16 truncates where
    a GPU rounds to nearest even, and makes integers of float64; and ``tl.dot`` of bfloat16
    multiplies bit patterns. Other arithmetic on bfloat16 still works on bit patterns: kernels
    convert what they load to float32, as they should for accuracy.
    """
    builder, native = interpreter.InterpreterBuilder, interpreter._interpreter
    handle = interpreter.TensorHandle

    def load(ptrs: Any, mask: Any, other: Any, *how: Any) -> Any:
        kind = ptrs.get_element_ty()
        dtype = interpreter._get_np_dtype(kind)
        rest = _garbage(ptrs.data.shape, dtype) if other is None else other.data
        at = watch.load(ptrs.data, mask.data, dtype)
        return handle(native.load(at, mask.data, rest, dtype), kind)

    def store(ptrs: Any, value: Any, mask: Any, *how: Any) -> Any:
        at = watch.store(ptrs.data, mask.data, value.data)
        return native.store(at, value.data, mask.data)

    def rmw(kind: Any, ptr: Any, value: Any, mask: Any, *how: Any) -> Any:
        at = watch.atomic(ptr.data, mask.data, value.data.dtype)
        return builder.create_atomic_rmw(_BUILDER, kind, handle(at, ptr.dtype), value, mask, *how)

    def cas(ptr: Any, old: Any, value: Any, *how: Any) -> Any:
        at = watch.atomic(ptr.data, np.ones(ptr.data.shape, bool), value.data.dtype)
        return builder.create_atomic_cas(_BUILDER, handle(at, ptr.dtype), old, value, *how)

    def cast(source: Any, target: Any) -> Any:
        if target.scalar != tl.bfloat16 or source.dtype.scalar == tl.bfloat16:
            return builder.cast_impl(_BUILDER, source, target)
        rounded = source.data.astype(np.float32).astype(BFLOAT16)
        return handle(rounded.view(np.uint16), tl.bfloat16)

    def dot(a: Any, b: Any, c: Any, *how: Any) -> Any:
        if a.dtype.scalar == b.dtype.scalar == tl.bfloat16:
            numbers = [t.data.view(BFLOAT16).astype(np.float32) for t in (a, b)]
            a, b = (handle(x, tl.float32) for x in numbers)
        return builder.create_dot(_BUILDER, a, b, c, *how)

    return {
        "create_masked_load": load,
        "create_masked_store": store,
        "create_atomic_rmw": rmw,
        "create_atomic_cas": cas,
        "cast_impl": cast,
        "create_dot": dot,
    }


def _garbage(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return what a masked lane holds where no ``other`` is given: on a GPU anything."""
    if dtype.kind == "f":
        return np.full(shape, np.nan, dtype)
    return np.full((*shape, dtype.itemsize), 0xA5, np.uint8).view(dtype)[..., 0]
