"""Sub-graphs: what a composite stands for and control flow holds, and how to run one plainly."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import DTypeError, GradwrightError, GraphError
from ..op import Op, find_op, infer_specs, redefinitions, run_forward
from ..op.declare import Frozen
from ..shared import Bounded
from ..spec import Dim, TensorSpec, content_of, dtype, is_half, kind, known_spec, spec_of
from ..spec.containers import ContainerSpec
from ..spec.one_of import OneOf, narrowed
from .build import build, check_shapes, failed, located, renumbered
from .graph import Graph
from .tensor import Constant, Node, Placeholder, Source, Tensor
from .walk import ancestors

__all__ = [
    "SubGraph",
    "build",
    "check_expansion",
    "expanded_specs",
    "expansion",
    "interpret",
    "run_nodes",
]

Array = np.ndarray[Any, Any]
FLOAT32 = dtype("float32")


class SubGraph(Frozen):
    """A graph with chosen inputs and outputs, compared by what it computes, not by names."""

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.nodes = tuple(ancestors(self.outputs, stop=set(self.inputs)))
        self.sizes: Mapping[str, int] = {}
        """Sizes of dimensions that its ops state without having a tensor that shows them."""
        self._content: Any = None
        self._symbols: frozenset[str] | None = None
        given = {t.node for t in self.inputs}
        for node in self.nodes:
            if node.kind in ("variable", "placeholder") and node not in given:
                raise GraphError(
                    f"a sub-graph cannot hold its own {node.kind} {node.name!r}",
                    hint="make it outside; the sub-graph captures what it uses",
                )

    @property
    def graph(self) -> Graph:
        """The graph that holds the nodes."""
        return (self.outputs or self.inputs)[0].graph

    def content(self) -> Any:
        """Return ops, wiring and constants as nested tuples."""
        if self._content is None:
            number: dict[Tensor, int] = {t: i for i, t in enumerate(self.inputs)}
            rows = []
            for node in self.nodes:
                if any(t in number for t in node.outputs):
                    continue
                what: Any = node.op.key()
                if isinstance(node.op, Constant):
                    array = node.graph.values.array(node.name)
                    digest = hashlib.sha256(content_of(array)).digest()
                    what = str(array.dtype), array.shape, digest
                rows.append((what, tuple(None if t is None else number[t] for t in node.inputs)))
                for t in node.outputs:
                    number[t] = len(number)
            specs = tuple(t.spec.key() for t in self.inputs)
            outputs = tuple(number[t] for t in self.outputs)
            self._content = specs, tuple(rows), outputs, tuple(sorted(self.sizes.items()))
        return self._content

    def symbols(self) -> frozenset[str]:
        """Return the symbolic dimensions in attributes of its ops."""
        if self._symbols is None:
            self._symbols = frozenset().union(*(n.op.symbols() for n in self.nodes))
        return self._symbols

    def bind(self, sizes: Mapping[str, int]) -> SubGraph:
        """Return the sub-graph with the sizes of symbols that its ops state."""
        stated = {s: n for s, n in sizes.items() if s in self.symbols()}
        if stated == self.sizes:
            return self
        bound = copy.copy(self)
        bound.sizes, bound._content = stated, None
        return bound

    def run(self, xs: Sequence[Array], *, training: bool = False) -> list[Array]:
        """Compute the outputs node by node."""
        given = dict(zip(self.inputs, xs, strict=True))
        return run_nodes(self.nodes, given, self.outputs, training=training, sizes=self.sizes)

    def __repr__(self) -> str:
        return f"<{len(self.inputs)} inputs, {len(self.nodes)} nodes, {len(self.outputs)} outputs>"


_expansions = Bounded[SubGraph](512)


def expansion(op: Op, specs: Sequence[TensorSpec | None]) -> SubGraph:
    """Return what a composite stands for on inputs of these specs; None inputs are skipped.

    Its outputs have the dtypes that the op infers. It rounds halves once, as primitive ops do: they
    are float32 inside; and where an output is wider than some of the inputs, these are as wide.
    """
    return _held("as run", op, specs, lambda: _as_run(op, specs))


def _as_run(op: Op, specs: Sequence[TensorSpec | None]) -> SubGraph:
    own = type(op).infer is not Op.infer
    if own:
        found = op.infer(*specs)
        outs = found if isinstance(found, tuple) else (found,)
    else:
        outs = tuple(y.spec for y in _as_written(op, specs).outputs)
    inside = _inside(op, specs, outs)
    if inside is None and not own:
        return _as_written(op, specs)
    return _expanded(op, specs, inside, [s.dtype for s in outs])


def _as_written(op: Op, specs: Sequence[TensorSpec | None]) -> SubGraph:
    return _held("as written", op, specs, lambda: _expanded(op, specs))


def _held(
    how: str, op: Op, specs: Sequence[TensorSpec | None], make: Callable[[], SubGraph]
) -> SubGraph:
    key = how, op, redefinitions(), tuple([None if s is None else s.key() for s in specs])
    held = _expansions.find(key)
    if held is not None:
        return held
    made = make()
    _expansions.keep(key, made)
    return made


def _expanded(
    op: Op,
    specs: Sequence[TensorSpec | None],
    inside: np.dtype[Any] | None = None,
    dtypes: Sequence[np.dtype[Any]] | None = None,
) -> SubGraph:
    """Build an expansion; its floats are ``inside`` at least, its outputs become ``dtypes``."""
    inner = Graph(op.name, scratch=True)
    with inner:
        xs = [None if s is None else stand_in(inner, f"in{i}", s) for i, s in enumerate(specs)]
        given = xs
        if inside is not None:
            given = [_widened(x, inside) for x in xs]
        ys = op.expand(*given)
        ys = ys if isinstance(ys, tuple) else (ys,)
        if not all(isinstance(y, Tensor) for y in ys):
            raise GraphError(f"expand of {op.name} returned {ys!r}", need="a tensor, or a tuple")
        if dtypes is not None:
            pairs = zip(ys, dtypes, strict=True)
            ys = tuple(_cast(y, d) if kind(d) in "fc" else y for y, d in pairs)
    return SubGraph([x for x in xs if x is not None], ys)


def _cast(x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    made: Tensor = x if x.dtype == dtype else find_op("cast")(dtype=dtype)(x)
    return made


_WIDTHS = {dtype(name): n for n, name in enumerate(("float16", "bfloat16", "float32", "float64"))}


def _inside(
    op: Op, specs: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]
) -> np.dtype[Any] | None:
    """Return the dtype that floats of a composite have inside at least; None if all keep theirs.

    Beside sequences they do. What the outputs of most axes need decides: the float64 numbers of an
    optimizer's step widen no float32 parameter.
    """
    if any(s is not None and s.by_reference for s in specs) or not _may_widen(op):
        return None
    given = [s for s in specs if s is not None and s.dtype in _WIDTHS]
    halves = any(is_half(s.dtype) for s in given)  # float32 would be a rounding of its own
    wanted = {FLOAT32, *_of_most_axes(outs), *(_of_most_axes(given) if halves else ())}
    widest = max(wanted, key=_WIDTHS.__getitem__)
    narrowest = min((_WIDTHS[s.dtype] for s in given), default=_WIDTHS[widest])
    return widest if narrowest < _WIDTHS[widest] else None


def _of_most_axes(specs: Sequence[TensorSpec]) -> set[np.dtype[Any]]:
    """Return the dtypes of floats among those that have the most axes."""
    floats = [s for s in specs if s.dtype in _WIDTHS]
    most = max((s.rank for s in floats), default=0)
    return {s.dtype for s in floats if s.rank == most}


def _widened(x: Tensor | None, inside: np.dtype[Any]) -> Tensor | None:
    """Return a tensor of a narrower float as ``inside``, any other as it is."""
    if x is None or x.dtype not in _WIDTHS or _WIDTHS[x.dtype] >= _WIDTHS[inside]:
        return x
    return _cast(x, inside)


def _may_widen(op: Op) -> bool:
    """Tell whether neither the op nor one that it holds rounds step by step, as graphs do."""
    held = op.attributes().values()
    return op.rounds_once and not any(
        isinstance(v, SubGraph) or (isinstance(v, Op) and not _may_widen(v)) for v in held
    )


def stand_in(graph: Graph, name: str, spec: TensorSpec) -> Tensor:
    """Return a placeholder with the spec, known values included."""
    if isinstance(spec, ContainerSpec | OneOf):
        return graph.placeholder(name, spec)
    tensor = graph.placeholder(name, spec.shape, spec.dtype)
    tensor.spec.value = spec.value
    return tensor


def expanded_specs(op: Op, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
    """Return the output specs of a composite."""
    if not op.is_composite():
        raise NotImplementedError(f"{op.name} has neither infer nor expand")
    return tuple(t.spec.substitute({}) for t in _as_written(op, specs).outputs)


def check_expansion(op: Op, specs: Sequence[TensorSpec | None]) -> None:
    """Refuse dtypes that the ops inside a composite refuse, as early as its own would be.

    Sizes that are symbols are taken to be 4: where that does not fit, the plan will tell.
    """
    dims = [d for s in specs if s is not None for d in s.shape if isinstance(d, Dim)]
    sizes = dict.fromkeys(frozenset().union(op.symbols(), *(d.symbols for d in dims)), 4)
    try:
        given = [None if s is None else s.substitute(sizes) for s in specs] if sizes else specs
        expansion(op.bind(sizes), given)
    except DTypeError:
        raise
    except Exception:
        return


def interpret(op: Op, xs: Sequence[Any], training: bool) -> Any:
    """Compute a composite from arrays, one inner op after the other."""
    if not op.is_composite():
        raise NotImplementedError(f"{op.name} has neither forward nor expand")
    arrays = [None if x is None else np.asarray(x) for x in xs]
    inner = expansion(op, [None if a is None else known_spec(a) for a in arrays])
    ys = inner.run([a for a in arrays if a is not None], training=training)
    return ys[0] if len(ys) == 1 else tuple(ys)


def run_nodes(
    nodes: Sequence[Node],
    given: Mapping[Tensor, Array],
    outputs: Sequence[Tensor],
    *,
    training: bool = False,
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> list[Array]:
    """Run nodes in order with ``op.forward``: the plainest engine, the reference for all others."""
    env: dict[Tensor, Array] = dict(given)
    sizes = {**sizes, **bind_dims({t: a.shape for t, a in given.items()})}
    for node in nodes:
        if all(t in env for t in node.outputs):
            continue
        if isinstance(node.op, Constant):
            env[node.outputs[0]] = node.graph.values.array(node.name)
            continue
        if isinstance(node.op, Placeholder):
            raise GraphError(f"placeholder {node.name!r} has no value")
        op = node.op.for_mode(training).bind(sizes)
        xs = [None if t is None else env[t] for t in node.inputs]
        for t, y in zip(node.outputs, run_node(node, op, xs, training=training), strict=True):
            env.setdefault(t, y)
    return [env[t] for t in outputs]


def run_node(
    node: Node, op: Op, xs: Sequence[Array | None], *, training: bool = False
) -> tuple[Array, ...]:
    """Run the op of a node; an error says which node it was, unless the user did not write it."""
    try:
        ys = run_forward(op, xs, training=training)
        check_shapes(ys, [t.spec for t in node.outputs])
    except GradwrightError as error:
        if node.site is not None:
            error.of(node)
        if error.where:
            error.inside(node.name)
        elif node.site is not None:
            error.met_at(op.name, node.name, node.where)
        raise
    except Exception as error:
        if node.site is None:
            raise
        specs = [None if x is None else spec_of(x) for x in xs]
        raise failed(error, node, op, specs, node.name).of(node) from error
    return ys


def bind_dims(shapes: Mapping[Tensor, Sequence[int]]) -> dict[str, int]:
    """Return the sizes of the symbols that the shapes of given tensors tell."""
    sizes: dict[str, int] = {}
    for t, shape in shapes.items():
        for d, n in zip(t.spec.of_rank(len(shape)).shape, shape, strict=True):
            if isinstance(d, Dim):
                sizes.update(d.solve(n))
    return sizes


def refit(sub: SubGraph, specs: Sequence[TensorSpec]) -> SubGraph:
    """Return a sub-graph built anew for inputs of other sizes, dtypes or known values.

    Inputs of another rank or kind it refuses when they are inferred, so it stays as it is.
    """
    pairs = [(t.spec, s) for t, s in zip(sub.inputs, specs, strict=True)]
    pairs = [(a, b) for a, b in pairs if not (isinstance(a, OneOf) or isinstance(b, OneOf))]
    fits = all(kind(a.dtype) == kind(b.dtype) and a.rank == b.rank for a, b in pairs)
    if not fits or all(a.dtype == b.dtype and _covers(a, b) for a, b in pairs):
        return sub
    graph = Graph(sub.graph.name, scratch=True)
    fitted = map(narrowed, specs, (t.spec for t in sub.inputs))
    inputs = [stand_in(graph, t.name, s) for t, s in zip(sub.inputs, fitted, strict=True)]
    made = SubGraph(inputs, inline(sub, graph, inputs))
    made.sizes = sub.sizes
    return made


def _covers(stated: TensorSpec, given: TensorSpec) -> bool:
    """Tell whether what was built for one spec holds for another: sizes left open hold for all."""
    if isinstance(stated, ContainerSpec):
        return stated == given
    same = all(isinstance(d, Dim) or d == n for d, n in zip(stated.shape, given.shape, strict=True))
    return same and (stated.value is None or stated.key() == given.key())


def infer_nodes(sub: SubGraph, specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """Return the output specs of a sub-graph on inputs of other specs."""
    specs = [narrowed(s, t.spec) for t, s in zip(sub.inputs, specs, strict=True)]
    if all(t.spec == s for t, s in zip(sub.inputs, specs, strict=True)):
        return [t.spec for t in sub.outputs]
    known = dict(zip(sub.inputs, specs, strict=True))
    shapes = {t: s.shape for t, s in known.items() if not isinstance(s, OneOf)}
    sizes = {**sub.sizes, **bind_dims(shapes)}  # type: ignore[arg-type]
    for node in sub.nodes:
        if node.outputs[0] in known:
            continue
        if isinstance(node.op, Source):
            known[node.outputs[0]] = node.outputs[0].spec
            continue
        given = [None if t is None else known[t] for t in node.inputs]
        try:
            found = infer_specs(node.op.bind(sizes), given)
        except GradwrightError as error:
            raise located(error, node) from None
        known.update(zip(node.outputs, found, strict=True))
    return [known[t] for t in sub.outputs]


def inline(sub: SubGraph, graph: Graph, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Build the nodes of a sub-graph again in ``graph``, on other inputs.

    They keep their names where these are free, the user's lines, and what they are gradients of.
    Sizes that their ops state are those of the inputs.
    """
    mapping: dict[Tensor, Tensor] = dict(zip(sub.inputs, inputs, strict=True))
    differing = {t: x for t, x in mapping.items() if t.spec != x.spec}
    shapes = {t: x.shape for t, x in differing.items() if not isinstance(x.spec, OneOf)}
    sizes = {**sub.sizes, **bind_dims(shapes)}  # type: ignore[arg-type]
    with graph:
        for node in sub.nodes:
            if node.outputs[0] in mapping:
                continue
            if isinstance(node.op, Constant):
                mapping[node.outputs[0]] = graph.constant(node.graph.values.array(node.name))
                continue
            name = None if graph._full_name(node.name) in graph else node.name
            given = [None if t is None else mapping[t] for t in node.inputs]
            before = [None if t is None else t.dtype for t in node.inputs]
            if any(t is not None and t.dtype != d for t, d in zip(given, before, strict=True)):
                given = renumbered(graph, given, before)
            op = node.op.bind(sizes) if sizes else node.op
            op = op.fitted([None if t is None else t.spec for t in given])
            graph.add(op, given, name)
            made = graph.latest
            made.named, made.site, made.origin = node.named, node.site, node.origin or made.origin
            mapping.update(zip(node.outputs, made.outputs, strict=True))
    return [mapping[t] for t in sub.outputs]
