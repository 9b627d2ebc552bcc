"""Gathering from places that integers name, and scattering to them."""

from __future__ import annotations

from typing import Any

from ....spec import Dim, TensorSpec, normalize_axis
from ....spec.one_of import one_of
from ...foreign import Chosen
from ..node import OnnxNode, maps, op, reads

maps("Gather", "gather", attributes={"axis": 0})


def _along(node: OnnxNode, x: Any, indices: Any) -> dict[str, Any]:
    """Return the attributes of an op whose indices may be fewer than ``x`` has on other axes."""
    axis = normalize_axis(node.get("axis", 0), x.rank)
    pairs = enumerate(zip(x.shape, indices.shape, strict=True))
    return {"axis": axis, "corner": any(i != axis and a != b for i, (a, b) in pairs)}


@reads("GatherElements", since=11)
def gather_elements(node: OnnxNode, x: Any, indices: Any) -> Any:
    return op("take_along_axis", **_along(node, x, indices))(x, indices)


def _is_wide_open(node: OnnxNode, x: TensorSpec, indices: TensorSpec) -> bool:
    """Tell whether only a run tells how many axes the indices name."""
    return isinstance(indices.shape[-1], Dim) and x.rank - node.get("batch_dims", 0) > 1


def _gathered(node: OnnxNode, x: TensorSpec, indices: TensorSpec) -> list[TensorSpec]:
    """Return what there is for each number of axes that the indices may name."""
    named = range(node.get("batch_dims", 0) + 1, x.rank + 1)
    return [one_of([x.with_shape((*indices.shape[:-1], *x.shape[n:])) for n in named])]


@reads("GatherND", since=11, waits=_is_wide_open, outputs=_gathered)
def gather_nd(node: OnnxNode, x: Any, indices: Any) -> Any:
    """Gather slices; with batch dims each batch reads from its own."""
    batch = node.get("batch_dims", 0)
    if isinstance(indices.shape[-1], Dim):
        indices = op("reshape", shape=(*indices.shape[:-1], 1))(indices)
    if not batch:
        return op("gather_nd")(x, indices)
    columns = []
    lead = indices.shape[:-1]
    for axis in range(batch):
        row = op("arange", start=indices.shape[axis])()
        shape = [1] * (len(lead) + 1)
        shape[axis] = indices.shape[axis]
        column = op("reshape", shape=tuple(shape))(row)
        columns.append(op("broadcast_to", shape=(*lead, 1))(column))
    return op("gather_nd")(x, op("concat", axis=-1)(*columns, op("cast", dtype="int64")(indices)))


_ELEMENTS = {
    "none": "scatter_update", "add": "scatter_add", "mul": "scatter_mul",
    "max": "scatter_max", "min": "scatter_min",
}  # fmt: skip


@reads("Scatter", since=9)
@reads("ScatterElements", since=11)
def scatter_elements(node: OnnxNode, x: Any, indices: Any, updates: Any) -> Any:
    name = Chosen("reduction", _ELEMENTS).of(node.get("reduction", "none"))
    return op(name, **_along(node, x, indices))(x, indices, updates)


_SLICES = {
    "none": "scatter_nd_update", "add": "scatter_nd_add", "mul": "scatter_nd_mul",
    "max": "scatter_nd_max", "min": "scatter_nd_min",
}  # fmt: skip
maps("ScatterND", Chosen("reduction", _SLICES), since=11, attributes={"reduction": "none"})


@reads("Unique", since=11)
def unique(node: OnnxNode, x: Any) -> Any:
    attrs = {"sorted": node.flag("sorted", True), "axis": node.get("axis")}
    values, first, inverse, counts = op("unique", **attrs)(x)
    if inverse.rank != 1:
        inverse = op("reshape", shape=(-1,))(inverse)
    return values, first, inverse, counts
