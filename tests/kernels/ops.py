"""Which ops run on a GPU, by their own samples on a simulated one; each result is compared.

    python -m tests.kernels.ops [OPS.md]    prints the table, and writes it where a file is named

An op runs if all its samples do in float32 (or as they are where there are no floats), whole or in
what it consists of, with no fallback to the host; its gradient is tried where it has one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.gradient import gradients
from gradwright.graph import ancestors
from gradwright.graph.expand import run_nodes
from gradwright.testing.common import cases, cast, close, draw_seeds, place, samples, wanted
from tests.ops import test_ops

CLASSES: list[Any] = [param.values[0] for param in test_ops.CLASSES]


def ran(cls: Any) -> tuple[bool, bool, str]:
    """Return whether an op runs, whether its gradients do, and what stands in the way."""
    forward, backward, why = True, None, ""
    for sample in samples(cls):
        for op, given in cases(cls, sample):
            narrow = cast(op, given, "float32")
            xs = given if narrow is None else narrow
            for with_slopes in (False, True):
                try:
                    found = _compared(cls, op, xs, sample, with_slopes=with_slopes)
                except Exception as error:  # whatever stands in the way
                    why = why or f"{type(error).__name__}: {error}".partition("\n")[0]
                    found = False
                if with_slopes:
                    backward = backward if found is None else bool(found and backward is not False)
                else:
                    forward = forward and bool(found)
    return forward, bool(backward), why


def _compared(cls: Any, op: Any, xs: Any, sample: Any, *, with_slopes: bool) -> bool | None:
    """Run one sample; None: it has no gradient. AssertionError: numbers differ."""
    graph, ins, node, given = place(op, xs)
    seeded = draw_seeds(graph, node, np.random.default_rng(5))
    given, targets = {**given, **dict(seeded.values())}, list(node.outputs)
    if with_slopes:
        wrt = wanted(op, xs, sample, ins)
        if not wrt or not seeded:
            return None
        seeds = [s for s, _ in seeded.values()]
        targets = list(gradients(list(seeded), wrt, seeds, unreachable="zero"))
    reference = run_nodes(ancestors(targets, stop=set(given)), given, targets)
    with gw.Session(graph, "cuda-sim") as session:
        found = session.run(targets, given)
    for t, y, r in zip(targets, found, reference, strict=True):
        assert close(y, r, 1e-3), f"{cls.name}: {t.name} differs on the device"
    return True


def table(rows: dict[str, tuple[bool, bool, str]]) -> list[str]:
    """Return what is known of all ops as a page."""
    on = [name for name, (forward, *_) in rows.items() if forward]
    both = [name for name in on if rows[name][1]]
    return [
        "# Ops on a GPU",
        "",
        f"Of {len(rows)} ops {len(on)} run on device `cuda`, all their samples without the host,",
        f"and so do the gradients of {len(both)}. `python -m tests.kernels.ops` makes this list.",
        "",
        f"- **With their gradients:** {', '.join(both)}.",
        f"- **Forward:** {', '.join(name for name in on if name not in both)}.",
        f"- **Not all samples, or none:** {', '.join(name for name in rows if name not in on)}.",
    ]


def main(path: str | None) -> None:
    """Print the table, and write it to a file if one is named."""
    rows = {}
    for cls in sorted(CLASSES, key=lambda cls: cls.name):
        rows[cls.name] = ran(cls)
        print(cls.name, *rows[cls.name], flush=True)
    text = "\n".join(table(rows)) + "\n"
    print(text)
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
