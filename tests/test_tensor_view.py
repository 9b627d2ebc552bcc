"""The tensor view: slices against numpy, nothing lost by reduction, statistics, what is shown."""

from __future__ import annotations

import json
import math
import re
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gradwright as gw
import gradwright_widgets as gww
from gradwright.errors import DTypeError, GraphError
from gradwright_widgets import _reduction
from gradwright_widgets._reduction import (
    FIELDS,
    edges,
    histogram,
    pieces,
    real_part,
    reduce_planes,
    sample,
    summarize,
)
from gradwright_widgets._sheet import Sheet, literal, number_text
from gradwright_widgets._slicing import SliceError, default_index, read_index
from gradwright_widgets.tensor_view import TensorPanel, TensorView
from tests.panels import EVIL, sent

F8 = real_part(np.dtype("f8"), "real")
shapes = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)
entry = st.one_of(
    st.integers(-5, 5).map(str),
    st.tuples(*[st.one_of(st.just(""), st.integers(-6, 6).map(str))] * 2).map(":".join),
    st.tuples(*[st.one_of(st.just(""), st.integers(-6, 6).map(str))] * 3).map(":".join),
    st.sampled_from(["...", "None", ":"]),
)


def looked_at(widget, monkeypatch):
    """Collect messages as ``sent`` does, with a view on the screen."""
    ask(widget, "tensor.look", view="v", shown=True)
    return sent(widget, monkeypatch)


def ask(widget, kind, **facts):
    widget._receive(widget, {"kind": kind, **facts}, [])


def picture(message):
    """Return the cells of a message as an array: f[fields, tiles, rows, columns]."""
    content, (buffer,) = message
    part = content["part"]
    return np.frombuffer(buffer, f"<{part['type']}").reshape(
        len(part["fields"]), -1, *part["cells"]
    )


# -- slices ----------------------------------------------------------------------------------------


@settings(max_examples=400, deadline=None)
@given(shapes, st.lists(entry, max_size=6), st.sampled_from(["", " ", "  "]))
def test_a_slice_takes_what_numpy_takes(shape, entries, space):
    array = np.arange(math.prod(shape)).reshape(shape)
    text = f"[{f',{space}'.join(f'{space}{e}' for e in entries)}{space}]"
    try:
        # The reference evaluates; these texts come from the strategies above alone.
        want = eval(f"array[{', '.join(entries) or '...'}]", {"array": array})  # noqa: S307
    except (IndexError, ValueError):
        with pytest.raises(SliceError):
            read_index(text, shape)
        return
    index = read_index(text, shape)
    got = index.of(array)
    np.testing.assert_array_equal(got, want)
    assert index.shape == np.shape(want)
    for position in list(np.ndindex(np.shape(want)))[:8]:
        assert array[index.full(position)] == np.asarray(want)[position]
    np.testing.assert_array_equal(read_index(str(index), shape).of(array), want)


@pytest.mark.parametrize(
    ("text", "marked", "problem"),
    [
        ("[0, x]", "x", "'x' is no entry"),
        ("[0, 9]", "9", "9 is outside of axis 1"),
        ("[0:y:2]", "y", "'y' is no integer"),
        ("[::0, 1]", "0", "a step of zero"),
        ("[0, , 1]", " ", "an entry is missing"),
        ("[..., 0, ...]", "...", "... may stand once"),
        ("[0, 1, 2]", "2", "3 entries, but the shape (3, 4) has 2 axes"),
        ("[0, 1", "[", "a ] is missing"),
        ("0, 1]", "]", "a [ is missing"),
        ("[[0, 1], 2]", "[0", "is no entry"),
        ("[0 if 1 else 2]", "0 if 1 else 2", "is no entry"),
        ("[__import__('os').getpid()]", "__import__('os').getpid()", "is no entry"),
        ("[" + "9" * 5000 + "]", "9" * 5000, "too long"),
        ("[²]", "²", "is no entry"),
        ("[1.0]", "1.0", "is no entry"),
        ("[True]", "True", "is no entry"),
    ],
)
def test_an_error_says_what_and_where(text, marked, problem):
    with pytest.raises(SliceError, match=re.escape(problem)) as caught:
        read_index(text, (3, 4))
    assert text[caught.value.at : caught.value.at + caught.value.length] == marked


