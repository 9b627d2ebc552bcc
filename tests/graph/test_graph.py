"""The graph: names, scopes, lookups, sources, values."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, GraphError, ShapeError
from tests.support.networks import small

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
    with pytest.raises(GraphError, match=r"'x' is taken[\s\S]*networks.py:\d+"):
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
    assert text.count("test_graph.py:") == 1 and text.count("networks.py:") == 2  # both inputs


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


@pytest.mark.parametrize("pattern", ["*", "net/*", "net/bn/running_mean", "net/frozen"])
def test_unfreezing_is_the_inverse_of_freezing(pattern):
    g = gw.Graph()
    with g.scope("net"):
        y = gw.nn.batch_norm(g.placeholder("x", (None, 4)), name="bn")
        y * g.variable("w", (4,)) * g.variable("made", (4,), trainable=False)
        g.variable("frozen", (4,))
    g.freeze("net/frozen")
    g["net/frozen"].trainable = True
    before = [t.name for t in g.trainable]
    assert before == ["net/bn/weight", "net/bn/bias", "net/w", "net/frozen"]
    for _ in range(2):
        frozen = g.freeze(pattern)
        assert not {*frozen} & {t.name for t in g.trainable}
        assert g.freeze(pattern) == frozen == g.unfreeze(pattern)
        assert [t.name for t in g.trainable] == before
    g.unfreeze()
    assert [t.name for t in g.trainable] == before
    g["net/made"].trainable = True  # says that it is a parameter
    assert g.freeze("net/made") == g.unfreeze(g["net/made"]) == ["net/made"]
    assert g["net/made"].trainable


def test_what_a_clone_has_frozen_thaws_as_in_the_original():
    g = gw.Graph()
    y = gw.nn.batch_norm(g.placeholder("x", (None, 4)), name="bn")
    y = y * g.variable("w", (4,))
    g.freeze("w")
    gw.clone(y, share=False)
    assert [t.name for t in g.trainable] == ["bn/weight", "bn/bias"]
    assert g.unfreeze("clone/*") == ["clone/bn/weight", "clone/bn/bias", "clone/w"]


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
    with pytest.raises(GraphError, match="need: a constant"):
        g.to_variable("x")


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
