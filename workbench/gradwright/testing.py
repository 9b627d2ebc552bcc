"""Checks that every op passes, yours included: all derived from the op's own samples.

>>> import gradwright as gw
>>> from gradwright.testing import check_op
>>> @gw.register("me/cube")
... class Cube(gw.Op):
...     '''Third power.
...
...     y = x³
...     '''
...     def infer(self, x): return x.with_shape(x.shape)
...     def forward(self, x): return x * x * x
...     def vjp(self, gs, ys, xs): return (gs[0] * 3.0 * xs[0] * xs[0],)
...     @classmethod
...     def samples(cls, rng): yield gw.Sample((rng.standard_normal((2, 3)),))
>>> check_op(Cube, skip=["complex"])
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .debug.blame import LocalCheck, normal_like
from .debug.float64 import known_specs
from .debug.numeric import compare
from .errors import DTypeError, GradwrightError, GraphError, ShapeError
from .gradient import gradients
from .graph import Graph, Node, Tensor, ancestors
from .graph.expand import expansion, run_nodes, stand_in
from .op import Op, Sample, infer_specs, run_forward
from .session import Session
from .spec import Dim, TensorSpec, is_floating
from .spec import dtype as as_dtype

Array = np.ndarray[Any, Any]
Case = tuple[Op, tuple[Array | None, ...]]
RTOL = 1e-5


class OpCheckError(AssertionError):
    """An op breaks its contract; the message says which rule, on which sample, what to change."""


def check_op(op: Op | type[Op], *, skip: Collection[str] = ()) -> None:
    """Check an op on its own samples: inference, gradients, devices, errors, documentation.

    Given an op rather than its class, only samples with its attributes are used. ``skip`` leaves
    out checks by name, such as ``complex`` for an op that will only ever see real numbers; the
    names are those of ``CLASS_CHECKS`` and ``SAMPLE_CHECKS``.

    Raises OpCheckError with all that is wrong, one finding a line.
    """
    cls = op if isinstance(op, type) else type(op)
    unknown = sorted(set(skip) - {*CLASS_CHECKS, *SAMPLE_CHECKS})
    if unknown:
        raise GraphError(f"no check is called {unknown[0]!r}", need=", ".join(SAMPLE_CHECKS))
    problems: list[str] = []
    for name, check in CLASS_CHECKS.items():
        if name not in skip:
            _collect(problems, name, check, cls)
    for number, sample in enumerate([] if problems else samples(cls)):
        if isinstance(op, type) or cls(**sample.attrs) == op:
            for name, sample_check in SAMPLE_CHECKS.items():
                if name not in skip:
                    _collect(problems, f"sample {number}, {name}", sample_check, cls, sample)
    if problems:
        raise OpCheckError(f"{cls.name}:\n  " + "\n  ".join(problems))


def _collect(problems: list[str], label: str, check: Callable[..., None], *args: Any) -> None:
    try:
        check(*args)
    except OpCheckError as error:
        problems.append(f"{label}: {error}")
    except Exception as error:
        problems.append(f"{label}: {type(error).__name__}: {error}")


def samples(cls: type[Op]) -> list[Sample]:
    """Return the samples of an op, the same at each call."""
    return list(cls.samples(np.random.default_rng(0)))


def cases(cls: type[Op], sample: Sample) -> Iterator[Case]:
    """Yield the op of a sample with its arrays, once per mode where the op follows the run."""
    op = cls(**sample.attrs)
    xs = tuple(None if x is None else np.asarray(x) for x in sample.inputs)
    modes = (False, True) if cls.follows_mode and op.training is None else (False,)  # type: ignore[attr-defined]
    for training in modes:
        yield op.for_mode(training), xs


# -- forward -------------------------------------------------------------------------------------


def check_infer(cls: type[Op], sample: Sample) -> None:
    """``infer`` says what ``forward`` returns, for float64, float32 and half inputs."""
    for op, xs in cases(cls, sample):
        for arrays in (xs, *(_cast(op, xs, n) for n in ("float32", "bfloat16", "float16"))):
            if arrays is None:
                continue
            stated = infer_specs(op, known_specs(op, arrays))
            ys = run_forward(op, arrays)
            _need(
                len(stated) == len(ys),
                f"infer states {len(stated)} outputs, forward returns {len(ys)}",
            )
            for i, (spec, y) in enumerate(zip(stated, ys, strict=True)):
                _need(
                    _fits(spec, y),
                    f"infer says {spec} for output {i} of {_show(arrays)}, forward returns "
                    f"{TensorSpec(y.shape, y.dtype)}: mend whichever is wrong",
                )


def check_forward(cls: type[Op], sample: Sample) -> None:
    """``forward`` leaves its inputs alone, takes any strides, and keeps its declared traits."""
    for op, xs in cases(cls, sample):
        held = [None if x is None else x.copy() for x in xs]
        ys = run_forward(op, held)
        for i, (x, h) in enumerate(zip(xs, held, strict=True)):
            _need(_same(x, h), f"forward changes its input {i}: work on a copy")
        for i, (x, y) in ((i, (x, y)) for i, x in enumerate(held) for y in ys if x is not None):
            _need(
                not np.may_share_memory(x, y) or (op.views and i == 0),
                f"forward returns a view of input {i}: return a copy"
                + ("" if i else ", or say views = True"),
            )
        strided = [None if x is None else _strided(x) for x in xs]
        for y, again in zip(ys, run_forward(op, strided), strict=True):
            _need(_close(y, again, 1e-12), "forward differs for inputs that are not contiguous")
        if op.shape_only:
            blank = [
                np.full_like(x, 77) if i in op.shape_only and x is not None else x
                for i, x in enumerate(xs)
            ]
            for y, again in zip(ys, run_forward(op, blank), strict=True):
                _need(_same(y, again), f"forward reads the values of shape_only {op.shape_only}")
        if op.value_rule and all(x is not None and x.dtype.kind == "i" for x in xs):
            dims = [None if x is None else x.astype(object) for x in xs]
            for y, again in zip(ys, run_forward(op, dims), strict=True):
                _need(_same(y, again.astype(y.dtype)), "forward does not work on dims: value_rule")


def check_precision(cls: type[Op], sample: Sample) -> None:
    """``forward`` in float32 and halves is as near to float64 as the dtype allows."""
    for op, xs in cases(cls, sample):
        for name, tolerance in (("float32", 2e-5), ("bfloat16", 3e-2), ("float16", 4e-3)):
            arrays = _cast(op, xs, name)
            wide = None if arrays is None else _cast(op, arrays, "float64")
            if arrays is None or wide is None or "dtype" in op.attrs:
                continue
            ys, reference = run_forward(op, arrays), run_forward(op, wide)
            for i, (y, r) in enumerate(zip(ys, reference, strict=True)):
                _need(
                    r.dtype.kind not in "fc" or _close(y, r, tolerance),
                    f"output {i} in {name} is far from float64: accumulate in float32",
                )


# -- gradients -----------------------------------------------------------------------------------


def check_vjp(cls: type[Op], sample: Sample) -> None:
    """``vjp`` agrees with finite differences of ``forward``."""
    for op, xs in cases(cls, sample):
        problem = _vjp_problem(op, xs, sample)
        _need(
            not problem,
            f"{problem}; mend vjp, or say smooth=False in a sample that lies on a kink",
        )


def check_complex(cls: type[Op], sample: Sample) -> None:
    """``vjp`` is right for complex inputs too, if ``infer`` takes them."""
    for op, xs in cases(cls, sample):
        moved = _complex(op, xs)
        problem = "" if moved is None else _vjp_problem(op, moved, sample)
        _need(
            not problem,
            f"{problem}; use conj() in vjp (gradients are conjugate, as in torch), or have infer "
            "raise DTypeError for complex inputs",
        )


def _vjp_problem(op: Op, xs: tuple[Array | None, ...], sample: Sample) -> str:
    if not sample.smooth:
        return ""
    check = LocalCheck(op, xs, run_forward(op, xs), np.random.default_rng(1), rtol=RTOL)
    if sample.differentiate is not None:
        check.directions = {i: v for i, v in check.directions.items() if i in sample.differentiate}
    verdict, reason, _ = check.run()
    right = verdict in ("ok", "none")
    return "" if right else f"vjp differs from finite differences ({verdict}): {reason}"


def check_second(cls: type[Op], sample: Sample) -> None:
    """The gradient's gradient, in inputs and cotangents, agrees with finite differences."""
    for op, xs in cases(cls, sample):
        if not sample.smooth:
            continue
        rng = np.random.default_rng(2)
        graph, ins, node, specs_known = _place(op, xs)
        wrt = _wanted(op, xs, sample, ins)
        seeded = _seeds(graph, node, rng)
        if not wrt or not seeded:
            continue
        first = gradients(list(seeded), wrt, [s for s, _ in seeded.values()], unreachable="zero")
        weights = {
            stand_in(graph, f"h{i}", t.spec): rng.standard_normal(t.shape)
            for i, t in enumerate(first)
        }
        given = {**specs_known, **dict(seeded.values()), **weights}
        targets = [*wrt, *(s for s, _ in seeded.values())]
        second = gradients(first, targets, list(weights), unreachable="zero")
        forward = ancestors(first, stop=set(given))
        exact = run_nodes(ancestors(second, stop=set(given)), given, second)
        directions = {t: normal_like(given[t], rng) for t in targets if given[t].size}

        def along(
            t: float,
            forward: Sequence[Node] = forward,
            given: Mapping[Tensor, Array] = given,
            moved: Mapping[Tensor, Array] = directions,
            first: Sequence[Tensor] = first,
            weights: Mapping[Tensor, Array] = weights,
        ) -> float:
            at = {**given, **{x: given[x] + t * v for x, v in moved.items()}}
            found = run_nodes(forward, at, first)
            return sum(
                float(np.vdot(h, f).real) for h, f in zip(weights.values(), found, strict=True)
            )  # fmt: skip

        total = sum(
            float(np.vdot(e, directions[t]).real)
            for t, e in zip(targets, exact, strict=True)
            if t in directions
        )
        found = compare(along, total, rtol=RTOL)
        _need(
            found.verdict == "ok",
            f"second order differs ({found.verdict}): gradient of vjp {found.analytic:.8g}, "
            f"finite differences {found.numeric:.8g}; vjp must be built from differentiable ops "
            "on xs and gs (ys count as functions of xs)",
        )


