"""Digits that a compiled plan loses: beside known conditions, errors put in, and drawn numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradientError
from tests.support.watched import HEALTHY

EPS = float(np.finfo("f4").eps)


def test_the_condition_of_a_difference_is_that_of_theory():
    g = gw.Graph()
    a, b = g.variable("a", (), init=1.0), g.variable("b", (), init=1.0 - 2.0**-12)
    loss = gw.sub(a, b, name="apart")
    found = gw.debug.precision(g, loss)["apart"]
    assert found.condition == pytest.approx(
        (1 + 1) / 2.0**-12, rel=0.51
    )  # worst case, or one of both
    assert found.own_error == 0.0  # of two float32 so close the difference is exact (Sterbenz)
    assert found.lost == 0.0


def test_the_condition_of_a_sum_is_that_of_theory():
    x = np.array([1e4, 1.0, -1e4, 2.0, 3e3, -3e3], "f4")
    g = gw.Graph()
    w = g.variable("w", init=x)
    loss = gw.sum(w, name="total")
    found = gw.debug.precision(g, loss)
    assert found["total"].condition == pytest.approx(np.abs(x).sum() / abs(x.sum()), rel=1e-6)
    assert found.cancellations(1)[0].name == "total"


def test_what_is_lost_once_is_inherited_and_not_blamed_again():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    square = gw.mean(x * x, name="square")
    centred = gw.sub(square, gw.mean(x) ** 2.0, name="variance")
    loss = gw.log(centred * g.variable("w", (), init=2.0), name="loss")
    data = (1000.0 + np.random.default_rng(0).standard_normal(64)).astype("f4")
    session = gw.Session(g, kernels="off")
    found = gw.debug.precision(g, loss, {"x": data}, session=session)
    exact = float(np.var(data.astype("f8")))
    off = abs(float(session.run(centred, {"x": data})) - exact) / exact
    assert off > 1e-4
    assert found["variance"].error == pytest.approx(off, rel=1e-3)
    assert found["variance"].condition > 1e5
    assert found["loss"].lost > 3.0  # it gets a number without digits
    assert found["loss"].own < 1.0  # and is as good as any logarithm


def test_an_op_that_is_wrong_in_float32_is_named():
    def coarse(x):
        return np.round(np.tanh(x), 3 if x.dtype == np.float32 else 15)

    op = gw.define_op("digits/coarse", coarse, vjp=lambda g, y, x: g * (1.0 - y * y))
    g = gw.Graph()
    x = g.placeholder("x", (None, 3))
    loss = gw.mean(op(x @ g.variable("w", (3, 2), init=0.3), name="h") * 2.0, name="loss")
    found = gw.debug.precision(g, loss, {"x": np.random.default_rng(0).standard_normal((8, 3))})
    worst = found.worst(1)[0]
    assert (worst.name, worst.op) == ("h", "digits/coarse")
    assert 2.5 < worst.own < 4.5
    assert worst.where.startswith("test_digits.py")
    assert all(d.own < 1.0 for d in found if d.name != "h")


def test_gradients_belong_to_it():
    model = HEALTHY["norms"]()
    batch = model.batches()[0]
    found = gw.debug.precision(model.loss.graph, model.loss, batch, training=True)
    assert {d.is_gradient for d in found} == {True, False}
    bias = found.cancellations(1)[0]  # that of a bias before batch norm, which is zero
    assert bias.is_gradient
    assert bias.condition > 1e5
    assert bias.where
    names = [d.name for d in found]
    assert len(names) == len(set(names))
    others = [d for d in found if d.condition < 10]
    assert max(d.own for d in others) < 1.0


@pytest.mark.parametrize("name", ["random numbers", "variational autoencoder", "transformer"])
def test_numbers_that_are_drawn_are_those_of_the_plan(name):
    model = HEALTHY[name]()
    trainer = model.trainer()
    batch = model.batches()[0]
    trainer.step(batch)
    found = gw.debug.precision(
        model.loss.graph, model.loss, batch, training=True, session=trainer.session, step=4
    )
    assert max(d.error for d in found) < 1e3 * EPS
    assert max(d.own_error for d in found) < 1e2 * EPS


def test_halves_lose_no_digits_of_their_own():
    model = HEALTHY["bfloat16"]()
    trainer = model.trainer()
    batch = model.batches()[0]
    trainer.step(batch)
    loss = trainer.in_its_precision([model.loss])[0]
    found = gw.debug.precision(loss.graph, loss, batch, training=True, session=trainer.session)
    halves = [d for d in found if d.dtype == "bfloat16"]
    assert halves
    assert max(d.own for d in halves) < 0.5
    assert max(d.error for d in found) > 1e3 * EPS  # though float32 is far


def test_bits_that_fetching_changes_are_named():
    model = HEALTHY["mlp"]()
    batch = model.batches()[0]
    session = gw.Session(model.loss.graph, deterministic=True)
    found = gw.debug.precision(model.loss.graph, model.loss, batch, session=session)
    params = model.loss.graph.trainable
    alone = session.run([model.loss, *gw.gradients(model.loss, params)], batch)
    assert set(found.changed) <= {"loss", *(p.name for p in params)}
    assert all(np.isfinite(a).all() for a in alone)
    off = gw.debug.precision(
        model.loss.graph, model.loss, batch, session=gw.Session(model.loss.graph, kernels="off")
    )
    assert off.changed == ()  # numpy goes node by node either way


def test_what_is_not_finite_has_lost_everything():
    g = gw.Graph()
    w = g.variable("w", (2,), init=60.0)
    loss = gw.log(gw.sum(gw.exp(w * 2.0, name="e")), name="loss")  # float32 has no e^120
    found = gw.debug.precision(g, loss)
    assert found["e"].own_error == math.inf
    assert found["e"].own == pytest.approx(-math.log10(EPS))
    assert "e" in repr(found)


def test_tables_and_refusals():
    g = gw.Graph()
    w = g.variable("w", (3,), init=[1.0, 2.0, 3.0])
    found = gw.debug.precision(g, gw.sum(w * w, name="loss"))
    table = found.table(2)
    assert table.columns[:4] == ["node", "op", "dtype", "digits lost"]
    assert len(table.rows) == 2
    assert f"and {len(found) - 2} more" in str(table)
    assert "<table>" in found._repr_html_()
    with pytest.raises(GradientError, match="not a scalar"):
        gw.debug.precision(g, w)
