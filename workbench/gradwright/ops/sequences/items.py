"""Cotangents of sequences and optionals: sums of them, and ones that are constant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ZERO, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import BOXED, TensorSpec
from ...spec.containers import ContainerSpec, box, box_sequence, contents
from ...spec.containers import join as join_containers


def map_items(fn: Any, *boxed: Any) -> Any:
    """Apply ``fn`` to the items of containers that hold equally many."""
    held = [contents(x) for x in boxed]
    if len({len(h.items) for h in held}) != 1:
        raise ShapeError(
            f"sequences of {', '.join(str(len(h.items)) for h in held)} items", need="equally many"
        )
    items = [
        map_items(fn, *row) if row[0].dtype == BOXED else np.asarray(fn(*row))
        for row in zip(*(h.items for h in held), strict=True)
    ]
    return box(held[0].spec, items)


class AddItems(Op):
    """Sum of containers, item by item.

    yᵢ = Σⱼ xⱼᵢ
    """

    namespace = "gradient"
    by_reference = "o"

    def infer(self, *xs: TensorSpec) -> TensorSpec:
        if not xs or not all(isinstance(x, ContainerSpec) for x in xs):
            raise DTypeError(f"add_items takes containers, got {xs}", need="sequences or optionals")
        joint = xs[0]
        for x in xs[1:]:
            joint = join_containers(joint, x)
        return joint

    def forward(self, *xs: Any) -> Any:
        return map_items(lambda *row: sum(row[1:], start=row[0].copy()), *xs)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Sequence[Any]) -> Sequence[Cotangent]:
        return (gs[0],) * len(xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = ([rng.standard_normal((n, 2)) for n in (1, 3)] for _ in range(2))
        yield Sample((box_sequence(a), box_sequence(b)), smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "takes containers")


class FillItems(Op):
    """A container like another, with one number everywhere.

    yᵢ = value
    """

    namespace = "gradient"
    by_reference = "o"
    value: float = attr(0.0, doc="What every element is.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if not isinstance(x, ContainerSpec):
            raise DTypeError(f"fill_items takes a container, got {x}", need="a sequence")
        return x

    def forward(self, x: Any) -> Any:
        return map_items(lambda item: np.full_like(item, self.value), x)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        items = box_sequence([rng.standard_normal((n, 2)) for n in (1, 3)])
        yield Sample((items,), smooth=False)
        yield Sample((items,), {"value": 1.0}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "takes a container")
