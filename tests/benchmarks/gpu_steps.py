"""Training steps on a GPU beside torch.compile: each a graph here, CUDA graphs there, too.

    python -m tests.benchmarks.gpu_steps [RESULTS.md] [--device cuda-sim] [--rows a ...]

Rows are those of the engine's benchmark. A step is fed from the host and gives its loss back; the
times are medians of 50 on the wall clock, the peers in turns. The table is added to a file if one
is named. ``--device cuda-sim`` shows on a small row that all of it runs; its times say nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gradwright.errors import LoweringError
from tests.benchmarks.engine.models import MODELS, Model

ROWS = "a", "b", "c", "d", "e", "f", "g"
WARM, TIMES = 5, 50

Step = Callable[[], float]


def ours(model: Model, device: str) -> Step:
    """Return our step."""
    trainer, batch = model.trainer(device=device), model.batch()
    return lambda: float(trainer.step(batch).metrics["loss"])


def compiled(model: Model) -> Step:
    """Return torch's step: forward and backward compiled for few launches, a fused optimizer."""
    import torch

    with _on_gpu(torch):
        loss_of, trained = model.torch_model()
    made = getattr(torch.optim, model.optimizer)(trained, lr=model.rate, fused=True)
    fast = torch.compile(loss_of, mode="reduce-overhead")

    def step() -> float:
        made.zero_grad(set_to_none=True)
        loss = fast()
        loss.backward()
        made.step()
        return float(loss.detach())

    return step


@contextlib.contextmanager
def _on_gpu(torch: Any) -> Iterator[None]:
    """Have models put their arrays on the GPU."""
    held = torch.from_numpy
    torch.from_numpy = lambda array: held(array).cuda()
    try:
        yield
    finally:
        torch.from_numpy = held


def row(name: str, device: str, times: int) -> str:
    """Return a line of the table."""
    model = MODELS[name]()
    try:
        steps = {"ours": ours(model, device)}
        losses = {"ours": steps["ours"]()}
    except LoweringError as error:
        return f"| {model.title} | {error.problem} | | |"
    with contextlib.suppress(ModuleNotFoundError):
        if device.startswith("cuda:") or device == "cuda":
            steps["torch"] = compiled(model)
            losses["torch"] = steps["torch"]()
    apart = max(losses.values()) - min(losses.values())
    assert apart <= 1e-2 * max(1.0, abs(losses["ours"])), f"{name}: first losses {losses}"
    taken: dict[str, list[float]] = {peer: [] for peer in steps}
    for n in range(WARM + times):
        for peer, step in steps.items():
            began = time.perf_counter()
            step()
            if n >= WARM:
                taken[peer].append(time.perf_counter() - began)
    ms = {peer: 1e3 * float(np.median(found)) for peer, found in taken.items()}
    beside = f"{ms['torch']:.3f} | {ms['torch'] / ms['ours']:.2f}" if "torch" in ms else "|"
    return f"| {model.title} | {ms['ours']:.3f} | {beside} |"


def main() -> None:
    """Print the table, and add it to a file if one is named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", nargs="*", default=ROWS)
    parser.add_argument("--times", type=int, default=TIMES)
    asked = parser.parse_args()
    lines = [
        "",
        "| step | ms | torch.compile, CUDA graphs: ms | its time / ours |",
        "|---|---|---|---|",
    ]
    for name in asked.rows:
        lines.append(row(name, asked.device, asked.times))
        print(lines[-1], flush=True)
    if asked.path is not None:
        with asked.path.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
