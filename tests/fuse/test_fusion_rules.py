"""Rules of ops: kernels in numpy compute what the ops compute, special numbers included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from gradwright.fuse import fuse
from gradwright.fuse.rules_elements import FORMULAS
from gradwright.op import OPS, infer_specs
from gradwright.program.program import Program
from gradwright.spec import known_spec
from tests.support.fused_programs import ELEMENTS as SINGLE
from tests.support.fused_programs import (
    IN_KERNELS,
    check,
    kernels,
    leave,
    op,
    program_of,
    run,
    run_plan,
)

RNG = np.random.default_rng(1)
SPLIT = ("all_finite", "dropout", "global_norm", "rotate_pairs")
SAMPLED = [
    (name, number)
    for name in sorted({*IN_KERNELS, *SPLIT} - {"pullback"})
    for number, _ in enumerate(OPS[name].samples(np.random.default_rng(0)))
]


def sampled(name: str, number: int, dtype: str) -> tuple[Program, dict[str, np.ndarray]]:
    """Return a program of one op on a sample whose float64 arrays have been cast."""
    sample = list(OPS[name].samples(np.random.default_rng(0)))[number]
    given = {f"x{i}": np.asarray(x) for i, x in enumerate(sample.inputs) if x is not None}
    with np.errstate(over="ignore"):
        given = {
            k: a.astype(gw.spec.dtype(dtype)) if a.dtype == np.float64 and a.ndim else a
            for k, a in given.items()
        }
    made = OPS[name](**sample.attrs).for_mode(True)
    ins = [None if x is None else f"x{i}" for i, x in enumerate(sample.inputs)]
    n = len(infer_specs(made, [None if i is None else known_spec(given[i]) for i in ins]))
    outs = [f"y{i}" for i in range(n)]
    return leave(program_of((made, [*ins, "->", *outs]), given=given), *outs), given


TOLERANCES = {"float64": 1e-12, "float32": 2e-6, "bfloat16": 0.03, "float16": 4e-3}


@pytest.mark.parametrize(("name", "number"), SAMPLED)
def test_a_rule_computes_what_the_op_computes(name: str, number: int) -> None:
    for dtype, tolerance in TOLERANCES.items():
        check(*sampled(name, number, dtype), tolerance)


@pytest.mark.parametrize("name", sorted({n for n, _ in SAMPLED}))
def test_each_rule_is_used_by_a_sample(name: str) -> None:
    numbers = [number for n, number in SAMPLED if n == name]
    assert any(kernels(fuse(sampled(name, number, "float32")[0])) for number in numbers)


SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 3e38, -3e38, 1e-42, np.inf, -np.inf, np.nan]
)
ELEMENTS = sorted(
    name
    for name in (*SINGLE, *FORMULAS, "pow", "clip", "nan_to_num", "heaviside", "logaddexp")
    if OPS[name].namespace in ("math", "nn") and not name.startswith("logical")
)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ELEMENTS)
def test_special_numbers_go_through_as_in_numpy(name: str, dtype: str) -> None:
    n = len([p for p in OPS[name].inputs if p.default is p.empty])
    x = SPECIAL.astype(dtype)
    arrays = [x, x[:, None], x[:, None, None]][:n]
    op = OPS[name]()
    given = {f"x{i}": a for i, a in enumerate(arrays)}
    program = leave(program_of((op, [*given, "->", "y"]), given=given), "y")
    with np.errstate(all="ignore"):
        want, got = run(program, given)["y"], run(fuse(program), given)["y"]
    assert kernels(fuse(program))
    np.testing.assert_allclose(got, want, 1e-6 if dtype == "float32" else 1e-13)
    if want.dtype.kind == "f" and name not in ("maximum", "minimum", "relu", "clip"):
        is_zero = want == 0
        assert (np.signbit(got) == np.signbit(want))[is_zero].all(), "the sign of a zero"


INTS = np.array([0, 1, -1, 2, -7, 7, 2**31 - 1, -(2**31)])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "neg", "abs", "square", "sign", "floor_div", "mod", "maximum"]
)
def test_ints_wrap_around_as_in_numpy(name: str, dtype: str) -> None:
    x = INTS.astype(dtype)
    given = {"x": x, "y": x[:, None]}
    ins = ["x", "y"][: len(OPS[name].inputs)]
    program = leave(program_of((OPS[name](), [*ins, "->", "z"]), given=given), "z")
    with np.errstate(all="ignore"):
        want, fused = run(program, given)["z"], fuse(program)
    assert kernels(fused)
    got = run(fused, given)["z"]
    assert got.dtype == want.dtype and (got == want).all()


def test_labels_outside_are_refused_and_ignored_ones_count_nothing() -> None:
    loss = OPS["label_cross_entropy"](ignore_index=-100)
    grad = OPS["label_cross_entropy_grad"](ignore_index=-100)
    rng = np.random.default_rng(0)
    given = {"t": np.array([1, -100, 3]), "x": rng.standard_normal((3, 4)), "g": np.ones(3)}
    program = program_of(
        (loss, ["t", "x", "->", "loss"]), (grad, ["g", "t", "x", "->", "dx"]), given=given
    )
    fused = check(leave(program, "loss", "dx"), given)
    assert len(kernels(fused)) == 1
    with pytest.raises(GraphError, match=r"4 at \[2\] is no class"):
        run(fused, {**given, "t": np.array([0, 1, 4])})


def test_a_row_of_one_element_is_its_own_reduction() -> None:
    """Also beside one that has columns."""
    given = {"t": np.array([0, 0, 0]), "x": RNG.standard_normal((3, 1)), "w": np.ones((3, 4))}
    program = program_of(
        (op("exp"), ["x", "->", "e"]),
        (op("logsumexp", axis=-1), ["e", "->", "s"]),
        (op("log_softmax", axis=-1), ["e", "->", "p"]),
        (OPS["label_cross_entropy"](), ["t", "e", "->", "loss"]),
        (op("mul"), ["w", "p", "->", "y"]),
        (op("softmax", axis=-1), ["y", "->", "z"]),
        given=given,
    )
    fused = check(leave(program, "s", "loss", "z"), given)
    assert len(kernels(fused)) == 1


def test_layer_norm_backwards_is_one_kernel() -> None:
    g = gw.Graph()
    rng = np.random.default_rng(0)
    x = g.placeholder("x", (5, 7), "float64")
    w, b = (g.variable(n, init=rng.standard_normal(7)) for n in "wb")
    loss = (gw.nn.layer_norm(x, w, b) * gw.sin(x)).sum()
    grads = gw.gradients(loss, [x, w, b])
    plan = gw.Session(g).plan(grads, {"x": (5, 7)})
    program, values = plan.program, {"x": rng.standard_normal((5, 7))}
    env = {t: values.get(t.name) for t in program.sources.values()}
    env = {t: g.values.array(t.name) if a is None else a for t, a in env.items()}
    fused = fuse(program)
    assert len(kernels(fused)) == 1
    names: Any = program.numbers
    for one, other in zip(*(run_plan(p, env) for p in (program, fused)), strict=True):
        np.testing.assert_allclose(one, other, 1e-10, 1e-12)
    assert names
