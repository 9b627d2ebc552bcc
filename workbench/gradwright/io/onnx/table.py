"""Which reader knows an operator: those declared on ops, and those written as functions."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...catalogue import load
from ...declare import REQUIRED, OnnxRule
from ...errors import ArchiveError
from ...op import OPS, Op, registry_revision
from .dtypes import from_element_type
from .node import READERS, OnnxNode, Reader


def find_reader(domain: str, op_type: str, opset: int) -> Reader | None:
    """Return the newest reader of an operator that is not newer than ``opset``."""
    found = None
    for reader in known_operators().get((domain, op_type), ()):
        if reader.since <= opset:
            found = reader
    return found


def known_operators() -> Mapping[tuple[str, str], list[Reader]]:
    """Return all readers by domain and operator; functions go before rules of ops."""
    from . import readers  # noqa: F401  # enters them

    load()
    return _joined(registry_revision())


@functools.lru_cache(maxsize=2)
def _joined(revision: int) -> Mapping[tuple[str, str], list[Reader]]:
    by_rule: dict[tuple[str, str], list[type[Op]]] = {}
    for cls in OPS.values():
        if cls.onnx is not None:
            by_rule.setdefault((cls.onnx.domain, cls.onnx.op_type), []).append(cls)
    return {**{key: [_by_rules(classes)] for key, classes in by_rule.items()}, **READERS}


def _by_rules(classes: list[type[Op]]) -> Reader:
    """Return the reader that takes the first op whose fixed attributes are those of the node."""
    rules = [rule for cls in classes if (rule := cls.onnx) is not None]

    def read(node: OnnxNode, *xs: Any) -> Any:
        for cls, rule in zip(classes, rules, strict=True):
            if rule.since <= node.version and _fixed_fit(rule, node):
                return from_rule(cls, rule, node, xs)
        raise ArchiveError(f"{node.op_type} with {dict(node.attributes)} is not known")

    values = rules[0].inputs
    first = len(classes[0].inputs)
    return Reader(read, min(r.since for r in rules), tuple(range(first, first + len(values))))


def _fixed_fit(rule: OnnxRule, node: OnnxNode) -> bool:
    return all(node.get(key, rule.defaults.get(key)) == value for key, value in rule.fixed.items())


def from_rule(cls: type[Op], rule: OnnxRule, node: OnnxNode, xs: tuple[Any, ...]) -> Any:
    """Return the op that a rule maps a node to, applied."""
    n_inputs = len(xs) if any(p.kind is p.VAR_POSITIONAL for p in cls.inputs) else len(cls.inputs)
    attrs = {}
    for key, value in zip(rule.inputs, xs[n_inputs:], strict=False):
        if value is not None:
            attrs[key] = _converted(cls, key, np.asarray(value))
    theirs = {rule.rename.get(key, key): key for key in cls.attrs if key not in rule.inputs}
    for name, value in {**rule.defaults, **node.attributes}.items():
        if name in rule.fixed:
            continue
        if name not in theirs:
            raise ArchiveError(f"{node.op_type} has no attribute {name!r}, or none that is known")
        attrs[theirs[name]] = _converted(cls, theirs[name], value)
    missing = [k for k, a in cls.attrs.items() if a.default is REQUIRED and k not in attrs]
    if missing:
        raise ArchiveError(f"{node.op_type} lacks its attribute {missing[0]!r}")
    return cls(**attrs)(*xs[:n_inputs])


def _converted(cls: type[Op], key: str, value: Any) -> Any:
    """Return an ONNX attribute as the op declares it."""
    declared = cls.attrs[key].type
    if isinstance(value, np.ndarray):
        value = value.item() if value.size == 1 and "int" in declared else tuple(value.tolist())
    if declared.startswith("bool"):
        return bool(value)
    if declared.startswith("np.dtype"):
        return from_element_type(value)
    if declared.startswith("tuple") and isinstance(value, int):
        return (value,)
    return value
