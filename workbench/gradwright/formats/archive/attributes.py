"""Ops and their attributes as JSON, and back: the closed set, told apart by type and bits.

=============================  ===========================================
attribute                      JSON
=============================  ===========================================
None, bool, int, str           as they are
float                          a number with a point or exponent
inf, -inf, nan, -nan           ``{"float": "inf"}``
tuple                          a list
dtype                          ``{"dtype": "bfloat16"}``
Dim                            ``{"dim": "2*B + 1"}``
member of an enum              ``{"enum": ["Reduction", "MEAN"]}``
op                             ``{"op": "softmax", "attrs": {"axis": -1}}``
sub-graph                      ``{"graph": 0}``, a number in ``graphs``
=============================  ===========================================

An op is written as its registered name, its version where that is not 1, and all attributes. An
enum is found again among the attribute's default and choices; nothing is imported.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...errors import ArchiveError, GraphError, UnsupportedOpError
from ...graph import Source, SubGraph
from ...op import OPS, Attr, Op, find_op
from ...spec import Dim, dtype, dtype_name
from ..checked import expect, expect_fields
from .unknown import UnknownMember, UnknownOp

NO_ATTR = Attr()


# -- writing -------------------------------------------------------------------------------------


def encode_op(op: Op, graph_number: Callable[[SubGraph], int]) -> dict[str, Any]:
    """Return an op as JSON; ``graph_number`` stores a sub-graph and says which one it is."""
    if op.name not in OPS and not isinstance(op, UnknownOp):
        name = type(op).__name__
        raise GraphError(
            f"{name} is not registered, so that a saved graph could not find it again",
            hint=f'gw.register("me/{op.name.rpartition("/")[2]}")({name})',
        )
    row: dict[str, Any] = {"op": op.name}
    if op.version != 1:
        row["version"] = op.version
    declared = type(op).attrs
    attrs = {
        name: _encode(value, declared.get(name, NO_ATTR), graph_number)
        for name, value in op.attributes().items()
    }
    if attrs:
        row["attrs"] = attrs
    return row


def _encode(value: Any, declared: Attr, graph_number: Callable[[SubGraph], int]) -> Any:
    match value:
        case enum.Enum():
            kind = type(value)
            known = [e for e in _enums(declared) if e.__name__ == kind.__name__]
            if known != [kind] or kind.__members__.get(value.name) is not value:
                raise GraphError(
                    f"{kind.__name__}.{value.name} could not be found again",
                    need="an enum that is the attribute's default or among its choices",
                    hint=f"attr(..., choices=tuple({kind.__name__}))",
                )
            return {"enum": [kind.__name__, value.name]}
        case float() if not math.isfinite(value):
            sign = "-" if math.copysign(1.0, value) < 0 else ""
            return {"float": f"{sign}{abs(value)}"}
        case None | bool() | int() | float() | str():
            return value
        case tuple():
            return [_encode(v, declared, graph_number) for v in value]
        case np.dtype():
            return {"dtype": dtype_name(dtype(value))}
        case Dim():
            text = str(value)
            if Dim.parse(text) != value:
                raise GraphError(f"the dimension {text} could not be read again")
            return {"dim": text}
        case UnknownMember():
            return {"enum": [value.enum, value.member]}
        case Op():
            return encode_op(value, graph_number)
        case SubGraph():
            return {"graph": graph_number(value)}
    raise GraphError(f"{type(value).__name__} cannot be stored in an archive")


def _enums(declared: Attr) -> set[type[enum.Enum]]:
    def walk(value: Any) -> Iterator[type[enum.Enum]]:
        if isinstance(value, enum.Enum):
            yield type(value)
        elif isinstance(value, tuple):
            for v in value:
                yield from walk(v)

    return set(walk((declared.default, declared.choices)))


# -- reading -------------------------------------------------------------------------------------


class OpReader:
    """Makes ops from JSON; ``graphs`` are the sub-graphs read so far."""

    def __init__(self) -> None:
        self.graphs: list[SubGraph] = []
        self.missing: dict[str, str] = {}
        """Unknown op -> why; shared by all UnknownOps of the archive."""
        self._found: dict[tuple[str, int], type[Op] | str] = {}

    def read(self, row: dict[str, Any], where: str, n_public: int | None = None) -> Op:
        """Return the op of ``row``, which has ``op`` and perhaps ``version`` and ``attrs``."""
        name, version, raw = op_fields(row, where)
        cls = self.find(name, version)
        declared = {} if isinstance(cls, str) else cls.attrs
        try:
            attrs = {k: self._decode(v, declared.get(k), where) for k, v in raw.items()}
        except RecursionError:
            raise ArchiveError("attributes are nested too deeply", where=where) from None
        if isinstance(cls, str):
            return UnknownOp(
                name=name, version=version, attributes=attrs, reason=cls,
                n_public=n_public, peers=self.missing,
            )  # fmt: skip
        try:
            return cls(**(attrs if version == cls.version else cls.upgrade(attrs, version)))
        except Exception as error:  # an op's checks, and a user's upgrade, may raise anything
            raise ArchiveError(f"{name} refuses its attributes: {error}", where=where) from error

    def find(self, name: str, version: int) -> type[Op] | str:
        """Return the class for a name and version, or why there is none; found once per archive."""
        key = name, version
        if key not in self._found:
            self._found[key] = find_class(name, version)
        return self._found[key]

    def _decode(self, value: Any, declared: Attr | None, where: str) -> Any:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case list():
                return tuple(self._decode(v, declared, where) for v in value)
            case {"op": _}:
                expect_fields(value, ("op",), ("version", "attrs"), "an op", where)
                return self.read(value, where)
            case {"float": "inf" | "-inf" | "nan" | "-nan" as text, **rest} if not rest:
                return float(text)
            case {"dtype": str(text), **rest} if not rest:
                return _or_error(dtype, text, where)
            case {"dim": str(text), **rest} if not rest:
                return _or_error(Dim.parse, text, where)
            case {"enum": [str(kind), str(member)], **rest} if not rest:
                if declared is None:
                    return UnknownMember(kind, member)
                for found in _enums(declared):
                    if found.__name__ == kind and member in found.__members__:
                        return found[member]
                raise ArchiveError(f"no enum {kind[:60]}.{member[:60]} is known", where=where)
            case {"graph": int(number), **rest} if not rest and type(number) is int:
                if 0 <= number < len(self.graphs):
                    return self.graphs[number]
                raise ArchiveError(f"graph {number} does not come before its use", where=where)
        raise ArchiveError(f"{str(value)[:60]} is not an attribute", where=where)


def op_fields(row: dict[str, Any], where: str) -> tuple[str, int, dict[str, Any]]:
    """Return name, version and raw attributes of an op."""
    name = expect(row["op"], str, "op", where)
    version = expect(row.get("version", 1), int, "version", where)
    return name, version, expect(row.get("attrs", {}), dict, "attrs", where)


def find_class(name: str, version: int) -> type[Op] | str:
    """Return the registered op, or why it cannot be used."""
    try:
        cls = find_op(name)
    except UnsupportedOpError:
        return "is not registered"
    except Exception as error:  # an installed package that offers ops, and fails to import
        return f"is offered by a package that fails to import: {error}"
    if issubclass(cls, Source):
        return "is no op that a node can have"
    if version > cls.version:
        return f"has version {version} in the archive, {cls.version} here"
    return cls


def _or_error(read: Callable[[str], Any], text: str, where: str) -> Any:
    try:
        return read(text)
    except GraphError as error:
        raise ArchiveError(error.problem, where=where) from None
