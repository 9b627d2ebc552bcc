"""What the engine makes of an op: sessions on every device, symbolic sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ShapeError
from ..gradient import gradients
from ..graph import Graph, ancestors
from ..graph.expand import run_nodes, stand_in
from ..op import Op, Sample, run_forward
from ..session import Session
from ..spec import BOXED, Dim, TensorSpec, is_floating, spec_of
from ..spec.containers import ContainerSpec
from .common import Array, cases, cast, close, draw_seeds, need, place, wanted


def check_session(cls: type[Op], sample: Sample) -> None:
    """Outputs and gradients are the same in a session, lowered or not.

    That is on ``guard``, and in float32 on ``cpu``, where ``check_symbolic`` runs float64; what has
    no float32 runs on both.
    """
    for op, xs in cases(cls, sample):
        on_cpu = cast(op, xs, "float32")
        for device, arrays in (("guard", xs), ("cpu", xs if on_cpu is None else on_cpu)):
            name, tolerance = ("float64", 1e-9) if arrays is xs else ("float32", 1e-4)
            graph, ins, node, given = place(op, arrays)
            rng = np.random.default_rng(5)
            wrt, seeded = wanted(op, xs, sample, ins), draw_seeds(graph, node, rng)
            given = {**given, **dict(seeded.values())}
            targets = list(node.outputs)
            if wrt and seeded:
                seeds = [s for s, _ in seeded.values()]
                targets += gradients(list(seeded), wrt, seeds, unreachable="zero")
            reference = run_nodes(ancestors(targets, stop=set(given)), given, targets)
            with Session(graph, device) as session:
                found = session.run(targets, given)
            for t, y, r in zip(targets, found, reference, strict=True):
                need(
                    close(y, r, tolerance),
                    f"{t.name} differs on {device} in {name}: its lowering, or views/ufunc "
                    "promise what forward does not do",
                )


def check_symbolic(cls: type[Op], sample: Sample) -> None:
    """Symbolic sizes are accepted, or refused with a ShapeError, and give the same numbers."""
    for op, xs in cases(cls, sample):
        if not any(x is not None and x.ndim for x in xs):
            continue
        reference, slopes = run_forward(op, xs), _slopes(op, xs, sample)
        sizes = [d for x in xs if x is not None for d in x.shape if d != 1]
        # Where no two axes are as long, a symbol per size is one per axis.
        for own in (False, True) if len({*sizes}) < len(sizes) else (False,):
            graph = Graph(op.name, scratch=True)
            ins = [
                None if x is None else stand_in(graph, f"x{i}", _symbolic(op, i, x, own))
                for i, x in enumerate(xs)
            ]
            try:
                with graph:
                    graph.add(op, ins)
                    node = graph.latest
                    targets = list(node.outputs)
                    live = [t for t in node.public if is_floating(t.dtype)]
                    wrt = wanted(op, xs, sample, ins)
                    if live and wrt:
                        targets += gradients(live, wrt, live, unreachable="zero")
            except ShapeError as error:
                need(
                    "has no value yet" in error.problem or bool(error.need),
                    f"refuses symbolic sizes without saying what it needs: {error.problem}",
                )
                continue
            given = {t: x for t, x in zip(ins, xs, strict=True) if t is not None and x is not None}
            with Session(graph) as session:
                found = session.run(targets, given)
            for t, y, r in zip(node.outputs, found, reference, strict=False):
                need(close(y, r, 1e-9), f"{t.name} differs when sizes are symbolic")
                need(
                    isinstance(t.spec, ContainerSpec) or t.rank == y.ndim,
                    f"{t.name} has another rank when sizes are symbolic",
                )
            for x, y, r in zip(wrt, found[len(node.outputs) :], slopes, strict=False):
                need(
                    y.shape == given[x].shape,
                    f"gradient of {x.name} has shape {y.shape} when sizes are symbolic",
                )
                need(close(y, r, 1e-9), f"gradient of {x.name} differs when sizes are symbolic")


def _slopes(op: Op, xs: Sequence[Array | None], sample: Sample) -> list[Array]:
    """Return the gradients of half the squares of all outputs, with sizes known.

    Those of their sum would be noise around 0 where the outputs sum to a constant.
    """
    _, ins, node, given = place(op, xs)
    live = [t for t in node.public if is_floating(t.dtype)]
    wrt = wanted(op, xs, sample, ins)
    if not live or not wrt:
        return []
    found = gradients(live, wrt, live, unreachable="zero")
    return run_nodes(ancestors(found, stop=set(given)), given, found)


def _symbolic(op: Op, number: int, x: Array, own: bool) -> TensorSpec:
    """Return a spec with a symbol per size above 1, or (``own``) per axis."""
    if x.dtype == BOXED:
        return spec_of(x)
    dims = [
        d if d == 1 else Dim.symbol(f"x{number}_{axis}" if own else f"d{d}")
        for axis, d in enumerate(x.shape)
    ]
    value = x if number in op.needs_values else None
    return TensorSpec(x.shape if value is not None else dims, x.dtype, value)
