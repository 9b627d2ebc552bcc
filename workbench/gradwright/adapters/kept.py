"""Kept: what an archive keeps of the adapters of a graph, by the names of its tensors.

Their variables and nodes are the graph's own; this says which they are, so that a graph that is
loaded, or a training that is resumed, has its adapters again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ..errors import ArchiveError, GradwrightError
from ..graph import Graph, Node, Tensor
from ..spec import dtype as as_dtype
from ..spec import dtype_name
from ..words.jsonable import from_json, to_json
from .adapted import Adapted
from .adapter import Adapter
from .chain import Adapters, Chain, Link, keeping
from .site import Place, Use

OF_VALUES = "replaced", "originals"
"""Arrays of the model that an adapter keeps beside the graph, and that no archive has."""


def kept(known: Adapters) -> dict[str, Any]:
    """Return what is kept, as JSON has it; nothing of a graph that has none."""
    if not known.named and not known.references:
        return {}
    return {
        "adapters": [_adapter(one, known) for one in known.named.values()],
        "chains": [
            {
                "base": chain.base.name,
                "handle": _name(chain.handle),
                "reader": _encoded(chain.reader),
                "links": [
                    {
                        "adapter": link.adapter,
                        "before": link.before.name,
                        "after": link.after.name,
                        "nodes": [n.name for n in link.nodes if _is_there(n)],
                    }
                    for link in chain.links
                ],
            }
            for chain in known.chains.values()
        ],
        "frozen": [t.name for t in known.frozen],
        "references": [n.name for n in known.references if _is_there(n)],
    }


def _adapter(one: Adapted, known: Adapters) -> dict[str, Any]:
    return {
        "name": one.name,
        "adapter": to_json(one.adapter),
        "active": one.name in known.active,
        "dtype": None if one.dtype is None else dtype_name(as_dtype(one.dtype)),
        "seed": one._seed,
        "places": [_encoded(place) for place in one.places],
        "variables": {p: {k: t.name for k, t in v.items()} for p, v in one.variables.items()},
        "shared": {k: t.name for k, t in one.shared.items()},
        "passing": [t.name for t in one._passing],
        "thawed": [t.name for t in one.thawed],
        "weight": _name(one._weight),
        "penalty": _name(one.penalty),
        "apart": [n.name for n in one._apart if _is_there(n)],
        "common": {k: t.name for k, t in one._common.items()},
        **{kind: list(getattr(one, kind)) for kind in OF_VALUES},
    }


def restored(graph: Graph, data: Any) -> Adapters:
    """Return what is known of the adapters of a graph; raises ArchiveError for what does not fit.

    Settings are those of classes that are registered: nothing is imported or evaluated.
    """
    try:
        return _restored(graph, data)
    except ArchiveError:
        raise
    except (GradwrightError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise ArchiveError(
            f"what is kept of the adapters does not fit the graph: {error}"
        ) from None


def _restored(graph: Graph, data: Any) -> Adapters:
    known, kinds = Adapters(), _place_kinds(Place)
    for row in data["adapters"]:
        adapter = from_json(row["adapter"])
        if not isinstance(adapter, Adapter):
            raise ArchiveError(f"{row['name']!r} is no adapter, but {type(adapter).__name__}")
        places = [_decoded(graph, place, kinds) for place in row["places"]]
        if not all(isinstance(place, Place) for place in places):
            raise ArchiveError(f"the places of {row['name']!r} are none")
        one = Adapted(graph, adapter, str(row["name"]), places, row["dtype"], int(row["seed"]))
        tensors = graph.__getitem__
        one.variables = {p: _named(graph, leaves) for p, leaves in row["variables"].items()}
        one.shared, one._common = _named(graph, row["shared"]), _named(graph, row["common"])
        one._passing = frozenset(map(tensors, row["passing"]))
        one.thawed = tuple(map(tensors, row["thawed"]))
        one._weight = None if row["weight"] is None else graph[row["weight"]]
        one.penalty = None if row["penalty"] is None else graph[row["penalty"]]
        one._apart = [graph.node(n) for n in row["apart"]]
        for kind in OF_VALUES:
            setattr(one, kind, {n: graph.values.array(n) for n in row[kind]})
        one.is_loaded = True
        known.named[one.name] = one
        if row["active"] is True:
            one.is_on = True
            known.active.add(one.name)
    for row in data["chains"]:
        handle = None if row["handle"] is None else graph[row["handle"]]
        reader = _decoded(graph, row["reader"], kinds)
        links = [
            Link(
                str(link["adapter"]),
                graph[link["before"]],
                graph[link["after"]],
                [graph.node(n) for n in link["nodes"]],
            )
            for link in row["links"]
        ]
        if not isinstance(reader, Use) or not {link.adapter for link in links} <= {*known.named}:
            raise ArchiveError("a chain of adapters is none")
        key = (reader.node, reader.input) if handle is None else handle
        known.chains[key] = Chain(graph[row["base"]], handle, reader, links)
    known.frozen = {graph[n]: None for n in data["frozen"]}
    known.references = {graph.node(n) for n in data["references"]}
    return known


def _name(t: Tensor | None) -> str | None:
    return None if t is None else t.name


def _is_there(node: Node) -> bool:
    return node.graph.get(node.name) is node.outputs[0]


def _named(graph: Graph, names: Mapping[str, str]) -> dict[str, Tensor]:
    return {key: graph[name] for key, name in names.items()}


# -- places and uses -------------------------------------------------------------------------------


def _encoded(value: Any) -> Any:
    """Return a field of a place or use; what only serves while it is added is left out."""
    match value:
        case None | bool() | int() | str():
            return value
        case Tensor():
            return {"tensor": value.name}
        case Node():
            return {"node": value.name}
        case np.dtype():
            return {"dtype": dtype_name(value)}
        case tuple():
            return [_encoded(v) for v in value]
        case Place() | Use():
            held = {f.name: getattr(value, f.name) for f in fields(value)}
            kept = {k: _encoded(v) for k, v in held.items() if not isinstance(v, Mapping)}
            return {"kind": type(value).__name__, "fields": kept}
    raise TypeError(f"{value!r} of a place is not kept")


def _decoded(graph: Graph, value: Any, kinds: Mapping[str, type]) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(graph, v, kinds) for v in value)
    if not isinstance(value, Mapping):
        return value
    if "tensor" in value:
        return graph[value["tensor"]]
    if "node" in value:
        return graph.node(value["node"])
    if "dtype" in value:
        return as_dtype(value["dtype"])
    cls: Any = kinds[value["kind"]]
    given = {k: _decoded(graph, v, kinds) for k, v in value["fields"].items()}
    return cls(**{f.name: given[f.name] for f in fields(cls) if f.name in given})


def _place_kinds(cls: type[Place]) -> dict[str, type]:
    """Return all kinds of places by name, and uses."""
    found: dict[str, type] = {cls.__name__: cls, Use.__name__: Use}
    for sub in cls.__subclasses__():
        found |= _place_kinds(sub)
    return found


keeping.update(kept=kept, restored=restored)
