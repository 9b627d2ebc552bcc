"""The op catalogue beyond the core: one package per family, loaded on first use.

``import gradwright`` defines the ops of ``ops/``, with which small networks are written. All others
stand here: the family of a name is loaded when that is first looked up, or when an archive names
it, so that nobody waits for ops that are never used.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping

from ..shared import first_use
from .names import NAMES

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "base": ("arrays",),
    "math": ("arithmetic", "arrays"),
    "bitwise": ("arithmetic",),
    "linalg": ("matrices",),
    "signal": ("signals",),
    "audio": ("signals",),
    "cnn": ("convolutions",),
    "image": ("images",),
    "nn": ("layers", "attention", "adapters", "experts", "quantised", "recurrent"),
    "rnn": ("recurrent",),
    "quant": ("quantised",),
    "loss": ("losses",),
    "random": ("draws",),
    "training": ("updates",),
    "sequence": ("sequences",),
    "strings": ("texts",),
}
"""Namespace -> packages of this folder that define ops of it."""


def load(*namespaces: str) -> None:
    """Define the ops of some namespaces, or all ops.

    >>> from gradwright.catalogue import load
    >>> load("nn")
    """
    with first_use:
        for namespace in namespaces or FAMILIES:
            for family in FAMILIES.get(namespace, ()):
                importlib.import_module(f"{__name__}.{family}")


def load_op(name: str) -> None:
    """Define the family of an op, if there is an op of that name.

    >>> from gradwright.catalogue import load_op
    >>> load_op("lora_matmul")
    """
    family = _families().get(name)
    if family is not None:
        with first_use:
            importlib.import_module(f"{__name__}.{family}")


@functools.cache
def _families() -> dict[str, str]:
    return {name: family for family, names in NAMES.items() for name in names.split()}
