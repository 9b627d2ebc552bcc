"""Attentions: the ops of a graph that average values, and the positions that they turn by."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from ..errors import GraphError
from ..graph import Graph, Node, Tensor, ancestors
from ..op import Op
from ..ops.attention.forms import GroupedQueryAttention
from ..ops.attention.scaled import ScaledDotProductAttention
from ..ops.core.choice import Where
from ..ops.core.creation import Arange, Full
from ..ops.core.joining import Concat
from ..ops.core.movement import cast_to
from ..ops.core.reshape import BroadcastTo
from ..spec import is_floating, kind

READ = (ScaledDotProductAttention, GroupedQueryAttention)
"""Attentions that take more keys as they are: queries, keys, values and a mask, heads apart."""


def attentions(graph: Graph, *, but: Collection[Node] = ()) -> list[Node]:
    """Return the attentions of a graph, in the order in which they are computed.

    Raises GraphError where there are none.
    """
    outputs = [t for n in graph.nodes for t in n.outputs]
    found = [n for n in ancestors(outputs) if isinstance(n.op, READ) and n not in but]
    if not found:
        names = sorted({n.op.name for n in graph.nodes if "attention" in n.op.name})
        raise GraphError(
            "the graph has no attention that a prefix can stand before",
            facts=[f"it has {name}" for name in names],
            need=" or ".join(op.name for op in READ),
            hint="gw.onnx.load(path, recognize=True) finds those that a file has written out",
        )
    return found


def positions(nodes: Sequence[Node]) -> list[Tensor]:
    """Return what tells queries and keys where they stand: counts from 0 on, 0, 1, 2, ..."""
    read = [t for node in nodes for t in node.inputs[:2] if t is not None]
    counts = [n for n in ancestors(read) if isinstance(n.op, Arange) and not n.inputs]
    return [n.outputs[0] for n in counts]


def heads(node: Node) -> tuple[int, int]:
    """Return how many heads keys have, and how many numbers each; raises GraphError if unknown."""
    key, value = node.inputs[1:3]
    assert key is not None and value is not None
    sizes = [*key.shape[1:-2], key.shape[-1], value.shape[-1]]
    whole = [d for d in sizes if isinstance(d, int)]
    if len(whole) < len(sizes) or whole[-1] != whole[-2]:
        raise GraphError(
            f"a prefix needs keys and values of one known size at {node.name!r}",
            facts=[f"keys are {key.spec}, values {value.spec}"],
        )
    return math.prod(whole[:-2]), whole[-1]


def longer(node: Node, keys: Tensor, values: Tensor, reach: int | None) -> Tensor:
    """Return an attention that sees more keys, [heads, P, E], before its own, as far as it reaches.

    ``reach`` is how many positions it looks back, its own counted; None is all.
    """
    query, key, value, *rest = node.inputs
    assert query is not None and key is not None and value is not None
    n = int(keys.shape[1])
    mask = _seen(node.op, query, key, rest[0] if rest else None, n, reach)
    made: Tensor = node.op.replace(is_causal=False)(
        query, _before(key, keys), _before(value, values), *([] if mask is None else [mask])
    )
    return made


def _before(t: Tensor, more: Tensor) -> Tensor:
    """Return keys or values with more of them before, the same for each row."""
    lead, (_, n, e) = t.shape[:-2], more.shape
    shaped = cast_to(t.dtype, more).reshape(1, *lead[1:], n, e)
    if len(lead):
        shaped = BroadcastTo(shape=(*lead, n, e))(shaped)
    joined: Tensor = Concat(axis=-2)(shaped, t)
    return joined


def _seen(
    op: Op, query: Tensor, key: Tensor, mask: Tensor | None, n: int, reach: int | None
) -> Tensor | None:
    """Return the mask of keys of which n stand before the others; None where all are seen."""
    causal: Tensor | None = None
    if op.attributes()["is_causal"]:
        at, of = Arange(start=query.shape[-2])(), Arange(start=key.shape[-2] + n)()
        causal = of - n <= at[:, None]
    if mask is None:
        return causal
    if mask.shape[-1] != 1:
        shape, is_bool = (*mask.shape[:-1], n), kind(mask.dtype) == "b"
        if reach is None or not is_bool:
            first = Full(shape=shape, fill_value=is_bool, dtype=mask.dtype)()
        else:  # the k-th of them stands n − k positions before the first of the text
            at = Arange(start=query.shape[-2])()[:, None]
            first = BroadcastTo(shape=shape)(Arange(start=n)() - n > at - reach)
        mask = Concat(axis=-1)(first, mask)
    if causal is None:
        return mask
    if is_floating(mask.dtype):
        hidden: Tensor = Where()(causal, mask, mask * 0 - 1e38)
        return hidden
    return mask & causal
