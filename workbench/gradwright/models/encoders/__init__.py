"""Encoders: models that see all of a row at once, of text and of pictures."""

from .bert import Bert, BertConfig
from .vit import Vit, VitConfig

__all__ = ["Bert", "BertConfig", "Vit", "VitConfig"]
