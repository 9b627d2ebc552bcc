"""``python -m tests.benchmarks.generation``: tokens a second beside transformers, on one thread.

A Llama of 20 million random weights, the same for both, goes on greedily from 16 tokens, one row
and several, in turns; the tokens must be equal. Then what our loop takes outside the plan, per
token and strategy, and what a new length of prompt takes.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")
os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}

import numpy as np  # noqa: E402

from gradwright.models import (  # noqa: E402
    Decoder,
    DecoderConfig,
    Generation,
    Greedy,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    load_state_dict,
)
from tests.support import networks  # noqa: E402

CONFIG = DecoderConfig(vocabulary=8192, width=384, layers=8, heads=6, inner=1024, context=1024)
N_PROMPT, N_NEW, ROUNDS = 16, 128, 5


def llama() -> tuple[Any, Any]:
    """Return transformers' model of these sizes, and torch."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return networks.llama(CONFIG), torch


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = run()
    return time.perf_counter() - began, found


def beside_transformers(generation: Generation, theirs: Any, torch: Any) -> None:
    """Print milliseconds a step of both, which is a token of each row."""
    print(f"{'rows':>4} {'ours':>9} {'HF':>9}   ms a step, median of {ROUNDS}")
    for rows in (1, 2, 4, 8):
        prompts = np.random.default_rng(rows).integers(0, CONFIG.vocabulary, (rows, N_PROMPT))
        ids = torch.from_numpy(prompts)

        def ours(prompts: Any = prompts) -> Any:
            return [row.tokens for row in generation.generate(prompts, N_NEW)]

        def other(ids: Any = ids) -> Any:
            found = theirs.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=N_NEW,
                do_sample=False,
                pad_token_id=0,
                eos_token_id=None,
            )
            return found[:, N_PROMPT:].tolist()

        ours(), other()
        generation.session.wait_for_kernels()
        taken: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(ROUNDS):
            a, tokens = seconds(ours)
            b, wanted = seconds(other)
            taken["ours"].append(1e3 * a / N_NEW)
            taken["theirs"].append(1e3 * b / N_NEW)
        same = sum(t == w for t, w in zip(tokens, wanted, strict=True))
        medians = [statistics.median(v) for v in taken.values()]
        print(f"{rows:4} {medians[0]:9.2f} {medians[1]:9.2f}   {same} of {rows} rows equal")


def outside_the_plan(generation: Generation) -> None:
    """Print microseconds a token that the loop takes beside the runs of the graph."""
    run, spent = generation.run, 0.0

    def timed(*feeds: Any) -> Any:
        nonlocal spent
        took, found = seconds(lambda: run(*feeds))
        spent += took
        return found

    generation.run = timed
    prompt = [list(range(N_PROMPT))]
    for sampling in (
        [Greedy()],
        [Temperature(0.8)],
        [Temperature(0.8), TopK(50)],
        [Temperature(0.8), TopP(0.9)],
        [RepetitionPenalty(1.1), Temperature(0.8), TopK(50), TopP(0.9)],
    ):
        found = []
        for _ in range(3):
            spent = 0.0
            whole, _ = seconds(lambda s=sampling: generation.generate(prompt, N_NEW, sampling=s))
            found.append(1e6 * (whole - spent) / N_NEW)
        print(f"{min(found):8.1f} µs a token outside the plan: {sampling}")
    generation.run = run


def new_lengths(generation: Generation) -> None:
    """Print what the first prompt of a length takes, and what the second does."""
    for n in (10, 20, 40, 100, 300):
        first, again = (seconds(lambda n=n: generation.generate([[1] * n], 1))[0] for _ in "ab")
        print(f"{n:4} tokens of prompt: {1e3 * first:7.1f} ms at first, {1e3 * again:6.1f} ms then")


def main() -> None:
    """Print all of it."""
    model, (theirs, torch) = Decoder(CONFIG), llama()
    load_state_dict(model, theirs.state_dict())
    generation = model.generation()
    print(f"{model.n_weights / 1e6:.1f} million weights, {N_PROMPT} + {N_NEW} tokens, one thread")
    beside_transformers(generation, theirs, torch)
    outside_the_plan(generation)
    new_lengths(generation)


if __name__ == "__main__":
    main()
