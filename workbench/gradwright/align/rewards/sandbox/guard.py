"""What runs inside of a sandbox: a guard, and a child of it, which runs the code.

A fresh interpreter is handed this file as text; it imports nothing but the standard library. The
guard reads what is asked as JSON and writes what came of it, and never runs the code itself: where
it is the first process of a namespace, nobody in there can end it, and all ends with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

TOLD = 3
"""The file descriptor on which the child tells what passed, a line of JSON each."""
LONGEST = 1 << 20
"""Bytes of these lines that are kept."""
CHUNK = 1 << 16


def main() -> None:
    """Read what is asked, have a child run it, and write what came of it."""
    asked = json.loads(sys.stdin.buffer.read())
    os.chdir(asked["here"])
    verdicts, told = os.pipe()
    output, said = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            confine(asked, told, said)
            work(asked["code"], asked["tests"])
        finally:
            os._exit(1)
    os.close(told)
    os.close(said)
    kept, most = {verdicts: b"", output: b""}, {verdicts: LONGEST, output: asked["most"]}
    status = watched(child, kept, most, time.monotonic() + asked["seconds"])
    lines = kept[verdicts].decode(errors="replace").splitlines()
    answer = {"status": status, "told": lines, "output": kept[output].decode(errors="replace")}
    sys.stdout.write(json.dumps(answer))


def watched(
    child: int, kept: dict[int, bytes], most: dict[int, int], deadline: float
) -> int | None:
    """Read what a child writes till it has ended, and return its status; None if it was too long.

    Of each pipe so many bytes are kept, and what else comes is read and dropped.
    """
    open_ends, status = list(kept), None
    while status is None and time.monotonic() < deadline:
        read(open_ends, kept, most, 0.002)
        ended, found = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(found) if ended else None
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            kill(child, signal.SIGKILL)
    if status is None:
        os.waitpid(child, 0)
    for _ in range(16):  # what it wrote last; who else holds the pipe may write for ever
        read(open_ends, kept, most, 0)
    return status


def read(open_ends: list[int], kept: dict[int, bytes], most: dict[int, int], wait: float) -> None:
    """Read once from each pipe that has something."""
    for end in select.select(open_ends, [], [], wait)[0]:
        chunk = os.read(end, CHUNK)
        kept[end] += chunk[: most[end] - len(kept[end])]
        if not chunk:
            open_ends.remove(end)


def confine(asked: dict[str, Any], told: int, said: int) -> None:
    """Leave a process nothing but its limits, two pipes and the folder that it stands in."""
    os.setsid()
    os.environ.clear()
    held = os.dup(told), os.dup(said)
    ends = [os.open(os.devnull, os.O_RDONLY), held[1], held[1], held[0]]
    high = [os.dup2(end, 100 + i) for i, end in enumerate(ends)]
    for i, end in enumerate(high):
        os.dup2(end, i)
    os.closerange(TOLD + 1, 256)  # the guard itself was begun with three
    if asked["user"] is not None:
        become(asked["user"])
    for name, n in asked["limits"].items():
        with contextlib.suppress(OSError, ValueError):  # what holds is tried, not assumed
            resource.setrlimit(getattr(resource, name), (n, n))


def become(user: int) -> None:
    """Be another user, whom nothing belongs to; where numbers are few, nobody."""
    os.setgroups([])
    for who in (user, 65534):
        with contextlib.suppress(OSError):
            os.chown(".", who, who)
            os.setresgid(who, who, who)
            os.setresuid(who, who, who)
            return
    raise OSError("no other user to be")


def work(code: str, tests: list[str]) -> None:
    """Run code, then each test on what it has left, and tell what passed."""
    dumps, write, leave = json.dumps, os.write, os._exit  # the code may put others in their place
    out, names = sys.stdout, {"__name__": "completion"}
    for i, text in enumerate([code, *tests]):
        why = outcome(text, "completion" if i == 0 else f"test {i}", names)
        write(TOLD, (dumps([not why, why[:500]]) + "\n").encode())
        if why and i == 0:
            break
    with contextlib.suppress(BaseException):
        out.flush()
    leave(0)


def outcome(text: str, title: str, names: dict[str, str]) -> str:
    """Run a text and return what went wrong, "" for nothing."""
    try:
        exec(compile(text, title, "exec"), names)
    except BaseException as error:  # SystemExit, too: who leaves has not come to the end
        return f"{title}: {type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    main()
