"""Models quantised as a whole: what is packed, what is kept and why, and what each tensor loses."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from gradwright.models import Decoder, DecoderConfig, from_gguf, save_gguf
from gradwright.ops.quantised.blocks import FORMATS, WRITTEN


def decoder(**changes) -> Decoder:
    sizes = {"vocabulary": 96, "width": 256, "layers": 2, "heads": 4, "inner": 288}
    return Decoder(DecoderConfig(**{**sizes, **changes}), seed=4)


def logits(model: Decoder) -> np.ndarray:
    ids = np.random.default_rng(0).integers(0, 96, (2, 9))
    return model.graph.output({"ids": ids}, model.logits)["logits"]


@pytest.mark.parametrize("format", WRITTEN)
def test_losses_are_those_of_the_numbers_that_are_left(format):
    model = decoder()
    found = gw.quant.quantize(model, format)
    packed = found.model.packed
    for t in found.tensors:
        x, held = model.graph.values[t.name], found.model.graph.values[t.name]
        assert t.nbytes == held.nbytes and t.shape == x.shape
        if t.name in packed:
            assert t.kind == packed[t.name] and held.dtype == np.uint8
            form = FORMATS[t.kind]
            y = form.unpack(held.reshape(-1, form.n_bytes)).reshape(x.shape).astype("f8")
            loss = np.sqrt(((y - x) ** 2).sum() / (x.astype("f8") ** 2).sum())
            assert t.loss == pytest.approx(loss, rel=1e-6) and 0 < t.loss < 0.15
        else:
            assert t.kind == "float32" and t.loss == 0 and np.array_equal(held, x)
    assert found.nbytes == sum(found.model.graph.values[t.name].nbytes for t in found.tensors)
    assert found.worst.loss == max(t.loss for t in found.tensors)
    a, b = logits(model), logits(found.model)
    assert 0 < np.abs(a - b).max() / np.abs(a).max() < 0.5


def test_rows_that_are_no_whole_blocks_are_coarser_or_kept_and_say_so():
    found = gw.quant.quantize(decoder(), "q4_k")
    rows = {t.name: t for t in found.tensors}
    assert rows["layer0/q"].kind == "q4_k" and not rows["layer0/q"].note
    assert (rows["layer0/down"].kind, rows["layer0/down"].note) == (
        "q5_0",
        "256 do not divide its rows of 288",
    )
    found = gw.quant.quantize(decoder(inner=40), "q6_k")
    rows = {t.name: t for t in found.tensors}
    assert rows["layer1/down"].kind == "float32" and "rows of 40" in rows["layer1/down"].note
    assert rows["norm"].kind == "float32" and not rows["norm"].note
    assert "rows of 40" in str(found)


def test_what_no_product_takes_or_is_not_finite_is_kept():
    model = decoder(experts=2, positions="learned", context=32)
    model.graph.values["layer0/q"] = np.full((256, 256), np.nan, "f4")
    rows = {t.name: t for t in gw.quant.quantize(model, "q8_0").tensors}
    for name in ("positions", "layer0/router"):
        assert rows[name].kind == "float32" and "no product" in rows[name].note
    assert "not finite" in rows["layer0/q"].note


def test_some_weights_are_chosen_by_name_and_packed_ones_stay_as_they_were(tmp_path):
    formats = {"head": "q6_k", "layer1/q": "float32", "v": "q8_0"}
    first = gw.quant.quantize(decoder(), "q4_0", formats=formats).model
    kinds = {n: first.packed.get(n) for n in ("head", "layer1/q", "layer0/v", "layer0/q")}
    assert kinds == {"head": "q6_k", "layer1/q": None, "layer0/v": "q8_0", "layer0/q": "q4_0"}
    again = gw.quant.quantize(first, "q4_0", formats=formats)
    assert {t.note for t in again.tensors if t.name in first.packed} == {"as it was"}
    assert np.array_equal(logits(again.model), logits(first))
    other = gw.quant.quantize(first, "q8_0", formats={"layer0/q": "float32"}).model
    assert np.abs(logits(other) - logits(first)).max() < 0.02 * np.abs(logits(first)).max()
    save_gguf(first, tmp_path / "q.gguf")
    held = from_gguf(tmp_path / "q.gguf")
    assert held.packed == first.packed
    np.testing.assert_allclose(logits(held), logits(first), atol=1e-5)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: gw.quant.quantize(decoder(), "q2_k"), "no format 'q2_k' to quantize to"),
        (lambda: gw.quant.quantize(decoder(), formats={"q": "q9"}), "no format 'q9'"),
        (lambda: gw.quant.quantize(decoder(), formats={"quey": "q8_0"}), "no weight 'quey'"),
        (lambda: gw.quant.quantize(gw.Graph()), "a Graph is not quantized as a whole"),
    ],
)
def test_what_cannot_be_is_refused(make, match):
    with pytest.raises(GraphError, match=match):
        make()
