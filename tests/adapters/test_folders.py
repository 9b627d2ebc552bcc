"""Folders of adapters both ways: peft's load here, ours load in peft, and say the same."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright import adapters
from tests.adapters import folders
from tests.adapters.folders import CAUSAL, distance, ours_says, settings, theirs_says

QV = {"target_modules": ["q_proj", "v_proj"], **CAUSAL}
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
    "IA3": lambda p: p.IA3Config(
        target_modules=["k_proj", "v_proj", "down_proj"],
        feedforward_modules=["down_proj"],
        **CAUSAL,
    ),
    "VeRA": lambda p: p.VeraConfig(r=4, d_initial=0.5, **QV),
    "norms": lambda p: p.LNTuningConfig(**CAUSAL),
    "LoRA, all linear": lambda p: p.LoraConfig(r=2, target_modules="all-linear"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the model that adapters are for."""
    folder = tmp_path_factory.mktemp("base") / "tiny"
    folders.base(folder, attention_bias=True)
    return folder


def test_ranks_that_adalora_has_dropped_are_left_out_and_come_back(place, tmp_path):
    """peft cuts tensors by the masks of its settings; ours cuts them, too."""
    config = folders.peft().AdaLoraConfig(init_r=4, target_r=2, total_step=9, **QV)
    theirs = folders.wrapped(their_base(place), config)
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
    again = folders.loaded(their_base(place), tmp_path / "here")
    assert distance(theirs_says(again), want) < 1e-5


def their_base(place):
    return folders.base(place, attention_bias=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_peft_says_the_same_here_and_goes_back(kind, place, tmp_path):
    theirs = folders.wrapped(their_base(place), KINDS[kind](folders.peft()))
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
    again = folders.loaded(their_base(place), tmp_path / "here")
    assert distance(theirs_says(again), want) < 1e-6
    adapted.remove()
    assert np.array_equal(ours_says(model), before)
