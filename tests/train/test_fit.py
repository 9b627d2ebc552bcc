"""What fit does: batches, shuffling, evaluation, callbacks, early stopping, the bar."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradwright as gw
from gradwright.data import order
from gradwright.errors import FeedError, TrainingError
from gradwright.train.step.taker import Taker
from tests.support.lines import Seen, line, rows, values_of

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


@pytest.mark.parametrize("options", [{}, {"nonfinite": "skip"}, {"clip_norm": 0.5}, {"l2": 0.1}])
def test_a_usual_update_is_what_others_are(options, monkeypatch):
    """Updates that nothing is asked of beside are taken in one go; the others, step by step."""
    found, data = [], rows()
    data["x"][7] = np.inf if options.get("nonfinite") else data["x"][7]
    for is_usual in (True, False):
        if not is_usual:
            monkeypatch.setattr(Taker, "_usual_from", lambda taker, run: None)
        optimizer = gw.optim.Adam(gw.schedules.Cosine(0.1, 40), beta1=0.8)
        trainer = line(optimizer=optimizer, deterministic=True, **options)
        for epoch in range(3):
            trainer.fit(data, batch_size=8, progress=False)
            optimizer.beta2 = 0.999 - 0.1 * epoch  # from now on it is shown, and fed
            trainer.step(data)
        state = trainer.state_dict()
        state = {k: np.asarray(v) for k, v in state.items() if not k.endswith("/seconds")}
        found.append(state | dict(trainer.values))
    assert found[0].keys() == found[1].keys()
    for name, array in found[0].items():
        np.testing.assert_array_equal(array, found[1][name], err_msg=name)


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
        trainer = line(deterministic=True)
        history = trainer.fit(source, progress=False)
        results.append((trainer.values["w"].tolist(), history.epochs["loss"][0]))
    plain = line(deterministic=True)
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


def test_steps_go_on_into_the_next_epochs():
    trainer, whole = line(seed=5), line(seed=5)
    history = trainer.fit(rows(), batch_size=8, steps=8, validation=rows(), progress=False)
    assert (history.steps.rows, history.epochs["step"].tolist()) == (8, [3, 6])
    assert (trainer.epochs_done, trainer.batches_done) == (2, 2)
    done = trainer.progress
    numbers = done.outcome, done.steps, done.total, done.epoch, done.epochs
    assert numbers == ("finished", 8, 8, 3, 3)
    trainer.fit(rows(), batch_size=8, steps=4, progress=False)  # one of them ends the epoch
    assert trainer.progress.epochs == 4
    whole.fit(rows(), batch_size=8, epochs=4, progress=False)
    np.testing.assert_allclose(trainer.values["w"], whole.values["w"], rtol=1e-6)
    assert (trainer.epochs_done, trainer.batches_done) == (4, 0)
    trainer.fit(rows(), batch_size=8, steps=0, progress=False)
    assert trainer.steps_done == 12


@pytest.mark.parametrize("options", [{"unroll": 2}, {}])
def test_steps_of_data_of_unknown_length_go_on_too(options):
    data = [{"x": rows(4, i)["x"], "t": rows(4, i)["t"]} for i in range(3)]
    trainer = line()
    history = trainer.fit(lambda: iter(data), steps=7, progress=False, **options)
    assert (history.steps.rows, trainer.epochs_done, trainer.progress.epochs) == (7, 2, 3)
    with pytest.raises(FeedError, match=r"no batches in epoch 4(.|\n)*can be used once"):
        trainer.fit(iter(data), steps=7, progress=False)
    assert trainer.steps_done == 10


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
        loss = gw.mean(gw.nn.dropout(x * w, p=0.5))
        trainer = gw.Trainer(g, loss, seed=seed, deterministic=True)
        return [trainer.step({"x": np.ones((4, 50))}).metrics["loss"] for _ in range(3)]

    assert losses(1) == losses(1) != losses(2)


# -- callbacks -------------------------------------------------------------------------------------


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
    trainer, plain = line(callbacks=[Fails(), seen], deterministic=True), line(deterministic=True)
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
