"""A graph in the languages of Graphviz and Mermaid: nodes as boxes, name scopes as clusters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gradwright import Graph, Node
from gradwright.errors import GradwrightError

from ...drawing.grouping import Groups, groups_of
from ...drawing.nodes import drawn_nodes, spec_text

_MARKUP = re.compile(r"[^\w .,:()\[\]{}/=+*-]")
_SHAPES = {
    "array": "shape=box",
    "placeholder": "shape=box, style=filled, fillcolor=aliceblue",
    "variable": 'shape=box, style="rounded,filled", fillcolor=cornsilk',
    "constant": "shape=box, style=filled, fillcolor=gray95",
}


def graph_dot(graph: Graph, *, gradients: bool = False) -> str:
    r"""Return the whole graph as DOT source, with a cluster for every name scope.

    Names are quoted and escaped by the rules of the ``graphviz`` package: whatever stands in them,
    they are labels and never markup.

    >>> import gradwright as gw
    >>> g = gw.Graph("line")
    >>> with g.scope("hidden"):
    ...     y = gw.exp(g.placeholder("x", (2,)))
    >>> print(graph_dot(g))
    digraph line {
      node [fontsize=12]
      edge [fontsize=10]
      subgraph "cluster_1" {
        label=hidden
        n0 [label="x\nf32[2]", shape=box, style=filled, fillcolor=aliceblue]
        n1 [label=exp, shape=box]
      }
      n0 -> n1 [label="f32[2]"]
    }
    <BLANKLINE>
    """
    nodes = drawn_nodes(graph, gradients=gradients)
    lines = [f"digraph {_quoted(graph.name)} {{", "  node [fontsize=12]", "  edge [fontsize=10]"]
    for depth, kind, what in _walked(nodes, groups_of(graph)):
        pad = "  " * depth
        if kind == "end":
            lines.append(f"{pad}}}")
        elif kind == "scope":
            number, title = what
            lines.append(f'{pad}subgraph "cluster_{number}" {{')
            lines.append(f"{pad}  label={_quoted(title)}")
        else:
            label = _quoted(*_rows(nodes[what]))
            lines.append(f"{pad}n{what} [label={label}, {_SHAPES[nodes[what].kind]}]")
    for source, reader, spec in _edges(nodes):
        lines.append(f"  n{source} -> n{reader} [label={_quoted(spec)}]")
    return "\n".join([*lines, "}", ""])


def graph_mermaid(graph: Graph, *, gradients: bool = False) -> str:
    """Return the whole graph as a Mermaid flowchart, with a subgraph for every name scope.

    Labels are quoted, and all but letters and plain signs stand as numbers of Unicode: whatever is
    in names, they are no markup.

    >>> import gradwright as gw
    >>> g = gw.Graph("line")
    >>> with g.scope("hidden"):
    ...     y = gw.exp(g.placeholder("x", (2,)))
    >>> print(graph_mermaid(g))
    flowchart TB
      subgraph s1["hidden"]
        n0(["x<br/>f32[2]"])
        n1["exp"]
      end
      n0 -->|"f32[2]"| n1
    <BLANKLINE>
    """
    nodes = drawn_nodes(graph, gradients=gradients)
    lines = ["flowchart TB"]
    for depth, kind, what in _walked(nodes, groups_of(graph)):
        pad = "  " * depth
        if kind == "end":
            lines.append(f"{pad}end")
        elif kind == "scope":
            number, title = what
            lines.append(f"{pad}subgraph s{number}[{_mermaid(title)}]")
        else:
            label = _mermaid(*_rows(nodes[what]))
            plain = nodes[what].kind == "array"
            lines.append(f"{pad}n{what}[{label}]" if plain else f"{pad}n{what}([{label}])")
    for source, reader, spec in _edges(nodes):
        lines.append(f"  n{source} -->|{_mermaid(spec)}| n{reader}")
    return "\n".join([*lines, ""])


def graph_pdf(source: str) -> bytes:
    """Return DOT source as a page of PDF, laid out by Graphviz.

    Raises:
        GradwrightError: Graphviz is not installed, or refuses.
    """
    import graphviz

    try:
        return bytes(graphviz.Source(source).pipe("pdf"))
    except graphviz.ExecutableNotFound:
        raise GradwrightError(
            "Graphviz, whose dot lays out a PDF, is not installed here",
            hint="apt install graphviz; or save as PDF from the drawing's menu, which needs none",
        ) from None
    except graphviz.CalledProcessError as error:
        raise GradwrightError("Graphviz could not lay out the graph", facts=[str(error)]) from None


def _edges(nodes: list[Node]) -> Iterator[tuple[int, int, str]]:
    """Yield number of the source, number of the reader, and the spec between them."""
    number = {id(node): i for i, node in enumerate(nodes)}
    for i, node in enumerate(nodes):
        for tensor in node.inputs:
            source = None if tensor is None else number.get(id(tensor.node))
            if tensor is not None and source is not None:
                yield source, i, spec_text(tensor)


def _walked(nodes: list[Node], groups: Groups | None) -> Iterator[tuple[int, str, Any]]:
    """Yield nodes by scope or group, each in the one around it: depth, what it is, and which."""
    held: dict[str, list[int | str]] = {"": []}
    around, labels = dict[str, str](), dict[str, str]()
    for group, path in enumerate(groups.names if groups else ()):
        assert groups is not None
        parent = groups.parent[group]
        around[path] = groups.names[parent] if parent >= 0 else ""
        labels[path] = groups.title(group)
    for i, node in enumerate(nodes):
        home = path = _home(node, groups)
        inner = []
        while path not in held:
            held[path] = []
            inner.append(path)
            path = around.get(path, path.rpartition("/")[0])
        for scope in inner:
            held[around.get(scope, scope.rpartition("/")[0])].append(scope)
        held[home].append(i)
    cluster = {path: k for k, path in enumerate(held)}
    stack = [iter(held[""])]
    while stack:
        entry = next(stack[-1], None)
        if entry is None:
            stack.pop()
            if stack:
                yield len(stack), "end", None
        elif isinstance(entry, str):
            title = labels.get(entry, entry.rpartition("/")[2])
            yield len(stack), "scope", (cluster[entry], title)
            stack.append(iter(held[entry]))
        else:
            yield len(stack), "node", entry


def _home(node: Node, groups: Groups | None) -> str:
    """Return the scope or group that a node stands in, "" at the top."""
    if groups is None or node.derived:
        return node.scope
    group = groups.of(node)
    return groups.names[group] if group >= 0 else ""


def _rows(node: Node) -> tuple[str, ...]:
    """Return the lines that stand on a node."""
    leaf = node.name.rpartition("/")[2]
    if node.kind != "array":
        return leaf, str(node.outputs[0].spec)
    return (leaf, node.op.name) if leaf.partition("_")[0] != node.op.name else (leaf,)


def _mermaid(*rows: str) -> str:
    return '"' + "<br/>".join(_MARKUP.sub(lambda m: f"#{ord(m[0])};", row) for row in rows) + '"'


def _quoted(*rows: str) -> str:
    import graphviz  # 10 ms, and only an export needs it

    text = "\\n".join(graphviz.escape(row.replace("\0", "\ufffd")) for row in rows)
    return str(graphviz.quoting.quote(graphviz.nohtml(text)))