def test_the_default_is_the_last_two_axes_at_the_start():
    assert str(default_index((4, 5, 6, 7))) == "[0, 0, :, :]"
    assert default_index((0, 5, 6)).shape == (0, 5, 6)
    assert str(default_index(())) == "[...]"


# -- cells -----------------------------------------------------------------------------------------

floats = st.one_of(
    st.floats(-1e3, 1e3), st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0])
)


@settings(max_examples=150, deadline=None)
@given(hnp.arrays("f8", hnp.array_shapes(min_dims=3, max_dims=3, max_side=9), elements=floats),
       st.data())  # fmt: skip
def test_cells_hold_what_brute_force_finds(planes, data):
    rows = data.draw(st.integers(1, planes.shape[1]))
    columns = data.draw(st.integers(1, planes.shape[2]))
    cells, every = reduce_planes(list(planes), rows, columns, F8)
    assert every == 1
    assert cells.shape == (len(FIELDS), len(planes), rows, columns)
    tops, lefts = edges(planes.shape[1], rows), edges(planes.shape[2], columns)
    assert (np.diff(tops) > 0).all()
    for t, i, k in np.ndindex(cells.shape[1:]):
        block = planes[t, tops[i] : tops[i + 1], lefts[k] : lefts[k + 1]]
        good = block[np.isfinite(block)]
        low, high, mean, nan, plus, minus = cells[:, t, i, k]
        assert (nan, plus, minus) == (
            np.isnan(block).sum(),
            np.isposinf(block).sum(),
            np.isneginf(block).sum(),
        )
        if good.size:
            assert (low, high) == (good.min(), good.max())
            assert mean == pytest.approx(good.mean(), rel=1e-9, abs=1e-9)
        else:
            assert np.isnan([low, high, mean]).all()


def test_cells_do_not_depend_on_the_size_of_the_pieces(monkeypatch):
    rng = np.random.default_rng(0)
    planes = list(rng.standard_normal((5, 60, 70)))
    planes[3][17, 3] = math.nan
    whole, _ = reduce_planes(planes, 7, 9, F8)
    for chunk in (1, 100, 5000):
        monkeypatch.setattr(_reduction, "CHUNK", chunk)
        np.testing.assert_allclose(reduce_planes(planes, 7, 9, F8)[0], whole, rtol=1e-12)


def test_huge_numbers_have_a_mean():
    cells, _ = reduce_planes([np.full((4, 4), 1.7e308)], 1, 1, F8)
    assert cells[2, 0, 0, 0] == pytest.approx(1.7e308)


def test_one_nan_among_a_million_is_in_the_picture():
    array = np.random.default_rng(0).standard_normal((1000, 1000)).astype("f4")
    array[421, 777], array[3, 4], array[999, 999] = math.nan, math.inf, -math.inf
    message = TensorView(array)._tensor_message()
    cells = picture(message)
    assert cells.shape == (6, 1, 256, 256)
    assert cells[3:].sum(axis=(1, 2, 3)).tolist() == [1, 1, 1]
    assert [b["at"] for b in message[0]["bad"]] == [[421, 777], [3, 4], [999, 999]]
    assert np.nanmax(cells[1]) == array[np.isfinite(array)].max()


def test_a_zoomed_window_is_exact(monkeypatch):
    array = np.random.default_rng(0).standard_normal((600, 700))
    view = TensorView(array)
    messages = sent(view, monkeypatch)
    ask(view, "tensor.window", view="v", serial=5, window=[0, 1, 0, 1, 100, 150, 200, 300])
    content, (buffer,) = messages[-1]
    assert (content["view"], content["serial"], content["part"]["fields"]) == ("v", 5, ["value"])
    np.testing.assert_array_equal(
        np.frombuffer(buffer, "<f8").reshape(50, 100), array[100:150, 200:300]
    )
    ask(view, "tensor.window", view="v", serial=5, window=[-9, 99, 0, 1, 595, 9999, -5, 3])
    assert messages[-1][0]["part"]["window"] == [0, 1, 0, 1, 595, 600, 0, 3]


