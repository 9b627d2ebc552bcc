"""Sessions and plans: feeds, fetches, updates, caches, memory, devices, replay, threads."""

from __future__ import annotations

import threading
import weakref
from typing import NamedTuple

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, FeedError, GraphError, LoweringError, ShapeError
from gradwright.plan.memory import Interval, lay_out


@pytest.fixture
def line():
    g = gw.Graph("line")
    x = g.placeholder("x", ("B", 3))
    t = g.placeholder("t", ("B",))
    w = g.variable("w", (3,), init=[1.0, 2.0, 3.0])
    loss = ((x @ w - t) ** 2.0).sum(name="loss")
    return g, x, t, w, loss


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


def test_results_are_the_callers_own(line):
    g, x, _, w, _loss = line
    with gw.Session(g) as session:
        fed = np.ones((4, 3), np.float32)
        same = session.run(x, {"x": fed})
        assert not np.shares_memory(same, fed)
        first = session.run(g["matmul"], FEEDS)
        kept = first.copy()
        session.run(g["matmul"], {**FEEDS, "x": np.zeros((4, 3))})
        assert np.array_equal(first, kept)
        with pytest.raises(ValueError, match="read-only"):
            session.run(w)[0] = 5.0


def test_views_of_the_arena_are_safe_to_keep():
    g = gw.Graph()
    x = g.placeholder("x", (2, 3))
    y = gw.exp(x).T
    z = gw.exp(y)
    with gw.Session(g) as session:
        a, b = session.run([y, z], {"x": np.zeros((2, 3))})
        session.run([y, z], {"x": np.ones((2, 3))})
        assert np.all(a == 1.0) and np.allclose(b, np.e)


def test_a_closed_session_says_so(line):
    g, *_, loss = line
    session = gw.Session(g)
    session.close()
    with pytest.raises(GraphError, match="is closed"):
        session.run(loss, FEEDS)


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


# -- plans -----------------------------------------------------------------------------------------


def test_plans_are_cached_per_shape_and_bounded(line):
    g, *_, loss = line
    session = gw.Session(g, max_plans=2)
    for n in (1, 2, 1, 2):
        session.run(loss, {"x": np.ones((n, 3)), "t": np.zeros(n)})
    held = list(session.plan_cache.values())
    session.run(loss, {"x": np.ones((1, 3)), "t": np.zeros(1)})
    assert len(held) == 2 and set(session.plan_cache.values()) == set(held)
    session.run(loss, {"x": np.ones((7, 3)), "t": np.zeros(7)})
    assert len(session.plan_cache) == 2


def test_a_size_that_contradicts_the_graph_is_found_when_planned():
    g = gw.Graph()
    x, y = g.placeholder("x", (None,)), g.placeholder("y", (None,))
    z = x + y  # taken to be equal sizes
    with gw.Session(g) as session:
        assert session.run(z, {"x": np.ones(3), "y": np.ones(3)}).shape == (3,)
        with pytest.raises(ShapeError, match="do not broadcast"):
            session.run(z, {"x": np.ones(3), "y": np.ones(2)})
        with pytest.raises(ShapeError, match=r"size 3 on axis 0, not x_0 = 1"):
            session.run(z, {"x": np.ones(1), "y": np.ones(3)})


def test_redefining_an_op_reaches_existing_sessions_and_prepared_runs():
    g = gw.Graph()
    x = g.placeholder("x", ())

    def define(factor):
        @gw.register("test/scaled")
        class Scaled(gw.Op):
            """Multiply by a number."""

            def infer(self, x):
                return x

            def forward(self, x):
                return np.asarray(x * np.float32(factor))

        return Scaled

    y = define(2.0)()(x)
    with gw.Session(g) as session:
        prepared = session.prepare(y, [x])
        assert float(session.run(y, {"x": 1.0})) == float(prepared(1.0)) == 2.0
        define(3.0)
        assert float(prepared(1.0)) == float(session.run(y, {"x": 1.0})) == 3.0


def test_memory_is_shared_between_values_that_never_meet():
    g = gw.Graph()
    y = x = g.placeholder("x", (1000,))
    for _ in range(50):
        y = gw.exp(y)
    memory = gw.Session(g).plan(y.sum(), {"x": (1000,)}).memory()
    assert memory.unshared >= 50 * 4000 and memory.arena <= 2 * 4096 + 64
    assert x.shape == (1000,)


