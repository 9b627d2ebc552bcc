"""The stepper in loops, branches, calls and composites: addresses, turns, edits, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, LoweringError, ShapeError

XS = np.random.default_rng(0).standard_normal((3, 2)).astype("f4")
ENTER = ("scan", "while", "cond", "call", "silu")


@gw.function("cell")
def cell(c, x):
    positive = (x.sum() > 0.0).reshape(())
    return gw.cond(
        positive, lambda: gw.nn.silu(c + x, name="glow"), lambda: gw.sub(c, x, name="fall"),
        name="choose",
    )  # fmt: skip


def nested() -> tuple[gw.Graph, gw.Tensor, gw.Tensor]:
    """A call, a branch and a composite in a scan, and a while loop behind it."""
    g = gw.Graph("nested")
    xs, w = g.placeholder("xs", (None, 2)), g.variable("w", (2,), init=0.5)
    with g.scope("decoder"):
        last, _ = gw.scan(lambda c, x: (cell(c, x) * w, None), w, xs, name="walk")
    size = gw.square(last).sum() + 0.1
    high = gw.while_loop(
        lambda c: c < 10.0, lambda c: gw.mul(c, 2.5, name="grow"), size, name="climb"
    )
    loss = gw.identity(high, name="loss")
    return g, loss, gw.gradients(loss, [w])[0]


def stepper(**options: Any) -> gw.Stepper:
    g, loss, dw = nested()
    return gw.Stepper(g, fetches=[loss, dw], feeds={"xs": XS}, **options)


def walk(s: gw.Stepper) -> list[tuple[str, Any]]:
    """Go through everything, and return the addresses that were met with the values there."""
    met: list[tuple[str, Any]] = []
    while s.current is not None or s.depth:
        if s.current is None:
            s.step()
        elif s.current.op.name in ENTER and (s.frame.path(s.current), None) not in met:
            met.append((s.path, None))
            s.into()
        else:
            path, node, frame = s.path, s.current, s.frame
            s.step()
            met.append((path, frame.value(node.outputs[0])))
    return met


def test_every_address_that_is_printed_can_be_gone_to() -> None:
    met = walk(stepper())
    paths = [path for path, _ in met]
    assert len(paths) == len(set(paths)) > 40
    assert any(p.startswith("decoder/walk:2:cell::choose:") and p.count(":") == 6 for p in paths)
    ahead = stepper()
    for path, value in met:  # forwards, each from the one before
        assert ahead.run_to(path).reason == "target" and ahead.path == path
        if value is not None:
            ahead.step()
            assert np.array_equal(ahead.value(path), value)
    ahead.run()
    rng = np.random.default_rng(1)
    for i in rng.permutation(len(met)):  # and from anywhere to anywhere
        path, value = met[i]
        assert ahead.run_to(path).reason == "target" and ahead.path == path
    ahead.reset()
    ahead.run()
    for path, value in met:  # what has run can be looked at from the end
        if value is not None:
            assert ahead.is_known(path) and np.array_equal(ahead.value(path), value)


def test_results_are_the_sessions_whatever_was_entered() -> None:
    g, loss, dw = nested()
    for max_bytes in (1 << 30, 0):
        s = gw.Stepper(g, fetches=[loss, dw], feeds={"xs": XS}, max_bytes=max_bytes)
        walk(s)
        for a, b in zip(s.results(), gw.Session(g).run([loss, dw], {"xs": XS}), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def tangled() -> tuple[gw.Graph, list[gw.Tensor]]:
    """A turn without nodes, branches without nodes, a map of sequences, a scan in a while loop."""
    g = gw.Graph("tangled")
    xs, w = g.placeholder("xs", (None, 2)), g.variable("w", (2,), init=0.5)
    last, ys = gw.scan(lambda c, x: (x, c), w, xs, name="shift")
    a = gw.cond(last.sum() > 0.0, lambda: last, lambda: last * 2.0, name="pick")
    items = gw.sequence.map(lambda v: gw.nn.silu(v * w), gw.sequence.construct(a, a * 2.0))

    def body(c):
        inner, _ = gw.scan(lambda d, v: (gw.tanh(d + v), None), c[1], xs, name="inner")
        return [c[0] + 1, inner]

    start = [g.constant(np.int64(0)), gw.sequence.at(items, 1)]
    _, z = gw.while_loop(lambda c: c[0] < 3, body, start, name="outer")
    loss = gw.add((z * z).sum(), ys.sum(), name="loss")
    return g, [loss, *gw.gradients(loss, [w])]


@pytest.mark.parametrize("seed", range(10))
def test_wherever_one_wanders_the_results_are_the_sessions(seed: int) -> None:
    g, fetches = tangled()
    rng = np.random.default_rng(seed)
    s = gw.Stepper(g, fetches, {"xs": XS}, max_bytes=0 if seed % 2 else 1 << 30)
    met: list[str] = []
    for move in rng.choice(["step", "into", "back", "out", "run_to", "value"], 80):
        try:
            if move in ("run_to", "value"):
                path = met[int(rng.integers(len(met)))] if met else "loss"
                if move == "run_to":
                    assert s.run_to(path).reason == "target" and s.path == path
                elif s.is_known(path):
                    s.value(path)
            else:
                getattr(s, move)()
        except GraphError as error:
            assert any(w in str(error) for w in ("primitive", "already at", "has run")), error
        met += [s.path] if s.path else []
    s.run()
    for a, b in zip(s.results(), gw.Session(g).run(fetches, {"xs": XS}), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_what_a_turn_was_given_has_names_too() -> None:
    s = stepper()
    s.run_to("decoder/walk:2:cell")
    assert np.array_equal(s.value("carry"), s.value("decoder/walk:1:mul"))
    assert np.array_equal(s.value("decoder/walk:2:x_0"), XS[2])
    assert np.array_equal(s.value("decoder/walk:1:carry"), s.value("decoder/walk:0:mul"))
    with pytest.raises(GraphError, match="does not run here"):
        s.run_to("decoder/walk:2:carry")


def test_a_while_loop_is_entered_turn_by_turn() -> None:
    seen: list[float] = []

    def doubled(x):
        seen.append(float(x))
        return 2.0 * x

    double = gw.define_op("test/doubled", doubled, like=0)
    g = gw.Graph()
    x = g.placeholder("x", ())
    y = gw.while_loop(lambda c: c < 1e9, lambda c: double(c, name="more"), x, name="climb")
    s = gw.Stepper(g, [y], {"x": 1.0})
    s.run_to("climb")
    seen.clear()
    s.into()
    assert seen == [] and s.path == "climb:0:more"
    s.run_to("climb:3:more")
    assert seen == [1.0, 2.0, 4.0, 8.0][:3] and float(s.value("climb:2:more")) == 8.0
    s.out()
    assert float(s.value("climb")) == 2.0**30 and len(seen) == 31  # turn 2 was looked at
    ever = gw.while_loop(lambda c: c > 0.0, lambda c: double(c, name="more"), x, name="ever")
    endless = gw.Stepper(g, [ever], {"x": 1.0})
    assert endless.run_to("ever:40:more").path == "ever:40:more"  # it would never end
    assert float(endless.value("ever:39:more")) == 2.0**40


def test_steps_back_cross_turns() -> None:
    s = stepper()
    s.run_to("decoder/walk:2:mul")
    paths = [s.path]
    while s.depth:
        s.back()
        paths.append(s.path)
    assert paths == [
        "decoder/walk:2:mul", "decoder/walk:2:cell", "decoder/walk:1:mul", "decoder/walk:1:cell",
        "decoder/walk:0:mul", "decoder/walk:0:cell", "decoder/walk",
    ]  # fmt: skip


@pytest.mark.parametrize("max_bytes", [1 << 30, 0])
def test_an_edit_in_one_turn_reaches_the_turns_after_it(max_bytes: int) -> None:
    s = stepper(max_bytes=max_bytes)
    s.run()
    s.run_to("decoder/walk:1:mul")
    s.edit("cell", np.array([1.0, -2.0]))
    s.out()
    w, c = np.array([0.5, 0.5]), np.array([1.0, -2.0]) * 0.5
    x = XS[2]
    c = (c + x) / (1 + np.exp(-(c + x))) * w if x.sum() > 0 else (c - x) * w
    np.testing.assert_allclose(s.value("decoder/walk"), c, rtol=1e-5)
    s.run()
    np.testing.assert_allclose(s.value("square"), c * c, rtol=1e-5)
    s.run_to("decoder/walk:1:mul")  # from outside the loop is as the graph has it
    s.run_to("decoder/walk:2:mul")
    s.run_to("decoder/walk:1:cell")
    assert s.path == "decoder/walk:1:cell"


def test_an_edited_turn_stays_edited_while_one_goes_back_and_forth() -> None:
    s = stepper()
    s.run_to("decoder/walk:1:mul")
    s.edit("cell", np.array([9.0, 9.0]))
    s.run_to("decoder/walk:2:mul")
    assert s.value("decoder/walk:1:mul").tolist() == [4.5, 4.5] or s.back(3)
    s.run_to("decoder/walk:1:mul")
    assert s.value("cell").tolist() == [9.0, 9.0]
    s.run_to("decoder/walk:0:mul")
    s.edit("cell", np.array([0.0, 1.0]))
    s.run_to("decoder/walk:2:cell")  # on through turn 1, as it was edited
    s.run_to("decoder/walk:1:mul")
    assert s.value("cell").tolist() == [9.0, 9.0]
    with pytest.raises(GraphError, match="not in a level where we are"):
        s.run_to("climb")
        s.edit("decoder/walk:1:mul", np.zeros(2))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("decoder/walk:3:mul", "'decoder/walk' has no turn 3"),
        ("decoder/walk:1:mull", "no node inside 'decoder/walk' is called 'mull'"),
        ("decoder/walk:then:mul", "is a loop"),
        ("decoder/walks:1:mul", "no node in the graph"),
        ("climb:9:grow", "'climb' has no turn 9\n  it made"),
        ("decoder/walk:{late}:cell::choose:else:fall", "takes the branch 'then' here"),
        ("xs", "does not run here"),
    ],
)
def test_targets_that_are_not_there_are_refused(target: str, said: str) -> None:
    late = int(np.argmax(XS.sum(1) > 0))
    s = stepper()
    with pytest.raises(GraphError, match=said):
        s.run_to(target.format(late=late))
    assert s.run().reason == "end"  # and nothing is harmed


def test_a_loop_without_turns_has_nothing_inside() -> None:
    s = gw.Stepper(nested()[0], fetches=["decoder/walk"], feeds={"xs": np.zeros((0, 2))})
    s.run_to("decoder/walk")
    with pytest.raises(GraphError, match="makes no turn"):
        s.into()
    assert s.run().reason == "end"


def test_into_the_gradient_of_what_is_inside() -> None:
    late = int(np.argmax(XS.sum(1) > 0))
    s = stepper()
    stop = s.into_gradient(f"decoder/walk:{late}:cell::choose:then:glow")
    assert stop.reason == "target" and f"walk/scan:{late}:" in stop.path
    assert stop.node.origin.name == "glow" and stop.path.count(":then:") == 1
    assert "climb/scan:2:" in s.into_gradient("climb:2:grow").path
    assert s.into_gradient("decoder/walk:0:mul").node.origin.name == "mul"
    with pytest.raises(GraphError, match="no node inside"):
        s.into_gradient("climb:2:grown")
    with pytest.raises(GraphError, match="no gradient goes through 'decoder/walk:0:cell::sum'"):
        s.into_gradient("decoder/walk:0:cell::sum")


# -- breakpoints and watches -----------------------------------------------------------------------


def stops(s: gw.Stepper, **place: Any) -> list[str]:
    s.break_at(**place)
    found = []
    while (stop := s.run()).reason == "breakpoint":
        found.append(stop.path)
    assert stop.reason == "end"
    return found


def test_breakpoints_by_address() -> None:
    turns = [f"decoder/walk:{i}:mul" for i in range(3)]
    assert stops(stepper(), name="decoder/walk::mul") == turns
    assert stops(stepper(), name="decoder/walk:1:mul") == turns[1:2]
    assert set(stops(stepper(), name="decoder/walk:*:m*")) > set(turns)
    glows = stops(stepper(), name="decoder/walk::cell::choose::glow")
    positive = [i for i in range(3) if XS[i].sum() > 0]
    assert glows == [f"decoder/walk:{i}:cell::choose:then:glow" for i in positive]
    falls = stops(stepper(), scope="decoder/walk::cell::choose:else")
    assert len(falls) + len(glows) == 3
    assert stops(stepper(), op="sigmoid", scope="decoder") == [f"{path}::sigmoid" for path in glows]
    assert stops(stepper(), regex=r"walk:[12]:mul$") == turns[1:]
    above = stops(stepper(), name="climb::grow", above=2.0)
    assert above and all(p.startswith("climb:") for p in above)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"op": "matmul"}, "no node has the op 'matmul'"),
        ({"op": "sigmoid", "scope": "climb"}, "no node has the op 'sigmoid'|no node fits"),
        ({"scope": "nowhere"}, "no node is in the scope 'nowhere'"),
        ({"regex": "nowhere"}, "no node fits"),
        ({"name": "decoder/walk:3:mul"}, "has no turn 3"),
        ({"scope": "decoder/walk:3"}, "has no turn 3"),
        ({"name": "decoder/walk::mull"}, "'decoder/walk::mul'"),
        ({"name": "decoder/walk::cell::choose:else:glow"}, "no node is called"),
        ({"name": "decoder/walk::cell::greater", "nan": True}, "never is NaN"),
        ({"name": "decoder/walk::cell::greater", "above": 0.5}, "is bool"),
        ({"above": float("nan")}, "no value is above nan"),
        ({"above": float("inf")}, "no value is above inf"),
        ({"name": "loss", "when": "value[3] > 1"}, "cannot be computed"),
        ({"when": 't["nowhere"] > 1'}, "no tensor 'nowhere'"),
        ({"when": 't["decoder/walk::nowhere"] > 1'}, "called 'nowhere'"),
        ({"when": "value > t"}, "cannot be used"),
    ],
)
def test_breakpoints_that_nothing_can_fit_are_refused(place: dict[str, Any], said: str) -> None:
    s = stepper()
    with pytest.raises(GraphError, match=said):
        s.break_at(**place)
    assert s.breakpoints == [] and s.break_at("loss").number == 1


def test_a_condition_waits_for_what_it_reads() -> None:
    s = stepper()
    s.break_at("climb::grow", when='value > t["climb:0:grow"]')
    assert s.run().path == "climb:1:grow"
    s = stepper()
    b = s.break_at(when='t["loss"] > 0')
    assert s.run().node is s.graph["loss"].node and b.hits == 1


def test_watches_look_inside() -> None:
    s = stepper()
    s.watch('t["decoder/walk:1:mul"].sum()')
    s.watch('t["decoder/walk::mul"].sum()')  # of the turn where we are
    assert list(s.watches().values()) == [None, None]
    s.run_to("decoder/walk:1:cell")
    assert list(s.watches().values()) == [None, None]
    s.run_to("decoder/walk:2:mul")
    first, here = s.watches().values()
    assert first == pytest.approx(float(s.value("decoder/walk:1:mul").sum())) and here is None
    s.run()
    assert s.watches()['t["decoder/walk:1:mul"].sum()'] == pytest.approx(first)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('t["xs"][5]', "cannot be computed: index 5"),
        ('t["w"].max(axis=2)', "axis 2 is out of bounds"),
        ('t["nowhere"]', "no tensor 'nowhere'"),
        ('t["decoder/walk:7:mul"]', "has no turn 7"),
        ('t["decoder/walk:0:mul:1"]', "has 1 outputs"),
        ("value > 2", "no value of a node"),
        ('sum(t["w"], dtype=1)', "only axis and keepdims"),
    ],
)
def test_watches_that_can_have_no_value_are_refused(text: str, said: str) -> None:
    s = stepper()
    with pytest.raises(GraphError, match=said):
        s.watch(text)
    assert s.watched == []


# -- errors ----------------------------------------------------------------------------------------


def failing(inner: Any) -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph()
    xs = g.placeholder("xs", (None, 2))

    @gw.function("block")
    def block(x):
        return inner(x, name="inner") * 2.0

    with g.scope("decoder"):
        ys = gw.map_fn(
            lambda x: gw.cond(x.sum() < 1e9, lambda: block(x), lambda: x, name="choose"),
            xs,
            name="walk",
        )
    return g, ys.sum(name="loss")


def test_an_error_in_a_run_carries_its_address_and_line() -> None:
    def picky(x):
        if x.max() > 4.0:
            raise RuntimeError("too large")
        return x + 0.0

    g, loss = failing(gw.define_op("test/picky_inside", picky, like=0))
    feeds = {"xs": np.arange(6.0).reshape(3, 2)}
    said = r"'decoder/walk:2:choose:then:block::inner' \(test_stepper_inside.py:\d+\).*too large"
    with pytest.raises(LoweringError, match=said):
        gw.Session(g).run(loss, feeds)
    with pytest.raises(LoweringError, match=said):
        g.output(feeds, loss)
    s = gw.Stepper(g, [loss], feeds)
    assert s.run().reason == "error" and "too large" in str(s.last_stop)
    stop = s.run_to("decoder/walk:2:choose:then:block::inner")
    assert stop.reason == "target"
    stop = s.run()
    assert stop.reason == "error" and stop.path == "decoder/walk:2:choose:then:block::inner"
    assert "'decoder/walk:2:choose:then:block::inner'" in str(stop.error)


def test_a_shape_that_does_not_fit_in_a_turn_carries_its_address_and_line() -> None:
    g = gw.Graph()
    xs, w = g.placeholder("xs", (None, None)), g.placeholder("w", (None,))
    ys = gw.map_fn(lambda x: gw.mul(x, w, name="inner"), xs, name="walk")
    with pytest.raises(ShapeError, match=r"'walk:[0-9]*:inner' \(test_stepper_inside.py:\d+\)"):
        gw.Session(g).run(ys, {"xs": np.ones((3, 2)), "w": np.ones(5)})


def test_a_result_that_was_not_declared_stops_in_a_turn_too() -> None:
    longer = gw.define_op("test/longer_inside", lambda x: np.concatenate([x, x]), like=0)
    g, loss = failing(longer)
    feeds = {"xs": np.ones((3, 2))}
    for run in (lambda: gw.Session(g).run(loss, feeds), lambda: gw.Stepper(g, [loss], feeds).run()):
        with pytest.raises(LoweringError, match=r"inner'.*forward gave float32\[4\]"):
            run()
