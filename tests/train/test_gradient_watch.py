"""GradientWatch: a wrong rule is named in the midst of a training, and none else is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.check.judging import Comparison
from gradwright.debug.check.local import InputCheck
from gradwright.debug.live import watch as live
from tests.support.watched import HEALTHY, SMALL, bend, bent, dense, each_step, fit, weight

pytestmark = pytest.mark.filterwarnings("ignore:step [0-9]+. .* is wrong:UserWarning")


# -- who is named, and who is not ------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_it_is_named_at_the_next_step_in_any_model(name):
    op = bend()
    model = SMALL[name](lambda h: op(h, 0.0))
    watch = each_step()
    trainer = model.trainer(watch)
    fit(trainer, model.batches())
    assert watch.alarm is None
    bend(factor=1.001)
    fit(trainer, model.batches(), steps=1)
    assert (watch.alarm.step, watch.alarm.op) == (9, "watching/bend")
    assert [p.verdict for p in watch.points if p.step == 9] == ["fail"]


def test_an_op_that_is_defined_anew_is_looked_at_first():
    model, batches, _ = bent()
    watch = each_step()
    trainer = model.trainer(watch)
    fit(trainer, batches)
    assert watch.alarm is None
    bend(factor=0.5)
    fit(trainer, batches, steps=1)
    alarm = watch.alarm
    assert (alarm.step, alarm.address, alarm.op) == (9, "bend", "watching/bend")
    assert "its vjp for x is 0.5 times what it should be" in alarm.text
    assert alarm.where.startswith("watched.py")  # where the op was applied
    assert [p.verdict for p in watch.points if p.step == 9] == ["fail"]


def test_the_step_takes_the_gradient_of_an_op_that_is_defined_anew():
    square = gw.define_op("watching/square", lambda x: x * x, vjp=lambda g, y, x: 2.0 * g * x)
    g = gw.Graph()
    loss = square(g.variable("w", (), init=3.0))
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.0))
    assert trainer.step({}).metrics["grad_norm"] == 6.0
    gw.define_op("watching/square", lambda x: x * x, vjp=lambda g, y, x: 10.0 * g * x)
    assert trainer.step({}).metrics["grad_norm"] == 30.0


def test_a_rule_that_is_wrong_for_some_values_is_named_within_a_turn():
    model, batches, late = bent()
    watch = each_step()
    trainer = model.trainer(watch)
    fit(trainer, batches, epochs=3)
    assert watch.alarm is None
    late[...] = 0.5
    turn = len(model.loss.graph.nodes) + 3  # a direction and two elements
    fit(trainer, batches, epochs=9, steps=2 * turn)
    assert watch.alarm.address == "bend"
    assert watch.alarm.step <= 24 + 2 * turn


@pytest.mark.parametrize("name", HEALTHY)
def test_nobody_is_named_without_a_cause(name):
    model = HEALTHY[name]()
    watch = each_step(precision=True)
    trainer = model.trainer(watch)
    fit(trainer, model.batches(n=4), epochs=4)
    assert watch.alarms == ()
    assert not [p for p in watch.points if p.above]
    assert len(watch.points) == trainer.steps_done


def test_every_node_has_its_turn_before_one_comes_again():
    model = HEALTHY["norms"]()
    watch = each_step()
    trainer = model.trainer(watch)
    fit(trainer, model.batches(), epochs=8)
    nodes = [p.name for p in watch.points if p.kind == "node"]
    turn = len(set(nodes))
    assert turn == 10
    for start in range(0, len(nodes) - turn, turn):
        assert len(set(nodes[start : start + turn])) == turn
    elements = {p.name for p in watch.points if p.kind == "element"}
    assert len(elements) >= 3
    assert watch.cost.rounds >= 3


def test_an_error_that_a_second_look_does_not_find_is_no_alarm(monkeypatch):
    once = []

    def first_time(name, fake):
        real = getattr(live, name)

        def call(*args, **options):
            if name in once:
                return real(*args, **options)
            once.append(name)
            return fake(real(*args, **options))

        monkeypatch.setattr(live, name, call)

    wrong = Comparison("fail", 1.0, 2.0, 0.1)
    first_time("glance", lambda found: iter([wrong]))
    first_time("check_node", lambda found: replace(found, verdict="fail"))
    real = live.LocalCheck.run

    def run(check, *args, **options):
        return real(check, *args, **options) if "run" in once else once.append("run") or FAILED

    monkeypatch.setattr(live.LocalCheck, "run", run)
    model = dense(gw.tanh)
    watch = each_step()
    fit(model.trainer(watch), model.batches(), steps=1)
    assert once == ["glance", "run", "check_node"]
    assert watch.alarms == ()
    assert [p.verdict for p in watch.points] == ["unclear"]


FAILED = "fail", "once", (InputCheck("x", Comparison("fail", 1.0, 2.0, 0.1)),)


def test_a_gradient_that_is_joined_wrongly_is_named_by_its_parameter(monkeypatch):
    from gradwright.debug.live import program

    real = program.gradients

    def doubled(loss, wrt):
        return [2.0 * g if p.name == "v" else g for p, g in zip(wrt, real(loss, wrt), strict=True)]

    monkeypatch.setattr(program, "gradients", doubled)
    model = dense(gw.tanh)
    watch = each_step()
    trainer = model.trainer(watch)
    fit(trainer, model.batches(), epochs=20)
    assert [a.address for a in watch.alarms] == ["v"]
    assert "though every op's own vjp is right" in watch.alarm.text
    verdicts = [p.verdict for p in watch.points if p.name == "v"]
    assert verdicts[0] == "unclear"  # of one look, before the nodes had their turn
    assert "fail" in verdicts
    others = [p for p in watch.points if p.name in ("w", "b") and p.kind == "element"]
    assert all(p.verdict == "ok" for p in others)
    assert {p.name for p in others if p.step > watch.alarm.step} == {"w", "b"}  # have their turns


def test_what_inherits_an_error_is_not_named():
    model, batches, _ = bent(factor=3.0)
    watch = each_step()
    fit(model.trainer(watch), batches, epochs=9)
    assert [a.address for a in watch.alarms] == ["bend"]
    assert {p.name for p in watch.points if p.kind == "element" and p.verdict != "ok"}


def test_values_that_are_no_numbers_are_no_alarm():
    g = gw.Graph()
    w = g.variable("w", (3,), init=1.0)
    loss = gw.sum(gw.log(w, name="log") * 2.0, name="loss")
    watch = each_step()
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(9.0), nonfinite="skip", callbacks=[watch])
    fit(trainer, [{}] * 20)
    assert np.isnan(g.values["w"]).any() or trainer.skipped
    assert watch.alarms == ()
    assert {p.verdict for p in watch.points} <= {"ok", "unclear"}


def inside(place):
    """Return a training with a user's op inside of something, and where it is."""
    op = bend()
    g = gw.Graph(place)
    x, t = g.placeholder("x", (None, 6, 3)), g.placeholder("t", (None, 4))
    with g:
        w, u = weight("w", 3, 4), weight("u", 4, 4)
        first = x[:, 0] @ w
        if place == "scan":

            def turn(h, now):
                h = op(now @ w + h @ u, 0.0)
                return h, None

            h, _ = gw.scan(turn, gw.zeros_like(first), gw.transpose(x, (1, 0, 2)), name="scan")
        elif place == "cond":
            h = gw.cond(
                gw.sum(x) < 1e9, lambda: op(first, 0.0) @ u, lambda: gw.tanh(first), name="cond"
            )
        else:
            h = gw.function("call")(lambda v: op(v @ u, 0.0))(first)
        loss = gw.mean((h - t) ** 2.0, name="loss")
    rng = np.random.default_rng(0)
    batch = {
        "x": rng.standard_normal((8, 6, 3)).astype("f4"),
        "t": rng.standard_normal((8, 4)).astype("f4"),
    }
    return loss, [batch] * 8


