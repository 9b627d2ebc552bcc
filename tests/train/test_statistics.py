"""Parameter statistics against numpy by hand, and that they change no number of a training."""

from __future__ import annotations

import threading

import ml_dtypes
import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.train.callbacks import moments
from gradwright.train.callbacks.moments import norms, value_statistics
from gradwright.train.callbacks.statistics import COLUMNS


def model(dtype="float32", *, optimizer=None, session=None, **options):
    """Return a trainer of a small network of one dtype, in two scopes.

    ``session`` makes its session of the graph.
    """
    g = gw.Graph("net")
    x, t = g.placeholder("x", (None, 5), dtype), g.placeholder("t", (None, 2), dtype)
    with g.scope("hidden"):
        w = g.variable("w", (5, 7), dtype=dtype, init=gw.init.he_normal(seed=0))
        h = gw.tanh(x @ w + g.variable("b", (7,), dtype=dtype))
    y = h @ g.variable("out", (7, 2), dtype=dtype, init=gw.init.xavier_uniform(seed=1))
    loss = gw.mean((y - t) ** 2.0, name="loss")
    if session is not None:
        options["session"] = session(g)
    return gw.Trainer(g, loss, optimizer=optimizer or gw.optim.SGD(0.1), **options)


def data(dtype="float32", n=24):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, 5)).astype(dtype)
    return {"x": x, "t": (x[:, :2] * 3 - 1).astype(dtype)}


def described(array):
    a = array.astype(np.float64).ravel()
    return [a.mean(), a.std(), np.linalg.norm(a), a.min(), a.max(), np.mean(a == 0)]


# -- moments and norms -----------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 7, 64, 131_072])
def test_moments_are_those_of_numpy_however_the_blocks_fall(block, monkeypatch):
    monkeypatch.setattr(moments, "BLOCK", block)
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal((9, 13)).astype("float32"),
        np.array(-3.5),
        rng.standard_normal(200) * 1e-3 + 1e6,
        np.where(rng.random((4, 5)) < 0.5, 0, rng.standard_normal((4, 5))).astype("float16"),
        rng.standard_normal((3, 4)).astype(ml_dtypes.bfloat16),
        rng.standard_normal((6, 8))[:, ::2],
    ]
    expected = [described(a) for a in arrays]
    np.testing.assert_allclose(value_statistics(arrays), expected, rtol=1e-8)
    found, peak = norms(arrays)
    np.testing.assert_allclose(found, [row[2] for row in expected], rtol=1e-12)
    np.testing.assert_array_equal(peak, [np.abs(a.astype(np.float64)).max() for a in arrays])
    apart, _ = norms(arrays, [a[..., ::-1] if a.ndim else a for a in arrays])
    wide = [a.astype(np.float64) for a in arrays]
    by_hand = [np.linalg.norm(a - (a[..., ::-1] if a.ndim else a)) for a in wide]
    np.testing.assert_allclose(apart, by_hand, rtol=1e-12)


def test_moments_of_awkward_arrays():
    awkward = [
        np.zeros((0, 3)),
        np.array([1e-200, 1e-200]),
        np.array([3e200, 4e200]),
        np.array([np.inf, 1.0]),
        np.array([np.nan, 1.0]),
        np.zeros(4),
        np.array([3 + 4j]),
    ]
    found = value_statistics(awkward)
    np.testing.assert_allclose(
        found[:, 2], [0, 2**0.5 * 1e-200, 5e200, np.inf, np.nan, 0, 5], rtol=1e-12
    )
    assert np.isnan(found[0, [0, 1, 3, 4, 5]]).all()
    assert found[5].tolist() == [0, 0, 0, 0, 0, 1]
    assert found[6].tolist() == [3.5, 0.5, 5, 3, 4, 0]
    assert value_statistics([]).shape == (0, 6) and norms([])[0].shape == (0,)


# -- samples ---------------------------------------------------------------------------------------


