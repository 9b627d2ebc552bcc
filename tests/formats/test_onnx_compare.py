"""``gw.onnx.compare``: silent where both are right, and it names the op that is made wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.address import Address
from gradwright.errors import ArchiveError, FeedError, GraphError, UnsupportedOpError
from gradwright.op import find_op
from tests.formats.onnx_models import FLOAT, INT64, helper, model, numpy_helper, onnx
from tests.support.sweeps import IS_WHOLE

pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install -e '.[onnxruntime]'")

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


# -- models ----------------------------------------------------------------------------------------


def mlp() -> tuple[Any, dict[str, Any]]:
    g = gw.Graph("mlp")
    x = g.placeholder("x", ("B", 8))
    with g.scope("hidden"):
        h = gw.tanh(x @ g.variable("w", init=normal(8, 16)) + g.variable("b", init=normal(16)))
    gw.nn.softmax(gw.nn.layer_norm(h) @ g.variable("v", init=normal(16, 3)), name="p")
    return g, {"x": normal(4, 8)}


def cnn() -> tuple[Any, dict[str, Any]]:
    g = gw.Graph("cnn")
    x = g.placeholder("x", ("B", 3, 12, 12))
    h = gw.cnn.conv2d(x, g.variable("k", init=normal(8, 3, 3, 3)), padding="same")
    h = gw.nn.relu(h)
    h = gw.cnn.max_pool2d(h, 2) + gw.cnn.avg_pool2d(h, 2)
    gw.nn.gelu(h.mean(axis=(2, 3)) @ g.variable("w", init=normal(8, 5)), name="y")
    return g, {"x": normal(2, 3, 12, 12)}


def control() -> tuple[Any, dict[str, Any]]:
    g = gw.Graph("control")
    x = g.placeholder("x", (4, 3))

    def step(c: Any, item: Any) -> Any:
        new = gw.tanh(c * 0.5 + item)
        return new, gw.exp(new)

    last, ys = gw.scan(step, g.constant(np.zeros(3, np.float32)), x)
    chosen = gw.cond(last.sum() > 100.0, lambda: gw.sin(last), lambda: gw.cos(last) * 2.0)
    gw.add(chosen, ys.sum(axis=0), name="y")
    return g, {"x": normal(4, 3)}


def calls() -> tuple[Any, dict[str, Any]]:
    g = gw.Graph("calls")
    block = gw.function("block")(lambda x, w: gw.nn.relu(gw.sinh(x @ w) - 0.1))
    x = g.placeholder("x", ("B", 4))
    h = block(x, g.variable("w", init=normal(4, 4)))
    gw.cos(block(h, g.variable("v", init=normal(4, 4) / 4)), name="y")
    return g, {"x": normal(3, 4)}


def as_model(made: tuple[Any, dict[str, Any]]) -> tuple[Any, dict[str, Any]]:
    return gw.onnx.to_model(made[0]), made[1]


def branches() -> tuple[Any, dict[str, Any]]:
    def body(name: str, op_type: str) -> Any:
        node = helper.make_node(op_type, ["h"], [f"{name}_out"])
        info = helper.make_tensor_value_info(f"{name}_out", FLOAT, ["N"])
        return helper.make_graph([node], name, [], [info])

    nodes = [
        helper.make_node("Mul", ["x", "x"], ["h"]),
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node(
            "If", ["c"], ["y"], then_branch=body("a", "Exp"), else_branch=body("b", "Sqrt")
        ),
    ]
    made = model(nodes, {"x": ["N"]}, ["y"], stored={"zero": np.float32(0.0)})
    return made, {"x": np.float32([1.0, -3.0])}


def loop(depth: int = 1) -> tuple[Any, dict[str, Any]]:
    """A loop, or one in another; its body sees a name from outside."""
    inner = [
        helper.make_node("Mul", ["c_in", "w"], ["t"]),
        helper.make_node("Sin", ["t"], ["c_out"]),
    ]
    for level in range(depth):
        last = level == depth - 1
        names = ("c_in", "c_out") if level == 0 else (f"c_in{level}", f"c_out{level}")
        body = helper.make_graph(
            [helper.make_node("Identity", [f"go{level}"], [f"on{level}"]), *inner],
            f"body{level}",
            [
                helper.make_tensor_value_info(f"i{level}", INT64, []),
                helper.make_tensor_value_info(f"go{level}", onnx.TensorProto.BOOL, []),
                helper.make_tensor_value_info(names[0], FLOAT, ["N"]),
            ],
            [
                helper.make_tensor_value_info(f"on{level}", onnx.TensorProto.BOOL, []),
                helper.make_tensor_value_info(names[1], FLOAT, ["N"]),
            ],
        )
        ends = ("x", "y") if last else (f"c_in{level + 1}", f"c_out{level + 1}")
        inner = [helper.make_node("Loop", ["n", "yes", ends[0]], [ends[1]], body=body)]
    stored = {"n": np.int64(3), "yes": np.bool_(True), "w": np.float32([0.5, 2.0])}
    return model(inner, {"x": ["N"]}, ["y"], stored=stored), {"x": np.float32([1.0, 0.3])}


def function() -> tuple[Any, dict[str, Any]]:
    inner = [
        helper.make_node("Sigmoid", ["a"], ["s"]),
        helper.make_node("Elu", ["s"], ["e"]),
        helper.make_node("Mul", ["e", "a"], ["out"]),
    ]
    inner[1].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    made = helper.make_function(
        "mine", "Gate", ["a"], ["out"], inner, [helper.make_opsetid("", 18)], ["slope"]
    )
    nodes = [
        helper.make_node("Gate", ["x"], ["h"], domain="mine", slope=0.5),
        helper.make_node("Gate", ["h"], ["y"], domain="mine", slope=2.0),
    ]
    return model(nodes, {"x": ["N"]}, ["y"], functions=[made], domains=["mine"]), {"x": normal(5)}


def sequences() -> tuple[Any, dict[str, Any]]:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0),
        helper.make_node("SequenceAt", ["parts", "one"], ["part"]),
        helper.make_node("Exp", ["part"], ["y"]),
    ]
    return model(nodes, {"x": [3, 2]}, ["y"], stored={"one": np.int64(1)}), {"x": normal(3, 2)}


def quantised() -> tuple[Any, dict[str, Any]]:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("ArgMax", ["d"], ["y"], axis=1),
    ]
    made = model(nodes, {"x": [4, 9]}, [])
    made.graph.output.append(helper.make_tensor_value_info("y", INT64, None))
    return made, {"x": normal(4, 9)}


def halves() -> tuple[Any, dict[str, Any]]:
    g = gw.Graph("halves")
    x = g.placeholder("x", ("B", 64), "float16")
    gw.nn.softmax(x @ g.variable("w", init=normal(64, 7).astype(np.float16)), name="y")
    return g, {"x": normal(3, 64).astype(np.float16)}


def light(name: str) -> tuple[Any, dict[str, Any]]:
    """A model that comes with the onnx package, its constant weights made random."""
    found = onnx.load(LIGHT / f"light_{name}.onnx")
    rng, graph = np.random.default_rng(0), found.graph
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    kept = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = shapes[node.input[0]]
        scale = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
        array = rng.standard_normal(shape) * scale + (len(shape) == 1)
        graph.initializer.append(numpy_helper.from_array(array.astype("f"), node.output[0]))
    del graph.node[:]
    graph.node.extend(kept)
    stored = {t.name for t in graph.initializer}
    (data,) = (i for i in graph.input if i.name not in stored)
    shape = [d.dim_value or 1 for d in data.type.tensor_type.shape.dim]
    return found, {data.name: rng.standard_normal(shape).astype("f")}


MODELS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "mlp": mlp,
    "cnn": cnn,
    "control": control,
    "calls": calls,
    "written mlp": lambda: as_model(mlp()),
    "written cnn": lambda: as_model(cnn()),
    "written control": lambda: as_model(control()),
    "branches": branches,
    "loop": loop,
    "loop in loop": lambda: loop(2),
    "function": function,
    "sequences": sequences,
    "quantised": quantised,
    "halves": halves,
}


# -- right ones ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_right_models_agree(name: str) -> None:
    made, feeds = MODELS[name]()
    found = gw.onnx.compare(made, feeds)
    assert found.agrees and found.first is None, str(found)
    assert {row.verdict for row in found} == {"ok"}
    assert all(row.ratio <= 1.0 and row.own < 2e-3 for row in found)
    if name not in ("quantised", "function"):  # which onnx.reference does not run
        by = gw.onnx.compare(made, feeds, by="reference")
        assert by.agrees, str(by)


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_whole_networks_agree(name: str) -> None:
    made, feeds = light(name)
    found = gw.onnx.compare(made, feeds)
    assert found.agrees, str(found)
    assert len(found) > 60


# -- wrong ones ------------------------------------------------------------------------------------

MUTANTS = [
    ("mlp", "tanh", "hidden/tanh"),
    ("mlp", "layer_norm", "layer_norm"),
    ("cnn", "conv2d", "conv2d"),
    ("cnn", "avg_pool2d", "avg_pool2d"),
    ("control", "exp", "scan:0:exp"),
    ("control", "cos", "cond:else:cos"),
    ("calls", "sinh", "block::sinh"),
    ("written mlp", "tanh", "hidden/tanh"),
    ("written control", "cos", "cond/cond:else:cond/else_branch/cos"),
    ("branches", "sqrt", "y:else:b_out"),
    ("loop", "sin", "y:0:c_out"),
    ("loop in loop", "sin", "y:0:c_out1:0:c_out"),
    ("function", "elu", "h/e"),
    ("quantised", "dequantize_linear", "d"),
    ("halves", "softmax", "y"),
    ("light", "max_pool2d", "n2"),
]


def wrong(monkeypatch: pytest.MonkeyPatch, op: str) -> None:
    """Have an op compute a thousandth too much."""
    cls = find_op(op)
    right = cls.forward

    def forward(self: Any, *xs: Any) -> Any:
        y = right(self, *xs)
        if isinstance(y, tuple):
            return (_more(y[0]), *y[1:])
        return _more(y)

    monkeypatch.setattr(cls, "forward", forward)


def _more(y: Any) -> Any:
    factor = 1.01 if y.dtype == np.float16 else 1.001
    return (y * factor).astype(y.dtype)


@pytest.mark.parametrize(("name", "op", "address"), MUTANTS)
def test_a_wrong_op_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, op: str, address: str
) -> None:
    made, feeds = light("squeezenet") if name == "light" else MODELS[name]()
    wrong(monkeypatch, op)
    found = gw.onnx.compare(made, feeds)
    first = found.first
    assert first is not None and first.op == op, str(found)
    assert first.name == address and first.own > 5e-4
    assert {row.op for row in found.faults} == {op}
    expected = "" if name == "quantised" else "onnx.reference agrees with ONNX Runtime"
    assert first.second == expected
    for drawn in first.drawn:  # what a drawing lights is there
        assert Address.parse(drawn).find(found.graph).node.op.name == op
    monkeypatch.undo()
    assert gw.onnx.compare(made, feeds).agrees


def test_what_inherits_an_error_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    made, feeds = cnn()
    wrong(monkeypatch, "relu")
    found = gw.onnx.compare(made, feeds)
    after = found["max_pool2d"]
    assert after.verdict == "ok" and after.own < 1e-6 < 9e-4 < after.error
    assert found["y"].verdict == "ok"


def test_a_scope_is_told_by_the_worst_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made, feeds = mlp()
    wrong(monkeypatch, "tanh")
    assert gw.onnx.compare(made, feeds)["hidden/"].name == "hidden/tanh"
    made, feeds = function()
    found = gw.onnx.compare(made, feeds)
    assert found["h/"].onnx in ("Gate 'h'", "Sigmoid 's'")
    assert any(row.name == "h/" and row.op == "sigmoid + elu + mul" for row in found)


def test_what_encloses_it_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    made, feeds = loop(2)
    wrong(monkeypatch, "sin")
    found = gw.onnx.compare(made, feeds)
    assert found["y"].verdict == "inside" and "c_out" in found["y"].reason
    assert [row.op for row in found.faults] == ["sin"]


def test_a_fault_of_a_late_turn_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = find_op("sin")
    right = cls.forward
    made, feeds = loop()
    late = np.sin(np.sin(feeds["x"] * [0.5, 2.0]).astype("f") * np.float32([0.5, 2.0]))

    def forward(self: Any, x: Any) -> Any:
        y = right(self, x)
        return y + (0.01 if np.allclose(x, late * np.float32([0.5, 2.0]), atol=1e-3) else 0.0)

    monkeypatch.setattr(cls, "forward", lambda self, x: forward(self, x).astype(x.dtype))
    for turns in (0, 1, 16):
        assert gw.onnx.compare(made, feeds, turns=turns).first.name == "y:2:c_out"
    monkeypatch.undo()
    assert len(gw.onnx.compare(made, feeds, turns=0)) == 1  # and right ones are not opened


def test_the_result_of_a_wrong_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    made, feeds = as_model(mlp())
    monkeypatch.setattr(find_op("tanh"), "forward", lambda self, x: np.tanh(x).T.copy())
    found = gw.onnx.compare(made, feeds)
    assert found.first.verdict == "fails" and found.first.name == "hidden/tanh"


def test_a_node_that_fails_here_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(self: Any, x: Any) -> Any:
        raise ValueError("out of ink")

    made, feeds = mlp()
    monkeypatch.setattr(find_op("tanh"), "forward", forward)
    found = gw.onnx.compare(made, feeds)
    assert (found.first.name, found.first.verdict) == ("hidden/tanh", "fails")
    assert "out of ink" in found.first.reason
    assert found["layer_norm"].verdict == "ok"  # on the inputs that it has there
    assert np.isnan(found["layer_norm"].error)


# -- what is special -------------------------------------------------------------------------------


def test_what_is_drawn_at_random_is_not_compared() -> None:
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["r"], dtype=1),
        helper.make_node("Exp", ["r"], ["y"]),
    ]
    found = gw.onnx.compare(model(nodes, {"x": [4]}, ["y"]), {"x": normal(4)})
    assert [row.verdict for row in found] == ["random", "ok"] and found.agrees
    assert "1 not compared" in repr(found)


def test_ties_of_a_rounding_are_no_mistakes() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "third"], ["h"]),
        helper.make_node("QuantizeLinear", ["h", "scale", "zero"], ["y"]),
    ]
    stored = {"third": np.float32(1 / 3), "scale": np.float32(1 / 3), "zero": np.uint8(0)}
    made = model(nodes, {"x": [512]}, [], stored=stored)
    made.graph.output.append(helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, None))
    found = gw.onnx.compare(made, {"x": np.arange(512, dtype="f") / 2})
    assert found.agrees, str(found)


def test_masks_hide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One huge number in a tensor does not excuse the others."""
    nodes = [helper.make_node("Tanh", ["x"], ["h"]), helper.make_node("Add", ["h", "m"], ["y"])]
    made = model(nodes, {"x": [64], "m": [64]}, ["y"])
    mask = np.zeros(64, np.float32)
    mask[::4] = np.finfo(np.float32).min
    wrong(monkeypatch, "add")
    found = gw.onnx.compare(made, {"x": normal(64), "m": mask})
    assert found.first.op == "add"


