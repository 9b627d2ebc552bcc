"""Tiny models of transformers, and GGUF files of them as llama.cpp's converter makes them.

Names of tensors are told by the package ``gguf``, keys are written by its writer, and the order of
rows is written out here, so that none of it is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

VOCABULARY, LAYERS = 60, 2
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2 = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": LAYERS, "n_head": 4}
GPT2 |= {"bos_token_id": 1, "eos_token_id": 2}
SLOW = np.linspace(1, 3, 8).tolist()
SCALED = {
    "linear": {"rope_type": "linear", "factor": 2.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
}
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("llama", "Llama", {"tie_word_embeddings": False}),
    "llama with biases": ("llama", "Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama, heads of 32": ("llama", "Llama", {"head_dim": 32}),
    **{f"llama, {k}": ("llama", "Llama", {"rope_parameters": SCALED[k]}) for k in SCALED},
    "mistral": ("llama", "Mistral", {"sliding_window": 8}),
    "mixtral": ("llama", "Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen2": ("qwen2", "Qwen2", {}),
    "qwen3": ("qwen3", "Qwen3", {"head_dim": 128}),
    "gemma": ("gemma", "Gemma", {"head_dim": 32}),
    "gemma2": (
        *("gemma2", "Gemma2"),
        {"head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 8},
    ),
    "phi3": ("phi3", "Phi3", {}),
    "phi3, window": ("phi3", "Phi3", {"sliding_window": 8}),
    "phi3, longrope": (
        *("phi3", "Phi3"),
        {
            "rope_parameters": {
                **{"rope_type": "longrope", "original_max_position_embeddings": 32},
                **{"short_factor": SLOW, "long_factor": SLOW[::-1]},
            },
            "original_max_position_embeddings": 32,
        },
    ),
    "gpt2": ("gpt2", "GPT2", GPT2),
}
"""What a model is called here -> its architecture of GGUF, its class, and its config."""


def model(name: str, seed: int = 0) -> Any:
    """Return a tiny model of transformers whose weights are all drawn, norms and biases too."""
    import torch
    import transformers

    _, family, settings = KINDS[name]
    torch.manual_seed(seed)
    common = {} if family == "GPT2" else SIZES
    settings = {k: dict(v) if isinstance(v, dict) else v for k, v in settings.items()}
    if "rope_parameters" in settings:
        settings["rope_parameters"]["rope_theta"] = 10_000.0
    config = getattr(transformers, f"{family}Config")(**{**common, **settings})
    head = "LMHeadModel" if family == "GPT2" else "ForCausalLM"
    made = getattr(transformers, family + head)(config).eval()
    with torch.no_grad():
        for p in made.parameters():
            p.add_(torch.randn_like(p) * 0.05)
    return made


def logits(theirs: Any, ids: np.ndarray) -> np.ndarray:
    import torch

    with torch.no_grad():
        found: np.ndarray = theirs(torch.tensor(ids)).logits.numpy()
    return found


def neighbours(w: np.ndarray, heads: int) -> np.ndarray:
    """Return rows so that pairs that turn lie side by side (convert_hf_to_gguf.py)."""
    return w.reshape(heads, 2, len(w) // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def keys(theirs: Any, name: str, write: Any) -> None:
    """Write the keys of a model."""
    architecture, c = KINDS[name][0], theirs.config
    write.add_block_count(LAYERS)
    write.add_embedding_length(c.hidden_size)
    write.add_context_length(c.max_position_embeddings)
    write.add_feed_forward_length(c.n_embd * 4 if name == "gpt2" else c.intermediate_size)
    write.add_head_count(c.num_attention_heads)
    write.add_vocab_size(VOCABULARY)
    if name == "gpt2":
        write.add_layer_norm_eps(c.layer_norm_epsilon)
        return
    write.add_head_count_kv(c.num_key_value_heads)
    write.add_layer_norm_rms_eps(c.rms_norm_eps)
    rope, head = c.rope_parameters, getattr(c, "head_dim", None) or 16
    write.add_rope_freq_base(rope["rope_theta"])
    write.add_rope_dimension_count(head)
    write.add_key_length(head)
    write.add_value_length(head)
    if getattr(c, "sliding_window", None):
        write.add_sliding_window(c.sliding_window)
    if architecture == "gemma2":
        write.add_attn_logit_softcapping(c.attn_logit_softcapping)
        write.add_final_logit_softcapping(c.final_logit_softcapping)
    if getattr(c, "num_local_experts", 0):
        write.add_expert_count(c.num_local_experts)
        write.add_expert_used_count(c.num_experts_per_tok)
    if rope["rope_type"] in ("linear", "yarn"):
        import gguf

        write.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        write.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        write.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if rope["rope_type"] == "longrope":
        original = rope["original_max_position_embeddings"]
        scale = c.max_position_embeddings / original
        write.add_rope_scaling_orig_ctx_len(original)
        write.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(scale) / np.log(original))))
        write.add_tensor("rope_factors_short.weight", np.array(rope["short_factor"], "f4"))
        write.add_tensor("rope_factors_long.weight", np.array(rope["long_factor"], "f4"))
    if rope["rope_type"] == "llama3":
        write.add_tensor("rope_freqs.weight", _freqs(rope, head))


def _freqs(rope: dict[str, Any], head: int) -> np.ndarray:
    """Return the factors of Llama 3.1 pair by pair, as the converter computes them."""
    found = []
    low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
    high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
    for i in range(0, head, 2):
        wavelength = 2 * np.pi * rope["rope_theta"] ** (i / head)
        if wavelength < high:
            found.append(1.0)
        elif wavelength > low:
            found.append(rope["factor"])
        else:
            smooth = rope["original_max_position_embeddings"] / wavelength - rope["low_freq_factor"]
            smooth /= rope["high_freq_factor"] - rope["low_freq_factor"]
            found.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(found, "f4")


def convert(
    theirs: Any,
    name: str,
    path: Path,
    permuted: bool = True,
    more: Callable[[Any], None] = lambda write: None,
) -> None:
    """Write a model of transformers as a GGUF file."""
    import gguf

    architecture, c = KINDS[name][0], theirs.config
    write = gguf.GGUFWriter(str(path), architecture)
    keys(theirs, name, write)
    more(write)
    number = {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[architecture]
    names = gguf.get_tensor_name_map(number, LAYERS)
    for key, tensor in theirs.state_dict().items():
        data = tensor.numpy().astype("f4")
        if key == "lm_head.weight" and c.tie_word_embeddings:
            continue
        if name == "gpt2" and key.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            data = data.T
        if architecture.startswith("gemma") and key.endswith("norm.weight"):
            data = data + 1
        if architecture == "llama" and permuted and ".q_proj." in key:
            data = neighbours(data, c.num_attention_heads)
        if architecture == "llama" and permuted and ".k_proj." in key:
            data = neighbours(data, c.num_key_value_heads)
        layer = key.split(".")[2] if "experts" in key else ""
        if key.endswith("experts.gate_up_proj"):
            gate, up = np.split(data, 2, axis=1)
            parts = {f"blk.{layer}.ffn_gate_exps.weight": gate}
            parts[f"blk.{layer}.ffn_up_exps.weight"] = up
        elif key.endswith("experts.down_proj"):
            parts = {f"blk.{layer}.ffn_down_exps.weight": data}
        else:
            parts = {names.get_name(key, try_suffixes=(".weight", ".bias")): data}
        for tensor_name, part in parts.items():
            assert tensor_name, key
            write.add_tensor(tensor_name, np.ascontiguousarray(part))
    write.write_header_to_file()
    write.write_kv_data_to_file()
    write.write_tensors_to_file()
    write.close()
