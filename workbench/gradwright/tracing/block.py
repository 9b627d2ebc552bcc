"""``with gw.trace() as t:`` - a block of numpy code as a graph that runs when results are read."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import FeedError
from ..graph import Tensor, ancestors
from ..ops.control.body import flatten
from ..session import Session
from ..spec import AnyDim, Dim, TensorSpec
from .arguments import current, op
from .lazy import LazyArray
from .refusals import refusal
from .state import Recording

Array = np.ndarray[Any, Any]


class Trace(Recording):
    """A recorded block: its lazy arrays have values after its end, computed when they are read.

    Inside the block ``t.array(a)`` makes a lazy array of data, and ``t.input`` one that is fed.
    After it, ``np.asarray(y)`` runs what ``y`` needs, and ``t.run(y, {"x": other})`` runs it on
    other data; every value is computed once. Other arrays are constants, as they were when met.

    >>> import gradwright as gw, numpy as np
    >>> with gw.trace() as t:
    ...     x = t.array([3.0, 4.0], name="x")
    ...     length = np.sqrt((x * x).sum())
    ...     x /= length
    >>> float(length), np.asarray(x).tolist()
    (5.0, [0.6, 0.8])
    >>> float(t.run(length, {"x": [6.0, 8.0]}))
    10.0
    """

    def __init__(self, name: str = "trace") -> None:
        super().__init__(name, f"trace {name!r}")
        self._token: contextvars.Token[Recording | None] | None = None
        self._data: dict[Tensor, Array] = {}
        self._values: dict[Tensor, Array] = {}
        self._session: Session | None = None

    def __enter__(self) -> Trace:
        outer = current.get()
        if outer is not None or not self.open:
            raise refusal(
                f"{self.what} begins inside {outer.what}" if outer else f"{self.what} has ended",
                hint="end it first, or use the trace that is there" if outer else "gw.trace()",
            )
        self._token = current.set(self)
        self.graph.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.graph.__exit__(*exc)
        assert self._token is not None
        current.reset(self._token)
        self.close()
        self.compute = self._compute

    def array(self, value: Any, name: str = "array") -> LazyArray:
        """Return data as a lazy array; ``run`` may feed other data under its name."""
        self.require_open("t.array")
        data = np.array(value)
        self.supported(data.dtype, value)
        made = self.input(name, TensorSpec(data.shape, data.dtype))
        made.name = made.tensor.name
        self._data[made.tensor] = data
        return made

    def input(self, name: str, shape: Any, dtype: Any = "float64") -> LazyArray:
        """Return a lazy array that each run has to be fed; a size ``"B"`` is known only then."""
        self.require_open("t.input")
        if isinstance(shape, TensorSpec):
            return super().input(name, shape)
        sizes: Sequence[AnyDim | str] = shape
        dims = [Dim.symbol(d) if isinstance(d, str) else d for d in sizes]
        made = super().input(name, TensorSpec(dims, dtype))
        made.name = made.tensor.name
        return made

    def run(self, outputs: Any, feeds: Mapping[Any, Any] | None = None) -> Any:
        """Return arrays in the structure of ``outputs``, for the data given or fed instead.

        Raises FeedError for an input without data, TraceError inside the block.
        """
        if self.open:
            raise refusal("t.run inside the block", hint="after it: with gw.trace() as t: ...")
        given = dict(self._data)
        for key, value in (feeds or {}).items():
            t = key.tensor if isinstance(key, LazyArray) else self.graph[key]
            if not any(t is p for p in self.graph.placeholders):
                raise FeedError(f"{t.name!r} is computed", need="an input or t.array of the trace")
            given[t] = np.asarray(value)
        leaves: list[Any] = []
        rebuild = flatten(outputs, leaves)
        tensors = [self.own(x).tensor for x in leaves]
        needed = _sources(tensors)
        if missing := [t.name for t in needed if t not in given]:
            raise FeedError(f"{missing[0]!r} has no data", hint=f"t.run(y, {{{missing[0]!r}: a}})")
        if self._session is None:
            self._session = Session(self.graph)
        found = self._session.run(tensors, {t: given[t] for t in needed})
        return rebuild(iter([y if y.ndim else y[()] for y in found]))

    def _compute(self, x: LazyArray) -> Array:
        t = x.tensor
        if t not in self._values:
            found = np.asarray(self.run(x))
            found.flags.writeable = False  # what is read twice is the same
            self._values[t] = found
        return self._values[t]


def _sources(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the placeholders that tensors depend on, without the random key."""
    return [n.outputs[0] for n in ancestors(tensors) if n.kind == "placeholder" and n.name != "rng"]


def trace(x: Any = None, k: int = 0, *, name: str | None = None) -> Any:
    """Begin a trace: numpy code in ``with gw.trace() as t:`` becomes a graph (:class:`Trace`).

    With a tensor it is the linear algebra's trace, the sum of a diagonal: y[…] = Σᵢ x[…, i, i + k].

    >>> import gradwright as gw, numpy as np
    >>> with gw.trace("roots") as t:
    ...     y = np.sqrt(t.array([4.0, 9.0]))
    >>> np.asarray(y).tolist(), t.graph.name
    ([2.0, 3.0], 'roots')
    >>> g = gw.Graph()
    >>> g.output({}, gw.trace(g.constant([[1, 2], [3, 4]]), name="y"))["y"].tolist()
    5
    """
    if x is None or isinstance(x, str):
        return Trace(name or x or "trace")
    return op("trace", x, k=k, name=name)
