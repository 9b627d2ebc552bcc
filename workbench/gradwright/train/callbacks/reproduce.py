"""Reproduce: a call of one op in a training as a script of its own, with the arrays it got."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ml_dtypes import finfo

from ...errors import TrainingError
from ...files.whole import write_text
from ...gradient import gradients
from ...graph import Graph, Node, Tensor
from ...op import Op
from ...spec import is_floating
from ..history import Record
from ..training import Training
from . import Callback

if TYPE_CHECKING:
    from ...debug import Stepper

Array = np.ndarray[Any, Any]
SCRIPT = '''\
"""Calls one op as step {step} of a training called it, and compares what comes out."""

from pathlib import Path

import numpy as np
{module}
import gradwright as gw

SAVED = Path(__file__).with_suffix(".gw")
graph = gw.load(SAVED)  # one node, {node}
arrays = gw.load_state(SAVED, "call")  # what went in and came out, to the bit

# {op}
{inputs}
with gw.Session(graph) as session:
    found = session.run({fetches}, {{name: arrays[name] for name in {feeds}}}, training=True)

for name, y in zip({outputs}, found, strict=True):
    print(f"{{name}}: {{y.dtype}}{{list(y.shape)}}{finite}")
    print(y)
    assert {same}, name
print("as in the training")
'''


class Reproduce(Callback):
    """Writes a script that calls one op again as a training has called it.

    Either the op of a ``node``, in ``step``; or, without a node, the one that first made something
    that is not finite out of finite inputs, in the first step that was refused or skipped for it:
    forward first, then backward. The step is run once more for it, node by node, with the same
    batch, values and random numbers; the numbers of the training stay the same, bit for bit.

    The script ``<node>.py`` lies beside ``<node>.gw``, which holds a graph of this one op, its
    inputs to the bit, and its outputs; it prints the outputs and asserts that they are the same.
    There is no pickle in it.

    Args:
        folder: where both go; made when they are written.
        node: name of a node, of a gradient maybe, or an address such as ``scan:3:log`` of one
            inside of others; None for the first that is not finite, wherever it is.
        step: number of the step, from 1, for a ``node``.

    Raises TrainingError in ``fit`` for a node that is not there or does not run in a step.

    >>> import gradwright as gw, tempfile
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[1.0, -1.0])
    >>> reproduce = gw.train.Reproduce(tempfile.mkdtemp())
    >>> trainer = gw.Trainer(g, gw.log(w, name="bad").sum(), callbacks=[reproduce])
    >>> trainer.fit([{}], progress=False)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    gradwright.errors.TrainingError: step 1: the loss 'sum' is not finite; nothing was changed ...
    >>> reproduce.script.name
    'bad.py'
    """

    def __init__(
        self, folder: str | os.PathLike[str], node: str | None = None, step: int = 1
    ) -> None:
        if step < 1:
            raise TrainingError(f"step={step} is no step", need="a number from 1 on")
        self.folder, self.node, self.step = Path(folder), node, step
        self.script: Path | None = None
        """What was written."""

    def wants_changes(self, trainer: Training) -> bool:
        """Reproduce the node, if the step that comes next is the one."""
        if self.node is not None and trainer.steps_done + 1 == self.step:
            node = trainer.graph.node(self.node.partition(":")[0])  # or what it is inside of
            stepper = _stepper(trainer, list(node.outputs), trainer.batches_taken)
            self._write(stepper, self.node, self.step)
        return False

    def on_step_end(self, trainer: Training, record: Record) -> None:
        """Reproduce a step that was skipped."""
        if self.node is None and self.script is None:
            sizes = (record.metrics["loss"], record.metrics["grad_norm"])
            if not all(map(math.isfinite, sizes)):
                self._find(trainer, record.step, trainer.batches_taken - 1)

    def on_fit_end(self, trainer: Training) -> None:
        """Reproduce a step that was refused."""
        progress = trainer.progress
        refused = progress is not None and "not finite" in progress.error
        if refused and self.node is None and self.script is None:
            self._find(trainer, trainer.steps_done + 1, trainer.batches_taken)

    def _find(self, trainer: Training, step: int, key: int) -> None:
        targets = [trainer.loss, *gradients(trainer.loss, trainer.parameters)]
        stepper = _stepper(trainer, targets, key)
        origin = stepper.find_nonfinite()
        if origin is not None and origin.direction != "source":  # a feed is no op
            self._write(stepper, str(origin.address), step)

    def _write(self, stepper: Stepper, at: str, step: int) -> None:
        from ...formats.archive import save

        if stepper.levels[0].named(at.partition(":")[0]) is None:
            raise TrainingError(f"{at!r} is fed or stored, and not computed by an op")
        stepper.run_to(at)
        frame, node = stepper.frame, stepper.current
        assert node is not None  # or it would not have been reached
        op, xs = frame.op(node), frame.inputs(node)
        stepper.step()
        ys = [frame.value(t) for t in node.outputs[: op.n_public]]
        graph, fed = _alone(node, op, xs)
        outputs = [f"y{i}" for i in range(len(ys))]
        held = {f"x{i}": x for i, x in enumerate(xs) if x is not None}
        self.folder.mkdir(parents=True, exist_ok=True)
        script = self.folder / (re.sub(r"[^\w.-]+", "-", at) + ".py")
        save(
            graph,
            script.with_suffix(".gw"),
            state={"call": held | dict(zip(outputs, ys, strict=True))},
        )
        module = type(op).__module__
        known = module.partition(".")[0] == "gradwright"
        lines = [f"# {name}: {x.dtype}{list(x.shape)}" for name, x in held.items()]
        text = SCRIPT.format(
            step=step,
            module="" if known else f"\nimport {module}  # registers the op",
            node=repr(at),
            op=ascii(repr(op)),
            inputs="\n".join(lines),
            fetches=[t.name for t in graph.node(node.name).outputs[: op.n_public]],
            feeds=fed,
            outputs=outputs,
            **_comparison(ys),
        )
        write_text(script, text)
        self.script = script

    def __repr__(self) -> str:
        what = "the first op that is not finite" if self.node is None else repr(self.node)
        done = f": {str(self.script)!r}" if self.script else ""
        return f"<Reproduce {what}{done}>"


def _stepper(trainer: Training, targets: Sequence[Tensor], key: int) -> Stepper:
    """Return a stepper of the latest batch; ``key`` is its number in random ops."""
    from ...debug import Stepper

    return Stepper(
        trainer.graph,
        targets,
        trainer.last_feeds,
        training=True,
        values=trainer.values,
        seed=trainer.session.seed,
        step=key,
    )


def _alone(node: Node, op: Op, xs: Sequence[Array | None]) -> tuple[Graph, list[str]]:
    """Return a graph of one op, and which inputs are fed; the others are constants.

    Floats are fed, so that nothing is computed before a run; an op may have to know the others,
    such as a shape, when the graph is made.
    """
    graph = Graph("reproduced")
    given: list[Tensor | None] = []
    fed = []
    for i, x in enumerate(xs):
        name = f"x{i}"
        if x is None:
            given.append(None)
        elif is_floating(x.dtype):
            given.append(graph.placeholder(name, x.shape, x.dtype))
            fed.append(name)
        else:
            given.append(graph.constant(x, name, x.dtype))
    graph.add(op, given, node.name)
    return graph, fed


def _comparison(ys: Sequence[Array]) -> dict[str, str]:
    """Return the parts of a script that compare: to the bit, unless there are floats.

    An engine may be off by a thousand roundings of the narrowest output.
    """
    floats = [y.dtype for y in ys if is_floating(y.dtype) or y.dtype.kind == "c"]
    if not floats:
        return {"finite": "", "same": "np.array_equal(y, arrays[name])"}
    off = max(1000 * float(finfo(d).eps) for d in floats)  # type: ignore[no-untyped-call]
    return {
        "finite": ", {np.sum(~np.isfinite(y))} not finite",
        "same": f"np.allclose(y, arrays[name], rtol={off:.0e}, atol={off:.0e}, equal_nan=True)",
    }
