"""Triton kernels compiled ahead of time, for GPUs that need not be here; how they are found."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import LoweringError
from gradwright.op import find_op
from gradwright.ops.core.pullback import Pullback
from gradwright.program.lowering import lowered_ops

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

import triton
import triton.language as tl

from gradwright_kernels import compile_ahead
from gradwright_kernels.compile import compiler
from gradwright_kernels.compile.compiler import Call
from gradwright_kernels.launch import index_type
from gradwright_kernels.packed import products
from tests.kernels.test_launched import ADD, add_kernel

F32 = np.dtype("float32")


def child(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], capture_output=True, text=True, env={**os.environ, **env}
    )


# Shape, dtype, compute capability: narrow, single, vectorised, odd and wide rows. Each is compiled
# in 0.1 to 0.5 s and then kept in Triton's cache.
ROWS = [
    *((shape, dtype, 90) for shape in [(64, 10), (16, 5000)] for dtype in ("float32", "bfloat16")),
    ((7, 1), "float16", 90),
    ((8, 1024), "float32", 90),
]
SOFTMAX = [
    *ROWS,
    ((4, 16_384), "float32", 90),
    ((4, 8_192), "float64", 90),
    ((4, 100_003), "bfloat16", 90),
    ((16, 5000), "float32", 80),
    ((4, 100_003), "float32", 80),
]
LAYER_NORM = [
    *ROWS,
    ((4, 8_192), "bfloat16", 90),
    ((8, 2_048), "float64", 90),
    ((4, 8_192), "float32", 80),
]
ADAM = [  # size, dtype of parameters, dtype of moments, compute capability
    (1, "float16", "float16", 90),
    (1000, "float32", "float32", 90),
    (2**20, "bfloat16", "float32", 90),
    (2**20, "float64", "float64", 90),
    (2**20, "float32", "float32", 80),
]


def hold_to_budget(binary: compiler.Binary) -> None:
    used = binary.resources()
    assert used.spilled_bytes == 0, f"{binary} spills: {used}"
    assert used.shared_bytes <= compiler.SHARED_LIMIT[binary.capability]
    assert used.registers * used.threads <= compiler.REGISTERS_PER_BLOCK
    assert binary.cubin[:4] == b"\x7fELF"


@pytest.mark.parametrize(("shape", "dtype", "capability"), SOFTMAX)
def test_softmax_fits(shape: tuple[int, int], dtype: str, capability: int) -> None:
    x = gw.TensorSpec(shape, dtype)
    [binary] = compile_ahead(find_op("softmax")(axis=-1), x, capability=capability)
    hold_to_budget(binary)
    if shape[1] % 16 == 0 and dtype == "float32":
        assert "ld.global.v4" in binary.ptx, "neighbours are not loaded together"
        assert "st.global.v4" in binary.ptx, "neighbours are not stored together"


@pytest.mark.parametrize(("shape", "dtype", "capability"), LAYER_NORM)
def test_layer_norm_fits(shape: tuple[int, int], dtype: str, capability: int) -> None:
    x, w = gw.TensorSpec(shape, dtype), gw.TensorSpec(shape[1:], dtype)
    op = find_op("layer_norm")()
    [binary] = compile_ahead(op, x, w, w, capability=capability)
    hold_to_budget(binary)
    for wrt in [(0, 1, 2), (0,)]:
        grad = Pullback(op=op, n_inputs=3, wrt=wrt, present=(True,))
        binaries = compile_ahead(grad, x, w, w, x, capability=capability)
        assert len(binaries) == (2 if 1 in wrt else 1)
        for binary in binaries:
            hold_to_budget(binary)


@pytest.mark.parametrize(("n", "param", "state", "capability"), ADAM)
def test_adam_fits(n: int, param: str, state: str, capability: int) -> None:
    p, m = gw.TensorSpec((n,), param), gw.TensorSpec((n,), state)
    numbers = [gw.TensorSpec((), d) for d in ("int64", "float32", *4 * ["float64"])]
    binaries = compile_ahead(find_op("adam_update")(), p, p, m, m, *numbers, capability=capability)
    assert len(binaries) == 2
    for binary in binaries:
        hold_to_budget(binary)
    if n % 16 == 0 and param != "float64":
        assert "ld.global.v4" in binaries[-1].ptx, "neighbours are not loaded together"


MATMUL = [  # M, K, N, dtype, compute capability
    ((1000, 33, 129), "bfloat16", 90),
    ((512, 512, 512), "float16", 80),
    ((512, 512, 512), "float32", 80),
    ((512, 512, 512), "float64", 90),
]


@pytest.mark.parametrize(("shape", "dtype", "capability"), MATMUL)
def test_matmul_fits(shape: tuple[int, int, int], dtype: str, capability: int) -> None:
    m, k, n = shape
    op, a, b = find_op("matmul")(), gw.TensorSpec((m, k), dtype), gw.TensorSpec((k, n), dtype)
    [binary] = compile_ahead(op, a, b, capability=capability)
    hold_to_budget(binary)
    if dtype in ("float16", "bfloat16"):
        assert ("wgmma" if capability == 90 else "mma.sync") in binary.ptx, "no tensor cores"


def test_arrays_of_2_to_the_31_elements_are_indexed_in_64_bits() -> None:
    assert index_type(2**31 - 1) is tl.int32
    assert index_type(2**31) is tl.int64
    [binary] = compile_ahead(find_op("softmax")(), gw.TensorSpec((2**21, 1024)))
    hold_to_budget(binary)


def test_packed_weights_of_2_to_the_31_bytes_are_indexed_in_64_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of Llama 3.1 405B's head have fewer numbers than that, and more bytes."""
    taken: list[Any] = []
    monkeypatch.setattr(products, "prepare", lambda kernel, grid, args, warps: taken.append(args))
    w = gw.TensorSpec((128_256, 16_384 // 32 * 34), "uint8")
    ins = [gw.TensorSpec((1, 16_384)), w]
    products.packed_matmul(
        find_op("ggml_matmul")(format="q8_0"), ins, [gw.TensorSpec((1, 128_256))]
    )
    assert taken[0]["INDEX"] is tl.int64


def test_budgets_notice_a_spill() -> None:
    @triton.jit
    def greedy_kernel(x_ptr, BLOCK: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, BLOCK))
        tl.store(x_ptr + tl.arange(0, BLOCK), x / tl.sum(x))

    args = {"x_ptr": F32, "BLOCK": 16_384}  # 512 numbers for each of 32 threads
    call = Call(greedy_kernel, (1, 1, 1), args, num_warps=1)
    with pytest.raises(AssertionError, match="spills"):
        hold_to_budget(compiler.compile_call(call, 90))


def test_a_kernel_that_does_not_compile_says_so() -> None:
    @triton.jit
    def broken_kernel(x_ptr, BLOCK: tl.constexpr):
        tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)

    call = Call(broken_kernel, (1, 1, 1), {"x_ptr": F32, "BLOCK": 100})
    with pytest.raises(LoweringError, match=r"(?s)compile broken_kernel for sm_90\n.*power of 2"):
        compiler.compile_call(call, 90)


