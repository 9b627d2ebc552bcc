"""Own ops of an archive in a new process: entry points, modules the user names, no others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gradwright as gw
from gradwright.errors import UnsupportedOpError
from gradwright.op import OPS
from tests.formats.archives import forge

OPS_OF_ACME = """
import gradwright as gw

twice = gw.define_op("acme/twice", lambda x, by=2.0: x * by, vjp=lambda g, y, x, by: g * by)
"""
RUN = """
import json, sys, gradwright as gw

def go(**options):
    g = gw.load(sys.argv[1], **options)
    (dx,) = gw.gradients(g["y"], [g["x"]])
    return [v.tolist() for v in g.output({"x": [1.0, 2.0]}, "y", dx).values()]
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Return an archive with a node of ``acme/twice``, an op that is not registered any more."""
    space: dict[str, object] = {}
    exec(OPS_OF_ACME, space)
    g = gw.Graph()
    space["twice"](g.placeholder("x", (2,)), by=3.0, name="y")  # type: ignore[operator]
    g.save(tmp_path / "g.gw")
    del OPS["acme/twice"]
    return tmp_path / "g.gw"


def in_a_new_process(
    code: str, archive: Path, folder: Path, *more: str
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", RUN + code, str(archive), *more],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


@pytest.mark.parametrize(
    "ops", ["'acme_ops'", "['json', 'acme_ops']", "[json, __import__('acme_ops')]"]
)
def test_modules_that_the_user_names(archive: Path, tmp_path: Path, ops: str) -> None:
    (tmp_path / "acme_ops.py").write_text(OPS_OF_ACME)
    done = in_a_new_process(f"print(go(ops={ops}))", archive, tmp_path)
    assert done.stdout.strip() == "[[3.0, 6.0], [3.0, 3.0]]", done.stderr
    done = in_a_new_process("print(go(ops='no_such_module'))", archive, tmp_path)
    assert "ModuleNotFoundError: No module named 'no_such_module'" in done.stderr


def test_installed_packages_with_an_entry_point(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "acme_ops.py").write_text(OPS_OF_ACME)
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gradwright.ops]\nacme = acme_ops\n")
    done = in_a_new_process("print(go())", archive, tmp_path)
    assert done.stdout.strip() == "[[3.0, 6.0], [3.0, 3.0]]", done.stderr
    (tmp_path / "acme_ops.py").write_text("raise RuntimeError('broken')")
    done = in_a_new_process("print(go())", archive, tmp_path)
    assert "UnsupportedOpError" in done.stderr and "fails to import: broken" in done.stderr


NAMES = ["bait", "bait/twice", "bait:twice", "bait.twice", "../bait", "bait/", "os/system"]


def test_a_file_imports_nothing(archive: Path, tmp_path: Path) -> None:
    """A module lies ready under the name that forged files give as op, owner or enum."""
    (tmp_path / "bait.py").write_text("print('imported')")
    for i, name in enumerate([*NAMES, "enum"]):
        shutil.copy(archive, forged := tmp_path / f"{i}.gw")

        def change(held: dict[str, bytes], name: str = name) -> None:
            text = held["graph.json"].decode()
            text = text.replace("acme/twice", "bait/twice" if name == "enum" else name)
            enum = '{"enum": "bait.Mode", "member": "FAST"}'
            by = json.dumps({"by": 3.0})
            assert by in text
            held["graph.json"] = (
                text.replace(by, f'{{"by": {enum}}}') if name == "enum" else text
            ).encode()

        forge(forged, change)
    done = in_a_new_process(
        """
for i in range(int(sys.argv[2])):
    try:
        print(type(gw.load(sys.argv[1].replace("g.gw", f"{i}.gw"))["y"].op).__name__)
    except gw.errors.ArchiveError:
        print("refused")
print("bait" in sys.modules)
""",
        archive, tmp_path, str(len(NAMES) + 1),
    )  # fmt: skip
    said = done.stdout.split()
    assert set(said) <= {"UnknownOp", "refused", "False"} and len(said) == len(NAMES) + 2, (
        done.stderr
    )
    assert said.count("UnknownOp") >= len(NAMES) - 2 and said[-1] == "False"


def test_the_error_names_the_ways(archive: Path) -> None:
    g = gw.load(archive)
    with pytest.raises(UnsupportedOpError, match=r"ops=\[\"my_module\"\]"):
        g.output({"x": [1.0, 2.0]}, "y")
