"""What users install: three packages and their bundles, whole, from a wheel or from an sdist."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import gradwright
import hatch_build
from hatch_build import BUNDLES, EXTENSION, FRONTEND, NODE_WHEEL, STAMP, MakeHook

ROOT = Path(__file__).parent.parent


HASTY = """
import functools, gzip
gzip.GzipFile = functools.partial(gzip.GzipFile, compresslevel=1)
from hatchling.cli import hatchling
hatchling()
"""
"""Hatchling that packs an sdist of 30 MB in one second and not in nine."""


def build(folder: Path, *targets: str) -> None:
    """Build as it stands: without the hook, so that no test ever starts npm."""
    subprocess.run(
        [sys.executable, "-c", HASTY, "build", *targets, "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "HATCH_BUILD_NO_HOOKS": "true"},
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build wheel and sdist."""
    folder = tmp_path_factory.mktemp("dist")
    build(folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(built.glob("*.whl")))


@pytest.fixture(scope="module")
def source_tree(built: Path) -> Path:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        archive.extractall(built, filter="data")
    return next(built.glob("gradwright-*/pyproject.toml")).parent


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def bundles() -> set[str]:
    return {path.name for path in (ROOT / BUNDLES).glob("*.js")}


def test_wheel_holds_every_python_file_of_three_packages(wheel: zipfile.ZipFile) -> None:
    expected = {
        path.relative_to(folder).as_posix()
        for folder in (ROOT / "workbench", ROOT / "widgets", ROOT / "kernels")
        for path in folder.glob("gradwright*/**/*")
        if path.suffix in {".py", ".pyi"} or path.name == "py.typed"
    }
    assert {f"{name}/py.typed" for name in ("gradwright", "gradwright_widgets")} <= expected
    assert expected <= set(wheel.namelist())


def test_wheel_holds_the_description_of_the_ops_and_its_schema(wheel: zipfile.ZipFile) -> None:
    for name in ("descriptors.json", "descriptors.schema.json", "index.json"):
        held = wheel.read(f"gradwright/ops/{name}")
        assert held == (ROOT / "workbench/gradwright/ops" / name).read_bytes()
    assert json.loads(wheel.read("gradwright/ops/descriptors.json"))["format"] == "gradwright-ops"


def test_wheel_holds_the_bundles(wheel: zipfile.ZipFile) -> None:
    assert bundles(), "no bundles: run `make test`, whose install step builds them"
    for name in bundles():
        assert wheel.getinfo(f"gradwright_widgets/static/{name}").file_size > 0


SHARED = "share/jupyter/labextensions/gradwright/"
"""Where JupyterLab and Notebook look for extensions below the prefix of an environment."""


def test_wheel_holds_the_extension_where_jupyterlab_looks(wheel: zipfile.ZipFile) -> None:
    data = {
        name.split(".data/data/")[1]: wheel.read(name)
        for name in wheel.namelist()
        if ".data/data/" in name
    }
    package = json.loads(data[f"{SHARED}package.json"])
    assert package["name"] == "gradwright" and package["version"] == gradwright.__version__
    assert f"{SHARED}{package['jupyterlab']['_build']['load']}" in data
    # `jupyter labextension list` holds these against the versions of the JupyterLab that is there.
    assert all(range.startswith("^") for range in package["dependencies"].values())
    install = json.loads(data[f"{SHARED}install.json"])
    assert install["packageName"] == "gradwright" and "pip" in install["uninstallInstructions"]
    assert not [name for name in data if name.endswith((".ts", ".map"))]


def test_editable_install_brings_the_extensions_too(tmp_path: Path) -> None:
    build(tmp_path, "-t", "wheel:editable")
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    held = {name.split(".data/data/")[1] for name in names if ".data/data/" in name}
    server = "etc/jupyter/jupyter_server_config.d/gradwright.json"
    assert {f"{SHARED}package.json", f"{SHARED}install.json", server} <= held


def test_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    packages = {"gradwright", "gradwright_widgets", "gradwright_kernels"}
    for name in wheel.namelist():
        folder = name.split("/")[0]
        assert folder in packages or folder.endswith((".dist-info", ".data")), name
        assert "gradwright_widgets/labextension" not in name, "it is in the wheel once"
        assert "node_modules" not in name and not name.endswith((".ts", ".map", ".ipynb")), name


def test_wheel_announces_the_kernels(wheel: zipfile.ZipFile) -> None:
    entry_points = next(n for n in wheel.namelist() if n.endswith("entry_points.txt"))
    text = wheel.read(entry_points).decode()
    assert "[gradwright.lowerings]\ncuda = gradwright_kernels" in text
    assert "[gradwright.notebooks]\nwidgets = gradwright_widgets.bridge.hook:failed" in text


