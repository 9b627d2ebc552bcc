"""Two files compared: nodes by name and by structure, tensors by their numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradwright as gw
from gradwright.formats import comparing, stored
from gradwright.spec import dtype as as_dtype
from tests.formats.every_format import onnx

safetensors = pytest.importorskip("safetensors.numpy")


def network(scale: float = 1.0, *, layer: str = "dense", op=gw.tanh) -> gw.Graph:
    g = gw.Graph("net")
    x = g.placeholder("x", ("B", 3))
    with g.scope(layer):
        h = op(x @ g.variable("w", init=scale * np.arange(12.0, dtype="f4").reshape(3, 4)))
    gw.sum(h, name="y")
    return g


def compared(tmp_path, a, b):
    paths = tmp_path / "a.gw", tmp_path / "b.gw"
    for graph, path in zip((a, b), paths, strict=True):
        graph.save(path)
    return gw.compare_files(*paths)


def test_a_file_equals_itself(tmp_path):
    found = compared(tmp_path, network(), network())
    assert found.equal and found.graphs.same == 5
    assert "1 of 1 tensors are equal, 5 of 5 nodes are the same" in str(found)


def test_numbers_are_compared_as_numpy_does(tmp_path):
    found = compared(tmp_path, network(), network(1.5))
    (pair,) = found.tensors
    a = np.arange(12.0)
    assert (pair.max, pair.at, pair.status) == (5.5, (2, 3), "differs")
    assert pair.relative == pytest.approx(np.linalg.norm(0.5 * a) / np.linalg.norm(a))
    assert not found.equal and found.graphs.same == 5


def test_a_renamed_layer_is_found_by_its_structure(tmp_path):
    found = compared(tmp_path, network(), network(layer="hidden"))
    pairs = {(p.a, p.b): p.differs for p in found.graphs.changed}
    assert pairs[("dense/tanh", "hidden/tanh")] == ("name",)
    assert not found.graphs.added and not found.graphs.removed
    assert ("y", "y") not in pairs  # it reads the same, by another name
    assert [(t.name, t.other, t.status) for t in found.tensors] == [
        ("dense/w", "hidden/w", "equal")
    ]


def test_other_ops_are_changed_and_further_ones_added(tmp_path):
    b = network(op=lambda x: gw.exp(x, name="tanh"))
    gw.neg(b["y"], name="z")
    found = compared(tmp_path, network(), b)
    assert [(p.a, p.differs) for p in found.graphs.changed] == [("dense/tanh", ("op",))]
    assert found.graphs.added == ("z",) and not found.graphs.removed
    assert "dense/tanh" in found._repr_html_()


def test_archives_are_compared_with_other_formats(tmp_path):
    g = network()
    g.save(tmp_path / "a.gw")
    gw.onnx.save(g, tmp_path / "a.onnx")
    safetensors.save_file({"dense/w": g.values["dense/w"]}, tmp_path / "a.safetensors")
    with_onnx = gw.compare_files(tmp_path / "a.gw", tmp_path / "a.onnx")
    assert with_onnx.graphs is not None and with_onnx.tensors[0].status == "equal"
    other = gw.compare_files(tmp_path / "a.safetensors", tmp_path / "a.onnx")
    assert other.graphs is None and other.tensors[0].status == "equal"
    assert onnx is not None


@pytest.mark.parametrize(
    ("a", "b", "most", "at"),
    [
        ([1.0, np.nan], [1.0, np.nan], 0.0, ()),
        ([1.0, np.nan], [1.0, 2.0], math.inf, (1,)),
        ([np.inf, 1.0], [np.inf, 1.0], 0.0, ()),
        ([np.inf, 1.0], [-np.inf, 1.0], math.inf, (0,)),
        ([0.0, 3.0], [-0.0, 3.5], 0.5, (1,)),
    ],
)
def test_numbers_that_are_not_finite(tmp_path, a, b, most, at):
    for name, values in (("a", a), ("b", b)):
        safetensors.save_file({"x": np.array(values)}, tmp_path / name)
    (pair,) = gw.compare_files(tmp_path / "a", tmp_path / "b").tensors
    assert (pair.max, pair.at) == (most, at)


def test_dtypes_shapes_and_lone_tensors_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "PIECE", 16)
    values = np.linspace(-2, 2, 100)
    safetensors.save_file(
        {"x": values, "s": np.zeros(3), "mine": np.zeros(2), "i": np.arange(5)}, tmp_path / "a"
    )
    half = values.astype("f2")
    safetensors.save_file(
        {"x": half, "s": np.zeros(4), "their": np.zeros(7), "i": np.arange(5)}, tmp_path / "b"
    )
    found = {t.name or t.other: t for t in gw.compare_files(tmp_path / "a", tmp_path / "b").tensors}
    assert {n: t.status for n, t in found.items()} == {
        "x": "differs", "s": "shape", "mine": "only a", "their": "only b", "i": "equal",
    }  # fmt: skip
    assert found["x"].max == np.abs(values - half.astype("f8")).max()
    shapes = gw.compare_files(tmp_path / "a", tmp_path / "b", values=False).tensors
    assert all(math.isnan(t.max) for t in shapes)


def test_texts_and_narrow_numbers(tmp_path):
    def graph(words, four):
        g = gw.Graph()
        g.variable("four", init=np.array(four, as_dtype("int4")), trainable=False)
        g.constant(np.array(words, np.dtypes.StringDType()), name="words")
        return g

    found = compared(tmp_path, graph(["a", "b"], [1, -8]), graph(["a", "c"], [1, 7]))
    held = {t.name: t for t in found.tensors}
    assert (held["words"].status, held["words"].at) == ("differs", (1,))
    assert (held["four"].max, held["four"].at) == (15.0, (1,))


def test_pairs_are_told_before_numbers_are_read():
    spec = as_dtype("float32")
    one = {"a": comparing.TensorRange(spec, (2,), ()), "b": comparing.TensorRange(spec, (2,), ())}
    two = {"c": comparing.TensorRange(spec, (2,), ())}
    found = [(p.name, p.other) for p in comparing.paired(one, two)]
    assert found == [("a", ""), ("b", ""), ("", "c")]  # which of the two it is, nothing tells
