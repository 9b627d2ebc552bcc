"""Low-rank adapters in GGUF files: two small matrices beside each weight that they change.

    y = x·Wᵀ + scale·(x·Aᵀ)·Bᵀ, scale = adapter.lora.alpha / r, or 1 where alpha is 0

A of the embedding lies as its rows are looked up: ``[tokens, r]``.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArchiveError
from ...formats.gguf.mapped import Gguf
from ...formats.gguf.writing import write
from ...formats.source import naming
from ...models.gguf.architectures import known
from ...models.gguf.facts import Facts
from ...models.gguf.names import LAYER, TOP
from .saved import SavedAdapter

Array = np.ndarray[Any, Any]
EMBEDDING = TOP["embed"]
_TENSOR = re.compile(r"((?:blk\.\d+\.)?([a-z_]+))\.weight\.lora_([ab])")
RANKED = re.compile(r"((?:blk\.\d+\.)?[a-z_]+)\.weight\.lora_b")
"""Tensors that tell ranks."""
_NAMES = {
    *(*TOP.values(), *LAYER.values(), "attn_qkv"),
    *("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"),
}
_SIDES = {
    False: {"a": "lora_A", "b": "lora_B"},
    True: {"a": "lora_embedding_A", "b": "lora_embedding_B"},
}


def read_gguf(path: Path) -> SavedAdapter:
    """Return the adapter of a GGUF file; raises ArchiveError for one that is none, or damaged."""
    held = Gguf(path)
    with naming(str(path)):
        general, facts = Facts(held.facts, "general"), Facts(held.facts, "adapter")
        if general.text("type", "model") != "adapter":
            raise ArchiveError("it is no adapter", hint="gw.open(path) opens a model")
        if facts.text("type", "lora") != "lora":
            raise facts.refused("type", facts.text("type"), "lora")
        architecture = general.text("architecture")
        known(architecture)
        alpha = facts.number("lora.alpha")
        arrays = _pairs(held)
        ranks = {module: _rank(leaves) for module, leaves in arrays.items()}
        settings = _settings(alpha, ranks)
        settings["base_model_name_or_path"] = general.text("base_model.0.name", "") or None
        return SavedAdapter(path, settings, arrays, "gguf", architecture)


def _settings(alpha: float, ranks: Mapping[str, int]) -> dict[str, Any]:
    """Return settings as peft would have them: the most frequent rank, and which modules differ."""
    r = Counter(ranks.values()).most_common(1)[0][0]
    others = {module: rank for module, rank in ranks.items() if rank != r}
    plain = int(alpha) if float(alpha).is_integer() else alpha
    return {
        "peft_type": "LORA",
        "r": r,
        "lora_alpha": plain or r,
        "rank_pattern": others,
        "alpha_pattern": {} if plain else others,
        "target_modules": sorted(ranks),
    }


def _rank(leaves: Mapping[str, Array]) -> int:
    return int(next(a for leaf, a in leaves.items() if leaf.endswith("B")).shape[1])


def _pairs(held: Gguf) -> dict[str, dict[str, Array]]:
    """Return A, [r, in], and B, [out, r], by the names of weights."""
    found: dict[str, dict[str, Array]] = {}
    for tensor in held:
        name = _TENSOR.fullmatch(tensor)
        if name is None or name[2] not in _NAMES:
            raise ArchiveError(f"the tensor {tensor[:60]!r} is none of an adapter that is read")
        is_embedding = name[2] == EMBEDDING
        array = held[tensor].floats()
        is_turned = is_embedding and name[3] == "a" and array.ndim == 2
        leaf = _SIDES[is_embedding][name[3]]
        found.setdefault(name[1], {})[leaf] = array.T if is_turned else array
    for module, leaves in found.items():
        a, b = (next((x for n, x in leaves.items() if n.endswith(end)), None) for end in "AB")
        if a is None or b is None or a.ndim != 2 or b.ndim != 2 or len(a) != b.shape[1]:
            raise ArchiveError(
                f"the matrices of {module[:60]!r} do not go together",
                need="lora_a [r, in] and lora_b [out, r]",
                facts=[f"{leaf}: {list(array.shape)}" for leaf, array in leaves.items()],
            )
        if not len(a):
            raise ArchiveError(f"the matrices of {module[:60]!r} are of rank 0")
    if not found:
        raise ArchiveError("it has no tensors")
    return found


def write_gguf(
    path: str | os.PathLike[str],
    architecture: str,
    alpha: float,
    arrays: Mapping[str, Mapping[str, Array]],
    *,
    kind: str = "f32",
    name: str = "",
    base: str = "",
) -> None:
    """Write pairs of A and B, whose scales are ``alpha / r`` each, whole or not at all."""
    facts: dict[str, Any] = {
        "general.type": "adapter",
        "general.architecture": architecture,
        "adapter.type": "lora",
        "adapter.lora.alpha": float(alpha),
    }
    if name:
        facts["general.name"] = name
    if base:
        facts |= {"general.base_model.count": np.uint32(1), "general.base_model.0.name": base}
    tensors: dict[str, Array] = {}
    for module, leaves in arrays.items():
        sides = {leaf: side for side, leaf in _SIDES[module == EMBEDDING].items()}
        for leaf, array in leaves.items():
            turned = array.T if leaf == "lora_embedding_A" else array
            held = np.ascontiguousarray(turned, np.float32)
            tensors[f"{module}.weight.lora_{sides[leaf]}"] = held
    write(path, facts, tensors, dict.fromkeys(tensors, kind))
