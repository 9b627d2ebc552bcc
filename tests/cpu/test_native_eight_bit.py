"""The kernel of 8-bit Adam: every code, every middle, awkward sizes, and over its own inputs."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright import optim
from gradwright.cpu.llvm.bind import bind_kernel
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.llvm.eight_bit import INT32, _coded, _read
from gradwright.fuse.builder import FLOAT32, Builder
from gradwright.op import run_forward
from gradwright.ops.quantised.nf4 import codes, dynamic_map
from tests.support.fed_gradients import fed, gradients, linear

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")


def run(kernel: Any, *arrays: Any) -> None:
    """Run a kernel over [1, n] as machine code."""
    calls = bind_kernel(kernel, arrays[0].shape, arrays)
    assert calls is not None
    for call in calls:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(call.address)(call.block.ctypes.data)


@pytest.mark.parametrize("signed", [True, False])
def test_every_code_is_read_as_its_number(signed: bool) -> None:
    b = Builder(2, 1)
    y = _read(b.load("code", (0, 1), FLOAT32), signed=signed)
    kernel, _ = b.kernel([(y, (0, 1), "set", FLOAT32)])
    code, found = np.arange(256, dtype=np.float32)[None], np.empty((1, 256), np.float32)
    run(kernel, code, found)
    expected = dynamic_map(signed=signed)
    np.testing.assert_allclose(found[0], expected, 2.5e-7, 0)
    exact = [0, 127, 128, 254, 255] if signed else [0, 1, 254, 255]
    np.testing.assert_allclose(found[0, exact], expected[exact], 1e-7, 0)


@pytest.mark.parametrize("signed", [True, False])
def test_the_nearest_code_is_found(signed: bool, rng: Any) -> None:
    """Each number has its own code, and beside each middle lie the two that it is between."""
    b = Builder(2, 1)
    code, absmax = _coded(b.load("x", (0, 1), FLOAT32), signed=signed)
    kernel, _ = b.kernel([(code, (0, 1), "set", INT32), (absmax, (0,), "set", FLOAT32)])
    table = dynamic_map(signed=signed)
    middles = (table[:-1] + table[1:]) / 2
    gap = np.diff(table)
    drawn = rng.uniform(-1 if signed else 0, 1, 4000) ** 5
    x = np.concatenate([table, middles - 1e-4 * gap, middles + 1e-4 * gap, drawn, [-1.0] * signed])
    x = x.astype(np.float32)[None]
    near = np.abs(x - table[:, None]).argmin(0)
    found, largest = np.empty(x.shape, np.int32), np.empty((1, 1), np.float32)
    run(kernel, x, found, largest)
    expected, _ = codes(x, table, x.size)
    assert largest.item() == 1.0
    assert (expected == near).mean() > 0.99  # but for ties of float32
    other = np.flatnonzero(found[0] != expected)
    lower = np.minimum(found[0], expected)[other]
    assert np.all(np.abs(found[0][other] - expected[other].astype(int)) == 1) and other.size < 5
    assert np.all(np.abs(x[0, other] - middles[lower]) <= 2e-5 * gap[lower])


def test_codes_of_what_is_no_number_are_those_of_0_on_every_way() -> None:
    """Its block's scale is NaN; comparing with NaN would give either end, by the way taken."""
    grad = np.array([np.nan, 1.0, -np.nan, 0.0, 1.0, -1.0, 0.5, 0.0], np.float32)
    m, v = np.full(8, 127, "u1"), np.zeros(8, "u1")
    feeds = {"p": grad, "m": m, "v": v, "size": np.ones(2, np.float32)}
    g = gw.Graph()
    p, m, v, size = (g.placeholder(name, x.shape, x.dtype) for name, x in feeds.items())
    numbers = 1, 0.1, 0.9, 0.999, 1e-8, 0.0
    moved = gw.training.adam8bit_update(p, p, m, size, v, size, *numbers, block_size=4)
    state = (feeds[name] for name in ("m", "size", "v", "size"))
    ways = [run_forward(moved[0].node.op, [grad, grad, *state, *map(np.array, numbers)])]
    for kernels in ("wait", "off"):
        with gw.Session(g, kernels=kernels) as session:
            ways.append(session.run(list(moved), feeds))
    for _, code, scale, squares, squares_scale in ways:
        assert (code[:4] == 127).all() and (squares[:4] == 0).all()
        assert np.isnan([scale, squares_scale]).tolist() == [[True, False]] * 2
        np.testing.assert_array_equal(code, ways[0][1])


