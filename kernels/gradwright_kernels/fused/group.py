"""Fused groups: how the kernel that a group has become is generated, and launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwright.fuse.fused import Fused
from gradwright.program.lowering import Launch

from ..launch import Strided, alarm, generated, prepared, workspace
from .generated import generate


def group(op: Fused) -> Strided:
    """Return how a group runs on arrays that lie as they do."""

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
        made = generate(op.kernel, op.shape, [*xs, *ys], op.names)
        generated(made.source)
        runs = [(prepared(launched.call), launched.operands) for launched in made.launches]
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

    return Strided(bind)
