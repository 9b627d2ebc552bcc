"""The op catalogue beyond the core: one package per family, loaded on first use.

``import gradwright`` defines the ops of ``ops/``, with which small networks are written. All others
stand here and are loaded when a name of their namespace is first looked up, or when an archive
names one of them, so that nobody waits for ops that are never used.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

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
    for namespace in namespaces or FAMILIES:
        for family in FAMILIES.get(namespace, ()):
            importlib.import_module(f"{__name__}.{family}")
