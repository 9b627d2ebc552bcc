"""Rewards that are graphs: a number a row, declared with ops, or a reward model's score."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...errors import FeedError, GraphError
from ...graph import Tensor
from ...graph.walk import placeholders
from ...models.decoder.rows import IGNORED, padded_rows
from ...models.tokenizers import TextCodec
from ...session import Session
from ...spec import kind
from .rule import Rule, Texts, column_of

Array = np.ndarray[Any, Any]
MULTIPLE = 16
"""Rows are padded to a multiple of so many tokens, so that there are few plans."""


@dataclass(frozen=True, eq=False)
class GraphReward(Rule):
    """A reward that is a tensor f32[B] of a graph, over the tokens of prompts and completions.

    The graph has a placeholder ``ids`` i64[B, T], ``labels`` of the same shape, or both: rows of
    prompt and completion, padded on the right, and labels that are ids, −100 at prompts and
    padding. Any other placeholder that the tensor needs is fed the column of its name. It is drawn,
    watched and checked as every graph is, and where it is differentiable,
    ``gw.gradients(reward.tensor, …)`` are its gradients. Variables are read as they are when it is
    asked: in the policy's own graph, the policy's.

    ``rows_at_once`` rows are run together; the same rows give the same bits. Raises GraphError for
    what is no such tensor, FeedError for columns that are missing or do not fit.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> labels, most = g.placeholder("labels", ("B", "T"), "int64"), g.placeholder("most", ("B",))
    >>> room = most - gw.cast(labels != -100, "float32").sum(-1)
    >>> short = gw.align.GraphReward(gw.minimum(room, 0.0), name="short")
    >>> short([""] * 2, [""] * 2, prompt_ids=[[1], [1]], completion_ids=[[5] * 4, [5]], most=[3, 3])
    [-1.0, 0.0]
    """

    tensor: Tensor
    ids: str = "ids"
    labels: str = "labels"
    rows_at_once: int = 32
    limited: ClassVar[bool] = True

    def __post_init__(self) -> None:
        t = self.tensor
        if not isinstance(t, Tensor) or t.rank != 1 or kind(t.dtype) != "f":
            raise GraphError(
                f"a reward is to be {t.spec if isinstance(t, Tensor) else repr(t)}",
                need="a floating tensor with a number for each row, f32[B]",
                hint="gw.sum(x, -1) over what each token gives, within labels != -100",
            )
        if not {self.ids, self.labels} & self._needed.keys():
            raise GraphError(
                f"{t.name!r} depends on no tokens",
                facts=["it needs: " + (", ".join(self._needed) or "no placeholder")],
                need=f"the placeholder {self.ids!r}, {self.labels!r}, or both",
            )
        if self.rows_at_once < 1:
            raise GraphError(f"rows_at_once={self.rows_at_once} makes no sense", need=">= 1")

    def __call__(self, prompts: Texts, completions: Texts, **columns: Sequence[Any]) -> Any:
        whole, n_prompt = self.tokens(prompts, completions, columns)
        further = self._needed.keys() - {self.ids, self.labels}
        held = {name: column_of(columns, name, len(whole), self) for name in further}
        found: list[float] = []
        for at in range(0, len(whole), self.rows_at_once):
            rows = slice(at, at + self.rows_at_once)
            fed = self._padded(padded_rows(whole[rows], n_prompt[rows]))
            fed |= {name: self._array(name, column[rows]) for name, column in held.items()}
            said = self._session.run(
                self.tensor, {self._needed[name]: a for name, a in fed.items()}
            )
            if len(said) != len(whole[rows]):
                raise FeedError(
                    f"{self.tensor.name!r} gave {len(said)} numbers for {len(whole[rows])} rows",
                    need="a number for each",
                )
            found += said.tolist()
        return found

    def tokens(
        self, prompts: Texts, completions: Texts, columns: Mapping[str, Sequence[Any]]
    ) -> tuple[list[list[int]], list[int]]:
        """Return the tokens of each row, and how many of them are the prompt's."""
        rows = len(completions)
        held = (
            column_of(columns, f"{which}_ids", rows, self) for which in ("prompt", "completion")
        )
        pairs = list(zip(*held, strict=True))
        return [[*prompt, *completion] for prompt, completion in pairs], [len(p) for p, _ in pairs]

    @functools.cached_property
    def _needed(self) -> dict[str, Tensor]:
        return {t.name: t for t in placeholders([self.tensor])}

    @functools.cached_property
    def _session(self) -> Session:
        return Session(self.tensor.graph, deterministic=True)

    def _padded(self, rows: Mapping[str, Array]) -> dict[str, Array]:
        """Return ids and labels, as far as they are needed, of a width that comes again."""
        fed = {}
        for name, key, filling in ((self.ids, "ids", 0), (self.labels, "labels", IGNORED)):
            if name in self._needed:
                width, fixed = rows[key].shape[1], self._needed[name].shape[1]
                more = fixed - width if isinstance(fixed, int) else -width % MULTIPLE
                if more < 0:
                    raise FeedError(f"a row has {width} tokens", need=f"at most {fixed}")
                fed[name] = np.pad(rows[key], ((0, 0), (0, more)), constant_values=filling)
        return fed

    def _array(self, name: str, column: Sequence[Any]) -> Array:
        try:
            return np.asarray(column, self._needed[name].dtype)
        except (TypeError, ValueError) as error:
            raise FeedError(
                f"the column {name!r} does not fit its placeholder: {error}",
                need=str(self._needed[name].spec),
            ) from error


@dataclass(frozen=True, eq=False)
class ModelReward(GraphReward):
    """What a reward model gives a prompt with its completion: f32[B], as ``reward_head`` makes it.

    Where its tokens are not the policy's, ``tokenizer`` encodes prompt and completion as texts, and
    ``eos`` ends those that came to an end. An empty completion has the label of its prompt's last
    token, so that there is a last one.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> ids, labels = (g.placeholder(name, ("B", "T"), "int64") for name in ("ids", "labels"))
    >>> score = gw.cast(gw.where(labels != -100, ids, 0), "float32").sum(-1)
    >>> class Bytes:
    ...     def encode(self, text):
    ...         return list(text.encode())
    >>> model = gw.align.ModelReward(score, tokenizer=Bytes())
    >>> model(["b", "b"], ["a", ""]), ord("a"), ord("b")
    ([97.0, 98.0], 97, 98)
    """

    tokenizer: TextCodec | None = None
    eos: int | None = None

    def tokens(
        self, prompts: Texts, completions: Texts, columns: Mapping[str, Sequence[Any]]
    ) -> tuple[list[list[int]], list[int]]:
        if self.tokenizer is None:
            whole, n_prompt = super().tokens(prompts, completions, columns)
        else:
            ended = columns.get("ended", [True] * len(completions))
            end = [] if self.eos is None else [self.eos]
            starts = [list(self.tokenizer.encode(text)) for text in prompts]
            n_prompt = [len(start) for start in starts]
            whole = [
                start + list(self.tokenizer.encode(text)) + (end if ends else [])
                for start, text, ends in zip(starts, completions, ended, strict=True)
            ]
        return whole, [min(n, len(row) - 1) for n, row in zip(n_prompt, whole, strict=True)]
