"""Unrolled training: K steps in one plan are K single steps, to the bit."""

from __future__ import annotations

import dataclasses
import signal

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError

BATCH, ROWS = 8, 44  # five batches and a half per epoch


def data(rows=ROWS):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((rows, 6)).astype("float32")
    return {"x": x, "t": rng.integers(0, 3, rows)}


def net(kind="all", **options):
    """Return a deterministic trainer; if not plain, with batch norm, dropout and a running mean."""
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 6)), g.placeholder("t", (None,), "int64")
    rng = np.random.default_rng(1)
    w = g.variable("w", init=rng.standard_normal((6, 12)).astype("float32"))
    b = g.variable("b", (12,))
    v = g.variable("v", init=rng.standard_normal((12, 3)).astype("float32"))
    scale = g.variable("scale", init=np.float32(1.5), trainable=False)  # frozen, and in every step
    h = x @ w + b
    if kind != "plain":
        h = gw.nn.batch_norm(h, name="bn")
    h = gw.nn.relu(h) * (scale * 2.0 + 0.25)
    if kind != "plain":
        h = gw.nn.dropout(h, p=0.3)
        mean = g.variable("mean", (12,), trainable=False)
        g.update(mean, mean * 0.9 + gw.mean(h, axis=0) * 0.1)
    logits = h @ v
    loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    options.setdefault("optimizer", gw.optim.AdamW(gw.schedules.Cosine(0.05, steps=20, warmup=3)))
    options.setdefault("clip_norm", 1.0)
    options.setdefault("session", gw.Session(g, seed=4, deterministic=True))
    metrics = {"accuracy": gw.metrics.accuracy(t, logits), "f1": gw.metrics.MacroF1(t, logits)}
    return gw.Trainer(g, loss, metrics=metrics, seed=4, **options)


def outcome(trainer):
    """Return all numbers of a training, wall time apart, to be compared bit for bit."""
    state = {k: v for k, v in trainer.state_dict().items() if not k.endswith("seconds")}
    values = {n.name: trainer.values[n.name] for n in trainer.graph.variables}
    return {k: np.asarray(v).tobytes() for k, v in {**state, **values}.items()}


def fit(trainer, unroll, data=None, **options):
    options = {"epochs": 2, "batch_size": BATCH, "progress": False, **options}
    trainer.fit(globals()["data"]() if data is None else data, unroll=unroll, **options)
    return trainer


class Runs(gw.Listener):
    """Counts the runs of a session that train."""

    def __init__(self):
        self.count = 0

    def run_started(self, event):
        self.count += event.training


@pytest.mark.parametrize("unroll", [2, 3, 4, 5])
@pytest.mark.parametrize("kind", ["all", "plain"])
def test_groups_are_single_steps_to_the_bit(kind, unroll):
    trainer = net(kind)
    trainer.session.listeners.append(runs := Runs())
    assert outcome(fit(trainer, unroll)) == outcome(fit(net(kind), 1))
    groups, singles = divmod(5, unroll)  # the sixth batch of an epoch is short
    assert runs.count == 2 * (groups + singles + 1)


@pytest.mark.parametrize(
    "optimizer",
    [gw.optim.SGD(0.1, momentum=0.9, nesterov=True), gw.optim.SGD(0.1, weight_decay=0.01)],
    ids=["momentum", "decay"],
)
def test_other_optimizers_are_unrolled_to_the_bit(optimizer):
    options = {"optimizer": optimizer, "clip_norm": None}
    assert outcome(fit(net(**options), 4)) == outcome(fit(net(**options), 1))


def test_an_optimizer_made_of_ops_is_unrolled_to_the_bit():
    @dataclasses.dataclass
    class Decayed(gw.optim.Optimizer):
        """A chain of factors, which rewrites would join across steps."""

        learning_rate: float = 0.1

        def update(self, param, grad, slots, scalars):
            rate = gw.cast(scalars["learning_rate"], "float32")
            return (param * 0.999 - rate * gw.tanh(grad),)

    options = {"optimizer": Decayed()}
    assert outcome(fit(net(**options), 5)) == outcome(fit(net(**options), 1))


def test_running_statistics_and_metrics_change_in_groups():
    trainer = fit(net(), 5)
    # One mean may be near 0: Adam makes whole steps of the bias's gradients, which are roundings.
    assert np.median(np.abs(trainer.values["bn/running_mean"])) > 1e-2
    assert np.abs(trainer.values["mean"]).max() > 0.1
    steps = trainer.history.steps
    assert len(set(steps["loss"])) == len(set(steps["grad_norm"])) == 12
    assert np.isfinite(steps["f1"]).all() and np.isfinite(steps["accuracy"]).all()
    assert np.diff(steps["seconds"]).min() > 0 and np.diff(steps["learning_rate"][:3]).min() > 0