def test_a_sum_in_another_order_is_rounding() -> None:
    made = model([helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)], {"x": [300_000]}, ["y"])
    x = np.random.default_rng(0).standard_normal(300_000).astype("f")
    x -= x.mean()  # what is left is rounding
    found = gw.onnx.compare(made, {"x": x})
    assert found.agrees and found["y"].own > 1e-6 and "terms" in found["y"].reason, str(found)


def test_external_data_is_read_beside_the_file(tmp_path: Path) -> None:
    made, feeds = as_model(mlp())
    path = tmp_path / "net.onnx"
    onnx.save_model(made, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert gw.onnx.compare(path, feeds).agrees
    assert gw.onnx.compare(str(path), feeds, by="onnxruntime").agrees


def test_outputs_that_nobody_reads_are_left_alone() -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p", "where"], kernel_shape=[2, 2]),
        helper.make_node("Relu", ["p"], ["y"]),
    ]
    found = gw.onnx.compare(model(nodes, {"x": [1, 1, 4, 4]}, ["y"]), {"x": normal(1, 1, 4, 4)})
    assert found.agrees and "where" not in str(found)


# -- the report ------------------------------------------------------------------------------------


def test_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    made, feeds = cnn()
    wrong(monkeypatch, "relu")
    found = gw.onnx.compare(made, {made["x"]: feeds["x"]})
    assert found.worst(1) == [found.first] and found.first in found.faults
    assert found.graph is made and len(found) == len(list(found))
    assert repr(found) == "<'cnn' beside ONNX Runtime: the first that differs is relu 'relu'>"
    assert "test_onnx_compare.py" in found.first.where
    assert found.colours["relu"] > 100 > 1 > found.colours["conv2d"] >= 1e-3
    assert set(found.colours) <= {node.name for node in made.nodes}
    lines = str(found.table(1)).splitlines()
    assert "relu" in lines[2] and lines[-1] == f"and {len(found) - 1} more, by table(None)"
    assert len(found.table(None).rows) == len(found)
    assert "<table>" in found._repr_html_()
    with pytest.raises(GraphError, match="'nothing' was compared"):
        found["nothing"]
    assert "relu 'relu'" in str(found.first)


