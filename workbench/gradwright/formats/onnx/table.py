"""Readers that ops declare: each ``OnnxRule`` as the reader of its operator."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import ArchiveError
from ...op import OPS, Op, infer_specs, registry_revision
from ...op.declare import REQUIRED, OnnxRule
from ...ops.loading import load
from ...spec import Dim, TensorSpec
from ..foreign import Reader, Readers
from ..foreign.rules import converted
from .node import ONNX, OnnxNode


def _declared() -> Readers:
    """Return the readers that rules of ops make."""
    return _by_revision(registry_revision())


@functools.lru_cache(maxsize=2)
def _by_revision(revision: int) -> Readers:
    by_rule: dict[tuple[str, str], list[type[Op]]] = {}
    for cls in list(OPS.values()):
        if cls.onnx is not None:
            by_rule.setdefault((cls.onnx.domain, cls.onnx.op_type), []).append(cls)
    return {key: [_by_rules(classes)] for key, classes in by_rule.items()}


ONNX.openers.append(load)
ONNX.declared.append(_declared)


def _by_rules(classes: list[type[Op]]) -> Reader:
    """Return the reader that takes the first op whose fixed attributes are those of the node."""
    rules = [rule for cls in classes if (rule := cls.onnx) is not None]

    def read(node: OnnxNode, *xs: Any) -> Any:
        for cls, rule in zip(classes, rules, strict=True):
            if rule.since <= node.version and _fixed_fit(rule, node):
                return from_rule(cls, rule, node, xs)
        raise ArchiveError(f"{node.op_type} with {dict(node.attributes)} is not known")

    first, n_values = len(classes[0].inputs), len(rules[0].inputs)
    values = tuple(range(first, first + n_values))
    outputs = None if first else functools.partial(_made_of_sizes, classes[0], rules[0])
    how = "op " + " or ".join(cls.name for cls in classes)
    return Reader(read, min(r.since for r in rules), values, outputs, how=how)


def _made_of_sizes(
    cls: type[Op], rule: OnnxRule, node: OnnxNode, *xs: Any
) -> tuple[TensorSpec, ...]:
    """Return the outputs of an op whose only inputs are sizes that are not known yet."""
    sizes = {key: Dim.fresh(key) for key in rule.inputs}
    attrs = _attributes(cls, rule, node, sizes)
    return infer_specs(cls(**attrs), ())


def _fixed_fit(rule: OnnxRule, node: OnnxNode) -> bool:
    return all(node.get(key, rule.defaults.get(key)) == value for key, value in rule.fixed.items())


def from_rule(cls: type[Op], rule: OnnxRule, node: OnnxNode, xs: tuple[Any, ...]) -> Any:
    """Return the op that a rule maps a node to, applied."""
    n_inputs = len(xs) if any(p.kind is p.VAR_POSITIONAL for p in cls.inputs) else len(cls.inputs)
    given = {
        key: converted(cls, key, np.asarray(value), node)
        for key, value in zip(rule.inputs, xs[n_inputs:], strict=False)
        if value is not None
    }
    return cls(**_attributes(cls, rule, node, given))(*xs[:n_inputs])


def _attributes(
    cls: type[Op], rule: OnnxRule, node: OnnxNode, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the attributes of the op that a node becomes; those that are inputs are ``given``."""
    attrs = dict(given)
    ours = {rule.rename.get(key, key): key for key in cls.attrs if key not in rule.inputs}
    for name, value in {**rule.defaults, **node.attributes}.items():
        if name in rule.fixed:
            continue
        if name in rule.inputs:  # left out
            attrs.setdefault(name, value)
            continue
        if name not in ours:
            raise ArchiveError(f"{node.op_type} has no attribute {name!r}, or none that is known")
        attrs[ours[name]] = converted(cls, ours[name], value, node)
    missing = [k for k, a in cls.attrs.items() if a.default is REQUIRED and k not in attrs]
    if missing:
        raise ArchiveError(f"{node.op_type} lacks its attribute {missing[0]!r}")
    return attrs
