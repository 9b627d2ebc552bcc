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

import gradwright as gw  # noqa: E402
from tests.align import trainers_of_theirs as sides  # noqa: E402
from tests.benchmarks.alignment_grpo import grpo  # noqa: E402

SIZES = {
    "hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 4, "vocab_size": 2048,
    "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 512,
}  # fmt: skip
PAIRS, LONGEST, ROUNDS = 8, 64, 15


def dpo() -> None:
    """A step of DPO: policy and reference forward, backward, AdamW."""
    import torch
    from transformers import AutoModelForCausalLM
    from trl import DPOConfig, DPOTrainer

    torch.set_num_threads(1)
    folder = sides.folder(Path(tempfile.mkdtemp()), **SIZES)
    data = sides.rows("prompt", "chosen", "rejected", n=PAIRS, longest=LONGEST)
    settings = {**sides.PLAIN, "per_device_train_batch_size": PAIRS}
    theirs = DPOTrainer(
        AutoModelForCausalLM.from_pretrained(folder),
        args=DPOConfig(output_dir=str(folder / "out"), **settings),
        train_dataset=sides.texts(data),
        processing_class=sides.tokenizer(),
    )
    theirs.create_optimizer_and_scheduler(1000)
    theirs.current_gradient_accumulation_steps = 1
    batch = next(iter(theirs.get_train_dataloader()))

    def step_of_theirs() -> None:
        theirs.training_step(theirs.model, batch)
        torch.nn.utils.clip_grad_norm_(theirs.model.parameters(), 1.0)
        theirs.optimizer.step()
        theirs.optimizer.zero_grad()

    model = gw.models.from_pretrained(folder)
    session = gw.Session(model.graph, threads=1)
    mine = gw.align.trainer(model, gw.align.DPO(), session=session)
    rows = gw.align.examples(data, "pair", eos=sides.EOS)
    feeds = mine.objective.feeds(rows)

    def step_of_ours() -> None:
        mine.fit(rows, steps=1, batch_size=PAIRS, shuffle=False, progress=False)

    for _ in range(4):  # kernels are compiled from the third step on
        step_of_ours(), step_of_theirs()
    width = max(v.shape[1] for v in feeds.values() if v.ndim > 1)
    print(f"DPO: {PAIRS} pairs of up to {width} tokens")
    race({"gradwright": step_of_ours, "TRL": step_of_theirs})


def race(rivals: dict[str, Callable[[], None]]) -> None:
    """Time rivals in turns, and print medians, and the ratio of each to the first."""
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(ROUNDS):
        for name, run in rivals.items():
            began = time.process_time()
            run()
            taken[name].append(time.process_time() - began)
    first = statistics.median(next(iter(taken.values())))
    for name, times in taken.items():
        low, median, high = statistics.quantiles(times, n=4)
        spread = f"[{low * 1e3:.1f}-{high * 1e3:.1f}]"
        print(f"  {name:<12} {median * 1e3:8.1f} ms {spread}  {median / first:5.2f}x")


BENCHES = {"dpo": dpo, "grpo": lambda: grpo(SIZES, race)}


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
