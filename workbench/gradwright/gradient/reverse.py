"""Gradients as graph: reverse mode, any order, through every op that states or implies a vjp."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ..errors import GradientError, GradwrightError
from ..graph import Graph, Node, Source, Tensor, ancestors
from ..graph.collecting import without_collecting
from ..op import ZERO, redefinitions, seams
from ..ops.core.elementwise import Add
from ..ops.core.identity import AddN
from ..ops.core.like import OnesLike, ZerosLike
from ..ops.core.pullback import active_from
from ..ops.sequences.items import AddItems, FillItems
from ..spec import differ
from ..spec.containers import ContainerSpec
from .cotangents import fit, pull_back
from .enclosing import ancestors_across, check_reachable, innermost

STAND_INS: list[
    Callable[[Sequence[Node], Collection[Tensor]], Mapping[Tensor, Callable[[], Tensor]]]
] = []
"""What finds builders of tensors that are differentiated in place of others, without bypassing
some; ``rewrite.stand_ins`` does."""


@without_collecting()
def gradients(
    ys: Tensor | Sequence[Tensor],
    wrt: Sequence[Tensor],
    grad_outputs: Sequence[Any] | Any | None = None,
    *,
    stop: Tensor | Iterable[Tensor] = (),
    unreachable: str = "error",
) -> list[Tensor]:
    """Return ∂(Σ ys·grad_outputs)/∂w for each w in ``wrt``, as tensors of the derived layer.

    Without ``grad_outputs`` the sum of all elements of ``ys`` is differentiated. ``wrt`` may be
    variables, placeholders or activations. A tensor that ``ys`` do not depend on raises
    GradientError, or gets zeros with ``unreachable="zero"``.

    ``stop`` is a frontier: a gradient reaches these tensors and goes no further, so what lies
    behind them takes them as constant, and they may be in ``wrt`` themselves. It holds for this
    call alone: the gradient is built of nodes that read the stopped tensors, so differentiating it
    again goes on behind them, unless that call stops there, too (third example).

    Inside the function of a loop, a branch or a ``gw.function``, ``wrt`` may also be tensors from
    outside, as in an inner step of MAML (Finn et al. 2017). What the function is given - carries,
    items, arguments - is held there: differentiate with respect to the argument instead.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ())
    >>> dx, = gw.gradients(x * x * x, [x])
    >>> ddx, = gw.gradients(dx, [x])
    >>> [float(v) for v in g.output({"x": 2.0}, dx, ddx).values()]
    [12.0, 12.0]

    Of x²·x, where x² is held:

    >>> square = x * x
    >>> dx, = gw.gradients(square * x, [x], stop=[square])  # x²
    >>> on, = gw.gradients(dx, [x])  # 2x
    >>> held, = gw.gradients(dx, [x], stop=[square], unreachable="zero")
    >>> [float(v) for v in g.output({"x": 3.0}, dx, on, held).values()]
    [9.0, 6.0, 0.0]
    """
    outputs = [ys] if isinstance(ys, Tensor) else listed(ys, "ys")
    wrt = listed(wrt, "wrt")
    seeds = [grad_outputs] if not isinstance(grad_outputs, (list, tuple)) else list(grad_outputs)
    if grad_outputs is None:
        seeds = [None] * len(outputs)
    stops = frozenset([stop] if isinstance(stop, Tensor) else listed(stop, "stop"))
    graph = _check(outputs, wrt, seeds, stops, unreachable)
    if not wrt:
        return []
    key = (
        tuple(outputs), tuple(wrt), tuple(s if isinstance(s, Tensor) else id(s) for s in seeds),
        stops, unreachable, redefinitions(),
    )  # fmt: skip
    reusable = all(s is None or isinstance(s, Tensor) for s in seeds)
    if not reusable or key not in graph.gradients:
        found = _backpropagate(graph, outputs, list(wrt), seeds, stops, unreachable)
        if not reusable:
            return found
        graph.gradients[key] = found
    return list(graph.gradients[key])


def listed(given: Any, name: str) -> list[Tensor]:
    """Return several tensors as a list; raises GradientError for what is none."""
    if isinstance(given, Tensor | Graph | str | bytes) or not isinstance(given, Iterable):
        raise GradientError(
            f"{name}={repr(given)[:60]} is no list",
            need=f"a list of tensors as {name}",
            hint="one tensor stands in brackets" if isinstance(given, Tensor) else "",
        )
    if isinstance(given, Mapping):
        raise GradientError(
            f"{name} is a {type(given).__name__}",
            need=f"a list of tensors as {name}",
            hint=f"list({name}.values()), and dict(zip({name}, ...)) of what comes back",
        )
    found = list(given)
    for t in found:
        if not isinstance(t, Tensor):
            raise GradientError(f"{t!r} is no tensor", need="tensors", hint='g["name"]')
    return found


def check_unreachable(unreachable: object) -> None:
    """Raise GradientError for another word than ``"error"`` and ``"zero"``."""
    if not isinstance(unreachable, str) or unreachable not in ("error", "zero"):
        raise GradientError(f"unreachable={unreachable!r} is not known", need="'error' or 'zero'")


def _check(
    ys: Sequence[Tensor],
    wrt: Sequence[Tensor],
    seeds: Sequence[Any],
    stop: Collection[Tensor],
    unreachable: str,
) -> Graph:
    """Return the graph that the gradient is built in: the innermost of those that take part."""
    check_unreachable(unreachable)
    if not ys:
        raise GradientError("nothing to differentiate", need="gradients(y, [w, ...]) with lists")
    if len(seeds) != len(ys):
        raise GradientError(f"{len(ys)} outputs need {len(ys)} grad_outputs, got {len(seeds)}")
    graph = innermost([*ys, *(s for s in seeds if isinstance(s, Tensor))])
    for t in (*ys, *wrt):
        check_reachable(graph, t)
        if not t.spec.differentiable:
            raise GradientError(f"{t!r} is not floating, so it has no gradient")
    for t in stop:
        check_reachable(graph, t)
    return graph


def _backpropagate(
    graph: Graph,
    ys: Sequence[Tensor],
    wrt: Sequence[Tensor],
    seeds: Sequence[Any],
    stop: frozenset[Tensor],
    unreachable: str,
) -> list[Tensor]:
    order, captured = ancestors_across(ys, graph, stop)
    walls = stop.difference(wrt)  # nobody asks for what arrives there
    active = active_from(order, wrt, walls, captured)
    stand_ins: dict[Tensor, Callable[[], Tensor]] = {}
    for find in STAND_INS:
        own = [n for n in order if n.graph is graph and not active.isdisjoint(n.outputs)]
        stand_ins |= find(own, {*wrt, *stop})
    prefix = "grad/" + ys[0].name.replace(":", "_")
    cotangents: dict[Tensor, list[Tensor]] = {}
    total: dict[Tensor, Tensor] = {}
    with graph.deriving(prefix) as at:
        for y, seed in zip(ys, seeds, strict=True):
            if y in active:
                at(f"{prefix}/{y.node.name}", y.node)
                cotangents.setdefault(y, []).append(_seed(y, seed))
        for node in reversed(order):
            live = [t for t in node.outputs if t in cotangents and t not in stop]
            if not live:
                continue
            at(f"{prefix}/{node.name}", node)
            total.update((t, _total(cotangents.pop(t))) for t in live)
            if (outer := captured.get(node.outputs[0])) is not None and live[0] in active:
                cotangents.setdefault(outer, []).append(total[live[0]])
            wanted = [t is not None and t in active and t not in walls for t in node.inputs]
            if isinstance(node.op, Source) or not any(wanted):
                continue
            gs = [total.get(t, ZERO) for t in node.outputs]
            if node.outputs[0] in stand_ins:
                made = stand_ins[node.outputs[0]]()
                for t, part in _through(made, gs[0], active):
                    cotangents.setdefault(t, []).append(part)
                continue
            for x, g, want in zip(node.inputs, pull_back(node, gs, wanted), wanted, strict=True):
                if want and x is not None and g is not ZERO:
                    cotangents.setdefault(x, []).append(fit(node, x, g))
        out = []
        for t in wrt:
            at(f"{prefix}/{t.node.name}", t.node)
            if t in cotangents:  # at the frontier
                total[t] = _total(cotangents.pop(t))
            out.append(_result(t, total.get(t), graph, active, ys, stop, unreachable))
        return out


def _through(y: Tensor, g: Any, active: set[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Return the cotangents of active tensors that reach them through what was made of them."""
    out, cotangents = [], {y: [g]}
    for node in reversed(ancestors([y], stop=active)):
        found = {t: _total(cotangents.pop(t)) for t in node.outputs if t in cotangents}
        if isinstance(node.op, Source) or not found:
            continue
        wanted = [t is not None and t.kind != "constant" for t in node.inputs]
        gs = [found.get(t, ZERO) for t in node.outputs]
        for x, part, want in zip(node.inputs, pull_back(node, gs, wanted), wanted, strict=True):
            if want and x is not None and part is not ZERO:
                if x in active:
                    out.append((x, fit(node, x, part)))
                else:
                    cotangents.setdefault(x, []).append(fit(node, x, part))
    return out


