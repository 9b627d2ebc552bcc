"""Triton used as a compiler: a kernel and the types of its arguments in, machine code out.

Nothing here needs a GPU, a C compiler or torch, so every kernel is compiled and held to its budgets
wherever the tests run. What a cubin expects at launch (its ABI) is checked when it is compiled: a
Triton that changes it fails here, with a message, and not on somebody's GPU.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from gradwright.errors import LoweringError
from gradwright.spec import dtype_name

from . import kept

POINTERS = {
    "float64": "*fp64",
    "float32": "*fp32",
    "float16": "*fp16",
    "bfloat16": "*bf16",
    "bool": "*i1",
    **{f"uint{bits}": f"*u{bits}" for bits in (8, 16, 32, 64)},
    **{f"int{bits}": f"*i{bits}" for bits in (8, 16, 32, 64)},
}
"""Triton's name for a pointer to each dtype that kernels read or write."""

TRITON = threading.RLock()
"""Triton's language is one for the process: at a time it is either compiled or interpreted."""

SHARED_LIMIT = {80: 166_912, 86: 101_376, 89: 101_376, 90: 232_448, 100: 232_448, 120: 101_376}
"""Most dynamic shared memory of one block in bytes, by compute capability (CUDA C guide)."""

COMPILER = triton.__version__, triton.knobs.nvidia.ptxas.path
"""What machine code depends on beside its text."""

REGISTERS_PER_BLOCK = 65_536
"""32-bit registers that one block can have on every GPU from sm_80 on."""


@dataclass(frozen=True)
class Call:
    """One kernel launch as a plan knows it: everything except where the arrays lie.

    ``args`` gives each parameter of the kernel by name: a dtype for a pointer to contiguous memory,
    None for an array that is not there, an int for a size, any constant for a ``tl.constexpr``.
    Numbers that are no ints lie in memory, where a step may change them. Pointers are multiples of
    16 bytes but for those in ``loose``. Where ``contracts`` is False no product and sum become one
    instruction, which would round once: then elements are the interpreter's to the bit.
    """

    kernel: Any
    grid: tuple[int, int, int]
    args: Mapping[str, Any]
    num_warps: int = 4
    loose: frozenset[str] = frozenset()
    contracts: bool = True
    num_stages: int = 3
    """How many turns of a loop have their loads under way, in shared memory."""

    @functools.cached_property
    def pointers(self) -> tuple[tuple[str, np.dtype[Any]], ...]:
        """Name and dtype of every array argument, in the kernel's order."""
        return tuple((k, v) for k, v in self.ordered() if isinstance(v, np.dtype))

    def runtime_values(self) -> list[Any]:
        """Return what the code takes at launch, in order: a dtype for an array, else the int."""
        pairs = zip(self.ordered(), self.signature.types, strict=True)
        return [value for (_, value), kind in pairs if kind != "constexpr"]

    def check(self, arrays: Sequence[Any]) -> None:
        """Raise LoweringError for arrays of a dtype that the code was not made for."""
        for (name, dtype), array in zip(self.pointers, arrays, strict=True):
            if array.dtype != dtype:
                raise LoweringError(
                    f"{self.kernel.__name__} got the wrong array for {name}",
                    facts=[dtype_name(array.dtype)],
                    need=dtype_name(dtype),
                )

    def ordered(self) -> list[tuple[str, Any]]:
        """Return names and arguments in the order of the kernel's parameters."""
        return [(name, self.args[name]) for name in self.kernel.arg_names]

    @functools.cached_property
    def signature(self) -> Signature:
        """The types and constants that the code is specialised for.

        Sizes of one and absent arrays become constants, and multiples of 16 are declared as such
        (Triton's own rules): that is what turns loads of neighbours into one wide load.
        """
        declared = {p.name for p in self.kernel.params if p.is_constexpr}
        args = self.ordered()
        types = tuple("constexpr" if n in declared else _type_of(v) for n, v in args)
        runtime = [t != "constexpr" for t in types]
        constants = tuple(arg for arg, r in zip(args, runtime, strict=True) if not r)
        aligned = tuple(
            i
            for i, ((n, v), r) in enumerate(zip(args, runtime, strict=True))
            if r and (n not in self.loose if isinstance(v, np.dtype) else v % 16 == 0)
        )
        options = self.num_warps, self.contracts, self.num_stages
        return Signature(self.kernel, types, constants, aligned, *options)


def pointer_type(dtype: np.dtype[Any]) -> str:
    """Return Triton's name for a pointer to a dtype; raises LoweringError where it has none."""
    found = POINTERS.get(dtype_name(dtype))
    if found is None:
        raise LoweringError(f"kernels do not read or write {dtype_name(dtype)}")
    return found


def _type_of(value: np.dtype[Any] | int | None) -> str:
    """Return Triton's name for the type of an argument."""
    if isinstance(value, np.dtype):
        return pointer_type(value)
    if value is None or value == 1:
        return "constexpr"
    if not isinstance(value, int):
        raise LoweringError(
            f"{value!r} is passed to a kernel at launch",
            need="a size or a stride, which are ints",
            hint="put the number in an array: a step may change it there",
        )
    return "i32" if -(2**31) <= value < 2**31 else "i64"


