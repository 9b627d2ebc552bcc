"""The training steps that the engine is measured by."""

from __future__ import annotations

from collections.abc import Callable

from tests.benchmarks.engine.models.cnn import CNN
from tests.benchmarks.engine.models.convolutional import MobileNet, ResNet18
from tests.benchmarks.engine.models.gat import GAT
from tests.benchmarks.engine.models.gcn import GCN
from tests.benchmarks.engine.models.llama import LlamaLoRA
from tests.benchmarks.engine.models.lstm import LSTM
from tests.benchmarks.engine.models.max_messages import MaxMessages
from tests.benchmarks.engine.models.mlp import MLP
from tests.benchmarks.engine.models.model import Model
from tests.benchmarks.engine.models.ragged import Ragged
from tests.benchmarks.engine.models.router import Router
from tests.benchmarks.engine.models.transformer import Transformer

MODELS: dict[str, Callable[[], Model]] = {
    "a": lambda: MLP(32, 64, 64),
    "b": lambda: MLP(128, 784, 256),
    "c": lambda: MLP(256, 512, 512),
    "d": CNN,
    "e": Transformer,
    "f": LSTM,
    "g": LlamaLoRA,
    "gcn": GCN,
    "gat": GAT,
    "max": MaxMessages,
    "router": Router,
    "ragged": Ragged,
    "resnet": ResNet18,
    "mobilenet": MobileNet,
}
"""The rows of the table, by letter, those of irregular access and of deep convolutions by name."""

__all__ = [
    "CNN",
    "GAT",
    "GCN",
    "LSTM",
    "MLP",
    "MODELS",
    "LlamaLoRA",
    "MaxMessages",
    "MobileNet",
    "Model",
    "Ragged",
    "ResNet18",
    "Router",
    "Transformer",
]
