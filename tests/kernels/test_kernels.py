"""The Triton kernels without a GPU: compiled for one, launched on a fake driver, and interpreted.

A process either compiles or interprets. This one compiles; the numbers are checked by
``kernel_numbers.py``, which runs in a process of its own with ``TRITON_INTERPRET=1``.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import LoweringError
from gradwright.op import find_op
from gradwright.ops.core.pullback import Pullback
from gradwright.program.lowering import find_launch, lowered_ops

HERE = Path(__file__).parent
INTERPRETING = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")

triton = pytest.importorskip("triton", reason="Triton has wheels for Linux only")
pytestmark = pytest.mark.skipif(INTERPRETING, reason="TRITON_INTERPRET is set: nothing compiles")

if not INTERPRETING:
    import triton.language as tl

    from gradwright_kernels import compile_ahead
    from gradwright_kernels.compile import compiler
    from gradwright_kernels.compile.compiler import Call
    from gradwright_kernels.device.driver import DeviceArray, Driver
    from gradwright_kernels.launch import index_type, use

    @triton.jit
    def add_kernel(x_ptr, n, z_ptr, y_ptr, one, big, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        y = tl.load(x_ptr + i, mask=i < n) + one + big
        if z_ptr is not None:
            y += tl.load(z_ptr + i, mask=i < n)
        tl.store(y_ptr + i, y.to(y_ptr.dtype.element_ty), mask=i < n)

    F32, F16 = np.dtype("float32"), np.dtype("float16")
    ADD = {
        "x_ptr": F32,
        "n": 1000,
        "z_ptr": None,
        "y_ptr": F16,
        "one": 1,
        "big": 2**40,
        "BLOCK": 256,
    }


def child(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], capture_output=True, text=True, env={**os.environ, **env}
    )


# -- interpreted ---------------------------------------------------------------------------------


def test_numbers_in_the_interpreter() -> None:
    path = str(HERE / "kernel_numbers.py")
    done = child("-m", "pytest", "-q", "-p", "no:cacheprovider", path, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


# -- compiled ahead of time ------------------------------------------------------------------------

# Shape, dtype, compute capability: narrow, single, vectorised, odd and wide rows. Each is compiled
# in 0.1 to 0.5 s and then kept in Triton's cache.
SOFTMAX = [
    *((shape, dtype, 90) for shape in [(64, 10), (16, 5000)] for dtype in ("float32", "bfloat16")),
    ((7, 1), "float16", 90),
    ((8, 1024), "float32", 90),
    ((4, 16_384), "float32", 90),
    ((4, 8_192), "float64", 90),
    ((4, 100_003), "bfloat16", 90),
    ((16, 5000), "float32", 80),
    ((4, 100_003), "float32", 80),
]
LAYER_NORM = [
    *((shape, dtype, 90) for shape in [(64, 10), (16, 5000)] for dtype in ("float32", "bfloat16")),
    ((7, 1), "float16", 90),
    ((8, 1024), "float32", 90),
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


def test_arrays_of_2_to_the_31_elements_are_indexed_in_64_bits() -> None:
    assert index_type(2**31 - 1) is tl.int32
    assert index_type(2**31) is tl.int64
    [binary] = compile_ahead(find_op("softmax")(), gw.TensorSpec((2**21, 1024)))
    hold_to_budget(binary)


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
    assert lowered_ops("cuda") == ["adam_update", "layer_norm", "pullback", "softmax"]


def test_kernels_are_what_the_folders_hold() -> None:
    package = importlib.util.find_spec("gradwright_kernels")
    assert package is not None and package.origin is not None
    files = Path(package.origin).parent.glob("*/*.py")
    kernels = [p for p in files if "@triton.jit" in p.read_text("utf-8")]
    assert len(kernels) >= 3
    for path in kernels:
        assert f"gradwright_kernels.{path.parent.name}.{path.stem}" in sys.modules
        assert '@lowering("' in path.read_text("utf-8"), f"{path.name} lowers nothing"


def test_importing_gradwright_imports_no_triton() -> None:
    done = child("-c", "import sys, gradwright as gw; gw.Session(gw.Graph()); print(*sys.modules)")
    assert not {"triton", "gradwright_kernels"} & set(done.stdout.split()), done.stderr


def test_a_session_without_a_gpu_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", no_driver)
    with pytest.raises(LoweringError, match=r"needs an NVIDIA GPU.*no NVIDIA driver\n.*libcuda"):
        gw.Session(gw.Graph(), device="cuda")


def test_a_session_without_triton_says_what_is_missing() -> None:
    program = """