def test_a_group_is_a_loop_in_numpy():
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 3), "float64"), g.placeholder("t", (None,), "float64")
    w = g.variable("w", (3,), dtype="float64")
    trainer = gw.Trainer(g, gw.mean((x @ w - t) ** 2.0), optimizer=gw.optim.SGD(0.05, momentum=0.9))
    rng = np.random.default_rng(0)
    xs, ts = rng.standard_normal((20, 3)), rng.standard_normal(20)
    history = trainer.fit(
        {"x": xs, "t": ts}, batch_size=5, epochs=3, shuffle=False, unroll=4, progress=False
    )
    p, u, losses = np.zeros(3), np.zeros(3), []
    for _ in range(3):
        for i in range(0, 20, 5):
            error = xs[i : i + 5] @ p - ts[i : i + 5]
            losses.append(np.mean(error**2))
            u = 0.9 * u + 2 * xs[i : i + 5].T @ error / 5
            p = p - 0.05 * u
    assert np.allclose(trainer.values["w"], p, rtol=1e-12)
    assert np.allclose(history.steps["loss"], losses, rtol=1e-12)


def test_groups_train_as_torch_does(torch):
    x, t = data(40)["x"], data(40)["t"]
    trainer = net("plain", optimizer=gw.optim.Adam(0.02), clip_norm=0.5)
    first = {n: torch.tensor(trainer.values[n].copy(), requires_grad=True) for n in "wbv"}
    fit(trainer, 5, data=data(40), shuffle=False)
    adam = torch.optim.Adam(first.values(), lr=0.02)
    losses = []
    for _ in range(2):
        for i in range(0, 40, BATCH):
            h = torch.relu(torch.tensor(x[i : i + BATCH]) @ first["w"] + first["b"])
            logits = h * (1.5 * 2.0 + 0.25) @ first["v"]
            loss = torch.nn.functional.cross_entropy(logits, torch.tensor(t[i : i + BATCH]))
            adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(first.values(), 0.5)
            adam.step()
            losses.append(loss.item())
    assert np.allclose(trainer.history.steps["loss"], losses, rtol=1e-4)
    for name, value in first.items():
        assert np.allclose(trainer.values[name], value.detach().numpy(), rtol=1e-3, atol=1e-5)


# -- steps that are not finite -----------------------------------------------------------------


def spoiled(at):
    whole = data(40)
    whole["x"][at * BATCH + 3, 2] = np.nan
    return whole


@pytest.mark.parametrize("at", range(5))
def test_a_step_that_is_not_finite_is_skipped_in_a_group(at):
    options = {"data": spoiled(at), "shuffle": False, "epochs": 2}
    trainer = net(nonfinite="skip")
    trainer.session.listeners.append(runs := Runs())
    many = fit(trainer, 5, **options)
    one = fit(net(nonfinite="skip"), 1, **options)
    assert outcome(many) == outcome(one) and many.skipped == 2 and runs.count == 2


@pytest.mark.parametrize("at", range(5))
def test_a_step_that_is_not_finite_in_a_group_is_named(at):
    def failed(unroll):
        trainer = net()
        with pytest.raises(TrainingError) as caught:
            fit(trainer, unroll, data=spoiled(at), shuffle=False)
        return outcome(trainer), str(caught.value), trainer.steps_done

    many, one = failed(5), failed(1)
    assert many == one and f"step {at + 1}" in many[1] and many[2] == at


def test_what_is_done_about_steps_that_are_not_finite_may_change():
    trainer = net(nonfinite="raise")
    trainer = fit(trainer, 5, data=data(40), epochs=1)
    trainer.nonfinite = "skip"
    fit(trainer, 5, data=spoiled(2), epochs=1)
    trainer.nonfinite = "raise"
    fit(trainer, 5, data=data(40), epochs=1)
    assert trainer.skipped == 1 and trainer.steps_done == 15


# -- between groups ------------------------------------------------------------------------------


class At(gw.Callback):
    """Notes the steps it is told of, and does something after one."""

    def __init__(self, do=None, step=0):
        self.do, self.step, self.seen = do, step, []

    def on_step_end(self, trainer, record):
        self.seen.append((record.step, record.metrics["loss"]))
        if record.step == self.step:
            self.do(trainer)


