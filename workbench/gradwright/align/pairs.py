"""Preference pairs to look at: what a policy says of both completions, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import FeedError, GraphError
from ..models.decoder.rows import IGNORED
from ..models.tokenizers import TextCodec
from ..session import Session
from .data.records import records
from .data.rows import Examples
from .objectives.offline import OfflineObjective

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class PairView:
    """Pairs of completions, and what policy and reference say of each of their tokens.

    Row i of the 2n rows is the chosen completion of pair i, row n + i the rejected one. Place t of
    arrays of width T − 1 is about token t + 1; labels are −100 at prompts and padding.

    margin_i = Σₜ r_i,ₜ − Σₜ r_n+i,ₜ with r = log π − log π_ref, or log π without a reference

    >>> import numpy as np
    >>> from gradwright.align import PairView
    >>> ids = np.array([[1, 2], [1, 3]])
    >>> labels = np.array([[-100, 2], [-100, 3]])
    >>> pairs = PairView(ids, labels, np.array([[-1.0], [-3.0]]), np.array([[-2.0], [-2.0]]))
    >>> pairs.margins.tolist(), pairs.accuracy
    ([2.0], 1.0)
    """

    ids: Array
    """i64[2n, T]"""
    labels: Array
    """i64[2n, T]"""
    log_probs: Array
    """f32[2n, T - 1]"""
    ref_log_probs: Array | None = None
    tokenizer: TextCodec | None = None
    """What makes texts of the tokens, where there is one."""

    def __post_init__(self) -> None:
        rows, width = self.ids.shape if self.ids.ndim == 2 else (1, 0)
        needed = {"labels": (rows, width), "log_probs": (rows, width - 1)}
        if self.ref_log_probs is not None:
            needed["ref_log_probs"] = (rows, width - 1)
        for name, shape in needed.items():
            if getattr(self, name).shape != shape or rows % 2:
                raise FeedError(
                    f"{name} {getattr(self, name).shape} of ids {self.ids.shape} make no pairs",
                    need="i64[2n, T] of ids and labels, f32[2n, T - 1] of log-probabilities",
                )

    def __len__(self) -> int:
        return len(self.ids) // 2

    @property
    def mask(self) -> Array:
        """Which tokens count: bool[2n, T - 1]."""
        return np.asarray(self.labels[:, 1:] != IGNORED)

    @property
    def log_ratios(self) -> Array:
        """What the policy says more of each token than the reference: f32[2n, T - 1]."""
        ratio = self.log_probs
        if self.ref_log_probs is not None:
            ratio = ratio - self.ref_log_probs
        return np.where(self.mask, ratio, 0.0).astype(np.float32)

    @property
    def sums(self) -> Array:
        """Log-ratios of whole completions: f64[2n]."""
        return np.asarray(self.log_ratios.sum(axis=1, dtype=np.float64))

    @property
    def margins(self) -> Array:
        """By how much each chosen completion is ahead of the rejected one: f64[n]."""
        n = len(self)
        return np.asarray(self.sums[:n] - self.sums[n:])

    @property
    def accuracy(self) -> float:
        """Share of the pairs whose chosen completion is ahead."""
        return float((self.margins > 0).mean()) if len(self) else float("nan")


def pairs_of(trainer: Any, data: Any, n: int | None = 64) -> PairView:
    """Return what the policy and the reference of a training say of pairs, with weights of now.

    Args:
        trainer: one by a method of pairs, such as ``DPO``, or its objective.
        data: what its ``fit`` takes.
        n: how many pairs at most, from the first on; None takes all.

    Raises GraphError for a training that is not about pairs, FeedError as `examples` does.

    >>> import gradwright as gw
    >>> from gradwright.models import CharTokenizer, Decoder, DecoderConfig
    >>> tokenizer = CharTokenizer("0123456789+=;")
    >>> config = DecoderConfig(vocabulary=13, width=8, layers=1, heads=2)
    >>> model = Decoder(config, tokenizer=tokenizer, eos=12)
    >>> trainer = gw.align.trainer(model, gw.align.DPO())
    >>> data = [{"prompt": "2+2=", "chosen": "4", "rejected": "5"}]
    >>> gw.align.pairs_of(trainer, data).margins.tolist()
    [0.0]
    """
    objective = getattr(trainer, "objective", trainer)
    if not isinstance(objective, OfflineObjective) or "pair" not in objective.method.kinds:
        raise GraphError(
            f"{type(objective).__name__} is not trained on pairs",
            need="a trainer by a method of pairs",
            hint="gw.align.trainer(model, gw.align.DPO())",
        )
    model, reference = objective.model, objective.asked.reference
    feeds = objective.feeds(_first(data, n))
    wanted = [objective.asked.said.log_probs, *([] if reference is None else [reference])]
    log_probs, *ref = Session(objective.graph).run(wanted, feeds)
    return PairView(
        np.asarray(feeds[model.ids]),
        np.asarray(feeds[model.labels]),
        log_probs,
        ref[0] if ref else None,
        objective.tokenizer,
    )


def _first(data: Any, n: int | None) -> Examples | Sequence[Any]:
    """Return the first rows of data."""
    if not isinstance(data, Examples):
        return list(records(data))[:n]
    return replace(
        data,
        numbers=data.numbers[:n],
        chosen=data.chosen[:n],
        rejected=data.rejected[:n],
        margin=None if data.margin is None else data.margin[:n],
    )
