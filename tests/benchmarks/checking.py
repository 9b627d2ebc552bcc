"""Gradient checks of small networks beside torch's: ``python -m tests.benchmarks.checking``.

Every element of every parameter in float64, in one thread, rivals in turn. A new graph is built
anew for each check. The wrong graph has one activation whose slope is 1 % off; torch's check takes
as long on it, and its differences are timed once.
"""

from __future__ import annotations

import os

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")

import importlib.util  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import gradwright as gw  # noqa: E402
from gradwright.debug.check.report import Report  # noqa: E402
from tests.benchmarks.check_models import MODELS, Model  # noqa: E402
from tests.benchmarks.timing import race, table  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None
ROUNDS = 5
OURS = "gradwright"


def slightly_wrong(model: Model) -> Callable[[Any], Any]:
    """Return the first activation of a model with a gradient that is 1 % too large."""
    right: type[gw.Op] = type(model.activation(gw.Graph().placeholder("x", (1,))).op)

    def vjp(self: gw.Op, gs: Any, ys: Any, xs: Any) -> Any:
        return (right.vjp(self, gs, ys, xs)[0] * 1.01,)

    wrong: Any = type("Wrong", (right,), {"vjp": vjp})
    return lambda x: wrong()(x)


def differing(a: Report, b: Report) -> int:
    """Return of how many elements two reports say different things."""
    return sum(int((p.verdicts != b.parameters[k].verdicts).sum()) for k, p in a.parameters.items())


def rivals_of(model: Model, wrong: Callable[[Any], Any]) -> dict[str, Callable[[], Any]]:
    """Return what is timed on a model."""
    g, loss = model.graph()
    bad, bad_loss = model.graph(wrong)
    rivals: dict[str, Callable[[], Any]] = {
        OURS: lambda: gw.gradient_check(g, loss, model.data),
        "a new graph": lambda: gw.gradient_check(*model.graph(), model.data),
        "a wrong graph": lambda: gw.gradient_check(bad, bad_loss, model.data),
        "by differences": lambda: gw.gradient_check(g, loss, model.data, method="differences"),
    }
    if HAS_TORCH:
        import torch

        function, leaves = model.torch()
        rivals["torch.autograd.gradcheck"] = lambda: torch.autograd.gradcheck(
            function, leaves, eps=model.eps, atol=1e-6, rtol=1e-5
        )
    return rivals


def compare(name: str, model: Model) -> None:
    """Print how long checks take, and whether the fast one says what the slow one does."""
    wrong = slightly_wrong(model)
    timings = race(rivals_of(model, wrong), ROUNDS)
    table(f"{name}: {model.size} parameters", timings, OURS)
    for title, activation in (("right", None), ("wrong", wrong)):
        g, loss = model.graph(activation)
        fast = gw.gradient_check(g, loss, model.data)
        start = time.perf_counter()
        slow = gw.gradient_check(g, loss, model.data, method="differences")
        seconds = time.perf_counter() - start
        blamed = ", ".join(n.name for n in fast.blame) or "nobody"
        print(
            f"  {title}: {differing(fast, slow)} of {model.size} verdicts differ from differences, "
            f"which took {seconds:.2f} s; blames {blamed}"
        )


def main() -> None:
    """Print a table for each model."""
    if HAS_TORCH:
        import torch

        torch.set_num_threads(1)
    for name, make in MODELS.items():
        compare(name, make())


if __name__ == "__main__":
    main()
