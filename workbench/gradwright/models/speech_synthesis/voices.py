"""Voices that say text without having learnt it: what a synthesizer can be trained on."""

from __future__ import annotations

import io
import shutil
import subprocess
import wave
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ... import audio
from ...errors import GraphError
from ...graph import Graph
from ...words.jsonable import jsonable

Array = np.ndarray[Any, Any]
CONTROL = 80
"""How often a second of sound is told what it shall be: every so many samples of 16 kHz."""


class Phone(NamedTuple):
    """What a letter sounds like."""

    formants: tuple[float, float, float]
    """Resonances in Hertz."""
    seconds: float
    voiced: float = 1.0
    """How loud the voice is."""
    hiss: float = 0.0
    """How loud the breath is."""
    centre: float = 4000.0
    """Where it is loudest, in Hertz."""


def _phones() -> dict[str, Phone]:
    """Return the sound of each letter: vowels as measured by Peterson and Barney (1952)."""
    made = {" ": Phone((500, 1500, 2500), 0.06, 0.0)}
    vowels = {"a": (730, 1090, 2440), "e": (530, 1840, 2480), "i": (300, 2290, 3010),
              "o": (570, 840, 2410), "u": (300, 870, 2240), "y": (390, 1990, 2550)}  # fmt: skip
    hums = {"m": (280, 1000, 2200), "n": (280, 1700, 2600), "l": (360, 1300, 2700),
            "r": (420, 1100, 1600), "w": (300, 700, 2200), "j": (280, 2200, 3000)}  # fmt: skip
    made |= {letter: Phone(formants, 0.11) for letter, formants in vowels.items()}
    made |= {letter: Phone(formants, 0.08, 0.5) for letter, formants in hums.items()}
    for seconds, voiced, hiss, centres in (
        (0.10, 0.0, 0.6, {"s": 5500, "f": 3500, "h": 1500, "x": 4500, "c": 3000, "q": 1200}),
        (0.08, 0.4, 0.3, {"v": 3200, "z": 5000}),
        (0.05, 0.0, 0.8, {"p": 900, "t": 4200, "k": 2200}),
        (0.06, 0.3, 0.2, {"b": 800, "d": 3800, "g": 1900}),
    ):
        made |= {k: Phone((350, 1400, 2400), seconds, voiced, hiss, c) for k, c in centres.items()}
    return made


PHONES = _phones()


