"""The description: every op in JSON values, of which stubs and pages are made.

It is read off the classes, so nothing is stated twice: ops in order of their names, one to a line.
``ops/descriptors.json`` is it, written with the stubs and carried by wheels, and
``ops/descriptors.schema.json`` its JSON schema.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...files.whole import write_text
from ...op import OPS, REQUIRED, Attr, Op
from ...op.calling import HIDDEN, function, public_name, public_returns
from ...spec import dtype_name
from ..loading import FOLDER, load
from ..namespaces import NAMESPACES, members
from .kinds import kind_of, types_of
from .onnx import PARTS
from .samediff import SAMEDIFF

FORMAT, VERSION = "gradwright-ops", 2
"""Version 1 had types without items, and a number in place of the outputs."""
FILE, SCHEMA = FOLDER / "descriptors.json", FOLDER / "descriptors.schema.json"


def descriptors(path: str | Path | None = None, *, texts: bool = True) -> dict[str, Any]:
    """Return the description of all ops as JSON values without Python; write it to a file.

    Of an op: name, namespace, version, kind, first sentence of its documentation; inputs and
    outputs, which of them are optional or variadic; attributes with types, defaults, bounds and
    choices; its ONNX operator, and those of which it is a part; SameDiff's names. Ops that only
    gradients and the engine make are there, too: archives name them; they are not ``public``. The
    functions of Python come after the ops, with their parameters and documentation. ``texts=False``
    leaves out functions and all documentation: what ``gw.ops.check`` compares.

    ``gradwright/ops/descriptors.json`` of an installed package is this, and
    ``descriptors.schema.json`` its JSON schema.

    >>> import gradwright as gw
    >>> ops = {op["name"]: op for op in gw.ops.descriptors()["ops"]}
    >>> ops["leaky_relu"]["kind"], ops["leaky_relu"]["onnx"]["op_type"]
    ('elementwise', 'LeakyRelu')
    >>> [(a["name"], a["types"], a["default"]) for a in ops["leaky_relu"]["attributes"]]
    [('negative_slope', ['float'], 0.01)]
    >>> [output["name"] for output in ops["top_k"]["outputs"]]
    ['values', 'indices']
    """
    load()
    found: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    found["ops"] = [described(cls) for cls in _own()]
    if texts:
        found["functions"] = list(_functions())
    else:
        for op in found["ops"]:
            del op["summary"]
            for attribute in op["attributes"]:
                del attribute["doc"]
    if path is not None:
        write_text(path, written(found))
    return found


def schema(path: str | Path | None = None) -> dict[str, Any]:
    """Return the description under its old name; it goes with the next release.

    >>> import gradwright as gw, pytest
    >>> with pytest.warns(DeprecationWarning, match="gw.ops.descriptors"):
    ...     gw.ops.schema()["version"]
    2
    """
    warnings.warn(
        "gw.ops.schema() is called gw.ops.descriptors()", DeprecationWarning, stacklevel=2
    )
    return descriptors(path)


def written(description: Mapping[str, Any]) -> str:
    """Return a description as text: an op, or a function, to a line."""
    parts = []
    for key, value in description.items():
        if isinstance(value, list):
            lines = ",\n".join(json.dumps(item, ensure_ascii=False) for item in value)
            parts.append(f'"{key}": [\n{lines}\n]')
        else:
            parts.append(f'"{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


# -- ops ---------------------------------------------------------------------------------------


def _own() -> list[type[Op]]:
    """Return our ops by name: none of a user or an example, and no operator of another world."""
    homes = ("gradwright.ops.", "gradwright.graph.")
    own = [
        cls
        for cls in list(OPS.values())
        if cls.__module__.startswith(homes)
        and getattr(sys.modules.get(cls.__module__), cls.__name__, None) is cls
    ]
    return sorted(own, key=lambda cls: cls.name)


def described(cls: type[Op]) -> dict[str, Any]:
    """Return what an op declares as JSON values."""
    rule = cls.onnx
    return {
        "name": cls.name,
        "namespace": cls.namespace,
        "public": is_public(cls),
        "version": cls.version,
        "kind": kind_of(cls),
        "composite": cls.is_composite(),
        "summary": documentation(cls).partition("\n\n")[0].replace("\n", " "),
        "inputs": [
            {
                "name": p.name,
                "optional": p.default is None,
                "variadic": p.kind is p.VAR_POSITIONAL,
            }
            for p in cls.inputs
        ],
        "outputs": [
            {
                "name": name.removeprefix("*"),
                "optional": False,
                "variadic": name.startswith("*"),
            }
            for name in public_returns(cls)
        ],
        "attributes": [_attribute(name, declared) for name, declared in cls.attrs.items()],
        "onnx": rule
        and {
            "op_type": rule.op_type,
            "domain": rule.domain,
            "since": rule.since,
            "attributes": dict(rule.rename),
            "inputs": list(rule.inputs),
            "fixed": {k: plain(v) for k, v in rule.fixed.items()},
            "defaults": {k: plain(v) for k, v in rule.defaults.items()},
        },
        "onnx_parts": list(_parts().get(cls.name, ())),
        "samediff": list(_samediff().get(cls.name, ())),
    }


def is_public(cls: type[Op]) -> bool:
    """Tell whether there is a function for an op."""
    return cls.namespace not in HIDDEN


def callable_of(cls: type[Op]) -> Callable[..., Any]:
    """Return the function that is an op's for users: more than the op itself, where it is."""
    if "/" in cls.name or not is_public(cls):
        return function(cls)
    found: Any = sys.modules[__name__.partition(".")[0]]
    for part in public_name(cls).split(".")[1:]:
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def documentation(cls: type[Op]) -> str:
    """Return the text of an op: of its function where that is written out, else of its class."""
    own = callable_of(cls)
    return inspect.cleandoc((cls if hasattr(own, "op") else own).__doc__ or "")