@dataclass(frozen=True)
class Signature:
    """What one specialisation of a kernel depends on; equal signatures share their code."""

    kernel: Any
    types: tuple[str, ...]
    constants: tuple[tuple[str, Any], ...]
    aligned: tuple[int, ...]
    num_warps: int
    contracts: bool
    num_stages: int

    @property
    def at_launch(self) -> tuple[str, ...]:
        """The types of what the code takes at launch."""
        return tuple(kind for kind in self.types if kind != "constexpr")

    @property
    def facts(self) -> tuple[Any, ...]:
        """All but the kernel, whose text stands for it."""
        options = self.num_warps, self.contracts, self.num_stages
        return self.types, self.constants, self.aligned, options


@dataclass(frozen=True)
class Resources:
    """What a kernel takes on the GPU: per thread, and shared memory per block."""

    registers: int
    spilled_bytes: int
    shared_bytes: int
    threads: int


@dataclass(frozen=True)
class Binary:
    """Machine code of one kernel, and what a launcher has to know about it."""

    name: str
    capability: int
    types: tuple[str, ...]
    threads: int
    shared_bytes: int
    cubin: bytes = field(repr=False)
    ptx: str = field(repr=False, compare=False)

    def resources(self) -> Resources:
        """Read registers and spills from the cubin with the ``cuobjdump`` that Triton brings."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "kernel.cubin")
            path.write_bytes(self.cubin)
            tool = triton.knobs.nvidia.cuobjdump.path
            done = subprocess.run(
                [tool, "-res-usage", str(path)], capture_output=True, text=True, check=True
            )
        report = done.stdout + done.stderr
        found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", report)
        if found is None:
            raise LoweringError(f"{self.name}: cuobjdump reports no registers", facts=[report])
        # ptxas spills to the stack frame; LOCAL only counts arrays, which our kernels do not have.
        registers, stack, local = map(int, found.groups())
        return Resources(registers, stack + local, self.shared_bytes, self.threads)


def compile_call(call: Call, capability: int) -> Binary:
    """Compile a call for a GPU of compute capability ``capability``, such as 90 for 9.0.

    The result is kept on disk; asking again takes about a millisecond, in one process nothing.

    Raises:
        LoweringError: Triton cannot compile the kernel, or its output is not what we can launch.
    """
    with TRITON:
        return _compile(call.signature, capability)


@functools.lru_cache(maxsize=512)
def _compile(signature: Signature, capability: int) -> Binary:
    name = kept.key(signature.kernel.cache_key, signature.facts, capability, *COMPILER)
    binary: Binary | None = kept.load(Binary, name)
    if binary is None:
        binary = _compiled(signature, capability)
        kept.store(binary, name)
    return binary


def _compiled(signature: Signature, capability: int) -> Binary:
    names = signature.kernel.arg_names
    source = ASTSource(
        fn=signature.kernel,
        signature=dict(zip(names, signature.types, strict=True)),
        constexprs=dict(signature.constants),
        attrs={(i,): [["tt.divisibility", 16]] for i in signature.aligned},
    )
    options = {
        "num_warps": signature.num_warps,
        # All registers that a block can have: left alone, ptxas spills a few to fit more blocks.
        "maxnreg": min(255, REGISTERS_PER_BLOCK // (32 * signature.num_warps)),
        # Triton changes its mind about fused multiply-add; stated, all versions compile alike.
        "enable_fp_fusion": signature.contracts,
        "num_stages": signature.num_stages,
    }
    try:
        compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    except Exception as error:  # Triton raises whatever its stages raise
        raise LoweringError(
            f"Triton {triton.__version__} cannot compile {source.name} for sm_{capability}",
            facts=str(error).strip().splitlines(),
        ) from error
    meta = compiled.metadata
    binary = Binary(
        meta.name,
        capability,
        signature.at_launch,
        32 * meta.num_warps,
        meta.shared,
        compiled.asm["cubin"],
        compiled.asm["ptx"],
    )
    _check_abi(binary, meta)
    return binary


def _check_abi(binary: Binary, meta: Any) -> None:
    """Hold the kernel to the ABI our launcher speaks.

    Runtime arguments in order, then two pointers to scratch memory that our kernels never use
    (Triton 3.6 to 3.9); one block is one CTA of ``threads`` x 1 x 1.
    """
    entry = re.search(rf"\.entry\s+{re.escape(binary.name)}\s*\((.*?)\)", binary.ptx, re.S)
    n_params = len(re.findall(r"\.param\b", entry[1])) if entry else -1
    needs_scratch = meta.global_scratch_size or meta.profile_scratch_size
    if n_params != len(binary.types) + 2 or meta.num_ctas != 1 or needs_scratch:
        raise LoweringError(
            f"Triton {triton.__version__} passes arguments to {binary.name} in a new way",
            facts=[f"{n_params} parameters, {meta.num_ctas} CTAs, scratch memory: {needs_scratch}"],
            need=f"{len(binary.types)} arguments and two unused scratch pointers",
            hint="a Triton from 3.6 to 3.9",
        )
