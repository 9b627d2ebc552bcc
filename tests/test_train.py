"""The trainer: steps that commit together, data, freezing, validation, callbacks, bad input."""

from __future__ import annotations

import gc
import itertools
import json

import numpy as np
import pytest

import gradwright as gw
from gradwright.data import order
from gradwright.errors import FeedError, GraphError, ShapeError, TrainingError


def line(*, optimizer=None, **options):
    """Return a trainer of y = w·x + b with a mean squared error."""
    g = gw.Graph("line")
    x, t = g.placeholder("x", (None, 3)), g.placeholder("t", (None,))
    w, b = g.variable("w", (3,), init=[1.0, -1.0, 0.5]), g.variable("b", ())
    error = x @ w + b - t
    loss = gw.mean(error * error, name="loss")
    return gw.Trainer(g, loss, optimizer=optimizer or gw.optim.SGD(0.1), **options)


def rows(n=20, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3)).astype("float32")
    return {"x": x, "t": (x @ [2.0, 1.0, -1.0] + 0.5).astype("float32")}


def values_of(trainer):
    """Return everything a step may change, as bytes."""
    return {name: trainer.values[name].tobytes() for name in trainer.values}


class Seen(gw.Callback):
    """Notes what each step was fed with."""

    def __init__(self):
        self.batches, self.log = [], []

    def on_fit_start(self, trainer):
        self.log.append("start")

    def on_step_end(self, trainer, record):
        self.batches.append({t.name: np.array(a) for t, a in trainer.last_feeds.items()})
        self.log.append(f"step {record.step} of epoch {record.epoch}")

    def on_epoch_end(self, trainer, record):
        self.log.append(f"epoch {record.epoch}")

    def on_fit_end(self, trainer):
        self.log.append("end")


# -- what fit does ---------------------------------------------------------------------------------


def test_fit_learns_and_records_every_step_and_epoch():
    trainer = line()
    history = trainer.fit(rows(), epochs=60, batch_size=8, validation=rows(seed=1), progress=False)
    np.testing.assert_allclose(trainer.values["w"], [2, 1, -1], atol=1e-3)
    assert history is trainer.history
    assert history.steps["step"].tolist() == list(range(1, 181))
    assert history.epochs["step"].tolist() == list(range(3, 181, 3))
    assert set(history.steps) == {
        *("step", "epoch", "loss", "grad_norm", "learning_rate", "seconds")
    }
    assert set(history.epochs) == {"step", "epoch", "loss", "val_loss", "seconds"}
    assert history.last()["val_loss"] < 1e-5
    assert (np.diff(history.steps["seconds"]) > 0).all()


def test_a_step_is_the_gradient_of_its_batch():
    trainer, data = line(), rows(5)
    (dw,) = gw.gradients(trainer.graph["loss"], [trainer.graph["w"]])
    expected = trainer.values["w"] - 0.1 * trainer.graph.output(data, dw)[dw.name]
    loss = trainer.graph.output(data, "loss")["loss"]
    record = trainer.step(data)
    assert record.metrics["loss"] == loss
    np.testing.assert_allclose(trainer.values["w"], expected, 1e-6)


def test_the_epoch_s_loss_is_the_mean_over_examples_even_with_a_short_last_batch():
    trainer, data = line(optimizer=gw.optim.SGD(0.0)), rows(20)
    history = trainer.fit(data, batch_size=8, progress=False)
    whole = trainer.graph.output(data, "loss")["loss"]
    assert history.steps.rows == 3
    assert history.epochs["loss"][0] == pytest.approx(whole, rel=1e-6)
    assert trainer.evaluate(data, batch_size=7)["loss"] == pytest.approx(whole, rel=1e-6)


