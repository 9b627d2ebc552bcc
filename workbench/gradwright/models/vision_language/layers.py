"""What stands before the tokens of a row: an image, patch by patch, as vectors of the decoder."""

from __future__ import annotations

from ... import nn
from ...graph import Graph, Tensor
from ...ops.core.choice import Minimum, Where
from ...ops.core.creation import Arange
from ...ops.core.identity import Identity
from ..decoder.cached import generating
from ..decoder.layers import embedded
from ..decoder.weights import Weights
from ..feeding import ENCODED, ENCODING
from .config import VisionLanguageConfig


def images_of(config: VisionLanguageConfig, graph: Graph) -> Tensor:
    """Return the placeholder of images, one of each row."""
    return graph.placeholder("images", ("B", *config.shape))


def seen(config: VisionLanguageConfig, weights: Weights, images: Tensor) -> Tensor:
    """Return what the projector makes of images, f32[B, patches, D]: their patches row by row."""
    n, p, c = config.image // config.patch, config.patch, config.channels
    y = images.reshape(-1, n, p, n, p, c).transpose(0, 1, 3, 2, 4, 5)
    y = y.reshape(-1, config.patches, p * p * c)
    y = weights.product(nn.gelu(weights.product(y, "projector/up")), "projector/down")
    told: Tensor = Identity()(y + weights["projector/positions"], name="seen")
    return told


def seeing_graph(config: VisionLanguageConfig, name: str) -> Graph:
    """Return the graph by which images and tokens generate, as ``Generation`` asks for it.

    The first positions of a row are the patches, in whose place any tokens stand. The projector
    works once: what it makes is ``encoded``, f32[B, patches, D], fed with every token.
    """
    g = Graph(name)
    images = images_of(config, g)
    prefix = g.placeholder(ENCODED, ("B", config.patches, config.decoder.width))

    def begin(ids: Tensor, places: Tensor) -> tuple[Weights, Tensor]:
        weights = Weights(g, config, {})
        Identity()(seen(config, weights, images), name=ENCODING)
        row = Arange(start=ids.shape[0])()[:, None] * config.patches
        patch = row + Minimum()(places, config.patches - 1)
        of_image = prefix.reshape(-1, config.decoder.width)[patch]
        is_image = (places < config.patches)[:, :, None]
        return weights, Where()(is_image, of_image, embedded(config.decoder, weights, ids))

    generating(g, config.decoder, begin)
    return g
