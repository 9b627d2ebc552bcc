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

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import FeedError, GraphError
from ..graph import Graph, Values
from ..session import Session
from .completion import Completion, Ends, Piece, Prompts, Stops, begun, tokens_of
from .feeding import Feeding
from .following import Followed
from .loop import Loop
from .reading import MANY, Before, Reader, Run, room_for
from .running import Running
from .sampling import Greedy, Sampling, Strategy, in_order
from .speculation import Draft, Guesses
from .tokenizers import TextCodec

Array = np.ndarray[Any, Any]
_FEEDS = ("ids", "position", "last", "past")
_FETCHES = ("logits", "present")
LENGTH = "length"
"""The placeholder that graphs have whose positions turn by how long a row is."""
ALL = "all_logits"
"""The tensor of a graph that speculative decoding needs, too."""
AHEAD = 64
"""For how many new tokens many rows have room at first."""


@dataclass(frozen=True)
class _How:
    """How rows are read: room for how many tokens, how many at once, who guesses, what is fed."""

    room: int
    chunk: int | None
    draft: Draft | None
    feeds: Mapping[str, Array] = field(default_factory=dict)
    group: int = 1
    """How many rows each prompt is of."""
    first_room: int | None = None
    """Room at first, where rows are so many that keys and values weigh more than weights do."""
    is_told: bool = False
    said_at: float | None = None


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
        group: int = 1,
    ) -> list[Completion]:
        """Return a completion of each prompt, or a group of them.

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
            feeds: what each prompt feeds to other placeholders of the graph, by their names.
            group: how many rows each prompt begins, one after another; it is read once for all.

        Raises FeedError for a prompt that is empty, too long, or has unknown tokens, and GraphError
        for settings that make no sense.
        """
        rows, steps = self.begin(
            *(prompts, max_new_tokens, sampling, seed, stop, max_seconds, until),
            *(prefill_chunk, draft, feeds, group),
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
        group: int = 1,
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
        _, steps = self.begin(
            *(prompts, max_new_tokens, sampling, seed, stop, max_seconds, until),
            *(prefill_chunk, draft, feeds, group),
            is_told=True,
        )
        return (piece for pieces in steps for piece in pieces)

    def stop(self) -> None:
        """End all rows that are being generated, from whichever thread, after their next token."""
        self._stops += 1

    # -- the loop --------------------------------------------------------------------------------

    def begin(
        self,
        prompts: Prompts,
        max_new_tokens: int,
        sampling: Sampling = Greedy(),  # noqa: B008 - frozen
        seed: int | Sequence[int] = 0,
        stop: Stops = (),
        max_seconds: float | None = None,
        until: Callable[[Completion], bool] | None = None,
        prefill_chunk: int | None = None,
        draft: Draft | None = None,
        feeds: Mapping[str, Any] | None = None,
        group: int = 1,
        *,
        is_told: bool = False,
        said_at: float | None = None,
    ) -> tuple[list[Completion], Iterator[list[Piece]]]:
        """Check everything, and return the rows, and the steps that fill them, token by token.

        Arguments and errors are those of ``generate``. A step gives its pieces if ``is_told``;
        else texts are made where rows end. With ``said_at``, a temperature, rows keep
        log-probabilities and entropies of their tokens, too.

        >>> from gradwright.models import Decoder, DecoderConfig
        >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
        >>> rows, steps = model.generation().begin([[1, 2], [3]], 4, group=2)
        >>> [sum(len(row.tokens) for row in rows) for _ in steps]
        [4, 8, 12, 16]
        """
        for what, n in (
            ("tokens cannot be generated", max_new_tokens),
            ("tokens are no chunk", prefill_chunk),
            ("rows are no group", group),
        ):
            if n is not None and (not isinstance(n, int) or n < 1):
                raise GraphError(f"{n!r} {what}", need="an int >= 1")
        listed = [stop] if isinstance(stop, str | int) else list(stop)
        stops = [s for s in listed if isinstance(s, str)]
        ids = [s for s in listed if isinstance(s, int) and not isinstance(s, bool)]
        if len(stops) + len(ids) < len(listed) or not all(stops):
            raise GraphError(f"{listed} are no stops", need="texts of a character or more, tokens")
        if stops and self.tokenizer is None:
            raise GraphError("stop strings need a tokenizer", hint="Generation(tokenizer=...)")
        rows = self.rows(prompts, seed, group)
        given = self._feeding.checked(feeds or {}, len(rows) // group)
        rules = [
            rule.bound(self.tokenizer, self.eos, self.vocabulary) for rule in in_order(sampling)
        ]
        longest = max(len(row.prompt) + len(row.tokens) for row in rows)
        self._check_room(longest, max_new_tokens)
        if draft is not None:
            if not isinstance(draft, Draft):
                raise GraphError(
                    f"{type(draft).__name__} is no draft", hint="Draft(smaller.generation())"
                )
            draft.generation._check_room(longest, max_new_tokens)
            if draft.generation.vocabulary != self.vocabulary:
                raise GraphError(
                    f"a draft of {draft.generation.vocabulary} tokens guesses for a model of "
                    f"{self.vocabulary}",
                    need="models of one tokenizer",
                )
            self.fed(ALL, ())
        ends = Ends(self.eos, frozenset(ids), stops, max_new_tokens, max_seconds, until)
        first = room_for(longest + min(max_new_tokens, AHEAD)) if len(rows) >= MANY else None
        how = _How(
            room_for(longest + max_new_tokens),
            *(prefill_chunk, draft, given, group, first),
            is_told or draft is not None,
            said_at,
        )
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

    def rows(self, prompts: Any, seed: int | Sequence[int], group: int = 1) -> list[Completion]:
        """Return the rows that prompts begin, a group each; refuse what is none."""
        return begun(prompts, seed, self.tokenizer, self.vocabulary, group)

    def _steps(
        self,
        rows: list[Completion],
        rules: Sequence[Strategy],
        ends: Ends,
        how: _How,
    ) -> Iterator[list[Piece]]:
        """Read prompts and token after token until all rows have ended; yield what comes."""
        stops = self._stops
        running = Running(
            *(rows, rules, ends, self.tokenizer), is_told=how.is_told, said_at=how.said_at
        )
        self.read_weights()
        feeds = self._feeding.encoded(self.session, how.feeds)
        guesses = self._guesses(rows, rules, ends, how)
        loop = Loop(
            running,
            self.reader(len(rows) // how.group, how.room, how.chunk, how.first_room, feeds),
            self.fed("logits", feeds),
            how.group,
            self.reread,
            how.first_room is not None,
            guesses,
            None if guesses is None else self.fed(ALL, feeds),
        )
        yield from loop.steps(lambda: self._stops != stops)

    def reader(
        self,
        rows: int,
        room: int,
        chunk: int | None = None,
        first_room: int | None = None,
        feeds: Mapping[str, Array] | None = None,
    ) -> Reader:
        """Return what reads rows of so much room, of a chunk at once, with what stands before."""
        (layers, two, _, heads, _, features), dtype = self._past_of
        asks = LENGTH in self.takes
        chunk = chunk if asks or not self.reread else None  # chunks do not tell the length
        size = dtype, (layers, two, heads, features)
        given = list((feeds or {}).values())
        return Reader(size, rows, room, chunk, asks, self._before(), first_room, given)

    def _guesses(
        self, rows: Sequence[Completion], rules: Sequence[Strategy], ends: Ends, how: _How
    ) -> Guesses | None:
        if how.draft is None:
            return None
        other = how.draft.generation
        other.read_weights()
        reader = other.reader(len(rows), how.room, how.chunk)
        return Guesses(how.draft, reader, rows, rules, ends.eos | ends.tokens)

    def fed(self, logits: str, feeds: Collection[str]) -> Run:
        """Return what gives logits, keys and values; it takes what else rows feed at its end."""
        if logits == "logits" and not feeds:
            return self.run
        if logits not in self.graph:
            raise GraphError(
                f"graph {self.graph.name!r} does not tell the logits of all positions",
                need=f"a tensor {ALL}: f32[B, T, V]",
                hint="gw.models.Decoder(config).generation()",
            )
        key = (logits, *feeds)
        if key not in self._runs:
            self._runs[key] = self.session.prepare([logits, "present"], (*self.takes, *feeds))
        return self._runs[key]

    def read_weights(self) -> None:
        """Take over what has changed since the last generation began; arrays are not copied."""
        if self._followed is not None:
            answers = self.session.answers
            names = answers.get("variables")
            if names is None:
                names = answers["variables"] = [v.name for v in self.graph.variables]
            self._followed.hand(names, self.session)
