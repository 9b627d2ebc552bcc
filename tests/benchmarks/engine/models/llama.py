"""Row g: LoRA on the queries and values of a small Llama, beside HF's transformers and peft."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.engine.models.model import (
    Array,
    Arrays,
    Model,
    cross_entropy_in_jax,
    normal,
)

WORDS, WIDTH, INNER, LAYERS, HEADS, POSITIONS = 1000, 256, 1024, 4, 8, 256
FEATURES = WIDTH // HEADS
RANK, ALPHA = 8, 16
EPS, BASE = 1e-6, 10_000.0
IGNORED = -100
"""Label of the last position, which nothing follows."""
SHAPES = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "o": (WIDTH, WIDTH),
          "gate": (WIDTH, INNER), "up": (WIDTH, INNER), "down": (INNER, WIDTH)}  # fmt: skip
ADAPTED = ("q", "v")


class LlamaLoRA(Model):
    """ids: i64[8, 128] -> Llama of 4 layers; cross entropy of the next id; AdamW on the adapters.

    Vocabulary 1000, width 256, SwiGLU of 1024, 8 heads with RoPE (halves, base 10000), RMSNorm
    (ε = 1e-6), embedding and head untied, no biases. LoRA of rank 8, alpha 16, no dropout, on the
    query and value projections of every layer: 32,768 of 4,741,376 weights are trained.
    """

    optimizer, rate = "AdamW", 1e-4
    torch_needs = ("torch", "transformers", "peft")

    def __init__(self, batch: int = 8, length: int = 128) -> None:
        self.shape = batch, length
        self.title = f"LoRA r={RANK} q,v of a Llama 4x{WIDTH}, T={length} B={batch}"

    def weights(self) -> Arrays:
        rng = np.random.default_rng(0)
        made: Arrays = {"embed": normal(rng, WORDS, WIDTH, scale=0.02)}
        for i in range(LAYERS):
            made |= {f"{i}/{k}": normal(rng, *s, scale=0.02) for k, s in SHAPES.items()}
            made |= {f"{i}/{k}": np.ones(WIDTH, np.float32) for k in ("norm0", "norm1")}
            for k in ADAPTED:  # as peft begins: A uniform in ±1/√in, B zero
                a = rng.uniform(-1, 1, (WIDTH, RANK)) * WIDTH**-0.5
                made[f"{i}/{k}_a"] = a.astype(np.float32)
                made[f"{i}/{k}_b"] = np.zeros((RANK, WIDTH), np.float32)
        made["norm"] = np.ones(WIDTH, np.float32)
        made["head"] = normal(rng, WIDTH, WORDS, scale=0.02)
        return made

    def is_trained(self, name: str) -> bool:
        return name.endswith(("_a", "_b"))

    def batch(self) -> Arrays:
        ids = np.random.default_rng(1).integers(0, WORDS, self.shape)
        labels = np.full_like(ids, IGNORED)
        labels[:, :-1] = ids[:, 1:]
        return {"ids": ids, "labels": labels}

    def turns(self) -> tuple[Array, Array]:
        """Return cos and sin of RoPE, f32[T, features/2]."""
        speed = BASE ** (-np.arange(0, FEATURES, 2) / FEATURES)
        angles = np.arange(self.shape[1])[:, None] * speed
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def ours(self, w: Mapping[str, gw.Tensor], x: Mapping[str, gw.Tensor]) -> gw.Tensor:
        h = gw.nn.embedding(x["ids"], w["embed"])
        cos, sin = map(h.graph.constant, self.turns())

        def project(y: gw.Tensor, at: str) -> gw.Tensor:
            if f"{at}_a" not in w:
                return y @ w[at]
            return gw.nn.lora_matmul(y, w[at], w[f"{at}_a"], w[f"{at}_b"], scale=ALPHA / RANK)

        def heads(y: gw.Tensor) -> gw.Tensor:
            return y.reshape(*self.shape, HEADS, FEATURES).transpose(0, 2, 1, 3)

        for i in range(LAYERS):
            y = gw.nn.rms_norm(h, w[f"{i}/norm0"], eps=EPS)
            q, k, v = (heads(project(y, f"{i}/{name}")) for name in "qkv")
            q, k = (gw.nn.rotate_pairs(z, cos, sin) for z in (q, k))
            a = gw.nn.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + project(a.transpose(0, 2, 1, 3).reshape(*self.shape, WIDTH), f"{i}/o")
            y = gw.nn.rms_norm(h, w[f"{i}/norm1"], eps=EPS)
            h = h + gw.nn.swiglu(y @ w[f"{i}/gate"], y @ w[f"{i}/up"]) @ w[f"{i}/down"]
        logits = gw.nn.rms_norm(h, w["norm"], eps=EPS) @ w["head"]
        return gw.loss.sparse_softmax_cross_entropy(x["labels"], logits, ignore_index=IGNORED)

    def torch_model(self) -> tuple[Any, list[Any]]:
        os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        import torch
        from peft import LoraConfig, get_peft_model
        from transformers import LlamaConfig, LlamaForCausalLM

        config = LlamaConfig(
            vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
            num_attention_heads=HEADS, num_key_value_heads=HEADS, rms_norm_eps=EPS,
            max_position_embeddings=POSITIONS, tie_word_embeddings=False, use_cache=False,
            attn_implementation="eager",
        )  # fmt: skip
        adapters = LoraConfig(
            r=RANK, lora_alpha=ALPHA, target_modules=[f"{k}_proj" for k in ADAPTED],
            task_type="CAUSAL_LM",
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            model = get_peft_model(LlamaForCausalLM(config), adapters).train()
        known = dict(model.named_parameters())
        with torch.no_grad():
            for name, array in self.weights().items():
                known.pop(_name_at_hf(name)).copy_(
                    torch.from_numpy(array.T if array.ndim == 2 and name != "embed" else array)
                )
        if known:
            raise KeyError(f"HF's model has weights that ours has not: {', '.join(known)}")
        ids = torch.from_numpy(self.batch()["ids"])
        trained = [p for p in model.parameters() if p.requires_grad]
        return lambda: model(input_ids=ids, labels=ids).loss, trained

    def jax(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import jax
        import jax.numpy as jnp

        h = w["embed"][x["ids"]]
        cos, sin = map(jnp.asarray, self.turns())
        seen = jnp.tril(jnp.ones((self.shape[1],) * 2, bool))

        def norm(y: Any, gain: Any) -> Any:
            return y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + EPS) * gain

        def project(y: Any, at: str) -> Any:
            if f"{at}_a" not in w:
                return y @ w[at]
            return y @ w[at] + ALPHA / RANK * ((y @ w[f"{at}_a"]) @ w[f"{at}_b"])

        def turned(y: Any) -> Any:
            a, b = jnp.split(y, 2, axis=-1)
            return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

        for i in range(LAYERS):
            y = norm(h, w[f"{i}/norm0"])
            q, k, v = (
                project(y, f"{i}/{n}").reshape(*self.shape, HEADS, -1).swapaxes(1, 2) for n in "qkv"
            )
            scores = turned(q) @ turned(k).swapaxes(-1, -2) * FEATURES**-0.5
            a = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)) @ v
            h = h + project(a.swapaxes(1, 2).reshape(*self.shape, WIDTH), f"{i}/o")
            y = norm(h, w[f"{i}/norm1"])
            h = h + (jax.nn.silu(y @ w[f"{i}/gate"]) * (y @ w[f"{i}/up"])) @ w[f"{i}/down"]
        logits = (norm(h, w["norm"]) @ w["head"])[:, :-1]
        return cross_entropy_in_jax(logits, x["labels"][:, :-1])


def _name_at_hf(name: str) -> str:
    """Return the name that transformers and peft give to a weight of ours."""
    if "/" not in name:
        outer = {"embed": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"}
        return f"base_model.model.{outer[name]}.weight"
    layer, leaf = name.split("/")
    at = f"base_model.model.model.layers.{layer}."
    if leaf.startswith("norm"):
        return f"{at}{'post_attention' if leaf == 'norm1' else 'input'}_layernorm.weight"
    part, _, factor = leaf.partition("_")
    module = f"{at}{'self_attn' if part in 'qkvo' else 'mlp'}.{part}_proj"
    if factor:
        return f"{module}.lora_{factor.upper()}.default.weight"
    return f"{module}{'.base_layer' if part in ADAPTED else ''}.weight"
