"""What the driver is asked for when kernels are launched: a ``libcuda`` that records its calls."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import shutil
import subprocess
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
from gradwright.program.lowering import find_launch

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

import triton
import triton.language as tl

from gradwright_kernels.compile import compiler
from gradwright_kernels.compile.compiler import Call
from gradwright_kernels.device import open as opening
from gradwright_kernels.device.array import DeviceArray
from gradwright_kernels.device.driver import SIGNATURES, Driver
from gradwright_kernels.device.launcher import Eager
from gradwright_kernels.device.staging import SMALL
from gradwright_kernels.launch import use

HERE = Path(__file__).parent
F32, F16 = np.dtype("float32"), np.dtype("float16")


@triton.jit
def add_kernel(x_ptr, n, z_ptr, y_ptr, one, big, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(x_ptr + i, mask=i < n) + one + big
    if z_ptr is not None:
        y += tl.load(z_ptr + i, mask=i < n)
    tl.store(y_ptr + i, y.to(y_ptr.dtype.element_ty), mask=i < n)


ADD = {"x_ptr": F32, "n": 1000, "z_ptr": None, "y_ptr": F16, "one": 1, "big": 2**40, "BLOCK": 256}


class Log(ctypes.Structure):
    """What the fake driver was asked for; the struct of ``fake_cuda.c``."""

    names = (
        "grid threads shared stream launches modules attribute allocated freed copied waited pinned"
        " kept graphs closed"
    )
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
    driver = Driver(library=library)
    cuda = driver.library
    cuda.fake_log.restype = ctypes.POINTER(Log)
    log = cuda.fake_log().contents
    ctypes.memset(ctypes.byref(log), 0, ctypes.sizeof(log))
    yield SimpleNamespace(runtime=Eager(driver), driver=driver, log=log, cuda=cuda)
    cuda.fake_fail(0)


def on_gpu(address: int, shape: tuple[int, ...], dtype: str = "float32") -> DeviceArray:
    return DeviceArray(address, gw.TensorSpec(shape, dtype))


def test_the_driver_gets_grid_block_and_arguments_in_order(fake: SimpleNamespace) -> None:
    run = fake.runtime.prepare(Call(add_kernel, (4, 1, 1), ADD, num_warps=8))
    fake.runtime.stream = 0xABC0
    fake.cuda.fake_expect(4)
    run(on_gpu(0x10000, (1000,)), on_gpu(0x20000, (1000,), "float16"))
    assert (fake.log.grid, fake.log.threads, fake.log.stream) == (4, 256, 0xABC0)
    x, n, y, big = fake.log.params[:4]  # `one` and the absent `z_ptr` are compiled in
    assert (x, n & 0xFFFFFFFF, y, big) == (0x10000, 1000, 0x20000, 2**40)


def test_unused_scratch_pointers_are_null(fake: SimpleNamespace) -> None:
    run = fake.runtime.prepare(Call(add_kernel, (4, 1, 1), ADD))
    fake.cuda.fake_expect(6)
    fake.log.params[4] = fake.log.params[5] = 1
    run(on_gpu(0x10000, (1000,)), on_gpu(0x20000, (1000,), "float16"))
    assert list(fake.log.params[4:6]) == [0, 0]


def test_equal_kernels_are_loaded_once(fake: SimpleNamespace) -> None:
    for n in (1000, 1016):  # neither is a multiple of 16: the same code serves both
        fake.runtime.prepare(Call(add_kernel, (4, 1, 1), {**ADD, "n": n}))
    assert fake.log.modules == 1
    fake.runtime.prepare(Call(add_kernel, (4, 1, 1), {**ADD, "n": 1024}))
    assert fake.log.modules == 2


def test_a_lowering_launches_its_kernels_one_after_the_other(fake: SimpleNamespace) -> None:
    x, w = gw.TensorSpec((20, 100)), gw.TensorSpec((100,))
    op = Pullback(op=find_op("layer_norm")(), n_inputs=3, wrt=(1, 2), present=(True,))
    with use(fake.runtime):
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
    run = fake.runtime.prepare(Call(add_kernel, (4, 1, 1), ADD))
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
    ],
)
def test_arrays_that_would_stop_the_gpu_are_refused(fake: SimpleNamespace, x, message) -> None:
    run = fake.runtime.prepare(Call(add_kernel, (4, 1, 1), ADD))
    with pytest.raises(LoweringError, match=message):
        run(x(), on_gpu(0x20000, (1000,), "float16"))
    assert fake.log.launches == 0


def test_a_failing_launch_says_which_kernel_and_why(fake: SimpleNamespace) -> None:
    run = fake.runtime.prepare(Call(add_kernel, (4, 1, 1), ADD))
    fake.cuda.fake_fail(700)
    with pytest.raises(LoweringError, match="cannot launch add_kernel: an illegal memory access"):
        run(on_gpu(0x10000, (1000,)), on_gpu(0x20000, (1000,), "float16"))


def test_workspace_is_freed_with_its_last_user(fake: SimpleNamespace) -> None:
    space = fake.runtime.workspace(gw.TensorSpec((3, 5), "float64"))
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
    run = fake.runtime.prepare(call)
    assert fake.log.attribute == 100_000
    run(on_gpu(0x10000, (1000,)), on_gpu(0x20000, (1000,), "float16"))
    assert fake.log.shared == 100_000


def test_memory_streams_and_events(fake: SimpleNamespace) -> None:
    driver, host = fake.driver, np.zeros(4, np.uint8)
    at, stream, event = driver.allocate(16), driver.make_stream(), driver.make_event()
    driver.copy_in(at, host.ctypes.data, 4, stream)
    driver.copy(at + 8, at, 4, stream)
    driver.copy_out(host.ctypes.data, at, 4, stream)
    driver.record(event, stream)
    driver.wait_event(0, event)
    driver.wait(stream)
    driver.free(at)
    assert (fake.log.copied, fake.log.waited, driver.memory()) == (12, 2, (16 << 20, 1 << 30))
    fake.cuda.fake_fail(2)
    with pytest.raises(MemoryError, match="allocate 64 bytes of GPU memory"):
        driver.allocate(64)


def test_a_session_is_a_copy_a_graph_and_a_wait_from_the_third_run_on(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "gpu", lambda ordinal: fake.driver)
    monkeypatch.setattr(opening, "freest", lambda: 0)
    g = gw.Graph()
    w, y = g.variable("w", (30,)), gw.exp(g.placeholder("x", (30,)))
    large = g.placeholder("large", (SMALL // 4 + 1,))
    fake.cuda.fake_order.restype = ctypes.c_char_p
    begun = [len(fake.cuda.fake_order())]

    def calls() -> str:
        begun.append(len(fake.cuda.fake_order()))
        return fake.cuda.fake_order()[begun[-2] :].decode()

    with gw.Session(g, device="cuda") as session:
        run = session.prepare(y, ["x"], {w: w + y})
        found = []
        for _ in range(4):
            run(np.zeros(30))
            found.append(calls())
        # w and x; exp, whether it commits, the update; y and whether it did; the host waits
        assert found[0] == "iw" + "ikkkoow"
        assert found[1:] == ["i[kkkoo]gw", "igw", "igw"]
        assert fake.log.stream != 0
        assert g.values.version("w") in (0, 4)  # what the fake has copied to the host says no
        session.run(large * 2.0, {large: np.zeros(large.shape)})  # takes more memory than there was
        calls()
        run(np.zeros(30))
        assert calls() == "ikkkoow"  # what was kept for other addresses is gone
        pinned = fake.log.pinned
        run(np.zeros(30))
        assert fake.log.pinned == pinned


def test_errors_of_the_driver_name_the_node_and_what_to_try(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "gpu", lambda ordinal: fake.driver)
    g = gw.Graph()
    y = gw.exp(g.placeholder("x", (30,)), name="grown")
    with gw.Session(g, device="cuda:0") as session:
        run = session.prepare(y, ["x"])
        run(np.zeros(30))
        fake.cuda.fake_fail(719)
        with pytest.raises(LoweringError, match=r"error 719\)(.|\n)*check=\"replay\"") as caught:
            run(np.zeros(30))
        fake.cuda.fake_fail(0)
    with gw.Session(g, device="cuda:0", check="replay") as session:
        monkeypatch.setattr(fake.driver, "launch", lambda *a: fake.driver.call("x", "cuInit", 1))
        with pytest.raises(LoweringError) as caught:
            session.run(y, {"x": np.zeros(30)})
    assert caught.value.node is y.node and "grown" in str(caught.value)


def test_the_driver_has_all_calls_that_are_made() -> None:
    header = Path(triton.__file__).parent / "backends/nvidia/include/cuda.h"
    text = header.read_text("utf-8")
    for name in SIGNATURES:
        plain = name.removesuffix("_v2").removesuffix("WithFlags")
        assert f"CUDAAPI {plain}(" in text.replace("_v2(", "("), name


def test_a_driver_without_gpus(library: str) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(LoweringError, match="sees none"):
        patch.setenv("FAKE_GPUS", "0")
        Driver(library=library)


def test_of_several_gpus_the_freest_is_taken_and_each_has_its_context(
    fake: SimpleNamespace, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GPUS", "2")
    monkeypatch.setattr(opening, "Driver", lambda ordinal: Driver(ordinal, library))
    for made in (opening.gpu, opening.freest):
        made.cache_clear()
    gc.collect()
    closed = fake.log.closed
    first, chosen = opening.open_cuda(0), opening.open_cuda()
    assert (first.cuda.ordinal, chosen.cuda.ordinal, chosen.name) == (0, 1, "cuda")
    gc.collect()
    assert fake.log.closed == closed + 3  # those that were only looked at
    for _ in range(2):  # each call goes to its own GPU, whichever came before
        assert [d.cuda.memory()[0] for d in (first, chosen)] == [16 << 20, 32 << 20]
    with pytest.raises(LoweringError, match=r"'cuda:2' is none that .*\n.*'cuda:0', 'cuda:1'"):
        opening.open_cuda(2)
    for made in (opening.gpu, opening.freest):
        made.cache_clear()
