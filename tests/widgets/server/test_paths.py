"""Paths of requests: what is within the root, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradwright_widgets.server.paths import file_of, stamp_of, within
from gradwright_widgets.server.refused import RefusedError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "folder/.hidden").mkdir(parents=True)
    (root / "folder/a b.gw").write_text("x")
    (root / "folder/.hidden/c.gw").write_text("x")
    (tmp_path / "root2").mkdir()
    (tmp_path / "root2/secret").write_text("x")
    (root / "inner").symlink_to("folder/a b.gw")
    (root / "outer").symlink_to(tmp_path / "root2/secret")
    (root / "elsewhere").symlink_to(tmp_path / "root2")
    (root / "circle").symlink_to("circle")
    os.mkfifo(root / "pipe")
    return root


def test_what_is_in_the_root_is_found(root):
    assert file_of("folder/a b.gw", str(root)) == root / "folder/a b.gw"
    assert file_of("inner", str(root)) == root / "folder/a b.gw"
    assert file_of("", str(root)) == root
    assert file_of("folder/.hidden/c.gw", str(root), hidden=True).name == "c.gw"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("../root2/secret", 400), ("folder/../../root2/secret", 400), ("/etc/passwd", 400),
        ("..", 400), ("a\0b", 400), ("folder//a b.gw", 400), ("./inner", 400), ("inner/", 400),
        ("%2e%2e/root2/secret", 404), ("..%2froot2%2fsecret", 404), ("..\\root2\\secret", 404),
        ("C:\\x", 404), ("drive:folder/a b.gw", 404), ("FOLDER/a b.gw", 404), ("nothing", 404),
        ("circle", 404), ("folder/a b.gw/x", 404), ("x" * 300, 404), ("\udcff", 404),
        ("folder/.hidden/c.gw", 404), ("folder/.hidden", 404),
        ("outer", 403), ("elsewhere/secret", 403), ("elsewhere", 403), ("pipe", 403),
    ],
)  # fmt: skip
def test_all_else_is_refused(root, path, status):
    with pytest.raises(RefusedError) as caught:
        file_of(path, str(root))
    assert caught.value.status == status
    assert "root2" not in str(caught.value.as_dict()).replace(repr(path)[1:-1], "")


def test_a_root_may_itself_be_a_link(root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    assert file_of("inner", str(tmp_path / "link")).name == "a b.gw"
    with pytest.raises(RefusedError, match="leads out"):
        within(tmp_path / "link/outer", str(tmp_path / "link"))


def test_a_stamp_changes_with_the_file_and_with_what_grows_in_a_folder(root):
    first = stamp_of(root / "folder/a b.gw")
    assert first == stamp_of(root / "inner") and first["bytes"] == 1
    os.utime(root / "folder/a b.gw", (0, 0))
    assert stamp_of(root / "folder/a b.gw")["stamp"] != first["stamp"]
    (root / "run").mkdir()
    (root / "run/events.jsonl").write_text("{}")
    before = stamp_of(root)["stamp"]
    with (root / "run/events.jsonl").open("a") as events:
        events.write("{}")
    assert stamp_of(root)["stamp"] != before
