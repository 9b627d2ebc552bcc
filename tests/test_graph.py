"""The graph: names, scopes, sources, values, edits, cloning, and cells that run again."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import (
    CycleError,
    DTypeError,
    GraphBusyError,
    GraphError,
    ShapeError,
)


def small() -> gw.Graph:
    g = gw.Graph("small")
    x = g.placeholder("x", (None, 3))
    with g.scope("hidden"):
        w = g.variable("w", (3, 2), init=np.arange(6.0).reshape(3, 2))
        g.variable("b", (2,))
        x @ w
    return g


# -- names and lookups -----------------------------------------------------------------------------


def test_what_a_thread_of_ours_builds_names_no_line():
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    thread = threading.Thread(target=x.sum, kwargs={"name": "total"})
    thread.start()
    thread.join()
    assert g["total"].node.where == ""
    assert x.node.where.startswith("test_graph.py:")


def test_names_scopes_and_lookups():
    g = small()
    assert [n.name for n in g.nodes] == ["x", "hidden/w", "hidden/b", "hidden/matmul"]
    assert g.scopes == ["hidden"] and g["hidden/w"].node.scope == "hidden"
    assert [t.name for t in g.find("*/w")] == ["hidden/w"]
    assert "hidden/w" in g and "hidden/v" not in g
    with pytest.raises(GraphError, match=r"no tensor 'hidden/ww'[\s\S]*try:  'hidden/w'"):
        g["hidden/ww"]


def test_auto_names_count_up_and_second_outputs_have_numbers():
    g = gw.Graph()
    x = g.placeholder("x", (4,))
    assert [(x + 1.0).name for _ in range(3)] == ["add", "add_1", "add_2"]
    a, b = gw.split(x, 2)
    assert (a.name, b.name) == ("split", "split:1") and g["split:1"] is b


def test_a_taken_name_says_by_whom():
    g = small()
    with pytest.raises(GraphError, match=r"'x' is taken[\s\S]*test_graph.py:\d+"):
        g.placeholder("x", ())


@pytest.mark.parametrize("bad", ["", "a//b", "a:1", "a\nb", 3])
def test_bad_names_are_refused(bad):
    with pytest.raises(GraphError, match="is not a name"):
        gw.Graph().placeholder(bad, ())


def test_rename_keeps_value_and_links():
    g = small()
    w = g["hidden/w"]
    g.rename(w, "first/weight")
    assert g["first/weight"] is w and "hidden/w" not in g
    assert g.values["first/weight"].shape == (3, 2)
    assert [n.name for n in g.nodes][1] == "first/weight"
    with pytest.raises(GraphError, match="is taken"):
        w.rename("x")


def test_errors_point_at_the_users_line():
    g = small()
    with pytest.raises(ShapeError) as caught:
        g["hidden/w"] @ g["hidden/w"]
    text = str(caught.value)
    assert "inner dimensions differ" in text and "need: a.shape[-1] == b.shape[-2]" in text
    assert text.count("test_graph.py:") == 3  # the node, and both inputs


# -- sources and values ----------------------------------------------------------------------------


def test_placeholder_dims():
    g = gw.Graph()
    x = g.placeholder("x", (None, "B", 3))
    assert [str(d) for d in x.shape] == ["x_0", "B", "3"]
    with pytest.raises(ShapeError, match="is not a size"):
        g.placeholder("y", (-1,))
    with pytest.raises(ShapeError, match="Python identifier"):
        g.placeholder("y", ("a b",))


def test_variable_takes_initializer_array_or_number():
    g = gw.Graph()
    assert g.values[g.variable("a", (2,)).name].tolist() == [0, 0]
    assert g.values[g.variable("b", (2,), init=3).name].tolist() == [3, 3]
    assert g.variable("c", init=np.ones((2, 2))).spec == gw.TensorSpec((2, 2), "float64")
    assert g.variable("d", init=[1.0, 2.0]).spec == gw.TensorSpec((2,), "float32")
    assert not g.variable("n", (), dtype="int64").trainable
    with pytest.raises(ShapeError, match="another shape"):
        g.variable("e", (3,), init=np.ones(2))
    with pytest.raises(ShapeError, match="has no shape"):
        g.variable("f")
    assert "e" not in g and "f" not in g


def test_python_and_numpy_numbers_keep_the_tensors_dtype():
    g = gw.Graph()
    x = g.placeholder("x", (2,), "float32")
    for y in (2 * x, np.float32(2) * x, x / np.float64(3.0), x * np.sqrt(2.0), np.int64(2) + x):
        assert isinstance(y, gw.Tensor) and y.dtype == np.float32
    n = g.placeholder("n", (2,), "int32")
    assert (n + 1).dtype == np.int32 and (n * 1.5).dtype == np.float32
    assert (x + np.ones(2)).dtype == np.float64  # an array states its own dtype


def test_a_number_is_one_constant():
    g = gw.Graph()
    x = g.placeholder("x", ())
    _ = x * 2.0 + 2.0 - 2.0
    assert len(g.constants) == 1


def test_values_are_versioned_and_never_change_under_a_reader():
    g = small()
    before = g.values["hidden/w"]
    g.values["hidden/w"] = np.ones((3, 2))
    assert before[1, 1] == 3.0 and g.values.version("hidden/w") == 1
    with pytest.raises(ValueError, match="read-only"):
        before[0, 0] = 1
    with pytest.raises(ShapeError, match="another shape"):
        g.values["hidden/w"] = np.ones(3)
    with pytest.raises(DTypeError, match="cannot take complex128"):
        g.values["hidden/w"] = np.ones((3, 2)) * 1j
    with pytest.raises(GraphError, match="no variable or constant"):
        g.values["hidden/v"] = 1.0
    with pytest.raises(RuntimeError, match="stop"), g.values.edit("hidden/w") as w:
        w[:] = 7
        raise RuntimeError("stop")
    assert g.values["hidden/w"].tolist() == np.ones((3, 2)).tolist()


def test_a_misspelt_value_gets_near_names_and_values_show_their_size():
    g = small()
    with pytest.raises(GraphError, match="try:  'hidden/w'"):
        g.values["hidden/ww"]
    assert repr(g.values) == "<Values of graph 'small': 2 arrays, 32 bytes>"


def test_the_name_of_an_initializer_is_not_one():
    g = gw.Graph()
    with pytest.raises(DTypeError, match=r"gw\.init"):
        g.variable("w", (2, 3), init="he_normal")
    assert "w" not in g


def test_snapshot_and_restore():
    g = small()
    held = g.values.snapshot()
    g.values["hidden/w"] = np.zeros((3, 2))
    assert held["hidden/w"][2, 1] == 5.0
    g.values.restore(held)
    assert g.values["hidden/w"][2, 1] == 5.0
    with pytest.raises(ShapeError):
        g.values.restore({"hidden/b": np.ones(2), "hidden/w": np.ones(1)})
    assert g.values["hidden/b"].tolist() == [0, 0]  # all or none


def test_freeze_and_unfreeze_by_pattern():
    g = small()
    assert [t.name for t in g.trainable] == ["hidden/w", "hidden/b"]
    assert g.freeze("hidden/*") == ["hidden/w", "hidden/b"] and g.trainable == []
    assert g.unfreeze("*/b") == ["hidden/b"]
    g["hidden/b"].trainable = False
    assert g.trainable == []
    with pytest.raises(GraphError, match="no floating variable fits 'layer"):
        g.freeze("layer*")
    with pytest.raises(GraphError, match="is a placeholder"):
        g["x"].trainable = True


def test_variable_to_constant_and_back():
    g = small()
    g.to_constant("hidden/w")
    assert g["hidden/w"].kind == "constant" and len(g.trainable) == 1
    with pytest.raises(GraphError, match="is a constant"):
        g.values["hidden/w"] = np.ones((3, 2))
    out = g.output({"x": np.ones((1, 3))}, "hidden/matmul")["hidden/matmul"]
    assert out.tolist() == [[6.0, 9.0]]
    g.to_variable("hidden/w")
    assert g["hidden/w"].trainable
    with pytest.raises(GraphError, match="need: a variable"):
        g.to_constant("x")


def test_tensors_of_two_graphs_do_not_mix():
    a, b = gw.Graph("a"), gw.Graph("b")
    x, y = a.placeholder("x", ()), b.placeholder("y", ())
    with pytest.raises(GraphError, match="two graphs cannot be mixed"):
        x + y
    with pytest.raises(GraphError, match="two graphs cannot be mixed"), b:
        x + y


def test_python_control_flow_on_a_tensor_is_explained():
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    with pytest.raises(GraphError, match="cannot branch on it"):
        bool(x > 0.0)
    with pytest.raises(TypeError, match="no value yet"):
        float(x)
    with pytest.raises(TypeError, match="numpy cannot read"):
        np.exp(np.asarray(x))
    assert len(list(x)) == 2
    with pytest.raises(TypeError, match="a size not known yet"):
        len(g.placeholder("y", (None,)))


def test_summary_lists_nodes_and_counts():
    text = str(small().summary())
    assert "hidden/matmul" in text and "f32[x_0, 2]" in text and "8 of 8 parameters" in text


# -- edits -----------------------------------------------------------------------------------------


def test_replace_use_reinfers_downstream():
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    y = gw.exp(x, name="y")
    z = (y * 2.0).sum()
    wide = g.placeholder("wide", (4,))
    with g.edit() as e:
        e.replace_use(x, wide)
    assert y.shape == (4,)
    out = g.output({"wide": np.zeros(4)}, z)
    assert float(out[z.name]) == 8.0


def test_a_failed_edit_changes_nothing():
    g = gw.Graph()
    x, w = g.placeholder("x", (3,)), g.variable("w", (3,))
    y = x * w
    other = g.placeholder("other", (4,))
    names = [n.name for n in g.all_nodes]
    with pytest.raises(ShapeError, match="do not broadcast"), g.edit() as e:
        e.replace_use(x, other)
    assert y.node.inputs[0] is x and y.node.inputs[1] is w
    assert y.shape == (3,) and other.uses == [] and y.node in x.uses
    with pytest.raises(RuntimeError), g.edit() as e:
        e.insert_after(x, lambda t: t * 3.0)
        raise RuntimeError("changed my mind")
    assert [n.name for n in g.all_nodes] == names and y.node.inputs[0] is x


def test_an_edit_cannot_make_a_cycle():
    g = gw.Graph()
    x = g.placeholder("x", ())
    y = gw.exp(x)
    z = gw.exp(y)
    with pytest.raises(CycleError), g.edit() as e:
        e.replace_use(x, z)
    assert y.node.inputs[0] is x


def test_remove_refuses_what_is_used():
    g = gw.Graph()
    x = g.placeholder("x", ())
    y = gw.exp(x)
    z = gw.exp(y)
    with pytest.raises(GraphError, match="still used"), g.edit() as e:
        e.remove(y)
    with g.edit() as e:
        e.remove(z)
        e.remove(y)
    assert [n.name for n in g.nodes] == ["x"] and x.uses == []
    with pytest.raises(GraphError, match="no longer in the graph"):
        gw.gradients(y, [x])


def test_edits_drop_the_derived_layer_but_not_what_users_built_on_it():
    g = gw.Graph()
    x = g.placeholder("x", ())
    y = x * x
    (dx,) = gw.gradients(y, [x])
    assert gw.gradients(y, [x])[0] is dx  # memoised
    with g.edit():
        pass
    assert g.derived == []
    with pytest.raises(GraphError, match=r"gw\.gradients"):
        gw.Session(g).run(dx, {"x": 1.0})
    (dx,) = gw.gradients(y, [x])
    penalty = dx * dx
    with g.edit():
        pass
    assert float(g.output({"x": 3.0}, penalty)[penalty.name]) == 36.0


def test_edits_wait_while_the_graph_runs():
    g = small()
    with g.running(), pytest.raises(GraphBusyError, match="is running"):
        g.edit().__enter__()
    with g.edit():
        pass


def test_clone_shares_or_copies():
    g = small()
    y = g["hidden/matmul"]
    z = g.placeholder("z", (None, 3))
    shared = gw.clone(y, {g["x"]: z})
    copied = gw.clone(y, share=False, scope="reference")
    assert shared.name == "clone/hidden/matmul" and len(g.variables) == 3
    assert not g["reference/hidden/w"].trainable
    g.values["hidden/w"] = np.zeros((3, 2))
    out = g.output({"x": np.ones((1, 3)), "z": np.ones((1, 3))}, shared, copied)
    assert out[shared.name].tolist() == [[0, 0]] and out[copied.name].tolist() == [[6, 9]]


# -- cells -----------------------------------------------------------------------------------------


def test_running_a_cell_again_replaces_its_nodes():
    g = gw.Graph()
    with g.cell("a"):
        x = g.placeholder("x", (None, 3))
    with g.cell("b"):
        w = g.variable("w", (3, 2), init=1.0)
        h = gw.exp(x @ w, name="h")
    with g.cell("c"):
        out = h.sum(name="out")
    g.values["w"] = np.full((3, 2), 0.5)
    with g.cell("b"):
        w2 = g.variable("w", (3, 2), init=9.0)
        h2 = (x @ w2) * 2.0
        h2.rename("unused")
        h3 = gw.neg(h2, name="h")
    assert g.values["w"][0, 0] == 0.5  # equal spec: the value stays
    assert out.node.inputs[0] is h3 and w2 is not w
    value = g.output({"x": np.ones((1, 3))}, "out")["out"]
    assert float(value) == -6.0
    with pytest.raises(GraphError, match="no longer in the graph"):
        gw.Session(g).run(h, {"x": np.ones((1, 3))})
    assert [n.name for n in g.nodes if n.op.name == "exp"] == []  # what was not built again is gone


def test_a_rerun_that_changes_a_shape_reaches_later_cells():
    g = gw.Graph()
    with g.cell("a"):
        w = g.variable("w", (3, 2))
    with g.cell("b"):
        y = w.sum(axis=0)
    with g.cell("a"):
        g.variable("w", (3, 5), init=1.0)
    assert y.shape == (5,)
    assert g.values["w"].shape == (3, 5)


def test_what_was_built_on_a_node_that_is_gone_is_dropped():
    g = gw.Graph()
    with g.cell("a"):
        x = g.placeholder("x", (3,))
        h = gw.exp(x)
    with g.cell("b"):
        out = h.sum(name="out")
    with g.cell("a"):
        x = g.placeholder("x", (3,))
        h = gw.exp(gw.exp(x))  # "exp" is now another thing: "out" must not read it
    assert [n.name for n in g.nodes] == ["x", "exp", "exp_1"]
    with pytest.raises(GraphError, match="run the cell again"):
        gw.Session(g).run(out, {"x": np.zeros(3)})
    with g.cell("b"):
        out = h.sum(name="out")
    assert float(g.output({"x": np.zeros(3)}, out)["out"]) == pytest.approx(3 * np.e)


def test_outside_cells_a_taken_name_stays_an_error():
    g = gw.Graph()
    g.variable("w", ())
    with pytest.raises(GraphError, match="is taken"):
        g.variable("w", ())


# -- edits that fail, and what they leave ----------------------------------------------------------


def test_an_edit_that_fails_with_any_error_leaves_no_trace():
    class Picky(gw.Op):
        """Refuse matrices in the user's own way."""

        def infer(self, x):
            if x.rank == 2:
                raise TypeError("vectors only")
            return x

        def forward(self, x):
            return x

    g = gw.Graph()
    x, z = g.placeholder("x", (2,)), g.placeholder("z", (2, 2))
    e = gw.exp(x)
    y = Picky()(e)
    with pytest.raises(TypeError), g.edit() as edit:
        edit.replace_use(x, z)
    assert e.node.inputs == (x,) and str(e.spec) == str(y.spec) == "f32[2]"
    assert x.uses == [e.node] and z.uses == []


