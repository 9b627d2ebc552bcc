"""Networks that ONNX Runtime's own tools have coded and fused, read and held against it.

Ours are written, its quantizers and its optimizer work on them, and what they leave is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw

onnx = pytest.importorskip("onnx", reason="no onnx: pip install -e '.[onnx]'")
runtime = pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install -e '.[test]'")
from onnxruntime import quantization  # noqa: E402
from onnxruntime.quantization.matmul_nbits_quantizer import (  # noqa: E402
    DefaultWeightOnlyQuantConfig,
    MatMulNBitsQuantizer,
)

Draw = Callable[..., Any]


def weight(g: gw.Graph, f32: Draw, *shape: int) -> gw.Tensor:
    return g.constant(f32(*shape) / np.float32(np.sqrt(shape[0] if len(shape) < 3 else 9)))


def images(g: gw.Graph, f32: Draw) -> dict[str, Any]:
    """Convolutions, a sum, a gate, a product, and a softmax."""
    x = g.placeholder("x", ("B", 3, 8, 8))
    h = gw.nn.relu(gw.cnn.conv2d(x, weight(g, f32, 8, 3, 3, 3), padding="same"))
    h = h + gw.nn.leaky_relu(gw.cnn.conv2d(h, weight(g, f32, 8, 8, 3, 3), padding="same"))
    h = gw.concat(h * gw.nn.sigmoid(h), h, axis=1)
    gw.nn.softmax(h.mean(axis=(2, 3)) @ weight(g, f32, 16, 10), name="y")
    return {"x": f32(2, 3, 8, 8)}


def words(g: gw.Graph, f32: Draw) -> dict[str, Any]:
    """A block of a transformer: embeddings, norms of sums, attention written out, GELU."""
    ids, width = g.placeholder("ids", ("B", 6), dtype="int64"), 32
    x = gw.gather(weight(g, f32, 20, width), ids)
    q, k, v = (
        (x @ weight(g, f32, width, width)).reshape(-1, 6, 4, 8).transpose(0, 2, 1, 3)
        for _ in range(3)
    )
    seen = gw.nn.softmax(q @ k.mT * 0.35) @ v
    x = x + seen.transpose(0, 2, 1, 3).reshape(-1, 6, width) @ weight(g, f32, width, width)
    x = gw.nn.layer_norm(x, g.constant(f32(width)), g.constant(f32(width)))
    h = gw.nn.gelu(x @ weight(g, f32, width, 64) + g.constant(f32(64)))
    gw.nn.layer_norm(x + h @ weight(g, f32, 64, width), name="y")
    return {"ids": np.arange(12).reshape(2, 6) * 7 % 20}


def series(g: gw.Graph, f32: Draw) -> dict[str, Any]:
    """An LSTM both ways, and a product."""
    x = g.placeholder("x", (5, "B", 6))
    w, r = g.constant(f32(2, 32, 6) / 3), g.constant(f32(2, 32, 8) / 3)
    h = gw.rnn.lstm(x, w, r, direction="bidirectional")[0]
    joined = h.transpose(0, 2, 1, 3).reshape(5, -1, 16)
    gw.tanh(joined @ weight(g, f32, 16, 4), name="y")
    return {"x": f32(5, 3, 6)}


class Once(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Data to measure ranges by: one batch."""

    def __init__(self, feeds: Any) -> None:
        self.feeds = iter([feeds])

    def get_next(self) -> Any:
        return next(self.feeds, None)


def by_weights(path: Path, feeds: Any, to: Path) -> None:
    quantization.quantize_dynamic(path, to, per_channel=True)


def as_operators(path: Path, feeds: Any, to: Path) -> None:
    form = quantization.QuantFormat.QOperator
    quantization.quantize_static(path, to, Once(feeds), quant_format=form)


def as_pairs(path: Path, feeds: Any, to: Path) -> None:
    form = quantization.QuantFormat.QDQ
    quantization.quantize_static(path, to, Once(feeds), quant_format=form, per_channel=True)


def in_few_bits(path: Path, feeds: Any, to: Path) -> None:
    how = DefaultWeightOnlyQuantConfig(block_size=16, is_symmetric=False, bits=4)
    made = MatMulNBitsQuantizer(onnx.load(path), algo_config=how)
    made.process()
    made.model.save_model_to_file(str(to))


def as_it_is(path: Path, feeds: Any, to: Path) -> None:
    to.write_bytes(path.read_bytes())


TOOLS: dict[Any, tuple[float, set[str]]] = {
    as_it_is: (2e-5, {"FusedConv", "FusedMatMul", "QuickGelu"}),
    by_weights: (2e-5, {"DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "SkipLayerNormalization"}),
    as_operators: (0.04, {"QLinearAdd", "QLinearConcat", "QLinearLeakyRelu", "QLinearMul",
                          "QLinearSigmoid", "QLinearSoftmax"}),
    as_pairs: (0.04, {"QLinearLeakyRelu", "QLinearSoftmax"}),
    in_few_bits: (2e-5, {"MatMulNBits"}),
}  # fmt: skip
"""Tool -> how far results may be apart, as a share of the largest, and operators that it leaves.

Where each of a dozen values in turn is a code of 8 bits, those that are rounded apart, as sums of
floats and of integers may be, add up to some steps of 1/127.
"""
FAR: dict[Any, float] = {(series, by_weights): 0.02}
"""Where ONNX Runtime codes the states of an LSTM, too."""


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.__name__)
def test_what_tools_leave(tool: Any, tmp_path: Path) -> None:
    left: set[str] = set()
    makers: list[Callable[[gw.Graph, Draw], dict[str, Any]]] = [images, words, series]
    logging.disable(logging.WARNING)  # the tools advise to prepare models first
    try:
        for maker in makers:
            g = gw.Graph(maker.__name__)
            draw = np.random.default_rng(2)
            feeds = maker(g, lambda *shape, d=draw: d.standard_normal(shape).astype(np.float32))
            plain, coded = tmp_path / f"{maker.__name__}.onnx", tmp_path / "coded.onnx"
            fused = tmp_path / "fused.onnx"
            gw.onnx.save(g, plain, ["y"], opset=18)
            tool(plain, feeds, coded)
            far = FAR.get((maker, tool), TOOLS[tool][0])
            for path in (coded, fused):
                expected = run_theirs(path if path.exists() else coded, feeds, fused)
                model = onnx.load(path)
                left |= {n.op_type for n in model.graph.node if n.domain == "com.microsoft"}
                for graph in both(gw.onnx.load(model)):
                    found = graph.output(feeds, "y")["y"]
                    atol = far * float(np.abs(expected).max())
                    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
    finally:
        logging.disable(logging.NOTSET)
    assert left >= TOOLS[tool][1], left


def both(graph: gw.Graph) -> list[gw.Graph]:
    """Return a graph, and what is read of it once it is written."""
    return [graph, gw.onnx.load(gw.onnx.to_model(graph, ["y"]))]


def run_theirs(path: Path, feeds: Any, fused: Path) -> Any:
    """Return what ONNX Runtime computes, and have it write the model as it is fused."""
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(fused)
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(["y"], feeds)[0]