OPTIMIZERS = {
    "sgd": lambda: gw.optim.SGD(0.1),
    "momentum": lambda: gw.optim.SGD(0.05, momentum=0.9, weight_decay=0.01),
    "adam": lambda: gw.optim.Adam(0.01),
    "adamw": lambda: gw.optim.AdamW(0.01),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_samples_are_what_numpy_finds(kind, clip, dtype):
    watch = gw.ParameterStatistics(every=1)
    trainer = model(dtype, optimizer=OPTIMIZERS[kind](), clip_norm=clip, callbacks=[watch])
    g, feeds = trainer.graph, data(dtype)
    names = ["hidden/w", "hidden/b", "out"]
    assert watch.names == []
    for step in range(1, 4):
        if step == 3:
            g.freeze("hidden/b")
        # The gradient by a graph of its own, the change by what the variables are before and after.
        grads = dict(zip(names, gw.gradients(g["loss"], [g[n] for n in names]), strict=True))
        gradient = gw.Session(g).run(grads, feeds, training=True)
        before = {n: g.values[n].astype(np.float64) for n in names}
        record = trainer.step(feeds)
        assert watch.names == names
        last = watch.last()
        for name in names:
            after = g.values[name].astype(np.float64)
            change, size = np.linalg.norm(after - before[name]), np.linalg.norm(after)
            trained = step < 3 or name != "hidden/b"
            norm = np.linalg.norm(gradient[name].astype(np.float64)) if trained else np.nan
            expected = [*described(after), norm, change, change / size if change else 0.0]
            found = [last[name][c] for c in COLUMNS]
            np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == "float32" else 1e-12)
        together = np.sqrt(np.nansum([last[n]["gradient_norm"] ** 2 for n in names]))
        np.testing.assert_allclose(together, record.metrics["grad_norm"], rtol=1e-5)
    assert last["hidden/b"]["update_norm"] == 0 and watch.steps == [1, 2, 3]


def test_plain_descent_moves_by_rate_times_gradient():
    watch = gw.ParameterStatistics(every=4)
    trainer = model("float64", optimizer=gw.optim.SGD(0.125), callbacks=[watch])
    trainer.fit(data("float64"), epochs=3, batch_size=4, progress=False)
    found = watch.history("hidden/w")
    assert found["step"].tolist() == [1, 5, 9, 13, 17]
    np.testing.assert_allclose(found["update_norm"], 0.125 * found["gradient_norm"], rtol=1e-9)
    np.testing.assert_allclose(found["ratio"], found["update_norm"] / found["norm"], rtol=1e-15)


@pytest.mark.parametrize("options", [{"every": 1}, {"every": 3}, {"every": 1, "seconds": 1e-9}])
@pytest.mark.parametrize("device", ["cpu", "guard"])
def test_training_gives_the_same_bits(options, device):
    def run(callbacks):
        def settled(graph):
            return gw.Session(graph, device, deterministic=True)

        trainer = model(
            optimizer=gw.optim.Adam(0.01), clip_norm=0.5, callbacks=callbacks, session=settled
        )
        trainer.fit(data(), epochs=4, batch_size=5, progress=False)
        columns = trainer.history.steps.snapshot("loss", "grad_norm")
        arrays = {**trainer.state_dict(), **trainer.graph.values}
        bits = {k: v.tobytes() for k, v in arrays.items() if k[:8] != "history/"}
        return bits, {k: v.tobytes() for k, v in columns.items()}

    watch = gw.ParameterStatistics(**options)
    assert run([watch]) == run([])
    assert len(watch.steps) >= 1


def test_a_step_that_is_not_sampled_runs_the_plan_as_ever():
    class Runs(gw.Listener):
        def __init__(self):
            self.fetched = []

        def run_started(self, event):
            self.fetched.append(len(event.fetches))

    runs = Runs()
    trainer = model(callbacks=[gw.ParameterStatistics(every=3)])
    trainer.session.listeners.append(runs)
    trainer.fit(data(), epochs=1, batch_size=4, progress=False)
    plain = runs.fetched[1]
    assert runs.fetched == [plain + 3, plain, plain] * 2


def test_what_was_handed_out_is_not_written_into():
    class Keep(gw.Callback):
        def __init__(self):
            self.held = []

        def wants_changes(self, trainer):
            return True

        def on_changes(self, trainer, record, changes):
            for change in changes.values():
                arrays = (change.gradient, change.before, change.after)
                self.held += [(a, a.tobytes()) for a in arrays]

    keep = Keep()
    model(optimizer=gw.optim.Adam(0.1), callbacks=[keep]).fit(data(), epochs=5, progress=False)
    assert len(keep.held) == 5 * 9
    assert all(array.tobytes() == was for array, was in keep.held)


