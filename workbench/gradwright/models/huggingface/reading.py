"""Folders of Hugging Face, read: the model that is in one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...errors import ArchiveError
from ...formats.checked import MAX_JSON, parse_json
from ...formats.pickles import conversion
from ...formats.safetensors import format as single
from ...formats.safetensors import several
from ...formats.safetensors.mapped import Tensors
from ...formats.source import as_path
from ..decoder import Decoder
from ..encoders import Bert, Vit
from ..tokenizers import TextCodec
from ..whisper import Whisper
from .kinds import config_of, kind_of
from .tokenizer import PretrainedTokenizer
from .weights import found_weights
from .whisper import read_tokens

CONFIG, GENERATION = "config.json", "generation_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
TOKENIZER = "tokenizer.json"


def from_pretrained(path: str | os.PathLike[str], *, position_ids: bool = False) -> Any:
    """Return the model of a folder that transformers has saved.

    ``config.json`` tells what it is: a `Decoder` of Llama, Mistral, Qwen2, Qwen3, Gemma2, Phi3,
    Mixtral or GPT-2, with ``position_ids`` if these are asked for; a `Bert`, `Vit` or `Whisper`.
    Weights are mapped from ``model.safetensors``, or from several files and their index: float32
    ones are used where they lie, others become float32 when they are first used. Its tokenizer is
    that of ``tokenizer.json`` where the library ``tokenizers`` is installed. Code that a folder
    brings is never run, nor a pickle opened.

    Raises:
        ArchiveError: the folder is damaged, or its model is of a kind that is not known.
        OSError: nothing is there.

    >>> import gradwright as gw, tempfile, pathlib
    >>> from gradwright.models import Decoder, DecoderConfig, from_pretrained, save_pretrained
    >>> model = Decoder(DecoderConfig(vocabulary=20, width=16, layers=1, heads=2))
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "tiny")
    >>> save_pretrained(model, folder)
    >>> from_pretrained(folder).generate([[1, 2]], 4)[0] == model.generate([[1, 2]], 4)[0]
    True
    """
    folder = as_path(path)
    data = json_of(folder / CONFIG)
    try:
        kind = kind_of(data)
        tensors = _tensors(folder)
        config = config_of(kind, data, tensors.specs)
        values = found_weights(kind.family, config, tensors.specs, tensors.__getitem__)
        more = _more(kind.model, folder, data)
    except ArchiveError as error:
        error.where = error.where or str(folder)
        raise
    if kind.model is Decoder:
        more["position_ids"] = position_ids
    name = kind.family.name
    return kind.model(config, name=name, values=values, source=folder, **more)


def _more(model: type[Any], folder: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what else a model of a class is told: its tokenizer, and tokens that end rows."""
    if model is Vit:
        return {}
    found: dict[str, Any] = {"tokenizer": _tokenizer(folder)}
    if model is Bert:
        return found
    path = folder / GENERATION
    told = {**data, **(json_of(path) if path.is_file() else {})}
    found["eos"] = _eos(told)
    if model is Whisper:
        found |= read_tokens(told, data.get("forced_decoder_ids"))
    return found


def _tensors(folder: Path) -> Tensors:
    """Return the tensors of a folder, mapped; raises ArchiveError where it has none."""
    for name, opened in ((WEIGHTS, single.opened), (INDEX, several.opened)):
        if (folder / name).is_file():
            return opened(folder / name)
    pickled = next((folder / name for name in PICKLES if (folder / name).is_file()), None)
    if pickled is not None:
        raise ArchiveError(
            f"its weights are a pickle, {pickled.name}, and opening one runs what it names",
            where=str(folder),
            need=WEIGHTS,
            hint=conversion(folder / PICKLES[0]).replace("pytorch_model.safetensors", WEIGHTS),
        )
    raise ArchiveError(
        f"the folder has no {WEIGHTS}",
        where=str(folder),
        need=f"{WEIGHTS}, or {INDEX} and its files",
    )


def json_of(path: Path) -> dict[str, Any]:
    """Return the JSON of a file; raises ArchiveError where there is none, or another file."""
    if not path.is_file():
        if not path.parent.exists():
            raise FileNotFoundError(f"no such folder: {path.parent}")
        raise ArchiveError(
            f"the folder has no {path.name}", where=str(path.parent), need=f"{CONFIG}, {WEIGHTS}"
        )
    if path.stat().st_size > MAX_JSON:
        raise ArchiveError(f"{path.name} has {path.stat().st_size:,} bytes", where=str(path))
    return parse_json(path.read_bytes(), str(path))


def _tokenizer(folder: Path) -> TextCodec | None:
    """Return the tokenizer of a folder, if it has one, and the library that reads it is there."""
    path = folder / TOKENIZER
    return PretrainedTokenizer(path) if path.is_file() and find_spec("tokenizers") else None


def _eos(data: Mapping[str, Any]) -> list[int]:
    """Return the tokens that end a row."""
    told = data.get("eos_token_id")
    rows = told if isinstance(told, list) else [] if told is None else [told]
    if not all(type(token) is int and token >= 0 for token in rows):
        raise ArchiveError(f"eos_token_id is {str(told)[:40]!r}", need="tokens")
    return rows
