"""The seven training steps that the engine is measured by."""

from __future__ import annotations

from collections.abc import Callable

from .cnn import CNN
from .llama import LlamaLoRA
from .lstm import LSTM
from .mlp import MLP
from .model import Model
from .transformer import Transformer

MODELS: dict[str, Callable[[], Model]] = {
    "a": lambda: MLP(32, 64, 64),
    "b": lambda: MLP(128, 784, 256),
    "c": lambda: MLP(256, 512, 512),
    "d": CNN,
    "e": Transformer,
    "f": LSTM,
    "g": LlamaLoRA,
}
"""The rows of the table, by letter."""

__all__ = ["CNN", "LSTM", "MLP", "MODELS", "LlamaLoRA", "Model", "Transformer"]
