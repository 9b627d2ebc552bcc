"""Values that lie in buffers: quantised blocks and a mapped file, read by all that reads arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available
from gradwright.models.decoder.weights import Given
from gradwright.spec import TensorSpec
from gradwright.spec.buffer import Buffer, Zeros

Array = np.ndarray[Any, Any]
BLOCK = 8


class Blocks:
    """Numbers of 8 bits, a scale for every eight of them."""

    def __init__(self, array: Array) -> None:
        self.spec = TensorSpec(array.shape, "float32")
        self.reads = 0
        self.load(array)

    @property
    def nbytes(self) -> int:
        return self.numbers.nbytes + self.scales.nbytes

    def host(self) -> Array:
        self.reads += 1
        return (self.numbers * self.scales).astype(np.float32).reshape(self.spec.shape)

    def load(self, array: Array) -> None:
        rows = array.reshape(-1, BLOCK)
        self.scales = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-9) / 127
        self.numbers = np.rint(rows / self.scales).astype(np.int8)


class Mapped:
    """Numbers of a file, which are read where they lie and never written."""

    def __init__(self, path: Path, spec: TensorSpec) -> None:
        self.path, self.spec = path, spec

    @property
    def nbytes(self) -> int:
        return self.spec.nbytes

    def host(self) -> Array:
        return np.memmap(self.path, self.spec.dtype, "r", shape=self.spec.shape)

    def load(self, array: Array) -> None:
        raise gw.errors.GraphError(f"{self.path} is only read")


def model() -> tuple[gw.Graph, Any, Any]:
    g = gw.Graph("packed")
    x = g.placeholder("x", ("B", 8))
    w = g.variable("w", (8, 8), init=gw.init.normal(seed=1))
    b = g.variable("b", (8,), init=0.5)
    y = gw.tanh(x @ w + b, name="y")
    return g, y, (y * y).mean(name="loss")


def buffers(g: gw.Graph, folder: Path) -> list[Buffer]:
    array = np.array(g.values["w"])
    array.tofile(folder / "w.bin")
    return [Blocks(array), Mapped(folder / "w.bin", TensorSpec(array.shape))]


X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
KERNELS = ["off", pytest.param("wait", marks=pytest.mark.skipif(not available(), reason="no LLVM"))]


def test_reading_gives_the_array_and_versions_count(tmp_path: Path) -> None:
    g, _, _ = model()
    for buffer in buffers(g, tmp_path):
        before, held = g.values.version("w"), g.values["w"]
        g.values.pack("w", buffer)
        assert g.values.buffer("w") is buffer and g.values.buffer("b") is None
        assert g.values.version("w") == before + 1
        assert sorted(g.values) == ["b", "w"] and len(g.values) == 2 and "w" in g.values
        assert f"{buffer.nbytes + 8 * 4:,} bytes" in repr(g.values)
        assert np.allclose(g.values["w"], held, atol=0.02)
        assert not g.values["w"].flags.writeable
        assert f"{buffer.nbytes + 8 * 4:,} bytes" in repr(g.values)


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    g, _, _ = model()
    before = g.values.version("w")
    with pytest.raises(gw.errors.ShapeError, match="cannot lie in a buffer"):
        g.values.pack("w", Blocks(np.ones((4, 8))))
    assert g.values.buffer("w") is None and g.values.version("w") == before


@pytest.mark.parametrize("kernels", KERNELS)
def test_sessions_run_with_it(kernels: str, tmp_path: Path) -> None:
    g, y, loss = model()
    (db,) = gw.gradients(loss, [g["b"]])
    for buffer in buffers(g, tmp_path):
        with gw.Session(g, kernels=kernels) as session:
            session.run(y, {"x": X})
            g.values.pack("w", buffer)
            g.values["b"] = np.full(8, 0.5)
            w, b = buffer.host(), np.full(8, 0.5, np.float32)
            for _ in range(5):
                want = np.tanh(X @ w + b)
                got = session.run([y, db], {"x": X}, {g["b"]: g["b"] - db * 0.1})
                assert np.allclose(got[0], want, atol=1e-5)
                b = b - np.float32(0.1) * got[1]
            assert np.allclose(g.values["b"], b, atol=1e-6)
        assert g.values.buffer("w") is buffer
        if isinstance(buffer, Blocks):
            assert buffer.reads == 2  # one of them is ours


@pytest.mark.parametrize("kernels", KERNELS)
def test_memory_that_its_owner_writes_over_is_read_by_the_same_plan(kernels: str) -> None:
    g, y, _ = model()
    ours = {"w": np.ones((8, 8), np.float32), "b": np.zeros(8, np.float32)}
    for name, array in ours.items():
        g.values.pack(name, Given(array))
    with gw.Session(g, kernels=kernels) as session:
        for n in range(6):
            ours["w"][:] = 0.1 * n
            ours["b"][:] = -n
            before = [g.values.version(name) for name in ours]
            g.values.overwritten(ours)
            assert [g.values.version(name) for name in ours] == [v + 1 for v in before]
            got = session.run(y, {"x": X})
            assert np.allclose(got, np.tanh(X @ ours["w"] + ours["b"]), atol=1e-6)
        assert len(session.plan_cache) == 1


@pytest.mark.parametrize("kernels", KERNELS)
def test_updates_make_it_an_array_again_and_write_no_file(kernels: str, tmp_path: Path) -> None:
    g, _, loss = model()
    (dw,) = gw.gradients(loss, [g["w"]])
    for buffer in buffers(g, tmp_path):
        was = np.array(buffer.host())
        with gw.Session(g, kernels=kernels) as session:
            for step in range(5):
                if step in (0, 3):  # also where machine code has written in place before
                    g.values.pack("w", buffer)
                snapshot, version = g.values.snapshot(), g.values.version("w")
                session.run([], {"x": X}, {g["w"]: g["w"] - dw})
                assert g.values.version("w") == version + 1
                assert g.values.buffer("w") is None
                assert not np.array_equal(g.values["w"], snapshot["w"])
            assert np.array_equal(buffer.host(), was)
        g.values.pack("w", buffer)
        kept = g.values.snapshot()
        g.values["w"] = np.zeros((8, 8))
        assert kept.buffer("w") is buffer and np.array_equal(kept["w"], was)
        g.values.restore(kept)
        assert np.array_equal(g.values["w"], was)


def test_archives_hold_the_array(tmp_path: Path) -> None:
    g, y, _ = model()
    for buffer in buffers(g, tmp_path):
        g.values.pack("w", buffer)
        want = g.output({"x": X}, y)["y"]
        gw.save(g, tmp_path / "packed.gw")
        loaded = gw.load(tmp_path / "packed.gw")
        assert np.array_equal(loaded.values["w"], buffer.host())
        assert np.array_equal(loaded.output({"x": X}, "y")["y"], want)
        assert g.values.buffer("w") is buffer


def test_it_goes_with_the_name_and_with_the_node() -> None:
    g, _, _ = model()
    buffer = Blocks(np.array(g.values["w"]))
    g.values.pack("w", buffer)
    values = g.values
    read = np.array(values["w"])
    values.rename("w", "v")
    assert values.buffer("v") is buffer and values.buffer("w") is None
    assert np.array_equal(values["v"], read) and "w" not in values
    values.discard("v")
    assert "v" not in values and values.buffer("v") is None


def test_a_variable_begins_in_a_buffer() -> None:
    """Nothing is read, and no memory taken, before a run or somebody asks for it."""
    array = np.linspace(-1, 1, 24, dtype="float32").reshape(3, 8)
    g, blocks = gw.Graph("begun"), Blocks(array)
    x = g.placeholder("x", (2, 3))
    w = g.variable("w", (3, 8), init=blocks)
    later = g.variable(
        "later", (1 << 30, 1 << 20), init=Zeros(TensorSpec((1 << 30, 1 << 20), "f4"))
    )
    y = x @ w
    assert g.values.buffer("w") is blocks and blocks.reads == 0 and w.node.trainable
    assert later.shape == (1 << 30, 1 << 20) and g.values.version("later") == 0
    feeds = {"x": np.eye(2, 3, dtype="float32")}
    np.testing.assert_allclose(g.output(feeds, y)[y.name], array[:2], atol=0.01)
    g.values["w"] = array
    assert g.values.buffer("w") is None and g.values.version("w") == 1
    small = g.variable("small", (2,), init=Zeros(TensorSpec((2,), "int32")), dtype="int32")
    assert g.values[small.name].tolist() == [0, 0]
    for shape, dtype, what in (((8, 3), "float32", "8, 3"), ((3, 8), "int32", "i32")):
        with pytest.raises(gw.errors.ShapeError, match=what):
            g.variable("wrong", shape, init=blocks, dtype=dtype)
    with pytest.raises(gw.errors.ShapeError, match="has no shape"):
        g.variable("wrong", init=blocks)
    assert "wrong" not in g
    with pytest.raises(gw.errors.GraphError, match="zeros are not written"):
        Zeros(TensorSpec((2,), "f4")).load(np.ones(2, "f4"))


def test_a_cell_that_runs_again_keeps_the_buffer_and_does_not_read_it() -> None:
    g, blocks = gw.Graph("again"), Blocks(np.ones((3, 8), np.float32))
    for _ in range(2):
        with g.cell("weights"):
            g.variable("w", (3, 8), init=blocks)
    assert g.values.buffer("w") is blocks and blocks.reads == 0
    assert g.values.version("w") == 0
