"""The chain of measured slopes: its verdicts are those of differences, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.check.report import Report
from tests.debug.wrong_gradients import Broken, Dead, Off, Right

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 6))
Case = tuple[gw.Graph, gw.Tensor, dict[str, Any]]


def weight(g: gw.Graph, name: str, *shape: int, seed: int = 0) -> gw.Tensor:
    values = np.random.default_rng(seed + len(name)).standard_normal(shape) * 0.6
    return g.variable(name, shape, init=values, dtype="float64")


def both(case: Case, **options: Any) -> tuple[Report, Report]:
    g, loss, feeds = case
    fast, slow = (
        gw.gradient_check(g, loss, feeds, method=method, **options)
        for method in ("auto", "differences")
    )
    for name, p in fast.parameters.items():
        q = slow.parameters[name]
        np.testing.assert_array_equal(p.verdicts, q.verdicts, err_msg=name)
        np.testing.assert_allclose(p.analytic, q.analytic, rtol=1e-13)
        agreed = p.verdicts == 1
        least = 1e-9 * np.max(np.abs(p.analytic), initial=0.0)
        np.testing.assert_allclose(p.numeric[agreed], q.numeric[agreed], rtol=2e-5, atol=least)
    assert fast.passed is slow.passed
    assert {n.name for n in slow.blame} <= {n.name for n in fast.blame}
    return fast, slow


def ways(report: Report) -> tuple[int, int, int]:
    found = report.parameters.values()
    return (
        sum(p.certified for p in found),
        sum(p.differenced for p in found),
        sum(p.probed for p in found),
    )


# -- right gradients -------------------------------------------------------------------------------


def pieces() -> Case:
    """Where, concatenation, slices, gathers, padding, a maximum over an axis."""
    g = gw.Graph()
    x, w, v = g.placeholder("x", (None, 6)), weight(g, "w", 6, 4), weight(g, "value", 5, 4)
    h = x @ w
    h = gw.concat([gw.where(h > 0.1, h, h * 0.3), gw.tanh(h)[:, ::2]], axis=1)
    picked = gw.gather(v, g.constant(np.array([0, 3, 3, 1])), axis=0)
    padded = gw.pad(picked, ((0, 0), (1, 1)))
    top, low = gw.split(padded * h, 2, axis=1)
    return g, (gw.exp(top * 0.3).max(1) + low.min(1)).sum(name="loss"), {"x": X}


def norms() -> Case:
    """Batch norm in training, dropout, an embedding, a weight that is used twice."""
    g = gw.Graph()
    ids = g.placeholder("ids", (None, 3), "int64")
    table, w = weight(g, "table", 7, 4), weight(g, "w", 4, 4)
    h = gw.nn.embedding(ids, table) @ w
    h = gw.nn.dropout(gw.nn.layer_norm(h), 0.3) @ w.T
    h = gw.nn.batch_norm(gw.reshape(h, (-1, 4)), weight(g, "scale", 4), weight(g, "shift", 4))
    return g, gw.square(gw.nn.gelu(h)).mean(name="loss"), {"ids": RNG.integers(0, 7, (4, 3))}


def images() -> Case:
    """Convolutions, pooling, cross entropy with integer labels."""
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 2, 6, 6)), g.placeholder("t", (None,), "int64")
    h = gw.nn.relu(gw.cnn.conv2d(x, weight(g, "kernel", 3, 2, 3, 3), weight(g, "b", 3)))
    h = gw.cnn.max_pool2d(h, 2)
    logits = h.mean((2, 3)) @ weight(g, "w", 3, 4)
    loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    return g, loss, {"x": RNG.standard_normal((3, 2, 6, 6)), "t": np.array([0, 3, 1])}


def recurrent() -> Case:
    """A scan, of which nothing is declared, between ops of which all is."""
    g = gw.Graph()
    x, w, u = g.placeholder("x", (3, 6)), weight(g, "w", 6, 2), weight(g, "u", 2, 2)
    last, _ = gw.scan(lambda c, z: (gw.tanh(c @ u + z), c), g.constant(np.zeros(2)), x @ w)
    return g, (last * weight(g, "out", 2)).sum(name="loss"), {"x": X[:3]}


def chosen() -> Case:
    """A branch, a stopped gradient, booleans."""
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 6)), weight(g, "w", 6)
    y = gw.cond((x @ w).sum() > -1e9, lambda: gw.exp(x @ w * 0.2), lambda: x @ w)
    mask = gw.logical_not(x[:, 0] > 0.0).astype("float64")
    return g, (y * mask * gw.stop_gradient(gw.sin(x @ w))).sum(name="loss"), {"x": X}


def complexes() -> Case:
    """A complex parameter beside a real one, and a Fourier transform."""
    g = gw.Graph()
    z = g.variable("z", init=np.array([1 + 2j, -0.5j, 0.3 + 0j]))
    w = weight(g, "w", 3)
    return (
        g,
        (gw.square(gw.abs(z * gw.signal.fft(w.astype("complex128")))) + w).sum(name="loss"),
        {},
    )


def empty() -> Case:
    """No rows at all, and a parameter without elements."""
    g = gw.Graph()
    x, w, v = g.placeholder("x", (None, 6)), weight(g, "w", 6, 2), weight(g, "v", 0, 2)
    return g, (gw.tanh(x @ w).sum() + gw.exp(v).sum() + w.sum()), {"x": X[:0]}


def zeros() -> Case:
    """Units that are dead, and a key whose gradient is zero but for rounding."""
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 6)), weight(g, "w", 6, 3)
    shift = weight(g, "shift", 1)
    scores = gw.nn.softmax(gw.nn.relu(x @ w - 100.0) + x[:, :3] + shift)
    return g, (scores * x[:, 3:]).sum(name="loss"), {"x": X}


HEALTHY = [pieces, norms, images, recurrent, chosen, complexes, empty, zeros]


@pytest.mark.parametrize("make", HEALTHY)
def test_right_gradients_pass_as_they_do_by_differences(make: Callable[[], Case]) -> None:
    fast, slow = both(make(), training=True)
    assert fast.outcome == slow.outcome != "failed"
    assert {n.verdict for n in fast.nodes} <= {"ok", "kink"}
    assert [n.name for n in fast.nodes] == [n.name for n in slow.nodes]


@pytest.mark.parametrize("make", [pieces, norms, images])
def test_all_of_an_ordinary_network_is_certified(make: Callable[[], Case]) -> None:
    g, loss, feeds = make()
    certified, differenced, probed = ways(gw.gradient_check(g, loss, feeds, training=True))
    assert certified == sum(g.values[w.name].size for w in g.trainable)
    assert differenced == probed == 0


def test_what_lies_before_an_unknown_op_is_differenced() -> None:
    g, loss, feeds = recurrent()
    found = gw.gradient_check(g, loss, feeds).parameters
    assert found["out"].certified == 2
    told = str(gw.gradient_check(g, loss, feeds))
    assert "2 elements certified by measured slopes, 16 by differences of the loss" in told
    assert found["w"].certified == 0 and found["w"].differenced + found["w"].probed == 12


def test_activations_and_placeholders_have_chains_too() -> None:
    g, loss, feeds = images()
    inner = next(t for t in g.all_nodes if t.op.name == "max_pool2d").outputs[0]
    fast, _ = both((g, loss, feeds), wrt=["x", inner, "kernel"], max_per_param=12)
    assert [p.checked for p in fast.parameters.values()] == [12] * 3 and fast.passed


# -- kinks -----------------------------------------------------------------------------------------


def test_kinks_are_those_of_differences() -> None:
    g = gw.Graph()
    w, v = g.variable("w", init=[0.0, 1.0, -1.0, 0.5]), g.variable("v", init=[0.5, 0.5, 0.2, 0.5])
    tie = gw.maximum(w, v, name="tie")
    fast, _ = both((g, (gw.exp(tie) + gw.nn.relu(w, name="corner") * v).sum(), {}))
    assert fast.parameters["w"].verdicts.tolist() == [2, 1, 1, 2]
    assert {e.kinks for e in fast.parameters["w"].troubles} == {("corner",), ("tie",)}


def test_a_tie_of_the_same_value_is_no_kink_of_the_loss() -> None:
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 6)), weight(g, "w", 6)
    ratio = gw.exp(x @ w * 0.1)
    loss = gw.minimum(ratio * 2.0, gw.clip(ratio, 0.2, 5.0) * 2.0).sum(name="loss")
    fast, _ = both((g, loss, {"x": X}))
    assert ways(fast) == (6, 0, 0)


def test_a_comparison_that_is_about_to_change_leaves_nothing_certain() -> None:
    g = gw.Graph()
    w = g.variable("w", init=[1.0, 0.3])
    loss = gw.where(w < 1.0, w * 2.0, gw.square(w)).sum(name="loss")
    fast, _ = both((g, loss, {}))
    assert fast.parameters["w"].certified == 0


# -- wrong gradients -------------------------------------------------------------------------------


class Row(Right):
    """A gradient that is wrong in one element, by a thousandth."""

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        factor = np.full(xs[0].shape, 3.0)
        factor[0, 1] *= 1.001
        return (gs[0] * factor,)


def faulty(op: gw.Op) -> Case:
    g = gw.Graph()
    x, w = g.placeholder("x", (4, 6)), weight(g, "w", 6, 3)
    h = op(gw.tanh(x @ w + weight(g, "b", 3)), name="fault")
    return g, gw.nn.softmax(h @ weight(g, "v", 3, 3) * 0.2)[:, 0].sum(name="loss"), {"x": X}


@pytest.mark.parametrize("op", [Dead(), Off(), Broken(), Row()])
def test_wrong_gradients_fail_as_they_do_by_differences(op: gw.Op) -> None:
    fast, _ = both(faulty(op))
    assert [n.name for n in fast.blame] == ["fault"]
    assert fast.parameters["v"].verdict == "ok" and fast.parameters["w"].verdict == "fail"


def test_what_is_wrong_in_a_loop_is_settled_without_a_probe_per_element() -> None:
    g = gw.Graph()
    x, w, u = g.placeholder("x", (3, 6)), weight(g, "w", 6, 2), weight(g, "u", 2, 2)

    def cell(c: gw.Tensor, z: gw.Tensor) -> Any:
        return gw.tanh(Dead()(c @ u, name="fault") + z), c

    last, _ = gw.scan(cell, g.constant(np.zeros(2)), x @ w)
    fast, _ = both((g, (last * weight(g, "out", 2)).sum(name="loss"), {"x": X[:3]}))
    assert not fast.passed and ways(fast)[2] <= 2


def test_an_accumulation_that_is_lost_is_found_by_the_chain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    g = gw.Graph()
    w = weight(g, "w", 4)
    loss = (gw.exp(w) * gw.sin(w)).sum(name="loss")
    reverse = __import__("gradwright.gradient.reverse", fromlist=["_total"])
    with monkeypatch.context() as patch:
        patch.setattr(reverse, "_total", lambda parts: parts[0] if parts else None)
        report = gw.gradient_check(g, loss)
    assert not report.blame and report.parameters["w"].count("fail") == 4
    assert "how they are joined" in report.findings[0].text


def test_what_is_infinite_beside_agrees_with_nothing() -> None:
    g = gw.Graph()
    w = g.variable("w", init=[1e-4, -1e4, 1.0], dtype="float64")
    fast, _ = both((g, Off()(w**-3.0, name="fault").sum(name="loss"), {}), rtol=1e-6)
    assert [n.name for n in fast.blame] == ["fault"] and fast.parameters["w"].verdicts[0] == 4


@pytest.mark.parametrize("declared", ["affine", "element", "linear", "rows", "windows"])
def test_a_wrong_claim_costs_time_and_no_verdict(declared: Any) -> None:
    class Meets(gw.Op):
        """A product of neighbours along an axis.

        y[k] = x[k]·x[k + 1]
        """

        dependence = gw.op.Dependence(declared, axis=1, size=(1,))

        def infer(self, x: Any) -> Any:
            return x.with_shape(x.shape)

        def forward(self, x: Any) -> Any:
            return x * np.roll(x, -1, 0)

        def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
            g, x = gs[0], xs[0]
            return (g * gw.roll(x, -1, 0) + gw.roll(g * x, 1, 0),)

    g = gw.Graph()
    w = weight(g, "w", 3, 2)
    fast, _ = both((g, gw.exp(Meets()(w, name="meets")).sum(name="loss"), {}))
    assert fast.passed and fast.parameters["w"].certified == 0


# -- what the report says --------------------------------------------------------------------------


def test_the_report_says_how_elements_were_checked() -> None:
    g, loss, feeds = images()
    report = gw.gradient_check(g, loss, feeds, max_per_param=3)
    p = report.parameters["kernel"]
    assert (p.checked, p.certified, p.differenced, p.probed) == (3, 3, 0, 0)
    assert np.isnan(p.numeric).sum() == p.numeric.size - 3
    assert p.direction is not None and p.direction.verdict == "ok"
    told = report.to_dict()["parameters"][0]
    assert (told["certified"], told["differenced"], told["probed"]) == (3, 0, 0)
    slow = gw.gradient_check(g, loss, feeds, max_per_param=3, method="differences")
    assert slow.parameters["kernel"].probed == 3


def test_another_method_is_refused() -> None:
    g, loss, feeds = images()
    with pytest.raises(gw.errors.GradientError, match="method='fast' makes no sense"):
        gw.gradient_check(g, loss, feeds, method="fast")  # type: ignore[arg-type]


def inside_a_scan() -> Case:
    """A wrong rule in a loop, of which nothing is declared, and a kink for one parameter."""
    op = gw.define_op("test/in_a_loop", np.sin, vjp=lambda g, y, x: g * y)
    g = gw.Graph()
    x, w, u = g.placeholder("x", (None, 6)), weight(g, "w", 6, 5), weight(g, "u", 5, 5)
    b = g.variable("b", (5,), init=np.zeros(5), dtype="float64")
    h, _ = gw.scan(lambda c, z: (gw.tanh(op(c @ u) + z @ w + gw.nn.relu(b)), None), b * 0.0, x)
    return g, gw.square(h).mean(), {"x": X}


def test_a_wrong_rule_in_a_loop_is_told_of_many_elements_at_once() -> None:
    """Else each costs a sweep of runs: for a small LSTM that was a minute."""
    fast, slow = both(inside_a_scan())
    assert fast.parameters["w"].verdict == fast.parameters["u"].verdict == "fail"
    for name in ("w", "u"):
        found = fast.parameters[name]
        assert found.probed == 0 < found.differenced
        np.testing.assert_allclose(found.numeric, slow.parameters[name].numeric, rtol=1e-5)
    assert [str(n.address).partition(":")[0] for n in fast.faults] == ["scan"]


def behind_kinks() -> Case:
    """A wrong rule behind relus and a pooling with ties, which no element moves."""
    op = gw.define_op("test/behind", np.sin, vjp=lambda g, y, x: g * y)
    g = gw.Graph()
    x, k = g.placeholder("x", (None, 1, 8, 8)), weight(g, "k", 3, 1, 3, 3)
    h = gw.cnn.max_pool2d(gw.nn.relu(gw.cnn.conv2d(x, k)), 2)
    loss = gw.square(op(h.reshape(-1, 27)) @ weight(g, "v", 27)).mean()
    return g, loss, {"x": np.random.default_rng(3).standard_normal((4, 1, 8, 8))}


def test_a_wrong_rule_behind_kinks_is_told_by_the_chain() -> None:
    """Where no element moves what sits on a kink, the chain is as sure as without any."""
    fast, slow = both(behind_kinks())
    found = fast.parameters["k"]
    assert found.verdict == "fail" and found.probed == 0 < found.certified
    np.testing.assert_allclose(found.numeric, slow.parameters["k"].numeric, rtol=1e-4, atol=1e-7)