def test_layout_never_overlaps_values_alive_together(rng):
    for _ in range(20):
        starts = rng.integers(0, 50, 200)
        items = [
            Interval(i, int(rng.integers(0, 5000)), int(s), int(s + rng.integers(0, 20)))
            for i, s in enumerate(starts)
        ]
        layout = lay_out(items)
        for a in items:
            for b in items[a.value + 1 :]:
                if a.start <= b.end and b.start <= a.end:
                    low, high = sorted((a, b), key=lambda i: layout.offsets[i.value])
                    start = layout.offsets[low.value]
                    assert start + low.nbytes <= layout.offsets[high.value] or not low.nbytes
        assert all(o % 64 == 0 for o in layout.offsets.values())
        assert max(layout.offsets[i.value] + i.nbytes for i in items) <= layout.nbytes


def test_rewrites_can_be_left_out_and_change_nothing(line):
    g, _, _, w, loss = line
    (dw,) = gw.gradients(loss, [w])
    plain = gw.Session(g, skip_rewrites=gw.rewrite.RULES).run([loss, dw], FEEDS)
    for skipped in ((), *((name,) for name in gw.rewrite.RULES)):
        out = gw.Session(g, skip_rewrites=skipped, check="replay").run([loss, dw], FEEDS)
        assert all(np.array_equal(a, b) for a, b in zip(plain, out, strict=True))


def test_equal_subgraphs_are_computed_once():
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    plan = gw.Session(g).plan(gw.exp(x) + gw.exp(x), {"x": (3,)})
    assert [i.op.name for i in plan.program.instrs] == ["exp", "add"]


def test_shapes_alone_cost_no_computation():
    g = gw.Graph()
    x = g.placeholder("x", (None, 2))
    expensive = gw.exp(x)
    plan = gw.Session(g).plan(gw.zeros_like(expensive), {"x": (3, 2)})
    assert plan.program.instrs == []
    assert gw.Session(g).run(gw.zeros_like(expensive), {"x": np.ones((3, 2))}).shape == (3, 2)


# -- data-dependent shapes -------------------------------------------------------------------------


def test_a_mask_ends_a_segment_and_gradients_flow_through():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    kept = gw.boolean_mask(x, x > 0.0)
    y = (kept * kept).sum()
    (dx,) = gw.gradients(y, [x])
    for device in ("cpu", "guard"):
        with gw.Session(g, device, check="replay") as session:
            for data in ([1.0, -2.0, 3.0], [-1.0, -1.0, -1.0], [4.0, 5.0, 6.0], [1.0, -2.0, 3.0]):
                a = np.array(data, np.float32)
                k, v, d = session.run([kept, y, dx], {"x": a})
                assert k.tolist() == a[a > 0].tolist() and float(v) == float((a[a > 0] ** 2).sum())
                assert d.tolist() == np.where(a > 0, 2 * a, 0).tolist()


def test_reshape_to_a_fed_shape():
    g = gw.Graph()
    x, s = g.placeholder("x", (None,)), g.placeholder("s", (2,), "int64")
    y = gw.exp(x).reshape(s) * 2.0
    total = y.sum(axis=0)
    (dx,) = gw.gradients(total, [x])
    for device in ("cpu", "guard"):
        with gw.Session(g, device) as session:
            for shape in ((2, 3), (3, 2), (6, 1), (2, 3)):
                t, d = session.run([total, dx], {"x": np.zeros(6), "s": shape})
                assert t.tolist() == [2.0 * shape[0]] * shape[1] and d.tolist() == [2.0] * 6


# -- devices, replay, listeners, threads -----------------------------------------------------------


def test_guard_names_a_lowering_that_writes_outside(line):
    g, *_ = line

    @gw.register("test/leaky")
    class Leaky(gw.Op):
        """Copy the input."""

        def infer(self, x):
            return x

        def forward(self, x):
            return x.copy()

    @gw.lowering("test/leaky", "guard")
    def leaky(op, ins, outs):
        def launch(xs, ys):
            ys[0][...] = xs[0]
            beyond = np.lib.stride_tricks.as_strided(ys[0].ravel(), (ys[0].size + 1,))
            beyond[-1] = 0.0

        return launch

    y = Leaky()(g["x"], name="copy")
    with (
        gw.Session(g, "guard") as session,
        pytest.raises(LoweringError, match="'copy' wrote outside"),
    ):
        session.run(y, {"x": np.ones((2, 3))})


