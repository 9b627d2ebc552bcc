"""What a decoder makes of a text: how likely each token is, what it looks at, why it goes on so.

One graph tells all of it, that of generation: logits of every position, the weights of attention
in every layer, and the gradient of logits with respect to the embeddings of the tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import FeedError, GraphError
from ..gradient import gradients
from ..words.tables import Table, Tabular
from .decoder import Decoder
from .generation import ALL, LENGTH
from .reading import room_for
from .sampling import Greedy, Sampling, Strategy, in_order
from .tokenizers import TextCodec, TextStream

Array = np.ndarray[Any, Any]
Tokens = str | Sequence[int]
"""A text, or its tokens."""


@dataclass(frozen=True)
class Choice:
    """A token that may come next."""

    token: int
    text: str
    logit: float
    probability: float


@dataclass(frozen=True)
class TokenReading:
    """A token of a text, and what the model thought of it before it came.

    ``rank`` is 0 for the most likely token, ``choices`` are the most likely ones, best first. Of
    the first token of a text nothing is known: its ``probability`` is None.
    """

    token: int
    text: str
    logit: float | None = None
    probability: float | None = None
    rank: int | None = None
    choices: tuple[Choice, ...] = field(default=(), repr=False)


class Score(Tabular):
    """The probability of each token of a text, and of the text.

    >>> from gradwright.models import Decoder, DecoderConfig, Interpretation
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    >>> score = Interpretation(model).score([1, 2, 3])
    >>> len(score.tokens), round(score.perplexity)
    (3, 9)
    """

    def __init__(self, tokens: Sequence[TokenReading]) -> None:
        self.tokens = tuple(tokens)

    @property
    def log_likelihood(self) -> float:
        """Σ ln p(xₜ | xₛ, s < t) over all tokens but the first."""
        known = [t.probability for t in self.tokens if t.probability is not None]
        return sum(math.log(p) if p else -math.inf for p in known)

    @property
    def perplexity(self) -> float:
        """exp(−log_likelihood / n) of the n tokens that have a probability; NaN of none."""
        n = sum(t.probability is not None for t in self.tokens)
        if not n:
            return math.nan
        mean = -self.log_likelihood / n
        return math.exp(mean) if mean < 700 else math.inf

    def table(self) -> Table:
        """Return a row for each token: its probability, its rank, and what was likelier."""
        rows = [
            [repr(t.text), _share(t.probability), "" if t.rank is None else str(t.rank + 1),
             ", ".join(f"{c.text!r} {_share(c.probability)}" for c in t.choices[:3])]
            for t in self.tokens
        ]  # fmt: skip
        title = f"log-likelihood {self.log_likelihood:.2f}, perplexity {self.perplexity:.4g}"
        return Table(["token", "probability", "rank", "most likely"], rows, title=title)


@dataclass(frozen=True)
class Attribution:
    """What each token of a text adds to the logit of the one that follows.

    ``scores``, f32[T], are gradient × input, ``shares`` their sizes in parts of the whole.
    """

    tokens: tuple[TokenReading, ...]
    chosen: Choice
    scores: Array

    @property
    def shares(self) -> Array:
        """|scoreₜ| / Σ |score|, f32[T]; zeros where all scores are."""
        sizes = np.abs(self.scores)
        total = sizes.sum()
        return np.asarray(sizes / total if total else sizes)


@dataclass(frozen=True)
class Attention:
    """What a layer makes of each token of a text, and what it looks at.

    ``weights``, f32[heads, T, T], are from the row's token to those in the columns, each row
    summing to 1. ``keys`` and ``values``, f32[kv heads, T, E], are the layer's cache: what it keeps
    of each token for those that come, keys turned to their places.
    """

    weights: Array
    keys: Array
    values: Array


class Interpretation:
    """Looks into a decoder at work; the weights are those of the model at every call.

    Texts are given as text, or as lists of tokens.

    Args:
        decoder: the model.
        tokenizer: instead of the model's own.
        choices: how many of the most likely tokens are kept for each position.

    >>> from gradwright.models import CharTokenizer, Decoder, DecoderConfig, Interpretation
    >>> config = DecoderConfig(vocabulary=3, width=8, layers=2, heads=2)
    >>> look = Interpretation(Decoder(config, tokenizer=CharTokenizer("abc")))
    >>> [token.text for token in look.score("cab").tokens]
    ['c', 'a', 'b']
    >>> look.attention("cab", layer=1).shape  # heads, from, to
    (2, 3, 3)
    >>> look.attends("cab", layer=1).keys.shape  # heads, tokens, features
    (2, 3, 4)
    >>> look.attributions("cab", "a").scores.shape
    (3,)
    """

    def __init__(
        self, decoder: Decoder, *, tokenizer: TextCodec | None = None, choices: int = 10
    ) -> None:
        if not isinstance(decoder, Decoder):
            raise GraphError(
                f"{type(decoder).__name__} is no decoder", need="a Decoder", hint="gw.open(path)"
            )
        self.decoder, self.choices = decoder, choices
        self.generation = decoder.generation(tokenizer=tokenizer)
        """The generation whose graph is looked into."""
        graph = self.generation.graph
        with graph:
            logits, embedded = graph["logits"], graph["embedded"]
            seed = graph.placeholder("of_logits", logits.shape)
            (self._slope,) = gradients(logits, [embedded], seed)

    @property
    def tokenizer(self) -> TextCodec | None:
        """What makes tokens of texts."""
        return self.generation.tokenizer

    # -- how likely ------------------------------------------------------------------------------

    def score(self, text: Tokens) -> Score:
        """Return the probability of each token given those before it, softmax(logits)[token].

        Raises FeedError for a text that is empty or longer than the context.
        """
        return Score([token for part in self.readings(text) for token in part])

    def readings(self, text: Tokens, at_once: int = 256) -> Iterator[list[TokenReading]]:
        """Yield what is thought of the tokens of a text, of ``at_once`` of them at a time.

        So a long text takes the memory of the logits of few tokens, and may be ended in between.
        Raises FeedError for a text that is empty or longer than the context.
        """
        tokens, generation = self.tokens(text), self.generation
        pieces, room = self.pieces(tokens), room_for(len(tokens))
        run = generation.fed(ALL, {})
        generation.read_weights()
        reader = generation.reader(1, room)
        found, t = [TokenReading(tokens[0], pieces[0])], 1
        for logits in reader.parts(run, tokens, min(at_once, room)):
            for y in logits[: len(tokens) - t]:
                found.append(self._reading(y, tokens[t - 1 : t + 1], pieces[t]))
                t += 1
            if found:  # what stands before a row may be longer than a part
                yield found
            found = []

    def stream(
        self,
        prompt: Tokens,
        max_new_tokens: int = 100,
        *,
        sampling: Sampling = Greedy(),  # noqa: B008 - frozen
        seed: int = 0,
        **settings: Any,
    ) -> Iterator[TokenReading]:
        """Yield each new token with what the model thought of it; as ``Generation.stream``.

        Probabilities are the model's own, softmax(logits), before ``sampling`` changes them.
        ``generation.stop()`` ends it from whichever thread.
        """
        heard = _Heard()
        tokens = self.tokens(prompt)
        pieces = self.generation.stream(
            [tokens], max_new_tokens, sampling=[heard, *in_order(sampling)], seed=seed, **settings
        )
        for piece in pieces:
            tokens.append(piece.token)
            yield self._reading(heard.logits, tokens, piece.text)

    def _reading(self, logits: Array, tokens: Sequence[int], text: str) -> TokenReading:
        """Return what was thought of the last of some tokens."""
        token, before = tokens[-1], tokens[:-1]
        logarithms = _log_softmax(logits)
        return TokenReading(
            token,
            text,
            float(logits[token]),
            math.exp(logarithms[token]),
            int((logits > logits[token]).sum()),
            self._choices(logits, logarithms, before),
        )

    def _choices(
        self, logits: Array, logarithms: Array, before: Sequence[int]
    ) -> tuple[Choice, ...]:
        n = min(self.choices, len(logits))
        best = np.argpartition(-logits, n - 1)[:n]
        best = best[np.lexsort((best, -logits[best]))]
        return tuple(
            Choice(int(i), self._after(before, int(i)), float(logits[i]), math.exp(logarithms[i]))
            for i in best
        )

    # -- what it looks at, and why ---------------------------------------------------------------

    def attention(self, text: Tokens, layer: int) -> Array:
        """Return the weights of attention of a layer, f32[heads, T, T].

            weightsₕ = softmax(mask(qₕ·kₕᵀ·scale)),  each row summing to 1,

        from the row's token to those in the columns (Bahdanau et al. 2015, Vaswani et al. 2017).
        Raises GraphError for a layer that there is not.
        """
        return self.attends(text, layer).weights

    def attends(self, text: Tokens, layer: int) -> Attention:
        """Return the weights of attention of a layer, and its keys and values.

        Raises GraphError for a layer that there is not.
        """
        config = self.decoder.config
        if not 0 <= layer < config.layers:
            raise GraphError(f"there is no layer {layer}", need=f"0 to {config.layers - 1}")
        tokens = self.tokens(text)
        weights, present = self._run(tokens, [f"layer{layer}/attention:1", "present"])
        n, filled = len(tokens), weights.shape[-2]
        by_heads = weights.reshape(config.heads, filled, -1)
        keys, values = (np.array(kept) for kept in present[layer, :, 0, :, :n])
        return Attention(np.array(by_heads[:, :n, :n]), keys, values)

    def attributions(self, text: Tokens, token: int | str | None = None) -> Attribution:
        """Return what each token of a text adds to the logit of the next one: gradient × input.

            scoreₜ = Σ_d embeddingₜ,d · ∂logit[token]/∂embeddingₜ,d

        (Denil et al. 2014, Shrikumar et al. 2016), that is how the logit would change, to first
        order, if the embedding of a token grew, by how much it grew. ``token`` is by default the
        most likely one; a text stands for its first token.
        """
        tokens = self.tokens(text)
        (logits,) = self._run(tokens, ["logits"])
        if token is None:
            chosen = int(logits[0].argmax())
        else:
            chosen = self.tokens(token)[0] if isinstance(token, str) else self.tokens([token])[0]
        seed = np.zeros_like(logits)
        seed[0, chosen] = 1
        embedded, slope = self._run(tokens, ["embedded", self._slope], of_logits=seed)
        scores = (embedded[0] * slope[0]).sum(-1)[: len(tokens)]
        read = map(TokenReading, tokens, self.pieces(tokens))
        logit, logarithm = float(logits[0, chosen]), _log_softmax(logits[0])[chosen]
        choice = Choice(chosen, self._after(tokens, chosen), logit, math.exp(logarithm))
        return Attribution(tuple(read), choice, scores)

    # -- tokens ----------------------------------------------------------------------------------

    def tokens(self, text: Tokens) -> list[int]:
        """Return the tokens of a text; raises FeedError where there are none, or too many."""
        (row,) = self.generation.rows([text], 0)
        if len(row.prompt) > self.decoder.config.context:
            raise FeedError(
                f"the text has {len(row.prompt)} tokens",
                need=f"{self.decoder.config.context} or fewer",
            )
        return row.prompt

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Return the text that each token adds; "" where a character is not complete yet."""
        if self.tokenizer is None:
            return [f"{t} " for t in tokens]
        stream = TextStream(self.tokenizer)
        found = [stream.push(t) for t in tokens]
        found[-1] += stream.finish()
        return found

    def _after(self, before: Sequence[int], token: int) -> str:
        """Return the text that a token would add."""
        if self.tokenizer is None:
            return f"{token} "
        known = list(before[-1:])  # which decides whether it begins with a space
        text = self.tokenizer.decode(known)
        return self.tokenizer.decode([*known, token])[len(text) :]

    def feeds(self, text: Tokens) -> dict[str, Array]:
        """Return what the decoder's own graph takes to read a text, as for a `Stepper`.

        >>> from gradwright.models import Decoder, DecoderConfig, Interpretation
        >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
        >>> look = Interpretation(model)
        >>> model.graph.output(look.feeds([1, 2, 3]), "logits")["logits"].shape
        (1, 3, 9)
        """
        ids = np.array([self.tokens(text)], np.int64)
        found = {"ids": ids}
        if self.decoder.position_ids is not None:
            found["position_ids"] = np.arange(ids.shape[1])[None]
        return found

    def _run(self, tokens: Sequence[int], fetches: list[Any], **feeds: Array) -> list[Array]:
        """Return what the graph tells of a row that is read from its beginning."""
        graph, session = self.generation.graph, self.generation.session
        ids = np.zeros((1, room_for(len(tokens))), np.int64)
        ids[0, : len(tokens)] = tokens
        layers, two, _, heads, _, features = graph["past"].shape
        given = {
            "ids": ids,
            "position": np.zeros(1, np.int64),
            "last": np.array([len(tokens) - 1]),
            "past": np.zeros((layers, two, 1, heads, 0, features), np.float32),
            **({LENGTH: np.full(ids.shape, len(tokens))} if LENGTH in graph else {}),
            **feeds,
        }
        self.generation.read_weights()
        return list(session.run(fetches, given))


class _Heard(Strategy):
    """Keeps the logits of a step as they come from the model, before any rule."""

    order = -1
    logits: Array

    def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
        self.logits = np.array(logits)
        return logits


def _log_softmax(logits: Array) -> Array:
    x = logits.astype(np.float64)
    x -= x.max()
    return np.asarray(x - np.log(np.exp(x).sum()))


def _share(probability: float | None) -> str:
    return "" if probability is None else f"{probability:.2%}"
