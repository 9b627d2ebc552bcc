"""Training in one call: optimizers by name, g.fit, g.grad, t.eval, trainer.accuracy."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GradwrightError, GraphError, ShapeError, TrainingError

# -- optimizers by name ----------------------------------------------------------------------------


OPTIMIZERS = [
    cls
    for cls in vars(gw.optim).values()
    if isinstance(cls, type)
    and issubclass(cls, gw.optim.Optimizer)
    and cls is not gw.optim.Optimizer
]


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_each_optimizer_has_its_name(cls):
    for name in (cls.__name__, cls.__name__.lower(), cls.__name__.upper()):
        found = gw.optim.get(name)
        assert type(found) is cls and found == cls()


def test_names_take_what_classes_take():
    assert gw.optim.get("rms-prop", 0.1, rho=0.8) == gw.optim.RMSProp(0.1, rho=0.8)
    same = gw.optim.SGD(0.1)
    assert gw.optim.get(same) is same
    with pytest.raises(TrainingError, match=r"'adamm' is no optimizer(.|\n)*try:  'Adam"):
        gw.optim.get("adamm")
    with pytest.raises(TypeError, match="SGD has no 'beta'"):
        gw.optim.get("sgd", beta=1.0)
    with pytest.raises(TrainingError, match="None is no optimizer"):
        gw.optim.get(None)


def test_a_name_stands_for_an_optimizer_in_every_setting():
    g = gw.Graph()
    w, b = g.variable("w", (), init=1.0), g.variable("b", (), init=1.0)
    trainer = gw.Trainer(g, w + b, "sgd", groups=[gw.Group("b", optimizer="lion")])
    assert trainer.optimizer == gw.optim.SGD()
    assert trainer.config.groups[0].optimizer == gw.optim.Lion()
    config = gw.TrainingConfig(optimizer="amsgrad")
    assert config == gw.TrainingConfig(gw.optim.AMSGrad())
    written = {"$class": "TrainingConfig", "optimizer": "nadam"}  # by hand
    assert gw.TrainingConfig.from_json(written).optimizer == gw.optim.Nadam()
    trainer.optimizer = "adam"
    assert trainer.optimizer == gw.optim.Adam()
    trainer.step({})
    with pytest.raises(TrainingError, match="'sgdd' is no optimizer"):
        gw.Trainer(g, w + b, optimizer="sgdd")


# -- g.fit, g.grad, t.eval -------------------------------------------------------------------------


def line():
    g = gw.Graph("line")
    x, t = g.placeholder("x", (None, 3)), g.placeholder("t", (None,))
    y = x @ g.variable("w", (3,), init=[1.0, -1.0, 0.5])
    return g, gw.loss.mean_squared_error(t, y, name="loss")


def rows(n=12):
    x = np.random.default_rng(0).standard_normal((n, 3)).astype(np.float32)
    return {"x": x, "t": (x @ [2.0, 1.0, -1.0]).astype(np.float32)}


def test_fit_is_a_trainer_s_and_a_further_one_goes_on():
    g, _ = line()
    metrics = {"size": gw.mean(g["w"] * g["w"])}
    options = {"optimizer": gw.optim.Adam(0.1), "metrics": metrics, "deterministic": True}
    first = g.fit(rows(), 2, loss="loss", batch_size=4, shuffle=False, progress=False, **options)
    history = g.fit(rows(), 3, batch_size=4, shuffle=False, progress=False)
    assert history is first and history.epochs.rows == 5
    other, loss = line()
    options["metrics"] = {"size": gw.mean(other["w"] * other["w"])}
    trainer = gw.Trainer(other, loss, **options)
    trainer.fit(rows(), epochs=5, batch_size=4, shuffle=False, progress=False)
    assert g.values["w"].tobytes() == other.values["w"].tobytes()
    assert history.epochs["size"].tolist() == trainer.history.epochs["size"].tolist()


def test_a_setting_begins_a_new_training():
    g, _ = line()
    g.fit(rows(), progress=False)
    before = g.fitted_by
    assert g.fit(rows(), steps=3, progress=False) is before.history and before.steps_done == 4
    g.fit(rows(), optimizer="sgd", progress=False)
    assert g.fitted_by is not before and g.fitted_by.steps_done == 1
    g.fit(rows(), config=gw.TrainingConfig(losses="loss"), progress=False)
    assert g.fitted_by.loss is g["loss"]


def test_the_loss_is_the_only_scalar_that_nothing_is_made_of():
    g, loss = line()
    assert g.grad("w") is g.grad(g["w"], loss) is gw.gradients(loss, [g["w"]])[0]
    data = rows()
    expected = 2 / 36 * 3 * data["x"].T @ (data["x"] @ g.values["w"] - data["t"])
    np.testing.assert_allclose(g.grad("w").eval(data), expected, rtol=1e-5)
    other = gw.mean(g["w"], name="other")
    for ask in (lambda: g.grad("w"), lambda: g.fit(data)):
        with pytest.raises(GraphError, match=r"which tensor is its loss(.|\n)*'loss', 'other'"):
            ask()
    assert g.grad("w", other).eval().tolist() == pytest.approx([1 / 3] * 3)
    with pytest.raises(GraphError, match="scalars that nothing else is made of: none"):
        gw.Graph().grad("w")
    with pytest.raises(GradwrightError, match="'nothing'"):
        g.grad("nothing", "loss")


def test_eval_is_the_output_of_one_tensor():
    g, loss = line()
    data = rows()
    found = loss.eval(data)
    assert found == g.output(data, loss)["loss"] and isinstance(found, np.ndarray)
    assert g["w"].eval().tolist() == [1.0, -1.0, 0.5]
    x = g["x"]
    dropped = gw.nn.dropout(x, 0.9)
    np.testing.assert_array_equal(dropped.eval({x: data["x"]}), data["x"])  # in eval mode
    _, high = gw.moments(x)
    np.testing.assert_allclose(high.eval({"x": data["x"]}), data["x"].var(), rtol=1e-5)
    with pytest.raises(FeedError, match="'x'"):
        loss.eval({"t": data["t"]})


# -- accuracy --------------------------------------------------------------------------------------


def classifier(batch=None, loss=gw.loss.sparse_softmax_cross_entropy, **options):
    g = gw.Graph()
    x = g.placeholder("x", (batch, 4))
    dtype, shape = (
        ("int64", (batch,))
        if loss is not gw.loss.softmax_cross_entropy
        else ("float32", (batch, 3))
    )
    t = g.placeholder("t", shape, dtype)
    scores = gw.add(x @ g.variable("w", (4, 3), init=gw.init.normal(seed=1)), 0.0, name="scores")
    return gw.Trainer(g, 2.0 * loss(t, scores) + gw.loss.l2_loss(g["w"]), **options)


def examples(n=23):
    rng = np.random.default_rng(2)
    return rng.standard_normal((n, 4)).astype(np.float32), rng.integers(0, 3, n)


@pytest.mark.parametrize("batch_size", [1, 4, 23, 99])
def test_accuracy_is_that_of_numpy_whatever_the_batches(batch_size):
    trainer, (x, t) = classifier(), examples()
    expected = ((x @ trainer.values["w"]).argmax(1) == t).mean()
    for labels in (t, np.eye(3)[t], t.tolist()):
        assert trainer.accuracy(x, labels, batch_size=batch_size) == pytest.approx(expected)
    assert trainer.accuracy({"x": x}, t) == pytest.approx(expected)
    one_hot = classifier(loss=gw.loss.softmax_cross_entropy)
    assert one_hot.accuracy(x, np.eye(3)[t]) == pytest.approx(expected)
    assert one_hot.accuracy(x, t, scores="scores") == pytest.approx(expected)


def test_batches_of_one_size_are_padded_and_the_padding_is_left_out():
    trainer, (x, t) = classifier(batch=8), examples()
    expected = ((x @ trainer.values["w"]).argmax(1) == t).mean()
    assert trainer.accuracy(x, t) == pytest.approx(expected)


def test_what_the_loss_ignores_does_not_count():
    def loss(t, scores):
        return gw.loss.sparse_softmax_cross_entropy(t, scores, ignore_index=2)

    trainer, (x, t) = classifier(loss=loss), examples()
    hits = (x @ trainer.values["w"]).argmax(1) == t
    assert trainer.accuracy(x, t) == pytest.approx(hits[t != 2].mean())


def test_accuracy_sees_the_average_that_is_evaluated_and_changes_nothing():
    trainer = classifier(swa=gw.SWA(), validate_with="swa", optimizer=gw.optim.SGD(2.0))
    x, t = examples()
    history = trainer.fit({"x": x, "t": t}, epochs=2, batch_size=8, progress=False)
    before = trainer.values["w"].copy()
    with trainer.averaged("swa"):
        expected = ((x @ trainer.values["w"]).argmax(1) == t).mean()
    assert trainer.accuracy(x, t) == pytest.approx(expected)
    assert trainer.values["w"].tobytes() == before.tobytes() and history.steps.rows == 6


def test_what_has_no_accuracy_says_so():
    g, loss = line()
    with pytest.raises(TrainingError, match=r"does not tell the scores of classes(.|\n)*scores="):
        gw.Trainer(g, loss).accuracy(rows()["x"], rows()["t"])
    trainer, (x, t) = classifier(), examples()
    with pytest.raises(ShapeError, match=r"labels of shape \[22\] for scores of \[23, 3\]"):
        trainer.accuracy(x, t[:-1])
    with pytest.raises(TrainingError, match="2 arrays of features"):
        trainer.accuracy((x, x), t)
