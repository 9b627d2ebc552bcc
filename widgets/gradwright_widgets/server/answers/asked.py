"""A request as answers see it: its files, within the root, and what else it says."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from gradwright.errors import ArchiveError, GradwrightError, TrainingError
from gradwright.files.plain import NotPlainError
from gradwright.formats.source import File, Folder, Source, sibling
from gradwright.formats.stored import plain

from ...drawing.buffers import storable
from ..paths import stamp_of, within
from ..refused import RefusedError

ANSWERS = {
    "formats": "model",
    "inspect": "model",
    "tensors": "model",
    "fits": "model",
    "tensor": "tensor",
    "window": "window",
    "element": "window",
    "values": "values",
    "drawing": "drawing",
    "inside": "drawing",
    "compare": "compare",
    "runs": "runs",
    "curves": "runs",
    "difference": "runs",
}
"""Task -> the module whose function of the task's name answers."""


@dataclass(frozen=True)
class Asked:
    """A request: each file by its path of the contents API, by where it is, and with its stamp."""

    task: str
    root: str
    hidden: bool
    paths: tuple[str, ...]
    files: tuple[Path, ...]
    stamps: tuple[str, ...]
    arguments: Mapping[str, str]

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Asked:
        """Return a request as the server has sent it."""
        return cls(
            found["task"],
            found["root"],
            found["hidden"],
            tuple(found["paths"]),
            tuple(map(Path, found["files"])),
            tuple(found["stamps"]),
            found["arguments"],
        )

    @property
    def file(self) -> Path:
        """The first of its files."""
        return self.files[0]

    def text(self, name: str, default: str = "") -> str:
        """Return an argument."""
        return self.arguments.get(name, default)

    def number(self, name: str, default: int, most: int) -> int:
        """Return an argument that is an integer from 0 on; raises RefusedError for others."""
        text = self.arguments.get(name, str(default))
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= most):
            raise RefusedError(400, f"{name}={text[:40]!r}", need=f"an integer from 0 to {most:,}")
        return int(text)

    def choice(self, name: str, *known: str) -> str:
        """Return an argument that is one of several, the first by default."""
        text = self.arguments.get(name, known[0])
        if text not in known:
            raise RefusedError(400, f"{name}={text[:40]!r}", need=", ".join(filter(None, known)))
        return text

    # -- files -----------------------------------------------------------------------------------

    def source(self, k: int = 0) -> Source:
        """Return a file or folder as formats look at them; what lies beside is of the root, too."""
        path = self.files[k]
        return Inside(path, self.check) if path.is_dir() else Within(path, self.check)

    def check(self, path: Path) -> None:
        """Raise RefusedError where a path leads out of the root, or to what is hidden."""
        within(path, self.root, hidden=self.hidden)

    def open(self, path: Path) -> BinaryIO:
        """Open a file of the root."""
        self.check(path)
        return plain(path)

    def told(self, text: str) -> str:
        """Return a text that names files as the page knows them."""
        for file, path in zip(self.files, self.paths, strict=True):
            text = text.replace(str(file), path)
        base = os.path.realpath(self.root) if self.root else ""
        return text.replace(base + os.sep, "") if len(base) > 1 else text


class Within(File):
    """A file of the root, which names no file outside of it."""

    def __init__(self, path: Path, check: Callable[[Path], None]) -> None:
        super().__init__(path)
        self._check = check

    def beside(self, name: str) -> Source:
        """Return a file of the same folder, if it is in the root."""
        found = sibling(self._path, name)
        self._check(found)
        return Within(found, self._check)


class Inside(Folder):
    """A folder of the root, without what is hidden, and without links that lead out."""

    def __init__(self, path: Path, check: Callable[[Path], None]) -> None:
        super().__init__(path)
        self._check = check

    def names(self) -> list[str]:
        """Return the names of what is right in it, and in the root."""
        found = []
        for name in super().names():
            with contextlib.suppress(RefusedError):
                self._check(self._path / name)
                found.append(name)
        return found

    def part(self, name: str) -> Source:
        """Return a file or folder right in it."""
        if name not in self.names():
            raise ArchiveError(f"no entry {name[:60]!r}", where=self.name)
        found = self._path / name
        kind = Inside if found.is_dir() else Within
        return kind(found, self._check)


# -- answers ---------------------------------------------------------------------------------------


def answered(asked: Asked) -> tuple[int, bytes]:
    """Return the status and JSON of the answer to a request."""
    try:
        module = import_module(f"{__package__}.{ANSWERS[asked.task]}")
        found = getattr(module, asked.task)(asked)
        _check_unchanged(asked)
    except RefusedError as error:
        return _refusal(asked, error)
    except (GradwrightError, OSError, RecursionError, IndexError) as error:
        try:
            _check_unchanged(asked)
        except RefusedError as changed:
            return _refusal(asked, changed)
        return _refusal(asked, refused(error))
    own: dict[str, Any] = {}
    if len(asked.paths) == 1:
        own = {"path": asked.paths[0], "stamp": asked.stamps[0]}
    text = json.dumps(storable({**own, **found}), allow_nan=False, ensure_ascii=False)
    return 200, text.encode("utf-8", "replace")


def warm() -> None:
    """Import what most answers need, so that the first one is as fast as the next."""
    for module in {*ANSWERS.values()}:
        import_module(f"{__package__}.{module}")
    with contextlib.suppress(ImportError):  # there may be no onnx package
        import_module("onnx")
        import_module("gradwright.formats.onnx.importer")


def _check_unchanged(asked: Asked) -> None:
    """Raise RefusedError where a file is another one than when it was asked for.

    Folders of runs grow all the time, and are read so that it does not matter.
    """
    for file, stamp in zip(asked.files, asked.stamps, strict=True):
        if not file.is_dir() and stamp_of(file)["stamp"] != stamp:
            raise RefusedError(
                409, "the file has changed while it was read", code="changed", hint="ask again"
            )


def refused(error: Exception) -> RefusedError:
    """Return an error as a refusal.

    >>> refused(ArchiveError("it is cut off", hint="copy it again")).as_dict()["hint"]
    'copy it again'
    """
    if isinstance(error, GradwrightError):
        is_file = isinstance(error, ArchiveError | TrainingError)
        unknown = error.problem.startswith("the file is of no format")
        return RefusedError(
            415 if unknown else 422 if is_file else 400,
            error.problem,
            code="format" if unknown else "",
            where=error.where,
            facts=[str(fact) for fact in error.facts],
            need=error.need,
            hint=error.hint,
        )
    if isinstance(error, NotPlainError):
        return RefusedError(403, error.strerror or "it is no file")
    if isinstance(error, PermissionError):
        return RefusedError(403, "the server may not read it")
    if isinstance(error, OSError):
        return RefusedError(404, f"it cannot be read: {error.strerror or 'unknown'}")
    if isinstance(error, IndexError):
        return RefusedError(400, str(error))
    return RefusedError(422, "it nests too deeply")


def _refusal(asked: Asked, error: RefusedError) -> tuple[int, bytes]:
    told = error.as_dict()
    told = {
        key: [asked.told(t) for t in text] if isinstance(text, list) else asked.told(text)
        for key, text in told.items()
    }
    data = json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")
    return error.status, data


def real(value: float) -> float | str | None:
    """Return a number as strict JSON: null for NaN, text for what is infinite.

    >>> real(0.5), real(float("nan")), real(float("-inf"))
    (0.5, None, '-Infinity')
    """
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
