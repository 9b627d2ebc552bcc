"""Vision and language: a decoder that tells what it sees."""

from .config import VisionLanguageConfig
from .model import VisionLanguage

__all__ = ["VisionLanguage", "VisionLanguageConfig"]
