"""A plain LoRA of one whose first values have changed the weights of its model.

PiSSA and OLoRA leave W₀ − s·B₀·A₀ as the weight, so that step 0 is the model as it was. To be
added to W₀ itself, what was learnt is s·B·A − s·B₀·A₀, of twice the rank:

    A' = [A; A₀], B' = [B, −B₀]
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...errors import GraphError
from ..site import Site
from .collecting import Collected

Array = np.ndarray[Any, Any]


def as_plain(collected: Collected, settings: dict[str, Any]) -> dict[str, Any]:
    """Put the leaves of plain LoRAs in the place of these, and return the settings of one.

    Raises GraphError for methods that are no such LoRA, and where the weights are as they were.
    """
    adapted = collected.adapted
    if settings["peft_type"] != "LORA" or settings.get("use_dora"):
        raise GraphError(f"plain=True is for LoRA, and this is {type(adapted.adapter).__name__}")
    before = adapted.replaced
    if not before:
        return {**settings, "init_lora_weights": True}
    root = bool(settings.get("use_rslora"))
    for place in adapted.places:
        part = collected.at[place.name]
        leaves, (r, alpha) = collected.arrays[part.path], collected.scales[part.path]
        if not isinstance(place, Site) or "lora_A" not in leaves or not part.is_whole:
            raise GraphError(f"{place.name!r} has no module of its own, so plain=True has no form")
        scale = alpha / (math.sqrt(r) if root else r)
        a, b = _first(place, before[place.name], adapted.graph.values[place.name], r, scale)
        leaves["lora_A"] = np.concatenate([leaves["lora_A"], a.astype(leaves["lora_A"].dtype)])
        thin = [leaves["lora_B"], -b.astype(leaves["lora_B"].dtype)]
        leaves["lora_B"] = np.concatenate(thin, axis=1)
        collected.scales[part.path] = 2 * r, alpha * (math.sqrt(2) if root else 2)
    more = math.sqrt(2) if root else 2
    return {
        **settings,
        "init_lora_weights": True,
        "r": settings["r"] * 2,
        "lora_alpha": settings["lora_alpha"] * more,
        "rank_pattern": {k: v * 2 for k, v in settings["rank_pattern"].items()},
        "alpha_pattern": {k: v * more for k, v in settings["alpha_pattern"].items()},
    }


def _first(place: Site, was: Array, now: Array, r: int, scale: float) -> tuple[Array, Array]:
    """Return A₀ and B₀ of what was taken from a weight: its only singular vectors are these.

    Raises GraphError for a difference of a higher rank, as that of a weight that was rounded.
    """
    taken = (was.astype(np.float64) - now).transpose(place.axes).reshape(place.n_out, -1)
    u, s, v = np.linalg.svd(taken, full_matrices=False)
    if s[r:].size and s[r] > 1e-4 * s[0]:
        raise GraphError(
            f"the weight of {place.name!r} was changed by more than a matrix of rank {r}",
            hint="plain=False, and the same first values where it is loaded",
        )
    half = np.sqrt(s[:r] / scale)
    kernel = (1,) * len(place.kernel)
    a = (half[:, None] * v[:r]).reshape(r, place.shape[1], *place.kernel)
    return a, (u[:, :r] * half).reshape(place.n_out, r, *kernel)
