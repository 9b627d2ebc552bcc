"""An entropy bonus that follows the entropy, beside TRL's, step by step; and what it is fed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.align.losses.grpo import uncertain
from gradwright.align.objectives.entropy import NAME, Acting, EntropyControl
from gradwright.errors import GraphError, TrainingError
from gradwright.models import Decoder, DecoderConfig

SETTINGS = {
    "entropy_coef": 0.03, "entropy_target": 1.5, "entropy_coef_delta": 0.02,
    "entropy_coef_min": 0.01, "entropy_coef_max": 0.06,
}  # fmt: skip
SCALES = (1.0, 0.7, 0.6, 1.4, 0.5, 0.5, 0.5, 0.5)
"""What the entropy is multiplied by, step by step: over and under the target."""


@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("batches", [1, 2])
def test_it_moves_as_trl_moves_it(share: float, batches: int) -> None:
    """Over windows of several batches of unequal lengths, too."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("trl", minversion="1.16")
    from trl import GRPOTrainer

    from tests.align import test_against_trl as sides

    method = gw.align.GRPO(use_adaptive_entropy=True, top_entropy_quantile=share, **SETTINGS)
    control = method.entropy_control()
    assert control is not None
    plain = sides.GRPO | {"epsilon_high": 0.2, "top_entropy_quantile": share}
    fake = sides.trainer(
        max_completion_length=9, current_gradient_accumulation_steps=batches, epsilon_low=0.2,
        use_vllm=False, use_adaptive_entropy=True, _entropy_bonus_enabled=True,
        _last_world_entropy=float("inf"), _entropy_window_stats=None,
        args=SimpleNamespace(
            delta=None, use_bias_correction_kl=True, steps_per_generation=1,
            **{k: v for k, v in SETTINGS.items() if k != "entropy_coef"},
        ), **{k: v for k, v in (plain | {"entropy_coef": 0.03}).items()
              if k not in ("delta", "epsilon", "use_bias_correction_kl")},
    )  # fmt: skip
    fake.get_high_entropy_mask = lambda *a: GRPOTrainer.get_high_entropy_mask(fake, *a)
    for step, scale in enumerate(SCALES):
        total: Any = (0.0, 0.0)
        for part in range(batches):
            batch = sides.Batch(10 * step + part)
            leaf, mask = torch.tensor(batch.logps), torch.tensor(batch.mask)
            tokens = np.float32(batch.entropy * scale)
            told = leaf, torch.tensor(tokens), None
            fake._get_per_token_logps_and_entropies = lambda *_, told=told, **__: told
            fake.accelerator.sync_gradients = part == batches - 1
            weight = control.weight
            theirs = GRPOTrainer._compute_loss(fake, fake.model, {
                "prompt_ids": mask.long(), "prompt_mask": mask, "completion_ids": mask.long(),
                "completion_mask": mask, "advantages": torch.tensor(batch.gain),
                "old_per_token_logps": torch.tensor(batch.old), "ref_per_token_logps": None,
                "num_items_in_batch": torch.tensor(21.0),
            })  # fmt: skip
            g, x = sides.graph_of(batch)
            counts, entropy = g.constant(batch.mask), g.constant(tokens)
            metric = Acting(entropy, uncertain(entropy, counts, share))
            total = metric.add(total, list(g.output({}, *metric.fetches).values()), 1)
            ours = gw.align.grpo(
                x, counts, g.constant(batch.gain), g.constant(batch.old), None, entropy,
                num_items=21.0, top_entropy_quantile=share, entropy_coef=g.constant(weight),
            ).value  # fmt: skip
            (value,) = g.output({x: batch.logps}, ours).values()
            if batches == 1:  # theirs is a share of the window's
                np.testing.assert_allclose(value, theirs.item(), rtol=1e-5, atol=1e-6)
        control.on_step_end(None, gw.train.Record(step, 1, {NAME: metric.result(total)}, 0.0))
        np.testing.assert_allclose(control.coef, fake.entropy_coef, rtol=1e-6)
    weights = fake._metrics["train"]["entropy_coef"]
    assert len(set(weights)) > 2


def trainer(**settings: Any) -> Any:
    model = Decoder(DecoderConfig(vocabulary=5, width=8, layers=1, heads=2), eos=0)
    method = gw.align.GRPO(
        num_generations=2, max_completion_length=3, steps_per_generation=2,
        use_adaptive_entropy=True, entropy_target=9.0, entropy_coef_delta=0.02,
    )  # fmt: skip
    return gw.align.trainer(model, method, rewards=short, deterministic=True, **settings)


def short(completion_ids: Any) -> list[float]:
    return [-float(len(row)) for row in completion_ids]


PROMPTS = [gw.align.Prompt([1, 2]), gw.align.Prompt([3])]
HOW = {"batch_size": 2, "progress": False}


def test_a_training_feeds_it_and_goes_on_with_it(tmp_path: Any) -> None:
    whole = trainer()
    whole.fit(PROMPTS, epochs=3, **HOW)
    fed = [0.0, 0.02, 0.04, 0.06, 0.08, 0.1]
    np.testing.assert_allclose(whole.history.steps["entropy_coef"], fed, rtol=1e-6)
    first = trainer(callbacks=[gw.Checkpoints(tmp_path)])
    first.fit(PROMPTS, epochs=3, steps=3, **HOW)
    second = trainer()
    gw.resume(second, tmp_path)
    second.fit(PROMPTS, epochs=2, **HOW)
    assert second.history.steps["loss"].tolist() == whole.history.steps["loss"].tolist()
    assert second.history.steps["entropy_coef"].tolist() == (
        whole.history.steps["entropy_coef"].tolist()
    )


def test_what_makes_no_sense() -> None:
    with pytest.raises(TrainingError, match="an entropy bonus is due before"):
        trainer().fit(PROMPTS, epochs=1, unroll=2, **HOW)
    for settings in ({"entropy_coef_min": 2.0}, {"entropy_coef_delta": -1.0}):
        with pytest.raises(GraphError, match="makes no sense"):
            gw.align.GRPO(use_adaptive_entropy=True, **settings)
    with pytest.raises(GraphError, match="GRPO and its kin have an entropy bonus"):
        gw.align.RLOO(use_adaptive_entropy=True)
    assert isinstance(gw.align.GSPO(use_adaptive_entropy=True).entropy_control(), EntropyControl)
