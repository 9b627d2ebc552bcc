"""scan: a function applied item by item, with carries from step to step and results stacked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import GraphError
from ...graph import Tensor
from ...op import maker
from ...spec import AnyDim, normalize_axis
from ...spec.containers import ContainerSpec, SequenceSpec
from ...words.advised import advised
from ..core.movement import Transpose
from .body import Body, flatten
from .loop_op import item_of
from .scan_op import Scan
from .traced import Traced


def scan(
    fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    *,
    length: AnyDim | None = None,
    reverse: bool = False,
    axis: int = 0,
    free_shapes: bool = False,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Apply ``fn(carry, x) -> (carry, y)`` along an axis; returns the last carry and all y stacked.

    cₜ₊₁, yₜ = fn(cₜ, xₜ)

    ``init``, ``xs`` and what ``fn`` returns are tensors or nested lists, tuples and dicts of them;
    ``xs`` may be None with ``length`` given, and sequences are taken item by item. ``axis`` is the
    axis that ``xs`` are taken along and results are stacked on. ``fn`` is traced once and runs as
    one compiled plan per step; it may use tensors from outside, and random ops draw anew in each
    step. The gradient is a scan the other way: it keeps the carries and results of all steps, and
    computes again what else it needs of a step. So what is dear to compute belongs into y.

    Raises DTypeError where a step changes the dtype of a carry, ShapeError where it changes its
    shape; with ``free_shapes`` it may, and even its rank, through which no gradient flows.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (4,))
    >>> total, sums = gw.scan(lambda c, x: (c + x, c + x), 0.0, x)
    >>> g.output({"x": [1.0, 2.0, 3.0, 4.0]}, sums)[sums.name].tolist()
    [1.0, 3.0, 6.0, 10.0]
    """
    return _scan(fn, init, xs, length, reverse, axis, False, free_shapes, name)


@advised
def map_fn(fn: Callable[[Any], Any], xs: Any, *, axis: int = 0, name: str | None = None) -> Any:
    """Return ``fn`` of every item of ``xs`` along an axis, stacked.

    yₜ = fn(xₜ); a scan without carries. An op that broadcasts does the same at once, and faster.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (2, 3))
    >>> y = gw.map_fn(lambda row: row / row.sum(), x)
    >>> g.output({"x": [[1.0, 1.0, 2.0], [2.0, 2.0, 4.0]]}, y)[y.name].tolist()
    [[0.25, 0.25, 0.5], [0.25, 0.25, 0.5]]
    """
    _, ys = scan(lambda carry, x: (None, fn(x)), None, xs, axis=axis, name=name)
    return ys


@maker("sequence", "map")
def map_items(fn: Callable[..., Any], *items: Any, name: str | None = None) -> Any:
    """Return the sequence of ``fn(x, ...)`` for the items of sequences, which may differ in size.

    yᵢ = fn(xᵢ, ...)

    Sequences are taken item by item together; tensors ``fn`` gets whole. Raises ShapeError, when
    run, where sequences have different numbers of items. ONNX SequenceMap.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> items = gw.sequence.construct(g.constant([1.0, 2.0]), g.constant([3.0]))
    >>> y = gw.sequence.map(lambda x: x * x, items)
    >>> [item.tolist() for item in g.output({}, y)[y.name]]
    [[1.0, 4.0], [9.0]]
    """
    scanned = [x for x in items if isinstance(x, Tensor) and isinstance(x.spec, SequenceSpec)]
    if not scanned:
        raise GraphError("map takes at least one sequence", hint="gw.map_fn goes along an axis")

    chosen = set(scanned)

    def step(carry: Any, xs: list[Tensor]) -> Any:
        own = iter(xs)
        return None, fn(*(next(own) if isinstance(x, Tensor) and x in chosen else x for x in items))

    return _scan(step, None, scanned, None, False, 0, True, False, name)[1]


def _scan(
    fn: Callable[[Any, Any], Any],
    init: Any,
    xs: Any,
    length: AnyDim | None,
    reverse: bool,
    axis: int,
    listed: bool,
    free_shapes: bool,
    name: str | None,
) -> tuple[Any, Any]:
    given: list[Any] = []
    rebuild_x = flatten(xs, given)
    traced = Traced("scan", init, given, free_shapes)
    with traced.owner:
        scanned = [_to_front(traced.tensor(x), axis) for x in given]
    if length is None and not scanned:
        raise GraphError("the number of steps is open", need="xs, or length=")

    def step(body: Body, carry: Any, items: list[Tensor]) -> Any:
        made = fn(carry, rebuild_x(iter(items)))
        if not (isinstance(made, tuple) and len(made) == 2):
            raise GraphError(
                f"the body of scan returns {type(made).__name__}", need="a pair (carry, y)"
            )
        return (), *made

    body, rebuild_y = traced.trace([item_of(t.spec) for t in scanned], step)
    n = len(traced.carries)
    op = Scan(
        body=body.closed(list(body.graph.captures)),
        n_carry=n,
        changing=traced.changing,
        n_xs=len(scanned),
        reverse=reverse,
        length=length,
        listed=(True,) * (len(body.outputs) - n) if listed else (),
    )
    outs = traced.add(op, [*traced.carries, *scanned], body, name)
    ys = outs[n : op.n_public]
    ys = ys if listed else [_from_front(y, axis) for y in ys]
    return traced.rebuild(iter(outs[:n])), rebuild_y(iter(ys))


def _to_front(t: Tensor, axis: int) -> Tensor:
    if isinstance(t.spec, ContainerSpec) or not t.rank:
        return t
    at = normalize_axis(axis, t.rank)
    order = (at, *(i for i in range(t.rank) if i != at))
    return Transpose(axes=order)(t) if at else t


def _from_front(t: Tensor, axis: int) -> Tensor:
    if not axis:
        return t
    at = normalize_axis(axis, t.rank)
    order = [*range(1, t.rank)]
    order.insert(at, 0)
    return Transpose(axes=tuple(order))(t) if at else t