def check_partial(cls: type[Op], sample: Sample) -> None:
    """``vjp`` takes ZERO for every output but one, and the parts add up."""
    for op, xs in cases(cls, sample):
        rng = np.random.default_rng(3)
        graph, ins, node, given = _place(op, xs)
        wrt, seeded = _wanted(op, xs, sample, ins), _seeds(graph, node, rng)
        if not wrt or len(seeded) < 2:
            continue
        given = {**given, **dict(seeded.values())}
        together = gradients(list(seeded), wrt, [s for s, _ in seeded.values()], unreachable="zero")
        alone = [gradients([y], wrt, [s], unreachable="zero") for y, (s, _) in seeded.items()]
        everything = [*together, *(t for part in alone for t in part)]
        found = run_nodes(ancestors(everything, stop=set(given)), given, everything)
        for i in range(len(wrt)):
            parts = sum(found[len(wrt) * (k + 1) + i] for k in range(len(alone)))
            _need(
                _close(parts, found[i], 1e-9),
                f"vjp with some cotangents ZERO does not add up for input {i}",
            )


def check_expansion(cls: type[Op], sample: Sample) -> None:
    """A composite's own infer, forward and vjp agree with its expansion."""
    if not cls.is_composite():
        return
    for op, xs in cases(cls, sample):
        specs = known_specs(op, xs)
        inner = expansion(op, specs)
        given = dict(zip(inner.inputs, (x for x in xs if x is not None), strict=True))
        ys = run_nodes(inner.nodes, given, inner.outputs)
        for i, (spec, y) in enumerate(zip(infer_specs(op, specs), ys, strict=True)):
            _need(_fits(spec, y), f"infer says {spec} for output {i}, expand gives {y.shape}")
        for i, (own, y) in enumerate(zip(run_forward(op, xs), ys, strict=True)):
            _need(_close(own, y, 1e-9), f"forward and expand differ in output {i}")
        if not cls.has_vjp():
            continue
        rng = np.random.default_rng(4)
        graph, ins, node, held = _place(op, xs)
        wrt, seeded = _wanted(op, xs, sample, ins), _seeds(graph, node, rng)
        if not wrt or not seeded:
            continue
        with graph:
            opened = op.expand(*ins)
        opened = opened if isinstance(opened, tuple) else (opened,)
        held = {**held, **dict(seeded.values())}
        seeds = [s for s, _ in seeded.values()]
        mirrored = [opened[y.index] for y in seeded]
        stated = gradients(list(seeded), wrt, seeds, unreachable="zero")
        derived = gradients(mirrored, wrt, seeds, unreachable="zero")
        found = run_nodes(ancestors([*stated, *derived], stop=set(held)), held, [*stated, *derived])
        for i in range(len(wrt)):
            _need(
                _close(found[i], found[len(wrt) + i], 1e-8),
                f"vjp and the gradient of expand differ for {wrt[i].name}",
            )


