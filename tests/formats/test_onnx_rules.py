"""Readers and rules of users: precedence, checks, sub-graphs, late values, and who is to blame."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GradwrightError, GraphError, UnsupportedOpError
from gradwright.formats.foreign import Rule
from gradwright.formats.foreign.attributes import described
from gradwright.formats.onnx import Chosen, Fixed, Item, Value, attribute
from gradwright.formats.onnx.node import ONNX
from tests.formats.onnx_models import (
    FLOAT,
    INT64,
    TensorProto,
    X,
    helper,
    model,
    numpy_helper,
    run,
)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Take back what a test has entered."""
    before = dict(ONNX.added)
    yield
    ONNX.added.clear()
    ONNX.added.update(before)


def mine(op_type: str, inputs: Any = ("x",), outputs: Any = ("y",), **attributes: Any) -> Any:
    """Return a node of a domain of our own."""
    return helper.make_node(
        op_type, list(inputs), list(outputs), domain="mine", name="n", **attributes
    )


def of(node: Any, inputs: Any = None, outputs: Any = ("y",), **more: Any) -> Any:
    nodes = node if isinstance(node, list) else [node]
    return model(nodes, inputs or {"x": [2, 3]}, list(outputs), domains=["mine"], **more)


def y_of(node: Any, **more: Any) -> Any:
    return run(of(node, **more), {"x": X}, "y")[0]


def refused(node: Any, **more: Any) -> str:
    with pytest.raises(GradwrightError) as caught:
        gw.onnx.load(of(node, **more))
    return str(caught.value)


# -- who goes first --------------------------------------------------------------------------------


def test_a_user_goes_before_ours_schemas_and_functions_of_the_model() -> None:
    body = [helper.make_node("Neg", ["a"], ["b"])]
    local = helper.make_function("mine", "Turn", ["a"], ["b"], body, [helper.make_opsetid("", 18)])
    turn = of(mine("Turn"), functions=[local])
    relu = model([helper.make_node("Relu", ["x"], ["y"])], {"x": [2, 3]}, ["y"])
    mish = model([helper.make_node("Mish", ["x"], ["y"])], {"x": [2, 3]}, ["y"])
    before = [run(m, {"x": X}, "y")[0] for m in (turn, relu, mish)]
    np.testing.assert_allclose(before[0], -X)
    gw.onnx.reads("Turn", domain="mine")(lambda node, x: x + 10.0)
    gw.onnx.reads("Relu", "Mish")(lambda node, x: x + 10.0)
    for proto in (turn, relu, mish):
        np.testing.assert_allclose(run(proto, {"x": X}, "y")[0], X + 10)
    gw.onnx.forget("Turn", domain="mine")
    gw.onnx.forget("Relu", "Mish")
    for proto, y in zip((turn, relu, mish), before, strict=True):
        np.testing.assert_allclose(run(proto, {"x": X}, "y")[0], y)


def test_a_reader_entered_again_takes_its_own_place_and_since_is_kept() -> None:
    for factor in (2.0, 3.0):  # a cell that runs again
        gw.onnx.reads("Softmax", since=1)(lambda node, x, f=factor: x * f)
    softmax = helper.make_node("Softmax", ["x"], ["y"])
    for opset in (11, 13, 20):
        np.testing.assert_allclose(
            run(model([softmax], {"x": [2, 3]}, ["y"], opset=opset), {"x": X}, "y")[0], X * 3
        )
    assert len(gw.onnx.operators()["", "Softmax"]) == 1
    gw.onnx.reads("Softmax", since=13)(lambda node, x: x * 5.0)
    found = [
        run(model([softmax], {"x": [2, 3]}, ["y"], opset=opset), {"x": X}, "y")[0]
        for opset in (12, 13)
    ]
    np.testing.assert_allclose(found, [X * 3, X * 5])


def test_forgetting_what_was_never_entered_takes_nothing_back() -> None:
    gw.onnx.reads("A", domain="mine")(lambda node, x: x)
    with pytest.raises(GraphError, match=r"nothing has been entered for 'B'[\s\S]*mine:A"):
        gw.onnx.forget("A", "B", domain="mine")
    assert ("mine", "A") in gw.onnx.operators()


@pytest.mark.parametrize(
    ("names", "named"),
    [((), {}), (("",), {}), ((1,), {}), (("A",), {"since": 0}), (("A",), {"since": "1"})],
)
def test_what_names_no_operator_is_refused(names: Any, named: Any) -> None:
    with pytest.raises(TypeError):
        gw.onnx.reads(*names, **named)
    with pytest.raises(TypeError):
        gw.onnx.reads("A", domain="mine")("no function")  # type: ignore[arg-type]


