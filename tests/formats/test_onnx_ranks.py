"""Models whose tensors have a rank or a shape that only a run tells, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, GradientError, GradwrightError, ShapeError
from tests.formats.onnx_models import FLOAT, INT64, TensorProto, agree, helper, model, run

node = helper.make_node
BOOL = TensorProto.BOOL
COLUMN = np.array([[1.5], [-2], [3]], np.float32)
SQUARE = np.array([[1.5, -2], [3, 4]], np.float32)


def graph_of(nodes: list[Any], inputs: dict[str, Any], *outputs: str) -> Any:
    infos = [helper.make_tensor_value_info(name, kind, None) for name, kind in inputs.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    return helper.make_graph(nodes, "part", infos, results)


# -- branches of two ranks -------------------------------------------------------------------------

TAILS: dict[str, list[Any]] = {
    "function": [node("Relu", ["y"], ["h"]), node("Neg", ["h"], ["z"])],
    "itself": [node("Add", ["y", "y"], ["z"])],
    "broadcast": [node("Mul", ["y", "x"], ["z"])],
    "shape": [node("Shape", ["y"], ["z"])],
    "size": [node("Size", ["y"], ["z"])],
    "dtype": [node("Cast", ["y"], ["z"], to=INT64)],
    "reshaped": [node("Reshape", ["y", "all"], ["h"]), node("Softmax", ["h"], ["z"], axis=0)],
    "reduced": [node("ReduceSum", ["y"], ["z"], keepdims=0)],
    "joined": [node("Concat", ["y", "y"], ["z"], axis=0)],
    "wider": [node("Unsqueeze", ["y", "first"], ["z"])],
    "rows": [node("Softmax", ["y"], ["h"], axis=-1), node("ArgMax", ["h"], ["z"], axis=0)],
    "matrix": [node("Flatten", ["y"], ["z"], axis=0)],
    "filled": [
        node("Shape", ["y"], ["s2"]),
        node("ConstantOfShape", ["s2"], ["h"]),
        node("Sub", ["y", "h"], ["z"]),
    ],
    "branch": [
        node(
            "If", ["c"], ["z"],
            then_branch=graph_of([node("Neg", ["y"], ["q"])], {}, "q"),
            else_branch=graph_of([node("Abs", ["y"], ["q"])], {}, "q"),
        )
    ],
}  # fmt: skip


def squeezed_if(tail: list[Any]) -> Any:
    """Return what TorchScript makes of squeeze(1), and what follows it."""
    then = graph_of([node("Squeeze", ["x", "second"], ["t"])], {}, "t")
    other = graph_of([node("Identity", ["x"], ["e"])], {}, "e")
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["d"]),
        node("Equal", ["d", "one"], ["c"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
        *tail,
    ]
    stored = {"one": 1, "second": [1], "all": [-1], "first": [0]}
    stored = {name: np.array(value, np.int64) for name, value in stored.items()}
    return model(nodes, {"x": ["a", "b"]}, ["z"], stored=stored)


@pytest.mark.parametrize("tail", TAILS)
def test_branches_of_two_ranks(tail: str) -> None:
    for x in (COLUMN, SQUARE):
        graph = agree(squeezed_if(TAILS[tail]), {"x": x}, "z")
    assert str(graph["y"].spec) == "f32[a]|f32[a, b]"
    with pytest.raises(ShapeError, match="known only when it runs"):
        _ = graph["y"].shape


def test_gradients_flow_through_branches_of_two_ranks() -> None:
    tail = [node("Mul", ["y", "y"], ["h"]), node("ReduceSum", ["h"], ["z"], keepdims=0)]
    graph = gw.onnx.load(squeezed_if(tail))
    for x in (COLUMN, SQUARE):
        assert gw.gradient_check(graph, graph["z"], {"x": x}, wrt=["x"]).passed
        (slope,) = gw.gradients(graph["z"], [graph["x"]])
        np.testing.assert_allclose(graph.output({"x": x}, slope)[slope.name], 2 * x)
        stepper = gw.Stepper(graph, fetches=["z"], feeds={"x": x})
        stepper.run()


def test_what_takes_one_rank_alone_ends_the_doubt() -> None:
    tail = [node("Transpose", ["y"], ["h"], perm=[1, 0]), node("Relu", ["h"], ["z"])]
    graph = agree(squeezed_if(tail), {"x": SQUARE}, "z")
    assert [str(graph[name].spec) for name in ("h", "z")] == ["f32[b, a]"] * 2
    assert graph["z"].op.name == "relu"
    with pytest.raises(GradwrightError, match="axis 1 is out of range"):
        graph.output({"x": COLUMN}, "z")


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_condition_that_is_fed_decides_shape_and_rank(flag: bool, rank: int) -> None:
    longer = graph_of([node("Concat", ["x", "x"], ["q"], axis=0)], {}, "q")
    total = graph_of([node("ReduceSum", ["x"], ["q"], keepdims=0)], {}, "q")
    for then in (longer, total):
        other = graph_of([node("Neg", ["x"], ["q"])], {}, "q")
        nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
        nodes.append(node("Exp", ["y"], ["z"]))
        proto = model(nodes, {"c": (BOOL, [1] * rank), "x": ["a", "b"]}, ["z"])
        agree(proto, {"c": np.full([1] * rank, flag), "x": SQUARE}, "z")


def test_branches_of_two_dtypes_are_refused() -> None:
    then = graph_of([node("Cast", ["x"], ["q"], to=INT64)], {}, "q")
    other = graph_of([node("Neg", ["x"], ["q"])], {}, "q")
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    with pytest.raises(DTypeError, match=r"i64\[2\] and f32\[2\]"):
        gw.onnx.load(model(nodes, {"c": (BOOL, []), "x": [2]}, ["y"]))


# -- squeezes and indices of open sizes ------------------------------------------------------------


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (1, 1), (4, 1), (1, 3, 1), (2, 1, 1)])
def test_axes_of_size_1_go_when_run(opset: int, shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    nodes = [node("Squeeze", ["x"], ["s"]), node("Neg", ["s"], ["y"])]
    sizes = ["batch", shape[1], *["k"] * (len(shape) - 2)]
    graph = agree(model(nodes, {"x": sizes}, ["y"], opset=opset), {"x": x}, "y")
    loss = gw.sum(graph["y"] * graph["y"])
    assert gw.gradient_check(graph, loss, {"x": x}, wrt=["x"]).passed


def test_many_open_sizes() -> None:
    x = np.ones((1, 2, 1, 2, 1, 2, 1, 2), np.float32)
    nodes = [node("Squeeze", ["x"], ["s"]), node("ReduceSum", ["s"], ["y"], keepdims=1)]
    graph = agree(model(nodes, {"x": list("abcdefgh")}, ["y"]), {"x": x}, "y")
    assert str(graph["s"].spec).startswith("f32[]|...|f32[")


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("batch", [0, 1])
def test_indices_name_as_many_axes_as_they_are_wide(width: int, batch: int) -> None:
    if width + batch > 3:
        width = 3 - batch
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    at = np.random.default_rng(0).integers(0, 2, (2, 5, width))
    nodes = [node("GatherND", ["x", "i"], ["g"], batch_dims=batch), node("Neg", ["g"], ["y"])]
    inputs = {"x": ["a", "b", "c"], "i": (INT64, ["a", "n", "w"])}
    graph = agree(model(nodes, inputs, ["y"]), {"x": x, "i": at}, "y")
    loss = gw.sum(graph["y"] * graph["y"])
    assert gw.gradient_check(graph, loss, {"x": x, "i": at}, wrt=["x"]).passed


@pytest.mark.parametrize("width", [1, 2])
def test_scattered_slices_have_the_rank_of_the_updates(width: int) -> None:
    x = np.zeros((2, 3), np.float32)
    at = np.array([[1, 2]], np.int64)[:, :width]
    updates = np.ones((1, 3), np.float32) if width == 1 else np.ones(1, np.float32)
    inputs = {"x": ["a", "b"], "i": (INT64, ["n", "w"]), "u": ["n", "k"][: updates.ndim]}
    proto = model([node("ScatterND", ["x", "i", "u"], ["y"])], inputs, ["y"])
    agree(proto, {"x": x, "i": at, "u": updates}, "y")


@pytest.mark.parametrize(("op_type", "fed", "attributes"), [
    ("Reshape", [3, 1, 2], {}), ("Expand", [2, 2, 3], {}), ("Unsqueeze", [0, 3], {}),
    ("ReduceSum", [1], {"keepdims": 0}), ("ReduceSum", [], {"keepdims": 0}),
])  # fmt: skip
def test_as_many_axes_as_are_fed(op_type: str, fed: list[int], attributes: Any) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    nodes = [node(op_type, ["x", "v"], ["h"], **attributes), node("Neg", ["h"], ["y"])]
    proto = model(nodes, {"x": ["a", "b"], "v": (INT64, ["k"])}, ["y"])
    agree(proto, {"x": x, "v": np.array(fed, np.int64)}, "y")


def test_other_results_of_open_sizes() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    proto = model(
        [node("Compress", ["x", "c"], ["y"])], {"x": ["a", "b"], "c": (BOOL, ["k"])}, ["y"]
    )
    agree(proto, {"x": x, "c": np.array([True, False, True, False, True])}, "y")
    for value in (0.0, 2.0):
        agree(
            model([node("NonZero", ["x"], ["y"])], {"x": []}, ["y"]), {"x": np.float32(value)}, "y"
        )
    for rows in (7, 5, 3, 2):
        split = node("Split", ["x"], ["a", "b", "c"], num_outputs=3)
        agree(
            model([split], {"x": ["n", 2]}, ["a", "b", "c"]),
            {"x": np.ones((rows, 2), np.float32)},
            "a",
            "b",
            "c",
        )
    where = model(
        [node("Where", ["c", "x", "z"], ["y"])],
        {"c": (BOOL, ["n", 1]), "x": ["m", 2], "z": ["k"]},
        ["y"],
    )
    none = np.zeros((0, 2), np.float32)
    agree(
        where, {"c": np.zeros((0, 1), bool), "x": none, "z": none[0:0, 0].sum(keepdims=True)}, "y"
    )
    resize = node("Resize", ["x", "", "s"], ["y"], mode="linear")
    stored = {"s": np.array([1, 1, 2, 2], np.float32)}
    agree(
        model([resize], {"x": ["n", 1, 2, 2]}, ["y"], stored=stored),
        {"x": np.zeros((0, 1, 2, 2), np.float32)},
        "y",
        again=False,
    )


# -- inputs of which no rank is stated -------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (2, 1, 2, 3)])
def test_inputs_of_any_rank(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    proto = model([node("Relu", ["x"], ["h"]), node("Add", ["h", "x"], ["y"])], {"x": []}, ["y"])
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    agree(proto, {"x": x}, "y")


def test_a_rank_that_use_tells() -> None:
    stored = {"w": np.ones((2, 3, 1, 1), np.float32)}
    nodes = [node("Relu", ["x"], ["h"]), node("Conv", ["h", "w"], ["c"]), node("Abs", ["c"], ["y"])]
    proto = model(nodes, {"x": []}, ["y"], stored=stored)
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    graph = agree(proto, {"x": np.ones((2, 3, 4, 5), np.float32)}, "y")
    assert str(graph["y"].spec) == "f32[x_0, 2, x_2, x_3]"
    assert graph["y"].op.name == "abs"


# -- loops whose carries change --------------------------------------------------------------------


def loop(body: list[Any], init: str = "x", opset: int = 18, **stored: Any) -> Any:
    going = node("Identity", ["going"], ["on"])
    step = graph_of([going, *body], {"i": INT64, "going": BOOL, "s": FLOAT}, "on", "next")
    for info in step.input[:2]:
        info.type.tensor_type.shape.SetInParent()  # scalars
    nodes = [node("Loop", ["n", "", init], ["y"], body=step)]
    return model(nodes, {"x": ["a"], "n": (INT64, [])}, ["y"], stored=stored, opset=opset)


GROWING = [node("Concat", ["s", "x"], ["next"], axis=0)]
LOOPS: dict[str, Any] = {
    "grows": loop(GROWING),
    "grows, opset 11": loop(GROWING, opset=11),
    "begins empty": loop(GROWING, "z", z=np.zeros(0, np.float32)),
    "begins as a scalar": loop([node("Add", ["s", "x"], ["next"])], "z", z=np.float32(0)),
    "begins with one": loop([node("Add", ["s", "x"], ["next"])], "z", z=np.ones(1, np.float32)),
    "shrinks": loop([node("Slice", ["s", "b", "e"], ["next"])], b=np.array([1]), e=np.array([9])),
    "gets axes": loop([node("Unsqueeze", ["s", "z"], ["next"])], z=np.array([0])),
    "loses axes": loop([node("ReduceMax", ["s"], ["next"], keepdims=0)]),
    "stays": loop([node("Mul", ["s", "x"], ["next"])]),
    "changes by a branch": loop(
        [
            node("Equal", ["i", "one"], ["c"]),
            node(
                "If", ["c"], ["next"],
                then_branch=graph_of([node("Unsqueeze", ["s", "z"], ["q"])], {}, "q"),
                else_branch=graph_of([node("Identity", ["s"], ["q"])], {}, "q"),
            ),
        ],
        one=np.int64(1), z=np.array([0]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LOOPS)
@pytest.mark.parametrize("n", [0, 1, 3])
def test_carries_change_their_shape(case: str, n: int) -> None:
    agree(LOOPS[case], {"x": np.array([2, 3, 4, 5], np.float32), "n": np.array(n)}, "y")


def test_a_trip_count_that_is_stored() -> None:
    proto = loop(GROWING)
    del proto.graph.input[1]
    proto.graph.initializer.append(helper.make_tensor("n", INT64, [], [3]))
    agree(proto, {"x": np.array([2, 3], np.float32)}, "y")


def test_gradients_of_carries_that_grow() -> None:
    squares = [node("Mul", ["s", "s"], ["h"]), node("Concat", ["h", "x"], ["next"], axis=0)]
    graph = gw.onnx.load(loop(squares))
    loss = gw.sum(graph["y"], name="loss")
    feeds = {"x": np.array([0.5, -0.7], np.float32), "n": np.array(3)}
    assert gw.gradient_check(graph, loss, feeds, wrt=["x"]).passed
    gw.Stepper(graph, fetches=["loss"], feeds=feeds).run()
    ranks = gw.onnx.load(LOOPS["begins as a scalar"])
    with pytest.raises(GradientError, match="a carry changes its rank"):
        gw.gradients(gw.sum(ranks["y"]), [ranks["x"]])


def test_loops_of_ours_change_shapes_where_they_may() -> None:
    graph = gw.Graph()
    x = graph.placeholder("x", ("B",))
    y = gw.while_loop(
        lambda c: gw.size_of(c) < 10, lambda c: gw.concat(c, x), x, free_shapes=True, name="y"
    )
    total, _ = gw.scan(lambda c, t: (gw.concat(c, t.reshape(1)), t), x, x, free_shapes=True)
    found = graph.output({"x": [1.0, 2.0, 3.0]}, y, total)
    assert [len(v) for v in found.values()] == [12, 6]
    with pytest.raises(ShapeError, match="starts as"):
        gw.while_loop(lambda c: c[0] < 1.0, lambda c: gw.concat(c, c), graph.constant([0.0]))


def test_a_scan_whose_state_grows() -> None:
    step = graph_of(
        [node("Concat", ["s", "e"], ["next"], axis=0), node("Neg", ["e"], ["out"])],
        {"s": FLOAT, "e": FLOAT}, "next", "out",
    )  # fmt: skip
    nodes = [node("Scan", ["x", "rows"], ["y", "z"], body=step, num_scan_inputs=1)]
    proto = model(nodes, {"x": ["a"], "rows": ["t", "a"]}, ["y", "z"])
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    y, z = run(proto, {"x": rows[0], "rows": rows}, "y", "z")
    assert y.tolist() == [*rows[0], *rows.ravel()]
    assert z.tolist() == (-rows).tolist()


def test_a_sequence_holds_items_of_two_ranks() -> None:
    nodes = [
        node("SequenceConstruct", ["x"], ["a"]),
        node("ReduceSum", ["x"], ["t"], keepdims=0),
        node("SequenceInsert", ["a", "t"], ["y"]),
    ]
    (found,) = run(model(nodes, {"x": [2]}, ["y"]), {"x": np.array([1, 2], np.float32)}, "y")
    assert [item.tolist() for item in found] == [[1, 2], 3]


def test_an_old_node_that_waits_is_written_in_a_newer_opset() -> None:
    """What were attributes of Slice and Unsqueeze then are inputs now."""
    nodes = [
        helper.make_node("Squeeze", ["x"], ["s"]),
        helper.make_node("Slice", ["s"], ["t"], starts=[0], ends=[2], axes=[0]),
        helper.make_node("Unsqueeze", ["t"], ["y"], axes=[0]),
    ]
    ends = [
        helper.make_tensor_value_info("x", 1, ["a", "b"]),
        helper.make_empty_tensor_value_info("y"),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=8)
    read = gw.onnx.load(proto)
    written = gw.onnx.to_model(read, ["y"])
    assert {n.op_type for n in written.graph.node} >= {"Slice", "Unsqueeze"}
    for shape in ((3, 4), (1, 4), (5, 1)):
        x = np.random.default_rng(0).normal(size=shape).astype("float32")
        wanted = np.squeeze(x)[:2][None]
        for found in (read, gw.onnx.load(written)):
            np.testing.assert_array_equal(found.output({"x": x}, "y")["y"], wanted)
