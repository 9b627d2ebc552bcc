"""Several files of a folder: all of the new ones, or all of the old ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwright.files.folder import filling
from gradwright.files.plain import NotPlainError


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "kept").mkdir()
    for name in ("a", "b", "c", "kept/d"):
        (tmp_path / name).write_text(f"old {name}")
    return tmp_path


def fill(folder: Path, names="abe", stale=("c",)) -> None:
    with filling(folder, stale) as new:
        for name in names:
            (new / name).write_text(f"new {name}")


def test_new_files_take_their_places_and_others_stay(folder) -> None:
    (folder / "a").chmod(0o640)
    fill(folder, stale=("c", "never there"))
    assert contents(folder) == {
        "a": b"new a", "b": b"new b", "e": b"new e", "kept/d": b"old kept/d"
    }  # fmt: skip
    assert (folder / "a").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b", "e", "kept"]


@pytest.mark.parametrize("moves", range(6))
def test_what_fails_half_way_leaves_all_as_it_was(folder, moves, monkeypatch) -> None:
    """Six files move: three old ones away, and three new ones to their places."""
    before, replace, left = contents(folder), Path.replace, [moves]

    def failing(self: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] == -1:
            raise PermissionError(13, "in use", str(self))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(PermissionError):
        fill(folder)
    assert contents(folder) == before and len(list(folder.iterdir())) == 4


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_error_while_files_are_written(folder, error) -> None:
    before = contents(folder)
    with pytest.raises(type(error)), filling(folder) as new:
        (new / "a").write_text("half")
        raise error
    assert contents(folder) == before and len(list(folder.iterdir())) == 4
    with pytest.raises(type(error)), filling(folder / "deep" / "new") as new:
        (new / "a").write_text("half")
        raise error
    assert not (folder / "deep").exists()
    fill(folder / "deep" / "new")
    assert set(contents(folder / "deep" / "new")) == {"a", "b", "e"}


def test_what_is_no_file_is_not_replaced(folder) -> None:
    before = contents(folder)
    with pytest.raises(IsADirectoryError):
        fill(folder, ["a", "kept"])
    (folder / "link").symlink_to(folder / "a")
    with pytest.raises(NotPlainError, match="symbolic link"):
        fill(folder, ["b", "link"])
    (folder / "link").unlink()
    assert contents(folder) == before
    with pytest.raises(NotADirectoryError):
        fill(folder / "a")
    assert contents(folder) == before
