"""Adapters in GGUF files as a format: told by a key before those of models are looked at."""

from __future__ import annotations

from dataclasses import replace

from ...formats.gguf.header import is_gguf
from ...formats.registry import GGUF_ADAPTER, HEAD, Format
from ...formats.report import ModelInfo, some
from ...formats.source import Source
from ...models.gguf.format import inspect as inspect_gguf
from ...models.gguf.format import tensors
from .format import USE
from .gguf import RANKED, read_gguf


def recognise(source: Source) -> bool | None:
    """Tell a GGUF file that says it is an adapter."""
    return bool(is_gguf(source)) and GGUF_ADAPTER in source.read(0, HEAD)


def inspect(source: Source) -> ModelInfo:
    """Return the rank, what it goes to, and the architecture that it is for."""
    info = inspect_gguf(source)
    found = {name: spec for name, spec in info.tensors.items() if RANKED.fullmatch(name)}
    ranks = sorted({int(spec.shape[-1]) for spec in found.values()})
    told = {
        "rank": some(map(str, ranks)),
        "modules": f"{len(found):,}",
        "targets": some(dict.fromkeys(name.split(".")[-3] for name in found)),
    }
    return replace(
        info,
        architecture=f"LoRA of {info.architecture}",
        metadata={key: text for key, text in told.items() if text} | dict(info.metadata),
    )


FORMAT = Format(
    name="gguf-adapter",
    title="an adapter in a GGUF file",
    suffixes=(".gguf",),
    recognise=recognise,
    inspect=inspect,
    tensors=tensors,
    use=USE,
    open=read_gguf,
)
