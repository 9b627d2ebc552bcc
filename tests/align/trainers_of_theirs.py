"""A tiny Llama on both sides: TRL's trainers and ours on the same pairs, weights and reference."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw

for _name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRL_EXPERIMENTAL_SILENCE"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

WORDS, EOS = 29, 2
SIZES = {
    "vocab_size": WORDS, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "bos_token_id": 1, "eos_token_id": EOS, "pad_token_id": 0, "initializer_range": 0.3,
}  # fmt: skip
PLAIN = {
    "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": [],
    "per_device_train_batch_size": 6, "disable_tqdm": True,
}  # fmt: skip
QUIET = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
"""Marks of tests in which their trainers warn of what they use themselves."""


def tokenizer() -> Any:
    """Return a tokenizer whose words are ``w3`` ..., each a token of that number."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    words = {"<pad>": 0, "<s>": 1, "</s>": EOS} | {f"w{i}": i for i in range(3, WORDS)}
    inner = Tokenizer(WordLevel(words, unk_token="<pad>"))
    inner.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>", pad_token="<pad>")


def folder(path: Path, **sizes: int) -> Path:
    """Save a tiny Llama of random weights and its tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**SIZES | sizes)).save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path


def rows(*columns: str, n: int = 6, longest: int = 5, seed: int = 3) -> list[dict[str, list[int]]]:
    """Return rows of tokens of unequal lengths in these columns."""
    rng = np.random.default_rng(seed)

    def draw() -> list[int]:
        return [int(t) for t in rng.integers(3, WORDS, rng.integers(1, longest + 1))]

    return [{column: draw() for column in columns} for _ in range(n)]


def texts(data: list[dict[str, Any]]) -> Any:
    """Return rows as a data set of texts, which their tokenizer makes the same tokens of."""
    from datasets import Dataset

    def text(name: str, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return ("" if name == "prompt" else " ") + " ".join(f"w{i}" for i in value)

    return Dataset.from_list([{k: text(k, v) for k, v in row.items()} for row in data])


def moved(theirs: Any, model: Any, seed: int = 4) -> None:
    """Move the policy away from its reference, by the same amounts on both sides."""
    import torch

    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    gw.models.load_state_dict(model, {k: v.numpy() for k, v in theirs.state_dict().items()})


def measured(objective: Any, feeds: Any) -> tuple[float, dict[str, float], dict[str, np.ndarray]]:
    """Return our loss, metrics, and gradients by the names of theirs."""
    (loss,), graph = objective.losses.values(), objective.graph
    weights = graph.trainable
    slopes = gw.gradients(loss, weights, unreachable="zero")
    watched = {k: m for k, m in objective.metrics.items() if isinstance(m, gw.Tensor)}
    value, *rest = gw.Session(graph).run([loss, *watched.values(), *slopes], feeds)
    n = len(watched)
    seen = dict(zip(watched, map(float, rest[:n]), strict=True))
    return float(value), seen, dict(zip((t.name for t in weights), rest[n:], strict=True))


def compare(trainer: Any, value: Any, mine: Any, model: Any, theirs: Any) -> None:
    """Hold loss, metrics and all gradients against theirs."""
    value.backward()
    loss, seen, slopes = mine
    np.testing.assert_allclose(loss, value.item(), rtol=1e-5, atol=1e-6)
    metrics = getattr(trainer, "_metrics", None) or trainer._stored_metrics
    metrics = metrics["eval"]
    for name in seen:
        np.testing.assert_allclose(
            seen[name], np.mean(metrics[name]), rtol=1e-5, atol=1e-5, err_msg=name
        )
    held = model.graph.values.snapshot(slopes)
    model.graph.values.commit(slopes)  # so that their names are those of the weights
    named = gw.models.state_dict(model)
    model.graph.values.restore(held)
    for name, weight in theirs.named_parameters():
        if name in named and weight.grad is not None:
            slope = weight.grad.numpy()
            near(named[name], slope, 1e-4, 5e-5 * np.abs(slope).max(), name)


def near(mine: Any, theirs: Any, rtol: float, atol: float, name: str) -> None:
    np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol, err_msg=name)
