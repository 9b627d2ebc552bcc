"""The architectures of GGUF that are read: a row each, and what keys say of a model's sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ...errors import ArchiveError, GraphError
from ..decoder import DecoderConfig, RopeScaling
from ..decoder.rope import yarn_size
from ..encoders.bert import BertConfig
from . import encoders
from .facts import Facts

Array = np.ndarray[Any, Any]
Config = DecoderConfig | BertConfig


@dataclass(frozen=True)
class Architecture:
    """What all models of an architecture share.

    ``settings`` are fields of the config, ``fused`` tensors that hold the rows of several weights,
    ``named`` weights whose names in files are their own, ``absent`` those that are zeros where a
    file has none.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()


QKV = {"attn_qkv": ("q", "k", "v")}
GEMMA = {"activation": "gelu_tanh", "norm": "rms_plus_one"}
ARCHITECTURES = {
    "llama": Architecture({"interleaved": True}),
    "qwen2": Architecture({"qkv_bias": True}),
    "qwen3": Architecture({"qk_norm": True}),
    "gemma": Architecture(GEMMA),
    "gemma2": Architecture({**GEMMA, "post_norms": True}),
    "phi3": Architecture(fused={**QKV, "ffn_up": ("gate", "up")}),
    "gpt2": Architecture(
        {
            **{"norm": "layer", "positions": "learned", "activation": "gelu_tanh", "gated": False},
            **{"qkv_bias": True, "out_bias": True, "mlp_bias": True},
        },
        QKV,
    ),
    encoders.NAME: Architecture(named=encoders.NAMES, absent=("segments",)),
}
"""Name -> architecture. Mistral and Mixtral are llama, RoBERTa and DistilBERT bert."""
FOLDED = ("gemma", "gemma2")
"""Architectures whose norms lie in files with the 1 added that their models add."""
_BIASES = {"qkv_bias": "attn_q", "out_bias": "attn_output", "mlp_bias": "ffn_up"}
_SHORT, _LONG, _FREQS = "rope_factors_short.weight", "rope_factors_long.weight", "rope_freqs.weight"
FACTORS = (_SHORT, _LONG, _FREQS)
"""Tensors that are no weights, but say how pairs turn."""
MAX_LAYERS = 1000
"""Layers of a model at most; the deepest have 130."""
MAX_PAIRS = 1 << 12
"""Pairs of features of a head at most, of which each may have a factor."""


def known(name: str) -> Architecture:
    """Return an architecture; raises ArchiveError for one that is not read."""
    if name not in ARCHITECTURES:
        raise ArchiveError(
            f"models of the architecture {name!r:.60} are not read",
            need=", ".join(ARCHITECTURES),
            hint="gw.inspect(path) tells its sizes, gradwright.formats.gguf.mapped.Gguf its arrays",
        )
    return ARCHITECTURES[name]


def factors_of(
    shapes: Mapping[str, tuple[int, ...]], read: Callable[[str], Array]
) -> dict[str, Array]:
    """Return the factors of pairs in a file, read by name; raises ArchiveError for others."""
    found: dict[str, Array] = {}
    for name in FACTORS:
        if name not in shapes:
            continue
        if math.prod(shapes[name]) > MAX_PAIRS:
            raise ArchiveError(
                f"the tensor {name!r} has the shape {shapes[name]}", need="a factor for each pair"
            )
        found[name] = each = read(name).reshape(-1)
        if not (np.isfinite(each) & (each > 0)).all():
            raise ArchiveError(f"the tensor {name!r} holds no factors of pairs", need="floats > 0")
    return found


