"""The origin of a NaN or Inf inside of loops, branches, calls and composites: the node, the turn.

What makes it is put into row 2 of the data, so that it comes up in turn 2 wherever rows are taken
one by one; in the gradient, it is met in that turn of the loop's gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradientError

Make = Callable[[gw.Tensor], gw.Tensor]

FORWARD: dict[str, tuple[Make, float, float]] = {
    "log of a negative": (lambda x: gw.log(x, name="culprit"), 2.0, -1.0),
    "log of zero": (lambda x: gw.log(x, name="culprit"), 2.0, 0.0),
    "0/0": (lambda x: gw.div(x, x, name="culprit"), 2.0, 0.0),
    "1/0": (lambda x: gw.div(1.0, x, name="culprit"), 2.0, 0.0),
    "root of a negative": (lambda x: gw.sqrt(x, name="culprit"), 2.0, -1.0),
    "exp overflow": (lambda x: gw.exp(x, name="culprit"), 0.5, 200.0),
    "power of a negative": (lambda x: gw.pow(x, 0.5, name="culprit"), 2.0, -3.0),
    "square overflow": (lambda x: gw.square(x, name="culprit"), 2.0, 1e30),
    "arcsine of two": (lambda x: gw.arcsin(x, name="culprit"), 0.2, 2.0),
}
"""What makes a NaN or Inf: how, of a good number, of a bad one."""
BACKWARD: dict[str, tuple[Make, float, float]] = {
    "slope of a root at zero": (lambda x: gw.sqrt(x, name="culprit"), 2.0, 0.0),
    "slope of a power at zero": (lambda x: gw.pow(x, 0.5, name="culprit"), 2.0, 0.0),
    "slope of an arcsine at one": (lambda x: gw.arcsin(x, name="culprit"), 0.2, 1.0),
}


@gw.register("test/enclosed")
class Enclosed(gw.Op):
    """A composite around what a test puts in.

    y = make(2x) / 2
    """

    what: str = gw.attr(doc="Which maker is inside.")

    def expand(self, x: Any) -> Any:
        return MAKERS[self.what](x * 1.0) * 0.5


MAKERS = {what: make for what, (make, _, _) in (FORWARD | BACKWARD).items()}


def called(what: str, make: Make) -> Make:
    @gw.function("cell")
    def cell(x):
        return make(x) * 0.5

    return cell


def branch(what: str, make: Make) -> Make:
    def chosen(x):
        here = (x.sum() < 1e35).reshape(())
        return gw.cond(here, lambda: make(x) + 1.0, lambda: x * 0.5, name="choose")

    return chosen


def composite(what: str, make: Make) -> Make:
    return lambda x: Enclosed(what=what)(x, name="norm")


def nothing(xs: gw.Tensor) -> gw.Tensor:
    return xs.graph.constant(np.zeros(3, np.float32))


def scanned(xs: gw.Tensor, make: Make) -> gw.Tensor:
    last, ys = gw.scan(lambda c, x: (c * 0.5 + make(x), c), nothing(xs), xs, name="walk")
    return last.sum() + ys.sum()


def backwards(xs: gw.Tensor, make: Make) -> gw.Tensor:
    start = nothing(xs)
    last, _ = gw.scan(lambda c, x: (c + make(x), None), start, xs, reverse=True, name="walk")
    return last.sum()


def mapped(xs: gw.Tensor, make: Make) -> gw.Tensor:
    return gw.map_fn(make, xs, name="walk").sum()


def repeated(xs: gw.Tensor, make: Make) -> gw.Tensor:
    _, total = gw.while_loop(
        lambda c: c[0] < 4,
        lambda c: [c[0] + 1, c[1] + make(gw.gather(xs, c[0]))],
        [xs.graph.constant(np.int64(0)), nothing(xs)],
        name="walk",
    )
    return total.sum()


LOOPS = {"scan": scanned, "reverse": backwards, "map": mapped, "while": repeated}
INSIDES: dict[str, tuple[Callable[[str, Make], Make], str]] = {
    "alone": (lambda what, make: make, ""),
    "call": (called, "cell::"),
    "branch": (branch, "choose:then:"),
    "composite": (composite, "norm::"),
    "three deep": (
        lambda what, make: called(what, branch(what, composite(what, make))),
        "cell::choose:then:norm::",
    ),
}


def case(kind: tuple[Make, float, float], what: str, loop: str, inside: str) -> Any:
    make, good, bad = kind
    data = np.full((4, 3), good, np.float32)
    data[2, 1] = bad
    g = gw.Graph()
    xs = g.placeholder("xs", (4, 3))
    w = g.variable("w", (3,), init=1.0)
    with g:
        around, path = INSIDES[inside]
        loss = gw.identity(LOOPS[loop](xs * w, around(what, make)), name="loss")
    return g, loss, {"xs": data}, f"walk:2:{path}culprit"


def line(make: Make) -> str:
    return f"test_nonfinite_inside.py:{make.__code__.co_firstlineno}"


@pytest.mark.parametrize("inside", INSIDES)
@pytest.mark.parametrize("loop", LOOPS)
def test_what_makes_it_forward_is_named_with_its_turn(loop: str, inside: str) -> None:
    for what, kind in FORWARD.items():
        g, loss, feeds, expected = case(kind, what, loop, inside)
        (dw,) = gw.gradients(loss, [g["w"]])
        stepper = gw.Stepper(g, [loss, dw], feeds)
        origin = stepper.find_nonfinite()
        assert origin is not None and origin.direction == "forward", what
        assert (str(origin.address), origin.turn, origin.node.name) == (expected, 2, "culprit")
        assert all(r.is_finite for r in origin.inputs) and origin.outputs[0].size == 3
        assert sum(r.n_nan + r.n_inf for r in origin.outputs) >= 1
        assert origin.chain[0] == expected and origin.chain[-1] == "loss"
        if "overflow" not in what:  # the check is in float64
            with pytest.raises(GradientError, match=f"it begins at .*'{expected}'"):
                gw.gradient_check(g, loss, feeds)
        with np.errstate(all="ignore"):  # where that is, one can go
            assert stepper.run_to(str(origin.address)).path == expected


@pytest.mark.parametrize("inside", INSIDES)
@pytest.mark.parametrize("loop", LOOPS)
def test_what_makes_it_in_a_gradient_is_named_with_its_turn(loop: str, inside: str) -> None:
    for what, kind in BACKWARD.items():
        g, loss, feeds, expected = case(kind, what, loop, inside)
        (dw,) = gw.gradients(loss, [g["w"]])
        origin = gw.Stepper(g, [loss, dw], feeds).find_nonfinite()
        assert origin is not None and origin.direction == "backward", what
        assert origin.of == expected and origin.turn == 2, (what, origin)
        assert all(r.is_finite for r in origin.inputs)
        if inside != "composite" and inside != "three deep":  # whose nodes have no line
            assert line(kind[0]) in origin.where or "test_nonfinite_inside" in origin.where
        assert expected in str(origin) and "gradient of" in str(origin)


def test_sequences_and_optionals_are_looked_into() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    items = gw.sequence.construct(x, x * 2.0)
    logs = gw.sequence.map(lambda v: gw.log(v, name="culprit"), items)
    y = gw.sequence.at(logs, 1).sum(name="y")
    origin = gw.Stepper(g, [y], {"x": [1.0, -2.0, 3.0]}).find_nonfinite()
    assert origin is not None and origin.node.name == "culprit" and origin.turn == 0
    assert origin.outputs[0].n_nan == 1


def test_an_infinity_that_is_meant_is_no_origin_inside_either() -> None:
    """A running maximum begins at −∞, and a mask inside of a step is −∞."""
    g = gw.Graph()
    xs = g.placeholder("xs", (4, 3))

    def step(c, x):
        masked = gw.nn.softmax(x + np.array([0.0, -np.inf, 0.0], np.float32))
        return gw.maximum(c, masked), None

    low = g.constant(np.full(3, -np.inf, np.float32), name="low")
    last, _ = gw.scan(step, low, xs, name="walk")
    loss = (last * 1.0).sum(name="loss")
    assert gw.Stepper(g, [loss], {"xs": np.zeros((4, 3))}).find_nonfinite() is None
    bad = gw.log(last - 1.0, name="culprit").sum()
    origin = gw.Stepper(g, [bad], {"xs": np.zeros((4, 3))}).find_nonfinite()
    assert origin is not None and str(origin.address) == "culprit"


def test_what_is_masked_away_inside_is_not_blamed() -> None:
    """The first NaN of a turn is not the one that comes out of it."""
    g = gw.Graph()
    xs = g.placeholder("xs", (3, 2))

    def step(c, x):
        hidden = gw.where(x > 0.0, gw.log(x, name="masked"), 0.0)
        return c + hidden + gw.sqrt(x + 1.0, name="culprit"), None

    last, _ = gw.scan(step, g.constant(np.zeros(2, "f4")), xs)
    data = np.array([[1.0, 2.0], [-0.5, 1.0], [-3.0, 1.0]])
    origin = gw.Stepper(g, [last.sum(name="y")], {"xs": data}).find_nonfinite()
    assert origin is not None and str(origin.address) == "scan:2:culprit"


def test_a_loop_is_entered_no_further_than_its_first_bad_turn() -> None:
    calls = []

    def counted(x):
        calls.append(1)
        return np.log(x)

    log = gw.define_op("test/counted_log", counted, like=0)
    g = gw.Graph()
    xs = g.placeholder("xs", (50, 2))
    y = gw.map_fn(lambda x: log(x, name="culprit"), xs, name="walk").sum()
    data = np.ones((50, 2))
    data[3] = -1.0
    stepper = gw.Stepper(g, [y], {"xs": data})
    stepper.run()
    calls.clear()
    origin = stepper.find_nonfinite()
    assert origin is not None and origin.turn == 3
    assert len(calls) == 4
