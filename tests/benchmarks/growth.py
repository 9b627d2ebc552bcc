"""How times grow with the graph and with its parameters: ``python -m tests.benchmarks.growth``.

    python -m tests.benchmarks.growth               1,000 to 200,000 nodes, 1 to 500 M parameters
    python -m tests.benchmarks.growth chain --most 20000    one kind, up to 20,000 nodes
    python -m tests.benchmarks.growth --peers       torch.compile and jax.jit on a long chain

Times are processor time of this process, one thread. An exponent is the slope of log time over log
size on the upper half of the sizes: 1 is linear, and what is above MOST is marked.
"""

from __future__ import annotations

import argparse
import functools
import gc
import math
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.cpu.threads.background import BACKGROUND
from gradwright.graph import Tensor
from tests.fuzz import SMOOTH
from tests.plan.memory_models import decoder

NODES = (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000)
PARAMETERS = (1, 3, 10, 30, 100, 300, 500)
"""Millions."""
MOST = 1.15
"""The largest exponent that counts as linear."""
Built = tuple[gw.Graph, list[Tensor], Mapping[str, Any]]
Lap = Callable[[str, Callable[[], Any]], Any]


def chain(n: int) -> Built:
    """Functions of elements one after the other, drawn from twenty: no two parts are alike."""
    rng, g = random.Random(0), gw.Graph()
    y = x = g.placeholder("x", (64,))
    functions = list(SMOOTH.values())
    for _ in range(n):
        y = rng.choice(functions)(y)
    return g, [y.sum(), x], {"x": np.linspace(-1, 1, 64, dtype="f4")}


