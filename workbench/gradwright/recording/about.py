"""What a training was made of: graph, settings, seeds, versions, machine, and the git commit."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import TrainingError
from ..train.training import Training
from ..words.jsonable import to_json

LIBRARIES = ("gradwright", "numpy", "ml_dtypes", "llvmlite")
MOST = 1000
"""How many parameters are listed one by one."""


def described(trainer: Training) -> dict[str, Any]:
    """Return what ``config.json`` says of a trainer: strict JSON."""
    graph, session = trainer.graph, trainer.session
    variables = trainer.parameters
    return {
        "graph": {
            "name": graph.name,
            "nodes": len(graph.nodes),
            "trained": sum(t.spec.size for t in variables),
            "parameters": {t.name: str(t.spec) for t in variables[:MOST]},
        },
        "training": settings(trainer),
        "seeds": {"trainer": trainer.seed, "session": session.seed},
        "session": {
            "device": session.device.name,
            "deterministic": session.deterministic,
            "tuning": session.tuning,
        },
        "versions": {"python": platform.python_version()} | versions(),
        "machine": {"host": platform.node(), "system": platform.platform(), "cpus": os.cpu_count()},
        "git": git_commit(Path.cwd()),
        "program": Path(sys.argv[0]).name if sys.argv else "",
    }


def settings(trainer: Training) -> Any:
    """Return the settings of a trainer; functions, which JSON has not, as text."""
    config = trainer.config
    try:
        return to_json(config)
    except TrainingError:
        return {"text": repr(config)}


def versions() -> dict[str, str]:
    """Return the versions of the libraries that decide what happens."""
    found = {}
    for name in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found | {"numpy": np.__version__}


def git_commit(folder: Path) -> dict[str, str] | None:
    """Return commit and branch of the git repository around a folder; None where there is none.

    Its files are read and git is not run. A folder with changes that are not committed has the
    commit that they were made on.

    >>> import tempfile, pathlib
    >>> git_commit(pathlib.Path(tempfile.mkdtemp()))
    """
    for parent in (folder, *folder.parents):
        with contextlib.suppress(OSError, UnicodeDecodeError, ValueError):
            found = _read_git(parent / ".git")
            if found is not None:
                return found
    return None


def _read_git(git: Path) -> dict[str, str] | None:
    if git.is_file():  # a worktree: "gitdir: <folder>"
        git = git.parent / git.read_text("utf-8").partition("gitdir:")[2].strip()
    if not (git / "HEAD").is_file():
        return None
    head = (git / "HEAD").read_text("utf-8").strip()
    if not head.startswith("ref: "):
        return {"commit": head}
    ref = head.removeprefix("ref: ")
    common = git
    if (git / "commondir").is_file():
        common = git / (git / "commondir").read_text("utf-8").strip()
    branch = {"branch": ref.removeprefix("refs/heads/")}
    for place in (git, common):
        if (place / ref).is_file():
            return {"commit": (place / ref).read_text("utf-8").strip()} | branch
    for line in (common / "packed-refs").read_text("utf-8").splitlines():
        commit, _, name = line.partition(" ")
        if name == ref:
            return {"commit": commit} | branch
    return None
