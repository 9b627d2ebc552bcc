"""Serve: slots for adapters beside the weights of a model, as an edit of its graph."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...models.generation import Generation
from ..adapted import Adapted
from ..adapter import Adapter
from ..adding import add
from ..chain import adapters_of
from ..site import sites
from ..targeting import ALL_LINEAR, Where
from .per_row import PerRow
from .served import Served
from .sources import State, named, source_of

RANK = 16
"""Of slots, where no adapter says another one."""


def serve(
    model: Any,
    adapters: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    where: Where = None,
    layers: Iterable[int] | None = None,
    exclude: Where = None,
    slots: int = 8,
    r: int | None = None,
    per_row: int = 1,
    gains: bool | None = None,
    inputs: tuple[str, ...] | None = None,
    most: int = 64,
    most_bytes: int | None = None,
    name: str = "served",
) -> Served:
    """Have each row of a batch use an adapter of its own, of any number that are read when needed.

    Slots are allocated once, for the highest rank; changing what is in them makes no new plan. LoRA
    of all ranks and scales can stand in them, and what is a product of thin matrices, too.

    Args:
        model: a graph, a decoder, or a ``Generation``.
        adapters: a folder of adapters, or what ``Served.add`` takes by name; more can be added.
        where: which weights have slots, as for ``gw.adapters.add``; by default those that
            ``adapters`` change, or all of products.
        layers: likewise.
        exclude: likewise.
        slots: how many adapters can be in use at once.
        r: the highest rank; by default that of ``adapters``, or 16.
        per_row: how many adapters a row may have at once, with weights.
        gains: whether adapters may multiply what layers give, as DoRA and IA3 do; by default if
            one of ``adapters`` does.
        inputs: patterns of the layers whose inputs they may multiply, likewise.
        most: how many adapters are kept in memory.
        most_bytes: how many bytes they may take together; None is any number.
        name: of the scope that the slots stand in, as if they were one adapter.

    Raises GraphError for a layer whose input has no rows, or that does more than multiply.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    >>> served = gw.adapters.serve(model, where="q|v", slots=4, r=2)
    >>> served
    <Served: 0 adapters, 0 of 64 in memory, 0 of 4 slots in use>
    >>> [row.prompt for row in served.generate([[1], [2, 3]], 2, rows=None)]
    [[1], [2, 3]]
    """
    given = {} if adapters is None else {key: source_of(held) for key, held in named(adapters)}
    seen = _Seen(model)
    if any(told is None for told in (r, where, gains, inputs)):
        for source in given.values():
            seen.see(*source.read(model))
    if where is None:
        where = (lambda place: place.name in seen.places) if seen.places else ALL_LINEAR
    method = PerRow(
        slots=slots,
        r=r if r is not None else seen.rank or RANK,
        per_row=per_row,
        gains=seen.multiplies if gains is None else gains,
        inputs=tuple(re.escape(name) for name in seen.inputs) if inputs is None else inputs,
        rows=f"{name}/rows",
    )
    graph = model.graph if isinstance(model, Generation) else model
    adapted: Adapted = add(graph, method, where, layers=layers, exclude=exclude, name=name)
    try:
        served = Served(model, adapted, most=most, most_bytes=most_bytes)
        for key, source in given.items():
            served.add(key, source)
    except BaseException:
        adapted.remove()
        raise
    return served


class _Seen:
    """What the adapters that are to be served need of slots, as far as their sizes tell."""

    def __init__(self, model: Any) -> None:
        graph = getattr(model, "graph", model)
        self._sites = {s.name: s for s in sites(graph, but=adapters_of(graph).variables())}
        self.places: dict[str, None] = {}
        self.inputs: dict[str, None] = {}
        """Those whose inputs are multiplied."""
        self.rank, self.multiplies = 0, False

    def see(self, method: Adapter, state: State) -> None:
        """Take note of one; what does not fit is said when a row asks for it."""
        names = dict.fromkeys(key.rpartition("/")[0] for key in state)
        for place in (self._sites[name] for name in names if name in self._sites):
            self.places[place.name] = None
            self.rank = max(self.rank, method.row_rank(place))
            if method.multiplies_input(place):
                self.inputs[place.name] = None
            else:
                self.multiplies |= method.by_row == "product"
