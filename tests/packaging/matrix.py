"""Wheel and sdist as users get them: checked, then installed with old and new dependencies.

    python -m tests.packaging.matrix [--python PATH ...]

It builds both, holds them against the index's rules (``twine check``), and in a fresh environment
for each Python from 3.11 to 3.13 that is found, once with the oldest dependencies that
pyproject.toml allows and that have wheels, once with the newest, installs the wheel and runs
``smoke.py`` far from the checkout. The wheel of the sdist is made without Node. It needs the
package index.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).with_name("smoke.py")
PYTHONS = ("3.11", "3.12", "3.13")
EXTRAS = ("fast", "lab")


def pythons() -> list[str]:
    """Return a Python of each version that is found: on the path, or kept by pyenv."""
    found = []
    for number in PYTHONS:
        kept = sorted(Path.home().glob(f".pyenv/versions/{number}.*/bin/python"))
        tried = [shutil.which(f"python{number}"), *map(str, kept)]
        works = (name for name in tried if name and answers(name))  # pyenv's shims may not
        found += list(works)[:1]
    return found


def answers(python: str) -> bool:
    """Tell whether a Python can be started."""
    return not subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode


def run(*command: str | Path, where: Path, **env: str) -> bool:
    """Run a command; what it says is shown if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=where,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"FAILED: {' '.join(map(str, command))}\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    elif command[1] == SMOKE:
        print(done.stdout, end="")
    return not done.returncode


def build(folder: Path) -> Path | None:
    """Build sdist and wheel, and the wheel of the sdist with no Node in sight; return the wheel."""
    python = folder / "build/bin/python"
    here = [sys.executable, "-m", "venv", folder / "build"]
    if not (
        run(*here, where=folder)
        and run(python, "-m", "pip", "install", "-q", "build", "twine", "uv", where=folder)
        and run(python, "-m", "build", "--sdist", "--outdir", folder / "dist", ROOT, where=folder)
    ):
        return None
    sdist = next((folder / "dist").glob("*.tar.gz"))
    shutil.unpack_archive(sdist, folder / "source", filter="data")
    source = next((folder / "source").iterdir())
    bare = folder / "bare"  # where neither node nor npm is found
    bare.mkdir()
    wheel = [python, "-m", "build", "--wheel", "--outdir", folder / "dist", source]
    if not run(*wheel, where=folder, PATH=str(bare)):
        return None
    files = sorted((folder / "dist").iterdir())
    if not run(python, "-m", "twine", "check", "--strict", *files, where=folder):
        return None
    for file in files:
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB")
    return next(file for file in files if file.suffix == ".whl")


def install(folder: Path, python: str, wheel: Path, *, old: bool) -> bool:
    """Install the wheel in an environment of its own, and run the smoke test in it."""
    place = Path(tempfile.mkdtemp(dir=folder))
    inside = place / "environment/bin/python"
    bounds = place / "bounds.txt"  # of what has a wheel for this Python: nothing is compiled
    extras = [part for extra in EXTRAS for part in ("--extra", extra)]
    chosen = ["--resolution", "lowest-direct" if old else "highest", "--only-binary", ":all:"]
    uv = [folder / "build/bin/uv", "pip"]
    resolve = [*uv, "compile", "-q", "--no-header", "--python", python, *chosen, *extras]
    named = f"gradwright[{','.join(EXTRAS)}] @ {wheel.as_uri()}"
    return (
        run(python, "-m", "venv", place / "environment", where=folder)
        and run(*resolve, ROOT / "pyproject.toml", "-o", bounds, where=place)
        and run(*uv, "install", "-q", "--python", inside, "-c", bounds, named, where=place)
        and run(inside, SMOKE, where=place)
    )


def main() -> int:
    """Go through the matrix."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", nargs="*", default=pythons())
    chosen = parser.parse_args().python
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        wheel = build(folder)
        if wheel is None:
            return 1
        rows = [(python, old) for python in chosen for old in (True, False)]
        passed = [install(folder, python, wheel, old=old) for python, old in rows]
    for (python, old), fine in zip(rows, passed, strict=True):
        print(f"{python}, {'oldest' if old else 'newest'}: {'passed' if fine else 'failed'}")
    print(f"tried with {len(chosen)} of Python {', '.join(PYTHONS)}")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
