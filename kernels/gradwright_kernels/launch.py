"""What every lowering here is made of: a kernel, its grid, and the kinds of its arguments.

``prepare`` is called when a plan is made. Where the kernel then runs is not the lowering's concern:
on a GPU, in the interpreter, or nowhere, when it is only compiled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import triton
import triton.language as tl

from gradwright.errors import LoweringError
from gradwright.fuse.dense import stand_in
from gradwright.op import Op, infer_specs
from gradwright.program.lowering import Found, Launch, Make, find_launch, lowering
from gradwright.spec import TensorSpec, dtype_name

from .compile.compiler import Binary, Call, compile_call


class Runtime(Protocol):
    """Where kernels run."""

    def prepare(self, call: Call) -> Callable[..., None]:
        """Return a function of the call's arrays that launches it."""

    def workspace(self, spec: TensorSpec) -> Any:
        """Return memory for what one kernel leaves to the next."""

    def alarm(self, spec: TensorSpec, operands: Sequence[int] = ()) -> Any:
        """Return memory where kernels tell what is wrong; a kernel has to clear it."""

    def constant(self, array: np.ndarray[Any, Any]) -> Any:
        """Return memory that holds these numbers."""

    def generated(self, source: str) -> None:
        """Keep the text that was generated for a step."""


_chosen: ContextVar[Runtime] = ContextVar("runtime")


@contextlib.contextmanager
def use(runtime: Runtime) -> Iterator[None]:
    """Make lowerings prepare their kernels for another runtime, in this thread."""
    token = _chosen.set(runtime)
    try:
        yield
    finally:
        _chosen.reset(token)


class Asking:
    """A runtime that runs nothing: a lowering is asked whether it takes an op."""

    def prepare(self, call: Call) -> Callable[..., None]:
        """Return what is never called."""
        return lambda *arrays: None

    def workspace(self, spec: TensorSpec) -> None:
        """Need no memory."""

    def alarm(self, spec: TensorSpec, operands: Sequence[int] = ()) -> None:
        """Need no memory."""

    def constant(self, array: np.ndarray[Any, Any]) -> None:
        """Need no memory."""

    def generated(self, source: str) -> None:
        """Keep no text."""


def prepare(
    kernel: Any,
    programs: int | tuple[int, int, int],
    args: Mapping[str, Any],
    num_warps: int = 4,
    loose: frozenset[str] = frozenset(),
    num_stages: int = 3,
) -> Callable[..., None]:
    """Make a kernel ready to run as so many programs; see :class:`Call` for ``args``."""
    grid = programs if isinstance(programs, tuple) else (programs, 1, 1)
    return prepared(Call(kernel, grid, args, num_warps, loose, num_stages=num_stages))


def workspace(spec: TensorSpec) -> Any:
    """Return memory for what one kernel leaves to the next; it lives as long as the launcher."""
    return _runtime().workspace(spec)


def prepared(call: Call) -> Callable[..., None]:
    """Make a call ready to run."""
    return _runtime().prepare(call)


def alarm(spec: TensorSpec, operands: Sequence[int] = ()) -> Any:
    """Return memory where kernels tell what is wrong, of whole numbers; all 0 says nothing is.

    A kernel clears it first. A plan looks at it when its run is done and, where it is not all 0,
    runs the op itself, which raises. In a fused group each number tells of one of ``operands``.
    """
    return _runtime().alarm(spec, operands)


def constant(array: np.ndarray[Any, Any]) -> Any:
    """Return memory that holds these numbers, such as a table of weights."""
    return _runtime().constant(array)


def generated(source: str) -> None:
    """Keep the text that was generated for a step, for who wants to read it."""
    _runtime().generated(source)


def _runtime() -> Runtime:
    return _chosen.get(None) or Asking()


class Ahead(Asking):
    """A runtime that compiles for a GPU that need not be there, and keeps what it compiled."""

    def __init__(self, capability: int) -> None:
        self.capability = capability
        self.binaries: list[Binary] = []

    def prepare(self, call: Call) -> Callable[..., None]:
        """Compile the call, which is not to be run."""
        self.binaries.append(compile_call(call, self.capability))
        return super().prepare(call)


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
    outs = infer_specs(op, ins)
    with use(runtime):
        found = find(op, ins, outs)
        if isinstance(found, Strided):
            found.bind([stand_in(s) for s in ins], [stand_in(s) for s in outs])
    return runtime.binaries


KINDS: list[Make] = []
"""Lowerings of kinds of ops, asked where an op has none of its own."""