@settings(max_examples=150, deadline=None)
@given(hnp.array_shapes(min_dims=0, max_dims=4, max_side=4), st.data())
def test_a_sheet_shows_every_element_where_it_says(shape, data):
    array = np.arange(math.prod(shape), dtype="f8").reshape(shape)
    plane = data.draw(st.permutations(range(len(shape))))[:2] if len(shape) >= 2 else []
    sheet = Sheet(array, read_index("[...]", shape), plane)
    facts, cells = sheet.cells(sheet.whole(), F8)
    assert facts["fields"] == ["value"]
    seen = []
    for tile, row, column in np.ndindex(cells.shape[1:]):
        position = sheet.position(tile, row, column)
        assert cells[0, tile, row, column] == array[position]
        seen.append(position)
    assert sorted(seen) == sorted(np.ndindex(shape))
    if len(shape) >= 2:
        assert (sheet.height, sheet.width) == (shape[plane[0]], shape[plane[1]])


def test_more_planes_than_can_be_seen_are_cut_and_said():
    view = TensorView(np.zeros((5000, 2, 2)), "[...]")
    content, _ = view._tensor_message()
    assert (content["tiles"], content["shown"]) == (5000, 4096)


def test_large_arrays_are_sampled_unless_all_is_asked_for(monkeypatch):
    for module in ("_sheet", "_picture"):
        monkeypatch.setattr(f"gradwright_widgets.{module}.READ", 1000)
    array = np.ones((300, 400))
    array[1, 1] = math.nan
    view = TensorView(array)
    content, _ = view._tensor_message()
    assert content["every"] > 1
    assert "1 of" in content["about"]
    view.tensor_exact = True
    content, _ = view._tensor_message()
    assert (content["every"], content["part"]["every"]) == (1, 1)
    assert content["bad"] == [{"kind": "NaN", "count": 1, "at": [1, 1]}]


def test_the_first_bad_element_of_a_sample_is_where_it_says(monkeypatch):
    for module in ("_sheet", "_picture"):
        monkeypatch.setattr(f"gradwright_widgets.{module}.READ", 50)
    array = np.zeros((20, 30))
    read, _ = sample(array, 50)
    read[2, 1] = math.inf
    spot = tuple(int(k) for k in np.argwhere(np.isinf(array))[0])
    assert TensorView(array)._tensor_message()[0]["bad"][0]["at"] == list(spot)


# -- statistics ------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(hnp.arrays("f8", hnp.array_shapes(max_dims=3, max_side=8), elements=floats))
def test_statistics_are_those_of_numpy(array):
    found = summarize(array, F8)
    good = array[np.isfinite(array)]
    assert (found.size, found.finite) == (array.size, good.size)
    assert list(found.bad.values()) == [
        np.isnan(array).sum(), np.isposinf(array).sum(), np.isneginf(array).sum()
    ]  # fmt: skip
    for kind, flat in found.first_bad.items():
        value = array.reshape(-1)[flat]
        assert {"NaN": math.isnan(value), "+Inf": value == math.inf, "-Inf": value == -math.inf}[
            kind
        ]
    if good.size:
        assert (found.low, found.high) == (good.min(), good.max())
        assert found.zeros == (good == 0).sum()
        for got, want in (
            (found.mean, good.mean()),
            (found.std, good.std()),
            (found.norm, np.linalg.norm(good)),
        ):
            assert got == pytest.approx(want, rel=1e-9, abs=1e-9)
        np.testing.assert_allclose(found.quantiles, np.quantile(good, _reduction.QUANTILES))
        counts = histogram(array, F8, found.low, found.high, whole=False)
        assert counts.sum() == good.size


def test_statistics_in_pieces_are_those_of_the_whole(monkeypatch):
    array = (1e6 + np.random.default_rng(0).standard_normal((50, 60))).astype("f4").T
    monkeypatch.setattr(_reduction, "CHUNK", 77)
    np.testing.assert_array_equal(np.concatenate(list(pieces(array))), array.reshape(-1))
    found = summarize(array, real_part(array.dtype, "real"))
    wide = array.astype("f8")
    assert found.mean == pytest.approx(wide.mean(), rel=1e-12)
    assert found.std == pytest.approx(wide.std(), rel=1e-9)


