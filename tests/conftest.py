"""What every test shares: one BLAS thread, fixed seeds, no network, and the oracles.

An oracle is another library that knows the right answer. Where it is missing, the tests that ask
for it skip and say how to install it.
"""

from __future__ import annotations

import os

# Before numpy is first imported: reductions split over threads differ in their last bits.
for _pool in ("OPENBLAS", "MKL", "OMP", "VECLIB_MAXIMUM"):
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# A plan from disk has its kernels at once, one that is made begins in numpy: last bits of a default
# session would depend on which tests ran before. Tests of plans on disk ask for them.
os.environ.setdefault("GRADWRIGHT_PLANS", "off")

# Tests start processes by the hundred: from bytecode each imports us in 0.3 s, and in 0.7 without.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import atexit
import faulthandler
import gc
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import numpy as np
import pytest

for _folder in ("CACHE", "RUNS"):  # xdist's workers inherit them, and share what is compiled
    if f"GRADWRIGHT_{_folder}" not in os.environ:
        os.environ[f"GRADWRIGHT_{_folder}"] = tempfile.mkdtemp(prefix="gradwright-")
        atexit.register(shutil.rmtree, os.environ[f"GRADWRIGHT_{_folder}"], ignore_errors=True)


# Tests send themselves Ctrl-C, which a shell has ignored in what it starts in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.dont_write_bytecode = False

if os.environ.get("GRADWRIGHT_TEST_HIDE_BLAS"):  # as where numpy has another BLAS than OpenBLAS
    from gradwright.cpu.llvm import blas as _blas

    _blas._libraries = lambda: iter(())

if os.environ.get("GRADWRIGHT_TEST_DEVICE") == "copies":  # sessions run there, but for ``guard``
    from gradwright.session import session as _session
    from tests.support.copies import Copies as _Copies

    _open = _session.open_device
    _session.open_device = lambda name: _Copies() if name == "cpu" else _open(name)

hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("fixed")


def _stay_on_this_machine(event: str, args: tuple[Any, ...]) -> None:
    """Audit hook: refuse every connection that leaves the loopback interface."""
    if event == "socket.connect" and isinstance(args[1], tuple):
        host = str(args[1][0])
        if host not in {"localhost", "::1"} and not host.startswith("127."):
            raise RuntimeError(f"a test tried to reach {host}; tests use no network")


sys.addaudithook(_stay_on_this_machine)


HANGS = 600
"""Seconds after which a test that hangs ends the run, with the stacks of its threads."""


class Watch:
    """Ends a run that hangs.

    pytest's ``faulthandler_timeout`` starts a thread for each test and waits for its end, which
    takes 1 ms, and 10 on a busy machine; this one starts one a minute.
    """

    def __init__(self) -> None:
        self.stderr, self.since = os.dup(2), -np.inf

    def pytest_runtest_logstart(self) -> None:
        if time.monotonic() - self.since > 60:
            self.since = time.monotonic()
            faulthandler.dump_traceback_later(HANGS + 60, exit=True, file=self.stderr)

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        os.close(self.stderr)


def pytest_configure(config: pytest.Config) -> None:
    """Watch the tests; what they print is not yet captured."""
    config.pluginmanager.register(Watch())


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Keep ``--doctest-modules`` from importing the files here that only other tests start."""
    name = collection_path.name
    return True if name.endswith(".py") and not name.startswith("test_") else None


def pytest_collection(session: pytest.Session) -> None:
    """Collect no garbage while tests are collected, of which there is none."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep all tests, a million objects, out of sight of the collector: 0.7 s each time."""
    gc.collect()
    gc.freeze()
    gc.enable()


GENERATED = {"test_ops.py", "test_rows.py", "test_archive.py", "test_blame.py"}
"""Files of thousands of small tests that may run in any order, on any worker."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``-n 2 --dist loadscope`` files stay whole, and all browser tests share one worker."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = Path(nodeid.partition("::")[0])
            if path.name in GENERATED:
                return nodeid
            return "browser" if path.parent.name == "browser" else str(path)

    return ByFile(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture
def rng() -> np.random.Generator:
    """Return the same numpy generator for every test."""
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def torch() -> ModuleType:
    """Return PyTorch on one CPU thread, or skip."""
    torch = pytest.importorskip("torch", reason="no torch: pip install -e '.[oracle]'")
    torch.set_num_threads(1)
    return torch


@pytest.fixture(scope="session")
def jax() -> ModuleType:
    """Return JAX on the CPU with 64-bit types switched on, or skip."""
    jax = pytest.importorskip("jax", reason="no jax: pip install -e '.[oracle]'")
    jax.config.update("jax_enable_x64", True)
    return jax
