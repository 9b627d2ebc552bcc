"""The layers of a synthesizer: characters, how long each is, frames, bands."""

from __future__ import annotations

import numpy as np

from ... import cnn, nn
from ...graph import Tensor
from ...ops.arithmetic.trigonometry import Cos, Sin
from ...ops.core.choice import Where
from ...ops.core.creation import Arange
from ...ops.core.exponential import Exp
from ...ops.core.joining import Concat
from ...ops.core.movement import Cast
from ...ops.core.reduce import Cumsum
from ...spec import AnyDim
from ..decoder.weights import Weights
from ..encoders.layers import block
from .config import KERNEL, SpeechSynthesizerConfig


def read(config: SpeechSynthesizerConfig, weights: Weights, ids: Tensor, is_said: Tensor) -> Tensor:
    """Return what characters become, f32[B, S, D]: each sees its row, ``is_said`` bool[B, S]."""
    h = weights.rows(ids) + places(ids.shape[1], config.width)
    for i in range(config.encoder_layers):
        h = _layer(config, weights, f"encoder_layer{i}", h, is_said)
    return weights.norm(h, "encoder_norm")


def durations(weights: Weights, h: Tensor, is_said: Tensor) -> Tensor:
    """Return how many frames each character takes, f32[B, S]; 0 at padding."""
    each: Tensor = Where()(is_said, Exp()(weights.product(h, "duration")[:, :, 0]), 0.0)
    return each


def spread(h: Tensor, frames: Tensor, n: AnyDim, is_said: Tensor, sigma: float) -> Tensor:
    """Return what is said in each of n frames, f32[B, n, D]: characters, weighed by distance.

    y[t] = Σₛ softmaxₛ(−(t + ½ − cₛ)²/2σ²)·h[s], cₛ the middle of character s
    """
    centres = Cumsum(axis=1)(frames) - frames * 0.5
    at = Cast(dtype="float32")(Arange(start=n)()) + 0.5
    distance = (at[:, None] - centres[:, None]) / sigma
    scores = Where()(is_said[:, None], distance * distance * -0.5, -1e30)
    return nn.softmax(scores, name="alignment") @ h


def spoken(
    config: SpeechSynthesizerConfig, weights: Weights, h: Tensor, is_sound: Tensor
) -> Tensor:
    """Return bands of frames, f32[B, F, bands]; ``is_sound``, bool[B, F], says which there are."""
    h = h + places(h.shape[1], config.width)
    for i in range(config.decoder_layers):
        h = _layer(config, weights, f"decoder_layer{i}", h, is_sound)
    h = Where()(is_sound[:, :, None], weights.norm(h, "norm"), 0.0)
    y = cnn.conv1d(
        h.transpose(0, 2, 1), weights["bands"], weights["bands_bias"], padding=KERNEL // 2
    )
    return y.transpose(0, 2, 1)


def places(n: AnyDim, width: int) -> Tensor:
    """Return sines and cosines of n places, f32[n, width] (Vaswani et al. 2017)."""
    at = Cast(dtype="float32")(Arange(start=n)())
    speeds = np.exp(-np.log(10_000) * np.arange(width // 2) / (width // 2)).astype(np.float32)
    angles = at[:, None] * at.graph.constant(speeds)
    waves: Tensor = Concat(axis=-1)(Sin()(angles), Cos()(angles))
    return waves


def _layer(
    config: SpeechSynthesizerConfig, weights: Weights, at: str, h: Tensor, seen: Tensor
) -> Tensor:
    return block(
        *(weights, at, h, config.heads),
        activation=config.activation,
        dropout=config.dropout,
        seen=seen[:, None, None, :],
    )
