"""Folders of Hugging Face as a format: told by ``config.json``, inspected by headers alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArchiveError
from ...formats.checked import MAX_JSON, parse_json
from ...formats.language import LanguageShape
from ...formats.registry import Format, Outline, TensorRange
from ...formats.report import Finding, ModelInfo
from ...formats.safetensors import format as single
from ...formats.safetensors import several
from ...formats.source import Source, exactly, naming
from ...graph import Graph
from ..decoder.config import DecoderConfig
from .kinds import config_of, kind_of
from .reading import CONFIG, INDEX, PICKLES, TOKENIZER, WEIGHTS, from_pretrained
from .weights import found_weights, places

_KIND = re.compile(rb'"model"\s*:\s*\{\s*"type"\s*:\s*"(\w{1,40})"')
_HEAD = 1 << 22
"""Bytes of a tokenizer that are looked at for its kind."""


def recognise(source: Source) -> bool | None:
    """Tell a folder with a ``config.json`` of a kind of model, and its weights beside it."""
    names = source.names()
    if CONFIG not in names or not {WEIGHTS, INDEX, *PICKLES} & set(names):
        return False
    try:
        return "model_type" in _config(source)
    except ArchiveError:
        return None


def _config(source: Source) -> dict[str, Any]:
    part = source.part(CONFIG)
    if part.size > MAX_JSON:
        raise ArchiveError(f"{part.size:,} bytes of JSON, limit {MAX_JSON:,}", where=CONFIG)
    return parse_json(exactly(part, 0, part.size), CONFIG)


def tensors(source: Source) -> Mapping[str, TensorRange]:
    """Return what the headers of all files say of each tensor; those of pickles are not known."""
    with naming(source.name):
        if not {WEIGHTS, INDEX} & set(source.names()):
            return {}
        if WEIGHTS not in source.names():
            return several.tensors(source.part(INDEX))
        found = single.tensors(source.part(WEIGHTS))
        return {
            name: replace(held, ranges=tuple(replace(r, file=WEIGHTS) for r in held.ranges))
            for name, held in found.items()
        }


def inspect(source: Source) -> ModelInfo:
    """Return the kind of model, its sizes, tensors and tokenizer, and what to beware."""
    data, held = _config(source), tensors(source)
    files = {r.file: 0 for tensor in held.values() for r in tensor.ranges}
    files |= {file: source.part(file).size for file in files}
    findings = [
        Finding("brings code of its own, which is never run", where=CONFIG)
        for _ in range("auto_map" in data)
    ]
    specs = {name: tensor.spec for name, tensor in held.items()}
    language = None
    try:
        if not specs:
            raise ArchiveError("its weights are a pickle, and opening one runs what it names")
        kind = kind_of(data)
        config = config_of(kind, data, specs)
        language = _language(config)
        found_weights(kind.family, config, specs, _unread)
    except ArchiveError as error:
        findings.append(Finding(str(error).partition("\n")[0], where=CONFIG, grave=True))
    path = Path(source.name)
    return ModelInfo(
        path,
        source.size,
        path.name,
        {},
        {},
        specs,
        architecture=str(data.get("model_type"))[:60],
        producer=_producer(data),
        tokenizer=_tokenizer(source),
        files=files if len(files) > 1 else {},
        findings=findings,
        language=language,
    )


def outline(source: Source) -> Outline:
    """Return the graph of a model without values; raises ArchiveError where there is none."""
    with naming(source.name):
        data, held = _config(source), tensors(source)
        specs = {name: tensor.spec for name, tensor in held.items()}
        kind = kind_of(data)
        config = config_of(kind, data, specs)
        found_weights(kind.family, config, specs, _unread)
        nothing = np.zeros((), np.float32)
        values = {name: np.broadcast_to(nothing, shape) for name, shape in config.weights()}
        graph: Graph = kind.model(config, name=kind.family.name, values=values).graph
        for name in values:
            graph.values.discard(name)
        graph.known_as = {
            place.names[0]: graph[name]
            for name, _, place in places(kind.family, config)
            if place.names[0] in specs and place.stop - place.start == place.whole
        }
        return Outline(graph)


def _unread(name: str) -> np.ndarray[Any, Any]:
    raise ArchiveError(f"{name} is not read")


def _language(config: Any) -> LanguageShape | None:
    """Return the sizes of a language model; None of any other."""
    if not isinstance(config, DecoderConfig):
        return None
    return LanguageShape(
        layers=config.layers,
        width=config.width,
        heads=config.heads,
        kv_heads=config.shared,
        features=config.features,
        inner=config.hidden,
        vocabulary=config.vocabulary,
        context=config.context,
        experts=config.experts,
        active=config.experts_per_token if config.experts else 1,
        capped=config.attention_cap is not None,
    )


def _producer(data: Mapping[str, Any]) -> str:
    version = data.get("transformers_version")
    return f"transformers {version[:40]}" if isinstance(version, str) else ""


def _tokenizer(source: Source) -> str:
    """Return the kind of a tokenizer in a few words; nothing where there is none."""
    if TOKENIZER not in source.names():
        return ""
    part = source.part(TOKENIZER)
    found = _KIND.search(part.read(0, min(_HEAD, part.size)))
    return f"{found[1].decode()} of {TOKENIZER}" if found else TOKENIZER


FORMAT = Format(
    name="huggingface",
    title="a folder of Hugging Face",
    suffixes=(),
    recognise=recognise,
    inspect=inspect,
    tensors=tensors,
    use="gw.open(path)",
    outline=outline,
    open=from_pretrained,
)
