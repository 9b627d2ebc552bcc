"""Precision: 16-bit and 8-bit floats in training, and the scale of the loss that they need."""

from .forward import Lowered, lowered
from .fp8 import FP8
from .policy import Precision, checked
from .scaler import LossScale, LossScaler

__all__ = ["FP8", "LossScale", "LossScaler", "Lowered", "Precision", "checked", "lowered"]