# -- what a function is given, and what it returns -------------------------------------------------


def test_a_sub_graph_is_a_function_of_tensors() -> None:
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "w"], ["r"])],  # w is a tensor of the outer graph
        "body",
        [helper.make_tensor_value_info("v", FLOAT, [2, 3])],
        [helper.make_tensor_value_info("r", FLOAT, [2, 3])],
    )

    @gw.onnx.reads("Repeat", domain="mine", attributes={"times": 1, "body": attribute("graph")})
    def repeat(node: Any, x: Any) -> Any:
        for _ in range(node["times"]):
            (x,) = node.graph("body")(x)
        return x

    @gw.onnx.reads("Either", domain="mine")
    def either(node: Any, go: Any, x: Any) -> Any:
        (y,) = gw.cond(go, lambda: node.graph("body")(x), lambda: [x])
        return y

    stored = {"w": np.float32([[1, 2, 3]])}
    np.testing.assert_allclose(
        y_of(mine("Repeat", times=3, body=body), stored=stored), X + 3 * stored["w"], rtol=1e-6
    )
    proto = of(
        mine("Either", ["go", "x"], body=body),
        {"go": (TensorProto.BOOL, []), "x": [2, 3]},
        stored=stored,
    )
    for go in (True, False):
        (y,) = run(proto, {"go": go, "x": X}, "y")
        np.testing.assert_allclose(y, X + go * stored["w"], rtol=1e-6)
    gw.onnx.reads("Repeat", domain="mine")(lambda node, x: node.graph("body")(x, x))
    assert "2 inputs for the sub-graph 'body'" in refused(
        mine("Repeat", body=body), stored={"w": stored["w"]}
    )
    gw.onnx.reads("Repeat", domain="mine")(lambda node, x: node.graph("times")(x))
    assert "'times' of Repeat is no sub-graph" in refused(mine("Repeat", times=3))


def test_several_outputs_and_those_that_nobody_reads() -> None:
    seen: list[tuple[bool, ...]] = []

    @gw.onnx.reads("Both", domain="mine")
    def both(node: Any, x: Any) -> Any:
        seen.append(node.wanted)
        return [x.sum(), None, np.float32([7.0])]

    nodes = [mine("Both", outputs=["a", "b", "c"]), helper.make_node("Add", ["a", "c"], ["y"])]
    np.testing.assert_allclose(y_of(nodes), [X.sum() + 7])
    assert seen == [(True, False, True)]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda x: None, "returned None for output 0"),
        (lambda x: "text", "returned 'text' for output 0"),
        (lambda x: gw.Graph().placeholder("x", (2, 3)), "a tensor of another graph"),
        (lambda x: [], "returned 0 of 1 outputs"),
    ],
)
def test_what_is_returned_is_checked(returned: Any, message: str) -> None:
    @gw.onnx.reads("Odd", domain="mine")
    def odd_reader(node: Any, x: Any) -> Any:
        return returned(x)

    text = refused(mine("Odd"))
    assert message in text and text.startswith("Odd 'n'")
    assert "read by function odd_reader (test_onnx_rules.py:" in text


def test_errors_point_to_the_users_own_line() -> None:
    @gw.onnx.reads("Fails", domain="mine")
    def fails(node: Any, x: Any) -> Any:
        def inner() -> Any:
            return {}["missing"]

        return inner()

    first = fails.__code__.co_firstlineno
    text = refused(mine("Fails"))
    assert "its reader failed: KeyError: 'missing'" in text and text.startswith("Fails 'n'")
    assert f"raised at test_onnx_rules.py:{first + 3}" in text
    assert f"read by function fails (test_onnx_rules.py:{first})" in text

    @gw.onnx.reads("Fails", domain="mine")
    def misfits(node: Any, x: Any) -> Any:
        return x @ x

    text = refused(mine("Fails"))
    line = misfits.__code__.co_firstlineno + 2
    assert f"raised at test_onnx_rules.py:{line}, read by function misfits" in text
    assert "Fails 'n'" in text


