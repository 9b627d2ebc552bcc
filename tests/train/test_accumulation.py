"""Accumulation: windows equal the big batch, whole or partial, and are paused and saved exactly."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.models import Decoder, DecoderConfig
from tests.support.networks import regression


def net(dtype="float64", seed=0, **options):
    """Return a deterministic trainer of a small net whose loss is a mean over rows."""
    loss = regression(dtype, seed)
    options.setdefault("optimizer", gw.optim.AdamW(0.05))
    options.setdefault("deterministic", True)
    return gw.Trainer(loss.graph, loss, clip_norm=0.7, **options)


def rows(n, dtype="float64"):
    rng = np.random.default_rng(7)
    x = rng.standard_normal((n, 4)).astype(dtype)
    return {"x": x, "t": (x[:, 0] - 2 * x[:, 1]).astype(dtype)}


def fit(trainer, data, batch_size, **options):
    options = {"shuffle": False, "progress": False, **options}
    trainer.fit(data, batch_size=batch_size, **options)
    return trainer


def weights(trainer):
    return {name: trainer.values[name] for name in ("w", "v")}


def everything(trainer):
    """Return all numbers of a training, wall time apart, as bytes."""
    state = {k: v for k, v in trainer.state_dict().items() if not k.endswith("seconds")}
    values = {t.name: trainer.values[t.name] for t in trainer.graph.variables}
    return {k: np.asarray(v).tobytes() for k, v in {**state, **values}.items()}


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-13), ("float32", 1e-6)])
def test_windows_are_the_big_batch_even_a_short_one(dtype, tolerance):
    """22 rows: windows of 4 · 4 rows, and one of 4 + 2 at the end of the epoch."""
    data = rows(22, dtype)
    small = fit(net(dtype, accumulation=gw.Accumulation(4)), data, 4, epochs=3)
    big = fit(net(dtype), data, 16, epochs=3)
    for name, value in weights(big).items():
        np.testing.assert_allclose(small.values[name], value, rtol=tolerance, atol=tolerance)
    for name in ("loss", "grad_norm", "learning_rate", "epoch", "step"):
        np.testing.assert_allclose(
            small.history.steps[name], big.history.steps[name], rtol=10 * tolerance
        )
    np.testing.assert_allclose(
        small.history.epochs["loss"], big.history.epochs["loss"], rtol=10 * tolerance
    )
    assert small.steps_done == 6
    assert small.progress.total == 6
    assert small.progress.per_epoch == 2


def test_batches_can_weigh_the_same():
    data = rows(10)
    one, two, three = ({k: a[i : i + 4] for k, a in data.items()} for i in (0, 4, 8))
    trainer = net(optimizer=gw.optim.SGD(1.0), accumulation=gw.Accumulation(3, by="batch"))
    gradients = gw.gradients(trainer.graph["loss"], [trainer.graph["v"]])
    each = [trainer.graph.output(b, gradients[0])[gradients[0].name] for b in (one, two, three)]
    mean = np.mean(each, axis=0)
    before = trainer.values["v"]
    assert [trainer.step(b) is None for b in (one, two, three)] == [True, True, False]
    norm = trainer.history.steps["grad_norm"][0]
    np.testing.assert_allclose(
        before - trainer.values["v"], mean * min(1.0, 0.7 / norm), rtol=1e-10
    )


def tokens(**options):
    """Return a trainer whose loss is the mean over the tokens of a mask."""
    g = gw.Graph("tokens")
    x, mask = g.placeholder("x", (None, 5), "float64"), g.placeholder("mask", (None, 5), "float64")
    w = g.variable("w", init=np.float64(1.0))
    loss = gw.sum((x * w - 1.0) ** 2.0 * mask) / gw.sum(mask)
    return gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1), **options)


def test_tokens_weigh_by_their_number_in_the_whole_window():
    rng = np.random.default_rng(2)
    data = {"x": rng.standard_normal((12, 5)), "mask": np.zeros((12, 5))}
    for i, n in enumerate(rng.integers(1, 6, 12)):
        data["mask"][i, :n] = 1.0
    small = tokens(accumulation=gw.Accumulation(3, by="token", tokens="mask"))
    big = tokens()
    fit(small, data, 2, epochs=2), fit(big, data, 6, epochs=2)
    assert small.values["w"] == pytest.approx(big.values["w"], rel=1e-13)
    np.testing.assert_allclose(small.history.steps["loss"], big.history.steps["loss"], rtol=1e-13)
    unweighted = fit(tokens(accumulation=3), data, 2, epochs=2)
    assert abs(unweighted.values["w"] - big.values["w"]) > 1e-6


def test_sums_of_sixteen_bits_are_float32():
    g = gw.Graph()
    x, w = g.placeholder("x", (None,), "float16"), g.variable("w", init=np.float16(0))
    trainer = gw.Trainer(
        g, gw.mean(x * w), optimizer=gw.optim.SGD(1.0), accumulation=gw.Accumulation(64)
    )
    fit(trainer, {"x": np.full(64, 1.0 + 2.0**-10, "float16")}, 1)
    assert trainer.values["optimizer/accumulated/w"].dtype == np.float32
    assert trainer.values["w"] == -np.float16(1.0 + 2.0**-10)  # a float16 sum would lose the bit


class Batches:
    """Batches of 4 rows; ``stop`` is called before one of them."""

    def __init__(self, data, stop=None, before=-1):
        self.parts = [{k: a[i : i + 4] for k, a in data.items()} for i in range(0, 22, 4)]
        self.stop, self.before = stop, before

    def __len__(self):
        return len(self.parts)

    def __iter__(self):
        for i, part in enumerate(self.parts):
            if i == self.before:
                self.stop()
            yield part


@pytest.mark.parametrize("before", range(6))
def test_a_window_is_interrupted_saved_and_continued_to_the_bit(before):
    """Windows of 4 and 2 batches, stopped after each batch, and taken up by another trainer."""
    data = rows(22)
    options = {"accumulation": gw.Accumulation(4), "optimizer": gw.optim.Adam(0.05)}
    whole = net(**options)
    whole.fit(Batches(data), epochs=2, progress=False)
    first, second = net(**options), net(**options)
    first.fit(Batches(data, first.stop, before), epochs=1, progress=False)
    assert first.window == ((before + 1) % 4, 4)
    assert first.batches_done == before + 1
    second.values.restore({t.name: first.values[t.name] for t in first.graph.variables})
    second.load_state_dict(first.state_dict())
    assert second.window == first.window
    assert everything(second) == everything(first)
    for trainer in (first, second):
        trainer.fit(Batches(data), epochs=2, progress=False)
        assert everything(trainer) == everything(whole)


def test_running_means_follow_each_batch_and_weights_only_windows():
    trainer, data = net(accumulation=2), rows(4)
    before = weights(trainer)
    assert trainer.step(data) is None
    for name, value in before.items():
        np.testing.assert_array_equal(trainer.values[name], value)
    assert np.abs(trainer.values["mean"]).max() > 0
    assert trainer.window == (1, 2)
    assert trainer.steps_done == trainer.history.steps.rows == 0
    record = trainer.step(data)
    assert record.step == 1
    assert not np.array_equal(trainer.values["w"], before["w"])


def test_random_ops_differ_between_the_batches_of_a_window():
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 50)), g.variable("w", (50,), init=1.0)
    loss = gw.mean(gw.nn.dropout(x * w, p=0.5))
    seen = []
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.0), accumulation=2)
    for _ in range(4):
        trainer.step({"x": np.ones((4, 50))})
        seen.append(trainer.values["optimizer/accumulated/w"].tobytes())
    assert len(set(seen)) == 3  # empty after the second and the fourth
    assert len(set(trainer.history.steps["loss"])) == 2


def test_other_data_begin_a_window_anew():
    trainer = net(accumulation=2)
    fit(trainer, rows(12), 4, steps=1)
    trainer.step(rows(4))
    assert trainer.window == (1, 2)
    fit(trainer, rows(16), 4)
    fresh = net(accumulation=2)
    fit(fresh, rows(12), 4, steps=1)
    fit(fresh, rows(16), 4)
    np.testing.assert_array_equal(trainer.values["w"], fresh.values["w"])


def test_groups_of_steps_fall_back_to_windows():
    data = rows(24)
    singly = fit(net(accumulation=2), data, 4, epochs=2)
    grouped = fit(net(accumulation=2), data, 4, epochs=2, unroll=3)
    assert everything(singly) == everything(grouped)


def test_a_batch_that_is_not_finite_changes_nothing_or_ends_the_window():
    data, bad = rows(4), rows(4)
    bad["x"][0, 0] = np.inf
    trainer = net(accumulation=3)
    trainer.step(data)
    before = everything(trainer)
    with pytest.raises(TrainingError, match=r"step 1: the data of placeholder 'x' is not finite"):
        trainer.step(bad)
    assert everything(trainer) == before
    skipping = net(accumulation=3, nonfinite="skip")
    kept = weights(skipping)
    skipping.step(data)
    record = skipping.step(bad)
    assert not np.isfinite(record.metrics["grad_norm"])
    assert (skipping.skipped, skipping.window) == (1, (0, 3))
    for name, value in kept.items():
        np.testing.assert_array_equal(skipping.values[name], value)
    assert not skipping.values["optimizer/accumulated/w"].any()
    fresh = net(accumulation=3)
    for _ in range(3):
        skipping.step(data), fresh.step(data)
    np.testing.assert_array_equal(skipping.values["w"], fresh.values["w"])


def test_accumulations_that_make_no_sense_are_named():
    with pytest.raises(TrainingError, match="steps=0 are no batches"):
        gw.Accumulation(0)
    with pytest.raises(TrainingError, match="by='tokens' is not known"):
        gw.Accumulation(2, by="tokens")
    with pytest.raises(TrainingError, match=r"by='token' does not go with tokens=None"):
        gw.Accumulation(2, by="token")
    one, two = net(accumulation=4), net(accumulation=2)
    for _ in range(3):
        one.step(rows(4))
    with pytest.raises(TrainingError, match="state with 3 batches of a window"):
        two.load_state_dict(one.state_dict())


# -- loops of one's own ----------------------------------------------------------------------------


def test_gradients_of_a_loop_of_one_s_own_are_those_of_the_big_batch():
    trainer, data = net(), rows(22)
    names = ["w", "v"]
    grads = gw.gradients(trainer.graph["loss"], [trainer.graph[n] for n in names])

    def gradients(batch):
        found = trainer.graph.output(batch, *grads)
        return {n: found[t.name] for n, t in zip(names, grads, strict=True)}

    window = gw.GradientAccumulator()
    for i in range(0, 22, 4):
        part = {k: a[i : i + 4] for k, a in data.items()}
        window.add(gradients(part), weight=len(part["x"]))
    assert (window.batches, window.weight) == (6, 22.0)
    for name, mean in window.take().items():
        np.testing.assert_allclose(mean, gradients(data)[name], rtol=1e-12)


def test_gradients_that_do_not_fit_are_refused_and_leave_the_sums():
    window = gw.GradientAccumulator()
    with pytest.raises(TrainingError, match="no gradients to take"):
        window.take()
    window.add({"w": np.ones(2), "v": np.ones(3, "float16")})
    for wrong, message in (
        ({"w": np.ones(2)}, "need: w, v"),
        ({"w": np.ones(2), "v": np.ones(4)}, r"'v' is \[4\]"),
        ({"w": np.ones(2), "v": [1, np.nan, 1]}, "'v' is not finite"),
    ):
        with pytest.raises(TrainingError, match=message):
            window.add(wrong)
    with pytest.raises(TrainingError, match="cannot weigh 0"):
        window.add({"w": np.ones(2), "v": np.ones(3)}, weight=0)
    means = window.take()
    assert (means["w"].tolist(), means["v"].dtype) == ([1.0, 1.0], np.float32)


def test_tokens_that_count_less_than_nothing_are_refused():
    model = Decoder(DecoderConfig(vocabulary=10, width=16, layers=1, heads=2))
    rows = model.examples([[1, 2, 3, 4], [5, 6]])
    wrong = gw.Accumulation(2, by="token", tokens="labels")
    trainer = gw.Trainer(model.graph, model.loss, accumulation=wrong)
    before = {n: a.tobytes() for n, a in model.graph.values.snapshot().items()}
    with pytest.raises(TrainingError, match="step 1: 'labels' counts -179 tokens"):
        trainer.fit([rows, rows], progress=False)
    assert before == {n: model.graph.values[n].tobytes() for n in before}


def test_a_decoder_counts_its_tokens():
    config = DecoderConfig(vocabulary=10, width=16, layers=1, heads=2)
    one, two = Decoder(config), Decoder(config)
    rows = one.examples([[1, 2, 3, 4], [5, 6], [7, 8, 9]])
    parts = [{k: a[:1] for k, a in rows.items()}, {k: a[1:] for k, a in rows.items()}]
    gw.Trainer(one.graph, one.loss, gw.optim.SGD(0.5)).fit([rows], progress=False)
    window = gw.Accumulation(2, by="token", tokens=two.tokens)
    trainer = gw.Trainer(two.graph, two.loss, gw.optim.SGD(0.5), accumulation=window)
    trainer.fit(parts, progress=False)
    assert trainer.steps_done == 1
    for name, array in one.graph.values.snapshot().items():
        np.testing.assert_allclose(two.graph.values[name], array, rtol=2e-5, atol=1e-6)
