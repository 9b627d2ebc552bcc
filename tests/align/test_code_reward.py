"""A reward of code: what is right is rewarded, and what is hostile is held, as far as is said."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwright.align import Code, CodeLimits, Prompt, Rollout, judge
from gradwright.align.rewards.sandbox.enforced import enforced
from gradwright.align.rewards.sandbox.sandbox import WAYS, best_way
from gradwright.errors import GraphError

if os.name != "posix":
    pytest.skip("code is run on POSIX alone", allow_module_level=True)

LIMITS = CodeLimits(seconds=20.0, cpu_seconds=1, memory_mb=128, disk_mb=1, output_kb=4)
SHORT = replace(LIMITS, seconds=0.5)
LOOKS = """
import json, os, sys
def is_open(fd):
    try:
        return bool(os.fstat(fd))
    except OSError:
        return False
print(json.dumps({
    "environment": dict(os.environ), "folder": os.listdir("."), "input": sys.stdin.read(),
    "open": [fd for fd in range(64) if is_open(fd)],
}))
"""
HOSTILE: dict[str, tuple[str, str, CodeLimits, str]] = {
    "loops": ("processor", "while True: pass", LIMITS, "more than 1 s of a processor"),
    "sleeps": ("", "import time\ntime.sleep(60)", SHORT, "more than 0.5 s"),
    "hides": (
        "",
        "import signal, time\nsignal.alarm(0)\nwhile True: time.sleep(9)",
        SHORT,
        "0.5 s",
    ),
    "forks": ("processes", "import os\nwhile True: os.fork()", LIMITS, "BlockingIOError"),
    "bombs": (
        "processes",
        "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
        SHORT,
        "more than",
    ),
    "hoards": ("memory", "a = []\nwhile True: a.append(bytearray(1 << 20))", LIMITS, "MemoryError"),
    "fills": ("file size", "open('f', 'wb').write(bytes(2 << 20))", LIMITS, "too large"),
    "opens": ("open files", "a = [open('f', 'w') for _ in range(99)]", LIMITS, "Too many open"),
    "leaves": ("", "raise SystemExit(0)", LIMITS, "SystemExit"),
    "vanishes": ("", "import os\nos._exit(0)", LIMITS, "ended by itself, with 0"),
    "crashes": ("", "import os\nos.kill(os.getpid(), 11)", LIMITS, "signal 11"),
    "forges": ("", "import os\nos.write(3, b'[1]\\n')\nos._exit(0)", LIMITS, "ended by itself"),
    "deletes": ("files", "import shutil\nshutil.rmtree(OUTSIDE)", LIMITS, "Error"),
    "connects": (
        "network",
        "import socket\nsocket.create_connection(('127.0.0.1', PORT), 1)",
        LIMITS,
        "Error",
    ),
    "kills": ("signals", "import os, signal\nos.kill(PARENT, signal.SIGUSR1)", LIMITS, "Error"),
}
"""What has to hold for it to be tried, the code, its limits, and what is said of it."""
HARMLESS = {
    "looks": LOOKS,
    "prints": "print('x' * 1_000_000)",
    "links": "import os\nos.symlink(OUTSIDE, 'link')\nos.mkdir('shut')\nos.chmod('shut', 0)",
    "stays": "import os, time\ntry:\n  if not os.fork():\n    os.setsid()\n    time.sleep(1)\n"
    "except OSError: pass",
}


STOPS = "import os\ntry: os.kill(os.getppid(), 19)\nexcept PermissionError: pass"
"""It stops who watches over it, which nobody can where it is the first of its namespace."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What came of all programs, run side by side, and what of ours they have reached."""
    outside, folder = tmp_path_factory.mktemp("outside"), tmp_path_factory.mktemp("folder")
    outside.joinpath("kept").write_text("ours")
    signalled: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: signalled.append(1))
    programs = {name: (code, limits) for name, (key, code, limits, _) in HOSTILE.items()
                if not key or Code.enforced()[key]}  # fmt: skip
    harmless = HARMLESS | ({"stops": STOPS} if Code.enforced()["nothing stays"] else {})
    programs |= {name: (code, LIMITS) for name, code in harmless.items()}
    with socket.socket() as listening, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setenv("GRADWRIGHT_SECRET", "ours")
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        given = f"OUTSIDE, PARENT = {str(outside)!r}, {os.getpid()}\n"
        given += f"PORT = {listening.getsockname()[1]}\n"

        def run(program: tuple[str, CodeLimits]) -> Any:
            return Code(allow=True, limits=program[1]).run(given + program[0], "pass")

        with ThreadPoolExecutor(4) as pool:
            found = dict(zip(programs, pool.map(run, programs.values()), strict=True))
        signal.signal(signal.SIGUSR1, before)
        left = list(folder.iterdir())
    kept = outside.joinpath("kept").exists()
    yield {**found, "signalled": signalled, "left": left, "kept": kept}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_code_is_held(name: str, ran: dict[str, Any]) -> None:
    key, _, _, says = HOSTILE[name]
    if name not in ran:
        pytest.skip(f"{key!r} is not enforced on this machine")
    assert (ran[name].passed, ran[name].whole) == ((False,), False)
    assert says in ran[name].why


def test_nothing_of_ours_is_seen_or_left(ran: dict[str, Any]) -> None:
    assert json.loads(ran["looks"].output) == {
        "environment": {}, "folder": [], "input": "", "open": [0, 1, 2, 3],
    }  # fmt: skip
    assert all(ran[name].whole for name in ran.keys() & {*HARMLESS, "stops"})
    assert ran["prints"].output == "x" * 4096
    assert (ran["kept"], ran["left"], ran["signalled"]) == (True, [], [])


@pytest.mark.skipif(sys.platform != "linux", reason="what Linux enforces")
def test_each_way_holds_what_the_system_limits() -> None:
    for way in {best_way(), WAYS[-1]}:
        held = enforced(way)
        assert all(held[name] for name in ("memory", "file size", "open files", "processor"))
        assert way != "namespaces" or all(held.values())


def test_code_is_worth_the_share_of_its_tests() -> None:
    tests = ["assert f(1) == 2", "assert f(2) == 3", "assert f('a') == 'a1'"]
    right, half = "def f(x): return x + 1", "def f(x): return 2"
    texts = [f"So:\n```python\n{right}\n```\nand\n```\n1/0\n```", half, "def f(", right]
    prompts = [Prompt([1], "", {"tests": t}) for t in (tests, tests, tests[0], None)]
    rollout = Rollout(prompts, 1, [[1]] * 4, texts, ["eos"] * 4, [0] * 4)
    scores = judge(Code(allow=True, workers=2), rollout)
    np.testing.assert_allclose(scores.by_name()["code"], [2 / 3, 1 / 3, 0, np.nan])
    assert Code(allow=True, column=None)([""] * 2, ["x = 1", "x"]) == [1.0, 0.0]
    orders = {Code(allow=True).run("print({'a', 'b', 'c', 'd'})").output for _ in range(2)}
    assert len(orders) == 1


def test_code_is_off_unless_asked() -> None:
    for given in ({}, {"allow": False}, {"allow": "yes"}):
        with pytest.raises(GraphError, match="allow=True"):
            Code(**given)  # type: ignore[arg-type]
    with pytest.raises(GraphError):
        Code(allow=True, workers=0)
    with pytest.raises(GraphError):
        CodeLimits(memory_mb=0)