def test_shuffling_is_a_function_of_seed_and_epoch():
    def batches(seed, **options):
        seen = Seen()
        trainer = line(seed=seed, callbacks=[seen])
        trainer.fit(rows(), epochs=2, batch_size=8, progress=False, **options)
        return [b["x"][:, 0].tolist() for b in seen.batches]

    x = rows()["x"][:, 0]
    first = batches(3)
    assert first == batches(3) != batches(4)
    for epoch in (first[:3], first[3:]):
        assert sorted(itertools.chain(*epoch)) == sorted(x.tolist())
    assert first[:3] != first[3:]
    assert first[0] == x[order(3, 0, 20)[:8]].tolist()
    assert list(itertools.chain(*batches(3, shuffle=False)[:3])) == x.tolist()
    assert [len(b) for b in batches(3, drop_last=True)] == [8, 8] * 2


def test_a_scalar_placeholder_is_fed_with_one_value():
    g = gw.Graph()
    x, scale = g.placeholder("x", (None,)), g.placeholder("scale", ())
    w = g.variable("w", (), init=1.0)
    trainer = gw.Trainer(g, gw.mean(x * w * scale), optimizer=gw.optim.SGD(1.0))
    trainer.fit({"x": np.ones(6), "scale": 0.25}, batch_size=2, progress=False)
    assert trainer.values["w"] == 0.25


def test_batches_may_come_from_a_list_a_generator_or_a_torch_loader(torch):
    data = rows(12)
    parts = [{k: a[i : i + 4] for k, a in data.items()} for i in range(0, 12, 4)]
    tensors = [{k: torch.tensor(a[i]) for k, a in data.items()} for i in range(12)]
    loader = torch.utils.data.DataLoader(tensors, batch_size=4)
    results = []
    for source in (parts, (p for p in parts), loader):
        trainer = line()
        history = trainer.fit(source, progress=False)
        results.append((trainer.values["w"].tolist(), history.epochs["loss"][0]))
    plain = line()
    history = plain.fit(data, batch_size=4, shuffle=False, progress=False)
    results.append((plain.values["w"].tolist(), history.epochs["loss"][0]))
    assert all(r == results[0] for r in results)


def test_steps_and_epochs_limit_a_fit():
    trainer = line()
    assert trainer.fit(rows(), epochs=9, batch_size=8, steps=4, progress=False).steps.rows == 4
    assert (trainer.epochs_done, trainer.batches_done) == (1, 1)
    trainer.fit(rows(), epochs=9, batch_size=8, steps=2, progress=False)
    assert (trainer.epochs_done, trainer.batches_done) == (2, 0)
    trainer.fit(rows(), epochs=0, batch_size=8, progress=False)
    assert trainer.steps_done == 6


def test_other_data_begin_an_epoch_anew():
    trainer, seen = line(), Seen()
    trainer.fit(rows(), batch_size=8, steps=1, progress=False)
    trainer.add_callback(seen)
    trainer.fit(rows(10), batch_size=5, progress=False)
    assert len(seen.batches) == 2
    assert trainer.epochs_done == 1


def test_evaluation_is_in_eval_mode_and_changes_nothing():
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 50)), g.variable("w", (50,), init=1.0)
    loss = gw.mean(gw.nn.dropout(x * w, p=0.5))
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.0))
    data = {"x": np.ones((4, 50))}
    before = values_of(trainer)
    assert trainer.evaluate(data, batch_size=64) == {"loss": 1.0}
    assert values_of(trainer) == before
    assert trainer.steps_done == trainer.history.steps.rows == 0
    first, second = (trainer.step(data).metrics["loss"] for _ in range(2))
    assert len({1.0, first, second}) == 3  # masks are on, and drawn anew in each step


def test_random_ops_follow_seed_and_step():
    def losses(seed):
        g = gw.Graph()
        x, w = g.placeholder("x", (None, 50)), g.variable("w", (50,), init=1.0)
        trainer = gw.Trainer(g, gw.mean(gw.nn.dropout(x * w, p=0.5)), seed=seed)
        return [trainer.step({"x": np.ones((4, 50))}).metrics["loss"] for _ in range(3)]

    assert losses(1) == losses(1) != losses(2)


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
    edited, plain = (line(optimizer=gw.optim.Adam(0.1)) for _ in range(2))
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
    g.unfreeze()
    loss = g["loss"] + g["mean"]
    gw.Trainer(g, loss).step({"x": [1.0]})
    assert g.values["mean"] == 0.5
    with pytest.raises(TrainingError, match=r"'mean' is trained, and set by an update too"):
        gw.Trainer(g, loss, parameters=["mean"]).step({"x": [1.0]})


