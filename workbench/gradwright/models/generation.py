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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import FeedError, GraphError
from ..graph import Graph, Values
from ..session import Session
from .completion import Completion, Ends, Piece, Prompts, Stops, Text, begun, tokens_of
from .feeding import Feeding
from .following import Followed
from .reading import Before, Reader, Run, room_for
from .sampling import Greedy, Sampling, Strategy, chosen, in_order
from .speculation import Draft, Guesses
from .tokenizers import TextCodec

Array = np.ndarray[Any, Any]
_FEEDS = ("ids", "position", "last", "past")
_FETCHES = ("logits", "present")
LENGTH = "length"
"""The placeholder that graphs have whose positions turn by how long a row is."""
ALL = "all_logits"
"""The tensor of a graph that speculative decoding needs, too."""


@dataclass(frozen=True)
class _How:
    """How rows are read: room for how many tokens, how many at once, who guesses, what is fed."""

    room: int
    chunk: int | None
    draft: Draft | None
    feeds: Mapping[str, Array] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """How many tokens are read at once where there are guesses."""
        return 1 if self.draft is None else self.draft.tokens + 1


class Generation:
    """A graph that tells the next token, and the loop that asks it.

    The graph has placeholders ``ids``: i64[B, T], new tokens; ``position``: i64[B], where the first
    of them stands; ``last``: i64[B], which of the T is the last; ``past``: [layers, 2, B, H, S, E],
    keys and values, of which those before ``position`` exist. It has tensors ``logits``: f32[B, V]
    of the token after the last one, and ``present``, as ``past`` with T in place of S.
    It may have ``length``: i64[B, T], how many tokens the row of each then has: a prompt's all; and
    ``encoded``, read with every token, which a tensor ``encoding`` makes once of what rows feed.
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
        before: what stands before each row of a generation that begins, such as a prefix.
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
        before: Callable[[], Before | None] | None = None,
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
        self.eos = frozenset(tokens_of(eos))
        self.reread = reread
        self._followed = None if weights is None else Followed(weights)
        self._before: Callable[[], Before | None] = before or (lambda: None)
        self._stops = 0
        self.takes = (*_FEEDS, LENGTH) if LENGTH in graph else _FEEDS
        """The placeholders of a run, in their order."""
        self._feeding = Feeding(graph, self.takes)
        self.run: Run = self.session.prepare(list(_FETCHES), self.takes)
        self._all: Run | None = None
        self._runs: dict[tuple[str, ...], Run] = {}
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
        stop: Stops = (),
        max_seconds: float | None = None,
        until: Callable[[Completion], bool] | None = None,
        prefill_chunk: int | None = None,
        draft: Draft | None = None,
        feeds: Mapping[str, Any] | None = None,
    ) -> list[Completion]:
        """Return a completion of each prompt.

        Args:
            prompts: texts, lists of tokens, or completions, which go on; one text is one prompt.
            max_new_tokens: after how many tokens a row ends at the latest.
            sampling: how a token is chosen: strategies in any order; none draws from the softmax.
            seed: row i draws with ``seed + i``, or with the i-th of several seeds; a completion
                keeps its own. A draw depends on this, and on how many tokens stand before it.
            stop: what ends a row: texts that appear in it, tokens that come.
            max_seconds: time after which all rows end, with one token at the least.
            until: called with each row after each token; True ends it.
            prefill_chunk: how many tokens of prompts are read at once, at most: what a prompt of
                length T needs in between is then that of a chunk, and attention is never T×T.
            draft: a smaller model that guesses what comes next; the tokens are the same.
            feeds: what each row feeds to other placeholders of the graph, by their names.

        Raises FeedError for a prompt that is empty, too long, or has unknown tokens, and GraphError
        for settings that make no sense.
        """
        rows, steps = self._begin(
            *(prompts, max_new_tokens, sampling, seed, stop, max_seconds, until),
            *(prefill_chunk, draft, feeds),
        )
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
        stop: Stops = (),
        max_seconds: float | None = None,
        until: Callable[[Completion], bool] | None = None,
        prefill_chunk: int | None = None,
        draft: Draft | None = None,
        feeds: Mapping[str, Any] | None = None,
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
        return self._begin(
            *(prompts, max_new_tokens, sampling, seed, stop, max_seconds, until),
            *(prefill_chunk, draft, feeds),
        )[1]

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
        stop: Stops,
        seconds: float | None,
        until: Callable[[Completion], bool] | None,
        chunk: int | None,
        draft: Draft | None,
        feeds: Mapping[str, Any] | None,
    ) -> tuple[list[Completion], Iterator[Piece]]:
        """Check everything, and return the rows, and the steps that fill them."""
        for what, n in (("tokens cannot be generated", limit), ("tokens are no chunk", chunk)):
            if n is not None and (not isinstance(n, int) or n < 1):
                raise GraphError(f"{n!r} {what}", need="an int >= 1")
        listed = [stop] if isinstance(stop, str | int) else list(stop)
        stops = [s for s in listed if isinstance(s, str)]
        ids = [s for s in listed if isinstance(s, int) and not isinstance(s, bool)]
        if len(stops) + len(ids) < len(listed) or not all(stops):
            raise GraphError(f"{listed} are no stops", need="texts of a character or more, tokens")
        if stops and self.tokenizer is None:
            raise GraphError("stop strings need a tokenizer", hint="Generation(tokenizer=...)")
        rows = self.rows(prompts, seed)
        given = self._feeding.checked(feeds or {}, len(rows))
        rules = [
            rule.bound(self.tokenizer, self.eos, self.vocabulary) for rule in in_order(sampling)
        ]
        longest = max(len(row.prompt) + len(row.tokens) for row in rows)
        self._check_room(longest, limit)
        if draft is not None:
            if not isinstance(draft, Draft):
                raise GraphError(
                    f"{type(draft).__name__} is no draft", hint="Draft(smaller.generation())"
                )
            draft.generation._check_room(longest, limit)
            if draft.generation.vocabulary != self.vocabulary:
                raise GraphError(
                    f"a draft of {draft.generation.vocabulary} tokens guesses for a model of "
                    f"{self.vocabulary}",
                    need="models of one tokenizer",
                )
            self._run_all()
        ends = Ends(self.eos, frozenset(ids), stops, limit, seconds, until)
        how = _How(room_for(longest + limit), chunk, draft, given)
        return rows, self._steps(rows, rules, ends, how)

    def _check_room(self, longest: int, limit: int) -> None:
        before = self._before() if self.context is not None else None
        longest += 0 if before is None else before.n
        if self.context is not None and longest + limit > self.context:
            raise FeedError(
                f"a prompt of {longest} tokens and {limit} more exceed the context",
                need=f"{self.context} tokens together",
                hint="a shorter prompt, or fewer max_new_tokens",
            )

    def rows(self, prompts: Any, seed: int | Sequence[int]) -> list[Completion]:
        """Return the rows that prompts begin; refuse what is none."""
        return begun(prompts, seed, self.tokenizer, self.vocabulary)

    def _steps(
        self, rows: list[Completion], rules: Sequence[Strategy], ends: Ends, how: _How
    ) -> Iterator[Piece]:
        """Read prompts and token after token until all rows have ended; yield what comes."""
        stops, deadline = self._stops, ends.deadline()
        self.read_weights()
        tokens = [row.prompt + row.tokens for row in rows]
        texts = [Text(self.tokenizer, row, ends) for row in rows]
        begun = [len(row.tokens) for row in rows]
        live = [b for b, row in enumerate(rows) if row.reason is None]
        feeds = self._feeding.encoded(self.session, how.feeds)
        reader = self.reader(len(rows), how.room, how.chunk)
        guesses = self._guesses(len(rows), rules, ends, how)
        guessed: dict[int, list[int]] = {}
        while live:
            wanted = {b: [*tokens[b], *guessed.get(b, ())] for b in live}
            width = how.width if guessed else 0
            run = self.fed(ALL if guessed else "logits", feeds)
            read = reader.read(run, wanted, width)
            late, stopped = time.monotonic() >= deadline, self._stops != stops
            going, pieces = [], []
            for b, logits in zip(live, read, strict=True):
                row, told = rows[b], guessed.get(b, [])
                each = logits[-len(told) - 1 :] if width else [logits]
                for y, guess in zip(each, [*told, -1], strict=True):
                    token = chosen(y, rules, tokens[b], len(row.prompt), row.seed)
                    tokens[b].append(token)
                    row.tokens.append(token)
                    text, found = texts[b].push(token)
                    over = any(rule.ended(tokens[b], len(row.prompt)) for rule in rules)
                    n = len(row.tokens) - begun[b]
                    reason = row.reason = ends.reason(row, n, found, over, late, stopped)
                    if reason is not None and not found:
                        text += texts[b].finish()
                    pieces.append(Piece(b, token, text, reason))
                    if guesses is not None and guess >= 0:
                        guesses.tell(token == guess)
                    if reason is not None or token != guess:
                        break
                reader.keep(b, len(tokens[b]) - 1)
                if row.reason is None:
                    going.append(b)
            yield from pieces
            live = going
            anew = self._read_anew(reader, tokens, live)
            guessed = {}
            if guesses is not None and live and not anew:  # what is read anew is read in one piece
                left = {b: begun[b] + ends.limit - len(rows[b].tokens) - 1 for b in live}
                guessed = guesses.of(rows, tokens, self._before_reread(tokens, left))

    def _read_anew(
        self, reader: Reader, tokens: Sequence[Sequence[int]], live: Sequence[int]
    ) -> bool:
        """Forget rows that have just become longer than `reread`; tell whether there are any."""
        n = self.reread
        rows = [] if n is None else [b for b in live if reader.known[b] <= n < len(tokens[b])]
        for b in rows:
            reader.keep(b, 0)
        return bool(rows)

    def _before_reread(
        self, tokens: Sequence[Sequence[int]], left: Mapping[int, int]
    ) -> dict[int, int]:
        """Return how many guesses there may be: none beyond the token that has all read anew."""
        if self.reread is None:
            return dict(left)
        before = {b: self.reread - len(tokens[b]) for b in left}
        return {b: min(n, before[b]) if before[b] >= 0 else n for b, n in left.items()}

    def reader(self, rows: int, room: int, chunk: int | None = None) -> Reader:
        """Return what reads rows of so much room, of a chunk at once, with what stands before."""
        (layers, two, _, heads, _, features), dtype = self._past_of
        asks = LENGTH in self.takes
        chunk = chunk if asks or not self.reread else None  # chunks do not tell the length
        size = dtype, (layers, two, heads, features)
        return Reader(size, rows, room, chunk, asks, self._before())

    def _guesses(
        self, rows: int, rules: Sequence[Strategy], ends: Ends, how: _How
    ) -> Guesses | None:
        if how.draft is None:
            return None
        other = how.draft.generation
        other.read_weights()
        reader = other.reader(rows, how.room, how.chunk)
        return Guesses(how.draft, reader, rules, ends.eos | ends.tokens)

    def _run_all(self) -> Run:
        """Return what gives the logits of all positions."""
        if self._all is None:
            if ALL not in self.graph:
                raise GraphError(
                    f"graph {self.graph.name!r} does not tell the logits of all positions",
                    need=f"a tensor {ALL}: f32[B, T, V]",
                    hint="gw.models.Decoder(config).generation()",
                )
            self._all = self.session.prepare([ALL, "present"], self.takes)
        return self._all

    def fed(self, logits: str, feeds: Mapping[str, Array]) -> Run:
        """Return what gives logits and keys and values, with what else rows feed put in."""
        if not feeds:
            return self.run if logits != ALL else self._run_all()
        key = (logits, *feeds)
        if key not in self._runs:
            self._runs[key] = self.session.prepare([logits, "present"], (*self.takes, *feeds))
        run, rest = self._runs[key], tuple(feeds.values())
        return lambda *given: run(*given, *rest)

    def read_weights(self) -> None:
        """Take over what has changed since the last generation began; arrays are not copied."""
        if self._followed is not None:
            self._followed.hand((v.name for v in self.graph.variables), self.session)
