"""Ops as one looks them up: an entry each, in tables, found by any name or by words."""

from __future__ import annotations

import functools
import html
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import UnsupportedOpError
from ...op import OPS, Op
from ...op.calling import HIDDEN, public_name
from ...words.spelling import spellings
from ...words.tables import Table
from ..loading import load
from .description import callable_of, described, documentation


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
        return callable_of(self.op)

    @property
    def signature(self) -> str:
        """The public function with its parameters, ``gw.nn.relu(x)``."""
        parameters = inspect.signature(self.function).parameters.values()
        shown = [p.replace(annotation=p.empty) for p in parameters if p.name != "name"]
        return f"{self.call}{inspect.Signature(shown)}"

    @property
    def doc(self) -> str:
        """The documentation: of the function where that is written out, else of the op."""
        return documentation(self.op)

    @functools.cached_property
    def descriptor(self) -> dict[str, Any]:
        """Its description, a value of JSON; ``gw.ops.descriptors`` has all."""
        return described(self.op)

    @property
    def summary(self) -> str:
        """First sentence of the documentation."""
        return str(self.descriptor["summary"])

    @property
    def kind(self) -> str:
        """What it does: ``elementwise``, ``broadcasting``, ``reduction`` and so on."""
        return str(self.descriptor["kind"])

    @property
    def onnx(self) -> str:
        """ONNX operator that is this op, or ""."""
        return self.op.onnx.op_type if self.op.onnx else ""

    @property
    def samediff(self) -> tuple[str, ...]:
        """SameDiff's names for it, with their namespaces."""
        return tuple(self.descriptor["samediff"])

    @property
    def names(self) -> tuple[str, ...]:
        """All names it goes by: ours, ONNX's, SameDiff's, and those of other libraries."""
        theirs = (name.rpartition(".")[2] for name in self.samediff)
        own = [self.name, self.op.namespace + "." + self.name]
        found = [*own, self.onnx, *theirs, *spellings(self.name), *self.descriptor["onnx_parts"]]
        return tuple(filter(None, found))

    @functools.cached_property
    def text(self) -> str:
        """All that can be searched for, in small letters: as written, and as separate words."""
        names = [self.call, self.onnx, *self.samediff, *spellings(self.name)]
        text = " ".join([*names, self.doc]).lower()
        return text + " " + re.sub(r"[_\W]+", " ", text)

    def __repr__(self) -> str:
        also = [self.onnx and f"ONNX {self.onnx}", *(f"SameDiff {n}" for n in self.samediff)]
        names = ", ".join(filter(None, also))
        return f"{self.call}: {self.summary}" + (f" ({names})" if names else "")

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(self.call)}</code> {html.escape(self.summary)}"


class Entries(Sequence[Entry]):
    """Ops in an order, with notes; prints as a table, and can be searched.

    >>> import gradwright as gw
    >>> [entry.call for entry in gw.ops.table("loss").search("cross entropy sparse")]
    ['gw.loss.sparse_softmax_cross_entropy']
    """

    def __init__(self, entries: Sequence[Entry], notes: Sequence[str] = ()) -> None:
        self._entries, self.notes = tuple(entries), tuple(notes)

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
        columns = ["function", "what it computes", "ONNX", "SameDiff"]
        return Table(columns, rows, notes=self.notes)

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
