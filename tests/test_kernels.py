"""The Triton kernels without a GPU: compiled for one, launched on a fake driver, and interpreted.

A process either compiles or interprets. This one compiles; the numbers are checked by
``interpreted_kernels.py``, which runs in a process of its own with ``TRITON_INTERPRET=1``.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import LoweringError

HERE = Path(__file__).parent
INTERPRETING = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")

triton = pytest.importorskip("triton", reason="Triton has wheels for Linux only")
pytestmark = pytest.mark.skipif(INTERPRETING, reason="TRITON_INTERPRET is set: nothing compiles")

if not INTERPRETING:
    from gradwright_kernels import compile_ahead, compiler
    from gradwright_kernels.compiler import Call
    from gradwright_kernels.driver import DeviceArray, Driver


def child(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], capture_output=True, text=True, env={**os.environ, **env}
    )


# -- interpreted ---------------------------------------------------------------------------------


def test_numbers_in_the_interpreter() -> None:
    path = str(HERE / "interpreted_kernels.py")
    done = child("-m", "pytest", "-q", "-p", "no:cacheprovider", path, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


# -- launched ------------------------------------------------------------------------------------


class Log(ctypes.Structure):
    """What the fake driver was asked for; the struct of ``fake_cuda.c``."""

    names = "grid threads shared stream launches modules attribute allocated freed"
    _fields_ = [*((name, ctypes.c_uint64) for name in names.split()), ("params", ctypes.c_uint64 * 24)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the fake driver with")
    path = str(tmp_path_factory.mktemp("cuda") / "libcuda.so.1")
    source = str(HERE / "fake_cuda.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", path, source], check=True)
    return path


@pytest.fixture
def fake(library: str) -> SimpleNamespace:
    driver = Driver(library)
    driver.cuda.fake_log.restype = ctypes.POINTER(Log)
    log = driver.cuda.fake_log().contents
    ctypes.memset(ctypes.byref(log), 0, ctypes.sizeof(log))
    return SimpleNamespace(driver=driver, log=log, cuda=driver.cuda)


def on_gpu(address: int, shape: tuple[int, ...], dtype: str = "float32") -> DeviceArray:
    return DeviceArray(address, shape, np.dtype(dtype))


if not INTERPRETING:
    import triton.language as tl

    @triton.jit
    def add_kernel(x_ptr, n, z_ptr, y_ptr, one, big, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        y = tl.load(x_ptr + i, mask=i < n) + one + big
        if z_ptr is not None:
            y += tl.load(z_ptr + i, mask=i < n)
        tl.store(y_ptr + i, y.to(y_ptr.dtype.element_ty), mask=i < n)

    F32, F16 = np.dtype("float32"), np.dtype("float16")
    ADD = {"x_ptr": F32, "n": 1000, "z_ptr": None, "y_ptr": F16, "one": 1, "big": 2**40, "BLOCK": 256}


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
        (lambda: on_gpu(0x10000, (1000,), "float64"), r"wrong array for x_ptr\n.*float64\n.*float32"),
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
    space = fake.driver.workspace((3, 5), np.dtype("float64"))
    assert (fake.log.allocated, fake.log.freed) == (120, 0)
    del space
    gc.collect()
    assert fake.log.freed == 1


def test_large_shared_memory_is_asked_for(fake: SimpleNamespace, monkeypatch) -> None:
    call = Call(add_kernel, (1, 1, 1), ADD)
    compiled = compiler.compile_call(call, 90)
    large = dataclasses.replace(compiled, shared_bytes=100_000)
    monkeypatch.setattr("gradwright_kernels.driver.compile_call", lambda call, capability: large)
    run = fake.driver.prepare(call)
    assert fake.log.attribute == 100_000
    run(on_gpu(0x10000, (1000,)), on_gpu(0x20000, (1000,), "float16"))
    assert fake.log.shared == 100_000


def test_a_driver_without_gpus(library: str) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(LoweringError, match="sees none"):
        patch.setenv("FAKE_GPUS", "0")
        Driver(library)
