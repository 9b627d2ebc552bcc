"""What all checks share: cases, one-op graphs, comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..debug.check.directions import normal_like
from ..debug.check.local import LocalCheck
from ..debug.float64 import known_specs
from ..errors import DTypeError
from ..graph import Graph, Node, Tensor
from ..graph.expand import stand_in
from ..op import Op, Sample, infer_specs, run_forward
from ..spec import BOXED, Dim, TensorSpec, content_of, is_floating, spec_of
from ..spec import dtype as as_dtype
from ..spec.containers import ContainerSpec, contents, join, to_python

Array = np.ndarray[Any, Any]
Case = tuple[Op, tuple[Array | None, ...]]


class OpCheckError(AssertionError):
    """An op breaks its contract; the message says which rule, on which sample, what to change."""


def samples(cls: type[Op]) -> list[Sample]:
    """Return the samples of an op, the same at each call."""
    return list(cls.samples(np.random.default_rng(0)))


def cases(cls: type[Op], sample: Sample) -> Iterator[Case]:
    """Yield the op of a sample with its arrays, once per mode where the op follows the run."""
    op = cls(**sample.attrs)
    xs = tuple(None if x is None else np.asarray(x) for x in sample.inputs)
    modes = (False, True) if cls.follows_mode and op.training is None else (False,)  # type: ignore[attr-defined]
    for training in modes:
        yield op.for_mode(training), xs


def need(condition: bool, problem: str) -> None:
    """Raise OpCheckError unless the condition holds."""
    if not condition:
        raise OpCheckError(problem)


def place(
    op: Op, xs: Sequence[Array | None]
) -> tuple[Graph, list[Tensor | None], Node, dict[Tensor, Array]]:
    """Build a graph of the one op on placeholders."""
    graph = Graph(op.name, scratch=True)
    ins = [
        None if s is None else stand_in(graph, f"x{i}", s)
        for i, s in enumerate(known_specs(op, xs))
    ]
    with graph:
        graph.add(op, ins)
    given = {t: x for t, x in zip(ins, xs, strict=True) if t is not None and x is not None}
    return graph, ins, graph.latest, given


def wanted(
    op: Op, xs: Sequence[Array | None], sample: Sample, ins: Sequence[Tensor | None]
) -> list[Tensor]:
    """Return the inputs to differentiate by: floating, and not declared to have no gradient."""
    refused = LocalCheck(op, xs, run_forward(op, xs), np.random.default_rng(0)).vjp.refused
    chosen = sample.differentiate
    return [
        t
        for i, t in enumerate(ins)
        if t is not None
        and is_floating(t.dtype)
        and i not in refused
        and (chosen is None or i in chosen)
    ]


def draw_seeds(
    graph: Graph, node: Node, rng: np.random.Generator
) -> dict[Tensor, tuple[Tensor, Array]]:
    """Return for each floating public output a cotangent placeholder and its array."""
    found = {}
    for i, y in enumerate(node.public):
        if is_floating(y.dtype) and y.spec.is_concrete:
            shape: Any = y.shape
            drawn = normal_like(np.empty(shape, y.dtype), rng).astype(y.dtype)
            found[y] = stand_in(graph, f"seed{i}", y.spec), drawn
    return found


def cast(op: Op, xs: Sequence[Array | None], name: str) -> tuple[Array | None, ...] | None:
    """Return the inputs with all floats as another dtype; None without any, or if op refuses."""
    target = as_dtype(name)
    floats = [x is not None and is_floating(x.dtype) and x.dtype.kind != "c" for x in xs]
    moved = tuple(
        x.astype(target) if is_float and x is not None else x
        for x, is_float in zip(xs, floats, strict=True)
    )
    return moved if any(floats) and takes(op, moved) else None


def takes(op: Op, xs: Sequence[Array | None]) -> bool:
    """Tell whether infer accepts the dtypes."""
    try:
        infer_specs(op, known_specs(op, xs))
    except DTypeError:
        return False
    return True


def fits(spec: TensorSpec, y: Array) -> bool:
    """Tell whether an array has the dtype and, where they are known, the sizes of a spec."""
    if isinstance(spec, ContainerSpec):
        return y.dtype == BOXED and join(spec, spec_of(y)) == spec
    return (
        spec.dtype == y.dtype
        and spec.rank == y.ndim
        and all(isinstance(d, Dim) or d == n for d, n in zip(spec.shape, y.shape, strict=True))
    )


def same(a: Array | None, b: Array | None) -> bool:
    """Tell whether two arrays are equal to the bit."""
    if a is None or b is None:
        return a is b
    if a.dtype == b.dtype == BOXED:
        return bool(contents(a) == contents(b))
    return a.shape == b.shape and a.dtype == b.dtype and content_of(a) == content_of(b)


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Compare relative to each element and to the largest one."""
    if isinstance(b, np.ndarray) and b.dtype == BOXED and getattr(a, "dtype", None) != BOXED:
        b = to_python(b)  # as a session does
    if isinstance(a, list) or isinstance(b, list) or a is None or b is None:
        if not isinstance(b, list) or not isinstance(a, list):
            return a is b
        return len(a) == len(b) and all(close(p, q, tolerance) for p, q in zip(a, b, strict=True))
    x, y = np.asarray(a), np.asarray(b)
    if x.shape != y.shape:
        return False
    if x.dtype == y.dtype == BOXED:
        items = contents(x).items, contents(y).items
        return len(items[0]) == len(items[1]) and all(
            close(p, q, tolerance) for p, q in zip(*items, strict=True)
        )
    if y.dtype.kind not in "fcV":
        return bool(np.array_equal(x, y))
    x, y = (z.astype(np.complex128 if z.dtype.kind == "c" else np.float64) for z in (x, y))
    size = np.abs(y[np.isfinite(y)]).max(initial=0.0)
    return bool(np.allclose(x, y, rtol=tolerance, atol=tolerance * size, equal_nan=True))
