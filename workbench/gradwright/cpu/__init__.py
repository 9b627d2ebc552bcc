"""The CPU as a device: numpy first, then chains of machine code on fixed addresses."""

from .lowerings import adam, adam_8bit, core
from .memory import Cpu, Guard

__all__ = ["Cpu", "Guard", "adam", "adam_8bit", "core"]
