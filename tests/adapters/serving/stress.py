"""``python -m tests.adapters.serving.stress [seconds] [seed] [threads]``: all at once, in threads.

Eight threads run batches, generate, add, remove, rewrite, pin, evict and load adapters of one
`Served` at a switch interval of a microsecond; there are fewer slots than adapters in use, and
memory for fewer than there are. Each row is held against what its adapter gives alone. An exception
or a wrong number prints thread, seed and action, and fails; so does a thread that hangs.
"""

from __future__ import annotations

import collections
import faulthandler
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")

import numpy as np  # noqa: E402

import gradwright as gw  # noqa: E402
from gradwright.adapters import LoRA, serve  # noqa: E402
from gradwright.models import Decoder, DecoderConfig  # noqa: E402
from tests.adapters.serving import drawn  # noqa: E402

INTERVAL = 1e-6
PATIENCE = 120.0
"""Seconds that an action may take beyond the end, on a busy machine; then it hangs."""
CONFIG = DecoderConfig(vocabulary=23, width=16, layers=1, heads=2, inner=16, context=64)
PROMPT = [3, 1, 4, 1, 5]
Array = np.ndarray[Any, Any]


class World:
    """What threads share: adapters on disk, what each gives alone, and the one that serves."""

    def __init__(self, folder: Path, n: int = 12) -> None:
        self.folder, self.base = folder, self.model()
        model, rng = self.model(), np.random.default_rng(0)
        adapted = gw.adapters.add(model, LoRA(r=2, alpha=4), "q|v|up")
        self.logits: dict[str | None, Array] = {}
        self.tokens: dict[str | None, list[int]] = {}
        with gw.Session(model.graph, kernels="off") as session:
            for name in (*(f"a{i}" for i in range(n)), None):
                if name is not None:
                    adapted.load_state(drawn.state(adapted, rng, 0.5))
                    gw.adapters.save(adapted, folder / name, model=model)
                else:
                    adapted.disable()
                self.logits[name] = session.run(model.logits, {"ids": [PROMPT]})[0]
                self.tokens[name] = model.generate([PROMPT], 4)[0].tokens
        self.names = [name for name in self.logits if name is not None]
        self.served = serve(
            self.base, {name: folder / name for name in self.names}, slots=4, most=6, r=2
        )
        self.served.slots.patience = self.served.memory.patience = PATIENCE
        self._own = threading.local()
        self.numbers = iter(range(1 << 30))
        self.lock = threading.Lock()

    @staticmethod
    def model() -> Decoder:
        return drawn.weights(Decoder(CONFIG), 0.4)

    @property
    def session(self) -> gw.Session:
        """A session of the thread's own."""
        if not hasattr(self._own, "session"):
            self._own.session = gw.Session(self.base.graph)
        return self._own.session  # type: ignore[no-any-return]

    def rows(self, rng: np.random.Generator) -> list[str | None]:
        """Return rows of at most three different adapters."""
        some = [*rng.choice(self.names, rng.integers(1, 4), replace=False).tolist(), None]
        return [some[i] for i in rng.integers(0, len(some), rng.integers(1, 6))]

    def check(self, rows: list[str | None], found: Array) -> None:
        for name, y in zip(rows, found, strict=True):
            np.testing.assert_allclose(y, self.logits[name], rtol=1e-4, atol=1e-4)


def run_shared(world: World, rng: np.random.Generator) -> None:
    rows = world.rows(rng)
    world.check(rows, world.served.run("logits", {"ids": [PROMPT] * len(rows)}, rows=rows))


def run_own(world: World, rng: np.random.Generator) -> None:
    rows = world.rows(rng)
    feeds = {"ids": [PROMPT] * len(rows)}
    found = world.served.run("logits", feeds, rows=rows, session=world.session)
    world.check(rows, found)


