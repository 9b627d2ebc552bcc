"""Rotary embeddings written out: features times cosines, and turned features times sines."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...graph import Constant, Node, Tensor
from ...op import Op
from ...ops.attention.rotary import RotatePairs
from ...ops.core.index import Gather
from ...ops.core.joining import Concat, Split
from ...ops.core.movement import ExpandDims, Squeeze, Transpose
from ...ops.core.reshape import BroadcastTo, Reshape
from ...ops.core.slicing import ALL, StridedSlice
from ...spec import Shape
from .table import Found, finds
from .view import Step, View

DEPTH = 12
"""How far down a table of angles is looked through."""

# -- parts of features ----------------------------------------------------------------------------


def part(at: View, value: int | None) -> tuple[int, int, bool, list[Node]] | None:
    """Return whose first or second half a value is, or every other element; which; and its nodes.

    The third tells whether pairs stand side by side.
    """
    if value is None:
        return None
    tensor = at.tensor(value)
    op, source = tensor.op, at.value(tensor.node.inputs[0]) if tensor.node.inputs else None
    if source is None:
        return None
    shape, last = at.spec(source).shape, at.spec(source).rank - 1
    width = shape[last] if shape else None
    if not isinstance(width, int) or width % 2:
        return None
    half = width // 2
    if isinstance(op, Split) and op.parts == 2 and op.axis in (-1, last):
        return source, tensor.index, False, [tensor.node]
    if not isinstance(op, StridedSlice) or len(op.index) != last + 1:
        return None
    *others, own = op.index
    if any(item != ALL for item in others) or not isinstance(own, tuple):
        return None
    taken = range(width)[slice(*own[1:])]
    for which in (0, 1):
        if taken == range(which * half, (which + 1) * half):
            return source, which, False, [tensor.node]
        if taken == range(which, width, 2):
            return source, which, True, [tensor.node]
    return None


def joined(at: View, node: Node) -> tuple[int, int, bool, Tensor, list[Node]] | None:
    """Return two parts that a concat puts side by side: both, whether as pairs, and the result."""
    op, step = node.op, at.step(node)
    rank = node.outputs[0].rank
    if not isinstance(op, Concat) or len(step.ins) != 2 or op.axis not in (-1, rank - 1):
        return None
    a, b = step.ins
    assert a is not None
    assert b is not None
    if node.outputs[0].shape[-1] != 2:
        return a, b, False, node.outputs[0], [node]
    outer = [at.producer(v, "expand_dims") for v in step.ins]  # pairs: [..., n, 1] twice, flattened
    flat = [u for u in at.readers(node.outputs[0]) if u is not None and isinstance(u.op, Reshape)]
    if None in outer or len(flat) != 1:
        return a, b, False, node.outputs[0], [node]
    inner = [s.ins[0] for s in outer if s is not None]
    shape, result = at.spec(inner[0]).shape, flat[0].outputs[0]
    if None in inner or at.spec(inner[1]).shape != shape or result.rank != len(shape):
        return None
    if any(s.outs and at.spec(s.outs[0]).shape != (*shape, 1) for s in outer if s is not None):
        return None
    if result.shape != (*shape[:-1], shape[-1] * 2):
        return None
    nodes = [node, flat[0], *(s.node for s in outer if s is not None)]
    return inner[0], inner[1], True, result, nodes  # type: ignore[return-value]


# -- tables of angles -----------------------------------------------------------------------------


class Tables:
    """Tables of cosines and sines that hold every angle twice, and what holds them once."""

    def __init__(self, at: View) -> None:
        self.at = at

    def once(self, value: int, pairs: bool, depth: int = DEPTH) -> Callable[[], Tensor] | None:
        """Return what builds a table with every angle once, or None if that cannot be seen."""
        at, tensor = self.at, self.at.tensor(value)
        if tensor.index or not tensor.rank or not depth:
            return None
        if isinstance(tensor.op, Constant):
            return self._stored(tensor, pairs)
        op, ins = tensor.op, at.step(tensor.node).ins
        if isinstance(op, Concat):
            found = joined(at, tensor.node)
            same = found is not None and found[0] == found[1] and found[2] == pairs and not pairs
            return (lambda: at.tensor(found[0])) if same and found is not None else None
        if isinstance(op, Reshape) and pairs and (twice := self._repeated(tensor)) is not None:
            return lambda: at.tensor(twice)
        if not ins or ins[0] is None:
            return None
        again = self._again(op, tensor, [at.spec(i).shape if i is not None else () for i in ins])
        if again is None:
            return None
        made_op, place = again
        inner = self.once(ins[place] or 0, pairs, depth - 1)
        if inner is None:
            return None

        def build() -> Tensor:
            inputs = [at.tensor(i) for i in ins if i is not None]
            inputs[place] = inner()
            return at.once(made_op, inputs, tensor)

        return build

    def _stored(self, tensor: Tensor, pairs: bool) -> Callable[[], Tensor] | None:
        array = tensor.graph.values.array(tensor.name)
        n = array.shape[-1] // 2
        a, b = (array[..., 0::2], array[..., 1::2]) if pairs else (array[..., :n], array[..., n:])
        if array.shape[-1] % 2 or array.shape[-1] < 2 or not np.array_equal(a, b):
            return None
        return lambda: self.at.stored(np.ascontiguousarray(a), tensor)

    def _repeated(self, tensor: Tensor) -> int | None:
        """Return what a reshape holds twice side by side: [..., n] as [..., n, 2], flattened."""
        at, (source, *_) = self.at, self.at.step(tensor.node).ins
        made = at.producer(source)
        if made is None or made.op.name not in ("broadcast_to", "tile", "concat"):
            return None
        inner = {i for i in made.ins if i is not None}
        outer = at.producer(inner.pop(), "expand_dims") if len(inner) == 1 else None
        if outer is None or outer.ins[0] is None:
            return None
        shape = at.spec(outer.ins[0]).shape
        wide, flat = (*shape, 2), (*shape[:-1], shape[-1] * 2)
        fits = at.spec(outer.outs[0]).shape == (*shape, 1) and at.spec(source).shape == wide
        return outer.ins[0] if fits and tensor.shape == flat else None

    def _again(self, op: Op, tensor: Tensor, shapes: list[Shape]) -> tuple[Op, int] | None:
        """Return an op that does with a table of half the width what one does with it all."""
        n, last = tensor.shape[-1], tensor.rank - 1
        half = n // 2 if isinstance(n, int) else None
        if half is None:
            return None
        width, inner = shapes[0][-1:] == (n,), len(shapes[0]) - 1
        match op:
            case _ if op.name in ("cos", "sin", "cast", "neg"):
                return op, 0
            case _ if op.name in ("mul", "div") and len(shapes) == 2:
                narrow = [not s or s[-1] == 1 for s in shapes]
                return (op, narrow.index(False)) if narrow.count(False) == 1 else None
            case ExpandDims() if width:
                axes = op.axis if isinstance(op.axis, tuple) else (op.axis,)
                return (op, 0) if all(a % tensor.rank != last for a in axes) else None
            case Squeeze() if width and n != 1:
                return op, 0
            case Transpose() if op.order(tensor.rank)[-1] == last:
                return op, 0
            case Reshape() | BroadcastTo() if width:
                return op.replace(shape=(*tensor.shape[:-1], half)), 0
            case StridedSlice() if width:
                cut = sum(item is not None for item in op.index) > inner
                return (op, 0) if not cut or op.index[-1] == ALL else None
            case Gather() if width and inner and op.axis % (inner + 1) != inner:
                return op, 0
        return None


# -- the patterns ---------------------------------------------------------------------------------


@finds("rope", "concat", "x·cos + turned(x)·sin → rotate_pairs(x, cos, sin)")
def whole(at: View, node: Node) -> Iterator[Found]:
    """Find x·cos + (−x₂, x₁)·sin, where both tables hold every angle twice."""
    found = joined(at, node)
    if found is None:
        return
    a, b, pairs, turned, taken = found
    minus = at.producer(a, "neg")
    second, first = part(at, minus.ins[0] if minus else None), part(at, b)
    if minus is None or second is None or first is None or second[0] != first[0]:
        return
    if (first[1], second[1], first[2], second[2]) != (0, 1, pairs, pairs):
        return
    x = first[0]
    taken = [*taken, minus.node, *first[3], *second[3]]
    for product in at.readers(turned):
        for total in at.readers(product.outputs[0]) if product and product.op.name == "mul" else ():
            if product is None or total is None or total.op.name != "add":
                continue
            sines = [i for i in at.step(product).ins if i != at.value(turned)]
            parts = [at.producer(i, "mul") for i in at.step(total).ins]
            other = next((s for s in parts if s and s.node is not product), None)
            if other is None or x not in other.ins or len(sines) != 1 or sines[0] is None:
                continue
            cosines = other.ins[1] if other.ins[0] == x else other.ins[0]
            all_taken = [*taken, product, other.node, total]
            yield _found(at, x, cosines or 0, sines[0], pairs, total, all_taken)


def _found(
    at: View, x: int, cosines: int, sines: int, pairs: bool, total: Node, taken: list[Node]
) -> Found:
    tables = [Tables(at).once(value, pairs) for value in (cosines, sines)]
    cos, sin = tables
    wrong = "" if cos and sin else "the tables cannot be seen to hold every angle twice"

    def make() -> Tensor:
        assert cos
        assert sin
        return at.build(RotatePairs(interleaved=pairs), at.tensor(x), cos(), sin())

    return Found(total.outputs[0], list(dict.fromkeys(taken)), make, wrong)


@finds("rope", "concat", "(x₁·cos − x₂·sin, x₂·cos + x₁·sin) → rotate_pairs(x, cos, sin)")
def in_parts(at: View, node: Node) -> Iterator[Found]:
    """Find both parts turned by themselves, by tables that hold every angle once."""
    found = joined(at, node)
    if found is None:
        return
    a, b, pairs, result, taken = found
    minus, plus = at.producer(a, "sub"), at.producer(b, "add")
    products = [_product(at, i) for s in (minus, plus) if s for i in s.ins]
    if minus is None or plus is None or len(products) != 4 or None in products:
        return
    (x1, cos, s0), (x2, sin, s1), *rest = [p for p in products if p is not None]
    other = {(p[0], p[1]) for p in rest if p is not None}
    first, second = part(at, x1), part(at, x2)
    if first is None or second is None or first[0] != second[0]:
        return
    if (first[1], second[1], first[2], second[2]) != (0, 1, pairs, pairs):
        return
    wrong = "" if other == {(x2, cos), (x1, sin)} else "the second part is turned by other angles"
    nodes = [s.node for s in (minus, plus, s0, s1, *(p[2] for p in rest if p is not None))]

    def make() -> Tensor:
        op = RotatePairs(interleaved=pairs)
        return at.build(op, *(at.tensor(i) for i in (first[0], cos, sin)))

    all_taken = [*taken, *nodes, *first[3], *second[3]]
    yield Found(result, list(dict.fromkeys(all_taken)), make, wrong)


def _product(at: View, value: int | None) -> tuple[int, int, Step] | None:
    """Return a product as a part of features, an angle's cosine or sine, and its node."""
    step = at.producer(value, "mul")
    if step is None:
        return None
    a, b = step.ins
    assert a is not None
    assert b is not None
    return (a, b, step) if part(at, a) else (b, a, step) if part(at, b) else None
