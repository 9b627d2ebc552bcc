"""A step of GRPO with its rollout, beside TRL's: sampling, rewards, advantages, an update."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gradwright as gw
from tests.align import trainers_of_theirs as sides

Race = Callable[[dict[str, Callable[[], None]]], None]
TINY = {
    "hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 2, "vocab_size": 32,
    "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip
"""About the size of a model that learns to add two numbers, and how it is sampled."""


class Case(NamedTuple):
    """How many prompts of up to how many tokens, and completions of each."""

    prompts: int
    longest_prompt: int
    group: int
    longest: int


def different(completion_ids: Any, **_: Any) -> list[float]:
    """Return how many different tokens each completion has."""
    return [float(len(set(row))) for row in completion_ids]


def grpo(sizes: dict[str, int], race: Race) -> None:
    """Time steps of two models: few long completions, and many short ones."""
    steps(sizes, Case(4, 16, 8, 32), race)
    steps(TINY, Case(128, 6, 4, 5), race)


def steps(sizes: dict[str, int], case: Case, race: Race) -> None:
    """Time steps of a model on prompts."""
    import torch
    from transformers import AutoModelForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    folder = sides.folder(Path(tempfile.mkdtemp()), **sizes)
    data = sides.rows("prompt", n=case.prompts, longest=case.longest_prompt)
    rows = case.prompts * case.group
    theirs = GRPOTrainer(
        AutoModelForCausalLM.from_pretrained(folder),
        reward_funcs=different,
        args=GRPOConfig(
            output_dir=str(folder / "out"),
            **{**sides.PLAIN, "per_device_train_batch_size": rows},
            num_generations=case.group,
            max_completion_length=case.longest,
        ),
        train_dataset=sides.texts(data),
        processing_class=sides.tokenizer(),
    )
    theirs.create_optimizer_and_scheduler(1000)
    theirs.current_gradient_accumulation_steps = 1
    batch = next(iter(theirs.get_train_dataloader()))

    def step_of_theirs() -> None:
        theirs.training_step(theirs.model, batch, None)
        torch.nn.utils.clip_grad_norm_(theirs.model.parameters(), 1.0)
        theirs.optimizer.step()
        theirs.optimizer.zero_grad()

    model = gw.models.from_pretrained(folder)
    mine = gw.align.trainer(
        model,
        gw.align.GRPO(num_generations=case.group, max_completion_length=case.longest),
        rewards=different,
        session=gw.Session(model.graph, threads=1),
    )
    prompts = [gw.align.Prompt(row["prompt"]) for row in data]

    def step_of_ours() -> None:
        mine.fit(prompts, steps=1, batch_size=rows, progress=False)

    for _ in range(4):  # kernels are compiled from the third step on
        step_of_ours(), step_of_theirs()
    lengths = mine.objective.experience.rollout.lengths, theirs._metrics["train"]
    ours, other = lengths[0].mean(), lengths[1]["completions/mean_length"][-1]
    print(f"GRPO: {rows} completions, of {ours:.1f} tokens here and {other:.1f} there")
    race({"gradwright": step_of_ours, "TRL": step_of_theirs})
