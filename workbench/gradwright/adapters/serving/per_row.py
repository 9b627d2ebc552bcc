"""PerRow: several adapters at each place, of which each row of a batch has its own.

    x ──────────── weight ─────────────┬─▶ y          rows    i64[B, k]  slots that a row reads
    └─ A[rows] ─ scale[rows]·weights ─ B[rows] ─┘     weights f32[B, k]  how much of each

The stacks have a slot more than there are adapters. It stays zero, and is what a row without an
adapter reads: so nothing is masked, and what such a row gets is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ... import nn
from ...errors import GraphError, ShapeError
from ...graph import Placeholder, Tensor, ancestors
from ...ops.core.index import Gather
from ...ops.core.movement import cast_to
from ...ops.core.reduce import Prod, Sum
from ...spec import AnyDim
from ...words.jsonable import jsonable
from ..adapter import Adapter, Array, Leaf, Leaves, added
from ..site import Site, Use
from ..targeting import fits


@jsonable
@dataclass(frozen=True)
class PerRow(Adapter):
    """Another adapter for each row of a batch (Chen et al. 2023, "Punica"; S-LoRA).

    y'[i] = y[i] + Σⱼ weights[i, j]·s[n]·(x[i]·A[n]ᵀ)·B[n], n = rows[i, j]

    with A: f32[slots + 1, r, in], B: f32[slots + 1, r, out], s: f32[slots + 1]. With ``gains`` that
    is y·gain[n] + offset[n] in the end, of f32[slots + 1, out] each, as DoRA and IA3 need it, and
    in the places of ``inputs`` x·input_gain[n] goes into the layer. The first axis of x is that of
    rows, or one into which others of a row are folded.

    Args:
        slots: how many adapters there is room for.
        r: the highest rank.
        per_row: how many a row may have at once.
        gains: whether outputs are multiplied, too.
        inputs: patterns of the places whose inputs are.
        rows: the placeholder of numbers of slots; one beside it is called ``weights``.

    Raises ShapeError for a layer whose first axis is not that of rows.
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"linear", "embedding"})

    slots: int = 8
    r: int = 16
    per_row: int = 1
    gains: bool = False
    inputs: tuple[str, ...] = ()
    rows: str = "served/rows"

    def __post_init__(self) -> None:
        for name in ("slots", "r", "per_row"):
            n = getattr(self, name)
            if not isinstance(n, int) or isinstance(n, bool) or n < 1:
                raise GraphError(f"{name}={n!r} makes no sense", need="an int >= 1")
        if self.per_row > self.slots:
            raise GraphError(f"a row cannot have {self.per_row} of {self.slots} slots")

    @property
    def weights(self) -> str:
        """The name of the placeholder of weights."""
        return f"{self.rows.rpartition('/')[0]}/weights".removeprefix("/")

    def row_rank(self, place: Any) -> int:
        return int(min(self.r, place.n_in, place.n_out))

    def multiplies_input(self, place: Any) -> bool:
        return any(fits(pattern, place.name) for pattern in self.inputs)

    def variables(self, place: Site) -> Mapping[str, Leaf]:
        n, r = self.slots + 1, self.row_rank(place)
        a = (n, place.n_in, r) if place.kind == "embedding" else (n, r, place.n_in)
        leaves = {
            "lora_A": Leaf(a, 0.0, trainable=False),
            "lora_B": Leaf((n, r, place.n_out), 0.0, trainable=False),
            "scale": Leaf((n,), 0.0, trainable=False),
        }
        if self.gains:
            leaves["gain"] = Leaf((n, place.n_out), 1.0, trainable=False)
            leaves["offset"] = Leaf((n, place.n_out), 0.0, trainable=False)
        if self.multiplies_input(place):
            leaves["input_gain"] = Leaf((n, place.n_in), 1.0, trainable=False)
        return leaves

    def shift(self, place: Site, use: Use, x: Tensor, p: Leaves) -> Tensor:
        rows, weights = self._fed(place, x)
        b, k, r = rows.shape[0], self.per_row, p["lora_B"].shape[1]
        if place.kind == "embedding":
            ids, table = cast_to("int64", x).reshape(b, 1, -1), p["lora_A"]
            at = ids + (rows * place.n_in).reshape(b, k, 1)
            z = nn.embedding(at, table.reshape(-1, r)).transpose(0, 2, 1, 3)
        else:
            a = Gather()(p["lora_A"], rows).reshape(b, k * r, place.n_in)
            z = (x.reshape(b, -1, place.n_in) @ a.mT).reshape(b, -1, k, r)
        factor = Gather()(p["scale"], rows) * cast_to(z.dtype, weights)
        z = (z * factor.reshape(b, 1, k, 1)).reshape(b, -1, k * r)
        y = z @ Gather()(p["lora_B"], rows).reshape(b, k * r, place.n_out)
        assert use.output is not None
        shift: Tensor = y.reshape(*use.output.shape)
        return shift

    def apply(self, place: Site, use: Use, x: Tensor, y: Tensor, p: Leaves) -> Tensor:
        rows, _ = self._fed(place, x)
        b = rows.shape[0]

        def of_rows(leaf: str, n: int) -> Tensor:
            found: Tensor = Gather()(p[leaf], rows).reshape(b, self.per_row, n)
            return found

        shift = self.shift(place, use, x, p)
        if "input_gain" in p:
            gain = Prod(axis=1)(of_rows("input_gain", place.n_in)) - 1.0
            scaled = (x.reshape(b, -1, place.n_in) * gain.reshape(b, 1, -1)).reshape(*x.shape)
            shift = shift + cast_to(shift.dtype, use.again(scaled))
        if "gain" not in p:
            return added(y, shift)
        gain, offset = (of_rows(leaf, place.n_out) for leaf in ("gain", "offset"))
        z = (cast_to(shift.dtype, y) + shift).reshape(b, -1, place.n_out)
        z = z * Prod(axis=1, keepdims=True)(gain) + Sum(axis=1, keepdims=True)(offset)
        total: Tensor = cast_to(y.dtype, z.reshape(*y.shape))
        return total

    def changed(self, place: Site, w: Tensor, p: Leaves) -> Tensor:
        raise GraphError(
            f"an op that does more than multiply reads {place.name!r}: rows cannot differ in it",
            hint=f"exclude={place.name!r} leaves it as it is",
        )

    def merge(
        self, place: Site, w: Array, bias: Array | None, p: Mapping[str, Array]
    ) -> tuple[Array, Array | None] | None:
        raise GraphError(
            f"rows have adapters of their own at {place.name!r}, and one weight cannot hold them",
            hint="gw.adapters.load(model, path), and merge that",
        )

    def _fed(self, place: Site, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the placeholders, which the first place makes, for all of a graph."""
        graph = x.graph
        if self.rows not in graph:
            shape = (_batch(place, x), self.per_row)
            with graph._at_top():
                graph.placeholder(self.rows, shape, "int64")
                graph.placeholder(self.weights, shape, "float32")
        rows = graph[self.rows]
        n = rows.shape[0]
        if not _is_of(n, x):
            raise ShapeError(
                f"what goes into {place.name!r} is {x.spec}: its first axis is not that of rows",
                need=f"{n}, as {self.rows!r} has it",
                hint=f"exclude={place.name!r} leaves it as it is",
            )
        return rows, graph[self.weights]


def _batch(place: Site, x: Tensor) -> AnyDim:
    """Return the size of rows: how a placeholder begins that a layer depends on."""
    given = [n.outputs[0] for n in ancestors([x]) if isinstance(n.op, Placeholder)]
    first = [t.shape[0] for t in given if t.rank]
    fitting = [n for n in first if _is_of(n, x)]
    symbolic = [n for n in fitting if not isinstance(n, int)]
    if not fitting:
        raise ShapeError(
            f"what goes into {place.name!r} is {x.spec}: its first axis is not that of rows",
            facts=[f"{t.name}: {t.spec}" for t in given],
            hint=f"exclude={place.name!r} leaves it as it is",
        )
    return (symbolic or fitting)[0]


def _is_of(n: AnyDim, x: Tensor) -> bool:
    """Tell whether the first axis of a tensor is one of n rows, others perhaps folded into it."""
    if not x.rank or not n:
        return False
    size: Any = x.shape[0]
    if isinstance(size, int) and not isinstance(n, int):
        return False
    return bool((size // n) * n == size)