import sys
sys.modules["triton"] = None
import gradwright as gw
try:
    gw.Session(gw.Graph(), device="cuda")
except gw.errors.LoweringError as error:
    print(error)
"""
    done = child("-c", program)
    assert "needs Triton, which is not installed" in done.stdout, done.stderr
    assert "gradwright[gpu]" in done.stdout


# -- launched ------------------------------------------------------------------------------------


class Log(ctypes.Structure):
    """What the fake driver was asked for; the struct of ``fake_cuda.c``."""

    names = "grid threads shared stream launches modules attribute allocated freed"
    _fields_ = [
        *((name, ctypes.c_uint64) for name in names.split()),
        ("params", ctypes.c_uint64 * 24),
    ]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    cc = shutil.which("cc") or shutil.which("gcc")
    if cc is None:
        pytest.skip("no C compiler to build the fake driver with")
    path = str(tmp_path_factory.mktemp("cuda") / "libcuda.so.1")
    source = str(HERE / "fake_cuda.c")
    subprocess.run([cc, "-shared", "-fPIC", "-Wall", "-Werror", "-o", path, source], check=True)
    return path


@pytest.fixture
def fake(library: str) -> Iterator[SimpleNamespace]:
    driver = Driver(library)
    driver.cuda.fake_log.restype = ctypes.POINTER(Log)
    log = driver.cuda.fake_log().contents
    ctypes.memset(ctypes.byref(log), 0, ctypes.sizeof(log))
    yield SimpleNamespace(driver=driver, log=log, cuda=driver.cuda)
    driver.cuda.fake_fail(0)


def on_gpu(address: int, shape: tuple[int, ...], dtype: str = "float32") -> DeviceArray:
    return DeviceArray(address, gw.TensorSpec(shape, dtype))


def test_the_driver_gets_grid_block_and_arguments_in_order(fake: SimpleNamespace) -> None:
    run = fake.driver.prepare(Call(add_kernel, (4, 1, 1), ADD, num_warps=8))
    fake.driver.stream = 0xABC0
    fake.cuda.fake_expect(4)
    run(on_gpu(0x10000, (1000,)), on_gpu(0x20000, (1000,), "float16"))
    assert (fake.log.grid, fake.log.threads, fake.log.stream) == (4, 256, 0xABC0)
    x, n, y, big = fake.log.params[:4]  # `one` and the absent `z_ptr` are compiled in
    assert (x, n & 0xFFFFFFFF, y, big) == (0x10000, 1000, 0x20000, 2**40)


def test_unused_scratch_pointers_are_null(fake: SimpleNamespace) -> None:
    run = fake.driver.prepare(Call(add_kernel, (4, 1, 1), ADD))
    fake.cuda.fake_expect(6)
    fake.log.params[4] = fake.log.params[5] = 1
    run(on_gpu(0x10000, (1000,)), on_gpu(0x20000, (1000,), "float16"))
    assert list(fake.log.params[4:6]) == [0, 0]


def test_new_arrays_are_bound_and_old_ones_are_not_read_again(fake: SimpleNamespace) -> None:
    run = fake.driver.prepare(Call(add_kernel, (4, 1, 1), ADD))
    fake.cuda.fake_expect(4)
    y = on_gpu(0x20000, (1000,), "float16")
    for address in (0x10000, 0x30000, 0x10000):
        run(on_gpu(address, (1000,)), y)
        assert fake.log.params[0] == address
    assert fake.log.launches == 3


def test_equal_kernels_are_loaded_once(fake: SimpleNamespace) -> None:
    for n in (1000, 1016):  # neither is a multiple of 16: the same code serves both
        fake.driver.prepare(Call(add_kernel, (4, 1, 1), {**ADD, "n": n}))
    assert fake.log.modules == 1
    fake.driver.prepare(Call(add_kernel, (4, 1, 1), {**ADD, "n": 1024}))
    assert fake.log.modules == 2


def test_a_lowering_launches_its_kernels_one_after_the_other(fake: SimpleNamespace) -> None:
    x, w = gw.TensorSpec((20, 100)), gw.TensorSpec((100,))
    op = Pullback(op=find_op("layer_norm")(), n_inputs=3, wrt=(1, 2), present=(True,))
    with use(fake.driver):
        launch = find_launch(op, "cuda", [x, w, w, x], [w, w])
    fake.cuda.fake_expect(4)
    xs = [DeviceArray(0x10000 * (i + 1), spec) for i, spec in enumerate([x, w, w, x])]
    launch(xs, [DeviceArray(0x80000, w), DeviceArray(0x90000, w)])
    assert (fake.log.launches, fake.log.grid) == (2, 2)  # 100 columns, 64 to a program
    n_programs = 3  # 20 rows, 8 to a program
    assert fake.log.allocated == 2 * n_programs * 100 * 4
    assert list(fake.log.params[1:3]) == [0x80000, 0x90000]
    assert fake.log.params[3] & 0xFFFFFFFF == n_programs


def test_another_thread_can_launch(fake: SimpleNamespace) -> None:
    run = fake.driver.prepare(Call(add_kernel, (4, 1, 1), ADD))
    arrays = on_gpu(0x10000, (1000,)), on_gpu(0x20000, (1000,), "float16")
    thread = threading.Thread(target=run, args=arrays)
    thread.start()
    thread.join()
    assert fake.log.launches == 1


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (lambda: on_gpu(0x10004, (1000,)), r"x_ptr is misaligned\n.*0x10004\n.*16 bytes"),
        (
            lambda: on_gpu(0x10000, (1000,), "float64"),
            r"wrong array for x_ptr\n.*float64\n.*float32",
        ),
        (lambda: np.zeros(2000, np.float32)[::2], r"strided float32\n.*contiguous float32"),
    ],
)
def test_arrays_that_would_stop_the_gpu_are_refused(fake: SimpleNamespace, x, message) -> None:
    run = fake.driver.prepare(Call(add_kernel, (4, 1, 1), ADD))
    with pytest.raises(LoweringError, match=message):
        run(x(), on_gpu(0x20000, (1000,), "float16"))
    assert fake.log.launches == 0


def test_a_failing_launch_says_which_kernel_and_why(fake: SimpleNamespace) -> None:
    run = fake.driver.prepare(Call(add_kernel, (4, 1, 1), ADD))
    fake.cuda.fake_fail(700)
    with pytest.raises(LoweringError, match="cannot launch add_kernel: an illegal memory access"):
        run(on_gpu(0x10000, (1000,)), on_gpu(0x20000, (1000,), "float16"))


def test_workspace_is_freed_with_its_last_user(fake: SimpleNamespace) -> None:
    space = fake.driver.workspace(gw.TensorSpec((3, 5), "float64"))
    assert (fake.log.allocated, fake.log.freed) == (120, 0)
    del space
    gc.collect()
    assert fake.log.freed == 1


def test_large_shared_memory_is_asked_for(fake: SimpleNamespace, monkeypatch) -> None:
    call = Call(add_kernel, (1, 1, 1), ADD)
    compiled = compiler.compile_call(call, 90)
    large = dataclasses.replace(compiled, shared_bytes=100_000)
    monkeypatch.setattr(
        "gradwright_kernels.device.driver.compile_call", lambda call, capability: large
    )
    run = fake.driver.prepare(call)
    assert fake.log.attribute == 100_000
    run(on_gpu(0x10000, (1000,)), on_gpu(0x20000, (1000,), "float16"))
    assert fake.log.shared == 100_000


def test_a_driver_without_gpus(library: str) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(LoweringError, match="sees none"):
        patch.setenv("FAKE_GPUS", "0")
        Driver(library)
