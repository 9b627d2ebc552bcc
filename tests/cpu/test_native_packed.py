"""Products with packed rows as machine code: formats, machines, sizes, rounding, mapped files."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.call import Call
from gradwright.cpu.llvm.blas import blas
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.llvm.packed import activations, bind, bind_product, panels, vectors
from gradwright.cpu.llvm.packed.layouts import LAYOUTS
from gradwright.cpu.llvm.packed.machine import MACHINES, Machine
from gradwright.cpu.llvm.target import V2, V3, V4, has
from gradwright.cpu.threads.tuning import pieces
from gradwright.errors import IdError
from gradwright.ops.quantised.activations import rounded
from gradwright.ops.quantised.blocks import FORMATS, packed_ggml, unpacked
from tests.support.sweeps import spread

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
HERE = [m for m in MACHINES if m.needs <= has()] if available() else []
Array = np.ndarray[Any, Any]


HALVES = {"q2_k": (80, 82), "q3_k": (108,), "tq2_0": (64,)}
"""Where scales stand in blocks of formats that nothing here writes."""


def blocks_of(rng: Any, rows: int, n: int, name: str) -> Array:
    """Return rows of blocks: of normal numbers, or of any codes where nothing writes them."""
    if name not in HALVES:
        return packed_ggml(normal(rng, rows, n), name)
    form = FORMATS[name]
    raw = rng.integers(0, 256, (rows * n // form.size, form.n_bytes), np.uint8)
    for at in HALVES[name]:
        raw[:, at : at + 2] = rng.uniform(0.01, 1, (len(raw), 1)).astype("f2").view("u1")
    found: Array = raw.reshape(rows, -1)
    return found


def run(calls: Sequence[Call]) -> None:
    for call in calls:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(call.address)(call.block.ctypes.data)


def normal(rng: Any, *shape: int) -> Array:
    x: Array = rng.standard_normal(shape).astype("f4")
    return x


def off(y: Array, x: Array, w: Array, name: str) -> float:
    """Return how far a product is from float64 on the numbers that the blocks are."""
    exact = x.astype("f8") @ unpacked(w, name).astype("f8").T
    return float(np.sqrt(np.square(y - exact).sum() / np.square(exact).sum()))


def multiplied(m: Machine, name: str, x: Array, w: Array, *, as_bytes: bool) -> Array:
    y = np.full((len(x) + 1, len(w)), 7, "f4")  # what is behind the last row stays
    run(bind.products(name, m, x, w, y[:-1], as_bytes=as_bytes))
    assert (y[-1] == 7).all()
    return y[:-1]


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_format_alone_and_in_panels(name: str, as_bytes: bool, rng: Any) -> None:
    """Rows that fill no panel, blocks that fill no vector, rows of x that fill no tile."""
    size = FORMATS[name].size
    for n_x, n_rows, blocks in ((1, 5, 1), (2, 3, 11), (9, 37, 5), (10, 64, 9), (5, 5, 2)):
        w = blocks_of(rng, n_rows, blocks * size, name)
        x = normal(rng, n_x, blocks * size)
        y = multiplied(HERE[0], name, x, w, as_bytes=as_bytes)
        taken = rounded(x) if as_bytes else x
        assert off(y, taken, w, name) < 2e-6, (n_x, n_rows, blocks)


@pytest.mark.parametrize("m", HERE[1:], ids=lambda m: m.name)
@pytest.mark.parametrize(
    "name", spread(["q5_1", "q8_0", "q2_k", "q4_k", "q6_k", "q3_k", "mxfp4"], 3)
)
def test_every_machine_has_the_same_numbers(m: Machine, name: str, rng: Any) -> None:
    size = FORMATS[name].size
    w = blocks_of(rng, 33, 3 * size, name)
    for n_x in (1, 3, 6):
        x = normal(rng, n_x, 3 * size)
        y = multiplied(m, name, x, w, as_bytes=True)
        assert off(y, rounded(x), w, name) < 2e-6
        assert off(multiplied(m, name, x, w, as_bytes=False), x, w, name) < 2e-6


@pytest.mark.parametrize("as_bytes", [False, True])
def test_any_number_of_rows_of_x(as_bytes: bool, rng: Any) -> None:
    w = packed_ggml(normal(rng, 40, 96), "q4_0")
    x = normal(rng, 70, 96)
    taken = rounded(x) if as_bytes else x
    for n_x in (*range(1, 18), 31, 32, 33, 69, 70):
        y = multiplied(HERE[0], "q4_0", x[:n_x], w, as_bytes=as_bytes)
        assert off(y, taken[:n_x], w, "q4_0") < 2e-6


def test_what_rounding_x_costs(rng: Any) -> None:
    """The number that the op's page tells; a part's scale is its largest number."""
    x = normal(rng, 16, 1024)
    w = packed_ggml(normal(rng, 64, 1024), "q8_0")
    y = multiplied(HERE[0], "q8_0", x, w, as_bytes=True)
    assert 4e-3 < off(y, x, w, "q8_0") < 7e-3


@pytest.mark.parametrize("m", HERE, ids=lambda m: m.name)
@pytest.mark.parametrize("name", ["q4_0", "q5_1", "mxfp4", "q3_k", "q6_k"])
def test_one_row_of_x_is_as_exact_as_floats(m: Machine, name: str, rng: Any) -> None:
    """Three bytes stand for a number; none may be 128, and small numbers keep their digits."""
    w = blocks_of(rng, 5, 256, name)
    full = 2.0 - 2.0 ** -np.arange(1.0, 25.0)  # their first byte is 127, or would be 128
    edges = np.resize([*full, *-full, 1.0], (1, 256)).astype("f4")
    sizes = np.abs(unpacked(w, name).astype("f8")).T
    for x, most in (
        (normal(rng, 1, 256), 3e-7),
        (edges, 3e-7),
        (edges * np.float32(2.0**-100), 3e-7),
        (edges * np.float32(2.0**112), 3e-7),
        (edges * np.float32(2.0**-122), 0.03),  # 2⁻¹²⁶ is the last digit there can be
    ):
        exact = x.astype("f8") @ unpacked(w, name).astype("f8").T
        y = multiplied(m, name, x, w, as_bytes=False)
        assert (np.abs(y - exact) / (np.abs(x).astype("f8") @ sizes)).max() < most
    bad = normal(rng, 1, 256)
    bad[0, 100] = np.inf
    assert np.isnan(multiplied(m, name, bad, w, as_bytes=False)).all() or m.level == ""


@pytest.mark.parametrize("n_x", [1, 2])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_stays_none(n_x: int, bad: float, rng: Any) -> None:
    w = packed_ggml(normal(rng, 32, 64), "q8_0")
    x = normal(rng, n_x, 64)
    x[0, 40] = bad
    for m in HERE:
        y = multiplied(m, "q8_0", x, w, as_bytes=True)
        assert np.isnan(y[0]).all() and np.isfinite(y[1:]).all()
    with np.errstate(all="ignore"):
        assert np.isnan(rounded(x)[0, 32:]).all() and np.isfinite(rounded(x)[0, :32]).all()


@pytest.mark.parametrize("tiny", [0.0, 1e-38, 1e-45])
def test_parts_of_nearly_nothing_are_nothing(tiny: float, rng: Any) -> None:
    w = packed_ggml(normal(rng, 3, 32), "q4_0")
    x = np.full((1, 32), tiny, "f4")
    assert not rounded(x).any()
    assert not multiplied(HERE[0], "q4_0", x, w, as_bytes=True).any()


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize("n_x", [1, 11])
def test_pieces_have_the_bits_of_the_whole(n_x: int, as_bytes: bool, rng: Any) -> None:
    w = packed_ggml(normal(rng, 150, 512), "q4_k")
    x = normal(rng, n_x, 512)
    y, parts = np.empty((n_x, 150), "f4"), np.empty((n_x, 150), "f4")
    run(bind.products("q4_k", HERE[0], x, w, y, as_bytes=as_bytes))
    *ready, product = bind.products("q4_k", HERE[0], x, w, parts, as_bytes=as_bytes)
    cut = pieces(product, 4, alike=True)
    assert len(cut) == 4
    run([*ready, *cut[::-1]])
    np.testing.assert_array_equal(y, parts)


# -- which machine ---------------------------------------------------------------------------------


def test_a_machine_needs_what_its_functions_use() -> None:
    first = {frozenset(flags): next(m for m in MACHINES if m.needs <= flags) for flags in (
        V2, V3, V3 | {"avx_vnni"}, V4, V4 | {"avx512_vnni"}, V4 - {"avx512vl"} | {"avx512_vnni"}
    )}  # fmt: skip
    assert [m.name for m in first.values()] == [
        "any", "avx2", "avx2 vnni", "avx512", "avx512 vnni", "avx2"
    ]  # fmt: skip
    for m in MACHINES:  # nothing is left to the compiler's own idea of this processor
        assert bool(m.level) == ("target-cpu" in m.attributes) == bool(m.needs)


@pytest.mark.parametrize("name", ["q5_0", "mxfp4", "q2_k", "q4_k"])
def test_any_machine_is_aarch64_too(name: str) -> None:
    from tests.cpu.aarch64 import tools
    from tests.cpu.test_aarch64 import is_fine

    form, m = LAYOUTS[name], MACHINES[-1]
    for as_bytes in (False, True):
        for text in (
            activations.rows(form, m, as_bytes=as_bytes),
            vectors.product(form, m, as_bytes=as_bytes),
            panels.product(form, m, 4, as_bytes=as_bytes),
        ):
            assert "llvm.x86" not in text and "target-cpu" not in text
            is_fine(tools().object_code(text), name)


SHOW = """
import numpy as np
import gradwright as gw
from gradwright.cpu.llvm.packed.machine import machine
from gradwright.ops.quantised.blocks import packed_ggml
rng = np.random.default_rng(0)
g = gw.Graph()
x = g.placeholder("x", ("B", 256))
w = packed_ggml(rng.standard_normal((40, 256)), "q6_k")
ways = "float32", "int8"
ys = [gw.nn.ggml_matmul(x, g.constant(w), format="q6_k", activations=a) for a in ways]
taken = gw.nn.ggml_embedding(g.constant([3]), g.constant(w), format="q6_k")
with gw.Session(g, kernels="wait") as session, gw.Session(g, kernels="off") as numpy:
    for n in (1, 5):
        feeds = {"x": rng.standard_normal((n, 256)).astype("f4")}
        pairs = zip(*(s.run([*ys, taken], feeds) for s in (session, numpy)))
        for y, exact in pairs:
            np.testing.assert_allclose(y, exact, atol=2e-5)
