"""Updates: an optimizer as one plan over arrays that are fed, for any layer of one build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...graph import Graph, Tensor
from ...session import Session
from ...spec import TensorSpec
from ...spec.rounding import rounded
from ...train.optim import Optimizer

Array = np.ndarray[Any, Any]


class Updates:
    """Moves parameters that live outside of a graph, by the same ops as a trainer does.

    >>> import gradwright as gw, numpy as np
    >>> updates = Updates({"w": gw.TensorSpec((2,))}, gw.optim.SGD(0.5, momentum=0.9))
    >>> state = updates.state({"w": np.ones(2, "float32")})
    >>> grads = {"w": np.array([1.0, 2.0], "float32")}
    >>> params, numbers = {"w": np.ones(2, "float32")}, updates.numbers(0)
    >>> moved, state = updates.move(params, grads, state, step=1, numbers=numbers)
    >>> moved["w"].tolist(), list(state)
    ([0.5, 0.0], ['w/velocity'])
    """

    def __init__(
        self, params: Mapping[str, TensorSpec], optimizer: Optimizer, **session: Any
    ) -> None:
        self.optimizer = optimizer
        graph = Graph("updates")
        self._params = {
            name: graph.placeholder(f"{name}/value", spec.shape, spec.dtype)
            for name, spec in params.items()
        }
        self._slots: dict[str, tuple[str, Any]] = {}
        given, grads, slots, moved = [], [], [], []
        self._factor = graph.placeholder("factor", (), "float64")
        scalars = {
            name: graph.placeholder(name, (), "float64")
            for name in ("step", "learning_rate", *optimizer.scalars())
        }
        with graph:
            for name, p in self._params.items():
                grad = graph.placeholder(f"{name}/grad", p.shape, p.dtype)
                own = []
                for slot, made in optimizer.state(p).items():
                    label = f"{name}/{slot}"
                    self._slots[label] = name, made
                    own.append(graph.placeholder(f"{label}/slot", made.shape, made.dtype))
                scaled = grad * self._factor.astype(grad.dtype)
                moved.append(list(optimizer.update(p, scaled, own, scalars)))
                grads.append(grad)
                slots += own
        given = [*self._params.values(), *grads, *slots, *scalars.values(), self._factor]
        fetches: list[Tensor] = [m[0] for m in moved] + [s for m in moved for s in m[1:]]
        self._scalars = list(scalars)
        self.session = Session(graph, **session)
        self._run = self.session.prepare(fetches, given, training=True)

    def state(self, params: Mapping[str, Any]) -> dict[str, Array]:
        """Return the state that parameters begin with."""
        found = {}
        for label, (owner, slot) in self._slots.items():
            if slot.init == "parameter":
                found[label] = rounded(np.array(params[owner]), slot.dtype)
            else:
                found[label] = np.full(slot.shape, rounded(slot.init, slot.dtype))
        return found

    def numbers(self, step: int) -> dict[str, float]:
        """Return the learning rate of a step, counted from 0, and the other hyperparameters."""
        return {"learning_rate": self.optimizer.rate(step), **self.optimizer.scalars_at(step)}

    def move(
        self,
        params: Mapping[str, Any],
        grads: Mapping[str, Any],
        state: Mapping[str, Any],
        *,
        step: int,
        numbers: Mapping[str, float],
        factor: float = 1.0,
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return new parameters and state; ``step`` counts from 1, ``factor`` scales gradients."""
        given = {"step": step, **numbers}
        found = self._run(
            *(params[n] for n in self._params),
            *(grads[n] for n in self._params),
            *(state[n] for n in self._slots),
            *(np.asarray(given[n], np.float64) for n in self._scalars),
            np.float64(factor),
        )
        values: Iterator[Array] = iter(found)
        moved = {n: next(values) for n in self._params}
        return moved, {n: next(values) for n in self._slots}

    def close(self) -> None:
        """Release plans and buffers."""
        self.session.close()
