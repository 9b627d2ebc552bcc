"""Merging: an adapter becomes part of the weights; this can be undone, and says what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import GraphError
from ..graph import Graph, Tensor, Variable, member
from ..models.decoder.packing import NF4, floats_of, packed
from ..ops.quantised.blocks import FORMATS, packed_ggml
from ..session import Session
from .chain import adapters_of
from .site import Place, Site

if TYPE_CHECKING:
    from .adapted import Adapted

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Drift:
    """How far outputs lie from what they were: before, as they were with the adapter beside.

    ``relative`` is ‖after − before‖/‖before‖, ``largest`` the largest difference, and ``same`` the
    share of rows whose largest number stands at the same place.

    >>> Drift("y", 0.0, 0.0, 1.0)
    Drift(output='y', relative=0.0, largest=0.0, same=1.0)
    """

    output: str
    relative: float
    largest: float
    same: float


@dataclass(frozen=True)
class Merged:
    """What a merge did: the places, those of them that were packed again, and the drift."""

    places: tuple[str, ...]
    requantized: Mapping[str, str]
    drift: Drift | None

    def __str__(self) -> str:
        lines = [f"merged at {len(self.places)} places"]
        if self.requantized:
            kinds = ", ".join(sorted(set(self.requantized.values())))
            lines.append(f"{len(self.requantized)} of them packed again as {kinds}")
        if self.drift is not None:
            d = self.drift
            lines.append(
                f"{d.output} moved by {d.relative:.2%} (at most {d.largest:.3g});"
                f" {d.same:.1%} of its rows have the same largest number"
            )
        return "\n".join(lines)


def merge(
    adapted: Adapted,
    *,
    requantize: bool = False,
    unload: bool = False,
    feeds: Mapping[Any, Any] | None = None,
    output: Tensor | str | None = None,
) -> Merged:
    """Write an adapter into the weights that it changes, all or nothing, and switch it off.

    ``unmerge`` gives the weights back to the bit: they are kept meanwhile. The model computes what
    it did but for rounding, as fast as without an adapter.

    Args:
        adapted: what ``gw.adapters.add`` gave.
        requantize: whether packed weights may be packed again, which rounds what was learned.
        unload: take the adapter out of the graph afterwards; weights stay merged.
        feeds: a batch on which the drift of ``output`` is measured.
        output: the tensor to measure; of a model that has ``logits``, these.

    Raises GraphError for methods that cannot be merged, for weights that are packed, unless
    ``requantize``, or computed, and for numbers that are not finite.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 1)) @ g.variable("w", (1, 1), init=1.0)
    >>> adapted = gw.adapters.add(g, gw.adapters.LoRA(r=1, alpha=1), where="w")
    >>> adapted.load_state({"w/lora_A": [[1.0]], "w/lora_B": [[4.0]]})
    >>> print(gw.adapters.merge(adapted, feeds={"x": [[1.0]]}, output=y))
    merged at 1 places
    matmul moved by 0.00% (at most 0); 100.0% of its rows have the same largest number
    >>> g.values["w"].tolist()
    [[5.0]]
    >>> gw.adapters.unmerge(adapted)
    >>> g.values["w"].tolist()
    [[1.0]]
    """
    graph = adapted.graph
    adapted._check_apart()
    _check_alone(adapted)
    requantized = {p.name: p.packed for p in adapted.places if isinstance(p, Site) and p.packed}
    if requantized and not requantize:
        name, kind = next(iter(requantized.items()))
        raise GraphError(
            f"the weight {name!r} lies in blocks of {kind}: packed again, it loses what was learned"
            " in part",
            hint="gw.adapters.merged(adapted) gives a model of floats; merge(adapted,"
            " requantize=True, feeds=batch) says what it costs",
        )
    new: dict[str, Array] = {}
    for place in adapted.places:
        new |= _merged_at(adapted, place)
    wanted = None if feeds is None else _output(adapted, output)
    before = None if wanted is None else _run_with(adapted, wanted, feeds)
    adapted.merge_into(new)
    drift = None
    if wanted is not None and before is not None:
        drift = _drift(wanted.name, before, _run(graph, wanted, feeds))
    found = Merged(tuple(p.name for p in adapted.places), requantized, drift)
    if unload:
        adapted.remove(merged=True)
    return found


def unmerge(adapted: Adapted) -> None:
    """Give the weights back as they were before ``merge``, and switch the adapter on again.

    Raises GraphError where it is not merged, or another adapter has changed the weights since.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 1)) @ g.variable("w", (1, 1), init=1.0)
    >>> gw.adapters.unmerge(gw.adapters.add(g, gw.adapters.LoRA(r=1), where="w"))
    Traceback (most recent call last):
    gradwright.errors.GraphError: 'default' is not merged
      try:  gw.adapters.merge(adapted)
    """
    if not adapted.is_merged:
        raise GraphError(f"{adapted.name!r} is not merged", hint="gw.adapters.merge(adapted)")
    adapted.unmerge()


def merged(adapted: Adapted) -> Any:
    """Return a decoder of floats with the adapter in its weights; the one it stands in stays.

    This is how an adapter of a quantised base is published without rounding it: ‖W + s·B·A‖ in
    float32, whatever W was packed as.

    Raises GraphError where the adapter was not added to a decoder.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocabulary=9, width=32, layers=1, heads=2)
    >>> model = gw.quant.quantize(Decoder(config), "q8_0").model
    >>> adapted = gw.adapters.add(model, gw.adapters.LoRA(r=2), where="q|v")
    >>> whole = gw.adapters.merged(adapted)
    >>> whole.packed, whole.graph.values["layer0/q"].dtype
    ({}, dtype('float32'))
    """
    from ..models.decoder import Decoder

    model = adapted.model
    if not isinstance(model, Decoder):
        raise GraphError(
            f"the adapter stands in a {type(model).__name__}, not in a decoder",
            hint="gw.adapters.merge(adapted)",
        )
    adapted._check_apart()
    _check_alone(adapted)
    values = {name: floats_of(model, name) for name, _ in model.config.weights()}
    for place in adapted.places:
        for name, array in _merged_at(adapted, place, as_floats=True).items():
            values[name] = array.astype(np.float32, copy=False)
    whole = Decoder(model.config, values={n: np.array(a) for n, a in values.items()})
    whole.tokenizer, whole.eos = model.tokenizer, model.eos
    return whole


def _check_alone(adapted: Adapted) -> None:
    """Refuse where another adapter at the same place would mean something else afterwards."""
    known = adapters_of(adapted.graph)
    own = {p.name for p in adapted.places}
    for other in known.named.values():
        shared = own & {p.name for p in other.places}
        both = adapted.adapter.is_additive and other.adapter.is_additive
        if other is not adapted and other.is_enabled and shared and not both:
            raise GraphError(
                f"{other.name!r} stands at {min(shared)!r}, too, and what it does depends on the"
                " weight",
                hint=f"gw.adapters.of(graph)[{other.name!r}].disable(), or merge it first",
            )


def _merged_at(adapted: Adapted, place: Place, *, as_floats: bool = False) -> dict[str, Array]:
    """Return new values of what a place reads, by the names of variables."""
    if not place.uses:
        return {}
    graph, method = adapted.graph, type(adapted.adapter).__name__
    if not isinstance(place, Site):
        raise GraphError(
            f"{method} is no part of a weight: what it adds at {place.name!r} cannot be merged",
            hint="adapted.disable() leaves it out; adapted.state() keeps it",
        )
    biases = list(dict.fromkeys(use.bias for use in place.uses if use.bias is not None))
    bias = biases[0] if biases else None
    w, b = place.array(), None if bias is None else graph.values.stored(bias.node)
    done = adapted.adapter.merge(place, w, b, adapted.numbers(place))
    if done is None:
        raise GraphError(f"{method} cannot be merged at {place.name!r}")
    weight, c = done
    if adapted.is_weighed:
        weight = (w + adapted.weight * (weight - w)).astype(w.dtype)
        c = None if b is None or c is None else (b + adapted.weight * (c - b)).astype(b.dtype)
    found = {place.name: weight} if as_floats else _stored(place, weight)
    if bias is not None and b is not None and c is not None and not np.array_equal(b, c):
        if not isinstance(bias.op, Variable) or len(biases) > 1:
            raise GraphError(f"the bias of {place.name!r} is no variable that could be merged into")
        found[bias.name] = c
    for name, array in found.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise GraphError(f"merged, {name!r} would have numbers that are not finite")
    return found


def _stored(place: Site, weight: Array) -> dict[str, Array]:
    """Return what holds a weight [out, in, *kernel], as it is held."""
    graph, name = place.weight.graph, place.weight.name
    if place.is_stored:
        return {name: place.stored(weight)}
    if place.packed in FORMATS and isinstance(place.weight.op, Variable):
        rows = weight.T if place.kind == "embedding" else weight
        return {name: packed_ggml(np.ascontiguousarray(rows, np.float32), place.packed)}
    kind = next((k for k in NF4[::-1] if place.packed in NF4 and _holds(graph, place, k)), None)
    if kind is None:
        raise GraphError(f"{place.name!r} is computed of other tensors: nothing holds it")
    return packed(place.name, weight.astype(np.float32), kind)


def _holds(graph: Graph, place: Site, kind: str) -> bool:
    """Tell whether the variables that a kind lies in are there."""
    parts = ("absmax",) if kind == "nf4" else ("absmax", "nested", "offset")
    return all(f"{place.name}_{part}" in graph for part in parts)


def _output(adapted: Adapted, output: Tensor | str | None) -> Tensor:
    if output is not None:
        return member(adapted.graph, output)
    found = getattr(adapted.model, "logits", None)
    if not isinstance(found, Tensor):
        raise GraphError("which output is to be compared?", hint='output="y"')
    return found


def _run(graph: Graph, output: Tensor, feeds: Mapping[Any, Any] | None) -> Array:
    with Session(graph, kernels="off") as session:
        found: Array = session.run(output, feeds)
    return found.astype(np.float64)


def _run_with(adapted: Adapted, output: Tensor, feeds: Mapping[Any, Any] | None) -> Array:
    """Return an output as it is with the adapter beside, which may be switched off."""
    is_on = adapted.is_enabled
    adapted.enable()
    try:
        return _run(adapted.graph, output, feeds)
    finally:
        if not is_on:
            adapted.disable()


def _drift(name: str, before: Array, after: Array) -> Drift:
    size = float(np.linalg.norm(before)) or 1.0
    apart = after - before
    same = (before.argmax(-1) == after.argmax(-1)).mean() if before.ndim else 1.0
    largest = float(np.abs(apart).max(initial=0))
    return Drift(name, float(np.linalg.norm(apart)) / size, largest, float(same))