# -- numbers that are not finite -------------------------------------------------------------------


def test_a_step_that_is_not_finite_changes_nothing_and_says_where():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    w, b = g.variable("w", (), init=1.0), g.variable("b", (), init=1.0)
    mean = g.variable("mean", (), trainable=False)
    g.update(mean, gw.mean(x))
    loss = gw.mean(gw.log(x * w) + b, name="loss")
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(0.1))
    trainer.fit({"x": [1.0, 2.0]}, batch_size=1, progress=False)
    before = values_of(trainer)
    with pytest.raises(TrainingError) as caught:
        trainer.fit([{"x": [1.0]}, {"x": [-1.0]}], progress=False)
    assert trainer.steps_done == trainer.history.steps.rows == 3
    text = str(caught.value)
    assert "step 4: the loss 'loss' is not finite; nothing was changed" in text
    assert "loss = nan, learning rate = 0.1" in text
    assert "try:" in text
    undone = values_of(trainer)
    assert undone != before  # the third step was committed
    with pytest.raises(TrainingError, match="step 4"):
        trainer.step({"x": [-1.0]})
    assert values_of(trainer) == undone


def test_a_gradient_that_is_not_finite_is_told_from_the_loss():
    g = gw.Graph()
    w = g.variable("w", (2,), init=[0.0, 4.0])
    b = g.variable("b", (), init=1.0)
    trainer = gw.Trainer(g, gw.sqrt(w).sum() + b)
    message = r"step 1: the gradient is not finite(.|\n)*gradient of 'w': 1 of 2 elements"
    with pytest.raises(TrainingError, match=message) as caught:
        trainer.step({})
    assert "gradient of 'b'" not in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_bad_data_is_told_from_a_bad_step(bad):
    data = {k: a.astype("float64") for k, a in rows().items()}
    data["x"][13, 2] = bad
    trainer = line()
    with pytest.raises(TrainingError) as caught:
        trainer.fit(data, batch_size=8, progress=False)
    batch = int(np.flatnonzero(order(0, 0, 20) == 13)[0]) // 8 + 1
    text = str(caught.value)
    assert f"step {batch}: the data of placeholder 'x' is not finite" in text
    assert "1 of 24 elements" in text or "1 of 12 elements" in text
    assert "row 13 of the data" in text
    assert trainer.steps_done == batch - 1


def test_parameters_that_were_not_finite_before_are_named():
    trainer = line()
    trainer.values["b"] = np.nan
    with pytest.raises(TrainingError, match="before the step, parameter 'b' was not finite"):
        trainer.step(rows())


def test_steps_that_are_not_finite_can_be_skipped():
    trainer = line(optimizer=gw.optim.Adam(0.1), nonfinite="skip")
    good, bad = rows(), rows()
    bad["t"][0] = np.nan
    history = trainer.fit([good, bad, good], progress=False)
    assert (trainer.steps_done, trainer.skipped) == (3, 1)
    assert trainer.state_dict()["state/w/step"] == 2
    assert np.isnan(history.steps["loss"][1])
    assert np.isfinite(history.epochs["loss"][0])
    plain = line(optimizer=gw.optim.Adam(0.1))
    plain.fit([good, good], progress=False)
    assert plain.values["w"].tobytes() == trainer.values["w"].tobytes()


# -- callbacks -------------------------------------------------------------------------------------


