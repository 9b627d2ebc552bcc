"""Names of tensors in a folder of peft: which module they belong to, and which leaf they are.

A key is ``base_model.model.<path of a module>.<leaf>``; leaves that are modules of torch have
``.weight`` behind them, plain parameters do not. What all modules share has no path.
"""

from __future__ import annotations

import re

PREFIX = "base_model.model."
SHARED = ("vera_A", "vera_B")
"""Projections of VeRA, one for all modules: ``base_model.vera_A``."""
PROMPT = "prompt_embeddings"
"""What methods before the first token have, without any prefix."""
MODULES = {"LORA": ("lora_A", "lora_B"), "LN_TUNING": ("ln_tuning_layers",)}
"""``peft_type`` -> leaves that are modules."""
TRAINED = ("weight", "bias")
"""Leaves of a module of the base itself that was trained, or saved with the adapter."""
NORMS = {"ln_tuning_layers": "weight", "ln_tuning_layers.bias": "bias"}
"""Leaves of a norm that is trained -> its own."""
TOKENS = "trainable_tokens_delta"
"""Rows of an embedding that were trained."""
_LEAF = re.compile(
    r"(?P<path>.+)\.(?P<leaf>lora_[ABE]|lora_embedding_[AB]|lora_magnitude_vector"
    r"|hada_(?:w[12]_[ab]|t[12])|lokr_(?:w[12](?:_[ab])?|t2)|ia3_l|vera_lambda_[bd]"
    r"|ln_tuning_layers)(?:\.(?P<part>weight|bias))?"
)
_OWN = re.compile(
    r"(?P<path>.+?)\.(?:token_adapter\.(?P<tokens>trainable_tokens_delta)"
    r"|(?:base_layer\.)?(?P<own>weight|bias))"
)


def parsed(key: str) -> tuple[str, str] | None:
    """Return the path of a module, and the leaf of it that a key names; None for another name.

    >>> parsed("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight")
    ('model.layers.0.self_attn.q_proj', 'lora_A')
    >>> parsed("base_model.model.lm_head.base_layer.bias"), parsed("base_model.vera_A")
    (('lm_head', 'bias'), ('', 'vera_A'))
    """
    shared = key.removeprefix("base_model.")
    if key == PROMPT or (shared in SHARED and shared != key):
        return "", shared
    name = key.removeprefix(PREFIX)
    if name == key:
        return None
    if (found := _LEAF.fullmatch(name)) is not None:
        leaf = found["leaf"]
        return found["path"], f"{leaf}.bias" if found["part"] == "bias" else leaf
    if (found := _OWN.fullmatch(name)) is not None:
        return found["path"], found["tokens"] or found["own"]
    return None


def written(peft_type: str, path: str, leaf: str, is_adapted: bool = True) -> str:
    """Return the key of a leaf; ``is_adapted`` says whether its module has others than its own.

    >>> written("LORA", "fc", "lora_A"), written("ADALORA", "fc", "lora_A")
    ('base_model.model.fc.lora_A.weight', 'base_model.model.fc.lora_A')
    >>> written("VERA", "", "vera_A"), written("LORA", "fc", "bias")
    ('base_model.vera_A', 'base_model.model.fc.base_layer.bias')
    """
    if not path:
        return leaf if leaf == PROMPT else f"base_model.{leaf}"
    if leaf == TOKENS:
        leaf = f"token_adapter.{leaf}"
    elif leaf in MODULES.get(peft_type, ()):
        leaf += ".weight"
    elif leaf in TRAINED and is_adapted:
        leaf = f"base_layer.{leaf}"
    return f"{PREFIX}{path}.{leaf}"
