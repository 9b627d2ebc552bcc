"""Prompt tuning: vectors that are learned, before those of the tokens (Lester et al. 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ... import nn
from ...errors import GraphError, ShapeError
from ...graph import Constant, Graph, Node, Tensor, ancestors, descendants
from ...init import normal
from ...op import Op
from ...ops.core.choice import Maximum, Minimum
from ...ops.core.choice import Where as Select
from ...ops.core.elementwise import Mul
from ...ops.core.joining import Concat
from ...ops.core.movement import cast_to
from ...ops.core.reshape import BroadcastTo
from ...spec import Dim, TensorSpec, kind
from ...words.jsonable import jsonable
from ..adapter import Adapter, Leaf, Leaves
from ..chain import adapters_of
from ..settings import check_count
from ..site import Place, Site, Use
from ..targeting import Where, chosen

if TYPE_CHECKING:
    from ...models.reading import Before
    from ..built import Built

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class _End(Place):
    """Where what stands before the text is cut off again."""

    table: Tensor
    """The rows of the text, as the model reads them."""
    specs: Mapping[Tensor, TensorSpec] = field(default_factory=dict)
    """What must stay as it is."""


@jsonable
@dataclass(frozen=True)
class Prompt(Adapter):
    """Vectors before those of the tokens, of which no output is given (Lester et al. 2021).

    h = [prompt_embeddings; s·table[ids]],  y = head(network(h))[P:],  prompt_embeddings: f32[P, D]

    s is the number that some models multiply rows by. The model reads P positions more than
    there are tokens: ops that state how many there are state P more, up to the last products, which
    are cut. So logits and labels are those of the tokens; that of the first one, which the prompt
    alone would predict, counts in no loss. A prompt cannot be merged, and counts whole or not.

    Args:
        tokens: P.
        init: ``"random"``: normal; ``"vocabulary"``: rows of the table, chosen at random;
            ``"ids"``: the rows of ``ids``, again from the first where there are fewer than P.
        ids: tokens of a text to begin with.
        until: the name of the tensor that is cut; by default the outputs of the last products.

    Raises GraphError where there is no table that tokens choose rows of, or several, where rows
    have a fixed length, and where something else would get longer.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=50, width=16, layers=2, heads=2))
    >>> adapted = gw.adapters.add(model, gw.adapters.Prompt(tokens=3))
    >>> [(t.name, t.shape) for t in adapted.parameters], model.logits.shape
    ([('embed/default/prompt_embeddings', (3, 16))], (B, T, 50))
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"embedding"})
    is_weighable: ClassVar[bool] = False

    tokens: int = 20
    init: str = "random"
    ids: tuple[int, ...] = ()
    until: str | None = None

    def __post_init__(self) -> None:
        check_count("tokens", self.tokens)
        if self.init not in ("random", "vocabulary", "ids"):
            raise GraphError(
                f"init={self.init!r} is not known", need="'random', 'vocabulary' or 'ids'"
            )
        if (self.init == "ids") != bool(self.ids):
            raise GraphError(f"init={self.init!r} and ids={self.ids!r} do not fit", need="both")

    @property
    def reads_weights(self) -> bool:  # type: ignore[override]
        """Whether first values are rows of the table."""
        return self.init != "random"

    # -- places ----------------------------------------------------------------------------------

    def places(
        self, sites: Sequence[Site], where: Where, layers: Any = None, exclude: Where = None
    ) -> Sequence[Place]:
        table = table_of(sites, where, layers, exclude)
        rows = table.uses[0].output
        assert rows is not None
        if not isinstance(rows.shape[-2], Dim) or len(rows.shape[-2].symbols) != 1:
            raise GraphError(
                f"rows of {table.name!r} have a fixed length: {rows.spec}",
                need="a size that a run tells, such as g.placeholder('ids', ('B', 'T'))",
            )
        if any(isinstance(o.adapter, Prompt) for o in adapters_of(rows.graph).named.values()):
            raise GraphError("the graph has a prompt already", hint="adapted.remove() first")
        ends = _ends(sites, rows, self.until)
        specs = _after(rows, ends)
        return [
            table,
            *(
                _End(
                    name=t.name,
                    kind="output",
                    dtype=t.dtype,
                    uses=(Use(t.node, 0, t),),
                    table=rows,
                    specs=specs,
                )
                for t in ends
            ),
        ]

    def variables(self, place: Place) -> Mapping[str, Leaf]:
        if isinstance(place, Site):
            return {"prompt_embeddings": Leaf((self.tokens, place.n_out), normal())}
        return {}

    def prepare(
        self, place: Any, w: Array, data: Any = None
    ) -> tuple[Mapping[str, Array], Array | None]:
        n = w.shape[1]
        if self.init == "vocabulary":
            at = np.random.default_rng(0).permutation(n)
        else:
            at = np.asarray(self.ids)
            if at.min() < 0 or at.max() >= n:
                raise GraphError(f"ids are no rows of {place.name!r}", need=f"0 to {n - 1}")
        return {"prompt_embeddings": w.T[np.resize(at, self.tokens)]}, None

    # -- the graph -------------------------------------------------------------------------------

    def vectors(self, place: Site, p: Leaves) -> Tensor:
        """Return what stands before the tokens, f32[P, D]."""
        return p["prompt_embeddings"]

    def apply(self, place: Any, use: Use, x: Any, y: Tensor, p: Leaves) -> Tensor:
        if isinstance(place, _End):
            at = (slice(None),) * (y.rank - 2)
            cut: Tensor = y[(*at, slice(self.tokens, None))]
            return cut
        first = cast_to(y.dtype, self.vectors(place, p))
        shape = (*y.shape[:-2], *first.shape)
        joined: Tensor = Concat(axis=-2)(BroadcastTo(shape=shape)(first), y)
        return joined

    def rebound(self, places: Sequence[Place], *, on: bool) -> Mapping[Node, Op]:
        ends = [place for place in places if isinstance(place, _End)]
        rows = ends[0].table
        [symbol] = rows.shape[-2].symbols  # type: ignore[union-attr]
        other: Any = {symbol: Dim.symbol(symbol) + (self.tokens if on else -self.tokens)}
        before = set(ancestors([rows]))
        on_the_way = set(ancestors([place.uses[0].node.outputs[0] for place in ends])) - before
        for chain in adapters_of(rows.graph).chains.values():
            if not on_the_way.isdisjoint(chain.ends):
                on_the_way.update(chain.nodes())  # those of adapters that are off, too
        return {n: n.op.bind(other) for n in on_the_way if symbol in n.op.symbols()}

    def check(self, places: Sequence[Place]) -> None:
        for place in places:
            if isinstance(place, _End):
                for t, spec in place.specs.items():
                    if t.spec != spec:
                        raise ShapeError(
                            f"a prompt would make {t.spec} of {t.name!r}, which is {spec}",
                            need="a tensor to cut the prompt off before it",
                            hint="Prompt(until=name)",
                        )

    def merge(
        self, place: Any, w: Array, bias: Array | None, p: Mapping[str, Array]
    ) -> tuple[Array, Array | None] | None:
        return None

    # -- generation ------------------------------------------------------------------------------

    def generating(self) -> Adapter:
        return _Rows(self)

    def before(self, adapted: Built, graph: Graph) -> Before | None:
        from ...models.reading import Before

        n = next(place.n_in for place in adapted.places if isinstance(place, Site))
        return Before(self.tokens, ids=range(n, n + self.tokens))


