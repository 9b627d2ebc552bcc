"""What a training keeps where settings change, a load fails, or the variables hold an average."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError

F32 = np.float32
RNG = np.random.default_rng(0)
BATCHES = [
    {"x": RNG.standard_normal((4, 3)).astype(F32), "t": RNG.standard_normal((4, 1)).astype(F32)}
    for _ in range(20)
]
BAD = {"x": np.full((4, 3), np.nan, F32), "t": BATCHES[0]["t"]}


def line(**settings):
    g = gw.Graph("line")
    x, t = g.placeholder("x", (None, 3)), g.placeholder("t", (None, 1))
    w, b = g.variable("w", init=np.array([[0.5], [-0.3], [0.2]], F32)), g.variable("b", (1,))
    loss = gw.mean((x @ w + b - t) ** 2.0, name="loss")
    if settings.pop("apart", False):
        settings["session"] = gw.Session(g, deterministic=True, values=g.values.snapshot())
    else:
        settings["deterministic"] = True
    settings.setdefault("optimizer", gw.optim.SGD(0.1))
    return gw.Trainer(g, loss, **settings)


def take(trainer, batches):
    for batch in batches:
        trainer.step(batch)
    return trainer


def like(trainer, **settings):
    """Return a new trainer with the weights of another."""
    fresh = line(**settings)
    for name in ("w", "b"):
        fresh.values[name] = trainer.values[name]
    return fresh


def assert_same(a, b):
    for name in ("w", "b"):
        assert a.values[name].tobytes() == b.values[name].tobytes()
    ours, theirs = (
        {k: v for k, v in t.state_dict().items() if k.startswith("state/")} for t in (a, b)
    )
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name].tobytes() == theirs[name].tobytes(), name


# -- what a step no longer asks for ----------------------------------------------------------------


def test_what_waited_in_a_window_is_gone_when_its_parameter_was_frozen_in_it():
    trainer = take(line(accumulation=2), BATCHES[:1])
    trainer.graph.freeze("b")
    take(trainer, BATCHES[1:2])
    trainer.graph.unfreeze("b")
    fresh = like(trainer, accumulation=2)
    assert_same(take(trainer, BATCHES[2:4]), take(fresh, BATCHES[2:4]))


def test_an_average_begins_anew_after_it_was_off_as_it_does_after_a_continuation():
    trainer = take(line(ema=gw.EMA(0.5)), BATCHES[:3])
    trainer.config = trainer.config.but(ema=None)
    take(trainer, BATCHES[3:4])
    again = like(trainer)
    again.load_state_dict(trainer.state_dict())
    for one in (trainer, again):
        one.config = one.config.but(ema=gw.EMA(0.5))
        take(one, BATCHES[4:7])
    assert trainer.state_dict()["state/averaging/ema/seen"] == 3
    assert_same(trainer, again)


@pytest.mark.parametrize("apart", [False, True])
def test_a_state_from_before_the_first_step_takes_a_training_back_to_it(apart):
    settings = {"optimizer": gw.optim.Adam(0.1), "ema": gw.EMA(0.5), "apart": apart}
    trainer = line(**settings)
    state = trainer.state_dict()
    take(trainer, BATCHES[:3]).load_state_dict(state)
    fresh = like(trainer, **settings)
    assert_same(take(trainer, BATCHES[3:5]), take(fresh, BATCHES[3:5]))


def test_a_loaded_window_is_forgotten_with_another_accumulation():
    begun = take(line(accumulation=3), BATCHES[:1])
    trainer = line(accumulation=3)
    trainer.load_state_dict(begun.state_dict())
    trainer.config = trainer.config.but(accumulation=2)
    assert trainer.window == (0, 2)
    assert_same(take(trainer, BATCHES[1:3]), take(line(accumulation=2), BATCHES[1:3]))


def test_a_step_that_cannot_be_built_loses_no_state():
    trainer = take(line(accumulation=2, ema=gw.EMA(0.5)), BATCHES[:3])
    before, good = trainer.state_dict(), trainer.config
    trainer.config = good.but(groups=[gw.Group("nobody")])
    with pytest.raises(TrainingError, match="no variable fits"):
        trainer.step(BATCHES[3])
    after = trainer.state_dict()
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[k], after[k]) for k in before)
    trainer.config = good
    whole = take(line(accumulation=2, ema=gw.EMA(0.5)), BATCHES[:4])
    assert_same(take(trainer, BATCHES[3:4]), whole)


# -- another optimizer -----------------------------------------------------------------------------


def test_a_training_goes_on_from_its_state_after_its_optimizer_was_changed():
    trainer = take(line(optimizer=gw.optim.Adam(0.1)), BATCHES[:2])
    trainer.optimizer = gw.optim.SGD(0.1, momentum=0.9)
    for batch in BATCHES[2:4]:  # before the first step with it, and after
        again = like(trainer, optimizer=gw.optim.SGD(0.1, momentum=0.9))
        again.load_state_dict(trainer.state_dict())
        trainer.step(batch), again.step(batch)
        assert_same(trainer, again)


@pytest.mark.parametrize("first", [gw.optim.AdaMax, gw.optim.SGD, gw.optim.AMSGrad])
def test_moments_of_another_optimizer_are_not_corrected_as_if_they_were_old(torch, first):
    trainer = take(line(optimizer=gw.optim.Adam(0.01)), BATCHES[:5])
    trainer.optimizer = first(0.01)
    take(trainer, BATCHES[5:10])
    trainer.optimizer = gw.optim.Adam(0.01)
    w, b = (torch.tensor(trainer.values[n], requires_grad=True) for n in ("w", "b"))
    theirs = torch.optim.Adam([w, b], lr=0.01)
    for batch in BATCHES[10:14]:
        trainer.step(batch)
        theirs.zero_grad()
        x, t = (torch.tensor(batch[k]) for k in ("x", "t"))
        ((x @ w + b - t) ** 2).mean().backward()
        theirs.step()
    np.testing.assert_allclose(trainer.values["w"], w.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_settings_that_change_between_asking_for_a_step_and_running_it_wait_for_the_next():
    def rate(step):
        if step == 1:
            own = gw.Group("b", gw.optim.SGD(0.0))
            trainer.config = trainer.config.but(groups=[own])
        return 0.1

    trainer = line(optimizer=gw.optim.SGD(rate))
    take(trainer, BATCHES[:2])
    b = trainer.values["b"].copy()
    assert trainer.step(BATCHES[2]).metrics["learning_rate_1"] == 0.0
    assert trainer.values["b"] == b


def test_what_is_chosen_when_a_trainer_is_made_is_not_silently_kept():
    trainer = line()
    for changed in ({"parameters": ["b"]}, {"metrics": {"size": "loss"}}):
        with pytest.raises(TrainingError, match="cannot change"):
            trainer.config = trainer.config.but(**changed)


# -- a load that fails, an average that stands in --------------------------------------------------


def test_a_callback_that_refuses_its_state_leaves_all_as_it_was():
    class Counting(gw.Callback):
        count = 0

        def state_dict(self):
            return {"count": np.array(self.count)}

        def load_state_dict(self, state):
            self.count = int(state["count"])

    class Picky(Counting):
        def load_state_dict(self, state):
            if state["count"] == 1:
                raise TrainingError("not this one")
            super().load_state_dict(state)

    def made(count):
        trainer = line(optimizer=gw.optim.Adam(0.1), callbacks=[Counting(), Picky()])
        for callback in trainer.callbacks:
            callback.count = count
        return trainer

    state = take(made(1), BATCHES[:1]).state_dict()
    trainer = take(made(2), BATCHES[:3])
    before = trainer.state_dict()
    with pytest.raises(TrainingError, match="not this one"):
        trainer.load_state_dict(state)
    after = trainer.state_dict()
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[k], after[k]) for k in before)


def test_an_average_that_stands_in_is_neither_saved_nor_trained_nor_replaced(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path)
    trainer = line(ema=gw.EMA(0.9), callbacks=[checkpoints])
    trainer.fit(BATCHES[:4], progress=False)
    state, weights = trainer.state_dict(), trainer.values["w"].copy()
    with trainer.averaged("ema"):
        for refused in (
            lambda: checkpoints.save(trainer),
            lambda: gw.resume(trainer, tmp_path),
            lambda: trainer.load_state_dict(state),
            lambda: trainer.resume(),
        ):
            with pytest.raises(TrainingError, match="hold their average 'ema'"):
                refused()
    np.testing.assert_array_equal(trainer.values["w"], weights)


def test_a_fit_that_is_stopped_while_an_average_stands_in_saves_no_average(tmp_path):
    trainer = line(ema=gw.EMA(0.9), callbacks=[gw.Checkpoints(tmp_path)])
    paused = threading.Event()

    class Pausing(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 3:
                trainer.pause()

        def on_pause(self, trainer):
            paused.set()

    trainer.add_callback(Pausing())
    thread = threading.Thread(target=lambda: trainer.fit(BATCHES, progress=False))
    thread.start()
    assert paused.wait(60)
    with trainer.averaged("ema"):
        trainer.stop()
        thread.join()
    assert gw.Checkpoints(tmp_path).list() == ()


# -- the scale of the loss -------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [gw.LossScale("static"), gw.LossScale(initial=8.0, smallest=2.0)])
def test_what_no_smaller_scale_can_mend_is_refused(scale):
    trainer = line(loss_scale=scale)
    with pytest.raises(TrainingError, match="is not finite"):
        take(trainer, [BAD] * 4)
    assert trainer.skipped == (0 if scale.mode == "static" else 2)
    assert take(line(loss_scale=scale, nonfinite="skip"), [BAD] * 4).skipped == 4


def test_small_gradients_of_16_bit_parameters_outlive_the_scale():
    g = gw.Graph()
    w = g.variable("w", (4,), dtype="float16", init=1.0)
    loss = gw.sum(gw.cast(w, "float32")) * 1e-9  # float16 ends at 6e-8
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(0.125, eps=1e-12), loss_scale=2.0**20)
    norm = trainer.step({}).metrics["grad_norm"]
    np.testing.assert_allclose(norm, 2e-9, rtol=1e-3)
    assert g.values["w"].tolist() == [0.875] * 4
    assert trainer.state_dict()["state/w/m"].dtype == F32


def test_an_overflow_in_16_bits_is_called_the_loss_that_it_is():
    trainer = line(precision="float16", loss_scale=1.0)
    with pytest.raises(TrainingError, match="the loss 'loss' is not finite"):
        trainer.step({"x": np.full((4, 3), 1e6, F32), "t": BATCHES[0]["t"]})


# -- settings that change just before a checkpoint -------------------------------------------------


@pytest.mark.parametrize("what", ["freeze", "no average", "no window", "average"])
@pytest.mark.parametrize("when", [3, 5])
def test_what_changes_at_a_step_is_continued_from_a_checkpoint_of_it(tmp_path, what, when):
    class Changing(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step != 3:
                return
            if what == "freeze":
                trainer.graph.freeze("b")
            if what == "no average":
                trainer.config = trainer.config.but(ema=None)
            if what == "no window":
                trainer.config = trainer.config.but(accumulation=None)
            if what == "average":
                trainer.config = trainer.config.but(swa=gw.SWA())

    class Stopping(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == when:
                trainer.stop()

    def made(*more):
        return line(ema=gw.EMA(0.5), accumulation=2, callbacks=[Changing(), *more])

    whole = made()
    whole.fit(BATCHES, progress=False)
    made(Stopping(), gw.Checkpoints(tmp_path)).fit(BATCHES, progress=False)
    again = made()
    gw.resume(again, tmp_path)
    assert again.steps_done == when
    again.fit(BATCHES, progress=False)
    assert again.epochs_done == 1
    assert_same(whole, again)


def test_who_looks_from_another_thread_does_not_rebuild_the_step_that_runs():
    found = []

    class Looking(gw.Callback):
        def on_step_end(self, trainer, record):
            def look():
                trainer.clip_norm = 1.0 + record.step
                found.append((list(trainer.graph.all_nodes), trainer.precision_table().rows))

            thread = threading.Thread(target=look)
            thread.start(), thread.join()
            assert list(trainer.graph.all_nodes) == found[-1][0]

    trainer = line(precision="bfloat16", callbacks=[Looking()])
    trainer.fit(BATCHES[:3], progress=False)
    assert next(row[:3] for row in found[2][1]) == ["matmul", "matmul", "bfloat16"]
    assert found[0][0] != found[2][0], "the training itself rebuilds it"
