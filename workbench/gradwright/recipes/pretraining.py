"""Continued pretraining: a language model goes on with new text and does not forget the old.

Rows of a fixed number of tokens, a share of old rows replayed among the new ones, and perplexities
on both before and after (Ibrahim et al. 2024, arXiv:2403.08763: re-warming and re-decaying the
learning rate with 1-5 % replay is as good as training on everything again).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import TrainingError

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ..train.trainer import Trainer

Array = np.ndarray[Any, Any]


def token_rows(
    documents: Iterable[str | Sequence[int]],
    length: int,
    *,
    encode: Callable[[str], Sequence[int]] | None = None,
    end: int | None = None,
) -> Array:
    """Return documents joined and cut into rows of tokens, i64[rows, length].

    Each document is followed by the token ``end``, if one is given. What does not fill a row at
    the end is left out. Texts need ``encode``, such as that of a tokenizer.

    Raises TrainingError if there is not enough for a single row.

    >>> token_rows(["ab", "cde"], 3, encode=lambda s: [ord(c) - 96 for c in s], end=0).tolist()
    [[1, 2, 0], [3, 4, 5]]
    """
    if length < 1:
        raise TrainingError(f"length={length!r} is no length of a row", need="at least 1")
    tokens: list[int] = []
    for document in documents:
        if isinstance(document, str):
            if encode is None:
                raise TrainingError(
                    "a document is text", need="tokens, or encode=", hint="tokenizer.encode"
                )
            document = encode(document)
        tokens.extend(document)
        if end is not None:
            tokens.append(end)
    n = len(tokens) // length
    if not n:
        raise TrainingError(f"{len(tokens)} tokens make no row of {length}", need="more text")
    return np.array(tokens[: n * length], np.int64).reshape(n, length)


def replayed(new: Array, old: Array, share: float = 0.05, *, seed: int = 0) -> Array:
    """Return rows of ``new``, and as many of ``old`` that they make up ``share`` of the whole.

    Old rows are drawn without replacement as long as there are enough; the order is that of
    ``new``, then ``old``: the trainer shuffles.

    >>> import numpy as np
    >>> rows = replayed(np.zeros((9, 2), int), np.ones((50, 2), int), share=0.1)
    >>> len(rows), int(rows[:, 0].sum())
    (10, 1)
    """
    if not 0 <= share < 1:
        raise TrainingError(f"share={share!r} of old rows makes no sense", need="0 <= share < 1")
    if new.shape[1:] != old.shape[1:]:
        raise TrainingError(
            f"new rows have {new.shape[1]} tokens, old ones {old.shape[1]}", need="equal lengths"
        )
    n = round(len(new) * share / (1 - share))
    rng = np.random.default_rng(seed)
    whole, rest = divmod(n, len(old))
    drawn = [np.arange(len(old))] * whole + [rng.permutation(len(old))[:rest]]
    return np.concatenate([new, old[np.concatenate(drawn)]])


@dataclass(frozen=True)
class Forgetting:
    """Perplexities of each text before and after, and what training was."""

    before: Mapping[str, float]
    after: Mapping[str, float]

    def __str__(self) -> str:
        width = max(map(len, self.before))
        rows = [f"{'':{width}}  {'before':>9}  {'after':>9}  change"]
        for name, was in self.before.items():
            now = self.after[name]
            rows.append(f"{name:{width}}  {was:9.3f}  {now:9.3f}  {now / was - 1:+.1%}")
        return "\n".join(rows)

    def plot(self) -> go.Figure:
        """Return bars of the perplexities before and after."""
        import plotly.graph_objects as go

        figure = go.Figure()
        for label, held in (("before", self.before), ("after", self.after)):
            figure.add_bar(name=label, x=list(held), y=list(held.values()))
        figure.update_layout(
            template="plotly_white", yaxis_title="perplexity", barmode="group", height=320
        )
        return figure


def continue_pretraining(
    trainer: Trainer,
    rows: Array,
    *,
    held_out: Mapping[str, Array],
    feeds: Callable[[Array], Mapping[str, Any]],
    batch_size: int = 8,
    epochs: int = 1,
    progress: bool | str = "auto",
) -> Forgetting:
    """Train on rows of tokens, and return the perplexities of held-out texts before and after.

    perplexity = exp(mean cross-entropy per token)

    Args:
        trainer: of a language model whose loss is the mean cross-entropy per token in nats; its
            schedule warms up again, as ``gw.schedules.Cosine(peak, steps, warmup)``.
        rows: i64[rows, length], from ``token_rows`` and ``replayed``.
        held_out: rows of each text to watch, such as ``{"old": ..., "new": ...}``.
        feeds: makes data for the trainer of rows, such as ``lambda r: {"ids": r}``.
        batch_size: rows per step.
        epochs: how often all rows are seen.
        progress: whether to show a bar, as for ``fit``.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> ids = g.placeholder("ids", (None, 5), "int64")
    >>> logits = gw.gather(g.variable("table", (4, 4), init=0.0), ids[:, :-1])
    >>> loss = gw.loss.sparse_softmax_cross_entropy(ids[:, 1:], logits)
    >>> trainer = gw.Trainer(g, loss, gw.optim.Adam(0.1))
    >>> new, old = np.tile([0, 1, 2, 3, 0], (40, 1)), np.tile([3, 2, 1, 0, 3], (8, 1))
    >>> found = continue_pretraining(trainer, replayed(new, old, 0.1),
    ...     held_out={"old": old, "new": new}, feeds=lambda r: {"ids": r}, epochs=10,
    ...     progress=False)
    >>> found.after["new"] < 2 < found.after["old"]
    True
    """
    if not held_out:
        raise TrainingError("no text is held out", need='rows to watch: {"old": ..., "new": ...}')
    watched = {name: feeds(held) for name, held in held_out.items()}

    def perplexities() -> dict[str, float]:
        losses = {n: trainer.evaluate(d, batch_size=batch_size)["loss"] for n, d in watched.items()}
        return {n: math.exp(min(loss, 700.0)) for n, loss in losses.items()}

    before = perplexities()
    trainer.fit(feeds(rows), epochs=epochs, batch_size=batch_size, progress=progress)
    return Forgetting(before, perplexities())
