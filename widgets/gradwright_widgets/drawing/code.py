"""Nodes as the Python that builds them: one line each, and a program for several."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradwright import Graph, Node, Tensor
from gradwright.errors import GradwrightError, GraphError
from gradwright.graph import Rng, SubGraph
from gradwright.op import Op
from gradwright.op.calling import HIDDEN, public_name
from gradwright.op.declare import identity
from gradwright.spec import Dim, dtype_name

WRITTEN = 64
"""Elements of a constant that stand in the code; of a larger one its shape does."""


def call_code(op: Op, inputs: Sequence[str | None]) -> str:
    """Return the call of a node's op on inputs that have these names.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> y = gw.nn.softmax(x, axis=0)
    >>> call_code(y.node.op, ["x"])
    'gw.nn.softmax(x, axis=0)'

    Raises:
        GraphError: the op holds what no line of code says: a body, an array.
    """
    cls = type(op)
    try:
        told = _settings(op)
    except ValueError as error:
        raise GraphError(
            f"{op.name} cannot be written as a line of code: {error}",
            hint="copy the cell that made it instead",
        ) from None
    given = list(inputs)
    while given and given[-1] is None:
        given.pop()
    positional = ["None" if name is None else name for name in given]
    if cls.namespace in HIDDEN or "/" in cls.name or not _is_derived(cls):
        return f"{_made_by_name(op)}({', '.join(positional)})"
    return f"{public_name(cls)}({', '.join([*positional, *told])})"


def _settings(op: Op) -> list[str]:
    """Return the attributes that differ from their defaults, as keywords."""
    attrs = type(op).attrs
    if "name" in vars(op):  # of an archive or a model: it stands for what is not here
        raise ValueError("it is not known here")
    return [
        f"{name}={literal(value)}"
        for name, value in op.attributes().items()
        if identity(value) != identity(attrs[name].default)
    ]


def _made_by_name(op: Op) -> str:
    return f"find_op({_quoted(type(op).name)})({', '.join(_settings(op))})"


def _is_derived(cls: type[Op]) -> bool:
    """Tell whether the public function is the one that an op's declaration makes."""
    from gradwright.op.registry import FUNCTIONS

    return cls.name not in FUNCTIONS.get(cls.namespace, {})


