"""The facts of all ops, of rewrites and of kernels, wherever in the package they stand."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import gradwright as gw

Specs = Sequence[gw.TensorSpec | None]
SAMPLES = 3
"""How many of an op's samples are asked about what depends on specs."""


class Inner(NamedTuple):
    """What no public name tells. When such a place moves, `inner` is all that changes here."""

    ops: Mapping[str, type[gw.Op]]
    rewrites: Mapping[str, Any]
    hidden: Sequence[str]
    known_specs: Callable[[gw.Op, Sequence[Any]], Specs]
    drawing: Callable[[type[gw.Op]], str]
    autocast: Callable[[gw.Op, Specs], str]
    element: Callable[[type[gw.Op]], str]
    is_fused: Callable[[type[gw.Op]], bool]
    lowered: Callable[[str], Sequence[str]]


def inner() -> Inner:
    """Say where each fact stands in the package as it is."""
    from gradwright.debug.float64 import known_specs
    from gradwright.fuse.rules import RULES as FUSED
    from gradwright.op import OPS
    from gradwright.op.calling import HIDDEN
    from gradwright.program.device import open_device
    from gradwright.program.lowering import is_lowered
    from gradwright.rewrite.table import RULES as REWRITES
    from gradwright.train.precision.rules import rule_of
    from gradwright_widgets.panels.graph import spec as drawn

    open_device("cpu")
    return Inner(
        ops=OPS,
        rewrites=REWRITES,
        hidden=HIDDEN,
        known_specs=known_specs,
        drawing=lambda op: drawn.category(SimpleNamespace(kind="array", op=op)),
        autocast=lambda op, specs: rule_of(op, specs).what,
        element=lambda op: op.element,
        is_fused=lambda op: bool(op.element) or op.name in FUSED,
        lowered=lambda device: [name for name in OPS if is_lowered(name, device)],
    )


def ops() -> dict[str, Any]:
    """Return what is declared of each op, and what follows from it on the op's own samples."""
    everything()
    known = inner()
    on_cpu = frozenset(known.lowered("cpu"))
    found = {}
    for name, op in sorted(known.ops.items()):
        facts = {k: plain(getattr(op, k)) for k in DECLARED}
        facts |= {
            "inputs": [str(p.replace(annotation=p.empty)) for p in op.inputs],
            "attributes": {k: f"{a.type} = {plain(a.default)}" for k, a in op.attrs.items()},
            "is_composite": op.is_composite(),
            "has_vjp": op.has_vjp(),
            "drawing": known.drawing(op),
            "element": known.element(op),
            "is_fused": known.is_fused(op),
            "is_lowered": name in on_cpu,
        }
        cases = list(_cases(op, known))
        facts["autocast"] = [known.autocast(made, specs) for made, specs in cases]
        facts["weight_sites"] = [str(made.weight_sites()) for made, _ in cases]
        if op.namespace not in known.hidden and "/" not in name:
            entry = gw.ops.find(name)
            facts |= {"signature": entry.signature, "samediff": list(entry.samediff)}
        found[name] = facts
    return found


def rewrites() -> dict[str, Any]:
    """Return the rules of rewriting in their order, with what each of them promises."""
    everything()
    rules = inner().rewrites
    promises = ("exact", "alone", "lowers")
    return {
        name: [at, *(str(getattr(rule, p)) for p in promises if hasattr(rule, p))]
        for at, (name, rule) in enumerate(rules.items())
    }


DECLARED = (
    *("namespace", "version", "n_public", "many", "shape_only", "places", "needs_values"),
    *("value_rule", "views", "ufunc", "is_method", "follows_mode", "by_reference", "array_api"),
    "onnx",
)


def everything() -> None:
    """Import all of the package: a family of ops is defined when something first names it."""
    for module in pkgutil.walk_packages(gw.__path__, "gradwright."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def plain(value: Any) -> Any:
    """Return a value as JSON has it; what JSON lacks is its text."""
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    if isinstance(value, property):
        return "by attributes"
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _cases(op: type[gw.Op], known: Inner) -> Iterator[tuple[gw.Op, Specs]]:
    try:
        samples = list(op.samples(np.random.default_rng(0)))
    except NotImplementedError:
        samples = []
    for sample in samples[:SAMPLES]:
        made = op(**sample.attrs).for_mode(False)
        xs = tuple(None if x is None else np.asarray(x) for x in sample.inputs)
        yield made, known.known_specs(made, xs)