def test_a_class_a_number_or_a_function_in_place_of_an_instance_is_refused_at_once():
    for wrong in (0.01, gw.optim.Adam):
        with pytest.raises(TrainingError, match="is no optimizer"):
            line(optimizer=wrong)
    for wrong in (print, gw.EarlyStopping):
        with pytest.raises(TrainingError, match="is no callback"):
            line(callbacks=[wrong])


def test_callbacks_are_called_in_order():
    seen = Seen()
    line(callbacks=[seen]).fit(rows(), epochs=2, batch_size=16, progress=False)
    assert seen.log == [
        *("start", "step 1 of epoch 1", "step 2 of epoch 1", "epoch 1"),
        *("step 3 of epoch 2", "step 4 of epoch 2", "epoch 2", "end"),
    ]


def test_callbacks_come_and_go_while_training_runs():
    class Swap(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 2:
                trainer.remove_callback(self)
                trainer.add_callback(seen)

    seen = Seen()
    trainer = line(callbacks=[Swap()])
    trainer.fit(rows(), epochs=2, batch_size=16, progress=False)
    assert seen.log == ["epoch 1", "step 3 of epoch 2", "step 4 of epoch 2", "epoch 2", "end"]
    assert trainer.callbacks == (seen,)


def test_a_callback_that_fails_leaves_a_state_to_go_on_from():
    class Fails(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 2:
                raise ValueError("no")

    seen = Seen()
    trainer, plain = line(callbacks=[Fails(), seen]), line()
    with pytest.raises(ValueError, match="no"):
        trainer.fit(rows(), batch_size=8, progress=False)
    assert seen.log[-1] == "end"
    trainer.fit(rows(), batch_size=8, progress=False)
    plain.fit(rows(), batch_size=8, progress=False)
    assert values_of(trainer) == values_of(plain)


def stopping_run(losses, **options):
    """Train so that the epochs' losses are those given; w counts the epochs."""
    g = gw.Graph()
    loss, w = g.placeholder("loss", ()), g.variable("w", ())
    stopping = gw.EarlyStopping("loss", **options)
    trainer = gw.Trainer(g, loss - w + w * 1.0, optimizer=gw.optim.SGD(1.0), callbacks=[stopping])
    feeds = iter([[{"loss": v}] for v in losses])

    class Losses:
        def __iter__(self):
            return iter(next(feeds))

    g.update(count := g.variable("count", (), trainable=False), count + 1.0)
    trainer.fit(Losses(), epochs=len(losses), progress=False)
    return trainer, stopping


def test_early_stopping_waits_and_restores_the_best():
    trainer, stopping = stopping_run([3, 2, 2.5, 1, 1.5, 1.2, 1.1, 0.5], patience=3)
    assert (trainer.epochs_done, stopping.best_epoch, stopping.best) == (7, 4, 1.0)
    assert trainer.values["count"] == 4


def test_early_stopping_counts_small_improvements_as_none():
    trainer, stopping = stopping_run([3, 2.95, 2.9, 2.85], patience=2, min_delta=0.2)
    assert (trainer.epochs_done, stopping.best_epoch) == (3, 1)


def test_early_stopping_can_leave_values_and_can_look_upwards():
    trainer, stopping = stopping_run([3, 2, 1, 4, 5], patience=2, mode="max", restore_best=False)
    assert (trainer.epochs_done, stopping.best_epoch) == (3, 1)
    assert trainer.values["count"] == 3
    assert gw.EarlyStopping("val_accuracy")._sign == -1
    assert gw.EarlyStopping("val_loss")._sign == 1


def test_early_stopping_names_what_is_measured():
    trainer = line(callbacks=[gw.EarlyStopping("val_loss")])
    with pytest.raises(TrainingError, match=r"'val_loss', which is not measured(.|\n)*validation="):
        trainer.fit(rows(), progress=False)


def test_the_bar_shows_epochs_and_metrics(capsys):
    trainer = line()
    trainer.fit(rows(), epochs=2, batch_size=8, progress=True)
    shown = capsys.readouterr().err
    assert "6/6" in shown
    assert "epoch 2/2" in shown
    assert "loss=" in shown
    assert trainer.callbacks == ()
    trainer.fit(rows(), epochs=1, batch_size=8, progress=False)
    assert capsys.readouterr().err == ""


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": rows()["x"]}, "has no placeholder 'X'(.|\n)*placeholders: 'x', 't'"),
        ({"w": rows()["x"]}, "has no placeholder 'w'"),
        ({"t": None}, r"placeholder 't' is not fed(.|\n)*data holds 'x'(.|\n)*t: f32\[t_0\]"),
        ({"t": np.zeros(19)}, "different lengths(.|\n)*'x': 20 rows(.|\n)*'t': 19 rows"),
        ({"x": np.zeros((20, 4))}, "'x' is fed with size 4 on axis 1"),
        ({"x": np.zeros((20, 3, 1))}, "'x' is fed with rank 3"),
        ({"x": np.zeros(())}, "'x' is fed with rank 0"),
        ({"x": np.zeros((20, 3), complex)}, "'x' is float32 and cannot take complex128"),
        ({"x": np.full((20, 3), "a")}, "cannot hold"),
        ({"x": np.zeros((0, 3)), "t": np.zeros(0)}, "the data is empty"),
        ({"x": [[1.0, 2.0, 3.0], [4.0]]}, "the data of placeholder 'x' is no array"),
    ],
)
def test_data_that_does_not_fit_is_named(change, message):
    data = {k: v for k, v in {**rows(), **change}.items() if v is not None}
    trainer = line()
    before = values_of(trainer)
    with pytest.raises(FeedError, match=message):
        trainer.fit(data, progress=False)
    assert values_of(trainer) == before | {
        n: b for n, b in values_of(trainer).items() if n.startswith("optimizer/")
    }
    trainer.fit(rows(), progress=False)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (rows(), {"batch_size": 21}, "batch_size=21 is larger than the data(.|\n)*20 examples"),
        (rows(), {"batch_size": 0}, "batch_size=0 is not a size"),
        (rows(), {"batch_size": 2.5}, "batch_size=2.5 is not a size"),
        (rows(), {"epochs": -1}, "cannot train epochs=-1"),
        (rows(), {"progress": "bar"}, "progress='bar' is not known"),
        ([rows()], {"batch_size": 4}, "batch_size is for arrays"),
    ],
)
def test_sizes_that_make_no_sense_are_named(data, options, message):
    with pytest.raises(TrainingError, match=message):
        line().fit(data, **{"progress": False, **options})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (7, "int is no data"),
        ("rows", "str is no data"),
        ([], "gave no batches in epoch 1"),
        ([(1, 2)], "a batch is a tuple, not a dict"),
        ([{"x": rows()["x"]}], "placeholder 't' is not fed"),
        ([{**rows(), "z": 1}], "no placeholder 'z'"),
    ],
)
def test_iterables_that_do_not_fit_are_named(data, message):
    with pytest.raises(FeedError, match=message):
        line().fit(data, progress=False)