print(machine().name)
"""


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_processes_for_lesser_machines(tmp_path: Path, level: str) -> None:
    from gradwright.cpu.llvm.target import LEVELS

    if not LEVELS[level] <= has():
        pytest.skip(f"no {level} here")
    environment = {**os.environ, "GRADWRIGHT_CACHE": str(tmp_path), "GRADWRIGHT_CPU": level}
    found = subprocess.run(
        [sys.executable, "-c", SHOW],
        env=environment, check=True, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    names = {"x86-64-v2": "any", "x86-64-v3": "avx2", "x86-64-v4": "avx512"}
    assert found.stdout.strip() == names[level]


# -- in plans --------------------------------------------------------------------------------------


def test_a_mapped_weight_is_read_where_it_lies(tmp_path: Path, rng: Any) -> None:
    raw = packed_ggml(normal(rng, 2048, 2048), "q8_0")
    raw.tofile(tmp_path / "w")
    mapped = np.memmap(tmp_path / "w", np.uint8, "r", shape=raw.shape)
    g = gw.Graph()
    x = g.placeholder("x", ("B", 2048))
    w = g.variable("w", raw.shape, dtype="uint8")
    g.values.commit({"w": mapped})
    y = gw.nn.ggml_matmul(x, w, format="q8_0")
    rows = gw.nn.ggml_embedding(g.constant([2047, 0]), w, format="q8_0")
    feeds = {"x": normal(rng, 1, 2048)}
    with gw.Session(g, kernels="wait") as session:
        session.run([y, rows], feeds)
        tracemalloc.start()
        found, taken = session.run([y, rows], feeds)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert "machine code" in str(session.plan([y, rows], {"x": (1, 2048)}))
    assert peak < len(raw) * 4 * 8 and np.shares_memory(g.values.array("w"), mapped)
    assert off(found, feeds["x"], raw, "q8_0") < 2e-6
    np.testing.assert_array_equal(taken, unpacked(raw[[2047, 0]], "q8_0"))


@pytest.mark.parametrize("name", LAYOUTS)
def test_rows_of_a_table(name: str, rng: Any) -> None:
    w = blocks_of(rng, 7, 512, name)
    g = gw.Graph()
    ids = g.placeholder("ids", ("B", "T"), "int64")
    y = gw.nn.ggml_embedding(ids, g.constant(w), format=name)
    with gw.Session(g, kernels="wait") as session:
        found = session.run(y, {"ids": [[6, 0, 3]]})
        np.testing.assert_allclose(found[0], unpacked(w[[6, 0, 3]], name), rtol=0, atol=1e-6)
        with pytest.raises(IdError, match="row of the table"):
            session.run(y, {"ids": [[0, 7, 1]]})
        with pytest.raises(IdError, match="row of the table"):
            session.run(y, {"ids": [[0, -1, 1]]})


@pytest.mark.parametrize("m", HERE, ids=lambda m: m.name)
def test_scales_that_are_powers_of_two(m: Machine, monkeypatch: Any) -> None:
    """All codes, from the least scale, which floats have with fewer digits, to the greatest."""
    codes = np.arange(16, dtype="u1") * 17
    w = np.stack([np.concatenate([[e], codes]) for e in (0, 1, 2, 127, 128, 251, 252)])
    w, y, ids = w.astype("u1"), np.empty((7, 32), "f4"), np.arange(7)
    monkeypatch.setattr(bind, "machine", lambda: m)
    calls = bind.bind_rows("mxfp4", ids, w, y)
    assert calls is not None
    run(calls)
    np.testing.assert_array_equal(y, unpacked(w, "mxfp4"))


def test_no_byte_behind_a_weight_is_read(rng: Any) -> None:
    """Its last block ends where a page does, behind which reading ends the process."""
    page = mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for name in LAYOUTS:
        given = blocks_of(rng, 32, 256, name)
        room = mmap.mmap(-1, (-(-given.nbytes // page) + 1) * page)
        whole = np.frombuffer(room, np.uint8)
        end = len(whole) - page
        w = whole[end - given.nbytes : end].reshape(given.shape)
        w[:] = given
        assert libc.mprotect(whole.ctypes.data + end, page, 0) == 0
        for n_x in (1, 3, 9):
            x = normal(rng, n_x, 256)
            for as_bytes in (False, True):
                multiplied(HERE[0], name, x, w, as_bytes=as_bytes)


def test_formats_without_kernels_and_other_dtypes_multiply_too(rng: Any) -> None:
    assert "tq2_0" not in LAYOUTS
    g = gw.Graph()
    x = g.placeholder("x", ("B", 256))
    for name, dtype in (("tq2_0", "float32"), ("q8_0", "float16"), ("q8_0", "float64")):
        w = blocks_of(rng, 5, 256, name)
        y = gw.nn.ggml_matmul(gw.cast(x, dtype), g.constant(w), format=name)
        feeds = {"x": normal(rng, 2, 256)}
        with gw.Session(g, kernels="wait") as session:
            found = session.run(y, feeds)
        assert found.dtype == np.dtype(dtype)
        assert off(found, feeds["x"], w, name) < (2e-3 if dtype == "float16" else 1e-6)


def test_x_that_lies_otherwise_and_nothing_at_all(rng: Any) -> None:
    w = packed_ggml(normal(rng, 40, 64), "q4_1")
    x = normal(rng, 64, 6)
    y = np.empty((6, 40), "f4")
    calls = bind_product("q4_1", x.T, w, y, as_bytes=False)
    assert calls is not None
    run(calls)
    assert off(y, x.T, w, "q4_1") < 2e-6
    assert [n for call in calls[1:] for _, n in call.slots if n == 0] == []  # the copy is read
    for n_x, n_rows in ((0, 40), (6, 0)):
        nothing = bind_product("q4_1", x.T[:n_x], w[:n_rows], y[:n_x, :n_rows], as_bytes=True)
        assert nothing is None


@pytest.mark.parametrize("held", [bind.HELD, 16 * 64])
def test_gradients_are_those_of_the_numbers(held: int, rng: Any, monkeypatch: Any) -> None:
    """Some rows of the weight are floats at a time, the last ones fewer."""
    monkeypatch.setattr(bind, "HELD", held)
    w = packed_ggml(normal(rng, 40, 64), "q5_0")
    g = gw.Graph()
    x, c = g.placeholder("x", (2, 3, 64)), g.placeholder("c", (2, 3, 40))
    for way in ("float32", "int8"):
        y = gw.nn.ggml_matmul(x, g.constant(w), format="q5_0", activations=way)
        (dx,) = gw.gradients((y * c).sum(), [x])
        feeds = {"x": normal(rng, 2, 3, 64), "c": normal(rng, 2, 3, 40)}
        with gw.Session(g, kernels="wait") as session:
            found = session.run(dx, feeds)
            told = str(session.plan(dx, {n: v.shape for n, v in feeds.items()}))
        assert blas() is None or "numpy" not in told
        np.testing.assert_allclose(found, feeds["c"] @ unpacked(w, "q5_0"), rtol=0, atol=1e-4)


def test_large_weights_have_their_kernels_before_the_first_run(rng: Any) -> None:
    """numpy would take seconds for what takes milliseconds."""
    for rows, state in ((512, ""), (8, "kernels come after")):
        g = gw.Graph()
        x = g.placeholder("x", ("B", 2048))
        w = packed_ggml(normal(rng, rows, 2048), "q8_0")
        y = gw.nn.ggml_matmul(x, g.constant(w), format="q8_0")
        with gw.Session(g) as session:
            session.run(y, {"x": normal(rng, 1, 2048)})
            head = session.plan(y, {"x": (1, 2048)}).head
        assert head.executor.state.startswith(state) and bool(head.executor.state) == bool(state)
