"""Every op's samples through ONNX and back: the checker accepts the model, the numbers stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.catalogue import load
from gradwright.errors import DTypeError, UnsupportedOpError
from gradwright.graph.expand import stand_in
from gradwright.op import OPS
from gradwright.spec import kind, known_spec

onnx = pytest.importorskip("onnx", reason="no onnx: pip install -e '.[onnx]'")
load()

EXPRESSED = 415
"""Ops of which at least one sample is written; the number may only grow."""
OPSET = 28


def samples(cls: type[gw.Op]) -> list[gw.Sample]:
    try:
        return list(cls.samples(np.random.default_rng(0)))
    except NotImplementedError:
        return []


OPS_WITH_SAMPLES = {n: c for n, c in OPS.items() if c.namespace not in ("", "gradient")}


def round_trip(cls: type[gw.Op], sample: gw.Sample, dtype: Any, opset: int) -> None:
    """Write a sample's graph, read it again, and run both; floats are of a dtype."""
    graph = gw.Graph("sample")
    feeds: dict[str, Any] = {}
    tensors: list[Any] = []
    for i, x in enumerate(sample.inputs):
        array = None if x is None else np.asarray(x)
        if array is None:
            tensors.append(None)
            continue
        with np.errstate(over="ignore"):
            array = array.astype(dtype) if array.dtype == np.float64 else array
        tensors.append(stand_in(graph, f"x{i}", known_spec(array)))
        feeds[f"x{i}"] = array
    try:
        with graph:
            found = cls(**sample.attrs)(*tensors)
    except DTypeError as error:  # a body states float64
        raise UnsupportedOpError(f"not in {dtype}: {error.problem}") from None
    outputs = list(found) if isinstance(found, tuple) else [found]
    model = gw.onnx.to_model(graph, outputs, opset=opset)
    onnx.checker.check_model(model, full_check=True)
    again = gw.onnx.load(model.SerializeToString())
    names = [o.name.replace(":", "_") for o in model.graph.output]
    with gw.Session(graph) as session:
        expected = session.run(outputs, feeds)
    with gw.Session(again) as session:
        ours = session.run(names, {k: v for k, v in feeds.items() if k in again})
    drawn = next(iter(cls.inputs), None)
    same_numbers = drawn is None or drawn.name != "rng"  # those of our own streams are not written
    for a, b in zip(ours, expected, strict=True):
        alike(a, b, same_numbers)


def alike(a: Any, b: Any, same_numbers: bool = True) -> None:
    """Hold two results, or what containers hold, against each other."""
    if isinstance(b, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            alike(x, y, same_numbers)
        return
    if b is None:
        assert a is None
        return
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    if not same_numbers:
        return
    if kind(a.dtype) == "f":
        wide = [v.astype(np.float64) for v in (a, b)]
        np.testing.assert_allclose(*wide, rtol=2e-5, atol=2e-6)
    else:
        np.testing.assert_array_equal(a, b)


def expressed(cls: type[gw.Op], sample: gw.Sample, opset: int = OPSET) -> bool:
    """Hold a sample's round trip in the first dtype that ONNX has the op for; False if in none."""
    for dtype in (np.float64, np.float32):
        try:
            round_trip(cls, sample, dtype, opset)
        except UnsupportedOpError:
            continue
        return True
    return False


@pytest.mark.parametrize("chunk", range(8))
def test_samples_come_back(chunk: int) -> None:
    """What is written is valid and means the same; ops with a rule are written."""
    for number, (name, cls) in enumerate(OPS_WITH_SAMPLES.items()):
        if number % 8 == chunk:
            try:
                written = [expressed(cls, sample) for sample in samples(cls)]
            except Exception as error:
                raise AssertionError(f"{name}: {error}") from error
            known = cls.onnx is not None and bool(written)
            assert any(written) or not known, f"{name} has a rule, but is not written"


def test_how_many_ops_are_expressed() -> None:
    """Opset 23, which most programs read, loses none but the newest operators."""
    found = 0
    for cls in OPS_WITH_SAMPLES.values():
        for sample in samples(cls):
            if expressed(cls, sample, 23):
                found += 1
                break
    assert found >= EXPRESSED