def _seed(y: Tensor, seed: Any) -> Tensor:
    if seed is None and isinstance(y.spec, ContainerSpec):
        return FillItems(value=1.0)(y)  # type: ignore[no-any-return]
    if seed is None:
        return OnesLike()(y)  # type: ignore[no-any-return]
    try:
        g = seed if isinstance(seed, Tensor) else y.graph.constant(seed, dtype=y.dtype)
    except GradwrightError:
        raise
    except (TypeError, ValueError) as error:
        raise GradientError(
            f"grad_output of {y.name!r} is no array: {error}", need=str(y.spec)
        ) from None
    if g.rank != y.rank or g.dtype != y.dtype or any(map(differ, g.shape, y.shape)):
        raise GradientError(
            f"grad_output of {y.name!r} does not fit", need=str(y.spec), facts=[f"got {g.spec}"]
        )
    return g


def _total(parts: list[Tensor]) -> Tensor:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0].spec, ContainerSpec):
        return AddItems()(*parts)  # type: ignore[no-any-return]
    return Add()(*parts) if len(parts) == 2 else AddN()(*parts)  # type: ignore[no-any-return]


def _result(
    t: Tensor,
    g: Tensor | None,
    graph: Graph,
    active: set[Tensor],
    ys: Sequence[Tensor],
    stop: Collection[Tensor],
    unreachable: str,
) -> Tensor:
    if g is not None:
        return g
    behind = t.node in ancestors_across(ys, graph, ())[0]
    reached = behind and any(y in active for y in ys)
    if reached or unreachable == "zero":
        if isinstance(t.spec, ContainerSpec):
            return FillItems()(t)  # type: ignore[no-any-return]
        return ZerosLike()(t)  # type: ignore[no-any-return]
    if behind and stop:
        names = ", ".join(sorted(repr(s.name) for s in stop))
        raise GradientError(
            f"{ys[0].name!r} depends on {t.name!r} only behind what is stopped: {names}",
            need="a floating path that the frontier leaves open",
            hint="leave it out, or gw.gradients(..., unreachable='zero')",
        )
    outside = "the function's own argument where it is given this, "
    raise GradientError(
        f"{ys[0].name!r} does not depend on {t.name!r}",
        facts=[f"{t!r} made at {t.node.where or 'no line'}"],
        need="a floating path between them",
        hint=("" if t.graph is graph else outside)
        + f"g.freeze({t.name!r}), leave it out, or gw.gradients(..., unreachable='zero')",
    )


seams.gradients = gradients
