"""What a Whisper is: its sizes and weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...words.jsonable import jsonable
from ..decoder.config import Shapes, check_heads, matrix
from ..encoders.layers import check_sizes, layer, norm


@jsonable
@dataclass(frozen=True)
class WhisperConfig:
    """The sizes of a Whisper.

    Args:
        vocabulary: how many tokens there are.
        width: features of a position.
        encoder_layers: how many layers hear.
        decoder_layers: how many write.
        encoder_heads: heads of attention of those that hear.
        decoder_heads: of those that write.
        encoder_inner: width between the matrices of a network of the first; None is 4·width.
        decoder_inner: of the others.
        bands: of the mel spectrum.
        frames: how many positions the encoder has, each of two frames of the spectrum.
        context: the longest row of tokens.
        activation: of the networks.
        dropout: share of what each part adds that training drops.

    Raises GraphError for sizes that do not go together.

    >>> from gradwright.models import WhisperConfig
    >>> WhisperConfig(vocabulary=51865, width=384, encoder_heads=6, decoder_heads=6).samples
    480000
    """

    vocabulary: int
    width: int = 256
    encoder_layers: int = 4
    decoder_layers: int = 4
    encoder_heads: int = 4
    decoder_heads: int = 4
    encoder_inner: int | None = None
    decoder_inner: int | None = None
    bands: int = 80
    frames: int = 1500
    context: int = 448
    activation: str = "gelu"
    dropout: float = 0.0
    norm: ClassVar[str] = "layer"
    eps: ClassVar[float] = 1e-5
    rate: ClassVar[int] = 16_000
    """Samples a second."""
    hop: ClassVar[int] = 160
    """Samples of a frame of the spectrum."""

    def __post_init__(self) -> None:
        names = ("vocabulary", "width", "bands", "frames", "context")
        parts = [
            f"{part}_{n}" for part in ("encoder", "decoder") for n in ("layers", "hidden", "heads")
        ]
        check_sizes(self, *names, *parts)
        check_heads(self.width, self.decoder_heads)

    @property
    def heads(self) -> int:
        """Heads of the encoder."""
        return self.encoder_heads

    @property
    def layers(self) -> int:
        """Layers of the encoder or of the decoder, whichever has more."""
        return max(self.encoder_layers, self.decoder_layers)

    @property
    def encoder_hidden(self) -> int:
        """Width between the matrices of a network of the encoder."""
        return 4 * self.width if self.encoder_inner is None else self.encoder_inner

    @property
    def decoder_hidden(self) -> int:
        """Width between the matrices of a network of the decoder."""
        return 4 * self.width if self.decoder_inner is None else self.decoder_inner

    @property
    def samples(self) -> int:
        """How many samples of sound it hears at once."""
        return 2 * self.frames * self.hop

    def weights(self) -> Shapes:
        """Yield name and shape of each weight; matrices are ``[out, in]``."""
        d = self.width
        yield "conv1", (d, self.bands, 3)
        yield "conv1_bias", (d,)
        yield "conv2", (d, d, 3)
        yield "conv2_bias", (d,)
        yield "encoder_positions", (self.frames, d)
        for i in range(self.encoder_layers):
            yield from layer(f"encoder_layer{i}", d, self.encoder_hidden, k_bias=False)
        yield from norm("encoder_norm", d)
        yield "embed", (self.vocabulary, d)
        yield "positions", (self.context, d)
        for i in range(self.decoder_layers):
            at = f"decoder_layer{i}"
            yield from layer(at, d, self.decoder_hidden, k_bias=False)
            yield from norm(f"{at}/cross_norm", d)
            for name in ("q", "k", "v", "o"):
                yield from matrix(f"{at}/cross_{name}", d, d, name != "k")
        yield from norm("norm", d)