def wide(n: int) -> Built:
    """Small networks beside each other, each with a variable of its own."""
    g, sums = gw.Graph(), []
    x = g.placeholder("x", (64,))
    for _ in range(n // 7):
        w = g.variable(f"w{len(sums)}", (64,), 0.5)
        h = gw.tanh(x * w)
        sums.append((gw.exp(h * 0.1) - h).sum())
    return g, [gw.add_n(*sums), *g.variables], {"x": np.linspace(-1, 1, 64, dtype="f4")}


def recurrent(n: int) -> Built:
    """A recurrent cell, unrolled."""
    rng, g = np.random.default_rng(0), gw.Graph()
    w, u = (g.variable(k, init=rng.normal(0, 0.1, (16, 16)).astype("f4")) for k in "wu")
    x = g.placeholder("x", (4, 16))
    h = x
    for _ in range(n // 4):
        h = gw.tanh(h @ w + x @ u)
    return g, [h.sum(), w, u], {"x": rng.normal(size=(4, 16)).astype("f4")}


def layers(n: int) -> Built:
    """The layers of a decoder, with gradients from the start."""
    one, two = (len(decoder(k)[0].all_nodes) for k in (1, 2))
    g, outs = decoder(max((n - one) // (two - one), 1))
    ids = np.arange(16).reshape(2, 8)
    return g, outs[:1] + list(g.variables), {"ids": ids, "t": ids}


def scattered(n: int) -> Built:
    """Random functions of two of the last hundred values: a program of the fuzzer, blown up."""
    rng, g = random.Random(1), gw.Graph()
    x = g.placeholder("x", (8, 8))
    known, functions = [x], list(SMOOTH.values())
    for _ in range(n // 3):
        a, b = rng.choice(known[-100:]), rng.choice(known[-100:])
        made = gw.tanh(a) * b if rng.random() < 0.3 else rng.choice(functions)(a) + b
        known.append(gw.sin(made))
    return g, [gw.add_n(*known[-100:]).sum(), x], {"x": np.ones((8, 8), "f4")}


KINDS: dict[str, Callable[[int], Built]] = {
    f.__name__: f for f in (chain, wide, recurrent, layers, scattered)
}
"""Graphs of about n nodes: the graph, a loss and what it is differentiated by, and feeds."""


def nodes(kind: Callable[[int], Built], n: int, lap: Lap) -> int:
    """Take a graph through all that is done with graphs; returns how many nodes it has."""
    from gradwright_widgets.drawing.spec import graph_spec

    g, (loss, *wrt), feeds = lap("build", lambda: kind(n))
    n = len(g.nodes)
    ys = [loss, *lap("gradient", lambda: gw.gradients(loss, wrt))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.gw"
        lap("save", lambda: gw.save(g, path))
        lap("load", lambda: gw.load(path))
    lap("draw", lambda: graph_spec(g))
    session = gw.Session(g)
    plan = lap("plan", lambda: session.plan(ys, {k: v.shape for k, v in feeds.items()}))
    lap("first", lambda: session.run(ys, feeds))
    lap("numpy", lambda: session.run(ys, feeds))

    def compiled() -> None:
        plan.ask_for_kernels()
        BACKGROUND.wait()

    lap("kernels", compiled)
    lap("bound", lambda: session.run(ys, feeds))
    lap("step", lambda: [session.run(ys, feeds) for _ in range(3)])
    return n


def parameters(millions: int, lap: Lap) -> int:
    """Take a network of wide layers through initialisation, a file, and steps of SGD."""
    n, width = millions * 1_000_000, 1024 if millions >= 10 else 256
    g = gw.Graph()
    x = g.placeholder("x", (4, width))

    def made() -> gw.Tensor:
        h = x
        for i in range(max(n // width**2, 1)):
            h = gw.tanh(h @ g.variable(f"w{i}", (width, width), gw.init.glorot_uniform()))
        return h

    h = lap("initialise", made)
    trainer = gw.Trainer(g, (h * h).mean(), gw.optim.SGD(1e-3))
    feeds = {x: np.ones((4, width), "f4")}
    lap("first", lambda: trainer.step(feeds))
    for _ in range(4):
        trainer.step(feeds)
    BACKGROUND.wait()
    lap("step", lambda: trainer.step(feeds))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.gw"
        lap("save", lambda: gw.save(g, path))
        lap("load", lambda: gw.load(path))
    return n


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Return the slope of log time over log size on the upper half of the sizes.

    >>> round(exponent([1, 2, 4, 8], [9.0, 9.0, 16.0, 64.0]), 6)
    2.0
    """
    half = len(sizes) // 2
    xs, ys = (np.log(np.maximum(v[half:], 1e-6)) for v in (sizes, times))
    return math.nan if len(xs) < 2 else float(np.polyfit(xs, ys, 1)[0])


def table(title: str, sizes: Sequence[int], case: Callable[[int, Lap], int]) -> bool:
    """Print the times of all sizes and their exponents; returns whether all are linear."""
    found: dict[str, list[float]] = {}
    counts: list[int] = []

    def lap(name: str, do: Callable[[], Any]) -> Any:
        begun = time.process_time()
        made = do()
        found.setdefault(name, []).append(time.process_time() - begun)
        return made

    for size in sizes:
        gc.collect()
        counts.append(case(size, lap))
        last = "  ".join(f"{name} {times[-1]:.3f}" for name, times in found.items())
        print(f"{title} {counts[-1]:>11,}: {last}", flush=True)
    slopes = {name: exponent(counts, times) for name, times in found.items()}
    said = "  ".join(f"{k} {s:.2f}{' !' * (s > MOST)}" for k, s in slopes.items())
    print(f"{title}   exponents: {said}\n", flush=True)
    return all(s <= MOST for s in slopes.values())


def peers(n: int) -> None:
    """Print what compiling a chain of n functions takes here, in torch.compile and in jax.jit."""
    import jax
    import torch

    x = np.linspace(-1, 1, 64, dtype="f4")

    def run(name: str, call: Callable[[], Any]) -> None:
        begun = time.process_time()
        call()
        print(f"{name:<14} {n:,} functions: {time.process_time() - begun:.1f} s", flush=True)

    def through(lib: Any) -> Callable[[Any], Any]:
        rng = random.Random(0)
        names = [rng.choice(("tanh", "sin", "cos", "abs")) for _ in range(n)]

        def f(y: Any) -> Any:
            for name in names:
                y = getattr(lib, name)(y)
            return y

        return f

    g = gw.Graph()
    y = through(gw)(g.placeholder("x", (64,)))
    session = gw.Session(g, kernels="wait")
    run("gradwright", lambda: session.run(y, {"x": x}))
    run("jax.jit", lambda: jax.jit(through(jax.numpy))(x).block_until_ready())
    run("torch.compile", lambda: torch.compile(through(torch))(torch.from_numpy(x)))


def main(given: Sequence[str] | None = None) -> int:
    """Print times and exponents; returns 1 where one is above MOST."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help=f"{', '.join(KINDS)}, parameters; default: all")
    parser.add_argument("--most", type=int, default=NODES[-1], help="nodes of the largest graph")
    parser.add_argument("--millions", type=int, default=PARAMETERS[-1], help="most parameters")
    parser.add_argument("--peers", type=int, nargs="?", const=2000, help="functions of a chain")
    chosen = parser.parse_args(given)
    if chosen.peers:
        peers(chosen.peers)
        return 0
    good = True
    for kind in chosen.kinds or [*KINDS, "parameters"]:
        if kind == "parameters":
            sizes = [n for n in PARAMETERS if n <= chosen.millions]
            good &= table(f"{kind:<10}", sizes, parameters)
            continue
        sizes = [n for n in NODES if n <= chosen.most]
        good &= table(f"{kind:<10}", sizes, functools.partial(nodes, KINDS[kind]))
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
