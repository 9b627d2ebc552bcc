"""Generation: prompts in, tokens out, one run of a graph for the prompts and one for each token.

The graph reads the keys and values of the past from an array that the loop owns, and returns those
of the new positions, which the loop writes behind them. So nothing but a few numbers is copied from
token to token, sizes stay the same, two plans are enough, and whatever interrupts a generation
leaves the graph as it was: any number of them may go on side by side.

    prompts   ids: [[a b c ·], [d e · ·]]   position: [0, 0]   last: [2, 1]
    then      ids: [[x], [y]]               position: [3, 2]   last: [0, 0]

Shorter prompts are padded on the right. What stands there is behind all that looks at it; the next
token is written over it and its position is that of a row alone, so a row does not feel the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import FeedError, GraphError
from ..graph import Graph, Values
from ..session import Session
from .completion import Completion, Ends, Piece, Prompts, Text
from .sampling import Greedy, Sampling, Strategy, chosen, in_order
from .tokenizers import TextCodec

Array = np.ndarray[Any, Any]
_FEEDS = ("ids", "position", "last", "past")
_FETCHES = ("logits", "present")


class Generation:
    """A graph that tells the next token, and the loop that asks it.

    The graph has placeholders ``ids``: i64[B, T], new tokens; ``position``: i64[B], where the first
    of them stands; ``last``: i64[B], which of the T is the last; ``past``: [layers, 2, B, H, S, E],
    keys and values, of which those before ``position`` exist. It has tensors ``logits``: f32[B, V]
    of the token after the last one, and ``present``, as ``past`` with T in place of S.
    ``Decoder.generation`` makes one; a graph that was saved is as good.

    Args:
        graph: such a graph.
        tokenizer: for prompts that are text, stop strings, and text that comes out.
        eos: tokens that end a row.
        context: how many tokens a row may have; None is any number.
        reread: after how many tokens all of a row is read anew, once: where a model's positions
            depend on whether a row is longer, as those of longrope do.
        weights: values that every generation begins by reading the graph's variables from. So it
            is up to date, and consistent while a trainer changes them; a stream that goes on when
            another has begun goes on with the weights of that.
        session: runs the graph; by default one of its own.

    >>> from gradwright.models import Decoder, DecoderConfig, Temperature, TopK
    >>> model = Decoder(DecoderConfig(vocabulary=20, width=16, layers=1, heads=2))
    >>> generation = model.generation()
    >>> rows = generation.generate([[1, 2, 3], [4]], 5, sampling=[Temperature(0.8), TopK(5)])
    >>> [(row.prompt, len(row.tokens), row.reason) for row in rows]
    [([1, 2, 3], 5, 'length'), ([4], 5, 'length')]
    >>> alone = generation.generate([[4]], 5, sampling=[Temperature(0.8), TopK(5)], seed=1)
    >>> alone[0].tokens == rows[1].tokens  # rows have seeds of their own: seed, seed + 1 ...
    True
    """

    def __init__(
        self,
        graph: Graph,
        *,
        tokenizer: TextCodec | None = None,
        eos: int | Sequence[int] = (),
        context: int | None = None,
        reread: int | None = None,
        weights: Values | None = None,
        session: Session | None = None,
    ) -> None:
        missing = [n for n in (*_FEEDS, *_FETCHES) if n not in graph]
        if missing:
            raise GraphError(
                f"graph {graph.name!r} does not generate: it has no {', '.join(missing)}",
                need="placeholders ids, position, last, past; tensors logits, present",
                hint="gw.models.Decoder(config).generation()",
            )
        self.graph, self.tokenizer, self.context = graph, tokenizer, context
        self.session = Session(graph) if session is None else session
        self.eos = frozenset([eos] if isinstance(eos, int) else eos)
        self.reread = reread
        self._weights, self._versions = weights, dict[str, int]()
        self._stops = 0
        self._run = self.session.prepare(list(_FETCHES), _FEEDS)
        past = graph["past"]
        self._past_of = past.shape, past.dtype
        self.vocabulary: Any = graph["logits"].shape[-1]

    def generate(
        self,
        prompts: Prompts,
        max_new_tokens: int = 100,
        *,
        sampling: Sampling = Greedy(),  # noqa: B008 - frozen
        seed: int | Sequence[int] = 0,
        stop: str | Sequence[str] = (),
        max_seconds: float | None = None,
        until: Callable[[Completion], bool] | None = None,
    ) -> list[Completion]:
        """Return a completion of each prompt.

        Args:
            prompts: texts, lists of tokens, or completions, which go on; one text is one prompt.
            max_new_tokens: after how many tokens a row ends at the latest.
            sampling: how a token is chosen: strategies in any order; none draws from the softmax.
            seed: row i draws with ``seed + i``, or with the i-th of several seeds; a completion
                keeps its own. A draw depends on this, and on how many tokens stand before it.
            stop: texts that end a row in which they appear.
            max_seconds: time after which all rows end, with one token at the least.
            until: called with each row after each token; True ends it.

        Raises FeedError for a prompt that is empty, too long, or has unknown tokens, and GraphError
        for settings that make no sense.
        """
        rows, steps = self._begin(prompts, max_new_tokens, sampling, seed, stop, max_seconds, until)
        for _ in steps:
            pass
        return rows

    def stream(
        self,
        prompts: Prompts,
        max_new_tokens: int = 100,
        *,
        sampling: Sampling = Greedy(),  # noqa: B008 - frozen
        seed: int | Sequence[int] = 0,
        stop: str | Sequence[str] = (),
        max_seconds: float | None = None,
        until: Callable[[Completion], bool] | None = None,
    ) -> Iterator[Piece]:
        """Yield a piece for each row and step as it comes; arguments and errors of ``generate``.

        Text comes in whole characters, and what may be the beginning of a stop string is held back
        until it is known not to be one.

        >>> from gradwright.models import CharTokenizer, Decoder, DecoderConfig
        >>> model = Decoder(DecoderConfig(vocabulary=3, width=8, layers=1, heads=2))
        >>> generation = model.generation(tokenizer=CharTokenizer("abc"))
        >>> len("".join(piece.text for piece in generation.stream("ab", 4)))
        4
        """
        return self._begin(prompts, max_new_tokens, sampling, seed, stop, max_seconds, until)[1]

    def stop(self) -> None:
        """End all rows that are being generated, from whichever thread, after their next token."""
        self._stops += 1

    # -- the loop --------------------------------------------------------------------------------

    def _begin(
        self,
        prompts: Prompts,
        limit: int,
        sampling: Sampling,
        seed: int | Sequence[int],
        stop: str | Sequence[str],
        seconds: float | None,
        until: Callable[[Completion], bool] | None,
    ) -> tuple[list[Completion], Iterator[Piece]]:
        """Check everything, and return the rows, and the steps that fill them."""
        if not isinstance(limit, int) or limit < 1:
            raise GraphError(f"{limit!r} tokens cannot be generated", need="an int >= 1")
        stops = [stop] if isinstance(stop, str) else list(stop)
        if not all(isinstance(s, str) and s for s in stops):
            raise GraphError(f"{stops} are no stop strings", need="texts of a character or more")
        if stops and self.tokenizer is None:
            raise GraphError("stop strings need a tokenizer", hint="Generation(tokenizer=...)")
        rules, rows = in_order(sampling), self._rows(prompts, seed)
        longest = max(len(row.prompt) + len(row.tokens) for row in rows)
        if self.context is not None and longest + limit > self.context:
            raise FeedError(
                f"a prompt of {longest} tokens and {limit} more exceed the context",
                need=f"{self.context} tokens together",
                hint="a shorter prompt, or fewer max_new_tokens",
            )
        ends = Ends(self.eos, stops, limit, seconds, until)
        return rows, self._steps(rows, rules, ends, _room(longest + limit))

    def _rows(self, prompts: Any, seed: int | Sequence[int]) -> list[Completion]:
        """Return the rows that prompts begin; refuse what is none."""
        listed: list[Any] = [prompts] if isinstance(prompts, str | Completion) else list(prompts)
        if not listed:
            raise FeedError("there is no prompt", need="one or more")
        seeds = [seed + i for i in range(len(listed))] if isinstance(seed, int) else list(seed)
        if len(seeds) != len(listed) or not all(isinstance(s, int) for s in seeds):
            raise GraphError(f"{seeds} are no seeds of {len(listed)} prompts", need="one int each")
        rows = []
        for i, (prompt, own) in enumerate(zip(listed, seeds, strict=True)):
            if isinstance(prompt, Completion):
                row = Completion(list(prompt.prompt), list(prompt.tokens), seed=prompt.seed)
                if prompt.reason in ("eos", "stop"):
                    row.text, row.reason = prompt.text, prompt.reason
            elif isinstance(prompt, str):
                if self.tokenizer is None:
                    raise FeedError(
                        f"prompt {i} is text, and there is no tokenizer",
                        hint="Generation(tokenizer=...), or a list of tokens",
                    )
                row = Completion(self.tokenizer.encode(prompt), seed=own)
            else:
                row = Completion(_numbers(prompt, i), seed=own)
            if not row.prompt:
                raise FeedError(
                    f"prompt {i} is empty", need="a token", hint="begin with one that begins texts"
                )
            for t in row.prompt + row.tokens:
                if not 0 <= t < self.vocabulary:
                    raise FeedError(
                        f"token {t} of prompt {i} is not in the vocabulary",
                        need=f"0 to {self.vocabulary - 1}",
                    )
            rows.append(row)
        return rows

    def _steps(
        self, rows: list[Completion], rules: Sequence[Strategy], ends: Ends, room: int
    ) -> Iterator[Piece]:
        """Run prompts and tokens until all rows have ended; yield what comes."""
        stops, deadline = self._stops, ends.deadline()
        self._read_weights()
        tokens = [row.prompt + row.tokens for row in rows]
        texts = [Text(self.tokenizer, row, ends) for row in rows]
        ids, n_new = _padded(tokens), [len(t) for t in tokens]
        position = np.zeros(len(rows), np.int64)
        last = np.array(n_new) - 1
        past = self._empty_past(len(rows), room)
        read = past[:, :, :, :, :0]  # nothing is known before the prompts
        live = [b for b, row in enumerate(rows) if row.reason is None]
        begun = [len(row.tokens) for row in rows]
        while live:
            logits, present = self._run(ids, position, last, read)
            n_at_once = ids.shape[1]
            for b in live:
                at = int(position[b])
                past[:, :, b, :, at : at + n_at_once] = present[:, :, b]
            position += last + 1
            late, stopped = time.monotonic() >= deadline, self._stops != stops
            going, pieces = [], []
            for b in live:
                row = rows[b]
                token = chosen(logits[b], rules, tokens[b], len(row.prompt), row.seed)
                tokens[b].append(token)
                row.tokens.append(token)
                text, found = texts[b].push(token)
                reason = ends.reason(row, len(row.tokens) - begun[b], found, late, stopped)
                if reason is None:
                    going.append(b)
                elif not found:
                    text += texts[b].finish()
                row.reason = reason
                pieces.append(Piece(b, token, text, reason))
            yield from pieces
            live = going
            if any(len(tokens[b]) - 1 == self.reread for b in live):
                ids, position = _padded(tokens), np.zeros_like(position)
                last, read = np.array([len(t) for t in tokens]) - 1, past[:, :, :, :, :0]
                continue
            if read.shape[4] != room:
                read, ids, last = past, np.zeros((len(rows), 1), np.int64), np.zeros_like(last)
            for b in live:
                ids[b, 0] = tokens[b][-1]
            for b in set(range(len(rows))) - set(live):
                position[b] = 0

    def _empty_past(self, batch: int, room: int) -> Array:
        (layers, two, _, heads, _, features), dtype = self._past_of
        return np.zeros((layers, two, batch, heads, room, features), dtype)

    def _read_weights(self) -> None:
        """Take over what has changed since the last generation began; arrays are not copied."""
        if self._weights is None:
            return
        own, held = self.session.values, self._weights
        with held.lock:
            now = {v.name: held.version(v.name) for v in self.graph.variables if v.name in held}
            changed = [name for name, n in now.items() if self._versions.get(name) != n]
            own.commit({name: held.array(name) for name in changed})
        self._versions = now


def _numbers(prompt: Any, i: int) -> list[int]:
    """Return a prompt that is a row of integers as a list."""
    try:
        array = np.asarray(prompt)
    except ValueError:  # rows of different lengths
        array = np.empty((0, 0))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise FeedError(
            f"prompt {i} is {prompt!r}", need="a text, or a list of tokens", hint="[[1, 2]]"
        )
    return [int(t) for t in array]


def _room(n: int) -> int:
    """Return the least 2ᵏ or 3·2ᵏ that n positions fit into: few sizes, so few plans.

    >>> [_room(n) for n in (1, 17, 30, 33, 300)]
    [16, 24, 32, 48, 384]
    """
    power = max(16, 1 << (n - 1).bit_length())
    return power * 3 // 4 if n <= power * 3 // 4 and power > 16 else power


def _padded(rows: Sequence[Sequence[int]]) -> Array:
    """Return rows of tokens below each other, padded on the right to one of a few lengths."""
    ids = np.zeros((len(rows), _room(max(map(len, rows)))), np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return ids
