"""Tests and benchmarks on this machine's GPU; without one, a line that says what is missing.

    python -m tests.kernels.gpu test     the kernels, sessions, graphs and lent arrays, for real
    python -m tests.kernels.gpu bench    kernels and training steps, into kernels/RESULTS.md

The tests are those of the simulated GPU: with ``GRADWRIGHT_GPU=1`` device ``cuda-sim`` is the real
one. The exit status is 2 where something is missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gradwright.errors import GradwrightError

ROOT = Path(__file__).parents[2]
TESTS = "numbers", "sessions", "graphs", "lent"


def missing() -> str:
    """Return what a GPU needs and this machine lacks, in a line; "" if nothing."""
    try:
        from gradwright_kernels.device.driver import Driver

        Driver()
    except GradwrightError as error:
        return f"no GPU here: {' '.join(str(error).split())}"
    return ""


def main(what: str) -> int:
    """Run tests or benchmarks; return the exit status."""
    if lacking := missing():
        print(lacking)
        return 2
    if what == "test":
        files = [f"tests/kernels/test_{name}.py" for name in TESTS]
        runs = [["-m", "pytest", "-q", *files]]
    else:
        results = "kernels/RESULTS.md"
        runs = [
            ["-m", "tests.benchmarks.kernels", results],
            ["-m", "tests.benchmarks.gpu_steps", results],
        ]
    env = {**os.environ, "GRADWRIGHT_GPU": "1"}
    return max(subprocess.run([sys.executable, *run], cwd=ROOT, env=env).returncode for run in runs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
