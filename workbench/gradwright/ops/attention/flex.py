"""Attention whose scores and weights pass through functions of yours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...errors import GraphError, ShapeError
from ...graph import Graph, SubGraph, Tensor
from ...graph.expand import infer_nodes, inline
from ...op import ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, at_least_float32, differ, dtype
from ..core.movement import Cast
from . import picking  # noqa: F401 - functions that are more than the ops here
from .weights import MaskedSoftmax, check_heads, group_average, group_scores, scale_of


class FlexAttention(Op):
    """Attention with functions between its steps (Dong et al. 2024).

    y = prob_mod(softmax(score_mod(query @ keyᵀ·scale))) @ value

    query: f32[B, Hq, T, E], key: f32[B, H, S, E], value: f32[B, H, S, D]; runs of Hq/H heads share
    one. The functions take and return f32[B, Hq, T, S], in ``softmax_precision``; scores of −∞
    hide. ``captured`` tensors are what both use from outside. ONNX operator FlexAttention
    (preview).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (1, 2, 3, 4))
    >>> y = gw.nn.flex_attention(x, x, x, score_mod=lambda s: 20.0 * gw.nn.tanh(s / 20.0))
    >>> y.shape
    (1, 2, 3, 4)
    """

    namespace = "nn"
    onnx = OnnxRule("FlexAttention", since=1, domain="ai.onnx.preview")
    score_mod: SubGraph | None = attr(None, doc="What becomes of the scores.")
    prob_mod: SubGraph | None = attr(None, doc="What becomes of the weights.")
    scale: float | None = attr(None, doc="Factor of the scores; None is 1/√E.")
    softmax_precision: str | None = attr(
        None,
        doc="Dtype of scores and weights; None is that of the query, float32 at least.",
        choices=(None, "float16", "bfloat16", "float32", "float64"),
    )

    def infer(
        self, query: TensorSpec, key: TensorSpec, value: TensorSpec, *captured: TensorSpec
    ) -> TensorSpec:
        check_heads(query, key, value)
        scores = TensorSpec((*query.shape[:3], key.shape[2]), self.precision(query.dtype))
        for label, sub in (("score_mod", self.score_mod), ("prob_mod", self.prob_mod)):
            if sub is None:
                continue
            found = infer_nodes(sub, [scores, *captured])
            same = len(found) == 1 and found[0].rank == 4 and found[0].dtype == scores.dtype
            if not same or any(map(differ, found[0].shape, scores.shape)):
                got = ", ".join(map(str, found))
                raise ShapeError(f"{label} returns {got}", need=f"one tensor {scores}")
        return query.with_shape((*query.shape[:3], value.shape[3]))

    def precision(self, given: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of scores and weights."""
        wide = at_least_float32(given)
        return dtype(self.softmax_precision or wide)

    def expand(self, query: Any, key: Any, value: Any, *captured: Any) -> Any:
        scale = scale_of(self.scale, query.shape[3])
        scores = Cast(dtype=self.precision(query.dtype))(group_scores(query * scale, key))
        if self.score_mod is not None:
            (scores,) = inline(self.score_mod, query.graph, [scores, *captured])
        weights = MaskedSoftmax()(scores)
        if self.prob_mod is not None:
            (weights,) = inline(self.prob_mod, query.graph, [weights, *captured])
        y = group_average(Cast(dtype=query.dtype)(weights), value)
        return Cast(dtype=query.dtype)(y)

    @classmethod
    def trace(
        cls,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        functions: dict[str, Callable[[Tensor], Tensor] | None],
        settings: dict[str, Any],
        name: str | None,
    ) -> Tensor:
        """Apply the op with functions that build graph, and may use tensors from outside."""
        check_heads(query.spec, key.spec, value.spec)
        kind = cls(**settings).precision(query.dtype)
        shape = (*query.shape[:3], key.shape[2])
        built = {}
        for label, fn in functions.items():
            if fn is None:
                continue
            inner = Graph(label, parent=query.graph)
            with inner:
                x = inner.placeholder(label, shape, kind)
                y = fn(x)
            if not isinstance(y, Tensor):
                raise GraphError(f"{label} returned {y!r}", need="a tensor")
            built[label] = (inner, x, y if y.graph is inner else inner.capture(y))
        outer = list(dict.fromkeys(t for inner, _, _ in built.values() for t in inner.captures))
        subs = {
            label: SubGraph([x, *(inner.capture(t) for t in outer)], [y])
            for label, (inner, x, y) in built.items()
        }
        made: Tensor = cls(**settings, **subs)(query, key, value, *outer, name=name)
        return made

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        graph = Graph("sample", scratch=True)
        s = graph.placeholder("s", (1, 2, 2, 3), "float64")
        w = graph.placeholder("w", (3,), "float64")
        mods = {"score_mod": SubGraph([s, w], [s * w]), "prob_mod": SubGraph([s, w], [s + w])}
        draw = rng.standard_normal
        q, k, v = draw((1, 2, 2, 2)), draw((1, 1, 3, 2)), draw((1, 1, 3, 1))
        yield Sample((q, k, v), {"scale": 0.3})
        yield Sample((q, k, v, draw(3)), {**mods, "softmax_precision": "float64"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        graph = Graph("sample", scratch=True)
        s = graph.placeholder("s", (1, 2, 3, 3))
        q = TensorSpec((1, 2, 3, 2))
        yield ErrorSample((q, q, TensorSpec((2, 3, 2))), {}, "needs heads apart")
        yield ErrorSample((q, q, q), {"score_mod": SubGraph([s], [s[0]])}, "score_mod returns")
