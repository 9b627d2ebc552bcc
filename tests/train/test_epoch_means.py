"""Means of epochs and evaluations: a batch weighs what the loss divides by."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import gradwright as gw

LENGTHS = (1, 9, 2, 5, 3)
"""How many tokens count in each of the examples: as far from alike as can be."""


def tokens(seed=0):
    """Return rows of T = 9 tokens of which only some count, and class numbers."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((len(LENGTHS), 9, 3)).astype(np.float32)
    shown = np.arange(9) < np.array(LENGTHS)[:, None]
    labels = rng.integers(0, 4, (len(LENGTHS), 9))
    return {"x": x, "t": np.where(shown, labels, -1), "mask": shown.astype(np.float32)}


def network():
    g = gw.Graph()
    x, t = g.placeholder("x", (None, None, 3)), g.placeholder("t", (None, None), "int64")
    mask = g.placeholder("mask", (None, None))
    scores = x @ g.variable("w", (3, 4), init=gw.init.normal(seed=1))
    return g, t, mask, scores


def each_token(scores, labels):
    """Return −log softmax at the label of each token that counts, in float64."""
    scores = scores.astype(np.float64)
    logs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    shown = labels >= 0
    return -np.take_along_axis(logs, np.where(shown, labels, 0)[..., None], -1)[..., 0][shown]


def by_hand(g, t, mask, scores):
    each = gw.loss.sparse_softmax_cross_entropy(gw.maximum(t, 0), scores, reduction="none")
    return (each * mask).sum() / mask.sum()


LOSSES = {
    "ignore_index": lambda g, t, mask, p: gw.loss.sparse_softmax_cross_entropy(
        t, p, ignore_index=-1
    ),
    "weights": lambda g, t, mask, p: gw.loss.sparse_softmax_cross_entropy(
        gw.maximum(t, 0), p, mask
    ),
    "a quotient of sums": by_hand,
    "guarded": lambda g, t, mask, p: (
        gw.loss.sparse_softmax_cross_entropy(gw.maximum(t, 0), p, mask, reduction="sum")
        / gw.maximum(mask.sum(), 1.0)
    ),
    "two of the same mask": lambda g, t, mask, p: (
        0.25 * gw.loss.sparse_softmax_cross_entropy(t, p, ignore_index=-1)
        + gw.loss.sparse_softmax_cross_entropy(t, 1.0 * p, ignore_index=-1) * 0.75
    ),
    "scaled and penalised": lambda g, t, mask, p: (
        0.5 * gw.loss.sparse_softmax_cross_entropy(t, p, ignore_index=-1) * 2.0
        + 0.0 * gw.loss.l2_loss(g["w"])
    ),
}


@pytest.mark.parametrize("of", LOSSES)
@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_masked_means_weigh_by_what_they_count(of, batch_size):
    g, t, mask, scores = network()
    loss = LOSSES[of](g, t, mask, scores)
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.0))
    data = tokens()
    fed = {name: data[name] for name in data if g[name] in set(trainer.placeholders)}
    expected = each_token(g.output({"x": data["x"]}, scores)[scores.name], data["t"]).mean()
    history = trainer.fit(fed, batch_size=batch_size, validation=fed, progress=False)
    assert history.epochs["loss"][0] == pytest.approx(expected, rel=1e-5)
    assert history.epochs["val_loss"][0] == pytest.approx(expected, rel=1e-5)
    assert trainer.evaluate(fed, batch_size=batch_size)["loss"] == pytest.approx(expected, rel=1e-5)


def test_a_batch_of_nothing_weighs_nothing():
    g, t, mask, scores = network()
    trainer = gw.Trainer(g, by_hand(g, t, mask, scores))
    data = tokens()
    alone = trainer.evaluate(data)["loss"]
    none = {"x": data["x"], "t": np.full_like(data["t"], -1), "mask": np.zeros_like(data["mask"])}
    both = {name: np.concatenate([data[name], none[name]]) for name in data}
    assert trainer.evaluate(both, batch_size=5)["loss"] == pytest.approx(alone, rel=1e-6)


def test_masked_metrics_weigh_by_what_they_count():
    g, t, _, scores = network()
    loss = gw.loss.sparse_softmax_cross_entropy(t, scores, ignore_index=-1)
    accuracy = gw.metrics.accuracy(t, scores, ignore_index=-1)
    trainer = gw.Trainer(g, loss, metrics={"accuracy": accuracy})
    data = tokens()
    hits = g.output({"x": data["x"]}, scores)[scores.name].argmax(-1) == data["t"]
    expected = hits[data["t"] >= 0].mean()
    del data["mask"]
    found = trainer.evaluate(data, batch_size=2)
    assert found["accuracy"] == pytest.approx(expected, rel=1e-6)


