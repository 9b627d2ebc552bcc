"""A whole step of a policy beside TRL's trainers: the same completions, rewards and weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from tests.align import trainers_of_theirs as sides

torch = pytest.importorskip("torch")
trl = pytest.importorskip("trl", minversion="1.16")
pytest.importorskip("datasets")

GROUP, LONGEST, EOS = 3, 5, sides.EOS
PROMPTS = [[5, 6, 7], [8], [9, 10]]
pytestmark = sides.QUIET


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sides.folder(tmp_path_factory.mktemp("llama"))


def drawn() -> list[list[int]]:
    """Return completions of unequal lengths: most end, two are cut, one is an end alone."""
    rng = np.random.default_rng(5)
    rows = [rng.integers(3, sides.WORDS, n).tolist() for n in (3, 5, 0, 2, 4, 1, 5, 2, 3)]
    return [row if len(row) == LONGEST else [*row, EOS] for row in rows]


class Replayed:
    """A sampler that gives what was drawn before."""

    def sample(self, prompts: Any, group: int, seed: int) -> gw.align.Rollout:
        rows = drawn()
        reasons = ["eos" if row[-1] == EOS else "length" for row in rows]
        texts = [" ".join(map(str, row)) for row in rows]
        return gw.align.Rollout(prompts, group, rows, texts, reasons, list(range(len(rows))))


FIRST = [0.3, 0.9, 0.1, 0.5, 0.5, 0.5, 1.0, None, 0.2]
SECOND = [1.0, 0.0, None, 2.0, 2.0, 2.0, None, None, 1.5]


def first(completion_ids: Any, **_: Any) -> list[float | None]:
    return FIRST


def second(completion_ids: Any, **_: Any) -> list[float | None]:
    return SECOND


def theirs_of(kind: Any, config: Any, folder: Path, settings: dict[str, Any]) -> Any:
    """Return their trainer after it has scored the completions, and what it made of them."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM

    rows = [{"prompt": " ".join(f"w{i}" for i in p)} for p in PROMPTS]
    trainer = kind(
        AutoModelForCausalLM.from_pretrained(folder),
        reward_funcs=[first, second],
        args=config(
            output_dir=str(folder / "out"),
            **(sides.PLAIN | {"per_device_train_batch_size": 9}),
            num_generations=GROUP,
            max_completion_length=LONGEST,
            num_iterations=2,  # so that it keeps the old log-probabilities
            **settings,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=sides.tokenizer(),
    )
    alone = kind is trl.RLOOTrainer
    trainer._generate_single_turn = lambda *_: drawn() if alone else (drawn(), None)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    batch = trainer._generate_and_score_completions([row for row in rows for _ in range(GROUP)])
    return trainer, batch


def both(kind: Any, config: Any, folder: Path, method: Any, settings: dict[str, Any]) -> None:
    trainer, batch = theirs_of(kind, config, folder, settings)
    model = gw.models.from_pretrained(folder)
    objective = method.objective(model, rewards=[first, second], sampler=Replayed())
    feeds = objective.feeds([gw.align.Prompt(p) for p in PROMPTS])
    np.testing.assert_allclose(
        objective.experience.advantages, batch["advantages"].numpy(), rtol=1e-5, atol=1e-6
    )
    sides.moved(trainer.model, model)
    value = trainer._compute_loss(trainer.model, batch)
    trainer._metrics["eval"] = trainer._metrics["train"]
    loss, seen, slopes = sides.measured(objective, feeds)
    told = {k: column[-1] for k, column in objective.history.items()}
    seen |= {k: told[k] for k in told if k in trainer._metrics["train"]}
    if (
        getattr(method, "scale_rewards", None) not in ("group", "none")
        or "multi_objective_aggregation" in settings
    ):
        del seen["frac_reward_zero_std"]  # theirs is then no share of groups
    if "multi_objective_aggregation" in settings:  # equal groups have A = ±1e-9, as rounding has it
        seen = {name: x for name, x in seen.items() if not name.startswith("clip_ratio/")}
    assert {"reward", "reward_std", "completions/clipped_ratio"} <= set(seen)
    sides.compare(trainer, value, (loss, seen, slopes), model, trainer.model)


GRPO = {
    "dapo": {},
    "grpo": {"loss_type": "grpo", "beta": 0.04, "use_bias_correction_kl": False},
    "weights": {"loss_type": "bnpo", "reward_weights": [1.0, 0.5], "scale_rewards": "batch"},
    "gdpo": {"multi_objective_aggregation": "normalize_then_sum", "epsilon_high": 0.28},
    "dr_grpo": {"loss_type": "dr_grpo", "scale_rewards": "none", "temperature": 0.7},
    "cut": {"mask_truncated_completions": True, "delta": 1.5, "beta": 0.1},
    "gspo": {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4},
    "entropy": {"top_entropy_quantile": 0.4, "entropy_coef": 0.01},
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0},
}


@pytest.mark.parametrize("name", GRPO)
def test_grpo(folder: Path, name: str) -> None:
    settings = GRPO[name]
    method = gw.align.GRPO(num_generations=GROUP, max_completion_length=LONGEST, **settings)
    both(trl.GRPOTrainer, trl.GRPOConfig, folder, method, settings)


RLOO = {
    "plain": {},
    "normalized": {"normalize_advantages": True, "beta": 0.2, "reward_clip_range": (0.2, 1.6)},
    "no reference": {"beta": 0.0, "epsilon_high": 0.3, "mask_truncated_completions": True},
}


@pytest.mark.parametrize("name", RLOO)
def test_rloo(folder: Path, name: str) -> None:
    settings = RLOO[name]
    method = gw.align.RLOO(num_generations=GROUP, max_completion_length=LONGEST, **settings)
    both(trl.RLOOTrainer, trl.RLOOConfig, folder, method, settings)
