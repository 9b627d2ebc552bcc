"""``config.json`` as `DecoderConfig`, and back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from ...errors import ArchiveError, GraphError
from ..decoder.config import DecoderConfig
from . import rope
from .families import FAMILIES
from .family import Family
from .fields import whole
from .settings import read_settings, written_settings

_ROTARY = {"rope_base", "rotary_size", "rope_scaling"}
_WIDTHS = dict.fromkeys(("gemma2", "mistral", "qwen2", "qwen3"), 4096)
"""Family -> keys that a query sees where a file does not tell."""
_WINDOW, _FULL = "sliding_attention", "full_attention"


def read_config(data: Mapping[str, Any]) -> DecoderConfig:
    """Return the config of a decoder that ``config.json`` tells.

    Raises ArchiveError for a kind of positions, of activation or of layers that is not known, for a
    setting that is not, and for values that are none, and GraphError for sizes that do not go
    together.

    >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
    >>> config = {"model_type": "llama", "vocab_size": 9, "intermediate_size": 16, **sizes}
    >>> read_config(config).features
    4
    """
    family = FAMILIES[data["model_type"]]
    found = read_settings(family, data, DecoderConfig)
    scalar = found.get("attention_scale")
    if scalar is not None:  # what scores are divided by the root of
        if scalar <= 0:
            raise ArchiveError(f"query_pre_attn_scalar is {scalar}", need="a number above 0")
        found["attention_scale"] = scalar**-0.5
    if found.get("embedding_scale") == "width":
        found["embedding_scale"] = math.sqrt(found["width"])
    if family.name == "gpt2" and found["inner"] is None:
        found["inner"] = 4 * found["width"]
    found |= _windows(family, data, found["layers"])
    if found.get("positions") != "learned":
        features = found.get("head_size") or found["width"] // max(1, found["heads"])
        found |= rope.read(data, family.theta, found["context"], features)
    return DecoderConfig(**found)


def _windows(family: Family, data: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """Return which layers see how many keys."""
    width = data.get("sliding_window", _WIDTHS.get(family.name))
    used = family.windows == "use" and not data.get("use_sliding_window", False)
    if not family.windows or width is None or used:
        return {}
    width = whole(width, "sliding_window")
    if family.windows == "all":
        return {"window": width}
    kinds = data.get("layer_types")
    if kinds is None:
        kinds = list(_usual(family, data, layers))
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise ArchiveError("layer_types do not fit", need=f"{layers} of {_WINDOW}, {_FULL}")
    if unknown := [kind for kind in kinds if kind not in (_WINDOW, _FULL)]:
        raise ArchiveError(
            f"layers of the type {str(unknown[0])[:40]!r} are not known here",
            need=f"{_WINDOW}, {_FULL}",
        )
    full = tuple(i for i, kind in enumerate(kinds) if kind == _FULL)
    return {"window": width, "full_layers": full} if len(full) < layers else {}


def _usual(family: Family, data: Mapping[str, Any], layers: int) -> Iterator[str]:
    """Yield the types of layers where a file does not tell."""
    from_layer = whole(data.get("max_window_layers", 28), "max_window_layers")
    for i in range(layers):
        window = i % 2 == 0 if family.windows == "types" else i >= from_layer
        yield _WINDOW if window else _FULL


def written_config(config: DecoderConfig, family: Family) -> dict[str, Any]:
    """Return a ``config.json`` of a family; whether it tells all, ``read_config`` shows."""
    found = written_settings(family, config)
    for key, (names, default) in family.keys.items():
        if names == "attention_scale":
            scale = config.attention_scale
            found[key] = config.features if scale is None else _plain(scale**-2.0)
        elif found[key] is None and names in ("kv_heads", "inner"):
            found[key] = config.shared if names == "kv_heads" else config.hidden
        elif found[key] is None and names == "head_size":
            found[key] = config.features
            if default is None:
                del found[key]  # some families know no such key, and take None for a size
        elif key == "resid_pdrop":
            found |= {"embd_pdrop": found[key], "attn_pdrop": 0.0}
    if config.positions == "rotary":
        found |= rope.written(config, family.name)
    if family.windows:
        found["sliding_window"] = config.window
    if family.windows in ("types", "use"):
        reaches = map(config.reach, range(config.layers))
        found["layer_types"] = [_FULL if n is None else _WINDOW for n in reaches]
    if family.windows == "use":
        found["use_sliding_window"] = config.window is not None
        found["max_window_layers"] = config.layers
    return found


def _plain(value: float) -> float:
    """Return an integer for what only rounding keeps from being one."""
    return round(value) if abs(value - round(value)) < 1e-6 * abs(value) else value


def fitting(config: DecoderConfig) -> Family:
    """Return the first family whose ``config.json`` tells all of a config.

    Raises GraphError where none does.
    """
    for family in FAMILIES.values():
        if tells(config, family):
            return family
    raise GraphError(
        f"no family of Hugging Face has such a decoder: {config}", need=", ".join(FAMILIES)
    )


def tells(config: DecoderConfig, family: Family) -> bool:
    """Tell whether what a family writes of a config reads as a decoder of the same numbers."""
    try:
        back = read_config(written_config(config, family))
    except (ArchiveError, GraphError, KeyError, TypeError, ZeroDivisionError, OverflowError):
        return False
    return _bare(back) == _bare(config)


def _bare(config: DecoderConfig) -> dict[str, Any]:
    """Return fields, with what None stands for in its place, and what has no effect left out."""
    found = {f.name: getattr(config, f.name) for f in fields(config)}
    found |= {
        "kv_heads": config.shared, "inner": config.hidden, "head_size": config.features
    }  # fmt: skip
    scale = config.attention_scale
    found["attention_scale"] = round(config.features**-0.5 if scale is None else scale, 12)
    found["embedding_scale"] = round(config.embedding_scale, 9)
    found["rotary_size"] = config.turned
    found.pop("interleaved")  # rows of queries and keys are brought into order
    if config.rope_scaling is not None and config.rope_scaling.kind == "linear":
        found["rope_scaling"] = config.rope_scaling.factor
    if config.positions == "learned":
        for name in _ROTARY:
            found.pop(name)
    if not config.experts:
        found.pop("experts_per_token")
        found.pop("renormalize")
    if config.window is None:
        found.pop("full_layers")
    return found
