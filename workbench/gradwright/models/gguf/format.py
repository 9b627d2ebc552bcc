"""GGUF files as a format: what a language model is, told by its header."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArchiveError, GradwrightError
from ...formats.gguf.header import Header, Info, is_gguf
from ...formats.gguf.splits import whole
from ...formats.language import LanguageShape
from ...formats.registry import Format, Outline, Range, TensorRange
from ...formats.report import Finding, ModelInfo, Packed
from ...formats.source import Source, naming
from ...spec import TensorSpec
from ..decoder.packing import packed_shape
from . import encoders
from .architectures import ARCHITECTURES, config_of, factors_of
from .facts import Facts
from .reading import built, from_gguf, graph_name, laid_out
from .tokenizers import describe, has_tokenizer, tokenizer_problem

LONG = 200
"""Characters of a text among the metadata at most; a template of chats has thousands."""


def tensors(source: Source) -> Mapping[str, TensorRange]:
    """Return the tensors of all files; packed ones by their elements, as float32."""
    _, infos, files = whole(source)
    return {name: _range(info, files[name]) for name, info in infos.items()}


def _range(info: Info, file: str) -> TensorRange:
    place = Range(info.start, info.nbytes, file)
    if info.kind.dtype is not None:
        return TensorRange(info.kind.dtype, info.shape, (place,))
    return TensorRange(np.dtype("float32"), info.shape, (place,), f"ggml:{info.kind.name}")


def inspect(source: Source) -> ModelInfo:
    """Return what the keys say: architecture, sizes, tokenizer; and what cannot be read here."""
    header, infos, files = whole(source)
    with naming(source.name):
        name = header.keys.get("general.architecture")
        if not isinstance(name, str):
            raise ArchiveError("the file has no key general.architecture")
        path = Path(source.name)
        sizes = {file: source.beside(file).size if file else source.size for file in files.values()}
        language, findings = _language(header, infos, name)
        return ModelInfo(
            path,
            sum(sizes.values()) or source.size,
            _name(header, path),
            {},
            {},
            {n: TensorSpec(i.shape, i.kind.dtype or "float32") for n, i in infos.items()},
            versions={"GGUF": header.version},
            architecture=name[:60],
            language=language,
            tokenizer=describe(header.keys),
            metadata=_metadata(header),
            packed={
                n: Packed(i.kind.name, i.nbytes) for n, i in infos.items() if i.kind.dtype is None
            },
            files={f or path.name: n for f, n in sizes.items()} if len(sizes) > 1 else {},
            findings=findings,
        )


def _name(header: Header, path: Path) -> str:
    name = header.keys.get("general.name")
    return name[:100] if isinstance(name, str) and name else path.stem


def _metadata(header: Header) -> dict[str, str]:
    """Return keys that are one number or a short text, and how many elements arrays have."""
    found: dict[str, str] = {}
    for key, value in header.keys.items():
        if isinstance(value, str | int | float):
            text = str(value)
            found[key] = text if len(text) <= LONG else f"{text[:LONG]} … {len(text):,} characters"
        else:
            found[key] = f"{len(value):,} elements"
    return found


def _language(
    header: Header, infos: Mapping[str, Info], name: str
) -> tuple[LanguageShape | None, list[Finding]]:
    """Return the sizes of a decoder, if the keys tell them, and what keeps a model from opening."""
    findings: list[Finding] = []
    kind = header.keys.get("general.type", "model")
    if kind == "adapter":
        return None, findings
    if kind != "model":
        findings.append(Finding(f"it is of the type {kind!r:.40}, no model"))
        return None, findings
    if name not in ARCHITECTURES:
        read = ", ".join(ARCHITECTURES)
        findings.append(Finding(f"the architecture {name!r:.60} is not read here; {read} are"))
    if unread := sorted({i.kind.name for i in infos.values() if not i.kind.is_read}):
        findings.append(Finding(f"tensors of kind {', '.join(unread)} are not read here"))
    if has_tokenizer(header.keys) and (problem := tokenizer_problem(header.keys)):
        findings.append(Finding(problem, "the tokenizer"))
    try:
        if name == encoders.NAME:
            config_of(header.keys, {n: i.shape for n, i in infos.items()}, {})
            return None, findings
        return _shape(Facts(header.keys, name), infos), findings
    except GradwrightError as error:
        findings.append(Finding(str(error).splitlines()[0], "its sizes"))
        return None, findings


def _shape(facts: Facts, infos: Mapping[str, Info]) -> LanguageShape:
    width, heads = facts.size("embedding_length"), facts.size("attention.head_count")
    experts = facts.size("expert_count", 0, least=0)
    embedding = infos.get("token_embd.weight")
    named = facts.size("vocab_size", 1)
    return LanguageShape(
        layers=facts.size("block_count"),
        width=width,
        heads=heads,
        kv_heads=facts.size("attention.head_count_kv", heads),
        features=facts.size("attention.key_length", max(1, width // heads)),
        inner=facts.size("expert_feed_forward_length", facts.size("feed_forward_length")),
        vocabulary=embedding.shape[0] if embedding is not None and embedding.shape else named,
        context=facts.size("context_length"),
        experts=experts,
        active=facts.size("expert_used_count", 1) if experts else 1,
        capped=facts.held("attn_logit_softcapping"),
    )


def outline(source: Source) -> Outline:
    """Return the graph of a model, whose weights have the names of the file, and no values.

    Raises ArchiveError where there is none.
    """
    header, infos, _ = whole(source)
    with naming(source.name):
        shapes = {name: info.shape for name, info in infos.items()}
        kinds = {name: info.kind for name, info in infos.items()}
        ones = factors_of(shapes, lambda name: np.ones(shapes[name], "f4"))
        config, places, packed = laid_out(header.keys, shapes, kinds, ones)
        zero, values = np.zeros((), "f4"), dict[str, np.ndarray[Any, Any]]()
        for weight, whole_shape in config.weights():
            kind = packed.get(weight)
            shape = whole_shape if kind is None else packed_shape(whole_shape, kind)
            values[weight] = np.broadcast_to(zero if kind is None else zero.astype("u1"), shape)
        name = graph_name(header.keys)
        graph = built(config, name, values, packed).graph
        for name in values:
            graph.values.discard(name)
        graph.known_as = {p.tensor: graph[p.name] for p in places if p.start is None}
        return Outline(graph)


FORMAT = Format(
    name="gguf",
    title="a GGUF file",
    suffixes=(".gguf",),
    recognise=is_gguf,
    inspect=inspect,
    tensors=tensors,
    use="gw.open(path), or gw.models.from_gguf(path)",
    outline=outline,
    open=from_gguf,
)
