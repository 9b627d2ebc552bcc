"""Random programs on a simulated GPU, each access looked at, against numpy.

    python -m tests.kernels.fuzz [count] [--seed N]    programs of the seeds N, N + 1, ... (10,000)
    python -m tests.kernels.fuzz --seed N --one        one program, here: printed, run, compared

They are those of ``tests.fuzz``; what has no kernel goes over the host. Each is run as it is, and
then as steps: its results move variables, of which some take each other's place, and one step in
five does not commit. From the third on a step is a graph, where the host has no part in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwright as gw
from gradwright.errors import GradwrightError
from tests.fuzz import FLOATS, Program, problem
from tests.support.campaign import Campaign

Array = np.ndarray[Any, Any]


def stepped(seed: int, device: str) -> tuple[list[Array], list[float]] | str:
    """Return the variables that steps of a program have moved, or how they fail."""
    program = Program(seed)
    first = program.run("off")
    if isinstance(first, str):
        return first
    g, sizes = program.graph, list[float]()
    updates, held = {}, list[gw.Tensor]()
    for n, (known, found) in enumerate(zip(program.fetches, first, strict=True)):
        if known.tensor.dtype.name not in FLOATS or not np.isfinite(found).all():
            continue
        v = g.variable(f"moved{n}", found.shape, dtype=known.tensor.dtype)
        t = gw.reshape(known.tensor, found.shape)
        updates[v] = [t, v * 0.5 + t, v + t][n % 3]
        sizes.append(400 * known.eps * max(1.0, float(np.abs(found).max(initial=0.0))))
        held.append(v)
    twins = [v for v in held if v.spec == held[0].spec] if held else []
    if len(twins) > 2:
        updates[twins[0]] = twins[1]
    asked = g.placeholder("asked", (), "bool")
    with gw.Session(g, device=device, kernels="off", fallback="cpu") as session:
        try:
            for n in range(5):
                feeds = {**program.feeds, asked: n != 2}
                session.run([], feeds, updates, commit_if=asked)
        except (GradwrightError, ValueError) as error:
            return type(error).__name__
    return [g.values[v.name].astype("f8") for v in held], sizes


def moved(seed: int) -> str:
    """Return what steps do otherwise on a device than on the CPU; empty if nothing."""
    expected, found = stepped(seed, "cpu"), stepped(seed, "cuda-sim")
    if found == "LoweringError":  # of what has no kernel, and no host to go to
        return ""
    if isinstance(expected, str) or isinstance(found, str):
        return "" if expected == found else f"steps: {expected!r:.60}, on a GPU: {found!r:.60}"
    for n, (x, y, most) in enumerate(zip(expected[0], found[0], expected[1], strict=True)):
        if not np.allclose(x, y, rtol=0, atol=5 * most, equal_nan=True):
            return f"variable {n} of steps is off by {np.abs(x - y).max():.3g}, allowed {most:.3g}"
    return ""


CAMPAIGN = Campaign(
    "tests.kernels.fuzz",
    "programs",
    lambda seed: problem(Program(seed), "cuda-sim") or moved(seed),
    lambda seed: Program(seed).lines,
    "the same on a simulated GPU",
)


if __name__ == "__main__":
    CAMPAIGN.main(__doc__)
