"""Adapters: fine-tuning that leaves a model as it is and trains a little beside it.

``add`` puts one into a graph, as an edit that is drawn, stepped through and taken back; ``of`` says
which there are. Methods are dataclasses of settings, a file each in ``methods/``.
"""

from typing import Any

from . import methods
from .adapted import Adapted
from .adapter import Adapter, Leaf
from .adding import add, of
from .combining import combine, to_lora
from .files.loading import load
from .files.saved import SavedAdapter
from .files.writing import save
from .initial.chosen import EVA, LoftQ
from .kept import restored as _restored  # noqa: F401 - archives ask for it
from .merging import Drift, Merged, merge, merged, unmerge
from .methods import METHODS
from .rates import lora_plus
from .serving import Served, serve
from .site import Place, Site, Use, sites
from .targeting import chosen, fits
from .trained import Trained

globals().update(METHODS)
__all__ = [
    "EVA",
    "METHODS",
    "Adapted",
    "Adapter",
    "Drift",
    "Leaf",
    "LoftQ",
    "Merged",
    "Place",
    "SavedAdapter",
    "Served",
    "Site",
    "Trained",
    "Use",
    "add",
    "chosen",
    "combine",
    "fits",
    "load",
    "lora_plus",
    "merge",
    "merged",
    "of",
    "save",
    "serve",
    "sites",
    "to_lora",
    "unmerge",
    *METHODS,
]


def __getattr__(name: str) -> Any:
    """Return a method by its name."""
    return getattr(methods, name)
