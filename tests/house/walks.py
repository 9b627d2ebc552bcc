"""How far a call walks: what an import loads and takes, what a step, a gradient, a file call."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import gradwright as gw
from tests.house.models import classifier, cross_entropy, rows

HOME = Path(gw.__file__).parent
TIMES = 7
WARM = 8
"""Steps before one is followed: by then a plan has its kernels, and nothing is prepared anew."""


def imports() -> list[str]:
    """Return the packages that ``import gradwright`` loads, but for Python's own."""
    roots = {name.partition(".")[0] for name in _fresh(f"{LOADED}\nprint(*new)").split()}
    return sorted(
        r for r in roots - sys.stdlib_module_names if not r.startswith(("_", "gradwright"))
    )


def measured() -> dict[str, Any]:
    """Return what the journeys of a user cost."""
    return {"import": _import(), **{name: walk(go) for name, go in _journeys().items()}}


def walk(go: Callable[[], object]) -> dict[str, Any]:
    """Return how many functions of ours a call enters, and in which files and rooms they stand."""
    calls: Counter[str] = Counter()
    inside = f"{HOME}{os.sep}"

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(inside):
            calls[frame.f_code.co_filename.removeprefix(inside)] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        go()
    finally:
        sys.setprofile(before)
    rooms: Counter[str] = Counter()
    for file, n in calls.items():
        rooms[Path(file).parts[0].removesuffix(".py")] += n
    return {"calls": calls.total(), "files": len(calls), "rooms": dict(sorted(rooms.items()))}


# -- the journeys --------------------------------------------------------------------------------


def _journeys() -> dict[str, Callable[[], object]]:
    """Return calls on networks of two layers; each has its own, so that no other disturbs it."""
    data = {k: v[:8] for k, v in rows().items()}
    g, loss, logits = _network()
    trainer = gw.Trainer(g, loss, gw.optim.Adam(), deterministic=True, threads=1)
    g, _, logits = _network()
    session, x = gw.Session(g, deterministic=True, threads=1), data["x"]
    run = session.prepare(logits, ["x"])
    model = gw.onnx.to_model(g, [logits]).SerializeToString()
    for _ in range(WARM):
        trainer.step(data)
        run(x)
        session.run(logits, {"x": x})
    gw.onnx.load(model)
    g, loss, _ = _network()
    return {
        "Trainer.step": lambda: trainer.step(data),
        "prepared Session.run": lambda: run(x),
        "Session.run": lambda: session.run(logits, {"x": x}),
        "gradients": lambda: gw.gradients(loss, g.trainable),
        "onnx.load": lambda: gw.onnx.load(model),
    }


def _network() -> tuple[gw.Graph, gw.Tensor, gw.Tensor]:
    g, t, logits = classifier()
    return g, cross_entropy(t, logits), logits


# -- the import ----------------------------------------------------------------------------------

LOADED = "import sys; old = set(sys.modules); import gradwright; new = sorted({*sys.modules} - old)"


def _import() -> dict[str, Any]:
    """Return the modules of ``import gradwright``, and the processor's time: the least of some."""
    ours = [n for n in _fresh(f"{LOADED}\nprint(*new)").split() if n.startswith("gradwright")]

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def least(code: str) -> float:
        marks = [spent()]
        for _ in range(TIMES):
            _fresh(code)
            marks.append(spent())
        return min(b - a for a, b in pairwise(marks))

    whole, numpy = least("import gradwright"), least("import numpy, ml_dtypes")
    above = round((whole - numpy) * 1e3)
    return {"modules": len(ours), "ms": round(whole * 1e3), "above numpy": above}


def _fresh(code: str) -> str:
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout
