"""Distinct tokens: what rows have in common is computed once, and padding not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...data.batches import Feeds
from ...graph import Constant, Node, Source, Tensor, Variable, ancestors
from ...op import Op
from ...ops.core.reshape import Reshape
from ...ops.layers.gated import Swiglu
from ...ops.layers.nn import Embedding
from ...ops.layers.norm import LayerNorm, RmsNorm
from ...ops.matrices.linalg import Matmul
from ..experience import Experience
from ..model import LanguageModel
from .drawing import rounded

Array = np.ndarray[Any, Any]
BY_ELEMENT = ("affine", "element")
"""What inputs do in an op that works on each element by itself."""


class Distinct:
    """What stands for tensors of a model in a step: tokens lie in one row, each prompt once.

    y[b, t] = f(x[b, t])  is  y = f(x[tokens])[rows],  tokens: i64[N], rows: i64[B, T]

    for products, norms and all that is done token by token: N are the tokens that differ and count.
    Others, such as attention, have rows as they were. So the value is the same, and the gradient,
    where a token's state depends on those before it alone: completions of one prompt share it.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model, graph = model, model.graph
        self.rows = graph.placeholder("rows", model.ids.shape, "int64")
        """Which of the distinct tokens stands at each place."""
        self.tokens = graph.placeholder("tokens", (None,), "int64")
        """At which place, of all rows one after another, each of them stands."""

    def stand_ins(self, tensors: Sequence[Tensor], scope: str) -> dict[Tensor, Tensor]:
        """Return what stands for tensors, in the derived layer under a scope."""
        head = self._model.head
        pure = ancestors([head.states])
        if not all(_is_still(node, self._model.ids) for node in pure):
            return {t: t for t in tensors}
        build = _Build(self, self._model.ids, set(pure), f"{scope}/distinct")
        return build.of(tensors)

    def feeds(self, made: Experience, rows: Array) -> Feeds:
        """Return what rows of a rollout feed."""
        rollout = made.rollout
        prompts = rows // rollout.group
        _, first, which = np.unique(prompts, return_index=True, return_inverse=True)
        first = first[which]
        begins = np.array([len(p.tokens) for p in rollout.prompts], np.int64)[prompts]
        ends = begins + rollout.lengths[rows] - 1  # nothing is asked of the last token
        at, row = np.arange(made.ids.shape[1]), np.arange(len(rows))
        prompted = at < begins[:, None]
        own = (prompted & (first == row)[:, None]) | (~prompted & (at < ends[:, None]))
        places = np.zeros(own.shape, np.int64)
        tokens = np.flatnonzero(own)
        places[own] = np.arange(len(tokens))
        places = np.where(prompted, places[first], places)
        more = min(rounded(len(tokens)), own.size) - len(tokens)  # few shapes, few plans
        return {self.rows: places, self.tokens: np.pad(tokens, (0, more))}


def _is_still(node: Node, ids: Tensor) -> bool:
    """Tell whether a node is no source but of tokens, weights and numbers: nothing random."""
    known = isinstance(node.op, Variable | Constant) or node is ids.node
    return known or not isinstance(node.op, Source)


