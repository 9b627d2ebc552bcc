"""Merging, taking it back, combining and turning into LoRA, against peft's own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright import adapters
from gradwright.errors import GraphError
from gradwright.models import Decoder, DecoderConfig

torch: Any = pytest.importorskip("torch")
peft: Any = pytest.importorskip("peft")

from tests.adapters import peft_models as other  # noqa: E402
from tests.adapters.methods import ROWS  # noqa: E402
from tests.adapters.nets import Net, net  # noqa: E402

IDS = np.random.default_rng(7).integers(1, 37, (2, 12))
CONFIG = DecoderConfig(vocabulary=20, width=32, layers=2, heads=2)
FEEDS = {"ids": np.arange(12).reshape(2, 6) % 19 + 1}


def filled(model: Decoder, method: adapters.Adapter, where: Any, **more: Any) -> Any:
    """Return an adapter of a model, some way from where it begins."""
    adapted = adapters.add(model, method, where, **more)
    rng = np.random.default_rng(len(adapted.state()))
    adapted.load_state(
        {k: v + 1.0 * rng.standard_normal(v.shape) for k, v in adapted.state().items()}
    )
    return adapted


def logits(model: Decoder) -> np.ndarray:
    with gw.Session(model.graph, deterministic=True) as session:
        return session.run(model.logits, FEEDS)


METHODS = {
    "LoRA": (adapters.LoRA(r=2), "q|down"),
    "LoRA of a table": (adapters.LoRA(r=2), "embed"),
    "DoRA": (adapters.DoRA(r=2), "q|down"),
    "LoHa": (adapters.LoHa(r=2), "q|down"),
    "LoKr": (adapters.LoKr(r=2), "q|down"),
    "IA3": (adapters.IA3(feedforward="down"), "q|down"),
    "VeRA": (adapters.VeRA(r=2), "q|down"),
    "DyLoRA": (adapters.DyLoRA(r=2), "q|down"),
}


@pytest.mark.parametrize("name", METHODS)
def test_merged_it_computes_the_same_and_taken_back_it_is_the_base_to_the_bit(name: str) -> None:
    model = Decoder(CONFIG)
    base = {v.name: model.graph.values[v.name].tobytes() for v in model.graph.variables}
    plain = logits(model)
    adapted = filled(model, *METHODS[name])
    beside = logits(model)
    assert abs(beside - plain).max() > 0.01
    (tokens,) = model.generate([[1, 2, 3]], 4)
    done = adapters.merge(adapted, feeds=FEEDS)
    assert done.drift is not None and done.drift.relative < 1e-5 and done.drift.same == 1
    assert done.places == tuple(p.name for p in adapted.places) and not done.requantized
    other.close(logits(model), beside, 1e-4)
    assert model.generate([[1, 2, 3]], 4)[0].tokens == tokens.tokens
    assert adapted.is_merged and not adapted.is_enabled
    for wrong in (adapted.enable, lambda: adapters.merge(adapted)):
        with pytest.raises(GraphError, match=r"merged .*\n.*unmerge"):
            wrong()
    adapters.unmerge(adapted)
    assert {n: model.graph.values[n].tobytes() for n in base} == base
    np.testing.assert_array_equal(logits(model), beside)
    adapters.merge(adapted, unload=True)
    assert not adapters.of(model) and len(model.graph.variables) == len(base)
    other.close(logits(model), beside, 1e-4)
    assert model.generate([[1, 2, 3]], 4)[0].tokens == tokens.tokens


def test_half_of_an_adapter_is_merged_as_half() -> None:
    model = Decoder(CONFIG)
    adapted = filled(model, adapters.IA3(), "q|v")
    adapted.weight = 0.5
    beside = logits(model)
    adapters.merge(adapted)
    other.close(logits(model), beside, 1e-5)


@pytest.mark.parametrize("format", ["q8_0", "q4_0", "nf4", "nf4_double"])
def test_a_packed_base_is_merged_by_consent_or_into_floats(format: str) -> None:
    model = gw.quant.quantize(Decoder(CONFIG), format).model
    packed = {v.name: model.graph.values[v.name].tobytes() for v in model.graph.variables}
    adapted = filled(model, adapters.LoRA(r=2), "q|down")
    beside = logits(model)
    with pytest.raises(GraphError, match=r"layer0/q.*(?s:.)*requantize=True"):
        adapters.merge(adapted)
    whole = adapters.merged(adapted)
    assert not whole.packed
    other.close(logits(whole), beside, 2e-5)
    done = adapters.merge(adapted, requantize=True, feeds=FEEDS)
    assert set(done.requantized) == {p.name for p in adapted.places}
    assert done.drift is not None
    assert 1e-4 < done.drift.relative < (0.1 if format == "q8_0" else 0.8)
    found = abs(logits(model) - beside).max()
    assert found == pytest.approx(done.drift.largest, rel=1e-3)
    assert f"packed again as {format[:3]}" in str(done) and "logits moved by" in str(done)
    adapters.unmerge(adapted)
    assert {n: model.graph.values[n].tobytes() for n in packed} == packed
    np.testing.assert_array_equal(logits(model), beside)


@pytest.mark.parametrize("init", [False, "pissa"])
def test_what_a_later_one_has_changed_is_not_undone(init: Any) -> None:
    model = Decoder(CONFIG)
    held, before = model.graph.values, model.graph.values["layer0/q"].copy()
    one, two = (filled(model, adapters.LoRA(r=2, init=init), "q", name=n) for n in "ab")
    both = logits(model)
    for adapted in (one, two):
        adapters.merge(adapted)
    whole = held["layer0/q"].copy()
    for refused in (lambda: adapters.unmerge(one), one.remove):
        with pytest.raises(GraphError, match="would undo 'b', too"):
            refused()
        np.testing.assert_array_equal(held["layer0/q"], whole)
    adapters.unmerge(two)
    adapters.unmerge(one)
    np.testing.assert_allclose(logits(model), both, rtol=1e-4, atol=1e-4)
    two.remove()
    one.remove()
    np.testing.assert_array_equal(held["layer0/q"], before)


def test_what_is_removed_changes_no_other_of_its_name() -> None:
    model = Decoder(CONFIG)
    gone = adapters.add(model, adapters.LoRA(r=2), "q")
    gone.remove()
    adapted = adapters.add(model, adapters.LoRA(r=2), "v")
    for act in (gone.disable, gone.enable, gone.compact, lambda: adapters.merge(gone)):
        with pytest.raises(GraphError, match="is no adapter of the graph any more"):
            act()
    assert adapted.is_enabled


def test_drift_of_one_that_is_off_is_told_against_it_beside() -> None:
    model = Decoder(CONFIG)
    adapted = filled(model, adapters.LoRA(r=2), "q")
    adapted.disable()
    drift = adapters.merge(adapted, feeds=FEEDS).drift
    assert drift is not None and drift.relative < 1e-5
    with pytest.raises(GraphError, match="is merged into the weights"):
        adapters.combine([adapted])
    with pytest.raises(GraphError, match="is merged into the weights"):
        adapters.to_lora(adapted, 2)
    with pytest.raises(GraphError, match="is merged into the weights"):
        adapters.merged(adapted)


def test_what_cannot_be_merged_is_refused_and_nothing_has_changed() -> None:
    model = Decoder(CONFIG)
    before = {v.name: model.graph.values[v.name].tobytes() for v in model.graph.variables}
    lora = filled(model, adapters.LoRA(r=2), "q", name="lora")
    dora = filled(model, adapters.DoRA(r=2), "q|v", name="dora")
    with pytest.raises(GraphError, match="'dora' stands at 'layer0/q'"):
        adapters.merge(lora)
    dora.disable()
    adapters.merge(lora)
    adapters.unmerge(lora)
    dora.remove()
    lora.load_state({k: np.full(v.shape, 1e30) for k, v in lora.state().items()})
    with pytest.raises(GraphError, match="not finite"):
        adapters.merge(lora)
    assert {n: model.graph.values[n].tobytes() for n in before} == before
    with pytest.raises(GraphError, match="which output"):
        adapters.merge(adapters.add(net(Net())[0], adapters.LoRA(r=1), "up"), feeds={})
    with pytest.raises(GraphError, match="not in a decoder"):
        adapters.merged(adapters.add(net(Net())[0], adapters.LoRA(r=1), "up"))


# -- combining -----------------------------------------------------------------------------------

HOW = (
    *("cat", "linear", "ties", "dare_linear", "dare_ties", "magnitude_prune"),
    *("svd", "ties_svd", "dare_linear_svd", "dare_ties_svd", "magnitude_prune_svd"),
)


@pytest.mark.parametrize("sign", ["total", "frequency"])
@pytest.mark.parametrize("how", HOW)
def test_combined_as_peft(how: str, sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if sign == "frequency" and "ties" not in how:
        sign = "total"
    rng = np.random.default_rng(5)

    def kept(x: Any, density: float, rescale: bool) -> Any:
        return x * torch.from_numpy(rng.random(tuple(x.shape)) < density) / density

    monkeypatch.setattr("peft.utils.merge_utils.random_pruning", kept)
    theirs = other.llama()
    ours = other.decoder(theirs)
    model = other.with_peft(theirs, ROWS["LoRA"].theirs(4)).eval()
    one = adapters.add(ours, ROWS["LoRA"].ours(4), "q|v", name="one")
    other.put(model, other.drawn(model, 1))
    one.load_state(other.values(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.add_adapter("two", peft.LoraConfig(r=4, lora_alpha=2, target_modules=["q_proj"]))
    two = adapters.add(ours, adapters.LoRA(r=4, alpha=2), "q", name="two")
    torch.manual_seed(3)
    state = {}
    for name, p in model.named_parameters():
        if ".two." in name:
            p.data = torch.randn(p.shape) * 0.3
            place, leaf = name.replace(".two.weight", "").rsplit(".", 1)
            state[f"{other.place_of(place)}/{leaf}"] = p.numpy(force=True).copy()
    two.load_state(state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more = {} if how in ("cat", "linear", "svd") else {"density": 0.6}
        model.base_model.add_weighted_adapter(
            ["default", "two"], [0.7, -0.4], "mixed", how, majority_sign_method=sign, **more
        )
        model.set_adapter("mixed")
    made = adapters.combine([one, two], [0.7, -0.4], how, density=0.6, sign=sign, seed=5)
    assert not one.is_enabled and not two.is_enabled and made.is_enabled
    with gw.Session(ours.graph) as session:
        found = other.run(session, ours, IDS)
    other.close(found, other.logits_there(model, IDS), 1e-4)


def test_cat_is_the_sum_of_deltas_and_ranks_are_those_of_places() -> None:
    model = Decoder(CONFIG)
    one = filled(model, adapters.LoRA(r=2), "q|v", name="one")
    two = filled(model, adapters.LoRA(r=3, alpha=5), "q", name="two")
    together = logits(model)
    made = adapters.combine([one, two])
    other.close(logits(model), together, 1e-5)
    assert {p.name: made.adapter.rank(p) for p in made.places} == {
        f"layer{i}/{x}": r for i in (0, 1) for x, r in (("q", 5), ("v", 2))
    }
    with pytest.raises(GraphError, match="already"):
        adapters.combine([one, two])
    for wrong, text in (
        ({"how": "linear"}, "ranks at"),
        ({"how": "mean"}, "is not known"),
        ({"weights": [1.0]}, "one each"),
        ({"density": 2.0}, "density"),
    ):
        with pytest.raises(GraphError, match=text):
            adapters.combine([one, two], name="wrong", **wrong)
    assert set(adapters.of(model)) == {"one", "two", "combined"}
    dora = filled(model, adapters.DoRA(r=2), "v", name="dora")
    with pytest.raises(GraphError, match="no product of two factors"):
        adapters.combine([one, dora], name="wrong")
    assert set(adapters.of(model)) == {"one", "two", "combined", "dora"}


@pytest.mark.parametrize("name", ["LoHa", "LoKr", "VeRA", "DoRA", "IA3", "LoRA"])
def test_a_whole_rank_keeps_all_of_a_method(name: str) -> None:
    model = Decoder(CONFIG)
    adapted = filled(model, METHODS[name][0], "q|down")
    beside = logits(model)
    lora = adapters.to_lora(adapted, 32)
    other.close(logits(model), beside, 1e-5)
    assert isinstance(lora.adapter, adapters.LoRA) and not adapted.is_enabled


@pytest.mark.parametrize("rank", [2, 0.8])
def test_as_convert_to_lora_of_peft(rank: float) -> None:
    theirs = other.llama()
    ours = other.decoder(theirs)
    model = other.with_peft(theirs, ROWS["LoHa"].theirs(4)).eval()
    adapted = adapters.add(ours, ROWS["LoHa"].ours(4), "q|v")
    other.put(model, other.drawn(model))
    adapted.load_state(other.values(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, state = peft.convert_to_lora(model, rank)
    lora = adapters.to_lora(adapted, rank)
    for place in lora.places:
        leaves = lora.numbers(place)
        found = lora.adapter.scale(place) * leaves["lora_B"] @ leaves["lora_A"]
        key = next(k for k in state if other.place_of(k.split(".lora_")[0]) == place.name)
        stem = key.split(".lora_")[0]
        a, b = (state[f"{stem}.lora_{x}.weight"].numpy(force=True) for x in "AB")
        assert a.shape == leaves["lora_A"].shape
        other.close(found, b @ a, 1e-4)


def test_biases_that_a_method_changes_go_along() -> None:
    torch.manual_seed(0)
    g, y, _ = net(Net())
    adapted = adapters.add(g, adapters.IA3(), "up")
    adapted.load_state({"up.weight/ia3_l": np.linspace(0.5, 2, 5).reshape(5, 1)})
    feeds = {"ids": np.array([[1, 2, 3]])}
    before = gw.Session(g).run(y, feeds)
    lora = adapters.to_lora(adapted, 5)
    np.testing.assert_allclose(gw.Session(g).run(y, feeds), before, rtol=1e-4, atol=1e-5)
    assert "up.weight/lora_B.bias" in lora.state()
    adapters.merge(lora)
    np.testing.assert_allclose(gw.Session(g).run(y, feeds), before, rtol=1e-4, atol=1e-5)
