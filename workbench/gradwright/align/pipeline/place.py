"""Place: what one training of a pipeline leaves in a folder, each file whole or not there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArchiveError, TrainingError
from ...files.plain import check_plain
from ...files.whole import write_text
from ...formats.safetensors.format import opened
from ...formats.safetensors.writing import save
from ...train.history import History
from ...words.jsonable import from_json, to_json
from ..evaluation.held_out import HeldOut

Array = np.ndarray[Any, Any]
WEIGHTS, COURSE, ANSWERS, DONE = "weights.safetensors", "course.json", "answers.json", "done.json"


class Place:
    """The folder of a stage or of a control: checkpoints while it trains, then what came of it.

    ``done.json`` is written last, so what it stands beside is all there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoints = folder / "checkpoints"

    @property
    def is_done(self) -> bool:
        """Whether its training is over and all is written."""
        return (self.folder / DONE).is_file()

    def finish(
        self, weights: Mapping[str, Array], course: History, answers: HeldOut | None, steps: int
    ) -> None:
        """Write what came of a training."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if weights:
            save(weights, self.folder / WEIGHTS)
        self._write(COURSE, course.to_dict())
        if answers is not None:
            self.keep(answers)
        self._write(DONE, {"steps": steps})

    def keep(self, answers: HeldOut) -> None:
        """Write answers to held-out prompts."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write(ANSWERS, to_json(answers))

    def weights(self) -> dict[str, Array]:
        """Return the weights that a finished training has left."""
        held = opened(self.folder / WEIGHTS)
        return {name: np.array(held[name]) for name in held}

    def course(self) -> History:
        """Return what a finished training has measured."""
        return History.from_dict(self.read(COURSE))

    def answers(self) -> HeldOut | None:
        """Return the answers that were kept; None where there are none."""
        if not (self.folder / ANSWERS).is_file():
            return None
        found = from_json(self.read(ANSWERS))
        if not isinstance(found, HeldOut):
            raise ArchiveError("these are no answers", where=str(self.folder / ANSWERS))
        return found

    def read(self, name: str) -> Any:
        """Return a file of JSON; raises ArchiveError where it is damaged."""
        path = self.folder / name
        try:
            check_plain(path)
            return json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ArchiveError(f"this cannot be read: {error}", where=str(path)) from None

    def _write(self, name: str, data: Any) -> None:
        write_text(self.folder / name, json.dumps(data))


SETTINGS = "pipeline.json"


def claim(folder: Path, settings: Any) -> None:
    """Note the settings of a pipeline in its folder; raises TrainingError as ``check`` does."""
    check(folder, settings)
    if not (folder / SETTINGS).exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / SETTINGS, json.dumps(settings, indent=1))


def check(folder: Path, settings: Any) -> None:
    """Raise TrainingError, with what differs, where a folder holds a run of another pipeline."""
    if not (folder / SETTINGS).exists():
        return
    held, said = Place(folder).read(SETTINGS), json.loads(json.dumps(settings))
    if held != said:
        raise TrainingError(
            f"{str(folder)!r} holds a run of another pipeline",
            facts=list(differing(held, said))[:8],
            hint="another folder, or the settings that it was begun with",
        )


def differing(held: Any, said: Any, at: str = "") -> Iterator[str]:
    """Yield what differs between two values of JSON, by the path to it.

    >>> list(differing({"a": [1, 2], "b": 3}, {"a": [1, 5], "b": 3}))
    ['a[1]: 2 there, 5 here']
    """
    if isinstance(held, dict) and isinstance(said, dict):
        for key in dict.fromkeys([*held, *said]):
            place = f"{at}.{key}" if at else key
            yield from differing(held.get(key), said.get(key), place)
    elif isinstance(held, list) and isinstance(said, list) and len(held) == len(said):
        for i, pair in enumerate(zip(held, said, strict=True)):
            yield from differing(*pair, f"{at}[{i}]")
    elif held != said:
        yield f"{at}: {_short(held)} there, {_short(said)} here"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
