"""Small calls beside what they compute, and peers: ``python -m tests.benchmarks.small_calls``.

One thread, all in turn; ``--clock cpu`` counts processor time, for machines that others use. The
first line of a table is a call of ``session.prepare``, or our initialiser; the others say how many
times as long they take. Peers are given a tensor or array of their own, and are waited for.
"""

from __future__ import annotations

import os

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import argparse  # noqa: E402
import functools  # noqa: E402
import importlib.util  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

import gradwright as gw  # noqa: E402
from tests.benchmarks.small.nets import Net, nets, of_gradwright, of_jax, of_torch  # noqa: E402
from tests.benchmarks.timing import race, table  # noqa: E402

PREPARED, STEPS = "prepared", 200
"""What others are compared with, and how many steps one fit takes."""
COUNT = 1 << 22
"""How many numbers are drawn at a time."""
Rivals = dict[str, Callable[[], Any]]


def has(*names: str) -> bool:
    """Tell whether all packages are installed."""
    return all(importlib.util.find_spec(name) is not None for name in names)


def calls(net: Net, *, compiled: bool) -> Rivals:
    """Return ways to run a network, warmed up, all with the same outcome."""
    g, y = of_gradwright(net)
    session, feeds, out = gw.Session(g), {"x": net.x}, np.empty((1, *y.shape[1:]), np.float32)
    run = session.prepare(y, ["x"])
    rivals: Rivals = {
        PREPARED: lambda: run(net.x),
        "prepared, out=": lambda: run(net.x, out={y: out}),
        "session.run": lambda: session.run(y, feeds),
        "session.run, out=": lambda: session.run(y, feeds, out={y: out}),
        "g.output": lambda: g.output(feeds, y)["y"],
        "gw.predict(graph)": lambda: gw.predict(g, y, feeds)["y"],
        "gw.predict(session)": lambda: gw.predict(session, y, feeds)["y"],
    }
    for _ in range(20):
        for call in rivals.values():
            call()
    session.wait_for_kernels()
    rivals |= peers(net, g, y, compiled=compiled)
    expected = run(net.x)
    for name, call in rivals.items():
        np.testing.assert_allclose(np.asarray(call()), expected, 1e-3, 1e-4, err_msg=name)
    return rivals


def peers(net: Net, g: gw.Graph, y: gw.Tensor, *, compiled: bool) -> Rivals:
    """Return how others run a network."""
    found: Rivals = {}
    if has("onnxruntime", "onnx"):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "net.onnx")
            gw.onnx.save(g, path, outputs=[y])
            theirs = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        name = theirs.get_inputs()[0].name
        found["ONNX Runtime"] = lambda: theirs.run(None, {name: net.x})[0]
    if has("torch"):
        import torch

        torch.set_num_threads(1)
        eager, x = of_torch(net), torch.from_numpy(net.x)
        found["torch eager"] = torch.no_grad()(lambda: eager(x))
        if compiled:
            quick = torch.compile(eager)
            found["torch.compile"] = torch.no_grad()(lambda: quick(x))
    if has("jax"):
        jitted = of_jax(net)
        found["JAX jit"] = lambda: jitted(net.x).block_until_ready()
    return found


class Listens(gw.Callback):
    """A callback that a step has to tell."""

    def on_step_end(self, trainer: Any, record: gw.train.Record) -> None:
        """Do nothing."""


