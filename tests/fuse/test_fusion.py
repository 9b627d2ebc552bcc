"""Groups and the fused op: what becomes one kernel, and what stays apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available
from gradwright.fuse import Fused, fuse
from gradwright.op import Op, infer_specs
from gradwright.program.lowering import _table, replaced_ops
from tests.support.fused_programs import check, kernels, leave, op, program_of, run_plan

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
    assert rest == {"matmul", "transpose", "check_classes", "strided_slice"}  # which is a view
    # bias and relu; bias, loss and its gradient; the mean; the mask; the step number;
    # for each of four parameters its share of the norm and Adam; the norm and what is finite
    assert len(kernels(fused)) <= 5 + 2 * 4 + 1
    sources = program.sources.values()
    feeds["optimizer/learning_rate"] = np.array(1e-3)
    feeds["optimizer/numbers"] = np.array([*trainer.optimizer.scalars().values()])
    env = {s: feeds[s.name] if s.name in feeds else g.values.array(s.name) for s in sources}
    for one, other in zip(run_plan(program, env), run_plan(fused, env), strict=True):
        np.testing.assert_allclose(one, other, 1e-5, 1e-6)


def test_a_maximum_of_all_leaves_sums_of_columns_to_another_kernel() -> None:
    """Both over one space, of which the first makes one loop, and the sums only half of one."""
    g = gw.Graph()
    x, b = g.placeholder("x", (None, 64)), g.variable("b", (4,), 0.5)
    y = x @ g.variable("w", (64, 4), 0.1) + b
    ys = [gw.mean(y * y), gw.max(gw.abs(y)), *gw.gradients(gw.mean(y * y), list(g.variables))]
    feeds = {"x": RNG.standard_normal((16, 64)).astype("f4")}
    with gw.Session(g, kernels="wait") as session:
        found = session.run(ys, feeds)
        numpy = session.plans[-1].kernels.counts.get("numpy", 0)
        assert not (numpy and available())
    for one, other in zip(found, gw.Session(g, kernels="off").run(ys, feeds), strict=True):
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
    g = gw.Graph()
    x = g.placeholder("x", (300,))
    with gw.Session(g, kernels="wait") as session:
        y = session.run(gw.tanh(x) * x, {"x": np.ones(300)})
        assert y[0] == pytest.approx(np.tanh(1.0))
        assert {row.what for row in session.plans[-1].kernels.of("tanh")} == {"numpy"}
    program = program_of(
        (op("tanh"), ["x", "->", "h"]), (op("mul"), ["h", "x", "->", "y"]), given=X
    )
    fused = fuse(leave(program, "y"), replaced=replaced_ops("cpu"))
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
