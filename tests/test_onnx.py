"""Reading ONNX models in all their forms, refusing what is wrong with them, and writing graphs."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.catalogue import load
from gradwright.declare import REQUIRED
from gradwright.errors import ArchiveError, GradwrightError, GraphError, UnsupportedOpError
from gradwright.op import OPS

onnx = pytest.importorskip("onnx", reason="no onnx: pip install -e '.[onnx]'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: list[str],
    *,
    stored: dict[str, Any] | None = None,
    opset: int = 18,
    functions: Any = (),
    domains: Any = (),
) -> Any:
    """Return a model; inputs are shapes of floats, or (element type, shape)."""
    infos = [
        helper.make_tensor_value_info(
            name,
            *(
                spec
                if isinstance(spec, tuple) and len(spec) == 2 and isinstance(spec[1], list)
                else (FLOAT, list(spec))
            ),
        )
        for name, spec in inputs.items()
    ]
    results = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in (stored or {}).items()]
    graph = helper.make_graph(nodes, "test", infos, results, tensors)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions))


def run(proto: Any, feeds: dict[str, Any], *outputs: str) -> list[Any]:
    graph = gw.onnx.load(proto.SerializeToString())
    with gw.Session(graph) as session:
        found: list[Any] = session.run(list(outputs), feeds)
    return found


X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5
IMAGE = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
SOFT = np.exp(X - X.max()) / np.exp(X - X.max()).sum()
OLDER: list[tuple[str, int, dict[str, Any], Any, Any]] = [
    ("ReduceSum", 11, {"axes": [1], "keepdims": 0}, X, X.sum(1)),
    ("ReduceMean", 13, {"axes": [-1]}, X, X.mean(1, keepdims=True)),
    ("Unsqueeze", 11, {"axes": [0, 3]}, X, X[None, :, :, None]),
    ("Squeeze", 11, {"axes": [0]}, X[None], X),
    ("Slice", 9, {"starts": [0, -2], "ends": [1, 100]}, X, X[:1, -2:]),
    ("Pad", 10, {"pads": [0, 1, 0, 2]}, X, np.pad(X, ((0, 0), (1, 2)))),
    ("Softmax", 11, {"axis": 0}, X, SOFT),
    ("LogSoftmax", 11, {"axis": 0}, X, np.log(SOFT)),
    ("Clip", 6, {"min": -1.0, "max": 1.0}, X, X.clip(-1, 1)),
    ("Clip", 6, {"max": 1.0}, X, X.clip(None, 1)),
    ("TopK", 9, {"k": 2, "axis": 1}, X, X[:, :0:-1]),
    ("Upsample", 7, {"scales": [1.0, 2.0]}, X, X.repeat(2, 1)),
    ("Dropout", 10, {"ratio": 0.5}, X, X),
    ("Split", 11, {"axis": 1, "split": [1, 2]}, X, X[:, :1]),
    ("Cast", 9, {"to": INT64}, X, X.astype(np.int64)),
    ("ArgMax", 11, {"axis": 1, "keepdims": 0}, X, X.argmax(1)),
    ("Flatten", 9, {"axis": 1}, X[None], X.reshape(1, 6)),
    ("HardSigmoid", 6, {}, X, (X * 0.2 + 0.5).clip(0, 1)),
    ("MaxPool", 8, {"kernel_shape": [2, 2], "strides": [2, 2]}, IMAGE, IMAGE[:, :, 1::2, 1::2]),
    ("SpaceToDepth", 1, {"blocksize": 2}, IMAGE,
     np.stack([IMAGE[0, 0, i::2, j::2] for i in (0, 1) for j in (0, 1)])[None]),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "opset", "attrs", "x", "expected"), OLDER)
def test_older_opsets(op_type: str, opset: int, attrs: Any, x: Any, expected: Any) -> None:
    outputs = ["y", "z"] if op_type in ("TopK", "Split") else ["y"]
    node = helper.make_node(op_type, ["x"], outputs, **attrs)
    (y,) = run(model([node], {"x": x.shape}, ["y"], opset=opset), {"x": x}, "y")
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_constants_in_all_forms() -> None:
    forms: dict[str, Any] = {
        "value": numpy_helper.from_array(np.float32([1.5, 2.5])), "value_float": 0.5,
        "value_floats": [1.0, 2.0], "value_int": 3, "value_ints": [4, 5], "value_string": "a",
        "value_strings": ["b", "c"],
    }  # fmt: skip
    nodes = [helper.make_node("Constant", [], [key], **{key: v}) for key, v in forms.items()]
    values = numpy_helper.from_array(np.float32([7.0]), "values")
    indices = numpy_helper.from_array(np.int64([1]), "indices")
    sparse = helper.make_sparse_tensor(values, indices, [3])
    nodes.append(helper.make_node("Constant", [], ["sparse"], sparse_value=sparse))
    found = run(model(nodes, {}, [*forms, "sparse"]), {}, *forms, "sparse")
    assert [np.asarray(v).tolist() for v in found] == [
        [1.5, 2.5], 0.5, [1.0, 2.0], 3, [4, 5], "a", ["b", "c"], [0.0, 7.0, 0.0]
    ]  # fmt: skip


def test_values_fed_late_may_differ_from_run_to_run() -> None:
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    graph = gw.onnx.load(model([node], {"x": [2, 3], "axes": (INT64, [1])}, ["y"], opset=13))
    with gw.Session(graph) as session:
        for axis in (0, 1, 0):
            y = session.run("y", {"x": X, "axes": [axis]})
            np.testing.assert_allclose(y, X.sum(axis))
    slope = gw.gradients(graph["y"].sum(), [graph["x"]])
    assert (
        graph.output({"x": X, "axes": [1]}, *slope)[slope[0].name].tolist()
        == np.ones((2, 3)).tolist()
    )


def test_shapes_computed_in_the_graph_are_known_early() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    stored = {"zero": np.int64([0]), "rest": np.int64([3, 2])}
    graph = gw.onnx.load(model(nodes, {"x": ["N", 6]}, ["y"], stored=stored))
    assert graph["y"].shape == (gw.Dim.symbol("N"), 3, 2)


def test_functions_nest_take_attributes_and_have_defaults() -> None:
    inner = helper.make_function(
        "local", "Leak", ["a"], ["b"],
        [helper.make_node("LeakyRelu", ["a"], ["b"])], [helper.make_opsetid("", 18)],
        attribute_protos=[helper.make_attribute("slope", 0.5)],
    )  # fmt: skip
    reference = inner.node[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "slope", 1
    outer = helper.make_function(
        "local", "Twice", ["x"], ["y"],
        [
            helper.make_node("Leak", ["x"], ["h"], domain="local"),
            helper.make_node("Leak", ["h"], ["y"], domain="local", slope=0.1),
        ],
        [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)],
    )  # fmt: skip
    node = helper.make_node("Twice", ["x"], ["y"], domain="local")
    proto = model([node], {"x": [2, 3]}, ["y"], functions=[inner, outer], domains=["local"])
    (y,) = run(proto, {"x": X}, "y")
    np.testing.assert_allclose(y, np.where(X < 0, X * 0.05, X), rtol=1e-6)


def test_a_function_that_calls_itself_is_refused() -> None:
    body = [helper.make_node("Again", ["x"], ["y"], domain="local")]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    again = helper.make_function("local", "Again", ["x"], ["y"], body, imports)
    node = helper.make_node("Again", ["x"], ["y"], domain="local")
    proto = model([node], {"x": [2]}, ["y"], functions=[again], domains=["local"])
    with pytest.raises(ArchiveError, match="nest deeper"):
        gw.onnx.load(proto)


def test_branches_use_what_stands_outside() -> None:
    def branch(op_type: str) -> Any:
        out = helper.make_tensor_value_info("r", FLOAT, [2, 3])
        return helper.make_graph([helper.make_node(op_type, ["x", "w"], ["r"])], op_type, [], [out])

    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("Mul"), else_branch=branch("Add")
    )
    proto = model(
        [node], {"c": (TensorProto.BOOL, []), "x": [2, 3]}, ["y"], stored={"w": np.float32([2.0])}
    )
    for flag, expected in ((True, X * 2), (False, X + 2)):
        np.testing.assert_allclose(run(proto, {"c": flag, "x": X}, "y")[0], expected)


def test_all_unknown_operators_are_named_at_once() -> None:
    body = [helper.make_node("Mystery", ["x"], ["y"], domain="far")]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("far", 1)]
    called = helper.make_function("local", "Call", ["x"], ["y"], body, imports)
    nodes = [
        helper.make_node("Unheard", ["x"], ["a"]),
        helper.make_node("Unheard", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Call", ["c"], ["y"], domain="local"),
    ]
    proto = model(nodes, {"x": [2]}, ["y"], functions=[called], domains=["local", "far"])
    with pytest.raises(UnsupportedOpError) as caught:
        gw.onnx.load(proto)
    text = str(caught.value)
    assert "ai.onnx Unheard (opset 18): 2 nodes" in text
    assert "far Mystery (opset 1): 1 nodes" in text
    assert "Relu" not in text


def test_names_of_the_model_are_kept_and_outputs_are_found() -> None:
    nodes = [
        helper.make_node("Relu", ["in:0"], ["h"], name="/enc/layer.0/Relu"),
        helper.make_node("Split", ["h"], ["left", "right"], name="cut", axis=1, num_outputs=2),
        helper.make_node("Identity", ["w"], ["copy"]),
    ]
    proto = model(
        nodes, {"in:0": ["B", 4]}, ["left", "right", "h", "copy", "w", "in:0"],
        stored={"w": np.float32([1, 2])},
    )  # fmt: skip
    graph = gw.onnx.load(proto)
    assert [t.name for t in graph.placeholders] == ["in_0"]
    feeds = {"in_0": X[:, :2].repeat(2, 1)}
    found = graph.output(feeds, "left", "right", "h", "copy")
    np.testing.assert_allclose(found["left"], feeds["in_0"].clip(0)[:, :2])
    np.testing.assert_allclose(found["right"], feeds["in_0"].clip(0)[:, 2:])
    assert "cut" in {n.name for n in graph.nodes} or graph["left"].node.name == "left"
    assert graph["left"].shape[0] == gw.Dim.symbol("B")


def test_trainable_models_learn() -> None:
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    stored = {"w": np.float32([[1.0, 2.0, 3.0]]), "b": np.float32([0.5])}
    graph = gw.onnx.load(model([node], {"x": ["B", 3]}, ["y"], stored=stored), trainable=True)
    assert sorted(t.name for t in graph.trainable) == ["b", "w"]
    (dw,) = gw.gradients(graph["y"].sum(), [graph["w"]])
    np.testing.assert_allclose(graph.output({"x": X}, dw)[dw.name], X.sum(0)[None])
    assert not gw.onnx.load(model([node], {"x": ["B", 3]}, ["y"], stored=stored)).trainable


# -- external data -----------------------------------------------------------------------------


def external(location: str, **entries: Any) -> Any:
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [3]}, ["y"])
    tensor = proto.graph.initializer.add()
    tensor.name, tensor.data_type, tensor.data_location = "w", FLOAT, TensorProto.EXTERNAL
    tensor.dims.append(3)
    for key, value in {"location": location, **entries}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return proto


def test_external_data_of_the_models_folder(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"####" + np.float32([1, 2, 3]).tobytes())
    path = tmp_path / "model.onnx"
    path.write_bytes(external("w.bin", offset=4, length=12).SerializeToString())
    graph = gw.onnx.load(path)
    assert graph.output({"x": np.zeros(3, np.float32)}, "y")["y"].tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ArchiveError, match="load the model by its path"):
        gw.onnx.load(path.read_bytes())


@pytest.mark.parametrize(
    ("location", "entries", "message"),
    [
        ("../secret.bin", {}, "in the folder of the model"),
        ("{root}/secret.bin", {}, "in the folder of the model"),
        ("link.bin", {}, "in the folder of the model"),
        ("sub", {}, "in the folder of the model"),
        ("", {}, "in the folder of the model"),
        ("w.bin", {"offset": 8}, "does not fit"),
        ("w.bin", {"offset": 4, "length": 12}, "at most 12"),
        ("w.bin", {"offset": -4}, "a whole number"),
    ],
)
def test_external_data_elsewhere_is_refused(
    tmp_path: Path, location: str, entries: Any, message: str
) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(12))
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "w.bin").write_bytes(bytes(12))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    proto = external(location.format(root=tmp_path), **entries)
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ArchiveError, match=message):
        gw.onnx.load(folder / "m.onnx")


# -- what is wrong is refused ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([helper.make_node("Relu", ["nothing"], ["y"])], "nothing before it makes 'nothing'"),
        ([helper.make_node("Relu", ["x"], ["x"])], "given twice"),
        ([helper.make_node("Relu", ["x"], ["y"], slope=1.0)], "no attribute 'slope'"),
        ([helper.make_node("Concat", ["x", "x"], ["y"])], "lacks its attribute 'axis'"),
        ([helper.make_node("Relu", [], ["y"])], "Relu"),
        ([helper.make_node("Constant", [], ["y"])], "one attribute"),
        ([helper.make_node("Relu", ["x"], ["y", "z"]), helper.make_node("Abs", ["z"], ["w"])],
         "2 outputs are read"),
    ],
)  # fmt: skip
def test_models_that_are_not_valid(nodes: list[Any], message: str) -> None:
    with pytest.raises(GradwrightError, match=message):
        gw.onnx.load(model(nodes, {"x": [2, 3]}, ["y"]))


def test_damaged_files_raise_errors_of_ours_and_never_crash() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[2, 2], pads=[1, 0, 0, 1])
    tail = [
        helper.make_node("Shape", ["c"], ["s"]),
        helper.make_node("Reshape", ["c", "s"], ["r"]),
        helper.make_node("ReduceSum", ["r", "axes"], ["y"]),
    ]
    stored = {"w": np.ones((1, 1, 2, 2), np.float32), "axes": np.int64([1])}
    data = model([node, *tail], {"x": [1, 1, 4, 4]}, ["y"], stored=stored).SerializeToString()
    draw = random.Random(0)
    for number in range(400):
        damaged = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        if number % 5 == 0:
            damaged = damaged[: draw.randrange(len(damaged))]
        with contextlib.suppress(GradwrightError):
            gw.onnx.load(bytes(damaged))


def test_files_that_are_no_models() -> None:
    for data in (b"", b"\x00" * 64, b"PK\x03\x04" + bytes(100), b"\xff" * 32):
        with pytest.raises(ArchiveError):
            gw.onnx.load(data)
    with pytest.raises(FileNotFoundError):
        gw.onnx.load("/nowhere/at/all.onnx")


# -- writing -----------------------------------------------------------------------------------


def convolutional() -> gw.Graph:
    graph = gw.Graph("digits")
    init = gw.init.he_normal(seed=1)
    x = graph.placeholder("image", ("B", 1, 8, 8))
    with graph.scope("features"):
        w = graph.variable("w", (4, 1, 3, 3), init)
        x = gw.nn.relu(gw.cnn.conv2d(x, w, graph.variable("b", (4,)), padding="same"))
        x = gw.cnn.max_pool2d(x, 2)
        x = gw.nn.dropout(x, 0.5)
    with graph.scope("head"):
        x = x.reshape(-1, 4 * 16)
        x = gw.nn.linear(x, graph.variable("w", (64, 10), init), graph.variable("b", (10,)))
        gw.nn.softmax(x, name="p")
    return graph


def attending() -> gw.Graph:
    graph = gw.Graph("block")
    init = gw.init.he_normal(seed=2)
    ids = graph.placeholder("ids", ("B", "T"), "int64")
    x = gw.nn.embedding(ids, graph.variable("table", (11, 8), init))
    h = gw.nn.layer_norm(x, graph.variable("g", (8,), 1.0), graph.variable("b", (8,)))
    q, k, v = (h @ graph.variable(n, (8, 8), init) for n in "qkv")
    y = gw.nn.scaled_dot_product_attention(q, k, v)
    x = x + y
    x = x + gw.nn.gelu(x @ graph.variable("up", (8, 16), init)) @ graph.variable(
        "down", (16, 8), init
    )
    gw.nn.log_softmax(x[:, -1], name="log_p")
    return graph


FEEDS: dict[str, Any] = {
    "image": np.random.default_rng(0).standard_normal((3, 1, 8, 8)).astype(np.float32),
    "ids": np.array([[1, 2, 3, 4], [4, 10, 0, 1]]),
}


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize(("build", "output"), [(convolutional, "p"), (attending, "log_p")])
def test_networks_mean_the_same_to_onnx(build: Any, output: str, opset: int) -> None:
    from onnx.reference import ReferenceEvaluator

    graph = build()
    name = output if output in graph else "head/" + output
    proto = gw.onnx.to_model(graph, [name], opset=opset)
    onnx.checker.check_model(proto, full_check=True)
    feeds = {t.name: FEEDS[t.name] for t in graph.placeholders if t.name in FEEDS}
    expected = graph.output(feeds, name)[name]
    (theirs,) = ReferenceEvaluator(proto).run([name], feeds)
    np.testing.assert_allclose(theirs, expected, rtol=1e-4, atol=1e-6)
    again = gw.onnx.load(proto)
    np.testing.assert_allclose(again.output(feeds, name)[name], expected, rtol=1e-5, atol=1e-6)
    dims = [d.dim_param for d in proto.graph.input[0].type.tensor_type.shape.dim]
    assert dims[0] == "B"


def test_sizes_that_are_symbols_are_computed_when_run() -> None:
    graph = gw.Graph()
    x = graph.placeholder("x", ("B", "T", 2))
    b, t = x.shape[:2]
    with graph:
        places = gw.arange(t * 2 + 1)
    gw.broadcast_to(x.reshape(b * t, 2).sum(), (t, b), name="y")
    gw.concat([places, places], name="n")
    proto = gw.onnx.to_model(graph, ["y", "n"])
    onnx.checker.check_model(proto, full_check=True)
    feeds = {"x": np.ones((2, 3, 2), np.float32)}
    found = gw.onnx.load(proto).output(feeds, "y", "n")
    assert found["y"].tolist() == [[12.0, 12.0]] * 3
    assert found["n"].tolist() == [*range(7), *range(7)]


def test_control_flow_is_written_with_its_bodies() -> None:
    graph = gw.Graph()
    x, n = graph.placeholder("x", (3,)), graph.placeholder("n", (), "int64")
    chosen = gw.cond(x.sum() > 0.0, lambda: x * 2.0, lambda: -x, name="chosen")
    grown = gw.while_loop(lambda c: c.sum() < 100.0, lambda c: c * c + x, chosen, max_steps=5)
    last, sums = gw.scan(lambda c, v: (c + v, c * v), 0.0, x)
    total, powers = gw.loop(lambda i, c: (c < 50.0, c * 2.0, c), graph.constant(1.0), trip=n)
    results = [chosen, grown, last, sums, total, powers]
    proto = gw.onnx.to_model(graph, results)
    onnx.checker.check_model(proto, full_check=True)
    again = gw.onnx.load(proto)
    names = [o.name.replace(":", "_") for o in proto.graph.output]
    for values in ([1.0, 2.0, 3.0], [-1.0, -2.0, 0.5]):
        feeds = {"x": np.float32(values), "n": np.int64(4)}
        expected = graph.output(feeds, *results)
        found = again.output(feeds, *names)
        for a, b in zip(found.values(), expected.values(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_scan_from_the_last_item_to_the_first_is_written() -> None:
    graph = gw.Graph()
    x = graph.placeholder("x", ("T", 2))

    def step(c, v):
        return c * 0.5 + v + gw.cast(v.graph.step, "float32"), c * v

    last, ys = gw.scan(step, np.zeros(2, "float32"), x, reverse=True, name="back")
    (alone, _) = gw.scan(lambda c, v: (c - v, ()), x[0], x, reverse=True, name="only")
    results = [last, ys, alone]
    proto = gw.onnx.to_model(graph, results)
    onnx.checker.check_model(proto, full_check=True)
    names = [o.name.replace(":", "_") for o in proto.graph.output]
    feeds = {"x": np.arange(6, dtype="float32").reshape(3, 2)}
    expected, found = graph.output(feeds, *results), gw.onnx.load(proto).output(feeds, *names)
    for a, b in zip(found.values(), expected.values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_gradients_that_read_residuals_are_named() -> None:
    graph = gw.Graph()
    x = graph.placeholder("x", (3,))
    _, ys = gw.scan(lambda c, v: (gw.tanh(c + v), c), 0.0, x)
    with pytest.raises(UnsupportedOpError, match="the gradient of scan: 2 nodes"):
        gw.onnx.to_model(graph, gw.gradients(ys.sum(), [x]))


def test_what_onnx_cannot_express_is_named_at_once(tmp_path: Path) -> None:
    graph = gw.Graph()
    x = graph.placeholder("x", (2, 2))
    gw.linalg.inv(x)
    gw.linalg.qr(x)
    gw.linalg.inv(x + 1.0)
    path = tmp_path / "no.onnx"
    with pytest.raises(UnsupportedOpError, match=r"(?s)inv: 2 nodes.*qr: 1 nodes"):
        gw.onnx.save(graph, path)
    assert not path.exists()
    with pytest.raises(GraphError, match="opset 3 is not written"):
        gw.onnx.to_model(graph, opset=3)
    with pytest.raises(GraphError, match="no output"):
        gw.onnx.to_model(gw.Graph())


def test_defaults_of_operators_are_those_of_their_schemas() -> None:
    """An op read by its rule takes ONNX's default where a model leaves an attribute out."""
    from gradwright.io.onnx.node import READERS

    load()
    gw.onnx.operators()
    wrong = []
    for name, cls in OPS.items():
        rule = cls.onnx
        if rule is None or (rule.domain, rule.op_type) in READERS or "." in rule.domain[3:8]:
            continue
        schema = onnx.defs.get_schema(rule.op_type, max_inclusive_version=28, domain=rule.domain)
        ours = {rule.rename.get(k, k): k for k in cls.attrs if k not in rule.inputs}
        for key, attribute in schema.attributes.items():
            if key in rule.fixed or key in rule.defaults:
                continue
            if key not in ours:
                wrong.append(f"{name}: {rule.op_type} has {key}")
                continue
            default, held = attribute.default_value, cls.attrs[ours[key]].default
            if not default.name or held is REQUIRED or isinstance(held, np.dtype):
                continue
            stated = helper.get_attribute_value(default)
            stated = stated.decode() if isinstance(stated, bytes) else stated
            same = np.isclose(stated, held) if isinstance(held, float) else stated == held
            if not same:
                wrong.append(f"{name}: {key} is {held}, and {stated} in ONNX")
    assert not wrong


