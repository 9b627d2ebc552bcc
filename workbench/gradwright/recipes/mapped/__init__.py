"""A language model trained where its file lies: the base mapped and frozen, adapters per head.

Forward, backward and AdamW are one plan; a step is fed with tokens and targets and reports the loss
before its update. The base is read from the pages of the file, which all processes that train on it
share. The same steps train a model from scratch (after "toy" of O. Pekelman, 2025, which does this
on ggml; numbers, names and first values are its own).
"""

from .trainer import MappedTrainer, Step

__all__ = ["MappedTrainer", "Step"]
