"""Speech from text: characters, durations, and frames of log-mel, which become sound.

    h = encoder(embed[characters] + sinusoids),   d = exp(h·w + b)
    y = conv(decoder(Σₛ weightₜₛ·hₛ + sinusoids)),  weightₜ = softmaxₛ(−(t + ½ − cₛ)²/2σ²)

where cₛ is the middle of character s, Σd spread over the frames that there are. Nobody tells how
long a character is: durations learn from the length of the whole, and from where its bands lie
(Gaussian upsampling of Donahue et al. 2021 and Shen et al. 2020; layers of Vaswani et al. 2017).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import init
from ...errors import FeedError
from ...graph import Graph
from ...ops.core.elementwise import Abs
from ...ops.core.exponential import Log
from ...ops.core.identity import Identity
from ...ops.core.movement import Cast
from ...ops.core.reduce import Mean, Sum
from ...spec.buffer import Buffer
from ..decoder.weights import Weights, count, fill
from ..tokenizers import CharTokenizer
from .config import SpeechSynthesizerConfig
from .layers import durations, read, spoken, spread
from .sound import log_mel, sound_of_log_mel

Array = np.ndarray[Any, Any]
FIRST_DURATION = 5.0
"""Frames of a character before anything is learnt."""


class SpeechSynthesizer:
    """A synthesizer of speech: its training graph, and what it says.

    Placeholders are ``ids``, i64[B, S], characters from 1 on, 0 where there is none; ``is_sound``,
    bool[B, F], which frames there are; ``mel``, f32[B, F, bands], their log-mel spectra.
    ``durations`` are f32[B, S], how many frames each character takes as the model has it, 0 at
    padding, ``length`` f32[B] their sum; ``spectrum``, f32[B, F, bands], is what it says in the
    frames that are fed. ``loss`` is ``mel_loss``, the mean distance of bands that
    are scaled to mean 0 and deviation 1, plus ``length_loss``, the mean square of
    ln length − ln frames.

    Args:
        config: its sizes.
        name: of the graph.
        seed: of the first weights.
        values: all weights, by name, and ``mel_mean`` and ``mel_std``, instead of first ones.

    >>> import gradwright as gw
    >>> from gradwright.models import FormantVoice, SpeechSynthesizer, SpeechSynthesizerConfig
    >>> model = SpeechSynthesizer(SpeechSynthesizerConfig("aeno ", width=16, heads=2))
    >>> data = model.examples(["one", "ann"], [FormantVoice().say(t) for t in ("one", "ann")])
    >>> model.scale(data)
    >>> trainer = gw.Trainer(model.graph, model.loss, gw.optim.AdamW(2e-3))
    >>> record = trainer.step(data)
    >>> [spectrum.shape[1] for spectrum in model.spectra(["one", "no"])]
    [40, 40]
    """

    def __init__(
        self,
        config: SpeechSynthesizerConfig,
        *,
        name: str = "speech_synthesizer",
        seed: int = 0,
        values: Mapping[str, Array | Buffer] | None = None,
    ) -> None:
        self.config, self._characters = config, CharTokenizer(config.characters)
        self.graph = g = Graph(name)
        bands = config.sound.bands
        self.ids = g.placeholder("ids", ("B", "S"), "int64")
        self.is_sound = g.placeholder("is_sound", ("B", "F"), "bool")
        self.mel = g.placeholder("mel", ("B", "F", bands))
        with g:
            weights = Weights(g, config, {}, _first(config, seed) if values is None else None)
            mean = g.variable("mel_mean", (bands,), trainable=False)
            deviation = g.variable("mel_std", (bands,), 1.0, trainable=False)
            is_said = self.ids != 0
            h = read(config, weights, self.ids, is_said)
            self.durations = Identity()(durations(weights, h, is_said), name="durations")
            self.length = Sum(axis=1)(self.durations, name="length")
            counts = Cast(dtype="float32")(self.is_sound)
            n = counts.sum(1)
            fitted = self.durations * (n / self.length)[:, None]
            h = spread(h, fitted, self.is_sound.shape[1], is_said, config.sigma)
            y = spoken(config, weights, h, self.is_sound)
            self.spectrum = Identity()(y * deviation + mean, name="spectrum")
            off = Abs()(y - (self.mel - mean) / deviation) * counts[:, :, None]
            self.mel_loss = Identity()(off.sum() / (counts.sum() * float(bands)), name="mel_loss")
            ratio = Log()(self.length) - Log()(n)
            self.length_loss = Mean()(ratio * ratio, name="length_loss")
            self.loss = Identity()(self.mel_loss + self.length_loss, name="loss")
        if values is not None:
            fill(g, values)
        self.n_weights = count(config)

    def __repr__(self) -> str:
        return f"<SpeechSynthesizer of {self.n_weights:,} weights: {self.config}>"

    def examples(self, texts: Sequence[str], sounds: Sequence[Any]) -> dict[str, Array]:
        """Return ``ids``, ``is_sound`` and ``mel`` of texts and their sounds, shorter ones padded.

        A sound is samples, or a log-mel spectrum as ``log_mel`` returns it. Raises FeedError for
        what is none, GraphError for characters that the model cannot say.
        """
        if len(texts) != len(sounds):
            raise FeedError(f"{len(texts)} texts and {len(sounds)} sounds", need="one of each text")
        spectra = [self._spectrum(sound) for sound in sounds]
        ids, is_sound = self._ids(texts), _mask([len(s) for s in spectra])
        mel = np.zeros((*is_sound.shape, self.config.sound.bands), np.float32)
        mel[is_sound] = np.concatenate(spectra)
        return {"ids": ids, "is_sound": is_sound, "mel": mel}

    def scale(self, examples: Mapping[str, Array]) -> None:
        """Have each band scaled to mean 0 and deviation 1 of these examples: once, before training.

        A band that never changes keeps its size.
        """
        frames = examples["mel"][examples["is_sound"]]
        deviation = frames.std(0)
        self.graph.values["mel_mean"] = frames.mean(0)
        self.graph.values["mel_std"] = np.where(deviation > 1e-5, deviation, 1.0)

    def spectra(self, texts: Sequence[str], frames: Sequence[int] | None = None) -> list[Array]:
        """Return the log-mel spectra of texts, f32[frames, bands] each.

        They have as many frames as the model finds right, two at the least, or as are asked for.
        """
        ids = self._ids(texts)
        if frames is None:
            length = self.graph.output({"ids": ids}, self.length)["length"]
            frames = np.maximum(np.rint(length), 2).astype(int).tolist()
        elif len(frames) != len(texts) or min(frames) < 1:
            raise FeedError(f"{list(frames)} are no frames", need="1 or more for each text")
        is_sound = _mask(frames)
        found = self.graph.output({"ids": ids, "is_sound": is_sound}, self.spectrum)["spectrum"]
        return [row[:n].copy() for row, n in zip(found, frames, strict=True)]

    def say(self, texts: Sequence[str], *, n_iter: int = 40) -> list[Array]:
        """Return the samples of texts, f32[T] each; ``n_iter`` as of ``audio.griffin_lim``."""
        sound = self.config.sound
        return [sound_of_log_mel(mel, sound, n_iter=n_iter) for mel in self.spectra(texts)]

    def _ids(self, texts: Sequence[str]) -> Array:
        if not texts or not all(texts) or isinstance(texts, str):
            raise FeedError(f"texts are {texts!r}", need="a list of one or more, none empty")
        ids = np.zeros((len(texts), max(map(len, texts))), np.int64)
        for row, text in zip(ids, texts, strict=True):
            row[: len(text)] = np.array(self._characters.encode(text)) + 1
        return ids

    def _spectrum(self, sound: Any) -> Array:
        array, bands = np.asarray(sound, np.float32), self.config.sound.bands
        if array.ndim == 2 and len(array) and array.shape[1] == bands:
            return array
        return log_mel(array, self.config.sound)


def _mask(lengths: Sequence[int]) -> Array:
    """Return which frames there are, bool[B, F]."""
    return np.arange(max(lengths)) < np.array(lengths)[:, None]


def _first(config: SpeechSynthesizerConfig, seed: int) -> Any:
    """Return what tells how a weight begins.

    Matrices are normals of deviation 1/√in, characters of 1, as large as the sinusoids that are
    added to them; norms are ones, biases 0, and each character takes some frames.
    """
    seeds = {name: seed + i for i, (name, _) in enumerate(config.weights())}

    def begin(name: str, shape: tuple[int, ...]) -> Any:
        if name == "duration_bias":
            return float(np.log(FIRST_DURATION))
        if len(shape) == 1:
            return float(not name.endswith("_bias"))
        n_in = 1 if name == "embed" else math.prod(shape[1:])
        return init.normal(std=n_in**-0.5, seed=seeds[name])

    return begin
