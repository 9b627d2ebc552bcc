"""Doors: what a graph hands over to rooms above, imported when it is called."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from ..shared import first_use

DOORS = {
    "draws": "gradwright.cpu.draws.drawn:drawn",
    "fit": "gradwright.train.faces:fit",
    "grad": "gradwright.gradient.faces:grad",
    "output": "gradwright.session:output",
    "save": "gradwright.formats.archive:save",
    "trainer": "gradwright.train.checkpoints.archived:trainer",
    "training": "gradwright.train.checkpoints.archived:archived",
}
"""What is called -> the function that it is: methods of a graph, and how ``save`` keeps a training.
"""


@functools.cache
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

    fitted_by: Any = None
    """The trainer of the last ``fit`` of the graph itself."""

    def output(
        self,
        feeds: Mapping[Any, Any],
        *fetches: Any,
        out: Mapping[Any, np.ndarray[Any, Any]] | None = None,
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Run in eval mode and return arrays by name; without ``fetches`` all unused outputs.

        What was asked before is found again: a call costs what that of ``session.prepare`` does. It
        runs in numpy, and from the 16th run of the same for the same shapes on, where that is small
        (256 steps), in kernels: no clock decides which, but last bits may differ between the two.
        ``out`` gives arrays for results, by tensor or name, as of ``Session.run``.

        >>> import gradwright as gw, numpy as np
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", (None,))
        >>> y, found = gw.exp(x, name="y"), np.empty(2, np.float32)
        >>> g.output({"x": [0.0, 0.0]}, y, out={"y": found})["y"] is found, found.tolist()
        (True, [1.0, 1.0])
        """
        return door("output")(self, feeds, fetches, out)  # type: ignore[no-any-return]

    def grad(self, wrt: Any, loss: Any = None) -> Any:
        """Return the gradient of a loss with respect to a tensor, or a name, as a tensor.

        It is ``gw.gradients(loss, [wrt])[0]``, and as there, one that exists is found again. The
        loss, a tensor or a name, is by default the only floating scalar of the graph that nothing
        else is made of. Raises GradientError where the loss does not depend on it, and GraphError
        where there is no one such scalar.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> w = g.variable("w", (2,), init=[1.0, 3.0])
        >>> loss = (w * w).sum()
        >>> g.grad("w").eval().tolist()
        [2.0, 6.0]
        """
        return door("grad")(self, wrt, loss)

    def fit(self, data: Any, epochs: int | None = None, *, loss: Any = None, **options: Any) -> Any:
        """Train the graph and return the history: a ``gw.Trainer`` in one call.

        ``options`` are those of ``gw.Trainer``, such as ``optimizer="adam"`` and ``metrics={...}``,
        and of its ``fit``, such as ``batch_size`` and ``validation``; the loss is found as by
        ``grad``. The trainer stays at ``g.fitted_by``, and a further ``fit`` that states nothing
        for a trainer goes on with it, its state and its history. Raises what they raise.

        >>> import gradwright as gw, numpy as np
        >>> g = gw.Graph("line")
        >>> x, t = g.placeholder("x", (None,)), g.placeholder("t", (None,))
        >>> w = g.variable("w", ())
        >>> loss = gw.loss.mean_squared_error(t, x * w)
        >>> xs = np.linspace(-1, 1, 32)
        >>> history = g.fit({"x": xs, "t": 2 * xs}, 50, optimizer=gw.optim.SGD(0.5))
        >>> w.eval().round(3).item(), history.epochs.rows, g.fitted_by.steps_done
        (2.0, 50, 50)
        """
        return door("fit")(self, data, epochs, loss, options)

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


class TensorDoors:
    """The methods of a tensor that rooms above do."""

    __slots__ = ()

    def eval(self, feeds: Mapping[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Return the array that the tensor stands for, run in eval mode on what is fed.

        It is ``g.output(feeds, t)`` of one tensor. Raises FeedError for what is missing.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", (None,))
        >>> (x * 2.0).eval({"x": [1.0, 2.0]}).tolist()
        [2.0, 4.0]
        """
        (found,) = door("output")(self.graph, feeds or {}, [self]).values()  # type: ignore[attr-defined]
        return found  # type: ignore[no-any-return]
