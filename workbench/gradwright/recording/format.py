"""Run folders as a format: what was trained, and the tensors of the latest checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import ArchiveError
from ..formats.archive import format as archive
from ..formats.checked import MAX_JSON
from ..formats.memory import Memory
from ..formats.registry import Format, Outline, Range, TensorRange
from ..formats.report import ModelInfo
from ..formats.source import Source, exactly, naming
from ..train.checkpoints import format as checkpoint
from ..train.checkpoints.resuming import CHECKPOINTS
from .folder import CONFIG, EVENTS, RunFolder, configuration


def recognise(source: Source) -> bool | None:
    """Tell a run by what its configuration says; a folder has no bytes of its own."""
    if source.read(0, 1) or CONFIG not in (names := source.names()):
        return False
    try:
        _config(source)
    except ArchiveError:
        return None if EVENTS in names else False
    return True


def _config(source: Source) -> dict[str, Any]:
    config = source.part(CONFIG)
    with naming(config.name):
        if config.size > MAX_JSON:
            raise ArchiveError(f"{config.size:,} bytes of JSON, limit {MAX_JSON:,}")
        return configuration(exactly(config, 0, config.size))


def _latest(source: Source) -> Source | None:
    """Return the latest checkpoint of a run that is whole."""
    found: dict[int, Source] = {}
    if CHECKPOINTS in source.names():
        folder = source.part(CHECKPOINTS)
        for name in folder.names():
            with contextlib.suppress(ArchiveError, FileNotFoundError):  # damaged, or gone meanwhile
                part = folder.part(name)
                if checkpoint.FORMAT.recognise(part):
                    found[checkpoint.record(part).serial] = part
    return found[max(found)] if found else None


def inspect(source: Source) -> ModelInfo:
    """Return the name of a run, and what its latest checkpoint holds."""
    with naming(source.name):
        name, latest = _config(source)["name"], _latest(source)
        path, size = Path(source.name), source.size
        if latest is None:
            return ModelInfo(path, size, name, {}, {}, {})
        held = checkpoint.FORMAT.inspect(latest)
        size += source.part(CHECKPOINTS).size
        return replace(held, path=path, nbytes=size, name=name)


def memory(source: Source, info: ModelInfo, sizes: Mapping[str, int]) -> Memory:
    """Return what the graph of the latest checkpoint would take."""
    return archive.memory(_checkpoint(source), info, sizes)


def outline(source: Source) -> Outline:
    """Return the graph of the latest checkpoint."""
    return archive.outline(_checkpoint(source))


def _checkpoint(source: Source) -> Source:
    latest = _latest(source)
    if latest is None:
        raise ArchiveError("the run has no checkpoint yet", where=source.name)
    return latest


def tensors(source: Source) -> Mapping[str, TensorRange]:
    """Return the tensors of the latest checkpoint, in its file below the folder."""
    with naming(source.name):
        _config(source)
        latest = _latest(source)
        if latest is None:
            return {}
        own = Path(latest.name).name

        def below(r: Range) -> Range:
            return replace(r, file=f"{CHECKPOINTS}/{r.file or own}")

        return {
            name: replace(tensor, ranges=tuple(map(below, tensor.ranges)))
            for name, tensor in checkpoint.FORMAT.tensors(latest).items()
        }


FORMAT = Format(
    name="run",
    title="the folder of a run",
    suffixes=(),
    recognise=recognise,
    inspect=inspect,
    tensors=tensors,
    memory=memory,
    outline=outline,
    open=RunFolder,
    use="gw.open(path), gw.resume(trainer, path)",
)
