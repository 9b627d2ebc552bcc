"""Build a site without a server: ``python notebooks/lite/build.py``.

JupyterLite's pages with our extension in them, models and saved pages as its files, and what a
server would say of each, written down beforehand: any host of static files shows it. It has no
kernel: nothing can be run there, and a file that is brought along is not read.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import models

from gradwright_widgets.server.answers.asked import Asked, answered
from gradwright_widgets.server.paths import file_of, stamp_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXTENSION = ROOT / "widgets/gradwright_widgets/labextension"
ANSWERS = "gradwright-answers"
"""The folder of the site with what a server would say; the extension is told by this name, too."""
MOST = 1000
"""Tensors of a file, of which pictures are kept for the first ``VALUES``, and nodes."""
VALUES = 64


class Answers:
    """What our server says about the files of a folder."""

    def __init__(self, root: Path, out: Path) -> None:
        self.root, self.out = root, out

    def keep(self, path: str) -> None:
        """Write down what is asked about a file when it is opened."""
        stamp = {"path": path, **stamp_of(file_of(path, str(self.root)))}
        self._write(path, "stamp", stamp)
        for task in ("inspect", "fits", "runs", "curves"):
            self._ask(path, task, task)
        drawn = self._ask(path, "drawing", "drawing")
        names = drawn["state"]["graph_spec"]["names"] if drawn else []
        for k, node in enumerate(names[:MOST]):
            self._ask(path, "values", f"values-{k}", node=node)
        rows = self._ask(path, "tensors", "tensors", n=str(MOST))
        for k, row in enumerate(rows["tensors"][:VALUES] if rows else []):
            self._ask(path, "tensor", f"tensor-{k}", name=row["name"])

    def formats(self) -> None:
        """Write down which formats there are."""
        self._write("", "formats", json.loads(answered(self._asked("formats", None))[1]))

    def _ask(self, path: str, task: str, place: str, /, **arguments: str) -> Any:
        """Write down an answer; what a file has none for is left out."""
        status, data = answered(self._asked(task, path, **arguments))
        if status != 200:
            return None
        told = json.loads(data)
        if task != "values" or told["messages"][0]["content"]["tensors"]:
            self._write(path, place, told)
        return told

    def _asked(self, task: str, path: str | None, /, **arguments: str) -> Asked:
        files = () if path is None else (file_of(path, str(self.root)),)
        stamps = tuple(stamp_of(file)["stamp"] for file in files)
        paths = () if path is None else (path,)
        return Asked(task, str(self.root), False, paths, files, stamps, arguments)

    def _write(self, path: str, name: str, told: Any) -> None:
        place = self.out / path
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.json").write_text(json.dumps(told), "utf-8")


def build(out: Path) -> int:
    """Build the site in ``out``; return what JupyterLite returned."""
    work = out.with_name(f"{out.name}-work")
    for old in (work, out):
        shutil.rmtree(old, ignore_errors=True)
    contents = work / "contents"
    contents.mkdir(parents=True)
    shutil.copy(HERE / "welcome.md", contents)
    opened = models.write(contents)
    answers = Answers(contents, work / "static" / ANSWERS)
    answers.formats()
    for path in opened:
        answers.keep(path)
    site = {"jupyter-lite-schema-version": 0, "jupyter-config-data": {"gradwrightAnswers": ANSWERS}}
    (work / "jupyter-lite.json").write_text(json.dumps(site), "utf-8")
    extensions = {
        "federated_extensions": [str(EXTENSION)],
        "ignore_sys_prefix": ["federated_extensions"],
    }
    (work / "jupyter_lite_config.json").write_text(
        json.dumps({"LiteBuildConfig": extensions}), "utf-8"
    )
    command = [sys.executable, "-m", "jupyterlite_core", "build", "--contents", str(contents)]
    command += ["--lite-dir", str(work), "--output-dir", str(out)]
    command += ["--no-sourcemaps", "--no-unused-shared-packages"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-4000:], file=sys.stderr)
    else:
        shutil.copytree(work / "static", out, dirs_exist_ok=True)
        shutil.rmtree(work)
    return done.returncode


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--out", type=Path, default=ROOT / "build/lite", help="default: build/lite")
    given = asked.parse_args().out.resolve()
    if code := build(given):
        sys.exit(code)
    size = sum(path.stat().st_size for path in given.rglob("*") if path.is_file())
    print(f"{given}: {size / 1e6:.0f} MB; python -m http.server -d {given} shows it")
