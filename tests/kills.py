"""Kills trainings at random moments, and compares each resume with the run that nothing befell.

``python -m tests.kills 50`` trains once without interruption and notes the bits of everything after
each step: values, optimizer, counters, data, history without its clock, state of callbacks. Then it
trains again and again, in forked processes that are killed with SIGKILL: after a random time, while
a checkpoint is being written, or while one is being resumed from. Each process goes on where the
last checkpoint lets it, and compares its bits after resuming and after each step. A training that
reaches its end begins anew.
"""

from __future__ import annotations

import argparse
import hashlib
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

import numpy as np  # noqa: E402

import gradwright as gw  # noqa: E402
from gradwright.train.checkpoints import Checkpoints, resume  # noqa: E402 - once, not by each fork

ROWS, BATCH = 100, 12  # 9 batches, the last of 4: 5 steps of two batches or one
WIDE = 200_000
"""Elements of the variable that makes writing take its time: 4 MB with state and averages."""
UNEQUAL = 3
"""Exit status of a process whose bits are others."""


def training(folder: Path, compared: gw.Callback) -> gw.Trainer:
    """Return a trainer with all that a resume could get wrong."""
    g = gw.Graph("killed")
    x, t = g.placeholder("x", (None, 8)), g.placeholder("t", (None,))
    hidden = gw.nn.dropout(gw.tanh(x @ g.variable("w", (8, 16))), 0.3)
    wide = g.variable("wide", (WIDE,), init=np.linspace(-1, 1, WIDE))
    mean = g.variable("mean", (16,), trainable=False)
    g.update(mean, mean * 0.9 + gw.mean(hidden, axis=0) * 0.1)
    y = (hidden - mean) @ g.variable("v", (16,))
    loss = gw.mean((y - t) ** 2.0) + gw.mean(wide * wide)
    rate = gw.schedules.Cosine(0.01, 400)
    return gw.Trainer(
        g,
        loss,
        optimizer=gw.optim.Adam(rate),
        metrics={"error": gw.mean(gw.abs(y - t))},
        clip_norm=1.0,
        accumulation=2,
        ema=gw.EMA(0.9),
        validate_with="ema",
        seed=3,
        session=gw.Session(g, deterministic=True, seed=3),
        callbacks=[
            Checkpoints(folder, every_steps=1, keep_last=3, keep_best=1),
            gw.EarlyStopping("val_loss", patience=1000),
            compared,
        ],
    )


def rows(n: int, seed: int) -> dict[str, np.ndarray]:
    """Return data."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 8)).astype("float32")
    return {"x": x, "t": np.sin(x.sum(1)).astype("float32")}


def bits(trainer: gw.Trainer) -> str:
    """Return a digest of everything that a step may change, but the clock."""
    found = hashlib.blake2b(digest_size=16)
    state = {k: v for k, v in trainer.state_dict().items() if not k.endswith("/seconds")}
    values = {t.name: trainer.values[t.name] for t in trainer.graph.variables}
    for name, array in sorted({**state, **values}.items()):
        array = np.asarray(array)
        found.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return found.hexdigest()


class Noted(gw.Callback):
    """Notes the bits after each step and epoch."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, int], str] = {}

    def on_step_end(self, trainer, record):
        self.found[trainer.steps_done, trainer.epochs_done] = bits(trainer)

    def on_epoch_end(self, trainer, record):
        self.found[trainer.steps_done, trainer.epochs_done] = bits(trainer)


class Compared(gw.Callback):
    """Compares the bits after each step with those that were noted, and tells how far it is."""

    def __init__(self, noted: dict[tuple[int, int], str], pipe: int) -> None:
        self.noted, self.pipe = noted, pipe

    def on_step_end(self, trainer, record):
        self.look(trainer)

    def on_epoch_end(self, trainer, record):
        self.look(trainer)

    def look(self, trainer: gw.Trainer) -> None:
        """End the process if the bits are others."""
        at = trainer.steps_done, trainer.epochs_done
        if at != (0, 0) and bits(trainer) != self.noted[at]:
            os.write(self.pipe, f"unequal {at[0]}\n".encode())
            os._exit(UNEQUAL)
        os.write(self.pipe, f"{at[0]}\n".encode())


def fit(trainer: gw.Trainer, epochs: int) -> None:
    """Train what is left of ``epochs``."""
    left = epochs - trainer.epochs_done
    data, held_out = rows(ROWS, 0), rows(30, 1)
    trainer.fit(data, epochs=left, batch_size=BATCH, validation=held_out, progress=False)


def process(folder: Path, noted: dict[tuple[int, int], str], epochs: int) -> tuple[int, int]:
    """Fork a process that resumes and trains; return its number and the pipe it reports to."""
    read, write = os.pipe()
    number = os.fork()
    if number:
        os.close(write)
        return number, read
    status = 1
    try:
        os.close(read)
        compared = Compared(noted, write)
        trainer = training(folder, compared)
        resume(trainer, folder, missing_ok=True)
        compared.look(trainer)
        fit(trainer, epochs)
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def half_written(folder: Path) -> set[Path]:
    """Return what writes have begun, and not ended."""
    return set(folder.glob(".checkpoint-*.tmp"))


def killed(folder: Path, number: int, pipe: int, rng: random.Random) -> tuple[str, list[str]]:
    """Kill a process at a random moment; return what was meant to be hit, and its reports."""
    how, text, old = rng.choices(["writing", "any time", "resuming"], [5, 4, 1])[0], b"", set()
    if how == "resuming":
        time.sleep(rng.uniform(0, 0.1))
    else:
        steps = rng.randint(1, 15)
        while text.count(b"\n") <= steps and (part := os.read(pipe, 1)):
            text += part
            old = half_written(folder) if text.count(b"\n") == steps else old
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


def main() -> None:
    """Kill, resume, compare, and print what happened."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=50)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng, place = random.Random(asked.seed), Path(tempfile.mkdtemp(prefix="gradwright-kills-"))
    reader, writer = os.pipe()
    if os.fork() == 0:  # in a process of its own: one with threads should not fork
        noted = Noted()
        fit(training(place / "whole", noted), asked.epochs)
        with os.fdopen(writer, "w") as file:
            file.writelines(f"{s} {e} {found}\n" for (s, e), found in noted.found.items())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        lines = [line.split() for line in file]
    os.wait()
    known = {(int(s), int(e)): found for s, e, found in lines}
    print(f"the whole run: {lines[-1][0]} steps, bits {lines[-1][2][:8]}", flush=True)
    done = hits = ends = 0
    while done <= asked.kills:
        is_last = done == asked.kills
        old = half_written(place / "run")
        number, pipe = process(place / "run", known, asked.epochs)
        how, told = ("", ended(pipe)) if is_last else killed(place / "run", number, pipe, rng)
        _, status = os.waitpid(number, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            sys.exit(f"process {number} ended with {os.WEXITSTATUS(status)}: {told[-1:]}")
        steps = f"steps {told[0]} to {told[-1]}" if told else "no step"
        if os.WIFSIGNALED(status):
            done += 1
            is_hit = not half_written(place / "run") <= old
            hits += is_hit
            torn = ", a file half written" if is_hit else ""
            print(f"kill {done:3}: at {how:<9} {steps}, all equal{torn}", flush=True)
        elif is_last:
            print(f"the end: {steps}, all equal")
            break
        else:
            ends += 1
            shutil.rmtree(place / "run")
    print(f"{done} kills, {hits} in the midst of a write, {ends} trainings reached their end")
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
