"""What an op says of its gradient: against finite differences, orders 1 and 2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..debug.check.directions import normal_like
from ..debug.check.judging import compare
from ..debug.check.local import LocalCheck
from ..gradient import gradients
from ..graph import ancestors
from ..graph.expand import run_nodes, stand_in
from ..op import Op, Sample, run_forward
from .common import Array, cases, close, draw_seeds, need, place, takes, wanted

RTOL = 1e-5


def check_vjp(cls: type[Op], sample: Sample) -> None:
    """``vjp`` agrees with finite differences of ``forward``."""
    for op, xs in cases(cls, sample):
        problem = _vjp_problem(op, xs, sample)
        need(
            not problem,
            f"{problem}; mend vjp, or say smooth=False in a sample that lies on a kink",
        )


def check_complex(cls: type[Op], sample: Sample) -> None:
    """``vjp`` is right for complex inputs too, if ``infer`` takes them."""
    for op, xs in cases(cls, sample):
        moved = _complex_inputs(op, xs)
        problem = "" if moved is None else _vjp_problem(op, moved, sample)
        need(
            not problem,
            f"{problem}; use conj() in vjp (gradients are conjugate, as in torch), or have infer "
            "raise DTypeError for complex inputs",
        )


def _vjp_problem(op: Op, xs: tuple[Array | None, ...], sample: Sample) -> str:
    if not sample.smooth:
        return ""
    check = LocalCheck(op, xs, run_forward(op, xs), np.random.default_rng(1), rtol=RTOL)
    if sample.differentiate is not None:
        check.directions = {i: v for i, v in check.directions.items() if i in sample.differentiate}
    verdict, reason, _ = check.run()
    right = verdict in ("ok", "none")
    return "" if right else f"vjp differs from finite differences ({verdict}): {reason}"


def check_second(cls: type[Op], sample: Sample) -> None:
    """The gradient's gradient, in inputs and cotangents, agrees with finite differences."""
    for op, xs in cases(cls, sample):
        problem = _second_problem(op, xs, sample) if sample.smooth else ""
        need(
            not problem,
            f"{problem}; vjp must be built from differentiable ops on xs and gs (ys count as "
            "functions of xs)",
        )


def _second_problem(op: Op, xs: tuple[Array | None, ...], sample: Sample) -> str:
    rng = np.random.default_rng(2)
    graph, ins, node, given = place(op, xs)
    wrt = wanted(op, xs, sample, ins)
    seeded = draw_seeds(graph, node, rng)
    if not wrt or not seeded:
        return ""
    seeds = [s for s, _ in seeded.values()]
    first = gradients(list(seeded), wrt, seeds, unreachable="zero")
    weights = {
        stand_in(graph, f"h{i}", t.spec): normal_like(given[x], rng)
        for i, (t, x) in enumerate(zip(first, wrt, strict=True))
    }
    given = {**given, **dict(seeded.values()), **weights}
    second = gradients(first, [*wrt, *seeds], list(weights), unreachable="zero")
    exact = run_nodes(ancestors(second, stop=set(given)), given, second)
    directions = {t: normal_like(given[t], rng) for t in (*wrt, *seeds)}
    forward = ancestors(first, stop=set(given))

    def along(t: float) -> float:
        moved = {**given, **{x: given[x] + t * v for x, v in directions.items()}}
        found = run_nodes(forward, moved, first)
        return sum(float(np.vdot(h, f).real) for h, f in zip(weights.values(), found, strict=True))

    total = sum(float(np.vdot(e, v).real) for e, v in zip(exact, directions.values(), strict=True))
    found = compare(along, total, rtol=RTOL)
    right = found.verdict == "ok"
    return (
        ""
        if right
        else (
            f"second order differs ({found.verdict}): gradient of vjp {found.analytic:.8g}, "
            f"finite differences {found.numeric:.8g}"
        )
    )


def check_partial(cls: type[Op], sample: Sample) -> None:
    """``vjp`` takes ZERO for every output but one, and the parts add up."""
    for op, xs in cases(cls, sample):
        rng = np.random.default_rng(3)
        graph, ins, node, given = place(op, xs)
        wrt, seeded = wanted(op, xs, sample, ins), draw_seeds(graph, node, rng)
        if not wrt or len(seeded) < 2:
            continue
        given = {**given, **dict(seeded.values())}
        together = gradients(list(seeded), wrt, [s for s, _ in seeded.values()], unreachable="zero")
        alone = [gradients([y], wrt, [s], unreachable="zero") for y, (s, _) in seeded.items()]
        everything = [*together, *(t for part in alone for t in part)]
        found = run_nodes(ancestors(everything, stop=set(given)), given, everything)
        for i in range(len(wrt)):
            parts = sum(found[len(wrt) * (k + 1) + i] for k in range(len(alone)))
            need(
                close(parts, found[i], 1e-9),
                f"vjp with some cotangents ZERO does not add up for input {i}",
            )


def _complex_inputs(op: Op, xs: Sequence[Array | None]) -> tuple[Array | None, ...] | None:
    """Return the inputs with imaginary parts added, if the op takes them."""
    if not any(x is not None and x.dtype == np.float64 for x in xs):
        return None
    rng = np.random.default_rng(6)
    moved = tuple(
        x + 0.3j * rng.standard_normal(x.shape) if x is not None and x.dtype == np.float64 else x
        for x in xs
    )
    return moved if takes(op, moved) else None
