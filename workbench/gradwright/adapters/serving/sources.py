"""Sources: where the adapters that are served come from, files or arrays in memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...errors import ArchiveError, GraphError
from ...formats.opening import open as open_file
from ..adapted import Adapted
from ..adapter import Adapter
from ..files.options import CONFIG
from ..files.placing import REBUILT, placed
from ..files.reading import WEIGHTS
from ..files.saved import SavedAdapter

Array = np.ndarray[Any, Any]
State = Mapping[str, Array]
"""Arrays by ``{place}/{leaf}``, as ``Adapted.state`` gives them."""
_ids = itertools.count()


class Source(Protocol):
    """An adapter that can be read."""

    def stamp(self) -> Hashable:
        """Return what is another one when the adapter is."""

    def read(self, model: Any) -> tuple[Adapter, State]:
        """Return method and arrays; those of files are mapped, so that sizes can be told first."""


class InFiles:
    """A folder of peft or a GGUF file: its stamp is when it was last written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        parts = [self.path / name for name in (WEIGHTS, CONFIG)] if self.path.is_dir() else []
        self._parts = [part for part in parts if part.exists()]
        self._last: Hashable = None

    def __repr__(self) -> str:
        return str(self.path)

    def stamp(self) -> Hashable:
        try:
            told = [part.stat() for part in self._parts or [self.path]]
        except FileNotFoundError:  # what has been read is served on without its file
            if self._last is None:
                raise
        else:
            self._last = tuple((s.st_mtime_ns, s.st_size, s.st_ino) for s in told)
        return self._last

    def read(self, model: Any) -> tuple[Adapter, State]:
        saved = open_file(self.path)
        if not isinstance(saved, SavedAdapter):
            raise ArchiveError(
                f"{self.path} is no adapter", need="a folder with adapter_config.json"
            )
        found = placed(model, saved)
        _check_own(str(self.path), [*found.trained, *found.tokens])
        init = str(getattr(found.method, "init", ""))
        if init.startswith(REBUILT):
            raise GraphError(
                f"{self.path} began as {init!r}, which has changed the weights of the model, too",
                hint="gw.adapters.save(adapted, path, plain=True) makes a plain LoRA of it",
            )
        return found.method, found.state


class InMemory:
    """A method and its arrays, as they were when they were given."""

    def __init__(self, method: Adapter, state: State) -> None:
        self._held, self._stamp = (method, dict(state)), next(_ids)

    def __repr__(self) -> str:
        return f"{self._held[0]!r} in memory"

    def stamp(self) -> Hashable:
        return self._stamp

    def read(self, model: Any) -> tuple[Adapter, State]:
        return self._held


def source_of(given: Any) -> Source:
    """Return a source of a path, of an adapter in a graph as it is now, or of method and state."""
    if isinstance(given, InFiles | InMemory):
        return given
    if isinstance(given, str | os.PathLike):
        if not Path(given).exists():
            raise FileNotFoundError(f"there is no {given}")
        if Path(given).is_dir() and not Path(given, CONFIG).is_file():
            raise GraphError(f"{given} is no adapter", need=f"a folder with {CONFIG}")
        return InFiles(given)
    if isinstance(given, Adapted):
        _check_own(repr(given.name), [*(t.name for t in given.thawed), *given.replaced])
        if given.weight != 1:
            raise GraphError(
                f"{given.name!r} has the weight {given.weight:g}",
                need="1",
                hint="adapted.weight = 1.0, and weights in rows",
            )
        return InMemory(given.adapter, given.state())
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Adapter):
        return InMemory(given[0], {name: np.array(array) for name, array in given[1].items()})
    raise GraphError(
        f"a {type(given).__name__} is no adapter",
        need="a path, an Adapted, or (LoRA(...), state)",
    )


def _check_own(what: str, changed: Sequence[str]) -> None:
    """Refuse what has changed the model's own weights, which all rows share."""
    if changed:
        raise GraphError(
            f"{what} has changed weights of the model, too, and rows share these",
            facts=[", ".join(map(repr, changed[:6]))],
            hint="gw.adapters.load(model, path), and one adapter at a time",
        )


def named(given: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and what is to be served by them: of a mapping, or the adapters in a folder."""
    if isinstance(given, Mapping):
        yield from given.items()
        return
    if not isinstance(given, str | os.PathLike):
        raise GraphError(
            f"a {type(given).__name__} is no folder of adapters", need="a path, or them by name"
        )
    folder = Path(given)
    held = sorted(path.parent for path in folder.glob(f"*/{CONFIG}"))
    held += sorted(folder.glob("*.gguf"))
    if (folder / CONFIG).is_file():
        raise GraphError(f"{folder} is one adapter", hint=f"{{{folder.name!r}: {str(folder)!r}}}")
    if not held:
        raise GraphError(
            f"there are no adapters in {folder}", need="folders with adapter_config.json, *.gguf"
        )
    yield from ((path.stem if path.suffix == ".gguf" else path.name, path) for path in held)
