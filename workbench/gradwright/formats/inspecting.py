"""``gw.inspect``: what a file of any format is, before it is loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from ..errors import ArchiveError, GraphError
from .registry import Format, find
from .report import ModelInfo
from .source import Source, at


def inspect(path: str | os.PathLike[str], sizes: Mapping[str, int] | None = None) -> ModelInfo:
    """Return what a file says of itself: its ops and tensors, what cannot run, and what to beware.

    It is told by content: an archive or checkpoint of ours, a run's folder, an ONNX model,
    safetensors, a language model, an adapter, or a pickle, which is looked into and not opened.
    Headers are read and no array, so a model of gigabytes takes milliseconds. What is returned
    prints, shows in a notebook, and has ``as_dict()`` and ``to_json()``.

    With ``sizes``, such as ``{"batch": 8}``, memory to run and to train is estimated from the
    shapes of all results at these sizes; ``info.memory.counts`` says what is counted. The sizes of
    a language model are ``length`` and ``batch``; it is estimated for usual ones if none are given.

    Raises:
        ArchiveError: the file is damaged or of no format that is known; for ``sizes``, where it
            holds no graph, or ops that are not known.
        GraphError: ``sizes`` are not those of the inputs.

    >>> import gradwright as gw, tempfile, pathlib
    >>> g = gw.Graph("line")
    >>> y = gw.nn.relu(g.placeholder("x", ("B", 2)) @ g.constant([[1.0], [2.0]]), name="y")
    >>> path = pathlib.Path(tempfile.mkdtemp(), "line.onnx")
    >>> gw.onnx.save(g, path)
    >>> info = gw.inspect(path, sizes={"B": 8})
    >>> info.inputs, info.ops, info.parameters
    ({'x': 'f32[B, 2]'}, {'MatMul': 1, 'Relu': 1}, 2)
    >>> print(info.memory)
    136 B to run, 160 B to train at B = 8
    """
    if sizes is not None and not isinstance(sizes, Mapping):
        raise GraphError(f"sizes={sizes!r} makes no sense", need='{"symbol": size}')
    source = at(path)
    format = find(source)
    info = described(source, format)
    if sizes is None:
        return info
    if info.language is not None:
        return replace(info, memory=info.at_sizes(sizes))
    if format.memory is None:
        raise ArchiveError(
            f"{format.title} holds no graph, so there is nothing to run", where=str(path)
        )
    return replace(info, memory=format.memory(source, info, sizes))


def described(source: Source, format: Format) -> ModelInfo:
    """Return what a source of a format says of itself, with the memory that is usual for it."""
    info = replace(format.inspect(source), format=format.title)
    return info if info.language is None else replace(info, memory=info.at_sizes({}))
