"""A sandbox: a process that runs code in a folder of its own, with as little as a machine allows.

Of three ways the first that works is taken: ``"namespaces"``, where code sees no process, network
or file but its own (Linux, through ``unshare`` of util-linux); ``"user"``, another user, where we
are root; ``"process"``, limits alone. What holds is tried on the machine, never assumed.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from ....errors import GraphError
from ....words.jsonable import jsonable

WAYS = ("namespaces", "user", "process")
MARGIN = 5.0
"""Seconds that a machine may take to begin and end a sandbox."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FIRST_USER, USERS = 1_500_000_000, 100_000_000
"""Numbers of users whom nothing belongs to; each run takes another."""
SETUP = """set -e
root=$1; size=$2; prefix=$3; shift 3
mount -t tmpfs -o "size=$size,nr_inodes=4096,mode=755,nosuid,nodev" tmpfs "$root"
for at in /usr /lib /lib32 /lib64 /bin "$prefix"; do
  if [ -L "$at" ]; then
    cp -P "$at" "$root$at"
  elif [ -d "$at" ] && [ ! -d "$root$at" ]; then
    mkdir -p "$root$at"
    mount --bind "$at" "$root$at"
    mount -o remount,bind,ro,nosuid,nodev "$root$at"
  fi
done
mkdir "$root/dev" "$root/tmp"
chmod 1777 "$root/tmp"
for name in null urandom; do
  : > "$root/dev/$name"
  mount --bind "/dev/$name" "$root/dev/$name"
done
exec "$@"
"""
"""A root of its own: the interpreter and its libraries to read, an empty folder to write."""
_runs = itertools.count()


@jsonable
@dataclass(frozen=True)
class CodeLimits:
    """What a program may take: of time, memory, disk, processes.

    >>> import gradwright as gw
    >>> gw.align.CodeLimits(seconds=1.0).memory_mb
    512
    """

    seconds: float = 5.0
    """By the clock, for the code and its tests together."""
    cpu_seconds: int = 5
    memory_mb: int = 512
    """Of addresses, for each process."""
    disk_mb: int = 16
    """For each file; for all of them where files are its own."""
    processes: int = 8
    open_files: int = 64
    output_kb: int = 64
    """What is kept of what it prints."""

    def __post_init__(self) -> None:
        if min(vars(self).values()) <= 0:
            raise GraphError(f"{self} makes no sense", need="numbers above 0")

    def by_name(self) -> dict[str, int]:
        """Return the limits of a process by the names that the system has for them."""
        return {
            "RLIMIT_CPU": self.cpu_seconds,
            "RLIMIT_AS": self.memory_mb << 20,
            "RLIMIT_FSIZE": self.disk_mb << 20,
            "RLIMIT_NPROC": self.processes,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_CORE": 0,
        }


@dataclass(frozen=True)
class Ran:
    """What came of a program and its tests."""

    passed: tuple[bool, ...]
    """Whether each test passed; False for those that were not come to."""
    whole: bool
    """Whether the code itself came to its end."""
    why: str
    """What went wrong first, "" for nothing."""
    output: str
    """The begin of what it printed."""


def run_code(code: str, tests: Sequence[str], limits: CodeLimits, way: str | None = None) -> Ran:
    """Run code, then tests on the names that it has left, and return what came of it.

    Raises GraphError where no process can be begun.

    >>> from gradwright.align.rewards.sandbox.sandbox import CodeLimits, run_code
    >>> ran = run_code("def f(x): return x + 1", ["assert f(1) == 2", "assert f(1) == 3"],
    ...                CodeLimits())
    >>> ran.passed, ran.why
    ((True, False), 'test 2: AssertionError: ')
    """
    way = way or best_way()
    with tempfile.TemporaryDirectory(prefix="gradwright-", ignore_cleanup_errors=True) as here:
        own_root = way == "namespaces"
        asked = {
            "code": code,
            "tests": list(tests),
            "here": "/tmp" if own_root else here,
            "seconds": limits.seconds,
            "most": limits.output_kb << 10,
            "limits": limits.by_name(),
            "user": None if way == "process" or os.geteuid() else _user(),
        }
        answer, cut = _begun(_command(way, here, limits), asked, limits.seconds + MARGIN, here)
    if answer is None:
        return Ran((False,) * len(tests), False, cut, "")
    told = _verdicts(answer["told"][: len(tests) + 1])
    done = [ok for ok, _ in told] + [False] * (len(tests) + 1 - len(told))
    whys = [why for ok, why in told if not ok]
    if len(told) <= len(tests) and not whys:
        whys = [_ending(answer["status"], limits)]
    return Ran(tuple(done[1:]), done[0], whys[0] if whys else "", answer["output"])