@jsonable
@dataclass(frozen=True)
class _Rows(Adapter):
    """A prompt in a graph that generates: rows behind the last one of the table."""

    prompt: Prompt

    kinds: ClassVar[frozenset[str]] = frozenset({"embedding"})

    def places(
        self, sites: Sequence[Site], where: Where, layers: Any = None, exclude: Where = None
    ) -> Sequence[Place]:
        return [table_of(sites, where, layers, exclude)]

    def variables(self, place: Any) -> Mapping[str, Leaf]:
        return self.prompt.variables(place)

    def apply(self, place: Site, use: Use, x: Tensor, y: Tensor, p: Leaves) -> Tensor:
        n = place.n_in
        first = cast_to(y.dtype, self.prompt.vectors(place, p))
        known = use.again(Minimum()(x, n - 1))
        scaled = _scaled(use.node.outputs[0])
        known = known if scaled is None else known * scaled[1]
        more = nn.embedding(Maximum()(x - n, 0), first)
        found: Tensor = Select()((x >= n)[..., None], more, known)
        return found


def table_of(sites: Sequence[Site], where: Where, layers: Any, exclude: Where) -> Site:
    """Return the table that tokens choose rows of; raises GraphError for none, or for several."""
    found = []
    for site in sites:
        uses = [u for u in site.uses if u.x is not None and kind(u.x.dtype) in "iu"]
        if uses:
            found.append(replace(site, kind="embedding", uses=tuple(uses)))
    if where is None:
        fed = [s for s in found if any(_is_fed(u.x) for u in s.uses)]
        found = fed or found
    if found:
        found = chosen(found, where, layers=layers, exclude=exclude)
    if len(found) != 1 or len(found[0].uses) != 1:
        raise GraphError(
            "a prompt stands before the rows of one table",
            facts=[
                f"there is {s.name!r}, read by {', '.join(repr(u.node.name) for u in s.uses)}"
                for s in found
            ],
            need="an embedding of tokens",
            hint=f"where={found[0].name!r}" if len(found) > 1 else "",
        )
    [use] = found[0].uses
    scaled = _scaled(use.node.outputs[0])
    if scaled is None or use.output is not use.node.outputs[0]:
        return found[0]
    return replace(found[0], uses=(replace(use, output=scaled[0]),))


