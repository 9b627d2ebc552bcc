"""What every lowering here is made of: a kernel, its grid, and the kinds of its arguments.

``prepare`` is called when a plan is made. Where the kernel then runs is not the lowering's concern:
on the GPU, in the interpreter (``TRITON_INTERPRET=1``), or nowhere, when it is only compiled.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np
import triton
import triton.language as tl

from gradwright.lowering import find_launch
from gradwright.op import Op, infer_specs
from gradwright.spec import TensorSpec, dtype_name

from .compiler import Ahead, Binary, Call
from .driver import Driver
from .interpreter import Interpreter


class Runtime(Protocol):
    """Where kernels run."""

    def prepare(self, call: Call) -> Callable[..., None]:
        """Return a function of the call's arrays that launches it."""

    def workspace(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return memory for what one kernel leaves to the next."""


_chosen: ContextVar[Runtime] = ContextVar("runtime")


@contextlib.contextmanager
def use(runtime: Runtime) -> Iterator[None]:
    """Make lowerings prepare their kernels for another runtime."""
    token = _chosen.set(runtime)
    try:
        yield
    finally:
        _chosen.reset(token)


@functools.cache
def default() -> Runtime:
    """Return the interpreter where Triton interprets, else this machine's GPU."""
    return Interpreter() if triton.knobs.runtime.interpret else Driver()


def prepare(
    kernel: Any, n_programs: int, args: Mapping[str, Any], num_warps: int = 4
) -> Callable[..., None]:
    """Make a kernel ready to run ``n_programs`` times; see :class:`Call` for ``args``."""
    return _runtime().prepare(Call(kernel, (n_programs, 1, 1), args, num_warps))


def workspace(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return memory for what one kernel leaves to the next; it lives as long as the launcher."""
    return _runtime().workspace(shape, dtype)


def _runtime() -> Runtime:
    return _chosen.get(None) or default()


def compile_ahead(op: Op, *ins: TensorSpec, capability: int = 90) -> list[Binary]:
    """Compile the kernels that ``op`` uses on these inputs, for a GPU that need not be here.

    Tells what a kernel takes before it runs anywhere: registers, spills, shared memory, PTX.

    >>> import gradwright as gw
    >>> from gradwright_kernels import compile_ahead
    >>> softmax = gw.nn.softmax.op(axis=-1)
    >>> [binary] = compile_ahead(softmax, gw.TensorSpec((64, 1024)))
    >>> binary.resources().spilled_bytes, "ld.global.v4" in binary.ptx
    (0, True)
    """
    runtime = Ahead(capability)
    with use(runtime):
        find_launch(op, "cuda", ins, infer_specs(op, ins))
    return runtime.binaries


def contiguous(arrays: Sequence[Any]) -> list[Any]:
    """Return the arrays, with a copy of each whose elements are not in order, such as a fed x.T."""
    return [a if a.flags.c_contiguous else a.copy() for a in arrays]


def tile(n_cols: int, elements: int) -> tuple[int, int, int]:
    """Return rows per program, columns rounded up to a power of two, and warps for such a tile.

    Narrow rows share a program, so that it moves about ``elements`` elements whatever the width.
    """
    block = triton.next_power_of_2(n_cols)
    rows = max(1, elements // block)
    return rows, block, min(32, max(4, rows * block // 512))


def accumulator(dtype: np.dtype[Any]) -> Any:
    """Return what sums of ``dtype`` are held in: float64 for float64, float32 for narrower floats.

    None stands for a dtype that the kernels do not take.
    """
    narrow = dict.fromkeys(("float16", "bfloat16", "float32"), tl.float32)
    return {**narrow, "float64": tl.float64}.get(dtype_name(dtype))


def index_type(size: int) -> Any:
    """Return the integers that count the elements of an array: 32 bits where they suffice.

    Offsets take half the registers then, and an integer division a quarter of the time.
    """
    return tl.int32 if size < 2**31 else tl.int64
