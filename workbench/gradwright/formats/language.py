"""What a decoder takes at a length, told by its sizes alone: weights, activations, keys and values.

The counts are those of the graphs that `models.Decoder` makes: float32 numbers, all positions of a
prompt at once, and a cache of keys and values for every position, also where a window hides it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import GraphError
from ..words.spelling import meant
from .memory import Memory

NUMBER, ID = 4, 8
"""Bytes of an activation, float32, and of a token, int64."""
SIZES = ("batch", "length")
USUAL = 2048
"""The length that is told of where none is asked for, or the context if that is shorter."""


@dataclass(frozen=True)
class LanguageShape:
    """The sizes of a decoder that memory depends on.

    ``features`` are those of a head, ``inner`` the width of a gated layer, or of one expert of
    which ``active`` work on a token. Scores that are ``capped`` are held whatever the length.

    >>> from gradwright.formats.language import LanguageShape
    >>> shape = LanguageShape(layers=2, width=64, heads=4, kv_heads=2, features=16, inner=128,
    ...                       vocabulary=1000, context=512)
    >>> shape.cache(batch=1, length=512)
    262144
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    features: int
    inner: int
    vocabulary: int
    context: int
    experts: int = 0
    active: int = 1
    capped: bool = False

    def cache(self, batch: int, length: int) -> int:
        """Return the bytes of keys and values of all layers."""
        return NUMBER * self.layers * 2 * batch * self.kv_heads * length * self.features

    def scores(self, length: int) -> int:
        """Return how many scores a position has that are held, of all heads."""
        from ..ops.attention.tiled import TILED  # of no use to who only opens a file

        is_tiled = length * length >= TILED and not self.capped
        return 0 if is_tiled else self.heads * length

    def results(self, batch: int, length: int) -> int:
        """Return the bytes of all results of a forward run that training keeps."""
        wide, kv = self.heads * self.features, self.kv_heads * self.features
        position = 4 * self.width + 3 * wide + 4 * kv + 4 * self.inner * self.active
        layer = batch * length * (position + self.scores(length))
        logits = 2 * batch * length * self.vocabulary
        return NUMBER * (self.layers * layer + batch * length * 2 * self.width + logits)

    def peak(self, batch: int, length: int) -> int:
        """Return the bytes of results that lie at once while a prompt is read."""
        wide, kv = self.heads * self.features, self.kv_heads * self.features
        attending = 2 * wide + 2 * kv + 2 * self.scores(length)
        gated = 3 * self.inner * self.active
        made = batch * self.layers * 2 * length * kv  # keys and values, before they are stored
        rows = batch * length * (2 * self.width + max(attending, gated))
        return NUMBER * (rows + made + batch * self.vocabulary)

    def memory(self, weights: int, floating: int, sizes: Mapping[str, int]) -> Memory:
        """Return the estimate for weights of so many bytes, of which ``floating`` can be trained.

        Raises GraphError for sizes that are none of ``batch`` and ``length``.
        """
        for name, n in sizes.items():
            if name not in SIZES:
                close = meant(str(name), SIZES)
                raise GraphError(
                    f"a language model has no size {name!r}",
                    need="length, batch",
                    hint=f"did you mean {close!r}?" if close else "",
                )
            if type(n) is not int or n < 1:
                raise GraphError(f"the size {name!r} is {n!r}", need="an integer of 1 or more")
        batch = sizes.get("batch", 1)
        length = sizes.get("length", min(self.context, USUAL))
        return Memory(
            {"batch": batch, "length": length},
            weights,
            floating,
            batch * length * ID,
            self.results(batch, length),
            self.peak(batch, length),
            cache=self.cache(batch, length),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the sizes as JSON has them."""
        return asdict(self)