def test_histogram_bars_are_those_of_numpy():
    values = np.random.default_rng(0).standard_normal(10_000)
    want, _ = np.histogram(values, 64)
    got = histogram(values, F8, values.min(), values.max(), whole=False)
    assert np.abs(got - want).max() <= 1  # a value on the edge of two bars
    assert histogram(np.array([3.0, 3.0]), F8, 3.0, 3.0, whole=False).sum() == 2
    assert histogram(np.array([-1.7e308, 1.7e308]), F8, -1.7e308, 1.7e308, whole=False).sum() == 2


# -- dtypes ----------------------------------------------------------------------------------------

DTYPES = (
    *("bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64"),
    *("complex64", "complex128", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn),
    *(ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn, ml_dtypes.int4, ml_dtypes.uint2),
)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_every_dtype_is_shown_with_exact_values(dtype, monkeypatch):
    array = np.array([[0, 1, 0.5], [2, 3, 1.25]]).astype(dtype)
    view = TensorView(array)
    content, _ = message = view._tensor_message()
    want = array.real if np.iscomplexobj(array) else array
    np.testing.assert_array_equal(picture(message)[0, 0], want.astype("f8"))
    messages = sent(view, monkeypatch)
    ask(view, "tensor.value", view="v", at=[0, 1, 2, 2, 3])
    answer = messages[-1][0]
    assert (answer["where"], answer["text"]) == ("[1, 2]", number_text(array[1, 2]))
    code = eval(content["literal"], {"np": np, "ml_dtypes": ml_dtypes})  # noqa: S307
    assert code.dtype == array.dtype
    np.testing.assert_array_equal(code, array)


def test_integers_beyond_float64_are_exact_when_asked_for(monkeypatch):
    view = TensorView(np.array([2**63 + 1], "uint64"))
    assert view._tensor_message()[0]["asks"]
    messages = sent(view, monkeypatch)
    ask(view, "tensor.value", view="v", at=[0, 0, 1, 0, 1])
    assert messages[-1][0]["text"] == str(2**63 + 1)


def test_complex_numbers_have_parts(monkeypatch):
    array = np.array([[3 - 4j, complex(math.nan, 1)]], "complex128")
    view = TensorView(array)
    for part, want in (("real", 3), ("imag", -4), ("abs", 5), ("angle", np.angle(3 - 4j))):
        view.tensor_part = part
        assert picture(view._tensor_message())[0, 0, 0, 0] == want
    assert number_text(array[0, 0]) == "3.0 - 4.0i, magnitude 5.0"


@pytest.mark.parametrize("value", [["a", "b"], [[1], [2, 3]], np.array([None]), object()])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(DTypeError, match=r"only numbers|cannot be read"):
        TensorView(value)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4), (0, 2, 2)])
def test_empty_arrays_are_shown_as_empty(shape):
    view = TensorView(np.zeros(shape))
    content, buffers = view._tensor_message()
    assert "part" not in content
    assert buffers == []
    assert (content["shape"], content["every"]) == (list(shape), 1)
    assert "empty" in view.to_svg()
    json.dumps(content, allow_nan=False)


@pytest.mark.parametrize("fill", [math.nan, math.inf, 1e308])
def test_messages_are_json_without_nan(fill):
    content, _ = TensorView(np.full((3, 3), fill))._tensor_message()
    json.dumps(content, allow_nan=False)


def test_small_arrays_are_code():
    assert literal(np.array([1.5, math.nan, -math.inf], "f4")) == (
        'np.array([1.5, np.nan, -np.inf], dtype="float32")'
    )
    assert literal(np.float32(0.1)[()].reshape(())) == 'np.array(0.1, dtype="float32")'
    assert TensorView(np.zeros(201))._tensor_message()[0]["literal"] == ""


# -- what is shown ---------------------------------------------------------------------------------


@pytest.fixture
def graph():
    g = gw.Graph("net")
    x = g.placeholder("x", ("B", 8))
    with g.scope("hidden"):
        h = gw.nn.relu(x @ g.variable("w", (8, 6), init=gw.init.he_normal(seed=0)))
    a, b = gw.split(h, 2, axis=1, name="parts")
    gw.mean((a - b) ** 2, name="loss")
    return g


