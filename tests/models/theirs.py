"""Tiny models of transformers, made on the spot: every family, and what its files may tell."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

SIZES = {
    **{"vocab_size": 37, "hidden_size": 32, "num_hidden_layers": 3, "intermediate_size": 40},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128},
    **{"bos_token_id": 1, "eos_token_id": 36, "pad_token_id": 0},
}
GPT2 = {
    **{"vocab_size": 37, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 128},
    **{"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 1},
    **{"eos_token_id": 36},
}
FACTORS = {"short_factor": [1.0, 1.1, 1.3, 1.7], "long_factor": [1.0, 2.0, 3.0, 5.0]}


def rope(kind: str, **more: Any) -> dict[str, Any]:
    """Return what a config tells of rotary positions, as transformers 5 does."""
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 500.0, **more}}


_OLD = {"original_max_position_embeddings": 16}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama, all biases": ("Llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 6}),
    "llama, tied": ("Llama", {"tie_word_embeddings": True, "hidden_act": "gelu"}),
    "llama, linear": ("Llama", rope("linear", factor=4.0)),
    "llama, dynamic": ("Llama", {**rope("dynamic", factor=4.0), "max_position_embeddings": 16}),
    "llama, yarn": ("Llama", rope("yarn", factor=8.0, **_OLD)),
    "llama, yarn by mscale": (
        "Llama",
        rope("yarn", factor=8.0, mscale=0.7, mscale_all_dim=0.5, beta_fast=20.0, **_OLD),
    ),
    "llama, llama3": (
        "Llama",
        rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, **_OLD),
    ),
    "mistral": ("Mistral", {"sliding_window": 5, "head_dim": 12}),
    "mistral, no window": ("Mistral", {"sliding_window": None}),
    "qwen2": ("Qwen2", {}),
    "qwen2, windows": (
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3", {"head_dim": 10, "tie_word_embeddings": True}),
    "qwen3, biases": ("Qwen3", {"head_dim": 8, "attention_bias": True}),
    "gemma2": (
        "Gemma2",
        {
            **{"head_dim": 12, "query_pre_attn_scalar": 20, "sliding_window": 4},
            **{"attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0},
        },
    ),
    "gemma2, no caps": (
        "Gemma2",
        {"head_dim": 8, "attn_logit_softcapping": None, "final_logit_softcapping": None},
    ),
    "phi3": ("Phi3", {"sliding_window": 6}),
    "phi3, longrope": (
        "Phi3",
        {
            **rope("longrope", **FACTORS, partial_rotary_factor=1.0),
            "original_max_position_embeddings": 16,
        },
    ),
    "phi3, partial": ("Phi3", rope("default", partial_rotary_factor=0.5)),
    "mixtral": ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "mixtral, window": (
        "Mixtral",
        {"num_local_experts": 3, "num_experts_per_tok": 1, "sliding_window": 5},
    ),
    "gpt2": ("GPT2", {}),
    "gpt2, inner": ("GPT2", {"n_inner": 24, "activation_function": "relu"}),
}
"""Name -> class of transformers, and settings beside the sizes."""
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma2", "phi3", "mixtral", "gpt2")


def torch_of() -> Any:
    """Return torch; skip where it or transformers is missing."""
    pytest.importorskip("transformers", reason="pip install -e '.[oracle]'")
    return pytest.importorskip("torch", reason="pip install -e '.[oracle]'")


def model_of(kind: str, seed: int = 0) -> Any:
    """Return a model of a kind with weights so large that all parts of it show."""
    return made_of(*KINDS[kind], seed)


def made_of(name: str, more: dict[str, Any], seed: int) -> Any:
    """Return a model of a class with settings beside the sizes."""
    torch_of()
    import transformers

    sizes = GPT2 if name == "GPT2" else SIZES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = getattr(transformers, f"{name}Config")(
            **{**sizes, **more}, attn_implementation="eager"
        )
        theirs = transformers.AutoModelForCausalLM.from_config(config).eval()
    return drawn(theirs, seed)


def drawn(theirs: Any, seed: int = 0, kept: str = "") -> Any:
    """Return a model after its weights have been drawn, so large that all parts of it show."""
    torch = torch_of()
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, p in theirs.named_parameters():
            if name != kept:
                p.copy_(torch.randn(p.shape) * (0.25 if p.ndim > 1 else 0.1) + (p.ndim == 1))
    return theirs


def saved(theirs: Any, folder: Path, **settings: Any) -> Path:
    """Save a model as transformers does, without its progress bars."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.save_pretrained(folder, **settings)
    return folder


def loaded(folder: Path) -> Any:
    """Return what transformers makes of a folder."""
    from transformers import AutoModelForCausalLM

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()


def greedy(theirs: Any, prompt: list[int], n: int, **more: Any) -> list[int]:
    """Return greedy tokens of transformers, with its cache."""
    torch = torch_of()
    ids = torch.tensor([prompt])
    found = theirs.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=n,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=None,
        **more,
    )
    return found[0, len(prompt) :].tolist()
