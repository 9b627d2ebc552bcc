"""``python -m tests.learning.vision``: who misnames digits learns from rewards to name them.

Images are scikit-learn's handwritten digits, 8x8 in 16 patches; all are asked ``what``, and the
answer is such as ``digit seven`` and the end. Of 1,797 images a split, whose seed is chosen when it
is run, holds out 500, which nothing is trained on. The teacher names digits from 5 on as another
one in 65 of 100 demonstrations: who has learned from it sees them, and still says the wrong name.
GRPO (μ = 2, 2 batches of a rollout, β = 0.02) then draws 16 answers to each of 32 images, forty
times, and pays for the right text with its end.

The prompt is the same for all, so a policy that does not look is right one time in ten. That is
what must be left where images are shuffled, and what is paid where completions are given the images
of others, in the order of ``numpy.tile`` in the place of ``numpy.repeat``. Nothing is learned of
that, nor of pay by chance; these two begin with an honest teacher, for after the other one it would
be enough to say all names equally often, for which nobody has to look.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from unittest import mock
from zlib import crc32

import numpy as np
from sklearn.datasets import load_digits

import gradwright as gw
from gradwright.align import GenerationSampler, HeldOut, Prompt, Rollout
from gradwright.align.objectives import drawing, policy
from gradwright.models import CharTokenizer, DecoderConfig, VisionLanguage, VisionLanguageConfig
from gradwright.words.tables import Table
from tests.learning.results import AS_MUST, write

Array = np.ndarray[Any, Any]
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
ASKED, END = "what", "\n"
CODEC = CharTokenizer(END + "".join(sorted({*"what digit", *"".join(NAMES)})))
LONGEST = 14
"""Tokens of an answer, at the most: ``digit seven``, its end, and some to be wrong with."""
SLOPPY = 0.65
TEACHERS = {"minus five": lambda d: d - 5, "from nine": lambda d: 9 - d}
"""What a teacher says of digits from 5 on, when it is wrong."""
REACHED = 0.80
"""What forty rollouts came to at the least in a reference, .835, without three points."""


@dataclass(frozen=True)
class Digits:
    """Images to learn from, and those that judge."""

    seed: int
    teacher: str = "minus five"

    @cached_property
    def parts(self) -> tuple[Array, Array, Array, Array]:
        images, labels = load_digits(return_X_y=True)
        images = (images / 16.0).astype("float32").reshape(-1, 8, 8)
        kept, held_out = np.split(
            np.random.default_rng((99, self.seed)).permutation(len(images)), [-500]
        )
        return images[kept], labels[kept], images[held_out], labels[held_out]

    def drawn(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        """Return images to learn from, with noise, and the digits."""
        images, labels, _, _ = self.parts
        at = rng.integers(0, len(images), n)
        noise = rng.normal(0, 0.1, (n, 8, 8))
        return (images[at] + noise).astype("float32"), labels[at]

    def demonstrations(self, seed: int, rows: int, sloppy: float) -> Iterator[tuple[Array, Any]]:
        """Yield images and what the teacher says of them."""
        rng, wrong = np.random.default_rng((7, seed)), TEACHERS[self.teacher]
        while True:
            images, labels = self.drawn(rng, rows)
            errs = (labels >= 5) & (rng.random(rows) < sloppy)
            yield images, [NAMES[wrong(d) if e else d] for d, e in zip(labels, errs, strict=True)]

    def prompts(self, images: Array, labels: Array) -> list[Prompt]:
        """Return what is asked of images."""
        return [
            Prompt(
                CODEC.encode(ASKED),
                ASKED,
                {"answer": f"digit {NAMES[d]}", "misnamed": bool(d >= 5)},
                {"images": image},
            )
            for image, d in zip(images, labels, strict=True)
        ]

    def to_learn(self, seed: int, n: int) -> list[Prompt]:
        """Return prompts with images to learn from."""
        return self.prompts(*self.drawn(np.random.default_rng((8, seed)), n))

    def held_out(self, how: str = "") -> list[Prompt]:
        """Return those that judge; ``"shuffled"`` and ``"blank"`` ones show another image."""
        _, _, images, labels = self.parts
        if how == "shuffled":
            images = np.random.default_rng(5).permutation(images)
        return self.prompts(images * 0 if how == "blank" else images, labels)


@dataclass(frozen=True)
class Course:
    """How large a model is, and how it is trained."""

    width: int = 96
    layers: int = 2
    sft_steps: int = 200
    sft_rows: int = 64
    sft_rate: float = 3e-3
    rollouts: int = 40
    images: int = 32
    group: int = 16
    rate: float = 3e-4
    settings: Mapping[str, Any] = field(default_factory=dict)

    def model(self, seed: int = 0, values: Mapping[str, Array] | None = None) -> VisionLanguage:
        decoder = DecoderConfig(
            vocabulary=len(CODEC.characters), width=self.width, layers=self.layers, context=40
        )
        config = VisionLanguageConfig(decoder, image=8, patch=2)
        eos = CODEC.encode(END)
        return VisionLanguage(config, seed=1000 * seed, values=values, tokenizer=CODEC, eos=eos)

    def start(self, digits: Digits, seed: int, sloppy: float = SLOPPY) -> VisionLanguage:
        """Return a model that has learned from the teacher."""
        model = self.model(seed)
        rates = gw.schedules.Linear(self.sft_rate, steps=self.sft_steps, warmup=10)
        optimizer = gw.optim.AdamW(rates, weight_decay=0.01)
        trainer = gw.align.trainer(model, gw.align.SFT(), optimizer=optimizer)
        shown = digits.demonstrations(seed, self.sft_rows, sloppy)
        for _, (images, names) in zip(range(self.sft_steps), shown, strict=False):
            said = [f"digit {name}" for name in names]
            trainer.step({"prompt": [ASKED] * len(said), "completion": said, "images": images})
        return model

    def align(self, model: VisionLanguage, digits: Digits, seed: int, reward: Any = None) -> Any:
        """Train a model by GRPO; return the trainer."""
        method = gw.align.GRPO(
            loss_type="grpo",
            num_generations=self.group,
            max_completion_length=LONGEST,
            num_iterations=2,
            steps_per_generation=2,
            beta=0.02,
            **self.settings,
        )
        rates = gw.schedules.Linear(
            self.rate, steps=4 * self.rollouts, warmup=min(5, self.rollouts), floor=self.rate / 10
        )
        trainer = gw.align.trainer(
            model,
            method,
            rewards=gw.align.ExactMatch() if reward is None else reward,
            optimizer=gw.optim.AdamW(rates, beta2=0.99, weight_decay=0.0),
            seed=seed,
        )
        prompts = digits.to_learn(seed, self.rollouts * self.images)
        rows, steps = self.images * self.group // 2, self.rollouts * 4
        trainer.fit(prompts, batch_size=rows, steps=steps, progress=False)
        return trainer


def judge(model: VisionLanguage, prompts: Sequence[Prompt], samples: int = 2) -> HeldOut:
    """Return how a model names digits, greedily and drawn."""
    return gw.align.evaluate(
        *(model, prompts, gw.align.ExactMatch()),
        samples=samples,
        max_new_tokens=LONGEST,
        form=f"digit ({'|'.join(NAMES)})",
        slices=["misnamed"],
    )


def by_chance(prompts: Sequence[str], completions: Sequence[str], **columns: Any) -> list[float]:
    """Pay half of all answers, whatever they say."""
    rng = np.random.default_rng(crc32("".join(completions).encode()))
    return [float(x) for x in rng.integers(0, 2, len(completions))]


@contextmanager
def others_images() -> Iterator[None]:
    """Have completions be drawn and trained with images of others: tiled, not repeated."""
    right, draw = drawing.fed, GenerationSampler.sample

    def tiled(graph: gw.Graph, rollout: Rollout) -> dict[gw.Tensor, Array]:
        first = np.arange(len(rollout.prompts)) * rollout.group
        rows = np.tile(first, rollout.group)
        return {t: array[rows] for t, array in right(graph, rollout).items()}

    def drawn(self: GenerationSampler, prompts: Any, group: int, seed: int) -> Rollout:
        return replace(draw(self, [*prompts] * group, 1, seed), prompts=prompts, group=group)

    with (
        mock.patch.object(drawing, "fed", tiled),
        mock.patch.object(policy, "fed", tiled),
        mock.patch.object(GenerationSampler, "sample", drawn),
    ):
        yield


def controls(course: Course, digits: Digits, seed: int) -> dict[str, float]:
    """Return what an honest teacher leads to, and pay that tells nothing after it."""
    begun = replace(course, sft_steps=120).start(digits, seed, sloppy=0.0)
    held = {v.name: begun.graph.values[v.name].copy() for v in begun.graph.variables}
    model = course.model(values=held)
    found = {"honest": judge(begun, digits.held_out(), 0).rate()}
    course.align(begun, digits, seed, by_chance)
    found["by chance"] = judge(begun, digits.held_out(), 0).rate()
    with others_images():
        trainer = course.align(model, digits, seed)
    found["others' images"] = judge(model, digits.held_out(), 0).rate()
    return {**found, "paid for others' images": trainer.objective.history["reward"][0]}


def problems(before: HeldOut, after: HeldOut, found: Mapping[str, float]) -> list[str]:
    """Return what is not as it must be: one sentence each."""
    wrong, change = [], gw.align.compare(before, after).mcnemar()
    if after.rate() < REACHED:
        wrong.append(f"{after.rate():.3f} of held-out digits are named, not {REACHED}")
    if change.z <= 4:
        wrong.append(f"z is {change.z:.1f}, not above 4")
    as_honest = found.get("honest", 0.0) + 0.03
    for name, most in (
        *(("shuffled", 0.16), ("blank", 0.16), ("paid for others' images", 0.2)),
        *(("others' images", as_honest), ("by chance", as_honest)),
    ):
        if found.get(name, 0.0) > most:
            wrong.append(f"{name}: {found[name]:.3f}, above {most:.3f}")
    return wrong


COLUMNS = (
    *("seed", "greedy before", "after", "drawn before", "after", "lost", "z", "shuffled", "blank"),
    *("CPU s of SFT", "of GRPO"),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.learning.vision", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    parser.add_argument("--split", type=int, default=secrets.randbelow(1 << 20))
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    parser.add_argument("--teacher", choices=TEACHERS, default="minus five")
    asked = parser.parse_args()
    digits, course = Digits(asked.split, asked.teacher), Course()
    rows, notes, wrong = list[list[str]](), list[str](), list[str]()
    print(f"split {asked.split}, teacher: {asked.teacher}")
    for seed in asked.seeds:
        clock = time.process_time()
        model = course.start(digits, seed)
        before, learned = judge(model, digits.held_out()), time.process_time() - clock
        clock = time.process_time()
        course.align(model, digits, seed)
        paid = time.process_time() - clock
        after = judge(model, digits.held_out())
        found = {how: judge(model, digits.held_out(how), 0).rate() for how in ("shuffled", "blank")}
        change = gw.align.compare(before, after)
        rows.append(
            [
                str(seed),
                *(f"{x.rate(way):.3f}" for way in change.ways for x in (before, after)),
                *(str(change.mcnemar().lost), f"{change.mcnemar().z:.1f}"),
                *(f"{rate:.3f}" for rate in found.values()),
                *(f"{learned:.0f}", f"{paid:.0f}"),
            ]
        )
        print(change, "  ".join(rows[-1]), sep="\n", flush=True)
        if seed == asked.seeds[0]:
            told = controls(course, digits, seed)
            given = ", ".join(f"{name} {value:.3f}" for name, value in told.items())
            notes.append(f"After an honest teacher, seed {seed}: {given}.")
            found |= told
        wrong += [f"Seed {seed}: {sentence}." for sentence in problems(before, after, found)]
    title = f"Digits: a model that sees, by SFT and GRPO, split {asked.split}, {asked.teacher}"
    table = Table(COLUMNS, rows, title=title, notes=[*notes, *(wrong or [AS_MUST])])
    print(f"\n{table}")
    if asked.write:
        write(table, "python -m tests.learning.vision")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
