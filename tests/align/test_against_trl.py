"""Losses, their metrics and gradients beside TRL's own, on batches of unequal lengths."""

from __future__ import annotations

import itertools
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradwright as gw

torch = pytest.importorskip("torch")
pytest.importorskip("trl", minversion="1.16")

from trl import (  # noqa: E402
    DPOTrainer,
    GRPOTrainer,
    KTOTrainer,
    RewardTrainer,
    RLOOTrainer,
    SFTTrainer,
)
from trl.experimental.cpo import CPOTrainer  # noqa: E402
from trl.experimental.orpo import ORPOTrainer  # noqa: E402

ROWS, LONG = 6, 7
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


class Batch:
    """Random log-probabilities of ragged completions behind prompts, NaN-free zeros elsewhere."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.mask = np.zeros((ROWS, LONG))
        for row in self.mask:
            start = rng.integers(0, 3)
            row[start : start + rng.integers(1, 5)] = 1
        draw = lambda: np.float32(-rng.gamma(1.5, 0.8, (ROWS, LONG)) * self.mask)  # noqa: E731
        self.logps, self.ref = draw(), draw()
        self.old = np.float32((self.logps + rng.normal(0, 0.3, self.mask.shape)) * self.mask)
        self.entropy = np.float32(rng.uniform(0.1, 3, self.mask.shape) * self.mask)
        self.squares = np.float32(-rng.uniform(0.1, 2, self.mask.shape) * self.mask)
        self.gain = np.float32(rng.normal(size=ROWS))
        self.mask = np.float32(self.mask)


def ours(loss: Any, x: Any, fed: Any) -> tuple[float, dict[str, float], Any]:
    g = x.graph
    (dx,) = gw.gradients(loss.value, [x])
    found = g.output({x: fed}, loss.value, dx, *loss.metrics.values())
    value, slope, *rest = found.values()
    return float(value), dict(zip(loss.metrics, map(float, rest), strict=True)), slope


def compare(mine: Any, value: Any, leaf: Any, metrics: dict[str, Any]) -> None:
    value.backward()
    loss, seen, slope = mine
    np.testing.assert_allclose(loss, value.item(), **CLOSE)
    np.testing.assert_allclose(slope, leaf.grad.numpy(), **CLOSE)
    for name in seen.keys() & metrics.keys():
        np.testing.assert_allclose(seen[name], np.mean(metrics[name]), err_msg=name, **CLOSE)
    assert seen.keys() <= metrics.keys()


def trainer(**settings: Any) -> SimpleNamespace:
    """A stand-in for a trainer: one process, in training, that collects metrics."""
    same = lambda x, *_, **__: x  # noqa: E731
    alone = SimpleNamespace(
        device="cpu", num_processes=1, gather=same, gather_for_metrics=same, reduce=same,
        pad_across_processes=same, sync_gradients=True,
    )  # fmt: skip
    return SimpleNamespace(
        accelerator=alone, model=SimpleNamespace(training=True), aux_loss_enabled=False,
        _metrics={"train": defaultdict(list)}, _total_train_tokens=0, _tp_size=1, **settings,
    )  # fmt: skip


def said(logps: Any, batch: Batch) -> Any:
    zeros = torch.zeros(ROWS, LONG)
    return SimpleNamespace(
        log_probs=logps * torch.tensor(batch.mask), entropy=torch.tensor(batch.entropy),
        mean_logits=zeros, is_top1=zeros.bool(), log_sum_sq_probs=torch.tensor(batch.squares),
    )  # fmt: skip


def graph_of(batch: Batch) -> tuple[Any, Any]:
    g = gw.Graph()
    return g, g.placeholder("logps", (ROWS, LONG))


DPO = {
    "loss_type": "sigmoid", "beta": 0.1, "label_smoothing": 0.0, "ld_alpha": None,
    "f_divergence_type": "reverse_kl", "wpo": False,
}  # fmt: skip
TYPES = (
    "sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot",
    "aot_unpaired", "apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm",
)  # fmt: skip
DIVERGENCES = ("forward_kl", "js_divergence", "alpha_divergence")


def dpo_cases() -> list[dict[str, Any]]:
    cases = [{"loss_type": t, "label_smoothing": 0.1} for t in TYPES]
    cases += [
        {"loss_type": t, "ld_alpha": 0.4, "wpo": True, "label_smoothing": 0.1}
        for t in TYPES
        if t not in ("hinge", "sft")  # TRL multiplies these in place, and torch refuses
    ]
    cases += [{"loss_type": t, "ld_alpha": 0.4} for t in ("hinge", "sft")]
    for t, f in itertools.product(("sigmoid", "hinge", "ipo", "robust", "discopop"), DIVERGENCES):
        cases.append({"loss_type": t, "f_divergence_type": f, "beta": 0.3})
    cases.append({"loss_type": ["sigmoid", "bco_pair", "sft"], "loss_weights": [0.8, 0.2, 1.0]})
    return cases


@pytest.mark.parametrize("case", dpo_cases(), ids=lambda c: "-".join(map(str, c.values())))
def test_dpo(case: dict[str, Any]) -> None:
    batch, s = Batch(1), DPO | case
    names = [s["loss_type"]] if isinstance(s["loss_type"], str) else s["loss_type"]
    leaf = torch.tensor(batch.logps, requires_grad=True)
    fake = trainer(
        ld_alpha=s["ld_alpha"], precompute_ref_logps=False,
        f_divergence_type=s["f_divergence_type"], f_alpha_divergence_coef=0.5, loss_types=names,
        loss_weights=s.get("loss_weights", [1.0] * len(names)), beta=s["beta"],
        label_smoothing=s["label_smoothing"], use_weighting=s["wpo"],
        ref_model=lambda **_: said(torch.tensor(batch.ref), batch),
        args=SimpleNamespace(discopop_tau=0.05, gradient_checkpointing_kwargs=None),
    )  # fmt: skip
    fake.model = Model(lambda **_: said(leaf, batch))
    whole = torch.tensor(np.pad(batch.mask, ((0, 0), (1, 0)))).long()
    inputs = {"completion_mask": whole, "input_ids": whole, "attention_mask": whole}
    theirs = DPOTrainer._compute_loss(fake, fake.model, inputs, False)

    g, x = graph_of(batch)
    wpo = s.pop("wpo")
    loss = gw.align.dpo(
        x, g.constant(batch.ref), g.constant(batch.mask),
        log_sum_squares=g.constant(batch.squares) if wpo else None, **s,
    )  # fmt: skip
    compare(ours(loss, x, batch.logps), theirs, leaf, fake._metrics["train"])


class Model(torch.nn.Module):
    """A model whose answer is given."""

    is_gradient_checkpointing = False

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, *_: Any, **settings: Any) -> Any:
        return self.answer(**settings)


GRPO = {
    "loss_type": "dapo", "beta": 0.0, "epsilon": 0.2, "epsilon_high": 0.28, "delta": None,
    "importance_sampling_level": "token", "use_bias_correction_kl": True,
    "top_entropy_quantile": 1.0, "entropy_coef": 0.0, "off_policy_mask_threshold": None,
}  # fmt: skip
FLAGS = {
    "beta": 0.04, "delta": 1.4, "importance_sampling_level": "sequence",
    "top_entropy_quantile": 0.4, "entropy_coef": 0.1, "off_policy_mask_threshold": 0.02,
}  # fmt: skip


def grpo_cases() -> list[dict[str, Any]]:
    kinds = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo")
    cases: list[dict[str, Any]] = [{"loss_type": k} for k in kinds]
    cases += [{"loss_type": k, f: v} for k in kinds for f, v in FLAGS.items()]
    cases += [{"beta": 0.1, "use_bias_correction_kl": False}, {"on_policy": True}]
    return cases + [{a: FLAGS[a], b: FLAGS[b]} for a, b in itertools.combinations(FLAGS, 2)]


@pytest.mark.parametrize("case", grpo_cases(), ids=lambda c: "-".join(map(str, c.values())))
def test_grpo(case: dict[str, Any]) -> None:
    batch, s = Batch(2), GRPO | case
    on_policy = s.pop("on_policy", False)
    leaf = torch.tensor(batch.logps, requires_grad=True)
    tokens = torch.tensor(batch.entropy)
    fake = trainer(
        max_completion_length=9, current_gradient_accumulation_steps=1, epsilon_low=s["epsilon"],
        use_vllm=False, use_adaptive_entropy=False, _entropy_bonus_enabled=bool(s["entropy_coef"]),
        get_off_policy_mask=GRPOTrainer.get_off_policy_mask,
        get_gamma_weights=GRPOTrainer.get_gamma_weights,
        _get_per_token_logps_and_entropies=lambda *_, **__: (leaf, tokens, None),
        args=SimpleNamespace(
            delta=s["delta"], use_bias_correction_kl=s["use_bias_correction_kl"],
            sapo_temperature_pos=1.0, sapo_temperature_neg=1.05, vespo_k_pos=2.0,
            vespo_lambda_pos=3.0, vespo_k_neg=3.0, vespo_lambda_neg=2.0, steps_per_generation=1,
        ), **{k: s[k] for k in s if k not in ("delta", "epsilon", "use_bias_correction_kl")},
    )  # fmt: skip
    fake.get_high_entropy_mask = lambda *a: GRPOTrainer.get_high_entropy_mask(fake, *a)
    mask = torch.tensor(batch.mask)
    inputs = {
        "prompt_ids": mask.long(), "prompt_mask": mask, "completion_ids": mask.long(),
        "completion_mask": mask, "advantages": torch.tensor(batch.gain),
        "old_per_token_logps": None if on_policy else torch.tensor(batch.old),
        "ref_per_token_logps": torch.tensor(batch.ref), "num_items_in_batch": torch.tensor(21.0),
    }  # fmt: skip
    theirs = GRPOTrainer._compute_loss(fake, fake.model, inputs)

    g, x = graph_of(batch)
    loss = gw.align.grpo(
        x, g.constant(batch.mask), g.constant(batch.gain),
        None if on_policy else g.constant(batch.old), g.constant(batch.ref),
        g.constant(batch.entropy), num_items=21.0, max_completion_length=9, **s,
    )  # fmt: skip
    compare(ours(loss, x, batch.logps), theirs, leaf, fake._metrics["train"])


def test_rloo() -> None:
    batch = Batch(3)
    leaf = torch.tensor(batch.logps, requires_grad=True)
    tokens, mask = torch.tensor(batch.entropy), torch.tensor(batch.mask)
    fake = trainer(
        epsilon_low=0.2, epsilon_high=0.3,
        _get_per_token_logps_and_entropies=lambda *_, **__: (leaf, tokens, None),
    )  # fmt: skip
    inputs = {
        "prompt_ids": mask, "prompt_mask": mask, "completion_ids": mask, "completion_mask": mask,
        "advantages": torch.tensor(batch.gain), "old_logps": torch.tensor(batch.old.sum(1)),
    }  # fmt: skip
    theirs = RLOOTrainer._compute_loss(fake, fake.model, inputs)
    g, x = graph_of(batch)
    old, mask, gain, entropy = map(g.constant, (batch.old, batch.mask, batch.gain, batch.entropy))
    loss = gw.align.rloo(x, old, mask, gain, epsilon_high=0.3, entropy=entropy)
    compare(ours(loss, x, batch.logps), theirs, leaf, fake._metrics["train"])


@pytest.mark.parametrize("kind", ["kto", "apo_zero_unpaired"])
@pytest.mark.parametrize("lifted", [0.0, 3.0])
def test_kto(kind: str, lifted: float) -> None:
    batch = Batch(4)
    labels = torch.tensor([True, False, True, True, False, True])
    leaf = torch.tensor(batch.logps, requires_grad=True)
    rng = np.random.default_rng(5)
    ahead, behind = (np.float32(rng.normal(size=ROWS)) for _ in range(2))
    ahead = ahead + np.float32(lifted)
    fake = trainer(
        calculate_KL=kind == "kto", precompute_ref_logps=True, loss_type=kind, beta=0.2,
        desirable_weight=1.3, undesirable_weight=0.7,
        _compute_kl_logps=lambda *_: torch.tensor(ahead),
    )  # fmt: skip
    whole = torch.tensor(np.pad(batch.mask, ((0, 0), (1, 0)))).long()
    inputs = {
        "label": labels, "input_ids": whole, "attention_mask": whole, "completion_mask": whole,
        "ref_logps": torch.tensor(batch.ref.sum(1)), "ref_KL_logps": torch.tensor(behind),
    }  # fmt: skip
    fake.model = Model(lambda **_: said(leaf, batch))
    theirs = KTOTrainer._compute_loss(fake, fake.model, inputs, False)
    g, x = graph_of(batch)
    loss = gw.align.kto(
        x, g.constant(batch.ref), g.constant(batch.mask), g.constant(labels.numpy()),
        g.constant(ahead - behind), loss_type=kind, beta=0.2, desirable_weight=1.3,
        undesirable_weight=0.7,
    )  # fmt: skip
    compare(ours(loss, x, batch.logps), theirs, leaf, fake._metrics["train"])


@pytest.mark.parametrize("margin", [False, True])
@pytest.mark.parametrize("centred", [None, 0.01])
def test_reward(margin: bool, centred: float | None) -> None:
    batch = Batch(6)
    leaf = torch.tensor(batch.gain, requires_grad=True)
    fake = trainer(args=SimpleNamespace(center_rewards_coefficient=centred))
    inputs: dict[str, Any] = {"attention_mask": torch.ones(ROWS, 2)}
    apart = np.float32([0.2, 0.5, 1.0])
    if margin:
        inputs["margin"] = torch.tensor(apart)
    answer = SimpleNamespace(logits=leaf[:, None])
    fake.model = Model(lambda **_: answer)
    theirs = RewardTrainer.compute_loss(fake, fake.model, inputs)
    g = gw.Graph()
    x = g.placeholder("r", (ROWS,))
    loss = gw.align.reward(
        x, g.constant(apart) if margin else None, center_rewards_coefficient=centred
    )
    compare(ours(loss, x, batch.gain), theirs, leaf, fake._metrics["train"])


@pytest.mark.parametrize("kind", ["nll", "dft"])
@pytest.mark.parametrize("items", [None, 40.0])
def test_sft(kind: str, items: float | None) -> None:
    batch = Batch(7)
    leaf = torch.tensor(batch.logps, requires_grad=True)
    mask = torch.tensor(batch.mask)
    top = torch.tensor(batch.entropy > 1.2)
    fake = trainer(
        compute_loss_func=None, label_smoother=None,
        args=SimpleNamespace(loss_type=kind, average_tokens_across_devices=False),
    )  # fmt: skip
    fake.accelerator.parallelism_config = None
    answer = SimpleNamespace(
        log_probs=leaf * mask, label_mask=mask, entropy=torch.tensor(batch.entropy), is_top1=top
    )
    fake.model = Model(lambda **_: answer)
    inputs = {"attention_mask": mask, "labels": mask}
    theirs = SFTTrainer.compute_loss(fake, fake.model, inputs, False, items)
    g, x = graph_of(batch)
    seen = {"entropy": g.constant(batch.entropy), "is_top": g.constant(top.numpy())}
    loss = gw.align.sft(x, g.constant(batch.mask), loss_type=kind, num_items=items, **seen)
    compare(ours(loss, x, batch.logps), theirs, leaf, fake._metrics["train"])


def rows_of(leaf: Any, mask: Any, mean: bool) -> tuple[Any, Any]:
    sums = (leaf * mask).sum(1)
    return (sums / mask.sum(1) if mean else sums).chunk(2)


def nll_of(leaf: Any, mask: Any) -> Any:
    return -leaf[: ROWS // 2][mask[: ROWS // 2].bool()].mean()


@pytest.mark.parametrize("kind", ["sigmoid", "hinge", "ipo", "simpo"])
@pytest.mark.parametrize(("smoothing", "alpha", "nll"), [(0.0, 0.0, 1.0), (0.1, 0.3, 0.0)])
def test_cpo(kind: str, smoothing: float, alpha: float, nll: float) -> None:
    batch = Batch(8)
    leaf, mask = torch.tensor(batch.logps, requires_grad=True), torch.tensor(batch.mask)
    fake = trainer(
        beta=0.7, loss_type=kind, label_smoothing=smoothing, alpha=alpha, simpo_gamma=0.5
    )
    rows = rows_of(leaf, mask, kind in ("ipo", "simpo"))
    losses, chosen, rejected = CPOTrainer.cpo_loss(fake, *rows)
    g, x = graph_of(batch)
    loss = gw.align.cpo(
        x, g.constant(batch.mask), beta=0.7, loss_type=kind, label_smoothing=smoothing,
        alpha=alpha, cpo_alpha=nll,
    )  # fmt: skip
    expected = pairs_metrics(chosen, rejected, rows)
    expected["nll_loss"] = nll_of(leaf, mask).item()
    compare(ours(loss, x, batch.logps), losses.mean() + nll * nll_of(leaf, mask), leaf, expected)


def pairs_metrics(chosen: Any, rejected: Any, rows: Any) -> dict[str, float]:
    return {
        "rewards/chosen": chosen.mean().item(),
        "rewards/rejected": rejected.mean().item(),
        "rewards/accuracies": (chosen > rejected).float().mean().item(),
        "rewards/margins": (chosen - rejected).mean().item(),
        "logps/chosen": rows[0].mean().item(),
        "logps/rejected": rows[1].mean().item(),
    }


def test_orpo() -> None:
    batch = Batch(9)
    whole = np.float32(np.arange(LONG) < LONG - 1) * np.ones((ROWS, 1), np.float32)
    logps = batch.logps - np.float32(0.3) * (1 - batch.mask)
    leaf, mask = torch.tensor(logps, requires_grad=True), torch.tensor(batch.mask)
    rows = rows_of(leaf, mask, mean=True)
    losses, chosen, rejected, ratio, odds = ORPOTrainer.odds_ratio_loss(trainer(beta=0.2), *rows)
    nll = nll_of(leaf, torch.tensor(whole))
    g, x = graph_of(batch)
    loss = gw.align.orpo(x, g.constant(batch.mask), g.constant(whole), beta=0.2)
    expected = pairs_metrics(chosen, rejected, rows) | {
        "nll_loss": nll.item(), "log_odds_ratio": ratio.item(), "log_odds_chosen": odds.item(),
    }  # fmt: skip
    compare(ours(loss, x, logps), nll - losses.mean(), leaf, expected)
