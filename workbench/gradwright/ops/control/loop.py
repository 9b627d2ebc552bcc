"""while_loop: steps until a condition fails, with carries, and results as ONNX's Loop has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError
from ...graph import Graph, SubGraph, Tensor
from ...op import ZERO, Cotangent, ErrorSample, OnnxRule, Sample, attr, infer_specs
from ...spec import Dim, TensorSpec, kind, known_spec
from .body import Body
from .loop_op import LoopOp, Turns
from .scan_op import pull_steps
from .steps import Listing, Stack, check_carry
from .traced import Traced


class While(LoopOp):
    """Steps as long as the condition holds, and no more than there may be.

    while go and t < trip:  go, c, yₜ = body(t, c, captured)

    Inputs are the first condition (bool[]), the largest number of steps (i64[], may be left out),
    the carries and what the body captures; outputs the last carries and the stacked results.
    """

    returns = ("*results",)
    first_carry = 2
    lead = 1
    onnx = OnnxRule("Loop", since=13)
    max_steps: int | None = attr(None, doc="Largest number of steps; None for no limit.")

    def infer(
        self, go: TensorSpec, trip: TensorSpec | None = None, *xs: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        if go.rank or go.dtype != np.dtype(bool):
            raise DTypeError(
                f"the condition of a loop is {go}", need="bool[]", hint="(x > 0).any()"
            )
        if trip is not None and (trip.rank or kind(trip.dtype) not in "iu"):
            raise DTypeError(f"the number of steps is {trip}", need="i64[]")
        carries, _, captured = self.split((go, trip, *xs))
        now, found = self.step_specs(carries, (), captured)
        after = found[0]
        if after.rank or after.dtype != np.dtype(bool):
            raise DTypeError(f"the condition of a loop is {after} after a step", need="bool[]")
        return self.outputs(now, found[1 + self.n_carry :], Dim.fresh("steps"), listed_tape=True)

    def turns(self, xs: Sequence[Any], into: Sequence[Any] | None = None) -> Turns:
        n = self.n_carry
        given, _, captured = self.split(xs)
        start = now = list(given)
        names = self.carry_names
        limits = [
            k for k in (self.max_steps, xs[1] if xs[1] is None else int(xs[1])) if k is not None
        ]
        limit = min(limits) if limits else None
        results = [
            Listing(False) if self.is_listed(i) else Stack(None, f"result {i} of the loop")
            for i in range(self.n_results)
        ]
        taped = [j for j in range(n) if self.record and start[j].dtype.kind != "O"]
        tape = [Listing(False) for _ in taped]
        go, at = bool(xs[0]), 0
        while go and (limit is None or at < limit):
            for log, j in zip(tape, taped, strict=True):
                log.put(at, now[j])
            found = yield [np.array(at), *now, *captured]
            assert found is not None
            go, now = bool(found[0]), list(found[1 : 1 + n])
            check_carry(names, start, now, at, self.changing)
            for result, y in zip(results, found[1 + n :], strict=True):
                result.put(at, y)
            at += 1
        specs: Sequence[Any] = (None,) * (n + len(results) + len(tape))
        if not at and len(specs) > n:  # nothing says what the results would have been
            specs = infer_specs(self, [None if x is None else known_spec(x) for x in xs])
        logs = [*results, *tape]
        return (*now, *(log.done(s) for log, s in zip(logs, specs[n:], strict=True)))

    def has_turns(self, xs: Sequence[Tensor]) -> Tensor | bool | None:
        go, trip = xs[:2]
        if self.max_steps == 0:
            return None
        return go if trip is None else go & (trip > 0)

    def pull_turns(
        self, gs: Sequence[Any], ys: Sequence[Tensor], xs: Sequence[Tensor], wanted: Sequence[bool]
    ) -> Sequence[Cotangent]:
        return [ZERO, ZERO, *pull_steps(self, gs, ys, xs[2:], wanted[2:], reverse=True)]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        graph = Graph("sample", scratch=True)
        step = graph.placeholder("step", (), "int64")
        c, w = (graph.placeholder(name, (2,), "float64") for name in ("carry", "w"))
        new = c * w
        body = SubGraph([step, c, w], [step < 2, new, new.sum()])
        for go, trip in ((True, None), (True, np.array(1)), (False, None)):
            xs = np.array(go), trip, rng.standard_normal(2), rng.standard_normal(2)
            yield Sample(xs, {"body": body, "n_carry": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        graph = Graph("sample", scratch=True)
        step, c = graph.placeholder("step", (), "int64"), graph.placeholder("carry", (2,))
        vector, flag = TensorSpec((2,)), TensorSpec((), "bool")
        good = {"body": SubGraph([step, c], [step < 3, c]), "n_carry": 1}
        grows = {"body": SubGraph([step, c], [step < 3, c.reshape(2, 1)]), "n_carry": 1}
        yield ErrorSample((vector, None, vector), good, "condition of a loop is")
        yield ErrorSample((flag, vector, vector), good, "number of steps is")
        yield ErrorSample((flag, None, vector), grows, "the carry 'carry' starts as")
        always = {"body": SubGraph([step, c], [c, c]), "n_carry": 1}
        yield ErrorSample((flag, None, vector), always, "after a step")


def while_loop(
    cond_fn: Callable[[Any], Tensor],
    body_fn: Callable[[Any], Any],
    init: Any,
    *,
    max_steps: int | None = None,
    free_shapes: bool = False,
    name: str | None = None,
) -> Any:
    """Apply ``body_fn`` as long as ``cond_fn`` holds; returns what ``init`` has become.

    c₀ = init,  cₜ₊₁ = body_fn(cₜ) while cond_fn(cₜ)

    ``init`` is a tensor, or nested lists, tuples and dicts of tensors; ``cond_fn`` returns bool[].
    There are at most ``max_steps`` steps where that is given. The number of steps may differ from
    run to run without compiling anything anew, and gradients of every order flow through: the
    carries of all steps are kept for them, if any is asked for.

    Raises DTypeError where a step changes the dtype of a carry, ShapeError where it changes its
    shape; with ``free_shapes`` it may, and even its rank, through which no gradient flows.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ())
    >>> y = gw.while_loop(lambda c: c < 100.0, lambda c: c * x, x)
    >>> dx, = gw.gradients(y, [x])
    >>> [float(v) for v in g.output({"x": 3.0}, y, dx).values()]
    [243.0, 405.0]
    """
    _check_limit(max_steps)
    traced = Traced("while_loop", init, (), free_shapes)

    def step(body: Body, carry: Any, items: Sequence[Tensor]) -> Any:
        new = body_fn(carry)
        return [cond_fn(new)], new, ()

    body, _ = traced.trace((), step)
    with traced.owner:
        go = cond_fn(traced.rebuild(iter(traced.carries)))
    outs = _add(traced, body, go, None, max_steps, name)
    return traced.rebuild(iter(outs))


def loop(
    body_fn: Callable[..., tuple[Any, Any, Any]],
    init: Any = (),
    *,
    trip: Any = None,
    go: Any = True,
    free_shapes: bool = False,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Apply ``body_fn(step, carry) -> (go, carry, ys)`` as ONNX's Loop does.

    Stops when ``go`` is false or after ``trip`` steps, whichever comes first; both may be tensors.
    Returns the last carry and the results of all steps stacked, ``f32[steps, ...]``, a size that is
    known only when it has run. With ``free_shapes`` a step may change shapes of carries, and ranks.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> n = g.placeholder("n", (), "int64")
    >>> last, powers = gw.loop(lambda i, c: (c < 50.0, 2.0 * c, c), g.constant(1.0), trip=n)
    >>> g.output({"n": 4}, powers)[powers.name].tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    traced = Traced("loop", init, [trip, go], free_shapes)

    def step(body: Body, carry: Any, items: Sequence[Tensor]) -> Any:
        made = body_fn(body.inputs[0], carry)
        if not (isinstance(made, tuple) and len(made) == 3):
            need = "(go, carry, ys): whether to go on, the carry, results"
            raise GraphError(f"the body of loop returns {type(made).__name__}", need=need)
        return [made[0]], made[1], made[2]

    body, rebuild_y = traced.trace((), step)
    outs = _add(traced, body, go, trip, None, name)
    n = len(traced.carries)
    return traced.rebuild(iter(outs[:n])), rebuild_y(iter(outs[n:]))


def _add(
    traced: Traced, body: Body, go: Any, trip: Any, max_steps: int | None, name: str | None
) -> list[Tensor]:
    op = While(
        body=body.closed(list(body.graph.captures)),
        n_carry=len(traced.carries),
        changing=traced.changing,
        max_steps=max_steps,
    )
    limit = None if trip is None else traced.tensor(trip)
    outs = traced.add(op, [traced.tensor(go), limit, *traced.carries], body, name)
    return outs[: op.n_public]


def _check_limit(max_steps: int | None) -> None:
    if max_steps is not None and (not isinstance(max_steps, int) or max_steps < 0):
        raise GraphError(f"max_steps={max_steps!r}", need="a whole number, or None for no limit")
