"""``python -m tests.benchmarks.rollouts [model ...]``: rollouts beside transformers, on one thread.

Llamas of random weights, the same for both, draw from the softmax: 16 tokens of prompt, 32 or 64
new ones, none of which ends a row. Times are those of the process, in turns, medians; so others on
the machine do not count, but for caches. Many rows are drawn in groups of 16, too, whose prompt is
read once. Then what 512 completions of four tokens take, as a step on sums has them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")
os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}

import numpy as np  # noqa: E402

from gradwright.align import GenerationSampler, Prompt  # noqa: E402
from gradwright.models import Decoder, DecoderConfig, load_state_dict  # noqa: E402
from tests.support import networks  # noqa: E402

SIZES = "vocabulary", "width", "layers", "heads", "inner"
MODELS = {
    "tiny": ((128, 96, 2, 4, 256), (1, 8, 64, 512), 32),
    "small": ((8192, 384, 8, 6, 1024), (1, 8, 64), 64),
    "base": ((32000, 768, 12, 12, 2048), (1, 8), 64),
}
"""Sizes, rows, and how many new tokens."""
N_PROMPT, ROUNDS = 16, 5


def in_turns(*runs: Callable[[], Any]) -> list[float]:
    """Return the median seconds of the process that each takes."""
    taken: list[list[float]] = [[] for _ in runs]
    for _ in range(ROUNDS):
        for run, held in zip(runs, taken, strict=True):
            began = time.process_time()
            run()
            held.append(time.process_time() - began)
    return [statistics.median(held) for held in taken]


def prompts_of(config: DecoderConfig, n: int) -> list[Prompt]:
    drawn = np.random.default_rng(n).integers(0, config.vocabulary, (n, N_PROMPT))
    return [Prompt(row.tolist()) for row in drawn]


def beside_transformers(name: str) -> None:
    """Print tokens a second of both, for a model."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    sizes, counts, n_new = MODELS[name]
    config = DecoderConfig(**dict(zip(SIZES, sizes, strict=True)), context=1024)
    model, theirs = Decoder(config), networks.llama(config)
    load_state_dict(model, theirs.state_dict())
    for rows in counts:
        for group in (1,) if rows < 64 else (1, 16):
            prompts = prompts_of(config, rows // group)
            ids = torch.tensor([p.tokens for p in prompts for _ in range(group)])
            sampler = GenerationSampler(model, max_new_tokens=n_new)

            def ours(s: Any = sampler, p: Any = prompts, g: int = group) -> Any:
                return s.sample(p, g, 0)

            def other(ids: Any = ids, n: int = n_new) -> Any:
                return theirs.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=n,
                    do_sample=True,
                    top_k=0,
                    pad_token_id=0,
                    eos_token_id=None,
                )

            ours(), other()
            a, b = in_turns(ours, other)
            each = f"{rows:4} rows in groups of {group:2}"
            print(
                f"{name:5} {model.n_weights / 1e6:6.2f} M {each}: ours {rows * n_new / a:8.0f}, "
                f"transformers {rows * n_new / b:8.0f} tokens a second; {b / a:.2f} times",
                flush=True,
            )


def small_completions() -> None:
    """Print what 128 prompts in groups of 4 take, four tokens each, of a model of 237 k weights."""
    config = DecoderConfig(
        vocabulary=14, width=96, layers=2, heads=4, inner=384, context=32, positions="learned",
        norm="layer", activation="gelu", gated=False, qkv_bias=True, out_bias=True, mlp_bias=True,
    )  # fmt: skip
    model = Decoder(config)
    sampler = GenerationSampler(model, max_new_tokens=4)
    prompts = [Prompt(p.tokens[:6]) for p in prompts_of(config, 128)]
    sampler.sample(prompts, 4, 0)
    (seconds,) = in_turns(lambda: sampler.sample(prompts, 4, 0))
    print(f"{model.n_weights:,} weights, 512 completions of 4 tokens: {1e3 * seconds:.1f} ms")


def main() -> None:
    """Print all of it, or what models are named."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.rollouts", description=__doc__
    )
    parser.add_argument("models", nargs="*", choices=[*MODELS, []])
    for name in parser.parse_args().models or MODELS:
        beside_transformers(name)
    small_completions()


if __name__ == "__main__":
    main()
