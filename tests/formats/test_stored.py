"""Stored tensors, read by ranges: what a full read gives, in pieces and slices, of any form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwright.errors import ArchiveError, MemoryLimitError
from gradwright.formats import registry, source, stored
from gradwright.formats.registry import Range, TensorRange
from gradwright.formats.stored import Files, Stored, thinned
from gradwright.spec import dtype as as_dtype
from tests.formats import every_format
from tests.formats.every_format import MAKERS, onnx

made = pytest.fixture(scope="module")(every_format.made)
NARROW = ("int4", "uint4", "int2", "uint2", "float4_e2m1fn")


def same(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype
    assert a.tolist() == b.tolist() if a.dtype.kind == "T" else a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", MAKERS)
def test_every_tensor_of_every_format_is_what_a_full_read_gives(made, name, monkeypatch):
    path, read = made[name]
    found = registry.named(name).tensors(source.at(path))
    monkeypatch.setattr(stored, "PIECE", 1000)
    monkeypatch.setattr(stored, "HULL", 64)
    with Files(path) as files:
        for key, tensor in found.items():
            expected = np.asarray(read[key]).astype(tensor.dtype, copy=False)
            held = Stored(tensor, files)
            same(held.take((slice(None),) * expected.ndim), expected)
            flat = np.concatenate([*held.pieces(), np.zeros(0, held.dtype)])
            same(flat, expected.reshape(-1))
            if expected.ndim == 2 and expected.size:
                same(held.take((slice(None, None, -1), 1)), expected[::-1, 1])


PARTS = st.one_of(
    st.integers(-3, 2),
    st.slices(5).filter(lambda s: (s.step or 1) > 0) | st.slices(5),
)


@given(st.tuples(PARTS, PARTS, PARTS), st.sampled_from([1, 16, 1 << 20]))
def test_slices_are_those_of_numpy(parts, hull):
    shape = (4, 3, 5)
    array = np.arange(math.prod(shape), dtype="int16").reshape(shape)
    tensor = TensorRange(array.dtype, shape, (Range(3, array.nbytes),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "HULL", hull)
        same(Stored(tensor, Memory(b"abc" + array.tobytes())).take(parts), array[parts])


class Memory(Files):
    """Files whose bytes are given."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, r: Range) -> bytes:
        return self._data[r.start : r.start + r.nbytes]


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("count", [1, 7, 16])
def test_packed_numbers_are_what_onnx_reads(name, count):
    bits = stored.BITS[name]
    codes = np.random.default_rng(count).integers(0, 1 << bits, count).astype("u1")
    numbers = stored.unpacked(codes, as_dtype(name))[:: 8 // bits]  # one of each byte
    proto = onnx.numpy_helper.from_array(numbers, "x")
    assert proto.dims == [count]
    tensor = TensorRange(numbers.dtype, (count,), (Range(0, len(proto.raw_data)),), "packed")
    held = Stored(tensor, Memory(proto.raw_data))
    expected = np.asarray(onnx.numpy_helper.to_array(proto)).astype(numbers.dtype)
    same(held.take((slice(None),)), expected)
    same(held.take((slice(count // 2, None),)), expected[count // 2 :])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("INT32", [0, 1, -1, 300, -(2**31)]),
        ("UINT8", [0, 255, 128]),
        ("BOOL", [1, 0, 1]),
        ("INT64", [2**62, -(2**63), 5]),
        ("FLOAT16", [1.5, -0.25, 65504.0]),
    ],
)
def test_numbers_in_fields_of_their_type_are_what_onnx_reads(name, values, tmp_path):
    proto = onnx.helper.make_tensor("t", getattr(onnx.TensorProto, name), [len(values)], values)
    graph = onnx.helper.make_graph([], "g", [], [], [proto])
    path = tmp_path / "t.onnx"
    onnx.save(onnx.helper.make_model(graph), path)
    tensor = registry.named("onnx").tensors(source.at(path))["t"]
    assert not proto.raw_data
    with Files(path) as files:
        same(Stored(tensor, files).take((slice(None),)), onnx.numpy_helper.to_array(proto))


def test_a_sparse_tensor_is_spread_out(tmp_path):
    values = onnx.numpy_helper.from_array(np.array([1.5, -2.0], "f4"), "s")
    places = onnx.numpy_helper.from_array(np.array([[0, 1], [1, 2]], "i8"), "i")
    sparse = onnx.helper.make_sparse_tensor(values, places, [2, 3])
    graph = onnx.helper.make_graph([], "g", [], [], sparse_initializer=[sparse])
    path = tmp_path / "s.onnx"
    onnx.save(onnx.helper.make_model(graph), path)
    tensor = registry.named("onnx").tensors(source.at(path))["s"]
    with Files(path) as files:
        found = Stored(tensor, files).take((slice(None), slice(None)))
    assert found.tolist() == [[0, 1.5, 0], [0, 0, -2]]


def test_a_file_that_shrinks_is_an_error_and_one_that_leads_elsewhere_is_not_opened(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(8))
    tensor = TensorRange(as_dtype("float32"), (4,), (Range(0, 16),))
    with Files(path) as files, pytest.raises(ArchiveError, match="cut off"):
        Stored(tensor, files).take((slice(None),))
    with Files(path) as files, pytest.raises(ArchiveError, match="missing"):
        files.read(Range(0, 1, "y.bin"))

    def refuse(path):
        raise PermissionError(str(path))

    with Files(path, refuse) as files, pytest.raises(PermissionError):
        files.read(Range(0, 1))


def test_what_is_read_as_a_whole_is_bounded(monkeypatch):
    monkeypatch.setattr(stored, "WHOLE", 100)
    tensor = TensorRange(as_dtype("int64"), (1000,), (Range(0, 1000),), "varints")
    with pytest.raises(MemoryLimitError, match="as a whole"):
        Stored(tensor, Memory(bytes(1000))).take((slice(None),))
    cut = TensorRange(as_dtype("int64"), (2,), (Range(0, 3),), "varints")
    with pytest.raises(ArchiveError, match="cut off"):
        Stored(cut, Memory(b"\1\2\xff")).take((slice(None),))


def test_numbers_outside_of_an_axis_are_refused():
    tensor = TensorRange(as_dtype("int8"), (2,), (Range(0, 2),))
    with pytest.raises(IndexError, match="axis of 2"):
        Stored(tensor, Memory(b"ab")).take((5,))


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=3), st.integers(10, 10_000))
def test_thinning_keeps_within_its_bounds(shape, most):
    steps = thinned(shape, most, 4 * most)
    left = [-(-n // s) for n, s in zip(shape, steps, strict=True)]
    assert math.prod(left) <= most and min(left) >= 1
    assert math.prod(left[:-1]) * shape[-1] <= max(4 * most, shape[-1])
