"""Fused: the op that a group of instructions has become."""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ..op import Op
from ..program.stored import Parts, Reader, Writer
from ..spec import TensorSpec, dtype, dtype_name
from .interpret import evaluate
from .ir import Beyond, Kernel, Level, Named, Operand, Store, Value

_NOWHERE: Mapping[int, int] = types.MappingProxyType({})


class Fused(Op, abstract=True):
    """Several ops as one kernel over an index space of ``shape``; its ``forward`` is numpy's.

    Inputs and outputs are the tensors as the program has them: they differ from the kernel's
    operands by axes of size 1, so that ``x.reshape(kernel.shape_of(i, shape))`` is a view.
    """

    namespace = "inner"
    many = True

    def __init__(
        self,
        kernel: Kernel,
        shape: tuple[int, ...],
        outs: Sequence[TensorSpec],
        names: tuple[str, ...],
        sites: Mapping[int, int] = _NOWHERE,
    ) -> None:
        self.__dict__.update(kernel=kernel, shape=shape, outs=tuple(outs), names=names, sites=sites)

    def __new__(cls, *args: Any, **kwargs: Any) -> Fused:
        """Make the op; unlike others, it is not made of attributes."""
        return object.__new__(cls)

    kernel: Kernel
    shape: tuple[int, ...]
    outs: tuple[TensorSpec, ...]
    names: tuple[str, ...]
    """The ops that it stands for, in order."""
    sites: Mapping[int, int]
    """For operands of which indices name places which of the instruction's origins does so."""

    @functools.cached_property
    def _key(self) -> tuple[Any, ...]:
        shapes = tuple(s.shape for s in self.outs)
        return type(self), self.kernel, self.shape, shapes

    def __repr__(self) -> str:
        return f"fused({' '.join(self.names)})"

    def infer(self, *xs: TensorSpec) -> tuple[TensorSpec, ...]:
        """Return the specs that the outputs have."""
        return self.outs

    def forward(self, *xs: Any) -> Any:
        """Compute the outputs in numpy, value by value."""
        shapes: Any = [s.shape for s in self.outs]
        ys = evaluate(self.kernel, xs, self.shape, shapes)
        return tuple(y.reshape(s.shape) for y, s in zip(ys, self.outs, strict=True))


# -- on disk --------------------------------------------------------------------------------------


def _write(op: Fused, to: Writer) -> Any:
    specs, sites = tuple(map(to.spec, op.outs)), tuple(op.sites.items())
    return to.once(op.kernel, _written), op.shape, specs, op.names, sites


def _read(data: Any, at: Reader) -> Fused:
    kernel, shape, outs, names, sites = data
    specs = [at.specs[n] for n in outs]
    return Fused(at.shared(kernel, _restored), tuple(shape), specs, tuple(names), dict(sites))


def _written(part: Any) -> Any:
    """Return a kernel, or what it is made of, as JSON: what has fields as a list of them."""
    if isinstance(part, enum.Enum):
        return {"of": type(part).__name__, "fields": [part.value]}
    if is_dataclass(part):
        found = [_written(getattr(part, f.name)) for f in fields(part)]
        return {"of": type(part).__name__, "fields": found}
    if isinstance(part, tuple):
        return [_written(p) for p in part]
    if isinstance(part, np.dtype):
        return {"dtype": dtype_name(part)}
    if isinstance(part, np.generic):  # a number of numpy's has its dtype with it
        return {"dtype": dtype_name(part.dtype), "number": part.item()}
    return part


def _restored(data: Any) -> Any:
    if isinstance(data, list):
        return tuple([_restored(d) for d in data])
    if not isinstance(data, dict):
        return data
    if "of" in data:
        return _MADE_OF[data["of"]](*map(_restored, data["fields"]))
    kind = dtype(data["dtype"])
    return kind.type(data["number"]) if "number" in data else kind


_MADE_OF: dict[str, Any] = {
    part.__name__: part for part in (Kernel, Operand, Value, Store, Named, Level, Beyond)
}
Parts.add(Fused, _write, _read)
