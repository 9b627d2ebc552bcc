"""What the chain is made of: slopes, certificates, batches, and programs that are kept."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.check.chain import cache
from gradwright.debug.check.chain.batched import Batch
from gradwright.debug.check.chain.cache import borrowed
from gradwright.debug.check.chain.grouped import Grouped
from gradwright.debug.check.chain.lifting import lifted
from gradwright.debug.check.chain.program import Program
from gradwright.debug.check.chain.slopes import (
    Affine,
    Element,
    Linear,
    Rows,
    Slope,
    Transposed,
    Windows,
)
from gradwright.debug.check.probe import Probe
from gradwright.debug.float64 import Call
from gradwright.errors import GradientError
from gradwright.op import find_op
from tests.debug.wrong_gradients import Dead, Right

Array = np.ndarray[Any, Any]


def program(g: gw.Graph, loss: gw.Tensor, feeds: Any = None, **options: Any) -> Program:
    options.setdefault("values", g.values.snapshot())
    with borrowed(loss, g.trainable, feeds or {}, **options) as made:
        return made


def slopes_of(op: gw.Op, *xs: Array) -> tuple[list[Slope], list[Any]]:
    """Return the measured slopes of one op by its variables."""
    g = gw.Graph()
    y = op(*[g.variable(f"x{i}", init=x, dtype="float64") for i, x in enumerate(xs)])
    made = program(g, gw.sin(y[0] if isinstance(y, tuple) else y).sum())
    found = [s for s, _ in made.steps[0].slopes if s is not None]
    for slope in found:
        slope.measure(made.held)
    return found, made.held


# -- slopes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_slopes_of_elements(scale: float, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 4)) * scale
    (slope,), _ = slopes_of(find_op("arcsinh")(), x)
    assert type(slope) is Element
    np.testing.assert_allclose(slope.values, 1 / np.sqrt(1 + x * x), rtol=1e-6)
    slope.refine([None, x, np.arcsinh(x)])
    np.testing.assert_allclose(slope.values, 1 / np.sqrt(1 + x * x), rtol=1e-7)
    times = slopes_of(find_op("mul")(), x, x[0])[0]
    assert [type(s) for s in times] == [Affine, Affine]
    np.testing.assert_allclose(times[1].values, x, rtol=1e-12, atol=1e-15 * scale)


def test_slopes_of_rows_along_any_axis(rng: np.random.Generator) -> None:
    x, g = rng.standard_normal((4, 3, 2)), rng.standard_normal((4, 3, 2))
    for axis in (0, 1, -1):
        (slope,), held = slopes_of(find_op("softmax")(axis=axis), x)
        assert type(slope) is Rows
        p = np.exp(x) / np.exp(x).sum(axis, keepdims=True)
        expected = p * (g - (p * g).sum(axis, keepdims=True))
        found = slope.pull(held, {slope.head: g})
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_slopes_of_windows_go_to_the_largest(rng: np.random.Generator) -> None:
    x = rng.permutation(np.arange(50.0)).reshape(1, 2, 5, 5)
    (slope,), held = slopes_of(find_op("max_pool2d")(kernel_size=2), x)
    assert type(slope) is Windows and slope.kinks is None
    g = rng.standard_normal((1, 2, 2, 2))
    expected = np.zeros(x.shape)
    for n, c, i, j in np.ndindex(g.shape):
        window = x[n, c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        at = np.unravel_index(window.argmax(), (2, 2))
        expected[n, c, 2 * i + at[0], 2 * j + at[1]] = g[n, c, i, j]
    found = slope.pull(held, {slope.head: g})
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_both_slopes_of_a_kink_are_kept() -> None:
    (slope,), held = slopes_of(find_op("relu")(), np.array([-1.0, 0.0, 2.0]))
    assert slope.kinks is not None and slope.kinks.tolist() == [False, True, False]
    sides = slope.between(held, {slope.head: np.array([1.0, -2.0, 1.0])})
    assert sides is not None
    np.testing.assert_allclose(sides, [[0.0, -2.0, 1.0], [0.0, 0.0, 1.0]], atol=1e-9)


@pytest.mark.parametrize("off", [1e-3, 1e-5])
def test_a_certificate_sees_one_element(off: float, rng: np.random.Generator) -> None:
    x, w = rng.standard_normal((2, 6, 6, 6)), rng.standard_normal((4, 3, 3, 3))
    found, held = slopes_of(find_op("conv2d")(groups=2), x, w)
    for slope in found:
        assert type(slope) is Linear
        bar = {slope.head: rng.standard_normal(held[slope.head].shape)}
        right = slope.pull(held, bar)
        assert right is not None
        wrong = right.copy()
        wrong.flat[7] *= 1 + off
        assert not slope.certifies(bar, wrong)


@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        (find_op("matmul")(), ((2, 3, 4), (4, 5))),
        (find_op("matmul")(), ((3, 4), (2, 4, 5))),
        (find_op("sum")(axis=1), ((2, 3, 4),)),
        (find_op("mean")(axis=(0, -1), keepdims=True), ((2, 3, 4),)),
        (find_op("transpose")(axes=(-1, 0, 1)), ((2, 3, 4),)),
        (find_op("swapaxes")(axis1=0, axis2=-1), ((2, 3, 4),)),
        (find_op("reshape")(shape=(4, 6)), ((2, 3, 4),)),
        (find_op("conv2d")(), ((2, 3, 5, 6), (4, 3, 3, 2), (4,))),
        (find_op("conv2d")(stride=(2, 1), padding=1, dilation=2), ((2, 3, 6, 5), (4, 3, 3, 2))),
        (find_op("conv1d")(padding="same"), ((2, 3, 5), (4, 3, 4))),
        (find_op("conv1d")(padding=((-1, 2),)), ((2, 3, 5), (4, 3, 2))),
        (find_op("conv3d")(), ((1, 2, 3, 4, 3), (2, 2, 2, 1, 2), (2,))),
    ],
)
def test_transposes_of_our_own(op: gw.Op, shapes: Any, rng: np.random.Generator) -> None:
    xs = [rng.standard_normal(s) for s in shapes]
    found, held = slopes_of(op, *xs)
    assert [type(s) for s in found] == [Transposed] * len(xs)
    for slope, x in zip(found, xs, strict=True):
        g, v = rng.standard_normal(held[slope.head].shape), rng.standard_normal(x.shape)
        pulled = slope.pull(held, {slope.head: g})
        change = slope.moved(held, x + v) - held[slope.head]
        assert pulled is not None and pulled.shape == x.shape
        assert np.vdot(pulled, v) == pytest.approx(np.vdot(g, change), rel=1e-12, abs=1e-12)


# -- many at once ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "shapes", "stacked"),
    [
        (find_op("add")(), ((3, 4), (4,)), (False, True)),
        (find_op("matmul")(), ((3, 4), (4, 5)), (True, False)),
        (find_op("matmul")(), ((2, 3, 4), (4, 5)), (False, True)),
        (find_op("softmax")(axis=0), ((3, 4),), (True,)),
        (find_op("sum")(), ((3, 4),), (True,)),
        (find_op("transpose")(axes=(1, 0)), ((3, 4),), (True,)),
        (find_op("reshape")(shape=(2, 6)), ((3, 4),), (True,)),
        (find_op("conv2d")(), ((2, 1, 5, 5), (3, 1, 2, 2)), (True, False)),
        (find_op("conv2d")(), ((2, 1, 5, 5), (3, 1, 2, 2)), (False, True)),
        (find_op("cumsum")(axis=0), ((3, 4),), (True,)),
    ],
)
def test_a_leading_axis_changes_nothing(
    op: gw.Op, shapes: Any, stacked: tuple[bool, ...], rng: np.random.Generator
) -> None:
    xs = [rng.standard_normal((5, *s) if b else s) for s, b in zip(shapes, stacked, strict=True)]
    rows = [
        op.forward(*[x[k] if b else x for x, b in zip(xs, stacked, strict=True)]) for k in range(5)
    ]
    call = Call(op.forward, tuple(range(1, len(xs) + 1)), (9,), "")
    for _ in range(2):  # the way that was found is used again
        (found,) = lifted(call, xs, stacked, [rows[0]])
        np.testing.assert_allclose(found, np.stack(rows), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["argmax", "any", "all", "max"])
@pytest.mark.parametrize(("axis", "shape"), [(0, (2,)), (0, (3,)), (1, (2, 2)), (1, (3, 3))])
def test_axes_of_one_length_are_not_mistaken_for_each_other(
    name: str, axis: int, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    op, tried = find_op(name)(axis=axis), shape[0]  # as many at once as there are places
    for _ in range(10):
        cache.forget()
        few, many = (rng.standard_normal((n, *shape)) for n in (tried, 7))
        if name in ("any", "all"):
            few, many = few > -0.5, many > -0.5
        call = Call(op.forward, (0,), (1,), name)
        like = [np.asarray(op.forward(few[0]))]
        lifted(call, [few], [True], like)
        (found,) = lifted(call, [many], [True], like)
        np.testing.assert_array_equal(found, np.stack([op.forward(x) for x in many]))


def test_batches_are_the_differences_of_one_element_at_a_time(rng: np.random.Generator) -> None:
    g = gw.Graph()
    x = g.placeholder("x", (3, 4), "float64")
    w = g.variable("w", init=rng.standard_normal((4, 5)))
    loss = gw.square(gw.nn.softmax(gw.tanh(x @ w))).sum() + gw.exp(w).mean()
    made = program(g, loss, {"x": rng.standard_normal((3, 4))})
    batch = Batch(made, made.parameters[0])
    batch.most = 8
    found = batch.differences(np.arange(20))
    (analytic,) = made.gradients()
    np.testing.assert_allclose(found.slopes, analytic.ravel(), rtol=1e-6)
    base = made.held[made.parameters[0]]
    for k in (0, 13):
        step = 1e-4 * max(batch.typical, abs(base.flat[k]))
        ends = []
        for sign in (1.0, -1.0):
            moved = base.copy()
            moved.flat[k] += sign * step
            ends.append(made.loss_at([made.parameters[0]], [moved]))
        assert found.slopes[k] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-9)


def test_probes_that_share_their_losses_say_what_single_ones_do(rng: np.random.Generator) -> None:
    g = gw.Graph()
    x, start = g.placeholder("x", (3, 4), "float64"), rng.standard_normal((4, 5))
    start[0, 0], start[1] = 0.0, 1e-5 * start[1]
    w = g.variable("w", init=start)
    loss = gw.square(gw.nn.softmax(gw.tanh(x @ w))).sum() + gw.abs(w).mean()
    made = program(g, loss, {"x": rng.standard_normal((3, 4))})
    wrong = made.gradients()[0] * (1 + rng.choice([0.0, 1e-6, 1e-4, 1.0], (4, 5)))
    found = list(Grouped(made, 0, 1e-5, smooth=False).elements("w", np.arange(20), wrong, 7))
    single = Probe(made.run, made.copies[0], made.loss_copy, 1e-5)
    assert {f.verdict for f in found} == {"ok", "kink", "fail"}
    for check in found:
        assert check.index is not None
        alone = single.part("w", check.index, "real", wrong)
        assert (check.verdict, check.kinks) == (alone.verdict, alone.kinks)
        assert check.comparison.numeric == pytest.approx(alone.comparison.numeric, rel=1e-7)


# -- programs that are kept ------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    cache.forget()


def network() -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph()
    x = g.placeholder("x", (None, 3), "float64")
    w = g.variable("w", init=np.array([[1.0, -2.0], [0.5, 3.0], [0.1, -0.4]]))
    y = gw.cond((x @ w).sum() > 0.0, lambda: gw.exp(x @ w * 0.1), lambda: gw.sin(x @ w))
    return g, (y * gw.stop_gradient(gw.tanh(x @ w))).sum(name="loss")


def test_other_values_and_feeds_use_the_same_program(rng: np.random.Generator) -> None:
    g, loss = network()
    x = np.abs(rng.standard_normal((2, 3)))
    first = program(g, loss, {"x": x})
    g.values["w"] = np.abs(rng.standard_normal((3, 2)))
    assert program(g, loss, {"x": x * 2}) is first
    kept = gw.gradient_check(g, loss, {"x": x * 2})
    cache.forget()
    anew = gw.gradient_check(g, loss, {"x": x * 2})
    assert kept.passed and kept.value == anew.value
    np.testing.assert_array_equal(kept.parameters["w"].analytic, anew.parameters["w"].analytic)


@pytest.mark.parametrize("change", ["shape", "branch", "mode", "seed", "op"])
def test_what_makes_another_program(change: str, rng: np.random.Generator) -> None:
    g, loss = network()
    x = np.abs(rng.standard_normal((2, 3)))
    g.values["w"] = np.abs(rng.standard_normal((3, 2)))
    first, options = program(g, loss, {"x": x}), {}
    if change == "shape":
        x = x[:1]
    elif change == "branch":
        x = -x
    elif change == "mode":
        options = {"training": True}
    elif change == "seed":
        options = {"seed": 1}
    else:
        node = next(n for n in g.all_nodes if n.op.name == "mul")
        node.op = find_op("sub")()
    second = program(g, loss, {"x": x}, **options)
    assert second is not first
    assert gw.gradient_check(g, loss, {"x": x}, **options).passed


def test_two_checks_at_once_have_a_program_each() -> None:
    g, loss = network()
    x = np.ones((2, 3))
    with borrowed(loss, g.trainable, {"x": x}, values=g.values.snapshot()) as mine:
        inside = []
        thread = threading.Thread(target=lambda: inside.append(program(g, loss, {"x": x})))
        thread.start()
        thread.join()
    assert inside and inside[0] is not mine


def test_a_program_beyond_the_bound_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    g, loss = network()
    x = np.ones((2, 3))
    monkeypatch.setattr(cache, "MOST_BYTES", 100)
    assert program(g, loss, {"x": x}) is not program(g, loss, {"x": x})


def test_a_program_that_is_kept_keeps_no_graph_alive() -> None:
    x = np.ones((2, 3))
    made = []
    for broken in (False, True):
        g, loss = network()
        g.variable("elsewhere", (1 << 18,), trainable=False)
        if broken:
            with pytest.raises(GradientError, match="is nan"):
                gw.gradient_check(g, loss, {"x": np.nan * x})
        else:
            assert gw.gradient_check(g, loss, {"x": x}).passed
        kept = program(g, loss, {"x": x})
        assert kept is program(g, loss, {"x": x}) and kept.nbytes < 1 << 20
        made.append((weakref.ref(g), kept))
        del g, loss
    gc.collect()
    assert all(graph() is None and kept.graph() is None for graph, kept in made)


def test_an_op_defined_again_is_checked_as_it_is_now() -> None:
    g = gw.Graph()
    w = g.variable("w", init=[0.5, 2.0])
    loss = Right()(w, name="y").sum()
    assert gw.gradient_check(g, loss).passed
    g["y"].node.op = Dead()
    assert [n.name for n in gw.gradient_check(g, loss).blame] == ["y"]


def test_a_stack_of_one_is_not_squeezed_away() -> None:
    op = find_op("squeeze")()
    call = Call(op.forward, (0,), (1,), "squeeze")
    for count in (4, 1):
        x = np.arange(3.0 * count).reshape(count, 1, 3)
        (found,) = lifted(call, [x], [True], [np.zeros(3)])
        assert found.tolist() == x[:, 0].tolist()