def test_regions_are_pooled_cell_by_cell() -> None:
    x = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
    rois = np.float32([[0, 0, 0, 3, 3], [0, 1, 1, 2, 3], [0, 3, 0, 3, 0]])
    node = helper.make_node("MaxRoiPool", ["x", "rois"], ["y"], pooled_shape=[2, 2])
    proto = model([node], {"x": x.shape, "rois": rois.shape}, ["y"], opset=22)
    (y,) = run(proto, {"x": x, "rois": rois}, "y")
    assert y[0, 0].tolist() == [[5.0, 7.0], [13.0, 15.0]]
    assert y[1, 0].tolist() == [[9.0, 10.0], [13.0, 14.0]]
    assert y[2, 1].tolist() == [[19.0, 19.0], [19.0, 19.0]]


def test_regular_operators_of_classical_models() -> None:
    table = {"imputed_value_floats": [5.0], "replaced_value_float": float("nan")}
    nodes = [
        helper.make_node("Imputer", ["x"], ["a"], domain="ai.onnx.ml", **table),
        helper.make_node("Scaler", ["a"], ["b"], domain="ai.onnx.ml", offset=[1.0], scale=[2.0]),
        helper.make_node("Normalizer", ["b"], ["y"], domain="ai.onnx.ml", norm="L1"),
        helper.make_node(
            "LinearRegressor", ["a"], ["z"], domain="ai.onnx.ml",
            coefficients=[1.0, 2.0, 3.0, 4.0], intercepts=[0.5, -0.5], targets=2,
        ),
    ]  # fmt: skip
    proto = model(nodes, {"x": [2, 2]}, ["y", "z"], domains=["ai.onnx.ml"])
    x = np.float32([[np.nan, 2.0], [3.0, 1.0]])
    y, z = run(proto, {"x": x}, "y", "z")
    filled = np.where(np.isnan(x), 5.0, x)
    scaled = (filled - 1) * 2
    np.testing.assert_allclose(y, scaled / np.abs(scaled).sum(1, keepdims=True))
    np.testing.assert_allclose(z, filled @ np.float32([[1, 3], [2, 4]]) + np.float32([0.5, -0.5]))


