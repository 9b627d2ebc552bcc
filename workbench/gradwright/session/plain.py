"""The plain run, node by node: what listeners see, and what replay compares plans with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import FeedError, LoweringError, ShapeError
from ..graph import Tensor, Values, ordered
from ..graph.expand import bind_dims, run_node
from ..program.program import Program
from ..rewrite import stand_ins
from ..spec import BOXED
from ..spec.containers import contents
from .listeners import Listener, NodeEvent

Array = np.ndarray[Any, Any]
TRIALS, ROUNDINGS = 4, 20
"""How often inputs are moved by a last bit, and how many times the effect a plan may be off."""


def run_plainly(
    targets: Sequence[Tensor],
    env: dict[Tensor, Array],
    values: Values,
    listeners: Sequence[Listener] = (),
    *,
    training: bool,
    skip_rewrites: Collection[str] = (),
) -> None:
    """Compute ``targets`` into ``env`` with ``op.forward``, and show each node to listeners.

    Where a rewrite makes a value stable, so does a plain run: log(sigmoid(−800)) is −800 in both.
    """
    order, _ = ordered(targets, stop=env)
    stable = stand_ins.values(order, skip_rewrites)
    sizes = bind_dims({t: a.shape for t, a in env.items()})
    read_sources(order, env, values)
    for index, node in enumerate(order):
        if any(t not in env for t in node.outputs):
            if node.kind == "placeholder":
                spec = node.outputs[0].spec
                raise FeedError(f"placeholder {node.name!r} is not fed", need=str(spec)).of(node)
            op = node.op.for_mode(training).bind(sizes)
            xs = [None if x is None else env[x] for x in node.inputs]
            ys = run_node(node, op, xs, training=training)
            if (found := stable.get(node.outputs[0])) is not None:
                ys = (found.compute(env, training),)
            for t, y in zip(node.outputs, ys, strict=True):
                sizes.update(bind_dims({t: env.setdefault(t, y).shape}))
        if listeners:
            event = NodeEvent(
                node,
                [None if x is None else env[x] for x in node.inputs],
                [env[y] for y in node.outputs],
                index,
                len(order),
            )
            for listener in listeners:
                if listener.wants_nodes:
                    listener.node_ran(event)
    env.update({t: env[t].copy() for t in targets})  # nobody's feed, view or stored value


def read_sources(order: Sequence[Any], env: dict[Tensor, Array], values: Values) -> None:
    """Put the values of variables and constants that are not fed into ``env``, all of one time."""
    with values.lock:
        for node in order:
            if node.kind in ("variable", "constant"):
                env.setdefault(node.outputs[0], values.stored(node))


def commit_plainly(
    updates: Mapping[Tensor, Tensor], env: Mapping[Tensor, Array], values: Values
) -> None:
    """Commit the updates of a plain run; what is kept is nobody else's."""
    new: dict[str, Array] = {}
    for variable, value in updates.items():
        array = env[value].copy()
        if array.shape != variable.shape:
            raise ShapeError(
                f"the update of {variable.name!r} has shape {array.shape}", need=str(variable.spec)
            )
        array.flags.writeable = False
        new[variable.name] = array
    values.commit(new)


def replayed(
    targets: Sequence[Tensor],
    env: dict[Tensor, Array],
    values: Values,
    *,
    training: bool,
    skip_rewrites: Collection[str],
) -> Callable[[Program], Callable[[int, Array], None]]:
    """Return an observer that compares a plan with a plain run on the same values."""
    read_sources(ordered(targets, stop=env)[0], env, values)
    reference = dict(env)
    run_plainly(targets, reference, values, training=training, skip_rewrites=skip_rewrites)
    return comparison(reference, training=training)


