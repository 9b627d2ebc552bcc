"""Decoders whose weights lie in blocks: logits are those of the numbers, tokens those of logits."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.models import Decoder, DecoderConfig
from gradwright.models.decoder.packing import is_packable
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


@pytest.fixture(params=[0, 4], ids=["one network", "experts"])
def models(request: Any, rng: Any) -> tuple[Decoder, Decoder]:
    """A decoder of packed weights, and one of the numbers that they are."""
    config = replace(CONFIG, experts=request.param)
    kinds = {
        name: {"embed": "q8_0", "layer0/down": "mxfp4"}.get(name, "q4_0")
        for name, shape in config.weights()
        if is_packable(name, shape)
    }
    values, numbers = {}, {}
    for name, shape in config.weights():
        w = (0.2 * rng.standard_normal(shape) + (len(shape) == 1)).astype("f4")
        values[name] = packed_ggml(w, kinds[name]) if name in kinds else w
        numbers[name] = unpacked(values[name], kinds[name]) if name in kinds else w
    return Decoder(config, values=values, packed=kinds), Decoder(config, values=numbers)


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


def test_losses_and_gradients_are_those_of_the_numbers(models: tuple[Decoder, Decoder]) -> None:
    """Of the norms, whose gradients flow through all products."""
    found = []
    for model in models:
        (d,) = gw.gradients(model.loss, [model.graph["layer0/attention_norm"]])
        feeds = model.examples([[5, 9, 2, 60], [1, 2]])
        with gw.Session(model.graph, kernels="wait") as session:
            found.append(session.run([model.loss, d], feeds))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


def test_experts_of_a_file_are_read_where_they_lie(tmp_path: Path) -> None:
    """Packed as the file has them, mapped, and copied neither when opened nor when run."""
    config = replace(CONFIG, experts=16, width=256, inner=512, layers=1)
    gw.models.save_gguf(Decoder(config), tmp_path / "m.gguf", kind="q8_0")
    gw.open(tmp_path / "m.gguf").generate([[5, 9, 2]], 4)  # imports what does it, 15 MB
    tracemalloc.start()
    model = gw.open(tmp_path / "m.gguf")
    generation = model.generation(kernels="wait")
    first = generation.generate([[5, 9, 2]], 4)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    again = generation.generate([[5, 9, 2]], 4)
    peak = tracemalloc.get_traced_memory()[1] - before
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    experts = {n: model.graph.values.array(n) for n in ("layer0/gate", "layer0/up", "layer0/down")}
    assert [w.shape for w in experts.values()] == [(16, 512, 272), (16, 512, 272), (16, 256, 544)]
    assert {model.packed[name] for name in experts} == {"q8_0"}
    assert all(not w.flags.writeable and not w.flags.owndata for w in experts.values())
    nbytes = sum(w.nbytes for w in experts.values())
    assert peak < nbytes / 4 and held < nbytes, (peak, held, nbytes)
    assert first[0].tokens == again[0].tokens
