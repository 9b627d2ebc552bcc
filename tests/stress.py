"""``python -m tests.stress [seconds] [seed] [threads]``: everything at once, in threads.

Eight threads plan, compile, release, edit, define, save, load and train at a switch interval of a
microsecond, partly on a graph and a session that they share, and hold each result against numpy. An
exception or a wrong value prints thread, seed and action, and fails; so does a thread that hangs.
The kernels' disk cache is empty at first, unless ``GRADWRIGHT_CACHE`` names another.
"""

from __future__ import annotations

import collections
import faulthandler
import os
import sys
import tempfile
import threading
import time
import traceback
import warnings
from pathlib import Path

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")

import numpy as np  # noqa: E402

from tests.support.stress_actions import ACTIONS, World  # noqa: E402

INTERVAL = 1e-6
PATIENCE = 120.0
"""Seconds that an action may take beyond the end, on a busy machine; then it hangs."""


def main(seconds: float = 60.0, seed: int = 0, n_threads: int = 8) -> int:
    """Run all threads for so many seconds; return how many went wrong."""
    warnings.simplefilter("ignore")
    faulthandler.dump_traceback_later(seconds + PATIENCE, exit=True)
    before = sys.getswitchinterval()
    counts: collections.Counter[str] = collections.Counter()
    failed: list[str] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        os.environ.setdefault("GRADWRIGHT_CACHE", f"{name}/kernels")
        world = World(Path(name))
        began, end = threading.Barrier(n_threads), time.monotonic() + seconds

        def work(thread: int) -> None:
            rng = np.random.default_rng((seed, thread))
            began.wait()
            while time.monotonic() < end and not failed:
                do = ACTIONS[rng.integers(len(ACTIONS))]
                try:
                    do(world, rng)
                    counts[do.__name__] += 1
                except BaseException:
                    failed.append(
                        f"thread {thread} of seed {seed}, {do.__name__}:\n{traceback.format_exc()}"
                    )

        sys.setswitchinterval(INTERVAL)
        try:
            threads = [threading.Thread(target=work, args=(n,)) for n in range(n_threads)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)
        count = int(world.graph.values["count"])
        if not failed and count != world.runs:
            failed.append(f"{world.runs} runs have been counted as {count}")
        world.session.close()
    faulthandler.cancel_dump_traceback_later()
    print(*failed, sep="\n")
    done = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
    print(f"{sum(counts.values())} actions in {seconds:g} s, {len(failed)} wrong: {done}")
    return len(failed)


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(bool(main(*map(float, given[:1]), *map(int, given[1:]))))