# -- engine --------------------------------------------------------------------------------------


def check_session(cls: type[Op], sample: Sample) -> None:
    """Outputs and gradients are the same in a session, on ``cpu`` and ``guard``, lowered or not."""
    for op, xs in cases(cls, sample):
        for name, tolerance in (("float64", 1e-9), ("float32", 1e-4)):
            arrays = xs if name == "float64" else _cast(op, xs, name)
            if arrays is None:
                continue
            graph, ins, node, given = _place(op, arrays)
            rng = np.random.default_rng(5)
            wrt, seeded = _wanted(op, xs, sample, ins), _seeds(graph, node, rng)
            given = {**given, **dict(seeded.values())}
            targets = list(node.outputs)
            if wrt and seeded:
                seeds = [s for s, _ in seeded.values()]
                targets += gradients(list(seeded), wrt, seeds, unreachable="zero")
            reference = run_nodes(ancestors(targets, stop=set(given)), given, targets)
            for device in ("cpu", "guard"):
                with Session(graph, device) as session:
                    found = session.run(targets, given)
                for t, y, r in zip(targets, found, reference, strict=True):
                    _need(
                        _close(y, r, tolerance),
                        f"{t.name} differs on {device} in {name}: its lowering, or views/ufunc "
                        "promise what forward does not do",
                    )


