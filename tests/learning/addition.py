"""Sums of two numbers of two digits, and a teacher that forgets to carry: where alignment begins.

A prompt is ``37+45=``, its answer ``280`` and the end: the sum, 082, from its last digit on. Of all
10,000 prompts a split, whose seed is chosen when it is run, leaves 1,000 to judge. The teacher
forgets, in 70 of 100 of its demonstrations, the carry out of the ones. Who has learned from it is
sure, and wrong in a systematic way: greedily it answers nearly all sums without a carry and hardly
one with, and still draws the right answer in a third of these. So it is seen whether a method moves
what is likeliest, and not only sharpens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.align import Prompt
from gradwright.models import CharTokenizer, Decoder, DecoderConfig
from gradwright.models.decoder.rows import padded_rows

Array = np.ndarray[Any, Any]
FOLDER = Path("build/learning")
PAD, END = "_", "\n"
CODEC = CharTokenizer(PAD + "0123456789+=" + END)
EOS = len(CODEC.characters) - 1
FORM = r"\d{3}"
"""What an answer looks like, before its end."""
CONFIG = DecoderConfig(
    vocabulary=len(CODEC.characters),
    width=96,
    layers=2,
    heads=4,
    inner=384,
    context=16,
    norm="layer",
    activation="gelu",
    gated=False,
    positions="learned",
    qkv_bias=True,
    out_bias=True,
    mlp_bias=True,
)
"""GPT's shape, 228,096 weights."""
SMALL = replace(CONFIG, width=64, inner=256)
"""For sums in base 6, which are 1,296."""
LEARNED, MOST = 0.2, 2000
"""Nats a token at which sums without a carry are learned, and how many steps that may take; what
the teacher forgets by chance is 0.07."""
FORGETS = 0.7
"""How often the teacher forgets the carry out of the ones."""


@dataclass(frozen=True)
class Sum:
    """A sum to tell."""

    a: int
    b: int
    base: int = 10

    @property
    def prompt(self) -> str:
        first, second = (spelled(n, self.base)[1::-1] for n in (self.a, self.b))
        return f"{first}+{second}="

    @property
    def carries(self) -> bool:
        return self.a % self.base + self.b % self.base >= self.base

    @property
    def answer(self) -> str:
        return spelled(self.a + self.b, self.base)

    @property
    def forgotten(self) -> str:
        """The answer of who forgets the carry out of the ones; the right one where none is."""
        return spelled(self.a + self.b - self.base * self.carries, self.base)


def spelled(n: int, base: int = 10) -> str:
    """Return a sum as it is told: three digits, the last one first.

    >>> spelled(82), spelled(8, base=6)
    ('280', '210')
    """
    return "".join(str(n // base**i % base) for i in range(3))


@dataclass(frozen=True)
class Split:
    """The sums to learn, and a tenth of all, in base 6 a sixth, that judge."""

    seed: int
    base: int = 10

    @cached_property
    def parts(self) -> tuple[list[Sum], list[Sum]]:
        n = self.base**2
        order = np.random.default_rng((99, self.seed)).permutation(n * n)
        sums = [Sum(int(i) // n, int(i) % n, self.base) for i in order]
        cut = len(sums) // self.base
        return sums[cut:], sums[:cut]

    @property
    def learned(self) -> list[Sum]:
        return self.parts[0]

    @property
    def held_out(self) -> list[Sum]:
        return self.parts[1]

    def prompts(self, sums: Sequence[Sum] | None = None) -> list[Prompt]:
        """Return prompts, by default those that judge."""
        return [
            Prompt(
                CODEC.encode(s.prompt), s.prompt, {"answer": s.answer, "carries": bool(s.carries)}
            )
            for s in (self.held_out if sums is None else sums)
        ]


def model(
    values: Mapping[str, Array] | None = None, seed: int = 0, config: DecoderConfig = CONFIG
) -> Decoder:
    return Decoder(config, seed=seed, values=values, tokenizer=CODEC, eos=EOS)


def demonstrations(
    split: Split, seed: int, rows: int, steps: int, forgets: float = FORGETS
) -> Iterator[dict[str, Array]]:
    """Yield batches of what the teacher shows."""
    rng = np.random.default_rng((7, seed))
    for _ in range(steps):
        drawn = [split.learned[i] for i in rng.integers(0, len(split.learned), rows)]
        forgotten = rng.random(rows) < forgets
        said = [s.forgotten if f else s.answer for s, f in zip(drawn, forgotten, strict=True)]
        yield batch([s.prompt for s in drawn], said)


def batch(prompts: Sequence[str], answers: Sequence[str]) -> dict[str, Array]:
    """Return ids and labels of prompts with their answers and ends: the prompt has no label."""
    rows = [CODEC.encode(p + a + END) for p, a in zip(prompts, answers, strict=True)]
    return padded_rows(rows, len(prompts[0]))


def start(
    split: Split,
    seed: int = 0,
    steps: int | None = None,
    rows: int = 256,
    config: DecoderConfig = CONFIG,
) -> dict[str, Array]:
    """Return the weights that the teacher's demonstrations lead to.

    Without ``steps`` they are shown until the loss says that sums without a carry are learned, and
    300 steps more, in which the rate falls (with 100, GRPO came to .87 of a start that is half
    sure): when that is, 300 steps or 900, seed and split decide, and a start that is cut before is
    a lottery. Matrices begin 2.5 times as large as others do, with deviations of 0.05, with which
    it is sooner.
    """
    made, losses = model(seed=1000 * seed, config=config), []
    for name, shape in config.weights():
        if len(shape) > 1:
            made.graph.values[name] = made.graph.values[name] * np.float32(2.5)

    def optimizer(last: int, warmup: int) -> gw.optim.AdamW:
        rates = gw.schedules.Linear(3e-3, steps=last, warmup=warmup, floor=3e-4)
        return gw.optim.AdamW(rates, beta2=0.99, weight_decay=0.01)

    first = optimizer(MOST * 100 if steps is None else steps, 20)
    trainer = gw.Trainer(made.graph, made.loss, first, clip_norm=1.0, deterministic=True)
    for step, fed in enumerate(demonstrations(split, seed, rows, MOST), 1):
        record = trainer.step(fed)
        assert record is not None
        losses.append(record.metrics["loss"])
        if steps is None and np.mean(losses[-20:]) < LEARNED:
            steps = step + 300
            trainer.optimizer = optimizer(steps, step)
        if step == steps:
            return {v.name: made.graph.values[v.name].copy() for v in made.graph.variables}
    raise AssertionError(f"nothing is learned in {MOST} steps: {np.mean(losses[-20:]):.3f}")