@functools.cache
def best_way() -> str:
    """Return the first of the ways in which a program runs here; tried once.

    >>> from gradwright.align.rewards.sandbox.sandbox import WAYS, best_way
    >>> best_way() in WAYS
    True
    """
    if os.name != "posix" or sys.platform in ("emscripten", "wasi"):
        raise GraphError(
            f"code cannot be run within limits on {sys.platform}", need="Linux or macOS"
        )
    for way in WAYS:
        if way == "user" and os.geteuid() != 0:
            continue
        if run_code("import fractions", [], CodeLimits(), way).whole:  # reads its libraries, too
            return way
    raise GraphError("no process that runs code within limits can be begun on this machine")


def _command(way: str, here: str, limits: CodeLimits) -> list[str]:
    guard = files(__package__).joinpath("guard.py").read_text("utf8")
    binary = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
    no_more = ["setpriv", "--no-new-privs"] if _found("setpriv") else []  # no sudo
    python = [*no_more, binary, "-s", "-S", "-P", "-B", "-c", guard]
    if way != "namespaces":
        return python
    root = os.geteuid() == 0
    parts = ["--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
    # Who is no user of the machine's own is root of a namespace, and leaves that for another, where
    # what was mounted cannot be changed.
    inner = ["chroot", here] if root else ["unshare", "--user", "--mount", f"--root={here}"]
    setup = ["sh", "-c", SETUP, "sh", here, f"{limits.disk_mb}m", sys.base_prefix]
    outer = ["unshare", *([] if root else ["--user", "--map-root-user"]), *parts]
    return [*outer, *setup, *inner, *python]


def _begun(
    command: Sequence[str], asked: object, seconds: float, here: str
) -> tuple[dict[str, Any] | None, str]:
    """Return what a guard answers; None, and why, where it does not."""
    try:
        with subprocess.Popen(
            [_found(command[0]) or command[0], *command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": PATH, "PYTHONHASHSEED": "0"},  # one order of sets, for one reward
            cwd=here,
            start_new_session=True,
        ) as process:
            try:
                out, _ = process.communicate(json.dumps(asked).encode(), seconds)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                return None, f"took more than {seconds:g} s"
        return json.loads(out), ""
    except (OSError, ValueError) as error:
        return None, f"no answer: {error}"


def _found(program: str) -> str | None:
    return shutil.which(program, path=PATH)


def _verdicts(lines: Sequence[str]) -> list[tuple[bool, str]]:
    """Return what passed, and why not, as far as it can be read: the code may write there, too."""
    found: list[tuple[bool, str]] = []
    for line in lines:
        try:
            ok, why = json.loads(line)
        except (ValueError, TypeError):
            break
        found.append((ok is True, str(why)))
    return found


def _user() -> int:
    return FIRST_USER + (os.getpid() * 1000 + next(_runs)) % USERS


def _ending(status: int | None, limits: CodeLimits) -> str:
    """Say how a program ended that has not said it itself."""
    if status is None:
        return f"took more than {limits.seconds:g} s"
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"took more than {limits.cpu_seconds} s of a processor, or was killed"
    return f"ended by itself, with {status}" if status >= 0 else f"ended by signal {-status}"
