"""One training step of each method on a small Llama: peft's, and ours from the same numbers.

A small Llama: vocabulary 1000, width 256, SwiGLU of 1024, 4 layers,
8 heads, attention "eager", untied; 8 rows of 128 random tokens, labels the tokens; AdamW at 1e-4.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradwright as gw
from gradwright import adapters
from gradwright.models import Decoder, DecoderConfig
from tests.adapters import peft_models
from tests.adapters.methods import CAUSAL, ROWS, Row, peft

Array = np.ndarray[Any, Any]
LLAMA: dict[str, Any] = {
    **{"vocab_size": 1000, "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4},
    **{"num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 256},
    **{"tie_word_embeddings": False, "use_cache": False, "attn_implementation": "eager"},
}
CONFIG = DecoderConfig(vocabulary=1000, width=256, layers=4, heads=8, inner=1024, context=256)
WIDE = DecoderConfig(vocabulary=1000, width=1024, layers=8, heads=16, inner=2816, context=256)
"""A base of 105 million weights, which take more than a step of one short row does."""
RATE = 1e-4
METHODS = (
    *("LoRA", "LoRA, all linear", "DoRA", "AdaLoRA", "LoHa", "LoKr", "IA3", "VeRA"),
    *("prefix", "prompt", "P-tuning"),
)
"""Rows of the table of tests that are timed."""
SIZES = {"VeRA": 256, "AdaLoRA": 12, "prompt": 20, "prefix": 20, "P-tuning": 20}
"""Method -> rank or number of virtual tokens, where it is not 8."""
VIRTUAL = {
    "prefix": Row(
        lambda n: peft().PrefixTuningConfig(num_virtual_tokens=n, **CAUSAL), adapters.Prefix, None
    ),
    "prompt": Row(
        lambda n: peft().PromptTuningConfig(num_virtual_tokens=n, **CAUSAL), adapters.Prompt, None
    ),
    "P-tuning": Row(
        lambda n: peft().PromptEncoderConfig(
            num_virtual_tokens=n, encoder_hidden_size=256, **CAUSAL
        ),
        lambda n: adapters.PTuning(n, hidden=256),
        None,
    ),
}
"""Methods that put vectors before a row."""
TIMED: dict[str, Row] = {**ROWS, **VIRTUAL}


@dataclass(frozen=True)
class Side:
    """A method here or there: its step, which returns the loss, and how to wait for kernels."""

    step: Callable[[], float]
    settle: Callable[[], None] = lambda: None


def tokens() -> Array:
    """Return i64[8, 128]."""
    return np.random.default_rng(1).integers(0, 1000, (8, 128))


@functools.cache
def weights() -> dict[str, Array]:
    """Return the weights of the base as transformers draws them, by its names."""
    return {name: t.numpy() for name, t in _llama().state_dict().items()}


def sides(name: str) -> tuple[Side, Side]:
    """Return our side of a method and peft's, which begin with the same adapter."""
    theirs, values = peft_side(name)
    return our_side(name, values), theirs


def peft_side(name: str) -> tuple[Side, dict[str, Array]]:
    """Return peft's step of a method, and the first values of its adapter by our names."""
    import torch

    row = TIMED[name]
    model = peft_models.with_peft(_llama(), row.theirs(SIZES.get(name, 8))).train()
    values = peft_models.values(model)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, RATE, weight_decay=0.01, fused=True)
    ids, labels = torch.tensor(tokens()), torch.tensor(_labels(tokens()))
    allocate = getattr(model, "update_and_allocate", None)
    count = itertools.count(1)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        if allocate is not None:  # of AdaLoRA, which ours does by itself
            allocate(next(count))
        return float(loss.item())

    return Side(step), values


def our_side(name: str, values: dict[str, Array] | None = None) -> Side:
    """Return our step of a method; with peft's first values, its base's weights are those, too."""
    row = TIMED[name]
    model = Decoder(CONFIG) if values is None else peft_models.decoder_of(weights(), CONFIG)
    adapted = adapters.add(model, row.ours(SIZES.get(name, 8)), row.where)
    if values is not None:
        if name in VIRTUAL:  # the same variables by other names there
            values = dict(zip(adapted.state(), values.values(), strict=True))
        adapted.load_state(values)
    return trained_side(model)


def on_base(kind: str) -> tuple[Side, dict[str, float]]:
    """Return a step of LoRA on a base of floats or of NF4, and what the base's weights take."""
    model = Decoder(WIDE)
    if kind != "float32":
        model = gw.quant.quantize(model, kind).model
    held = {v.name: model.graph.values[v.name].nbytes for v in model.graph.variables}
    matrices = {n: shape for n, shape in WIDE.weights() if len(shape) == 2 and "/" in n}
    lie = sum(n for name, n in held.items() if name.startswith(tuple(matrices)))
    numbers = sum(math.prod(shape) for shape in matrices.values())
    adapters.add(model, ROWS["LoRA"].ours(8), ROWS["LoRA"].where)
    side = trained_side(model, tokens()[:1, :64])
    return side, {"weights": sum(held.values()), "bits": 8 * lie / numbers}


def trained_side(model: Decoder, ids: Array | None = None) -> Side:
    """Return the step of a trainer of a decoder."""
    ids = tokens() if ids is None else ids
    trainer = gw.Trainer(model.graph, model.loss, gw.optim.AdamW(RATE))
    batch = {"ids": ids, "labels": _labels(ids)}

    def step() -> float:
        record = trainer.step(batch)
        assert record is not None
        return record.metrics["loss"] + record.metrics.get("default_penalty", 0.0)

    return Side(step, lambda: _settled(trainer.session))


def _labels(ids: Array) -> Array:
    """Return the tokens without the first of a row, which peft has its prompts predict."""
    return np.where(np.arange(ids.shape[1]) > 0, ids, -100)


def _settled(session: gw.Session) -> None:
    if not session.wait_for_kernels(120.0):
        raise TimeoutError("kernels are still being compiled after 120 s")


def _llama() -> Any:
    """Return the base as transformers makes it of seed 0."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**LLAMA))
