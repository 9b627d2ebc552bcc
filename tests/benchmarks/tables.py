"""Steps on large tables beside torch and JAX: recommenders and skip-grams, another batch each step.

    python -m tests.benchmarks.tables [row ...] [--threads 1 2] [--rounds 9] [--clock cpu]

Peers run in processes of their own and take turns; ratios are peer/ours, medians and quartiles of
rounds. torch has ``sparse=True`` where its optimizer takes that, and JAX writes the rows of SGD in
place, as it is donated the table. What bounds a step is printed beside: bytes of table that it has
to read and write, and the time of its products at 60 GF/s.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.benchmarks.engine.process import environment

BATCHES, TURN = 16, 0.3
HIDDEN, FIELDS = 128, 8
Step = Callable[[int], float]


@dataclass(frozen=True)
class Row:
    """A recommender, whose fields share a table, or skip-grams with negative samples."""

    kind: str
    n: int
    width: int
    optimizer: str
    rate: float
    batch: int = 1024

    def arrays(self) -> dict[str, Any]:
        """Return first values."""
        rng = np.random.default_rng(0)
        shapes = {"table": (self.n, self.width)}
        if self.kind == "recommender":
            shapes |= {"w1": (FIELDS * self.width, HIDDEN), "w2": (HIDDEN, 1)}
        else:
            shapes |= {"out": (self.n, self.width)}
        return {k: rng.standard_normal(s, np.float32) * np.float32(0.05) for k, s in shapes.items()}

    def batches(self) -> list[dict[str, Any]]:
        """Return batches; ids follow a power law, as words and items do."""
        rng = np.random.default_rng(1)

        def ids(*shape: int) -> Any:
            return (self.n * rng.random(shape) ** 3).astype(np.int64)

        if self.kind == "recommender":
            ys = rng.standard_normal((BATCHES, self.batch, 1)).astype(np.float32)
            return [{"ids": ids(self.batch, FIELDS), "y": y} for y in ys]
        return [{"ids": ids(self.batch), "beside": ids(self.batch, 6)} for _ in range(BATCHES)]

    def looked_up(self) -> int:
        """Return how many rows a step reads."""
        return self.batch * (FIELDS if self.kind == "recommender" else 7)

    def bound(self) -> str:
        """Return what a step cannot do without."""
        state = {"SGD": 0, "AdaGrad": 1}.get(self.optimizer, 2)
        rows = self.n if self.optimizer == "Adam" else self.looked_up()
        moved = rows * self.width * 4 * (2 * (1 + state)) / 1e6
        width = FIELDS * self.width if self.kind == "recommender" else 0
        return f"{moved:.1f} MB of rows, products {6 * self.batch * width * HIDDEN / 60e6:.2f} ms"


ROWS = {
    "sgd": Row("recommender", 1_000_000, 64, "SGD", 0.1),
    "adagrad": Row("recommender", 1_000_000, 64, "AdaGrad", 0.01),
    "lazy adam": Row("recommender", 1_000_000, 64, "SparseAdam", 1e-3),
    "adam": Row("recommender", 1_000_000, 64, "Adam", 1e-3),
    "word2vec": Row("skip-grams", 300_000, 100, "SGD", 0.025),
    "word2vec 1M": Row("skip-grams", 1_000_000, 100, "SGD", 0.025),
}
THEIRS = {"AdaGrad": "Adagrad"}


def ours(row: Row) -> Step:
    """Return the step of a trainer."""
    import gradwright as gw

    g, batches = gw.Graph(), row.batches()
    x = {k: g.placeholder(k, a.shape, a.dtype) for k, a in batches[0].items()}
    w = {k: g.variable(k, init=a) for k, a in row.arrays().items()}
    u = gw.nn.embedding(x["ids"], w["table"])
    if row.kind == "recommender":
        h = gw.nn.relu(u.reshape((-1, FIELDS * row.width)) @ w["w1"])
        loss = ((h @ w["w2"] - x["y"]) ** 2.0).mean()
    else:
        v = gw.nn.embedding(x["beside"], w["out"])
        score = (v * u.expand_dims(1)).sum(-1)
        loss = gw.nn.softplus(gw.concat([-score[:, :1], score[:, 1:]], axis=1)).mean()
    made = getattr(gw.optim, row.optimizer)(row.rate)
    if row.optimizer == "AdaGrad":
        made.eps = 1e-10
    trainer = gw.Trainer(g, loss, optimizer=made)
    return lambda i: trainer.step(batches[i]).metrics["loss"]


def torch(row: Row, *, compiled: bool = False) -> Step:
    """Return torch's eager step, its loss compiled or not."""
    import torch as t

    w = {k: t.from_numpy(a).requires_grad_() for k, a in row.arrays().items()}
    batches = [{k: t.from_numpy(a) for k, a in b.items()} for b in row.batches()]
    tables = [w[k] for k in ("table", "out") if k in w]
    rest = [p for k, p in w.items() if k in ("w1", "w2")]
    name = THEIRS.get(row.optimizer, row.optimizer)
    sparse = name != "Adam"
    if name == "SparseAdam":
        made = [t.optim.SparseAdam(tables, row.rate), t.optim.Adam(rest, row.rate, fused=True)]
    else:
        kind = {"fused": True} if name == "Adam" else {}
        made = [getattr(t.optim, name)([*tables, *rest], row.rate, **kind)]

    def loss_of(x: Any) -> Any:
        u = t.nn.functional.embedding(x["ids"], w["table"], sparse=sparse)
        if row.kind == "recommender":
            h = t.relu(u.reshape(-1, FIELDS * row.width) @ w["w1"])
            return ((h @ w["w2"] - x["y"]) ** 2).mean()
        v = t.nn.functional.embedding(x["beside"], w["out"], sparse=sparse)
        score = (v * u[:, None]).sum(-1)
        return t.nn.functional.softplus(t.cat([-score[:, :1], score[:, 1:]], 1)).mean()

    loss_of = t.compile(loss_of) if compiled else loss_of

    def step(i: int) -> float:
        for optimizer in made:
            optimizer.zero_grad(set_to_none=True)
        loss = loss_of(batches[i])
        loss.backward()
        for optimizer in made:
            optimizer.step()
        return float(loss.detach())

    return step


