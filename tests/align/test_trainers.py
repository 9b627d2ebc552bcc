"""The whole path of a trainer beside TRL's: the same rows, weights and reference on both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from tests.align import trainers_of_theirs as sides
from tests.align.trainers_of_theirs import PLAIN, compare, measured, moved, rows, texts

torch = pytest.importorskip("torch")
trl = pytest.importorskip("trl", minversion="1.16")
datasets = pytest.importorskip("datasets")

from transformers import AutoModelForCausalLM, LlamaForSequenceClassification  # noqa: E402
from trl.experimental.cpo import CPOConfig, CPOTrainer  # noqa: E402
from trl.experimental.orpo import ORPOConfig, ORPOTrainer  # noqa: E402

align = gw.align
PAIRS = rows("prompt", "chosen", "rejected")
SINGLE = rows("prompt", "completion")
LABELLED = [{**row, "label": i % 3 != 0} for i, row in enumerate(SINGLE)]
pytestmark = sides.QUIET


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sides.folder(tmp_path_factory.mktemp("llama"))


def held(trainer: Any, objective: Any, data: Any, model: Any) -> None:
    """Compare a batch of all rows, after the same move away from the reference."""
    moved(trainer.model, model)
    batch = next(iter(trainer.get_train_dataloader()))
    trainer.model.eval()
    if isinstance(trainer, CPOTrainer | ORPOTrainer):
        value, metrics = trainer.get_batch_loss_metrics(trainer.model, batch, "eval")
        trainer.store_metrics({k[5:]: float(v) for k, v in metrics.items()}, "eval")
    else:
        value = trainer.compute_loss(trainer.model, batch)
    compare(trainer, value, measured(objective, objective.feeds(data)), model, trainer.model)


def made(
    kind: type, config: type, folder: Path, data: Any, settings: Any, model: Any = None
) -> Any:
    theirs = AutoModelForCausalLM.from_pretrained(folder) if model is None else model
    return kind(
        theirs,
        args=config(output_dir=str(folder / "out"), **PLAIN, **settings),
        train_dataset=texts(data),
        processing_class=sides.tokenizer(),
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"loss_type": ["sigmoid"]},
        {"loss_type": ["sigmoid", "bco_pair", "sft"], "loss_weights": [0.8, 0.2, 1.0]},
        {"loss_type": ["ipo"], "ld_alpha": 0.4, "use_weighting": True, "beta": 0.3},
        {"loss_type": ["discopop"], "f_divergence_type": "js_divergence"},
        {"loss_type": ["aot"], "precompute_ref_log_probs": True},
    ],
    ids=["sigmoid", "mpo", "ipo-ld-wpo", "discopop-js", "aot-precomputed"],
)
def test_dpo(folder: Path, settings: dict[str, Any]) -> None:
    trainer = made(trl.DPOTrainer, trl.DPOConfig, folder, PAIRS, settings)
    model = gw.models.from_pretrained(folder)
    if settings.get("precompute_ref_log_probs"):
        trainer.get_train_dataloader()
    held(trainer, align.DPO(**settings).objective(model), PAIRS, model)


@pytest.mark.parametrize("kind", ["kto", "apo_zero_unpaired"])
def test_kto(folder: Path, kind: str) -> None:
    settings = {"loss_type": kind, "desirable_weight": 1.3}
    trainer = made(trl.KTOTrainer, trl.KTOConfig, folder, LABELLED, settings)
    model = gw.models.from_pretrained(folder)
    held(trainer, align.KTO(**settings).objective(model), LABELLED, model)


@pytest.mark.parametrize("kind", ["nll", "dft"])
def test_sft(folder: Path, kind: str) -> None:
    trainer = made(trl.SFTTrainer, trl.SFTConfig, folder, SINGLE, {"loss_type": kind})
    model = gw.models.from_pretrained(folder)
    held(trainer, align.SFT(loss_type=kind).objective(model), SINGLE, model)


def test_orpo(folder: Path) -> None:
    trainer = made(ORPOTrainer, ORPOConfig, folder, PAIRS, {"beta": 0.2})
    model = gw.models.from_pretrained(folder)
    held(trainer, align.ORPO(beta=0.2).objective(model), PAIRS, model)


@pytest.mark.parametrize("method", [align.CPO(), align.SimPO()], ids=["cpo", "simpo"])
def test_cpo(folder: Path, method: Any) -> None:
    names = "loss_type", "beta", "cpo_alpha", "simpo_gamma"
    settings = {name: getattr(method, name) for name in names}
    trainer = made(CPOTrainer, CPOConfig, folder, PAIRS, settings)
    model = gw.models.from_pretrained(folder)
    held(trainer, method.objective(model), PAIRS, model)


def test_reward_model(folder: Path) -> None:
    data = [{**row, "margin": 0.2 * i} for i, row in enumerate(PAIRS)]
    theirs = LlamaForSequenceClassification.from_pretrained(folder, num_labels=1)
    settings = {"center_rewards_coefficient": 0.01}
    trainer = made(trl.RewardTrainer, trl.RewardConfig, folder, data, settings, theirs)
    model = gw.models.from_pretrained(folder)
    objective = align.RewardModel(**settings).objective(model)
    model.graph.values["score/weight"] = theirs.score.weight.detach().numpy()[0]
    batch = next(iter(trainer.get_train_dataloader()))
    value = trainer.compute_loss(trainer.model.eval(), batch)
    mine = measured(objective, objective.feeds(data))
    slope = mine[2].pop("score/weight")
    compare(trainer, value, mine, model, trainer.model)
    np.testing.assert_allclose(slope, theirs.score.weight.grad.numpy()[0], rtol=1e-4, atol=1e-6)