def test_what_an_update_needs_cannot_be_removed():
    g = gw.Graph()
    x, w = g.placeholder("x", (2,)), g.variable("w", (2,))
    y = x * 2.0
    g.update(w, y)
    message = r"'mul' is still used[\s\S]*by the update of 'w'"
    with pytest.raises(GraphError, match=message), g.edit() as edit:
        edit.remove(y)
    with g.edit() as edit:
        edit.remove(w)
        edit.remove(y)
    assert g.updates == {} and "mul" not in g


def test_an_edit_reaches_updates_and_keeps_them_fitting():
    g = gw.Graph()
    x, z, w = g.placeholder("x", (2,)), g.placeholder("z", (3,)), g.variable("w", (2,))
    y = x * 2.0
    g.update(w, y)
    with g.edit() as edit:
        new = edit.insert_after(y, lambda t: t + 1.0)
    assert g.updates[w] is new
    with pytest.raises(ShapeError, match="the update of 'w'"), g.edit() as edit:
        edit.replace_use(x, z)
    assert g.updates[w] is new and str(y.spec) == "f32[2]"


def test_a_constant_has_no_update():
    g = gw.Graph()
    w = g.variable("w", (2,))
    g.update(w, w * 2.0)
    g.to_constant(w)
    assert g.updates == {}


