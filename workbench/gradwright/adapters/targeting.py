"""Targeting: which places of a graph are meant by names, patterns, layers and predicates.

A pattern is a regular expression of a whole name, or of what stands behind a ``/`` or ``.`` in it.
The last part may be left out where it only says that it is a weight: ``q|v`` means ``layer0/q``,
``block.3.v`` and ``q/weight``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from ..errors import GraphError
from ..graph import Tensor, ancestors
from .site import Place, Site

PlaceT = TypeVar("PlaceT", bound=Place)
T = TypeVar("T")
Where = str | re.Pattern[str] | Tensor | Callable[[Place], bool] | Iterable["str | Tensor"] | None
"""What says which places are meant."""
ALL_LINEAR = "all-linear"
_WEIGHT = r"(?:[/.](?:weight|kernel|w|W))?"
_LAYER = re.compile(r"(?:^|[/._])(?:layers?|blocks?|blk|h)?[/._]?(\d+)(?=$|[/._])")


def fits(pattern: str | re.Pattern[str], name: str) -> bool:
    """Tell whether a pattern means a name; a compiled one is searched for in it.

    >>> [fits("q|v", name) for name in ("layer0/q", "layer.1.v.weight", "layer0/qk")]
    [True, True, False]
    >>> fits(r"layer[01]/.*", "layer1/up"), fits("0.weight", "0.weight")
    (True, True)

    Raises GraphError for what is no regular expression.
    """
    if isinstance(pattern, re.Pattern):
        return pattern.search(name) is not None
    if pattern == name:
        return True
    try:
        return re.fullmatch(rf"(?:.*[/.])?(?:{pattern}){_WEIGHT}", name) is not None
    except re.error as error:
        raise GraphError(f"{pattern!r} is no regular expression: {error}") from None


def of_pattern(pattern: Mapping[str, T], name: str, otherwise: T) -> T:
    """Return what a table of patterns says of a name: the first that fits counts.

    >>> of_pattern({"up|down": 4, r".*": 2}, "layer0/up", 8)
    4
    """
    return next((value for key, value in pattern.items() if fits(key, name)), otherwise)


def layer(name: str) -> int | None:
    """Return the number of the layer that a name tells, if it tells one.

    >>> layer("layer3/q"), layer("model.layers.11.self_attn.q_proj"), layer("embed")
    (3, 11, None)
    """
    found = _LAYER.search(name)
    return int(found[1]) if found else None


def chosen(
    places: Sequence[PlaceT],
    where: Where,
    *,
    layers: Iterable[int] | None = None,
    exclude: Where = None,
) -> list[PlaceT]:
    """Return the places that are meant; raises GraphError, with the nearest names, for none."""
    meant = _means(where, places)
    found = [p for p in places if meant(p)]
    if not found:
        raise _nothing(where, places)
    if layers is not None:
        numbers = {layers} if isinstance(layers, int) else set(layers)
        known = {layer(p.name) for p in found} - {None}
        found = [p for p in found if layer(p.name) in numbers]
        if not found:
            raise GraphError(
                f"layers={sorted(numbers)} leaves nothing of where={where!r}",
                need=f"some of {sorted(n for n in known if n is not None)}"
                if known
                else "names that tell a layer's number",
            )
    if exclude is not None:
        left_out = _means(exclude, places)
        found = [p for p in found if not left_out(p)]
        if not found:
            raise GraphError(f"exclude={exclude!r} leaves nothing of where={where!r}")
    return found


def _means(where: Where, places: Sequence[Place]) -> Callable[[Place], bool]:
    """Return a predicate."""
    if where is None:
        return lambda _: True
    if isinstance(where, str) and where == ALL_LINEAR:
        inner = _not_last(places)
        return lambda place: place in inner
    if isinstance(where, str | re.Pattern):
        return lambda place: fits(where, place.name)
    if isinstance(where, Tensor):
        return lambda place: isinstance(place, Site) and place.weight is where
    if callable(where):
        return where
    if isinstance(where, Iterable):
        several = [_means(w, places) for w in where]
        return lambda place: any(means(place) for means in several)
    raise GraphError(
        f"where={where!r} makes no sense", need='a pattern such as "q|v", "all-linear", a predicate'
    )


def _not_last(places: Sequence[Place]) -> Collection[Place]:
    """Return the linear places that a product stands behind: heads are none.

    Where all are last, as in a model of one layer, they are meant.
    """
    held = [p for p in places if isinstance(p, Site)]
    read = [t for p in held for use in p.uses for t in use.node.inputs if t is not None]
    before = set(ancestors(read))
    linear = {p for p in held if p.kind == "linear"}
    return {p for p in linear if any(use.last in before for use in p.uses)} or linear


def _nothing(where: Where, places: Sequence[Place]) -> GraphError:
    names = [p.name for p in places]
    if not names:
        return GraphError(
            "the graph has no place for this adapter", need="a product with a stored weight"
        )
    short = dict.fromkeys(part for name in names for part in re.split("[/.]", name))
    asked = re.split(r"[|]", where) if isinstance(where, str) else []
    close = {
        match: None
        for word in asked
        for match in difflib.get_close_matches(word, [*short, *names], 3, 0.5)
        if any(fits(re.escape(match), name) for name in names)
    }
    return GraphError(
        f"where={where!r} fits no place" if isinstance(where, str) else "where= fits no place",
        facts=[f"there are {', '.join(map(repr, names[:12]))}{' ...' if len(names) > 12 else ''}"],
        hint="did you mean " + " or ".join(map(repr, close)) + "?" if close else "",
    )