def training(*, is_equipped: bool = False) -> tuple[Rivals, Rivals]:
    """Return ways to take a step of the policy on 16 rows, and to fit some.

    One that is equipped has two metrics, a schedule, Adam, clipping by norm and a callback.
    """
    net = nets()[0]
    rng = np.random.default_rng(0)
    x, t = rng.standard_normal((16 * STEPS, 8)), rng.standard_normal((16 * STEPS, 4))
    data = {"x": x.astype(np.float32), "t": t.astype(np.float32)}
    batch = {k: v[:16] for k, v in data.items()}
    g, y = of_gradwright(net)
    target = g.placeholder("t", (None, 4))
    loss = gw.loss.mean_squared_error(target, y)
    options: dict[str, Any] = {"optimizer": gw.optim.SGD(1e-3)}
    if is_equipped:
        metrics = {"error": gw.mean(gw.abs(y - target)), "largest": gw.max(gw.abs(y))}
        adam = gw.optim.Adam(gw.schedules.Cosine(1e-3, 1_000_000))
        options = {"optimizer": adam, "metrics": metrics, "clip_norm": 1.0}
        options["callbacks"] = [Listens()]
    trainer = gw.Trainer(g, loss, **options)
    for _ in range(5):
        trainer.step(batch)
    trainer.session.wait_for_kernels()
    taker, feeds = trainer.parts.taker, trainer.parts.objective.feeds(batch)
    step, phase = taker.next(feeds), taker.current().update
    run = phase.prepared(trainer.session, False)
    arrays = [*(feeds[t] for t in phase.needed), *map(np.array, step.numbers)]
    steps: Rivals = {
        PREPARED: lambda: run(*arrays),
        "Trainer.step": lambda: trainer.step(batch),
    }
    fits: Rivals = {"fit": lambda: trainer.fit(data, epochs=1, batch_size=16, progress=False)}
    if has("torch") and not is_equipped:
        import torch
        from torch.nn import functional

        weights = [torch.nn.Parameter(torch.from_numpy(w.copy())) for w in net.weights]
        of_x, of_t = (torch.from_numpy(batch[k]) for k in ("x", "t"))
        optimizer = torch.optim.SGD(weights, 1e-3)

        def torch_step() -> None:
            y = net.forward(functional, of_x, weights)
            optimizer.zero_grad(set_to_none=True)
            functional.mse_loss(y, of_t).backward()
            optimizer.step()

        def loop() -> None:
            for _ in range(STEPS):
                torch_step()

        steps["torch eager"], fits["torch eager, a loop"] = torch_step, loop
    return steps, fits


def drawing() -> dict[str, Rivals]:
    """Return ways to fill 4 million float32, by distribution."""
    shape, rng = (2048, COUNT // 2048), np.random.default_rng(0)
    found: dict[str, Rivals] = {
        "normal": {
            "gw.init.he_normal": lambda: gw.init.he_normal(shape, seed=0),
            "numpy standard_normal": lambda: rng.standard_normal(shape, np.float32),
        },
        "uniform": {
            "gw.init.xavier_uniform": lambda: gw.init.xavier_uniform(shape, seed=0),
            "numpy random": lambda: rng.random(shape, np.float32),
        },
        "normal, cut at 2": {
            "gw.init.truncated_normal": lambda: gw.init.truncated_normal(shape, seed=0)
        },
    }
    if has("torch"):
        import torch

        torch.set_num_threads(1)
        w, init = torch.empty(shape), torch.nn.init
        found["normal"]["torch kaiming_normal_"] = lambda: init.kaiming_normal_(w)
        found["uniform"]["torch xavier_uniform_"] = lambda: init.xavier_uniform_(w)
        found["normal, cut at 2"]["torch trunc_normal_"] = lambda: init.trunc_normal_(w)
    if has("jax"):
        import jax

        key = jax.random.key(0)
        draws = {
            "normal": jax.jit(lambda: jax.random.normal(key, shape)),
            "uniform": jax.jit(lambda: jax.random.uniform(key, shape)),
            "normal, cut at 2": jax.jit(lambda: jax.random.truncated_normal(key, -2.0, 2.0, shape)),
        }
        for kind, draw in draws.items():
            found[kind]["JAX"] = lambda draw=draw: draw().block_until_ready()  # type: ignore[misc]
    return found


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compile", action="store_true", help="torch.compile, too: a minute")
    parser.add_argument("--only", choices=("calls", "training", "drawing"))
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    given = parser.parse_args()
    clock = time.perf_counter if given.clock == "wall" else time.process_time
    timed = functools.partial(race, rounds=given.rounds, clock=clock)
    if given.only in (None, "calls"):
        for net in nets():
            table(net.title, timed(calls(net, compiled=given.compile)), PREPARED)
    if given.only in (None, "training"):
        for is_equipped, how in ((False, "SGD"), (True, "Adam, metrics, schedule, callback")):
            steps, fits = training(is_equipped=is_equipped)
            table(f"a step of the policy, 16 rows, {how}", timed(steps), PREPARED)
            table(f"{STEPS} such steps", timed(fits), "fit")
    if given.only in (None, "drawing"):
        for kind, rivals in drawing().items():
            ours, timings = next(iter(rivals)), timed(rivals)
            table(f"{kind}: {COUNT:,} float32", timings, ours)
            each = (f"{name} {COUNT / t.median / 1e6:,.0f}" for name, t in timings.items())
            print("  million a second: " + ", ".join(each))


if __name__ == "__main__":
    main()