def test_restoring_copies_arrays_and_leaves_constants():
    g = gw.Graph()
    w, v = g.variable("w", (2,)), g.variable("v", (2,))
    before = g.values.snapshot()
    array = np.ones(2, np.float32)
    g.values.restore({"w": array})
    array[:] = 9.0
    assert g.values["w"].tolist() == [1.0, 1.0]
    g.values["v"] = [3.0, 3.0]
    g.to_constant(v)
    g.values.restore(before)
    assert g.values["w"].tolist() == [0.0, 0.0] and g.values["v"].tolist() == [3.0, 3.0]
    assert w.kind == "variable"


# -- names in corners ------------------------------------------------------------------------------


def test_the_name_of_the_random_key_is_reserved():
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    for bad in (
        lambda: g.placeholder("rng", (2,)),
        lambda: x.rename("rng"),
        lambda: g.rng.rename("key"),
    ):
        with pytest.raises(GraphError, match="the random key alone"):
            bad()
    with g.scope("inner"):
        assert g.placeholder("rng", ()).name == "inner/rng"


def test_names_with_odd_digits_are_looked_up():
    g = gw.Graph()
    g.placeholder("x", ())
    assert "x:²" not in g and "x:" not in g


def test_a_number_that_does_not_fit_its_neighbour_is_refused():
    g = gw.Graph()
    x = g.placeholder("x", (2,), "int8")
    for dtype, value in (("int8", 1000), ("uint8", [0, -1]), ("int4", 8), ("uint2", np.array([4]))):
        with pytest.raises(DTypeError, match=f"a constant do not fit into {dtype}"):
            g.constant(value, dtype=dtype)
    with pytest.raises(DTypeError, match="8 does not fit into int4"):
        g.constant([1], dtype="int4") + 8
    with pytest.raises(DTypeError, match="1000 does not fit into int8"):
        x + 1000