def jax(row: Row) -> Step:
    """Return JAX's step, jitted and donated: rows are written for SGD, else all is dense."""
    import jax
    import jax.numpy as jnp

    batches = [{k: jnp.asarray(a) for k, a in b.items()} for b in row.batches()]
    names = {"table": "ids", "out": "beside"}
    in_rows = row.optimizer == "SGD"

    def loss_of(p: Any, x: Any) -> Any:
        u = p["table"] if in_rows else p["table"][x["ids"]]
        if row.kind == "recommender":
            h = jax.nn.relu(u.reshape(-1, FIELDS * row.width) @ p["w1"])
            return ((h @ p["w2"] - x["y"]) ** 2).mean()
        v = p["out"] if in_rows else p["out"][x["beside"]]
        score = (v * u[:, None]).sum(-1)
        return jax.nn.softplus(jnp.concatenate([-score[:, :1], score[:, 1:]], 1)).mean()

    def update(state: Any, x: Any) -> Any:
        p, m, v, n = state
        if in_rows:
            given = {k: a[x[names[k]]] if k in names else a for k, a in p.items()}
            loss, g = jax.value_and_grad(loss_of)(given, x)
            moved = {
                k: a.at[x[names[k]]].add(-row.rate * g[k]) if k in names else a - row.rate * g[k]
                for k, a in p.items()
            }
            return (moved, m, v, n), loss
        loss, g = jax.value_and_grad(loss_of)(p, x)
        tree, n = jax.tree.map, n + 1
        if row.optimizer == "AdaGrad":
            v = tree(lambda a, b: a + b * b, v, g)
            p = tree(lambda w, a, b: w - row.rate * b / (jnp.sqrt(a) + 1e-10), p, v, g)
            return (p, m, v, n), loss
        m = tree(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = tree(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        size, scale = row.rate / (1 - 0.9**n), jnp.sqrt(1 - 0.999**n)
        p = tree(lambda w, a, b: w - size * a / (jnp.sqrt(b) / scale + 1e-8), p, m, v)
        return (p, m, v, n), loss

    run = jax.jit(update, donate_argnums=0)
    p = {k: jnp.asarray(a) for k, a in row.arrays().items()}
    kept = [jax.tree.map(jnp.zeros_like, p) if not in_rows else () for _ in range(2)]
    state = (p, *kept, jnp.float32(0))

    def step(i: int) -> float:
        nonlocal state
        state, loss = run(state, batches[i])
        return float(loss)

    return step


PEERS: dict[str, Callable[[Row], Step]] = {
    "ours": ours,
    "torch eager": torch,
    "torch.compile": lambda row: torch(row, compiled=True),
    "JAX": jax,
}


def serve(peer: str, row: str, threads: int) -> None:
    """Run steps as a line asks for, and answer with the time of each; the first are losses."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    if "torch" in peer:
        import torch

        torch.set_num_threads(threads)
    step, at = PEERS[peer](ROWS[row]), 0
    print(json.dumps([step(i) for i in range(3)]), flush=True)
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            step(at := (at + 1) % BATCHES)
        taken = [time.perf_counter() - wall, time.process_time() - cpu]
        print(json.dumps([t / int(line) for t in taken]), flush=True)


def race(row: str, threads: int, rounds: int, clock: int) -> str:
    """Return a line of the table."""
    found: dict[str, subprocess.Popen[str]] = {}
    losses: dict[str, Any] = {}
    times: dict[str, list[float]] = {}

    def ask(peer: str, steps: int) -> float:
        process = found[peer]
        assert process.stdin is not None and process.stdout is not None
        print(steps, file=process.stdin, flush=True)
        return float(json.loads(process.stdout.readline())[clock])

    try:
        for peer in PEERS:
            command = [sys.executable, "-m", __spec__.name, "--serve", peer, row, str(threads)]
            found[peer] = process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                stderr=subprocess.DEVNULL, env=environment(threads),
            )  # fmt: skip
            assert process.stdout is not None
            said = process.stdout.readline()
            losses[peer] = json.loads(said) if said else None
            if said:
                ask(peer, 12)
        sides = [p for p in PEERS if losses[p]]
        steps = {p: max(2, int(TURN / ask(p, 4))) for p in sides}
        for number in range(rounds):
            for peer in sides if number % 2 == 0 else sides[::-1]:
                times.setdefault(peer, []).append(ask(peer, steps[peer]))
    finally:
        for process in found.values():
            process.kill()
            process.wait()
    text = f"{row:12} {threads} {1e3 * statistics.median(times['ours']):8.2f} ms"
    for peer in [p for p in PEERS if p != "ours"]:
        ratios = [b / a for a, b in zip(times["ours"], times.get(peer, []), strict=False)]
        if not ratios:
            text += f"  {peer}: none"
            continue
        low, middle, high = statistics.quantiles(ratios, n=4)
        same = np.allclose(losses["ours"], losses[peer], rtol=1e-4)
        text += f"  {peer} {middle:.2f} ({low:.2f}-{high:.2f}){'' if same else ' OTHER LOSS'}"
    return f"{text}  {ROWS[row].bound()}"


def main() -> None:
    """Race the rows that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", default=[*ROWS])
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(*given.serve[:2], int(given.serve[2]))
    for threads in given.threads:
        for row in given.rows:
            clock = ("wall", "cpu").index(given.clock)
            print(race(row, threads, given.rounds, clock), flush=True)


if __name__ == "__main__":
    main()
