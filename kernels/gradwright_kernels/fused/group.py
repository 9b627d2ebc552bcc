"""Fused groups: how the kernel that a group has become is generated, and launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwright.fuse.fused import Fused
from gradwright.fuse.ir import Kernel
from gradwright.program.lowering import Launch

from ..launch import Strided, alarm, generated, prepared, workspace
from .generated import generate


def group(op: Fused) -> Strided:
    """Return how a group runs on arrays that lie as they do."""

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
        return launched(op.kernel, op.shape, xs, ys, op.names)

    return Strided(bind)


def launched(
    kernel: Kernel,
    shape: tuple[int, ...],
    xs: Sequence[Any],
    ys: Sequence[Any],
    names: Sequence[str],
) -> Launch:
    """Return what launches a kernel on arrays that lie as these do."""
    made = generate(kernel, shape, [*xs, *ys], names)
    generated(made.source)
    runs = [(prepared(one.call), one.operands) for one in made.launches]
    named = [operand for operand, *_ in made.sites]
    rooms = [
        alarm(spec, named) if number == made.alarm else workspace(spec)
        for number, spec in enumerate(made.scratch)
    ]

    def run(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        operands = [*xs, *ys, *rooms]
        for launch, numbers in runs:
            launch(*(operands[n] for n in numbers))

    return run
