"""``python -m tests.benchmarks.adapters [method ...]``: adapters beside peft, on one thread.

    steps     a training step of each method on a small Llama, in turns with peft's
    memory    what ten steps keep at their peak, each side in a process of its own
    base      QLoRA: memory of a base of NF4 beside one of floats
    serving   switching among 100 adapters on disk; rows of eight adapters in one batch

``--only steps memory`` runs some of them. Times of steps are of the processor, for one thread is
all there is to them, and another process on the same core would count on the wall.
"""

from __future__ import annotations

import os

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")

import argparse  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402

from tests.benchmarks.adapters import memory, serving, steps  # noqa: E402
from tests.benchmarks.adapters.sides import METHODS  # noqa: E402

PARTS: dict[str, Callable[[Sequence[str]], None]] = {
    "steps": steps.main,
    "memory": memory.main,
    "base": memory.bases,
    "serving": serving.main,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.adapters", description=__doc__
    )
    parser.add_argument("methods", nargs="*", help=f"of {', '.join(METHODS)}: all")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    chosen = parser.parse_args()
    if unknown := [m for m in chosen.methods if m not in METHODS]:
        parser.error(f"no method {', '.join(unknown)}")
    for part in chosen.only:
        PARTS[part](chosen.methods or METHODS)


if __name__ == "__main__":
    main()