def test_values_that_are_known_only_when_run() -> None:
    def rows(node: Any, x: Any, by: Any) -> Any:
        return [gw.TensorSpec((gw.Dim.symbol("rows"), *x.shape[1:]), x.dtype)]

    @gw.onnx.reads("Again", domain="mine", values=[1], outputs=rows)
    def again(node: Any, x: Any, by: Any) -> Any:
        assert isinstance(by, np.ndarray)
        return gw.concat(*[x] * int(by), axis=0)

    proto = of(mine("Again", ["x", "by"]), {"x": [2, 3], "by": (INT64, [])})
    graph = gw.onnx.load(proto)
    with gw.Session(graph) as session:
        for by in (2, 1, 3):
            np.testing.assert_allclose(
                session.run("y", {"x": X, "by": by}), np.concatenate([X] * by)
            )
        with pytest.raises(GradwrightError, match=r"at least one[\s\S]*read by function again"):
            session.run("y", {"x": X, "by": 0})
    stored = {"by": np.int64(2)}
    np.testing.assert_allclose(
        y_of(mine("Again", ["x", "by"]), stored=stored), np.concatenate([X, X])
    )


# -- attributes ------------------------------------------------------------------------------------

DECLARED: dict[str, Any] = {
    "factor": attribute(float, 1.0, least=0.0, most=10.0),
    "mode": attribute(str, "plain", choices=("plain", "square")),
    "sizes": attribute(tuple[int, ...], None, least=1),
    "on": True,
    "kind": attribute(np.dtype, np.dtype("float32")),
    "table": attribute(np.ndarray, None),
}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"factor": "one"}, r"'factor' of Scale is 'one'[\s\S]*need: a number"),
        ({"factor": -1.0}, r"'factor' of Scale is -1.0[\s\S]*need: 0 <= factor <= 10"),
        ({"factor": float("nan")}, r"is nan[\s\S]*need: 0 <= factor <= 10"),
        ({"mode": "sqare"}, r"need: 'plain' or 'square'[\s\S]*did you mean 'square'"),
        ({"sizes": [1, 0]}, r"'sizes' of Scale is \(1, 0\)[\s\S]*need: sizes >= 1"),
        ({"sizes": [1.5]}, r"need: integers"),
        ({"sizes": 3}, r"need: integers"),
        ({"on": 2}, r"is 2[\s\S]*need: 0 or 1"),
        ({"kind": 99}, "element type 99 is not known"),
        ({"table": [1.0]}, r"need: a tensor"),
        ({"fator": 1.0}, r"no attribute 'fator'[\s\S]*did you mean 'factor'"),
    ],
)
def test_attributes_are_checked_before_the_function_is_called(given: Any, message: str) -> None:
    @gw.onnx.reads("Scale", domain="mine", attributes=DECLARED)
    def scale(node: Any, x: Any) -> Any:
        raise AssertionError("it is not called")

    with pytest.raises(ArchiveError, match=message) as caught:
        gw.onnx.load(of(mine("Scale", **given)))
    assert caught.value.where == "Scale 'n'"


def test_attributes_come_with_defaults_and_in_their_types() -> None:
    seen: list[Any] = []

    @gw.onnx.reads("Scale", domain="mine", attributes=DECLARED)
    def scale(node: Any, x: Any) -> Any:
        seen.append(dict(node.attributes))
        return x

    gw.onnx.load(of(mine("Scale")))
    gw.onnx.load(of(mine("Scale", factor=2, on=0, kind=TensorProto.DOUBLE, sizes=[1, 2])))
    first = {"factor": 1.0, "mode": "plain", "on": True, "kind": np.dtype("float32")}
    assert seen[0] == first
    assert seen[1] == first | {
        "factor": 2.0, "on": False, "kind": np.dtype("float64"), "sizes": (1, 2)
    }  # fmt: skip
    assert type(seen[1]["factor"]) is float and seen[1]["on"] is False


def test_what_describes_no_attribute_is_refused() -> None:
    for value in (None, {1}, {}):
        with pytest.raises(TypeError, match="does not tell a type"):
            described({"a": value})
    with pytest.raises(TypeError, match="of no type"):
        attribute(set)


