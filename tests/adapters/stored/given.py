"""What both sides of the stored outputs are given: sizes, weights and tokens, drawn by numpy."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LLAMA: dict[str, Any] = {
    **{"vocab_size": 37, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64},
    **{"tie_word_embeddings": False, "use_cache": False},
}
"""Settings of a ``LlamaConfig``."""
BOTTLENECKS = ("seq_bn", "double_seq_bn", "par_bn")
LEARNING_RATE, STEPS = 1e-2, 5
RANK, BLOCK, ALPHA = 8, 2, 12.0
"""Of DyLoRA: r, of LyCORIS's blocks, and alpha."""


def drawn(name: str, shape: tuple[int, ...]) -> Array:
    """Return a tensor by its name: of a norm about one, so large that all parts of a model show."""
    values = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    if name.endswith("norm.weight"):
        return (1 + 0.1 * values).astype(np.float32)
    return (0.2 * values).astype(np.float32)


def all_drawn(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Return a tensor for each name."""
    return {name: drawn(name, shape) for name, shape in shapes.items()}


def tokens() -> Array:
    """Return i64[6, 2, 16]: a batch to look at, and one for each step."""
    return np.random.default_rng(3).integers(1, 37, (1 + STEPS, 2, 16))


def inputs() -> tuple[Array, Array]:
    """Return x f32[5, 24] and dL/dy f32[5, 20] of the product that DyLoRA changes."""
    return drawn("x", (5, 24)) * 5, drawn("dy", (5, 20)) * 5
