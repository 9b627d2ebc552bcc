"""Sessions and plans: feeds, fetches, updates, caches, memory, devices, replay, threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GraphError, LoweringError, ShapeError
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


def test_redefining_an_op_reaches_existing_sessions():
    g = gw.Graph()
    x = g.placeholder("x", ())

    def define(factor):
        @gw.register("test/scaled")
        class Scaled(gw.Op):
            """Multiply by a number."""

            def infer(self, x):
                return x

            def forward(self, x):
                return x * np.float32(factor)

        return Scaled

    y = define(2.0)()(x)
    with gw.Session(g) as session:
        assert float(session.run(y, {"x": 1.0})) == 2.0
        define(3.0)
        assert float(session.run(y, {"x": 1.0})) == 3.0


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

    @gw.register("test/wrong")
    class Wrong(gw.Op):
        """Copy the input."""

        def infer(self, x):
            return x

        def forward(self, x):
            return x.copy()

    @gw.lowering("test/wrong")
    def wrong(op, ins, outs):
        return lambda xs, ys: np.multiply(xs[0], 1.01, out=ys[0])

    y = gw.exp(Wrong()(g["x"], name="culprit"), name="after").sum()
    feeds = {"x": np.ones((2, 3))}
    gw.Session(g).run(y, feeds)
    message = r"differ at test/wrong 'culprit'[\s\S]*largest difference"
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


def test_unknown_device_and_check_are_refused(line):
    g, *_ = line
    with pytest.raises(LoweringError, match="no package offers the device 'abacus'"):
        gw.Session(g, "abacus")
    with pytest.raises(GraphError, match="None or 'replay'"):
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