# -- flags -----------------------------------------------------------------------------------------


def test_a_parameter_without_gradient_is_dead_after_some_samples():
    g = gw.Graph()
    w, d = g.variable("w", (3,), init=1.0), g.variable("d", (3,), init=-1.0)
    loss = gw.sum(gw.nn.relu(d) + w * w)
    watch = gw.ParameterStatistics(every=1, dead_after=3)
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.01), callbacks=[watch])
    seen = []
    for step in range(6):
        if step == 4:
            g.values["d"] = np.ones(3)  # the unit wakes up
        trainer.step({})
        seen.append(watch.flags())
    assert seen == [{}, {}, {"d": ("dead",)}, {"d": ("dead",)}, {}, {}]


def test_tiny_gradients_are_not_dead():
    g = gw.Graph()
    w = g.variable("w", (2,), init=1.0)
    watch = gw.ParameterStatistics(every=1, dead_after=1)
    trainer = gw.Trainer(g, gw.sum(w * 1e-30), optimizer=gw.optim.SGD(0.1), callbacks=[watch])
    record = trainer.step({})
    np.testing.assert_allclose(record.metrics["grad_norm"], 2**0.5 * 1e-30, rtol=1e-6)
    np.testing.assert_allclose(watch.last()["w"]["gradient_norm"], 2**0.5 * 1e-30, rtol=1e-6)
    assert watch.flags() == {}


def test_a_gradient_a_hundred_times_the_usual_one_is_exploding():
    g = gw.Graph()
    scale, w = g.placeholder("scale", ()), g.variable("w", (2,), init=1.0)
    watch = gw.ParameterStatistics(every=1)
    sgd = gw.optim.SGD(1e-9)
    trainer = gw.Trainer(g, gw.sum(w) * scale, optimizer=sgd, callbacks=[watch])
    for size in (1, 2, 1, 2, 1, 90):
        trainer.step({"scale": size})
        assert watch.flags() == {}
    trainer.step({"scale": 1000})
    assert watch.flags() == {"w": ("exploding",)}
    for _ in range(30):
        trainer.step({"scale": 1000})
    assert watch.flags() == {}, "a new level becomes the usual one"


def test_what_is_not_finite_is_flagged_and_not_committed():
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    w, b = g.variable("w", (2,), init=1.0), g.variable("b", (), init=1.0)
    watch = gw.ParameterStatistics(every=1)
    loss = gw.sum(gw.minimum(w * x, 5.0)) + b * b
    trainer = gw.Trainer(g, loss, nonfinite="skip", callbacks=[watch])
    trainer.step({"x": [1.0, np.nan]})
    assert watch.flags() == {"w": ("not finite",)}
    assert watch.last()["b"]["update_norm"] == 0 == watch.last()["b"]["ratio"]
    trainer.step({"x": [1.0, 2.0]})
    assert watch.flags() == {}
    assert watch.last()["b"]["update_norm"] > 0


# -- keeping ---------------------------------------------------------------------------------------


def test_a_long_history_is_thinned_and_keeps_its_ends():
    watch = gw.ParameterStatistics(every=1, keep=8)
    trainer = model(callbacks=[watch])
    layouts = set()
    for _ in range(100):
        trainer.step(data())
        layouts.add(watch.stamp)
        assert len(watch.steps) <= 8
        assert watch.steps == sorted(set(watch.steps)) and watch.steps[-1] == trainer.steps_done
    assert len(layouts) == 100, "every sample has a stamp of its own"
    assert watch.steps == [1, 17, 33, 49, 65, 81, 97, 100]
    held = watch.history("out")
    assert all(len(column) == len(watch.steps) for column in held.values())


def test_memory_is_bounded(monkeypatch):
    from gradwright.train.callbacks import statistics

    monkeypatch.setattr(statistics, "MOST_BYTES", 5 * 3 * 9 * 8)
    watch = gw.ParameterStatistics(every=1)
    trainer = model(callbacks=[watch])
    for _ in range(12):
        trainer.step(data())
    assert 2 <= len(watch.steps) <= 5


