"""Folders of adapters for other families: fused and turned weights, biases, names of their own."""

from __future__ import annotations

import numpy as np
import pytest

from gradwright import adapters
from gradwright.errors import GraphError
from tests.adapters import folders
from tests.adapters.folders import CAUSAL, distance, ours_says, settings, theirs_says

FAMILIES = {
    "GPT2": {"tie_word_embeddings": True},
    "Phi3": {},
    "Qwen2": {},
    "Gemma2": {"head_dim": 8},
    "Mistral": {},
}
CONFIGS = {
    "LoRA": lambda p: p.LoraConfig(r=3, target_modules="all-linear", **CAUSAL),
    "DoRA": lambda p: p.LoraConfig(
        r=2, use_dora=True, target_modules=r".*(qkv_proj|q_proj|c_attn|down_proj|c_fc)", **CAUSAL
    ),
    "norms": lambda p: p.LNTuningConfig(target_modules=r".*(norm|ln_\w+)", **CAUSAL),
}


PAIRS = [
    *(("LoRA", name) for name in FAMILIES),
    *(("DoRA", name) for name in ("GPT2", "Phi3")),
    *(("norms", name) for name in ("GPT2", "Gemma2")),
]


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_a_folder_goes_both_ways(kind, name, tmp_path):
    base = tmp_path / "base"
    config = CONFIGS[kind](folders.peft())
    theirs = folders.wrapped(folders.base(base, name, **FAMILIES[name]), config)
    there = folders.saved(theirs, tmp_path / "there")
    model = folders.ours(base)
    before = ours_says(model)
    adapted = adapters.load(model, there)
    want = theirs_says(theirs)
    assert distance(ours_says(model), want) < 2e-5 < 0.01 < distance(before, want)
    adapters.save(adapted, tmp_path / "here", base="")
    assert settings(tmp_path / "here") == settings(there)
    again = folders.loaded(folders.base(base, name, **FAMILIES[name]), tmp_path / "here")
    assert distance(theirs_says(again), want) < 1e-5


def test_adapters_of_rows_of_one_module_are_stacked_and_still_say_the_same(tmp_path):
    base = tmp_path / "base"
    theirs = folders.base(base, "Phi3")
    model = folders.ours(base)
    method = adapters.LoRA(
        r=2, init=False, lora_bias=True, alpha_pattern={"v": 5}, rank_pattern={"k": 1}
    )
    adapted = adapters.add(model, method, "q|v|k|up")
    want = ours_says(model)
    adapters.save(adapted, tmp_path / "a", base="")
    told = settings(tmp_path / "a")
    assert told["target_modules"] == ["gate_up_proj", "qkv_proj"]
    assert {n.split(".")[-1]: r for n, r in told["rank_pattern"].items()} == {"qkv_proj": 5}
    assert distance(theirs_says(folders.loaded(theirs, tmp_path / "a")), want) < 1e-5
    adapted.remove()
    back = adapters.load(model, tmp_path / "a")
    assert distance(ours_says(model), want) < 1e-5
    back.remove()
    other = adapters.add(model, adapters.DoRA(r=2), "q|v")
    with pytest.raises(GraphError, match=r"are one module in such files[\s\S]*to_lora"):
        adapters.save(other, tmp_path / "b")
    assert not (tmp_path / "b").exists() and np.isfinite(want).all()


def test_a_module_of_several_weights_is_saved_whole_with_its_biases(tmp_path):
    base = tmp_path / "base"
    theirs = folders.base(base, "GPT2")
    model = folders.ours(base)
    adapted = adapters.add(model, adapters.LoRA(r=2, init=False), "up", keep=["layer0/q"])
    for name in ("layer0/q", "layer0/q_bias"):
        model.graph.values[name] = model.graph.values[name] + np.float32(0.1)
    want = ours_says(model)
    adapters.save(adapted, tmp_path / "a", base="")
    assert settings(tmp_path / "a")["modules_to_save"] == ["transformer.h.0.attn.c_attn"]
    assert distance(theirs_says(folders.loaded(theirs, tmp_path / "a")), want) < 1e-5
    other = folders.ours(base)
    adapters.load(other, tmp_path / "a")
    assert distance(ours_says(other), want) < 1e-5
