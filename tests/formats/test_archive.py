"""The graph archive: what is saved comes back to the bit, ops and attributes alike."""

from __future__ import annotations

import json
import math

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from gradwright.graph import Source
from gradwright.op import OPS, Op
from gradwright.ops.core.pullback import Pullback
from gradwright.ops.loading import load as load_ops
from gradwright.spec import BOXED, Dim, dtype, is_floating, spec_of
from gradwright.testing import samples
from tests.formats import archives
from tests.formats.archives import DTYPES, Halves, Holder, Mode, assert_same, members, rich, run

path = pytest.fixture(archives.path)


# -- round trips -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [False, True])
def test_a_rich_graph_comes_back_to_the_bit(path, rng, mapped):
    g = rich(rng)
    g.save(path)
    found = gw.load(path, mmap=mapped)
    assert_same(g, found)
    expected, got = run(g), run(found)
    assert len(got) > 10 and all(np.array_equal(expected[k], got[k]) for k in got)


def test_saving_again_gives_the_same_bytes(path, tmp_path, rng):
    g = rich(rng)
    state = {"optimizer": {"m": rng.standard_normal(3), "step": np.int64(4)}, "ema": {}}
    gw.save(g, path, state=state, max_shard_bytes=64)
    again = tmp_path / "again.gw"
    gw.save(g, again, state=state, max_shard_bytes=64)
    assert again.read_bytes() == path.read_bytes()
    state = {name: gw.load_state(path, name) for name in gw.inspect(path).states}
    gw.save(gw.load(path, mmap=True), path, state=state, max_shard_bytes=64)  # over what is mapped
    assert again.read_bytes() == path.read_bytes()


def test_work_goes_on_after_loading(path, rng):
    g = rich(rng)
    g.save(path)
    found = gw.load(path)
    assert found.next_stream() == g.next_stream() == 1
    with found.scope("deep"):
        assert (found["x"] * 2.0).name == "deep/mul"
    assert found.freeze("deep/*") == ["deep/er/w"]
    before = [gw.gradients(h["top"].sum(), [h["deep/er/w"]])[0] for h in (g, found)]
    twice = [gw.gradients(d.sum(), [d.graph["x"]])[0].name for d in before]
    values = [run(h)[n] for h, n in zip((g, found), twice, strict=True)]
    assert np.array_equal(*values) and values[0].any()


def test_sessions_run_and_train_a_loaded_graph(path, rng):
    g = rich(rng)
    g.save(path)
    results = []
    for graph in (g, gw.load(path), gw.load(path, mmap=True)):
        feeds = {"x": rng.standard_normal((3, 4)) * 0 + 0.5, "flag": True}
        with gw.Session(graph, seed=3) as session:
            session.run(["top"], feeds, updates=graph.updates)
            results.append((session.run(["top"], feeds), graph.values["steps"]))
    assert results[0][1] == 8
    for fetched, steps in results[1:]:
        assert np.array_equal(fetched, results[0][0]) and steps == 8


def test_an_edited_and_renamed_graph_keeps_its_order(path):
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    y = gw.exp(x, name="y")
    with g.edit() as e:
        e.insert_after(x, lambda t: t * 2.0)  # y now reads a node made after it
    y.rename("first/why")
    g.save(path)
    found = gw.load(path)
    assert [n.name for n in found.nodes] == ["x", "first/why", "constant", "mul"]
    assert_same(g, found)


@pytest.mark.parametrize("name", ["__metadata__", "größe", "a b", "0", "日本/語"])
def test_any_name_a_node_can_have_is_kept(path, name):
    g = gw.Graph(name)
    g.variable(name, init=[1.0, 2.0])
    gw.save(g, path, state={"s": {name: [1], f":{name}": [2], f"::{name}": [3]}})
    assert gw.load(path).values[name].tolist() == [1.0, 2.0]
    found = gw.load_state(path, "s")
    assert {k: v.tolist() for k, v in found.items()} == {
        name: [1], f":{name}": [2], f"::{name}": [3],
    }  # fmt: skip


