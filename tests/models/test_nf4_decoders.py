"""Decoders whose matrices are NF4: bytes of bitsandbytes, numbers of what is stored, 4.127 bits."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, ShapeError
from gradwright.models import Decoder, DecoderConfig, from_gguf, save_gguf, state_dict
from gradwright.models.decoder.packing import NF4, floats, packed

CONFIG = DecoderConfig(vocabulary=96, width=256, layers=2, heads=4, inner=290)


def decoder(**changes: Any) -> Decoder:
    return Decoder(CONFIG, seed=4, **changes)


def logits(model: Decoder) -> Any:
    ids = np.random.default_rng(0).integers(0, 96, (2, 9))
    return model.graph.output({"ids": ids}, model.logits)["logits"]


def numbers_of(model: Decoder) -> Decoder:
    """Return a decoder of the float32 that another's weights are."""
    return decoder(values={name: model.floats(name) for name, _ in CONFIG.weights()})


def test_codes_and_scales_are_those_of_bitsandbytes() -> None:
    """Of 0.50.2, `functional.quantize_4bit(x, quant_type="nf4", compress_statistics=True)`.

    Its own rounding of scales to 8 bits differs by one code in some of a thousand.
    """
    x = np.random.default_rng(7).standard_normal((150, 128)).astype("f4")
    held = packed("w", x, "nf4_double")
    digest = hashlib.sha256(held["w"].tobytes()).hexdigest()
    assert digest == "f65c8e9ee29c29c777f23e5e6656bb81df1dfbe954985bb5cdfdafafd3b2ff54"
    assert held["w_offset"] == pytest.approx(2.5741, abs=1e-4)
    np.testing.assert_allclose(held["w_nested"], [1.4875, 0.8558], atol=1e-4)
    found = held["w_absmax"][:8].astype(int)
    assert np.abs(found - [85, 55, 32, 216, 164, 55, 90, 195]).max() <= 1


@pytest.mark.parametrize("kind", NF4)
def test_a_decoder_computes_with_the_numbers_that_are_left(kind: str) -> None:
    model = decoder()
    found = gw.quant.quantize(model, kind)
    made = found.model
    rows = {t.name: t for t in found.tensors}
    assert rows["embed"].kind == rows["head"].kind == rows["norm"].kind == "float32"
    assert rows["layer0/down"].kind == kind  # 64 do not divide its rows of 290
    for t in found.tensors:
        x, y = model.graph.values[t.name].astype("f8"), made.floats(t.name)
        loss = math.sqrt(((y - x) ** 2).sum() / (x**2).sum())
        assert t.loss == pytest.approx(loss, rel=1e-5)
        assert loss == 0 if t.kind == "float32" else 0.085 < loss < 0.1
    np.testing.assert_allclose(logits(made), logits(numbers_of(made)), atol=1e-6)
    prompts = [[5, 9, 2], [7]]
    of_packed, of_numbers = (m.generate(prompts, 6) for m in (made, numbers_of(made)))
    assert [c.tokens for c in of_packed] == [c.tokens for c in of_numbers]


@pytest.mark.parametrize(("kind", "bits"), [("nf4", 4.5), ("nf4_double", 4.127)])
def test_bits_of_a_number(kind: str, bits: float) -> None:
    held = packed("w", np.random.default_rng(0).standard_normal((512, 1024)).astype("f4"), kind)
    assert 8 * sum(a.nbytes for a in held.values()) / 2**19 == pytest.approx(bits, abs=6e-4)


def test_gradients_flow_to_inputs_and_scales_are_not_trained() -> None:
    """The norm's gradient goes through all products behind it."""
    made = gw.quant.quantize(decoder(), "nf4_double").model
    found = []
    for model in (made, numbers_of(made)):
        (d,) = gw.gradients(model.loss, [model.graph["layer0/attention_norm"]])
        feeds = model.examples([[5, 9, 2, 60], [1, 2]])
        found.append(model.graph.output(feeds, d)[d.name])
    np.testing.assert_allclose(*found, atol=1e-7, rtol=1e-5)
    trained = {v.name for v in made.graph.variables if v.node.trainable}
    assert trained == {n for n, s in CONFIG.weights() if len(s) == 1} | {"embed", "head"}
    before = {n: made.graph.values[n].tobytes() for n in ("layer0/q", "layer0/q_nested")}
    gw.Trainer(made.graph, made.loss, "adam").step(made.examples([[1, 2, 3, 4]]))
    assert all(made.graph.values[n].tobytes() == held for n, held in before.items())


def test_from_one_format_to_another(tmp_path: Any) -> None:
    formats = {"head": "nf4", "layer1/q": "q8_0", "v": "float32"}
    first = gw.quant.quantize(decoder(), "nf4", formats=formats).model
    kinds = {n: first.packed.get(n) for n in ("head", "layer1/q", "layer0/v", "layer0/q")}
    assert kinds == {"head": "nf4", "layer1/q": "q8_0", "layer0/v": None, "layer0/q": "nf4"}
    again = gw.quant.quantize(numbers_of(first), "nf4", formats=formats).model
    for name in ("layer0/q", "layer0/q_absmax"):  # numbers that are NF4 are the same codes
        assert np.array_equal(again.graph.values[name], first.graph.values[name])
    kept = gw.quant.quantize(first, "nf4", formats=formats)
    assert {t.note for t in kept.tensors if t.name in first.packed} == {"as it was"}
    other = gw.quant.quantize(first, "q8_0", formats={"o": "float32", "down": "float32"}).model
    assert np.abs(logits(other) - logits(first)).max() < 0.02 * np.abs(logits(first)).max()
    save_gguf(first, tmp_path / "a.gguf", kind="f32")
    opened = from_gguf(tmp_path / "a.gguf")
    assert opened.packed == {"layer1/q": "q8_0"}
    np.testing.assert_allclose(logits(opened), logits(first), atol=1e-5)
    weight = state_dict(first)["model.layers.0.mlp.up_proj.weight"]
    assert np.array_equal(weight, first.floats("layer0/up"))


def test_a_saved_graph_computes_the_same(tmp_path: Any) -> None:
    made = gw.quant.quantize(decoder(), "nf4_double").model
    made.graph.save(tmp_path / "m.gw")
    ids = np.random.default_rng(0).integers(0, 96, (2, 9))
    again = gw.load(tmp_path / "m.gw").output({"ids": ids}, "logits")["logits"]
    assert np.array_equal(again, logits(made))


def test_what_cannot_lie_so_is_refused_or_kept() -> None:
    experts = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2, experts=2, inner=7))
    rows = {t.name: t for t in gw.quant.quantize(experts, "nf4").tensors}
    assert rows["layer0/up"].kind == "float32" and "no product" in rows["layer0/up"].note
    odd = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2, inner=7))
    rows = {t.name: t for t in gw.quant.quantize(odd, "nf4").tensors}
    assert rows["layer0/down"].note == "2 do not divide its rows of 7"
    with pytest.raises(GraphError, match="'embed' is no matrix that can lie in blocks"):
        decoder(packed={"embed": "nf4"})
    with pytest.raises(ShapeError, match="rows of 7 are no bytes of nf4"):
        packed("w", np.zeros((2, 7), "f4"), "nf4")
    x = np.array([[0.5, -2.0]], "f4")
    assert np.abs(floats(packed("w", x, "nf4_double"), (1, 2), "nf4_double") - x).max() < 0.3
