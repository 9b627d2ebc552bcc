"""Seams: what ops ask of rooms above them, which say once who they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .op import Op


class Builder(Protocol):
    """What ``graph`` does for ops."""

    def build(self, op: Op, inputs: Sequence[Any], name: str | None) -> Any:
        """Add a node for ``op(*inputs)`` and return its public outputs."""

    def expanded_specs(self, op: Op, specs: Sequence[Any]) -> Any:
        """Return the output specs of a composite."""

    def check_expansion(self, op: Op, specs: Sequence[Any]) -> None:
        """Refuse dtypes that the ops inside a composite refuse."""

    def interpret(self, op: Op, xs: Sequence[Any], training: bool) -> Any:
        """Compute a composite op by op."""


class Gradients(Protocol):
    """What ``gradient`` does for ops that hold graphs of others."""

    def __call__(
        self, ys: Any, wrt: Any, grad_outputs: Any = None, *, unreachable: str = "error"
    ) -> Any:
        """Return the gradients of ``ys`` as tensors."""


builder: Builder
gradients: Gradients
