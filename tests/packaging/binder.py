"""Binder's steps, replayed: what repo2docker would do with this repository, without a container.

    python -m tests.packaging.binder [part of a tutorial's name ...]

It asks repo2docker for its Dockerfile (nothing is built), which says what build pack it takes, and
replays the steps that this repository decides in a fresh environment and a clone of what is
committed: the requirements, ``postBuild``, then the tutorials, measured (``tutorials.py``). It
needs the package index. ``--quick`` runs the tour alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTENSIONS = {
    "labextension list": "gradwright",
    "server extension list": "gradwright_widgets.server",
}
"""What commands of ``jupyter`` must show, and say that it is enabled."""


def said(*command: str | Path, where: Path, **env: str) -> str:
    """Return what a command prints; raises SystemExit with it where the command fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=where,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"FAILED: {' '.join(map(str, command))}\n{done.stdout[-8000:]}")
    return done.stdout


def environment(folder: Path, name: str) -> Path:
    """Return the programs of a fresh environment."""
    said(sys.executable, "-m", "venv", folder / name, where=folder)
    return folder / name / "bin"


def recipe(folder: Path, clone: Path) -> str:
    """Return the Dockerfile that repo2docker makes of a clone."""
    programs = environment(folder, "repo2docker")
    said(programs / "pip", "install", "-q", "jupyter-repo2docker", where=folder)
    return said(programs / "jupyter-repo2docker", "--no-build", "--debug", clone, where=folder)


def main() -> int:
    """Replay the steps."""
    parts = [part for part in sys.argv[1:] if part != "--quick"]
    parts += ["00_tour"] if "--quick" in sys.argv else []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        clone = folder / "clone"
        said("git", "clone", "-q", "--depth", "1", ROOT.as_uri(), clone, where=folder)
        dockerfile = recipe(folder, clone)
        for step in ("binder/requirements.txt", "binder/postBuild", "apt-get install"):
            if step not in dockerfile:
                raise SystemExit(f"repo2docker takes no step with {step}:\n{dockerfile}")
        programs = environment(folder, "binder")
        path = os.pathsep.join([str(programs), os.environ["PATH"]])
        pip = [programs / "python", "-m", "pip", "install", "-q", "--no-cache-dir"]
        said(*pip, "-r", "binder/requirements.txt", where=clone)
        said("binder/postBuild", where=clone, PATH=path)
        for command, name in EXTENSIONS.items():
            listed = said(programs / "jupyter", *command.split(), where=clone)
            line = next((line for line in listed.splitlines() if name in line), "")
            if "enabled" not in line:
                raise SystemExit(f"`jupyter {command}` does not show {name!r}:\n{listed}")
        print("built as Binder builds it; both extensions are enabled", flush=True)
        measured = clone / "tests/packaging/tutorials.py"
        done = subprocess.run([programs / "python", measured, *parts], cwd=clone, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
