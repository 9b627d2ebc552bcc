"""What a decoder that sees is: the sizes of its decoder, of an image, and of what joins them."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import GraphError
from ...words.jsonable import jsonable
from ..decoder.config import DecoderConfig, Shapes, check_counts, matrix


@jsonable
@dataclass(frozen=True)
class VisionLanguageConfig:
    """The sizes of a decoder before whose tokens an image stands.

    Args:
        decoder: the decoder; its context has room for the patches, too.
        image: height and width of an image.
        patch: height and width of a patch, of which it is made.
        channels: of an image.
        hidden: width between the two matrices of the projector; None is that of the decoder.

    Raises GraphError for sizes that do not go together.

    >>> from gradwright.models import DecoderConfig, VisionLanguageConfig
    >>> config = VisionLanguageConfig(DecoderConfig(vocabulary=30, width=96), image=8, patch=2)
    >>> config.patches, config.shape
    (16, (8, 8))
    """

    decoder: DecoderConfig
    image: int = 224
    patch: int = 16
    channels: int = 1
    hidden: int | None = None

    def __post_init__(self) -> None:
        check_counts(self, "image", "patch", "channels", "inner")
        if self.image % self.patch:
            raise GraphError(
                f"an image of {self.image} is not made of patches of {self.patch}",
                need=f"a multiple of {self.patch}",
            )
        if self.patches >= self.decoder.context:
            raise GraphError(
                f"{self.patches} patches leave no room for tokens",
                need=f"context > {self.patches}, got {self.decoder.context}",
            )

    @property
    def inner(self) -> int:
        """Width between the two matrices of the projector."""
        return self.decoder.width if self.hidden is None else self.hidden

    @property
    def patches(self) -> int:
        """How many patches an image has: so many positions stand before the tokens of a row."""
        return (self.image // self.patch) ** 2

    @property
    def context(self) -> int:
        """How many tokens of a row there is room for behind its image."""
        return self.decoder.context - self.patches

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an image: (H, W), or of several channels (H, W, C)."""
        side = self.image, self.image
        return side if self.channels == 1 else (*side, self.channels)

    @property
    def norm(self) -> str:
        """What norms the decoder has."""
        return self.decoder.norm

    @property
    def eps(self) -> float:
        """What they add to what they divide by."""
        return self.decoder.eps

    def projector(self) -> Shapes:
        """Yield name and shape of each weight of the projector; matrices are ``[out, in]``."""
        yield from matrix("projector/up", self.inner, self.patch**2 * self.channels)
        yield from matrix("projector/down", self.decoder.width, self.inner)
        yield "projector/positions", (self.patches, self.decoder.width)

    def weights(self) -> Shapes:
        """Yield name and shape of each weight, the projector's last.

        >>> from gradwright.models import DecoderConfig, VisionLanguageConfig
        >>> config = VisionLanguageConfig(DecoderConfig(vocabulary=9, width=8), image=8, patch=2)
        >>> dict(config.weights())["projector/up"]
        (8, 4)
        """
        yield from self.decoder.weights()
        yield from self.projector()
