"""Kills trainings of eleven kinds at random moments, and compares resumes with a run left alone.

    python -m tests.kills [kills] [--only KIND] [--epochs N] [--seed N]

Each kind trains once without interruption and notes the bits of everything after each step: values,
optimizers, counters, data, history without its clock, state of callbacks. Then it trains again and
again, in forked processes that are killed with SIGKILL: after a random time, while a checkpoint is
being written, or while one is being resumed from; one kind is sent SIGTERM before, as where a
machine is taken back. Each process goes on where the last checkpoint lets it, and compares its bits
after resuming and after each step. A training that reaches its end begins anew.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")

from tests.support.trainings import KINDS, Place, half_written  # noqa: E402 - once, not by each fork

UNEQUAL = 3
"""Exit status of a process whose bits are others."""
TERMINATED = 143
"""That of one which SIGTERM has ended in time."""
Known = dict[Place, str]


def noted(kind: str, place: Path, epochs: int) -> Known:
    """Return the bits after each step of a run that is left alone."""
    reader, writer = os.pipe()
    if os.fork() == 0:  # in a process of its own: one with threads should not fork
        with os.fdopen(writer, "w") as file:
            KINDS[kind](place, lambda at, b: file.write(f"{at[0]} {at[1]} {b}\n") and None).run(
                epochs
            )
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        lines = [line.split() for line in file]
    if os.wait()[1]:
        sys.exit(f"{kind}: the run that was left alone has failed")
    return {(int(s), int(e)): found for s, e, found in lines}


def process(kind: str, folder: Path, known: Known, epochs: int) -> tuple[int, int]:
    """Fork a process that resumes and trains; return its number and the pipe it reports to."""
    read, write = os.pipe()
    number = os.fork()
    if number:
        os.close(write)
        return number, read
    status = 1

    def look(at: Place, found: str) -> None:
        if known[at] != found:
            os.write(write, f"unequal {at[0]}\n".encode())
            os._exit(UNEQUAL)
        os.write(write, f"{at[0]}\n".encode())

    try:
        os.close(read)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        KINDS[kind](folder, look).run(epochs)
        status = 0
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(status)


def killed(
    kind: str, folder: Path, number: int, pipe: int, rng: random.Random
) -> tuple[str, list[str]]:
    """Kill a process at a random moment; return what was meant to be hit, and its reports."""
    how, text, old = rng.choices(["writing", "any time", "resuming"], [5, 4, 1])[0], b"", set()
    if how == "resuming":
        time.sleep(rng.uniform(0, 0.1))
    else:
        steps = rng.randint(1, 15)
        while text.count(b"\n") <= steps and (part := os.read(pipe, 1)):
            text += part
            old = half_written(folder) if text.count(b"\n") == steps else old
        if kind == "preempted":
            os.kill(number, signal.SIGTERM)
        begun = time.monotonic()
        while how == "writing" and time.monotonic() - begun < 1 and half_written(folder) <= old:
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, 0.015))
    os.kill(number, signal.SIGKILL)
    return how, ended(pipe, text)


def ended(pipe: int, text: bytes = b"") -> list[str]:
    """Return what a process has reported when it has ended."""
    with os.fdopen(pipe, "rb") as file:
        return (text + file.read()).decode().splitlines()


def campaign(kind: str, kills: int, epochs: int, rng: random.Random) -> tuple[int, int, int]:
    """Kill trainings of one kind; return how many, hits in the midst of a write, and ends."""
    place = Path(tempfile.mkdtemp(prefix="gradwright-kills-"))
    known = noted(kind, place / "whole", epochs)
    last = max(known)
    print(f"{kind}: the whole run has {last[0]} steps, bits {known[last][:8]}", flush=True)
    done = hits = ends = 0
    while done <= kills:
        is_last = done == kills
        old = half_written(place / "run")
        number, pipe = process(kind, place / "run", known, epochs)
        how, told = ("", ended(pipe)) if is_last else killed(kind, place / "run", number, pipe, rng)
        _, status = os.waitpid(number, 0)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
        if code not in (0, TERMINATED):
            sys.exit(f"{kind}: process {number} ended with {code}: {told[-1:]}")
        steps = f"steps {told[0]} to {told[-1]}" if told else "no step"
        if os.WIFSIGNALED(status) or code == TERMINATED:
            done += 1
            is_hit = not half_written(place / "run") <= old
            hits += is_hit
            torn = ", a file half written" if is_hit else ""
            torn += ", ended in time" if code == TERMINATED else ""
            print(f"kill {done:3}: at {how:<9} {steps}, all equal{torn}", flush=True)
        elif is_last:
            print(f"the end: {steps}, all equal", flush=True)
            break
        else:
            ends += 1
            for left in place.glob("run*"):
                shutil.rmtree(left)
    shutil.rmtree(place)
    return done, hits, ends


def main() -> None:
    """Kill, resume, compare, and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=100, help="of all kinds together")
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng, kinds = random.Random(asked.seed), asked.only or list(KINDS)
    with contextlib.suppress(ValueError):  # where something else than Python has it
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    totals = [0, 0, 0]
    for i, kind in enumerate(kinds):
        share = asked.kills // len(kinds) + (i < asked.kills % len(kinds))
        found = campaign(kind, share, asked.epochs, rng)
        totals = [a + b for a, b in zip(totals, found, strict=True)]
    done, hits, ends = totals
    print(
        f"{done} kills of {len(kinds)} kinds, {hits} in the midst of a write, "
        f"{ends} trainings reached their end, 0 lost"
    )


if __name__ == "__main__":
    main()
