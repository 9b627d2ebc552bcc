"""Options of adapters as peft spells them: a row of a table says what each is here.

``adapter_config.json`` tells ``peft_type`` and its options. Those of ``fields`` are fields of our
method; ``only`` are read with these values alone, for another one would change the formula; what is
in neither says where an adapter goes, how it began or who wrote it, and is kept as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CONFIG = "adapter_config.json"
WHOSE = {
    "task_type": None,
    "auto_mapping": None,
    "peft_version": None,
    "base_model_name_or_path": None,
    "revision": None,
    "inference_mode": True,
}
"""What every file tells, and what it is where nobody says."""
AIMS = {"target_modules": None, "modules_to_save": None}
EXCEPT = {"exclude_modules": None}
LAYERS = {"layers_to_transform": None, "layers_pattern": None}
WHERE = {**AIMS, **EXCEPT, **LAYERS}
"""Which modules an adapter changes."""
RANKS: Mapping[str, Any] = {"rank_pattern": {}, "alpha_pattern": {}}
PROMPTS: Mapping[str, Any] = {
    "token_dim": None,
    "num_transformer_submodules": 1,
    "num_attention_heads": None,
    "num_layers": None,
    "modules_to_save": None,
}
"""Sizes of the model that vectors are put before."""
_LORA = {
    "r": "r",
    "lora_alpha": "alpha",
    "lora_dropout": "dropout",
    "use_rslora": "rslora",
    "init_lora_weights": "init",
    "bias": "bias",
}
BIASES = {"none": "none", "all": "all", "lora_only": "only"}
"""Which biases are trained, in their word -> in ours."""
_LORA_ONLY: Mapping[str, Any] = {
    "layer_replication": None,
    "megatron_config": None,
    "use_qalora": False,
    "alora_invocation_tokens": None,
    "target_parameters": None,
    "use_bdlora": None,
    "arrow_config": None,
    "kasa_config": None,
    "velora_config": None,
    "monteclora_config": None,
}
_LORA_KEPT = {
    **WHERE,
    **RANKS,
    "fan_in_fan_out": False,
    "megatron_core": "megatron.core",
    "trainable_token_indices": None,
    "loftq_config": {},
    "eva_config": None,
    "corda_config": None,
    "lora_ga_config": None,
    "qalora_group_size": 16,
    "ensure_weight_tying": False,
}
_LYCORIS = {
    **{"r": "r", "alpha": "alpha", "rank_dropout": "rank_dropout"},
    **{"module_dropout": "module_dropout"},
}


@dataclass(frozen=True)
class Options:
    """How peft spells a method.

    Args:
        method: its class here.
        peft_type: what a file calls it.
        fields: their option -> our field.
        only: option -> the one value that is read.
        kept: other options that there are, and what they are where nobody says.
        told: options that tell this method from another one of the same ``peft_type``.
        read_as: the method of what a file holds, where it is only what this one has trained.
    """

    method: str
    peft_type: str
    fields: Mapping[str, str]
    kept: Mapping[str, Any]
    only: Mapping[str, Any] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    read_as: str = ""

    @property
    def known(self) -> set[str]:
        """All options that there are."""
        return {
            *WHOSE,
            "peft_type",
            "runtime_config",
            *self.fields,
            *self.kept,
            *self.only,
            *self.told,
        }


TABLE = (
    Options(
        "DoRA",
        "LORA",
        _LORA,
        _LORA_KEPT,
        {**_LORA_ONLY, "lora_bias": False},
        {"use_dora": True},
    ),
    Options(
        "LoRA",
        "LORA",
        {**_LORA, "lora_bias": "lora_bias"},
        _LORA_KEPT,
        _LORA_ONLY,
        {"use_dora": False},
    ),
    Options(
        "AdaLoRA",
        "ADALORA",
        {
            **{name: name for name in ("init_r", "target_r", "tinit", "tfinal", "beta1", "beta2")},
            **{name: name for name in ("total_step", "orth_reg_weight")},
            **{"deltaT": "delta_t", "lora_alpha": "alpha", "lora_dropout": "dropout"},
        },
        {
            **_LORA_KEPT,
            **{"r": 8, "init_lora_weights": True, "use_rslora": False, "bias": "none"},
            "rank_pattern": None,
        },
        {**_LORA_ONLY, "use_dora": False, "lora_bias": False},
    ),
    Options(
        "LoHa",
        "LOHA",
        {**_LYCORIS, "use_effective_conv2d": "effective_conv2d"},
        {**WHERE, **RANKS, "init_weights": True},
    ),
    Options(
        "LoKr",
        "LOKR",
        {
            **_LYCORIS,
            **{"decompose_both": "decompose_both", "decompose_factor": "decompose_factor"},
            **{"rank_dropout_scale": "rank_dropout_scale", "init_weights": "init"},
        },
        {**WHERE, **RANKS},
        {"use_effective_conv2d": False},
    ),
    Options(
        "IA3",
        "IA3",
        {"feedforward_modules": "feedforward"},
        {**AIMS, **EXCEPT, "fan_in_fan_out": False, "init_ia3_weights": True},
    ),
    Options(
        "VeRA",
        "VERA",
        {
            **{"r": "r", "vera_dropout": "dropout", "d_initial": "d_initial"},
            **{"projection_prng_key": "projection_seed", "save_projection": "save_projection"},
        },
        {**AIMS, **LAYERS, "init_weights": True, "bias": "none", "fan_in_fan_out": False},
    ),
    Options(
        "Prefix",
        "PREFIX_TUNING",
        {
            **{"num_virtual_tokens": "tokens", "prefix_projection": "projection"},
            **{"encoder_hidden_size": "hidden", "init_weights": "init"},
        },
        PROMPTS,
    ),
    Options(
        "Prompt",
        "PROMPT_TUNING",
        {"num_virtual_tokens": "tokens"},
        {
            **PROMPTS,
            **{"prompt_tuning_init": "RANDOM", "prompt_tuning_init_text": None},
            **{"tokenizer_name_or_path": None, "tokenizer_kwargs": None},
        },
    ),
    Options(
        "PTuning",
        "P_TUNING",
        {
            **{"num_virtual_tokens": "tokens", "encoder_reparameterization_type": "encoder"},
            **{"encoder_hidden_size": "hidden", "encoder_num_layers": "layers"},
            "encoder_dropout": "dropout",
        },
        PROMPTS,
        read_as="Prompt",
    ),
    Options("NormTuning", "LN_TUNING", {}, {**AIMS, **EXCEPT}),
)
"""All methods that peft has, too; of one ``peft_type``, the first whose ``told`` fits."""


def options_of(settings: Mapping[str, Any]) -> Options | None:
    """Return the row of a file's settings; None where there is none.

    >>> options_of({"peft_type": "LORA", "use_dora": True}).method
    'DoRA'
    """
    for row in TABLE:
        if row.peft_type == settings.get("peft_type") and all(
            settings.get(key, False) == value for key, value in row.told.items()
        ):
            return row
    return None


def unread(row: Options, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return options that would change the formula to one that is not computed here.

    Those of ``only`` with another value, and those that nobody here knows, unless they say nothing.

    >>> unread(options_of({"peft_type": "IA3"}), {"new": 3, "newer": None})
    {'new': 3}
    """
    return {
        key: value
        for key, value in settings.items()
        if (key in row.only and value != row.only[key] and value)
        or (key not in row.known and value not in (None, False, "", [], {}))
    }
