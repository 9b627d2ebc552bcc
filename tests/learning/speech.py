"""``python -m tests.learning.speech``: a synthesizer that learns to say numbers from one to 99.

Of the 90 words and compounds of the numbers 1 to 9 and 20 to 99, 16 compounds are held out; both
parts of each were heard in others, so what is learnt is to put them together, not to read. The
voice is eSpeak NG's, where it is installed, else our own (``FormantVoice``). AdamW at 2e-3, 16
words a step, 300 steps; three seeds, each of which draws its own 16.

Distances are mel-cepstral (``mel_cepstral_distortion``), which no absolute value is known of, so
each seed stands beside what is measured on the same words: a model that has not been trained, a
frame that is the mean of all, another true word, and the true spectrum as Griffin and Lim's sound.
Held-out words must come within a third of another word's distance, their sound within that and what
Griffin and Lim lose of the true one, and of all words the true one must be the nearest, for eight
of eight.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.models import (
    EspeakVoice,
    FormantVoice,
    SpeechSynthesizer,
    SpeechSynthesizerConfig,
    log_mel,
    sound_of_log_mel,
)
from gradwright.models import mel_cepstral_distortion as distortion
from gradwright.words.tables import Table
from tests.learning.results import AS_MUST, write

Array = np.ndarray[Any, Any]
ONES = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
HELD_OUT, JUDGED = 16, 8
THIRD = 1 / 3
"""How near held-out words must come, of the distance of another word."""


@dataclass(frozen=True)
class Words:
    """Texts and their spectra, and which are held out."""

    texts: Sequence[str]
    spectra: Sequence[Array]
    held_out: Sequence[int]

    @property
    def train(self) -> list[int]:
        """Which are learnt from."""
        return [i for i in range(len(self.texts)) if i not in self.held_out]


def words(seed: int, voice: Any, tens: Iterable[str] = TENS, held_out: int = HELD_OUT) -> Words:
    """Return the words that a voice says; compounds whose parts stand in others are held out."""
    compounds = [f"{ten} {one}" for ten in tens for one in ONES]
    texts = [*ONES, *tens, *compounds]
    drawn = np.random.default_rng([seed, 7]).permutation(len(compounds))[:held_out]
    first = len(texts) - len(compounds)
    spectra = [log_mel(voice.say(text)) for text in texts]
    return Words(texts, spectra, sorted(int(i) + first for i in drawn))


def train(
    data: Words, seed: int, steps: int = 300, rows: int = 16, width: int = 128, rate: float = 2e-3
) -> tuple[SpeechSynthesizer, SpeechSynthesizer]:
    """Return a model that has learnt them, and one that has not."""
    letters = "".join(sorted(set("".join(data.texts))))
    config = SpeechSynthesizerConfig(letters, width=width)
    model, untrained = (SpeechSynthesizer(config, seed=seed) for _ in range(2))
    shown = model.examples(
        [data.texts[i] for i in data.train], [data.spectra[i] for i in data.train]
    )
    for one in (model, untrained):
        one.scale(shown)
    rates = gw.schedules.Cosine(rate, steps=steps, warmup=10, floor=rate / 10)
    trainer = gw.Trainer(model.graph, model.loss, gw.optim.AdamW(rates), clip_norm=1.0, seed=seed)
    trainer.fit(shown, batch_size=rows, steps=steps, drop_last=True, progress=False)
    return model, untrained


def judge(model: SpeechSynthesizer, untrained: SpeechSynthesizer, data: Words) -> dict[str, float]:
    """Return how far held-out words are from what they should be, and what to compare it with."""
    held = list(data.held_out)
    texts, true = [data.texts[i] for i in held], [data.spectra[i] for i in held]
    said, mean = model.spectra(texts), np.concatenate(data.spectra).mean(0)
    frames = [len(t) for t in true]
    in_time = model.spectra(texts, frames)
    scale = model.graph.values["mel_std"]
    judged = range(min(JUDGED, len(held)))
    sounds = [log_mel(sound_of_log_mel(said[i])) for i in range(min(4, len(held)))]
    off = [np.abs((a - b) / scale).mean() for a, b in zip(in_time, true, strict=True)]
    return {
        "L1": float(np.mean(off)),
        "distance": _mean(said, true),
        "sound": _mean(sounds, true),
        "length": float(np.mean([abs(len(s) / n - 1) for s, n in zip(said, frames, strict=True)])),
        "nearest": float(np.mean([_nearest(said[i], data) == held[i] for i in judged])),
        "learnt": _mean(model.spectra([data.texts[i] for i in data.train[:16]]),
                        [data.spectra[i] for i in data.train]),
        "untrained": _mean(untrained.spectra(texts), true),
        "mean frame": _mean([np.tile(mean, (n, 1)) for n in frames], true),
        "other word": _mean([_other(i, data) for i in held], true),
        "true sound": _mean([log_mel(sound_of_log_mel(t)) for t in true[:4]], true),
    }  # fmt: skip


def problems(found: Mapping[str, float]) -> list[str]:
    """Return what is not as it must be: one sentence each."""
    third, wrong = THIRD * found["other word"], []
    if found["distance"] > third:
        wrong.append(f"{found['distance']:.2f} is above {third:.2f}, a third of another word")
    if found["sound"] > (most := third + found["true sound"]):
        wrong.append(f"as sound it is {found['sound']:.2f}, above {most:.2f}")
    if found["nearest"] < 1:
        wrong.append(f"only {found['nearest']:.0%} of words are nearest to the true one")
    if not found["untrained"] > found["other word"] * 0.8:
        wrong.append("an untrained model is as near as another word: the measure tells nothing")
    return wrong


def _mean(said: Sequence[Array], true: Sequence[Array]) -> float:
    return float(np.mean([distortion(a, b) for a, b in zip(said, true, strict=False)]))


def _other(i: int, data: Words) -> Array:
    """Return the spectrum of a true word that shares no part with another."""
    parts = set(data.texts[i].split())
    apart = [k for k, text in enumerate(data.texts) if " " in text and not parts & {*text.split()}]
    return data.spectra[apart[i % len(apart)]]


def _nearest(said: Array, data: Words) -> int:
    return int(np.argmin([distortion(said, spectrum) for spectrum in data.spectra]))


COLUMNS = (
    *("distance", "sound", "length", "nearest", "untrained", "mean frame", "other word"),
    "true sound",
)
"""What of a seed stands in the table."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.learning.speech", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    parser.add_argument("--voice", choices=("espeak", "formant"), help="default: as installed")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    asked = parser.parse_args()
    espeak = EspeakVoice.is_installed() if asked.voice is None else asked.voice == "espeak"
    voice = EspeakVoice() if espeak else FormantVoice()
    print(f"voice: {voice}")
    rows, wrong = list[list[str]](), list[str]()
    for seed in asked.seeds:
        data, start = words(seed, voice), time.process_time()
        model, untrained = train(data, seed, asked.steps)
        seconds = time.process_time() - start
        found = judge(model, untrained, data)
        told = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
        print(f"seed {seed}, {model.n_weights:,} weights, {seconds:.0f} CPU s: {told}", flush=True)
        told = [f"{found[name]:.3f}" for name in COLUMNS]
        rows.append([str(seed), *told, f"{seconds:.0f}"])
        wrong += [f"Seed {seed}: {sentence}." for sentence in problems(found)]
    columns = ["seed", *COLUMNS, "CPU s"]
    title = f"Number words, by {type(voice).__name__}"
    table = Table(columns, rows, title=title, notes=wrong or [AS_MUST])
    print(f"\n{table}")
    if asked.write:
        write(table, "python -m tests.learning.speech")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
