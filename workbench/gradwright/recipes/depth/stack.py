"""CheckpointedStack: one forward and one backward plan for any number of identical layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError, ShapeError
from ...graph import Tensor
from ...spec import TensorSpec, differ
from .section import Array, Arrays, Section
from .store import Memory, Store


class CheckpointedStack:
    """Layers of one build, run and differentiated one after the other through two plans.

    yᵢ = layer(paramsᵢ, yᵢ₋₁)

    Only the input of each layer is kept; what is inside is computed again for its gradient (Chen et
    al. 2016, arXiv:1604.06174). So graph, plans, kernels and scratch memory are those of a single
    layer, whatever the depth, and parameters may come from disk one layer at a time.

    Args:
        layer: builds the layer from a dict of parameters, its input and, by name, what is shared.
            It returns a tensor of its input's shape and dtype.
        params: spec or shape of each parameter by name.
        x: spec of the input, f32[...].
        shared: specs of what all layers get as it is, such as a mask; no gradient flows to it.
        session: settings of the :class:`~gradwright.Session`, such as ``deterministic=True``.

    Random ops draw anew in each layer and step, and the same again for the gradient.

    Raises ShapeError if what the layer returns is not what it takes.

    >>> import gradwright as gw, numpy as np
    >>> stack = gw.CheckpointedStack(
    ...     lambda p, x: x + gw.tanh(x @ p["w"]), {"w": (2, 2)}, gw.TensorSpec((None, 2))
    ... )
    >>> layers = [{"w": np.eye(2, dtype="float32") * s} for s in (0.1, 0.2, 0.3)]
    >>> y, held = stack.forward(layers, np.ones((1, 2), "float32"))
    >>> grads, dx = stack.backward(layers, held, np.ones_like(y))
    >>> y.round(3), len(grads), dx.round(3)
    (array([[1.692, 1.692]], dtype=float32), 3, array([[1.646, 1.646]], dtype=float32))
    """

    def __init__(
        self,
        layer: Callable[..., Tensor],
        params: Mapping[str, TensorSpec | Sequence[int]],
        x: TensorSpec,
        *,
        shared: Mapping[str, TensorSpec] | None = None,
        **session: Any,
    ) -> None:
        inputs = {"x": x, **(shared or {})}
        self.section = Section(layer, params, inputs, wrt=["x"], **session)
        """The layer as it runs; ``section.graph`` can be drawn and stepped through."""
        takes, y = self.section.inputs["x"], self.section.y
        same = len(y.shape) == len(takes.shape) and y.dtype == takes.dtype
        if not same or any(differ(a, b) for a, b in zip(y.shape, takes.shape, strict=True)):
            raise ShapeError(
                f"the layer takes {takes.spec} and returns {y.spec}",
                need="the same shape and dtype, so that layers can follow each other",
                facts=[f"made at {y.node.where or 'no line'}"],
            )

    def forward(
        self,
        layers: Sequence[Arrays],
        x: Any,
        shared: Arrays | None = None,
        *,
        training: bool = True,
        step: int = 0,
        store: Store | None = None,
    ) -> tuple[Array, Held]:
        """Return the output of the last layer, and the input of each for ``backward``.

        ``layers`` may be any sequence that gives a layer's arrays when asked, such as one that
        reads them from disk. ``store`` keeps the inputs; by default in memory. In eval mode, with
        ``training=False``, nothing is kept.
        """
        held = Held(self, Memory() if store is None else store, shared or {}, step * len(layers))
        x = np.asarray(x)
        for i, params in enumerate(layers):
            if training:
                held.keep(x)
            inputs = {"x": x, **held.shared}
            x = self.section.run(params, inputs, training=training, step=held.first + i)
        return x, held

    def backward(
        self,
        layers: Sequence[Arrays],
        held: Held,
        y_grad: Any,
        *,
        sink: Callable[[int, dict[str, Array]], None] | None = None,
    ) -> tuple[list[dict[str, Array]], Array]:
        """Return the gradients of each layer's parameters and of the stack's input.

        ``held`` is what ``forward`` returned, and is used up. With ``sink`` gradients are handed
        to ``sink(i, gradients)``, the last layer's first, and are not kept.
        """
        held.check(self, len(layers))
        grads: list[dict[str, Array]] = []
        g = np.asarray(y_grad)
        for i in reversed(range(len(layers))):
            inputs = {"x": held.take(), **held.shared}
            _, found, moved = self.section.pull(layers[i], inputs, g, step=held.first + i)
            g = moved["x"]
            if sink is None:
                grads.append(found)
            else:
                sink(i, found)
        return grads[::-1], g

    def close(self) -> None:
        """Release plans and buffers."""
        self.section.close()

    def __enter__(self) -> CheckpointedStack:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        takes = ", ".join(f"{n}: {t.spec}" for n, t in self.section.params.items())
        return f"<CheckpointedStack of {self.section.inputs['x'].spec} with {takes or 'nothing'}>"


class Held:
    """The inputs of a stack's layers, until ``backward`` has used them."""

    def __init__(self, stack: CheckpointedStack, store: Store, shared: Arrays, first: int) -> None:
        self.shared, self.first = shared, first
        """What all layers get, and the random step of the first; each has its own."""
        self._stack, self._store, self.n = stack, store, 0

    def keep(self, x: Array) -> None:
        """Keep the input of the next layer."""
        self._store.put(f"inputs/{self.n}", {"x": x})
        self.n += 1

    def take(self) -> Array:
        """Return the input kept last, which is dropped, and have the one before it fetched."""
        self.n -= 1
        if self.n:
            self._store.prefetch(f"inputs/{self.n - 1}")
        return self._store.pop(f"inputs/{self.n}")["x"]

    def check(self, stack: CheckpointedStack, n: int) -> None:
        """Raise GraphError if this is not what a forward pass of ``n`` layers left."""
        if self._stack is not stack or self.n != n:
            raise GraphError(
                f"{self.n} inputs of layers are held for a backward pass through {n}",
                need="what the forward pass of the same layers, in training mode, returned",
                hint="y, held = stack.forward(layers, x); stack.backward(layers, held, y_grad)",
            )

    def __repr__(self) -> str:
        return f"<inputs of {self.n} layers in {self._store!r}>"
