"""Adapters of graphs as files: a folder that peft loads, or a GGUF file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import GraphError
from ...formats.source import as_path
from ...models.decoder import Decoder
from ...models.gguf.architectures import architecture_of
from ..adapted import Adapted
from ..methods.bottleneck import Bottleneck
from . import keys
from .bottleneck import write_bottleneck
from .collecting import Collected, settings_for
from .gguf import EMBEDDING, write_gguf
from .loading import ORIGINS
from .options import options_of
from .plain import as_plain
from .reading import WEIGHTS, rounded, write_files
from .saved import SavedAdapter

Array = np.ndarray[Any, Any]
BASE = "base_model_name_or_path"
DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def save(
    adapted: Adapted | SavedAdapter,
    path: str | os.PathLike[str],
    *,
    model: Any = None,
    family: str = "",
    base: str | None = None,
    dtype: str | None = None,
    plain: bool = False,
) -> None:
    """Write an adapter as a folder that peft loads, or as a GGUF file if ``path`` ends so.

    ``adapter_config.json`` and ``adapter_model.safetensors``, both or none of them; of bottlenecks
    as the library adapters has them. What the folder said that an adapter was loaded from is kept
    where it means nothing here. ``adapted.weight`` is of the graph, and in no file.

    Args:
        adapted: what ``gw.adapters.add`` returned; or what ``gw.open`` did, which is written as it
            is.
        path: the folder, which is made if it is not there, or a file ``*.gguf``.
        model: the model whose graph it is in, which tells what modules are called; by default the
            one that it was added to. Weights of a graph are modules of their own names.
        family: what kind of model it is for, such as ``"mistral"``, or the architecture of a GGUF
            file; by default the one that the model was read as, or the first that has such models.
        base: what the file says the model is called; by default where that was read from.
        dtype: of the arrays: float32, float16 or bfloat16; by default that of the variables.
        plain: make a plain LoRA of twice the rank of one whose first values have changed the
            model's weights, as PiSSA and OLoRA do, so that it is for the model as it was.

    Raises:
        GraphError: such files have no such method, no module for a weight, or no such numbers.
        OSError: a file cannot be written.

    >>> import gradwright as gw, pathlib, tempfile
    >>> model = gw.models.Decoder(gw.models.DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    >>> adapted = gw.adapters.add(model, gw.adapters.LoRA(r=2), where="q|v")
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "tuned")
    >>> gw.adapters.save(adapted, folder)
    >>> list(gw.open(folder).arrays)[0]
    'model.layers.0.self_attn.q_proj'
    """
    target = as_path(path)
    if dtype is not None and dtype not in DTYPES:
        raise GraphError(f"no arrays of {dtype!r}", need=", ".join(DTYPES))
    if isinstance(adapted, SavedAdapter):
        if adapted.names != "huggingface" or target.suffix == ".gguf" or plain or family:
            raise GraphError(
                f"{adapted!r} is written as it is, which has to be a folder of peft",
                hint="gw.adapters.save(gw.adapters.load(model, path), ...)",
            )
        settings = {**adapted.settings, **({} if base is None else {BASE: base or None})}
        write_folder(target, settings, adapted.arrays, dtype)
        return
    model = adapted.model if model is None else model
    origin = ORIGINS.get(adapted, {})
    if isinstance(adapted.adapter, Bottleneck):
        if plain or target.suffix == ".gguf":
            raise _no_lora("plain=True and GGUF files are for LoRA", adapted)
        base = base if base is not None else origin.get("model_name") or _base(model)
        write_bottleneck(
            target, adapted, model, family=family, origin=origin, base=base, dtype=dtype
        )
        return
    base = base if base is not None else origin.get(BASE) or _base(model)
    if target.suffix == ".gguf":
        _save_gguf(adapted, model, target, family, base, dtype, plain)
        return
    collected = Collected(adapted, model, "huggingface", family, origin)
    settings = settings_for(collected, model, origin)
    if plain:
        settings = as_plain(collected, settings)
    settings[BASE] = base or None
    write_folder(target, settings, collected.arrays, dtype)


def _base(model: Any) -> str:
    source = getattr(model, "source", None)
    return "" if source is None else str(source)


def write_folder(
    folder: Path,
    settings: Mapping[str, Any],
    arrays: Mapping[str, Mapping[str, Array]],
    dtype: str | None = None,
) -> None:
    """Write settings and arrays as peft has them."""
    row = options_of(settings)
    kind = row.peft_type if row else str(settings.get("peft_type"))
    tensors: dict[str, Array] = {}
    for path, leaves in arrays.items():
        is_adapted = bool(leaves.keys() - {*keys.TRAINED})
        for leaf, array in leaves.items():
            tensors[keys.written(kind, path, leaf, is_adapted)] = array
    write_files(folder, settings, rounded(tensors, dtype), WEIGHTS)


def _no_lora(why: str, adapted: Adapted) -> GraphError:
    return GraphError(
        f"{why}, and this is {type(adapted.adapter).__name__}",
        hint="gw.adapters.to_lora makes a LoRA of what has a delta",
    )


def _save_gguf(
    adapted: Adapted,
    model: Any,
    path: Path,
    family: str,
    base: str,
    dtype: str | None,
    plain: bool,
) -> None:
    """Write a LoRA as a GGUF file: scales that are not alpha / r go into B."""
    if not isinstance(model, Decoder):
        raise GraphError("GGUF files of adapters are of decoders", need="a gw.models.Decoder")
    architecture = family or architecture_of(model.config)
    collected = Collected(adapted, model, "gguf", architecture, {})
    settings = settings_for(collected, model, {})
    if settings["peft_type"] != "LORA" or settings.get("use_dora"):
        raise _no_lora("GGUF files have LoRA alone", adapted)
    if adapted.thawed or settings.get("lora_bias"):
        raise GraphError("GGUF files of adapters have no biases", need="bias='none'")
    if plain:
        settings = as_plain(collected, settings)
    alpha = float(settings["lora_alpha"] or settings["r"])  # 0 would be read as a scale of 1
    root = bool(settings.get("use_rslora"))
    arrays: dict[str, dict[str, Array]] = {}
    for module, leaves in collected.arrays.items():
        r, own = collected.scales[module]
        ratio = np.float32(own / (r**0.5 if root else r) * r / alpha)
        b = "lora_embedding_B" if module == EMBEDDING else "lora_B"
        scaled = leaves[b] if ratio == 1 else leaves[b] * ratio
        arrays[module] = rounded({**leaves, b: scaled}, dtype)
    kind = DTYPES[dtype or "float32"]
    write_gguf(path, architecture, alpha, arrays, kind=kind, name=adapted.name, base=base)
