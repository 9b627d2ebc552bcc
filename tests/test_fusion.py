"""Rules of ops, groups and the fused op: kernels in numpy compute what the ops compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.catalogue import load
from gradwright.errors import GraphError
from gradwright.fuse import Fused, fuse
from gradwright.fuse.rules import RULES
from gradwright.fuse.rules_elements import FORMULAS, SAME
from gradwright.lowering import _table
from gradwright.op import OPS, Op, infer_specs, run_forward
from gradwright.rewrite import Program
from gradwright.spec import known_spec

load()


def program_of(*steps: tuple[Op, Sequence[Any]], given: dict[str, np.ndarray]) -> Program:
    """Return a program of named values: ``(op, [inputs..., "->", outputs...])``; all leave."""
    program = Program(lambda op, ins, outs: True)
    names: Any = program.numbers
    for name, array in given.items():
        names[name] = program.new_value(known_spec(array).with_shape(array.shape))
        program.sources[names[name]] = name  # type: ignore[assignment]
    for op, wiring in steps:
        cut = list(wiring).index("->")
        ins = [None if i is None else names[i] for i in wiring[:cut]]
        specs = [None if i is None else program.specs[i] for i in ins]
        made = program.emit(op, ins, infer_specs(op, specs), None, op.name)  # type: ignore[arg-type]
        names.update(zip(wiring[cut + 1 :], made, strict=False))
    return program


def leave(program: Program, *names: str) -> Program:
    """Say which values leave."""
    program.outputs = list(names)  # type: ignore[arg-type]
    return program


def run(program: Program, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a program instruction by instruction."""
    names: Any = program.numbers
    values = {names[k]: a for k, a in given.items()} | dict(program.constants)
    for instr in program.instrs:
        xs = [None if i is None else values[i] for i in instr.ins]
        values.update(zip(instr.outs, run_forward(instr.op, xs), strict=True))
    return {str(t): values[names[t]] for t in program.outputs}


def kernels(program: Program) -> list[Fused]:
    """Return the kernels of a program."""
    return [i.op for i in program.instrs if isinstance(i.op, Fused)]


def check(program: Program, given: dict[str, np.ndarray], tolerance: float = 1e-12) -> Program:
    """Assert that a fused program computes the same; returns it."""
    with np.errstate(all="ignore"):
        before, fused = run(program, given), fuse(program)
    after = run(fused, given)
    for name, want in before.items():
        got = after[name]
        assert got.dtype == want.dtype and got.shape == want.shape, name
        got, want = (a + 0.0 for a in (got, want))  # bools and ints as floats
        np.testing.assert_allclose(got, want, tolerance, tolerance, err_msg=name)
    made: set[int] = set(fused.sources) | set(fused.constants)
    for instr in fused.instrs:  # every value is made before it is read
        assert made.issuperset(i for i in instr.ins if i is not None)
        made.update(instr.outs)
    return fused


# -- rules ----------------------------------------------------------------------------------------

SPLIT = ("all_finite", "dropout", "global_norm", "rotate_pairs")
SAMPLED = [
    (name, number)
    for name in sorted({*RULES, *SPLIT} - {"pullback"})
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


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float64", 1e-12), ("float32", 2e-6), ("bfloat16", 0.03), ("float16", 4e-3)],
)
@pytest.mark.parametrize(("name", "number"), SAMPLED)
def test_a_rule_computes_what_the_op_computes(
    name: str, number: int, dtype: str, tolerance: float
) -> None:
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
    for name in (*SAME, *FORMULAS, "pow", "clip", "nan_to_num", "heaviside", "logaddexp")
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
    for one, other in zip(*(_run_plan(p, env) for p in (program, fused)), strict=True):
        np.testing.assert_allclose(one, other, 1e-10, 1e-12)
    assert names


def _run_plan(program: Program, env: dict[Any, np.ndarray]) -> list[np.ndarray]:
    values = {v: env[t] for v, t in program.sources.items()} | dict(program.constants)
    for instr in program.instrs:
        xs = [None if i is None else values[i] for i in instr.ins]
        values.update(zip(instr.outs, run_forward(instr.op, xs), strict=True))
    return [values[program.numbers[t]] for t in program.outputs]


# -- groups ---------------------------------------------------------------------------------------


def op(name: str, **attrs: Any) -> Op:
    """Return an op by name."""
    return OPS[name](**attrs)


RNG = np.random.default_rng(1)
X = {"x": RNG.standard_normal((4, 6)), "b": RNG.standard_normal(6)}


