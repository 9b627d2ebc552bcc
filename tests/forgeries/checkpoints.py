"""Forged checkpoints, from which a trainer that has begun is to be resumed."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.errors import GradwrightError
from gradwright.formats.archive.container import Writer
from tests.forgeries.fields import Case, forgeries, written
from tests.forgeries.forger import DATA, Forger, X, everything, fit, training
from tests.formats.archives import members, put, safetensors


class Resumed(Forger):
    """A folder of two checkpoints, of which the newer one is forged."""

    member = "checkpoint.json"

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.folder = place / "checkpoints"
        checkpoints = gw.Checkpoints(self.folder, every_epochs=None, keep_last=2)
        first = training(checkpoints)
        fit(first, 2, steps=4)
        first.optimizer = gw.optim.Adam(gw.schedules.Cosine(0.02, 40))
        fit(first, 1, steps=1)
        self.good, self.newest = (c.path for c in checkpoints.list())
        self.data = self.newest.read_bytes()
        self.anew()
        self.known = self.went_on(self.begun())

    def anew(self) -> None:
        """Take another trainer."""
        self.trainer = self.begun()
        self.before = everything(self.trainer)

    def begun(self) -> gw.Trainer:
        """Return a trainer that stands in the midst of a window of an epoch."""
        trainer = training()
        fit(trainer, 1)
        trainer.step({"x": X[:2], "t": DATA["t"][:2]})
        return trainer

    @staticmethod
    def went_on(trainer: gw.Trainer) -> dict[str, Any]:
        """Return what a trainer comes to by the next steps."""
        fit(trainer, 1)
        return everything(trainer) | {"history": None}

    def cases(self) -> Iterator[Case]:
        """Yield the wrong records."""
        yield from forgeries(json.loads(members(self.newest)[self.member]), written)

    def forge(self, forged: Any) -> None:
        """Put a forgery into the newer checkpoint."""
        put(self.newest, self.member, forged)

    def check(self, forged: Any) -> str:
        """Resume from the folder."""
        self.newest.write_bytes(self.data)
        self.forge(forged)
        try:
            one = gw.resume(self.trainer, self.folder)
        except GradwrightError as error:
            assert str(error)
            self._is_as_it_was()
            return "refused"
        finally:
            gw.Checkpoints(self.folder).list()
        trainer = self.trainer
        self.anew()
        if one.path == self.good:
            return "fell back"
        try:
            fit(trainer, 1, steps=1)
        except GradwrightError:
            return "taken, and refused by fit"
        return "taken"

    def _is_as_it_was(self) -> None:
        now = everything(self.trainer)
        other = [k for k in {**now, **self.before} if now.get(k) != self.before.get(k)]
        assert not other, f"the trainer has changed: {other}"

    def end(self) -> None:
        """Check that the trainer goes on after all that it refused."""
        assert self.went_on(self.trainer) == self.known, "the trainer goes on to other numbers"


class Headers(Resumed):
    """The headers of the arrays of a checkpoint."""

    member = "state/trainer/00001-of-00001.safetensors"

    def cases(self) -> Iterator[Case]:
        """Yield members with wrong headers over the same bytes."""
        data = members(self.newest)[self.member]
        size = 8 + int.from_bytes(data[:8], "little")
        yield from forgeries(
            json.loads(data[8:size]), lambda wrong: safetensors(written(wrong), data[size:])
        )


class States(Resumed):
    """The arrays of a checkpoint: right as arrays, wrong as the state of a trainer."""

    def cases(self) -> Iterator[Case]:
        """Yield arrays by name, one of them wrong."""
        held = gw.load_state(self.newest, "trainer")
        wrong: list[Any] = [
            *(np.zeros(()), np.zeros(0), np.zeros((2, 2)), np.full(6, -1), np.full(2, 2**62)),
            *(np.array(np.nan), np.full(6, np.inf), np.array(["a", "b"], "T"), np.array(True)),
            *(np.frombuffer(b"Adam", np.uint8), np.zeros(3, np.complex64), np.uint64(2**64 - 1)),
        ]
        for name, array in held.items():
            without = {k: v for k, v in held.items() if k != name}
            yield f"{name} gone", lambda without=without: without  # type: ignore[misc]
            more = held | {f"{name}/more": array, f"more/{name}": array}
            yield f"{name} twice", lambda more=more: more  # type: ignore[misc]
            like = [] if array.dtype.kind == "T" else [array - array.dtype.type(1), array * 0]
            for other in (*wrong, *like, array[..., None], array.reshape(-1)[:1]):
                one = held | {name: other}
                yield f"{name} = {other!r}"[:80], lambda one=one: one  # type: ignore[misc]

    def forge(self, forged: Any) -> None:
        """Write the archive anew."""
        held = members(self.newest)
        graph = gw.load(self.good)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gw.save(graph, self.newest, state={"trainer": forged})
        put(self.newest, "checkpoint.json", held["checkpoint.json"])


class Manifests(Resumed):
    """The manifest of a checkpoint."""

    def cases(self) -> Iterator[Case]:
        """Yield the wrong manifests."""
        with zipfile.ZipFile(self.newest) as archive:
            held = archive.read("manifest.json")
        yield from forgeries(json.loads(held), written)

    def forge(self, forged: Any) -> None:
        """Write the same members and another manifest."""
        held = members(self.newest)

        class Forging(Writer):
            def _write_manifest(self) -> None:
                self.add("manifest.json", len(forged), [forged])

        with self.newest.open("wb") as file, Forging(file) as writer:
            for name, data in held.items():
                writer.add(name, len(data), [data])
