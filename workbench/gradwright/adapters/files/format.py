"""Folders of adapters as a format: told by ``adapter_config.json``, inspected by headers alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import ArchiveError
from ...formats.registry import Format, TensorRange
from ...formats.report import Finding, ModelInfo, some
from ...formats.safetensors import format as single
from ...formats.source import Source, at, naming
from .bottleneck import PICKLE as OTHER_PICKLE
from .bottleneck import WEIGHTS as OTHER_WEIGHTS
from .bottleneck import by_branch, read_bottleneck
from .networks import ROW, check_config, fields_of
from .options import CONFIG, Options, options_of, unread
from .reading import PICKLE, WEIGHTS, by_module, check_dtypes, read_folder, settings_in
from .saved import SavedAdapter
from .values import check

OTHERS = OTHER_WEIGHTS, OTHER_PICKLE
"""Files of the library adapters."""
USE = "gw.adapters.load(model, path)"


def recognise(source: Source) -> bool | None:
    """Tell a folder by ``adapter_config.json`` with a kind of peft, or that is damaged.

    Without arrays of an adapter it may be the folder of a model, which is none.
    """
    names = set(source.names())
    if CONFIG not in names or ("config.json" in names and not {WEIGHTS, PICKLE, *OTHERS} & names):
        return False
    try:
        settings = settings_in(source)
    except ArchiveError:
        return True
    return "peft_type" in settings or isinstance(settings.get("config"), dict)


def opened(path: Path) -> SavedAdapter:
    """Return the adapter of a folder."""
    with naming(str(path)):
        is_of_peft = "peft_type" in settings_in(at(path))
    return read_folder(path) if is_of_peft else read_bottleneck(path)


def tensors(source: Source) -> Mapping[str, TensorRange]:
    """Return what the header says of each tensor; those of a pickle are not known."""
    with naming(source.name):
        file = next((name for name in (WEIGHTS, OTHERS[0]) if name in source.names()), None)
        if file is None:
            return {}
        found = single.tensors(source.part(file))
        return {
            name: replace(held, ranges=tuple(replace(r, file=file) for r in held.ranges))
            for name, held in found.items()
        }


def inspect(source: Source) -> ModelInfo:
    """Return the method, its rank, where it goes, the model it is for, and what to beware."""
    with naming(source.name):
        settings = settings_in(source)
    held = tensors(source)
    specs = {name: tensor.spec for name, tensor in held.items()}
    is_of_peft = "peft_type" in settings
    row = options_of(settings) if is_of_peft else ROW
    kind = str(settings.get("peft_type"))[:40]
    findings = list(_findings(settings if is_of_peft else settings["config"], row, kind))
    modules: dict[str, None] = {}
    try:
        if not specs:
            raise ArchiveError(
                "its arrays are a pickle, and opening one runs what it names"
                if {PICKLE, OTHER_PICKLE} & {*source.names()}
                else "it has no arrays"
            )
        paths = (by_module if is_of_peft else by_branch)(specs).values()
        check_dtypes(specs)
        modules = dict.fromkeys(path for path, _ in paths if path)
    except ArchiveError as error:
        findings.append(Finding(error.problem, grave=True))
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


def _findings(settings: Mapping[str, Any], row: Options | None, kind: str) -> Iterator[Finding]:
    """Yield why settings are of no method here."""
    if row is None:
        yield Finding(f"adapters of the kind {kind!r} are not here", CONFIG, grave=True)
        return
    for key, value in sorted(unread(row, settings).items()):
        text = f"{key[:60]} = {str(value)[:60]} is not computed here"
        yield Finding(text, CONFIG, grave=True)
    try:
        check(settings, "")
        if row is ROW:
            check_config(settings)
            fields_of(settings)
    except ArchiveError as error:
        yield Finding(error.problem, CONFIG, grave=True)


def _told(settings: Mapping[str, Any], modules: list[str]) -> dict[str, str]:
    """Return what a user asks first: rank, where, which model, which task."""
    rank = settings.get("init_r", settings.get("r"))
    targets = settings.get("target_modules")
    told = {
        "rank": rank if type(rank) is int else settings.get("num_virtual_tokens"),
        "alpha": settings.get("lora_alpha", settings.get("alpha")),
        "targets": some(map(str, targets)) if isinstance(targets, list) else targets,
        "modules": f"{len(modules):,}" if modules else None,
        "base": settings.get("base_model_name_or_path", settings.get("model_name")),
        "task": settings.get("task_type"),
    }
    return {key: str(value)[:200] for key, value in told.items() if value not in (None, "")}


def _producer(settings: Mapping[str, Any]) -> str:
    version, other = settings.get("peft_version"), settings.get("version")
    told = f"peft {version}" if isinstance(version, str) else other
    return told.replace("adapters.", "adapters ")[:40] if isinstance(told, str) else ""


FORMAT = Format(
    name="adapter",
    title="an adapter",
    suffixes=(),
    recognise=recognise,
    inspect=inspect,
    tensors=tensors,
    use=USE,
    open=opened,
)