def test_outputs_are_chosen_of_a_graph() -> None:
    made, feeds = cnn()
    found = gw.onnx.compare(made, feeds, outputs=["relu"], opset=18)
    assert [row.name for row in found] == ["conv2d", "relu"]


@pytest.mark.parametrize(
    ("feeds", "told"),
    [
        ({}, "input 'x' is not fed"),
        ({"z": 1.0}, "no input 'z'"),
        ({"x": normal(4)}, "rank 1"),
        ({"x": normal(4, 9)}, "size 9 on axis 1"),
    ],
)
def test_feeds_that_do_not_fit(feeds: Any, told: str) -> None:
    for made in (mlp()[0], as_model(mlp())[0]):
        with pytest.raises(FeedError, match=told):
            gw.onnx.compare(made, feeds)


def test_what_is_asked_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, feeds = as_model(mlp())
    with pytest.raises(GraphError, match="by='torch'"):
        gw.onnx.compare(made, feeds, by="torch")  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="turns=-1"):
        gw.onnx.compare(made, feeds, turns=-1)
    with pytest.raises(GraphError, match="outputs are chosen where a graph is given"):
        gw.onnx.compare(made, feeds, outputs=["p"])
    with pytest.raises(ArchiveError):
        gw.onnx.compare(b"no model", feeds)
    with pytest.raises(GraphError, match="no provider"):
        gw.onnx.compare(made, feeds, providers=["TPU"])
    made.ir_version = 99
    with pytest.raises(UnsupportedOpError, match="newer than this ONNX Runtime"):
        gw.onnx.compare(made, feeds)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(GraphError, match="pip install"):
        gw.onnx.compare(made, feeds)


# -- the node cases of ONNX's suite ----------------------------------------------------------------


SHARE = [] if IS_WHOLE else ["--few"]


def test_the_suite_agrees() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.formats.onnx_comparing", *SHARE],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
