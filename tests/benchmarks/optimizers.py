"""Updates of two million weights beside torch.optim: ``python -m tests.benchmarks.optimizers``.

Gradients are fed, so that only the update is timed, on one core: eight matrices of 500 by 500.
torch runs with ``foreach`` and, where it has that for the CPU, with ``fused``.
"""

from __future__ import annotations

import os

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

from collections.abc import Callable, Iterator  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

import gradwright as gw  # noqa: E402
from gradwright import optim  # noqa: E402
from gradwright.train.slots import Slots  # noqa: E402
from tests.benchmarks.checking import HAS_TORCH  # noqa: E402
from tests.benchmarks.timing import race, table  # noqa: E402

COUNT, SHAPE = 8, (500, 500)
FUSED = {"SGD", "Adam", "AdamW", "Adagrad"}
RIVALS: dict[str, tuple[optim.Optimizer, str, dict[str, Any]]] = {
    "SGD": (optim.SGD(1e-3), "SGD", {}),
    "SGD, momentum": (optim.SGD(1e-3, momentum=0.9), "SGD", {"momentum": 0.9}),
    "Nesterov": (optim.Nesterov(1e-3), "SGD", {"momentum": 0.9, "nesterov": True}),
    "AdaGrad": (optim.AdaGrad(1e-3), "Adagrad", {}),
    "AdaDelta": (optim.AdaDelta(), "Adadelta", {}),
    "RMSProp": (optim.RMSProp(1e-3), "RMSprop", {}),
    "RMSProp, centered, momentum": (
        optim.RMSProp(1e-3, centered=True, momentum=0.9),
        "RMSprop",
        {"centered": True, "momentum": 0.9},
    ),
    "Adam": (optim.Adam(1e-3), "Adam", {}),
    "AdamW": (optim.AdamW(1e-3), "AdamW", {}),
    "AMSGrad": (optim.AMSGrad(1e-3), "Adam", {"amsgrad": True}),
    "AdaMax": (optim.AdaMax(1e-3), "Adamax", {}),
    "Nadam": (optim.Nadam(1e-3, momentum_decay=0.004), "NAdam", {}),
    "RAdam": (optim.RAdam(1e-3), "RAdam", {}),
    "AdaBelief": (optim.AdaBelief(1e-3), "", {}),
    "LAMB": (optim.LAMB(1e-3), "", {}),
    "Lion": (optim.Lion(1e-3), "", {}),
    "Adafactor": (optim.Adafactor(1e-3), "Adafactor", {}),
    "Adam8bit": (optim.Adam8bit(1e-3), "", {}),
    "Muon": (optim.Muon(1e-3), "Muon", {}),
    "ScheduleFreeAdamW": (optim.ScheduleFreeAdamW(1e-3), "", {}),
}


def arrays(seed: int) -> list[Any]:
    """Return eight matrices."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(SHAPE).astype("float32") for _ in range(COUNT)]


def ours(optimizer: optim.Optimizer) -> Callable[[], Any]:
    """Return what updates all weights, once its kernels are there."""
    g = gw.Graph()
    state, updates = Slots(g, g.values), {}
    rate, step = g.placeholder("rate", (), "float64"), g.placeholder("step", (), "int64")
    scalars = {k: g.constant(v, dtype="float64") for k, v in optimizer.scalars().items()}
    scalars |= {"learning_rate": rate, "step": step}
    feeds: dict[Any, Any] = {rate: np.array(1e-3), step: np.array(100)}
    for i, start in enumerate(arrays(0)):
        w, grad = g.variable(f"w{i}", init=start), g.placeholder(f"g{i}", SHAPE)
        feeds[grad] = arrays(1)[i]
        slots = state.slots(w, optimizer)
        moved = optimizer.update(w, grad, slots, scalars)
        updates.update(zip((w, *slots), moved, strict=True))
    used = {n.outputs[0] for n in gw.graph.ancestors(list(updates.values()))}
    fed = {t: a for t, a in feeds.items() if t in used}
    session = gw.Session(g)
    run = session.prepare([], list(fed), updates, training=True)
    given = list(fed.values())
    run(*given)
    session.wait_for_kernels()
    return lambda: run(*given)


def torch_s(name: str, options: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield torch's updates: of each tensor together, and in one kernel."""
    import torch

    ways = {"foreach": {"foreach": True}}
    if name in FUSED:
        ways["fused"] = {"fused": True}
    if name == "Muon":
        ways = {"bfloat16": {}}
    for way, chosen in ways.items():
        params = [torch.nn.Parameter(torch.from_numpy(a)) for a in arrays(0)]
        for p, grad in zip(params, arrays(1), strict=True):
            p.grad = torch.from_numpy(grad)
        yield f"torch, {way}", getattr(torch.optim, name)(params, **options, **chosen).step


def main() -> None:
    """Print a table for each optimizer."""
    if HAS_TORCH:
        import torch

        torch.set_num_threads(1)
    for title, (optimizer, theirs, options) in RIVALS.items():
        rivals = {"gradwright": ours(optimizer)}
        if HAS_TORCH and theirs:
            rivals |= dict(torch_s(theirs, options))
        table(f"{title}, 2 M weights", race(rivals), "gradwright")
    rivals = {"Adam": ours(optim.Adam(1e-3)), "Adam8bit": ours(optim.Adam8bit(1e-3))}
    table("8 bits beside 32, 2 M weights", race(rivals), "Adam")


if __name__ == "__main__":
    main()
