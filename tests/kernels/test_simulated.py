"""The simulated GPU: planted defects are named, healthy programs run clean."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

import triton
import triton.language as tl

from gradwright.errors import LoweringError
from gradwright.spec import TensorSpec
from gradwright_kernels.compile.compiler import Call, compile_call
from gradwright_kernels.device.array import Block, DeviceArray, get, put
from gradwright_kernels.device.launcher import Eager
from gradwright_kernels.device.simulated.driver import Simulated
from gradwright_kernels.device.simulated.interpret import interpret

Array = np.ndarray[Any, Any]
F32 = np.dtype("float32")


@triton.jit
def copy_kernel(
    x_ptr, y_ptr, n, BLOCK: tl.constexpr, STRIDE: tl.constexpr, SHIFT: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * STRIDE + tl.arange(0, BLOCK)
    inside = (at < n) | (not MASKED)
    tl.store(y_ptr + at, tl.load(x_ptr + at + SHIFT, mask=inside, other=0.0), mask=inside)


@triton.jit
def sum_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, GIVEN: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if GIVEN:
        x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr, tl.sum(x, axis=0))


@triton.jit
def halves_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at // 2, tl.load(x_ptr + at))


@triton.jit
def everyone_reads_kernel(x_ptr, BLOCK: tl.constexpr):
    me = tl.program_id(0)
    total = tl.sum(tl.load(x_ptr + tl.arange(0, BLOCK)), axis=0)
    tl.store(x_ptr + me, total)


@triton.jit
def count_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr, ATOMIC: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    if ATOMIC:
        tl.atomic_add(y_ptr, tl.sum(x, axis=0))
    else:
        tl.store(y_ptr, tl.load(y_ptr) + tl.sum(x, axis=0))


@triton.jit
def bytes_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = (x_ptr.to(tl.pointer_type(tl.int8)) + 2).to(tl.pointer_type(tl.float32))
    tl.store(y_ptr + tl.arange(0, BLOCK), tl.load(at + tl.arange(0, BLOCK)))


@triton.jit
def follow_kernel(table_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.load(table_ptr).to(tl.pointer_type(tl.float32)) + tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.arange(0, BLOCK), tl.load(at))


@triton.jit
def odd_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + tl.arange(0, BLOCK)) + tl.arange(0, 3))


class Bench:
    """A simulated GPU with a numbered array x, and y and z that nobody has written."""

    def __init__(self, n: int = 64) -> None:
        self.cuda, self.n = Simulated(1 << 20), n
        self.host = np.arange(n, dtype=F32)
        self.x = put(self.cuda, self.host, name="x")
        self.y, self.z = self.empty("y"), self.empty("z")

    def empty(self, name: str) -> DeviceArray:
        block = Block(self.cuda, 4 * self.n)
        return DeviceArray(block.address, TensorSpec((self.n,)), name=name, held=block)

    def launch(
        self, kernel: Any, *arrays: DeviceArray, programs: int = 1, stream: int = 0, **args: Any
    ) -> None:
        names = [name for name in kernel.arg_names if name.endswith("_ptr")]
        args |= {name: a.dtype for name, a in zip(names, arrays, strict=True)}
        call = Call(kernel, (programs, 1, 1), args)
        Eager(self.cuda, stream).prepare(call)(*arrays)

    def copy(self, x: DeviceArray | None = None, y: DeviceArray | None = None, **how: Any) -> None:
        given = {"n": self.n, "BLOCK": 32, "STRIDE": 32, "SHIFT": 0, "MASKED": True, "programs": 2}
        given |= how
        self.launch(copy_kernel, x or self.x, y or self.y, **given)

    def read(self, array: DeviceArray) -> Array:
        return get(self.cuda, array)


def no_mask() -> None:
    bench = Bench(50)
    bench.copy(MASKED=False)
    bench.read(bench.y)


def before_the_start() -> None:
    bench = Bench()
    bench.copy(SHIFT=-1)
    bench.read(bench.y)


def into_a_neighbour() -> None:
    bench = Bench()
    whole = put(bench.cuda, np.zeros(128, F32))
    part = DeviceArray(whole.address, TensorSpec((64,)), name="part", held=whole)
    bench.copy(part, SHIFT=32)
    bench.read(bench.y)


def never_written() -> None:
    bench = Bench()
    bench.copy(bench.z)
    bench.read(bench.y)


def partly_written() -> None:
    bench = Bench()
    bench.copy(programs=1)
    bench.read(bench.y)


def programs_overlap() -> None:
    bench = Bench()
    bench.copy(STRIDE=16, programs=3)
    bench.read(bench.y)


def all_read_one_writes() -> None:
    bench = Bench()
    bench.launch(everyone_reads_kernel, bench.x, programs=3, BLOCK=64)
    bench.read(bench.x)


def lanes_disagree() -> None:
    bench = Bench()
    bench.launch(halves_kernel, bench.x, bench.y, BLOCK=64)
    bench.read(bench.y)


def counted_without_atomics() -> None:
    bench = Bench()
    put_to = put(bench.cuda, np.zeros(1, F32), name="count")
    bench.launch(count_kernel, bench.x, put_to, programs=2, BLOCK=32, ATOMIC=False)
    bench.read(put_to)


def atomic_on_nothing() -> None:
    bench = Bench()
    bench.launch(count_kernel, bench.x, bench.y, programs=2, BLOCK=32, ATOMIC=True)
    bench.read(bench.y)


def used_after_free() -> None:
    bench = Bench()
    loose = DeviceArray(bench.cuda.allocate(256), TensorSpec((64,)), name="y")
    bench.copy(y=loose)
    bench.cuda.free(loose.address)
    bench.cuda.wait(0)


def freed_twice() -> None:
    bench = Bench()
    address = bench.cuda.allocate(16)
    bench.cuda.free(address)
    bench.cuda.free(address)


def memory_of_the_host() -> None:
    bench = Bench()
    bench.copy(DeviceArray(bench.host.ctypes.data, TensorSpec((64,)), name="host"))
    bench.cuda.wait(0)


def dangling_pointer() -> None:
    bench = Bench()
    table = put(bench.cuda, np.array([bench.x.address], np.int64), name="table")
    bench.x = None  # type: ignore[assignment]
    gc.collect()
    bench.launch(follow_kernel, table, bench.y, BLOCK=64)
    bench.read(bench.y)


def no_wait_between_streams() -> None:
    bench = Bench()
    other = bench.cuda.make_stream()
    bench.copy()
    bench.copy(bench.y, bench.z, stream=other)
    bench.cuda.streams.drain(0)
    bench.cuda.wait(other)


def event_recorded_too_early() -> None:
    bench = Bench()
    other, event = bench.cuda.make_stream(), bench.cuda.make_event()
    bench.cuda.record(event, 0)
    bench.copy()
    bench.cuda.wait_event(other, event)
    bench.copy(bench.y, bench.z, stream=other)
    bench.cuda.streams.drain(0)
    bench.cuda.wait(other)


def overwritten_while_read() -> None:
    bench = Bench()
    other = bench.cuda.make_stream()
    bench.copy()
    bench.cuda.copy_in(bench.x.address, bench.host.ctypes.data, 256, other)
    bench.cuda.streams.drain(0)
    bench.cuda.wait(other)


def source_changed_too_early() -> None:
    bench = Bench()
    bench.cuda.copy_in(bench.x.address, bench.host.ctypes.data, 256, 0)
    bench.host[:] = -1
    bench.cuda.wait(0)


def misaligned_elements() -> None:
    bench = Bench()
    bench.launch(bytes_kernel, bench.x, bench.y, BLOCK=32)
    bench.read(bench.y)


def misaligned_pointer() -> None:
    bench = Bench()
    bench.copy(DeviceArray(bench.x.address + 4, TensorSpec((32,)), name="x[1:]"), n=32, programs=1)


def copies_too_much() -> None:
    bench = Bench()
    bench.cuda.copy(bench.y.address, bench.x.address, 260, 0)
    bench.cuda.wait(0)


def kernel_that_is_wrong() -> None:
    bench = Bench()
    bench.launch(odd_kernel, bench.x, BLOCK=4)
    bench.cuda.wait(0)


def too_many_programs() -> None:
    bench = Bench()
    call = Call(copy_kernel, (1, 70_000, 1), dict.fromkeys(copy_kernel.arg_names, F32))
    Eager(bench.cuda).prepare(call)


DEFECTS: list[tuple[Callable[[], None], str]] = [
    (no_mask, r"copy_kernel loads element 63 of 50\n  x_ptr: 'x'\n.*\(1, 0, 0\), test_simulated"),
    (before_the_start, r"loads element -1 of 64\n.*\n.*\(0, 0, 0\).*tl\.load"),
    (into_a_neighbour, r"loads element 95 of 64\n  x_ptr: 'part'"),
    (never_written, r"loads element 0, which nobody has written\n  x_ptr: 'z'"),
    (partly_written, r"copy to the host reads memory that nobody has written\n.*byte 128 of 256"),
    (programs_overlap, r"stores what another program of the launch stores, too\n  y_ptr: 'y'"),
    (all_read_one_writes, r"stores what another|loads what another program of the launch writes"),
    (lanes_disagree, r"stores different numbers in one element at once\n  y_ptr: 'y'"),
    (counted_without_atomics, r"loads what another program of the launch writes\n  y_ptr: 'count'"),
    (atomic_on_nothing, r"changes elements that nobody has written"),
    (used_after_free, r"copy_kernel takes y: the memory at 0x\w+ has been freed"),
    (freed_twice, r"cannot free device memory: 0x\w+ was freed before"),
    (memory_of_the_host, r"copy_kernel takes host: 256 bytes at 0x\w+ are no device memory"),
    (dangling_pointer, r"follow_kernel follows a pointer: the memory .* has been freed"),
    (no_wait_between_streams, r"copy_kernel \(stream 1\) does not wait for copy_kernel \(stream 0"),
    (
        event_recorded_too_early,
        r"\(stream 1\) does not wait for copy_kernel \(stream 0\)\n.*0 to 2",
    ),
    (overwritten_while_read, r"a copy to the device \(stream 1\) does not wait for copy_kernel"),
    (source_changed_too_early, r"host has changed what is copied to the device, before"),
    (misaligned_elements, r"loads elements that are no multiple of 4 bytes"),
    (misaligned_pointer, r"cannot launch copy_kernel: x_ptr is misaligned"),
    (copies_too_much, r"a copy on the device: 260 bytes at 0x\w+ are no device memory"),
    (kernel_that_is_wrong, r"odd_kernel fails in program \(0, 0, 0\)"),
    (too_many_programs, r"70,000 programs along y\n  need: 1 to 65,535"),
]


@pytest.mark.parametrize(("defect", "message"), DEFECTS, ids=[d.__name__ for d, _ in DEFECTS])
def test_a_planted_defect_is_named(defect: Callable[[], None], message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        defect()


def test_masked_lanes_without_another_number_are_garbage() -> None:
    bench = Bench(50)
    total = DeviceArray(bench.y.address, TensorSpec(()), name="total")
    bench.launch(sum_kernel, bench.x, total, n=50, BLOCK=64, GIVEN=False)
    assert np.isnan(bench.read(total))
    bench.launch(sum_kernel, bench.x, total, n=50, BLOCK=64, GIVEN=True)
    assert bench.read(total) == bench.host.sum()


def test_the_host_reads_nothing_before_it_has_waited() -> None:
    bench = Bench()
    found = np.zeros(64, F32)
    bench.copy()
    bench.cuda.copy_out(found.ctypes.data, bench.y.address, found.nbytes, 0)
    assert np.isnan(found).all()
    bench.cuda.wait(0)
    assert found.tolist() == bench.host.tolist()


def test_healthy_programs_run_clean() -> None:
    bench = Bench()
    other, event = bench.cuda.make_stream(), bench.cuda.make_event()
    bench.copy()
    bench.cuda.record(event, 0)
    bench.cuda.wait_event(other, event)
    bench.copy(bench.y, bench.z, stream=other)  # ordered by an event
    bench.cuda.wait(other)
    bench.copy(bench.z, bench.z)  # in place
    count = put(bench.cuda, np.zeros(1, F32))
    bench.launch(count_kernel, bench.x, count, programs=2, BLOCK=32, ATOMIC=True)
    table = put(bench.cuda, np.array([bench.z.address], np.int64))
    bench.launch(follow_kernel, table, bench.y, BLOCK=64)
    for array in (bench.y, bench.z):
        assert bench.read(array).tolist() == bench.host.tolist()
    assert bench.read(count) == bench.host.sum()
    assert bench.cuda.launches == 5


def test_a_value_that_begins_is_not_written_yet() -> None:
    bench = Bench()
    bench.copy()
    bench.cuda.forget(bench.y.address, 256, 0)
    with pytest.raises(LoweringError, match="nobody has written"):
        bench.read(bench.y)


def test_another_thread_waits_for_what_one_does() -> None:
    cuda, done, begun = Simulated(), list[int](), threading.Event()

    def slow(moment: Any) -> None:
        begun.set()
        other.join(0.05)  # it would do the second piece meanwhile
        done.append(1)

    cuda.streams.put(0, "slow", slow)
    cuda.streams.put(0, "quick", lambda moment: done.append(2))
    other = threading.Thread(target=lambda: begun.wait() and cuda.wait(0))
    other.start()
    cuda.wait(0)
    other.join()
    assert done == [1, 2]


def test_memory_is_counted_and_given_back() -> None:
    cuda = Simulated(1000)
    block = Block(cuda, 900)
    with pytest.raises(MemoryError, match="100 bytes left, not 101"):
        cuda.allocate(101)
    del block
    gc.collect()
    assert cuda.memory() == (1000, 1000)


def test_one_process_interprets_and_compiles() -> None:
    x, y = np.arange(50, dtype=F32), np.zeros((), F32)
    call = Call(
        sum_kernel, (1, 1, 1), {"x_ptr": F32, "y_ptr": F32, "n": 50, "BLOCK": 64, "GIVEN": True}
    )
    for _ in range(2):
        interpret(call, [x, y])
        assert y == x.sum()
        y[...] = 0
        assert compile_call(call, 90).cubin[:4] == b"\x7fELF"