def test_another_abi_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Call(add_kernel, (1, 1, 1), ADD)
    compiled = compiler.compile_call(call, 90)
    scratch = SimpleNamespace(num_ctas=1, global_scratch_size=64, profile_scratch_size=0)
    with pytest.raises(LoweringError, match=r"in a new way\n  6 parameters"):
        compiler._check_abi(compiled, scratch)
    fewer = dataclasses.replace(compiled, types=compiled.types[:-1])
    plain = SimpleNamespace(num_ctas=1, global_scratch_size=0, profile_scratch_size=0)
    with pytest.raises(LoweringError, match="3 arguments and two unused scratch pointers"):
        compiler._check_abi(fewer, plain)


def test_compiling_needs_no_torch() -> None:
    program = """
import sys
import gradwright as gw
from gradwright.op import find_op
from gradwright_kernels import compile_ahead
assert compile_ahead(find_op("softmax")(), gw.TensorSpec((8, 100)))[0].resources().registers
assert "torch" not in sys.modules
"""
    done = child("-c", program)
    assert done.returncode == 0, done.stderr


# -- found by a session ----------------------------------------------------------------------------


def test_the_entry_point_offers_the_device() -> None:
    entries = importlib.metadata.entry_points(group="gradwright.lowerings", name="cuda")
    assert [entry.value for entry in entries] == ["gradwright_kernels"]
    ours = {"adam_update", "check_classes", "concat", "layer_norm", "matmul", "softmax", "stack"}
    assert ours <= set(lowered_ops("cuda")) == set(lowered_ops("cuda-sim"))


def test_kernels_are_what_the_folders_hold() -> None:
    package = importlib.util.find_spec("gradwright_kernels")
    assert package is not None and package.origin is not None
    files = Path(package.origin).parent.glob("*/*.py")
    apart = "fused", "device"  # what these write and decide is no op's own
    written = (p for p in files if p.parent.name not in apart)
    kernels = [p for p in written if re.search(r"^def _\w+_kernel\(", p.read_text("utf-8"), re.M)]
    assert len(kernels) >= 5
    for path in kernels:
        assert f"gradwright_kernels.{path.parent.name}.{path.stem}" in sys.modules
        family = "".join(p.read_text("utf-8") for p in path.parent.glob("*.py"))
        assert '@lowering("' in family or '@written("' in family, f"{path.name} lowers nothing"


def test_importing_gradwright_imports_no_triton() -> None:
    """A session on a GPU does, and neither trainers nor the debugger."""
    opened = "gw.Session(gw.Graph(), device={!r}); print(*sys.modules)"
    program = ["import sys, gradwright as gw", opened.format("cpu"), opened.format("cuda-sim")]
    done = child("-c", "; ".join(program))
    host, gpu = (set(line.split()) for line in done.stdout.splitlines())
    assert not {"triton", "gradwright_kernels"} & host, done.stderr
    asked = {"gradwright_kernels.seen.steps", "gradwright.train", "gradwright.debug"}
    assert "gradwright_kernels" in gpu and not asked & gpu


def test_a_session_without_a_gpu_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", no_driver)
    with pytest.raises(LoweringError, match=r"needs an NVIDIA GPU.*no NVIDIA driver\n.*libcuda"):
        gw.Session(gw.Graph(), device="cuda")


@pytest.mark.parametrize(
    ("before", "said", "hint"),
    [
        ("sys.modules['triton'] = None", "need Triton, which is not installed", "gradwright[gpu]"),
        ("os.environ['TRITON_INTERPRET'] = '1'", "TRITON_INTERPRET is set", "unset it: device="),
    ],
)
def test_a_session_says_what_is_missing(before: str, said: str, hint: str) -> None:
    program = f"""
import os, sys
{before}
import gradwright as gw
for device in ("cuda", "cuda-sim"):
    try:
        gw.Session(gw.Graph(), device=device)
    except gw.errors.LoweringError as error:
        print(error)
"""
    done = child("-c", program)
    assert done.stdout.count(said) == done.stdout.count(hint) == 2, done.stdout + done.stderr
