"""A fresh process until its first training step: with nothing on disk, and with what it left.

    python -m tests.benchmarks.cold [--rows mlp transformer deep] [--peers ours compile jax]

Each line is a process of its own on one thread: seconds of importing, building, planning, and of
the first and a later step; the whole is all of it up to the first step, but the import. Peers keep
theirs, too: ``TORCHINDUCTOR_CACHE_DIR`` with the caches of FX graphs and of autograd, and
``JAX_COMPILATION_CACHE_DIR`` without its lower limits. Making random weights is left out.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.engine.process import environment

COLUMNS = ("import", "build", "plan", "first", "later", "whole")
CLOCKS = {"wall": "perf_counter", "cpu": "process_time"}
ROWS = {
    "mlp": "MLP 64x(64-128-10)",
    "transformer": "transformer, 12 layers, d=64 h=4 T=32 B=4",
    "deep": "270 layers of tanh(x @ w + b), 64 wide: 10,000 nodes",
}
PEERS = {"ours": "gradwright", "compile": "torch", "jax": "jax"}
"""Name -> what it imports; each in the process that is measured, and there first of all."""


def model_of(row: str) -> Any:
    """Return the model of a row, whose weights are made once."""
    from tests.benchmarks.engine.models.deep import Deep
    from tests.benchmarks.engine.models.mlp import MLP
    from tests.benchmarks.engine.models.transformer import Transformer

    makers: dict[str, Callable[[], Any]] = {
        "mlp": lambda: MLP(64, 64, 128),
        "transformer": lambda: Transformer(4, 32, 64, 4, 12),
        "deep": lambda: Deep(270),
    }
    model = makers[row]()
    weights, batch = model.weights(), model.batch()
    model.weights, model.batch = lambda: weights, lambda: batch
    return model


def one(peer: str, row: str, how: str) -> dict[str, float]:
    """Return what this process takes, in seconds."""
    clock = getattr(time, CLOCKS[how])
    start = clock()
    importlib.import_module(PEERS[peer])
    imported = clock() - start
    model = model_of(row)
    from tests.benchmarks.engine import peers

    times = [clock()]
    plan: Callable[[], Any] = lambda: None  # noqa: E731
    settle = plan
    if peer == "ours":
        plan, step, settle = _ours(model, peers)
    else:
        made = next(peers.PEERS[peer].variants(model))
        step = lambda: made.loss(made.step())  # noqa: E731
    times.append(clock())
    for do in (plan, step, step):
        do()
        times.append(clock())
    settle()
    found = dict(zip(COLUMNS[1:], (b - a for a, b in itertools.pairwise(times)), strict=False))
    return {"import": imported, **found, "whole": times[3] - times[0]}


def _ours(model: Any, peers: Any) -> tuple[Callable[[], Any], ...]:
    """Return planning, a step of a default session, and the wait for its kernels."""
    import gradwright as gw

    loss, rate, updates = peers.training_step(model)
    session, batch = gw.Session(loss.graph), model.batch()
    run = session.prepare(loss, [*batch, rate], updates, training=True)
    arrays = [*batch.values(), np.array(model.rate)]
    shapes = {name: a.shape for name, a in batch.items()} | {rate.name: ()}
    return (
        lambda: session.plan(loss, shapes, updates, training=True),
        lambda: float(run(*arrays)),
        lambda: session.wait_for_kernels(120),
    )


def main() -> None:
    """Run each side with an empty folder, and again with what it left there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument(
        "--one", nargs=3, metavar=("PEER", "ROW", "CLOCK"), help="in this process, as JSON"
    )
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="default: wall")
    parser.add_argument("--patience", type=float, default=900.0, help="seconds of a process, 900")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(*given.one)))
        return
    print(f"{'':34}" + "".join(f"{name:>9}" for name in COLUMNS))
    for row in given.rows:
        print(ROWS[row])
        for peer in given.peers:
            with tempfile.TemporaryDirectory() as folder:
                for how in ("nothing on disk", "warm", "warm"):
                    line = _told(peer, row, folder, given.clock, given.patience)
                    print(f"  {peer:14}{how:18}{line}", flush=True)


def _told(peer: str, row: str, folder: str, clock: str, patience: float) -> str:
    """Return the line of a process that keeps what it may in a folder."""
    env = environment(1) | {
        "GRADWRIGHT_CACHE": f"{folder}/ours",
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/torch",
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "1",
        "JAX_COMPILATION_CACHE_DIR": f"{folder}/jax",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    env["PYTHONPYCACHEPREFIX"] = f"{tempfile.gettempdir()}/bytecode"
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", __spec__.name, "--one", peer, row, clock]
    try:
        out = subprocess.run(command, capture_output=True, text=True, env=env, timeout=patience)
    except subprocess.TimeoutExpired:
        return f"longer than {patience:.0f} s"
    if out.returncode:
        return (out.stderr.strip().splitlines() or ["it said nothing"])[-1]
    found = json.loads(out.stdout.splitlines()[-1])
    return "".join(f"{found[name]:9.3f}" for name in COLUMNS)


if __name__ == "__main__":
    main()