def test_wheel_from_sdist_needs_no_node(source_tree: Path) -> None:
    assert {path.name for path in (source_tree / BUNDLES).glob("*.js")} == bundles()
    assert files(source_tree / EXTENSION.parent) == files(ROOT / EXTENSION.parent)
    assert (source_tree / "binder/requirements.txt").is_file()
    # What the hook hashes in the checkout is exactly what the sdist carries.
    assert hatch_build.sources_hash(source_tree) == hatch_build.sources_hash(ROOT)
    assert (source_tree / STAMP).read_text() == (ROOT / STAMP).read_text()


def test_lock_file_names_no_registry() -> None:
    lock = json.loads((ROOT / FRONTEND / "package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert packages
    assert not [name for name, entry in packages.items() if "resolved" in entry]
    assert not [name for name, entry in packages.items() if "integrity" not in entry]


# The hook itself, on a small tree with a stand-in for npm.


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lay out a project whose `npm` writes a bundle and an extension, and notes its calls."""
    (tmp_path / FRONTEND / "src").mkdir(parents=True)
    (tmp_path / FRONTEND / "package.json").write_text("{}")
    (tmp_path / FRONTEND / "src/panel.ts").write_text("export default {}")
    (tmp_path / BUNDLES).mkdir(parents=True)
    (tmp_path / EXTENSION).parent.mkdir()
    tools = tmp_path / "bin"
    tools.mkdir()
    program(tools / "node", "echo v20.19.0")
    made = f'echo x > "{tmp_path / BUNDLES}/panel.js"; echo x > "{tmp_path / EXTENSION}"'
    program(tools / "npm", f'echo "$@" >> "{tmp_path}/calls"; {made}')
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    # What writes stubs would find the ops of this checkout, and write them into it.
    monkeypatch.setattr(MakeHook, "_write_stubs", lambda self, root: (root / "stubs").touch())
    return tmp_path


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def hook(project: Path) -> MakeHook:
    def abort(message: str) -> None:
        raise SystemExit(message)

    app = SimpleNamespace(abort=abort)
    return MakeHook(str(project), {}, None, None, str(project), "wheel", app)


def calls(project: Path) -> list[str]:
    path = project / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_hook_builds_once(project: Path) -> None:
    hook(project).initialize("standard", {})
    assert calls(project) == ["ci", "run build"] and (project / "stubs").is_file()
    hook(project).initialize("editable", {})
    assert calls(project) == ["ci", "run build"]


def test_hook_builds_again_when_a_source_changed(project: Path) -> None:
    hook(project).initialize("standard", {})
    (project / FRONTEND / "src/panel.ts").write_text("export default { render() {} }")
    hook(project).initialize("standard", {})
    assert calls(project) == ["ci", "run build"] * 2


def test_hook_builds_again_where_the_extension_is_missing(project: Path) -> None:
    hook(project).initialize("standard", {})
    (project / EXTENSION).unlink()
    hook(project).initialize("editable", {})
    assert calls(project) == ["ci", "run build"] * 2


def test_hook_ignores_what_npm_leaves_behind(project: Path) -> None:
    hook(project).initialize("standard", {})
    (project / FRONTEND / "node_modules/esbuild").mkdir(parents=True)
    (project / FRONTEND / "node_modules/esbuild/index.js").write_text("x")
    (project / FRONTEND / "build/tests").mkdir(parents=True)
    (project / FRONTEND / "build/tests/panel.mjs").write_text("x")
    assert not hatch_build.is_stale(project)


def test_hook_tells_a_moved_file_from_an_unchanged_tree(project: Path) -> None:
    before = hatch_build.sources_hash(project)
    (project / FRONTEND / "src/panel.ts").rename(project / FRONTEND / "src/panels.ts")
    assert hatch_build.sources_hash(project) != before


@pytest.mark.parametrize("step", ["ci", "run"])
def test_a_failed_npm_is_explained_and_leaves_no_stamp(project: Path, step: str) -> None:
    program(project / "bin/npm", f'[ "$1" != {step} ]')
    with pytest.raises(SystemExit, match=rf"npm {step}.* failed in .*frontend.*npm registry"):
        hook(project).initialize("standard", {})
    assert hatch_build.is_stale(project)


def test_node_comes_as_a_wheel_where_the_machine_has_none(project: Path) -> None:
    assert hook(project).dependencies() == []
    program(project / "bin/node", "echo v20.18.3")
    assert hook(project).dependencies() == [NODE_WHEEL]
    program(project / "bin/node", "echo v22.0.0")
    hook(project).initialize("standard", {})
    program(project / "bin/node", "echo v20.18.3")
    assert hook(project).dependencies() == [], "nothing to build, so no Node is asked for"


def test_no_node_at_all_is_explained(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hatch_build, "machine_npm", list)
    monkeypatch.setattr(hatch_build, "wheel_npm", list)
    with pytest.raises(SystemExit, match=r"no npm with Node >= 20\.19"):
        hook(project).initialize("standard", {})
