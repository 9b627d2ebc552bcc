"""Forged graphs of archives, and forged settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradwright as gw
from gradwright.errors import GradwrightError
from tests.forgeries.fields import Case, forgeries, written
from tests.forgeries.forger import Forger, training
from tests.formats.archives import members, put


class Documents(Forger):
    """The graph of an archive."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.path = place / "graph.gw"
        trainer = training()
        gw.save(trainer.graph, self.path)
        self.data = self.path.read_bytes()

    def cases(self) -> Iterator[Case]:
        """Yield the wrong documents."""
        yield from forgeries(json.loads(members(self.path)["graph.json"]), written)

    def check(self, forged: Any) -> str:
        """Load and inspect it."""
        self.path.write_bytes(self.data)
        put(self.path, "graph.json", forged)
        try:
            gw.inspect(self.path)
            gw.load(self.path)
        except GradwrightError as error:
            assert str(error)
            return "refused"
        return "taken"


class Configs(Forger):
    """The settings of a training."""

    def cases(self) -> Iterator[Case]:
        """Yield wrong settings."""
        yield from forgeries(json.loads(json.dumps(training().config.to_json())))

    def check(self, forged: Any) -> str:
        """Read them."""
        try:
            gw.TrainingConfig.from_json(forged)
        except GradwrightError:
            return "refused"
        return "taken"
