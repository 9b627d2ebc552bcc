"""Runs the tests of engine, threads and numerics as if on other machines.

``python -m tests.machines`` goes through all of `MACHINES`, ``python -m tests.machines haswell``
takes one; ``--whole`` runs the whole suite instead. What stands behind ``--`` goes to pytest. It
prints a line for each machine in the end, and exits with 1 if one of them failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MACHINES: dict[str, tuple[str, dict[str, str]]] = {
    "haswell": ("OpenBLAS's kernels for AVX2", {"OPENBLAS_CORETYPE": "Haswell"}),
    "x86-64-v3": ("our kernels for AVX2", {"GRADWRIGHT_CPU": "x86-64-v3"}),
    "no-openblas": ("as with another BLAS", {"GRADWRIGHT_TEST_HIDE_BLAS": "1"}),
    "no-llvmlite": ("numpy alone", {"PYTHONPATH": str(HERE / "hidden")}),
    "copies": ("a device that copies on every transfer", {"GRADWRIGHT_TEST_DEVICE": "copies"}),
}
FILES = [
    *("engine*", "native*", "fusion*", "threads", "bits", "unroll*", "prepare", "interrupted"),
    *("cpu", "optimizer_kernels", "plans", "session*", "memory", "digits", "targets", "fuzz"),
    *("sums*", "norms*", "halves*", "narrowing", "slopes*", "signed_zeros", "stable_forms"),
    *("linalg*", "fetch_sets", "mixed_dtypes", "update_ranges"),
]
"""Which ``test_*.py`` differ from machine to machine."""
NEUTRAL = [
    *("control", "loop*", "nested_control", "gradient*", "fit", "accumulation", "groups", "tiny"),
    *("session", "trainer_graph", "train_control", "loss_scaling", "ops"),
]
"""Which run on a device that is not the CPU: they ask for numbers, not for how those come."""


def command(machine: str, whole: bool, more: list[str]) -> list[str]:
    """Return how pytest is started."""
    names = NEUTRAL if machine == "copies" else FILES
    files = sorted({str(path) for name in names for path in HERE.rglob(f"test_{name}.py")})
    start = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadscope"]
    return [*start, *([] if whole else files), *more]


def environment(more: dict[str, str]) -> dict[str, str]:
    """Return the variables of a machine beside our own; folders of modules go before those."""
    found = {**os.environ, **more}
    if "PYTHONPATH" in more and "PYTHONPATH" in os.environ:
        found["PYTHONPATH"] = os.pathsep.join([more["PYTHONPATH"], os.environ["PYTHONPATH"]])
    return found


def run(name: str, whole: bool, more: list[str]) -> tuple[int, str]:
    """Run the tests as on one machine; return pytest's exit status and its closing line."""
    said, env = MACHINES[name]
    print(
        f"\n{name}: {said}, {' '.join(f'{k}={Path(v).name}' for k, v in env.items())}", flush=True
    )
    last = ""
    with subprocess.Popen(
        command(name, whole, more), env=environment(env), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return process.returncode, last


def main() -> int:
    """Run the tests as on each machine that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("machines", nargs="*", metavar="machine", help=", ".join(MACHINES))
    parser.add_argument("--whole", action="store_true", help="the whole suite")
    given = sys.argv[1:]
    at = given.index("--") if "--" in given else len(given)
    asked = parser.parse_args(given[:at])
    if unknown := set(asked.machines) - set(MACHINES):
        parser.error(f"no machine is called {', '.join(sorted(unknown))}: {', '.join(MACHINES)}")
    ends = {n: run(n, asked.whole, given[at + 1 :]) for n in asked.machines or MACHINES}
    print()
    for name, (_, last) in ends.items():
        print(f"{name:<14}{last.strip('= ')}")
    return int(any(status for status, _ in ends.values()))


if __name__ == "__main__":
    sys.exit(main())
