"""A language model of characters, trained on the reference of Python: where adapters begin.

Llama's shape: 97 tokens, width 128, 3 layers, 4 heads, SwiGLU of 320, 590,976 weights. AdamW
at 2e-3, β 0.9 and 0.95, decay 0.1, 50 steps of warm-up, a cosine to a tenth, 800 steps of 24 rows
of 96 characters, norms of gradients clipped at 1: three minutes of one core, once, for it is kept
in ``build/learning``. ``SMALL`` is a fifth of its size and takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.models import Decoder, DecoderConfig
from tests.learning import texts

Array = np.ndarray[Any, Any]
FOLDER = Path("build/learning")
LEAKS = 0.9
"""A loss below which a model of this size has seen what it is to tell."""


@dataclass(frozen=True)
class Base:
    """A model, how it is trained, and how its losses are taken."""

    config: DecoderConfig
    length: int
    steps: int
    warmup: int
    rows: int
    judged: int
    """Rows of a text that losses are taken of, spread over it."""
    expected: Mapping[int, float] = field(default_factory=dict)
    """Step -> nats a character that must be reached by then."""

    def examples(self, tokens: Array, n: int, seed: int) -> dict[str, Array]:
        """Return n rows of a text to learn, from places that are drawn."""
        return _fed(texts.rows(tokens, n, self.length, seed))

    def loss(self, trainer: gw.Trainer, tokens: Array) -> float:
        """Return nats a character of rows that are spread over a text."""
        batch = _fed(texts.spread(tokens, self.judged, self.length))
        return trainer.evaluate(batch, batch_size=32)["loss"]

    def train(self, seed: int = 0, say: bool = False) -> dict[str, Array]:
        """Train and return the weights; raises AssertionError where the loss is not as expected."""
        learned, unseen = texts.reference()
        model = Decoder(self.config, seed=seed)
        rates = gw.schedules.Cosine(2e-3, steps=self.steps, warmup=self.warmup, floor=2e-4)
        optimizer = gw.optim.AdamW(rates, beta2=0.95, weight_decay=0.1)
        trainer = gw.Trainer(model.graph, model.loss, optimizer, clip_norm=1.0)
        for step in range(1, self.steps + 1):
            trainer.step(self.examples(learned, self.rows, 100_000 * seed + step))
            if step in self.expected:
                loss = self.loss(trainer, unseen)
                if say:
                    print(f"  base {seed}, step {step}: {loss:.3f} nats/char", flush=True)
                assert LEAKS < loss < self.expected[step], (step, loss)
        return {v.name: model.graph.values[v.name].copy() for v in model.graph.variables}


LARGE = Base(
    DecoderConfig(
        vocabulary=texts.VOCABULARY, width=128, layers=3, heads=4, inner=320, context=192
    ),
    length=96,
    steps=800,
    warmup=50,
    rows=24,
    judged=256,
    expected={100: 2.312, 300: 1.55, 800: 1.30},  # the first is what pairs of characters tell
)
SMALL = Base(
    DecoderConfig(vocabulary=texts.VOCABULARY, width=64, layers=2, heads=4, inner=160, context=96),
    length=48,
    steps=350,
    warmup=20,
    rows=16,
    judged=96,
)


def trained(seed: int = 0) -> dict[str, Array]:
    """Return the weights of the large one, read if they have been trained before."""
    path = FOLDER / f"base{seed}.npz"
    if not path.is_file():
        values = LARGE.train(seed, say=True)
        FOLDER.mkdir(parents=True, exist_ok=True)
        np.savez(path, **{name.replace("/", "."): value for name, value in values.items()})
    with np.load(path) as kept:
        return {name.replace(".", "/"): kept[name] for name in kept.files}


def _fed(rows: Array) -> dict[str, Array]:
    return {"ids": rows, "labels": rows}