@pytest.mark.parametrize(
    ("op_type", "inputs", "given"),
    [
        ("Gather", ["x", "i"], {"axis": "one"}),
        ("Gather", ["x", "i"], {"axis": 1.0}),
        ("Softmax", ["x"], {"axis": "one"}),
        ("Concat", ["x", "x"], {"axis": [1]}),
        ("ReduceSum", ["x"], {"keepdims": "yes"}),
        ("LayerNormalization", ["x", "s"], {"epsilon": "small"}),
        ("Gemm", ["x", "x"], {"transB": 1, "alpha": "one"}),
        ("Transpose", ["x"], {"perm": 1}),
        ("LeakyRelu", ["x"], {"alpha": [1.0]}),
        ("Split", ["x"], {"axes": 0, "num_outputs": 1}),
        ("Gemm", ["x", "x"], {"transb": 1}),
        ("BitShift", ["i", "i"], {"direction": "UP"}),
        ("Cast", ["x"], {}),
        ("ScatterElements", ["x", "m", "x"], {"reduction": "most"}),
        ("ScatterND", ["x", "m", "x"], {"reduction": "most"}),
        ("NegativeLogLikelihoodLoss", ["x", "l"], {"reduction": "most"}),
        ("SoftmaxCrossEntropyLoss", ["x", "l"], {"reduction": "most"}),
        ("AveragePool", ["p"], {"kernel_shape": [2, 2], "auto_pad": "FULL"}),
    ],
)
def test_attributes_of_onnx_itself_are_checked(op_type: str, inputs: Any, given: Any) -> None:
    node = helper.make_node(op_type, inputs, ["y"], name="n", **given)
    stored = {"i": np.uint64([0, 1]), "s": np.ones(3, np.float32)}
    stored |= {"m": np.zeros((2, 3), np.int64)}
    stored |= {"l": np.int64([0, 1]), "p": np.ones((1, 1, 4, 4), np.float32)}
    with pytest.raises(GradwrightError, match=r"attribute|'UP'|auto_pad") as caught:
        gw.onnx.load(model([node], {"x": [2, 3]}, ["y"], stored=stored))
    assert f"{op_type} 'n'" in str(caught.value)
    assert "not a valid node" not in str(caught.value)


# -- rules -----------------------------------------------------------------------------------------


def test_a_rule_renames_chooses_fixes_and_joins() -> None:
    image = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
    rule = gw.onnx.maps(
        "Pool", Chosen("how", {"avg": "avg_pool2d", "max": "max_pool2d"}), domain="mine",
        attributes={
            "how": str, "height": attribute(int, 2, least=1), "width": attribute(int, 2, least=1),
            "step": 2, "border": attribute(tuple[int, ...], (0, 0)), "seed": 0,
            "groups": attribute(int, 1, choices=(1,)),
        },
        takes={
            "kernel_size": ("height", "width"), "stride": "step", "padding": Item("border", 1),
            "ceil_mode": Fixed(False),
        },
        leaves=["seed"], needs={"a batch of images": lambda node, x: x.rank == 4},
        gives={"a batch of images": lambda node, y: y.rank == 4},
    )  # fmt: skip
    inputs = {"x": list(image.shape)}
    for how, reduce in (("avg", np.mean), ("max", np.max)):
        proto = of(mine("Pool", how=how, height=4, width=1, seed=3), inputs)
        (y,) = run(proto, {"x": image}, "y")
        columns = reduce(image, axis=2, keepdims=True)[:, :, :, ::2]
        np.testing.assert_allclose(y, columns)
    text = refused(mine("Pool", how="min"), inputs=inputs)
    assert "'how' is 'min'" in text and "need: 'avg' or 'max'" in text
    text = refused(mine("Pool", how="avg"), inputs={"x": [2, 3]})
    assert "need: a batch of images" in text and "0: f32[2, 3]" in text and "how: 'avg'" in text
    assert "need: 1" in refused(mine("Pool", how="avg", groups=2), inputs=inputs)
    assert "need: element 1" in refused(mine("Pool", how="avg", border=[0]), inputs=inputs)
    said = json.loads(json.dumps(rule.as_dict()))
    assert said["op"] == "how of {'avg': 'avg_pool2d', 'max': 'max_pool2d'}"
    assert said["takes"]["kernel_size"] == "(height, width)" and said["leaves"] == ["seed"]
    assert said["needs"] == said["gives"] == ["a batch of images"]


def test_attributes_that_are_inputs_and_inputs_that_are_attributes() -> None:
    weight = np.float32([[1, 2], [3, 4], [5, 6]])
    gw.onnx.maps(
        "Dense", "linear", domain="mine", inputs=(0, "weight", "bias"),
        attributes={"weight": np.ndarray, "bias": attribute(tuple[float, ...], None)},
    )  # fmt: skip
    tensor = numpy_helper.from_array(weight)
    np.testing.assert_allclose(y_of(mine("Dense", weight=tensor)), X @ weight, rtol=1e-6)
    y = y_of(mine("Dense", weight=tensor, bias=[0.5, -0.5]))
    np.testing.assert_allclose(y, X @ weight + np.float32([0.5, -0.5]), rtol=1e-6)

    gw.onnx.maps("Along", "sum", domain="mine", takes={"axis": Value(1), "keepdims": Fixed(True)})
    late = of(mine("Along", ["x", "axis"]), {"x": [2, 3], "axis": (INT64, [1])})
    for axis in (0, 1):
        (y,) = run(late, {"x": X, "axis": [axis]}, "y")
        np.testing.assert_allclose(y, X.sum(axis, keepdims=True), rtol=1e-6)


