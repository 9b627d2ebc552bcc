"""Fused: the op that a group of instructions has become."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..op import Op
from ..spec import TensorSpec
from .interpret import evaluate
from .ir import Kernel


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
    ) -> None:
        self.__dict__.update(kernel=kernel, shape=shape, outs=tuple(outs), names=names)

    def __new__(cls, *args: Any, **kwargs: Any) -> Fused:
        """Make the op; unlike others, it is not made of attributes."""
        return object.__new__(cls)

    kernel: Kernel
    shape: tuple[int, ...]
    outs: tuple[TensorSpec, ...]
    names: tuple[str, ...]
    """The ops that it stands for, in order."""

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
        ys = evaluate(self.kernel, xs, self.shape)
        return tuple(y.reshape(s.shape) for y, s in zip(ys, self.outs, strict=True))
