"""Every method that peft has, as a config of peft and as ours: one row makes all its tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from gradwright import adapters

QV = {"target_modules": ["q_proj", "v_proj"]}
CAUSAL = {"task_type": "CAUSAL_LM"}
NO_MERGE = 4, False, False
ADA = {"tinit": 1, "tfinal": 1, "total_step": 8, "beta1": 0.7, "beta2": 0.8}
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def peft() -> Any:
    """Return peft; skip where it is missing."""
    return pytest.importorskip("peft", reason="pip install -e '.[oracle]'")


@dataclass(frozen=True)
class Row:
    """One method, as a function of its rank or of how many vectors it puts before a row."""

    theirs: Callable[[int], Any]
    ours: Callable[[int], Any]
    where: str | None = "q|v"
    size: int = 4
    merges: bool = True
    begins_as_base: bool = True
    """Whether it changes nothing at step 0."""


def _lora(**more: Any) -> Callable[[int], Any]:
    return lambda r: peft().LoraConfig(r=r, lora_alpha=2 * r + 1, **{**QV, **CAUSAL, **more})


def _theirs(name: str, **more: Any) -> Callable[[int], Any]:
    return lambda r: getattr(peft(), name)(r=r, alpha=2 * r + 1, **{**QV, **CAUSAL, **more})


def _virtual(name: str, **more: Any) -> Callable[[int], Any]:
    return lambda n: getattr(peft(), name)(num_virtual_tokens=n, **CAUSAL, **more)


def _alpha(r: int) -> dict[str, Any]:
    return {"r": r, "alpha": 2 * r + 1}


ROWS: dict[str, Row] = {
    "LoRA": Row(_lora(), lambda r: adapters.LoRA(**_alpha(r))),
    "LoRA, all linear": Row(
        _lora(target_modules="all-linear"), lambda r: adapters.LoRA(**_alpha(r)), "all-linear"
    ),
    "LoRA, rank-stabilised": Row(
        _lora(use_rslora=True), lambda r: adapters.LoRA(**_alpha(r), rslora=True)
    ),
    "LoRA, patterns": Row(
        _lora(rank_pattern={"q_proj": 2}, alpha_pattern={"layers.1.self_attn.v_proj": 5}),
        lambda r: adapters.LoRA(**_alpha(r), rank_pattern={"q": 2}, alpha_pattern={"layer1/v": 5}),
    ),
    "LoRA, biased": Row(
        _lora(lora_bias=True), lambda r: adapters.LoRA(**_alpha(r), lora_bias=True), merges=False
    ),  # for these layers have no bias
    "LoRA, embedding": Row(
        _lora(target_modules=["embed_tokens", "q_proj"]),
        lambda r: adapters.LoRA(**_alpha(r)),
        "embed|q",
    ),
    "AdaLoRA": Row(
        lambda r: peft().AdaLoraConfig(
            init_r=r, target_r=r - 2, lora_alpha=2 * r + 1, **ADA, **QV, **CAUSAL
        ),
        lambda r: adapters.AdaLoRA(init_r=r, target_r=r - 2, alpha=2 * r + 1, **ADA),
    ),
    "LoHa": Row(_theirs("LoHaConfig"), lambda r: adapters.LoHa(**_alpha(r))),
    "LoKr": Row(_theirs("LoKrConfig"), lambda r: adapters.LoKr(**_alpha(r))),
    "LoKr, both of low rank": Row(
        _theirs("LoKrConfig", decompose_both=True, decompose_factor=2),
        lambda r: adapters.LoKr(**_alpha(r), decompose_both=True, decompose_factor=2),
        size=1,
    ),
    "IA3": Row(
        lambda _: peft().IA3Config(
            target_modules=["k_proj", "v_proj", "down_proj"],
            feedforward_modules=["down_proj"],
            **CAUSAL,
        ),
        lambda _: adapters.IA3(feedforward="down"),
        "k|v|down",
    ),
    "VeRA": Row(lambda r: peft().VeraConfig(r=r, **QV, **CAUSAL), lambda r: adapters.VeRA(r=r)),
    "DoRA": Row(_lora(use_dora=True), lambda r: adapters.DoRA(**_alpha(r))),
    "DoRA, embedding": Row(
        _lora(use_dora=True, target_modules=["embed_tokens", "q_proj"]),
        lambda r: adapters.DoRA(**_alpha(r)),
        "embed|q",
    ),
}
