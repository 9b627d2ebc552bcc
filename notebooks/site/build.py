"""Build the documentation: ``python notebooks/site/build.py [--quick]``.

The sources are put together in build/docs/source: this folder, the notebooks and tables beside it,
and what is written from the library itself (reference, ops, gallery). Sphinx makes build/site of
them; a warning is an error. Notebooks are run by the site's kernel, and kept in a cache for as long
as neither they nor the library change. ``--quick`` runs four tutorials alone.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import gallery
import plotly
import reference

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LEFT = ("__pycache__", ".ipynb_checkpoints")


def assemble(source: Path) -> None:
    """Put together what Sphinx reads; what did not change keeps its time, and is not read again."""
    fresh = source.with_name("source.new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(HERE, fresh, ignore=shutil.ignore_patterns(*LEFT))
    for path in [*fresh.glob("howto/*.md"), *fresh.glob("tutorials/*.ipynb")]:
        put(path.read_text("utf-8"), path, "../../")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        put(path.read_text("utf-8"), fresh / "further" / path.name)
    for path in sorted((ROOT / "notebooks").glob("coming_from_*.md")):
        put(path.read_text("utf-8"), fresh / "coming_from" / path.name.removeprefix("coming_from_"))
    shutil.copytree(ROOT / "notebooks/images", fresh / "images")
    reference.write(fresh)
    gallery.write(fresh)
    shutil.copy(Path(plotly.__file__).parent / "package_data/plotly.min.js", fresh / "_static")
    _replace(source, fresh)


def put(text: str, path: Path, notebooks: str = "") -> None:
    """Write a page where the site has it, with its links to notebooks led to where they are there.

    ``notebooks`` is the way from the page to the folder of notebooks. What the site has not, such
    as pages at the root of the repository, stays as text.
    """
    text = re.sub(rf"\]\({re.escape(notebooks)}(\w+)\.ipynb\)", r"](/further/\1.ipynb)", text)
    text = re.sub(r"\[([^\]\n]+)\]\(\.\./[A-Z]\w+\.md\)", r"\1", text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _replace(old: Path, fresh: Path) -> None:
    for path in fresh.rglob("*"):
        if path.is_file():
            before = old / path.relative_to(fresh)
            if before.is_file() and before.read_bytes() == path.read_bytes():
                shutil.copystat(before, path)
    shutil.rmtree(old, ignore_errors=True)
    fresh.rename(old)


def library() -> str:
    """Return a digest of all that a notebook's results depend on."""
    packages = (ROOT / "workbench/gradwright", ROOT / "widgets/gradwright_widgets", HERE)
    found = hashlib.sha256()
    for path in sorted(p for package in packages for p in package.rglob("*.[pj][sy]")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def build(out: Path, *, quick: bool) -> int:
    """Build the site below ``out``; return what Sphinx returned."""
    work = out / "docs"
    source, caches = work / "source", work / "caches"
    assemble(source)
    cache = caches / library()
    for old in caches.glob("*"):
        if old != cache:
            shutil.rmtree(old)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "2"]
    command += ["-D", f"nb_execution_cache_path={cache}", *(["-t", "quick"] if quick else [])]
    command += ["-d", str(work / "doctrees"), str(source), str(out / "site")]
    own = {
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "GRADWRIGHT_RUNS": str(work / "runs"),
    }
    return subprocess.run(command, env={**os.environ, **own}, check=False).returncode


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--quick", action="store_true", help="run four tutorials alone")
    asked.add_argument("--out", type=Path, default=ROOT / "build", help="default: build")
    given = asked.parse_args()
    code = build(given.out.resolve(), quick=given.quick)
    print(f"{given.out / 'site/index.html'}" if code == 0 else "the site was not built", flush=True)
    sys.exit(code)
