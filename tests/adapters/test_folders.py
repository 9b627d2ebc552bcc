"""Folders of adapters both ways: peft's load here, ours load in peft, and say the same."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright import adapters
from gradwright.errors import GraphError
from tests.adapters import folders
from tests.adapters.folders import CAUSAL, QV, distance, ours_says, settings, theirs_says

KINDS = {
    "LoRA": lambda p: p.LoraConfig(r=2, **QV),
    "LoRA, patterns": lambda p: p.LoraConfig(
        r=2,
        target_modules=r".*\.(q|k|up|down)_proj",
        rank_pattern={"q_proj": 3, "layers.1.self_attn.k_proj": 1},
        alpha_pattern={"up_proj": 5, r"layers\.0\.mlp\.down_proj": 2},
        use_rslora=True,
        **CAUSAL,
    ),
    "LoRA, some layers": lambda p: p.LoraConfig(
        r=2, layers_to_transform=[1], layers_pattern="layers", exclude_modules=["v_proj"], **QV
    ),
    "LoRA, what it trains of the model": lambda p: p.LoraConfig(
        r=2, target_modules=["q_proj", "embed_tokens"], bias="all", modules_to_save=["lm_head"]
    ),
    "LoRA, tokens": lambda p: p.LoraConfig(r=2, trainable_token_indices=[1, 5], **QV),
    "LoRA, biased": lambda p: p.LoraConfig(r=2, lora_bias=True, **QV),
    "DoRA": lambda p: p.LoraConfig(r=2, use_dora=True, **QV),
    "AdaLoRA": lambda p: p.AdaLoraConfig(init_r=4, target_r=2, total_step=9, lora_alpha=5, **QV),
    "LoHa": lambda p: p.LoHaConfig(r=2, rank_dropout=0.1, **QV),
    "LoKr": lambda p: p.LoKrConfig(r=2, alpha=3, decompose_both=True, decompose_factor=4, **QV),
    "LoHa, patterns": lambda p: p.LoHaConfig(
        r=2, rank_pattern={"q_proj": 3}, alpha_pattern={"layers.1.self_attn.v_proj": 5}, **QV
    ),
    "LoKr, patterns": lambda p: p.LoKrConfig(
        r=1, rank_pattern={"q_proj": 2}, alpha_pattern={"layers.1.self_attn.v_proj": 5}, **QV
    ),
    "IA3": lambda p: p.IA3Config(
        target_modules=["k_proj", "v_proj", "down_proj"],
        feedforward_modules=["down_proj"],
        **CAUSAL,
    ),
    "VeRA": lambda p: p.VeraConfig(r=4, d_initial=0.5, **QV),
    "prefix": lambda p: p.PrefixTuningConfig(num_virtual_tokens=3, **CAUSAL),
    "prefix of a network": lambda p: p.PrefixTuningConfig(
        num_virtual_tokens=3, prefix_projection=True, encoder_hidden_size=7, **CAUSAL
    ),
    "prompt": lambda p: p.PromptTuningConfig(num_virtual_tokens=3, **CAUSAL),
    "P-tuning": lambda p: p.PromptEncoderConfig(
        num_virtual_tokens=3, encoder_hidden_size=8, **CAUSAL
    ),
    "P-tuning, LSTM": lambda p: p.PromptEncoderConfig(
        num_virtual_tokens=3, encoder_reparameterization_type="LSTM", **CAUSAL
    ),
    "LoRA, PiSSA": lambda p: p.LoraConfig(r=2, init_lora_weights="pissa", **QV),
    "LoRA, OLoRA": lambda p: p.LoraConfig(r=2, init_lora_weights="olora", **QV),
    "LoRA, orthogonal": lambda p: p.LoraConfig(r=2, init_lora_weights="orthogonal", **QV),
    "norms": lambda p: p.LNTuningConfig(**CAUSAL),
    "LoRA, all linear": lambda p: p.LoraConfig(r=2, target_modules="all-linear"),
}


place = pytest.fixture(scope="module")(folders.place)


def test_ranks_that_adalora_has_dropped_are_left_out_and_come_back(place, tmp_path):
    """peft cuts tensors by the masks of its settings; ours cuts them, too."""
    config = folders.peft().AdaLoraConfig(init_r=4, target_r=2, total_step=9, **QV)
    theirs = folders.wrapped(folders.at(place), config)
    masks, torch = {}, pytest.importorskip("torch")
    for i, (name, p) in enumerate(theirs.named_parameters()):
        if "lora_E" in name:
            on = [(i >> k) & 1 > 0 for k in range(4)]
            masks[name.removeprefix("base_model.model.")] = on
            with torch.no_grad():
                p *= torch.tensor(on)[:, None]
    want = theirs_says(theirs)
    theirs.peft_config["default"].rank_pattern = masks
    there = folders.saved(theirs, tmp_path / "there")
    model = folders.ours(place)
    adapted = adapters.load(model, there)
    assert distance(ours_says(model), want) < 1e-5
    assert sum(adapted.adapter.ranks(adapted).values()) == sum(map(sum, masks.values()))
    adapters.save(adapted, tmp_path / "here")
    told = settings(tmp_path / "here")["rank_pattern"]
    assert {k: sum(v) for k, v in told.items()} == {
        k.removesuffix(".default"): sum(v) for k, v in masks.items() if not all(v)
    }
    again = folders.loaded(folders.at(place), tmp_path / "here")
    assert distance(theirs_says(again), want) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_peft_says_the_same_here_and_goes_back(kind, place, tmp_path):
    theirs = folders.wrapped(folders.at(place), KINDS[kind](folders.peft()))
    there = folders.saved(theirs, tmp_path / "there")
    model = folders.ours(place)
    before = ours_says(model)
    adapted = adapters.load(model, there)
    want = theirs_says(theirs)
    assert distance(ours_says(model), want) < 1e-5 < 0.01 < distance(before, want)
    adapters.save(adapted, tmp_path / "here", base="")
    assert settings(tmp_path / "here") == settings(there)
    ours, other = (gw.open(f / folders.WEIGHTS).specs for f in (tmp_path / "here", there))
    same = "base_model.model.model.embed_tokens.base_layer.weight"  # the model's own, which is kept
    assert ours == {name: spec for name, spec in other.items() if name != same}
    again = folders.loaded(folders.at(place), tmp_path / "here")
    assert distance(theirs_says(again), want) < 1e-6
    adapted.remove()
    assert np.array_equal(ours_says(model), before)


# -- first values that change the model, and what a network makes --------------------------------


@pytest.mark.parametrize("init", ["pissa", "olora"])
@pytest.mark.parametrize("rslora", [False, True])
def test_what_changed_the_model_is_a_plain_lora_of_twice_the_rank(init, rslora, place, tmp_path):
    model = folders.ours(place)
    base = {name: model.graph.values[name].copy() for name in ("layer0/q", "layer1/up")}
    method = adapters.LoRA(r=2, init=init, rslora=rslora, rank_pattern={"up": 3})
    adapted = adapters.add(model, method, "q|up")
    rng = np.random.default_rng(0)
    adapted.load_state(
        {k: a + rng.normal(size=a.shape).astype("f4") * 0.1 for k, a in adapted.state().items()}
    )
    want = ours_says(model)
    for name, plain in (("plain", True), ("as it is", False)):
        adapters.save(adapted, tmp_path / name, plain=plain, base="")
    assert settings(tmp_path / "plain")["r"] == 4
    assert set(settings(tmp_path / "plain")["rank_pattern"].values()) == {6}
    assert settings(tmp_path / "as it is")["init_lora_weights"] == init
    adapted.remove()
    assert all(np.array_equal(model.graph.values[n], a) for n, a in base.items())
    for name in ("plain", "as it is"):
        back = adapters.load(folders.ours(place), tmp_path / name)
        assert distance(ours_says(back.model), want) < 1e-5
        assert bool(back.replaced) == (name == "as it is")
        again = folders.loaded(folders.at(place), tmp_path / name)
        assert distance(theirs_says(again), want) < 1e-5


def test_what_a_quantisation_changed_is_no_plain_lora(place, tmp_path):
    model = folders.ours(place)
    adapted = adapters.add(model, adapters.LoRA(r=2, init=adapters.LoftQ(iterations=3)), "q")
    with pytest.raises(GraphError, match="changed by more than a matrix of rank 2"):
        adapters.save(adapted, tmp_path / "a", plain=True)
    adapters.save(adapted, tmp_path / "a")
    told = settings(tmp_path / "a")
    assert told["init_lora_weights"] == "loftq"
    assert told["loftq_config"] == {"loftq_bits": 4, "loftq_iter": 3}
    want = ours_says(model)
    back = adapters.load(folders.ours(place), tmp_path / "a")
    assert distance(ours_says(back.model), want) < 1e-5


@pytest.mark.parametrize(
    "method",
    [
        adapters.Prefix(tokens=3, projection=True, hidden=5),
        adapters.PTuning(tokens=3, hidden=6),
        adapters.PTuning(tokens=3, encoder="lstm", hidden=4, layers=1),
        adapters.Prompt(tokens=3),
    ],
)
def test_a_file_has_the_vectors_that_a_network_makes(method, place, tmp_path):
    model = folders.ours(place)
    adapted = adapters.add(model, method)
    want = ours_says(model)
    adapters.save(adapted, tmp_path, base="")
    (array,) = gw.open(tmp_path).arrays[""].values()
    assert array.shape == (3, 32 if not isinstance(method, adapters.Prefix) else array.shape[1])
    again = folders.loaded(folders.at(place), tmp_path)
    assert distance(theirs_says(again), want) < 1e-5
    back = adapters.load(folders.ours(place), tmp_path)
    assert distance(ours_says(back.model), want) < 1e-5
    told = settings(tmp_path)
    adapters.save(back, tmp_path / "again", base="")
    assert settings(tmp_path / "again") == told


def test_a_quantisation_that_peft_has_not_is_refused_by_name(place, tmp_path):
    adapted = adapters.add(
        folders.ours(place), adapters.LoRA(r=2, init=adapters.LoftQ("q4_0")), "q"
    )
    with pytest.raises(GraphError, match=r"no LoftQ of q4_0[\s\S]*nf4, int8"):
        adapters.save(adapted, tmp_path / "a")
    assert not (tmp_path / "a").exists()