def test_a_cell_that_renames_runs_again():
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    for _ in range(3):
        with g.cell("a"):
            gw.exp(x).rename("h")
    with g.cell("b"):
        g["h"] + g["h"]
    with g.cell("a"):
        gw.sqrt(x).rename("h")
    assert [n.name for n in g.nodes] == ["x", "add", "h"]
    assert g.output({"x": [4.0, 9.0]}, "add")["add"].tolist() == [4.0, 6.0]


def test_a_cell_may_change_what_later_cells_can_no_longer_take():
    g = gw.Graph()

    def cells(size, *names):
        for name in names:
            with g.cell(name):
                if name == "x":
                    g.placeholder("x", (None, size))
                elif name == "w":
                    g.variable("w", (size, 2), init=1.0)
                else:
                    gw.matmul(g["x"], g["w"], name="y")

    cells(3, "x", "w", "y")
    cells(4, "x")
    assert "y" not in g and g["x"].shape[1] == 4
    cells(4, "w", "y")
    assert g.output({"x": np.ones((1, 4))}, "y")["y"].tolist() == [[4.0, 4.0]]


def test_a_cell_that_clones_runs_again_under_the_same_names():
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    y = gw.exp(x, name="y")
    for cell in ("a", "b", "b", "a"):
        with g.cell(cell):
            gw.clone(y)
    assert sorted(n.name for n in g.nodes) == ["clone/y", "clone_1/y", "x", "y"]