def test_replay_names_the_first_node_that_differs(line):
    g, *_ = line

    @gw.register("test/too_large")
    class Wrong(gw.Op):
        """Copy the input."""

        def infer(self, x):
            return x

        def forward(self, x):
            return x.copy()

    @gw.lowering("test/too_large")
    def wrong(op, ins, outs):
        return lambda xs, ys: np.multiply(xs[0], 1.01, out=ys[0])

    y = gw.exp(Wrong()(g["x"], name="culprit"), name="after").sum()
    feeds = {"x": np.ones((2, 3))}
    gw.Session(g).run(y, feeds)
    message = r"differ at test/too_large 'culprit'[\s\S]*largest difference"
    with gw.Session(g, check="replay") as session, pytest.raises(LoweringError, match=message):
        session.run(y, feeds)


def test_listeners_see_runs_nodes_and_commits(line):
    g, _, _, w, loss = line
    seen = []

    class Watch(gw.Listener):
        wants_nodes = True

        def run_started(self, event):
            seen.append("start")

        def node_ran(self, event):
            seen.append(event.node.name)

        def run_finished(self, event):
            seen.append(("end", event.committed))

        def values_changed(self, versions):
            seen.append(versions)

    with gw.Session(g, listeners=[Watch()]) as session:
        session.run(loss, FEEDS, updates={w: w * 2.0})
    assert seen[0] == "start" and "matmul" in seen and seen.index("w") < seen.index("matmul")
    assert seen[-2:] == [("end", True), {"w": 1}]


