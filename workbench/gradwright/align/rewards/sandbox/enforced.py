"""What of a sandbox holds on this machine, found out by a program that tries it all."""

from __future__ import annotations

import functools
import json
import os
import socket
import tempfile
from dataclasses import replace
from pathlib import Path

from ....errors import GraphError
from .sandbox import CodeLimits, best_way, run_code

PROBE = """
import json, os, resource, socket

def holds(tried):
    try:
        return not tried()
    except (OSError, MemoryError):
        return True

def connects():
    with socket.create_connection(("127.0.0.1", PORT), 1):
        return True

def writes(path, size):
    with open(path, "wb", buffering=0) as file:
        return all(file.write(b"x" * (1 << 20)) == 1 << 20 for _ in range(size))

def forks(n):
    for _ in range(n):
        if os.fork() == 0:
            import time
            time.sleep(60)
    return True

def kills():
    os.kill(PARENT, 0)
    return True

found = {
    "network": holds(connects),
    "files": holds(lambda: writes(OUTSIDE, 0)),
    "secrets": holds(lambda: open(OUTSIDE).close() or True),
    "signals": holds(kills),
    "memory": holds(lambda: len(bytearray((MEMORY_MB + 1) << 20))),
    "file size": holds(lambda: writes("big", DISK_MB + 1)),
    "open files": holds(lambda: [os.dup(1) for _ in range(OPEN_FILES + 1)]),
    "processor": resource.getrlimit(resource.RLIMIT_CPU)[1] == CPU_SECONDS,
    "nothing stays": os.getppid() == 1,
}
"""
LAST = """
found["processes"] = holds(lambda: forks(PROCESSES + 1))
os.write(1, json.dumps(found).encode())
"""


@functools.cache
def enforced(way: str | None = None) -> dict[str, bool]:
    """Return which limits hold on this machine, by name; tried once, in a moment.

    Raises GraphError where the program that tries them does not come to its end.

    - ``network``: nothing is reached, not even on this machine
    - ``files``: nothing of yours is written or deleted;  ``secrets``: nor read
    - ``signals``: no process of yours is reached
    - ``memory``, ``file size``, ``open files``, ``processes``, ``processor``: as limits have it
    - ``nothing stays``: what the code began ends with it

    >>> from gradwright.align.rewards.sandbox.enforced import enforced
    >>> sorted(enforced())
    ['file size', 'files', 'memory', 'network', 'nothing stays', 'open files', 'processes',
     'processor', 'secrets', 'signals']
    """
    limits = CodeLimits(disk_mb=1, memory_mb=256)
    with tempfile.TemporaryDirectory() as here, socket.socket() as listening:
        outside = Path(here, "outside")
        outside.touch(0o600)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        known = {
            "PORT": listening.getsockname()[1],
            "PARENT": os.getpid(),
            "OUTSIDE": str(outside),
            **{name.upper(): value for name, value in vars(limits).items()},
        }
        given = "".join(f"{name} = {value!r}\n" for name, value in known.items())
        ran = run_code(given + PROBE, [LAST], replace(limits, seconds=10.0), way or best_way())
    if not all(ran.passed):
        raise GraphError(f"what limits hold cannot be found out here: {ran.why}")
    found: dict[str, bool] = json.loads(ran.output)
    return found
