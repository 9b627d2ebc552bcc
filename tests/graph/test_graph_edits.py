"""Edits of a graph: what they reach, those that fail, cloning, and cells that run again."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import CycleError, GraphBusyError, GraphError, ShapeError
from tests.support.networks import small

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
    with pytest.raises(GraphError, match="TypeError: vectors only"), g.edit() as edit:
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


def test_where_a_shell_counts_no_cells_there_are_none(monkeypatch):
    shell = SimpleNamespace(kernel=None, events=None, user_ns={})  # as Solara's
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    graph = gw.Graph()
    assert graph.placeholder("x", ()).node.cell is None
    with pytest.raises(GraphError, match="x"):
        graph.placeholder("x", ())


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
