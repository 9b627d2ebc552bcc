"""An op's gradient as a function of arrays, built once for each set of specs."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ...gradient import fit, pull_back
from ...graph import Graph, Node, Tensor, ancestors
from ...graph.expand import run_nodes, stand_in
from ...op import ZERO, NotDifferentiable, Op, redefinitions
from ...spec import TensorSpec, is_floating, kind, spec_of
from ...spec.containers import OptionalSpec, SequenceSpec
from ..float64 import known_specs
from .numeric import jittered

Array = np.ndarray[Any, Any]


class Vjp:
    """An op's vjp on inputs and outputs of fixed specs, ready to run.

    ``active`` are the inputs that are asked for, ``reached`` the outputs that have a cotangent.
    """

    def __init__(
        self,
        op: Op,
        specs: Sequence[TensorSpec | None],
        out_specs: Sequence[TensorSpec],
        active: Collection[int] | None = None,
        reached: Collection[int] | None = None,
    ) -> None:
        graph = Graph(op.name, scratch=True)
        self.xs = [None if s is None else stand_in(graph, f"x{i}", s) for i, s in enumerate(specs)]
        with graph:
            graph.add(op, self.xs)
            node = graph.latest
            self.ys = node.outputs
            for t, spec in zip(self.ys, out_specs, strict=True):
                t.spec = spec
            self.gs = [
                stand_in(graph, f"g{i}", t.spec)
                if is_floating(t.dtype) and (reached is None or i in reached)
                else None
                for i, t in enumerate(node.public)
            ]
            gs = [ZERO if g is None else g for g in self.gs]
            gs += [ZERO] * (len(node.outputs) - len(node.public))
            wanted = [
                t is not None and is_floating(t.dtype) and (active is None or i in active)
                for i, t in enumerate(node.inputs)
            ]
            live = any(wanted) and any(g is not None for g in self.gs)
            found = pull_back(node, gs, wanted) if live else [ZERO] * len(node.inputs)
            self.refused = {
                i: g.reason for i, g in enumerate(found) if isinstance(g, NotDifferentiable)
            }
            self.cotangents = {
                i: None if g is ZERO else fit(node, x, g)
                for i, (x, g, want) in enumerate(zip(node.inputs, found, wanted, strict=True))
                if want and live and x is not None and i not in self.refused
            }
        given = [t for t in (*self.xs, *self.ys, *self.gs) if t is not None]
        self._targets = [t for t in self.cotangents.values() if t is not None]
        self._nodes = ancestors(self._targets, stop=set(given))

    def __call__(
        self, xs: Sequence[Array | None], ys: Sequence[Array], gs: Sequence[Array], training: bool
    ) -> dict[int, Array]:
        """Return the cotangents of the inputs that have one, by number."""
        env = self._given(xs, ys, gs)
        found = iter(run_nodes(self._nodes, env, self._targets, training=training))
        return {
            i: np.zeros_like(xs[i]) if t is None else next(found)
            for i, t in self.cotangents.items()
        }

    def _given(
        self, xs: Sequence[Array | None], ys: Sequence[Array], gs: Sequence[Array]
    ) -> dict[Tensor, Array]:
        return {
            t: a
            for ts, arrays in ((self.xs, xs), (self.ys, ys), (self.gs, gs))
            for t, a in zip(ts, arrays, strict=True)
            if t is not None and a is not None
        }

    def rounded_otherwise(
        self,
        xs: Sequence[Array | None],
        ys: Sequence[Array],
        gs: Sequence[Array],
        training: bool,
        rng: np.random.Generator,
    ) -> dict[int, Array]:
        """Return the cotangents where every value on the way is off by a rounding error."""
        env, held = self._given(xs, ys, gs), deciding(self._nodes)
        for node in self._nodes:
            if not all(t in env for t in node.outputs):
                given = run_nodes([node], env, node.outputs, training=training)
                for t, a in zip(node.outputs, given, strict=True):
                    env.setdefault(t, a if node in held else jittered(a, rng))
        return {i: env[t] for i, t in self.cotangents.items() if t is not None}


def deciding(nodes: Sequence[Node]) -> set[Node]:
    """Return the nodes that a comparison depends on: a rounding error there would turn it over."""
    return set(ancestors([t for n in nodes for t in n.outputs if kind(t.dtype) == "b"]))


def keys_of(
    op: Op, xs: Sequence[Array | None], ys: Sequence[Array]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the specs of an op's inputs and outputs as keys: shape, dtype, known values or None.

    What is built for some arrays fits all others with the same keys.
    """
    ins = tuple(None if s is None else s.key() for s in known_specs(op, xs))
    return ins, tuple(spec_of(y).key() for y in ys)


def vjp_of(
    op: Op,
    xs: Sequence[Array | None],
    ys: Sequence[Array],
    active: Collection[int] | None = None,
    reached: Collection[int] | None = None,
) -> Vjp:
    """Return the vjp of an op for the specs of these arrays."""
    ends = (None if some is None else tuple(some) for some in (active, reached))
    return _vjp_of(op, *keys_of(op, xs, ys), *ends, redefinitions())


@functools.lru_cache(maxsize=1024)
def _vjp_of(
    op: Op,
    in_keys: tuple[Any, ...],
    out_keys: tuple[Any, ...],
    active: tuple[int, ...] | None,
    reached: tuple[int, ...] | None,
    _: object,
) -> Vjp:

    def spec(key: Any) -> TensorSpec:
        if key[0] == "seq":
            return SequenceSpec(key[1], key[2])
        if key[0] == "opt":
            return OptionalSpec(spec(key[1]))
        shape, dtype, known = key
        return TensorSpec(
            shape, dtype, None if known is None else np.array(known, dtype).reshape(shape)
        )

    ins = [None if k is None else spec(k) for k in in_keys]
    return Vjp(op, ins, list(map(spec, out_keys)), active, reached)


def forget() -> None:
    """Forget all vjps: ops may have changed."""
    _vjp_of.cache_clear()
