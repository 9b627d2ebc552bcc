"""Random ONNX models with symbolic sizes, beside ONNX Runtime at several sizes.

    python -m tests.formats.random_onnx [count] [--seed N]    models of the seeds N, N + 1, ...
    python -m tests.formats.random_onnx --seed N --one        one model, printed, here

A model has inputs of sizes such as ``B`` and ``T + 1`` and some forty nodes: what computes on
numbers, and what computes shapes for that. It runs in ONNX Runtime without optimisations and here,
at three sizes each; then it is written, and the written one runs in both. What a model may do is
found by computing along with it, as it is made, which shapes each tensor has at all three sizes.
"""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import gradwright as gw
from tests.formats import random_nodes  # noqa: F401 - enters the kinds
from tests.formats.onnx_models import FLOAT, helper
from tests.formats.random_graphs import KINDS, SIZES, Builder, Value
from tests.support.campaign import Campaign

INPUTS = (
    ("B", 4), ("B", "T", 3), ("T",), ("B", 2, "S", 6), ("S", "B"), ("B", 1, "T"), (3,), (),
    ("B", "T", 4, 2), ("T", "T"), (1, "S"),
)  # fmt: skip


@functools.lru_cache(maxsize=2)
def made(seed: int) -> tuple[Any, list[dict[str, Any]]]:
    """Return a model and its feeds at three sizes."""
    draw = random.Random(seed)
    b = Builder(draw, draw.choice([18, 19, 20, 21]), feeds=[{} for _ in SIZES])
    rng = np.random.default_rng(seed)
    for dims in draw.sample(INPUTS, draw.randint(1, 3)):
        shapes = [tuple(sizes.get(d, d) for d in dims) for sizes in SIZES]  # type: ignore[call-overload]
        arrays = [np.asarray(rng.standard_normal(shape), "f4") for shape in shapes]
        b.values.append(Value(b.feed("x", arrays, FLOAT, dims), tuple(shapes)))
    n_fed = len(b.values)
    makers = list(KINDS.values())
    for _ in range(draw.randint(4, 16)):
        draw.choice(makers)(b)
    used = {name for node in b.nodes for name in node.input}
    ends = [v.name for v in b.values[n_fed:] if v.name not in used][-6:] or [
        b.add("Abs", b.values[0])
    ]
    graph = b.graph(ends, b.inputs)
    imports = [helper.make_opsetid("", b.opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8), b.feeds


def problem(seed: int) -> str:
    """Return what a model computes otherwise than ONNX Runtime, as it is or written; or ""."""
    proto, feeds = made(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = [info.name for info in proto.graph.output]
        try:
            known = [_theirs(proto, names, feed) for feed in feeds]
        except Exception as error:
            return f"not a valid model: {str(error)[-200:]}"
        graph = gw.onnx.load(proto)
        if says := _compared(graph, names, feeds, known, "read"):
            return says
        written = gw.onnx.to_model(graph, names)
        found = [_theirs(written, names, feed) for feed in feeds]
        for sizes, ours, theirs in zip(SIZES, found, known, strict=True):
            if says := _differ(names, ours, theirs):
                return f"written, in ONNX Runtime, {sizes}: {says}"
        return _compared(gw.onnx.load(written), names, feeds, known, "written")


def _theirs(proto: Any, names: list[str], feed: dict[str, Any]) -> list[Any]:
    session = _session(proto.SerializeToString())
    wanted = {i.name for i in session.get_inputs()}
    found = session.run(names, {k: v for k, v in feed.items() if k in wanted})
    return list(found)


@functools.lru_cache(maxsize=2)
def _session(data: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _compared(graph: Any, names: list[str], feeds: Any, known: Any, what: str) -> str:
    with gw.Session(graph, kernels="off") as session:
        for sizes, feed, theirs in zip(SIZES, feeds, known, strict=True):
            given = {t.name: feed[t.name] for t in graph.placeholders}
            says = _differ(names, session.run(names, given), theirs)
            if says:
                return f"{what}, {sizes}: {says}"
    return ""


def _differ(names: list[str], ours: Sequence[Any], theirs: Sequence[Any]) -> str:
    for name, x, y in zip(names, ours, theirs, strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"{name} is {x.dtype}{list(x.shape)}, not {y.dtype}{list(y.shape)}"
        if x.size and not np.allclose(x, y, rtol=1e-3, atol=1e-4, equal_nan=True):
            return f"{name} is off by {np.abs(x - y).max():.3g}"
    return ""


def _shown(seed: int) -> Iterator[str]:
    import onnx

    proto, _ = made(seed)
    yield onnx.printer.to_text(proto)


CAMPAIGN = Campaign(
    "tests.formats.random_onnx", "random models", problem, _shown, "the same in ONNX Runtime"
)


if __name__ == "__main__":
    CAMPAIGN.main(__doc__)