def test_a_generator_cannot_serve_two_epochs():
    with pytest.raises(FeedError, match=r"no batches in epoch 2(.|\n)*generator can be used once"):
        line().fit((b for b in [rows()]), epochs=2, progress=False)


def test_a_placeholder_of_fixed_size_wants_full_batches():
    g = gw.Graph()
    x, w = g.placeholder("x", (4,)), g.variable("w", ())
    trainer = gw.Trainer(g, gw.mean(x * w))
    data = {"x": np.zeros(10)}
    with pytest.raises(TrainingError, match=r"exactly 4 rows(.|\n)*last batch of 2"):
        trainer.fit(data, batch_size=4, progress=False)
    with pytest.raises(FeedError, match="size 5 on axis 0"):
        trainer.fit(data, batch_size=5, progress=False)
    assert trainer.fit(data, batch_size=4, drop_last=True, progress=False).steps.rows == 2


def test_losses_that_cannot_be_trained_are_named():
    trainer = line()
    g = trainer.graph
    with pytest.raises(TrainingError, match=r"the loss 'sub' is f32\[x_0\](.|\n)*gw.mean\(loss\)"):
        gw.Trainer(g, "sub")
    with pytest.raises(TrainingError, match=r"is i64\[\](.|\n)*floating scalar"):
        gw.Trainer(g, g.constant(1))
    with pytest.raises(GraphError, match="has no tensor 'los'"):
        gw.Trainer(g, "los")
    with pytest.raises(GraphError, match="is of another graph"):
        gw.Trainer(gw.Graph(), g["loss"])
    with pytest.raises(TrainingError, match="nonfinite='ignore' is not known"):
        gw.Trainer(g, "loss", nonfinite="ignore")
    with pytest.raises(TrainingError, match="clip_norm=0 is out of range"):
        gw.Trainer(g, "loss", clip_norm=0).step(rows())
    with pytest.raises(TrainingError, match="the session runs another graph, 'other'"):
        gw.Trainer(g, "loss", session=gw.Session(gw.Graph("other")))


