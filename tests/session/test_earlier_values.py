"""Values that were taken before a gradient was built serve all that run with them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError


def test_constants_that_came_later_are_the_graphs_own() -> None:
    g = gw.Graph()
    x, w = g.placeholder("x", (None,)), g.variable("w", (), init=3.0)
    loss = ((x * w) ** 2.0).mean(name="loss")
    before = g.values.snapshot()
    g.values["w"] = 100.0
    (dw,) = gw.gradients(loss, [w])
    penalty = gw.identity(loss + dw * dw * 0.5, name="penalty")  # constants in the forward, too
    feeds = {"x": [1.0, 2.0]}
    for check in (None, "replay"):
        with gw.Session(g, values=before, check=check) as session:
            np.testing.assert_allclose(session.run([loss, dw, penalty], feeds), [22.5, 15.0, 135.0])
    stepper = gw.Stepper(g, [loss, dw, penalty], feeds, values=before)
    stepper.run()
    np.testing.assert_allclose(stepper.results(), [22.5, 15.0, 135.0])
    report = gw.gradient_check(g, penalty, feeds, values=before)
    assert report.passed and report.value == pytest.approx(135.0)


def test_a_variable_that_came_later_is_named() -> None:
    g = gw.Graph()
    before = g.values.snapshot()
    w = g.variable("late", (2,), init=1.0)
    loss = (w * w).sum()
    for run in (
        lambda: gw.Stepper(g, [loss], values=before),
        lambda: gw.gradient_check(g, loss, values=before),
    ):
        with pytest.raises(
            GraphError, match=r"no variable 'late'\n  made at test_earlier_values.py"
        ):
            run()


def test_a_variable_that_has_another_name_since_is_found() -> None:
    g = gw.Graph()
    x, w = g.placeholder("x", (None,)), g.variable("w", (), init=3.0)
    loss = ((x * w) ** 2.0).mean(name="loss")
    before = g.values.snapshot()
    again, some = before.snapshot(["w"]), g.values.snapshot([])
    g.values["w"] = 100.0
    w.rename("deep/v")
    g.variable("w", (), init=50.0)
    (dw,) = gw.gradients(loss, [g["deep/v"]])
    feeds = {"x": [1.0, 2.0]}
    for values in (before, again):
        for check in (None, "replay"):
            with gw.Session(g, values=values, check=check) as session:
                np.testing.assert_allclose(session.run([loss, dw], feeds), [22.5, 15.0])
        stepper = gw.Stepper(g, [loss, dw], feeds, values=values)
        stepper.run()
        np.testing.assert_allclose(stepper.results(), [22.5, 15.0])
        assert values.version("deep/v") == 1 and "w" not in values
    assert len(some) == 0
    g.values.restore(before)
    assert (g.values["deep/v"], g.values["w"]) == (3.0, 50.0)
    with pytest.raises(GraphError, match=r"no variable 'w'(.|\n)*after they were taken"):
        gw.Session(g, values=before).run(g["w"] * loss, feeds)


@pytest.mark.parametrize("holds", [False, True])
def test_renaming_between_steps_changes_no_bit(holds: bool) -> None:
    found = []
    for renames in (False, True):
        g = gw.Graph()
        x, w = (
            g.placeholder("x", (None, 8)),
            g.variable("w", (8, 8), init=gw.init.he_normal(seed=0)),
        )
        loss = gw.mean(gw.tanh(x @ w) ** 2.0)
        trainer = gw.Trainer(g, loss, gw.optim.Adam(0.1), deterministic=True)
        held, versions = [], []
        for number in range(6):
            if renames and number == 3:
                w.rename("v")
            if holds:
                held.append(trainer.values[w.name])  # a step then writes new arrays
            trainer.step({"x": np.random.default_rng(number).standard_normal((4, 8))})
            versions.append(g.values.version(w.name))
        found.append([g.values[w.name].tobytes(), [a.tobytes() for a in held]])
        assert versions == sorted(versions) and versions[-1] > versions[2] and ("w" in g) != renames
    assert found[0] == found[1]


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("change", ["dtype", "shape"])
def test_a_variable_that_is_another_since_is_refused(change: str, kernels: str) -> None:
    g = gw.Graph()
    y = gw.exp(g.variable("w", (64,), init=1.0))
    before = g.values.snapshot()
    with gw.Session(g, values=before, kernels=kernels) as session:
        session.run(y, {})
        if change == "dtype":
            g.convert({"w": "float64"})
        else:
            with g.edit() as edit:
                edit.remove(y, g["w"])
            y = gw.exp(g.variable("w", (4000,), init=2.0))
        message = rf"'w' is {re.escape(str(g['w'].spec))}, and was f32\[64\](.|\n)*snapshot"
        for check in (None, "replay"):
            session.check = check
            with pytest.raises(GraphError, match=message):
                session.run(y, {})
        assert before["w"].tolist() == [1.0] * 64
    with pytest.raises(GraphError, match=message):
        gw.Stepper(g, [y], values=before)
    with gw.Session(g) as session:
        assert session.run(y, {}).dtype == y.dtype
