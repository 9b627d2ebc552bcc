"""Rules: operators of another world as ops of ours, without a function.

A rule says what the operator has (its attributes), what the op takes from them, and what must hold
of a node for that to be right. So it is data: it can be printed, written as JSON, and checked
against the op before there is a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import ArchiveError, GraphError
from ...graph import active_graph
from ...op import Op, find_op
from ...op.declare import REQUIRED, Attr
from ...spec import is_floating
from ...words.spelling import meant
from .attributes import shown
from .node import Foreign

Conditions = Mapping[str, Callable[..., Any]]
"""What must hold, as a sentence, and the function that tells whether it does."""


@dataclass(frozen=True)
class Value:
    """An attribute of ours that is an input of theirs, by its number; ``default`` if left out.

    >>> import gradwright as gw
    >>> gw.onnx.Value(1)
    Value(input=1, default=None)
    """

    input: int
    default: Any = None


@dataclass(frozen=True)
class Fixed:
    """An attribute of ours that is always the same.

    >>> import gradwright as gw
    >>> gw.onnx.Fixed("floor")
    Fixed(value='floor')
    """

    value: Any


@dataclass(frozen=True)
class Chosen:
    """What a value of an attribute of theirs stands for; others are refused, or are ``other``.

    >>> import gradwright as gw
    >>> gw.onnx.Chosen("mode", {"avg": "mean", "max": "max"}).of("avg")
    'mean'
    """

    name: str
    table: Mapping[Any, Any]
    other: Any = REQUIRED

    def of(self, value: Any) -> Any:
        """Return what a value stands for."""
        if value in self.table:
            return self.table[value]
        if self.other is REQUIRED:
            raise ArchiveError(
                f"the attribute {self.name!r} is {shown(value)}",
                need=" or ".join(map(repr, self.table)),
            )
        return self.other


@dataclass(frozen=True)
class Item:
    """One element of an attribute of theirs that is a list.

    >>> import gradwright as gw
    >>> gw.onnx.Item("pads", 0)
    Item(name='pads', at=0)
    """

    name: str
    at: int


Source = Any
"""Where an attribute of ours comes from: the name of one of theirs, one of these, or a tuple."""


@dataclass(frozen=True)
class Rule:
    """An operator as an op: ``takes`` says where the attributes of ours come from.

    ``op`` is the name of an op, or ``Chosen`` among several. ``inputs`` are those of the op in
    order: numbers of theirs, attributes of theirs that are inputs of ours, and None for one that is
    left out; by default all of theirs that are no values. ``leaves`` are attributes that mean
    nothing to the op.
    """

    op: str | Chosen
    attributes: Mapping[str, Attr] = field(default_factory=dict)
    takes: Mapping[str, Source] = field(default_factory=dict)
    inputs: Sequence[int | str | None] | None = None
    leaves: Sequence[str] = ()
    needs: Conditions = field(default_factory=dict)
    gives: Conditions = field(default_factory=dict)

    @property
    def ops(self) -> list[type[Op]]:
        """The ops that a node may become."""
        names = self.op.table.values() if isinstance(self.op, Chosen) else [self.op]
        return [find_op(name) for name in names]

    @property
    def values(self) -> tuple[int, ...]:
        """Inputs of theirs that are attributes of ours."""
        return tuple(sorted({s.input for s in _parts(self.takes.values()) if type(s) is Value}))

    def check(self) -> None:
        """Raise GraphError where the rule does not fit its op."""
        used = {n for s in _parts([self.op, *self.takes.values()]) if (n := _named(s))}
        used |= {name for name in self.inputs or () if isinstance(name, str)} | {*self.leaves}
        if isinstance(self.op, str):
            used -= {self.op}
        for cls in self.ops:
            if unknown := sorted(used - self.attributes.keys()):
                raise self._misfit(f"it takes {unknown[0]!r}, which it does not describe")
            for name in self.takes:
                if name not in cls.attrs:
                    close = meant(name, cls.attrs)
                    hint = f"did you mean {close!r}?" if close else ""
                    raise self._misfit(
                        f"{cls.name} has no attribute {name!r}", hint, ", ".join(cls.attrs)
                    )
            mapped = self._sources(cls)
            for name, attr in self.attributes.items():
                if name not in used and name not in mapped and len(attr.choices) != 1:
                    raise self._misfit(
                        f"nothing is taken from {name!r}", f"takes=..., or leaves=[{name!r}]"
                    )
            for name, own in cls.attrs.items():
                if own.default is REQUIRED and name not in mapped:
                    raise self._misfit(f"{cls.name} needs {name!r}", f"takes={{{name!r}: ...}}")

    def _misfit(self, problem: str, hint: str = "", need: str = "") -> GraphError:
        return GraphError(problem, where=f"the rule for {_words(self.op)}", need=need, hint=hint)

    def _sources(self, cls: type[Op]) -> dict[str, Source]:
        """Return where each attribute of an op comes from; those of one name need not be told."""
        same = {k: k for k in cls.attrs if k in self.attributes and k not in self.leaves}
        return {**same, **self.takes}

    # -- reading ---------------------------------------------------------------------------------

    def __call__(self, node: Foreign, *xs: Any) -> Any:
        """Return the op of a node whose attributes are settled, applied."""
        self._hold(self.needs, node, xs, "its rule needs")
        name = self.op if isinstance(self.op, str) else self.op.of(node.get(self.op.name))
        cls = find_op(name)
        attrs = {}
        for key, source in self._sources(cls).items():
            value = _found(source, node, xs)
            if value is not None:
                attrs[key] = converted(cls, key, value, node)
        ys = cls(**attrs)(*self._inputs(node, xs))
        self._hold(self.gives, node, ys if isinstance(ys, tuple) else (ys,), "its rule gives")
        return ys

    def _hold(self, conditions: Conditions, node: Foreign, values: Any, what: str) -> None:
        for sentence, holds in conditions.items():
            if not holds(node, *values):
                facts = [f"{name}: {shown(value)}" for name, value in node.attributes.items()]
                facts += [f"{i}: {getattr(v, 'spec', v)}" for i, v in enumerate(values)]
                raise ArchiveError(
                    f"not what {what}", facts=facts, need=sentence, hint="gw.onnx.reads"
                )

    def _inputs(self, node: Foreign, xs: Sequence[Any]) -> list[Any]:
        """Return the inputs of the op, without those at the end that are left out."""
        order = self.inputs
        if order is None:
            values = self.values
            order = [i for i in range(len(xs)) if i not in values]
        found: list[Any] = []
        for source in order:
            if isinstance(source, str):
                value = node.get(source)
                found.append(None if value is None else _constant(value, xs))
            else:
                found.append(None if source is None or source >= len(xs) else xs[source])
        while found and found[-1] is None:
            found.pop()
        return found

    # -- as data ---------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Return the rule as JSON has it; of conditions, the sentences."""
        said = {
            "op": _words(self.op),
            "takes": {key: _words(source) for key, source in self.takes.items()},
            "inputs": None if self.inputs is None else list(self.inputs),
            "leaves": list(self.leaves),
            "needs": list(self.needs),
            "gives": list(self.gives),
        }
        return {key: value for key, value in said.items() if value}