def check_symbolic(cls: type[Op], sample: Sample) -> None:
    """Symbolic sizes are accepted, or refused with a ShapeError, and give the same numbers."""
    for op, xs in cases(cls, sample):
        if not any(x is not None and x.ndim for x in xs):
            continue
        reference = run_forward(op, xs)
        for own in (False, True):
            graph = Graph(op.name, scratch=True)
            ins = [
                None if x is None else stand_in(graph, f"x{i}", _symbolic(op, i, x, own))
                for i, x in enumerate(xs)
            ]
            try:
                with graph:
                    graph.add(op, ins)
                    node = graph.latest
                    targets = list(node.outputs)
                    live = [t for t in node.public if is_floating(t.dtype)]
                    wrt = _wanted(op, xs, sample, ins)
                    if live and wrt:
                        targets += gradients(live, wrt, unreachable="zero")
            except ShapeError as error:
                _need(
                    "has no value yet" in error.problem or bool(error.need),
                    f"refuses symbolic sizes without saying what it needs: {error.problem}",
                )
                continue
            given = {t: x for t, x in zip(ins, xs, strict=True) if t is not None and x is not None}
            with Session(graph) as session:
                found = session.run(targets, given)
            for t, y, r in zip(node.outputs, found, reference, strict=False):
                _need(_close(y, r, 1e-9), f"{t.name} differs when sizes are symbolic")
                _need(t.rank == y.ndim, f"{t.name} has another rank when sizes are symbolic")
            for x, y in zip(wrt, found[len(node.outputs) :], strict=False):
                _need(
                    y.shape == given[x].shape,
                    f"gradient of {x.name} has shape {y.shape} when sizes are symbolic",
                )


# -- declaration ---------------------------------------------------------------------------------


