"""A run in float64 again and again, of other values of the same shapes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...graph import Node, Source, Tensor, Values
from ...op import run_forward
from ...spec import known_spec
from ..float64 import Float64Run, given, stored

Array = np.ndarray[Any, Any]


class RunAgain(Float64Run):
    """A run whose copy stays while its values change, node by node."""

    def again(
        self,
        feeds: Mapping[Any, Any],
        *,
        values: Values,
        seed: int = 0,
        step: int = 0,
    ) -> Iterator[Node]:
        """Compute all values anew from others of the same shapes; yields each node when it is done.

        Raises ShapeError where a shape is another, or a number that shapes depend on.
        """
        self.fed = given(self._source, feeds)
        fresh = dict(self.fed)
        for node in self._order:
            if isinstance(node.op, Source):
                fresh[node.outputs[0]] = stored(node, values, (seed, step))
        for t, array in fresh.items():
            self._set(self.copies[t], self.settled_array(array))
        for copy in self.nodes:
            with np.errstate(all="ignore"):
                xs = [None if t is None else self.env[t] for t in copy.inputs]
                ys = run_forward(copy.op, xs, training=self.training)
            for t, y in zip(copy.outputs, ys, strict=True):
                self._set(t, y)
            yield copy

    def _set(self, copy: Tensor, array: Array) -> None:
        """Give a tensor that is there another value."""
        spec = known_spec(array)
        if array.shape != copy.shape or (copy in self._deciding and spec.key() != copy.spec.key()):
            raise ShapeError(f"{copy.name!r} is {spec}", need=f"{copy.spec}, as before")
        copy.spec, self.env[copy] = spec, array

    @functools.cached_property
    def _deciding(self) -> set[Tensor]:
        """Tensors whose values decide shapes."""
        every = [n.inputs[i] for n in self.nodes for i in n.op.needs_values if i < len(n.inputs)]
        return {t for t in every if t is not None}
