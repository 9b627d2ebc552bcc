"""Opening a session of ONNX Runtime: on what, with which options, and why it refuses."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ....errors import ArchiveError, GradwrightError, GraphError, UnsupportedOpError
from ....graph import Graph, Tensor
from ...registry import mistaken

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

Optimize = Literal["off", "basic", "extended", "all"]
Provider = str | tuple[str, dict[str, Any]]
LEVELS = {
    "off": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
MOST_BYTES = 2**31 - 1
"""What a protobuf holds at most; a larger graph goes by way of a file with external data."""
_SILENT = 4
"""Severity from which ONNX Runtime writes to the terminal: what it says is in our errors."""


def need_onnxruntime() -> Any:
    """Return the package, or say how to come by it."""
    try:
        import onnxruntime
    except ImportError:
        raise GraphError(
            "the onnxruntime package is not installed",
            hint="pip install 'gradwright[onnxruntime]'",
        ) from None
    return onnxruntime


def checked_providers(providers: Provider | Sequence[Provider] | None) -> list[Any]:
    """Return providers as ONNX Runtime calls them; ``"cuda"`` is ``CUDAExecutionProvider``.

    Raises GraphError for one that is not there, with those that are.

    >>> checked_providers("cpu")
    ['CPUExecutionProvider']
    """
    available = need_onnxruntime().get_available_providers()
    known = {name.removesuffix("ExecutionProvider").lower(): name for name in available}
    pair = isinstance(providers, tuple) and [type(item) for item in providers] == [str, dict]
    alone = isinstance(providers, str) or pair  # ("cuda", "cpu") are two
    if not alone and not (providers is None or (isinstance(providers, list | tuple) and providers)):
        raise GraphError(
            f"providers={providers!r} makes no sense", need="a name, or a list of names"
        )
    given: Any = ["cpu"] if providers is None else [providers] if alone else providers
    found = []
    for item in given:
        name, *options = item if isinstance(item, tuple) else (item,)
        full = name if name in available else known.get(str(name).lower())
        if full is None:
            raise GraphError(
                f"ONNX Runtime has no provider {name!r} here",
                facts=[f"there are: {', '.join(available)}"],
                hint="providers of GPUs come with packages of their own, such as onnxruntime-gpu",
            )
        found.append((full, *options) if options else full)
    return found


def session_options(
    threads: int | None, optimize: Optimize, profile: Any, options: SessionOptions | None
) -> SessionOptions:
    """Return the options of a session; ``options`` is what they begin with."""
    ort = need_onnxruntime()
    if options is None:
        options = ort.SessionOptions()
        options.log_severity_level = _SILENT
    elif not isinstance(options, ort.SessionOptions):
        raise GraphError(f"options={options!r} are none", need="an onnxruntime.SessionOptions")
    if threads is not None:
        if type(threads) is not int or not 1 <= threads < 2**31:
            raise GraphError(f"threads={threads!r} is no number of threads", need="1 or more")
        options.intra_op_num_threads = options.inter_op_num_threads = threads
    if not isinstance(optimize, str) or optimize not in LEVELS:
        raise GraphError(f"optimize={optimize!r} is not known", need=", ".join(map(repr, LEVELS)))
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[optimize])
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, os.fspath(profile)
    return options


def open_session(
    model: Any,
    options: SessionOptions,
    providers: Sequence[Any],
    outputs: Sequence[Tensor | str] | None = None,
    opset: int = 23,
) -> InferenceSession:
    """Return a session of a graph, a path, the bytes of a file, or a ``ModelProto``.

    Raises ArchiveError where there is no valid model, UnsupportedOpError where it is one that this
    ONNX Runtime does not run.
    """
    from onnx import ModelProto

    ort = need_onnxruntime()
    if not isinstance(model, Graph | str | os.PathLike | bytes | ModelProto):
        raise ArchiveError(
            f"{' '.join(repr(model).split())[:60]} is no model",
            need="a path, the bytes of a file, a ModelProto, or a graph",
        )
    if outputs is not None and not isinstance(model, Graph):
        raise GraphError(
            "outputs are chosen where a graph is given", hint="run(outputs, feeds) chooses, too"
        )
    if isinstance(model, Graph) or _is_large(model):
        with tempfile.TemporaryDirectory(
            prefix="gradwright-", ignore_cleanup_errors=True
        ) as folder:
            written = _written(model, outputs, opset, Path(folder, "model.onnx"))
            return open_session(written, options, providers)
    if isinstance(model, str | os.PathLike):
        given: Any = os.fspath(model)
        if not Path(given).is_file():
            raise ArchiveError(f"there is no file {given!r}", need="a path of an ONNX model")
    else:
        given = model if isinstance(model, bytes) else model.SerializeToString()
    try:
        return ort.InferenceSession(given, options, providers=list(providers))
    except Exception as error:
        other = mistaken(given, "onnx") if isinstance(given, str) else None
        raise other or refused(error) from error


def _is_large(model: Any) -> bool:
    is_proto = not isinstance(model, bytes | str | os.PathLike)
    return is_proto and model.ByteSize() > MOST_BYTES


def _written(model: Any, outputs: Sequence[Tensor | str] | None, opset: int, path: Path) -> Any:
    """Return a graph or a large model as what ONNX Runtime opens, by way of a file if it is large.

    ONNX Runtime has read, or mapped, what is stored when it has opened it.
    """
    if not isinstance(model, Graph):
        from onnx import save_model

        moved = type(model)()  # what is saved so has lost its data
        moved.CopyFrom(model)
        save_model(moved, path, save_as_external_data=True, location="model.onnx.data")
        return path
    from .. import writers  # noqa: F401 - enters them
    from ..exporter import export_graph
    from ..external.saving import Outside, write_model

    stored = (n for n in model.nodes if n.kind in ("variable", "constant"))
    if sum(model.values.stored(n).nbytes for n in stored) <= MOST_BYTES:
        return export_graph(model, outputs, opset).SerializeToString()
    outside = Outside(True, 1024)
    write_model(path, export_graph(model, outputs, opset, held=outside.tensors), outside)
    return path


def refused(error: Exception) -> GradwrightError:
    """Return our error for what ONNX Runtime says of a model that it does not open."""
    kind, text = type(error).__name__, message(error)
    if "is under development" in text or "Unsupported model IR version" in text:
        return UnsupportedOpError(
            "the model is newer than this ONNX Runtime",
            facts=[text],
            hint="a graph is written for it by opset=23, or lower; or a newer onnxruntime",
        )
    if kind == "NotImplemented" or "No Op registered" in text or "is not a registered" in text:
        return UnsupportedOpError(
            "ONNX Runtime has no kernel for an operator of the model",
            facts=[text],
            hint="other dtypes, or gw.load(model), which runs without ONNX Runtime",
        )
    if "External data" in text or "external data" in text:
        return ArchiveError(
            "external data of the model is not found", facts=[text], hint="give the model's path"
        )
    return ArchiveError("ONNX Runtime does not open the model", facts=[text])


def message(error: Exception) -> str:
    """Return what ONNX Runtime says, without its code and the lines of its sources."""
    text = re.sub(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ", "", str(error))
    text = re.sub(r"/\S*onnxruntime\S*\.(?:cc|h):\d+ [^\[]*?\) ", "", text)
    return " ".join(text.split())[:400]
