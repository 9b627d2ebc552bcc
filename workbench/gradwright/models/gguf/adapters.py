"""Low-rank adapters in GGUF files: two small matrices beside each weight that they change."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ArchiveError
from ...formats.gguf.mapped import Gguf
from ...formats.source import naming
from .architectures import known
from .facts import Facts
from .names import LAYER, TOP

Array = np.ndarray[Any, Any]
_TENSOR = re.compile(r"(?:blk\.(\d+)\.)?([a-z_]+)\.weight\.lora_([ab])")
_OURS = {theirs: ours for ours, theirs in {**LAYER, **TOP}.items()}


@dataclass(frozen=True)
class Adapter:
    """A low-rank adapter (Hu et al. 2022) of a decoder.

    y = x·Wᵀ + scale·(x·Aᵀ)·Bᵀ, scale = alpha/r

    ``weights`` are A, f32[r, in], and B, f32[out, r], by the name of the weight W, as
    `DecoderConfig.weights` has it. Where ``interleaved`` is true, rows of B for queries and keys
    are in the order of a decoder that is, too, such as `from_gguf` gives.
    """

    architecture: str
    alpha: float
    weights: Mapping[str, tuple[Array, Array]]
    interleaved: bool = False

    def delta(self, name: str) -> Array:
        """Return scale·B·A, what the adapter adds to a weight: f32[out, in]."""
        a, b = self.weights[name]
        return np.float32(self.alpha / len(a)) * (b @ a)


def adapter_from_gguf(path: str | os.PathLike[str]) -> Adapter:
    """Return the adapter in a GGUF file.

    Raises ArchiveError for a file that is none, or whose matrices do not go together.

    >>> import numpy as np, pathlib, tempfile
    >>> from gradwright.formats.gguf.writing import write
    >>> from gradwright.models import adapter_from_gguf
    >>> path = pathlib.Path(tempfile.mkdtemp(), "lora.gguf")
    >>> keys = {"general.type": "adapter", "general.architecture": "llama",
    ...         "adapter.type": "lora", "adapter.lora.alpha": 8.0}
    >>> a, b = np.ones((4, 8), "f4"), np.ones((6, 4), "f4")
    >>> name = "blk.0.attn_v.weight"
    >>> write(path, keys, {f"{name}.lora_a": a, f"{name}.lora_b": b})
    >>> found = adapter_from_gguf(path)
    >>> found.alpha, found.delta("layer0/v").shape, found.delta("layer0/v")[0, 0]
    (8.0, (6, 8), np.float32(8.0))
    """
    held = Gguf(path)
    with naming(str(os.fspath(path))):
        general, facts = Facts(held.facts, "general"), Facts(held.facts, "adapter")
        if general.text("type", "model") != "adapter":
            raise ArchiveError("it is no adapter", hint="gw.open(path) opens a model")
        if facts.text("type", "lora") != "lora":
            raise facts.refused("type", facts.text("type"), "lora")
        architecture = general.text("architecture")
        settings = known(architecture).settings
        return Adapter(
            architecture,
            facts.number("lora.alpha"),
            _pairs(held),
            bool(settings.get("interleaved", False)),
        )


def _pairs(held: Gguf) -> dict[str, tuple[Array, Array]]:
    """Return A and B by the names of weights."""
    parts: dict[str, dict[str, Array]] = {}
    for tensor in held:
        found = _TENSOR.fullmatch(tensor)
        if found is None or found[2] not in _OURS:
            raise ArchiveError(f"the tensor {tensor[:60]!r} is none of an adapter that is read")
        name = _OURS[found[2]] if found[1] is None else f"layer{found[1]}/{_OURS[found[2]]}"
        parts.setdefault(name, {})[found[3]] = held[tensor].floats()
    made: dict[str, tuple[Array, Array]] = {}
    for name, pair in parts.items():
        a, b = pair.get("a"), pair.get("b")
        if a is None or b is None or a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[1]:
            shapes = {f"lora_{part}": held_.shape for part, held_ in pair.items()}
            raise ArchiveError(
                f"the matrices of {name[:60]!r} do not go together",
                need="lora_a [r, in] and lora_b [out, r]",
                facts=[f"{shapes}"],
            )
        made[name] = a, b
    if not made:
        raise ArchiveError("it has no tensors")
    return made
