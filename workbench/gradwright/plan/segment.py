"""Segment: part of a plan up to where values decide on shapes, and what follows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Tensor
from ..program.executor import Executor, Laid
from ..program.program import Program
from ..shared import Bounded
from ..spec import TensorSpec, known_spec

Array = np.ndarray[Any, Any]
MAX_TAILS = 128


class Segment:
    """A program with what runs it, where it ends, and what follows for each set of shapes met."""

    def __init__(
        self,
        program: Program,
        executor: Executor,
        end: int,
        dynamic: Sequence[Tensor],
        by_value: bool,
        known: dict[Tensor, TensorSpec],
        sizes: dict[str, int],
        takes: tuple[int, int] | None = None,
    ) -> None:
        self.executor = executor
        self.end, self.dynamic = end, list(dynamic)
        self.by_value = by_value
        """Whether it ends since values decide what follows, be they large or floating."""
        self.known, self.sizes = known, sizes
        self.tails = Bounded[Segment](MAX_TAILS)
        self.kept, self.least = takes or _takes(program, executor.laid)
        """Bytes that stay from run to run beside the arena: constants, and results to reuse; and
        those without which it cannot run: arena and results, or the largest of its values."""

    def met(self, array: Array) -> TensorSpec:
        """Return the spec of an array that decides what follows."""
        if self.by_value:
            return TensorSpec(array.shape, array.dtype, array.copy())
        return known_spec(array)


def _takes(program: Program, laid: Laid) -> tuple[int, int]:
    outputs = (program.specs[program.numbers[t]] for t in program.outputs)
    results = sum(s.nbytes for s in outputs if s.is_concrete)
    constants = (a.nbytes for a in program.constants.values() if any(a.strides))
    roots, specs = laid.lives.roots, laid.program.specs
    made = (specs[o] for i in laid.program.instrs for o in i.outs if roots[o] == o)
    largest = max((s.nbytes for s in made if s.is_concrete and not s.by_reference), default=0)
    return sum(constants) + results, max(laid.layout.nbytes + results, largest)
