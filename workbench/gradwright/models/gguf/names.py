"""Where the weights of a model lie in a GGUF file: names of tensors, rows of fused ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .architectures import Config, known

TOP = {
    "embed": "token_embd",
    "positions": "position_embd",
    "norm": "output_norm",
    "head": "output",
}
LAYER = {
    "attention_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "attention_post_norm": "post_attention_norm",
    "mlp_norm": "ffn_norm",
    "router": "ffn_gate_inp",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
    "mlp_post_norm": "post_ffw_norm",
}
"""Our name of a weight -> what most files call it, without ``.weight`` or ``.bias``."""
_PLACE = re.compile(r"(?:layer(\d+)/)?(.+?)(_bias)?")


@dataclass(frozen=True)
class Place:
    """A weight in a file: rows of a tensor, from ``start`` on, all if it alone lies there."""

    name: str
    shape: tuple[int, ...]
    tensor: str
    start: int | None = None

    @property
    def rows(self) -> slice:
        """Which rows of the tensor."""
        start = self.start or 0
        return slice(start, start + self.shape[0])


def places(config: Config, architecture: str) -> Iterator[Place]:
    """Yield where each weight lies; parts of a fused tensor follow each other.

    >>> from gradwright.models import DecoderConfig
    >>> config = DecoderConfig(vocabulary=9, width=8, layers=1, heads=2)
    >>> [p.tensor for p in places(config, "llama")][:3]
    ['token_embd.weight', 'blk.0.attn_norm.weight', 'blk.0.attn_q.weight']
    """
    form, experts = known(architecture), getattr(config, "experts", 0)
    fused = {part: name for name, parts in form.fused.items() for part in parts}
    top, inner = {**TOP, **form.named}, {**LAYER, **form.named}
    taken: dict[str, int] = {}
    for name, shape in config.weights():
        found = _PLACE.fullmatch(name)
        assert found is not None
        layer, label, ending = found[1], found[2], "bias" if found[3] else "weight"
        if layer is None:
            yield Place(name, shape, f"{top[label]}.{ending}")
            continue
        base = fused.get(label, inner[label])
        if experts and label in ("gate", "up", "down"):
            base += "_exps"
        tensor = f"blk.{layer}.{base}.{ending}"
        if label not in fused:
            yield Place(name, shape, tensor)
            continue
        start = taken.get(tensor, 0)
        taken[tensor] = start + shape[0]
        yield Place(name, shape, tensor, start)
