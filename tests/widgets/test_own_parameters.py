"""Panels of a trainer that trains some of a graph speak of these, and of nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets import GradCheckPanel, ParameterTable, Workbench


@pytest.fixture
def pair():
    """Return a graph of two networks and a trainer of one of them, which has taken a step."""
    g = gw.Graph("gan")
    x = g.placeholder("x", (None, 3))
    for scope in ("g", "d"):
        with g.scope(scope):
            w = g.variable("w", (3, 3), init=gw.init.he_normal(seed=0))
            x = gw.tanh(gw.nn.batch_norm(x @ w, name="bn"))
    with g.scope("apart"):
        gw.nn.batch_norm(x * g.variable("w", (3,)), name="bn")
    loss = gw.mean(x**2.0, name="loss")
    trainer = gw.Trainer(g, loss, parameters=["d/*"])
    trainer.step({"x": np.random.default_rng(0).standard_normal((4, 3))})
    return g, trainer


OWN = ["d/w", "d/bn/weight", "d/bn/bias"]


def test_a_table_shows_the_parameters_and_the_state_that_its_trainer_s_steps_set(pair):
    g, trainer = pair
    table = ParameterTable(g, trainer)
    rows = {p["name"]: p["running"] for p in table.parameters}
    states = [f"{scope}/bn/running_{what}" for scope in "gd" for what in ("mean", "var")]
    assert rows == dict.fromkeys(OWN, False) | dict.fromkeys(states, True)
    assert list(rows) == [t.name for t in g.variables if t.name in rows]
    g.freeze("d/w")
    table.refresh()
    assert "d/w" in [p["name"] for p in table.parameters] and "d/w" in table.frozen
    html = table.to_html()
    assert "d/bn/weight" in html and "apart/w" not in html
    assert len(ParameterTable(g).parameters) == len(g.variables)


def test_a_table_of_what_is_gone_from_the_graph_shows_all(pair):
    g, trainer = pair
    table = ParameterTable(g, trainer)
    with g.edit() as edit:
        edit.remove(g["loss"])
    table.refresh()
    assert len(table.parameters) == len(g.variables)


def test_a_check_is_of_the_trainer_s_parameters_where_the_loss_is_its_own(pair):
    g, trainer = pair
    panel = GradCheckPanel(g, trainer)
    assert [*panel.check(wait=True).parameters] == OWN
    g.freeze("apart/*")
    other = gw.mean(g["g/tanh"] ** 2.0)
    g.freeze("d/*")
    found = GradCheckPanel(g, trainer, loss=other).check(wait=True)
    assert [*found.parameters] == ["g/w", "g/bn/weight", "g/bn/bias"]


def test_a_workbench_steps_to_and_draws_the_gradients_of_its_trainer_s_parameters(pair):
    g, trainer = pair
    bench = Workbench(g, trainer)
    fetched = [t.name for t in bench.stepper.fetches]
    assert len(fetched) == 1 + len(OWN) and fetched[0] == "loss"
    assert fetched[1:] == [t.name for t in gw.gradients(trainer.loss, trainer.parameters)]
