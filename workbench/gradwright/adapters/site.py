"""Sites: the weights of a graph that an adapter can change, and what is computed with each.

Ops say themselves where they hold weights (``Op.weight_sites``). Between a stored tensor and the op
there may be views (transposed, cast); a weight that is computed of stored tensors alone, such as a
dequantised one, or a part of a larger one, is a site, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Tensor, Values, Variable, ancestors
from ..graph.tensor import Source
from ..op import WeightSite
from ..ops.core.elementwise import Add
from ..ops.core.identity import Identity, StopGradient
from ..ops.core.movement import Cast, Swapaxes, Transpose
from ..ops.quantised.blocks import unpacked
from ..ops.quantised.products import PackedMatmul
from ..session import Session
from ..spec import is_floating

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Use:
    """An op that reads a weight, at an input of that number.

    ``x`` is what the weight is multiplied with (of an embedding, ids), and ``output`` the product,
    with ``bias`` if one is added. Where ``output`` is None the op does more than multiply, as a
    recurrent layer does: adapters then change the weight that it reads.
    """

    node: Node
    input: int
    output: Tensor | None
    order: tuple[int, ...] = ()
    """Which axis of the input is each axis of [out, in, *kernel]."""
    x: Tensor | None = None
    bias: Tensor | None = None

    @property
    def weight(self) -> Tensor:
        """What the op reads."""
        found = self.node.inputs[self.input]
        assert found is not None
        return found

    @property
    def sizes(self) -> Tensor:
        """How many rows each expert has, where the op multiplies rows by theirs."""
        found = self.node.inputs[2]
        assert found is not None
        return found

    @property
    def last(self) -> Node:
        """The node that its result comes from."""
        return self.node if self.output is None else self.output.node

    def again(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the product of another input, or another weight [out, in, *kernel], too.

        No bias is added.
        """
        return self._made([None if t is self.bias else t for t in self.node.inputs], x, weight)

    def instead(self, y: Tensor, x: Tensor, weight: Tensor | None = None) -> Tensor | None:
        """Return the layer's output of another input or weight, in place of ``y``, its own.

        ``y`` is then not computed. None where it is more than that: an adapter has changed it.
        """
        product = self.node.outputs[0]
        if y is not product and (self.bias is None or set(y.node.inputs) != {product, self.bias}):
            return None
        made = self._made(list(self.node.inputs), x, weight)
        if y is product:
            return made
        given = [made if t is product else t for t in y.node.inputs]
        whole: Tensor = y.graph.add(y.node.op, given, y.node.name)
        return whole

    def _made(self, given: list[Tensor | None], x: Tensor, weight: Tensor | None) -> Tensor:
        site = next(s for s in self.node.op.weight_sites() if s.input == self.input)
        assert site.x is not None
        given[site.x] = x
        if weight is not None:
            given[self.input] = weight.transpose(*map(int, np.argsort(self.order)))
        made: Tensor = self.node.graph.add(self.node.op, given)
        return made


