"""Programs that are kept, so that a graph is taken apart once and checked many times."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ....graph import Tensor, Values
from ....op import redefinitions
from ....shared import Bounded
from ...float64 import Float64Run, given
from .. import vjp
from . import claims, lifting, rules
from .program import Program

Array = np.ndarray[Any, Any]

MOST_BYTES = 1 << 27
"""Of all programs together; one that is larger is made anew for each check. A program knows its
graph weakly, and what is left of one whose graph is gone makes place for others."""
_programs = Bounded[Program](16, MOST_BYTES, lambda program: {id(program): program.nbytes})


@contextlib.contextmanager
def borrowed(
    loss: Tensor,
    parameters: Sequence[Tensor],
    feeds: Mapping[Any, Any],
    *,
    values: Values,
    seed: int = 0,
    training: bool = False,
) -> Iterator[Program]:
    """Give a program with these feeds and values loaded: one that is kept, or a new one.

    Who borrows it is alone with it. Raises as ``Float64Run`` does, and GradientError where the loss
    does not depend on a parameter.
    """
    graph = loss.graph
    fed = given(graph, feeds)
    key = (
        id(graph), graph.revision, redefinitions(), loss.name, tuple(p.name for p in parameters),
        seed, training, tuple(sorted((t.name, str(a.dtype), a.shape) for t, a in fed.items())),
    )  # fmt: skip
    kept = _programs.find(key)
    if kept is not None and kept.lock.acquire(blocking=False):
        try:
            if kept.is_of(loss, parameters, fed) and kept.load(
                {t.name: a for t, a in fed.items()}, values
            ):
                yield kept
                return
        finally:
            kept.lock.release()
    run = Float64Run([loss, *parameters], fed, values=values, seed=seed, training=training)
    with np.errstate(all="ignore"):
        made = Program(run, loss, parameters, seed)
    run.let_go()
    with made.lock:
        yield made
    if made.nbytes <= MOST_BYTES:
        _programs.keep(key, made)


def forget() -> None:
    """Forget all programs, rules and claims: for when the code of an op was changed in place."""
    _programs.clear()
    for module in (claims, lifting, rules, vjp):
        module.forget()