def test_a_chain_is_one_kernel_and_keeps_what_leaves() -> None:
    program = program_of(
        (op("add"), ["x", "b", "->", "h"]),
        (op("tanh"), ["h", "->", "y"]),
        (op("mul"), ["y", "y", "->", "z"]),
        given=X,
    )
    fused = check(leave(program, "y", "z"), X)
    (made,) = kernels(fused)
    assert made.names == ("add", "tanh", "mul")
    assert len(made.outs) == 2 and made.kernel.in_place == ()  # feeds are nobody's to overwrite


def test_an_outside_path_keeps_a_group_apart() -> None:
    program = program_of(
        (op("tanh"), ["x", "->", "h"]),
        (op("cumsum", axis=0), ["h", "->", "c"]),
        (op("add"), ["h", "c", "->", "y"]),
        given=X,
    )
    fused = check(leave(program, "y"), X)
    assert [k.names for k in kernels(fused)] == [("tanh",), ("add",)]


def test_a_sum_over_leading_axes_ends_a_group() -> None:
    program = program_of(
        (op("square"), ["x", "->", "s"]),
        (op("sum", axis=0), ["s", "->", "t"]),
        (op("mul"), ["x", "t", "->", "y"]),
        given=X,
    )
    fused = check(leave(program, "y"), X)
    assert [k.names for k in kernels(fused)] == [("square", "sum"), ("mul",)]


def test_results_of_rows_are_used_inside() -> None:
    program = program_of(
        (op("sum", axis=1), ["x", "->", "s"]),
        (op("exp"), ["s", "->", "e"]),
        (op("expand_dims", axis=1), ["e", "->", "k"]),
        (op("div"), ["x", "k", "->", "y"]),
        (op("sum"), ["e", "->", "total"]),
        given=X,
    )
    fused = check(leave(program, "y", "total"), X)
    (made,) = kernels(fused)
    assert [s.mode for s in made.kernel.stores] == ["set", "sum_rows"]


def test_of_a_square_rows_and_columns_are_told_apart() -> None:
    given = {"x": RNG.standard_normal((5, 5))}
    program = program_of(
        (op("sum", axis=1), ["x", "->", "s"]), (op("add"), ["x", "s", "->", "y"]), given=given
    )
    fused = check(leave(program, "y"), given)
    assert len(kernels(fused)) == 2  # s runs along the columns of y


def test_a_mask_is_computed_where_it_is_used() -> None:
    program = program_of(
        (op("tanh"), ["x", "->", "h"]),
        (op("less", ), ["h", "b", "->", "mask"]),
        (op("cumsum", axis=0), ["h", "->", "c"]),
        (op("where"), ["mask", "c", "h", "->", "y"]),
        given=X,
    )  # fmt: skip
    fused = check(leave(program, "y"), X)
    assert [k.names for k in kernels(fused)] == [("tanh",), ("less", "where")]


def test_what_is_cheap_is_computed_twice_and_not_stored() -> None:
    program = program_of(
        (op("tanh"), ["x", "->", "h"]),
        (op("add"), ["h", "b", "->", "s"]),
        (op("mul"), ["s", "x", "->", "y"]),
        (op("cumsum", axis=0), ["y", "->", "c"]),
        (op("add"), ["c", "h", "->", "d"]),
        (op("mul"), ["d", "s", "->", "z"]),
        given=X,
    )
    fused = check(leave(program, "z"), X)
    first, second = kernels(fused)
    assert [len(k.outs) for k in (first, second)] == [2, 1]  # y and h; s is made again
    assert second.names == ("add", "add", "mul")


def test_a_step_of_training_is_few_kernels() -> None:
    rng = np.random.default_rng(0)
    g = gw.Graph()

    def weight(name: str, *shape: int) -> gw.Tensor:
        return g.variable(name, init=rng.standard_normal(shape).astype(np.float32))

    x, t = g.placeholder("x", ("B", 6)), g.placeholder("t", ("B",), "int64")
    h = gw.nn.relu(x @ weight("w0", 6, 8) + weight("b0", 8))
    loss = gw.loss.sparse_softmax_cross_entropy(t, h @ weight("w1", 8, 3) + weight("b1", 3))
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(1e-3))
    feeds = {"x": rng.standard_normal((5, 6)).astype(np.float32), "t": np.array([0, 1, 2, 0, 1])}
    trainer.step(feeds)
    (plan,) = trainer.session.plan_cache.values()
    program, fused = plan.program, fuse(plan.program)
    rest = {i.op.name for i in fused.instrs if not isinstance(i.op, Fused)}
    assert rest == {"matmul", "transpose", "check_classes"}
    # bias and relu; bias, loss and its gradient; the mean; the mask; the step number;
    # for each of four parameters its share of the norm and Adam; the norm and what is finite
    assert len(kernels(fused)) <= 5 + 2 * 4 + 1
    sources = program.sources.values()
    feeds["optimizer/learning_rate"] = np.array(1e-3)
    env = {s: feeds[s.name] if s.name in feeds else g.values.array(s.name) for s in sources}
    for one, other in zip(_run_plan(program, env), _run_plan(fused, env), strict=True):
        np.testing.assert_allclose(one, other, 1e-5, 1e-6)


