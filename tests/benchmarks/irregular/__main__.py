"""Irregular access beside torch and JAX: what goes where indices, orders and masks say.

    python -m tests.benchmarks.irregular [word ...] [--threads 1 2] [--rounds 7] [--clock cpu]

A row is one op on 100,000 to a million elements, and its gradient, that of half the sum of the
squares of what it gives, where it is marked so. Rows with a word in their name are run. A peer is a
process of its own, which makes all rows; they take turns, and ratios are peer/ours, medians and
quartiles of rounds. Results are compared first. JAX has static shapes: where how many elements
there are is known only when run, it is not asked.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.benchmarks.engine.process import environment
from tests.benchmarks.irregular.rows import Row, rows

TURN = 0.15
Run = Callable[[], Sequence[Any]]


def ours(row: Row, threads: int) -> Run:
    """Return a prepared run."""
    import gradwright as gw

    given, g = row.inputs(), gw.Graph()
    xs = [g.placeholder(f"x{k}", a.shape, a.dtype) for k, a in enumerate(given)]
    y = row.ours(*xs)
    fetches = [y]
    if row.is_differentiated:
        wrt = [x for x in xs if x.dtype.kind == "f"]
        fetches = gw.gradients((y * y).sum() * 0.5, wrt)
    session = gw.Session(g, kernels="wait", threads=threads)
    run = session.prepare(fetches, xs)
    return lambda: run(*given)


def torch(row: Row, threads: int, *, compiled: bool = False) -> Run | None:
    """Return torch's own, eager or compiled."""
    import torch as t

    if row.torch is None:
        return None
    given = [t.from_numpy(np.ascontiguousarray(a)) for a in row.inputs()]
    f = row.torch
    if not row.is_differentiated:
        f = t.compile(f) if compiled else f

        def forward() -> Sequence[Any]:
            with t.no_grad():
                return [f(*given)]

        return forward
    wrt = [x.requires_grad_() for x in given if x.is_floating_point()]

    def loss_of(*xs: Any) -> Any:
        return row.torch(*xs).square().sum() * 0.5  # type: ignore[misc]

    loss = t.compile(loss_of) if compiled else loss_of
    return lambda: t.autograd.grad(loss(*given), wrt)


def jax(row: Row, threads: int) -> Run | None:
    """Return what JAX jits."""
    import jax as j

    if row.jax is None:
        return None
    j.config.update("jax_enable_x64", True)
    given, f = [j.numpy.asarray(a) for a in row.inputs()], row.jax
    if row.is_differentiated:
        wrt = tuple(k for k, a in enumerate(given) if a.dtype.kind == "f")
        f = j.grad(lambda *xs: (row.jax(*xs) ** 2).sum() * 0.5, wrt)  # type: ignore[misc]
    run = j.jit(f)
    return lambda: j.tree.leaves(j.block_until_ready(run(*given)))


PEERS: dict[str, Callable[[Row, int], Run | None]] = {
    "ours": ours,
    "torch eager": torch,
    "torch.compile": lambda row, threads: torch(row, threads, compiled=True),
    "JAX": jax,
}


def serve(peer: str, threads: int) -> None:
    """Make the rows that lines name; a number runs the last one so many times."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    if "torch" in peer:
        import torch as t

        t.set_num_threads(threads)
    known, run = rows(), None
    for line in sys.stdin:
        said = json.loads(line)
        if isinstance(said, str):
            try:
                run = PEERS[peer](known[said], threads)
                for _ in range(3):
                    made = run() if run else []
                sums = [
                    [float(np.abs(a).sum(dtype=np.float64)), a.size]
                    for a in map(np.asarray, _detached(made))
                ]
                print(json.dumps(sums or None), file=answers)
            except Exception as error:  # a library that cannot is told in the table
                print(repr(error)[:300], file=sys.stderr)
                print(json.dumps(None), file=answers)
            continue
        assert run is not None
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(said):
            run()
        taken = time.perf_counter() - wall, time.process_time() - cpu
        print(json.dumps([x / said for x in taken]), file=answers)


def _detached(made: Sequence[Any]) -> Sequence[Any]:
    return [a.detach() if hasattr(a, "detach") else a for a in made]


class Peer:
    """A peer's process, seen from outside."""

    def __init__(self, name: str, threads: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, "--serve", name, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(threads),
        )  # fmt: skip

    def ask(self, what: Any) -> Any:
        """Return its answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(what), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline() or "null")


def race(row: str, peers: dict[str, Peer], rounds: int, clock: int) -> str:
    """Return a line of the table."""
    made = {name: peer.ask(row) for name, peer in peers.items()}
    sides = [name for name in peers if made[name]]
    if "ours" not in sides:
        return f"{row:28} not made"
    steps = {p: max(1, int(TURN / max(peers[p].ask(1)[0], 1e-6))) for p in sides}
    times: dict[str, list[float]] = {p: [] for p in sides}
    for number in range(rounds):
        for p in sides if number % 2 == 0 else sides[::-1]:
            times[p].append(peers[p].ask(steps[p])[clock])
    text = f"{row:28} {1e3 * statistics.median(times['ours']):8.3f} ms"
    best = math.inf
    for p in (p for p in peers if p != "ours"):
        if p not in sides:
            text += f"  {p}: -"
            continue
        ratios = [b / a for a, b in zip(times["ours"], times[p], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        best = min(best, middle)
        same = np.allclose([s for s, _ in made["ours"]], [s for s, _ in made[p]], 1e-3)
        text += f"  {p} {middle:.2f} ({low:.2f}-{high:.2f}){'' if same else ' OTHER'}"
    return f"{text}  {'BEHIND' if best < 1 else ''}"


def main() -> None:
    """Race the rows that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--threads", nargs="*", type=int, default=[1])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--peers", nargs="*", default=[*PEERS])
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.serve[0], int(given.serve[1]))
    names = [n for n in rows() if not given.words or any(w in n for w in given.words)]
    clock = ("wall", "cpu").index(given.clock)
    for threads in given.threads:
        peers = {name: Peer(name, threads) for name in given.peers}
        try:
            for name in names:
                print(threads, race(name, peers, given.rounds, clock), flush=True)
        finally:
            for peer in peers.values():
                peer.process.kill()
                peer.process.wait()


if __name__ == "__main__":
    main()