def find(op: Op, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]) -> Found:
    """Return what the GPU's lowering of an op makes for these specs, be it that of its kind."""
    own = find_launch(op, "cuda", ins, outs)
    return own or next((f for make in KINDS if (f := make(op, ins, outs)) is not None), None)


WHOLE: set[str] = set()
"""Ops that no fused group takes in, since they have better kernels of their own."""

_pullbacks: dict[str, Make] = {}


def pullback(op: str) -> Callable[[Make], Make]:
    """Register how the gradient of the composite called ``op`` runs whole on the GPU.

    It is made with the specs of the composite's inputs followed by those of the cotangents, and has
    one output for each input in ``wrt``.
    """

    def decorate(make: Make) -> Make:
        _pullbacks[op] = make
        return make

    return decorate


@lowering("pullback", device="cuda")
def _pullback(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Found:
    make = _pullbacks.get(op.op.name)
    return None if make is None else make(op, ins, outs)


def contiguous(arrays: Sequence[Any]) -> list[Any]:
    """Return the arrays that are there; a plan has made dense what a kernel takes so."""
    found = [a for a in arrays if a is not None]
    for a in found:
        if not a.flags.c_contiguous:
            raise LoweringError(f"a kernel takes contiguous arrays, not {a!r}")
    return found


def is_dense(array: Any) -> bool:
    """Tell whether elements lie one after the other from where a load of 16 bytes may begin."""
    return bool(array.flags.c_contiguous and array.ctypes.data % 16 == 0)


def loose(named: Mapping[str, Any]) -> frozenset[str]:
    """Return the pointers that are no multiples of 16 bytes."""
    found = (n for n, x in named.items() if x is not None and x.ctypes.data % 16)
    return frozenset(f"{n}_ptr" for n in found)


@dataclass(frozen=True)
class Strided:
    """What a lowering returns whose kernels take inputs as they lie, such as transposed.

    ``bind`` is called when a plan knows that, with inputs and outputs as numpy arrays of which only
    shape, strides, dtype and ``ctypes.data % 16`` count; their memory is not to be touched.
    """

    bind: Callable[[Sequence[Any], Sequence[Any]], Launch]


def tile(n_cols: int, elements: int, per_thread: int = 16) -> tuple[int, int, int]:
    """Return rows per program, columns rounded up to a power of two, and warps for such a tile.

    Narrow rows share a program, so that it moves about ``elements`` elements whatever the width;
    wide rows get more warps, so that a thread holds at most ``per_thread`` elements of a tile.

    >>> from gradwright_kernels.launch import tile
    >>> tile(10, elements=2048), tile(5000, elements=2048)
    ((128, 16, 4), (1, 8192, 16))
    """
    block = triton.next_power_of_2(n_cols)
    rows = max(1, elements // block)
    return rows, block, min(32, max(4, rows * block // (32 * per_thread)))


SMALLEST = 16
"""Rows, columns and depth of a product at least: what tensor cores take."""

PROGRAMS = 264
"""Programs among which one long sum is shared out: two for each processor of an H100, the same on
every GPU, so that parts are added up in the same order everywhere."""


def fitted(most: int, size: int) -> int:
    """Return the size of a tile along an axis: a power of two that a short axis fits in.

    >>> fitted(128, 1000), fitted(128, 20), fitted(128, 3)
    (128, 32, 16)
    """
    return max(SMALLEST, min(most, int(triton.next_power_of_2(max(size, 1)))))


def reach(array: Any) -> int:
    """Return how many elements there are from the first to the last place, about."""
    steps = zip(array.strides, array.shape, strict=True)
    return int(sum(abs(s) * n for s, n in steps)) // int(array.itemsize) + 1


def accumulator(*specs: TensorSpec | None) -> Any:
    """Return what numbers are held in: float64 if one of the tensors is, else float32.

    None stands for dtypes that the kernels do not take.
    """
    names = {dtype_name(s.dtype) for s in specs if s is not None}
    if not names <= {"float16", "bfloat16", "float32", "float64"}:
        return None
    return tl.float64 if "float64" in names else tl.float32


def named(dtype: np.dtype[Any]) -> Any:
    """Return Triton's dtype of floating numbers.

    >>> named(np.dtype("float16"))
    triton.language.float16
    """
    return getattr(tl, dtype_name(dtype))


def pointer(spec: TensorSpec | None) -> np.dtype[Any] | None:
    """Return the kind of argument that a tensor is: its dtype, or None where there is none."""
    return None if spec is None else spec.dtype


def index_type(size: int) -> Any:
    """Return the integers that count the elements of an array: 32 bits where they suffice.

    Offsets take half the registers then, and an integer division a quarter of the time.
    """
    return tl.int32 if size < 2**31 else tl.int64