HOSTILE: list[tuple[str, Any, dict[str, Any]]] = [
    ("num_outputs", helper.make_node("Split", ["x"], ["y"], num_outputs=1 << 31), {"x": [6]}),
    ("axes", helper.make_node("ConstantOfShape", ["n"], ["y"]), {"n": (INT64, [1 << 40])}),
    ("rank", helper.make_node("Expand", ["x", "n"], ["y"]), {"x": [1], "n": (INT64, [1 << 40])}),
    ("circle", helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", tree_roots=[0], leaf_targetids=[0],
        nodes_featureids=[0, 0], nodes_truenodeids=[1, 0], nodes_falsenodeids=[1, 0],
        nodes_trueleafs=[0, 0], nodes_falseleafs=[0, 0],
        nodes_modes=numpy_helper.from_array(np.uint8([0, 0])),
        nodes_splits=numpy_helper.from_array(np.float32([0, 0])),
        leaf_weights=numpy_helper.from_array(np.float32([1.0])),
    ), {"x": [2, 1]}),
    ("nowhere", helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", tree_roots=[7], leaf_targetids=[0],
        nodes_featureids=[0], nodes_truenodeids=[0], nodes_falsenodeids=[0],
        nodes_trueleafs=[1], nodes_falseleafs=[1],
        nodes_modes=numpy_helper.from_array(np.uint8([0])),
        nodes_splits=numpy_helper.from_array(np.float32([0])),
        leaf_weights=numpy_helper.from_array(np.float32([1.0])),
    ), {"x": [2, 1]}),
]  # fmt: skip


