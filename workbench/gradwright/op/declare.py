"""What an op declares beside its rules: attributes, samples, ONNX name, weights, cotangents."""

from __future__ import annotations

import enum
import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import GraphError
from ..spec import Dim
from ..spec import dtype as as_dtype

Tensor = Any
"""A ``gradwright.Tensor``, whose room stands above this one."""


class Frozen:
    """Base of attribute values compared by content: an op, a frozen sub-graph."""

    def content(self) -> Any:
        """Return a hashable value that is equal for equal content."""
        raise NotImplementedError

    def symbols(self) -> frozenset[str]:
        """Return the symbolic dimensions that the content states."""
        return frozenset()

    def bind(self, sizes: Mapping[str, int]) -> Frozen:
        """Return the value with symbolic dimensions in it settled."""
        return self


class _Required(enum.Enum):
    REQUIRED = enum.auto()


REQUIRED = _Required.REQUIRED


@dataclass(frozen=True)
class Attr:
    """One attribute of an op: default, documentation, and its declared type as text."""

    default: Any = REQUIRED
    doc: str = ""
    type: str = ""
    choices: tuple[Any, ...] = ()
    least: float | None = None
    most: float | None = None
    exact: bool = False

    @property
    def text(self) -> str:
        """The documentation, and what there is to choose from."""
        options = ", ".join(map(repr, self.choices))
        return f"{self.doc} One of {options}." if options else self.doc

    @property
    def bounded(self) -> bool:
        """Whether bounds are stated."""
        return self.least is not None or self.most is not None

    def fits(self, value: Any) -> bool:
        """Tell whether a number, or each of a tuple, lies within the bounds; a NaN never does."""
        if isinstance(value, tuple):
            return all(map(self.fits, value))
        if not isinstance(value, (int, float)):
            return True
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )

    def bounds(self, name: str) -> str:
        """Return how errors state the bounds: ``0 <= p <= 1``."""
        low = f"{self.least:g} <= " if self.least is not None and self.most is not None else ""
        if self.most is None:
            return f"{name} >= {self.least:g}"
        return f"{low}{name} <= {self.most:g}"


def attr(
    default: Any = REQUIRED,
    *,
    doc: str,
    choices: Sequence[Any] = (),
    least: float | None = None,
    most: float | None = None,
    exact: bool = False,
) -> Any:
    """Declare an attribute: identity, keyword argument, form field and ONNX attribute at once.

    Numbers below ``least`` or above ``most``, and NaN where one of them is stated, are refused. An
    ``exact`` dtype is what the op is about, and stays where the op is looked at in float64.
    """
    return Attr(default, doc, choices=tuple(choices), least=least, most=most, exact=exact)


def freeze(value: Any, owner: str) -> Any:
    """Bring an attribute into the closed set: int, float, bool, str, dtype, enum, tuple, frozen."""
    match value:
        case None | bool() | int() | float() | str() | Dim() | Frozen() | np.dtype():
            return value
        case enum.Enum():
            return value
        case np.generic():
            return freeze(value.item(), owner)
        case list() | tuple():
            return tuple(freeze(v, owner) for v in value)
        case slice():
            return ("slice", *(freeze(v, owner) for v in (value.start, value.stop, value.step)))
        case type() if issubclass(value, np.generic):
            return as_dtype(value)
    raise GraphError(
        f"{owner}: {type(value).__name__} cannot be an attribute",
        need="int, float, bool, str, dtype, enum, tuple or sub-graph",
        hint="pass arrays and tensors as inputs",
    )


_TAKES = {
    "int": ("int",),  # a bool is an int to Python, but never meant as one
    "float": ("float", "int", "bool"),
    "bool": ("bool",),
    "str": ("str",),
    "tuple": ("tuple",),
    "None": ("NoneType",),
    "AnyDim": ("int", "Dim"),
}


@functools.cache
def takes(declared: str, given: str) -> bool:
    """Tell whether an attribute takes values of a type; a declaration not known here takes all."""
    while "[" in declared:  # what is in a tuple, the op itself looks at
        declared = re.sub(r"\[[^\[\]]*\]", "", declared)
    options = [option.strip() for option in declared.split("|")]
    return any(option not in _TAKES or given in _TAKES[option] for option in options)


def identity(value: Any) -> Any:
    """Return a key that tells apart by type and bits: 1, True and 1.0; 0.0 and -0.0; NaN is NaN."""
    if isinstance(value, tuple):
        return tuple(map(identity, value))
    if isinstance(value, float):
        return float, math.copysign(1.0, value), value.hex()
    if isinstance(value, Frozen):
        return type(value), value.content()
    return type(value), value


@dataclass(frozen=True)
class Sample:
    """Inputs and attributes on which an op is tested; few, small and awkward.

    ``smooth`` says that gradients can be held against finite differences here;
    ``differentiate`` lists the inputs to check (default: all floating ones).
    """

    inputs: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    smooth: bool = True
    differentiate: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ErrorSample:
    """Specs and attributes that must be refused, and what the message has to say."""

    inputs: tuple[Any, ...]
    attrs: Mapping[str, Any]
    match: str


@dataclass(frozen=True)
class WeightSite:
    """Where an op holds a weight: input number, layout of its axes, and kind of layer.

    Where the op is a product with the weight and no more, ``x`` is the number of the other factor,
    and ``bias`` of what is added; ``packed`` names the format of a weight that lies in blocks.
    """

    input: int
    layout: str
    kind: str
    x: int | None = None
    bias: int | None = None
    packed: str = ""


@dataclass(frozen=True)
class OnnxRule:
    """The ONNX operator that an op maps to one to one, both ways.

    ``since`` is the first opset that gives it this meaning; ``rename`` maps attributes to ONNX's
    names for them. ``inputs`` are attributes that ONNX takes as further inputs, in order, and
    ``fixed`` are attributes of ONNX that tell apart two ops of one operator. ``defaults`` are
    ONNX's defaults where they are not the op's.
    """

    op_type: str
    since: int
    rename: Mapping[str, str] = field(default_factory=dict)
    domain: str = ""
    inputs: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)


class Zero(enum.Enum):
    """A cotangent that is structurally zero: nothing flows here, and nothing is computed."""

    ZERO = enum.auto()

    def __repr__(self) -> str:
        return "ZERO"


ZERO = Zero.ZERO


@dataclass(frozen=True)
class NotDifferentiable:
    """A cotangent that does not exist, and why; raises only when somebody asks through it."""

    reason: str


Cotangent = Any
"""What a vjp returns for an input: Tensor, Zero, NotDifferentiable, or a function making one."""


def written(annotation: Any) -> str:
    """Return an annotation as it is written in the source."""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