def test_callbacks_are_told_of_every_step_in_order():
    many, one = At(), At()
    fit(net(callbacks=[many]), 3)
    fit(net(callbacks=[one]), 1)
    assert many.seen == one.seen and [s for s, _ in many.seen] == list(range(1, 13))


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6, 7])
def test_stopped_between_groups_and_continued(step):
    trainer = net(callbacks=[At(lambda trainer: trainer.stop(), step)])
    fit(trainer, 2)
    assert trainer.steps_done in (step, step + 1)
    fit(trainer, 2, epochs=2 - trainer.epochs_done)
    assert outcome(trainer) == outcome(fit(net(), 1))


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 10])
def test_steps_end_a_fit_exactly(steps):
    trainer = fit(net(), 3, steps=steps)
    assert trainer.steps_done == steps
    assert outcome(fit(trainer, 3, epochs=2 - trainer.epochs_done)) == outcome(fit(net(), 1))


def test_a_paused_training_takes_as_many_steps_as_it_is_told():
    pauses = []

    class Pausing(gw.Callback):
        def on_fit_start(self, trainer):
            trainer.pause()

        def on_pause(self, trainer):
            pauses.append(trainer.steps_done)
            trainer.resume(steps=2 if len(pauses) < 4 else None)

    trainer = net(callbacks=[Pausing()])
    assert outcome(fit(trainer, 3)) == outcome(fit(net(), 1))
    assert np.diff(pauses).tolist() == [2, 2, 2]


def test_ctrl_c_during_a_group_waits_for_its_commit():
    class Interrupting(gw.Listener):
        def run_started(self, event):
            if event.step == 5:
                signal.raise_signal(signal.SIGINT)

    trainer = net()
    trainer.session.listeners.append(Interrupting())
    with pytest.raises(KeyboardInterrupt):
        fit(trainer, 5, data=data(80))
    assert trainer.steps_done == 10 and trainer.history.steps.rows == 10
    trainer.session.listeners.clear()
    fit(trainer, 5, data=data(80))
    assert outcome(trainer) == outcome(fit(net(), 1, data=data(80)))


def test_what_a_loader_gave_before_it_failed_is_trained():
    def batches(count):
        whole = data()
        for i in range(count):
            yield {k: a[i * BATCH : (i + 1) * BATCH] for k, a in whole.items()}
        raise OSError("the disk is gone")

    trainers = [net(), net()]
    for trainer, unroll in zip(trainers, (4, 1), strict=True):
        with pytest.raises(OSError, match="disk"):
            trainer.fit(batches(3), unroll=unroll, progress=False)
    assert outcome(trainers[0]) == outcome(trainers[1]) and trainers[0].steps_done == 3


def test_changes_are_watched_step_by_step():
    class Watching(gw.Callback):
        def __init__(self):
            self.steps = []

        def wants_changes(self, trainer):
            return trainer.steps_done % 2 == 1

        def on_changes(self, trainer, record, changes):
            self.steps.append((record.step, changes["w"].after.tobytes()))

    many, one = Watching(), Watching()
    fit(net(callbacks=[many]), 4)
    fit(net(callbacks=[one]), 1)
    assert many.steps == one.steps and [s for s, _ in many.steps] == [2, 4, 6, 8, 10, 12]


def test_freezing_counts_from_the_next_group():
    def frozen(trainer):
        trainer.graph.freeze("w")

    trainer = net(callbacks=[At(frozen, 6)])
    fit(trainer, 3, data=data(48))
    one = fit(net(callbacks=[At(frozen, 6)]), 1, data=data(48))
    assert outcome(trainer) == outcome(one)


@pytest.mark.parametrize("options", [{"device": "guard"}, {"check": "replay"}])
def test_groups_run_on_other_devices_and_are_replayed(options):
    def made():
        trainer = net("plain")
        trainer.session = gw.Session(trainer.graph, seed=4, deterministic=True, **options)
        return trainer

    assert outcome(fit(made(), 3)) == outcome(fit(made(), 1))


def test_the_graph_of_a_group_is_derived_and_linear_in_its_steps():
    sizes = []
    for unroll in (2, 3, 4):
        trainer = fit(net(), unroll, data=data(40))
        assert "unrolled" not in str(trainer.graph.summary())
        sizes.append(len(trainer.graph.derived))
        trainer.optimizer = gw.optim.SGD(0.1)
        trainer.step({k: a[:BATCH] for k, a in data().items()})
        assert not [n for n in trainer.graph.derived if "unrolled" in n.name]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] > 0


@pytest.mark.parametrize("unroll", [0, -1, 1.5])
def test_numbers_of_steps_that_make_no_sense_are_named(unroll):
    with pytest.raises(TrainingError, match="unroll"):
        fit(net(), unroll)