def test_symbolic_dimensions_are_read_back(path):
    g = gw.Graph()
    named = g.placeholder("x", ("B", None, "if", 3))
    sizes = named.shape
    for i, d in enumerate(
        [sizes[0] * 2 - 1, 2 * (sizes[0] // 2) + 1, (sizes[1] - 3) // 2 * sizes[0]]
    ):
        g.placeholder(f"{i}", (d, None))
    g.placeholder("x²", (None,))
    g.save(path)
    assert_same(g, gw.load(path))


def test_sizes_of_functions_in_functions_are_read_back(path):
    g = gw.Graph()
    x, y = g.placeholder("x", ("B", "T", 4)), g.placeholder("y", (None, "S", 4))
    gw.concat(x[:, 1:], x[:, : x.shape[1] // 2], y, axis=1, name="joined")
    x[:, 1:][:, : y.shape[1]].rename("cut")
    gw.save(g, path)
    assert_same(g, gw.load(path))
    assert "max(0, T - 1)" in str(g["joined"].shape[1]) and "min(" in str(g["cut"].shape[1])


def test_symbols_made_later_differ_from_those_loaded(path):
    g = gw.Graph()
    g.placeholder("x", (Dim.fresh("size"),))
    g.placeholder("z", (Dim.fresh("me/op"),))
    g.save(path)
    text = members(path)["graph.json"].decode()
    number = int(text.partition("size__")[2].partition("]")[0])
    g.placeholder("y", (Dim.symbol(f"size__{number + 1000}"),))
    g.save(path)
    gw.load(path)
    assert int(str(Dim.fresh("size")).rpartition("_")[2]) > number + 1000


def test_known_values_survive_where_an_op_is_unknown(path):
    @gw.register("archive/shape")
    class Shape(Op):
        """The shape, known early."""

        def infer(self, x):
            return gw.TensorSpec((x.rank,), "int64", np.array(x.shape, object))

    g = gw.Graph()
    y = g.placeholder("y", ("B", 6)).reshape(Shape()(g.placeholder("x", ("B", 2, 3))))
    g.save(path)
    del OPS["archive/shape"]
    found = gw.load(path)
    assert found[y.name].shape == (Dim.symbol("B"), 2, 3)
    assert_specs_equal(g, found)


def assert_specs_equal(a, b):
    for m, n in zip(a.all_nodes, b.all_nodes, strict=True):
        assert [t.spec.key() for t in m.outputs] == [t.spec.key() for t in n.outputs]


def test_a_long_chain_is_saved_and_loaded_without_recursion(path):
    g = gw.Graph()
    y = g.placeholder("x", (2,))
    for _ in range(20_000):  # twenty times what Python recurses
        y = -y
    g.save(path)
    found = gw.load(path)
    assert len(found.nodes) == 20_001 and found.nodes[-1].name == y.name
    assert gw.inspect(path).ops == {"neg": 20_000}


# -- the derived layer -----------------------------------------------------------------------------


def test_gradients_are_not_saved_unless_the_users_nodes_need_them(path):
    g = gw.Graph()
    x = g.placeholder("x", ())
    w, v = g.variable("w", (), init=2.0), g.variable("v", (), init=3.0)
    y = gw.exp(x * w) * v
    dw, _ = gw.gradients(y, [w, v])
    assert g.derived
    g.save(path)
    assert gw.load(path).derived == []
    penalty = dw * dw
    g.save(path)
    found = gw.load(path)
    kept = {n.name for n in found.derived}
    assert {dw.name} <= kept < {n.name for n in g.derived}
    assert found[dw.name].node.origin is found[g[dw.name].node.origin.name].node
    assert found.output({"x": 0.5}, penalty.name) == g.output({"x": 0.5}, penalty.name)


# -- control flow ----------------------------------------------------------------------------------


def test_nested_graphs_are_equal_ops_with_equal_gradients(path, rng):
    g = rich(rng)
    g.save(path)
    found = gw.load(path)
    first, second = g["choice"].op, found["choice"].op
    assert first == second and first is not second
    for graph in (g, found):
        y = graph["choice"]
        (dx,) = gw.gradients(y.sum(), [graph["x"]])
        gw.gradients((dx * dx).sum(), [graph["deep/er/w"]])[0].rename("second")
    assert np.array_equal(run(g)["second"], run(found)["second"])


def test_a_branch_shared_by_two_ops_is_stored_once(path):
    g = gw.Graph()
    x, p = g.placeholder("x", ()), g.placeholder("p", (), "bool")
    y = gw.cond(p, lambda: x * 2.0, lambda: -x)
    y.op(p, x)
    g.save(path)
    found = gw.load(path)
    assert len(json.loads(members(path)["graph.json"])["graphs"]) == 2
    assert found["cond"].op.then_branch is found["cond_1"].op.then_branch


# -- every op --------------------------------------------------------------------------------------

load_ops()
SAMPLED = sorted(n for n, c in OPS.items() if "/" not in n and not issubclass(c, Source | Pullback))


@pytest.mark.parametrize("name", SAMPLED)
def test_every_op_is_saved_with_its_samples_and_gradients(path, name):
    g = gw.Graph()
    for i, sample in enumerate(samples(OPS[name])):
        arrays = [None if x is None else np.asarray(x) for x in sample.inputs]
        xs = [None if a is None else g.placeholder(f"x{i}_{j}", spec_of(a)) if a.dtype == BOXED
              else g.constant(a) if a.dtype.kind in "iu" else
              g.variable(f"x{i}_{j}", init=a) for j, a in enumerate(arrays)]  # fmt: skip
        with g:
            g.add(OPS[name](**sample.attrs), xs, f"y{i}")
        ys = [t for t in g[f"y{i}"].node.public if sample.smooth and is_floating(t.dtype)]
        chosen = sample.differentiate or range(len(xs))
        wrt = [x for j, x in enumerate(xs)
               if x is not None and is_floating(x.dtype) and j in chosen]  # fmt: skip
        if ys and wrt:
            for dx in gw.gradients([t * 1.0 for t in ys], wrt, unreachable="zero"):
                dx + 0.0
    g.save(path)
    assert_same(g, gw.load(path))


# -- attributes ------------------------------------------------------------------------------------

floats = st.floats() | st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf])
dims = st.sampled_from([Dim.symbol("B"), Dim.symbol("B") * 2 - 1, (Dim.symbol("T") + 1) // 2 * 3])
leaves = (
    st.none() | st.booleans() | st.integers() | floats | st.text() | dims
    | st.sampled_from([dtype(name) for name in DTYPES])
    | st.sampled_from([Mode.EXACT, Halves(), Holder(value=(-0.0, Mode.EXACT))])
)  # fmt: skip
attributes = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4).map(tuple))


@hypothesis.settings(max_examples=80)
@hypothesis.given(value=attributes)
def test_attributes_come_back_by_type_and_bits(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("attributes") / "graph.gw"
    g = gw.Graph()
    op = Holder(value=(value, Holder(value=value)), mode=Mode.FAST)
    op(g.placeholder("x", ()), name="y")
    g.save(path)
    assert gw.load(path)["y"].op == op


@pytest.mark.parametrize(
    ("value", "why"),
    [("\ud800", "JSON"), (10**5000, "JSON"), (np.dtype("S3"), "dtype"), (OPS, "attribute")],
    ids=["half a character", "endless", "bytes", "dict"],
)
def test_attributes_that_cannot_be_stored_name_the_node(path, value, why):
    g = gw.Graph()
    with pytest.raises(GraphError, match=why):
        Holder(value=value)(g.placeholder("x", ()), name="here")
        g.save(path)
    assert not path.exists()


def test_an_enum_must_be_findable_without_an_import(path):
    import enum

    other = enum.Enum("Other", "A B")
    g = gw.Graph()
    Holder(value=other.A)(g.placeholder("x", ()), name="here")
    with pytest.raises(GraphError, match=r"here[\s\S]*Other.A could not be found[\s\S]*choices"):
        g.save(path)


def test_an_op_that_is_not_registered_is_refused_with_the_way_out(path):
    class Softcap(Halves):
        pass

    g = gw.Graph()
    Softcap()(g.placeholder("x", ()), name="here")
    with pytest.raises(GraphError, match=r"'here'[\s\S]*gw.register\(\"me/softcap\"\)\(Softcap\)"):
        g.save(path)
    gw.register("archive/softcap")(Softcap)
    g.save(path)
    assert type(gw.load(path)["here"].op) is Softcap