def test_a_mean_over_rows_of_different_lengths_weighs_by_elements():
    g = gw.Graph()
    x = g.placeholder("x", (None, None))
    trainer = gw.Trainer(g, gw.mean(x * g.variable("w", (), init=1.0)))
    batches = [{"x": np.ones((2, 1))}, {"x": np.full((1, 4), 7.0)}]
    assert trainer.evaluate(batches)["loss"] == pytest.approx((2 * 1 + 4 * 7) / 6)


def test_a_mean_over_examples_weighs_by_examples():
    g = gw.Graph()
    x = g.placeholder("x", (None, None))
    of_example = (x * g.variable("w", (), init=1.0)).sum(axis=1)
    trainer = gw.Trainer(g, gw.mean(of_example))
    batches = [{"x": np.ones((2, 1))}, {"x": np.full((1, 4), 7.0)}]
    assert trainer.evaluate(batches)["loss"] == pytest.approx((1 + 1 + 28) / 3)


def test_several_losses_weigh_each_by_its_own_and_their_sum_is_that_of_the_means():
    g, t, _, scores = network()
    words = gw.loss.sparse_softmax_cross_entropy(t, scores, ignore_index=-1)
    size = gw.mean((scores * scores).mean(axis=(1, 2)))
    trainer = gw.Trainer(g, {"words": words, "size": size}, optimizer=gw.optim.SGD(0.0))
    data = tokens()
    p = g.output({"x": data["x"]}, scores)[scores.name]
    del data["mask"]
    found = trainer.evaluate(data, batch_size=2)
    assert found["words"] == pytest.approx(each_token(p, data["t"]).mean(), rel=1e-5)
    assert found["size"] == pytest.approx((p.astype(np.float64) ** 2).mean(), rel=1e-5)
    assert found["loss"] == pytest.approx(found["words"] + found["size"], rel=1e-12)
    epoch = trainer.fit(data, batch_size=2, progress=False).last()
    assert {name: epoch[name] for name in found} == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("options", [{}, {"precision": "bfloat16"}, {"unroll": 2}])
def test_a_training_is_the_same_whatever_its_means_weigh_by(options):
    def trained(masked):
        g, t, mask, scores = network()
        loss = gw.loss.sparse_softmax_cross_entropy(t, scores, ignore_index=-1)
        if not masked:
            loss = loss / (1.0 + 0.0 * gw.mean(mask))  # no weight is found behind this
        settings = {k: v for k, v in options.items() if k != "unroll"}
        trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1), deterministic=True, **settings)
        data = tokens() if not masked else {k: v for k, v in tokens().items() if k != "mask"}
        unroll = options.get("unroll", 1)
        trainer.fit(data, epochs=3, batch_size=2, unroll=unroll, progress=False)
        return trainer.values["w"]

    np.testing.assert_allclose(trained(True), trained(False), rtol=1e-6)


def test_an_edit_of_the_graph_leaves_the_weights_right():
    g, t, _, scores = network()
    loss = gw.loss.sparse_softmax_cross_entropy(t, scores, ignore_index=-1)
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.0))
    data = {name: value for name, value in tokens().items() if name != "mask"}
    before = trainer.evaluate(data, batch_size=2)["loss"]
    g.placeholder("another", (2,))
    (scores * 2.0).sum()
    trainer.step(data)
    assert trainer.evaluate(data, batch_size=2)["loss"] == before


def test_a_graph_that_was_trained_is_freed_with_its_trainer():
    g, t, _, scores = network()
    trainer = gw.Trainer(g, gw.loss.sparse_softmax_cross_entropy(t, scores, ignore_index=-1))
    trainer.step({name: value for name, value in tokens().items() if name != "mask"})
    graph = weakref.ref(g)
    del g, t, scores, _, trainer
    gc.collect()
    assert graph() is None


def test_windows_of_batches_weigh_by_their_rule_and_epochs_by_what_counts():
    g, t, _, scores = network()
    loss = gw.loss.sparse_softmax_cross_entropy(t, scores, ignore_index=-1)
    trainer = gw.Trainer(
        g, loss, optimizer=gw.optim.SGD(0.0), accumulation=gw.Accumulation(5, by="batch")
    )
    data = tokens()
    p = g.output({"x": data["x"]}, scores)[scores.name]
    del data["mask"]
    history = trainer.fit(data, batch_size=1, shuffle=False, progress=False)
    rows = [each_token(p[i], data["t"][i]) for i in range(5)]
    assert history.steps["loss"][0] == pytest.approx(np.mean([r.mean() for r in rows]), rel=1e-5)
    assert history.epochs["loss"][0] == pytest.approx(np.concatenate(rows).mean(), rel=1e-5)