def comparison(
    reference: Mapping[Tensor, Array], *, training: bool
) -> Callable[[Program], Callable[[int, Array], None]]:
    """Return an observer of plans that raises at the first value that differs from a plain run.

    A value that is close becomes the plain run's, so that no step blows up the rounding of those
    before it: Adam makes a whole step of a gradient that is all rounding.
    """

    def observer(program: Program) -> Callable[[int, Array], None]:
        named: dict[int, Tensor] = {}
        for t, number in program.numbers.items():
            named.setdefault(number, t)

        def observe(number: int, array: Array) -> None:
            t = named.get(number)
            if t is None or t not in reference:
                return
            expected = reference[t]
            if not _is_close(array, expected) and not _is_rounding(array, t, reference, training):
                raise LoweringError(
                    f"plan and plain run differ at {t.node.op.name} {t.name!r}",
                    facts=[f"made at {t.node.where or 'no line'}", _difference(array, expected)],
                    hint="the op's lowering, or a rewrite: Session(skip_rewrites=[...])",
                )
            if array.dtype.kind in "fcV" and not _is_same(array, expected):
                np.copyto(array, expected)  # never a feed or variable: views of these are the same

        return observe

    return observer


def _is_close(array: Array, expected: Array) -> bool:
    """Tell whether a plan's value is the reference's, up to the rounding of its dtype."""
    if array.shape != expected.shape or array.dtype != expected.dtype:
        return False
    if array.dtype == BOXED:
        mine, theirs = contents(array).items, contents(expected).items
        return len(mine) == len(theirs) and all(map(_is_close, mine, theirs))
    if array.dtype.kind not in "fcV":
        return bool(np.array_equal(array, expected))
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    a, b = array.astype(wide), expected.astype(wide)
    own = array.dtype.isbuiltin == 1  # bfloat16 and narrower are of ml_dtypes
    tolerance = 200 * float(np.finfo(array.dtype).eps) if own else 0.05
    scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True))


def _is_rounding(
    array: Array, t: Tensor, reference: Mapping[Tensor, Array], training: bool
) -> bool:
    """Tell whether inputs that differ in their last bit explain a difference: sums may cancel."""
    expected, node = reference[t], t.node
    if array.shape != expected.shape or array.dtype != expected.dtype:
        return False
    if array.dtype.kind not in "fc" or any(
        x not in reference for x in node.inputs if x is not None
    ):
        return False
    xs = [None if x is None else reference[x] for x in node.inputs]
    op = node.op.for_mode(training).bind(bind_dims({t: a.shape for t, a in reference.items()}))
    rng, noise = np.random.default_rng(0), np.zeros(expected.shape)
    for _ in range(TRIALS):
        moved = [
            x * (1 + np.finfo(x.dtype).eps * rng.choice([-1, 1], x.shape)).astype(x.dtype)
            if x is not None and x.dtype.kind in "fc"
            else x
            for x in xs
        ]
        y = run_node(node, op, moved, training=training)[t.index]
        noise = np.maximum(noise, _distances(y, expected))
    lost = np.isinf(noise)  # a last bit decides whether it overflows
    most = ROUNDINGS * noise.max(initial=0.0, where=~lost)
    return bool(np.all(lost | (_distances(array, expected) <= most)))


def _distances(a: Array, b: Array) -> Array:
    """Return how far elements are apart: NaN is nowhere but at NaN, infinity at infinity."""
    with np.errstate(all="ignore"):
        apart = np.abs(a.astype(np.complex128) - b.astype(np.complex128))
    apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, apart)
    return np.where(np.isnan(apart), np.inf, apart)


def _is_same(array: Array, expected: Array) -> bool:
    """Tell whether two arrays of one shape and dtype are equal to the bit."""
    return array.tobytes() == expected.tobytes()


def _difference(a: Array, b: Array) -> str:
    if BOXED in (a.dtype, b.dtype):
        return f"{a} against {b}"
    if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind == "T":
        return f"{a.dtype}{list(a.shape)} against {b.dtype}{list(b.shape)}"
    apart = _distances(a, b)
    where = np.unravel_index(int(np.argmax(apart)) if apart.size else 0, apart.shape)
    index = [int(i) for i in where]
    return f"largest difference at {index}: {a[where]} against {b[where]}"
