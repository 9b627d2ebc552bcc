"""Gradients of tables as rows and values: no step makes one of the table's size without need.

The gradient of a look-up is zero but for the rows that a batch names. Where its optimizer leaves
all other rows alone, as SGD and AdaGrad do and SparseAdam is made to, a step sums what is added to
each named row (``sum_rows``), takes these rows of the parameter and its state, updates them, and
writes them back (``put_rows``). In between are tensors like any other: they are unscaled, clipped
and normed as the whole gradient would be, whose other elements are zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...graph import Tensor
from ...graph.edit import discard
from ...ops.core.elementwise import Add
from ...ops.core.identity import AddN, Identity
from ...ops.core.index import GatherGrad
from ...ops.core.joining import Concat
from ...ops.core.like import ZerosLike
from ...ops.core.movement import Cast, cast_to
from ...ops.core.pullback import Pullback
from ...ops.core.reshape import Reshape
from ...ops.updates.rows import PutRows, SumRows, TakeRows, UpdateRows, moves_each
from ...spec import kind, normalize_axis
from ...spec.rows import INT64, RowsSpec
from ..optim import Optimizer


@dataclass(frozen=True)
class Named:
    """The rows of a table that a batch names, each once, and the gradient of each."""

    table: Tensor
    rows: Tensor
    """i64[K], −1 where there are no more."""
    grad: Tensor
    """f32[K, …], zeros where there are no more."""

    @property
    def spec(self) -> RowsSpec:
        """What it stands for."""
        return RowsSpec.of(self.rows.spec, self.grad.spec, self.table.spec)

    def whole(self) -> Tensor:
        """Return the gradient of the whole table."""
        return self.put(ZerosLike()(cast_to(self.grad.dtype, self.table)), self.grad)

    def having(self, grad: Tensor) -> Named:
        """Return the same rows with another gradient."""
        return replace(self, grad=grad)

    def taken(self, t: Tensor) -> Tensor:
        """Return these rows of a tensor of the table's shape."""
        found: Tensor = TakeRows()(t, self.rows)
        return found

    def put(self, t: Tensor, new: Tensor) -> Tensor:
        """Return a tensor of the table's shape with these rows of it written."""
        found: Tensor = PutRows()(t, self.rows, new)
        return found

    def updated(
        self, optimizer: Optimizer, slots: Sequence[Tensor], scalars: Mapping[str, Tensor]
    ) -> list[Tensor]:
        """Return the table and its state with these rows of them updated.

        What one update op makes is an op too, which touches a row once.
        """
        old = [self.table, *slots]
        taken = [self.taken(t) for t in old]
        new = optimizer.update(taken[0], self.grad, taken[1:], scalars)
        node = new[0].node
        given = [taken[0], self.grad, *taken[1:]]
        read = [id(t) for t in (*node.inputs[: len(given)], *new)]
        is_one = moves_each(node.op) and read == [id(t) for t in (*given, *node.outputs)]
        if not is_one:
            return [self.put(t, y) for t, y in zip(old, new, strict=True)]
        numbers = node.inputs[len(given) :]
        found = UpdateRows(op=node.op)(self.table, self.rows, self.grad, *slots, *numbers)
        discard([node, *(t.node for t in taken)])
        return list(found) if slots else [found]


def is_looked_up(grad: Tensor) -> bool:
    """Tell whether look-ups have a part in a gradient."""
    return any(_opens(part) or _is_look_up(part) for part in _parts(_uncast(grad)))


def named(table: Tensor, grad: Tensor) -> Named | str:
    """Return the gradient of a table in rows, or, where it is more than look-ups, what."""
    pairs = []
    for whole in _parts(_uncast(grad)):
        for part in _parts(_opened(whole)) if _opens(whole) else [whole]:
            if not _is_look_up(part):
                return f"{part.node.op.name} {part.name!r} is a gradient of every row"
            pairs.append(_flat(part))
    rows, values = (
        tensors[0] if len(tensors) == 1 else Concat(axis=0)(*tensors)
        for tensors in zip(*pairs, strict=True)
    )
    found, sums = SumRows()(rows, values, table)
    return Named(table, found, cast_to(grad.dtype, sums))


def _uncast(grad: Tensor) -> Tensor:
    """Return what a gradient was before it came to its variable's dtype."""
    given = grad.node.inputs[0] if isinstance(grad.node.op, Cast) else None
    return grad if given is None else given


def _parts(grad: Tensor) -> Iterator[Tensor]:
    """Yield what a gradient is the sum of."""
    inputs = [t for t in grad.node.inputs if t is not None]
    is_sum = isinstance(grad.node.op, Add | AddN) and all(t.shape == grad.shape for t in inputs)
    if not is_sum:
        yield grad
        return
    for t in inputs:
        yield from _parts(t)


def _opens(part: Tensor) -> bool:
    """Tell whether a part is the gradient of a composite that looks rows up."""
    op = part.node.op
    if not isinstance(op, Pullback) or any(t is None for t in part.node.inputs):
        return False
    wrt = op.wrt[part.index]
    return any(site.input == wrt and site.kind == "embedding" for site in op.op.weight_sites())


def _opened(part: Tensor) -> Tensor:
    """Return a part as what its composite is made of has it; plans share what is the same.

    Inputs stand for themselves, or gradients would go on behind them.
    """
    op = part.node.op
    assert isinstance(op, Pullback)
    found: Tensor = op.expand(*(Identity()(t) for t in part.node.inputs))[part.index]
    return found


def _is_look_up(part: Tensor) -> bool:
    """Tell whether a part of a gradient is that of rows which were looked up."""
    op = part.node.op
    if not isinstance(op, GatherGrad) or kind(part.dtype) != "f":
        return False
    return normalize_axis(op.axis, part.rank) == 0


def _flat(part: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers of rows that were looked up, and the gradient of each place."""
    g, ids, table = part.node.inputs
    assert g is not None and ids is not None and table is not None
    rows = cast_to(INT64, ids)
    if ids.rank != 1:
        rows, g = Reshape(shape=(-1,))(rows), Reshape(shape=(-1, *table.shape[1:]))(g)
    return rows, g
