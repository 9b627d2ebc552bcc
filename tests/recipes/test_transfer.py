"""Transfer learning: frozen parts, new heads, cached features, layers that join."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GraphError, ShapeError, TrainingError


@pytest.fixture
def model():
    """Return a graph with a body, a head of two classes, a loss, and data for it."""
    g = gw.Graph("model")
    x, t = g.placeholder("x", (None, 4)), g.placeholder("t", (None,), "int64")
    with g.scope("body"):
        h = gw.tanh(x @ g.variable("w", (4, 8), init=gw.init.he_normal(seed=0)))
        h = gw.nn.dropout(gw.nn.layer_norm(h, g.variable("g", (8,), init=1.0)), 0.3)
    features = gw.identity(h, name="features")
    with g.scope("head"):
        w = g.variable("w", (8, 2), init=gw.init.he_normal(seed=1))
        logits = gw.add(features @ w, g.variable("b", (2,)), name="logits")
    loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 4)).astype("float32")
    return g, features, logits, loss, {"x": rows, "t": (rows[:, 0] > 0).astype("int64")}


def test_freezing_up_to_features_leaves_the_rest(model):
    g, features, _, loss, data = model
    before = {t.name: g.values[t.name] for t in g.variables}
    assert gw.transfer.freeze_up_to(features, but=["*/g"]) == ["body/w"]
    gw.Trainer(g, loss).fit(data, epochs=2, progress=False)
    changed = {n for n, a in before.items() if not np.array_equal(a, g.values[n])}
    assert changed == {"body/g", "head/w", "head/b"}


def test_a_replaced_head_takes_the_losses_and_metrics_along(model):
    g, features, logits, loss, data = model
    accuracy = gw.metrics.accuracy(g["t"], logits)
    body = g.values["body/w"]

    def three():
        return features @ g.variable("w", (8, 3), init=gw.init.he_normal(seed=2))

    gw.transfer.freeze_up_to(features)
    new = gw.transfer.replace_head(logits, three, scope="three")
    assert [t.name for t in g.variables] == ["body/w", "body/g", "three/w"]
    assert new.shape[1] == 3 and g["loss"] is loss
    labels = data["x"][:, :3].argmax(1)
    trainer = gw.Trainer(g, loss, gw.optim.Adam(0.05), metrics={"accuracy": accuracy})
    history = trainer.fit({**data, "t": labels}, epochs=60, progress=False)
    assert history.last()["loss"] < 0.7 * history.epochs["loss"][0]
    np.testing.assert_array_equal(g.values["body/w"], body)


def test_a_head_that_does_not_fit_changes_nothing(model):
    g, features, logits, _, data = model
    nodes, value = [n.name for n in g.nodes], g.output(data, "loss")["loss"]
    with pytest.raises(ShapeError):
        gw.transfer.replace_head(logits, lambda: features.sum(), scope="wrong")
    assert [n.name for n in g.nodes] == nodes
    assert g.output(data, "loss")["loss"] == value
    with pytest.raises(GraphError, match="nothing uses 'loss'"):
        gw.transfer.replace_head(g["loss"], lambda: features.sum())


def test_a_name_is_no_tensor_of_a_graph(model):
    g, features, logits, _, _ = model
    with pytest.raises(GraphError, match=r'(?s)freeze_up_to .*name \'features\'.*g\["features"\]'):
        gw.transfer.freeze_up_to("features")
    with pytest.raises(GraphError, match=r'(?s)replace_head .*name \'logits\'.*g\["logits"\]'):
        gw.transfer.replace_head("logits", lambda: features)
    with pytest.raises(GraphError, match=r"CachedFeatures was given the name 'features'"):
        gw.transfer.CachedFeatures(["features"], [logits])
    count = len(g.nodes)
    with pytest.raises(GraphError, match=r"(?s)replace_head returned a NoneType.*a tensor"):
        gw.transfer.replace_head(logits, lambda: None)
    assert len(g.nodes) == count


def test_a_second_new_head_needs_a_scope_of_its_own(model):
    g, features, logits, loss, _ = model

    def head():
        return features @ g.variable("w", (8, 3))

    first = gw.transfer.replace_head(logits, head)
    with pytest.raises(GraphError, match=r"(?s)'new_head/w' is taken.*scope=\"another\""):
        gw.transfer.replace_head(first, head)
    assert any(t is first for t in loss.node.inputs)  # nothing has changed
    second = gw.transfer.replace_head(first, head, scope="second")
    assert [t.name for t in g.variables if t.shape == (8, 3)] == ["second/w"]
    assert second.uses and "new_head/w" not in g


def test_training_on_cached_features_is_training_the_head(model):
    g, features, logits, loss, data = model
    with pytest.raises(TrainingError, match="depend on trainable 'body/w', 'body/g'"):
        gw.transfer.CachedFeatures(features, [loss])
    gw.transfer.freeze_up_to(features)
    start = g.values.snapshot()
    cached = gw.transfer.CachedFeatures(features, [loss, logits])
    rows = cached.compute(data, batch_size=7)
    assert set(rows) == {"cached/features", "t"}

    def train(loss, data):
        g.values.restore(start)
        session = gw.Session(g, deterministic=True)
        trainer = gw.Trainer(g, loss, gw.optim.Adam(0.05), session=session)
        trainer.fit(data, epochs=5, batch_size=8, progress=False)
        return g.values["head/w"], g.values["head/b"]

    on_features = train(cached.of(loss), rows)
    # What eval mode computes: the whole model without its dropout.
    with g.edit() as edit:
        drop = next(n for n in g.nodes if type(n.op).__name__ == "Dropout")
        edit.replace_use(drop.outputs[0], drop.inputs[-1])
    for ours, theirs in zip(on_features, train(loss, data), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-6)
    assert not cached.is_stale
    g.values["body/w"] = g.values["body/w"] * 2
    assert cached.is_stale
    with pytest.raises(TrainingError, match="has no copy that reads cached features"):
        cached.of(features)


def test_predictions_go_to_disk_row_by_row(model, tmp_path):
    g, features, logits, _, data = model
    held = gw.predict(g, {"f": features, "l": "head/logits"}, data, batch_size=7, folder=tmp_path)
    expected = gw.Session(g).run([features, logits], data)
    for array, name, e in zip(held.values(), "fl", expected, strict=True):
        assert isinstance(array, np.memmap)
        np.testing.assert_allclose(array, e, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), array)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ShapeError, match="need: one row per example"):
        gw.predict(g, {"f": features, "mean": features.mean()}, data, folder=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    np.testing.assert_array_equal(np.load(tmp_path / "f.npy"), held["f"])
    with pytest.raises(FeedError, match="'x' is not fed"):
        gw.predict(g, {"f": features}, {"t": data["t"]})
    trainer = gw.Trainer(g, g["loss"])
    for one in (trainer, trainer.session):
        found = gw.predict(one, {"f": features}, data)["f"]
        np.testing.assert_allclose(found, expected[0], rtol=1e-5, atol=1e-6)
    with pytest.raises(TrainingError, match="need: a graph, session or trainer"):
        gw.predict("net", {"f": features}, data)


def test_predictions_of_whole_batches_and_of_halves(model, tmp_path):
    g, features, _, _, data = model
    half = gw.cast(features, "bfloat16")
    whole = gw.predict(g, {"half": half}, data)["half"]
    parts = [{"x": data["x"][:25]}, {"x": data["x"][25:]}]
    written = gw.predict(g, {"half": half}, parts, folder=tmp_path)["half"]
    assert written.dtype == whole.dtype == half.dtype
    np.testing.assert_array_equal(np.asarray(written, "f4"), np.asarray(whole, "f4"))


def test_joining_trains_parameters_and_no_statistics_or_codes():
    g = gw.Graph()
    with g.scope("body"):
        y = gw.nn.batch_norm(g.placeholder("x", (None, 3)), name="bn")
        g.variable("codes", (3,), dtype="int8")
        y = y * g.variable("scale", (3,), init=1.0)
    y * g.variable("head", (3,))
    plan = gw.transfer.FineTuning(("body/*", "head"), unfreeze_every=1)
    own = ["body/bn/weight", "body/bn/bias", "body/scale"]
    assert plan.apply(g, 0) == ["head"] == [t.name for t in g.trainable]
    assert plan.apply(g, 1) == [*own, "head"] == [t.name for t in g.trainable]


def test_layers_join_from_the_top_at_their_rates(model):
    g, _, _, loss, data = model
    plan = gw.transfer.FineTuning(
        ("body/w", "body/g", "head/w head/b"), decay=0.5, unfreeze_every=2, frozen=1
    )
    assert plan.lr_multipliers == {"body/g": 0.5, "head/w": 1.0, "head/b": 1.0}
    seen = []

    class Watch(gw.Callback):
        def on_epoch_end(self, trainer, record):
            seen.append(sorted(t.name for t in trainer.parameters))

    callbacks = [Watch(), gw.transfer.GradualUnfreezing(plan)]
    trainer = gw.Trainer(g, loss, callbacks=callbacks, lr_multipliers=plan.lr_multipliers)
    trainer.fit(data, epochs=4, progress=False)
    head = ["head/b", "head/w"]
    assert seen == [head, head, ["body/g", *head], ["body/g", *head]]
    with pytest.raises(TrainingError, match="no variable fits 'neck'"):
        gw.transfer.FineTuning(("neck", "head/*")).apply(g)


@pytest.mark.parametrize(
    "wrong",
    [{"layers": "head/*"}, {"layers": ()}, {"decay": 0.0}, {"frozen": 2}, {"unfreeze_every": -1}],
)
def test_plans_that_make_no_sense_are_refused(wrong):
    with pytest.raises(TrainingError):
        gw.transfer.FineTuning(**{"layers": ("a", "b"), **wrong})