@pytest.mark.parametrize(
    ("place", "address"),
    [("scan", "scan::bend"), ("cond", "cond:then:bend"), ("call", "call::bend")],
)
def test_an_op_inside_of_something_is_named_by_its_address(place, address):
    loss, batches = inside(place)
    watch = each_step()
    trainer = gw.Trainer(loss.graph, loss, callbacks=[watch])
    fit(trainer, batches, epochs=2)
    assert watch.alarms == ()
    bend(factor=0.5)
    fit(trainer, batches, steps=1)
    assert [a.address for a in watch.alarms] == [address]
    assert watch.alarm.op == "watching/bend"
    assert watch.alarm.nodes == (place,)


def test_a_gradient_that_has_lost_its_digits_is_no_alarm():
    g = gw.Graph()
    w = g.variable("w", (3,), init=[1e-10, 2e-10, -1e-10])
    ratio = (gw.exp(w) - 1.0) / w  # the slope at 0 is 1/2, and 1/w² times a rounding
    loss = gw.sum(ratio * g.variable("v", (3,), init=1.0), name="loss")
    watch = each_step()
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.0), callbacks=[watch])
    fit(trainer, [{}] * 60)
    assert {p.name for p in watch.points if p.kind == "element"} == {"w", "v"}
    assert watch.alarms == ()


def test_complex_and_scalar_parameters_are_looked_at():
    g = gw.Graph()
    z = g.variable("z", init=np.array([1.0 + 2.0j, -0.5j], "c8"))
    s = g.variable("s", (), init=0.5)
    loss = gw.add(gw.sum(gw.abs(z * z)), s * s, name="loss")
    watch = each_step()
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(1e-3), callbacks=[watch])
    fit(trainer, [{}] * 40)
    seen = {p.name: p.verdict for p in watch.points if p.kind == "element"}
    assert seen == {"z": "ok", "s": "ok"}


def test_nobody_is_named_where_a_loss_has_come_to_its_rounding():
    model = HEALTHY["mlp"]()
    history = fit(model.trainer(), model.batches(), epochs=10**6, steps=20_000)
    assert history.steps["loss"][-1] < 1e-6
    trainer = model.trainer(watch := each_step())
    fit(trainer, model.batches(), epochs=10**6, steps=400)
    assert {p.kind for p in watch.points} == {"node", "element"} and watch.alarms == ()
