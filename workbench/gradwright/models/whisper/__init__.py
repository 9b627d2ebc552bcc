"""Whisper: speech to text."""

from .config import WhisperConfig
from .whisper import Whisper

__all__ = ["Whisper", "WhisperConfig"]