def _attribute(name: str, declared: Attr) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": name,
        "types": types_of(declared.type),
        "required": declared.default is REQUIRED,
        "doc": declared.doc,
    }
    if declared.default is not REQUIRED:
        found["default"] = plain(declared.default)
    for bound in ("least", "most"):
        if getattr(declared, bound) is not None:
            found[bound] = getattr(declared, bound)
    if declared.choices:
        found["choices"] = [plain(c) for c in declared.choices]
    return found


def plain(value: Any) -> Any:
    """Return an attribute as JSON has it; numbers that JSON lacks are texts, as Python has them.

    >>> plain((1, float("-inf"), np.dtype("float32")))
    [1, '-inf', 'float32']
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if np.isfinite(value) else str(value)
        case tuple():
            return [plain(v) for v in value]
        case np.dtype():
            return dtype_name(value)
    return str(value)


@functools.cache
def _samediff() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for space, names in SAMEDIFF.items():
        for theirs, ours in names.items():
            found.setdefault(ours, []).append(f"{space}.{theirs}")
    return found


@functools.cache
def _parts() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for theirs, ours in PARTS.items():
        for name in ours:
            found.setdefault(name, []).append(theirs)
    return found


# -- functions ---------------------------------------------------------------------------------


def _functions() -> Iterator[dict[str, Any]]:
    """Yield the functions of all namespaces as Python has them, those of ops and the others."""
    for space in ("base", *NAMESPACES):
        for name, call in sorted(members(space).items()):
            cls = getattr(call, "op", None) or OPS.get(name)
            if cls is not None and "/" in cls.name:  # a user's
                continue
            own = cls is not None and cls.namespace == space
            signature = inspect.signature(call)
            yield {
                "namespace": space,
                "name": name,
                "op": name if own else None,
                "method": own and bool(cls and cls.is_method),
                "parameters": [_parameter(p) for p in signature.parameters.values()],
                "returns": str(signature.return_annotation),
                "doc": inspect.cleandoc(call.__doc__ or ""),
            }


def _parameter(p: inspect.Parameter) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": p.name,
        "type": str(p.annotation),
        "keyword": p.kind is p.KEYWORD_ONLY,
        "variadic": p.kind is p.VAR_POSITIONAL,
    }
    if p.default is not p.empty:
        value = p.default
        shown = f'"{value.name}"' if isinstance(value, np.dtype) else repr(value)
        found["default"] = shown.replace("'", '"')
    return found