def test_it_follows_the_selection(graph):
    panel = TensorPanelOnly(graph)
    assert "Select a node" in panel._tensor_message()[0]["note"]
    panel.selected = "hidden/w"
    content, _ = message = panel._tensor_message()
    assert content["name"] == "hidden/w"
    np.testing.assert_array_equal(picture(message)[0, 0], graph.values["hidden/w"])
    panel.selected = "hidden/"  # a scope has no value; the last one stays
    assert panel.tensor == "hidden/w"
    panel.selected = "loss"
    assert "run the stepper" in panel._tensor_message()[0]["note"]
    panel.tensor_follows = False
    panel.show_tensor("hidden/w", "[0, ::2]")
    panel.selected = "parts"
    assert panel.tensor == "hidden/w"
    assert panel._tensor_message()[0]["code"] == "g.values['hidden/w'][0, ::2]"
    panel.tensor_follows = True
    assert panel.tensor == "parts"
    assert panel._tensor_message()[0]["outputs"] == ["parts", "parts:1"]


def test_a_shown_array_gives_way_to_the_next_selection(graph):
    panel = TensorPanelOnly(graph)
    panel.selected = "loss"
    panel.show_tensor(np.eye(3), name="hidden/w")  # called like a tensor, but is none
    assert panel.tensor == "hidden/w" and panel._tensor_message()[0]["shape"] == [3, 3]
    panel.selected = "hidden/w"
    assert panel._tensor_message()[0]["shape"] == list(graph["hidden/w"].shape)
    panel.show_tensor("parts:1")
    panel.selected = "parts"  # as the stepper selects the node of a tensor it shows
    assert panel.tensor == "parts:1"


def test_values_come_from_the_stepper(graph):
    stepper = gw.Stepper(graph, fetches=["loss"], feeds={"x": np.ones((2, 8), "f4")})
    stepper.run()
    panel = TensorPanelOnly(graph, stepper=stepper)
    panel.selected = "hidden/relu"
    content, _ = message = panel._tensor_message()
    assert (content["origin"], content["code"]) == ("stepper", "stepper.value('hidden/relu')")
    np.testing.assert_array_equal(picture(message)[0, 0], stepper.value("hidden/relu"))


def test_a_step_that_changes_nothing_sends_nothing(graph, monkeypatch):
    feeds = {"x": np.ones((2, 8), "f4")}
    bench = gww.Workbench(graph, loss="loss", feeds=feeds)
    bench.show_tensor("hidden/relu")
    messages = looked_at(bench, monkeypatch)
    bench.stepper.run_to("hidden/relu")
    bench.stepper.step()
    pictures = [content for content, _ in messages if content["kind"] == "tensor"]
    assert pictures[-1]["origin"] == "stepper"
    bench.stepper.step()
    assert [content for content, _ in messages if content["kind"] == "tensor"] == pictures
    bench.stepper.edit("hidden/relu", np.full((2, 6), 7.0, "f4"))
    bench.stepper.rerun()
    assert messages[-1][0]["low"] == 7


def test_a_slice_that_does_not_fit_is_refused_and_nothing_changes(graph, monkeypatch):
    view = TensorView(graph["hidden/w"], "[0]")
    messages = looked_at(view, monkeypatch)
    with pytest.raises(GraphError, match="outside of axis 0"):
        view.tensor_index = "[99]"
    ask(view, "tensor.index", text="[1, 99]")
    problem = messages[-1][0]
    assert (problem["kind"], problem["at"], problem["length"]) == ("tensor.problem", 4, 2)
    assert view.tensor_index == "[0, :]"
    ask(view, "tensor.index", text="[:2, ::3]")
    assert [m[0]["kind"] for m in messages[-2:]] == ["tensor", "tensor.fits"]
    assert messages[-2][0]["slice"] == [2, 2]
    with pytest.raises(GraphError, match="no tensor 'nope'"):
        view.show_tensor("nope")
    assert view.tensor == "hidden/w"
    with pytest.raises(SliceError):
        view.show_tensor(np.zeros(3), "[0, 0]")
    assert view.tensor == "hidden/w"


def test_the_cursor_brings_its_slice_with_it():
    view = TensorView(np.zeros((4, 5, 6, 7)), "[0, ::2, 1, :]")
    view.point_at(3, 4, 2, 6)
    assert (view.tensor_index, view.tensor_cursor) == ("[3, ::2, 2, :]", [3, 4, 2, 6])
    view.point_at(3, 3, 2, 0)
    assert view.tensor_index == "[3, :, 2, :]"
    with pytest.raises(GraphError, match="no element"):
        view.point_at(4, 0, 0, 0)


