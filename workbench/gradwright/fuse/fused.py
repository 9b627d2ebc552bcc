"""Fused: the op that a group of instructions has become."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping, Sequence
from typing import Any

from ..op import Op
from ..program.program import Instr
from ..spec import TensorSpec
from .interpret import evaluate
from .ir import Kernel

_NOWHERE: Mapping[int, Instr] = types.MappingProxyType({})


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
        sites: Mapping[int, Instr] = _NOWHERE,
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
    sites: Mapping[int, Instr]
    """For operands of which indices name places the instruction that does so."""

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
