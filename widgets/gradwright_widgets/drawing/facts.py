"""What is known of nodes without running anything: documentation, arithmetic, bytes, code, lines.

A page without a kernel has it, too: it travels as one message beside the drawing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from gradwright import Graph, Node
from gradwright.debug.flops import Counter
from gradwright.errors import GradwrightError
from gradwright.op import Op
from gradwright.ops.reference.description import documentation
from gradwright.spec import Dim
from gradwright.spec.one_of import OneOf

from .buffers import float64, int32
from .code import call_code
from .nodes import drawn_nodes

MOST = int(sys.float_info.max)
"""The largest count that is told."""


def node_facts(
    graph: Graph, sizes: Mapping[str, int] | None = None, *, gradients: bool = False
) -> dict[str, Any]:
    """Return columns beside those of ``graph_spec``, for the same nodes in the same order.

    - ``ops``: by name of the op, ``summary``, ``formula`` and what its ``attributes`` mean;
    - ``lines``: of each distinct call the line of code, with ``{}`` for its inputs, "" where it has
      none;
    - ``places`` and ``place``: where in the user's code nodes were made, -1 where nobody knows;
    - ``flops`` and ``bytes``: arithmetic, and the size of the results, at ``sizes``; symbolic
      dimensions that these do not know count as 1;
    - ``uncounted``: why the arithmetic of a node is not known, by its number; it is NaN there.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> y = gw.nn.relu(g.placeholder("x", ("B", 4)))
    >>> facts = node_facts(g, {"B": 8})
    >>> facts["lines"], np.frombuffer(facts["flops"]).tolist()
    (['', 'gw.nn.relu({})'], [0.0, 32.0])
    >>> facts["ops"]["relu"]["formula"]
    'y = max(x, 0)'
    """
    sizes = dict(sizes or {})
    nodes = drawn_nodes(graph, gradients=gradients)
    lines: dict[str, str] = {}
    places: dict[str, int] = {}
    place = []
    counter, uncounted = Counter(sizes), dict[str, str]()
    flops = []
    for node in nodes:
        if (call := repr(node.op)) not in lines:
            lines[call] = _line(node)
        where = node.where
        place.append(places.setdefault(where, len(places)) if where else -1)
        try:
            flops.append(_bounded(counter.of(node)))
        except Exception as error:  # code of the user's, in an op of their own
            uncounted[str(len(flops))] = " ".join(str(error).split())
            flops.append(math.nan)
    return {
        "nodes": len(nodes),
        "sizes": sizes,
        "ops": {kind.name: op_facts(kind) for kind in {type(node.op): None for node in nodes}},
        "lines": list(lines.values()),
        "places": list(places),
        "place": int32(place),
        "flops": float64(flops),
        "uncounted": uncounted,
        "bytes": float64([nbytes(node, sizes) for node in nodes]),
    }


def op_facts(cls: type[Op]) -> dict[str, Any]:
    """Return what the documentation of an op says, in parts.

    >>> import gradwright as gw
    >>> facts = op_facts(gw.nn.leaky_relu.op)
    >>> facts["formula"], sorted(facts["attributes"])
    ('y = x for x > 0, else negative_slope·x', ['negative_slope'])
    """
    text = documentation(cls).split("\n>>> ")[0].strip()
    summary, *more = [part.strip() for part in text.split("\n\n")]
    formula = more[0] if more and "=" in more[0] else ""
    return {
        "summary": " ".join(summary.split()),
        "formula": formula,
        "attributes": {name: declared.doc for name, declared in cls.attrs.items()},
    }


def nbytes(node: Node, sizes: Mapping[str, int]) -> float:
    """Return the bytes of a node's results; sizes that nobody knows count as 1."""
    total = 0
    for tensor in node.outputs:
        spec: Any = tensor.spec
        if isinstance(spec, OneOf):  # only a run tells its rank
            continue
        for_one = getattr(getattr(spec, "dtype", None), "itemsize", 0)
        shape = getattr(spec, "shape", ())
        total += for_one * math.prod(_number(size, sizes) for size in shape)
    return _bounded(total)


def _bounded(n: int) -> float:
    """Return a count as a float: that of a file which lies may be larger than any."""
    return float(min(n, MOST))


def _number(size: Any, sizes: Mapping[str, int]) -> int:
    if not isinstance(size, Dim):
        return int(size)
    return max(0, int(size.substitute({s: sizes.get(s, 1) for s in size.symbols})))


def _line(node: Node) -> str:
    """Return the line of a call, with a place for its inputs."""
    if node.kind != "array":
        return ""
    try:
        return call_code(node.op, ["{}"])
    except GradwrightError:  # a body: the cell that made it says more
        return ""
