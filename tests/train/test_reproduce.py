"""Reproduced ops: scripts that call one op as a training did, run in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError, TrainingError

SOURCES = str(Path(gw.__file__).parent.parent)


def run(script):
    """Run a script as a user would, and return what it printed."""
    env = {**os.environ, "PYTHONPATH": SOURCES}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def net(callbacks, **options):
    """Return a trainer of a net whose logarithm may get numbers that it has no value for."""
    g = gw.Graph("net")
    x = g.placeholder("x", (None, 3))
    w = g.variable("w", init=np.linspace(-1, 1, 12).reshape(3, 4).astype("f4"))
    h = gw.nn.dropout(x @ w, p=0.5, name="drop")
    with g.scope("head"):
        y = gw.nn.softmax(gw.reshape(h, (-1, 2, 2)), axis=-1, name="probs")
    loss = gw.mean(gw.log(gw.sum(x, axis=-1), name="bad")) + gw.mean(y * y)
    return gw.Trainer(g, loss, callbacks=callbacks, seed=3, **options)


def data(n=8):
    return {"x": np.random.default_rng(0).uniform(0.1, 1, (n, 3)).astype("f4")}


@pytest.mark.parametrize("node", ["head/probs", "drop", "reshape"])
def test_a_chosen_node_is_called_again_as_it_was(tmp_path, node):
    reproduce = gw.train.Reproduce(tmp_path / "new", node, step=3)
    trainer = net([reproduce])
    name = trainer.graph.find(f"*{node}")[0].name
    reproduce.node = name
    before = {}

    class Before(gw.Callback):
        def wants_changes(self, trainer):
            if trainer.steps_done == 2:
                before["y"] = trainer.session.run(
                    trainer.graph[name], trainer.last_feeds, training=True, step=2
                )
            return False

    trainer.add_callback(Before())
    trainer.fit(data(), batch_size=2, progress=False)
    assert reproduce.script is not None and "/" not in reproduce.script.stem
    held = gw.load_state(reproduce.script.with_suffix(".gw"), "call")
    np.testing.assert_allclose(held["y0"], before["y"], rtol=1e-6)
    said = run(reproduce.script)
    assert said.startswith("y0: float32") and said.endswith("as in the training\n")
    assert "0 not finite" in said


def test_a_gradient_can_be_reproduced(tmp_path):
    first = net([])
    first.fit(data(), batch_size=2, steps=1, progress=False)
    name = next(n.name for n in first.graph.derived if n.op.name == "matmul")
    reproduce = gw.train.Reproduce(tmp_path, name, step=2)
    first.add_callback(reproduce)
    first.fit(data(), batch_size=2, progress=False)
    assert "as in the training" in run(reproduce.script)


def test_words_and_whole_numbers_are_the_same_to_the_bit(tmp_path):
    g = gw.Graph()
    x, w = g.placeholder("x", (None,), "int64"), g.variable("w", (), init=1.0)
    gw.equal(x, 3, name="is_three")
    reproduce = gw.train.Reproduce(tmp_path, "is_three")
    trainer = gw.Trainer(g, w * gw.mean(gw.cast(x, "float32")), callbacks=[reproduce])
    trainer.fit({"x": np.arange(5)}, progress=False)
    said = run(reproduce.script)
    assert "array_equal" in reproduce.script.read_text() and "not finite" not in said
    held = gw.load_state(reproduce.script.with_suffix(".gw"), "call")
    assert held["y0"].sum() == 1


def test_a_script_that_computes_something_else_says_so(tmp_path):
    reproduce = gw.train.Reproduce(tmp_path, "head/probs")
    net([reproduce]).fit(data(), progress=False)
    saved = reproduce.script.with_suffix(".gw")
    held = gw.load_state(saved, "call")
    gw.save(gw.load(saved), saved, state={"call": held | {"y0": held["y0"] + 0.5}})
    with pytest.raises(AssertionError, match="AssertionError: y0"):
        run(reproduce.script)


def test_the_first_node_that_is_not_finite_is_found_in_a_refused_step(tmp_path):
    fed = data()
    fed["x"][5] = -1.0  # in the second batch
    reproduce = gw.train.Reproduce(tmp_path)
    trainer = net([reproduce])
    with pytest.raises(TrainingError, match="step 2: the loss"):
        trainer.fit(fed, batch_size=4, shuffle=False, progress=False)
    assert reproduce.script.name == "bad.py"
    held = gw.load_state(reproduce.script.with_suffix(".gw"), "call")
    np.testing.assert_allclose(held["x0"], fed["x"][4:].sum(-1), rtol=1e-6)
    said = run(reproduce.script)
    assert "1 not finite" in said and "nan" in said


def test_and_in_a_skipped_one(tmp_path):
    fed = data()
    fed["x"][2] = -1.0
    reproduce = gw.train.Reproduce(tmp_path)
    trainer = net([reproduce], nonfinite="skip")
    trainer.fit(fed, batch_size=4, shuffle=False, progress=False)
    assert trainer.skipped == 1 and trainer.steps_done == 2
    held = gw.load_state(reproduce.script.with_suffix(".gw"), "call")
    np.testing.assert_allclose(held["x0"], fed["x"][:4].sum(-1), rtol=1e-6)


def test_a_feed_that_is_not_finite_has_no_op_to_reproduce(tmp_path):
    fed = data()
    fed["x"][2] = np.nan
    reproduce = gw.train.Reproduce(tmp_path)
    with pytest.raises(TrainingError, match="the data of placeholder 'x'"):
        net([reproduce]).fit(fed, progress=False)
    assert reproduce.script is None and list(tmp_path.iterdir()) == []


def test_it_changes_no_number(tmp_path):
    results = []
    for callbacks in ([], [gw.train.Reproduce(tmp_path, "drop", step=2)]):
        trainer = net(callbacks, deterministic=True)
        trainer.fit(data(), batch_size=2, epochs=2, progress=False)
        results.append(trainer.values["w"].tobytes())
    assert results[0] == results[1]


def test_a_node_that_is_not_there_is_named(tmp_path):
    with pytest.raises(GradwrightError, match="probz"):
        net([gw.train.Reproduce(tmp_path, "head/probz")]).fit(data(), progress=False)
    with pytest.raises(TrainingError, match="'w' is fed or stored"):
        net([gw.train.Reproduce(tmp_path, "w")]).fit(data(), progress=False)


def test_names_are_only_text_in_a_script(tmp_path):
    g = gw.Graph()
    name = 'a\'"""; import os  # {x} \\'
    w = g.variable("w", (2,), init=[1.0, 2.0])
    reproduce = gw.train.Reproduce(tmp_path, name)
    trainer = gw.Trainer(g, gw.exp(w, name=name).sum(), callbacks=[reproduce])
    trainer.fit([{}], progress=False)
    assert "as in the training" in run(reproduce.script)


@pytest.mark.parametrize("chosen", [False, True])
def test_a_node_in_a_turn_of_a_loop_is_called_again(tmp_path, chosen):
    g = gw.Graph()
    xs = g.placeholder("xs", (4, 3))
    w = g.variable("w", (3,), init=1.0)
    last, _ = gw.scan(lambda c, x: (c + gw.log(x * w, name="bad"), None), w, xs, name="walk")
    reproduce = gw.train.Reproduce(tmp_path, "walk:1:bad" if chosen else None)
    trainer = gw.Trainer(g, last.sum(name="loss"), callbacks=[reproduce])
    rows = np.full((4, 3), 2.0, np.float32)
    rows[2, 1] = -1.0
    with pytest.raises(TrainingError, match="not finite"):
        trainer.fit([{"xs": rows}], progress=False)
    assert reproduce.script.name == ("walk-1-bad.py" if chosen else "walk-2-bad.py")
    printed = run(reproduce.script)
    assert ("nan" in printed) is not chosen
