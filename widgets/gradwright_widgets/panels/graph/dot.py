"""A graph in the language of Graphviz: nodes as boxes, name scopes as clusters."""

from __future__ import annotations

from gradwright import Graph, Node

from ...drawing.grouping import Groups, groups_of
from ...drawing.nodes import drawn_nodes

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
    number = {id(node): i for i, node in enumerate(nodes)}
    lines = [f"digraph {_quoted(graph.name)} {{", "  node [fontsize=12]", "  edge [fontsize=10]"]
    lines += _clusters(nodes, groups_of(graph))
    for i, node in enumerate(nodes):
        for tensor in node.inputs:
            source = None if tensor is None else number.get(id(tensor.node))
            if tensor is not None and source is not None:
                lines.append(f"  n{source} -> n{i} [label={_quoted(str(tensor.spec))}]")
    return "\n".join([*lines, "}", ""])


def _clusters(nodes: list[Node], groups: Groups | None) -> list[str]:
    """Return the nodes by scope or group, each within the one around it."""
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
    lines: list[str] = []
    stack = [iter(held[""])]
    while stack:
        pad = "  " * len(stack)
        entry = next(stack[-1], None)
        if entry is None:
            stack.pop()
            if stack:
                lines.append("  " * len(stack) + "}")
        elif isinstance(entry, str):
            label = _quoted(labels.get(entry, entry.rpartition("/")[2]))
            lines.append(f'{pad}subgraph "cluster_{cluster[entry]}" {{')
            lines.append(f"{pad}  label={label}")
            stack.append(iter(held[entry]))
        else:
            lines.append(
                f"{pad}n{entry} [label={_label(nodes[entry])}, {_SHAPES[nodes[entry].kind]}]"
            )
    return lines


def _home(node: Node, groups: Groups | None) -> str:
    """Return the scope or group that a node stands in, "" at the top."""
    if groups is None or node.derived:
        return node.scope
    group = groups.of(node)
    return groups.names[group] if group >= 0 else ""


def _label(node: Node) -> str:
    leaf = node.name.rpartition("/")[2]
    if node.kind != "array":
        return _quoted(leaf, str(node.outputs[0].spec))
    return _quoted(leaf, node.op.name) if leaf.partition("_")[0] != node.op.name else _quoted(leaf)


def _quoted(*rows: str) -> str:
    import graphviz  # 10 ms, and only an export needs it

    text = "\\n".join(graphviz.escape(row.replace("\0", "\ufffd")) for row in rows)
    return str(graphviz.quoting.quote(graphviz.nohtml(text)))