def _scaled(rows: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return rows times a number, and that, where the model reads them so alone."""
    if len(rows.uses) != 1 or not isinstance(rows.uses[0].op, Mul):
        return None
    node = rows.uses[0]
    factor = next((t for t in node.inputs if t is not None and t is not rows), None)
    if factor is None or factor.rank or not isinstance(factor.op, Constant):
        return None
    return node.outputs[0], factor


def _is_fed(x: Tensor | None) -> bool:
    """Tell whether ids are fed as they are."""
    return x is not None and x.kind == "placeholder"


def _ends(sites: Sequence[Site], rows: Tensor, until: str | None) -> list[Tensor]:
    """Return what is cut: the last products behind the rows of a table that have its length."""
    size = rows.shape[-2]
    if until is not None:
        return [rows.graph[until]]
    uses = [u for s in sites for u in s.uses if u.output is not None and u.output is not rows]
    read = set(ancestors([t for u in uses for t in u.node.inputs if t is not None]))
    behind = set(descendants([rows.node]) or ())
    last = [u.output for u in uses if u.last in behind and u.last not in read]
    found = [t for t in last if t is not None and t.rank > 1 and t.shape[-2] == size]
    if not found:
        raise GraphError(
            f"no product behind {rows.name!r} gives something for each position",
            need="the tensor at which the prompt is cut off",
            hint="Prompt(until=name)",
        )
    return found


def _after(rows: Tensor, ends: Sequence[Tensor]) -> dict[Tensor, TensorSpec]:
    """Return the specs of what reads the rows, but not on the way to the ends."""
    between = {n for n in ancestors(ends) if n not in {t.node for t in ends}}
    known = adapters_of(rows.graph)
    between.update(*(chain.nodes() for chain in known.chains.values()))
    behind = descendants([rows.node]) or ()
    kept = [n for n in behind if n not in between and not n.derived]
    return {t: t.spec for n in kept for t in n.outputs}