def test_one_session_per_thread_gives_the_same_numbers(line):
    g, _, _, w, loss = line
    (dw,) = gw.gradients(loss, [w])
    data = np.random.default_rng(0).standard_normal((8, 3))
    expected = gw.Session(g).run([loss, dw], {"x": data, "t": np.zeros(8)})
    wrong: list[str] = []

    def work(session):
        for _ in range(100):
            out = session.run([loss, dw], {"x": data, "t": np.zeros(8)})
            if not all(np.array_equal(a, b) for a, b in zip(out, expected, strict=True)):
                wrong.append("differs")

    shared = gw.Session(g)
    threads = [threading.Thread(target=work, args=(gw.Session(g),)) for _ in range(3)]
    threads += [threading.Thread(target=work, args=(shared,)) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


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


def test_a_chain_of_100_000_nodes():
    g = gw.Graph()
    y = x = g.placeholder("x", (2,))
    one = g.placeholder("one", (2,))
    for _ in range(100_000):
        y = y + one
    with gw.Session(g) as session:
        assert session.run(y, {"x": np.zeros(2), "one": np.ones(2)}).tolist() == [1e5, 1e5]
    (dx,) = gw.gradients(y, [x])
    assert gw.Session(g).run(dx, {"x": np.zeros(2), "one": np.ones(2)}).tolist() == [1.0, 1.0]
    assert len(str(g.summary())) > 1_000_000


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


# -- nothing handed out is shared ------------------------------------------------------------------


class _Listens(gw.Listener):
    wants_nodes = True


class _Same(gw.Op):
    """Return the input itself, as ops of users do."""

    def infer(self, x):
        return x

    def forward(self, x):
        return x


@pytest.mark.parametrize("listeners", [(), (_Listens(),)])
def test_writing_into_a_result_changes_nothing_else(listeners):
    g = gw.Graph()
    x, w = g.placeholder("x", (4,)), g.variable("w", (4,), init=5.0)
    y = gw.exp(x)
    fetches = [
        y, gw.identity(y), y.reshape(2, 2), y[1:], gw.broadcast_to(y, (2, 4)),
        x, gw.identity(x), x.reshape(2, 2), _Same()(x), gw.identity(w), _Same()(w),
    ]  # fmt: skip
    fed = np.zeros(4, np.float32)
    with gw.Session(g, listeners=listeners) as session:
        results = session.run(fetches, {"x": fed})
    before = [r.copy() for r in results]
    for i, r in enumerate(results):
        r[...] = 7.0
        for other, held in zip(results[i + 1 :], before[i + 1 :], strict=True):
            assert np.array_equal(other, held)
    assert fed.tolist() == [0.0] * 4 and g.values["w"].tolist() == [5.0] * 4


@pytest.mark.parametrize("listeners", [(), (_Listens(),)])
@pytest.mark.parametrize(
    "value",
    [
        lambda x, y: y,
        lambda x, y: y.reshape(4),
        lambda x, y: x,
        lambda x, y: gw.identity(x),
        lambda x, y: x.reshape(4),
        lambda x, y: _Same()(x),
    ],
)
def test_what_an_update_stores_belongs_to_the_graph_alone(value, listeners):
    g = gw.Graph()
    x, w = g.placeholder("x", (4,)), g.variable("w", (4,))
    y = gw.exp(x)
    new = value(x, y)
    fed = np.ones(4, np.float32)
    with gw.Session(g, listeners=listeners) as session:
        a, b = session.run([y, new], {"x": fed}, updates={w: new})
    stored = b.copy()
    for array in (fed, a, b):
        array[...] = 7.0  # each stays writable
    assert g.values["w"].tolist() == stored.tolist()


def test_an_update_keeps_no_larger_buffer_alive():
    g = gw.Graph()
    x, w = g.placeholder("x", (1000, 4)), g.variable("w", (4,))
    gw.Session(g).run([], {"x": np.zeros((1000, 4))}, updates={w: gw.exp(x)[0]})
    assert g.values.array("w").base is None and g.values["w"].tolist() == [1.0] * 4


@pytest.mark.parametrize("device", ["cpu", "guard"])
def test_sessions_hold_neither_feeds_nor_results(device):
    g = gw.Graph()
    x = g.placeholder("x", (1000,))
    kept = gw.boolean_mask(x, x > 0.0)
    either = gw.cond(x.sum() > 0.0, lambda: x * 2.0, lambda: x)
    session = gw.Session(g, device)
    for _ in range(3):
        fed = np.ones(1000, np.float32)
        results = session.run([gw.exp(x).reshape(10, 100).T, kept, either, x], {"x": fed})
        held = [weakref.ref(fed), *map(weakref.ref, results)]
        del fed, results
        assert all(ref() is None for ref in held)
    session.run(x * 2.0, {"x": np.ones(1000)})
    if device == "guard":
        assert len(session.device._fences) <= 1  # those of earlier runs are gone


# -- feeds, requests and plans in corners ----------------------------------------------------------


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


def test_sizes_of_placeholders_in_two_scopes_are_two_sizes():
    g = gw.Graph()
    with g.scope("a"):
        x = g.placeholder("x", (None,))
    with g.scope("b"):
        y = g.placeholder("x", (None,))
    out = gw.Session(g).run([x.sum(), y.sum()], {x: np.ones(3), y: np.ones(2)})
    assert out == [3.0, 2.0]


def test_rows_of_different_lengths_are_no_feed():
    g = gw.Graph()
    x = g.placeholder("x", (2, 2))
    with pytest.raises(FeedError, match=r"'x' is fed with no array[\s\S]*need: f32\[2, 2\]"):
        gw.Session(g).run(x, {"x": [[1, 2], [3]]})


def test_renaming_a_variable_reaches_plans_that_exist():
    g = gw.Graph()
    w = g.variable("w", (2,), init=1.0)
    y = w * 2.0
    with gw.Session(g) as session:
        session.run(y)
        g.rename(w, "v")
        session.run([], updates={w: y})
    assert g.values["v"].tolist() == [2.0, 2.0]


def test_a_request_checked_before_does_not_vouch_for_another():
    g = gw.Graph()
    w, q = g.variable("w", (2,)), g.variable("q", (3,))
    with gw.Session(g) as session:
        session.run([w, q])
        with pytest.raises(DTypeError, match="commit_if"):
            session.run([w], commit_if=q)


def test_named_tuples_are_fetched_as_such():
    class Pair(NamedTuple):
        a: object
        b: object

    g = gw.Graph()
    x = g.placeholder("x", ())
    out = gw.Session(g).run(Pair(x, x * 2.0), {"x": 1.0})
    assert isinstance(out, Pair) and float(out.b) == 2.0


def test_an_op_that_fails_on_constants_is_explained():
    class Fails(gw.Op):
        """Raise when run."""

        def infer(self, x):
            return x

        def forward(self, x):
            raise ValueError("no luck")

    g = gw.Graph()
    y = Fails()(g.constant([1.0]), name="culprit")
    with pytest.raises(LoweringError, match=r"'culprit' \(test_session.py:\d+\)[\s\S]*no luck"):
        gw.Session(g).run(y)


def test_planning_shapes_takes_no_memory():
    g = gw.Graph()
    x = g.placeholder("x", (1 << 20, 1 << 20))  # 4 TB
    plan = gw.Session(g).plan(gw.zeros_like(x)[0, 0], {"x": (1 << 20, 1 << 20)})
    assert plan.memory().arena < 1 << 20


def test_composites_follow_the_mode_however_they_run():
    class Doubled(gw.Op):
        """Dropout, doubled."""

        def expand(self, rng, x):
            return gw.op.OPS["dropout"](p=0.5, stream=3)(rng, x) * 2.0

    g = gw.Graph()
    x = g.placeholder("x", (100,))
    y = Doubled()(g.rng, x)
    feeds = {"x": np.ones(100)}
    for training in (True, False):
        plain = gw.Session(g, check="replay").run(y, feeds, training=training, step=0)
        listened = gw.Session(g, listeners=[_Listens()])
        assert np.array_equal(plain, listened.run(y, feeds, training=training, step=0))
        assert (plain == 0.0).any() == training
        stepper = gw.Stepper(g, [y], feeds, training=training)
        stepper.run()
        assert np.array_equal(stepper.results()[0], plain)


def test_guard_looks_into_branches():
    @gw.register("test/leaky_branch")
    class Leaky(gw.Op):
        """Copy the input."""

        def infer(self, x):
            return x

        def forward(self, x):
            return x.copy()

    @gw.lowering("test/leaky_branch", "guard")
    def leaky(op, ins, outs):
        def launch(xs, ys):
            ys[0][...] = xs[0]
            np.lib.stride_tricks.as_strided(ys[0], (ys[0].size + 1,))[-1] = 0.0

        return launch

    g = gw.Graph()
    x = g.placeholder("x", (3,))
    y = gw.cond(x.sum() > 0.0, lambda: Leaky()(x, name="inside"), lambda: x)
    with pytest.raises(LoweringError, match="'inside' wrote outside"):
        gw.Session(g, "guard").run(y, {"x": np.ones(3)})


class _Halved(gw.Op):
    """Three rows, halved."""

    def expand(self, x):
        return x.reshape(3, -1) * 0.5


def test_what_fails_inside_a_composite_names_the_users_node():
    g = gw.Graph()
    x = g.placeholder("x", ("B", 2))
    with g.scope("inner"):
        y = _Halved()(x)
    message = r"'inner/_?halved' \(test_session.py:\d+\)[\s\S]*inside, at reshape[\s\S]*4 elements"
    with pytest.raises(ShapeError, match=message):
        gw.Session(g).run(y, {"x": np.ones((2, 2))})


@pytest.mark.parametrize("device", ["cpu", "guard"])
def test_a_forward_that_contradicts_infer_is_named(device):
    class Widens(gw.Op):
        """Return float64, whatever comes in."""

        def infer(self, x):
            return x

        def forward(self, x):
            return x.astype(np.float64)

    g = gw.Graph()
    y = Widens()(g.placeholder("x", (2,)), name="culprit")
    message = r"'culprit' \(test_session.py:\d+\): forward gave float64\[2\]\s+need: f32\[2\]"
    with pytest.raises(LoweringError, match=message):
        gw.Session(g, device).run(y, {"x": np.ones(2)})


def test_a_result_is_written_again_only_when_nobody_holds_it():
    n = 1 << 15
    g = gw.Graph()
    x, w = g.placeholder("x", (n,)), g.variable("w", (n,), init=0.0)
    doubled, session = x * 2.0, gw.Session(g)

    def run(number):
        return session.run(doubled, {"x": np.full(n, number)})

    def place():
        return run(0.0).__array_interface__["data"]

    assert place() == place()
    kept = [run(float(i)) for i in range(4)]
    assert [a[-1] for a in kept] == [0, 2, 4, 6]
    part = kept.pop()[:3]
    run(7.0)
    np.testing.assert_array_equal(part, 6)
    changed = run(8.0)
    changed.flags.writeable = False
    changed.shape = 2, -1
    del changed
    for _ in range(3):
        y = run(9.0)
        assert y.shape == (n,) and y.flags.writeable and (y == 18).all()
    updates = {w: w + x}
    seen = []
    for number in range(5):
        seen.append(g.values["w"][:1])
        session.run([], {"x": np.ones(n)}, updates=updates)
        assert [int(a[0]) for a in seen] == list(range(number + 1))
        np.testing.assert_array_equal(g.values["w"], number + 1)
