"""What training adapters keeps in memory, each measured in a fresh process.

``python -m tests.benchmarks.adapters.memory ours LoRA`` prints one as JSON.
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.benchmarks.engine.costs import CLEAR, MB, resident
from tests.benchmarks.engine.process import environment

STEPS = 10
BASES = ("float32", "nf4", "nf4_double")


def main(methods: Sequence[str]) -> None:
    """Print MiB at the peak of ten steps, of both sides."""
    print(f"\nMiB at the peak of {STEPS} steps, and of that above what the imports take")
    print(f"{'method':<24}{'ours':>16}{'peft':>16}{'peft/ours':>11}")
    for name in methods:
        ours, theirs = (measured(side, name) for side in ("ours", "peft"))
        print(
            f"{name:<24}{_pair(ours):>16}{_pair(theirs):>16}"
            f"{theirs['above import'] / ours['above import']:>10.2f}x",
            flush=True,
        )


def bases(methods: Sequence[str]) -> None:
    """Print what the base's weights take, and a step at its peak, of floats and of NF4."""
    print("\nLoRA on bases: bytes of the base's weights, MiB above imports at the peak of a step")
    for kind in BASES:
        found = measured("base", kind)
        print(f"{kind:<24}{found['weights']:>12,} bytes{found['bits']:>8.3f} bits a weight of a "
              f"product{found['above import']:>8.0f} MiB")  # fmt: skip


def measured(side: str, name: str) -> dict[str, float]:
    """Return what a fresh process says of itself."""
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, side, name],
        capture_output=True,
        text=True,
        env=environment(1),
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _pair(found: dict[str, float]) -> str:
    return f"{found['peak']:.0f} ({found['above import']:.0f})"


# -- inside ----------------------------------------------------------------------------------------


def inside(side: str, name: str) -> dict[str, Any]:
    """Run ten steps and return what they took at their peak."""
    if side == "peft":
        import peft  # noqa: F401
        import torch
        import transformers  # noqa: F401

        torch.set_num_threads(1)
    from tests.benchmarks.adapters import sides

    imported, more = resident("VmRSS"), dict[str, Any]()
    if side == "base":
        chosen, more = sides.on_base(name)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what the base of floats took, of which NF4 was made
    elif side == "ours":
        chosen = sides.our_side(name)
    else:
        chosen, _ = sides.peft_side(name)
    CLEAR.write_text("5")  # the high-water mark falls to what is resident
    for _ in range(STEPS):
        chosen.step()
    peak = resident("VmHWM")
    return {"peak": peak / MB, "above import": (peak - imported) / MB, **more}


if __name__ == "__main__":
    print(json.dumps(inside(*sys.argv[1:])))
