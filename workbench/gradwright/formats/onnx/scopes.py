"""The modules that an exporter says a node was part of, beside the node's name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import NodeProto

_SCOPES = "pkg.torch.onnx.name_scopes"
"""PyTorch's exporter: ``['', 'layers', 'layers.0', 'layers.0.attn', 'matmul']``, outside in."""
_CLASSES = "pkg.torch.onnx.class_hierarchy"
"""Of which class each of these is: ``['net.Net', 'torch.nn.ModuleList', ..., 'aten.matmul']``."""
_LONGEST = 4000
"""Characters of a property that are read; modules nest a few deep."""
_QUOTED = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")


def scoped(proto: NodeProto, name: str) -> str:
    """Return the name of a node in the modules that its metadata tell, unless it has some itself.

    >>> from onnx import helper
    >>> node = helper.make_node("MatMul", ["x", "w"], ["y"], name="node_matmul")
    >>> p = node.metadata_props.add()
    >>> p.key, p.value = _SCOPES, "['', 'layers', 'layers.0', 'layers.0.attn', 'matmul']"
    >>> scoped(node, node.name), scoped(node, "/layers.0/MatMul")
    ('layers/layers.0/attn/node_matmul', '/layers.0/MatMul')
    """
    if "/" in name:
        return name
    return "/".join([*_own(filter(None, _told(proto, _SCOPES)[:-1])), name])


def classes(proto: NodeProto) -> Iterator[tuple[str, str]]:
    """Yield the scopes that ``scoped`` puts a node into, and of which class their modules are.

    >>> from onnx import helper
    >>> node = helper.make_node("MatMul", ["x", "w"], ["y"], name="node_matmul")
    >>> for key, value in ((_SCOPES, "['', 'fc1', 'linear']"),
    ...                    (_CLASSES, "['__main__.Net', 'torch.nn.Linear', 'aten.linear']")):
    ...     p = node.metadata_props.add()
    ...     p.key, p.value = key, value
    >>> list(classes(node))
    [('fc1', 'Linear')]
    """
    modules, kinds = _told(proto, _SCOPES)[:-1], _told(proto, _CLASSES)[:-1]
    if "/" in proto.name or len(kinds) != len(modules):
        return
    named = [(module, kind) for module, kind in zip(modules, kinds, strict=True) if module]
    own = list(_own(module for module, _ in named))
    for k, (_, kind) in enumerate(named):
        yield "/".join(own[: k + 1]), kind.rpartition(".")[2]


def _told(proto: NodeProto, key: str) -> list[str]:
    told = next((p.value for p in proto.metadata_props if p.key == key), "")
    return [single or double for single, double in _QUOTED.findall(told[:_LONGEST])]


def _own(modules: Iterable[str]) -> Iterable[str]:
    """Yield of each module what it adds to the one around it; a number keeps what it counts."""
    around = ""
    for module in modules:
        inner = module.removeprefix(f"{around}.") if around else module
        counted = inner.isdecimal() and around
        yield (f"{around.rpartition('.')[2]}.{inner}" if counted else inner).replace("/", "_")
        around = module
