"""BERT in GGUF files: what keys and tensors say of its sizes, and the keys that are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...errors import ArchiveError, GraphError
from ..encoders.bert import BertConfig
from .facts import Facts

NAME = "bert"
NAMES = {
    "segments": "token_types",
    "embed_norm": "token_embd_norm",
    "attention_norm": "attn_output_norm",
    "mlp_norm": "layer_output_norm",
    "pooler": "cls",
    "classes": "cls.output",
}
"""Our name of a weight -> what it is called there, where a decoder's is another or has none."""
_RANK = 4
"""The way of pooling that tells classes, of those that ``pooling_type`` counts."""


def bert_of(
    keys: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], layers: int
) -> BertConfig:
    """Return what keys say, and which tensors there are.

    A file does not tell the activation, which is that of Devlin et al. 2019, and has no head that
    tells tokens. RoBERTa is such a BERT, too, whose first positions were cut away.
    """
    facts = Facts(keys, NAME)
    if facts.flag("attention.causal", False):
        raise facts.refused("attention.causal", True, "false: an encoder sees all of a row")
    has_classes, has_pooler = "cls.output.weight" in shapes, "cls.weight" in shapes
    if has_classes and not has_pooler:
        raise ArchiveError(
            "it has cls.output, and no cls, the layer that classes are told from",
            hint="the model that the file was converted from",
        )
    return BertConfig(
        vocabulary=shapes.get("token_embd.weight", (1,))[0],
        width=facts.size("embedding_length"),
        layers=layers,
        heads=facts.size("attention.head_count"),
        inner=facts.size("feed_forward_length"),
        context=facts.size("context_length"),
        segments=shapes.get("token_types.weight", (1,))[0],
        eps=facts.number("attention.layer_norm_epsilon"),
        pooler=has_pooler,
        head="classes" if has_classes else "none",
        classes=shapes["cls.output.weight"][0] if has_classes else 2,
    )


def bert_keys(config: BertConfig) -> dict[str, Any]:
    """Return the keys of a config; raises GraphError for what a file cannot say."""
    said = {"activation": ("gelu",), "head": ("none", "classes")}
    for field, values in said.items():
        if (value := getattr(config, field)) not in values:
            raise GraphError(
                f"a GGUF file of {NAME} cannot say {field}={value!r}",
                hint="gw.models.save_pretrained(model, folder) keeps it",
            )
    keys: dict[str, Any] = {
        "context_length": config.context,
        "embedding_length": config.width,
        "block_count": config.layers,
        "feed_forward_length": config.hidden,
        "attention.head_count": config.heads,
        "attention.layer_norm_epsilon": config.eps,
        "attention.causal": False,
        "vocab_size": config.vocabulary,
    }
    if config.head == "classes":
        keys["pooling_type"] = _RANK
    found = {"general.architecture": NAME} | {f"{NAME}.{k}": v for k, v in keys.items()}
    return found | {"tokenizer.ggml.token_type_count": config.segments}


def stored_bert(config: BertConfig) -> BertConfig:
    """Return a config as a file is read: without dropout."""
    return replace(config, dropout=0.0, inner=config.hidden)
