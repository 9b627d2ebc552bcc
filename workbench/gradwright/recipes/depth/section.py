"""Section: a piece of a model as two plans, its value and its gradient, with parameters fed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import FeedError, GraphError
from ...gradient import gradients
from ...graph import Graph, Tensor
from ...session import Session
from ...spec import TensorSpec, is_floating

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Any]


class Section:
    """A function of parameters and inputs, and its gradient, each compiled once.

    y = build(params, *inputs)        ∂y/∂p · y_grad, ∂y/∂x · y_grad

    Parameters are fed, so one section serves any number of layers.

    Args:
        build: builds the graph from a dict of parameters and, by name, the inputs.
        params: spec or shape of each parameter by name.
        inputs: spec of each input by name.
        wrt: names of the inputs that get a gradient.
        session: settings of the :class:`~gradwright.Session`, such as ``deterministic=True``.

    >>> import gradwright as gw
    >>> from gradwright.recipes.depth import Section
    >>> head = Section(
    ...     lambda p, x: gw.sum(x @ p["w"]), {"w": (2,)}, {"x": gw.TensorSpec((None, 2))}, wrt=["x"]
    ... )
    >>> y, grads, inputs = head.pull({"w": [1.0, 2.0]}, {"x": [[3.0, 4.0]]}, value=True)
    >>> float(y), grads["w"].tolist(), inputs["x"].tolist()
    (11.0, [3.0, 4.0], [[1.0, 2.0]])
    """

    def __init__(
        self,
        build: Callable[..., Tensor],
        params: Mapping[str, TensorSpec | Sequence[int]],
        inputs: Mapping[str, TensorSpec],
        *,
        wrt: Collection[str] = (),
        **session: Any,
    ) -> None:
        self.graph = graph = Graph("section")
        self.params = {name: _placeholder(graph, name, spec) for name, spec in params.items()}
        self.inputs = {name: _placeholder(graph, name, spec) for name, spec in inputs.items()}
        with graph:
            self.y: Tensor = build(dict(self.params), **self.inputs)
        y: Any = self.y
        if not isinstance(y, Tensor) or y.graph is not graph:
            raise GraphError(f"the section built {y!r}", need="a tensor made of its inputs")
        if layer := next((n for n in graph.nodes if n.op.next_state), None):
            raise GraphError(
                f"{layer.name!r} would set state such as running means, which no section keeps",
                hint="training=False, or gw.nn.layer_norm",
            )
        seed = graph.placeholder("y_grad", self.y.shape, self.y.dtype)
        trained = {n: t for n, t in self.params.items() if is_floating(t.dtype)}
        moved = {n: self.inputs[n] for n in wrt}
        found = gradients(y, [*trained.values(), *moved.values()], seed, unreachable="zero")
        self._trained, self._moved = list(trained), list(moved)
        self.session = Session(graph, **session)
        given = [*self.params.values(), *self.inputs.values()]
        self._runs = {
            training: self.session.prepare(y, given, training=training)
            for training in (False, True)
        }
        self._pulls = {
            value: self.session.prepare([*found, *[y] * value], [*given, seed], training=True)
            for value in (False, True)
        }

    def run(self, params: Arrays, inputs: Arrays, *, training: bool = True, step: int = 0) -> Array:
        """Return y."""
        found: Array = self._runs[training](*self._given(params, inputs), step=step)
        return found

    def pull(
        self,
        params: Arrays,
        inputs: Arrays,
        y_grad: Any = 1.0,
        *,
        value: bool = False,
        step: int = 0,
    ) -> tuple[Array | None, dict[str, Array], dict[str, Array]]:
        """Return y (None without ``value``), and the gradients of parameters and of inputs.

        What y needs is computed again; with the ``step`` of ``run``, random ops draw the same.
        """
        given = self._given(params, inputs)
        found = list(self._pulls[value](*given, np.asarray(y_grad, self.y.dtype), step=step))
        y = found.pop() if value else None
        n = len(self._trained)
        grads = dict(zip(self._trained, found[:n], strict=True))
        return y, grads, dict(zip(self._moved, found[n:], strict=True))

    def _given(self, params: Arrays, inputs: Arrays) -> list[Any]:
        return [
            *(_one(params, name, "parameter") for name in self.params),
            *(_one(inputs, name, "input") for name in self.inputs),
        ]

    def close(self) -> None:
        """Release plans and buffers."""
        self.session.close()

    def __repr__(self) -> str:
        takes = ", ".join(f"{n}: {t.spec}" for n, t in {**self.params, **self.inputs}.items())
        return f"<Section ({takes}) -> {self.y.spec}>"


def _placeholder(graph: Graph, name: str, spec: TensorSpec | Sequence[int]) -> Tensor:
    if isinstance(spec, TensorSpec):
        return graph.placeholder(name, spec.shape, spec.dtype)
    return graph.placeholder(name, spec)


def _one(arrays: Arrays, name: str, kind: str) -> Any:
    if name not in arrays:
        raise FeedError(
            f"{kind} {name!r} is not given",
            facts=["given: " + (", ".join(map(repr, arrays)) or "nothing")],
        )
    return arrays[name]
