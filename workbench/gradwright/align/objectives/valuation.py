"""Valuation: what completions were worth, as a graph of its own that can be drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...graph import Graph, Tensor
from ...graph.walk import placeholders
from ...session import Session
from ..rewards.reward import Scores
from .terms import Judged

if TYPE_CHECKING:
    from ..methods.sampled import Sampled

Array = np.ndarray[Any, Any]
TOKENS = ("log_probs", "ref_log_probs", "values")


class Valuation:
    """The graph that makes advantages of scores, in float64, and what runs it.

    Its placeholders are the fields of ``Judged``; what the
    method does not ask for is not fed.
    """

    def __init__(self, method: Sampled, n_terms: int) -> None:
        self.n_terms = n_terms
        self.graph = g = Graph("advantages")
        rows, tokens = ("rows",), ("rows", "T")
        self.seen = Judged(
            rewards=g.placeholder("rewards", rows, "float64"),
            terms=g.placeholder("terms", ("rows", n_terms), "float64"),
            weights=g.placeholder("weights", (n_terms,), "float64"),
            ended=g.placeholder("ended", rows, "bool"),
            mask=g.placeholder("mask", tokens, "bool"),
            **{name: g.placeholder(name, tokens, "float64") for name in TOKENS},
        )
        with g:
            self.worth = method.worth(self.seen)
        found = self.worth._asdict().items()
        self.made: dict[str, Tensor] = {name: t for name, t in found if t is not None}
        self._needed = placeholders(list(self.made.values()))
        weights = method.reward_weights or ()  # what a method adds counts 1
        self._weights = np.array([*weights, *[1.0] * (n_terms - len(weights))])
        self._session = Session(g, kernels="off")

    def of(self, scores: Scores, given: Mapping[str, Array]) -> dict[str, Array]:
        """Return advantages, and what else a method makes, as f32."""
        held = {**given, "rewards": scores.total, "terms": scores.terms, "weights": self._weights}
        feeds = {t: np.asarray(held[t.name], t.dtype) for t in self._needed}
        return {
            name: np.asarray(array, np.float32)
            for name, array in self._session.run(self.made, feeds).items()
        }
