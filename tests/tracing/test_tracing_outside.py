"""What compiled functions read and write outside their arguments, and their gradients."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradientError, TraceError
from tests.tracing.numpy_functions import LABELS, SCALE, W, X, assert_same, cross_entropy

TABLE = np.ones(3)


# -- what is outside -------------------------------------------------------------------------------


def test_globals_closures_and_defaults_are_read_anew() -> None:
    global TABLE
    local = np.ones(3)

    @gw.compile
    def f(x, default=SCALE[:3]):
        return x * TABLE + local + default

    x = np.arange(3.0)
    try:
        np.testing.assert_allclose(f(x), x + 1 + SCALE[:3])
        TABLE[1] = 5.0
        local[2] = 7.0
        np.testing.assert_allclose(f(x), x * TABLE + local + SCALE[:3])
        assert f.cache_info().traces == 1
        TABLE = np.full(3, 9.0)
        local = np.zeros(3)
        np.testing.assert_allclose(f(x), x * 9 + SCALE[:3])
        assert f.cache_info().traces == 2
    finally:
        TABLE = np.ones(3)


def test_plain_arrays_are_not_written_by_lazy_ones() -> None:
    state, rows = np.zeros(3), [np.zeros(3)]

    def by_out(x):
        np.add(state, x, out=state)
        return (state * 2).sum()

    def by_alias(x):
        total = other = np.zeros(3)
        total += x
        return total, other * 2

    def by_loop(x):
        for row in rows:
            row += x
        return rows[0] * 2

    def by_copy(x):
        y = np.zeros(3)
        np.copyto(y, x)
        return y

    def by_at(x):
        y = np.zeros(3)
        np.add.at(y, [0], x[0])
        return y

    for fn in (by_out, by_alias, by_loop, by_copy, by_at):
        with pytest.raises(TraceError, match=r"would keep its old elements(.|\n)*zeros_like"):
            gw.compile(fn)(np.ones(3))
    assert state.tolist() == rows[0].tolist() == [0.0] * 3


def test_what_a_dict_outside_holds_may_change() -> None:
    params = {"w": np.ones(3), "n": 2}

    @gw.compile
    def f(x):
        return x * params["w"] * params["n"]

    x = np.arange(3.0)
    assert f(x).tolist() == [0.0, 2.0, 4.0]
    params["w"] = np.full(3, 5.0)
    assert f(x).tolist() == [0.0, 10.0, 20.0]
    params["n"] = 1
    assert f(x).tolist() == [0.0, 5.0, 10.0]


def test_an_array_that_a_closed_object_holds() -> None:
    class Slots:
        __slots__ = ("w",)

        def __init__(self) -> None:
            self.w = np.ones(3)

    held = np.ones((2, 3))
    box, chain = Slots(), [[[[[[[held]]]]]]]  # too deep to be watched
    f = gw.compile(lambda x: (x * box.w, x + chain[0][0][0][0][0][0][0][1]))
    x = np.arange(3.0)
    assert [y.tolist() for y in f(x)] == [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]
    box.w[1] = 4.0
    held[1, 0] = 9.0
    assert [y.tolist() for y in f(x)] == [[0.0, 4.0, 2.0], [9.0, 2.0, 3.0]]
    box.w = np.zeros(3)
    assert f(x)[0].tolist() == [0.0, 0.0, 0.0]


class Settings:
    rate = 2.0


def test_classes_partials_and_compiled_functions_are_watched() -> None:
    offset = np.ones(3)

    @gw.compile
    def inner(x):
        return x + offset

    def scaled(x, by):
        return inner(x) * by * Settings.rate

    f = gw.compile(functools.partial(scaled, by=np.full(3, 2.0)))
    x = np.arange(3.0)
    try:
        assert f(x).tolist() == [4.0, 8.0, 12.0]
        offset[0] = 0.0
        assert f(x).tolist() == [0.0, 8.0, 12.0]
        Settings.rate = 1.0
        assert f(x).tolist() == [0.0, 4.0, 6.0]
        offset = np.zeros(3)
        assert f(x).tolist() == [0.0, 2.0, 4.0]
    finally:
        Settings.rate = 2.0
    with pytest.raises(TraceError, match="MaskedArray has rules of its own"):
        f(np.ma.ones(3))


def test_arrays_made_inside_are_constants() -> None:
    @gw.compile
    def f(x):
        scale = np.zeros(3)
        parts = []
        for i in range(3):
            scale[i] = i + 1
            parts.append(x * scale)
        return sum(parts), np.ones(2)

    for _ in range(2):
        got, ones = f(np.ones(3))
        assert got.tolist() == [3.0, 4.0, 3.0]
        ones += 1  # another array each time
        assert f(np.ones(3))[1].tolist() == [1.0, 1.0]


def test_a_local_array_becomes_lazy_when_it_is_written() -> None:
    @gw.compile
    def f(x):
        total, parts = np.zeros(3), [np.ones(3)]
        for i in range(3):
            total += x * i
            parts[0] *= x
        return total, parts

    for scale in (1.0, 2.0):
        x = np.ones(3) * scale
        assert_same(f.__wrapped__(x), f(x), 0)


def test_results_are_nobody_elses() -> None:
    f = gw.compile(lambda x: (x, x.copy(), x[1:], x.T, x.reshape(-1), np.asarray(SCALE)))
    x = X.copy()
    same, *others, outside = f(x)
    assert same is x
    assert outside is SCALE
    for i, a in enumerate(others):
        assert not np.may_share_memory(a, x)
        assert not any(np.may_share_memory(a, b) for b in others[:i])
        assert a.flags.writeable


def test_arguments_that_are_one_array() -> None:
    @gw.compile
    def f(a, b):
        a += 1
        return a + b

    x, y = np.ones(3), np.ones(3)
    assert f(x, x).tolist() == [4.0] * 3
    assert f(np.ones(3), y).tolist() == [3.0] * 3
    with pytest.raises(TraceError, match="overlaps"):
        f(x[:2], x[1:])
    z = np.ones(3)
    z.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        f(z, y)


def test_arguments_in_another_order_in_memory() -> None:
    @gw.compile
    def f(x):
        r = x.reshape(-1)
        r[0] = 100
        return x + 1

    def plain(x):
        r = x.reshape(-1)
        r[0] = 100
        return x + 1

    for order in ("C", "F"):
        x, y = np.array(X, order=order), np.array(X, order=order)
        assert_same(plain(x), f(y), 0)
        assert_same(x, y, 0)


# -- gradients -------------------------------------------------------------------------------------


def loss(params, x, labels):
    hidden = np.tanh(x @ params["w"] + params["b"])
    return cross_entropy(hidden, labels) + 0.1 * (params["w"] ** 2).sum()


def test_gradients_are_those_of_finite_differences() -> None:
    f = gw.compile(loss)
    params = {"w": W.copy(), "b": np.zeros(3)}
    value, grads = f.value_and_grad()(params, X, LABELS)
    assert value == pytest.approx(loss(params, X, LABELS))
    for name, g in grads.items():
        assert g.shape == params[name].shape
        for place in np.ndindex(g.shape):
            h = 1e-6
            up, down = ({k: v.copy() for k, v in params.items()} for _ in range(2))
            up[name][place] += h
            down[name][place] -= h
            numeric = (loss(up, X, LABELS) - loss(down, X, LABELS)) / (2 * h)
            assert g[place] == pytest.approx(numeric, abs=1e-7)


def test_gradients_through_writes_and_numbers() -> None:
    @gw.compile
    def f(x, scale, n):
        y = x.copy()
        y[1:] *= scale
        y[y > 2] = 2
        y[0] = y[1] * n
        return (y**2).sum(), y

    x = np.array([1.0, 0.5, 3.0])
    (value, y), (gx, gs) = f.value_and_grad((0, 1))(x, 2.0, 3)
    assert y.tolist() == [3.0, 1.0, 2.0]
    assert float(value) == 14.0
    assert gx.tolist() == [0.0, 40.0, 0.0]
    assert type(gs) is float
    assert gs == pytest.approx(10.0)
    assert f.gradient(0)(x, 2.0, 3).tolist() == [0.0, 40.0, 0.0]


def test_gradients_of_what_has_none() -> None:
    with pytest.raises(GradientError, match="one float"):
        gw.compile(lambda x: x * 2).value_and_grad()(X)
    with pytest.raises(GradientError, match="places of positional"):
        gw.compile(lambda x: x.sum()).value_and_grad(1)(X)
    _, g = gw.compile(lambda t: t["x"].sum()).value_and_grad()({"x": X, "n": LABELS})
    assert g["n"] is None
    assert g["x"].tolist() == np.ones((8, 5)).tolist()
