"""Slices against numpy, cells that lose nothing, statistics, dtypes."""

from __future__ import annotations

import json
import math
import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gradwright.errors import DTypeError
from gradwright_widgets.panels.tensor import reduction
from gradwright_widgets.panels.tensor.panel import TensorView
from gradwright_widgets.panels.tensor.reduction import (
    FIELDS,
    edges,
    histogram,
    pieces,
    real_part,
    reduce_planes,
    sample,
    summarize,
)
from gradwright_widgets.panels.tensor.sheet import Sheet, literal, number_text
from gradwright_widgets.panels.tensor.slicing import SliceError, default_index, read_index
from tests.support.panels import sent
from tests.widgets.tensor_views import ask, picture, tensor_message

F8 = real_part(np.dtype("f8"), "real")
shapes = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)
entry = st.one_of(
    st.integers(-5, 5).map(str),
    st.tuples(*[st.one_of(st.just(""), st.integers(-6, 6).map(str))] * 2).map(":".join),
    st.tuples(*[st.one_of(st.just(""), st.integers(-6, 6).map(str))] * 3).map(":".join),
    st.sampled_from(["...", "None", ":"]),
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
        monkeypatch.setattr(reduction, "CHUNK", chunk)
        np.testing.assert_allclose(reduce_planes(planes, 7, 9, F8)[0], whole, rtol=1e-12)


def test_huge_numbers_have_a_mean():
    cells, _ = reduce_planes([np.full((4, 4), 1.7e308)], 1, 1, F8)
    assert cells[2, 0, 0, 0] == pytest.approx(1.7e308)


def test_a_single_number_has_statistics_and_a_picture():
    message = tensor_message(TensorView(np.array(3, "i8")))
    assert picture(message).ravel().tolist() == [3.0]


def test_one_nan_among_a_million_is_in_the_picture():
    array = np.random.default_rng(0).standard_normal((1000, 1000)).astype("f4")
    array[421, 777], array[3, 4], array[999, 999] = math.nan, math.inf, -math.inf
    message = tensor_message(TensorView(array))
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
    content, _ = tensor_message(view)
    assert (content["tiles"], content["shown"]) == (5000, 4096)


def test_large_arrays_are_sampled_unless_all_is_asked_for(monkeypatch):
    for module in ("sheet", "picture"):
        monkeypatch.setattr(f"gradwright_widgets.panels.tensor.{module}.READ", 1000)
    array = np.ones((300, 400))
    array[1, 1] = math.nan
    view = TensorView(array)
    content, _ = tensor_message(view)
    assert content["every"] > 1
    assert "1 of" in content["about"]
    view.tensor_exact = True
    content, _ = tensor_message(view)
    assert (content["every"], content["part"]["every"]) == (1, 1)
    assert content["bad"] == [{"kind": "NaN", "count": 1, "at": [1, 1]}]


def test_the_first_bad_element_of_a_sample_is_where_it_says(monkeypatch):
    for module in ("sheet", "picture"):
        monkeypatch.setattr(f"gradwright_widgets.panels.tensor.{module}.READ", 50)
    array = np.zeros((20, 30))
    read, _ = sample(array, 50)
    read[2, 1] = math.inf
    spot = tuple(int(k) for k in np.argwhere(np.isinf(array))[0])
    assert tensor_message(TensorView(array))[0]["bad"][0]["at"] == list(spot)


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
        np.testing.assert_allclose(found.quantiles, np.quantile(good, reduction.QUANTILES))
        counts = histogram(array, F8, found.low, found.high, whole=False)
        assert counts.sum() == good.size


def test_statistics_in_pieces_are_those_of_the_whole(monkeypatch):
    array = (1e6 + np.random.default_rng(0).standard_normal((50, 60))).astype("f4").T
    monkeypatch.setattr(reduction, "CHUNK", 77)
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
    content, _ = message = tensor_message(view)
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
    assert tensor_message(view)[0]["asks"]
    messages = sent(view, monkeypatch)
    ask(view, "tensor.value", view="v", at=[0, 0, 1, 0, 1])
    assert messages[-1][0]["text"] == str(2**63 + 1)


def test_complex_numbers_have_parts(monkeypatch):
    array = np.array([[3 - 4j, complex(math.nan, 1)]], "complex128")
    view = TensorView(array)
    for part, want in (("real", 3), ("imag", -4), ("abs", 5), ("angle", np.angle(3 - 4j))):
        view.tensor_part = part
        assert picture(tensor_message(view))[0, 0, 0, 0] == want
    assert number_text(array[0, 0]) == "3.0 - 4.0i, magnitude 5.0"


@pytest.mark.parametrize("value", [["a", "b"], [[1], [2, 3]], np.array([None]), object()])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(DTypeError, match=r"only numbers|cannot be read"):
        TensorView(value)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4), (0, 2, 2)])
def test_empty_arrays_are_shown_as_empty(shape):
    view = TensorView(np.zeros(shape))
    content, buffers = tensor_message(view)
    assert "part" not in content
    assert buffers == []
    assert (content["shape"], content["every"]) == (list(shape), 1)
    assert "empty" in view.to_svg()
    json.dumps(content, allow_nan=False)


@pytest.mark.parametrize("fill", [math.nan, math.inf, 1e308])
def test_messages_are_json_without_nan(fill):
    content, _ = tensor_message(TensorView(np.full((3, 3), fill)))
    json.dumps(content, allow_nan=False)


def test_small_arrays_are_code():
    assert literal(np.array([1.5, math.nan, -math.inf], "f4")) == (
        'np.array([1.5, np.nan, -np.inf], dtype="float32")'
    )
    assert literal(np.float32(0.1)[()].reshape(())) == 'np.array(0.1, dtype="float32")'
    assert tensor_message(TensorView(np.zeros(201)))[0]["literal"] == ""