def config_of(
    keys: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], factors: Mapping[str, Array]
) -> Config:
    """Return what keys say, and which tensors there are; ``factors`` are those of `FACTORS`."""
    name = Facts(keys, "general").text("architecture")
    settings, facts = dict(known(name).settings), Facts(keys, name)
    layers = facts.size("block_count")
    if layers > min(len(shapes), MAX_LAYERS):
        raise facts.refused("block_count", layers, f"at most {min(len(shapes), MAX_LAYERS):,}")
    if name == encoders.NAME:
        return encoders.bert_of(keys, shapes, layers)
    width, heads = facts.size("embedding_length"), facts.size("attention.head_count")
    size = facts.size("attention.key_length", width // heads)
    if facts.size("attention.value_length", size) != size:
        raise facts.refused(
            "attention.value_length", facts.size("attention.value_length"), f"{size}"
        )
    is_layer = settings.get("norm") == "layer"
    eps = "attention.layer_norm_epsilon" if is_layer else "attention.layer_norm_rms_epsilon"
    turned = facts.size("rope.dimension_count", size)
    experts = facts.size("expert_count", 0, least=0)
    for label, tensor in _BIASES.items():
        settings[label] = settings.get(label, f"blk.0.{tensor}.bias" in shapes)
    made = DecoderConfig(
        vocabulary=shapes.get("token_embd.weight", (facts.size("vocab_size", 1),))[0],
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=facts.size("attention.head_count_kv", heads),
        head_size=None if size * heads == width else size,
        inner=facts.size("feed_forward_length"),
        context=facts.size("context_length"),
        rope_base=facts.number("rope.freq_base", 10_000.0),
        rotary_size=None if turned == size or is_layer else turned,
        rope_scaling=None if is_layer else _scaling(facts, factors),
        eps=facts.number(eps),
        tied="output.weight" not in shapes,
        window=facts.size("attention.sliding_window", None, least=0) or None,
        attention_scale=facts.number("attention.scale", None),
        experts=experts,
        experts_per_token=facts.size("expert_used_count") if experts else 2,
        **settings,
    )
    return _of_gemma(name, made, facts)


def _of_gemma(name: str, made: DecoderConfig, facts: Facts) -> DecoderConfig:
    """Return a config with what Gemma's code says and its files do not."""
    if name not in FOLDED:
        return made
    made = replace(made, embedding_scale=math.sqrt(made.width))
    if name == "gemma":
        return made
    is_27b = made.layers == 46  # its scores are scaled by the width of a head as if there was none
    return replace(
        made,
        attention_scale=(made.width / made.heads) ** -0.5 if is_27b else made.attention_scale,
        attention_cap=facts.number("attn_logit_softcapping", 50.0),
        logit_cap=facts.number("final_logit_softcapping", 30.0),
        window=made.window or 4096,
        full_layers=tuple(range(1, made.layers, 2)),
    )


def _scaling(facts: Facts, factors: Mapping[str, Array]) -> RopeScaling | None:
    """Return how rotary positions are scaled: by keys, or by a factor for each pair."""
    kind = facts.text("rope.scaling.type", "none")
    length = facts.size("rope.scaling.original_context_length", facts.size("context_length"))
    size = facts.number("rope.scaling.attn_factor", None)
    if _FREQS in factors:
        each = tuple(factors[_FREQS].tolist())
        return RopeScaling(
            "longrope", 1.0, length, size or 1.0, short_factor=each, long_factor=each
        )
    if _SHORT in factors and _LONG in factors:
        short, long = (tuple(factors[name].tolist()) for name in (_SHORT, _LONG))
        whole = facts.size("context_length") / length
        return RopeScaling("longrope", whole, length, size, short_factor=short, long_factor=long)
    if kind == "none":
        return None
    factor = facts.number("rope.scaling.factor", 1.0)
    if kind == "linear":
        return RopeScaling("linear", factor, length)
    if kind == "yarn":
        return RopeScaling(
            *("yarn", factor, length, None if size is None else size * yarn_size(factor)),
            beta_fast=facts.number("rope.scaling.yarn_beta_fast", 32.0),
            beta_slow=facts.number("rope.scaling.yarn_beta_slow", 1.0),
        )
    raise facts.refused("rope.scaling.type", kind, "none, linear or yarn")


# -- the other way ---------------------------------------------------------------------------------


def architecture_of(config: Config) -> str:
    """Return the architecture that a config is of; raises GraphError where GGUF has none.

    >>> architecture_of(DecoderConfig(vocabulary=9, qk_norm=True))
    'qwen3'
    """
    if isinstance(config, BertConfig):
        return encoders.NAME
    if config.norm == "layer":
        return "gpt2"
    if config.activation == "gelu_tanh":
        return "gemma2" if config.post_norms else "gemma"
    if config.qk_norm:
        return "qwen3"
    if config.rotary_size is not None or (config.window is not None and not config.interleaved):
        return "phi3"
    if config.rope_scaling is not None and config.rope_scaling.kind == "longrope":
        return "llama" if config.interleaved else "phi3"
    return "qwen2" if config.qkv_bias and not config.out_bias else "llama"


def keys_of(config: Config, name: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the keys of a config, and its factors of pairs.

    Raises GraphError where an architecture does not do what the config says.
    """
    if isinstance(config, BertConfig) != (name == encoders.NAME):
        raise GraphError(
            f"a GGUF file of {name} holds no such model: {config}", need=architecture_of(config)
        )
    if isinstance(config, BertConfig):
        return encoders.bert_keys(config), {}
    found: dict[str, Any] = {
        "context_length": config.context,
        "embedding_length": config.width,
        "block_count": config.layers,
        "feed_forward_length": config.hidden,
        "attention.head_count": config.heads,
        "attention.head_count_kv": config.shared,
        "vocab_size": config.vocabulary,
    }
    if config.norm == "layer":
        found["attention.layer_norm_epsilon"] = config.eps
    else:
        found["attention.layer_norm_rms_epsilon"] = config.eps
    factors: dict[str, Array] = {}
    if config.positions == "rotary":
        found["rope.freq_base"] = config.rope_base
        found["rope.dimension_count"] = config.turned
        found |= _scaling_keys(config, name, factors)
    if config.head_size is not None or name in FOLDED:
        found["attention.key_length"] = found["attention.value_length"] = config.features
    optional = {
        "attention.sliding_window": config.window,
        "attn_logit_softcapping": config.attention_cap,
        "final_logit_softcapping": config.logit_cap,
        "attention.scale": config.attention_scale,
    }
    found |= {key: value for key, value in optional.items() if value is not None}
    if config.experts:
        found |= {"expert_count": config.experts, "expert_used_count": config.experts_per_token}
    keys = {"general.architecture": name} | {f"{name}.{k}": v for k, v in found.items()}
    _check(config, name, keys, factors)
    return keys, factors


def _scaling_keys(config: DecoderConfig, name: str, factors: dict[str, Array]) -> Mapping[str, Any]:
    """Return keys of a scaling; its factors of pairs, if it has such, go into ``factors``."""
    scaling = config.rope_scaling
    if scaling is None:
        return {}
    found: dict[str, Any] = {"rope.scaling.original_context_length": scaling.original_length}
    if scaling.kind in ("linear", "yarn"):
        found |= {"rope.scaling.type": scaling.kind, "rope.scaling.factor": scaling.factor}
        if scaling.kind == "yarn":
            found["rope.scaling.yarn_beta_fast"] = scaling.beta_fast
            found["rope.scaling.yarn_beta_slow"] = scaling.beta_slow
        if scaling.attention_factor is not None:
            own = yarn_size(scaling.factor) if scaling.kind == "yarn" else 1.0
            found["rope.scaling.attn_factor"] = scaling.attention_factor / own
        return found
    if scaling.kind == "longrope":
        short, long = (np.array(f, "f4") for f in (scaling.short_factor, scaling.long_factor))
        if np.array_equal(short, long) and name == "llama":
            factors[_FREQS] = short
        else:
            factors |= {_SHORT: short, _LONG: long}
        if scaling.attention_factor is not None:
            found["rope.scaling.attn_factor"] = scaling.attention_factor
        return found
    if scaling.kind == "llama3":
        factors[_FREQS] = llama3_factors(config)
        return found
    raise GraphError(f"GGUF has no rotary positions of kind {scaling.kind!r}")


def llama3_factors(config: DecoderConfig) -> Array:
    """Return by what each pair is slowed in Llama 3.1: 1, the factor, or what is between."""
    scaling = config.rope_scaling
    assert scaling is not None
    n = config.turned
    turns = scaling.original_length / (2 * np.pi) * config.rope_base ** (-np.arange(0, n, 2) / n)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    share = np.clip((turns - low) / (high - low), 0, 1)
    return np.asarray(1 / ((1 - share) / scaling.factor + share), np.float32)


def _check(
    config: DecoderConfig, name: str, keys: Mapping[str, Any], factors: Mapping[str, Array]
) -> None:
    """Raise GraphError unless a reader of the keys would find the config again."""
    shapes: dict[str, tuple[int, ...]] = {f"blk.{i}": () for i in range(config.layers)}
    shapes["token_embd.weight"] = (config.vocabulary, config.width)
    shapes |= {} if config.tied else {"output.weight": ()}
    shapes |= {
        f"blk.0.{tensor}.bias": () for label, tensor in _BIASES.items() if getattr(config, label)
    }
    found, wanted = config_of(keys, shapes, factors), stored_config(config, name)
    for f in fields(DecoderConfig):
        if f.name == "rope_scaling" or getattr(found, f.name) == getattr(wanted, f.name):
            continue
        raise GraphError(
            f"a GGUF file of {name} cannot say {f.name}={getattr(config, f.name)!r}",
            facts=[f"it would be read as {getattr(found, f.name)!r}"],
        )


def stored_config(config: Config, name: str) -> Config:
    """Return a config as a file is read: the order of pairs, norms that add a 1, no dropout."""
    if isinstance(config, BertConfig):
        return encoders.stored_bert(config)
    settings = known(name).settings
    norm = "rms_plus_one" if name in FOLDED and config.norm == "rms" else config.norm
    return replace(
        config,
        norm=norm,
        dropout=0.0,
        interleaved=settings.get("interleaved", False),
        inner=config.hidden,
        kv_heads=config.shared,
        head_size=None if config.features * config.heads == config.width else config.features,
        rotary_size=None if config.turned == config.features else config.turned,
        experts_per_token=config.experts_per_token if config.experts else 2,
    )
