"""Rotary embeddings written out: features times cosines, and turned features times sines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...graph import Node, Tensor
from ...ops.attention.rotary import RotatePairs
from .angles import once
from .features import joined, part, parts
from .table import Found, finds
from .view import Step, View


@finds("rope", "concat", "x·cos + turned(x)·sin → rotate_pairs(x, cos, sin)")
def whole(at: View, node: Node) -> Iterator[Found]:
    """Find x·cos + (−x₂, x₁)·sin, where both tables hold every angle twice."""
    turned = joined(at, node)
    minus = at.producer(turned.first, "neg") if turned is not None else None
    if turned is None or minus is None:
        return
    held = parts(at, turned.second, minus.ins[0], turned.pairs)
    if held is None:
        return
    x = held[0].of
    inner = [*turned.nodes, minus.node, *held[0].nodes, *held[1].nodes]
    for product in at.readers(turned.result):
        sines = _beside(at, product, at.value(turned.result))
        for total in at.readers(product.outputs[0]) if product is not None and sines else ():
            if total is None or total.op.name != "add":
                continue
            terms = [at.producer(i, "mul") for i in at.step(total).ins]
            other = next((s for s in terms if s is not None and s.node is not product), None)
            cosines = _beside(at, None if other is None else other.node, x)
            if other is not None and product is not None and cosines and sines:
                taken = [*inner, product, other.node, total]
                yield _turn(at, x, (cosines[0], sines[0]), turned.pairs, total, taken)


def _beside(at: View, node: Node | None, value: int | None) -> list[int]:
    """Return what a product multiplies a value by; nothing, if it is no product with it."""
    if node is None or node.op.name != "mul":
        return []
    a, b = at.step(node).ins
    return [i for i in ((b,) if a == value else (a,) if b == value else ()) if i is not None]


def _turn(
    at: View, x: int, tables: tuple[int, int], pairs: bool, total: Node, taken: list[Node]
) -> Found:
    cos, sin = (once(at, value, pairs) for value in tables)
    wrong = "" if cos and sin else "the tables cannot be seen to hold every angle twice"

    def make() -> Tensor:
        assert cos
        assert sin
        return at.build(RotatePairs(interleaved=pairs), at.tensor(x), cos(), sin())

    return Found(total.outputs[0], list(dict.fromkeys(taken)), make, wrong)


class _Term(NamedTuple):
    """A part of features times a cosine or sine."""

    part: int
    angle: int
    step: Step


@finds("rope", "concat", "(x₁·cos − x₂·sin, x₂·cos + x₁·sin) → rotate_pairs(x, cos, sin)")
def in_parts(at: View, node: Node) -> Iterator[Found]:
    """Find both parts turned by themselves, by tables that hold every angle once."""
    turned = joined(at, node)
    if turned is None:
        return
    minus, plus = at.producer(turned.first, "sub"), at.producer(turned.second, "add")
    terms = [t for s in (minus, plus) if s is not None for i in s.ins if (t := _term(at, i))]
    if minus is None or plus is None or len(terms) != 4:
        return
    near, far, *second = terms
    held = parts(at, near.part, far.part, turned.pairs)
    if held is None:
        return
    wanted = {(far.part, near.angle), (near.part, far.angle)}
    is_same = {(t.part, t.angle) for t in second} == wanted
    wrong = "" if is_same else "the second part is turned by other angles"
    taken = [*turned.nodes, minus.node, plus.node, *(t.step.node for t in terms)]
    taken += [*held[0].nodes, *held[1].nodes]

    def make() -> Tensor:
        tensors = (at.tensor(i) for i in (held[0].of, near.angle, far.angle))
        return at.build(RotatePairs(interleaved=turned.pairs), *tensors)

    yield Found(turned.result, list(dict.fromkeys(taken)), make, wrong)


def _term(at: View, value: int | None) -> _Term | None:
    step = at.producer(value, "mul")
    if step is None:
        return None
    a, b = step.ins
    if a is None or b is None:
        return None
    return _Term(a, b, step) if part(at, a) else _Term(b, a, step) if part(at, b) else None
