"""The forward graph of a step in fewer bits, in the derived layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...graph import Tensor
from ...words.tables import Table
from ..slots import Slots
from .fp8 import FP8
from .policy import Precision, checked
from .rebuild import Rebuild, Row

if TYPE_CHECKING:
    from .products import Products


class Lowered:
    """What stands for tensors of the graph where a step computes in fewer bits.

    Gradients are taken of ``of(loss)`` with respect to the float32 variables themselves, and come
    in float32. The nodes are those of the graph as far as nothing changes.
    """

    def __init__(self, precision: Precision | None, fp8: FP8 | None, state: Slots) -> None:
        self.precision = Precision("float32") if precision is None else precision
        self.fp8, self._state = fp8, state  # held: without it the nodes under its scope go
        self._products = None if fp8 is None else _products(fp8, state)
        label = self.precision.dtype if fp8 is None else "fp8_forward"
        self._build = Rebuild(state.graph, self.precision, self._products, f"{state.scope}/{label}")

    def of(self, t: Tensor) -> Tensor:
        """Return the stand-in of a tensor, of its own dtype; the loss is so always in float32."""
        self._build.graph.check_member(t)
        return self._build.reach([t])[0]

    @property
    def updates(self) -> dict[Tensor, Tensor]:
        """The scales of the next step and their histories; to be read once gradients are built.

        Committed with the step, so one that is skipped leaves them as they were.
        """
        return {} if self._products is None else self._products.updates(self._build)

    def table(self) -> Table:
        """Return which node computes in which dtype, what it gives, and why.

        >>> import gradwright as gw
        >>> from gradwright.train.precision import lowered
        >>> from gradwright.train.slots import Slots
        >>> g = gw.Graph()
        >>> x, w = g.placeholder("x", (None, 2)), g.variable("w", (2, 1))
        >>> loss = gw.mean(x @ w, name="loss")
        >>> copy = lowered([loss], gw.Precision("bfloat16"), None, Slots(g, g.values))
        >>> for row in copy.table().rows:
        ...     print(*row[:4])
        matmul matmul bfloat16 bfloat16
        loss mean float32 float32
        """
        title = self.precision.dtype if self.fp8 is None else f"{self.precision.dtype} and 8 bits"
        return table(self._build.rows, title)


def table(rows: Sequence[Row], title: str = "") -> Table:
    """Return rows as a table.

    >>> from gradwright.train.precision.forward import table
    >>> table([]).columns
    ['node', 'op', 'computes in', 'gives', 'reason']
    """
    columns = ["node", "op", "computes in", "gives", "reason"]
    return Table(columns, [list(row) for row in rows], title=title)


def _products(fp8: FP8, state: Slots) -> Products:
    from .products import Products  # their ops load on first use

    return Products(fp8, state)


def lowered(
    tensors: Sequence[Tensor],
    precision: Precision | str | None,
    fp8: FP8 | None,
    state: Slots,
) -> Lowered:
    """Build what tensors depend on again, with products in the given precision.

    It lives in the derived layer, under the scope of ``state``, until that clears its graph.
    Raises TrainingError for settings that are none, and where delayed scales would be needed inside
    a loop or a branch.

    >>> import gradwright as gw
    >>> from gradwright.train.precision import lowered
    >>> from gradwright.train.slots import Slots
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", (None, 2)), g.variable("w", (2, 1), init=1.001)
    >>> y = gw.identity(x @ w, name="y")
    >>> copy = lowered([y], "bfloat16", None, Slots(g, g.values))
    >>> g.output({"x": [[1.0, 2.0]]}, copy.of(y)).popitem()[1].tolist()
    [[3.0]]
    """
    made = Lowered(*checked(precision, fp8), state)
    made._build.reach(list(tensors))
    return made
