"""Several files of a folder written together or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from .plain import check_plain


@contextlib.contextmanager
def filling(path: str | os.PathLike[str], stale: Iterable[str] = ()) -> Iterator[Path]:
    """Give an empty folder, whose files go into ``path`` when the block ends without an error.

    They take the places of those of their names, and the files called ``stale`` go; all others
    stay. Where one of them cannot, those before it are given back, so an error leaves the folder as
    it was, or makes none where none was. New files lie until then in a folder within it, called
    ``.gw``, sixteen hexadecimal digits and ``.tmp``, so no disk is changed. Links and what is no
    file are not replaced: NotPlainError, IsADirectoryError.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("old"), (folder / "b.txt").write_text("b")
    >>> try:
    ...     with filling(folder) as new:
    ...         _ = (new / "a.txt").write_text("new")
    ...         raise OSError("no space left")
    ... except OSError:
    ...     sorted(p.name for p in folder.iterdir()), (folder / "a.txt").read_text()
    (['a.txt', 'b.txt'], 'old')
    """
    target = Path(path).resolve()
    made = [p for p in (target, *target.parents) if not p.exists()]
    staged = target / f".gw-{os.urandom(8).hex()}.tmp"
    new, old = staged / "new", staged / "old"
    try:
        new.mkdir(parents=True)
        old.mkdir()
        yield new
        _take_places(new, old, target, stale)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        for folder in made:
            with contextlib.suppress(OSError):  # it is not there, or somebody else's file is in it
                folder.rmdir()
        raise
    shutil.rmtree(staged, ignore_errors=True)


def _take_places(new: Path, old: Path, target: Path, stale: Iterable[str]) -> None:
    """Move new files to their places, and what was there to ``old``; undo all where one fails."""
    names = [path.name for path in new.iterdir()]
    for name in names:
        check_plain(target / name)
        with contextlib.suppress(FileNotFoundError):
            (new / name).chmod(stat.S_IMODE((target / name).stat().st_mode))
    with contextlib.ExitStack() as undo:
        for name in dict.fromkeys((*names, *stale)):
            if (target / name).is_file():
                (target / name).replace(old / name)
                undo.callback((old / name).replace, target / name)
        for name in names:
            (new / name).replace(target / name)
            undo.callback((target / name).replace, new / name)
        undo.pop_all()
