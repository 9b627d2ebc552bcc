"""Saved activations: what a step computed, and where two trainings begin to differ."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError


def net(callbacks, *, slope=1.0, dtype="float32", rate=0.1, **options):
    g = gw.Graph("net")
    x = g.placeholder("x", (None, 3), dtype)
    w = g.variable("w", init=np.linspace(-1, 1, 12).reshape(3, 4).astype(dtype))
    h = gw.nn.dropout(gw.tanh(x @ w, name="h"), p=0.5, name="drop")
    y = gw.identity(h * slope, name="y")
    loss = gw.mean(y * y, name="loss")
    options.setdefault("optimizer", gw.optim.SGD(rate))
    return gw.Trainer(g, loss, callbacks=callbacks, deterministic=True, **options)


def data(n=8):
    return {"x": np.random.default_rng(0).standard_normal((n, 3)).astype("f4")}


def saved(folder, steps=(1, 2, 3), nodes=None, gradients=False, **options):
    save = gw.train.SaveActivations(folder, nodes, steps, gradients=gradients)
    trainer = net([save], **options)
    trainer.fit(data(), batch_size=2, shuffle=False, progress=False)
    return trainer


def test_activations_are_those_of_the_step_before_it_is_taken(tmp_path):
    saved(tmp_path, gradients=True)
    trainer = net([])
    w = trainer.graph["w"]
    for step in (1, 2, 3):
        held = gw.train.load_activations(tmp_path, step)
        assert list(held) == ["matmul", "h", "drop", "mul", "y", "mul_1", "loss", "gradient/w"]
        before = trainer.values["w"].copy()
        x = data()["x"][2 * step - 2 : 2 * step]
        np.testing.assert_allclose(held["matmul"], x @ before, rtol=1e-5)
        record = trainer.step({"x": x})
        assert held["loss"] == np.float32(record.metrics["loss"])
        moved = before - 0.1 * held["gradient/w"]
        np.testing.assert_allclose(trainer.values[w.name], moved, rtol=1e-5, atol=1e-7)


def test_saving_changes_no_number(tmp_path):
    trainer, plain = saved(tmp_path), net([])
    plain.fit(data(), batch_size=2, shuffle=False, progress=False)
    assert trainer.values["w"].tobytes() == plain.values["w"].tobytes()
    losses = [t.history.steps["loss"].tobytes() for t in (trainer, plain)]
    assert losses[0] == losses[1]


def test_patterns_choose_nodes_in_the_order_of_the_graph(tmp_path):
    saved(tmp_path, [2], ["y", "d*"])
    names = list(gw.train.load_activations(tmp_path, 2))
    assert names == ["drop", "drop:1", "y"]  # with the mask of the dropout
    with pytest.raises(TrainingError, match=r"no activations of step 1") as caught:
        gw.train.load_activations(tmp_path, 1)
    assert caught.value.facts == ["it has those of 2"]
    with pytest.raises(TrainingError, match="no tensor is called 'z'"):
        saved(tmp_path, [1], ["z"])


def test_narrow_and_complex_numbers_and_words_come_back_as_they_were(tmp_path):
    g = gw.Graph()
    w = g.variable("w", (3,), init=[1.0, 2.0, 3.0])
    gw.cast(w, "bfloat16", name="narrow")
    gw.cast(w, "complex64", name="complex")
    save = gw.train.SaveActivations(tmp_path, ["narrow", "complex"])
    gw.Trainer(g, w.sum(), callbacks=[save]).fit([{}], progress=False)
    held = gw.train.load_activations(tmp_path, 1)
    assert [str(a.dtype) for a in held.values()] == ["bfloat16", "complex64"]
    assert held["complex"].tolist() == [1, 2, 3] == held["narrow"].astype("f4").tolist()
    assert repr(gw.train.compare_activations(tmp_path, tmp_path)) == "<2 activations agree>"


def test_the_first_node_that_differs_is_named_in_the_order_of_the_graph(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    saved(one)
    saved(two, slope=1.001)
    found = gw.train.compare_activations(one, two)
    first = found.first
    assert (first.step, first.name, first.op) == (1, "mul", "mul")
    a, b = (gw.train.load_activations(f, 1)["mul"].astype("f8") for f in (one, two))
    assert first.largest == np.abs(a - b).max()
    assert first.relative == np.abs(a - b).max() / np.abs(a).max()
    assert "test_activations.py" in first.where
    table = found.table()
    assert table.rows[0][:2] == ["1", "mul"] and "'mul'" in repr(found)
    assert len(found.plot().data) == 3
    assert "<table>" in found._repr_html_()


def test_tolerances_decide_what_is_close(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    saved(one, [1])
    saved(two, [1], slope=1.001)
    assert gw.train.compare_activations(one, two, rtol=0.01).first is None
    assert gw.train.compare_activations(one, two, atol=1e-6).first.name == "mul"
    assert gw.train.compare_activations(one, two, atol=1.0).first is None


def test_a_difference_in_the_update_appears_in_the_step_after(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    saved(one)
    saved(two, rate=0.2)
    first = gw.train.compare_activations(one, two).first
    assert (first.step, first.name) == (2, "matmul")


def test_nan_is_nan_and_inf_is_inf(tmp_path):
    def write(folder, x):
        g = gw.Graph()
        p = g.placeholder("p", (4,))
        w = g.variable("w", (), init=1.0)
        gw.identity(p, name="y")
        save = gw.train.SaveActivations(folder, ["y"])
        gw.Trainer(g, w * w, callbacks=[save]).session.run("y", {"p": x})
        trainer = gw.Trainer(g, w * w + 0.0 * gw.sum(p), nonfinite="skip", callbacks=[save])
        trainer.fit([{"p": np.array(x, "f4")}], progress=False)
        return folder

    nan, inf = np.nan, np.inf
    one = write(tmp_path / "1", [1, nan, inf, -inf])
    same = write(tmp_path / "2", [1, nan, inf, -inf])
    other = write(tmp_path / "3", [1, 0, inf, inf])
    assert gw.train.compare_activations(one, same).first is None
    found = gw.train.compare_activations(one, other, atol=10.0)
    assert found.first.largest == inf


def test_shapes_and_dtypes_and_nodes_that_differ_are_told(tmp_path):
    one, two, three = (tmp_path / n for n in ("one", "two", "three"))
    saved(one, [1], ["h", "y"])
    saved(two, [1], ["h"])
    saved(three, [1], ["h", "y"], dtype="float64")
    missing = gw.train.compare_activations(one, two).first
    assert (missing.name, missing.note) == ("y", "only the first has it")
    typed = gw.train.compare_activations(one, three).first
    assert (typed.name, typed.note) == ("h", "float32[2, 4] and float64[2, 4]")
    with pytest.raises(TrainingError, match="no step is in both"):
        gw.train.compare_activations(one, tmp_path / "nothing")
