"""Adding: an adapter is put into a graph, if everything about it fits; else nothing has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import GraphError
from ..graph import Constant, Graph, Tensor, Variable, coerce
from ..graph.cells import current_cell
from ..spec import dtype as as_dtype
from ..spec import is_floating
from ..words.spelling import meant
from .adapted import Adapted
from .adapter import Adapter
from .chain import Adapters, adapters_of
from .site import Site, sites
from .targeting import Where, fits

if TYPE_CHECKING:
    from ..models.reading import Before

Array = np.ndarray[Any, Any]


def of(model: Any) -> dict[str, Adapted]:
    """Return the adapters of a graph, or of a model that has one, by their names.

    >>> import gradwright as gw
    >>> gw.adapters.of(gw.Graph())
    {}
    """
    return dict(adapters_of(graph_of(model)).named)


def graph_of(model: Any) -> Graph:
    """Return the graph of a model, or itself; raises GraphError for what has none."""
    graph = model if isinstance(model, Graph) else getattr(model, "graph", None)
    if not isinstance(graph, Graph):
        raise GraphError(
            f"a {type(model).__name__} has no graph to adapt", need="gw.Graph, Decoder"
        )
    return graph


def add(
    model: Any,
    adapter: Adapter,
    where: Where = None,
    *,
    name: str = "default",
    layers: Iterable[int] | None = None,
    exclude: Where = None,
    keep: str | Iterable[str] = (),
    dtype: Any = None,
    data: Any = None,
    seed: int = 0,
) -> Adapted:
    """Add an adapter to a graph: an atomic edit, after which it alone is trained.

    Args:
        model: a graph, or what has one, such as a ``Decoder``, whose generations then have it, too.
        adapter: a method with its settings, such as ``LoRA(r=8)``.
        where: the places: a pattern of names (``"q|v"``), ``"all-linear"`` for all products but
            the last one, a predicate on places, a weight's tensor, or several of these; None is
            all that the method can stand at.
        name: its variables are called ``{place}/{name}/{leaf}``.
        layers: only those of these layers, by the numbers in their names.
        exclude: places to leave out, as ``where``.
        keep: patterns of variables of the model that are trained as well.
        dtype: of its variables; by default that of the layer, and float32 where it has 16 bits.
        data: what first values are computed on, where the method needs some.
        seed: of first values.

    Raises GraphError where nothing is found, with the nearest names, for a name that is taken, and
    for places that the method cannot stand at; ShapeError for ranks that do not fit.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=50, width=16, layers=2, heads=2))
    >>> adapted = gw.adapters.add(model, gw.adapters.LoRA(r=4), where="q|v")
    >>> adapted.trainable.n_trained, [p.name for p in adapted.places]
    (512, ['layer0/q', 'layer0/v', 'layer1/q', 'layer1/v'])
    """
    graph, dtype = graph_of(model), None if dtype is None else as_dtype(dtype)
    if not isinstance(adapter, Adapter):
        raise GraphError(f"{adapter!r} is no adapter", need="gw.adapters.LoRA(), or another method")
    if graph.closed:
        raise GraphError(f"graph {graph.name!r} is a {graph.closed}: adapt the graph around it")
    known = adapters_of(graph)
    if (before := known.named.get(name)) is not None and _is_again(before):
        before.remove()
    _check_name(known, name)
    every = sites(graph, but=known.variables(), outer=known.outer, apart=known.nodes())
    places = adapter.places(every, where, layers, exclude)
    own = known.variables()
    variables = [t for t in graph.variables if is_floating(t.dtype) and t not in own]
    variables = [t for t in variables if t.node not in known.references]
    patterns = [keep] if isinstance(keep, str) else keep
    thawed = _thawed(variables, [*adapter.thaws(places, every)], patterns)
    adapter, places, found = adapter.surveyed(places, data)
    values, bases = dict(found), dict[str, Array]()
    if adapter.reads_weights:
        for place in (p for p in places if isinstance(p, Site)):
            values[place.name], new = adapter.prepare(place, place.array(), data)
            if new is not None:
                bases[place.weight.name] = _new_base(place, new)
    made = Adapted(graph, adapter, name, places, dtype, seed)
    made.thawed = tuple(thawed)
    made.model = model
    made.put(values, bases)
    if hasattr(model, "follow"):
        _follow(model, made)
    return made


def _follow(model: Any, made: Adapted) -> None:
    """Have the graphs in which a model generates follow."""

    def edit(graph: Graph) -> Callable[[], Before | None]:
        if made.adapter.is_followed:
            names = {p.name for p in made.places}
            where = lambda p: p.name in names  # noqa: E731
            one = add(graph, made.adapter.generating(), where, name=made.name, dtype=made.dtype)
            if made.is_weighed:
                one.weight = 1.0
            if not made.is_enabled:
                one.disable()
            made.followed_by(one)
        return lambda: made.adapter.before(made, graph) if made.is_enabled else None

    model.follow(edit)
    made.unfollow = lambda: model.follow(edit, no_more=True)


def _is_again(before: Adapted) -> bool:
    """Tell whether the notebook cell that added an adapter runs again."""
    cell, was = current_cell(), before.cell
    return cell is not None and was is not None and cell.id == was.id and cell.run != was.run


def _check_name(known: Adapters, name: str) -> None:
    """Refuse a name that is taken, or none."""
    if name in known.named:
        raise GraphError(
            f"the graph has an adapter {name!r} already",
            facts=[repr(known.named[name])],
            hint=f"name='another', or gw.adapters.of(graph)[{name!r}].remove() first",
        )
    fits_in_names = isinstance(name, str) and name.isprintable() and not {*"/:"} & {*name}
    if not name or not fits_in_names:
        raise GraphError(f"{name!r} is no name of an adapter", need="text without '/' and ':'")


def _thawed(variables: list[Tensor], found: list[Tensor], keep: Iterable[str]) -> list[Tensor]:
    """Return the variables of the model that are trained; refuse what is none."""
    for pattern in keep:
        fitting = [t for t in variables if fits(pattern, t.name)]
        if not fitting:
            close = meant(pattern, [t.name for t in variables])
            raise GraphError(
                f"keep={pattern!r} fits no floating variable",
                hint=f"did you mean {close!r}?" if close else "",
            )
        found += fitting
    for t in found:
        if not isinstance(t.op, Variable):
            raise GraphError(
                f"{t.name!r} cannot be trained: it is a {t.kind}",
                hint=f"graph.to_variable({t.name!r})" if isinstance(t.op, Constant) else "",
            )
    return list(dict.fromkeys(found))


def _new_base(place: Site, new: Array) -> Array:
    """Return a weight that first values have changed, as it is stored."""
    if not place.is_stored:
        raise GraphError(
            f"first values would change {place.name!r}, which is {place.packed or 'computed'}",
            need="a weight that is stored as floats",
            hint="init=True leaves it as it is",
        )
    return coerce(place.stored(new), place.weight.spec, f"variable {place.name!r}")
