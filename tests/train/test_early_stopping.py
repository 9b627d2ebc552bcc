"""Early stopping: whose best epoch it keeps, and which weights it goes back to."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.train.direction import falls


def scripted(stopping, losses, start=0.0, **options):
    """Return a trainer whose w counts its epochs from ``start``, and data with these losses."""
    g = gw.Graph()
    w, c = g.variable("w", (), init=start), g.placeholder("c", ())
    loss = c - w + gw.stop_gradient(w)
    options.setdefault("optimizer", gw.optim.SGD(1.0))
    return gw.Trainer(g, loss, callbacks=[stopping], **options), [{"c": value} for value in losses]


def played(trainer, batches):
    """Train one epoch per batch until something stops it; return how many there were."""
    for n, batch in enumerate(batches, 1):
        trainer.fit([batch], progress=False)
        if trainer.progress.outcome == "stopped":
            return n
    return len(batches)


def test_another_trainer_begins_afresh():
    stopping = gw.EarlyStopping("loss", patience=2)
    first, batches = scripted(stopping, [0.1, 1.0, 1.0])
    assert played(first, batches) == 3 and (stopping.best_epoch, first.values["w"]) == (1, 1.0)
    second, batches = scripted(stopping, [5.0, 4.0, 3.0, 6.0, 6.0], start=10.0)
    assert played(second, batches) == 5
    assert (stopping.best, stopping.best_epoch) == (3.0, 3)
    assert second.values["w"] == 13.0  # of its own third epoch


def test_the_same_trainer_goes_on_with_what_was_best():
    stopping = gw.EarlyStopping("loss", patience=2)
    trainer, batches = scripted(stopping, [1.0, 2.0])
    assert played(trainer, batches) == 2 and stopping.waited == 1
    assert played(trainer, [{"c": 3.0}, {"c": 0.0}]) == 1
    assert stopping.best_epoch == 1 and trainer.values["w"] == 1.0


def test_a_loaded_state_is_kept_by_the_trainer_that_comes_next():
    stopping = gw.EarlyStopping("loss", patience=2)
    first, batches = scripted(stopping, [1.0, 2.0])
    played(first, batches)
    state = {name: np.array(value) for name, value in first.state_dict().items()}
    second, batches = scripted(stopping, [9.0])
    second.load_state_dict(state)
    assert played(second, batches) == 1  # the second epoch in a row without improvement
    assert (stopping.best, second.values["w"]) == (1.0, 1.0)


# -- which way a metric gets better ----------------------------------------------------------------

FALLING = """val_loss error val_mse mae rmse msle mape val_perplexity nll kl student_kl
kl_divergence val_wer cer brier_score ece calibration_error deviance cross_entropy dice_loss
edit_distance VAL_MSE loss2 val/loss"""
RISING = """val_accuracy acc roc_auc f1 f1_macro precision recall@5 r2 score bleu rouge_2 mean_iou
dice map map50 mcc kappa top_k top5 val_top_5"""


@pytest.mark.parametrize(("names", "mode"), [(FALLING, "min"), (RISING, "max")])
def test_names_tell_which_way_is_better(names, mode):
    for name in names.split():
        assert gw.EarlyStopping(name).mode == mode, name
        assert falls(name, "min") and not falls(name, "max")


@pytest.mark.parametrize("mode", [None, "min"])
def test_what_is_no_name_is_refused(mode, tmp_path):
    for make in (gw.EarlyStopping, lambda m, mode: gw.Checkpoints(tmp_path, monitor=m, mode=mode)):
        with pytest.raises(TrainingError, match="monitor=3 is no name"):
            make(3, mode=mode)


@pytest.mark.parametrize("name", ["val_lossy", "fidelity", "neg_log_loss", "grad_norm", "mapped"])
def test_a_name_that_does_not_tell_needs_a_mode(name, tmp_path):
    makes = [
        gw.EarlyStopping,
        lambda name, **how: gw.train.ScoreReached(name, 1.0, **how),
        lambda name, **how: gw.Checkpoints(tmp_path, monitor=name, **how),
    ]
    for make in makes:
        with pytest.raises(TrainingError, match=name) as caught:
            make(name)
        assert caught.value.need == 'mode="min" or mode="max"'
        made = make(name, mode="min")
        assert made.mode == "min" and "min" in repr(made)


def test_the_best_of_a_metric_that_falls_is_the_least():
    stopping = gw.EarlyStopping("val_mse", patience=1)
    for epoch, mse in enumerate([3.0, 1.0], 1):
        trainer, _ = scripted(stopping, [])
        stopping.on_epoch_end(trainer, gw.train.Record(epoch, epoch, {"val_mse": mse}, 0.0))
    assert (stopping.best, stopping.best_epoch, stopping.reason) == (1.0, 2, "")


# -- averages --------------------------------------------------------------------------------------


def averaging(**options):
    """Return a trainer that overshoots, so that what it validates gets worse, and its stopping."""
    g = gw.Graph()
    w, c = g.variable("w", (), init=4.0), g.placeholder("c", ())
    stopping = gw.EarlyStopping("val_loss", patience=2)
    options.setdefault("optimizer", gw.optim.SGD(0.3, momentum=0.8))
    loss = (w - 1.0) ** 2.0 + 0.0 * c
    return gw.Trainer(g, loss, callbacks=[stopping], deterministic=True, **options), stopping


@pytest.mark.parametrize(
    "options",
    [
        {"ema": gw.EMA(0.5), "validate_with": "ema"},
        {"swa": gw.SWA(start=3), "validate_with": "swa"},
        {"ema": gw.EMA(0.5)},
        {},
    ],
)
def test_the_best_score_is_that_of_what_evaluate_sees(options):
    trainer, stopping = averaging(**options)
    data = [{"c": 0.0}]
    history = trainer.fit(data, epochs=50, validation=data, progress=False)
    assert stopping.reason and stopping.best == min(history.epochs["val_loss"])
    assert history.epochs["val_loss"][-1] > stopping.best
    assert trainer.evaluate(data)["loss"] == stopping.best


def test_the_average_of_the_best_epoch_is_saved():
    how = {"ema": gw.EMA(0.5), "validate_with": "ema"}
    data = [{"c": 0.0}]
    whole, stopping = averaging(**how)
    epochs = whole.fit(data, epochs=50, validation=data, progress=False).epochs.rows
    first, _ = averaging(**how)
    first.fit(data, epochs=epochs - 1, validation=data, progress=False)
    second, again = averaging(**how)
    second.values["w"] = first.values["w"]
    second.load_state_dict({k: np.array(v) for k, v in first.state_dict().items()})
    second.fit(data, epochs=50, validation=data, progress=False)
    assert (again.best, again.reason) == (stopping.best, stopping.reason)
    assert second.evaluate(data) == whole.evaluate(data) == {"loss": stopping.best}


def test_a_stop_that_was_saved_stays_one_for_the_first_fit(tmp_path):
    data, how = [{"c": 0.0}], {"ema": gw.EMA(0.5), "validate_with": "ema"}
    first, stopping = averaging(**how)
    first.add_callback(gw.Checkpoints(tmp_path))
    first.fit(data, epochs=50, validation=data, progress=False)
    second, again = averaging(**how)
    gw.resume(second, tmp_path)
    second.fit(data, epochs=50, validation=data, progress=False)
    assert second.epochs_done == first.epochs_done and second.progress.outcome == "stopped"
    assert again.reason == stopping.reason
    assert second.evaluate(data) == {"loss": stopping.best}
    for trainer in (first, second):  # a further fit trains on
        epochs = trainer.epochs_done
        trainer.fit(data, validation=data, progress=False)
        assert trainer.epochs_done == epochs + 1


# -- when epochs run out ---------------------------------------------------------------------------


def test_the_best_values_come_back_when_epochs_run_out():
    stopping = gw.EarlyStopping("loss", patience=9)
    trainer, _ = scripted(stopping, [])
    losses = iter([3.0, 1.0, 2.0, 2.0])
    history = trainer.fit(lambda: iter([{"c": next(losses)}]), epochs=4, progress=False)
    assert history.epochs["loss"].tolist() == [3.0, 1.0, 2.0, 2.0] and not stopping.reason
    assert (stopping.best, stopping.best_epoch, trainer.values["w"]) == (1.0, 2, 2.0)


def test_they_stay_where_the_last_epoch_is_the_best_or_where_that_is_asked_for():
    for options, last in (({}, 3.0), ({"restore_best": False}, 3.0)):
        stopping = gw.EarlyStopping("loss", patience=9, **options)
        trainer, batches = scripted(stopping, [3.0, 2.0, 1.0])
        played(trainer, batches)
        assert trainer.values["w"] == last


@pytest.mark.parametrize("options", [{}, {"ema": gw.EMA(0.5), "validate_with": "ema"}])
def test_a_further_fit_goes_on_as_if_epochs_had_not_run_out(options):
    data = [{"c": 0.0}]

    def trained(*fits):
        trainer, stopping = averaging(**options)
        stopping.patience = 99
        for epochs in fits:
            trainer.fit(data, epochs=epochs, validation=data, progress=False)
            assert trainer.evaluate(data)["loss"] == stopping.best
        return trainer.history.steps["loss"].tolist(), trainer.evaluate(data), stopping.best_epoch

    assert trained(8, 5, 9) == trained(22)


def test_values_that_were_set_meanwhile_stay():
    stopping = gw.EarlyStopping("loss", patience=9)
    trainer, batches = scripted(stopping, [1.0, 2.0])
    played(trainer, batches)
    trainer.values["w"] = 40.0
    trainer.fit([{"c": 0.0}], progress=False)
    assert trainer.values["w"] == 41.0


def test_a_fit_that_is_interrupted_goes_back_to_nothing():
    stopping = gw.EarlyStopping("loss", patience=9)
    trainer, _ = scripted(stopping, [])
    trainer.fit([{"c": 1.0}], progress=False)
    trainer.fit([{"c": 2.0}, {"c": 2.0}], steps=1, progress=False)
    assert (stopping.best_epoch, trainer.values["w"]) == (1, 2.0)


@pytest.mark.parametrize("every", [1, 3])
def test_what_was_best_is_known_right_after_a_resume_and_training_goes_on(tmp_path, every):
    data = [{"c": 0.0}]

    def training():
        trainer, stopping = averaging()
        stopping.patience = 99
        trainer.add_callback(gw.Checkpoints(tmp_path / str(every), every_epochs=every))
        return trainer, stopping

    first, stopping = training()
    first.fit(data, epochs=8, validation=data, progress=False)
    second, again = training()
    gw.resume(second, tmp_path / str(every))
    assert second.epochs_done == 8
    assert (again.best, again.best_epoch) == (stopping.best, stopping.best_epoch) != (np.inf, 0)
    second.fit(data, epochs=5, validation=data, progress=False)
    first.fit(data, epochs=5, validation=data, progress=False)
    assert second.history.steps["loss"].tolist() == first.history.steps["loss"].tolist()
    assert second.evaluate(data) == first.evaluate(data) == {"loss": stopping.best}


def test_divergence_begins_afresh_with_another_trainer():
    watch = gw.train.Divergence(factor=4, after=0)
    for _ in range(2):
        g = gw.Graph()
        w = g.variable("w", (), init=1.0)
        trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(1.1), callbacks=[watch])
        assert trainer.fit([{}] * 99, progress=False).steps.rows == 7
        assert watch.reason == "the loss explodes: about 4.39, the lowest was 1"


def test_the_best_values_are_those_of_what_is_renamed_meanwhile():
    class Renames(gw.Callback):
        def on_epoch_end(self, trainer, record):
            if record.epoch == 2:
                trainer.optimizer.learning_rate = 1.5  # doubles w from here on
            if record.epoch == 3:
                best.append(trainer.values["w"].copy())
            if record.epoch == 4:
                w.rename("weights")

    g, best = gw.Graph(), []
    w = g.variable("w", (2,), init=1.0)
    stopping = gw.EarlyStopping("loss", patience=3)
    callbacks = [stopping, Renames()]
    trainer = gw.Trainer(g, (w * w).sum(), gw.optim.SGD(0.1), callbacks=callbacks)
    trainer.fit([{}], epochs=20, progress=False)
    assert (stopping.best_epoch, trainer.epochs_done) == (3, 6)
    np.testing.assert_array_equal(g.values["weights"], best[0])
    assert "value/weights" in stopping.state_dict()
