"""What there is to know of every op: found by any of its names, listed, and written as JSON."""

from __future__ import annotations

import functools
import html
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UnsupportedOpError
from ..files.whole import write_text
from ..op import OPS, REQUIRED, Attr, Op
from ..op.calling import HIDDEN, called, function, public_name, public_outputs
from ..spec import dtype_name
from ..words.spelling import spellings
from ..words.tables import Table
from .loading import load
from .samediff import SAMEDIFF


@dataclass(frozen=True)
class Entry:
    """One op as its declaration tells it.

    >>> import gradwright as gw
    >>> entry = gw.ops.find("maxPooling2d")
    >>> entry.call, entry.onnx, entry.samediff
    ('gw.cnn.max_pool2d', 'MaxPool', ('cnn.maxPooling2d',))
    """

    op: type[Op]

    @property
    def name(self) -> str:
        """Registered name."""
        return self.op.name

    @property
    def call(self) -> str:
        """The public function, ``gw.nn.relu``."""
        return public_name(self.op)

    @property
    def function(self) -> Callable[..., Any]:
        """What ``call`` names; a user's op is called as itself."""
        if "/" in self.name:
            return function(self.op)
        found: Any = sys.modules[__name__.partition(".")[0]]
        for part in self.call.split(".")[1:]:
            found = getattr(found, part)
        return found  # type: ignore[no-any-return]

    @property
    def signature(self) -> str:
        """The public function with its parameters, ``gw.nn.relu(x)``."""
        parameters = inspect.signature(self.function).parameters.values()
        shown = [p.replace(annotation=p.empty) for p in parameters if p.name != "name"]
        return f"{self.call}{inspect.Signature(shown)}"

    @property
    def doc(self) -> str:
        """The documentation: of the function where that is written out, else of the op."""
        derived = hasattr(self.function, "op")
        return inspect.cleandoc((self.op if derived else self.function).__doc__ or "")

    @property
    def summary(self) -> str:
        """First sentence of the documentation."""
        return self.doc.partition("\n\n")[0].replace("\n", " ")

    @property
    def onnx(self) -> str:
        """ONNX operator that is this op, or ""."""
        return self.op.onnx.op_type if self.op.onnx else ""

    @property
    def samediff(self) -> tuple[str, ...]:
        """SameDiff's names for it, with their namespaces."""
        return _theirs().get(self.name, ())

    @functools.cached_property
    def text(self) -> str:
        """All that can be searched for, in small letters: as written, and as separate words."""
        names = [self.call, self.onnx, *self.samediff, *spellings(self.name)]
        text = " ".join([*names, self.doc]).lower()
        return text + " " + re.sub(r"[_\W]+", " ", text)

    def schema(self) -> dict[str, Any]:
        """Return the descriptor as plain JSON values."""
        rule = self.op.onnx
        return {
            "name": self.name,
            "namespace": self.op.namespace,
            "version": self.op.version,
            "kind": "composite" if self.op.is_composite() else "primitive",
            "summary": self.summary,
            "doc": self.doc,
            "inputs": [_input(p) for p in self.op.inputs],
            "outputs": public_outputs(self.op),
            "attributes": [_attribute(k, a) for k, a in self.op.attrs.items()],
            "onnx": rule
            and {
                "op_type": rule.op_type,
                "domain": rule.domain,
                "since": rule.since,
                "attributes": dict(rule.rename),
                "inputs": list(rule.inputs),
                "fixed": dict(rule.fixed),
                "defaults": dict(rule.defaults),
            },
            "samediff": list(self.samediff),
        }

    def __repr__(self) -> str:
        also = [self.onnx and f"ONNX {self.onnx}", *(f"SameDiff {n}" for n in self.samediff)]
        names = ", ".join(filter(None, also))
        return f"{self.call}: {self.summary}" + (f" ({names})" if names else "")

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(self.call)}</code> {html.escape(self.summary)}"


