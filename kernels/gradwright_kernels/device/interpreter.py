"""Run kernels on numpy arrays in Triton's interpreter, without a GPU and without torch.

The interpreter executes a kernel's Python once per program, on real memory: what a kernel stores
lands in the numpy array itself. It checks numbers and masks, not races or speed. A process either
interprets or compiles: ``TRITON_INTERPRET=1`` must be set before Triton is first imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from gradwright.spec import TensorSpec

from ..compile.compiler import Call

Array = np.ndarray[Any, Any]


class HostArray:
    """A numpy array in the shape of the tensor that the interpreter expects; nothing is copied.

    The interpreter moves each argument to the host and back through torch's storage protocol. Host
    memory is already there, so every step of that dance returns the object itself.
    """

    __slots__ = ("array", "dtype")

    def __init__(self, array: Array) -> None:
        self.array, self.dtype = array, array.dtype

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self.array.ctypes.data

    def untyped_storage(self) -> HostArray:
        """Return the memory that kernels read and write: this array's own."""
        return self

    def cpu(self) -> HostArray:
        """Return the storage on the host."""
        return self

    def copy_(self, other: HostArray) -> None:
        """Copy the storage back to its device, where it already is."""

    def new_empty(self, size: int, device: str) -> HostArray:
        """Return the tensor that will be pointed at the host storage."""
        return self

    def set_(self, storage: HostArray, offset: int, size: Any, stride: Any) -> None:
        """Point the tensor at the host storage, which it is."""

    def storage_offset(self) -> int:
        """Return where the tensor starts in its storage."""
        return 0

    def size(self) -> tuple[int, ...]:
        """Return the shape."""
        shape: tuple[int, ...] = self.array.shape
        return shape

    def stride(self) -> tuple[int, ...]:
        """Return the strides in elements."""
        return tuple(s // self.array.itemsize for s in self.array.strides)


class Interpreter:
    """The runtime of a process that interprets: launchers that take numpy arrays."""

    def __init__(self) -> None:
        repair()

    def prepare(self, call: Call) -> Callable[..., None]:
        """Return a function of the call's arrays, in the kernel's order, that interprets it."""
        launch = call.kernel[call.grid]
        names = [name for name, _ in call.pointers]
        rest = {k: v for k, v in call.args.items() if k not in names}

        def run(*arrays: Array) -> None:
            call.check(arrays)
            launch(**dict(zip(names, map(HostArray, arrays), strict=True)), **rest)

        return run

    def workspace(self, spec: TensorSpec) -> Array:
        """Return memory for what one kernel leaves to the next, filled with NaN."""
        return np.full(spec.shape, np.nan, spec.dtype)


def repair() -> None:
    """Mend what the interpreter of Triton 3.6 to 3.9 gets wrong on numpy; calling it again is free.

    - A tensor used as a bound of ``range`` fails in 3.6 with numpy >= 2.4.
    - float32 is truncated to bfloat16, where a GPU rounds to nearest even, and float64 is turned
      into integers (3.6 to 3.9).
    - ``tl.dot`` of bfloat16 multiplies bit patterns (3.6 to 3.9).

    Other arithmetic on bfloat16 still works on bit patterns: kernels convert what they load to
    float32, as they should for accuracy.
    """
    builder = interpreter.InterpreterBuilder
    if getattr(builder, "gradwright_repaired", False):
        return
    builder.gradwright_repaired = True

    patch_tensor = interpreter._patch_lang_tensor
    cast, dot = builder.cast_impl, builder.create_dot

    def patch_lang_tensor(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        if target.scalar != tl.bfloat16 or source.dtype.scalar == tl.bfloat16:
            return cast(self, source, target)
        rounded = source.data.astype(np.float32).astype(ml_dtypes.bfloat16)
        return interpreter.TensorHandle(rounded.view(np.uint16), tl.bfloat16)

    def create_dot(self: Any, a: Any, b: Any, c: Any, *options: Any) -> Any:
        if a.dtype.scalar == b.dtype.scalar == tl.bfloat16:
            numbers = [t.data.view(ml_dtypes.bfloat16).astype(np.float32) for t in (a, b)]
            a, b = (interpreter.TensorHandle(x, tl.float32) for x in numbers)
        return dot(self, a, b, c, *options)

    interpreter._patch_lang_tensor = patch_lang_tensor
    builder.cast_impl, builder.create_dot = cast_impl, create_dot
