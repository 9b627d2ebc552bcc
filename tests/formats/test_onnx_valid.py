"""Models that are valid in unusual ways: sizes, names, indices, held against ONNX Runtime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError, GraphError
from tests.formats.onnx_models import (
    FLOAT,
    INT64,
    TensorProto,
    agree,
    by_runtime,
    helper,
    model,
    run,
    same_values,
)

node = helper.make_node
DRAW = np.random.default_rng(0)
CUBE = DRAW.standard_normal((3, 4, 2)).astype(np.float32)


# -- indices that are fewer than the data --------------------------------------------------------


@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize(("axis", "shape"), [(0, (5, 2, 1)), (1, (1, 3, 2)), (-1, (2, 4, 0))])
def test_indices_are_fewer_than_the_data(axis: int, shape: tuple[int, ...], stated: bool) -> None:
    n = CUBE.shape[axis]
    at = DRAW.integers(-n, n, shape)
    sizes: Any = [list(CUBE.shape), list(shape)] if stated else [["a", "b", "c"], ["d", "e", "f"]]
    inputs = {"x": sizes[0], "i": (INT64, sizes[1])}
    gathered = node("GatherElements", ["x", "i"], ["y"], axis=axis)
    graph = agree(model([gathered], inputs, ["y"]), {"x": CUBE, "i": at}, "y")
    loss = gw.sum(graph["y"] * graph["y"])
    assert gw.gradient_check(graph, loss, {"x": CUBE, "i": at}, wrt=["x"]).passed
    updates = DRAW.standard_normal(shape).astype(np.float32)
    once = np.zeros(shape, np.int64)  # of several writes to one place no order is said
    places = [at, at, at, at] if shape[axis] > n else [at, at, at, at, once]
    if shape[axis] <= n:
        once += np.arange(shape[axis]).reshape([-1 if i == axis % 3 else 1 for i in range(3)])
    for reduction, i in zip(("add", "mul", "max", "min", "none"), places, strict=False):
        scattered = node("ScatterElements", ["x", "i", "u"], ["y"], axis=axis, reduction=reduction)
        proto = model([scattered], {**inputs, "u": sizes[1]}, ["y"])
        feeds = {"x": CUBE, "i": i, "u": updates}
        graph = agree(proto, feeds, "y")
        loss = gw.sum(graph["y"] * graph["y"])
        assert gw.gradient_check(graph, loss, feeds, wrt=["x", "u"]).passed


def test_indices_beyond_the_data_are_refused() -> None:
    proto = model(
        [node("GatherElements", ["x", "i"], ["y"])],
        {"x": ["a", "b"], "i": (INT64, ["c", "d"])},
        ["y"],
    )
    with pytest.raises(GradwrightError, match="3 places on axis 1"):
        run(proto, {"x": np.ones((2, 1), np.float32), "i": np.zeros((2, 3), np.int64)}, "y")


# -- slices ---------------------------------------------------------------------------------------

FAR = [-(1 << 63), -(1 << 62), (1 << 31) - 1, (1 << 63) - 1]
CORNERS = [-9, -3, -1, 0, 2, 9]


@pytest.mark.parametrize("size", [1, 4])
def test_slices_take_what_theirs_take(size: int) -> None:
    """Of all corners many at once: a slice is a node, by what is stored, fed, and of a symbol."""
    x = np.arange(size, dtype=np.float32)
    bounds = list(itertools.product([*CORNERS, *FAR], [*CORNERS, *FAR], [1, -1, 3, -2]))
    stored = {str(v): np.int64([v]) for v in {*CORNERS, *FAR, 1, 3, -2}} | {"axis": np.int64([0])}
    nodes = [
        node("Slice", ["x", str(a), str(b), "axis", str(step)], [f"y{i}"])
        for i, (a, b, step) in enumerate(bounds)
    ]
    names = [f"y{i}" for i in range(len(bounds))]
    for stated in (size, "n"):
        proto = model(nodes, {"x": [stated]}, names, stored=stored)
        expected = by_runtime(proto, {"x": x}, *names)
        same_values(run(proto, {"x": x}, *names), expected)
    again = gw.onnx.to_model(gw.onnx.load(proto), names)
    same_values(by_runtime(again, {"x": x}, *names), expected)
    few = range(0, len(bounds), 7)
    sizes = {name: (INT64, [1]) for name in ("s", "e", "t")}
    proto = model(
        [node("Slice", ["x", "s", "e", "axis", "t"], ["y"])],
        {"x": ["n"], **sizes},
        ["y"],
        stored={"axis": np.int64([0])},
    )
    with gw.Session(gw.onnx.load(proto)) as session:
        for i in few:
            a, b, step = (np.int64([v]) for v in bounds[i])
            found = session.run("y", {"x": x, "s": a, "e": b, "t": step})
            same_values([found], [expected[i]])


def test_our_own_reversed_slices_are_written_as_they_are() -> None:
    """ONNX begins with the first element where Python takes none."""
    graph = gw.Graph()
    x = graph.placeholder("x", ("n",))
    names = []
    for start, stop, step in itertools.product([-1, -2, -3], [None, 0, -4, -2, -1], [-1, -2]):
        names.append(gw.identity(x[start:stop:step], name=f"y{len(names)}").name)
    proto = gw.onnx.to_model(graph, names)
    for n in range(5):
        feeds = {"x": np.arange(n, dtype=np.float32)}
        same_values(by_runtime(proto, feeds, *names), list(graph.output(feeds, *names).values()))


# -- normalisation, ranges, reductions, text ------------------------------------------------------


@pytest.mark.parametrize("opset", [7, 8, 9, 13])
@pytest.mark.parametrize("read", [1, 5])
def test_five_outputs_mean_training_before_opset_14(opset: int, read: int) -> None:
    x = DRAW.standard_normal((5, 2, 3)).astype(np.float32)
    stored = dict(zip("sbmv", DRAW.uniform(0.5, 2, (4, 2)).astype(np.float32), strict=True))
    names = ["y", "mean", "var", "saved_mean", "saved_var"]
    made = node("BatchNormalization", ["x", *stored], names, epsilon=0.01, momentum=0.8)
    proto = model([made], {"x": ["n", 2, 3]}, names[:read], stored=stored, opset=opset)
    expected = by_runtime(proto, {"x": x}, *names[:read])
    for ours, theirs in zip(run(proto, {"x": x}, *names[:read]), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("opset", "training"), [(9, 0), (13, 0), (14, 0), (14, 1), (15, 1)])
def test_other_batch_normalizations(opset: int, training: int) -> None:
    x = DRAW.standard_normal((5, 2, 3)).astype(np.float32)
    stored = dict(zip("sbmv", DRAW.uniform(0.5, 2, (4, 2)).astype(np.float32), strict=True))
    names = ["y", "mean", "var"][: 3 if training else 1]
    attributes = {"training_mode": training} if opset >= 14 else {}
    made = node("BatchNormalization", ["x", *stored], names, **attributes)
    proto = model([made], {"x": ["n", 2, 3]}, names, stored=stored, opset=opset)
    expected = by_runtime(proto, {"x": x}, *names)
    for ours, theirs in zip(run(proto, {"x": x}, *names), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("channels", [4, "c"])
def test_groups_have_a_weight_each_before_opset_21(channels: Any) -> None:
    x = DRAW.standard_normal((2, 4, 3)).astype(np.float32)
    stored = {"s": np.float32([1, 2]), "b": np.float32([0, 1])}
    made = node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2, epsilon=1e-3)
    proto = model([made], {"x": ["n", channels, 3]}, ["y"], stored=stored)
    grouped = x.reshape(2, 2, 6)
    normal = grouped - grouped.mean(-1, keepdims=True)
    normal /= np.sqrt(grouped.var(-1, keepdims=True) + 1e-3)
    expected = (normal * stored["s"][:, None] + stored["b"][:, None]).reshape(x.shape)
    np.testing.assert_allclose(run(proto, {"x": x}, "y")[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("element", ["FLOAT", "DOUBLE", "INT64", "INT32"])
@pytest.mark.parametrize(
    ("start", "step"), [(0, 1), (1, 1), (9, 1), (0.5, 1), (0, 0.5), (0.25, 0.1), (2, 3), (7, -1)]
)
def test_ranges_end_at_a_size(element: str, start: float, step: float) -> None:
    number = getattr(TensorProto, element)
    d = helper.tensor_dtype_to_np_dtype(number)
    if d.kind == "i" and (start != int(start) or step != int(step)):
        start, step = round(start + 1), max(1, round(step))
    stored = {"i": np.int64(0), "a": np.asarray(start, d), "d": np.asarray(step, d)}
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "i"], ["n"]),
        node("Cast", ["n"], ["f"], to=number),
        node("Range", ["a", "f", "d"], ["y"]),
    ]
    graph = agree(
        model(nodes, {"x": ["n"]}, ["y"], stored=stored), {"x": np.ones(5, np.float32)}, "y"
    )
    if step == 0.5:
        assert graph["y"].shape == (2 * gw.Dim.symbol("n"),)


REDUCED = [
    (op_type, keepdims, noop)
    for op_type in ("Sum", "Mean", "Max", "Prod", "L1", "L2", "SumSquare")
    for keepdims, noop in itertools.product([0, 1], [0, 1])
    if not noop or op_type in ("Sum", "Mean", "Max", "Prod")  # else theirs leaves the squares out
]


@pytest.mark.parametrize(("op_type", "keepdims", "noop"), REDUCED)
def test_axes_are_fed_and_none(op_type: str, keepdims: int, noop: int) -> None:
    made = node(f"Reduce{op_type}", ["x", "a"], ["y"], keepdims=keepdims, noop_with_empty_axes=noop)
    proto = model([made], {"x": [2, 3], "a": (INT64, [0])}, ["y"])
    feeds = {"x": CUBE[0, :2, :1] + np.float32([[1, 2, 3]]), "a": np.zeros(0, np.int64)}
    same_values(run(proto, feeds, "y"), by_runtime(proto, feeds, "y"))


NUMBERS = ["3.14", "1e3", "-inf", "INF", "NaN", " 5 ", "+7", "-0.5E-2", ".5", "12."]
WHOLE = ["12", "-5", "+7", " 300 ", "3.99", "0"]


@pytest.mark.parametrize(
    "element", ["FLOAT", "DOUBLE", "FLOAT16", "INT64", "INT32", "INT8", "UINT8", "UINT64", "BOOL"]
)
def test_text_becomes_numbers(element: str) -> None:
    texts = NUMBERS if element in ("FLOAT", "DOUBLE", "FLOAT16") else WHOLE
    made = node("Cast", ["t"], ["y"], to=getattr(TensorProto, element))
    proto = model([made], {"t": (TensorProto.STRING, ["n"])}, ["y"], opset=19)
    agree(proto, {"t": np.array(texts, "T")}, "y")


@pytest.mark.parametrize(
    ("element", "text"),
    [
        ("FLOAT", "abc"),
        ("FLOAT", ""),
        ("FLOAT", "1,5"),
        ("FLOAT", "1_0"),
        ("INT64", "1e3"),
        ("INT64", "9" * 19),
        ("INT64", "nan"),
        ("BOOL", "true"),
    ],
)
def test_text_that_is_no_number_is_refused(element: str, text: str) -> None:
    made = node("Cast", ["t"], ["y"], to=getattr(TensorProto, element))
    proto = model([made], {"t": (TensorProto.STRING, ["n"])}, ["y"], opset=19)
    with pytest.raises(GraphError, match="is no"):
        run(proto, {"t": np.array([text], "T")}, "y")


# -- names ----------------------------------------------------------------------------------------


def test_a_name_that_stays_beats_one_that_is_cleaned() -> None:
    nodes = [node("Relu", ["x"], ["/y"]), node("Neg", ["x"], ["y"]), node("Abs", ["/y"], ["z"])]
    proto = model(nodes, {"x": [2]}, ["/y", "y", "z"])
    agree(proto, {"x": np.float32([1, -2])}, "/y", "y", "z")
    proto = model([node("Sub", ["a:0", "a_0"], ["d"])], {"a:0": [1], "a_0": [1]}, ["d"])
    graph = agree(proto, {"a:0": np.float32([5]), "a_0": np.float32([1])}, "d")
    assert graph["a_0"].name == "a_0"
    assert graph["a:0"].name == "a_0_1"
    found = graph.output({"a:0": [5.0], "a_0": [1.0]}, "d")["d"]
    assert found.tolist() == [4.0]


def test_inner_tensors_are_known_by_the_names_of_the_model() -> None:
    nodes = [
        node("Relu", ["x"], ["/a/Relu_output_0"], name="/a/Relu"),
        node("Neg", ["/a/Relu_output_0"], ["a/Relu"], name=""),
        node("Split", ["a/Relu"], ["s:0", "s:1"], name="s", axis=0),
        node("Add", ["s:0", "s:1"], ["y"]),
    ]
    graph = gw.onnx.load(model(nodes, {"x": [2]}, ["y"], opset=13))
    names = ["/a/Relu_output_0", "a/Relu", "s:0", "s:1", "y"]
    found = gw.Session(graph).run(names, {"x": np.float32([3, -1])})
    assert [v.tolist() for v in found] == [[3, 0], [-3, 0], [-3], [0], [-3]]
    graph.rename(graph["/a/Relu_output_0"], "other")
    assert graph["/a/Relu_output_0"] is graph["other"]


def test_names_hold_what_no_letter_is() -> None:
    names = ["a\u200db", "a\u200cb", "ab", "日本", "<b>&\"'", "a b"]
    nodes = [node("Neg", [a], [b], name=b) for a, b in itertools.pairwise(names)]
    graph = gw.onnx.load(model(nodes, {names[0]: [2]}, names[1:]))
    found = gw.Session(graph).run(names[1:], {names[0]: np.float32([1, 2])})
    assert [v[0] for v in found] == [-1, 1, -1, 1, -1]
    assert len({graph[name].name for name in names}) == len(names)


def test_results_that_nothing_computes() -> None:
    """A stored tensor, an input and one of IR 3 that has a value may be outputs."""
    nodes = [node("Constant", [], ["c"], value_floats=[1.0, 2.0]), node("Neg", ["w"], ["y"])]
    proto = model(
        nodes, {"x": [2], "w": [2]}, ["c", "w", "x", "y"], stored={"w": np.float32([3, 4])}
    )
    proto.graph.value_info.extend([helper.make_tensor_value_info("y", FLOAT, [2])] * 2)
    graph = gw.onnx.load(proto)
    found = graph.output({"x": [5.0, 6.0]}, "c", "w", "x", "y")
    assert [v.tolist() for v in found.values()] == [[1, 2], [3, 4], [5, 6], [-3, -4]]
    agree(proto, {"x": np.float32([5, 6])}, "c", "w", "x", "y", again=False)


# -- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        ("?", "?"),
        ("?", "*"),
        ("高度", "宽度"),
        ("h-in", "h_in"),
        ("H/2", "H_2"),
        (-1, "x_0"),
        ("", ""),
    ],
)
def test_sizes_of_other_names_are_others(names: tuple[Any, Any]) -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": list(names)}, ["y"])
    graph = agree(proto, {"x": CUBE[0]}, "y")
    assert len(set(graph["x"].shape)) == 2


def test_one_name_is_one_size() -> None:
    inputs = {"x": ["h-in", "h_in"], "y": ["h_in", "h-in"]}
    graph = gw.onnx.load(model([node("MatMul", ["x", "y"], ["z"])], inputs, ["z"]))
    assert graph["y"].shape == graph["x"].shape[::-1]
    assert graph["z"].shape == (graph["x"].shape[0],) * 2


def test_shapes_that_the_caller_states() -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": ["n", 3]}, ["y"])
    assert gw.onnx.load(proto, shapes={"x": (2, 3)})["y"].shape == (2, 3)
    graph = gw.onnx.load(proto, shapes={"x": (None, "k")})
    assert str(graph["y"].spec) == "f32[x_0, k]"
    for shapes, message in (
        ({"z": (2, 3)}, "is no input"),
        ({"x": (2, 4)}, "need: what fits"),
        ({"x": (3,)}, "need: what fits"),
    ):
        with pytest.raises(GraphError, match=message):
            gw.onnx.load(proto, shapes=shapes)
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    assert gw.onnx.load(proto, shapes={"x": ("n", 3)})["y"].shape == (gw.Dim.symbol("n"), 3)
