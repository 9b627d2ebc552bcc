"""What a trainer refuses: numbers that are not finite, data, losses, settings that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.data import order
from gradwright.errors import FeedError, GraphError, IdError, ShapeError, TrainingError
from tests.support.lines import line, rows, values_of

# -- numbers that are not finite -------------------------------------------------------------------


def test_a_step_that_is_not_finite_changes_nothing_and_says_where():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    w, b = g.variable("w", (), init=1.0), g.variable("b", (), init=1.0)
    mean = g.variable("mean", (), trainable=False)
    g.update(mean, gw.mean(x))
    loss = gw.mean(gw.log(x * w) + b, name="loss")
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(0.1))
    trainer.fit({"x": [1.0, 2.0]}, batch_size=1, progress=False)
    before = values_of(trainer)
    with pytest.raises(TrainingError) as caught:
        trainer.fit([{"x": [1.0]}, {"x": [-1.0]}], progress=False)
    assert trainer.steps_done == trainer.history.steps.rows == 3
    text = str(caught.value)
    assert "step 4: the loss 'loss' is not finite; nothing was changed" in text
    assert "loss = nan, learning rate = 0.1" in text
    assert "try:" in text
    undone = values_of(trainer)
    assert undone != before  # the third step was committed
    with pytest.raises(TrainingError, match="step 4"):
        trainer.step({"x": [-1.0]})
    assert values_of(trainer) == undone


def test_a_gradient_that_is_not_finite_is_told_from_the_loss():
    g = gw.Graph()
    w = g.variable("w", (2,), init=[0.0, 4.0])
    b = g.variable("b", (), init=1.0)
    trainer = gw.Trainer(g, gw.sqrt(w).sum() + b)
    message = r"step 1: the gradient is not finite(.|\n)*gradient of 'w': 1 of 2 elements"
    with pytest.raises(TrainingError, match=message) as caught:
        trainer.step({})
    assert "gradient of 'b'" not in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_bad_data_is_told_from_a_bad_step(bad):
    data = {k: a.astype("float64") for k, a in rows().items()}
    data["x"][13, 2] = bad
    trainer = line()
    with pytest.raises(TrainingError) as caught:
        trainer.fit(data, batch_size=8, progress=False)
    batch = int(np.flatnonzero(order(0, 0, 20) == 13)[0]) // 8 + 1
    text = str(caught.value)
    assert f"step {batch}: the data of placeholder 'x' is not finite" in text
    assert "1 of 24 elements" in text or "1 of 12 elements" in text
    assert "row 13 of the data" in text
    assert trainer.steps_done == batch - 1


@pytest.mark.parametrize("later", [0, 1])
@pytest.mark.parametrize("unroll", [1, 2])
def test_a_label_that_is_no_class_is_traced_to_its_row(later, unroll):
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 3)), g.placeholder("t", (None, 4), "int64")
    scores = x[:, None] * g.variable("w", (4 - later, 3), init=1.0)
    loss = gw.loss.sparse_softmax_cross_entropy(t[:, later:], scores, name="loss")
    trainer = gw.Trainer(g, loss, seed=3)
    labels = np.arange(80).reshape(20, 4) % 3
    labels[13, 2] = 7
    with pytest.raises(IdError, match="7 in 't' is of row 13 of the data") as caught:
        trainer.fit({"x": rows()["x"], "t": labels}, batch_size=4, unroll=unroll, progress=False)
    assert caught.value.id == 7 and caught.value.at[1] == 2 - later
    assert trainer.steps_done == int(np.flatnonzero(order(3, 0, 20) == 13)[0]) // 4
    with pytest.raises(IdError, match=r"in an evaluation\n  7 in 't' is of row 13 of the data"):
        trainer.evaluate({"x": rows()["x"], "t": labels}, batch_size=4)


def test_parameters_that_were_not_finite_before_are_named():
    trainer = line()
    trainer.values["b"] = np.nan
    with pytest.raises(TrainingError, match="before the step, parameter 'b' was not finite"):
        trainer.step(rows())


def test_steps_that_are_not_finite_can_be_skipped():
    trainer = line(optimizer=gw.optim.Adam(0.1), nonfinite="skip", deterministic=True)
    good, bad = rows(), rows()
    bad["t"][0] = np.nan
    history = trainer.fit([good, bad, good], progress=False)
    assert (trainer.steps_done, trainer.skipped) == (3, 1)
    assert trainer.state_dict()["state/w/step"] == 2
    assert np.isnan(history.steps["loss"][1])
    assert np.isfinite(history.epochs["loss"][0])
    plain = line(optimizer=gw.optim.Adam(0.1), deterministic=True)
    plain.fit([good, good], progress=False)
    assert plain.values["w"].tobytes() == trainer.values["w"].tobytes()


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": rows()["x"]}, "has no placeholder 'X'(.|\n)*placeholders: 'x', 't'"),
        (
            {"w": rows()["x"]},
            r"has no placeholder 'w'(.|\n)*columns\({\"x\": \[\"w\", ...\], \"t\": ...}\)",
        ),
        ({"t": None}, r"placeholder 't' is not fed(.|\n)*data holds 'x'(.|\n)*t: f32\[t_0\]"),
        ({"t": np.zeros(19)}, "different lengths(.|\n)*'x': 20 rows(.|\n)*'t': 19 rows"),
        ({"x": np.zeros((20, 4))}, "'x' is fed with size 4 on axis 1"),
        ({"x": np.zeros((20, 3, 1))}, "'x' is fed with rank 3"),
        ({"x": np.zeros(())}, "'x' is fed with rank 0"),
        ({"x": np.zeros((20, 3), complex)}, "'x' is float32 and cannot take complex128"),
        ({"x": np.full((20, 3), "a")}, "cannot hold"),
        ({"x": np.zeros((0, 3)), "t": np.zeros(0)}, "the data is empty"),
        ({"x": [[1.0, 2.0, 3.0], [4.0]]}, "the data of placeholder 'x' is no array"),
    ],
)
def test_data_that_does_not_fit_is_named(change, message):
    data = {k: v for k, v in {**rows(), **change}.items() if v is not None}
    trainer = line()
    before = values_of(trainer)
    with pytest.raises(FeedError, match=message):
        trainer.fit(data, progress=False)
    assert values_of(trainer) == before | {
        n: b for n, b in values_of(trainer).items() if n.startswith("optimizer/")
    }
    trainer.fit(rows(), progress=False)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (rows(), {"batch_size": 21}, "batch_size=21 is larger than the data(.|\n)*20 examples"),
        (rows(), {"batch_size": 0}, "batch_size=0 is not a size"),
        (rows(), {"batch_size": 2.5}, "batch_size=2.5 is not a size"),
        (rows(), {"epochs": -1}, "cannot train epochs=-1"),
        (rows(), {"progress": "bar"}, "progress='bar' is not known"),
        ([rows()], {"batch_size": 4}, "batch_size is for arrays"),
    ],
)
def test_sizes_that_make_no_sense_are_named(data, options, message):
    with pytest.raises(TrainingError, match=message):
        line().fit(data, **{"progress": False, **options})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (7, "int is no data"),
        ("rows", "str is no data"),
        ([], "gave no batches in epoch 1"),
        ([(1, 2)], "a batch is a tuple, not a dict"),
        ([{"x": rows()["x"]}], "placeholder 't' is not fed"),
        ([{**rows(), "z": 1}], "no placeholder 'z'"),
    ],
)
def test_iterables_that_do_not_fit_are_named(data, message):
    with pytest.raises(FeedError, match=message):
        line().fit(data, progress=False)


def test_several_arrays_lead_to_features_and_labels():
    x, t = rows().values()
    with pytest.raises(TrainingError, match=r"not 2(.|\n)*features='x', labels='t'"):
        line().fit(x, t, progress=False)


def test_a_generator_cannot_serve_two_epochs():
    with pytest.raises(FeedError, match=r"no batches in epoch 2(.|\n)*generator can be used once"):
        line().fit((b for b in [rows()]), epochs=2, progress=False)


def test_a_placeholder_of_fixed_size_wants_full_batches():
    g = gw.Graph()
    x, w = g.placeholder("x", (4,)), g.variable("w", ())
    trainer = gw.Trainer(g, gw.mean(x * w))
    data = {"x": np.zeros(10)}
    with pytest.raises(TrainingError, match=r"exactly 4 rows(.|\n)*last batch of 2"):
        trainer.fit(data, batch_size=4, progress=False)
    with pytest.raises(FeedError, match="size 5 on axis 0"):
        trainer.fit(data, batch_size=5, progress=False)
    assert trainer.fit(data, batch_size=4, drop_last=True, progress=False).steps.rows == 2


def test_losses_that_cannot_be_trained_are_named():
    trainer = line()
    g = trainer.graph
    said = r"the loss 'sub' is f32\[\(t_0\|x_0\)\](.|\n)*gw.mean\(loss\)"
    with pytest.raises(TrainingError, match=said):
        gw.Trainer(g, "sub")
    with pytest.raises(TrainingError, match=r"is i64\[\](.|\n)*floating scalar"):
        gw.Trainer(g, g.constant(1))
    with pytest.raises(GraphError, match="has no tensor 'los'"):
        gw.Trainer(g, "los")
    with pytest.raises(GraphError, match="is of another graph"):
        gw.Trainer(gw.Graph(), g["loss"])
    with pytest.raises(TrainingError, match="nonfinite='ignore' is not known"):
        gw.Trainer(g, "loss", nonfinite="ignore")
    with pytest.raises(TrainingError, match="clip_norm=0 is out of range"):
        gw.Trainer(g, "loss", clip_norm=0).step(rows())
    with pytest.raises(TrainingError, match="the session runs another graph, 'other'"):
        gw.Trainer(g, "loss", session=gw.Session(gw.Graph("other")))


def test_parameters_that_cannot_be_trained_are_named():
    trainer = line()
    g = trainer.graph
    g.freeze()
    with pytest.raises(TrainingError, match=r"no trainable parameter(.|\n)*frozen: 'w', 'b'"):
        trainer.fit(rows(), progress=False)
    g.unfreeze()
    g.variable("lonely", (2,))
    with pytest.raises(
        TrainingError, match=r"does not depend on 'lonely'(.|\n)*freeze\('lonely'\)"
    ):
        trainer.fit(rows(), progress=False)
    g.freeze("lonely")
    trainer.fit(rows(), progress=False)
    with pytest.raises(TrainingError, match=r"no floating variable fits 'v\*'"):
        gw.Trainer(g, "loss", parameters=["v*"]).step(rows())
    empty = gw.Graph()
    with pytest.raises(TrainingError, match="it has no floating variable"):
        gw.Trainer(empty, empty.placeholder("x", ())).step({"x": 1.0})


def test_a_trainer_of_some_parameters_speaks_of_these():
    trainer = line(parameters=["w"])
    g = trainer.graph
    g.freeze("w")
    with pytest.raises(
        TrainingError,
        match=r"none of parameters=\['w'\] of graph (.|\n)*frozen: 'w'\n  try:  g.unfreeze\('w'\)",
    ) as caught:
        trainer.step(rows())
    assert "'b'" not in str(caught.value)
    g.unfreeze()
    g.variable("fixed", (2,), trainable=False)
    with pytest.raises(
        TrainingError,
        match=r"made with trainable=False: 'fixed'\n  try:  g\['fixed'\]\.trainable = True",
    ):
        gw.Trainer(g, "loss", parameters=[g["fixed"]]).step(rows())
    g.variable("lonely", (2,))  # no part of the loss, and no parameter of this trainer
    trainer.step(rows())
    assert [t.name for t in trainer.variables] == ["w"] == [t.name for t in trainer.parameters]


def test_metrics_that_cannot_be_measured_are_named():
    trainer = line()
    g = trainer.graph
    with pytest.raises(TrainingError, match="cannot be called 'loss'"):
        gw.Trainer(g, "loss", metrics={"loss": g["loss"]})
    with pytest.raises(TrainingError, match="cannot be called 'val_x'"):
        gw.Trainer(g, "loss", metrics={"val_x": g["loss"]})
    said = r"'sub' is f32\[\(t_0\|x_0\)\], so it is no metric(.|\n)*gw.mean"
    with pytest.raises(ShapeError, match=said):
        gw.Trainer(g, "loss", metrics={"error": g["sub"]})
    with pytest.raises(TrainingError, match="metric 'a' is a float"):
        gw.Trainer(g, "loss", metrics={"a": 0.5})


def test_a_class_a_number_or_a_function_in_place_of_an_instance_is_refused_at_once():
    for wrong in (0.01, gw.optim.Adam):
        with pytest.raises(TrainingError, match="is no optimizer"):
            line(optimizer=wrong)
    for wrong in (print, gw.EarlyStopping):
        with pytest.raises(TrainingError, match="is no callback"):
            line(callbacks=[wrong])
