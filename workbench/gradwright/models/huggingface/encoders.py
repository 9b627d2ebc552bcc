"""BERT and ViT as Hugging Face writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ArchiveError
from ...spec import TensorSpec
from ..encoders.bert import BertConfig
from ..encoders.vit import VitConfig
from .family import NEEDED, Family
from .settings import read_settings, written_settings

_SIZES = {
    "hidden_size": ("width", NEEDED),
    "num_hidden_layers": ("layers", NEEDED),
    "num_attention_heads": ("heads", NEEDED),
    "intermediate_size": ("inner", NEEDED),
    "hidden_act": ("activation", "gelu"),
    "layer_norm_eps": ("eps", 1e-12),
    "hidden_dropout_prob": ("dropout", 0.0),
}
BERT = Family(
    "bert",
    "BertModel",
    keys={
        **_SIZES,
        "vocab_size": ("vocabulary", NEEDED),
        "max_position_embeddings": ("context", 512),
        "type_vocab_size": ("segments", 2),
    },
    names={
        "embed": "bert.embeddings.word_embeddings",
        "positions": "bert.embeddings.position_embeddings",
        "segments": "bert.embeddings.token_type_embeddings",
        "embed_norm": "bert.embeddings.LayerNorm",
        "q": "bert.encoder.layer.{i}.attention.self.query",
        "k": "bert.encoder.layer.{i}.attention.self.key",
        "v": "bert.encoder.layer.{i}.attention.self.value",
        "o": "bert.encoder.layer.{i}.attention.output.dense",
        "attention_norm": "bert.encoder.layer.{i}.attention.output.LayerNorm",
        "up": "bert.encoder.layer.{i}.intermediate.dense",
        "down": "bert.encoder.layer.{i}.output.dense",
        "mlp_norm": "bert.encoder.layer.{i}.output.LayerNorm",
        "pooler": "bert.pooler.dense",
        "transform": "cls.predictions.transform.dense",
        "transform_norm": "cls.predictions.transform.LayerNorm",
        "classes": "classifier",
    },
    exact={"tokens_bias": "cls.predictions.bias"},
    only={
        "is_decoder": (None, False),
        "add_cross_attention": (None, False),
        "position_embedding_type": (None, "absolute"),
        "tie_word_embeddings": (None, True),
    },
    prefix="bert.",
    ignored=r"position_ids$|^cls\.(predictions\.decoder|seq_relationship)\.",
)
"""Of heads that tell tokens those that tell which text follows are left out."""
VIT = Family(
    "vit",
    "ViTModel",
    keys={
        **_SIZES,
        "image_size": ("image", 224),
        "patch_size": ("patch", 16),
        "num_channels": ("channels", 3),
        "qkv_bias": ("qkv_bias", True),
    },
    names={
        "patches": "vit.embeddings.patch_embeddings.projection",
        "attention_norm": "vit.encoder.layer.{i}.layernorm_before",
        "q": "vit.encoder.layer.{i}.attention.attention.query",
        "k": "vit.encoder.layer.{i}.attention.attention.key",
        "v": "vit.encoder.layer.{i}.attention.attention.value",
        "o": "vit.encoder.layer.{i}.attention.output.dense",
        "mlp_norm": "vit.encoder.layer.{i}.layernorm_after",
        "up": "vit.encoder.layer.{i}.intermediate.dense",
        "down": "vit.encoder.layer.{i}.output.dense",
        "norm": "vit.layernorm",
        "pooler": "vit.pooler.dense",
        "classes": "classifier",
    },
    exact={
        "first": "vit.embeddings.cls_token",
        "positions": "vit.embeddings.position_embeddings",
    },
    only={"pooler_act": (None, "tanh")},
    prefix="vit.",
)
_BERTS = {
    "BertModel": "none",
    "BertForMaskedLM": "tokens",
    "BertForPreTraining": "tokens",
    "BertForSequenceClassification": "classes",
}
_VITS = {"ViTModel": False, "ViTForImageClassification": True}


def read_bert(data: Mapping[str, Any], specs: Mapping[str, TensorSpec]) -> BertConfig:
    """Return the config of a BERT; what stands on it is told by its class and its tensors."""
    head = _BERTS[_architecture(data, _BERTS)]
    found = read_settings(BERT, data, BertConfig)
    classes = _classes(specs) if head == "classes" else 2
    return BertConfig(**found, head=head, classes=classes, pooler=_has_pooler(specs))


def read_vit(data: Mapping[str, Any], specs: Mapping[str, TensorSpec]) -> VitConfig:
    """Return the config of a ViT, likewise."""
    told = _VITS[_architecture(data, _VITS)]
    found = read_settings(VIT, data, VitConfig)
    return VitConfig(**found, classes=_classes(specs) if told else 0, pooler=_has_pooler(specs))


def written_bert(config: BertConfig) -> dict[str, Any]:
    """Return the ``config.json`` of a BERT."""
    found = written_settings(BERT, config) | {"intermediate_size": config.hidden}
    names = {head: name for name, head in reversed(_BERTS.items())}
    found["architectures"] = [names[config.head]]
    return found | (_labels(config.classes) if config.head == "classes" else {})


def written_vit(config: VitConfig) -> dict[str, Any]:
    """Return the ``config.json`` of a ViT."""
    found = written_settings(VIT, config) | {"intermediate_size": config.hidden}
    if not config.classes:
        return found
    return found | {"architectures": ["ViTForImageClassification"]} | _labels(config.classes)


def _architecture(data: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Return the class of transformers that a folder is of; raises ArchiveError for others."""
    names = data.get("architectures") or [next(iter(known))]
    name = names[0] if isinstance(names, list) else names
    if not isinstance(name, str) or name not in known:
        raise ArchiveError(
            f"a model with the head of {str(name)[:60]!r} is not read here", need=", ".join(known)
        )
    return name


def _has_pooler(specs: Mapping[str, TensorSpec]) -> bool:
    return any(name.endswith("pooler.dense.weight") for name in specs)


def _classes(specs: Mapping[str, TensorSpec]) -> int:
    """Return how many classes a head tells, by its tensor."""
    spec = specs.get("classifier.weight")
    if spec is None or spec.rank != 2:
        raise ArchiveError("the tensors have no classifier.weight", need="a matrix")
    n = spec.shape[0]
    assert isinstance(n, int)
    return n


def _labels(n: int) -> dict[str, Any]:
    names = {str(i): f"LABEL_{i}" for i in range(n)}
    return {"id2label": names, "label2id": {name: int(i) for i, name in names.items()}}
