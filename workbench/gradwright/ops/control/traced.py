"""Steps of loops made from functions: traced until their carries are what they stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import GraphError
from ...graph import Tensor
from ...graph.build import owner_of
from ...op import Op
from ...spec import TensorSpec
from ...spec.containers import ContainerSpec
from ...spec.containers import join as join_containers
from .body import Body, Rebuild, flatten, same_structure
from .loop_op import NUMBER, either


class Traced:
    """A step made from a function, traced until its carries are what they stay."""

    def __init__(self, what: str, init: Any, others: Sequence[Any], free_shapes: bool) -> None:
        self.what, self.init, self.free_shapes = what, init, free_shapes
        leaves: list[Any] = []
        self.rebuild: Rebuild = flatten(init, leaves)
        self.owner = owner_of(what, [*leaves, *others])
        self._numbers = [isinstance(x, (bool, int, float)) for x in leaves]
        with self.owner:
            self.carries = [self.tensor(x) for x in leaves]
        self.names = _names(init, "carry")

    def tensor(self, value: Any) -> Tensor:
        """Return an input of the loop as a tensor of its graph."""
        if not isinstance(value, Tensor):
            return self.owner.constant(value)
        return value if value.graph is self.owner else self.owner.capture(value)

    def trace(
        self, items: Sequence[TensorSpec], step: Callable[[Body, Any, list[Tensor]], Any]
    ) -> tuple[Body, Any]:
        """Build the body; ``step`` returns (what comes first, new carries, results)."""
        start = specs = [t.spec.bare() for t in self.carries]
        for _ in range(8):
            body = Body(self.owner, "body", self.what)
            body.graph.step = body.input("step", NUMBER)
            carries = [body.input(k, s) for k, s in zip(self.names, specs, strict=True)]
            xs = [body.input(f"x_{i}", s) for i, s in enumerate(items)]
            first, new, results = body.call(step, body, self.rebuild(iter(carries)), xs)
            if not same_structure(self.init, new):
                raise GraphError(
                    f"the body of {self.what} returns carries of another structure",
                    need="what it was given: the same nesting of lists and dicts",
                )
            leaves: list[Any] = []
            flatten(new, leaves)
            after = [body.take(t) for t in leaves]
            collected: list[Any] = []
            rebuild = flatten(results, collected)
            body.outputs = [*map(body.take, first), *after, *map(body.take, collected)]
            body.check()
            settled = [
                self._settled(begin, a, t.spec, free)
                for begin, a, t, free in zip(start, specs, after, self._numbers, strict=True)
            ]
            if settled == specs:
                break
            specs = settled
        self.changing = tuple(
            j
            for j, (s, begin) in enumerate(zip(specs, start, strict=True))
            if not isinstance(s, ContainerSpec) and s != begin.with_dtype(s.dtype)
        )
        for i, (t, s) in enumerate(zip(self.carries, specs, strict=True)):
            if self._numbers[i] and t.dtype != s.dtype:
                self.carries[i] = t.astype(s.dtype)
        return body, rebuild

    def _settled(self, start: TensorSpec, a: TensorSpec, b: TensorSpec, free: bool) -> TensorSpec:
        """Return what a carry is in all steps, if it may be ``a``, and ``b`` after a step."""
        if isinstance(a, ContainerSpec):
            return join_containers(a, b)
        a = a.with_dtype(b.dtype) if free and not b.by_reference else a
        return either(start, a, b.bare()) if self.free_shapes else a

    def add(self, op: Op, inputs: Sequence[Any], body: Body, name: str | None) -> list[Tensor]:
        """Add the loop and return all its outputs."""
        self.owner.add(op, [*inputs, *body.graph.captures], name)
        return list(self.owner.latest.outputs)


def _names(structure: Any, prefix: str) -> list[str]:
    """Return a name for each leaf that says where it stands."""
    if structure is None:
        return []
    if isinstance(structure, dict):
        return [n for k, v in structure.items() for n in _names(v, f"{prefix}_{k}")]
    if isinstance(structure, (list, tuple)):
        return [n for i, v in enumerate(structure) for n in _names(v, f"{prefix}_{i}")]
    return [prefix.replace("/", "_").replace(":", "_")]
