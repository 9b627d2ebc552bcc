"""Steps of optimizers run as kernels; 8-bit Adam by the paper, in blocks, and beside Adam."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright import optim
from gradwright.cpu.call import numpy_launch
from gradwright.cpu.llvm.blas import blas
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.lowerings import adam_8bit
from gradwright.op import run_forward
from gradwright.ops.updates.eight_bit import Adam8bitUpdate
from gradwright.program.lowering import find_launch
from gradwright.spec import spec_of
from tests.support.fed_gradients import fed, gradients, linear
from tests.train.test_optimizer_state import ALL


@pytest.mark.skipif(not available(), reason="llvmlite is not installed")
@pytest.mark.parametrize("name", sorted(ALL.keys() - {"noop"}))
def test_steps_are_kernels_and_products_alone(name: str) -> None:
    """No op of an update is left to numpy, where each would write an array of the weights' size."""
    shapes = {"w": (96, 64)}
    trainer = linear(replace(ALL[name]), shapes, "float32")
    trainer.step(fed(next(gradients(1, shapes, "float32"))))
    trainer.session.wait_for_kernels()
    (plan,) = trainer.session.plans
    rows = [row for row in plan.kernels if row.node.startswith("optimizer/w/")]
    others = [row for row in rows if row.what not in ("kernel", "machine code", "product", "view")]
    if blas() is None:  # products are numpy's
        others = [row for row in others if "matmul" not in row.ops]
    assert rows and not others, str(plan.kernels)
    if name not in ("adafactor", "lamb", "muon"):  # whose norms and products are between
        whole = [row for row in rows if row.space == (96, 64) or row.space == (96 * 64,)]
        assert len(whole) == 1, "one pass over the weights"


# -- 8 bits ----------------------------------------------------------------------------------------


def dynamic(signed: bool) -> Any:
    """Return the dynamic type as the paper tells it: decades, each split into equal parts.

    The first digit's place is an exponent of ten; what bits are left say which part of the decade,
    of which the number is the middle.
    """
    numbers = [0.0, 1.0]
    for exponent in range(7):
        parts = 2**exponent * (1 if signed else 2)
        edges = np.linspace(0.1, 1, parts + 1)
        middles = (edges[1:] + edges[:-1]) / 2 * 10.0 ** (exponent - 6)
        numbers += [*middles, *(-middles if signed else [])]
    return np.sort(numbers)


def rounded(x: Any, block: int, signed: bool) -> Any:
    """Return what is read back of numbers that were stored as codes."""
    table, flat = dynamic(signed), x.ravel()
    y = np.empty_like(flat)
    for start in range(0, flat.size, block):
        part = flat[start : start + block]
        largest = np.abs(part).max()
        near = np.abs(part[:, None] / (largest or 1) - table).argmin(1)
        y[start : start + block] = table[near] * largest
    return y.reshape(x.shape)


def test_8_bit_adam_is_the_paper_s() -> None:
    shapes, block = {"w": (7, 9)}, 16
    trainer = linear(
        optim.Adam8bit(0.05, weight_decay=0.1, block_size=block, min_size=0), shapes, "float32"
    )
    p = trainer.values["w"].astype(float)
    m = v = np.zeros((7, 9))
    for t, grads in enumerate(gradients(20, shapes, "float32"), 1):
        g = grads["w"].astype(float)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        ahead = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        p = p - 0.05 * (ahead + 0.1 * p)
        m, v = rounded(m, block, True), rounded(v, block, False)
        trainer.step(fed(grads))
        np.testing.assert_allclose(trainer.values["w"], p, 1e-5, 1e-6)


def test_8_bit_adam_trains_as_adam_does_in_a_quarter_of_the_memory() -> None:
    def trained(optimizer: optim.Optimizer) -> tuple[float, float, int]:
        rng = np.random.default_rng(3)
        g = gw.Graph()
        x, t = g.placeholder("x", (None, 32)), g.placeholder("t", (None, 8))
        a = g.variable("a", init=(rng.standard_normal((32, 64)) / 6).astype("float32"))
        b = g.variable("b", init=(rng.standard_normal((64, 8)) / 8).astype("float32"))
        loss = ((gw.tanh(x @ a) @ b - t) ** 2.0).mean()
        trainer = gw.Trainer(g, loss, optimizer)
        xs = rng.standard_normal((256, 32)).astype("float32")
        data = {"x": xs, "t": np.sin(xs @ rng.standard_normal((32, 8)).astype("float32") / 4)}
        start = trainer.evaluate(data)["loss"]
        trainer.fit(data, epochs=60, progress=False)
        slots = {k: a for k, a in trainer.state_dict().items() if k.startswith("state/")}
        kept = sum(np.asarray(s).nbytes for k, s in slots.items() if not k.endswith("/step"))
        return start, trainer.evaluate(data)["loss"], kept

    (start, wide, floats), (_, narrow, bits) = (
        trained(optim.Adam(3e-3)),
        trained(optim.Adam8bit(3e-3, min_size=0)),
    )
    assert wide < 0.15 * start
    assert abs(narrow - wide) < 0.02 * (start - wide)
    assert bits * 3.9 < floats


def test_small_parameters_keep_moments_of_32_bits() -> None:
    shapes = {"small": (4095,), "large": (4096,)}
    trainer = linear(optim.Adam8bit(), shapes, "float32")
    trainer.step(fed(next(gradients(1, shapes, "float32"))))
    state = trainer.state_dict()
    assert state["state/small/v"].dtype == np.float32
    assert state["state/large/v"].dtype == np.uint8


@pytest.mark.parametrize("signed", [True, False])
def test_the_nearest_number_is_found_by_half_of_the_bits(signed: bool, rng: Any) -> None:
    found = adam_8bit.coding(signed=signed)
    middles = found.middles[:-1]
    near = np.concatenate([middles, np.nextafter(middles, -2), np.nextafter(middles, 2)])
    x = np.concatenate([near, rng.uniform(-1 if signed else 0, 1, 10_000), [0.0, -0.0, 1.0]])
    x = x.astype(np.float32)
    code = found.first[x.view(np.uint32) >> 16]
    code = code + (x > found.middles[code])
    np.testing.assert_array_equal(code, np.searchsorted(middles, x, side="left"))


@pytest.mark.parametrize("device", ["cpu", "guard"])
def test_8_bit_adam_in_blocks_is_bit_equal_to_the_reference(
    device: str, rng: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(adam_8bit, "BLOCK", 16)
    numbers = [np.asarray(x) for x in (3, 0.1, 0.9, 0.99, 1e-8, 0.01)]
    for shape, per in (((5, 6), 4), ((), 4), ((0, 3), 4), ((70,), 32), ((16,), 16)):
        op, n = Adam8bitUpdate(block_size=per), int(np.prod(shape))
        p, g = (rng.standard_normal(shape).astype("float32") for _ in range(2))
        if len(shape) == 2:
            g = np.asfortranarray(g)  # gradients may be transposed views
        state = []
        for _ in range(2):
            scales = rng.random(-(-n // per)).astype("float32")
            scales[1:2] = 0
            state += [rng.integers(0, 256, shape).astype("uint8"), scales]
        given = [p, g, *state, *numbers]
        expected = run_forward(op, given)
        outs = [np.full_like(y, 77) for y in expected]
        found = find_launch(op, device, [spec_of(x) for x in given], list(map(spec_of, outs)))
        launch: Any = numpy_launch(found)
        launch(given, outs)
        for a, b in zip(outs, expected, strict=True):
            np.testing.assert_array_equal(a, b)