class Entries(Sequence[Entry]):
    """Ops in order of namespace and name; prints as a table, and can be searched.

    >>> import gradwright as gw
    >>> [entry.call for entry in gw.ops.table("loss").search("cross entropy sparse")]
    ['gw.loss.sparse_softmax_cross_entropy']
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = tuple(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, item: Any) -> Any:
        found = self._entries[item]
        return Entries(found) if isinstance(item, slice) else found

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def search(self, text: str) -> Entries:
        """Return the ops in whose names, in any spelling, or documentation all words occur."""
        words = re.sub(r"[_\W]+", " ", text).lower().split()
        return Entries([e for e in self if all(w in e.text for w in words)])

    def _table(self) -> Table:
        rows = [
            [e.call, e.summary, e.onnx, ", ".join(n.partition(".")[2] for n in e.samediff)]
            for e in self
        ]
        return Table(["function", "what it computes", "ONNX", "SameDiff"], rows)

    def __repr__(self) -> str:
        return str(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


def table(namespace: str = "") -> Entries:
    """Return all public ops, or those of a namespace.

    >>> import gradwright as gw
    >>> [entry.call for entry in gw.ops.table("signal")][:2]
    ['gw.signal.blackman_window', 'gw.signal.dft']
    """
    load(*([namespace] if namespace else []))
    public = [c for c in list(OPS.values()) if c.namespace not in HIDDEN and "/" not in c.name]
    chosen = [c for c in public if namespace in ("", c.namespace)]
    if not chosen:
        spaces = ", ".join(sorted({c.namespace for c in public}))
        raise UnsupportedOpError(f"there is no namespace {namespace!r}", need=f"one of {spaces}")
    return Entries([Entry(c) for c in sorted(chosen, key=lambda c: (c.namespace, c.name))])


def find(name: str) -> Entry:
    """Return an op by any name it goes by: ours, SameDiff's, or ONNX's.

    A namespace may stand before it: ``gw.nn.gelu`` is ours, ``nn.gelu`` and ``math.max`` are
    SameDiff's, if it has that name. Raises UnsupportedOpError for a name that is none.

    >>> import gradwright as gw
    >>> gw.ops.find("maxPooling2d").call, gw.ops.find("math.max").call, gw.ops.find("MatMul").call
    ('gw.cnn.max_pool2d', 'gw.maximum', 'gw.matmul')
    """
    load()
    if name in OPS:
        return Entry(OPS[name])
    space, _, short = name.removeprefix("gw.").rpartition(".")
    ours = [short] if short in OPS and space in ("", OPS[short].namespace) else []
    theirs = [t[short] for s, t in SAMEDIFF.items() if short in t and space in ("", s)]
    operators = [c.name for c in list(OPS.values()) if c.onnx and c.onnx.op_type == name]
    # Several ops may be one operator there: its namesake, the one for images, the one that writes.
    theirs += [n for n in operators if n == name.lower() or n.endswith(("2d", "_update"))]
    theirs += operators
    for found in theirs + ours if space and not name.startswith("gw.") else ours + theirs:
        if found in OPS:
            return Entry(OPS[found])
    close = called(short)
    hint = f"did you mean {close}?" if close else "gw.ops.table().search('...') looks in the texts"
    raise UnsupportedOpError(f"no op goes by the name {name!r}", hint=hint)


def schema(path: str | Path | None = None) -> dict[str, Any]:
    """Return every public op's descriptor as language-neutral JSON values; write them to a file.

    Per op: name, namespace, version, kind, documentation, inputs, number of public outputs (null
    where it varies), attributes with types, defaults and choices, ONNX operator, SameDiff's names.

    >>> import gradwright as gw
    >>> relu = next(op for op in gw.ops.schema()["ops"] if op["name"] == "leaky_relu")
    >>> relu["attributes"][0]["name"], relu["attributes"][0]["types"], relu["onnx"]["op_type"]
    ('negative_slope', ['float'], 'LeakyRelu')
    """
    found = {"format": "gradwright-ops", "version": 1, "ops": [e.schema() for e in table()]}
    if path is not None:
        write_text(path, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return found


@functools.cache
def _theirs() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for space, names in SAMEDIFF.items():
        for theirs, ours in names.items():
            found.setdefault(ours, []).append(f"{space}.{theirs}")
    return {k: tuple(v) for k, v in found.items()}


_NEUTRAL = {
    "int": ["int"],
    "float": ["float"],
    "bool": ["bool"],
    "str": ["string"],
    "None": ["null"],
    "AnyDim": ["int", "dim"],
    "Axis": ["int", "list", "null"],
    "np.dtype": ["dtype"],
    "tuple": ["list"],
    "Item": ["list"],
    "Op": ["op"],
    "SubGraph": ["graph"],
}
"""How a type is called where no Python is known; ``dim`` is a name or arithmetic on names."""


def _types(declared: str) -> list[str]:
    while "[" in declared:
        declared = re.sub(r"\[[^\[\]]*\]", "", declared)
    found = [_NEUTRAL.get(option.strip(), ["any"]) for option in declared.split("|")]
    return list(dict.fromkeys(kind for kinds in found for kind in kinds))


def _attribute(name: str, declared: Attr) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": name,
        "types": _types(declared.type),
        "required": declared.default is REQUIRED,
        "doc": declared.doc,
    }
    if declared.default is not REQUIRED:
        found["default"] = _plain(declared.default)
    if declared.choices:
        found["choices"] = [_plain(c) for c in declared.choices]
    return found


def _input(parameter: inspect.Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "optional": parameter.default is None,
        "variadic": parameter.kind is parameter.VAR_POSITIONAL,
    }


def _plain(value: Any) -> Any:
    """Return an attribute as JSON has it; what JSON lacks is written as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if np.isfinite(value) else str(value)
        case tuple():
            return [_plain(v) for v in value]
        case np.dtype():
            return dtype_name(value)
    return str(value)
