"""Bottleneck adapters, held against the stored outputs of adapters 1.3."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gradwright as gw
from gradwright import adapters
from gradwright.errors import GraphError
from gradwright.models import Bert, BertConfig, Decoder, DecoderConfig, Vit, VitConfig
from tests.adapters import peft_models as other
from tests.adapters.stored import given

STORED = Path(__file__).parent / "stored" / "bottleneck.npz"
PLACEMENTS = {"seq_bn": "pfeiffer", "double_seq_bn": "houlsby", "par_bn": "parallel"}


def llama() -> Decoder:
    """Return the base of the stored outputs."""
    pytest.importorskip("transformers")
    state = {n: t.shape for n, t in other.llama().state_dict().items()}
    return other.decoder_of(given.all_drawn({n: tuple(s) for n, s in state.items()}), other.CONFIG)


def theirs(place: str, leaf: str) -> str:
    """Return what adapters calls a parameter."""
    layer, _, branch = place.partition("/")
    kind = "attention_adapters" if branch == "attention" else "output_adapters"
    return f"model.layers.{layer.removeprefix('layer')}.{kind}.adapters.a.{leaf}"


@pytest.mark.parametrize("preset", PLACEMENTS)
def test_as_adapters(preset: str) -> None:
    stored = np.load(STORED)
    model = llama()
    adapted = adapters.add(model, adapters.Bottleneck(PLACEMENTS[preset]))
    names = {
        f"{place}/{leaf}": theirs(place, leaf)
        for place, leaves in adapted.variables.items()
        for leaf in leaves
    }
    grads = {
        n.removeprefix(f"{preset}/grad/") for n in stored.files if n.startswith(f"{preset}/grad")
    }
    assert grads == set(names.values())
    shapes = {key: v.shape for key, v in adapted.state().items()}
    adapted.load_state({key: given.drawn(names[key], shape) for key, shape in shapes.items()})
    look, *batches = given.tokens()
    trained = list(adapted.parameters)
    wanted = [model.logits, *gw.gradients(model.loss, trained)]
    with gw.Session(model.graph) as session:
        logits, *found = session.run(wanted, {"ids": look, "labels": look})
    other.close(logits, stored[f"{preset}/logits"], 1e-5)
    keys = {t.name: key for key, t in adapted._keys().items()}
    for t, grad in zip(trained, found, strict=True):
        other.close(grad, stored[f"{preset}/grad/{names[keys[t.name]]}"], 1e-4)
    trainer = gw.Trainer(
        model.graph, model.loss, gw.optim.AdamW(given.LEARNING_RATE, weight_decay=0.01)
    )
    losses = [trainer.step({"ids": b, "labels": b}).metrics["loss"] for b in (*batches,)]  # type: ignore[union-attr]
    np.testing.assert_allclose(losses, stored[f"{preset}/losses"][1:], rtol=1e-5)


def test_first_values() -> None:
    model = Decoder(DecoderConfig(vocabulary=20, width=32, layers=2, heads=2))
    feeds = {"ids": np.arange(12).reshape(2, 6)}
    before = gw.Session(model.graph).run(model.logits, feeds)
    parallel = adapters.add(model, adapters.Bottleneck("parallel"))
    np.testing.assert_array_equal(gw.Session(model.graph).run(model.logits, feeds), before)
    parallel.remove()
    for placement in ("pfeiffer", "houlsby"):
        adapted = adapters.add(model, adapters.Bottleneck(placement))
        after = gw.Session(model.graph).run(model.logits, feeds)
        assert 0 < abs(after - before).max() < 0.05 * abs(before).max()
        with adapted.disabled():
            np.testing.assert_array_equal(gw.Session(model.graph).run(model.logits, feeds), before)
        with pytest.raises(GraphError, match="no part of a weight"):
            adapters.merge(adapted)
        adapted.remove()
    np.testing.assert_array_equal(gw.Session(model.graph).run(model.logits, feeds), before)


@pytest.mark.parametrize("placement", PLACEMENTS.values())
def test_gradient_check(placement: str) -> None:
    model = Decoder(DecoderConfig(vocabulary=11, width=16, layers=1, heads=2))
    adapted = adapters.add(model, adapters.Bottleneck(placement, activation="gelu", init="bert"))
    adapted.load_state({k: v + 0.1 for k, v in adapted.state().items()})
    feeds = {"ids": np.arange(8).reshape(2, 4), "labels": np.arange(8).reshape(2, 4)}
    report = gw.gradient_check(
        model.graph, model.loss, feeds, wrt=adapted.parameters, max_per_param=2
    )
    assert report.passed, report


def test_branches_of_other_models() -> None:
    bert = Bert(BertConfig(vocabulary=20, width=16, layers=2, heads=2, inner=24))
    made = adapters.add(bert, adapters.Bottleneck("houlsby"))
    assert [p.name for p in made.places] == [
        f"layer{i}/{kind}" for i in (0, 1) for kind in ("attention", "mlp")
    ]
    vit = Vit(VitConfig(image=8, patch=4, width=16, layers=1, heads=2, inner=24))
    assert len(adapters.add(vit, adapters.Bottleneck()).places) == 1
    packed = gw.quant.quantize(
        Decoder(DecoderConfig(vocabulary=20, width=32, layers=2, heads=2)), "q8_0"
    ).model
    once = adapters.add(packed, adapters.Bottleneck("houlsby"), "mlp")
    again = adapters.add(packed, adapters.Bottleneck("houlsby"), "mlp", name="again")
    assert [p.name for p in once.places] == [p.name for p in again.places]
    g = gw.Graph()
    _ = g.placeholder("x", (None, 3)) @ g.variable("w", (3, 2))
    with pytest.raises(GraphError, match="no residual branches"):
        adapters.add(g, adapters.Bottleneck())
    for wrong in ({"placement": "serial"}, {"activation": "step"}, {"reduction_factor": 0}):
        with pytest.raises(GraphError):
            adapters.Bottleneck(**wrong)