@pytest.mark.parametrize(("message", "node", "inputs"), HOSTILE)
def test_nodes_that_would_take_all_memory_or_never_end(
    message: str, node: Any, inputs: dict[str, Any]
) -> None:
    proto = model([node], inputs, ["y"])
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 5))
    with pytest.raises(GradwrightError, match=message):
        gw.onnx.load(proto)


def test_operators_with_late_values_are_saved_replayed_and_written_again(tmp_path: Path) -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear")
    graph = gw.onnx.load(model([node], {"x": [1, 1, 1, 2], "s": [4]}, ["y"]))
    gw.save(graph, tmp_path / "late.gw")
    again = gw.load(tmp_path / "late.gw")
    written = gw.onnx.load(gw.onnx.to_model(graph, opset=18))
    x = np.float32([[[[0.0, 1.0]]]])
    for held in (graph, again, written):
        with gw.Session(held, check="replay") as session:
            for scale in (2.0, 3.0):
                y = session.run("y", {"x": x, "s": np.float32([1, 1, 1, scale])})
                assert y.shape == (1, 1, 1, 2 * scale)
    assert gw.onnx.to_model(graph, opset=19).graph.node[-1].op_type == "Resize"
    older = helper.make_node("Upsample", ["x", "s"], ["y"], mode="nearest")
    graph = gw.onnx.load(model([older], {"x": [1, 2], "s": [2]}, ["y"], opset=9))
    with pytest.raises(UnsupportedOpError, match="another operator in opset 19"):
        gw.onnx.to_model(graph, opset=19)
