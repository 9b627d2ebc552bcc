"""Decoder language models: what one is, its graph for training, its graph for generation."""

from .cached import generation_graph
from .config import DecoderConfig, RopeScaling
from .decoder import Decoder
from .quantizing import Quantized, QuantizedTensor
from .rows import windows

__all__ = [
    "Decoder",
    "DecoderConfig",
    "Quantized",
    "QuantizedTensor",
    "RopeScaling",
    "generation_graph",
    "windows",
]
