"""What a loop only adds up is computed once behind it: values, gradients, what stays in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.ops.control.scan_op import Scan

RNG = np.random.default_rng(0)
WORDS, INPUTS, CELLS = 40, 6, 8
WEIGHTS = {
    "table": RNG.standard_normal((WORDS, INPUTS)),
    "w": RNG.standard_normal((INPUTS + CELLS, 3 * CELLS)) / 3,
    "b": RNG.standard_normal(3 * CELLS),
    "turned": RNG.standard_normal((CELLS, CELLS)) / 3,
}


def fed(turns: int, rows: int) -> dict[str, Any]:
    """Return words, of which some come twice, and which rows go on."""
    rng = np.random.default_rng(turns)
    return {
        "words": rng.integers(0, WORDS, (turns, rows)),
        "mask": rng.integers(0, 2, (turns, rows, 1)).astype(np.float64),
    }


def ragged(how: str) -> tuple[gw.Tensor, list[gw.Tensor]]:
    """Return the loss of a recurrent net that looks words up at each turn, and its weights."""
    g = gw.Graph()
    w = {name: g.variable(name, init=value) for name, value in WEIGHTS.items()}
    words = g.placeholder("words", ("T", "B"), "int64")
    mask = g.placeholder("mask", ("T", "B", 1), "float64")

    def step(c: gw.Tensor, given: Any) -> Any:
        now, goes = given
        if how == "plain":
            x = gw.concat([gw.gather(w["table"], now), c], axis=1)
            u = x @ w["w"] + w["b"]
        else:
            x = gw.concat([gw.nn.embedding(now, w["table"]), c], axis=1)
            u = gw.nn.linear(x, w["w"], w["b"])
        i, f, o = gw.split(u, 3, axis=1)
        new = gw.nn.sigmoid(i) * gw.tanh(f @ w["turned"].T) + c * gw.nn.sigmoid(o)
        return c + goes * (new - c), new

    start = gw.zeros_like(gw.gather(w["table"], words[0])[:, :1]) + g.constant(np.zeros(CELLS))
    c, ys = gw.scan(step, start, (words, mask), reverse=how == "reverse")
    return (c**2.0).sum() + (ys**2.0).mean(), list(w.values())


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("how", ["plain", "layers", "reverse"])
def test_gradients_are_those_that_the_turns_add_up(how: str, kernels: Any) -> None:
    loss, weights = ragged(how)
    first = gw.gradients(loss, weights)
    found = []
    for skip in ((), ("sum_behind",)):
        with gw.Session(loss.graph, kernels=kernels, skip_rewrites=skip) as session:
            found.append(session.run([loss, *first], fed(7, 2)))
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-11, 1e-13)


def carries(targets: list[gw.Tensor], **sizes: Any) -> list[int]:
    """Return how many carries the loops of a plan have."""
    plan = gw.Session(targets[0].graph, kernels="off").plan(targets, sizes)
    return [i.op.n_carry for i in plan.program.instrs if isinstance(i.op, Scan)]


def test_matrices_and_tables_leave_the_loop_where_rows_are_few() -> None:
    """Behind it are the large ones; of 400 rows more would be kept than W has elements."""
    loss, weights = ragged("layers")
    grads = gw.gradients(loss, weights)
    assert carries([loss, *grads], words=(7, 2), mask=(7, 2, 1)) == [1, 1]
    assert carries([loss, *grads], words=(7, 400), mask=(7, 400, 1)) == [1, 5]


def test_second_gradients_are_right() -> None:
    loss, weights = ragged("plain")
    first = gw.gradients(loss, weights)
    second = gw.gradients(sum(((g * g).sum() for g in first[2:]), (first[1] ** 2.0).sum()), weights)
    found = [
        gw.Session(loss.graph, kernels="off", skip_rewrites=skip).run(second, fed(3, 2))
        for skip in ((), ("sum_behind",))
    ]
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-10, 1e-12)


def test_other_lengths_and_rows_are_right_in_one_session() -> None:
    """No turns add nothing; many rows stay inside; further shapes fill a template."""
    loss, weights = ragged("layers")
    grads = gw.gradients(loss, weights)
    session = gw.Session(loss.graph, kernels="off")
    plain = gw.Session(loss.graph, kernels="off", skip_rewrites=("sum_behind",))
    for turns, rows in ((4, 2), (5, 3), (6, 2), (3, 40), (1, 1), (9, 4)):
        given = fed(turns, rows)
        for mine, theirs in zip(session.run(grads, given), plain.run(grads, given), strict=True):
            np.testing.assert_allclose(mine, theirs, 1e-11, 1e-13)


def test_outer_products_of_single_rows_are_one_product() -> None:
    g = gw.Graph()
    w, x = g.variable("w", init=WEIGHTS["turned"]), g.placeholder("x", (9, CELLS), "float64")
    c, _ = gw.scan(lambda c, t: (gw.tanh(c @ w + t), ()), g.constant(np.zeros(CELLS)), x)
    (grad,) = gw.gradients((c * c).sum(), [w])
    assert carries([grad], x=(9, CELLS)) == [1, 1]
    xs = {"x": RNG.standard_normal((9, CELLS))}
    plain = gw.Session(g, kernels="off", skip_rewrites=("sum_behind",)).run(grad, xs)
    np.testing.assert_allclose(gw.Session(g, kernels="off").run(grad, xs), plain, 1e-12, 1e-14)


def test_a_sum_that_is_read_inside_stays() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (5, 2, 6), "float64")
    start = g.constant(np.ones((6, 6)))
    s, seen = gw.scan(lambda s, t: (s + t.T @ t, s[0]), start, x)
    total, _ = gw.scan(lambda s, t: (s + t.T @ t, ()), start, x)
    assert carries([s, seen], x=(5, 2, 6)) == [1]
    assert carries([total], x=(5, 2, 6)) == []
    xs = RNG.standard_normal((5, 2, 6))
    a, b = gw.Session(g).run([s, total], {"x": xs})
    np.testing.assert_allclose(a, b, 1e-12)
    np.testing.assert_allclose(b, 1 + np.einsum("tbi,tbj->ij", xs, xs), 1e-12)
    none = gw.Graph()
    x = none.placeholder("x", (None, 2, 6), "float64")
    total, _ = gw.scan(lambda s, t: (s + t.T @ t, ()), none.constant(np.ones((6, 6))), x)
    assert (gw.Session(none).run(total, {"x": xs[:0]}) == 1).all()
