"""Checkpoints as a format: archives that tell where a training was."""

from __future__ import annotations

from pathlib import Path

from ...formats.archive import format as archive
from ...formats.registry import Format
from ...formats.report import ModelInfo
from ...formats.source import Source
from .folder import RECORD, Checkpoint, record_in


def recognise(source: Source) -> bool | None:
    """Tell a checkpoint by its record, a member of the archive."""
    seen = archive.recognise(source)
    return RECORD in source.names() if seen else seen


def record(source: Source) -> Checkpoint:
    """Return where the training was, and what it had measured."""
    with archive.opened(source) as reader:
        return record_in(reader, Path(source.name))


def inspect(source: Source) -> ModelInfo:
    """Return what is in the archive, if its record is one."""
    record(source)
    return archive.inspect(source)


FORMAT = Format(
    name="checkpoint",
    title="a checkpoint",
    suffixes=archive.FORMAT.suffixes,
    recognise=recognise,
    inspect=inspect,
    tensors=archive.tensors,
    memory=archive.memory,
    outline=archive.outline,
    open=archive.FORMAT.open,
    use="gw.resume(trainer, folder, path), gw.load(path), gw.inspect(path)",
)