def test_an_input_that_dies_is_overwritten() -> None:
    program = program_of(
        (op("cumsum", axis=0), ["x", "->", "c"]),
        (op("tanh"), ["c", "->", "t"]),
        (op("add"), ["t", "b", "->", "y"]),
        given=X,
    )
    fused = fuse(leave(program, "y"))
    assert kernels(fused)[0].kernel.in_place == ((2, 0),)
    assert kernels(fuse(leave(program, "y", "c")))[0].kernel.in_place == ()


@pytest.mark.parametrize("last", [("sum", {"axis": 0, "keepdims": True}), ("exp", {})])
def test_an_input_that_is_read_once_a_row_is_not_overwritten(last: tuple[str, Any]) -> None:
    given = {"x": RNG.standard_normal((3, 4)), "c": RNG.standard_normal((1, 4))}
    name, attrs = last
    program = program_of(
        (op("cumsum", axis=0), ["c", "->", "d"]),
        (op("div"), ["x", "d", "->", "q"]),
        (op(name, **attrs), ["q" if name == "sum" else "d", "->", "y"]),
        given=given,
    )
    fused = check(leave(program, "y", *(["q"] if name == "exp" else [])), given)
    for kernel in (made.kernel for made in kernels(fused)):
        assert all(all(kernel.operands[x].moves) for _, x in kernel.in_place)


def test_what_dies_in_one_kernel_after_others_have_read_it_is_overwritten_there() -> None:
    program = program_of(
        (op("cumsum", axis=0), ["x", "->", "c"]),
        (op("mul"), ["c", "b", "->", "p"]),
        (op("cumsum", axis=1), ["p", "->", "d"]),
        (op("mul"), ["c", "d", "->", "s"]),
        (op("mul"), ["s", "b", "->", "y"]),
        (op("sub"), ["s", "c", "->", "z"]),
        given=X,
    )
    fused = leave(program, "y", "z")
    check(fused, X)
    first, second = (made.kernel for made in kernels(fuse(fused)))
    assert first.in_place == () and len(second.in_place) == 2


def test_large_series_of_what_readers_read_anyhow_are_computed_again() -> None:
    given = {"g": RNG.standard_normal((512, 1024)).astype("f4")}

    def stored(rows: int) -> int:
        cut = {"g": given["g"][:rows]}
        program = program_of(
            (op("sigmoid"), ["g", "->", "s"]),
            (op("mul"), ["g", "s", "->", "y"]),
            (op("cumsum", axis=0), ["y", "->", "c"]),
            (op("mul"), ["c", "s", "->", "p"]),
            (op("mul"), ["p", "g", "->", "q"]),
            given=cut,
        )
        made = leave(program, "q")
        check(made, cut, 1e-5)
        return len(kernels(fuse(made))[0].outs)

    assert stored(512) == 1 and stored(8) == 2


def test_an_op_that_a_rule_declines_stays_outside() -> None:
    given = {"x": X["x"] > 0, "n": np.arange(24).reshape(4, 6)}
    program = program_of(
        (op("logical_not"), ["x", "->", "a"]),
        (op("add_n"), ["x", "a", "->", "b"]),  # bools do not add up in kernels
        (op("mean", axis=1), ["n", "->", "m"]),
        (op("pow"), ["n", "n", "->", "p"]),
        given=given,
    )
    fused = check(leave(program, "b", "m", "p"), given)
    assert [k.names for k in kernels(fused)] == [("logical_not",)]


def test_an_op_that_a_user_has_lowered_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(op: Op, ins: Any, outs: Any) -> None:
        """Decline."""

    monkeypatch.setitem(_table, ("tanh", "cpu"), mine)
    program = program_of(
        (op("tanh"), ["x", "->", "h"]), (op("mul"), ["h", "x", "->", "y"]), given=X
    )
    fused = check(leave(program, "y"), X)
    assert [i.op.name for i in fused.instrs if not isinstance(i.op, Fused)] == ["tanh"]


def test_kernels_do_not_cross_the_tail() -> None:
    program = program_of(
        (op("tanh"), ["x", "->", "h"]), (op("mul"), ["h", "h", "->", "y"]), given=X
    )
    leave(program, "y").n_body = 1
    fused = check(program, X)
    assert len(kernels(fused)) == 2 and fused.n_body == 1


