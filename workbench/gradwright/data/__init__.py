"""Data: what training reads, as batches in an order that a resume finds again."""

from typing import Any

from ..ops import missing
from .batches import Batch, Batches, Feeds, batches
from .buckets import buckets
from .columns import order
from .dataset import Dataset, Table
from .files import memmap, windows
from .padding import pad
from .sources import dataset, stream
from .split import class_weights, example_weights, k_folds, split
from .tables import parquet

__all__ = [
    "Batch",
    "Batches",
    "Dataset",
    "Feeds",
    "Table",
    "batches",
    "buckets",
    "class_weights",
    "dataset",
    "example_weights",
    "k_folds",
    "memmap",
    "order",
    "pad",
    "parquet",
    "split",
    "stream",
    "windows",
]


def __getattr__(name: str) -> Any:
    """Say what is meant by a name that is not here."""
    raise missing(__name__, name, __all__)
