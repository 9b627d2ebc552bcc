"""Rotary positions in ``config.json``: ``rope_parameters``, or what older files have instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ArchiveError
from ..decoder.config import DecoderConfig, RopeScaling
from ..decoder.rope import yarn_size
from .fields import number, whole

KINDS = {
    "default": None,
    "linear": "linear",
    "dynamic": "dynamic",
    "yarn": "yarn",
    "llama3": "llama3",
    "longrope": "longrope",
    "su": "longrope",  # as it was called before it had a name
}
NUMBERS = ("attention_factor", "beta_fast", "beta_slow", "low_freq_factor", "high_freq_factor")
FACTORS = ("short_factor", "long_factor")
OWN = {
    "linear": (),
    "dynamic": (),
    "yarn": ("attention_factor", "beta_fast", "beta_slow"),
    "llama3": ("low_freq_factor", "high_freq_factor"),
    "longrope": ("attention_factor", *FACTORS),
}
"""Kind -> fields beside factor and length that it reads."""


def read(data: Mapping[str, Any], theta: float, context: int, features: int) -> dict[str, Any]:
    """Return the fields of a decoder that a config tells of rotary positions.

    Raises ArchiveError for a kind that is not known, by its name, and for what it needs.
    """
    rows = {**(_table(data, "rope_scaling")), **_table(data, "rope_parameters")}
    name = rows.get("rope_type", rows.get("type", "default"))
    if not isinstance(name, str) or name not in KINDS:
        raise ArchiveError(
            f"rotary positions are scaled by {str(name)[:40]!r}, which is not known here",
            need=", ".join(KINDS),
        )
    base = number(rows.get("rope_theta", data.get("rope_theta", theta)), "rope_theta")
    found: dict[str, Any] = {"rope_base": base}
    share = rows.get("partial_rotary_factor", data.get("partial_rotary_factor", 1.0))
    n = int(features * number(share, "partial_rotary_factor"))
    if n != features:
        found["rotary_size"] = n
    kind = KINDS[name]
    if data.get("model_type") == "phi3" and kind == "yarn":  # early files call it so
        kind = "longrope"
    if kind is not None:
        found["rope_scaling"] = scaling = _scaling(kind, rows, data, context)
        if kind == "dynamic":  # such a file tells the length in pre-training, and goes beyond it
            found["context"] = max(context, int(context * scaling.factor))
    return found


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    rows = data.get(key) or {}
    if not isinstance(rows, Mapping):
        raise ArchiveError(f"{key} is {type(rows).__name__}", need="an object")
    return rows


def _scaling(
    kind: str, rows: Mapping[str, Any], data: Mapping[str, Any], context: int
) -> RopeScaling:
    """Return the scaling of a kind; its defaults are those of transformers."""
    old = data.get("original_max_position_embeddings")
    if old is None:
        old = rows.get("original_max_position_embeddings", context)
    length = whole(context if kind == "dynamic" else old, "original_max_position_embeddings")
    factor = rows.get("factor")
    if factor is None and kind in ("yarn", "longrope"):
        factor = context / max(1, length)
    told: dict[str, Any] = {"factor": number(factor, "the factor of rotary positions")}
    for name in NUMBERS:
        if name in OWN[kind] and rows.get(name) is not None:
            told[name] = number(rows[name], name)
    if kind == "yarn":
        if rows.get("truncate") is False:
            raise ArchiveError("yarn between pairs, truncate=False, is not known here")
        ours, all_dim = rows.get("mscale"), rows.get("mscale_all_dim")
        if told.get("attention_factor") is None and ours and all_dim:
            sizes = (yarn_size(told["factor"], number(m, "mscale")) for m in (ours, all_dim))
            told["attention_factor"] = next(sizes) / next(sizes)
    if kind == "longrope":
        for name in FACTORS:
            values = rows.get(name)
            if not isinstance(values, list):
                raise ArchiveError(f"{name} is {type(values).__name__}", need="a list of numbers")
            told[name] = tuple(number(value, name) for value in values)
    if kind != "linear":
        told["original_length"] = length
    return RopeScaling(kind, **told)


def written(config: DecoderConfig, family: str) -> dict[str, Any]:
    """Return the keys that tell of rotary positions, in both spellings where they do not differ."""
    scaling = config.rope_scaling
    rows: dict[str, Any] = {"rope_theta": config.rope_base, "rope_type": "default"}
    if config.rotary_size is not None:
        rows["partial_rotary_factor"] = config.rotary_size / config.features
    found: dict[str, Any] = {"rope_parameters": rows, "rope_theta": config.rope_base}
    if "partial_rotary_factor" in rows:
        found["partial_rotary_factor"] = rows["partial_rotary_factor"]
    if scaling is None:
        return found
    rows |= {"rope_type": scaling.kind, "factor": scaling.factor}
    for name in OWN[scaling.kind]:
        value = getattr(scaling, name)
        if value is not None:
            rows[name] = list(value) if name in FACTORS else value
    if scaling.kind == "dynamic":
        found["max_position_embeddings"] = scaling.original_length
    elif scaling.kind != "linear":
        rows["original_max_position_embeddings"] = scaling.original_length
        if family == "phi3":
            found["original_max_position_embeddings"] = scaling.original_length
    return found
