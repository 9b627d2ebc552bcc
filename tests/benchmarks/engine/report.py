"""The table: what was found, beside what is aimed at."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.engine.peers import PEERS
from tests.benchmarks.engine.race import Result, geometric_mean, middle

TORCH_AIMS = {"a": 10, "b": 1.3, "c": 1.3, "d": 0.7, "e": 1.3, "f": 0.9, "g": 1.2}
"""Least speed relative to torch eager, or to HF's peft in row g."""
TWO_THREADS = {"e": 1.15}
"""Where two threads have an aim of their own."""
COMPILED = ("compile", "jax")
COMPILED_AIMS = {"a": 4}
"""Least speed relative to the better of torch.compile and JAX."""
MEAN_AIMS = {"torch": 1.3, "compiled": 1.0}


def versions() -> str:
    """Return what was measured with what, in one line."""
    found = [f"Python {platform.python_version()}"]
    for name in ("gradwright", "numpy", "llvmlite", "torch", "jax", "transformers", "peft"):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join([*found, processor()])


def processor() -> str:
    """Return the processor's name and its number of cores."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(": ", 1)[1] for line in lines if line.startswith("model name")]
    return f"{len(names)} cores of {names[0]}" if names else platform.processor()


def header(peers: Sequence[str]) -> str:
    """Return the line above the rows."""
    columns = [f"{PEERS[p].title:>15}" for p in peers]
    if any(p in COMPILED for p in peers):
        columns.append(f"{'best compiled':>15}")
    return f"{'training step':<46}{'thr':>4}  {'gradwright, ms [IQR]':<25}{''.join(columns)}"


def line(result: Result, peers: Sequence[str]) -> str:
    """Return a row: our time, and how many times as long each peer takes."""
    ours = result.sides["ours"]
    start = f"{result.row}  {result.title:<43}{result.threads:>4}  "
    if not ours.wall:
        return start + ours.trouble
    median, low, high = (t * 1e3 for t in middle(getattr(ours, result.clock)))
    digits = 4 if median < 0.1 else 3 if median < 10 else 1
    time = f"{median:.{digits}f} [{low:.{digits}f}-{high:.{digits}f}]"
    cells = []
    for p in peers:
        aim = aim_of(result) if p == "torch" else None
        cells.append(_cell(result.ratio(p), aim, result.sides[p].trouble))
    if any(p in COMPILED for p in peers):
        cells.append(_cell(result.best(COMPILED), COMPILED_AIMS.get(result.row), "none"))
    return f"{start}{time:<25}{''.join(cells)}{'  disturbed' * result.is_disturbed}"


def aim_of(result: Result) -> float:
    """Return the aim of a row against torch."""
    if result.threads > 1 and result.row in TWO_THREADS:
        return TWO_THREADS[result.row]
    return TORCH_AIMS.get(result.row, 1.0)


def _cell(ratio: float | None, aim: float | None, trouble: str) -> str:
    """Return a ratio, marked + or - where there is an aim, or why there is none."""
    if ratio is None:
        return f"{trouble.split(':')[0][:14]:>15}"
    mark = "" if aim is None else f" {'+' if ratio >= aim else '-'}{aim:g}"
    return f"{f'{ratio:.2f}x{mark}':>15}"


def means(results: Sequence[Result], peers: Sequence[str]) -> list[str]:
    """Return the geometric means over all rows, by number of threads and together."""
    found = []
    for threads in (*sorted({r.threads for r in results}), None):
        some = [r for r in results if threads in (None, r.threads)]
        torch = [x for r in some if (x := r.ratio("torch") if "torch" in r.sides else None)]
        compiled = [x for r in some if (x := r.best(COMPILED))]
        parts = [
            f"{title} {geometric_mean(ratios):.2f}x (aim {aim:g})"
            for title, ratios, aim in (
                ("torch eager", torch, MEAN_AIMS["torch"]),
                ("best compiled", compiled, MEAN_AIMS["compiled"]),
            )
            if ratios
        ]
        if parts:
            where = "all" if threads is None else f"{threads} thread{'s' * (threads > 1)}"
            found.append(f"geometric mean, {where}: {', '.join(parts)}")
    return found


def details(result: Result) -> list[str]:
    """Return the peers' fastest variants, processor times and troubles, one line each."""
    found = []
    for p, side in result.sides.items():
        if side.wall:
            wall, cpu = (middle(t)[0] * 1e3 for t in (side.wall, side.cpu))
            ratio = "" if p == "ours" else f", cpu ratio {result.ratio(p, 'cpu') or 0:.2f}x"
            found.append(f"   {p:<8} {wall:9.3f} ms, cpu {cpu:9.3f} ms{ratio}  ({side.variant})")
        else:
            found.append(f"   {p:<8} {side.trouble}")
    return found