class _Build:
    """Stand-ins for tensors of a graph: those in one row, and those in rows as they were."""

    def __init__(self, of: Distinct, ids: Tensor, pure: set[Node], prefix: str) -> None:
        self._graph, self._pure, self._prefix = ids.graph, pure, prefix
        self._given, self._ids = of, ids
        self._flat: dict[Tensor, Tensor] = {}
        """Those in one row, [1, N, D]."""
        self._whole: dict[Tensor, Tensor] = {}
        """Those of rows, [B, T, D], that are not what they stand for."""

    def of(self, tensors: Sequence[Tensor]) -> dict[Tensor, Tensor]:
        """Return the stand-ins of tensors, in rows."""
        with self._graph.deriving(self._prefix) as at:
            for node in ancestors(tensors):
                at(self._prefix, node)
                if node is self._ids.node:
                    self._flat[self._ids] = self._picked(self._ids)
                elif node.inputs:
                    self._node(node)
            return {t: self._in_rows(t) for t in tensors}

    def _node(self, node: Node) -> None:
        """Make what stands for a node."""
        if self._is_by_token(node):
            xs = [None if t is None else self._in_one(t) for t in node.inputs]
            self._flat.update(zip(node.outputs, self._put(node.op, xs, node.name), strict=True))
            return
        xs = [None if t is None else self._in_rows(t) for t in node.inputs]
        if any(x is not t for x, t in zip(xs, node.inputs, strict=True)):
            self._whole.update(zip(node.outputs, self._put(node.op, xs, node.name), strict=True))

    def _is_by_token(self, node: Node) -> bool:
        """Tell whether a node works on each token by itself, and on no more than tokens."""
        op, (first, *others) = node.op, node.inputs
        if isinstance(op, Embedding):
            return first is self._ids and self._is_same(others[0])
        if any(t.rank != 3 or t.shape[:2] != self._ids.shape for t in node.outputs):
            return False
        if isinstance(op, Matmul):
            weight = others[0]
            is_matrix = weight is not None and weight.rank == 2 and self._is_same(weight)
            return is_matrix and self._is_told(first)
        if isinstance(op, RmsNorm | LayerNorm):
            return op.axis == -1 and self._is_told(first) and all(map(self._is_same, others))
        given = [t for t in node.inputs if t is not None]
        if not any(t in self._flat for t in given):
            return False
        by_element = isinstance(op, Swiglu) or all(
            op.depends(i).kind in BY_ELEMENT for i in range(len(node.inputs))
        )
        return by_element and all(
            self._is_told(t) or (t.rank <= 1 and self._is_same(t)) for t in given
        )

    def _is_same(self, t: Tensor | None) -> bool:
        """Tell whether a tensor is its own stand-in."""
        return t is None or (t not in self._flat and t not in self._whole)

    def _is_told(self, t: Tensor | None) -> bool:
        """Tell whether a tensor is about tokens, [B, T, D], and the same wherever one stands."""
        if t is None:
            return False
        by_token = t.rank == 3 and t.shape[:2] == self._ids.shape
        return t in self._flat or (by_token and t.node in self._pure and t in self._whole)

    def _in_one(self, t: Tensor) -> Tensor:
        """Return a tensor in one row, or itself where it is not about tokens."""
        if t not in self._flat and t in self._whole:
            self._flat[t] = self._picked(self._whole[t])
        return self._flat.get(t, t)

    def _in_rows(self, t: Tensor) -> Tensor:
        """Return a tensor in rows."""
        if t is self._ids or t not in self._flat or t in self._whole:
            return self._whole.get(t, t)
        flat = self._flat[t]
        table = self._table(flat, flat.shape[2:])
        self._whole[t] = self._put(Embedding(), [self._given.rows, table], f"{t.name}/rows")[0]
        return self._whole[t]

    def _picked(self, x: Tensor) -> Tensor:
        """Return the distinct tokens of [B, T] or [B, T, D] in one row."""
        rest = x.shape[2:]
        table = self._table(x, rest or (1,))
        (picked,) = self._put(Embedding(), [self._given.tokens, table], f"{x.name}/tokens")
        return self._put(Reshape(shape=(1, -1, *rest)), [picked], f"{x.name}/row")[0]

    def _table(self, x: Tensor, rest: Sequence[Any]) -> Tensor:
        return self._put(Reshape(shape=(-1, *rest)), [x], f"{x.name}/table")[0]

    def _put(self, op: Op, xs: Sequence[Any], name: str) -> tuple[Tensor, ...]:
        """Add a node and return all that it makes."""
        name = name.replace(":", "_").removeprefix(f"{self._prefix}/")
        self._graph.add(op, xs, None if f"{self._prefix}/{name}" in self._graph else name)
        return self._graph.latest.outputs