@pytest.mark.parametrize("shape, block", [((64, 64), 256), ((7, 9), 16), ((3,), 4), ((), 2)])
def test_a_training_on_kernels_is_that_on_numpy(shape: Any, block: int) -> None:
    """Whole blocks and a last short one; codes differ where a last bit decides between two."""
    shapes = {"w": shape}
    setting = {"block_size": block, "min_size": 0, "weight_decay": 0.1}
    given = [fed(g) for g in gradients(12, shapes, "float32")]
    ends = []
    for kernels in ("wait", "off"):
        trainer = linear(optim.Adam8bit(0.05, **setting), shapes, "float32", kernels=kernels)
        for batch in given:
            trainer.step(batch)
        ends.append((trainer.values["w"], trainer.state_dict(), trainer.session.plans[-1]))
    (w, state, plan), (w2, state2, _) = ends
    assert any(r.what == "machine code" and r.ops == ("adam8bit_update",) for r in plan.kernels)
    np.testing.assert_allclose(w, w2, 1e-4, 1e-5)
    for slot in ("m", "v"):
        apart = np.abs(state[f"state/w/{slot}"].astype(int) - state2[f"state/w/{slot}"])
        assert apart.max(initial=0) <= 1 and (apart > 0).mean() < 0.02
        scale = f"state/w/{slot}_absmax"
        np.testing.assert_allclose(state[scale], state2[scale], 0.02)


def test_weights_and_moments_stay_where_they_are() -> None:
    """All that a step changes is overwritten, unless somebody holds it."""
    shapes = {"w": (96, 64)}
    trainer = linear(optim.Adam8bit(0.01), shapes, "float32", kernels="wait")
    given = [fed(g) for g in gradients(6, shapes, "float32")]
    for batch in given[:3]:
        trainer.step(batch)
    names = [n for n in trainer.values if n == "w" or n.startswith("optimizer/w/")]
    places = {n: trainer.values.array(n).ctypes.data for n in names}
    trainer.step(given[3])
    assert len(names) == 5
    assert {n: trainer.values.array(n).ctypes.data for n in names} == places
    held = trainer.values["w"]
    before = held.copy()
    trainer.step(given[4])
    assert held.tobytes() == before.tobytes() != trainer.values["w"].tobytes()


def test_a_step_that_is_not_finite_changes_no_code() -> None:
    shapes = {"w": (96, 64)}
    trainer = linear(optim.Adam8bit(0.01), shapes, "float32", kernels="wait", nonfinite="skip")
    given = [fed(g) for g in gradients(3, shapes, "float32")]
    for batch in given:
        trainer.step(batch)
    before = {k: np.array(v).tobytes() for k, v in trainer.state_dict().items() if "/w/" in k}
    trainer.step({k: np.full_like(v, np.nan) for k, v in given[0].items()})
    after = {k: np.array(v).tobytes() for k, v in trainer.state_dict().items() if "/w/" in k}
    assert before == after and trainer.skipped == 1


def test_unrolled_steps_are_single_ones() -> None:
    shapes = {"w": (96, 64)}
    given = [fed(g) for g in gradients(4, shapes, "float32")]
    ends = []
    for unroll in (1, 4):
        trainer = linear(optim.Adam8bit(0.01), shapes, "float32", deterministic=True)
        trainer.fit(given, unroll=unroll, progress=False)
        ends.append({n: trainer.values[n].tobytes() for n in trainer.values})
    assert ends[0] == ends[1]


def test_a_transposed_gradient_is_read_as_it_lies() -> None:
    start = np.random.default_rng(0).standard_normal((96, 64)).astype(np.float32) / 8
    ends = []
    for kernels in ("wait", "off"):
        g = gw.Graph()
        x, w = g.placeholder("x", (5, 64)), g.variable("w", init=start)
        loss = ((x @ w.T) ** 2.0).mean()
        trainer = gw.Trainer(g, loss, optim.Adam8bit(0.01), kernels=kernels)
        for _ in range(5):
            trainer.step({"x": np.ones((5, 64), np.float32)})
        ends.append(trainer.values["w"])
    np.testing.assert_allclose(*ends, 1e-4, 1e-5)
