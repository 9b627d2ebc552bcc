"""Whisper (Radford et al. 2023): an encoder that hears half a minute, a decoder that writes it.

s  = encoder(gelu(conv(gelu(conv(log-mel)))) + sinusoids)
a  = h + attend(norm(h)),  c = a + attend_to(s, norm(a)),  h' = c + gelu(norm(c)·Wupᵀ)·Wdownᵀ
logits = norm(h)·embedᵀ
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ... import audio, loss
from ...errors import FeedError, GraphError
from ...graph import Graph
from ...ops.core.creation import Arange
from ...ops.core.identity import Identity
from ...session import Session
from ...spec.buffer import Buffer
from ..decoder.rows import IGNORED
from ..decoder.weights import Weights, count, fill
from ..encoders.layers import first
from ..following import Followed
from ..tokenizers import TextCodec
from .config import WhisperConfig
from .layers import causal, crossed, heard, hearing_graph, logits, writing_graph, written
from .speech import SpeechTokens

Array = np.ndarray[Any, Any]


class Whisper:
    """A Whisper: its training graph, and what it writes of sound.

    ``features`` is a placeholder f32[B, bands, 2·frames], a spectrum as ``hear`` makes it of sound;
    ``ids`` and ``labels`` are i64[B, T]. The logits f32[B, T, V] at a position are of the token
    that follows it, which is the label there: labels are ids moved by one, −100 where none is asked
    for. ``loss`` is the mean of −ln p(label).

    Args:
        config: its sizes.
        name: of the graph.
        seed: of the first weights.
        values: all weights, by the names of ``config.weights()``, instead of first ones.
        tokenizer: for what it writes.
        start: tokens that every row begins with, such as that of a language and of a task; None is
            that of the language of a sound, which is found out.
        speech: which tokens these are.
        eos: the token that ends a row.
        suppress: tokens that are never written.
        suppress_first: tokens that are not written first.
        source: the folder that it is of.

    >>> import numpy as np
    >>> from gradwright.models import Whisper, WhisperConfig
    >>> model = Whisper(WhisperConfig(vocabulary=30, width=16, bands=8, frames=10, context=12,
    ...     encoder_layers=1, decoder_layers=1, encoder_heads=2, decoder_heads=2))
    >>> sound = np.sin(np.arange(2000) / 10)
    >>> model.hear([sound]).shape, [len(row) for row in model.generate([sound], 5)]
    ((1, 8, 20), [5])
    """

    def __init__(
        self,
        config: WhisperConfig,
        *,
        name: str = "whisper",
        seed: int = 0,
        values: Mapping[str, Array | Buffer] | None = None,
        tokenizer: TextCodec | None = None,
        start: Sequence[int | None] = (0,),
        speech: SpeechTokens | None = None,
        eos: Sequence[int] = (),
        suppress: Sequence[int] = (),
        suppress_first: Sequence[int] = (),
        source: Path | None = None,
    ) -> None:
        self.config, self.tokenizer, self.source = config, tokenizer, source
        self.start, self.eos = list(start), list(eos)
        self.speech = SpeechTokens() if speech is None else speech
        self.suppress, self.suppress_first = list(suppress), list(suppress_first)
        self.graph = g = Graph(name)
        self.features = g.placeholder("features", ("B", config.bands, 2 * config.frames))
        self.ids = g.placeholder("ids", ("B", "T"), "int64")
        self.labels = g.placeholder("labels", ("B", "T"), "int64")
        with g:
            begin = _first(config, seed) if values is None else None
            weights = Weights(g, config, {}, begin)
            sound = heard(config, weights, self.features)
            self.sound = Identity()(sound, name="sound")
            places = Arange(start=self.ids.shape[1])()
            cross = crossed(config, weights, self.sound)
            h = written(config, weights, self.ids, places, cross, causal)
            self.logits = Identity()(logits(weights, h), name="logits")
            self.loss = loss.sparse_softmax_cross_entropy(
                self.labels, self.logits, ignore_index=IGNORED, name="loss"
            )
        if values is not None:
            fill(g, values)
        self.n_weights = count(config)
        self._sessions: tuple[Session, Session] | None = None
        self._followed = Followed(g.values)

    def __repr__(self) -> str:
        return f"<Whisper of {self.n_weights:,} weights: {self.config}>"

    def hear(self, sounds: Sequence[Any]) -> Array:
        """Return the spectra of sounds, f32[B, bands, 2·frames]: samples at 16 kHz, −1 to 1.

        Shorter ones are followed by silence, longer ones are cut off.
        """
        config = self.config
        rows = np.zeros((len(sounds), config.samples), np.float32)
        for i, sound in enumerate(sounds):
            array = np.asarray(sound, np.float32)
            if array.ndim != 1:
                raise FeedError(
                    f"sound {i} is {array.shape}", need="samples of one channel, f32[T]"
                )
            n = min(len(array), config.samples)
            rows[i, :n] = array[:n]
        g = Graph("hearing")
        x = g.placeholder("x", rows.shape)
        y = audio.log_mel_spectrogram(
            x, sample_rate=config.rate, hop_length=config.hop, n_mels=config.bands, name="y"
        )
        found: Array = g.output({"x": rows}, y)["y"]
        return found

    def detect_language(self, sounds: Sequence[Any]) -> list[str]:
        """Return the code of the language of each sound, such as ``"en"``.

        It is the most probable one of all languages after the first token of a row. Raises
        GraphError where the model knows none.
        """
        hearing, writing = self._ready()
        cross = hearing.run("cross", {"features": self._spectra(sounds)})
        codes = {token: code for code, token in self.speech.languages.items()}
        return [codes[token] for token in self._spoken(writing, cross).tolist()]

    def generate(
        self,
        sounds: Sequence[Any],
        max_new_tokens: int | None = None,
        *,
        language: str | None = None,
        task: str | None = None,
        start: Sequence[int | None] | None = None,
    ) -> list[list[int]]:
        """Return the tokens that are written of each sound, the most probable at every step.

        A sound is samples, or a spectrum as ``hear`` returns it. A row ends with ``eos``, or after
        ``max_new_tokens``, by default as many as there is room for. ``language``, by code or
        English name, and ``task``, ``"transcribe"`` or ``"translate"``, say what each begins with;
        of a language that is not given it is found out. Or ``start`` are these tokens, which are
        not among those that are returned. Raises FeedError for what is no sound, and GraphError
        where there is no such language, or no room for the tokens.
        """
        config, begun = self.config, self._begun(language, task, start)
        room_left = config.context - len(begun)
        n_steps = room_left if max_new_tokens is None else max_new_tokens
        if not 1 <= n_steps <= room_left:
            raise GraphError(
                f"{len(begun)} tokens and {n_steps} more exceed the context",
                need=f"{config.context} together, one of them new or more",
            )
        hearing, writing = self._ready()
        features = self._spectra(sounds)
        cross = hearing.run("cross", {"features": features})
        b, past, at = len(features), self._unwritten(len(features)), 0
        ids = np.tile(np.array([token or 0 for token in begun], np.int64), (b, 1))
        if None in begun:
            ids[:, begun.index(None)] = self._spoken(writing, cross)
        rows: list[list[int]] = [[] for _ in range(b)]
        live = set(range(b))
        for step in range(n_steps):
            scores, present = _step(writing, ids, at, past, cross)
            past[:, :, :, :, at : at + ids.shape[1]] = present
            at += ids.shape[1]
            hidden = self.suppress + self.suppress_first * (step == 0)
            scores[:, [token for token in hidden if token < config.vocabulary]] = -np.inf
            tokens = scores.argmax(-1)
            for i in sorted(live):
                rows[i].append(int(tokens[i]))
                if tokens[i] in self.eos:
                    live.discard(i)
            if not live:
                break
            ids = tokens[:, None].astype(np.int64)
        return rows

    def transcribe(
        self,
        sounds: Sequence[Any],
        max_new_tokens: int | None = None,
        *,
        language: str | None = None,
        task: str | None = None,
    ) -> list[str]:
        """Return the text that is written of each sound; ``language`` and ``task`` as in generate.

        Raises GraphError without a tokenizer.
        """
        if self.tokenizer is None:
            raise GraphError("there is no tokenizer", hint="generate(sounds) returns tokens")
        return [
            self.tokenizer.decode([token for token in row if token not in self.eos])
            for row in self.generate(sounds, max_new_tokens, language=language, task=task)
        ]

    def _begun(
        self, language: str | None, task: str | None, start: Sequence[int | None] | None
    ) -> list[int | None]:
        """Return what rows begin with; raises GraphError for what none can begin with."""
        is_told = language is not None or task is not None
        if is_told and start is not None:
            raise GraphError("a row begins with start, or as language and task say", need="one")
        begun = list(self.start if start is None else start)
        if is_told and begun:
            begun = self.speech.begin(begun[0] or 0, language, task)
        known = [token for token in begun if token is not None]
        is_known = all(0 <= token < self.config.vocabulary for token in known)
        if not known or begun[0] is None or not is_known:
            raise GraphError(f"a row cannot begin with {begun}", need="tokens of the vocabulary")
        if len(begun) - len(known) > 1:
            raise GraphError(f"a row cannot begin with {begun}", need="one language at most")
        return begun

    def _spoken(self, writing: Session, cross: Array) -> Array:
        """Return the token of the language of each sound, i64[B]."""
        languages = self.speech.languages.values()
        tokens = np.array([t for t in sorted(languages) if t < self.config.vocabulary], np.int64)
        if not len(tokens):
            raise GraphError(
                "the model tells no languages apart", hint="generate(sounds, start=[...])"
            )
        b = cross.shape[2]
        first = np.full((b, 1), self._begun(None, None, None)[0], np.int64)
        scores, _ = _step(writing, first, 0, self._unwritten(b), cross)
        found: Array = tokens[scores[:, tokens].argmax(-1)]
        return found

    def _unwritten(self, b: int) -> Array:
        """Return room for the keys and values of rows of which nothing is written."""
        config = self.config
        features = config.width // config.decoder_heads
        room = (config.decoder_layers, 2, b, config.decoder_heads, config.context, features)
        return np.zeros(room, np.float32)

    def _spectra(self, sounds: Sequence[Any]) -> Array:
        shape = self.config.bands, 2 * self.config.frames
        arrays = [np.asarray(sound, np.float32) for sound in sounds]
        if not arrays:
            raise FeedError("there is no sound", need="one or more")
        return np.stack([a if a.shape == shape else self.hear([a])[0] for a in arrays])

    def _ready(self) -> tuple[Session, Session]:
        """Return sessions that hear and write, with the weights as they are now."""
        if self._sessions is None:
            graphs = hearing_graph(self.config), writing_graph(self.config)
            self._sessions = Session(graphs[0]), Session(graphs[1])
        self._followed.hand((name for name, _ in self.config.weights()), *self._sessions)
        return self._sessions


def _step(writing: Session, ids: Array, at: int, past: Array, cross: Array) -> tuple[Array, Array]:
    """Return logits of what follows new tokens, f32[B, V], and their keys and values."""
    feeds = {"ids": ids, "position": np.int64(at), "past": past, "cross": cross}
    found = writing.run({name: writing.graph[name] for name in ("logits", "present")}, feeds)
    return found["logits"].copy(), found["present"]


def _first(config: WhisperConfig, seed: int) -> Any:
    """Return what tells how a weight begins; the encoder's positions are sinusoids."""
    usual = first(config, seed)

    def begin(name: str, shape: tuple[int, ...]) -> Any:
        if name != "encoder_positions":
            return usual(name, shape)
        half = max(shape[1] // 2, 2)
        speeds = np.exp(-np.log(10_000) * np.arange(half) / (half - 1))
        angles = np.arange(shape[0])[:, None] * speeds
        waves = np.concatenate([np.sin(angles), np.cos(angles)], 1)
        return np.resize(waves, shape).astype(np.float32) if waves.shape != shape else waves

    return begin