def test_other_parameters_keep_the_history_of_those_that_stay():
    watch = gw.ParameterStatistics(every=1)
    trainer = model(callbacks=[watch])
    g = trainer.graph
    for _ in range(3):
        trainer.step(data())
    before = watch.history("out")
    loss = trainer.loss + gw.sum(g.variable("late", (2,), init=1.0) ** 2.0)
    other = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1), callbacks=[watch])
    other.steps_done = 3
    other.step(data())
    assert watch.names == ["hidden/w", "hidden/b", "out", "late"]
    after = watch.history("out")
    assert after["step"].tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(after["gradient_norm"][:3], before["gradient_norm"])
    late = watch.history("late")["norm"]
    assert np.isnan(late[:3]).all() and late[3] > 0


def test_a_loaded_state_takes_back_the_samples_after_it():
    watch = gw.ParameterStatistics(every=1)
    trainer = model(callbacks=[watch], deterministic=True)
    for _ in range(3):
        trainer.step(data())
    state, values = trainer.state_dict(), {n: trainer.graph.values[n] for n in watch.names}
    for _ in range(3):
        trainer.step(data())
    whole = watch.history("out")
    trainer.load_state_dict(state)
    trainer.graph.values.restore(values)
    trainer.step(data())
    assert watch.steps == [1, 2, 3, 4]
    for name, column in watch.history("out").items():
        np.testing.assert_array_equal(column, whole[name][:4])


@pytest.mark.parametrize("others", [False, True])
def test_a_thinned_history_loses_nothing_that_stays(others):
    watch = gw.ParameterStatistics(every=1, keep=4)
    trainer = model(callbacks=[watch])
    for step in range(1, 12):
        trainer.step(data())
        if step == 7:
            state = trainer.state_dict()
    assert watch.steps == [1, 5, 9, 11], "every fourth, and the latest"
    if others:
        g = trainer.graph
        loss = trainer.loss + gw.sum(g.variable("late", (2,), init=1.0) ** 2.0)
        trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1), callbacks=[watch])
        trainer.steps_done = 11
        trainer.step(data())
        assert watch.steps == [1, 5, 9, 12]
    else:
        trainer.load_state_dict(state)
        trainer.step(data())
        assert watch.steps == [1, 5, 8]


def test_a_frozen_parameter_is_not_read_again(monkeypatch):
    from gradwright.train.callbacks import statistics

    read = []

    def spy(arrays):
        read.append(len(arrays))
        return value_statistics(arrays)

    monkeypatch.setattr(statistics, "value_statistics", spy)
    watch = gw.ParameterStatistics(every=1)
    trainer = model(callbacks=[watch])
    trainer.graph.freeze("hidden/*")
    for _ in range(3):
        trainer.step(data())
    assert read == [3, 1, 1]
    np.testing.assert_allclose(
        [watch.last()["hidden/w"][c] for c in COLUMNS[:6]],
        described(trainer.graph.values["hidden/w"]),
    )


def test_the_clock_decides_when_asked_to(monkeypatch):
    from gradwright.train.callbacks import statistics

    clock = [100.0]
    monkeypatch.setattr(statistics.time, "perf_counter", lambda: clock[0])
    watch = gw.ParameterStatistics(every=1, seconds=0.25)
    trainer = model(callbacks=[watch])
    for _ in range(100):
        trainer.step(data())
        clock[0] += 0.01
    assert watch.steps == [1, 26, 51, 76]


def test_it_can_be_read_while_another_thread_trains():
    watch = gw.ParameterStatistics(every=1, keep=16)
    trainer = model(callbacks=[watch])
    thread = threading.Thread(
        target=lambda: trainer.fit(data(), epochs=100, batch_size=6, progress=False)
    )
    thread.start()
    reads = 0
    while thread.is_alive():
        held = watch.samples()
        assert held.table.shape[:2] == (len(held.steps), len(held.names))
        assert np.isfinite(held.table).all() and (np.diff(held.steps) > 0).all()
        watch.last(), watch.flags(), repr(watch)
        reads += 1
    thread.join()
    assert reads and watch.steps[-1] == 400


def test_bad_arguments_are_refused():
    for options in ({"every": 0}, {"seconds": -1.0}, {"keep": 1}, {"dead_after": 0}):
        with pytest.raises(TrainingError, match="make no sense"):
            gw.ParameterStatistics(**options)
    with pytest.raises(KeyError, match="no samples yet"):
        gw.ParameterStatistics().history("w")
    assert gw.ParameterStatistics().last() == {}
