"""LoRA on weights of experts and of recurrent layers, packed and not: as if they were merged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.adapters import DoRA, LoRA, Site, add, of, sites
from gradwright.errors import GraphError
from gradwright.models import Decoder, DecoderConfig

RNG = np.random.default_rng(0)
MIXTURE = DecoderConfig(
    vocabulary=20, width=32, layers=2, heads=2, inner=32, experts=4, experts_per_token=2
)
FEEDS = {"ids": np.array([[1, 5, 3, 2, 7]]), "labels": np.array([[1, 5, 3, 2, 7]])}


def merged(adapted: gw.adapters.Adapted) -> dict[str, Any]:
    """Return weights with the adapter in them, as they are stored."""
    values, found = adapted.graph.values, {}
    for place in adapted.places:
        assert isinstance(place, Site)
        leaves = {k: values[t.name] for k, t in adapted.variables[place.name].items()}
        done = adapted.adapter.merge(place, place.array(), None, leaves)
        assert done is not None and done[0].shape == (place.count, *place.shape)
        found[place.name] = place.stored(done[0])
    return found


def test_experts_of_a_decoder() -> None:
    model = Decoder(MIXTURE)
    g = model.graph
    assert {s.kind for s in sites(g)} == {"embedding", "linear", "experts"}
    assert not any("up" in p.name for p in add(model, LoRA(r=2), "all-linear", name="x").places)
    of(g)["x"].remove()
    base = g.output(FEEDS, "logits")["logits"]
    adapted = add(model, LoRA(r=2, init=False), "gate|up|down")
    shapes = {leaf: tuple(t.shape) for leaf, t in adapted.variables["layer0/up"].items()}
    assert shapes == {"lora_A": (8, 32), "lora_B": (32, 8)}
    found = g.output(FEEDS, "logits")["logits"]
    assert abs(found - base).max() > 1e-3
    p = {k: g.values[t.name] for k, t in adapted.variables["layer1/down"].items()}
    a, b = p["lora_A"].reshape(4, 2, 32), p["lora_B"].reshape(32, 2, 4)
    weights = merged(adapted)
    delta = np.einsum("ore,eri->eoi", b, a) * 4.0  # as peft has them
    np.testing.assert_allclose(
        weights["layer1/down"], g.values["layer1/down"] + delta, rtol=1e-4, atol=1e-5
    )
    generated = model.generate([[1, 5]], 3)[0].tokens
    adapted.remove()
    g.values.restore(weights)
    np.testing.assert_allclose(g.output(FEEDS, "logits")["logits"], found, rtol=1e-4, atol=1e-5)
    assert model.generate([[1, 5]], 3)[0].tokens == generated


def test_packed_experts_have_adapters_beside_them() -> None:
    model = gw.quant.quantize(Decoder(MIXTURE), "q8_0").model
    g = model.graph
    adapted = add(model, LoRA(r=2, init=False), "up|down")
    assert {p.packed for p in adapted.places} == {"q8_0"}  # type: ignore[attr-defined]
    found = g.output(FEEDS, "logits")["logits"]
    floats = Decoder(MIXTURE)
    for site in sites(g, but=adapted.parameters):
        if site.packed:
            floats.graph.values[site.name] = site.stored(site.array())
    floats.graph.values.restore(merged(adapted))
    wanted = floats.graph.output(FEEDS, "logits")["logits"]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    trainer = gw.Trainer(g, model.loss, gw.optim.AdamW(1e-2))
    losses = [trainer.step(FEEDS).metrics["loss"] for _ in range(4)]  # type: ignore[union-attr]
    assert losses[-1] < losses[0]


def test_grouped_products() -> None:
    g = gw.Graph()
    x, sizes = g.placeholder("x", (5, 4), "float64"), g.constant([2, 0, 3])
    w = g.variable("w", init=RNG.standard_normal((3, 4, 6)), dtype="float64")
    y = gw.nn.grouped_matmul(x, w, sizes)
    adapted = add(g, LoRA(r=2, init=False), "w")
    feeds = {"x": RNG.standard_normal((5, 4))}
    found = g.output(feeds, y)[y.name]
    report = gw.gradient_check(g, gw.mean(y * y), feeds)
    assert report.passed, report
    whole = merged(adapted)["w"]
    rows = np.repeat([0, 1, 2], [2, 0, 3])
    np.testing.assert_allclose(found, np.einsum("mi,mio->mo", feeds["x"], whole[rows]), rtol=1e-9)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_a_recurrent_layer_reads_the_sum(direction: str) -> None:
    n = 2 if direction == "bidirectional" else 1
    g = gw.Graph()
    x = g.placeholder("x", (5, 2, 3))
    w = g.variable("w", init=RNG.standard_normal((n, 16, 3)).astype("f"))
    r = g.variable("r", init=RNG.standard_normal((n, 16, 4)).astype("f"))
    y, _, _ = gw.rnn.lstm(x, w, r, direction=direction)
    feeds = {"x": RNG.standard_normal((5, 2, 3)).astype("f")}
    before = g.output(feeds, y)[y.name]
    adapted = add(g, LoRA(r=2, init=False))
    assert [(p.name, p.kind) for p in adapted.places] == [("w", "recurrent"), ("r", "recurrent")]
    found = g.output(feeds, y)[y.name]
    assert abs(found - before).max() > 1e-3
    report = gw.gradient_check(g, gw.mean(y * y), feeds, max_per_param=2)
    assert report.passed, report
    weights = merged(adapted)
    adapted.remove()
    g.values.restore(weights)
    np.testing.assert_allclose(g.output(feeds, y)[y.name], found, rtol=1e-4, atol=1e-5)


def test_what_such_weights_refuse() -> None:
    model = Decoder(MIXTURE)
    with pytest.raises(GraphError, match="DoRA cannot stand at 'layer0/up', of kind experts"):
        add(model, DoRA(r=2), "up")
    with pytest.raises(GraphError, match="does more than multiply"):
        add(model, LoRA(r=2, dropout=0.5), "up")
    with pytest.raises(GraphError, match="4 weights, which have no such values"):
        add(model, LoRA(r=2, init="pissa"), "up")
    assert not of(model)
