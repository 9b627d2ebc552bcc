"""``python -m tests.align.stored``: what TRL 1.12's own trainer of PPO computes, into ``ppo.npz``.

TRL 1.16 has no PPO, so 1.12 is fetched, beside the TRL of the other tests. Its ``train`` is one
function of 400 lines: what it computes is read off its frame, each time it asks for a gradient. For
each of ``given.SETTINGS`` the file holds a rollout of a tiny Llama with what its tokens are worth,
and of each batch its rows, log-probabilities and values, the loss, and the gradients of both.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .given import FILE, SETTINGS

VERSION = "1.12.0"
PACKAGES = Path("build/oracle-ppo")

Array = np.ndarray[Any, Any]
ROLLOUT = "logprobs", "ref_logprobs", "values", "scores", "rewards", "advantages", "returns"
BATCH = "micro_batch_inds", "new_logprobs", "vpred", "loss", "pg_loss", "vf_loss"


def main() -> None:
    if not (PACKAGES / f"trl-{VERSION}.dist-info").is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--target", str(PACKAGES), f"trl=={VERSION}"], check=True)
    sys.path.insert(0, str(PACKAGES))
    kept: dict[str, Array] = {}
    for name, settings in SETTINGS.items():
        for key, value in ran(settings).items():
            kept[f"{name}/{key}"] = value
    np.savez_compressed(FILE, **kept)
    print(f"{FILE.name}: {len(kept)} arrays, {FILE.stat().st_size} bytes")


def ran(settings: dict[str, Any]) -> dict[str, Array]:
    """Return what one rollout and two passes of two batches over it come to in TRL."""
    import torch
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification
    from trl.experimental.ppo import PPOConfig, PPOTrainer

    from tests.align.trainers_of_theirs import EOS, PLAIN, SIZES, WORDS, tokenizer

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = LlamaConfig(**SIZES)
    policy, reference = LlamaForCausalLM(config), LlamaForCausalLM(config)
    with torch.no_grad():
        policy.lm_head.weight[EOS] *= 4  # so that some completions end, and others do not
    config = LlamaConfig(**SIZES, num_labels=1)
    reward, critic = (LlamaForSequenceClassification(config) for _ in range(2))
    rng = np.random.default_rng(1)
    prompts = [{"input_ids": rng.integers(3, WORDS, 4).tolist()} for _ in range(16)]
    words = tokenizer()
    words.padding_side = "left"
    with tempfile.TemporaryDirectory() as folder:
        args = PPOConfig(
            **PLAIN | {"per_device_train_batch_size": 16},
            output_dir=folder, gradient_accumulation_steps=1, num_mini_batches=2, num_ppo_epochs=2,
            total_episodes=16, response_length=7, stop_token="eos", learning_rate=3e-2,
            num_sample_generations=0, save_strategy="no", seed=3, **settings,
        )  # fmt: skip
        trainer = PPOTrainer(
            args, words, policy, reference, reward, Dataset.from_list(prompts), critic
        )
        found: dict[str, Array] = {}
        batches: list[dict[str, Array]] = []
        backward = trainer.accelerator.backward

        def watched(loss: Any) -> None:
            seen = sys._getframe(1).f_locals
            for name in ("new_logprobs", "vpred"):
                seen[name].retain_grad()
            backward(loss)
            if not batches:
                found.update({name: seen[name].numpy(force=True) for name in ROLLOUT})
                found["mask"] = ~seen["padding_mask"].numpy()
                found["ended"] = ended = seen["contain_eos_token"].numpy()
                found["scores"] = found["scores"] + ~ended * (args.missing_eos_penalty or 0)
            told = {name: np.asarray(_array(seen[name])) for name in BATCH}
            for name in ("new_logprobs", "vpred"):
                told[f"{name}_grad"] = seen[name].grad.numpy().copy()
            batches.append(told)

        trainer.accelerator.backward = watched
        trainer.train()
    told = trainer.state.log_history[0]
    found |= {f"metrics/{name}": np.asarray(told[name]) for name in told if "/" in name}
    for i, batch in enumerate(batches):
        found |= {f"{i}/{name}": value for name, value in batch.items()}
    return found


def _array(value: Any) -> Array:
    return value.numpy(force=True).copy() if hasattr(value, "numpy") else np.asarray(value)


if __name__ == "__main__":
    main()