def check_documented(cls: type[Op]) -> None:
    """The docstring is a sentence with a full stop, then a formula; attributes are documented."""
    lines = (cls.__dict__.get("__doc__") or "").strip().splitlines()
    _need(bool(lines), "write a docstring: what it computes, then its formula")
    first, _, rest = "\n".join(lines).partition("\n\n")
    _need(
        first.rstrip().endswith("."),
        f"the docstring must begin with a sentence and a full stop: {first!r}",
    )
    _need(bool(rest.strip()), "add the formula to the docstring, after an empty line")
    for name, declared in cls.attrs.items():
        _need(bool(declared.doc.strip()), f"document the attribute {name}")
        _need(bool(declared.type), f"annotate the attribute {name} with its type")


def check_onnx(cls: type[Op]) -> None:
    """The ONNX rule names an operator, a real opset, and attributes that exist."""
    rule = cls.onnx
    if rule is None:
        return
    _need(
        re.fullmatch(r"[A-Z][A-Za-z0-9]*", rule.op_type) is not None,
        f"onnx: {rule.op_type!r} is not an ONNX operator name",
    )
    _need(1 <= rule.since <= 25, f"onnx: opset {rule.since} does not exist")
    unknown = sorted(set(rule.rename) - set(cls.attrs))
    _need(not unknown, f"onnx: rename speaks of unknown attributes {unknown}")


def check_errors(cls: type[Op]) -> None:
    """What must be refused is refused, with a message that says what was promised."""
    for number, bad in enumerate(cls.error_samples()):
        graph = Graph(cls.name, scratch=True)
        ins = [None if s is None else stand_in(graph, f"x{i}", s) for i, s in enumerate(bad.inputs)]
        try:
            with graph:
                cls(**bad.attrs)(*ins)
        except GradwrightError as error:
            _need(
                bad.match in str(error),
                f"error sample {number}: the message lacks {bad.match!r}: {error}",
            )
        else:
            _need(False, f"error sample {number} is not refused: raise in infer")


def check_sampled(cls: type[Op]) -> None:
    """There are samples, and each names an op that equals itself made again."""
    found = samples(cls)
    _need(bool(found), "yield at least one sample")
    for number, sample in enumerate(found):
        op, again = cls(**sample.attrs), cls(**sample.attrs)
        _need(op == again and hash(op) == hash(again), f"sample {number}: equal attrs, unequal op")


CLASS_CHECKS: Mapping[str, Callable[[type[Op]], None]] = {
    "sampled": check_sampled,
    "documented": check_documented,
    "onnx": check_onnx,
    "errors": check_errors,
}


def _quiet(check: Callable[[type[Op], Sample], None]) -> Callable[[type[Op], Sample], None]:
    """Let a check ignore overflow and the like: samples are awkward on purpose."""

    @functools.wraps(check)
    def run(cls: type[Op], sample: Sample) -> None:
        with np.errstate(all="ignore"):
            check(cls, sample)

    return run


SAMPLE_CHECKS: Mapping[str, Callable[[type[Op], Sample], None]] = {
    "infer": _quiet(check_infer),
    "forward": _quiet(check_forward),
    "precision": _quiet(check_precision),
    "vjp": _quiet(check_vjp),
    "complex": _quiet(check_complex),
    "second": _quiet(check_second),
    "partial": _quiet(check_partial),
    "expansion": _quiet(check_expansion),
    "session": _quiet(check_session),
    "symbolic": _quiet(check_symbolic),
}


# -- helpers -------------------------------------------------------------------------------------


def _need(condition: bool, problem: str) -> None:
    if not condition:
        raise OpCheckError(problem)


def _place(
    op: Op, xs: Sequence[Array | None]
) -> tuple[Graph, list[Tensor | None], Node, dict[Tensor, Array]]:
    """Build a graph of the one op on placeholders."""
    graph = Graph(op.name, scratch=True)
    ins = [
        None if s is None else stand_in(graph, f"x{i}", s)
        for i, s in enumerate(known_specs(op, xs))
    ]
    with graph:
        graph.add(op, ins)
    given = {t: x for t, x in zip(ins, xs, strict=True) if t is not None and x is not None}
    return graph, ins, graph.latest, given


