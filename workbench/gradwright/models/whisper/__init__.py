"""Whisper: speech to text."""

from .config import WhisperConfig
from .speech import SpeechTokens
from .whisper import Whisper

__all__ = ["SpeechTokens", "Whisper", "WhisperConfig"]
