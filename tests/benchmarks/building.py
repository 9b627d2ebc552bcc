"""What it costs to import, to build a node, to differentiate it and to plan it."""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

import gradwright as gw

CODE = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def chain(n: int) -> tuple[gw.Graph, gw.Tensor, gw.Tensor]:
    """Return a chain of ``n`` multiplications and additions."""
    g = gw.Graph()
    y = x = g.placeholder("x", (8,))
    w = g.variable("w", (8,), init=1e-3)
    for _ in range(n // 2):
        y = y * w + x
    return g, x, y


def per_node(n: int = 20_000, rounds: int = 5) -> None:
    """Print microseconds per node of building, differentiating and planning."""
    costs: dict[str, list[float]] = {"build": [], "gradient": [], "plan": []}
    for _ in range(rounds):
        start = time.perf_counter()
        g, x, y = chain(n)
        built = time.perf_counter()
        (dx,) = gw.gradients(y, [x])
        derived = time.perf_counter()
        plan = gw.Session(g).plan([y, dx], {"x": (8,)})
        planned = time.perf_counter()
        costs["build"].append((built - start) / n)
        costs["gradient"].append((derived - built) / n)
        costs["plan"].append((planned - derived) / (len(plan.order)))
    print(f"\nper node, chain of {n:,}")
    for name, aim in (("build", "aim 20"), ("gradient", "aim 30"), ("plan", "no aim")):
        print(f"  {name:<10} {median(costs[name]) * 1e6:6.1f} µs   ({aim})")


def import_time(rounds: int = 7) -> None:
    """Print seconds of ``import gradwright`` in a fresh process, beside numpy alone."""
    taken: dict[str, list[float]] = {"numpy": [], "gradwright": []}
    for _ in range(rounds):
        for name in taken:
            out = subprocess.run(
                [sys.executable, "-c", CODE.format(name)],
                capture_output=True,
                text=True,
                check=True,
            )
            taken[name].append(float(out.stdout))
    print("\nimport, fresh process")
    for name, times in taken.items():
        print(f"  {name:<10} {median(times):6.3f} s" + ("   (aim 0.3)" if name != "numpy" else ""))


def main() -> None:
    """Print all of it."""
    import_time()
    per_node()
