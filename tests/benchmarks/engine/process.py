"""A peer in a process of its own: pinned to its cores, started once, told what to do by a pipe.

``python -m tests.benchmarks.engine.process PEER ROW`` reads one JSON object a line and answers with
one; it ends when its input does. Whatever libraries print goes to standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LOSSES = 5
"""How many losses are compared before anything is timed."""
WARM_STEPS, WARM_SECONDS = 30, 2.0
RATE = 1e-8
"""Learning rate while the clock runs. A thousand steps on one batch at the model's own rate end in
gradients that are denormal numbers, on which processors, and so engines, differ by factors."""


def environment(threads: int) -> dict[str, str]:
    """Return the variables that tell every library how many threads it has."""
    pools = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")
    found = dict(os.environ) | {f"{pool}_NUM_THREADS": str(threads) for pool in pools}
    several = str(threads > 1).lower()
    return found | {
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={several} "
        f"intra_op_parallelism_threads={threads}",
        "JAX_PLATFORMS": "cpu",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no pool of compilers stays behind
        "PYTHONWARNINGS": "ignore",
    }


class Process:
    """A peer's process, seen from outside."""

    def __init__(self, peer: str, row: str, threads: int, cores: Sequence[int]) -> None:
        self.name = peer
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by close)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, peer, row, *map(str, cores)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment(threads),
        )

    def ask(self, do: str, **given: Any) -> Any:
        """Return the answer to a command, or raise RuntimeError with what went wrong there."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps({"do": do, **given}) + "\n")
            stdin.flush()
        line = stdout.readline()
        if not line:
            self._log.seek(0)
            said = self._log.read().strip().splitlines() or ["it said nothing"]
            raise RuntimeError(f"{self.name} ended with {self._process.wait()}: {said[-1]}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error']}")
        return answer["result"]

    def close(self) -> None:
        """End it by closing its input, and wait."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()


class Server:
    """What runs inside: the peer's variants of one model, and the one that was found fastest."""

    def __init__(self, peer: str, row: str) -> None:
        from tests.benchmarks.engine.models import MODELS
        from tests.benchmarks.engine.peers import PEERS

        self._variants = list(PEERS[peer].variants(MODELS[row]()))
        self._chosen = self._variants[0]

    def losses(self) -> dict[str, list[float]]:
        """Return the first losses of each variant."""
        return {v.name: [v.loss(v.step()) for _ in range(LOSSES)] for v in self._variants}

    def warm(self) -> dict[str, Any]:
        """Run until all is compiled, keep the fastest variant, return it and its time of a step."""
        from tests.benchmarks.engine.peers import fastest

        for v in self._variants:
            v.set_rate(RATE)
            start, steps = time.perf_counter(), 0
            while steps < WARM_STEPS and (steps < 3 or time.perf_counter() - start < WARM_SECONDS):
                v.step()
                steps += 1
            v.settle()
            v.step()
        self._chosen = fastest(self._variants)
        self._variants = [self._chosen]
        once = self.run(1)["wall"]
        return {
            "variant": self._chosen.name,
            "seconds": self.run(max(3, min(1000, int(0.1 / once))))["wall"],
        }

    def run(self, steps: int) -> dict[str, float]:
        """Return seconds per step, wall and processor, and the others' share of our cores."""
        step, busy = self._chosen.step, _busy()
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(steps):
            step()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        others = (_busy() - busy - cpu) / (wall * len(os.sched_getaffinity(0)))
        return {"wall": wall / steps, "cpu": cpu / steps, "others": max(0.0, others)}


def _busy() -> float:
    """Return the seconds that the cores of this process have worked, for whomever."""
    mine = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    ticks = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *counts = line.split()
        if name in mine:  # user nice system idle iowait irq softirq steal
            user, nice, system, _, _, *interrupts = map(int, counts[:8])
            ticks += user + nice + system + sum(interrupts)
    return ticks / os.sysconf("SC_CLK_TCK")


def serve(peer: str, row: str, *cores: str) -> None:
    """Answer commands until the input ends."""
    os.sched_setaffinity(0, map(int, cores))  # before numpy or torch make threads
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    server: Server | None = None
    for line in sys.stdin:
        given = json.loads(line)
        try:
            if server is None:
                if "torch" in sys.modules or peer in ("torch", "compile"):
                    import torch

                    torch.set_num_threads(len(cores))
                server = Server(peer, row)
            result = getattr(server, given.pop("do"))(**given)
            answers.write(json.dumps({"result": result}) + "\n")
        except Exception as error:  # whatever a library raises is told in the table
            said = str(error).strip().splitlines() or [""]
            answers.write(json.dumps({"error": f"{type(error).__name__}: {said[0][:200]}"}) + "\n")


if __name__ == "__main__":
    serve(*sys.argv[1:])
