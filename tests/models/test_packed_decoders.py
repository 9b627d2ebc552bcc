"""Decoders whose weights lie in blocks: logits are those of the numbers, tokens those of logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradwright.models import Decoder, DecoderConfig
from gradwright.ops.quantised.blocks import packed_ggml, unpacked

CONFIG = DecoderConfig(
    vocabulary=64, width=64, layers=2, heads=4, kv_heads=2, inner=96, context=64, tied=True
)
FEEDS = {
    "ids": np.array([[5, 9, 2, 60]]),
    "position": np.array([0]),
    "last": np.array([3]),
    "past": np.zeros((2, 2, 1, 2, 0, 16), "f4"),
}


@pytest.fixture
def models(rng: Any) -> tuple[Decoder, Decoder]:
    """A decoder of packed weights, and one of the numbers that they are."""
    kinds = {
        name: "q8_0" if name == "embed" else "q4_0"
        for name, shape in CONFIG.weights()
        if len(shape) == 2
    }
    values, numbers = {}, {}
    for name, shape in CONFIG.weights():
        w = (0.2 * rng.standard_normal(shape) + (len(shape) == 1)).astype("f4")
        values[name] = packed_ggml(w, kinds[name]) if name in kinds else w
        numbers[name] = unpacked(values[name], kinds[name]) if name in kinds else w
    return Decoder(CONFIG, values=values, packed=kinds), Decoder(CONFIG, values=numbers)


def test_logits_are_those_of_the_numbers(models: tuple[Decoder, Decoder]) -> None:
    packed, plain = models
    exact = _logits(plain)
    np.testing.assert_allclose(_logits(packed), exact, rtol=0, atol=1e-5)
    rounded = _logits(packed, activations="int8")
    off = np.linalg.norm(rounded - exact) / np.linalg.norm(exact)
    assert 1e-4 < off < 0.1  # 6e-3 a product, of which a dozen follow each other


def _logits(model: Decoder, **settings: Any) -> Any:
    made = model.generation(kernels="wait", **settings)
    made.generate([[1, 2]], 1)  # takes over the weights
    return made.session.run(made.graph["logits"], FEEDS)[0]


def test_tokens_are_those_of_the_numbers(models: tuple[Decoder, Decoder]) -> None:
    """One row, and several, which go through other kernels."""
    found, expected = ([c.tokens for c in m.generate([[5, 9, 2], [7], [1, 3]], 12)] for m in models)
    assert found == expected
    assert models[0].generate([[7]], 12)[0].tokens == expected[1]
