"""``python -m tests.benchmarks.alignment dpo grpo``: steps beside TRL's, on one thread.

A small Llama on both sides, the same rows in the same batches. Times are of the processor, in
turns, for another process on the same core would count on the wall. Above 1, ours is faster.
"""

from __future__ import annotations

import os

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")

import argparse  # noqa: E402
import statistics  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, NamedTuple  # noqa: E402

import gradwright as gw  # noqa: E402
from tests.align import trainers_of_theirs as sides  # noqa: E402

SIZES = {
    "hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 4, "vocab_size": 2048,
    "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 512,
}  # fmt: skip
TINY = {
    "hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 2, "vocab_size": 32,
    "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip
"""About the size of a model that learns to add two numbers, and how it is sampled."""
PAIRS, LONGEST, ROUNDS = 8, 64, 15


class Case(NamedTuple):
    """How many prompts of up to how many tokens, and completions of each."""

    prompts: int
    longest_prompt: int
    group: int
    longest: int


def dpo() -> None:
    """A step of DPO: policy and reference forward, backward, AdamW."""
    from transformers import AutoModelForCausalLM
    from trl import DPOConfig, DPOTrainer

    folder = sides.folder(Path(tempfile.mkdtemp()), **SIZES)
    data = sides.rows("prompt", "chosen", "rejected", n=PAIRS, longest=LONGEST)
    settings = {**sides.PLAIN, "per_device_train_batch_size": PAIRS}
    theirs = DPOTrainer(
        AutoModelForCausalLM.from_pretrained(folder),
        args=DPOConfig(output_dir=str(folder / "out"), **settings),
        train_dataset=sides.texts(data),
        processing_class=sides.tokenizer(),
    )
    model = gw.models.from_pretrained(folder)
    session = gw.Session(model.graph, threads=1)
    mine = gw.align.trainer(model, gw.align.DPO(), session=session)
    rows = gw.align.examples(data, "pair", eos=sides.EOS)
    width = max(v.shape[1] for v in mine.objective.feeds(rows).values() if v.ndim > 1)

    def step() -> None:
        mine.fit(rows, steps=1, batch_size=PAIRS, shuffle=False, progress=False)

    race(step, theirs)
    print(f"  DPO: {PAIRS} pairs of up to {width} tokens")


def grpo() -> None:
    """Steps of GRPO with their rollouts, of few long completions and of many short ones."""
    rollouts(SIZES, Case(4, 16, 8, 32))
    rollouts(TINY, Case(128, 6, 4, 5))


def rollouts(sizes: dict[str, int], case: Case) -> None:
    """Time a step of GRPO: sampling, rewards, advantages, an update."""
    from transformers import AutoModelForCausalLM
    from trl import GRPOConfig, GRPOTrainer

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
    model = gw.models.from_pretrained(folder)
    mine = gw.align.trainer(
        model,
        gw.align.GRPO(num_generations=case.group, max_completion_length=case.longest),
        rewards=different,
        session=gw.Session(model.graph, threads=1),
    )
    prompts = [gw.align.Prompt(row["prompt"]) for row in data]

    def step() -> None:
        mine.fit(prompts, steps=1, batch_size=rows, progress=False)

    race(step, theirs)
    ours = mine.objective.experience.rollout.lengths.mean()
    other = theirs._metrics["train"]["completions/mean_length"][-1]
    print(f"  GRPO: {rows} completions, of {ours:.1f} tokens here and {other:.1f} there")


def different(completion_ids: Any, **_: Any) -> list[float]:
    """Return how many different tokens each completion has."""
    return [float(len(set(row))) for row in completion_ids]


def race(step: Callable[[], None], theirs: Any) -> None:
    """Time our step and one of TRL's trainer in turns; print medians, and their ratio."""
    import torch

    torch.set_num_threads(1)
    theirs.create_optimizer_and_scheduler(1000)
    theirs.current_gradient_accumulation_steps = 1
    batch = next(iter(theirs.get_train_dataloader()))

    def step_of_theirs() -> None:
        theirs.training_step(theirs.model, batch, None)
        torch.nn.utils.clip_grad_norm_(theirs.model.parameters(), 1.0)
        theirs.optimizer.step()
        theirs.optimizer.zero_grad()

    rivals = {"gradwright": step, "TRL": step_of_theirs}
    for _ in range(4):  # kernels are compiled from the third step on
        for run in rivals.values():
            run()
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(ROUNDS):
        for name, run in rivals.items():
            began = time.process_time()
            run()
            taken[name].append(time.process_time() - began)
    first = statistics.median(taken["gradwright"])
    for name, times in taken.items():
        low, median, high = statistics.quantiles(times, n=4)
        spread = f"[{low * 1e3:.1f}-{high * 1e3:.1f}]"
        print(f"  {name:<12} {median * 1e3:8.1f} ms {spread}  {median / first:5.2f}x")


BENCHES = {"dpo": dpo, "grpo": grpo}


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.alignment", description=__doc__
    )
    parser.add_argument("which", nargs="*", choices=[*BENCHES, []])
    for name in parser.parse_args().which or BENCHES:
        BENCHES[name]()


if __name__ == "__main__":
    main()
