"""``gw.onnx.Runner``: ONNX Runtime with the face of a session, on the memory that it is lent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, FeedError, GraphError, UnsupportedOpError
from tests.formats.onnx_models import FLOAT, INT64, helper, model, onnx

ort = pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install -e '.[onnxruntime]'")

TENSOR = onnx.TensorProto
X = np.arange(6, dtype=np.float32).reshape(3, 2)


def neg(shape: Any = ("B", 2), dtype: int = FLOAT) -> Any:
    node = helper.make_node("Neg", ["x"], ["y"])
    made = model([node], {"x": (dtype, list(shape))}, ["y"])
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", dtype, list(shape)))
    return made


def typed(nodes: list[Any], inputs: list[Any], outputs: list[Any], **domains: int) -> Any:
    graph = helper.make_graph(nodes, "typed", inputs, outputs)
    imports = [
        helper.make_opsetid("", 18),
        *(helper.make_opsetid(d, v) for d, v in domains.items()),
    ]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def info(name: str, dtype: int, shape: Any) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


# -- a session's face ------------------------------------------------------------------------------


def test_it_takes_and_returns_what_a_session_does(tmp_path: Path) -> None:
    g = gw.Graph("net")
    x = g.placeholder("x", ("B", 2))
    h = gw.nn.relu(x @ g.variable("w", init=np.float32([[1, -1], [2, 0.5]])), name="h")
    total = h.sum(name="total")
    path = tmp_path / "net.onnx"
    gw.onnx.save(g, path, [h, total])
    proto = gw.onnx.to_model(g, [h, total])
    ours = gw.Session(g).run(["h", "total"], {"x": X})
    for source in (path, str(path), path.read_bytes(), proto):
        with gw.onnx.Runner(source) as runner:
            assert runner.names == ["h", "total"]
            assert str(runner.inputs["x"]) == "f32[B, 2]"
            assert str(runner.outputs["total"]) == "tensor(float)"  # of any rank, it says
            both = runner.run(None, {"x": X})
            assert [type(y) for y in both] == [np.ndarray, np.ndarray]
            for y, mine in zip(both, ours, strict=True):
                np.testing.assert_allclose(y, mine, rtol=1e-6)
            assert np.array_equal(runner.run("h", {"x": X.tolist()}), both[0])
            assert len(runner.run(["total"], {"x": X.astype("float64")})) == 1
    with gw.onnx.Runner(g, outputs=["total"], opset=20, optimize="off", threads=1) as runner:
        assert runner.names == ["total"]


def test_a_closed_one_says_so() -> None:
    with gw.onnx.Runner(neg()) as runner:
        y = runner.run("y", {"x": X})
    assert runner.closed and repr(runner) == "<Runner: closed>"
    assert np.array_equal(y, -X)
    for use in (
        lambda: runner.run(None, {"x": X}),
        lambda: runner.predict({"x": X}),
        lambda: runner.bind({"x": X}),
    ):
        with pytest.raises(GraphError, match="closed"):
            use()


def test_results_outlive_the_runner() -> None:
    runner = gw.onnx.Runner(neg())
    results = [runner.run("y", {"x": X + i}) for i in range(8)]
    runner.close()
    del runner
    junk = [np.full((3, 2), np.nan, np.float32) for _ in range(64)]
    assert all(np.array_equal(y, -(X + i)) for i, y in enumerate(results)) and junk


def test_sequences_go_in_and_out() -> None:
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    nodes = [helper.make_node("SequenceInsert", ["s", "x"], ["t"])]
    after = helper.make_tensor_sequence_value_info("t", FLOAT, None)
    with gw.onnx.Runner(typed(nodes, [sequence, info("x", FLOAT, ["N"])], [after])) as runner:
        assert runner.inputs["s"].kind == runner.outputs["t"].kind == "sequence"
        items = runner.run("t", {"s": [[1.0], np.float32([2.0, 3.0])], "x": np.float32([4.0])})
        assert [item.tolist() for item in items] == [[1.0], [2.0, 3.0], [4.0]]
        with pytest.raises(FeedError, match="'s' is fed with a str"):
            runner.run("t", {"s": "text", "x": [1.0]})


def test_maps_go_in_and_out() -> None:
    zipped = helper.make_node(
        "ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[7, 9]
    )
    one = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, []))
    out = helper.make_value_info("z", helper.make_sequence_type_proto(one))
    made = typed([zipped], [info("x", FLOAT, ["N", 2])], [out], **{"ai.onnx.ml": 3})
    rows = [{7: 0.0, 9: 1.0}, {7: 2.0, 9: 3.0}, {7: 4.0, 9: 5.0}]
    with gw.onnx.Runner(made) as runner:
        assert runner.run("z", {"x": X}) == rows
        assert runner.predict({"x": X}, "z", batch_size=2) == rows
    vectorizer = helper.make_node(
        "DictVectorizer", ["m"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b", "c"]
    )
    kind = helper.make_map_type_proto(TENSOR.STRING, helper.make_tensor_type_proto(FLOAT, []))
    made = typed(
        [vectorizer], [helper.make_value_info("m", kind)], [info("y", FLOAT, [1, 3])],
        **{"ai.onnx.ml": 3},
    )  # fmt: skip
    with gw.onnx.Runner(made) as runner:
        assert runner.inputs["m"].kind == "map"
        assert runner.run("y", {"m": {"c": 2.0, "a": 1.0}}).tolist() == [[1.0, 0.0, 2.0]]
        with pytest.raises(FeedError, match="need: a dict"):
            runner.run("y", {"m": [1.0]})


def test_text_is_text() -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    made = typed([node], [info("x", TENSOR.STRING, ["N"])], [info("y", TENSOR.STRING, ["N"])])
    with gw.onnx.Runner(made) as runner:
        y = runner.run("y", {"x": ["a", "größer"]})
        assert y.tolist() == ["a", "größer"] and y.dtype == gw.spec.dtype("str")


@pytest.mark.parametrize(
    "name", ["bfloat16", "float8_e4m3fn", "float16", "bool", "int8", "float64"]
)
def test_every_dtype_comes_back(name: str) -> None:
    dtype = gw.spec.dtype(name)
    number = gw.formats.onnx.dtypes.element_type(dtype)
    node = helper.make_node("Identity", ["x"], ["y"])
    made = typed([node], [info("x", number, ["N"])], [info("y", number, ["N"])])
    made.opset_import[0].version = 20
    x = np.array([0, 1, 1, 0, 1], dtype)
    with gw.onnx.Runner(made) as runner:
        for given in (x, x[:0], x[::2]):
            y = runner.run("y", {"x": given})
            assert y.dtype == dtype and np.array_equal(y, given)
        assert runner.inputs["x"].dtype == dtype


# -- memory ----------------------------------------------------------------------------------------


def address(value: Any) -> int:
    return int(value.ctypes.data if isinstance(value, np.ndarray) else value.data_ptr())


def test_nothing_is_copied_on_the_way_in() -> None:
    infos = gw.onnx.Runner(neg()).inputs["x"]
    from gradwright.formats.onnx.runtime.ports import as_ortvalue

    lent = ort.OrtValue.ortvalue_from_numpy(X)
    assert as_ortvalue(infos, lent) is lent
    assert address(as_ortvalue(infos, X)) == address(X)
    torch = pytest.importorskip("torch")
    t = torch.arange(6.0).reshape(3, 2)
    assert address(as_ortvalue(infos, t)) == t.data_ptr()
    turned = torch.arange(6.0).reshape(2, 3).T  # strides cannot be lent, but fed
    with gw.onnx.Runner(neg()) as runner:
        assert np.array_equal(runner.run("y", {"x": turned}), -turned.numpy())
        assert np.array_equal(runner.run("y", {"x": np.asfortranarray(X)}), -X)


def test_nothing_is_copied_on_the_way_out() -> None:
    with gw.onnx.Runner(neg()) as runner:
        (value,) = runner.run_ortvalues("y", {"x": X})
        assert address(np.from_dlpack(value)) == value.data_ptr()
        assert address(value.numpy()) == value.data_ptr()
        assert np.array_equal(runner.run("y", {"x": value}), X)  # and on into the next
        torch = pytest.importorskip("torch")
        assert torch.from_dlpack(value).data_ptr() == value.data_ptr()


def test_a_bfloat16_of_torch_goes_through() -> None:
    torch = pytest.importorskip("torch")
    node = helper.make_node("Identity", ["x"], ["y"])
    number = TENSOR.BFLOAT16
    made = typed([node], [info("x", number, ["N"])], [info("y", number, ["N"])])
    x = torch.tensor([1.5, -2.0]).bfloat16()
    with gw.onnx.Runner(made) as runner:
        assert torch.equal(torch.from_dlpack(runner.run_ortvalues("y", {"x": x})[0]), x)
        assert runner.run("y", {"x": x}).astype(np.float32).tolist() == [1.5, -2.0]


def test_outputs_are_written_in_place() -> None:
    with gw.onnx.Runner(neg()) as runner:
        place = np.full((3, 2), np.nan, np.float32)
        where = address(place)
        (y,) = runner.run(["y"], {"x": X}, into={"y": place})
        assert y is place and address(y) == where and np.array_equal(place, -X)
        value = ort.OrtValue.ortvalue_from_numpy(np.zeros((3, 2), np.float32))
        assert runner.run(["y"], {"x": X}, into={"y": value})[0] is value
        assert np.array_equal(value.numpy(), -X)
        torch = pytest.importorskip("torch")
        t = torch.zeros(3, 2)
        assert runner.run(["y"], {"x": X}, into={"y": t})[0] is t
        assert np.array_equal(t.numpy(), -X)


def test_what_is_bound_is_read_and_written_anew() -> None:
    with gw.onnx.Runner(neg()) as runner:
        x, place = X.copy(), np.empty((3, 2), np.float32)
        binding = runner.bind({"x": x}, into={"y": place})
        for i in range(3):
            x[:] = i
            assert binding.run()["y"] is place and np.array_equal(place, -x)
        free = runner.bind({"x": x})
        assert np.array_equal(free.run()["y"], -x)


def test_places_that_do_not_fit_are_refused() -> None:
    with gw.onnx.Runner(neg()) as runner:
        frozen = np.empty((3, 2), np.float32)
        frozen.flags.writeable = False
        for place, told in (
            (np.empty((3, 2)), "is float32 and is lent float64"),
            (np.empty((3, 5), np.float32), "size 5 on axis 1"),
            (np.empty(6, np.float32), "rank 1"),
            (np.empty((2, 3), np.float32).T, "not contiguous"),
            (frozen, "read-only"),
            ([0.0], "into a list"),
            (ort.OrtValue.ortvalue_from_numpy(np.zeros((3, 2))), "lent float64"),
        ):
            with pytest.raises(FeedError, match=told):
                runner.run(None, {"x": X}, into={"y": place})
        with pytest.raises(FeedError, match="another shape"):
            runner.run(None, {"x": X}, into={"y": np.empty((4, 2), np.float32)})
        with pytest.raises(FeedError, match="no output 'z'"):
            runner.run(None, {"x": X}, into={"z": frozen})


# -- batches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", ["B", 4])
def test_rows_go_through_in_batches(batch: Any) -> None:
    g = gw.Graph()
    x, scale = g.placeholder("x", (batch, 3)), g.placeholder("scale", (3,))
    y = gw.mul(x, scale, name="y")
    p = gw.nn.softmax(y, name="p")
    rng = np.random.default_rng(0)
    rows, factor = rng.standard_normal((11, 3), np.float32), np.float32([1, 2, 3])
    with gw.onnx.Runner(g, outputs=[y, p]) as runner:
        found = runner.predict({"x": rows, "scale": factor}, batch_size=4, shared=["scale"])
        assert np.array_equal(found[0], rows * factor)
        expected = gw.Session(g).run("p", {"x": rows[:4], "scale": factor})
        np.testing.assert_allclose(found[1][:4], expected, rtol=1e-6)
        assert runner.predict({"x": rows[:1], "scale": factor}, "p", shared=["scale"]).shape == (
            1,
            3,
        )


def test_what_has_no_rows_is_refused() -> None:
    g = gw.Graph()
    x, t = g.placeholder("x", ("B", 2)), g.placeholder("t", ("B", 2))
    gw.mul(x, t, name="y")
    gw.sum(x * t, name="total")
    with gw.onnx.Runner(g, outputs=["y", "total"]) as runner:
        with pytest.raises(FeedError, match="'total' has no row for each row"):
            runner.predict({"x": X, "t": X})
        with pytest.raises(FeedError, match="differ in their number of rows"):
            runner.predict({"x": X, "t": X[:1]}, "y")
        with pytest.raises(FeedError, match="there are no rows"):
            runner.predict({"x": X[:0], "t": X[:0]}, "y")
        with pytest.raises(FeedError, match="no number of rows"):
            runner.predict({"x": X, "t": X}, "y", batch_size=0)
    with gw.onnx.Runner(neg((4, 2))) as runner, pytest.raises(FeedError, match="4 rows at a time"):
        runner.predict({"x": X}, batch_size=2)


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("feeds", "told"),
    [
        ({}, "input 'x' is not fed"),
        ({"z": X}, "no input 'z'"),
        ({"x": X[0]}, "rank 1"),
        ({"x": np.zeros((3, 5), np.float32)}, "size 5 on axis 1"),
        ({"x": X.astype(complex)}, "cannot take complex128"),
        ({"x": [[1.0], [1.0, 2.0]]}, "no array"),
        ({"x": ["a"]}, "cannot hold"),
        ([X], "feeds are a list"),
    ],
)
def test_feeds_that_do_not_fit(feeds: Any, told: str) -> None:
    with gw.onnx.Runner(neg()) as runner:
        with pytest.raises(FeedError, match=told):
            runner.run(None, feeds)
        with pytest.raises(FeedError, match="no output 'w'"):
            runner.run("w", {"x": X})
        assert np.array_equal(runner.run("y", {"x": X}), -X)


def test_a_lent_value_of_another_dtype_is_refused() -> None:
    lent = ort.OrtValue.ortvalue_from_numpy(X.astype(np.float64))
    with gw.onnx.Runner(neg()) as runner, pytest.raises(FeedError, match="lent float64"):
        runner.run(None, {"x": lent})


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="no file"):
        gw.onnx.Runner(tmp_path / "none.onnx")
    with pytest.raises(ArchiveError, match="does not open"):
        gw.onnx.Runner(b"no model")
    other = tmp_path / "graph.gw"
    gw.save(gw.Graph("g"), other)
    with pytest.raises(ArchiveError, match="archive"):
        gw.onnx.Runner(other)
    made = neg()
    made.ir_version = 99
    with pytest.raises(UnsupportedOpError, match="newer than this ONNX Runtime"):
        gw.onnx.Runner(made)
    with pytest.raises(UnsupportedOpError, match="no kernel"):
        gw.onnx.Runner(neg(dtype=TENSOR.BFLOAT16))
    with pytest.raises(GraphError, match="outputs are chosen where a graph is given"):
        gw.onnx.Runner(neg(), outputs=["y"])


def test_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="no provider 'TPU'") as caught:
        gw.onnx.Runner(neg(), providers=["cpu", "TPU"])
    assert "CPUExecutionProvider" in str(caught.value)
    assert gw.onnx.Runner(neg(), providers=("CPUExecutionProvider", {})).providers == [
        "CPUExecutionProvider"
    ]
    for options, told in (
        ({"threads": 0}, "threads=0"),
        ({"optimize": "most"}, "'off', 'basic'"),
    ):
        with pytest.raises(GraphError, match=told):
            gw.onnx.Runner(neg(), **options)
    with gw.onnx.Runner(neg(), profile=tmp_path / "run") as runner:
        runner.run(None, {"x": X})
        assert "Neg" in runner.end_profile().read_text()
    with gw.onnx.Runner(neg()) as runner, pytest.raises(GraphError, match="nothing is profiled"):
        runner.end_profile()


def test_a_run_that_fails_says_which_node() -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"], name="fold")]
    made = model(nodes, {"x": ["B", 2], "shape": (INT64, [1])}, ["y"])
    with gw.onnx.Runner(made) as runner, pytest.raises(GraphError, match="fold"):
        runner.run(None, {"x": X, "shape": [5]})


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(GraphError, match=r"pip install 'gradwright\[onnxruntime\]'"):
        gw.onnx.Runner(neg())


def test_external_data_is_found_beside_the_file(tmp_path: Path) -> None:
    weights = np.arange(4096, dtype=np.float32)
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [4096]}, ["y"],
                 stored={"w": weights})  # fmt: skip
    path = tmp_path / "large.onnx"
    onnx.save_model(made, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    with gw.onnx.Runner(path) as runner:
        assert np.array_equal(runner.run("y", {"x": weights}), 2 * weights)
    with pytest.raises(ArchiveError, match="external data"):
        gw.onnx.Runner(path.read_bytes())


def test_a_graph_beyond_what_a_protobuf_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradwright.formats.onnx.runtime import opening

    monkeypatch.setattr(opening, "MOST_BYTES", 1000)
    g = gw.Graph()
    gw.add(g.placeholder("x", (4096,)), g.constant(np.arange(4096.0, dtype="f")), name="y")
    proto = gw.onnx.to_model(g)
    before = proto.SerializeToString()
    for source in (g, proto):
        with gw.onnx.Runner(source) as runner:
            assert runner.run("y", {"x": np.ones(4096)})[-1] == 4096.0
    assert proto.SerializeToString() == before
