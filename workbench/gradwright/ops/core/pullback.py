"""The gradient of a composite as an op, and which tensors a gradient passes through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ...graph import Node, Tensor, active_graph
from ...op import Op, attr, seams
from ...spec import TensorSpec
from .identity import StopGradient


def active_from(
    order: Sequence[Node],
    wrt: Sequence[Tensor],
    stop: frozenset[Tensor],
    captured: Mapping[Tensor, Tensor] = MappingProxyType({}),
) -> set[Tensor]:
    """Return the tensors that lie on a floating path from ``wrt``.

    ``captured`` are outer tensors by the placeholders that stand for them.
    """
    active = set(wrt)
    for node in order:
        outer = captured.get(node.outputs[0])
        if outer in active and outer not in stop:
            active.update(node.outputs)
        if isinstance(node.op, StopGradient):
            continue
        if any(t is not None and t in active and t not in stop for t in node.inputs):
            active.update(t for t in node.outputs if t.spec.differentiable)
    return active


def reached_from(order: Sequence[Node], t: Tensor) -> set[Tensor]:
    """Return the tensors of ``order`` that depend on ``t`` by a floating path, itself included."""
    return active_from(order, [t], frozenset()) if t.spec.differentiable else set()


class Pullback(Op):
    """Cotangents of a composite's inputs, derived from its expansion: itself a composite.

    Inputs are those of ``op`` and then the cotangents of the outputs that have one. The expansion
    runs ``op`` again; a plan that holds both shares what is the same.
    """

    namespace = "gradient"
    takes_ranks = True
    op: Op = attr(doc="The composite that is differentiated.")
    n_inputs: int = attr(doc="How many of the inputs belong to it.")
    wrt: tuple[int, ...] = attr(doc="Inputs whose cotangents are wanted.")
    present: tuple[bool, ...] = attr(doc="Outputs that have a cotangent.")

    def infer(self, *args: TensorSpec) -> Any:
        """Each cotangent has its primal's spec."""
        return tuple(args[i].bare() for i in self.wrt)

    def _built(self, xs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return all outputs of an op that has a vjp of its own, and waited for a rank alone."""
        graph = active_graph() or xs[0].graph
        graph.add(self.op, xs)
        return graph.latest.outputs

    def expand(self, *args: Tensor) -> Any:
        """Build the composite's expansion and differentiate it."""
        xs, gs = args[: self.n_inputs], args[self.n_inputs :]
        ys = self._built(xs) if self.op.has_vjp() else self.op.expand(*xs)
        ys = ys if isinstance(ys, tuple) else (ys,)
        chosen = [y for y, there in zip(ys, self.present, strict=True) if there]
        return tuple(
            seams.gradients(chosen, [xs[i] for i in self.wrt], list(gs), unreachable="zero")
        )
