"""Folders of Hugging Face, written: what transformers and others load."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import GraphError
from ...files.folder import filling
from ...formats.safetensors.writing import save, saved_at
from ...formats.source import as_path
from ...spec import dtype as as_dtype
from ...spec import dtype_name
from ..completion import tokens_of
from ..decoder import Decoder
from ..tokenizers import Tokenizer
from ..whisper import Whisper
from .kinds import Kind, kind_for
from .loading import state_dict
from .reading import CONFIG, GENERATION, TOKENIZER, WEIGHTS, json_of
from .whisper import written_tokens

TEXTS = (
    *(TOKENIZER, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "tokenizer.model", "chat_template.jinja"),
    *("preprocessor_config.json", "normalizer.json"),
)
"""Files of a tokenizer and of what goes before a model, which are copied as they are."""
DTYPES = ("float32", "float16", "bfloat16")
SHARD = 5_000_000_000
"""Bytes of a file at most, as transformers has them."""


def save_pretrained(
    model: Any,
    path: str | os.PathLike[str],
    *,
    family: str | None = None,
    dtype: str = "float32",
    max_file_bytes: int | None = SHARD,
) -> None:
    """Write a model as a folder that transformers loads, such as by ``AutoModelForCausalLM``.

    All of its files are written, or none: after an error the folder is as it was.
    ``config.json``, ``generation_config.json``, ``model.safetensors`` or several files and their
    index, and the tokenizer: its files are copied if the model was read from a folder that has
    them. Other keys of that folder's ``config.json`` are kept.

    Args:
        model: a decoder, a BERT, a ViT or a Whisper.
        path: the folder, which is made if it is not there.
        family: what kind of model it is written as, such as ``"mistral"``; by default the one that
            it was read as, or the first that has such decoders.
        dtype: of the weights in the files: float32, float16 or bfloat16.
        max_file_bytes: how large a file may be before there are several.

    Raises:
        GraphError: no family has such a model, or this family has none.
        OSError: a file cannot be written.

    >>> import tempfile, pathlib
    >>> from gradwright.models import Decoder, DecoderConfig, save_pretrained
    >>> model = Decoder(DecoderConfig(vocabulary=20, width=16, layers=1, heads=2))
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> save_pretrained(model, folder)
    >>> sorted(path.name for path in folder.iterdir())
    ['config.json', 'generation_config.json', 'model.safetensors']
    """
    folder, before = as_path(path), config_before(model)
    kind = kind_of_model(model, family)
    name = dtype_name(as_dtype(dtype))
    if name not in DTYPES:
        raise GraphError(f"no weights of {name}", need=", ".join(DTYPES))
    arrays: Mapping[str, Any] = state_dict(model, kind.family.name)
    if name != "float32":
        arrays = {key: array.astype(as_dtype(name)) for key, array in arrays.items()}
    config = kind.written(model.config)
    if before.get("model_type") == kind.family.name:
        config = {**before, **config}
        config.pop("auto_map", None)
    ends = _ends(model)
    config |= {"dtype": name, "torch_dtype": name, **ends}
    kept = {
        k: v for k, v in config.items() if k in ("bos_token_id", "pad_token_id") and v is not None
    }
    with filling(folder, stale=saved_at(folder / WEIGHTS)) as new:
        save(arrays, new / WEIGHTS, metadata={"format": "pt"}, max_file_bytes=max_file_bytes)
        (new / CONFIG).write_text(_text(config), "utf-8")
        (new / GENERATION).write_text(_text({**kept, **ends}), "utf-8")
        _write_tokenizer(model, folder, new)


def kind_of_model(model: Any, family: str | None = None) -> Kind:
    """Return the kind that a model is written as; by default the one that it was read as.

    Raises GraphError where no family has such a model, or this family has none.
    """
    return kind_for(model, family, str(config_before(model).get("model_type")))


def config_before(model: Any) -> dict[str, Any]:
    """Return the ``config.json`` of the folder that a model was read from; none elsewhere."""
    source = model.source
    if source is None or not (source / CONFIG).is_file():
        return {}
    return json_of(source / CONFIG)


def _ends(model: Any) -> dict[str, Any]:
    """Return what tells which tokens end a row, of a model that generates."""
    if not isinstance(model, Decoder | Whisper):
        return {}
    eos = tokens_of(model.eos)
    found: dict[str, Any] = {"eos_token_id": eos[0] if len(eos) == 1 else eos or None}
    return found | (written_tokens(model) if isinstance(model, Whisper) else {})


def _write_tokenizer(model: Any, folder: Path, new: Path) -> None:
    source = model.source
    if source is not None and source.is_dir():
        for name in TEXTS:
            if (source / name).is_file() and source.resolve() != folder.resolve():
                shutil.copyfile(source / name, new / name)
    elif isinstance(getattr(model, "tokenizer", None), Tokenizer):
        model.tokenizer.save(new / TOKENIZER)


def _text(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=2, sort_keys=True, default=np.generic.item) + "\n"
