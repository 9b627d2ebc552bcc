"""Memory managers side by side: time of a step, peak, and what is held when nothing runs.

    python -m tests.benchmarks.managers

Three models live at once, as in a notebook: each has a session that trains it and one that measures
it on larger batches. What is held, and held at most, is what numpy has allocated (tracemalloc)
beyond the models' own values and state; blocks are those of the sessions' ledgers.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import numpy as np

import gradwright as gw
from gradwright.cpu import memory
from gradwright.program.ledger import Ledger
from tests.benchmarks.timing import race, table

MANAGERS = ("arena", "caching", "none")
WIDTHS = (128, 512, 256)
BATCH, HELD_OUT = 128, 1024
RNG = np.random.default_rng(0)
FEEDS = {
    "x": RNG.standard_normal((HELD_OUT, 256)).astype("float32"),
    "t": RNG.integers(0, 10, HELD_OUT),
}
SMALL = {name: array[:BATCH] for name, array in FEEDS.items()}


Made = tuple[gw.Trainer, Callable[[], object], Callable[[], object], list[Ledger]]


def model(width: int, manager: str) -> Made:
    """Return a trainer, what takes a step, what measures, and the ledgers of both sessions."""
    g = gw.Graph(f"mlp {width}")
    h, n = g.placeholder("x", (None, 256)), 256
    t = g.placeholder("t", (None,), "int64")
    for i in range(4):
        w = g.variable(f"w{i}", (n, width), init=gw.init.he_normal(seed=i))
        h, n = gw.nn.gelu(h @ w), width
    loss = gw.loss.sparse_softmax_cross_entropy(
        t, h @ g.variable("out", (n, 10), init=gw.init.xavier_uniform(seed=9)), name="loss"
    )
    sessions = [gw.Session(g, kernels="wait", memory=manager) for _ in range(2)]
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(1e-3), session=sessions[0])
    measure = sessions[1].prepare(loss, ["x", "t"])
    ledgers = [session.memory for session in sessions]
    return trainer, lambda: trainer.step(SMALL), lambda: measure(FEEDS), ledgers


def held(manager: str) -> tuple[float, float, float]:
    """Return bytes at most, when idle, and of blocks when idle, beyond values and state."""
    memory.POOL.release()
    gc.collect()
    tracemalloc.start()
    try:
        made = [model(width, manager) for width in WIDTHS]
        for _, step, measure, _ in made * 3:
            step()
            measure()
        gc.collect()
        own = sum(a.nbytes for trainer in (t for t, *_ in made) for a in _values(trainer))
        tracemalloc.reset_peak()
        for _, step, measure, _ in made:
            step()
            measure()
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    ledgers = {id(ledger): ledger for *_, found in made for ledger in found}.values()
    return peak - own, now - own, sum(ledger.held for ledger in ledgers)


def _values(trainer: gw.Trainer) -> list[np.ndarray]:
    state = [np.asarray(v) for n, v in trainer.state_dict().items() if n.startswith("state/")]
    return [*(trainer.values[v.name] for v in trainer.graph.variables), *state]


def main() -> None:
    """Print both tables."""
    print("What three models with two sessions each hold, in MB beyond values and state")
    print(f"  {'':<10}{'at most':>10}{'when idle':>12}{'its blocks':>12}")
    for manager in MANAGERS:
        print(
            f"  {manager:<10}"
            + "{:>10.2f}{:>12.2f}{:>12.2f}".format(*np.divide(held(manager), 1e6))
        )
    for width in WIDTHS:
        steps = {manager: model(width, manager)[1] for manager in MANAGERS}
        table(f"a step of an MLP {BATCH}x(256-4x{width}-10)", race(steps), "arena")


if __name__ == "__main__":
    main()
