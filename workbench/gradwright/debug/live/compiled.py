"""The compiled plan beside the float64 copy: one node in each turn, at the same values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from ml_dtypes import finfo

from ...graph import Constant, Source, Tensor, Variable, ancestors
from ...session import Session
from ..digits import digits, public
from .points import Point
from .program import Program, Sight
from .turns import Deck

Array = np.ndarray[Any, Any]
ROUNDINGS = 16.0
"""What a node may be off, in roundings of its dtype, its condition, and half a digit for long sums:
a look that finds more is worth another, by :func:`gradwright.debug.precision`."""


class Compiled:
    """A session of its own for the looks, so that nothing that trains is touched.

    All values between are fetched, which may cut kernels elsewhere than in a training step. Making
    its plan is one slice, as long as making that of an evaluation.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._deck = Deck(rng)
        self._session: Session | None = None
        self._program: Program | None = None

    def look(
        self, program: Program, now: Sight, feeds: Mapping[Tensor, Array]
    ) -> Iterator[Point | None]:
        """Look at one node, at the values that the program has computed."""
        run = program.run
        assert run is not None
        if self._program is not program:
            self.close()
            self._session = Session(now.loss.graph, seed=now.seed)
            self._program = program
        assert self._session is not None
        nodes = ancestors([now.loss])
        stored = {
            n.outputs[0]: now.values.stored(n)
            for n in nodes
            if isinstance(n.op, Variable | Constant)
        }
        wanted = public([n for n in nodes if not isinstance(n.op, Source)])
        given = {**feeds, **stored}
        arrays = self._session.run(wanted, given, training=True, step=now.key)
        yield None
        fetched = dict(zip(wanted, arrays, strict=True))
        for name in self._deck.deal(list(program.nodes), 1):
            self._deck.done(name)
            found = digits(run, program.nodes[name], fetched)
            if found is not None:
                eps = float(finfo(np.dtype(found.dtype)).eps)  # type: ignore[no-untyped-call]
                noise = ROUNDINGS * eps * max(1.0, found.condition)
                verdict = "ok" if found.own_error <= noise else "unclear"
                yield Point(now.step, name, "precision", found.own_error, noise, verdict)

    def close(self) -> None:
        """Let go of the session."""
        if self._session is not None:
            self._session.close()
        self._session = self._program = None
