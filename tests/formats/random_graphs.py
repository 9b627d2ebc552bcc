"""An ONNX graph that random nodes are added to, with the shapes of its tensors at all sizes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.formats.onnx_models import FLOAT, helper, numpy_helper

SIZES = ({"B": 3, "T": 5, "S": 4}, {"B": 1, "T": 7, "S": 2}, {"B": 4, "T": 2, "S": 6})
Shape = tuple[int, ...]
LARGE = 4000
"""Elements of a tensor at most."""


@dataclass(frozen=True)
class Value:
    """A tensor in the making: its shape at each of the sizes, and its numbers if it is a shape."""

    name: str
    shapes: tuple[Shape, ...]
    numbers: tuple[Any, ...] = ()

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shapes[0])

    def least(self, axis: int) -> int:
        """Return the smallest size along an axis."""
        return min(shape[axis] for shape in self.shapes)


@dataclass
class Builder:
    """A graph, or one inside of another, to which random nodes are added."""

    draw: random.Random
    opset: int
    outer: Builder | None = None
    nodes: list[Any] = field(default_factory=list)
    stored: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    feeds: list[dict[str, Any]] = field(default_factory=list)
    counts: list[int] = field(default_factory=lambda: [0])

    def fresh(self, base: str = "t") -> str:
        """Return a name that nothing has."""
        self.counts[0] += 1
        return f"{base}{self.counts[0]}"

    def add(self, op_type: str, *xs: Any, n: int = 1, **attrs: Any) -> Any:
        """Add a node and return the names of its outputs."""
        outs = [self.fresh() for _ in range(n)]
        names = [x.name if isinstance(x, Value) else x for x in xs]
        self.nodes.append(helper.make_node(op_type, names, outs, **attrs))
        return outs[0] if n == 1 else outs

    def store(self, array: Any) -> str:
        """Return the name of a stored tensor, or of a Constant node."""
        name, tensor = self.fresh("c"), numpy_helper.from_array(np.asarray(array))
        if self.outer is not None or self.draw.random() < 0.3:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            tensor.name = name
            self.stored.append(tensor)
        return name

    def keep(self, name: str, shapes: Sequence[Shape]) -> Value | None:
        """Take a tensor among those that later nodes read, unless it has become large."""
        if max(int(np.prod(s)) for s in shapes) > LARGE or len(shapes[0]) > 5:
            return None
        made = Value(name, tuple(shapes))
        self.values.append(made)
        return made

    def is_small(self, x: Value) -> bool:
        """Tell whether a tensor may be kept for each turn of a loop."""
        return max(int(np.prod(s)) for s in x.shapes) < LARGE // 20

    def pick(self, fits: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """Return a tensor that fits, rather a late one."""
        fitting = [v for v in self.values if fits(v)]
        return self.draw.choice(fitting[-8:] + fitting) if fitting else None

    @property
    def root(self) -> Builder:
        """The outermost graph."""
        return self if self.outer is None else self.outer.root

    @property
    def depth(self) -> int:
        """How many graphs it is in."""
        return 0 if self.outer is None else self.outer.depth + 1

    def inside(self) -> Builder:
        """Return a graph in this one."""
        return Builder(self.draw, self.opset, self, counts=self.counts)

    def graph(
        self,
        outputs: Sequence[str],
        inputs: Sequence[tuple[Any, ...]] = (),
        types: Sequence[int] = (),
    ) -> Any:
        """Return the graph of its nodes."""
        results = [
            helper.make_tensor_value_info(name, kind, None)
            for name, kind in zip(outputs, types or [FLOAT] * len(outputs), strict=True)
        ]
        given = [helper.make_tensor_value_info(*i) for i in inputs]
        return helper.make_graph(self.nodes, self.fresh("g"), given, results, self.stored)

    def feed(self, base: str, arrays: Sequence[Any], dtype: int, dims: Sequence[Any]) -> str:
        """Declare an input and what it is at each of the sizes."""
        name = self.fresh(base)
        self.inputs.append((name, dtype, list(dims)))
        for feeds, array in zip(self.feeds, arrays, strict=True):
            feeds[name] = array
        return name

    # -- shapes as tensors -------------------------------------------------------------------------

    def size_of(self, x: Value, axis: int) -> Value:
        """Return a vector of one size of a tensor, taken out of its shape in one of three ways."""
        way = self.draw.randrange(3)
        if way == 0:
            name = self.add("Shape", x, start=axis, end=axis + 1)
        elif way == 1:
            shape = self.add("Shape", x)
            at = self.store(np.int64([axis if self.draw.random() < 0.5 else axis - x.rank]))
            name = self.add("Gather", shape, at, axis=0)
        else:
            shape = self.add("Shape", x)
            picked = self.add("Gather", shape, self.store(np.int64(axis)))
            name = self.add("Unsqueeze", picked, self.store(np.int64([0])))
        return Value(name, ((1,),) * 3, tuple(np.int64([s[axis]]) for s in x.shapes))

    def vector(self, parts: Sequence[Value | int]) -> str:
        """Return the vector of some sizes, known and computed."""
        names = [p.name if isinstance(p, Value) else self.store(np.int64([p])) for p in parts]
        return names[0] if len(names) == 1 else self.add("Concat", *names, axis=0)  # type: ignore[no-any-return]


KINDS: dict[str, Callable[[Builder], Any]] = {}


def kind(make: Callable[[Builder], Any]) -> Callable[[Builder], Any]:
    """Enter a function that adds some nodes."""
    KINDS[make.__name__] = make
    return make
