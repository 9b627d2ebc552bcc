"""Preference pairs as they can be looked at: what a policy says of both completions, token by token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import FeedError
from ..models.tokenizers import TextCodec

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class PairView:
    """Pairs of completions, and what policy and reference say of each of their tokens.

    Row i of the 2n rows is the chosen completion of pair i, row n + i the rejected one. Place t of
    arrays of width T − 1 is about token t + 1; labels are −100 at prompts and padding.

    margin_i = Σₜ r_i,ₜ − Σₜ r_n+i,ₜ with r = log π − log π_ref, or log π where there is no reference

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
        return np.asarray(self.labels[:, 1:] != -100)

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
