"""Families of decoders as Hugging Face writes them: a table of keys and of names for each.

A row of ``keys`` says which key of ``config.json`` is which field of `DecoderConfig`, and what it
is where older files leave it out; `NEEDED` where that would be a guess. ``names`` say what a weight
is called in the files; ``{i}`` stands for the number of a layer, ``{e}`` for that of an expert.
Weights of one name lie in it one below the other.
"""

from __future__ import annotations

from .family import NEEDED, Family, Keys

_LLAMA: Keys = {
    "vocab_size": ("vocabulary", NEEDED),
    "hidden_size": ("width", NEEDED),
    "num_hidden_layers": ("layers", NEEDED),
    "num_attention_heads": ("heads", NEEDED),
    "num_key_value_heads": ("kv_heads", None),
    "intermediate_size": ("inner", NEEDED),
    "max_position_embeddings": ("context", 2048),
    "rms_norm_eps": ("eps", 1e-6),
    "tie_word_embeddings": ("tied", False),
    "head_dim": ("head_size", None),
    "hidden_act": ("activation", "silu"),
}
_ATTENTION = {
    "attention_norm": "model.layers.{i}.input_layernorm",
    **{n: f"model.layers.{{i}}.self_attn.{n}_proj" for n in ("q", "k", "v", "o")},
    **{n: f"model.layers.{{i}}.self_attn.{n}" for n in ("q_norm", "k_norm")},
}
_ENDS = {"embed": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"}
_NAMES = {
    **_ENDS,
    **_ATTENTION,
    "mlp_norm": "model.layers.{i}.post_attention_layernorm",
    **{n: f"model.layers.{{i}}.mlp.{n}_proj" for n in ("gate", "up", "down")},
}


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "llama",
            "LlamaForCausalLM",
            keys={
                **_LLAMA,
                "attention_bias": ("qkv_bias out_bias", False),
                "mlp_bias": ("mlp_bias", False),
            },
            names=_NAMES,
            only={"pretraining_tp": (None, 1)},
        ),
        Family(
            "mistral",
            "MistralForCausalLM",
            keys={**_LLAMA, "num_key_value_heads": ("kv_heads", 8)},
            names=_NAMES,
            windows="all",
        ),
        Family(
            "qwen2",
            "Qwen2ForCausalLM",
            keys=_LLAMA,
            names=_NAMES,
            fixed={"qkv_bias": True},
            windows="use",
        ),
        Family(
            "qwen3",
            "Qwen3ForCausalLM",
            keys={
                **_LLAMA,
                "head_dim": ("head_size", 128),
                "attention_bias": ("qkv_bias out_bias", False),
            },
            names=_NAMES,
            fixed={"qk_norm": True},
            windows="use",
        ),
        Family(
            "gemma2",
            "Gemma2ForCausalLM",
            keys={
                **{key: row for key, row in _LLAMA.items() if key != "hidden_act"},
                "hidden_activation": ("activation", "gelu_pytorch_tanh"),
                "attention_bias": ("qkv_bias out_bias", False),
                "tie_word_embeddings": ("tied", True),
                "head_dim": ("head_size", 256),
                "query_pre_attn_scalar": ("attention_scale", 256),
                "attn_logit_softcapping": ("attention_cap", 50.0),
                "final_logit_softcapping": ("logit_cap", 30.0),
            },
            names={
                **_NAMES,
                "attention_post_norm": "model.layers.{i}.post_attention_layernorm",
                "mlp_norm": "model.layers.{i}.pre_feedforward_layernorm",
                "mlp_post_norm": "model.layers.{i}.post_feedforward_layernorm",
            },
            fixed={"norm": "rms_plus_one", "post_norms": True, "embedding_scale": "width"},
            windows="types",
            only={"use_bidirectional_attention": (None, False)},
        ),
        Family(
            "phi3",
            "Phi3ForCausalLM",
            keys={
                **_LLAMA,
                "max_position_embeddings": ("context", 4096),
                "rms_norm_eps": ("eps", 1e-5),
                "resid_pdrop": ("dropout", 0.0),
            },
            names={
                **_NAMES,
                **dict.fromkeys("qkv", "model.layers.{i}.self_attn.qkv_proj"),
                **dict.fromkeys(("gate", "up"), "model.layers.{i}.mlp.gate_up_proj"),
            },
            windows="all",
        ),
        Family(
            "mixtral",
            "MixtralForCausalLM",
            keys={
                **_LLAMA,
                "num_key_value_heads": ("kv_heads", 8),
                "rms_norm_eps": ("eps", 1e-5),
                "num_local_experts": ("experts", 8),
                "num_experts_per_tok": ("experts_per_token", 2),
            },
            names={
                **_NAMES,
                "router": "model.layers.{i}.block_sparse_moe.gate",
                "gate": "model.layers.{i}.block_sparse_moe.experts.{e}.w1",
                "down": "model.layers.{i}.block_sparse_moe.experts.{e}.w2",
                "up": "model.layers.{i}.block_sparse_moe.experts.{e}.w3",
            },
            windows="all",
            theta=1e6,
        ),
        Family(
            "gpt2",
            "GPT2LMHeadModel",
            keys={
                "vocab_size": ("vocabulary", NEEDED),
                "n_embd": ("width", NEEDED),
                "n_layer": ("layers", NEEDED),
                "n_head": ("heads", NEEDED),
                "n_inner": ("inner", None),
                "n_positions": ("context", 1024),
                "layer_norm_epsilon": ("eps", 1e-5),
                "tie_word_embeddings": ("tied", True),
                "activation_function": ("activation", "gelu_new"),
                "resid_pdrop": ("dropout", 0.1),
            },
            names={
                "embed": "transformer.wte",
                "positions": "transformer.wpe",
                "attention_norm": "transformer.h.{i}.ln_1",
                **dict.fromkeys("qkv", "transformer.h.{i}.attn.c_attn"),
                "o": "transformer.h.{i}.attn.c_proj",
                "mlp_norm": "transformer.h.{i}.ln_2",
                "up": "transformer.h.{i}.mlp.c_fc",
                "down": "transformer.h.{i}.mlp.c_proj",
                "norm": "transformer.ln_f",
                "head": "lm_head",
            },
            fixed={
                **dict.fromkeys(("qkv_bias", "out_bias", "mlp_bias"), True),
                **{"norm": "layer", "gated": False, "positions": "learned"},
            },
            only={
                "scale_attn_weights": (None, True),
                "scale_attn_by_inverse_layer_idx": (None, False),
                "add_cross_attention": (None, False),
            },
            turned=True,
            prefix="transformer.",
            ignored=r"(^|\.)h\.\d+\.attn\.(masked_)?bias$",  # masks
        ),
    )
}
"""``model_type`` -> family."""
