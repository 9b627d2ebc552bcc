"""Early stopping: whose best epoch it keeps, and which weights it goes back to."""

from __future__ import annotations

import numpy as np

import gradwright as gw


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