def test_parameters_that_cannot_be_trained_are_named():
    trainer = line()
    g = trainer.graph
    g.freeze()
    with pytest.raises(TrainingError, match=r"no trainable parameter(.|\n)*frozen: 'w', 'b'"):
        trainer.fit(rows(), progress=False)
    g.unfreeze()
    g.variable("lonely", (2,))
    with pytest.raises(
        TrainingError, match=r"does not depend on 'lonely'(.|\n)*freeze\('lonely'\)"
    ):
        trainer.fit(rows(), progress=False)
    g.freeze("lonely")
    trainer.fit(rows(), progress=False)
    with pytest.raises(TrainingError, match=r"no floating variable fits 'v\*'"):
        gw.Trainer(g, "loss", parameters=["v*"]).step(rows())
    empty = gw.Graph()
    with pytest.raises(TrainingError, match="it has no floating variable"):
        gw.Trainer(empty, empty.placeholder("x", ())).step({"x": 1.0})


def test_metrics_that_cannot_be_measured_are_named():
    trainer = line()
    g = trainer.graph
    with pytest.raises(TrainingError, match="cannot be called 'loss'"):
        gw.Trainer(g, "loss", metrics={"loss": g["loss"]})
    with pytest.raises(TrainingError, match="cannot be called 'val_x'"):
        gw.Trainer(g, "loss", metrics={"val_x": g["loss"]})
    with pytest.raises(ShapeError, match=r"'sub' is f32\[x_0\], so it is no metric(.|\n)*gw.mean"):
        gw.Trainer(g, "loss", metrics={"error": g["sub"]})
    with pytest.raises(TrainingError, match="metric 'a' is a float"):
        gw.Trainer(g, "loss", metrics={"a": 0.5})


# -- metrics ---------------------------------------------------------------------------------------


def classified(n=50, classes=4, seed=3):
    rng = np.random.default_rng(seed)
    return rng.integers(0, classes, n), rng.standard_normal((n, classes)).astype("float32")


def measured(build, labels, predictions, batch_size=None):
    g = gw.Graph()
    t = g.placeholder("t", (None, *labels.shape[1:]), labels.dtype)
    p = g.placeholder("p", (None, *predictions.shape[1:]))
    loss = gw.mean(p) * g.variable("w", ())
    trainer = gw.Trainer(g, loss, metrics={"m": build(t, p)})
    return trainer.evaluate({"t": labels, "p": predictions}, batch_size=batch_size)["m"]


def test_accuracies_agree_with_numpy():
    t, p = classified()
    hits = np.argsort(-p, 1) == t[:, None]
    assert measured(gw.metrics.accuracy, t, p, 7) == pytest.approx(hits[:, 0].mean(), rel=1e-6)
    one_hot = np.eye(4, dtype="float32")[t]
    assert measured(gw.metrics.accuracy, one_hot, p) == pytest.approx(hits[:, 0].mean(), rel=1e-6)
    top = measured(lambda t, p: gw.metrics.top_k_accuracy(t, p, k=2), t, p, 7)
    assert top == pytest.approx(hits[:, :2].any(1).mean(), rel=1e-6)
    binary = measured(lambda t, p: gw.metrics.binary_accuracy(t, p, 0.1), t % 2, p[:, 0])
    assert binary == pytest.approx(((p[:, 0] > 0.1) == (t % 2 > 0.5)).mean(), rel=1e-6)


