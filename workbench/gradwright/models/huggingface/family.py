"""A family of models as Hugging Face writes them: what a row of the tables says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NEEDED = object()
"""What has no default."""
Keys = Mapping[str, tuple[str, Any]]
ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
}
"""Their names -> ours."""


@dataclass(frozen=True)
class Family:
    """How a family is written.

    Args:
        name: ``model_type``.
        architecture: the class of transformers.
        keys: key -> field and default.
        names: weight -> name of its file's tensor, without ``.weight`` and ``.bias``.
        fixed: fields that all models of the family have.
        windows: what tells which layers see a window of keys: ``""`` none does, ``"all"``,
            ``"types"`` of layers, ``"use"`` those where ``use_sliding_window`` is set, too.
        only: keys of settings that are read with these values alone.
        theta: base of rotary positions where a file does not tell.
        turned: whether matrices of layers are ``[in, out]``.
        prefix: of the names of what is not a head.
        exact: weights whose names have neither ``.weight`` nor ``.bias`` behind them.
        ignored: what tensors of old files are called that are no weights.
    """

    name: str
    architecture: str
    keys: Keys
    names: Mapping[str, str]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    windows: str = ""
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    theta: float = 10_000.0
    turned: bool = False
    prefix: str = "model."
    exact: Mapping[str, str] = field(default_factory=dict)
    ignored: str = r"rotary_emb\.inv_freq$"
