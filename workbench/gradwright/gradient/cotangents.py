"""What a vjp returns: asked for, refused where it is no cotangent, and brought into shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import GradientError, GradwrightError, ShapeError, raised_at
from ..graph import Node, Tensor
from ..op import ZERO, NotDifferentiable
from ..ops.core.elementwise import Real
from ..ops.core.like import SumLike
from ..ops.core.movement import Cast
from ..ops.core.pullback import Pullback
from ..spec import is_floating, kind
from ..spec.containers import ContainerSpec
from ..spec.one_of import OneOf

_LISTS = "an op class has vjp(self, gs, ys, xs), with one entry per output or input: (g,) = gs"


def pull_back(node: Node, gs: Sequence[Any], wanted: Sequence[bool]) -> Sequence[Any]:
    """Return the cotangents of a node's inputs, from its own vjp or from its expansion.

    What only a run tells the rank of is pulled back by an op that waits for it as well.
    Raises GradientError, naming node and line, for a vjp that fails or returns something else.
    """
    op = node.op.current()
    tensors = (*node.outputs, *(t for t in node.inputs if t is not None))
    waits = not op.takes_ranks and any(isinstance(t.spec, OneOf) for t in tensors)
    if op.has_vjp() and not waits:
        return _from_vjp(node, gs, wanted)
    if not op.is_composite() and not op.has_vjp():
        return [NotDifferentiable(f"{op.name} states no vjp")] * len(node.inputs)
    out_list: list[Any] = [ZERO] * len(node.inputs)
    wrt = tuple(i for i, w in enumerate(wanted) if w)
    present = tuple(g is not ZERO for g in gs)
    inputs = [*node.inputs, *(g for g in gs if g is not ZERO)]
    made = Pullback(op=op, n_inputs=len(node.inputs), wrt=wrt, present=present)(*inputs)
    for i, g in zip(wrt, made if isinstance(made, tuple) else (made,), strict=True):
        out_list[i] = g
    return out_list


def _from_vjp(node: Node, gs: Sequence[Any], wanted: Sequence[bool]) -> Sequence[Any]:
    op, n = node.op.current(), len(node.inputs)
    try:
        out = op.pull(gs, node.outputs, node.inputs, wanted)
        if isinstance(out, Sequence) and not isinstance(out, str) and len(out) == n:
            return [
                g if not callable(g) else g() if want else ZERO
                for g, want in zip(out, wanted, strict=True)
            ]
    except GradwrightError as error:
        if "/" in op.name:  # an op of the user, whose vjp builds what does not fit
            error.facts += [f"in the vjp of {op.name} {node.name!r}", *_places(node, error)]
        raise
    except Exception as error:
        raise GradientError(
            f"vjp of {op.name} {node.name!r} failed: {type(error).__name__}: {error}",
            facts=_places(node, error),
            need="cotangents that are built of tensors, whose values are not known yet",
            hint=_LISTS if "'tuple'" in str(error) or "'list'" in str(error) else "",
        ) from error
    got = f"{len(out)} cotangents" if isinstance(out, (list, tuple)) else repr(out)
    raise GradientError(
        f"vjp of {op.name} {node.name!r} returned {got} for {n} input{'s' * (n != 1)}",
        facts=_places(node),
        need="a tuple, one entry per input: a tensor, or ZERO where nothing flows",
    )


def fit(node: Node, x: Tensor, g: Any) -> Tensor:
    """Bring a cotangent to its primal's shape and dtype; the only place that unbroadcasts."""
    if isinstance(g, NotDifferentiable):
        raise GradientError(
            f"no gradient flows through {node.op.name} {node.name!r} to {x.name!r}: {g.reason}",
            facts=_places(node),
            hint="gw.stop_gradient(...) where the path should end",
        )
    if not isinstance(g, Tensor):
        raise _misfit(node, x, type(g).__name__, "a tensor, or ZERO where nothing flows")
    out = g
    if isinstance(x.spec, ContainerSpec):
        return out
    if not is_floating(out.dtype):
        raise _misfit(node, x, str(g.spec), f"floats: a cast to {out.dtype} loses the gradient")
    if isinstance(out.spec, OneOf) or isinstance(x.spec, OneOf) or out.shape != x.shape:
        try:
            out = SumLike()(out, x)
        except ShapeError:
            raise _misfit(node, x, str(g.spec), "its shape, or one broadcast from it") from None
    if out.dtype != x.dtype:
        if kind(out.dtype) == "c" and kind(x.dtype) != "c":
            out = Real()(out)
        if out.dtype != x.dtype:
            out = Cast(dtype=x.dtype)(out)
    return out


def _misfit(node: Node, x: Tensor, got: str, need: str) -> GradientError:
    return GradientError(
        f"vjp of {node.op.name} {node.name!r} returned {got} for {x.name!r} : {x.spec}",
        facts=_places(node),
        need=need,
        hint=_LISTS if got in ("list", "tuple") else "",
    )


def _places(node: Node, error: Exception | None = None) -> list[str]:
    """Say where the user made a node, and where in the user's own code an error came up."""
    line = "" if error is None else raised_at(error)
    made = [f"made at {node.where}"] if node.where else []
    return [*made, f"raised at {line}"] if line else made