@jsonable
@dataclass(frozen=True)
class FormantVoice:
    """A small voice of ours: harmonics under three resonances, and bands of noise.

    sound = Σₖ Aₖ(t)·sin(k·φ(t)) + hisses,  Aₖ = Σᵢ 2⁻ⁱ/√(1 + ((k·f₀ − Fᵢ)/B)²)

    Each letter a to z is one sound, said as it is written; F, loudness and breath glide from one to
    the next (after Klatt 1980). No recording of a person is in it: what it says is synthetic, the
    same in every run, and free to use.

    Args:
        pitch: f₀ in Hertz in the middle of a text; it falls by a fifth from begin to end.
        tempo: how many times faster than one letter in about a tenth of a second.
        rate: samples a second.

    >>> from gradwright.models import FormantVoice
    >>> FormantVoice().say("seven").shape
    (8320,)
    """

    pitch: float = 120.0
    tempo: float = 1.0
    rate: int = 16_000

    def __post_init__(self) -> None:
        if not (20 <= self.pitch <= 1000 and 0.1 <= self.tempo <= 10 and self.rate >= 8000):
            raise GraphError(
                f"{self} says nothing", need="pitch 20-1000 Hz, tempo 0.1-10, rate >= 8000"
            )

    def say(self, text: str) -> Array:
        """Return the samples of a text, f32[T]; raises GraphError for what is no letter of it."""
        said = text.lower()
        if not said.strip() or (unknown := sorted(set(said) - PHONES.keys())):
            raise GraphError(
                f"{text!r} cannot be said", need="letters a to z and spaces", facts=unknown[:1]
            )
        told, hop = self._told(said), CONTROL * self.rate // 16_000
        n = len(told) * hop
        at = np.arange(n) / hop

        def glide(values: Array) -> Array:
            return np.interp(at, np.arange(len(values)), values)

        pitch = self.pitch * np.linspace(1.1, 0.9, len(told))
        angle = 2 * np.pi * np.cumsum(glide(pitch)) / self.rate
        sound, top = np.zeros(n), min(7600.0, self.rate / 2)
        for k in range(1, int(top / pitch.max()) + 1):
            sides = (k * pitch[:, None] - told[:, :3]) / np.array([80.0, 110.0, 160.0])
            loud = (np.array([1.0, 0.5, 0.25]) / np.sqrt(1 + sides * sides)).sum(1) * told[:, 3]
            sound += glide(loud) * np.sin(k * angle)
        sound = 0.12 * sound + glide(told[:, 4]) * self._hiss(glide(told[:, 5]))
        found: Array = (0.5 * sound / max(np.abs(sound).max(), 1e-9)).astype(np.float32)
        return found

    def _told(self, said: str) -> Array:
        """Return formants, voice, breath and its place every 5 ms: f64[n, 6], gliding."""
        rows = []
        for letter in said:
            phone = PHONES[letter]
            row = [*phone.formants, phone.voiced, phone.hiss, phone.centre]
            rows += [row] * max(1, round(phone.seconds / self.tempo * 16_000 / CONTROL))
        told = np.pad(np.array(rows), ((4, 4), (0, 0)), mode="edge")
        told[:4, 3:5] = told[-4:, 3:5] = 0.0
        width = np.ones(7) / 7
        return np.stack([np.convolve(np.pad(c, 3, "edge"), width, "valid") for c in told.T], 1)

    def _hiss(self, centre: Array) -> Array:
        """Return noise around a frequency that moves: two slow noises turned to it."""
        n = len(centre)
        slow = np.random.default_rng(0).standard_normal((2, n))
        width = max(1, self.rate // 1600)
        kernel = np.hanning(width + 2)[1:-1]
        kernel /= np.sqrt((kernel**2).sum())
        slow = np.stack([np.convolve(row, kernel, "same")[:n] for row in slow])
        angle = 2 * np.pi * np.cumsum(np.minimum(centre, self.rate * 0.45)) / self.rate
        turned: Array = 0.3 * (slow[0] * np.cos(angle) + slow[1] * np.sin(angle))
        return turned


@jsonable
@dataclass(frozen=True)
class EspeakVoice:
    """A voice of eSpeak NG, which runs as a process of its own where it is installed.

    Args:
        voice: name or language, such as ``"en-gb"``.
        words_per_minute: how fast.
        rate: samples a second of what ``say`` returns.

    Raises GraphError, when it is to say something, where there is no program ``espeak-ng``.

    >>> from gradwright.models import EspeakVoice
    >>> EspeakVoice("en-gb").rate
    16000
    """

    voice: str = "en-us"
    words_per_minute: int = 150
    rate: int = 16_000

    @staticmethod
    def is_installed() -> bool:
        """Tell whether there is a program ``espeak-ng``."""
        return shutil.which("espeak-ng") is not None

    def say(self, text: str) -> Array:
        """Return the samples of a text, f32[T], from −1 to 1."""
        program = shutil.which("espeak-ng")
        if program is None:
            raise GraphError(
                "there is no program espeak-ng",
                need="apt install espeak-ng, or what your system has",
                hint="gw.models.FormantVoice() needs none",
            )
        asked = [program, "--stdin", "--stdout", "-v", self.voice, "-s", str(self.words_per_minute)]
        done = subprocess.run(asked, input=text.encode(), capture_output=True, timeout=60)
        if done.returncode or not done.stdout:
            raise GraphError(
                f"espeak-ng says nothing of {text!r}", facts=[done.stderr.decode(errors="replace")]
            )
        with wave.open(io.BytesIO(done.stdout)) as file:
            given, rate = file.readframes(file.getnframes()), file.getframerate()
        samples = np.frombuffer(given, "<i2").astype(np.float32) / 32768
        if rate == self.rate:
            return samples
        g = Graph("resampling")
        y = audio.resample(g.placeholder("x", samples.shape), rate, self.rate, name="y")
        found: Array = g.output({"x": samples}, y)["y"]
        return found
