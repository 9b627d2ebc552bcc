"""Doors: what a graph hands over to rooms above, imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from ..shared import first_use

DOORS = {
    "output": "gradwright.session:output",
    "save": "gradwright.formats.archive:save",
    "trainer": "gradwright.train.checkpoints.archived:trainer",
    "training": "gradwright.train.checkpoints.archived:archived",
}
"""What is called -> the function that it is: methods of a graph, and how ``save`` keeps a training.
"""


def door(name: str) -> Any:
    """Return the function behind a door.

    >>> door("save").__module__
    'gradwright.formats.archive.archive'
    """
    module, _, function = DOORS[name].partition(":")
    with first_use:
        return getattr(import_module(module), function)


class Doors:
    """The methods of a graph that rooms above do; the graph is their first argument."""

    def output(self, feeds: Mapping[Any, Any], *fetches: Any) -> dict[str, np.ndarray[Any, Any]]:
        """Run in eval mode and return arrays by name; without ``fetches`` all unused outputs.

        All in numpy, so that the same values give the same bits: kernels would come in the midst of
        a loop, or be too late.
        """
        return door("output")(self, feeds, fetches)  # type: ignore[no-any-return]

    def save(self, path: Any, **options: Any) -> None:
        """Write the graph and its values as a ``.gw`` archive; see :func:`gradwright.save`."""
        door("save")(self, path, **options)

    def trainer(self, loss: Any = None, **options: Any) -> Any:
        """Return the trainer that was saved with this graph, to go on as if nothing had happened.

        The graph is one that ``gw.load`` returned of an archive that ``gw.save(g, path, trainer=)``
        wrote, or of a checkpoint. Configuration, state of the optimizer, averages, windows,
        counters, seeds and history are the saved ones; in a deterministic session the next step is,
        to the bit, that of the training that was saved. Code is no part of an archive: callbacks,
        metrics that are objects, and an objective are given anew.

        Args:
            loss: an objective, where one was trained.
            **options: ``metrics``, ``callbacks``, and ``session``, as ``gw.Trainer`` takes them.

        Raises TrainingError where nothing was saved or the settings differ, ArchiveError where the
        file is damaged, or is another one than was loaded.

        >>> import gradwright as gw, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "line.gw")
        >>> g = gw.Graph("line")
        >>> w = g.variable("w", (), init=2.0)
        >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.Adam(0.1))
        >>> history = trainer.fit([{}, {}], epochs=2, progress=False)
        >>> gw.save(g, path, trainer=trainer)
        >>> again = gw.load(path).trainer()
        >>> again.steps_done, again.optimizer.learning_rate
        (4, 0.1)
        """
        return door("trainer")(self, loss, **options)