def test_values_stand_for_others_or_for_one() -> None:
    gw.onnx.maps(
        "Turned", "cumsum", domain="mine", attributes={"way": "up"},
        takes={"axis": Fixed(0), "reverse": Chosen("way", {"down": True}, other=False)},
    )  # fmt: skip
    np.testing.assert_allclose(y_of(mine("Turned", way="down")), X[::-1].cumsum(0)[::-1])
    for way in ("up", "whatever"):
        np.testing.assert_allclose(y_of(mine("Turned", way=way)), X.cumsum(0))


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"op": "softmaks"}, r"no op is called[\s\S]*did you mean 'softmax'"),
        ({"takes": {"axsi": "dim"}}, r"softmax has no attribute 'axsi'[\s\S]*did you mean 'axis'"),
        ({"takes": {"axis": "dims"}}, "takes 'dims', which it does not describe"),
        ({}, r"nothing is taken from 'dim'[\s\S]*leaves=\['dim'\]"),
        ({"op": "one_hot", "takes": {"axis": "dim"}}, "one_hot needs 'depth'"),
    ],
)
def test_rules_that_do_not_fit_their_op_are_refused_at_once(named: Any, message: str) -> None:
    named = {"op": "softmax", **named}
    with pytest.raises(GraphError, match=message):
        gw.onnx.maps("Soft", named.pop("op"), domain="mine", attributes={"dim": -1}, **named)
    assert ("mine", "Soft") not in gw.onnx.operators()


def test_our_own_rules_fit_their_ops() -> None:
    rules = [r.read for rs in gw.onnx.operators().values() for r in rs if isinstance(r.read, Rule)]
    assert len(rules) > 20
    for rule in rules:
        rule.check()


# -- all that is known, and all that is not --------------------------------------------------------


def test_what_is_known_prints_and_goes_to_json() -> None:
    gw.onnx.reads("<b>", domain="mine", attributes=DECLARED)(lambda node, x: x)
    known = gw.onnx.operators()
    rows = {(r["domain"], r["operator"]): r for r in json.loads(known.to_json())}
    assert rows["mine", "<b>"]["attributes"]["factor"] == {
        "type": "float", "default": 1.0, "least": 0.0, "most": 10.0
    }  # fmt: skip
    assert rows["", "Relu"]["how"] == "op relu" and rows["", "Conv"]["how"].startswith("function")
    assert rows["", "HardSigmoid"]["op"] == "hard_sigmoid"
    text = str(known)
    assert "(test_onnx_rules.py:" in text and "function conv (images.py:" in text
    assert "&lt;b&gt;" in known._repr_html_() and "<b>" not in known._repr_html_()


def test_all_that_is_unknown_is_told_with_names_sub_graphs_included() -> None:
    inner = helper.make_graph([mine("Deep")], "inner", [], [])
    inner.node[0].name = "leaf"
    nodes = [
        *(mine("Strange", outputs=[f"s{i}"]) for i in range(6)),
        helper.make_node("If", ["c"], ["y"], name="which", then_branch=inner, else_branch=inner),
    ]
    for i, node in enumerate(nodes[:6]):
        node.name = f"node{i}" if i else ""
    body = [helper.make_node("Deeper", ["a"], ["b"], domain="mine", name="low")]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
    called = helper.make_function("mine", "Call", ["a"], ["b"], body, imports)
    proto = of(
        [*nodes, mine("Call", outputs=["z"])],
        {"x": [2], "c": (TensorProto.BOOL, [])},
        functions=[called],
    )
    with pytest.raises(UnsupportedOpError) as caught:
        gw.onnx.load(proto)
    assert caught.value.facts == [
        "mine Deep (opset 1): 2 nodes, 'which/leaf', 'which/leaf'",
        "mine Deeper (opset 1): 1 node, 'Call/low'",
        "mine Strange (opset 1): 6 nodes, 'Strange:s0', 'node1', 'node2', 'node3' and 2 more",
    ]
    for name in ("Deep", "Strange"):
        gw.onnx.reads(name, domain="mine")(lambda node, *xs: xs[0])
    gw.onnx.reads("Call", domain="mine")(lambda node, x: x)  # so its body is nobody's matter
    with pytest.raises(GradwrightError) as other:
        gw.onnx.load(proto)
    assert not isinstance(other.value, UnsupportedOpError)