def test_macro_f1_is_that_of_the_whole_and_not_the_mean_of_batches():
    metrics = pytest.importorskip(
        "sklearn.metrics", reason="no scikit-learn: pip install -e '.[lab]'"
    )
    t, p = classified()
    expected = metrics.f1_score(t, p.argmax(1), average="macro")
    assert measured(gw.metrics.MacroF1, t, p, 7) == pytest.approx(expected, rel=1e-9)


def test_labels_that_do_not_fit_the_predictions_are_named():
    g = gw.Graph()
    p = g.placeholder("p", (None, 4))
    with pytest.raises(ShapeError, match=r"labels do not fit(.|\n)*f32\[t_0\]"):
        gw.metrics.accuracy(g.placeholder("t", (None,)), p)
    with pytest.raises(ShapeError, match="labels do not fit"):
        gw.metrics.top_k_accuracy(g.placeholder("u", (None, 4), "int64"), p)


# -- history ---------------------------------------------------------------------------------------


def test_history_survives_strict_json():
    history = gw.History()
    for step, loss in enumerate([1.5, np.nan, np.inf, -np.inf, 0.1], 1):
        history.add_step(gw.train.Record(step, 1, {"loss": loss}, 0.5 * step))
    history.add_step(gw.train.Record(6, 1, {"loss": 1.0, "late": 2.0}, 3.0))
    history.add_epoch(gw.train.Record(6, 1, {"loss": 0.25}, 3.0))
    text = json.dumps(history.to_dict(), allow_nan=False)
    again = gw.History.from_dict(json.loads(text))
    for name, column in history.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], column)
    assert again.steps.rows == 6
    assert again.seconds == 3.0
    assert np.isnan(again.steps["late"][:5]).all()
    with pytest.raises(KeyError, match="'accuracy'; there are step, epoch, loss"):
        history.steps["accuracy"]
    with pytest.raises(TrainingError, match="differ in length"):
        gw.History.from_dict({"steps/loss": [1.0], "steps/step": []})


def test_history_draws_one_panel_per_metric():
    trainer = line()
    assert trainer.history.plot().data == ()
    history = trainer.fit(rows(), epochs=3, batch_size=8, validation=rows(), progress=False)
    figure = history.plot()
    lines = {(s.name, s.yaxis): s for s in figure.data}
    assert set(lines) == {
        *(("step", "y"), ("train", "y"), ("validation", "y")),
        ("step", "y2"),
    }
    assert list(lines["validation", "y"].y) == history.epochs["val_loss"].tolist()
    assert list(lines["train", "y"].x) == [3, 6, 9]
    assert figure.layout.yaxis2.title.text == "grad_norm"
    trainer.optimizer.learning_rate = 0.01
    trainer.step(rows())
    assert history.plot().layout.yaxis3.title.text == "learning_rate"
    assert len({s.line.color for s in figure.data}) == 3
    assert len({s.line.dash for s in figure.data if s.name != "step"}) == 2  # not by colour alone


def test_history_shows_a_table():
    trainer = line()
    assert repr(trainer.history) == "History: 0 epochs, 0 steps, 0 s"
    history = trainer.fit(rows(), epochs=20, batch_size=20, progress=False)
    shown = repr(history).splitlines()
    assert shown[0].startswith("History: 20 epochs, 20 steps, ")
    assert shown[1].split() == ["epoch", "step", "loss", "seconds"]
    assert len(shown) == 2 + 4 + 1 + 6
    assert len({len(row) for row in shown[1:]}) == 1
