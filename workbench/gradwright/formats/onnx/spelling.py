"""Writers that say in our ops what an op is made of, where ONNX has no operator for it.

Complex tensors, of which ONNX's operators take none, are real ones with a last axis of pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ...graph import Graph, SubGraph, Tensor
from ...graph.expand import stand_in
from ...ops.core.joining import Stack
from ...spec import TensorSpec, is_half, kind
from .node import ONNX, PAIRED, UNREAD, Unread, cast
from .nodes import write_subgraph
from .output import Call, as_pairs

Spelling = Callable[..., Any]
Build = TypeVar("Build", bound=Spelling)


def spelled(*ops: str, unread: Unread | None = None) -> Callable[[Build], Build]:
    """Enter a function ``(op, *inputs) -> tensor or tensors`` as what some ops are written as.

    ``unread(op, n)`` says which of n inputs it does not read, so that nobody needs to write them.
    """

    def enter(build: Build) -> Build:
        ONNX.writes(*ops)(lambda call: spell(call, build))
        if unread is not None:
            UNREAD.update(dict.fromkeys(ops, unread))
        return build

    return enter


def spell(call: Call, build: Spelling) -> list[str]:
    """Write what ``build`` makes of tensors like the inputs; as one op, it rounds halves once.

    Outputs that it does not make, which only some gradients read, are left out.
    """
    graph = Graph(call.op.name, scratch=True)
    given: list[Tensor] = []
    with graph:
        xs: list[Tensor | None] = []
        for i, (name, spec) in enumerate(zip(call.xs, call.specs, strict=True)):
            if spec is None or not name:
                xs.append(None)
                continue
            given.append(stand_in(graph, f"x{i}", spec))
            xs.append(cast(given[-1], "float32") if is_half(spec.dtype) else given[-1])
        made = build(call.op, *xs)
        ys = made if isinstance(made, (tuple, list)) else (made,)
        pairs = zip(ys, call.results, strict=False)
        ys = [cast(y, r.dtype) if kind(y.dtype) == kind(r.dtype) == "f" else y for y, r in pairs]
    with call.out.opens(call.op.name, call.name):
        return write_subgraph(call.out, SubGraph(given, ys), [x for x in call.xs if x], call.name)


class Parts(NamedTuple):
    """The real and the imaginary part of a complex tensor."""

    re: Tensor
    im: Tensor


def paired(*ops: str) -> Callable[[Build], Build]:
    """Enter a function as what some ops are written as where a tensor is complex.

    It takes and returns real tensors as they are, and complex ones as :class:`Parts`.
    """

    def enter(build: Build) -> Build:
        def write(call: Call) -> list[str]:
            def on_pairs(of: Any, *xs: Any) -> Any:
                made = build(of, *(_parts(x, s) for x, s in zip(xs, call.specs, strict=True)))
                made = made if isinstance(made, list) else [made]
                return [Stack(axis=-1)(*y) if isinstance(y, Parts) else y for y in made]

            pairs = call.on(
                [None if s is None else as_pairs(s) for s in call.specs],
                list(map(as_pairs, call.results)),
            )
            return spell(pairs, on_pairs)

        PAIRED.update(dict.fromkeys(ops, write))
        return build

    return enter


def _parts(x: Tensor | None, spec: TensorSpec | None) -> Any:
    if x is None or spec is None or kind(spec.dtype) != "c":
        return x
    return Parts(x[..., 0], x[..., 1])
