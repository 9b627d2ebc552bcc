"""Fused: the op that a group of instructions has become."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping, Sequence
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
    return Fused(at.shared(kernel, _kernel), tuple(shape), specs, tuple(names), dict(sites))


def _written(kernel: Kernel) -> Any:
    """Return a kernel as JSON, field by field."""
    operands = [[dtype_name(o.dtype), o.moves, o.named] for o in kernel.operands]
    values = [[v.op, v.args, dtype_name(v.dtype), v.level, _number(v.extra)] for v in kernel.values]
    stores = [[s.operand, s.value, s.mode, s.places, s.by_row] for s in kernel.stores]
    rank, n_columns, n_inputs = kernel.rank, kernel.n_columns, kernel.n_inputs
    return [rank, n_columns, operands, n_inputs, values, stores, kernel.in_place]


def _kernel(data: Any) -> Kernel:
    rank, n_columns, operands, n_inputs, values, stores, in_place = data
    return Kernel(
        rank,
        n_columns,
        tuple(Operand(dtype(name), *map(tuple, axes)) for name, *axes in operands),
        n_inputs,
        tuple(
            Value(op, tuple(args), dtype(name), Level(level), _extra(extra))
            for op, args, name, level, extra in values
        ),
        tuple(Store(*store, tuple(places), by_row) for *store, places, by_row in stores),
        tuple((y, x) for y, x in in_place),
    )


def _number(extra: Any) -> Any:
    """Return what a value has beside its arguments; a number of numpy's has its dtype with it."""
    if isinstance(extra, Named):
        return [extra.operand, extra.axis, extra.beyond.value]
    return [dtype_name(extra.dtype), extra.item()] if isinstance(extra, np.generic) else extra


def _extra(data: Any) -> Any:
    if not isinstance(data, list):
        return data
    return Named(*data[:2], Beyond(data[2])) if len(data) == 3 else dtype(data[0]).type(data[1])


Parts.add(Fused, _write, _read)
