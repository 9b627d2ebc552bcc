"""Small pipelines to test; ``python -m tests.align.pipelines FOLDER N`` dies after N rewards.

A character is to be answered with the next one of the alphabet. Demonstrations show it for some
characters, preferences for others, and a reward tells it of all.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.align import DPO, GRPO, SFT, ExactMatch, Pipeline, Prompt, Stage
from gradwright.models import CharTokenizer, Decoder, DecoderConfig

LETTERS = "abcdefgh"
CODEC = CharTokenizer(LETTERS + "\n")
END = len(LETTERS)
NEXT = dict(zip(LETTERS, LETTERS[1:] + LETTERS[0], strict=True))
TUNE = Stage(
    "tune", SFT(), steps=6, batch_size=4, training={"optimizer": gw.optim.Adam(0.03)}, every_steps=2
)
PREFER = Stage(
    *("prefer", DPO(beta=0.5)),
    **{"steps": 4, "batch_size": 4, "training": {"optimizer": gw.optim.Adam(0.01)}},
)
DRAW = Stage(
    "draw",
    GRPO(num_generations=4, max_completion_length=2, num_iterations=2),
    steps=8,
    batch_size=16,
    training={"optimizer": gw.optim.Adam(0.01)},
    every_steps=2,
)


def make() -> Decoder:
    """Return the model that all begin with."""
    config = DecoderConfig(vocabulary=END + 1, width=16, layers=1, heads=2, context=8)
    return Decoder(config, tokenizer=CODEC, eos=END)


def make_adapted() -> Decoder:
    """Return it with an adapter, all else frozen."""
    model = make()
    gw.adapters.add(model, gw.adapters.LoRA(r=4), where="all-linear", seed=1)
    return model


def prompts(letters: str = LETTERS) -> list[Prompt]:
    return [Prompt(CODEC.encode(c), c, {"answer": NEXT[c], "late": c > "d"}) for c in letters]


DATA: dict[str, Any] = {
    "tune": [{"prompt": c, "completion": NEXT[c]} for c in LETTERS[:6]],
    "prefer": [{"prompt": c, "chosen": NEXT[c], "rejected": c} for c in LETTERS[4:]],
    "draw": prompts(),
}
EXAM = {"max_new_tokens": 2, "samples": 0, "slices": ["late"]}


def right(prompts: Sequence[str], completions: Sequence[str], **_: Any) -> list[float]:
    """Give 1 to the next letter."""
    return [float(c == NEXT[p]) for p, c in zip(prompts, completions, strict=True)]


def pipeline(
    *stages: Stage,
    reward: Any = right,
    maker: Callable[[], Decoder] = make,
    **exam: Any,
) -> Pipeline:
    """Return a pipeline of some stages."""
    names = [stage.name for stage in stages]
    return Pipeline(
        stages,
        maker,
        {name: DATA[name] for name in names},
        given={"draw": {"rewards": reward}} if "draw" in names else {},
        prompts=prompts(),
        verifier=ExactMatch("answer"),
        exam=EXAM | exam,
    )


def killed_in(n: int) -> Callable[..., Any]:
    """Return a reward that ends its process after n calls."""
    left = iter(range(n))

    def reward(prompts: Sequence[str], completions: Sequence[str], **columns: Any) -> list[float]:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return right(prompts, completions, **columns)

    reward.__name__ = right.__name__  # curves have its name
    return reward


def values(model: Decoder) -> dict[str, bytes]:
    return {v.name: np.asarray(model.graph.values[v.name]).tobytes() for v in model.graph.variables}


if __name__ == "__main__":
    reward = killed_in(int(sys.argv[2]))
    pipeline(TUNE, replace(DRAW, steps=6), reward=reward).run(sys.argv[1], progress=False)
