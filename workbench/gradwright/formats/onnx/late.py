"""ONNX operators whose meaning waits for numbers that only a run knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ArchiveError, GradwrightError, ShapeError, UnsupportedOpError
from ...graph.expand import expanded_specs, expansion
from ...op import ErrorSample, Op, Sample, attr
from ...spec import TensorSpec
from ...spec.one_of import OneOf
from ..foreign import Outputs, Reader
from .node import ONNX, UNFIT, OnnxNode, known_value, like_first

Array = np.ndarray[Any, Any]


class OnnxOp(Op):
    """An operator of ONNX that has as inputs what our ops have as attributes.

    y = what the operator is once the values of these inputs are known

    While a graph is built, such as the axes of a ReduceSum may be fed later, so only ranks are
    known; a plan is split before the node, and goes on with the ops that the values make it.
    """

    namespace = "inner"
    op_type: str = attr(doc="Name of the operator.")
    opset: int = attr(doc="Version of its domain.")
    domain: str = attr("", doc="Domain of the operator; empty for ONNX's own.")
    attributes_: tuple[tuple[str, Any], ...] = attr((), doc="Its attributes by name, in order.")
    wanted: tuple[bool, ...] = attr((True,), doc="Per output whether something reads it.")

    @property
    def node(self) -> OnnxNode:
        """The node as its reader wants it."""
        return OnnxNode(self.op_type, self.opset, dict(self.attributes_), self.wanted, self.domain)

    @property
    def reader(self) -> Reader:
        """The reader that knows the operator."""
        found = ONNX.find(self.node)
        if found is None:
            raise UnsupportedOpError(f"no reader knows {self.op_type} of opset {self.opset}")
        return found

    @property
    def needs_values(self) -> tuple[int, ...]:  # type: ignore[override]
        """The inputs whose values its reader needs."""
        return self.reader.values

    def _settled(self, xs: Sequence[Any]) -> list[Any] | None:
        """Return the inputs with arrays in place of those that are known, if all are."""
        out, waits = list(xs), self.reader.waits
        specs = [getattr(x, "spec", x) for x in xs]
        if any(isinstance(s, OneOf) for s in specs) or (waits and waits(self.node, *specs)):
            return None
        for i in self.reader.values:
            if i < len(xs) and xs[i] is not None:
                out[i] = known_value(specs[i])
                if out[i] is None:
                    return None
        return out

    @property
    def rounds_once(self) -> bool:
        """Whether halves are rounded once: each of the ops that it becomes does so by itself."""
        return False

    def infer(self, *xs: TensorSpec | None) -> tuple[TensorSpec, ...]:
        """Return the specs of what it becomes, or as much as is known of them."""
        if self._settled(xs) is not None:
            return expanded_specs(self, xs)
        outputs: Outputs = self.reader.outputs or like_first
        return tuple(outputs(self.reader.settled(self.node), *xs))

    def expand(self, *xs: Any) -> Any:
        """Return what it becomes, now that the values are known."""
        settled = self._settled(xs)
        if settled is None:
            raise ShapeError(f"what {self.op_type} does depends on values that are not known yet")
        try:
            found = self.reader(self.node, *settled)
        except GradwrightError:
            raise
        except UNFIT as error:
            raise ArchiveError(f"not a valid {self.op_type}: {error}") from error
        return tuple(found)[: len(self.wanted)] if isinstance(found, (tuple, list)) else found

    def forward(self, *xs: Any) -> Any:
        """Compute what the values make it."""
        needed = self.needs_values
        specs = [
            None if x is None else TensorSpec(x.shape, x.dtype, x if i in needed else None)
            for i, x in enumerate(xs)
        ]
        given = [x for x in xs if x is not None]
        found = expansion(self, specs).run(given)
        return tuple(
            y.copy() if any(np.may_share_memory(y, x) for x in given) else y for y in found
        )

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        """Yield operators whose axes and bounds are inputs."""
        x = rng.standard_normal((2, 3))
        yield Sample((x, np.array([1])), {"op_type": "ReduceSum", "opset": 13})
        yield Sample(
            (x, np.array([0]), np.array([1]), np.array([-1])), {"op_type": "Slice", "opset": 13}
        )

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        """Yield an operator that does not exist."""
        yield ErrorSample((TensorSpec((2,)),), {"op_type": "Nothing", "opset": 13}, "no reader")
