"""Sessions: feeds, fetches, updates, settings, threads."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, FeedError, GraphError, LoweringError, ShapeError
from tests.support.networks import squares

line = pytest.fixture(squares)
FEEDS = {"x": np.ones((4, 3)), "t": np.zeros(4)}


# -- feeds and fetches -----------------------------------------------------------------------------


def test_results_have_the_structure_of_the_fetches(line):
    g, x, _, _w, loss = line
    with gw.Session(g) as session:
        out = session.run({"a": loss, "b": [x, ("w", loss)]}, FEEDS)
        assert float(out["a"]) == 144.0 and out["b"][1][0].tolist() == [1, 2, 3]
        assert isinstance(out["b"][1], tuple) and out["b"][0].dtype == np.float32
        assert session.run(loss, FEEDS).shape == ()


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"x": np.ones((4, 3))}, "placeholder 't' is not fed"),
        ({**FEEDS, "y": 1.0}, r"no tensor 'y'[\s\S]*placeholders: 'x', 't'"),
        ({**FEEDS, "x": np.ones(3)}, "'x' is fed with rank 1"),
        ({**FEEDS, "x": np.ones((4, 2))}, "'x' is fed with size 2 on axis 1"),
        ({**FEEDS, "x": np.ones((5, 3))}, r"'t' says B = 4, but 'x' says B = 5"),
        ({**FEEDS, "x": np.ones((4, 3)) * 1j}, "'x' is float32 and cannot take complex128"),
        ({**FEEDS, "t": np.array(list("abcd"))}, "cannot hold"),
    ],
)
def test_feeds_that_do_not_fit_are_named(line, feeds, message):
    g, *_, loss = line
    with gw.Session(g) as session, pytest.raises(FeedError, match=message):
        session.run(loss, feeds)


def test_only_what_is_fetched_is_needed(line):
    g, x, *_ = line
    assert gw.Session(g).run(x * 2.0, {"x": np.ones((2, 3))}).sum() == 12.0


def test_any_tensor_can_be_fed(line):
    g, _x, _, w, loss = line
    product = g["matmul"]
    out = gw.Session(g).run(loss, {product: np.ones(2), "t": np.zeros(2)})
    assert float(out) == 2.0
    out = gw.Session(g).run(loss, {**FEEDS, w: np.zeros(3)})
    assert float(out) == 0.0 and g.values["w"].tolist() == [1, 2, 3]


def test_a_closed_session_says_so(line):
    g, *_, loss = line
    session = gw.Session(g)
    session.close()
    with pytest.raises(GraphError, match="is closed"):
        session.run(loss, FEEDS)


@pytest.mark.parametrize("options", [{}, {"device": "guard"}, {"check": "replay"}])
def test_one_of_several_outputs_can_be_fed(options):
    g = gw.Graph()
    x = g.placeholder("x", (4,))
    a, b = gw.split(x, 2)
    z = a + 10.0 * b
    with gw.Session(g, **options) as session:
        feeds = {"x": np.arange(4.0)}
        assert session.run(z, {**feeds, a: [100.0, 100.0]}).tolist() == [120.0, 130.0]
        assert session.run([a, z], {**feeds, a: [100.0, 100.0]})[1].tolist() == [120.0, 130.0]
        assert session.run(z, {**feeds, b: [100.0, 100.0]}).tolist() == [1000.0, 1001.0]


def test_rows_of_different_lengths_are_no_feed():
    g = gw.Graph()
    x = g.placeholder("x", (2, 2))
    with pytest.raises(FeedError, match=r"'x' is fed with no array[\s\S]*need: f32\[2, 2\]"):
        gw.Session(g).run(x, {"x": [[1, 2], [3]]})


def test_named_tuples_are_fetched_as_such():
    class Pair(NamedTuple):
        a: object
        b: object

    g = gw.Graph()
    x = g.placeholder("x", ())
    out = gw.Session(g).run(Pair(x, x * 2.0), {"x": 1.0})
    assert isinstance(out, Pair) and float(out.b) == 2.0


def test_a_request_checked_before_does_not_vouch_for_another():
    g = gw.Graph()
    w, q = g.variable("w", (2,)), g.variable("q", (3,))
    with gw.Session(g) as session:
        session.run([w, q])
        with pytest.raises(DTypeError, match="commit_if"):
            session.run([w], commit_if=q)


# -- updates ---------------------------------------------------------------------------------------


def test_updates_read_the_start_and_commit_together():
    g = gw.Graph()
    a, b = g.variable("a", (), init=1.0), g.variable("b", (), init=10.0)
    with gw.Session(g) as session:
        session.run([], updates={a: a + b, b: a * 2.0})
    assert (float(g.values["a"]), float(g.values["b"])) == (11.0, 2.0)
    assert g.values.version("a") == g.values.version("b") == 1


def test_a_swap_of_two_variables_is_an_update():
    g = gw.Graph()
    a, b = g.variable("a", (2,), init=1.0), g.variable("b", (2,), init=2.0)
    with gw.Session(g) as session:
        for _ in range(3):
            session.run([], updates={a: b, b: a})
    assert g.values["a"].tolist() == [2, 2] and g.values["b"].tolist() == [1, 1]


def test_commit_if_and_failures_commit_nothing():
    g = gw.Graph()
    x, a = g.placeholder("x", ()), g.variable("a", (), init=1.0)

    class Fails(gw.Op):
        """Raise when run."""

        def infer(self, x):
            return x

        def forward(self, x):
            raise ValueError("no luck")

    gw.register("test/fails")(Fails)
    bad = Fails()(x)
    finite = gw.is_finite(x)
    with gw.Session(g) as session:
        session.run([], {"x": np.inf}, updates={a: a + x}, commit_if=finite)
        assert float(g.values["a"]) == 1.0 and g.values.version("a") == 0
        session.run([], {"x": 2.0}, updates={a: a + x}, commit_if=finite)
        assert float(g.values["a"]) == 3.0
        with pytest.raises(
            LoweringError, match=r"test/fails 'fails'.*test_session.py[\s\S]*no luck"
        ):
            session.run(bad, {"x": 2.0}, updates={a: a + x})
        assert float(g.values["a"]) == 3.0


def test_an_update_must_fit_its_variable():
    g = gw.Graph()
    a, x = g.variable("a", (2,)), g.placeholder("x", (3,))
    with gw.Session(g) as session, pytest.raises(ShapeError, match=r"need: f32\[2\]"):
        session.run([], {"x": np.ones(3)}, updates={a: x})
    with gw.Session(g) as session, pytest.raises(GraphError, match="only variables"):
        session.run([], updates={x: x})


def test_sessions_share_values_or_take_a_snapshot():
    g = gw.Graph()
    a = g.variable("a", ())
    own = gw.Session(g, values=g.values.snapshot())
    shared = gw.Session(g)
    own.run([], updates={a: a + 1.0})
    assert float(g.values["a"]) == 0.0 and float(own.run(a)) == 1.0
    shared.run([], updates={a: a + 5.0})
    assert float(g.values["a"]) == 5.0 and float(own.run(a)) == 1.0


# -- settings and threads --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"seed": "a"}, "seed='a' is no seed"), ({"listeners": [3]}, "3 is no listener")],
)
def test_settings_of_other_kinds_are_refused_at_once(line, setting, message):
    with pytest.raises(GraphError, match=message):
        gw.Session(line[0], **setting)


def test_unknown_device_and_check_are_refused(line):
    g, *_ = line
    with pytest.raises(LoweringError, match="no package offers the device 'abacus'"):
        gw.Session(g, "abacus")
    with pytest.raises(GraphError, match="None, 'replay' or 'rewrites'"):
        gw.Session(g, check="twice")


def test_deterministic_sessions_agree_to_the_bit_and_record_why(line):
    g, _, _, w, loss = line
    (dw,) = gw.gradients(loss, [w])
    feeds = {"x": np.random.default_rng(0).standard_normal((64, 3)), "t": np.zeros(64)}
    a, b = (gw.Session(g, deterministic=True) for _ in range(2))
    assert np.array_equal(a.run(dw, feeds), b.run(dw, feeds))
    assert a.tuning == b.tuning and a.tuning["numpy"] == np.__version__


def test_one_session_per_thread_gives_the_same_numbers(line):
    g, _, _, w, loss = line
    (dw,) = gw.gradients(loss, [w])
    feeds = {"x": np.random.default_rng(0).standard_normal((8, 3)), "t": np.zeros(8)}
    expected = gw.Session(g, deterministic=True).run([loss, dw], feeds)
    wrong: list[str] = []

    def work(session):
        for _ in range(100):
            out = session.run([loss, dw], feeds)
            if not all(np.array_equal(a, b) for a, b in zip(out, expected, strict=True)):
                wrong.append("differs")

    sessions = [gw.Session(g, deterministic=True) for _ in range(4)]
    sessions.append(sessions[0])  # that two threads share
    threads = [threading.Thread(target=work, args=(session,)) for session in sessions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_where_chooses_every_bit(rng):
    special = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, 3.4e38, -1.5]
    for dtype in ("float32", "float64", "float16", "int8", "int64", "bool"):
        g = gw.Graph()
        c = g.placeholder("c", (None, 8), "bool")
        a, b = g.placeholder("a", (None, 8), dtype), g.placeholder("b", (8,), dtype)
        with np.errstate(all="ignore"):
            x = np.stack([np.array(special).astype(dtype), np.ones(8, dtype)])
            y = np.array(special[::-1]).astype(dtype)
        mask = rng.random((2, 8)) > 0.5
        for left, right in ((a, b), (b, a), (a, g.constant(np.zeros((), dtype)))):
            feeds = {"c": mask, "a": x, "b": y}
            values = {a: x, b: y}
            got = gw.Session(g).run(gw.where(c, left, right), feeds)
            zero = np.zeros((), dtype)
            want = np.where(mask, values.get(left, zero), values.get(right, zero))
            assert got.dtype == want.dtype and got.tobytes() == want.tobytes()


def test_values_that_overflow_are_values_not_warnings():
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    y = gw.log(x) + gw.exp(x * 1000.0)
    out = gw.Session(g).run(y, {"x": [-1.0, 1.0]})
    assert np.isnan(out[0]) and np.isinf(out[1])
    assert gw.Stepper(g, [y], {"x": [-1.0, 1.0]}).find_nonfinite().node.op.name == "log"
