"""cond: one of two sub-graphs runs, and gradients flow through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import (
    DTypeError,
    GradientError,
    GradwrightError,
    GraphError,
    ShapeError,
)
from ...graph import Graph, SubGraph, Tensor
from ...graph.build import owner_of
from ...graph.expand import infer_nodes, refit, stand_in
from ...op import ZERO, Cotangent, ErrorSample, NotDifferentiable, OnnxRule, Op, Sample, attr, seams
from ...spec import Dim, TensorSpec
from ...spec.one_of import may_be, narrowed, one_of
from .body import Body, flatten, same_structure, scratch
from .steps import apart


class Cond(Op):
    """Results of one of two sub-graphs; only the chosen one runs.

    ys = then_branch(xs) if pred else else_branch(xs)
    """

    namespace = "control"
    returns = ("*results",)
    follows_mode = True
    by_reference = "so"
    takes_ranks = True
    onnx = OnnxRule("If", since=13)
    then_branch: SubGraph = attr(doc="What runs when pred is true.")
    else_branch: SubGraph = attr(doc="What runs when pred is false.")
    training: bool | None = attr(None, doc="Mode of random ops inside; None follows the run.")

    def infer(self, pred: TensorSpec, *xs: TensorSpec) -> tuple[TensorSpec, ...]:
        if pred.rank != 0 or pred.dtype != np.dtype(bool):
            raise DTypeError(
                "pred decides between two branches", need="bool[]", hint="(x > 0).any()"
            )
        branches = self.then_branch, self.else_branch
        refused = [_refused(branch, xs) for branch in branches]
        if all(refused):
            raise next(filter(None, refused))
        found: list[list[TensorSpec] | GradwrightError] = []
        if pred.value is not None and not isinstance(pred.value.item(), Dim):
            branches = (self.chosen(pred.value),) * 2
        for branch in branches:
            try:
                if error := _refused(branch, xs):
                    raise error
                found.append(infer_nodes(branch, xs))
            except GradwrightError as error:
                found.append(error)
        # A branch that cannot take these sizes is an error only when it is chosen: the gradient of
        # a cond whose results differ in size sees the size of the branch that ran.
        then, other = found
        if isinstance(then, GradwrightError):
            then = other
        if isinstance(then, GradwrightError):
            raise then
        if isinstance(other, GradwrightError):
            other = then
        if len(then) != len(other):
            raise ShapeError(
                f"branches return {len(then)} and {len(other)} tensors", need="equally many"
            )
        return tuple(map(_join, then, other))

    def fitted(self, specs: Sequence[TensorSpec]) -> Op:
        then, other = (refit(b, specs[1:]) for b in (self.then_branch, self.else_branch))
        if then is self.then_branch and other is self.else_branch:
            return self
        return self.replace(then_branch=then, else_branch=other)

    def chosen(self, pred: Any) -> SubGraph:
        """Return the branch that runs."""
        return self.then_branch if bool(pred) else self.else_branch

    def forward(self, pred: Any, *xs: Any) -> Any:
        try:
            return apart(self.chosen(pred).run(xs, training=bool(self.training)), xs)
        except GradwrightError as error:
            error.part = taken(pred)
            raise

    def vjp(
        self, gs: Sequence[Any], ys: Sequence[Tensor], xs: Sequence[Tensor]
    ) -> Sequence[Cotangent]:
        return self.pull(gs, ys, xs, [x.spec.differentiable for x in xs])

    def pull(
        self, gs: Sequence[Any], ys: Sequence[Tensor], xs: Sequence[Tensor], wanted: Sequence[bool]
    ) -> Sequence[Cotangent]:
        pred, captured = xs[0], xs[1:]
        wrt = [i for i, want in enumerate(wanted[1:]) if want]
        present = [i for i, g in enumerate(gs) if g is not ZERO]
        cotangents = [gs[i] for i in present]
        out: list[Cotangent] = [ZERO] * len(xs)

        def derive(wrt: Sequence[int]) -> list[SubGraph]:
            found = []
            for branch in (self.then_branch, self.else_branch):
                own = [branch.outputs[i].spec for i in present]
                pairs = [(narrowed(g.spec, y), y) for g, y in zip(cotangents, own, strict=True)]
                specs = [g if may_be(g, y) else y.bare() for g, y in pairs]
                found.append(_differentiate(branch, wrt, present, specs))
            return found

        try:
            then, other = derive(wrt)
        except GradientError:  # only those may fail that somebody asks for
            for i in wrt:
                try:
                    derive([i])
                except GradientError as error:
                    out[i + 1] = NotDifferentiable(f"in a branch, {error.problem}")
            wrt = [i for i in wrt if out[i + 1] is ZERO]
            then, other = derive(wrt)
        if not wrt:
            return out
        made = Cond(then_branch=then, else_branch=other, training=self.training)(
            pred, *captured, *cotangents
        )
        for i, g in zip(wrt, made if isinstance(made, tuple) else (made,), strict=True):
            out[i + 1] = g
        return out

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        graph = Graph("sample", scratch=True)
        x, w = graph.placeholder("x", (2, 3), "float64"), graph.placeholder("w", (3,), "float64")
        branches = {
            "then_branch": SubGraph([x, w], [x * w]),
            "else_branch": SubGraph([x, w], [x - w]),
        }
        for pred in (True, False):
            yield Sample(
                (np.array(pred), rng.standard_normal((2, 3)), rng.standard_normal(3)), branches
            )

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        graph = Graph("sample", scratch=True)
        x = graph.placeholder("x", (2,))
        branch = SubGraph([x], [x])
        attrs = {"then_branch": branch, "else_branch": branch}
        yield ErrorSample(
            (TensorSpec((2,), "bool"), TensorSpec((2,))), attrs, "decides between two"
        )


def _refused(branch: SubGraph, xs: Sequence[TensorSpec]) -> GradwrightError | None:
    """Return what is wrong with inputs of a branch: of another dtype, or of other ranks."""
    for x, stated in zip(xs, branch.inputs, strict=True):
        if not may_be(x, stated.spec):
            return DTypeError(f"the branches take {stated.spec}, got {x}", hint="gw.cast")
    return None


def taken(pred: Any) -> str:
    """Return what addresses call the branch that runs."""
    return "then" if bool(pred) else "else"


def _join(a: TensorSpec, b: TensorSpec) -> TensorSpec:
    """Return the spec of a value that is either; sizes that differ are known only at run time."""
    if a.dtype != b.dtype:
        raise DTypeError(
            "branches return different tensors", need="equal dtypes", facts=[f"{a} and {b}"]
        )
    return one_of([a.bare(), b.bare()])


def _differentiate(
    branch: SubGraph, wrt: Sequence[int], present: Sequence[int], specs: Sequence[TensorSpec]
) -> SubGraph:
    """Return the sub-graph (inputs, cotangents) -> cotangents of the inputs ``wrt``."""
    graph, xs, ys = scratch(branch, "gradient")
    gs = [stand_in(graph, f"g{i}", s) for i, s in enumerate(specs)]
    found = seams.gradients([ys[i] for i in present], [xs[i] for i in wrt], gs, unreachable="zero")
    return SubGraph([*xs, *gs], found)


def cond(
    pred: Tensor,
    then_fn: Callable[..., Any],
    else_fn: Callable[..., Any],
    *operands: Any,
    name: str | None = None,
) -> Any:
    """Return ``then_fn(*operands)`` if ``pred`` holds when run, else ``else_fn(*operands)``.

    ``pred`` is bool[]. Both functions build graph, and may use tensors from outside. They return
    tensors, or nested lists, tuples and dicts of them, in one structure and of equal dtype; shapes
    may differ, and ranks. Only the chosen branch runs, and gradients of every order flow through
    it.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ())
    >>> y = gw.cond(x > 0.0, lambda: x * x, lambda: -x, name="y")
    >>> dx, = gw.gradients(y, [x])
    >>> [float(g.output({"x": v}, dx)[dx.name]) for v in (3.0, -3.0)]
    [6.0, -1.0]
    """
    if not isinstance(pred, Tensor):
        raise GraphError(
            f"pred is {type(pred).__name__}", need="a bool tensor", hint="use Python's if"
        )
    if not (callable(then_fn) and callable(else_fn)):
        raise GraphError(
            "a branch of a cond is no function", hint="cond(pred, lambda: x, lambda: y)"
        )
    owner = owner_of("cond", [pred])
    first, made = _trace(owner, then_fn, operands, "then")
    second, otherwise = _trace(owner, else_fn, operands, "else")
    alike = same_structure(made, otherwise)
    if not alike and len(first.outputs) == len(second.outputs):
        raise GraphError(
            "the branches of a cond return other structures",
            need="the same nesting of lists and dicts",
        )
    captured = list(dict.fromkeys([*first.graph.captures, *second.graph.captures]))
    op = Cond(then_branch=first.closed(captured), else_branch=second.closed(captured))
    owner.add(op, [pred, *captured], name)
    return flatten(made, [])(iter(owner.latest.outputs))


def _trace(
    owner: Graph, fn: Callable[..., Any], operands: Sequence[Any], label: str
) -> tuple[Body, Any]:
    """Return the graph of a branch, and what its function returned."""
    body = Body(owner, f"{label} branch", "cond")
    leaves: list[Any] = []
    rebuild = flatten(operands, leaves)
    result = body.call(fn, *rebuild(map(body.take, leaves)))
    results: list[Any] = []
    flatten(result, results)
    body.outputs = list(map(body.take, results))
    if not body.outputs:
        raise GraphError(
            f"the {label} branch of a cond returns nothing", need="at least one tensor"
        )
    body.check()
    return body, result