@dataclass(frozen=True, eq=False, kw_only=True)
class Place:
    """Where an adapter stands: its variables are called ``{name}/{adapter}/{leaf}``.

    ``uses`` are what it changes there; none where it adds nothing, and trains what there is.
    """

    name: str
    kind: str
    dtype: np.dtype[Any] = np.dtype(np.float32)  # noqa: RUF009 - as good as frozen
    """In which the layer computes."""
    uses: tuple[Use, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Site(Place):
    """A weight with all its uses.

    ``shape`` is [out, in, *kernel], the order of weights in files of adapters, whatever the order
    of the stored axes; of an embedding [dim, rows]. Kinds are ``linear``, ``embedding``, ``conv``,
    ``experts`` and ``recurrent``, which are ``count`` weights [count, out, in], and ``tied`` of a
    table that is a product's weight, too; others are as their ops say.

    >>> import gradwright as gw
    >>> from gradwright.adapters import sites
    >>> g = gw.Graph()
    >>> w = g.variable("w", (3, 2))
    >>> y = g.placeholder("x", (None, 3)) @ w + g.variable("b", (2,))
    >>> [site] = sites(g)
    >>> site.name, site.kind, site.shape, site.uses[0].output.name, site.uses[0].bias.name
    ('w', 'linear', (2, 3), 'add', 'b')
    """

    weight: Tensor
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    """Which stored axis is each axis of ``shape``."""
    packed: str = ""
    """What the weight is packed as, such as ``q4_k``."""
    groups: int = 1
    """Of a convolution."""
    count: int = 0
    """How many weights it is, of experts or of directions through time; 0 is one."""

    @property
    def n_out(self) -> int:
        """Numbers that come out."""
        return self.shape[0]

    @property
    def n_in(self) -> int:
        """Numbers that go in, those of all groups."""
        return self.shape[1] * self.groups

    @property
    def kernel(self) -> tuple[int, ...]:
        """The size of a convolution's kernel."""
        return self.shape[2:]

    @property
    def size(self) -> int:
        """How many numbers the weight has."""
        return math.prod(self.shape) * (self.count or 1)

    @property
    def is_stored(self) -> bool:
        """Whether the weight is a variable or constant of floats, which can be written."""
        return isinstance(self.weight.op, Variable | Constant) and not self.packed

    def array(self, values: Values | None = None) -> Array:
        """Return the weight as floats [out, in, *kernel], unpacked where it is packed."""
        graph = self.weight.graph
        values = graph.values if values is None else values
        if self.is_stored:
            return values.stored(self.weight.node).transpose(self.axes)
        use = self.uses[0]
        if self.kind == "embedding" and self.packed:
            return unpacked(values.stored(self.weight.node), self.packed).T
        if self.packed and self.count:
            return unpacked(values.stored(self.weight.node), self.packed)
        if isinstance(use.node.op, PackedMatmul):
            parts = [t for t in use.node.inputs[1:] if t is not None]
            packed = Session(graph, values=values).run(parts)
            rows = use.node.op.blocks(self.shape[1], self.shape[0], packed)
            return np.concatenate([w for _, w in rows])
        found: Array = Session(graph, values=values).run(self.weight)
        return found.transpose(self.axes)

    def stored(self, array: Array) -> Array:
        """Return what ``array`` gives in the order of the stored axes."""
        return np.ascontiguousarray(array.transpose(np.argsort(self.axes)))


@dataclass
class _Found:
    """What is known of a weight while the graph is walked."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    packed: str
    groups: int
    count: int
    dtype: np.dtype[Any]
    kinds: dict[str, None] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)


def sites(
    graph: Graph,
    *,
    but: Collection[Tensor] = (),
    outer: Mapping[Tensor, Tensor] | None = None,
    apart: Collection[Node] = (),
) -> list[Site]:
    """Return the sites of a graph, in the order in which its weights were made.

    ``but`` are weights to leave out and ``apart`` nodes; ``outer`` says of outputs what they are
    seen as, where other adapters stand behind them.
    """
    outer, but, stored = outer or {}, set(but), _stored(graph)
    seen_all: dict[tuple[Tensor, tuple[int, ...]], _Found] = {}
    for node in graph.nodes:
        if node in stored or node in apart:
            continue
        for site in node.op.weight_sites():
            seen = _seen(node, site, stored, outer)
            if seen is None or seen[0] in but:
                continue
            weight, made, use = seen
            key = weight, made.axes if site.kind != "embedding" else made.axes[::-1]
            held = seen_all.setdefault(key, made)
            kind = "conv" if len(made.shape) > 2 else site.kind
            held.kinds[kind] = None
            held.uses.append(use)
    found = dict(sorted(seen_all.items(), key=lambda item: item[0][0].node.serial))
    return [
        Site(
            name=name,
            kind=next(iter(held.kinds)) if len(held.kinds) == 1 else "tied",
            weight=weight,
            shape=held.shape,
            axes=held.axes,
            uses=tuple(held.uses),
            dtype=held.dtype,
            packed=held.packed,
            groups=held.groups,
            count=held.count,
        )
        for name, (weight, _), held in zip(_names(found), found, found.values(), strict=True)
    ]


def _seen(
    node: Node, site: WeightSite, stored: Collection[Node], outer: Mapping[Tensor, Tensor]
) -> tuple[Tensor, _Found, Use] | None:
    """Return the weight that an op reads at a site, or None where it is none of a matrix."""
    read = node.inputs[site.input] if site.input < len(node.inputs) else None
    layout = site.layout.split(",")
    if read is None or read.node not in stored or not {"out", "in"} <= {*layout}:
        return None
    if not site.packed and len(layout) != read.rank:
        return None
    weight, view = _unviewed(read)
    several = [i for i, axis in enumerate(layout) if axis in ("dir", "expert")]
    rest = [i for i, axis in enumerate(layout) if axis not in ("out", "in") and i not in several]
    order = (*several, layout.index("out"), layout.index("in"), *rest)
    y = node.outputs[0]
    x = None if site.x is None else node.inputs[site.x]
    sizes: tuple[Any, ...] = tuple(read.shape[i] for i in order)
    if site.packed and x is not None:
        n_in = weight.shape[0] if site.kind == "embedding" else x.shape[-1]
        sizes = (*(read.shape[i] for i in several), y.shape[-1], n_in)
    known = tuple(d for d in sizes if isinstance(d, int))
    if len(known) != len(sizes):
        return None
    count, shape = (known[0] if several else 0), known[len(several) :]
    output, bias = (None, None) if x is None else _output(node, site, stored)
    output = None if output is None else outer.get(output, output)
    groups = getattr(node.op, "groups", 1) if x is not None else 1
    dtype = y.dtype if is_floating(y.dtype) else np.dtype(np.float32)
    made = _Found(shape, tuple(view[i] for i in order), site.packed, groups, count, dtype)
    return weight, made, Use(node, site.input, output, order, x, bias)


def _output(node: Node, site: WeightSite, stored: Collection[Node]) -> tuple[Tensor, Tensor | None]:
    """Return the output of a layer and its bias, which the op adds, or the next one alone."""
    y = node.outputs[0]
    if (
        site.bias is not None
        and site.bias < len(node.inputs)
        and node.inputs[site.bias] is not None
    ):
        return y, node.inputs[site.bias]
    if len(y.uses) == 1 and isinstance(y.uses[0].op, Add):
        after = y.uses[0]
        other = next((t for t in after.inputs if t is not y), None)
        fits = other is not None and other.node in stored and other.shape == y.shape[-1:]
        if fits and after.outputs[0].spec == y.spec:
            return after.outputs[0], other
    return y, None


def _unviewed(t: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """Return what a tensor is a view of, and which of its axes each axis of the tensor is."""
    view = tuple(range(t.rank))
    while True:
        op = t.op
        if isinstance(op, Transpose):
            axes = tuple(range(t.rank))[::-1] if op.axes is None else op.axes
        elif isinstance(op, Swapaxes):
            swapped = list(range(t.rank))
            a, b = op.axis1, op.axis2
            swapped[a], swapped[b] = swapped[b], swapped[a]
            axes = tuple(swapped)
        elif isinstance(op, Cast | Identity | StopGradient):
            axes = tuple(range(t.rank))
        else:
            return t, view
        view = tuple(axes[i] % t.rank for i in view)
        (source,) = t.node.inputs
        assert source is not None
        t = source


def _held(t: Tensor) -> bool:
    return isinstance(t.op, Variable | Constant)


def _stored(graph: Graph) -> set[Node]:
    """Return the nodes that depend on nothing but variables and constants."""
    found: set[Node] = set()
    for node in ancestors([t for n in graph.nodes for t in n.outputs]):
        if isinstance(node.op, Source):
            is_one = isinstance(node.op, Variable | Constant)
        else:
            given = [t.node for t in node.inputs if t is not None]
            is_one = bool(given) and all(n in found for n in given)
        if is_one:
            found.add(node)
    return found


def _names(found: Collection[tuple[Tensor, tuple[int, ...]]]) -> list[str]:
    """Return a name for each weight: its own, or of the largest tensor that it is computed of."""
    names: list[str] = []
    for weight, _ in found:
        held = [n.outputs[0] for n in ancestors([weight]) if _held(n.outputs[0])]
        base = max(held, key=lambda t: math.prod(map(int, t.shape))).name
        n = sum(name == base or name.startswith(f"{base}.part") for name in names)
        names.append(f"{base}.part{n}" if n else base)
    return names
