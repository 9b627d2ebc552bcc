"""What a synthesizer of speech is: its sizes and weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ...errors import GraphError
from ...words.jsonable import jsonable
from ..decoder.config import Shapes, matrix
from ..encoders.layers import check_sizes, layer, norm
from .sound import MelConfig

KERNEL = 5
"""Frames that the last convolution sees."""


@jsonable
@dataclass(frozen=True)
class SpeechSynthesizerConfig:
    """The sizes of a synthesizer of speech.

    Args:
        characters: those it can say, each once.
        sound: the bands that it speaks in.
        width: features of a position.
        encoder_layers: how many layers read characters.
        decoder_layers: how many make frames.
        heads: heads of attention.
        inner: width between the matrices of a layer's network; None is 2·width.
        sigma: deviation, in frames, with which a character is spread over them.
        activation: of the networks.
        dropout: share of what each part adds that training drops.

    Raises GraphError for sizes that do not go together.

    >>> from gradwright.models import SpeechSynthesizerConfig
    >>> SpeechSynthesizerConfig("abc ").sound.bands
    40
    """

    characters: str = "abcdefghijklmnopqrstuvwxyz "
    sound: MelConfig = field(default_factory=MelConfig)
    width: int = 128
    encoder_layers: int = 2
    decoder_layers: int = 2
    heads: int = 4
    inner: int | None = None
    sigma: float = 2.5
    activation: str = "gelu"
    dropout: float = 0.0
    norm: ClassVar[str] = "layer"
    eps: ClassVar[float] = 1e-5

    def __post_init__(self) -> None:
        check_sizes(self, "width", "encoder_layers", "decoder_layers", "heads", "hidden")
        if not self.characters or len(set(self.characters)) < len(self.characters):
            raise GraphError(f"characters are {self.characters!r}", need="one or more, each once")
        if self.width % 2 or not self.sigma > 0:
            raise GraphError(
                f"width={self.width}, sigma={self.sigma}", need="an even width, sigma > 0"
            )

    @property
    def hidden(self) -> int:
        """Width between the matrices of a layer's network."""
        return 2 * self.width if self.inner is None else self.inner

    def weights(self) -> Shapes:
        """Yield name and shape of each weight; matrices are ``[out, in]``."""
        d = self.width
        yield "embed", (len(self.characters) + 1, d)
        for i in range(self.encoder_layers):
            yield from layer(f"encoder_layer{i}", d, self.hidden)
        yield from norm("encoder_norm", d)
        yield from matrix("duration", 1, d)
        for i in range(self.decoder_layers):
            yield from layer(f"decoder_layer{i}", d, self.hidden)
        yield from norm("norm", d)
        yield "bands", (self.sound.bands, d, KERNEL)
        yield "bands_bias", (self.sound.bands,)