def literal(value: Any) -> str:
    """Return a value of an attribute as Python; raises ValueError where it has no such form.

    >>> literal((1, None, np.dtype("float16"))), literal(float("inf"))
    ("(1, None, 'float16')", "float('inf')")
    """
    if isinstance(value, Dim):
        return f'Dim.parse("{value}")'
    if isinstance(value, np.dtype):
        return repr(dtype_name(value))
    if isinstance(value, tuple):
        inner = ", ".join(map(literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, float) and not np.isfinite(value):
        return f"float('{value}')"
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    if isinstance(value, np.generic):
        return literal(value.item())
    if isinstance(value, Op):
        return _made_by_name(value)
    what = "a body" if isinstance(value, SubGraph) else f"a {type(value).__name__}"
    raise ValueError(f"it holds {what}")


def program(graph: Graph, nodes: Iterable[Node]) -> str:
    """Return a program that builds these nodes in a graph of its own.

    What they read of others are its placeholders, and variables begin as zeros: names, shapes,
    dtypes and attributes are those of the graph, values are not.

    >>> import gradwright as gw
    >>> g = gw.Graph("line")
    >>> with g.scope("hidden"):
    ...     y = gw.nn.relu(g.placeholder("x", ("B", 2)) @ g.variable("w", (2, 3)))
    >>> print(program(g, [y.node, *(t.node for t in y.node.inputs)]))
    import gradwright as gw
    <BLANKLINE>
    g = gw.Graph("line")
    x = g.placeholder("hidden/x", ("B", 2))
    w = g.placeholder("hidden/w", (2, 3))
    matmul = gw.matmul(x, w)
    relu = gw.nn.relu(matmul)
    <BLANKLINE>

    Raises:
        GraphError: one of them holds what no line of code says.
    """
    chosen = sorted(
        {n for n in nodes if not isinstance(n.op, Rng)}, key=lambda n: (n.serial, n.name)
    )
    writer = _Writer(set(chosen))
    lines = [line for node in chosen for line in writer.lines(node)]
    text = "\n".join(lines)
    head = ["import gradwright as gw"]
    head += ["from gradwright.op import find_op"] * ("find_op(" in text)
    head += ["from gradwright.spec import Dim"] * ("Dim.parse(" in text)
    head += ["import numpy as np"] * ("np." in text)
    return "\n".join([*sorted(head), "", f"g = gw.Graph({_quoted(graph.name)})", text, ""])


class _Writer:
    """Lines of nodes, and what each tensor is called in them."""

    def __init__(self, chosen: set[Node]) -> None:
        self._chosen = chosen
        self._taken = {"gw", "g", "np", "Dim", "find_op"}
        self._called: dict[Tensor, str] = {}

    def lines(self, node: Node) -> list[str]:
        """Return the line of a node, after those of what it reads and nobody has made."""
        found = []
        given = [None if t is None or isinstance(t.node.op, Rng) else t for t in node.inputs]
        for t in given:
            if t is not None and t not in self._called:
                found.append(f"{self._name(t)} = {self._input(t)}")
        names = [None if t is None else self._called[t] for t in given]
        variable = self._unused(node.name)
        several = len(node.public) != 1 or type(node.op).many
        for k, t in enumerate(node.outputs):
            self._called[t] = f"{variable}[{k}]" if several else variable
        found.append(f"{variable} = {self._made(node, names)}")
        return found

    def _made(self, node: Node, names: Sequence[str | None]) -> str:
        if node.kind in ("placeholder", "variable"):
            return _declared(node.kind, node.name, node.outputs[0])
        if node.kind == "constant":
            return _constant(node)
        return call_code(node.op, names)

    def _input(self, t: Tensor) -> str:
        return _declared("placeholder", t.name.replace(":", "_"), t)

    def _name(self, t: Tensor) -> str:
        name = self._unused(t.name)
        self._called[t] = name
        return name

    def _unused(self, name: str) -> str:
        """Return a variable after a node's own name that no other has."""
        short = re.sub(r"\W", "_", re.split(r"[/:](?=[^/:]*[A-Za-z_])", name)[-1]) or "y"
        if short[0].isdigit() or keyword.iskeyword(short):
            short = f"y_{short}"
        found, k = short, 1
        while found in self._taken:
            k += 1
            found = f"{short}_{k}"
        self._taken.add(found)
        return found


def _declared(kind: str, name: str, t: Tensor) -> str:
    spec: Any = t.spec
    if not hasattr(spec, "shape"):
        raise GraphError(f"{name!r} is {spec}, which no line of code declares")
    sizes = [repr(str(d)) if str(d).isidentifier() else literal(d) for d in spec.shape]
    sizes = [size.replace("'", '"') for size in sizes]
    shape = f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
    dtype = dtype_name(spec.dtype)
    told = "" if dtype == "float32" else f', dtype="{dtype}"'
    return f"g.{kind}({_quoted(name)}, {shape}{told})"


def _constant(node: Node) -> str:
    t = node.outputs[0]
    dtype = dtype_name(t.dtype)
    try:
        value = node.graph.values.array(node.name)
    except (GradwrightError, KeyError):
        value = None
    if value is None or value.size > WRITTEN or value.dtype.kind not in "biufT":
        return f'g.constant(np.zeros({tuple(t.shape)}), dtype="{dtype}")'
    return f'g.constant({_nested(value.tolist())}, dtype="{dtype}")'


def _nested(value: Any) -> str:
    """Return numbers and texts in lists as Python."""
    return f"[{', '.join(map(_nested, value))}]" if isinstance(value, list) else literal(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