def test_constants_of_one_number_are_not_read_from_memory() -> None:
    program = program_of(given=X)
    names: Any = program.numbers
    for name, array in (("half", np.full((4, 6), 0.5)), ("n", np.array(0.3))):
        names[name] = program.constant(np.broadcast_to(array.flat[0], array.shape))
    (y,) = program.emit(op("mul"), [names["x"], names["half"]], [program.specs[0]], None, "")  # type: ignore[arg-type]
    (z,) = program.emit(op("add"), [y, names["n"]], [program.specs[0]], None, "")  # type: ignore[arg-type]
    names["z"] = z
    fused = check(leave(program, "z"), X)
    (made,) = kernels(fused)
    assert made.kernel.n_inputs == 2  # x, and 0.3 as a scalar; 0.5 is part of the code


def test_kernels_of_one_kind_are_equal_whatever_the_sizes() -> None:
    made = []
    for shape in ((4, 6), (3, 6)):
        given = {"x": RNG.standard_normal(shape)}
        program = program_of(
            (op("mean"), ["x", "->", "m"]), (op("softmax"), ["x", "->", "y"]), given=given
        )
        made.append([k.kernel for k in kernels(check(leave(program, "m", "y"), given))])
    assert made[0] == made[1]


UNARY = ["tanh", "exp", "neg", "sigmoid", "square", "softmax", "cumsum", "relu", "log_softmax"]
BINARY = ["add", "mul", "sub", "maximum", "less"]
REDUCING = [("sum", -1), ("mean", -1), ("max", -1), ("sum", 0), ("mean", None), ("sum", (0, 1))]


@pytest.mark.parametrize("seed", range(100))
def test_random_programs_compute_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    given = {
        "x": rng.standard_normal((3, 4, 5)), "z": rng.standard_normal((3, 4, 5)),
        "row": rng.standard_normal((3, 4, 1)), "column": rng.standard_normal(5),
        "scalar": rng.standard_normal(()), "flat": rng.standard_normal((3, 4)),
    }  # fmt: skip
    program = program_of(given=given)
    names: Any = program.numbers

    def shape(name: str) -> tuple[int, ...]:
        found: Any = program.specs[names[name]].shape
        return found

    def add(made: Op, ins: list[str]) -> None:
        specs = infer_specs(made, [program.specs[names[i]] for i in ins])
        (value,) = program.emit(made, [names[i] for i in ins], specs, None, made.name)  # type: ignore[arg-type]
        names[f"v{len(names)}"] = value

    for _ in range(int(rng.integers(5, 40))):
        floats = [n for n in names if program.specs[names[n]].dtype == np.float64]
        recent = floats[-6:] if rng.random() < 0.7 else floats
        a, b = (str(rng.choice(recent)) for _ in range(2))
        kind = rng.random()
        if kind < 0.08:
            if len(shape(a)) in (1, 2):
                add(op("expand_dims", axis=int(rng.choice([0, -1]))), [a])
            elif shape(a) == (3, 4, 1):
                add(op("broadcast_to", shape=(3, 4, 5)), [a])
        elif kind < 0.12 and 1 in shape(a):
            add(op("squeeze", axis=shape(a).index(1)), [a])
        elif kind < 0.35:
            name = str(rng.choice(UNARY))
            if not shape(a) and name not in ("tanh", "neg", "relu"):
                continue
            add(op(name, **({"axis": 0} if name == "cumsum" else {})), [a])
        elif kind < 0.75:
            try:
                np.broadcast_shapes(shape(a), shape(b))
            except ValueError:
                continue
            add(op(str(rng.choice(BINARY))), [a, b])
        elif kind < 0.95:
            name, axis = REDUCING[int(rng.integers(len(REDUCING)))]
            if len(shape(a)) < 2:
                continue
            add(op(name, axis=axis, keepdims=bool(rng.random() < 0.5)), [a])
        else:
            conditions = [n for n in names if program.specs[names[n]].dtype == bool]
            if conditions:
                c = str(rng.choice(conditions))
                try:
                    np.broadcast_shapes(shape(a), shape(b), shape(c))
                except ValueError:
                    continue
                add(op("where"), [c, a, b])
    made = [n for n in names if n not in given]
    leaving = {*rng.choice(made, min(3, len(made)), replace=False), made[-1]}
    if rng.random() < 0.3:
        program.n_body = int(rng.integers(len(program.instrs)))
    check(leave(program, *sorted(map(str, leaving))), given, 1e-9)
