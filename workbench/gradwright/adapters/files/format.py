"""Folders of adapters as a format: told by ``adapter_config.json``, inspected by headers alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import ArchiveError
from ...formats.registry import Format, TensorRange
from ...formats.report import Finding, ModelInfo, some
from ...formats.safetensors import format as single
from ...formats.source import Source, naming
from .options import options_of, unread
from .reading import CONFIG, PICKLE, WEIGHTS, by_module, check_dtypes, read_folder, settings_in

USE = "gw.adapters.load(model, path)"


def recognise(source: Source) -> bool | None:
    """Tell a folder by ``adapter_config.json`` with a kind of peft, and arrays beside it."""
    names = source.names()
    if CONFIG not in names or not {WEIGHTS, PICKLE} & set(names):
        return False
    try:
        return "peft_type" in settings_in(source)
    except ArchiveError:
        return None


def tensors(source: Source) -> Mapping[str, TensorRange]:
    """Return what the header says of each tensor; those of a pickle are not known."""
    with naming(source.name):
        if WEIGHTS not in source.names():
            return {}
        found = single.tensors(source.part(WEIGHTS))
        return {
            name: replace(held, ranges=tuple(replace(r, file=WEIGHTS) for r in held.ranges))
            for name, held in found.items()
        }


def inspect(source: Source) -> ModelInfo:
    """Return the method, its rank, where it goes, the model it is for, and what to beware."""
    with naming(source.name):
        settings = settings_in(source)
    held = tensors(source)
    specs = {name: tensor.spec for name, tensor in held.items()}
    row = options_of(settings)
    kind = str(settings.get("peft_type"))[:40]
    findings = []
    modules: dict[str, None] = {}
    if row is None:
        findings.append(Finding(f"adapters of the kind {kind!r} are not here", CONFIG, grave=True))
    else:
        for key, value in sorted(unread(row, settings).items()):
            text = f"{key[:60]} = {str(value)[:60]} is not computed here"
            findings.append(Finding(text, CONFIG, grave=True))
    if WEIGHTS not in source.names():
        text = "its arrays are a pickle, and opening one runs what it names"
        findings.append(Finding(text, PICKLE, grave=True))
    else:
        try:
            paths = by_module(specs).values()
            check_dtypes(specs)
            modules = dict.fromkeys(path for path, _ in paths if path)
        except ArchiveError as error:
            findings.append(Finding(error.problem, WEIGHTS, grave=True))
    path = Path(source.name)
    return ModelInfo(
        path,
        source.size,
        path.name,
        {},
        {},
        specs,
        architecture=row.method if row else kind,
        metadata=_told(settings, list(modules)),
        producer=_producer(settings),
        findings=findings,
    )


def _told(settings: Mapping[str, Any], modules: list[str]) -> dict[str, str]:
    """Return what a user asks first: rank, where, which model, which task."""
    rank = settings.get("init_r", settings.get("r"))
    targets = settings.get("target_modules")
    told = {
        "rank": rank if type(rank) is int else settings.get("num_virtual_tokens"),
        "alpha": settings.get("lora_alpha", settings.get("alpha")),
        "targets": some(map(str, targets)) if isinstance(targets, list) else targets,
        "modules": f"{len(modules):,}" if modules else None,
        "base": settings.get("base_model_name_or_path"),
        "task": settings.get("task_type"),
    }
    return {key: str(value)[:200] for key, value in told.items() if value not in (None, "")}


def _producer(settings: Mapping[str, Any]) -> str:
    version = settings.get("peft_version")
    return f"peft {version[:40]}" if isinstance(version, str) else ""


FORMAT = Format(
    name="adapter",
    title="an adapter",
    suffixes=(),
    recognise=recognise,
    inspect=inspect,
    tensors=tensors,
    use=USE,
    open=read_folder,
)
