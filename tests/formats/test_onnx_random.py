"""Random ONNX models of symbolic sizes, a few of the thousands that ``random_onnx`` tries."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.formats import random_onnx

onnxruntime = pytest.importorskip("onnxruntime")


def test_models_compute_what_onnx_runtime_computes_at_three_sizes() -> None:
    assert list(random_onnx.CAMPAIGN.search(100, 0)) == []


def test_a_seed_decides_a_model() -> None:
    first, second = (random_onnx.made.__wrapped__(3)[0] for _ in range(2))
    assert first.SerializeToString() == second.SerializeToString()


def test_models_have_operators_of_all_kinds() -> None:
    """Each kind of node turns up, and none has become rare."""
    counts: Counter[str] = Counter()
    for seed in range(60):
        counts.update(node.op_type for node in random_onnx.made(seed)[0].graph.node)
    wanted = (
        *("Shape", "Gather", "Concat", "Reshape", "Slice", "Split", "Resize", "Expand", "Range"),
        *("Where", "If", "Loop", "ReduceSum", "ConstantOfShape", "Tile", "Pad", "MatMul", "Conv"),
    )
    assert [op_type for op_type in wanted if counts[op_type] < 2] == []


def test_another_answer_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert random_onnx.problem(5) == ""
    known = [np.float32([7.0])] * 9
    monkeypatch.setattr(random_onnx, "_theirs", lambda proto, names, feed: known[: len(names)])
    assert "read, {'B': 3, 'T': 5, 'S': 4}: " in random_onnx.problem(5)
