"""function: a sub-graph as one op, which drawings show as one node and steppers open."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...graph import Graph, SubGraph, Tensor, active_graph
from ...graph.build import check_name, owner_of
from ...graph.expand import infer_nodes, inline, refit
from ...op import ErrorSample, Op, Sample, attr
from ...spec import TensorSpec
from .body import Body, flatten


class Call(Op):
    """A named sub-graph applied to tensors.

    ys = body(xs)
    """

    namespace = "control"
    returns = ("*results",)
    body: SubGraph = attr(doc="What it stands for.")
    label: str = attr("call", doc="What drawings and nodes call it.")

    @property
    def title(self) -> str:
        return self.label

    @functools.cached_property
    def next_state(self) -> Mapping[int, int]:
        places = {t: i for i, t in enumerate(self.body.inputs)}
        found = {}
        for j, t in enumerate(self.body.outputs):
            held = _state_before(t)
            while held is not None and held not in places:  # of several, from the last to the first
                held = _state_before(held)
            if held is not None:
                found[places[held]] = j
        return found

    def infer(self, *xs: TensorSpec) -> tuple[TensorSpec, ...]:
        if len(xs) != len(self.body.inputs):
            raise ShapeError(f"{self.label} takes {len(self.body.inputs)} tensors, got {len(xs)}")
        for x, stated in zip(xs, self.body.inputs, strict=True):
            if x.rank != stated.rank or x.dtype != stated.dtype:
                raise DTypeError(f"{self.label} takes {stated.spec} as {stated.name!r}, got {x}")
        return tuple(infer_nodes(self.body, xs))

    def fitted(self, specs: Sequence[TensorSpec]) -> Op:
        body = refit(self.body, specs)
        return self if body is self.body else self.replace(body=body)

    def expand(self, *xs: Tensor) -> tuple[Tensor, ...]:
        graph = active_graph()
        assert graph is not None
        return tuple(inline(self.body, graph, xs))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        graph = Graph("sample", scratch=True)
        x, w = graph.placeholder("x", (2, 3), "float64"), graph.placeholder("w", (3,), "float64")
        body = SubGraph([x, w], [x * w, (x + w).sum()])
        xs = rng.standard_normal((2, 3)), rng.standard_normal(3)
        yield Sample(xs, {"body": body, "label": "block"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        graph = Graph("sample", scratch=True)
        x = graph.placeholder("x", (2,))
        attrs = {"body": SubGraph([x], [x + 1.0]), "label": "block"}
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2,))), attrs, "block takes 1 tensors")
        yield ErrorSample((TensorSpec((2,), "int64"),), attrs, "block takes f32[2]")


def _state_before(t: Tensor) -> Tensor | None:
    """Return the state that a tensor is the next value of, if it is one."""
    node = t.node
    return next((node.inputs[i] for i, o in node.op.next_state.items() if o == t.index), None)


def function(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make calls of a function one node each, with what the function builds inside.

    Tensors and arrays among the arguments, also in lists, tuples and dicts, are inputs, as is what
    the function uses from outside; other arguments it gets as they are. It returns tensors, or
    nested lists, tuples and dicts of them. Random ops inside draw anew for each call, and state of
    layers inside, such as running means, goes on from one call to the next. Drawings show a call as
    one node that opens, steppers step into it, plans see through it.

    Raises GraphError where the function makes a variable: that belongs outside.

    >>> import gradwright as gw
    >>> @gw.function("block")
    ... def block(x, w, scale=1.0):
    ...     return gw.tanh(x @ w) * scale
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", (2, 3)), g.variable("w", (3, 3))
    >>> y = block(block(x, w), w, scale=2.0)
    >>> [n.name for n in g.nodes]
    ['x', 'w', 'block', 'block_1']
    """
    check_name(name)

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            leaves: list[Any] = []
            rebuild = flatten((args, kwargs), leaves)
            given = [x for x in leaves if isinstance(x, (Tensor, np.ndarray))]
            owner = owner_of(name, given)
            inputs = [x if isinstance(x, Tensor) else owner.constant(x) for x in given]
            body = Body(owner, name, "function")
            body.graph.step = body.graph.constant(owner.next_stream())
            own = iter(body.input(f"x_{i}", t.spec) for i, t in enumerate(inputs))
            inner = [next(own) if isinstance(x, (Tensor, np.ndarray)) else x for x in leaves]

            def build() -> Any:
                inner_args, inner_kwargs = rebuild(iter(inner))
                return fn(*inner_args, **inner_kwargs)

            results: list[Any] = []
            made = flatten(body.call(build), results)
            if not results:
                raise GraphError(f"the function {name!r} returns nothing", need="a tensor")
            body.outputs = [*map(body.take, results), *body.states()]
            body.check(hands_on_state=True)
            captured = list(body.graph.captures)
            owner.add(Call(body=body.closed(captured), label=name), [*inputs, *captured])
            return made(iter(owner.latest.outputs))

        return call

    return decorate
