"""Sequences: examples as rows of tokens in parts, and the batches they make."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...data.batches import DEFAULT_BATCH, Batch, Feeds
from ...data.columns import boxes
from ...data.dataset import Dataset
from ...data.sources import Arrays
from ...errors import FeedError, TrainingError
from ..data.by_length import ByLength
from ..data.rows import Examples, TokenRow

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sequences:
    """Rows of tokens in parts of equal length, such as the chosen and the rejected of all pairs."""

    parts: tuple[Sequence[TokenRow], ...]
    columns: Mapping[str, Array] = field(default_factory=dict)
    """What else each example has."""
    numbers: Sequence[int] = ()
    """Which row of the data each example is."""
    feeds: Mapping[str, Array] = field(default_factory=dict)
    """What each example feeds to placeholders of the model by itself, such as an image."""
    own: int = 1
    """How many of the parts are the data's; the others are made of them."""

    @classmethod
    def of(
        cls, examples: Examples, *, mismatched: bool = False, length: int | None = None
    ) -> Sequences:
        """Return examples in parts; ``mismatched`` adds each prompt with another's completion.

        These are cut to ``length`` tokens, as the others have been.
        """
        n = len(examples.numbers)
        if examples.kind == "pair":
            margin = [0.0] * n if examples.margin is None else examples.margin
            columns = {"margin": np.asarray(margin, np.float32)}
            parts = examples.chosen, examples.rejected
            return cls(parts, columns, examples.numbers, examples.feeds, own=2)
        columns = {}
        if examples.kind == "label":
            columns["desirable"] = np.asarray(examples.desirable, bool)
        others = (_rotated(examples.rows, length),) if mismatched else ()
        return cls((examples.rows, *others), columns, examples.numbers, examples.feeds)

    @property
    def n(self) -> int:
        """How many examples there are."""
        return len(self.parts[0])

    @property
    def lengths(self) -> list[int]:
        """The length of the longest row of each example."""
        return [max(map(len, rows)) for rows in zip(*self.parts, strict=True)]

    @property
    def n_tokens(self) -> Array:
        """How many tokens of the data each example has: i64[n]."""
        each = [[len(row) for row in part] for part in self.parts[: self.own]]
        return np.asarray(np.sum(each, axis=0, dtype=np.int64))

    def fed(self, at: Sequence[int]) -> dict[str, Array]:
        """Return what some examples feed by themselves, once for each part."""
        rows = np.tile(np.asarray(at, np.int64), len(self.parts))
        return {name: array[rows] for name, array in self.feeds.items()}

    def check_lengths(self, context: int) -> None:
        """Refuse rows that a model of so many positions cannot read."""
        for part in self.parts:
            for number, row in zip(self.numbers, part, strict=True):
                if len(row) > context:
                    raise FeedError(
                        f"row {number} of the data has {len(row)} tokens",
                        need=f"at most {context}, which the model reads at once",
                        hint=f"examples(..., max_length={context})",
                    )

    @property
    def checksum(self) -> int:
        """A number that other tokens or labels would change."""
        found = 0
        for row in (row for part in self.parts for row in part):
            found = zlib.crc32(np.asarray([len(row), *row.tokens, *row.labels]).tobytes(), found)
        for name, array in self.feeds.items():
            found = zlib.crc32(array.tobytes(), zlib.crc32(name.encode(), found))
        return found

    def rows(self, at: Sequence[int]) -> list[TokenRow]:
        """Return the rows of some examples, part below part."""
        return [part[i] for part in self.parts for i in at]


def _rotated(rows: Sequence[TokenRow], length: int | None) -> list[TokenRow]:
    """Return each prompt with the completion of the row before it; the first, of the last."""
    if len(rows) < 2:
        raise FeedError(
            "one completion cannot be put behind another prompt",
            need="two rows, or more",
            hint='KTO(loss_type="apo_zero_unpaired")',
        )
    found = []
    for i, row in enumerate(rows):
        other = rows[i - 1]
        tokens = [*row.tokens[: row.n_prompt], *other.tokens[other.n_prompt :]]
        whole = TokenRow(tokens, row.n_prompt)
        found.append(whole if length is None else whole.cut(length))
    return found


class SequenceBatches:
    """Batches of sequences, in an order that seed and epoch decide."""

    def __init__(
        self,
        held: Sequences,
        feeds: Callable[[Sequence[int]], Feeds],
        size: int | None,
        *,
        seed: int | None,
        by_length: bool = False,
        drop_last: bool,
        exact: bool,
    ) -> None:
        if not held.n:
            raise FeedError("no row of the data is left", hint="examples(data, ...).report")
        size = min(DEFAULT_BATCH, held.n) if size is None else size
        if size < 1 or (exact and size > held.n):
            raise TrainingError(
                f"batch_size={size} does not fit the data",
                facts=[f"the data holds {held.n} examples"],
                need=f"1 to {held.n}",
            )
        self._held, self._feeds = held, feeds
        tokens = {
            f"tokens{i}": boxes([np.asarray(row.tokens) for row in part])
            for i, part in enumerate(held.parts)
        }
        size = min(size, held.n)
        table = Arrays({"row": np.arange(held.n), **tokens})
        order: Dataset = table
        if seed is not None:
            lengths = held.lengths if by_length else ()
            order = ByLength(table, lengths, size, seed=seed) if lengths else table.shuffle(seed)
        self._order = order.batch(size, drop_last=drop_last)
        self.seconds = 0.0

    @property
    def n_batches(self) -> int | None:
        """Batches per epoch."""
        return self._order.n

    def epoch(self, number: int, skip: int = 0) -> Generator[Batch, None, None]:
        """Give the batches of an epoch, without the first ``skip``."""
        for rows in self._numbers(number, skip):
            began = time.perf_counter()
            feeds = self._feeds(rows)
            self.seconds += time.perf_counter() - began
            yield feeds, len(rows)

    def _numbers(self, epoch: int, skip: int) -> Iterator[list[int]]:
        for batch in self._order.epoch(epoch, skip):
            yield batch["row"].tolist()

    def signature(self) -> list[int]:
        """Return rows, order and batches, and a digest of some tokens."""
        return self._order.signature()

    def origin(self, epoch: int, batch: int, row: int) -> str:
        """Say which row of the data a row of a batch is of."""
        numbers = self.row_numbers(epoch)[batch]
        return f"row {self._held.numbers[numbers[row % len(numbers)]]} of the data"

    def row_numbers(self, epoch: int) -> list[Array]:
        """Return which examples each batch holds."""
        return list(self._order.row_numbers(epoch) or ())
