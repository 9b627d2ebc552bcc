"""What a step costs beside its time: the first one, the plan, the loop around it, its memory.

Each number comes from a fresh process: ``python -m tests.benchmarks.engine.costs NAME ROW ...``
prints one as JSON. All on one thread.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.engine.process import RATE, environment

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
MB = 2**20


def measure(name: str, *given: str) -> Any:
    """Return what one of this module's measurements says, run in a fresh process on one core.

    Modules are compiled once and for all, as where a package is installed, whatever is set here.
    """
    env = environment(1) | {"PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir(), "bytecode"))}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    out = subprocess.run(
        [sys.executable, "-m", __spec__.name, name, *given],
        capture_output=True,
        text=True,
        env=env,
    )
    if out.returncode:
        said = out.stderr.strip().splitlines() or ["it said nothing"]
        raise RuntimeError(f"{name} {' '.join(given)}: {said[-1]}")
    return json.loads(out.stdout.splitlines()[-1])


def cold(row: str) -> dict[str, float]:
    """Return seconds of ``import gradwright``, of building graph and trainer, and of a first step.

    Making the random weights is left out. ``cpu`` is the processor time of building and step.
    """
    start = time.perf_counter()
    import gradwright  # noqa: F401

    imported = time.perf_counter()
    model = _model(row)
    batch = model.batch()
    began, used = time.perf_counter(), time.process_time()
    trainer = model.trainer()
    built = time.perf_counter()
    trainer.step(batch)
    done, used = time.perf_counter(), time.process_time() - used
    return {"import": imported - start, "build": built - began, "step": done - built, "cpu": used}


def plan(row: str) -> dict[str, float]:
    """Return the number of nodes of a training step and the microseconds a node of its plan takes.

    The median of five plans of the same graph, each by a new session; this thread's time alone.
    """
    import gradwright as gw
    from tests.benchmarks.engine.peers import training_step

    model = _model(row)
    loss, rate, updates = training_step(model)
    shapes = {k: a.shape for k, a in model.batch().items()} | {rate.name: ()}
    taken = []
    for _ in range(5):
        with gw.Session(loss.graph) as session:
            start = time.thread_time()
            made = session.plan(loss, shapes, updates, training=True)
            taken.append(time.thread_time() - start)
            nodes = len(made.order)
    return {"nodes": nodes, "us": statistics.median(taken) / nodes * 1e6}


def fit(row: str, rounds: int = 15) -> dict[str, float]:
    """Return microseconds of this thread for a step in ``Trainer.fit``, unrolled, and bare.

    ``extra`` is what fit adds to the fastest bare step: the median of the rounds' differences. It
    includes ``data``, what making the batches takes, which the bare step is given; ``gathered`` is
    that of shuffled rows.
    """
    import numpy as np

    from gradwright.data import batches
    from tests.benchmarks.engine.peers import PEERS, fastest, settle

    model = _model(row)
    chosen = list(PEERS["ours"].variants(model))
    for variant in chosen:
        variant.set_rate(RATE)
        for _ in range(30):
            variant.step()
        variant.settle()
    bare = fastest(chosen).step
    trainer, batch = model.trainer(), model.batch()
    trainer.optimizer.learning_rate = RATE
    size, steps = next(iter(batch.values())).shape[0], 200
    data = {k: np.concatenate([a] * steps) for k, a in batch.items()}
    loop = functools.partial(trainer.fit, data, batch_size=size, shuffle=False, progress=False)

    def run_bare() -> None:
        for _ in range(steps):
            bare()

    def run_data(shuffle: bool) -> None:
        source = batches(trainer.graph, data, trainer.placeholders, size, shuffle=shuffle)
        for _ in source.epoch(0):
            pass

    sides: dict[str, Callable[[], Any]] = {
        "fit": loop,
        "unrolled": functools.partial(loop, unroll=8),
        "bare": run_bare,
        "data": functools.partial(run_data, False),
        "gathered": functools.partial(run_data, True),
    }
    for side in sides.values():
        side()
    settle(trainer.session)
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides) if number % 2 == 0 else list(sides)[::-1]:
            start = time.thread_time()
            sides[name]()
            taken[name].append((time.thread_time() - start) / steps * 1e6)
    found = {name: statistics.median(times) for name, times in taken.items()}
    extra = statistics.median(a - b for a, b in zip(taken["fit"], taken["bare"], strict=True))
    return found | {"extra": extra}


def calls(row: str) -> dict[str, int]:
    """Return how many functions a warm ``Trainer.step`` calls: those of Python, and of C."""
    from tests.benchmarks.engine.peers import settle

    model = _model(row)
    trainer, batch = model.trainer(), model.batch()
    for _ in range(30):
        trainer.step(batch)
    settle(trainer.session)
    for _ in range(3):
        trainer.step(batch)
    found: Counter[str] = Counter()
    sys.setprofile(lambda frame, event, arg: found.update([event]))
    try:
        trainer.step(batch)
    finally:
        sys.setprofile(None)
    return {"python": found["call"], "c": found["c_call"] - 1}  # but for the last line's own


def allocations(row: str) -> dict[str, Any]:
    """Return how many arrays above 1 kB a steady step allocates, and the largest sizes."""
    from tests.benchmarks.engine.allocations import count_allocations
    from tests.benchmarks.engine.peers import PEERS

    *_, bare = PEERS["ours"].variants(_model(row))
    for _ in range(30):
        bare.step()
    bare.settle()
    for _ in range(3):
        bare.step()
    counter = count_allocations()
    with counter.counted():
        bare.step()
    found = counter.above(1000)
    return {"count": len(found), "bytes": sum(found), "largest": found[:5]}


def memory(row: str, peer: str) -> dict[str, float]:
    """Return MiB resident at the peak of ten steps, above import and above the built model."""
    from tests.benchmarks.engine.peers import PEERS, torch_eager

    model = _model(row)
    for name in PEERS[peer].needs(model):
        importlib.import_module(name)
    if peer == "torch":
        import torch

        torch.set_num_threads(1)
        variants = torch_eager(model, ("fused",))
    else:
        variants = PEERS[peer].variants(model)
    imported = resident("VmRSS")
    *_, chosen = variants
    built = resident("VmRSS")
    CLEAR.write_text("5")  # the high-water mark falls to what is resident
    for _ in range(10):
        chosen.step()
    peak = resident("VmHWM")
    return {
        "above import": (peak - imported) / MB,
        "above build": (peak - built) / MB,
        "peak": peak / MB,
    }


def resident(field: str) -> int:
    """Return a size of /proc/self/status in bytes."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in {STATUS}")


def _model(row: str) -> Any:
    """Return a model whose arrays are made already."""
    from tests.benchmarks.engine.models import MODELS

    model = MODELS[row]()
    for name in ("weights", "batch"):
        arrays = getattr(model, name)()
        setattr(model, name, lambda arrays=arrays: arrays)
    return model


if __name__ == "__main__":
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])  # before numpy is imported
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
