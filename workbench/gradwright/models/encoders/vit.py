"""The vision transformer (Dosovitskiy et al. 2021): an encoder of pictures, patch by patch.

h₀ = [cls, patches·Wᵀ] + positions
a  = h + attend(norm(h)),  h' = a + gelu(norm(a)·Wupᵀ)·Wdownᵀ        for each layer
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ... import cnn, loss
from ...errors import GraphError
from ...graph import Graph, Tensor
from ...ops.core.identity import Identity
from ...ops.core.joining import Concat
from ...spec.buffer import Buffer
from ...words.jsonable import jsonable
from ..decoder.config import Shapes, matrix
from ..decoder.layers import dropped
from ..decoder.weights import Weights
from .encoder import Encoder
from .layers import block, check_sizes, layer, norm

Array = np.ndarray[Any, Any]


@jsonable
@dataclass(frozen=True)
class VitConfig:
    """The sizes of a vision transformer.

    Args:
        image: height and width of a picture.
        patch: height and width of a patch, of which it is made.
        channels: of a picture.
        width: features of a patch.
        layers: how many layers stand on each other.
        heads: heads of attention.
        inner: width between the matrices of a layer's network; None is 4·width.
        eps: what norms add to the variance.
        dropout: share of what each part adds that training drops.
        activation: of the networks.
        qkv_bias: whether queries, keys and values have biases.
        pooler: whether the first position goes through a layer of its own.
        classes: how many classes there are to tell a picture's from; 0 is no head.

    Raises GraphError for sizes that do not go together.

    >>> from gradwright.models import VitConfig
    >>> VitConfig(image=224, patch=16).patches
    196
    """

    image: int = 224
    patch: int = 16
    channels: int = 3
    width: int = 256
    layers: int = 4
    heads: int = 4
    inner: int | None = None
    eps: float = 1e-12
    dropout: float = 0.0
    activation: str = "gelu"
    qkv_bias: bool = True
    pooler: bool = False
    classes: int = 0
    norm: ClassVar[str] = "layer"

    def __post_init__(self) -> None:
        check_sizes(self, "image", "patch", "channels", "width", "layers", "heads", "hidden")
        if self.image % self.patch:
            raise GraphError(
                f"a picture of {self.image} is not made of patches of {self.patch}",
                need=f"a multiple of {self.patch}",
            )

    @property
    def hidden(self) -> int:
        """Width between the matrices of a layer's network."""
        return 4 * self.width if self.inner is None else self.inner

    @property
    def patches(self) -> int:
        """How many patches a picture has."""
        return (self.image // self.patch) ** 2

    def weights(self) -> Shapes:
        """Yield name and shape of each weight; matrices are ``[out, in]``."""
        d = self.width
        yield "first", (1, 1, d)
        yield "positions", (1, self.patches + 1, d)
        yield "patches", (d, self.channels, self.patch, self.patch)
        yield "patches_bias", (d,)
        for i in range(self.layers):
            yield from layer(f"layer{i}", d, self.hidden, self.qkv_bias)
        yield from norm("norm", d)
        if self.pooler:
            yield from matrix("pooler", d, d)
        if self.classes:
            yield from matrix("classes", self.classes, d)


class Vit(Encoder):
    """A vision transformer: its graph, for training and for use.

    ``pixels`` is a placeholder f32[B, C, H, W]. ``hidden`` is f32[B, patches + 1, D], the first
    position that of the whole picture; ``pooled`` f32[B, D]. With classes ``logits`` are
    f32[B, classes], ``labels`` i64[B], and ``loss`` is the mean of −ln p(label).

    >>> import gradwright as gw, numpy as np
    >>> from gradwright.models import Vit, VitConfig
    >>> model = Vit(VitConfig(image=8, patch=4, width=16, layers=1, heads=2, classes=3))
    >>> with gw.Session(model.graph) as session:
    ...     session.run(model.logits, {"pixels": np.zeros((2, 3, 8, 8), "float32")}).shape
    (2, 3)
    """

    config: VitConfig

    def __init__(
        self,
        config: VitConfig,
        *,
        name: str = "vit",
        seed: int = 0,
        values: Mapping[str, Array | Buffer] | None = None,
        source: Path | None = None,
    ) -> None:
        self.config = config
        graph, side = Graph(name), config.image
        self.pixels = graph.placeholder("pixels", ("B", config.channels, side, side))
        super().__init__(graph, seed, values, source)

    def _layers(self, weights: Weights) -> Tensor:
        config, d = self.config, self.config.width
        y = cnn.conv2d(
            self.pixels, weights["patches"], weights["patches_bias"], stride=config.patch
        )
        b = y.shape[0]
        y = y.reshape(b, d, config.patches).transpose(0, 2, 1)
        h = Concat(axis=1)(weights["first"].broadcast_to((b, 1, d)), y) + weights["positions"]
        h = dropped(h, config.dropout)
        for i in range(config.layers):
            h = block(
                *(weights, f"layer{i}", h, config.heads),
                activation=config.activation,
                dropout=config.dropout,
            )
        return weights.norm(h, "norm")

    def _head(self, weights: Weights) -> None:
        if not self.config.classes:
            return
        self.labels = self.graph.placeholder("labels", ("B",), "int64")
        y = weights.product(self.hidden[:, 0], "classes")
        self.logits = Identity()(y, name="logits")
        self.loss = loss.sparse_softmax_cross_entropy(self.labels, self.logits, name="loss")