def converted(cls: type[Op], key: str, value: Any, node: Foreign) -> Any:
    """Return a value of another world as an op declares its attribute."""
    declared = cls.attrs[key].type
    if isinstance(value, np.ndarray):
        single = not value.ndim or (value.size == 1 and not declared.startswith("tuple"))
        value = value.item() if single else tuple(value.tolist())
    if declared.startswith("bool"):
        return bool(value)
    if declared.startswith("np.dtype"):
        return value if isinstance(value, np.dtype) else node.dtype_of(value)
    if declared.startswith("tuple") and isinstance(value, int):
        return (value,)
    return value


def _parts(sources: Any) -> list[Any]:
    """Return sources with the parts of tuples in their place."""
    found: list[Any] = []
    for source in sources:
        found += _parts(source) if isinstance(source, tuple) else [source]
    return found


def _named(source: Source) -> str:
    """Return the attribute of theirs that a source is of."""
    return source if isinstance(source, str) else getattr(source, "name", "")


def _found(source: Source, node: Foreign, xs: Sequence[Any]) -> Any:
    """Return what a source is of a node; None where it is left out."""
    match source:
        case str():
            return node.get(source)
        case tuple():
            parts = tuple(_found(part, node, xs) for part in source)
            return None if None in parts else parts
        case Value(i, default):
            return xs[i] if i < len(xs) and xs[i] is not None else default
        case Fixed(value):
            return value
        case Chosen(name):
            value = node.get(name)
            return None if value is None and None not in source.table else source.of(value)
        case Item(name, at):
            values = node.get(name)
            if values is None:
                return None
            if not -len(values) <= at < len(values):
                raise ArchiveError(
                    f"the attribute {name!r} has {len(values)} elements", need=f"element {at}"
                )
            return values[at]
    raise TypeError(f"{source!r} is no source of an attribute")


def _constant(value: Any, xs: Sequence[Any]) -> Any:
    """Return an attribute of theirs as an input of ours; numbers take the dtype of the first."""
    array = np.asarray(value)
    like = next((x for x in xs if x is not None), None)
    if not isinstance(value, np.ndarray) and like is not None and is_floating(array.dtype):
        array = array.astype(like.dtype if is_floating(like.dtype) else np.float32)
    graph = active_graph() if like is None else like.graph
    return array if graph is None else graph.constant(array)


def _words(source: Source) -> str:
    """Return a source in words."""
    match source:
        case Value(i, default):
            return f"input {i}" if default is None else f"input {i} or {default!r}"
        case Fixed(value):
            return repr(value)
        case Chosen(name, table):
            pairs = [f"{theirs!r}: {ours!r}" for theirs, ours in table.items()]
            if source.other is not REQUIRED:
                pairs.append(f"others: {source.other!r}")
            return f"{name} of {{{', '.join(pairs)}}}"
        case Item(name, at):
            return f"{name}[{at}]"
        case tuple():
            return f"({', '.join(map(_words, source))})"
    return str(source)
