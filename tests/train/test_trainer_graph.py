"""What a trainer keeps in its graph: frozen parameters, optimizer state, the graph's updates."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, TrainingError
from tests.support.lines import line, rows

# -- freezing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [gw.optim.SGD(0.1, momentum=0.9), gw.optim.AdamW(0.1)])
def test_frozen_parameters_stay_bit_for_bit(optimizer):
    trainer = line(optimizer=optimizer)
    trainer.fit(rows(), batch_size=8, progress=False)
    trainer.graph.freeze("w")
    held, other = trainer.values["w"].tobytes(), trainer.values["b"].item()
    trainer.fit(rows(), batch_size=8, progress=False)
    assert trainer.values["w"].tobytes() == held
    assert trainer.values["b"] != other
    assert [t.name for t in trainer.parameters] == ["b"]


def test_freezing_counts_from_the_next_step_of_a_running_fit():
    class Freeze(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 2:
                trainer.graph["w"].trainable = False
            if record.step == 4:
                trainer.graph.unfreeze("w")
            seen.append(trainer.values["w"].tobytes())

    seen = []
    line(callbacks=[Freeze()]).fit(rows(), epochs=2, batch_size=8, progress=False)
    assert len(seen) == 6
    assert seen[1] == seen[2] == seen[3]
    assert len(set(seen)) == 4


def test_a_parameter_unfrozen_late_starts_its_own_count():
    """Adam's first step is lr·sign(g); with the run's step count it would be three times that."""
    trainer = line(optimizer=gw.optim.Adam(0.01))
    trainer.graph.freeze("b")
    trainer.fit(rows(), epochs=300, batch_size=20, progress=False)
    trainer.graph.unfreeze("b")
    before = trainer.values["b"].item()
    trainer.step(rows(seed=9))
    assert abs(trainer.values["b"].item() - before) == pytest.approx(0.01, rel=1e-4)
    state = trainer.state_dict()
    assert (state["state/w/step"], state["state/b/step"]) == (301, 1)
    trainer.step(rows(seed=9))
    state = trainer.state_dict()
    assert (state["state/w/step"], state["state/b/step"]) == (302, 2)


def test_freezing_needs_no_new_gradients():
    trainer = line()
    trainer.step(rows())
    gradient_nodes = [n.name for n in trainer.graph.derived if n.name.startswith("grad/")]
    for _ in range(3):
        trainer.graph.freeze("w")
        trainer.step(rows())
        trainer.graph.unfreeze("w")
        trainer.step(rows())
    derived = [n.name for n in trainer.graph.derived]
    assert [n for n in derived if n.startswith("grad/")] == gradient_nodes
    assert len([n for n in derived if n.startswith("optimizer/")]) < 20


def test_two_trainers_share_a_graph():
    g = gw.Graph()
    a, b = g.variable("a", (), init=1.0), g.variable("b", (), init=1.0)
    first = gw.Trainer(g, a * b, optimizer=gw.optim.Adam(0.1), parameters=["a"])
    second = gw.Trainer(g, a * b, optimizer=gw.optim.Adam(0.1), parameters=[b])
    both = gw.Trainer(g, a * b, optimizer=gw.optim.SGD(0.0, momentum=0.5))
    for _ in range(2):
        first.step({}), second.step({}), both.step({})
    np.testing.assert_allclose([g.values["a"], g.values["b"]], 0.8, 1e-3)
    scopes = {n.name.partition("/")[0] for n in g.derived} - {"grad"}
    assert scopes == {"optimizer", "optimizer_1", "optimizer_2"}


# -- state in the graph ----------------------------------------------------------------------------


def test_optimizer_state_is_derived_and_out_of_sight():
    trainer = line(optimizer=gw.optim.Adam())
    summary = trainer.graph.summary()
    trainer.step(rows())
    g = trainer.graph
    assert [t.name for t in g.variables] == ["w", "b"]
    assert [t.name for t in g.placeholders] == ["x", "t"]
    assert "optimizer/w/m" in g
    assert g["optimizer/w/m"].kind == "variable"
    assert not g["optimizer/w/m"].trainable
    assert not [line for line in g.summary().splitlines() if "optimizer" in line]
    assert g.summary().splitlines()[:-1] == summary.splitlines()[:-1]
    g.unfreeze()
    assert [t.name for t in g.trainable] == ["w", "b"]


def test_an_edit_keeps_optimizer_state():
    edited, plain = (line(optimizer=gw.optim.Adam(0.1), deterministic=True) for _ in range(2))
    for trainer in (edited, plain):
        trainer.fit(rows(), batch_size=8, progress=False)
    with edited.graph.edit() as e:
        e.insert_after(edited.graph["x"], lambda t: t * 1.0)
    for trainer in (edited, plain):
        trainer.fit(rows(), batch_size=8, progress=False)
    for name in ("w", "b", "optimizer/w/m", "optimizer/w/v", "optimizer/step"):
        np.testing.assert_array_equal(edited.values[name], plain.values[name])


def test_cells_that_run_again_keep_training_alive():
    g = gw.Graph()

    def model(width):
        x, t = g.placeholder("x", (None, 3)), g.placeholder("t", (None,))
        w = g.variable("w", (3,), init=1.0)
        b = g.variable("b", (width,))
        return gw.mean((x @ w + gw.mean(b) - t) ** 2.0, name="loss")

    with g.cell("model"):
        loss = model(1)
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(0.01))
    for _ in range(2):
        with g.cell("fit"):
            trainer.fit(rows(), batch_size=8, progress=False)
    moments = trainer.values["optimizer/w/m"]
    with g.cell("model"):
        model(2)
    with g.cell("fit"):
        trainer.fit(rows(), batch_size=8, progress=False)
    assert trainer.state_dict()["state/w/step"] == 9
    assert trainer.values["optimizer/b/m"].shape == (2,)
    assert not np.array_equal(trainer.values["optimizer/w/m"], moments)


def test_a_loss_whose_name_now_means_something_else_is_not_trained():
    g = gw.Graph()
    with g.cell("model"):
        w = g.variable("w", (), init=1.0)
        loss = gw.exp(w)
    trainer = gw.Trainer(g, loss)
    with g.cell("model"):
        w = g.variable("w", (), init=1.0)
        _, other = gw.exp(w * 2.0), gw.exp(w)
    assert other.name == "exp_1"
    with pytest.raises(GraphError, match="no longer in the graph"):
        trainer.step({})


def test_a_new_trainer_starts_afresh_and_takes_the_place_of_one_that_is_gone():
    first = line(optimizer=gw.optim.Adam(0.01))
    g = first.graph
    first.fit(rows(), progress=False)
    second = gw.Trainer(g, "loss", optimizer=gw.optim.Adam(0.01))
    second.step(rows())
    assert second.state_dict()["state/w/step"] == 1
    assert first.state_dict()["state/w/step"] == 1
    assert "optimizer_1/w/m" in g
    del first
    gc.collect()
    third = gw.Trainer(g, "loss", optimizer=gw.optim.SGD(0.01, momentum=0.5))
    third.step(rows())
    assert "optimizer/w/velocity" in g
    assert "optimizer/w/m" not in g
    assert "optimizer_1/w/m" in g


def test_a_session_with_its_own_values_trains_those():
    trainer = line()
    g = trainer.graph
    session = gw.Session(g, values=g.values.snapshot())
    apart = gw.Trainer(g, "loss", optimizer=gw.optim.Adam(0.1), session=session)
    before = g.values["w"].tobytes()
    apart.fit(rows(), batch_size=8, progress=False)
    assert g.values["w"].tobytes() == before
    assert session.values["w"].tobytes() != before


def test_the_guard_device_trains_to_the_same_numbers():
    found = []
    for device in ("cpu", "guard"):
        trainer = line(optimizer=gw.optim.AdamW(0.1), clip_norm=1.0, device=device)
        trainer.fit(rows(), batch_size=8, progress=False)
        found.append(trainer.values["w"].tolist())
    assert found[0] == found[1]


# -- updates of the graph --------------------------------------------------------------------------


def normalised(**options):
    """Return a trainer of a net with a running mean that each step updates."""
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    w = g.variable("w", (), init=1.0)
    mean = g.variable("mean", (), trainable=False)
    g.update(mean, mean * 0.5 + gw.mean(x) * 0.5)
    return gw.Trainer(g, gw.mean(x * w, name="loss"), **options)


def test_the_graph_s_own_updates_are_part_of_a_step():
    trainer = normalised(optimizer=gw.optim.SGD(0.1))
    trainer.fit({"x": np.full(8, 2.0)}, batch_size=4, progress=False)
    assert trainer.values["mean"] == 1.5
    trainer.evaluate({"x": np.zeros(3)})
    assert trainer.values["mean"] == 1.5


def test_batch_norm_learns_its_statistics_and_uses_them_in_evaluation():
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 2)), g.variable("w", (), init=1.0)
    y = gw.nn.batch_norm(x * w, name="bn")
    loss = gw.mean(y * y)
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.0))
    data = np.random.default_rng(0).normal([3.0, -2.0], [1.0, 4.0], (400, 2)).astype("float32")
    before = trainer.evaluate({"x": data})["loss"]
    trainer.fit({"x": data}, epochs=60, batch_size=100, shuffle=False, progress=False)
    np.testing.assert_allclose(g.values["bn/running_mean"], data.mean(0), atol=0.3)
    np.testing.assert_allclose(g.values["bn/running_var"], data.var(0), rtol=0.1)
    assert before == pytest.approx((data**2).mean(), rel=1e-3)
    assert trainer.evaluate({"x": data})["loss"] == pytest.approx(1.0, abs=0.05)
    assert "bn/running_mean" not in [t.name for t in trainer.parameters]


def test_updates_that_this_loss_does_not_feed_are_left_alone():
    g = gw.Graph()
    x, z = g.placeholder("x", ()), g.placeholder("z", ())
    w, seen = g.variable("w", (), init=1.0), g.variable("seen", (), trainable=False)
    g.update(seen, seen + z)
    gw.Trainer(g, x * w).step({"x": 1.0})
    assert g.values["seen"] == 0.0


def test_what_an_update_sets_is_not_trained():
    trainer = normalised(optimizer=gw.optim.SGD(1.0))
    g = trainer.graph
    g["mean"].trainable = True
    loss = g["loss"] + g["mean"]
    gw.Trainer(g, loss).step({"x": [1.0]})
    assert g.values["mean"] == 0.5
    with pytest.raises(TrainingError, match=r"'mean' is trained, and set by an update too"):
        gw.Trainer(g, loss, parameters=["mean"]).step({"x": [1.0]})


@pytest.mark.parametrize("masked", [False, True])
def test_a_number_that_another_trainer_reads_stays_when_a_step_is_built_anew(masked):
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 3)), g.placeholder("t", (None,), "int64")
    w, v = g.variable("w", (3, 4), init=np.ones((3, 4))), g.variable("v", (3,), init=np.ones(3))
    zero = {"v": gw.constraints.NonNegative()}  # which compares with 0
    one = gw.Trainer(g, gw.mean((x @ v) ** 2.0), parameters=[v], constraints=zero)
    data = {"x": np.ones((2, 3))}
    one.step(data)
    scores = x @ w
    if masked:
        loss = gw.loss.sparse_softmax_cross_entropy(t, scores, ignore_index=0)
        data = {**data, "t": [1, 0]}
    else:
        loss = gw.mean(gw.where(scores > 0.5, scores, gw.abs(scores)))
    two = gw.Trainer(g, loss, parameters=[w])
    two.step(data)
    one.config = one.config.but(constraints={})
    one.step({"x": data["x"]})
    two.config = two.config.but(l2=0.1)
    two.step(data)
    assert np.isfinite(two.evaluate(data)["loss"])
