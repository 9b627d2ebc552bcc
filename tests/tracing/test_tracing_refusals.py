"""What compiled functions refuse and how they say it; random numbers, other ops, blocks."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GradientError, TraceError
from tests.tracing.numpy_functions import W, X, softmax, standardise

# -- what cannot be traced -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, r"`if`.*bool\[\](.|\n)*gw\.cond"),
        (lambda x: x.sum() > 0 and 1, "`if`, `and`, `or`"),
        (lambda x: float(x.sum()), r"float\(\) reads"),
        (lambda x: int(x[0, 0]), r"int\(\) reads"),
        (lambda x: x.sum().item(), r"item\(\) reads"),
        (lambda x: x.tolist(), r"tolist\(\) reads"),
        (lambda x: np.asarray(x), "np.asarray, or numpy itself, reads"),
        (lambda x: np.array([x[0], x[1]]), "reads"),
        (lambda x: [0, 1, 2][x[0, 0].astype(int)], "Python index"),
        (lambda x: list(range(x.shape[0] * x[0, 0].astype(int))), "range"),
        (lambda x: 1.0 in x, "`in` reads"),
        (lambda x: f"{x.sum():.2f}", r"format '\.2f' reads"),
        (lambda x: complex(x[0, 0]), r"complex\(\) reads"),
        (lambda x: np.apply_along_axis(sum, 0, x), "np.apply_along_axis has no op(.|\n)*map_fn"),
        (lambda x: np.linalg.lstsq(x, x[:, 0]), "lstsq returns residuals(.|\n)*pinv"),
        (lambda x: np.quantile(x, 0.5, weights=x, method="inverted_cdf"), "weights(.|\n)*option"),
        (lambda x: np.unique(x, axis=0), "np.unique with axis= has no op"),
        (lambda x: x.flat[0], "flat is not there"),
        (lambda x: x.tobytes(), "tobytes is not there"),
        (lambda x: np.add.reduceat(x, [0, 2]), "add.reduceat has no op"),
        (lambda x: np.arctan2.reduce(x), "arctan2.reduce has no op"),
        (lambda x: np.exp(x, where=x > 0), "leaves elements undefined"),
        (lambda x: x * np.longdouble(1), "longdouble|float128|has no op|cannot be part"),
        (lambda x: x * np.array(["a"] * 5, object), "object"),
        (lambda x: np.ravel(x, order="F"), "order='F'"),
        (lambda x: np.sort(x + 1j), "np.sort has no op for this"),
        (lambda x: x * np.random.rand(5), "draws from np.random(.|\n)*gw.random"),  # noqa: NPY002
    ],
)
def test_errors_say_what_to_do(fn: Any, message: str) -> None:
    with pytest.raises(TraceError, match=message) as caught:
        gw.compile(fn)(X)
    assert "test_tracing_refusals.py:" in str(caught.value)


def test_plain_arrays_are_not_written_by_halves() -> None:
    @gw.compile
    def f(x):
        out = np.zeros(3)
        out[0] = x[0]
        return out

    with pytest.raises(TraceError, match=r"written in place while it is traced(.|\n)*zeros_like"):
        f(np.ones(3))

    buffer = np.zeros(3)

    @gw.compile
    def g(x):
        y = x * buffer
        buffer[0] = 1
        return y

    with pytest.raises(TraceError, match=r"written in place while it is traced(.|\n)*zeros_like"):
        g(np.ones(3))
    buffer[0] = 1  # may be written again


def test_unknown_settings_are_refused_when_decorating() -> None:
    with pytest.raises(TypeError, match="did you mean 'dynamic_argnames' or 'dynamic_shapes'"):
        gw.compile(dynamic=True)
    with pytest.raises(TypeError, match="did you mean 'kernels'"):
        gw.compile(np.exp, kernel="off")


def test_side_effects_are_refused() -> None:
    seen: list[Any] = []
    counts = {"n": 0}
    generator = np.random.default_rng(0)

    def appends(x):
        seen.append(x)
        return x * 2

    def counts_up(x):
        counts["n"] += 1
        return x * 2

    def replaces(params):
        params["w"] = params["w"] * 2
        return params["w"].sum()

    with pytest.raises(TraceError, match="changes 'seen'"):
        gw.compile(appends)(X)
    with pytest.raises(TraceError, match="changes 'counts'"):
        gw.compile(counts_up)(X)
    with pytest.raises(TraceError, match=r"changes the dict 'params'(.|\n)*return the new params"):
        gw.compile(replaces)({"w": X})
    with pytest.raises(TraceError, match="draws from generator"):
        gw.compile(lambda x: x + generator.normal(size=5))(X)


def test_fallback_runs_plain_numpy_and_says_why() -> None:
    @gw.compile(fallback="eager")
    def f(x):
        return x * 2 if x.sum() > 0 else -x

    assert f(np.ones(2)).tolist() == [2.0, 2.0]
    assert f(-np.ones(2)).tolist() == [1.0, 1.0]
    assert "`if`" in f.fallback_reason
    assert f.cache_info().eager == 2
    with pytest.raises(TraceError, match="runs as plain numpy"):
        f.lower(np.ones(2))
    with pytest.raises(GradientError, match="plain numpy has no gradient"):
        f.value_and_grad()(np.ones(2))
    with pytest.raises(TraceError, match="fallback='numpy' is not known"):
        gw.compile(lambda x: x, fallback="numpy")


def test_errors_of_numpy_stay_what_they_are() -> None:
    with pytest.raises(ValueError, match="could not be broadcast"):
        gw.compile(lambda x, w: x + w)(X, W)
    with pytest.raises(IndexError):
        gw.compile(lambda x: x[9])(X)
    with pytest.raises(np.exceptions.AxisError):
        gw.compile(lambda x: x.sum(axis=3))(X)
    assert gw.compile(lambda x: x * 2)(X).shape == X.shape  # nothing is left behind


# -- random numbers, other ops, other functions ----------------------------------------------------


def test_random_ops_draw_anew_at_each_call() -> None:
    @gw.compile(seed=3)
    def noisy(x):
        return x + gw.random.normal(shape=(5,), dtype="float64")

    first, second = noisy(np.zeros(5)), noisy(np.zeros(5))
    assert not np.array_equal(first, second)
    again = gw.compile(noisy.__wrapped__, seed=3)
    assert np.array_equal(again(np.zeros(5)), first)


def test_ops_and_control_flow_take_lazy_arrays() -> None:
    @gw.compile
    def f(x):
        y = gw.nn.softmax(x, axis=1) + gw.where(x > 0, x, 0.0)
        z = gw.cond(x.sum() > 0, lambda: np.exp(x), lambda: -x)
        total, steps = gw.scan(lambda c, row: (c + row, (c * 2).sum()), np.zeros(5), x)
        big = gw.while_loop(lambda s: s < 100.0, lambda s: s * 2, np.abs(x[0, 0]))
        rows = gw.map_fn(lambda row: row / np.linalg.norm(row), x)
        return y, z, total, steps, big, rows

    for x in (X, -X, np.abs(X)):
        y, z, total, steps, big, rows = f(x)
        np.testing.assert_allclose(y, softmax(x) + np.maximum(x, 0))
        np.testing.assert_allclose(z, np.exp(x) if x.sum() > 0 else -x)
        np.testing.assert_allclose(total, x.sum(0))
        assert steps.dtype == np.float64
        assert 100 <= big < 200
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)


def test_a_compiled_function_inside_another_is_part_of_it() -> None:
    inner = gw.compile(softmax)
    outer = gw.compile(lambda x: inner(x).sum(axis=0))
    np.testing.assert_allclose(outer(X), softmax(X).sum(0))
    assert inner.cache_info().traces == 0
    assert len(outer.graph.placeholders) == 1


def test_what_there_is_to_look_at() -> None:
    f = gw.compile(softmax)
    with pytest.raises(TraceError, match="not been traced yet"):
        _ = f.graph
    traced = f.lower(X)
    assert [str(t.spec) for t in traced.outputs] == ["f64[8, 5]"]
    assert f.graph is traced.graph
    assert {n.op.name for n in f.graph.nodes} >= {"placeholder", "exp", "div"}
    lines = [n.where for n in f.graph.nodes if n.kind == "array"]
    assert lines and all(line.startswith("numpy_functions.py:") for line in lines)
    assert f.plan is not None
    assert repr(f) == "<compiled softmax: 1 traces, 0 replays>"
    assert f.__name__ == "softmax"


def test_threads_trace_on_their_own() -> None:
    f = gw.compile(lambda x: standardise(x) * 2)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for n in (3, 4, 5):
                x = np.random.default_rng(seed).standard_normal((n, 4))
                np.testing.assert_allclose(f(x), standardise(x) * 2)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert f.cache_info().traces == 3


# -- blocks ----------------------------------------------------------------------------------------


def test_a_block_runs_when_it_is_read() -> None:
    with gw.trace() as t:
        x = t.array(X, name="x")
        y = standardise(x)
        with pytest.raises(TraceError, match="reads"):
            float(y.sum())
        total = y.sum()
    np.testing.assert_allclose(np.asarray(y), standardise(X))
    assert np.asarray(y) is np.asarray(y)
    assert not np.asarray(y).flags.writeable
    assert float(total) == pytest.approx(standardise(X).sum())
    a, rest = t.run([y, {"total": total}], {"x": X * 2 + 1})
    np.testing.assert_allclose(a, standardise(X * 2 + 1))
    assert type(rest["total"]) is np.float64
    assert repr(y) == "<LazyArray lazy array: f64[8, 5]>"
    assert repr(x) == "<LazyArray x: f64[8, 5]>"


def test_inputs_of_a_block() -> None:
    with gw.trace("mine") as t:
        x = t.input("x", ("B", 2), "float32")
        y = (x * 2).sum(axis=1) + t.array([1.0, 2.0, 3.0])[0]
    assert str(y.shape) == "(B,)"
    assert t.run(y, {"x": [[1, 2], [3, 4]]}).tolist() == [7.0, 15.0]
    with pytest.raises(FeedError, match="'x' has no data"):
        np.asarray(y)
    with pytest.raises(FeedError, match="is computed"):
        t.run(y, {y: 1})


def test_traces_do_not_mix() -> None:
    with gw.trace() as first:
        x = first.array(X)
        with pytest.raises(TraceError, match="begins inside"), gw.trace():
            pass
        assert gw.compile(softmax)(x).shape == (8, 5)
        with pytest.raises(TraceError, match="inside the block"):
            first.run(x)
    with gw.trace() as second, pytest.raises(TraceError, match="of another graph"):
        second.array(X) + gw.Graph().constant(1.0)
    with pytest.raises(TraceError, match="has ended"), first:
        pass
    with pytest.raises(TraceError, match="which has ended, is used in"):
        second.run(x)


def test_trace_of_a_tensor_is_the_sum_of_its_diagonal() -> None:
    g = gw.Graph()
    assert g.output({}, gw.trace(g.constant([[1, 2], [3, 4]]), k=1))["trace"].tolist() == 2


# -- the notebook ----------------------------------------------------------------------------------


def test_the_notebook_runs_and_is_cleared() -> None:
    path = Path(__file__).parents[2] / "notebooks/compile_numpy.ipynb"
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [c for c in cells if c["cell_type"] == "code"]
    assert all(c["outputs"] == [] and c["execution_count"] is None for c in code)
    space: dict[str, Any] = {}
    for cell in code:
        exec(compile("".join(cell["source"]), cell["id"], "exec"), space)
    assert space["standardise"].cache_info().traces == 2
    assert space["history"][-1] < 0.05 < space["history"][0]
    assert "`if`" in space["plain"].fallback_reason