def hold(world: World, rng: np.random.Generator) -> None:
    """Hold rows over two runs, and others want their slots meanwhile."""
    rows = world.rows(rng)
    with world.served.rows(rows) as feeds:
        for _ in range(2):
            found = world.session.run("logits", {"ids": [PROMPT] * len(rows), **feeds})
            world.check(rows, found)


def generate(world: World, rng: np.random.Generator) -> None:
    rows = world.rows(rng)
    found = world.served.generate([PROMPT] * len(rows), 4, rows=rows)
    assert [row.tokens for row in found] == [world.tokens[name] for name in rows]


def add_and_remove(world: World, rng: np.random.Generator) -> None:
    """Serve a copy of an adapter by a new name, rewrite it as another one, and take it away."""
    with world.lock:
        name = f"own{next(world.numbers)}"
    path, served = world.folder / name, world.served
    try:
        for n, other in enumerate(rng.choice(world.names, 2, replace=False)):
            shutil.copytree(world.folder / other, path, dirs_exist_ok=True)
            for file in path.iterdir():
                os.utime(file, ns=(1, n + 1))
            if not n:
                served.add(name, path)
            found = served.run("logits", {"ids": [PROMPT]}, rows=name)
            np.testing.assert_allclose(found[0], world.logits[other], rtol=1e-4, atol=1e-4)
        served.remove(name)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def pin(world: World, rng: np.random.Generator) -> None:
    """Pin an adapter, one at a time, so that three slots are left."""
    name = str(rng.choice(world.names))
    with world.lock:
        world.served.pin(name)
        run_own(world, rng) if rng.integers(2) else None
        world.served.unpin(name)


def evict(world: World, rng: np.random.Generator) -> None:
    name = str(rng.choice(world.names))
    (world.served.slots if rng.integers(2) else world.served.memory).forget(name)


ACTIONS: list[Callable[[World, np.random.Generator], None]] = [
    *(run_shared, run_own, run_own, hold, generate, add_and_remove, pin, evict)
]


def stress(folder: Path, seed: int, n_threads: int, *, seconds: float, most: int) -> Any:
    """Run all threads for so many seconds or actions each; return counts and what went wrong."""
    world = World(folder)
    done: list[str] = []  # appended to: += of a count is lost where two threads meet in it
    failed: list[str] = []
    began, end = threading.Barrier(n_threads), time.monotonic() + seconds

    def work(thread: int) -> None:
        rng = np.random.default_rng((seed, thread))
        began.wait()
        for _ in range(most):
            if failed or time.monotonic() > end:
                break
            do = ACTIONS[rng.integers(len(ACTIONS))]
            try:
                do(world, rng)
                done.append(do.__name__)
            except BaseException:
                failed.append(
                    f"thread {thread} of seed {seed}, {do.__name__}:\n{traceback.format_exc()}"
                )

    before = sys.getswitchinterval()
    sys.setswitchinterval(INTERVAL)
    try:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(n_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    if not failed:  # whatever happened, all slots can be used, and all adapters are right
        for i in range(0, len(world.names), 4):
            rows: list[str | None] = [*world.names[i : i + 4]]
            world.check(rows, world.served.run("logits", {"ids": [PROMPT] * 4}, rows=rows))
    return world, collections.Counter(done), failed


def main(seconds: float = 60.0, seed: int = 0, n_threads: int = 8) -> int:
    """Print what was done, and return how many threads went wrong."""
    warnings.simplefilter("ignore")
    faulthandler.dump_traceback_later(seconds + PATIENCE, exit=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        world, counts, failed = stress(folder, seed, n_threads, seconds=seconds, most=1 << 30)
    faulthandler.cancel_dump_traceback_later()
    print(*failed, sep="\n")
    print(f"{sum(counts.values()):,} actions: {dict(sorted(counts.items()))}")
    print(world.served.counts)
    return len(failed)


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(*(kind(value) for kind, value in zip((float, int, int), given, strict=False))))
