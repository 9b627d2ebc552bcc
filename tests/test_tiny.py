"""The smoke test: the front page, as written, in a few seconds."""

from __future__ import annotations

import numpy as np

import gradwright as gw


def test_the_front_page_runs_as_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((10, 64))
    y, yv = rng.integers(0, 10, 400), rng.integers(0, 10, 100)
    X, Xv = (centres[c] + 0.3 * rng.standard_normal((len(c), 64)) for c in (y, yv))

    g = gw.Graph("digits")
    x = g.placeholder("x", (None, 64))
    t = g.placeholder("t", (None,), dtype="int64")
    with g.scope("hidden"):
        w = g.variable("w", (64, 32), init=gw.init.he_normal(seed=0))
        b = g.variable("b", (32,))
        h = gw.nn.relu(x @ w + b)
    w2 = g.variable("w2", (32, 10), init=gw.init.xavier_uniform(seed=1))
    b2 = g.variable("b2", (10,))
    logits = h @ w2 + b2
    p = gw.nn.softmax(logits, name="p")
    loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    assert p.name == "p"

    (dw,) = gw.gradients(loss, [w])
    (ddw,) = gw.gradients(dw, [w])
    assert ddw.shape == w.shape
    np.testing.assert_allclose(g.output({"x": X[:5]}, "p")["p"].sum(axis=1), 1.0, rtol=1e-5)
    with gw.Session(g) as session:
        loss_value, dw_value = session.run([loss, dw], {"x": X, "t": y})
    assert loss_value.shape == () and dw_value.shape == (64, 32)

    report = gw.gradient_check(g, loss, {"x": X[:8], "t": y[:8]})
    assert report.passed and report.worst is not None and not report.blame
    assert "hidden/w" in str(report.table())

    trainer = gw.Trainer(
        g,
        loss,
        optimizer=gw.optim.Adam(1e-3),
        metrics={"accuracy": gw.metrics.accuracy(t, logits)},
    )
    history = trainer.fit({"x": X, "t": y}, epochs=20, batch_size=64, validation={"x": Xv, "t": yv})
    assert trainer.evaluate({"x": Xv, "t": yv})["accuracy"] > 0.95
    assert history.plot() is not None and "hidden/w" in str(g.summary())

    g.save("digits.gw")
    g2 = gw.load("digits.gw")
    np.testing.assert_array_equal(
        g2.output({"x": X[:5]}, "p")["p"], g.output({"x": X[:5]}, "p")["p"]
    )

    stepper = gw.Stepper(g, fetches=[loss, dw], feeds={"x": X[:8], "t": y[:8]})
    new = np.zeros((64, 32))
    stepper.break_at(op="matmul")
    stepper.run()
    stepper.back()
    stepper.value("hidden/w")
    stepper.edit("hidden/w", new)
    stepper.rerun()
    assert stepper.value("hidden/w").tolist() == new.tolist()
