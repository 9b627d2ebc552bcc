"""Evaluations that merge, come back from JSON, and run in trainers and over graphs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import gradwright as gw
from gradwright import evaluation as ev
from gradwright.errors import GradwrightError, TrainingError


def batch(name, rng, n):
    """Return labels, predictions and a mask that an evaluation takes."""
    mask = rng.integers(0, 2, n)
    if name in ("Classification", "ROCMultiClass", "Calibration"):
        labels = rng.integers(0, 3, n)
        scores = rng.random((n, 3)).round(2) + np.eye(3)[labels]
        return labels, scores / 2, mask
    if name in ("Binary", "ROCBinary"):
        return rng.integers(0, 2, (n, 3)), rng.random((n, 3)).round(2), mask
    if name in ("ROC", "fixed"):
        return rng.integers(0, 2, n), rng.random(n).round(2), mask
    return rng.standard_normal((n, 2)), rng.standard_normal((n, 2)), mask


def squares(labels, predictions, mask):
    held = np.ones(len(labels)) if mask is None else mask
    return np.array([(((labels - predictions) ** 2).sum(1) * held).sum(), held.sum()])


MAKE = {
    "Classification": lambda: ev.Classification(classes=["a", "b", "c"]),
    "Binary": lambda: ev.Binary(threshold=[0.3, 0.5, 0.7], outputs=["a", "b", "c"]),
    "ROC": ev.ROC,
    "fixed": lambda: ev.ROC(steps=20),
    "ROCBinary": ev.ROCBinary,
    "ROCMultiClass": lambda: ev.ROCMultiClass(outputs=["a", "b", "c"]),
    "Calibration": lambda: ev.Calibration(bins=7),
    "Regression": ev.Regression,
    "Custom": lambda: ev.Custom(squares, lambda s: {"rms": (s[0] / s[1]) ** 0.5}),
}
COUNTS = [name for name in MAKE if name not in ("Calibration", "Regression", "Custom")]
"""Evaluations that hold nothing but counts, so that no order of additions matters to the bit."""


@pytest.mark.parametrize("name", MAKE)
def test_merged_is_as_if_one_had_seen_all(name, rng):
    batches = [batch(name, rng, n) for n in (40, 1, 90, 7, 33)]
    whole, parts = MAKE[name](), [MAKE[name]() for _ in range(4)]
    for i, given in enumerate(batches):
        whole.add(*given)
        parts[i % 3].add(*given)  # the last sees nothing
    merged = MAKE[name]()
    for part in parts[::-1]:
        merged.merge(part)
    assert merged.count == whole.count
    for number, value in whole.metrics().items():
        assert merged.metrics()[number] == pytest.approx(value, rel=1e-12), number
    if name in COUNTS:
        assert merged.to_json() == whole.to_json()


@pytest.mark.parametrize("name", MAKE)
def test_merging_leaves_the_other_alone(name, rng):
    one, other = (MAKE[name]().add(*batch(name, rng, 30)) for _ in range(2))
    before = other.to_json()
    one.merge(other).add(*batch(name, rng, 10))
    assert other.to_json() == before
    kept = one.copy()
    before = kept.to_json()
    one.add(*batch(name, rng, 10))
    assert kept.to_json() == before and one.to_json() != before


@pytest.mark.parametrize("name", MAKE)
def test_json_comes_back_to_the_bit(name, rng):
    for seen in (MAKE[name](), MAKE[name]().add(*batch(name, rng, 50))):
        data = json.loads(json.dumps(seen.to_json(), allow_nan=False))
        again = seen.restored(data) if name == "Custom" else ev.Evaluation.from_json(data)
        assert type(again) is type(seen) and again.to_json() == seen.to_json()
        np.testing.assert_array_equal(list(again.metrics().values()), list(seen.metrics().values()))
        assert str(again) == str(seen)
        more = batch(name, rng, 20)
        assert again.add(*more).to_json() == seen.add(*more).to_json()


def test_infinite_sums_come_back():
    with np.errstate(over="ignore"):
        seen = ev.Regression().add([0.0, 1.0], [1e200, -1e200])
    again = ev.Regression.from_json(json.loads(json.dumps(seen.to_json(), allow_nan=False)))
    assert again.mse() == math.inf and again.to_json() == seen.to_json()


@pytest.mark.parametrize("name", MAKE)
def test_every_evaluation_draws_and_prints_itself(name, rng):
    seen = MAKE[name]().add(*batch(name, rng, 50))
    assert seen.plot().data and seen.plot().to_json()
    assert "nothing" not in str(seen) and "<table" in seen._repr_html_()
    assert all(math.isfinite(v) for v in seen.metrics().values()) and seen.reasons() == {}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ev.ROC().merge(ev.Regression()), "Regression cannot be merged into ROC"),
        (lambda: ev.ROC(steps=5).merge(ev.ROC(steps=6)), "steps=6"),
        (lambda: ev.Evaluation.from_json({"evaluation": "os"}), "this is no evaluation"),
        (lambda: ev.ROC.from_json(ev.Regression().to_json()), "this is a Regression"),
        (
            lambda: ev.Evaluation.from_json(ev.Custom(squares).to_json()),
            "this is no evaluation",
        ),
        (lambda: ev.Regression(["a"]).restored(ev.Regression().to_json()), "another evaluation"),
    ],
)
def test_what_does_not_belong_together_is_refused(make, message):
    with pytest.raises(TrainingError, match=message):
        make()


# -- in graphs -------------------------------------------------------------------------------------


def network(session=None, metrics=(), **options):
    """Return a trainer of two inputs to three classes, with labels over time and a mask."""
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 5, 2)), g.placeholder("t", (None, 5), "int64")
    m = g.placeholder("m", (None, 5))
    w = g.variable("w", (2, 3), init=gw.init.normal(std=0.5, seed=1))
    probs = gw.nn.softmax(x @ w, name="probs")
    losses = gw.loss.sparse_softmax_cross_entropy(t, x @ w)
    loss = (losses * m).sum() / m.sum() if losses.rank else losses
    made = {name: make(t, probs, m) for name, make in dict(metrics).items()}
    session = None if session is None else gw.Session(g, **session)
    return gw.Trainer(g, loss, gw.optim.SGD(0.5), metrics=made, session=session, **options)


def data_of(rng, n=50):
    labels = rng.integers(0, 3, (n, 5))
    x = rng.standard_normal((n, 5, 2)).astype("float32") + np.stack([labels, -labels], -1)
    mask = (rng.random((n, 5)) < 0.7).astype("float32")
    return {"x": x.astype("float32"), "t": labels, "m": mask}


METRICS = {
    "f1": lambda t, p, m: ev.Classification().metric(t, p, m, value="f1"),
    "auc": lambda t, p, m: ev.ROCMultiClass().metric(t, p, m),
    "fixed": lambda t, p, m: ev.ROCMultiClass(steps=50).metric(t, p, m, value="auprc"),
    "ece": lambda t, p, m: ev.Calibration().metric(t, p, m),
}


def test_metrics_of_an_epoch_are_those_of_all_examples(rng):
    data = data_of(rng)
    trainer = network(metrics=METRICS)
    found = trainer.evaluate(data, batch_size=7)
    probs = gw.Session(trainer.graph).run("probs", data)
    seen = {
        "f1": ev.Classification().add(data["t"], probs, data["m"]).f1(),
        "auc": ev.ROCMultiClass().add(data["t"], probs, data["m"]).auroc(),
        "fixed": ev.ROCMultiClass(steps=50).add(data["t"], probs, data["m"]).auprc(),
        "ece": ev.Calibration().add(data["t"], probs, data["m"]).ece(),
    }
    for name, value in seen.items():
        assert found[name] == pytest.approx(value, rel=1e-6), name


def test_an_epoch_that_is_resumed_has_the_numbers_of_one_that_was_not(rng):
    data = data_of(rng)
    options = {"session": {"deterministic": True}, "metrics": METRICS}
    straight = network(**options)
    straight.fit(data, batch_size=8, progress=False)
    broken, resumed = network(**options), network(**options)
    broken.fit(data, batch_size=8, steps=4, progress=False)
    state = {k: np.array(v) for k, v in broken.state_dict().items()}  # as an archive holds it
    assert {v.dtype.kind for v in state.values()} <= set("iuf")
    resumed.graph.values["w"] = broken.graph.values["w"]
    resumed.load_state_dict(state)
    resumed.fit(data, batch_size=8, progress=False)
    for name in METRICS:
        expected = straight.history.epochs[name]
        np.testing.assert_array_equal(resumed.history.epochs[name], expected)


def test_a_batch_of_one_class_is_nan_in_the_history_and_counts_in_the_epoch():
    g = gw.Graph()
    x, t = g.placeholder("x", (None,)), g.placeholder("t", (None,))
    loss = gw.mean((x * g.variable("w", (), init=1.0) - t) ** 2.0)
    trainer = gw.Trainer(g, loss, metrics={"auc": ev.ROC().metric(t, x)})
    data = {"x": [0.1, 0.2, 0.8, 0.3], "t": [0.0, 0.0, 1.0, 1.0]}
    trainer.fit(data, batch_size=2, shuffle=False, progress=False)
    assert np.isnan(trainer.history.steps["auc"]).all()
    assert trainer.history.epochs["auc"].tolist() == [1.0]


def test_evaluate_fills_evaluations_from_a_graph_a_session_and_a_trainer(rng):
    data, trainer = data_of(rng), network()
    probs = gw.Session(trainer.graph).run("probs", data)
    expected = ev.Classification().add(data["t"], probs, data["m"])
    for model in (trainer.graph, trainer.session, trainer):
        asked = {"probs": [ev.Classification(), ev.ROCMultiClass()]}
        found = gw.evaluate(model, data, asked, labels="t", mask="m", batch_size=9)
        first, second = found["probs"]
        assert first.to_json() == expected.to_json() and second.count == expected.count
    several = [{k: v[i : i + 10] for k, v in data.items()} for i in range(0, 50, 10)]
    tensor = trainer.graph["probs"]
    found = gw.evaluate(
        trainer, several, {tensor: ev.Classification()}, {tensor: "t"}, mask={tensor: "m"}
    )
    assert found["probs"].to_json() == expected.to_json()
    assert list(found) == ["probs"] and found[tensor] is found["probs"]
    with pytest.raises(KeyError, match="'t' was not evaluated; there are 'probs'"):
        found[trainer.graph["t"]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t, d: gw.evaluate(3, d, {}, "t"), "a int cannot be evaluated"),
        (lambda t, d: gw.evaluate(t, d, {"probs": 3}, "t"), "evaluated by a int"),
        (lambda t, d: gw.evaluate(t, d, {"probs": [3]}, "t"), "evaluated by a int"),
        (lambda t, d: gw.evaluate(t, d, {"probs": ev.ROC()}, {"y": "t"}), "no labels for 'probs'"),
        (lambda t, d: gw.evaluate(t, d, ev.ROC(), "t"), r"(?s)are of type ROC.*a dict of them by"),
        (
            lambda t, d: gw.evaluate(t, {"x": d["x"]}, {"probs": ev.ROC()}, d["t"]),
            r"(?s)for the labels is of type ndarray.*belong to the data.*labels=\"t\"",
        ),
        (
            lambda t, d: gw.evaluate(t, d, {"probs": ev.ROC()}, "t", mask=d["m"]),
            "for the mask is of type ndarray",
        ),
        (lambda t, d: gw.evaluate(t, d, {"nope": ev.ROC()}, "t"), "nope"),
        (lambda t, d: gw.evaluate(t, {"x": d["x"]}, {"probs": ev.ROC()}, "t"), "'t' is not fed"),
        (
            lambda t, d: ev.ROC().metric(t.graph["t"], t.graph["probs"], value="auk"),
            "ROC has no 'auk'",
        ),
        (lambda t, d: ev.ROC().metric(t.graph["probs"], t.graph["w"]), "do not fit"),
    ],
)
def test_evaluations_that_make_no_sense_are_refused(call, message, rng):
    with pytest.raises(GradwrightError, match=message):
        call(network(), data_of(rng, 5))


def test_custom_metrics_report_the_number_that_is_asked(rng):
    data, trainer = data_of(rng), network()
    t, p = trainer.graph["t"], trainer.graph["probs"]
    rights = ev.Custom(
        lambda t, p, mask: np.array([np.sum(p.argmax(-1) == t), t.size]),
        lambda s: {"right": s[0], "share": s[0] / s[1]},
    )
    metrics = {"share": rights.metric(t, p, value="share"), "right": rights.metric(t, p)}
    again = gw.Trainer(trainer.graph, trainer.loss, metrics=metrics)
    found = again.evaluate(data, batch_size=7)
    expected = ev.Classification().add(data["t"], trainer.session.run(p, data))
    assert found["share"] == pytest.approx(expected.accuracy())


def test_calibration_of_logits_says_that_they_are_no_probabilities():
    seen = ev.Calibration().add([0, 1], [[3.0, -1.0], [-2.0, 4.0]])
    assert seen.count == 0
    assert set(seen.reasons()) == {"ece", "mce", "brier"}
    for why in seen.reasons().values():
        assert why.startswith("2 predictions are not probabilities, in [0, 1]")
        assert "gw.nn.softmax" in why


def test_a_trainer_is_evaluated_in_its_precision():
    rng = np.random.default_rng(0)
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 8)), g.placeholder("t", (None,))
    w = g.variable("w", (8, 1), init=rng.standard_normal((8, 1)))
    y = gw.squeeze(x @ w, -1, name="y")
    trainer = gw.Trainer(g, gw.mean((y - t) ** 2.0), precision="bfloat16")
    data = {"x": rng.standard_normal((50, 8)).astype("f4"), "t": rng.standard_normal(50)}
    exact, low = (
        gw.evaluate(model, data, {y: gw.evaluation.Regression()}, labels=t)[y].mse()
        for model in (trainer.session, trainer)
    )
    assert low == pytest.approx(trainer.evaluate(data)["loss"], rel=1e-6)
    assert abs(exact - low) > 1e-5
