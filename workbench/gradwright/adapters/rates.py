"""Learning rates of an adapter's parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import GraphError
from .settings import check_number

if TYPE_CHECKING:
    from .adapted import Adapted

FASTER = ("lora_B", "lora_embedding_B", "lora_b")


def lora_plus(adapted: Adapted, ratio: float = 16.0) -> dict[str, float]:
    """Return factors of learning rates that train B faster than A (Hayou et al. 2024, "LoRA+").

    lr(B) = ratio·lr(A), for ``lr_multipliers`` of a trainer.

    Raises GraphError for a ratio that is not above 0, and for an adapter without a B.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 3)) @ g.variable("w", (3, 2), init=1.0)
    >>> adapted = gw.adapters.add(g, gw.adapters.LoRA(r=1), where="w")
    >>> gw.adapters.lora_plus(adapted, 8.0)
    {'w/default/lora_B': 8.0}
    >>> trainer = gw.Trainer(g, y.mean(), lr_multipliers=gw.adapters.lora_plus(adapted))
    """
    check_number("ratio", ratio)
    if ratio <= 0:
        raise GraphError(f"a ratio of {ratio!r} makes no sense", need="a number above 0")
    found = {
        t.name: ratio
        for leaves in adapted.variables.values()
        for leaf, t in leaves.items()
        if leaf in FASTER
    }
    if not found:
        raise GraphError(f"{adapted.name!r} is {type(adapted.adapter).__name__}: it has no B")
    return found
