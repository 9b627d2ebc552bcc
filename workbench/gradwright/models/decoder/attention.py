"""Attention of a decoder: within rows as they are trained, and to keys that a cache holds."""

from __future__ import annotations

from collections.abc import Callable

from ... import nn
from ...graph import Tensor
from ...ops.core.creation import Arange
from ...ops.core.movement import Cast
from .config import DecoderConfig
from .rope import turning

WINDOWS = "windows"
"""What a graph knows of attentions that do not see all that stands before: how far they reach."""
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""From the number of a layer, queries, keys and values, all ``[B, heads, T, E]``, to averages;
queries and keys are turned to their places on the way."""


class Within:
    """Attention within rows: each position sees those before it, as far as its layer reaches.

    Args:
        config: of the decoder.
        ids: i64[B, T], whose length is that of rows.
        places: i64[T], or i64[B, T] where several rows lie one after another, each from 0 on: none
            of them sees another.
    """

    def __init__(self, config: DecoderConfig, ids: Tensor, places: Tensor) -> None:
        self._config, self._turn = (
            config,
            turning(config, places, lambda: places.max(-1, keepdims=True) + 1),
        )
        same = None
        if places.rank == 2:
            row = Cast(dtype="int64")(places == 0).cumsum(1)
            same = (row[:, None] == row[:, :, None])[:, None]
        at = places if same is None else Arange(start=ids.shape[1])()
        self._seen: dict[int | None, Tensor | None] = {}
        for reach in _reaches(config):
            if reach is None and same is None:
                self._seen[reach] = None  # all before
                continue
            seen = at <= at[:, None]
            if reach is not None:
                seen = seen & (at > at[:, None] - reach)
            self._seen[reach] = seen if same is None else seen & same

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return averages of values."""
        config, seen = self._config, self._seen[self._config.reach(layer)]
        scale, causal = config.attention_scale, seen is None
        q, k = self._turn(q), self._turn(k)
        b, n, t, e = q.shape
        if config.attention_cap is not None:
            cap = config.attention_cap
            return self._noted(
                layer,
                nn.grouped_query_attention(
                    q, k, v, seen, scale=scale, softcap=cap, is_causal=causal
                ),
            )
        if n != config.shared:
            q = q.reshape(b, config.shared, n // config.shared, t, e)
            k, v = k[:, :, None], v[:, :, None]
            seen = seen[:, None] if seen is not None and seen.rank == 4 else seen
        y = nn.scaled_dot_product_attention(
            *(q, k, v, seen),
            is_causal=causal,
            scale=scale,
            unseen="zeros" if causal else "average",  # there is none: each sees itself
        )
        return self._noted(layer, y).reshape(b, n, t, e)

    def _noted(self, layer: int, y: Tensor) -> Tensor:
        """Note how far an attention reaches, for what is put before its keys later."""
        reach = self._config.reach(layer)
        if reach is not None:
            y.graph.notes.setdefault(WINDOWS, {})[y.name] = reach
        return y


class Cached:
    """Attention to new positions, and to old ones whose keys and values are given.

    Args:
        config: of the decoder.
        past: f32[layers, 2, B, H, S, E], keys and values.
        position: i64[B], how many of the S exist, and where the first new one stands.
        places: i64[B, T], where the new ones stand.
        length: makes i64[B, T], how many the row of each new one then has.
    """

    def __init__(
        self, config: DecoderConfig, past: Tensor, position: Tensor, places: Tensor,
        length: Callable[[], Tensor],
    ) -> None:  # fmt: skip
        self._config, self._past, self._filled = config, past, position
        self.made: list[Tensor] = []
        """Keys and values of the new positions, layer by layer."""
        self._turn = turning(config, places, length)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return averages of values, and keep what is new."""
        config, k = self._config, self._turn(k)
        self.made.extend((k, v))
        scale = config.features**-0.5 if config.attention_scale is None else config.attention_scale
        y, _ = nn.cached_attention(
            *(self._turn(q), k, v, self._past[layer, 0], self._past[layer, 1], self._filled),
            scale=scale,
            softcap=config.attention_cap,
            window_size=config.reach(layer),
            name="attention",
        )
        return y


def _reaches(config: DecoderConfig) -> list[int | None]:
    """Return how far layers reach, each once."""
    return list(dict.fromkeys(map(config.reach, range(config.layers))))