def _wanted(
    op: Op, xs: Sequence[Array | None], sample: Sample, ins: Sequence[Tensor | None]
) -> list[Tensor]:
    """Return the inputs to differentiate by: floating, and not declared to have no gradient."""
    refused = LocalCheck(op, xs, run_forward(op, xs), np.random.default_rng(0)).vjp.refused
    chosen = sample.differentiate
    return [
        t
        for i, t in enumerate(ins)
        if t is not None
        and is_floating(t.dtype)
        and i not in refused
        and (chosen is None or i in chosen)
    ]


def _seeds(
    graph: Graph, node: Node, rng: np.random.Generator
) -> dict[Tensor, tuple[Tensor, Array]]:
    """Return for each floating public output a cotangent placeholder and its array."""
    found = {}
    for i, y in enumerate(node.public):
        if is_floating(y.dtype) and y.spec.is_concrete:
            shape: Any = y.shape
            drawn = normal_like(np.empty(shape, y.dtype), rng).astype(y.dtype)
            found[y] = stand_in(graph, f"seed{i}", y.spec), drawn
    return found


def _symbolic(op: Op, number: int, x: Array, own: bool) -> TensorSpec:
    """Return a spec with a symbol per size above 1, or (``own``) per axis."""
    dims = [
        d if d == 1 else Dim.symbol(f"x{number}_{axis}" if own else f"d{d}")
        for axis, d in enumerate(x.shape)
    ]
    value = x if number in op.needs_values else None
    return TensorSpec(x.shape if value is not None else dims, x.dtype, value)


def _cast(op: Op, xs: Sequence[Array | None], name: str) -> tuple[Array | None, ...] | None:
    """Return the inputs with all floats as another dtype; None without any, or if op refuses."""
    target = as_dtype(name)
    floats = [x is not None and is_floating(x.dtype) and x.dtype.kind != "c" for x in xs]
    moved = tuple(
        x.astype(target) if is_float and x is not None else x
        for x, is_float in zip(xs, floats, strict=True)
    )
    return moved if any(floats) and _takes(op, moved) else None


def _takes(op: Op, xs: Sequence[Array | None]) -> bool:
    """Tell whether infer accepts the dtypes."""
    try:
        infer_specs(op, known_specs(op, xs))
    except DTypeError:
        return False
    return True


def _complex(op: Op, xs: Sequence[Array | None]) -> tuple[Array | None, ...] | None:
    """Return the inputs with imaginary parts added, if the op takes them."""
    if not any(x is not None and x.dtype == np.float64 for x in xs):
        return None
    rng = np.random.default_rng(6)
    moved = tuple(
        x + 0.3j * rng.standard_normal(x.shape) if x is not None and x.dtype == np.float64 else x
        for x in xs
    )
    return moved if _takes(op, moved) else None


def _strided(x: Array) -> Array:
    """Return the same values in memory of another layout."""
    if not x.ndim:
        return x
    room = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    room[..., ::2] = x
    return room[..., ::2]


def _fits(spec: TensorSpec, y: Array) -> bool:
    return (
        spec.dtype == y.dtype
        and spec.rank == y.ndim
        and all(isinstance(d, Dim) or d == n for d, n in zip(spec.shape, y.shape, strict=True))
    )


def _same(a: Array | None, b: Array | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def _close(a: Any, b: Any, tolerance: float) -> bool:
    """Compare relative to each element and to the largest one."""
    x, y = np.asarray(a), np.asarray(b)
    if x.shape != y.shape:
        return False
    if y.dtype.kind not in "fcV":
        return bool(np.array_equal(x, y))
    x, y = (z.astype(np.complex128 if z.dtype.kind == "c" else np.float64) for z in (x, y))
    size = np.abs(y[np.isfinite(y)]).max(initial=0.0)
    return bool(np.allclose(x, y, rtol=tolerance, atol=tolerance * size, equal_nan=True))


def _show(xs: Sequence[Array | None]) -> str:
    return ", ".join("None" if x is None else str(TensorSpec(x.shape, x.dtype)) for x in xs)
