"""A graph as patterns see it: values by number, and what changes nothing is seen through."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...errors import GradwrightError
from ...graph import Constant, Graph, Node, Source, Tensor
from ...graph.expand import run_nodes
from ...op import Op
from ...ops.core.creation import Full
from ...ops.core.movement import Transpose
from ...spec import SMALL, TensorSpec
from ...spec.rounding import rounded
from ..editor import UNIFORM, uniform

NOTHING = ("identity", "cast", "reshape", "broadcast_to", "expand_dims", "squeeze", "transpose")
"""Ops that may leave a tensor as it is; they do where its spec stays, and no axes are turned."""
ARITHMETIC = 16
"""Nodes that are computed for one number at most, such as √(last size)."""


class Step(NamedTuple):
    """A node in terms of values, as an instruction of a program is."""

    node: Node
    op: Op
    ins: tuple[int | None, ...]
    outs: tuple[int, ...]


class View:
    """What terms are matched at (see ``rewrite.terms``): the nodes of a graph while it is edited.

    A tensor that identities, casts to its own dtype and the like were made of is the same value.
    """

    def __init__(self, graph: Graph, outputs: Collection[Tensor] = ()) -> None:
        self.graph = graph
        self.kept = {*outputs, *(d.value for d in graph.updates.declared.values())}
        """Tensors that are asked for by name, or that variables are set to."""
        self._tensors: list[Tensor] = []
        self._values: dict[Tensor, int] = {}
        self._numbers: dict[int, Any] = {}
        self._made: dict[Any, Tensor] = {}

    # -- what terms ask ---------------------------------------------------------------------------

    def value(self, tensor: Tensor | None) -> int | None:
        """Return the number of a value."""
        if tensor is None:
            return None
        while changes_nothing(tensor.node):
            source = tensor.node.inputs[0]
            assert source is not None
            tensor = source
        found = self._values.setdefault(tensor, len(self._tensors))
        if found == len(self._tensors):
            self._tensors.append(tensor)
        return found

    def tensor(self, value: int) -> Tensor:
        """Return the tensor that a number stands for."""
        return self._tensors[value]

    def producer(self, value: int | None, name: str = "") -> Step | None:
        """Return what makes a value, if it has that name and the value is its first."""
        if value is None:
            return None
        made = self._tensors[value]
        if made.index or isinstance(made.node.op, Source) or (name and made.op.name != name):
            return None
        return self.step(made.node)

    def step(self, node: Node) -> Step:
        """Return a node in terms of values."""
        ins = [self.value(t) for t in node.inputs]
        while ins and ins[-1] is None:  # an optional input that is left out
            ins.pop()
        return Step(node, node.op, tuple(ins), tuple([self.value(t) or 0 for t in node.outputs]))

    def spec(self, value: int | None) -> TensorSpec:
        """Return the spec of a value."""
        assert value is not None
        return self._tensors[value].spec

    def number(self, value: int | None) -> Any:
        """Return the number that all elements of a value are in every run, or None."""
        if value is None:
            return None
        if value not in self._numbers:
            self._numbers[value] = self._number(self._tensors[value])
        return self._numbers[value]

    def _number(self, tensor: Tensor) -> Any:
        if isinstance(tensor.op, Constant):
            array = tensor.graph.values.array(tensor.name)
            return uniform(array) if array.size <= UNIFORM else None
        if isinstance(tensor.op, Full):
            return (
                rounded(tensor.op.fill_value, tensor.dtype)[()] if _is_number(tensor.op) else None
            )
        if tensor.spec.is_concrete and tensor.spec.size == 1:
            return self._computed(tensor)
        return None

    def _computed(self, tensor: Tensor) -> Any:
        """Return a number that constants and known sizes decide."""
        given: dict[Tensor, Any] = {}
        order: list[Node] = []
        stack = [(tensor, False)]
        while stack:
            t, is_ready = stack.pop()
            known = t.spec.value
            if is_ready:
                order.append(t.node)
            elif known is not None and all(isinstance(d, (int, np.integer)) for d in known.flat):
                given[t] = known.astype(t.dtype)
            elif isinstance(t.op, Source) or len(order) + len(stack) > ARITHMETIC:
                if not isinstance(t.op, Constant) or t.spec.size > SMALL:
                    return None
                given[t] = t.graph.values.array(t.name)
            elif t not in given:
                if t.op.needs_values or t.op.follows_mode or t.op.next_state:
                    return None
                stack.append((t, True))
                stack += [(x, False) for x in t.node.inputs if x is not None]
        try:
            return uniform(run_nodes(order, given, [tensor])[0])
        except (GradwrightError, ValueError):
            return None

    # -- who reads what ---------------------------------------------------------------------------

    def readers(self, tensor: Tensor) -> Iterator[Node | None]:
        """Yield the nodes that need a tensor's elements; None for whoever fetches or keeps it."""
        stack = [tensor]
        while stack:
            t = stack.pop()
            if t in self.kept or not t.uses:
                yield None
            for user in dict.fromkeys(t.uses):
                if changes_nothing(user):
                    stack.append(user.outputs[0])
                elif any(x is t and i not in user.op.shape_only for i, x in enumerate(user.inputs)):
                    yield user

    def outside(self, taken: Collection[Node], root: Node) -> tuple[Tensor, str] | None:
        """Return an inner tensor of what is taken that something else needs, and what that is."""
        for node in taken:
            for tensor in node.outputs if node is not root else ():
                for reader in self.readers(tensor):
                    if reader is None or reader not in taken:
                        return (
                            tensor,
                            "is an output" if reader is None else f"feeds {reader.name!r}",
                        )
        return None

    def moved(self, old: Tensor, new: Tensor) -> None:
        """Note that a tensor has taken the place of another."""
        if old in self.kept:
            self.kept.remove(old)
            self.kept.add(new)

    # -- what patterns build ----------------------------------------------------------------------

    def make(self, op: Op, *ins: int | None, whole: bool = False) -> int:
        """Add an op; returns its first result."""
        found = self.value(self.build(op, *[None if i is None else self._tensors[i] for i in ins]))
        assert found is not None
        return found

    def build(self, op: Op, *inputs: Tensor | None) -> Tensor:
        """Add an op on tensors; returns its first result."""
        made = self.graph.add(op, inputs)
        return made[0] if isinstance(made, tuple) else made  # type: ignore[no-any-return]

    def once(self, op: Op, inputs: Sequence[Tensor], like: Tensor) -> Tensor:
        """Return an op on tensors that several matches share, named after what it stands for."""
        return self._shared((op, *inputs), like, lambda name: self.graph.add(op, inputs, name))

    def stored(self, array: np.ndarray[Any, Any], like: Tensor) -> Tensor:
        """Return a constant that several matches share."""
        key = like, array.shape, array.tobytes()
        return self._shared(key, like, lambda name: self.graph.constant(array, name))

    def _shared(self, key: Any, like: Tensor, add: Callable[[str], Tensor]) -> Tensor:
        held = self._made.get(key)
        if held is None or self.graph.get(held.name) is not held:
            with self.graph._at_top():
                held = self._made[key] = add(self.graph._free_name(f"{like.node.name}_half"))
        return held


def _is_number(op: Full) -> bool:
    return isinstance(op.fill_value, (int, float))


def changes_nothing(node: Node) -> bool:
    """Tell whether the output of a node is its first input as it is."""
    if node.op.name not in NOTHING or len(node.outputs) != 1 or node.inputs[0] is None:
        return False
    rank = node.outputs[0].rank
    if isinstance(node.op, Transpose) and node.op.order(rank) != tuple(range(rank)):
        return False
    return node.outputs[0].spec == node.inputs[0].spec
