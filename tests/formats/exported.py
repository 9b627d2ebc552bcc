"""Modules of torch as two exporters write them: ``python -m tests.formats.exported [part ...]``.

Each module (``tests/formats/exported_modules.py``) is written by ``torch.onnx.export`` with and
without ``dynamo``, read here, and run at two sizes beside torch and ONNX Runtime. The graph is
drawn, written again, run by ONNX Runtime, and its gradient checked where it has one. A line says
how far the results are apart at most, or what went wrong; the last lines, what an exporter lacks.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import gradwright as gw
from gradwright_widgets import GraphView
from tests.formats.exported_modules import Function, Module, modules

MOST = 2e-5
"""What two orders of float32 sums make of some layers of a few hundred terms, relative."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what exporters tell of their progress, and of what they will become, from the screen."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def made(module: Module) -> tuple[Any, list[tuple[Any, ...]]]:
    """Return the module in eval mode, and its inputs at both sizes."""
    torch.manual_seed(0)
    with quiet():
        layer = module.make().eval()
    return layer, [module.inputs(n) for n in module.sizes]


def flat(values: Any) -> list[Any]:
    """Return tensors, however they are nested, in order."""
    if isinstance(values, torch.Tensor):
        return [values]
    return [tensor for value in values for tensor in flat(value)]


def written(module: Module, layer: Any, inputs: tuple[Any, ...], writer: str) -> bytes:
    """Return the module as an exporter writes it, with the free sizes free."""
    names = [f"x{i}" for i in range(len(flat(inputs)))]
    free = {name: dict.fromkeys(axes, "n") for name, axes in zip(names, module.axes, strict=True)}
    out = io.BytesIO()
    with quiet():
        if writer == "script":
            torch.onnx.export(
                layer, inputs, out, dynamo=False, input_names=names, dynamic_axes=free
            )
            return out.getvalue()
        size = torch.export.Dim.DYNAMIC
        free_sizes = iter([dict.fromkeys(axes, size) or None for axes in module.axes])
        shapes = _nested(inputs, free_sizes)
        program = torch.onnx.export(
            layer, inputs, dynamo=True, input_names=names, verbose=False,
            dynamic_shapes=(shapes,) if isinstance(layer, Function) else shapes,
        )  # fmt: skip
        return bytes(program.model_proto.SerializeToString())


def _nested(inputs: Any, shapes: Iterator[Any]) -> Any:
    if isinstance(inputs, torch.Tensor):
        return next(shapes)
    return tuple(_nested(value, shapes) for value in inputs)


class Theirs:
    """A model in ONNX Runtime."""

    def __init__(self, data: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(data, options)
        self.inputs = [i.name for i in self.session.get_inputs()]
        self.outputs = [o.name for o in self.session.get_outputs()]

    def run(self, feeds: dict[str, Any]) -> list[Any]:
        return self.session.run(None, {k: v for k, v in feeds.items() if k in self.inputs})


def apart(got: Any, want: Any) -> float:
    """Return how far two arrays are apart, relative to the size of their numbers."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"shape {got.shape}, not {want.shape}"
    assert got.dtype == want.dtype, f"{got.dtype}, not {want.dtype}"
    if want.dtype.kind not in "fc":
        assert np.array_equal(got, want), "other values"
        return 0.0
    size = max(float(np.abs(want).max(initial=0.0)), 1e-30)
    return float(np.abs(got.astype(np.float64) - want).max(initial=0.0)) / size


def difference(module: Module, writer: str) -> float:
    """Return how far results are apart at most, of torch, ONNX Runtime, and what we write again."""
    layer, both = made(module)
    data = written(module, layer, both[1], writer)
    theirs, graph = Theirs(data), gw.onnx.load(data)
    again = gw.onnx.to_model(graph, theirs.outputs).SerializeToString()
    rewritten = Theirs(again)
    worst = 0.0
    with gw.Session(graph) as session, torch.no_grad():
        for inputs in both:
            feeds = {f"x{i}": t.numpy() for i, t in enumerate(flat(inputs))}
            feeds = {k: v for k, v in feeds.items() if k in theirs.inputs}
            ours = session.run(theirs.outputs, feeds)
            torchs = [t.numpy() for t in flat(layer(*inputs))]
            for others in (torchs, theirs.run(feeds), rewritten.run(feeds)):
                for got, want in zip(ours, others, strict=True):
                    worst = max(worst, apart(got, want))
    draw(graph)
    if module.smooth:
        check(data, theirs.outputs, feeds)
    return worst


def draw(graph: gw.Graph) -> None:
    """Draw a graph, and look whether it has all nodes."""
    view = GraphView(graph)
    try:
        boxes = set(re.findall(r"^ *(n\d+) \[label=", view.to_dot(), re.MULTILINE))
        assert len(boxes) == len(graph.nodes), f"{len(boxes)} boxes of {len(graph.nodes)} nodes"
        assert view.to_svg().startswith("<svg") or view.to_table()
    finally:
        view.close()


def check(data: bytes, outputs: list[str], feeds: dict[str, Any]) -> None:
    """Check the gradient of a sum of all results by the weights and by what is fed."""
    graph = gw.onnx.load(data, trainable=True)
    rng = np.random.default_rng(0)
    terms = []
    for name in outputs:
        y = graph[name]
        if y.spec.differentiable:
            factor = float(rng.uniform(0.5, 1.5))
            terms.append(gw.mean(gw.sin(y * factor)))
    loss = gw.add_n(*terms)
    wrt = [*graph.trainable, *(graph[n] for n, v in feeds.items() if v.dtype.kind == "f")]
    report = gw.gradient_check(graph, loss, feeds, wrt=wrt)
    assert report.passed, f"the gradient: {report}"


def main(parts: list[str]) -> int:
    failed, n, lacking = 0, 0, []
    for module in modules():
        if parts and not any(part in module.name for part in parts):
            continue
        for writer in module.writers:
            start, n = time.perf_counter(), n + 1
            try:
                worst = difference(module, writer)
                said = f"{worst:.1e}" if worst < MOST else f"{worst:.1e} TOO MUCH"
                failed += worst >= MOST
            except Exception as error:  # whatever it is, the next module is tried
                said = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
                failed += 1
            print(
                f"{module.name:45} {writer:7} {time.perf_counter() - start:5.1f} s  {said}",
                flush=True,
            )
        for writer, reason in module.lacks.items():
            lacking.append(f"{module.name:45} {writer:7} {reason}")
    print(*lacking, sep="\n")
    print(f"{n - failed} of {n} as torch and ONNX Runtime have them")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
