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
    ids = np.array([CODEC.encode(p + a + END) for p, a in zip(prompts, answers, strict=True)])
    labels = ids.copy()
    labels[:, : len(prompts[0])] = -100
    return {"ids": ids, "labels": labels}


def start(
    split: Split,
    seed: int = 0,
    steps: int = 400,
    rows: int = 256,
    config: DecoderConfig = CONFIG,
) -> dict[str, Array]:
    """Return the weights that the teacher's demonstrations lead to.

    Matrices begin 2.5 times as large as others do, with deviations of 0.05: at this width 400 steps
    are then enough to learn the sums without a carry, and how often the teacher carries.
    """
    made = model(seed=1000 * seed, config=config)
    for name, shape in config.weights():
        if len(shape) > 1:
            made.graph.values[name] = made.graph.values[name] * np.float32(2.5)
    rates = gw.schedules.Linear(3e-3, steps=steps, warmup=20, floor=3e-4)
    optimizer = gw.optim.AdamW(rates, beta2=0.99, weight_decay=0.01)
    trainer = gw.Trainer(made.graph, made.loss, optimizer, clip_norm=1.0, deterministic=True)
    for fed in demonstrations(split, seed, rows, steps):
        trainer.step(fed)
    return {v.name: made.graph.values[v.name].copy() for v in made.graph.variables}