def test_a_jump_from_the_page_finds_the_nan(monkeypatch):
    array = np.zeros((3, 4, 5))
    array[2, 1, 3] = math.nan
    view = TensorView(array)
    sent(view, monkeypatch)
    ask(view, "tensor.jump", at=view._tensor_message()[0]["bad"][0]["at"])
    assert (view.tensor_index, view.tensor_cursor) == ("[2, :, :]", [2, 1, 3])
    ask(view, "tensor.jump", at=[9])
    assert "no element [9]" in view.message


def test_pictures_of_a_training_are_sent_only_while_somebody_looks(graph, monkeypatch):
    trainer = gw.Trainer(graph, "loss", optimizer=gw.optim.SGD(0.1))
    view = TensorView(graph["hidden/w"], trainer=trainer)
    messages = sent(view, monkeypatch)
    data = {"x": np.random.default_rng(0).standard_normal((64, 8)).astype("f4")}
    trainer.fit(data, epochs=2, batch_size=8, progress=False)
    assert messages == []
    ask(view, "tensor.look", view="v", shown=True, fresh=True)
    np.testing.assert_array_equal(picture(messages[-1])[0, 0], graph.values["hidden/w"])
    messages.clear()
    steps = 40
    trainer.fit(data, epochs=5, batch_size=8, progress=False)
    pictures = [content for content, _ in messages if content["kind"] == "tensor"]
    assert 2 <= len(pictures) < steps
    np.testing.assert_array_equal(picture(messages[-1])[0, 0], graph.values["hidden/w"])
    ask(view, "tensor.look", view="v", shown=False)
    messages.clear()
    trainer.fit(data, epochs=1, batch_size=8, progress=False)
    assert messages == []


def test_an_array_changed_in_place_is_read_anew(monkeypatch):
    array = np.zeros((3, 3))
    view = TensorView(array)
    messages = looked_at(view, monkeypatch)
    array[1, 1] = 5
    view.refresh_tensor()
    content, _ = messages[-1]
    assert (content["high"], content["slice"]) == (5, [3, 3])


def test_one_binary_buffer_and_little_else():
    content, buffers = TensorView(np.zeros((2000, 2000), "f4"))._tensor_message()
    assert [b.nbytes for b in buffers] == [3 * 256 * 256 * 4]
    assert len(json.dumps(content)) < 3000


# -- views that last -------------------------------------------------------------------------------


def test_a_saved_page_holds_every_value_below_a_megabyte():
    small = TensorView(np.random.default_rng(0).standard_normal((300, 300)))
    assert small._tensor_message()[0]["part"]["fields"] != ["value"]
    (message,) = small.new_view_messages()
    np.testing.assert_array_equal(picture(message)[0, 0], small.tensor_value())
    deep = np.arange(24, dtype="f4").reshape(2, 3, 4)
    content, buffers = TensorView(deep, "[1]").new_view_messages()[0]
    assert content["whole"] == "f4"
    assert buffers[1].tobytes() == deep.tobytes()
    large = TensorView(np.zeros((500, 500)))
    assert large.new_view_messages()[0][0]["part"]["fields"] == ["min", "max", "mean"]


@pytest.mark.parametrize("index", ["", "[0, 0]", "[0, 0, 0]", "[...]"])
def test_stills_are_xml_and_tables(index):
    array = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("f4")
    array[0, 0, 0] = math.nan
    view = TensorView(array, index, name=EVIL)
    ElementTree.fromstring(view.to_svg())
    for text in (view.to_svg(), view.to_table(), view.to_html()):
        assert "<img src=x" not in text
    assert "<td>1</td>" in view.to_table()  # one NaN


def test_nothing_to_show_has_no_still(graph):
    panel = TensorPanelOnly(graph)
    assert (panel.to_svg(), panel.to_table()) == ("", "")


class TensorPanelOnly(TensorPanel):
    """The panel as a workbench has it, with a stepper's values."""

    module = "tensor_view"

    def __init__(self, graph, trainer=None, *, stepper=None, **options):
        self.stepper = stepper
        super().__init__(graph, trainer, **options)

    def value_of(self, name):
        return None if self.stepper is None else self.stepper.value(name)
