"""Arguments of ``gw.onnx`` and ``gw.inspect`` that make no sense: a sentence each, no crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, FeedError, GradwrightError, GraphError

ODD: list[Any] = [None, 0, 1.5, object(), b"\x00", {"a"}, np.zeros(3), int, "a\0b", Path("\ud800")]


@pytest.fixture
def net() -> gw.Graph:
    graph = gw.Graph("net")
    gw.nn.softmax(graph.placeholder("x", ("B", 3)), name="probability")
    return graph


@pytest.mark.parametrize("path", ODD)
def test_what_is_no_path(net: gw.Graph, path: Any) -> None:
    readers = (gw.onnx.load, gw.onnx.compare, gw.onnx.Runner, gw.inspect)
    for read in readers:
        with pytest.raises(
            ArchiveError,
            match=r"is no path|is no model|there is no file|no ONNX model|does not open",
        ):
            read(path)
    with pytest.raises(ArchiveError, match="is no path"):
        gw.onnx.save(net, path)


@pytest.mark.parametrize("content", [b"", b"hello, this is text\n", b"\0" * 64, b'{"a": 1}'])
def test_files_of_something_else(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    for read in (gw.onnx.load, gw.onnx.Runner, gw.onnx.compare):
        with pytest.raises(GradwrightError):
            read(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.onnx"):
        with pytest.raises(OSError, match=str(path)):
            gw.onnx.load(path)
        with pytest.raises(ArchiveError, match="there is no file"):
            gw.onnx.Runner(path)


@pytest.mark.parametrize("graph", [None, 3, "net", gw.nn.relu])
def test_what_is_no_graph(tmp_path: Path, graph: Any) -> None:
    for call in (gw.onnx.to_model, lambda g: gw.onnx.save(g, tmp_path / "a.onnx"), gw.recognize):
        with pytest.raises(GraphError, match="is no graph"):
            call(graph)
    assert not list(tmp_path.iterdir())


def test_one_output_by_itself_is_no_list_of_its_letters(net: gw.Graph) -> None:
    wrong: list[Any] = ["probability", net["probability"], 3, net]
    for call in (gw.onnx.to_model, gw.recognize, gw.onnx.Runner):
        for outputs in wrong:
            with pytest.raises(GraphError, match="need: a list of tensors or names"):
                call(net, outputs=outputs)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"shapes": [2, 3]}, "need: {"),
        ({"shapes": {"x": 3}}, "a tuple of sizes"),
        ({"shapes": {"x": "B3"}}, "a tuple of sizes"),
        ({"shapes": {"x": (-1, 3)}}, "a tuple of sizes"),
        ({"shapes": {1: (2, 3)}}, "names '1', which is no input"),
        ({"recognize": "gelu"}, r"need: a list of kinds\n  try:  \['gelu'\]"),
        ({"recognize": 1.5}, "need: a list of kinds"),
        ({"recognize": [None]}, "nothing called None"),
    ],
)
def test_wrong_arguments_of_load(net: gw.Graph, named: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        gw.onnx.load(gw.onnx.to_model(net), **named)


@pytest.mark.parametrize("value", ODD)
def test_wrong_arguments_of_writing_and_inspecting(
    tmp_path: Path, net: gw.Graph, value: Any
) -> None:
    path = tmp_path / "net.onnx"
    with pytest.raises(GraphError, match="is not written"):
        gw.onnx.to_model(net, opset=value)
    if type(value) is not int:
        with pytest.raises(GraphError, match="is no number of bytes"):
            gw.onnx.save(net, path, external=True, threshold=value)
    assert not path.exists()
    if value is not None:
        gw.onnx.save(net, path)
        with pytest.raises(GraphError, match="sizes="):
            gw.inspect(path, value)


@pytest.mark.parametrize("value", [0, 1.5, "", object(), np.zeros(2)])
def test_wrong_arguments_of_reads_maps_and_forget(value: Any) -> None:
    for name in ("attributes", "outputs"):
        with pytest.raises(TypeError, match=name):
            gw.onnx.reads("A", domain="odd", **{name: value})
    for name in ("attributes", "takes", "leaves", "inputs", "needs", "gives", "outputs"):
        with pytest.raises(TypeError, match=f"^{name}"):
            gw.onnx.maps("A", "relu", domain="odd", **{name: value})
    for call in (gw.onnx.reads, gw.onnx.forget, lambda name: gw.onnx.maps(name, "relu")):
        with pytest.raises(TypeError, match="named by text"):
            call(value)
    with pytest.raises(TypeError, match="attributes are of no type"):
        gw.onnx.attribute([value])
    assert ("odd", "A") not in gw.onnx.operators()


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"providers": 3}, "need: a name, or a list"),
        ({"providers": ()}, "need: a name, or a list"),
        ({"providers": ""}, "has no provider ''"),
        ({"options": 3}, "SessionOptions"),
        ({"optimize": []}, "is not known"),
        ({"threads": 2**40}, "no number of threads"),
    ],
)
def test_wrong_arguments_of_a_runner(net: gw.Graph, named: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        gw.onnx.Runner(net, **named)


def test_wrong_arguments_of_runs(net: gw.Graph) -> None:
    x = np.ones((2, 3), np.float32)
    with gw.onnx.Runner(net) as runner:
        with pytest.raises(FeedError, match="need: a name, a list, or None"):
            runner.run(3, {"x": x})  # type: ignore[call-overload]
        with pytest.raises(FeedError, match="into is a float"):
            runner.run(None, {"x": x}, into=1.5)  # type: ignore[call-overload]
        for shared in (None, 3, "x"):
            with pytest.raises(FeedError, match="need: a list of inputs"):
                runner.predict({"x": x}, shared=shared)  # type: ignore[arg-type]
    with pytest.raises(FeedError, match="the feeds are a list"):
        gw.onnx.compare(net, [x])  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="is not known"):
        gw.onnx.compare(net, {"x": x}, by=[])  # type: ignore[arg-type]
