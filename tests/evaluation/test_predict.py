"""The order of predictions: that of the data, however it is shuffled."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ShapeError, TrainingError
from tests.support.data_sets import X, plain, rows, stream

TOKENS = [[i] * (1 + i * 7 % 5) for i in range(23)]
"""Sequences of different lengths, each of its row number."""


def shuffled():
    return gw.data.dataset({"x": X}).shuffle(seed=3)


def sentences(**options):
    return gw.data.buckets({"x": TOKENS}, n=3, batch_size=4, masks={"x": "mask"}, **options)


def first_numbers(data, folder=None, **options):
    """Return what a graph says of data: the first number of each row, as a column and a vector."""
    g = gw.Graph("first")
    x = g.placeholder("x", (None, None))
    g.placeholder("mask", (None, None), "bool")
    out = {"column": x[:, :1], "vector": x[:, 0]}
    found = gw.predict(g, out, data, folder=folder, progress=False, **options)
    np.testing.assert_array_equal(found["column"][:, 0], found["vector"])
    return found["vector"].astype(int).tolist()


ORDERED = {
    "shuffled": (shuffled, range(23)),
    "shuffled twice": (lambda: shuffled().shuffle(seed=4), range(23)),
    "batches": (lambda: shuffled().batch(5), range(23)),
    "batches shuffled": (lambda: shuffled().batch(5).shuffle(1, buffer=2), range(23)),
    "prefetched": (lambda: shuffled().prefetch().shuffle(2, buffer=6).batch(4), range(23)),
    "mapped": (lambda: shuffled().map(lambda e: {"x": e["x"]}).columns(x="x"), range(23)),
    "joined": (lambda: (shuffled() + shuffled()).shuffle(9), [*range(23), *range(23)]),
    "chained": (lambda: shuffled().batch(5) + sentences(), [*range(23), *range(23)]),
    "buckets": (sentences, range(23)),
    "buckets prefetched": (lambda: sentences(seed=7).prefetch(), range(23)),
    "buckets in order of length": (lambda: sentences(shuffle=False), range(23)),
    "split": (
        lambda: gw.data.split({"x": X}, 0.3, seed=1)[1].shuffle(seed=2),
        sorted(r["x"][0] for r in gw.data.split({"x": X}, 0.3, seed=1)[1]),
    ),
    "drop_last": (
        lambda: shuffled().batch(5, drop_last=True),
        sorted(gw.data.order(3, 0, 23)[:20].tolist()),
    ),
    "batches taken": (lambda: shuffled().batch(5).take(2), sorted(gw.data.order(3, 0, 23)[:10])),
}


@pytest.mark.parametrize("name", ORDERED)
def test_rows_of_shuffled_data_go_back_to_where_they_stand(name, tmp_path):
    make, expected = ORDERED[name]
    assert first_numbers(make()) == list(expected)
    assert first_numbers(make(), tmp_path) == list(expected)
    np.testing.assert_array_equal(np.load(tmp_path / "vector.npy").astype(int), list(expected))


@pytest.mark.parametrize("name", ORDERED)
def test_row_numbers_are_those_of_the_items(name):
    data = ORDERED[name][0]()
    for epoch in (0, 2):
        numbers, items = data.row_numbers(epoch), list(data.epoch(epoch))
        assert len(numbers) == len(items)
        for number, item in zip(numbers, items, strict=True):
            first = np.asarray(item["x"])[..., 0]
            np.testing.assert_array_equal(np.asarray(number) % 23, first)


def test_what_cannot_tell_its_rows_comes_as_it_is_given():
    for data in (
        stream().shuffle(seed=1, buffer=5).batch(4),
        shuffled().filter(lambda e: e["x"][0] != 4).batch(4),
        stream(7).batch(4) + gw.data.dataset(rows()).batch(4),
    ):
        assert data.row_numbers(0) is None
        kept = data.map(lambda b: {"x": b["x"]})
        given = [row[0] for batch in plain(kept.epoch(0)) for row in batch["x"]]
        assert first_numbers(kept) == given


def test_batches_in_which_a_function_leaves_other_rows():
    def halved(batch):
        return {"x": batch["x"][::2]}

    in_order = gw.data.dataset({"x": X}).batch(4).map(halved)
    assert first_numbers(in_order) == list(range(0, 23, 2))
    with pytest.raises(ShapeError, match="batch 0 is fed 2 rows, and was made of 4 of the data"):
        first_numbers(shuffled().batch(4).map(halved))


def test_outputs_that_are_no_dict_come_by_their_names():
    g = gw.Graph()
    x = g.placeholder("x", (None, 2))
    double, total = gw.mul(x, 2.0, name="double"), gw.sum(x, 1, name="total")
    data = {"x": np.arange(6.0).reshape(3, 2)}
    both = gw.predict(g, ["double", total], data)
    assert list(both) == ["double", "total"]
    assert both["total"].tolist() == [1, 5, 9]
    for one in ("double", double):
        found = gw.predict(g, one, data)
        assert list(found) == ["double"]
        assert found["double"].tolist() == both["double"].tolist()


@pytest.mark.parametrize("outputs", [{"x": np.zeros((1, 2))}, [1.0], None])
def test_outputs_that_are_no_tensors_are_refused(outputs):
    g = gw.Graph()
    g.placeholder("x", (None, 2))
    with pytest.raises(TrainingError, match=r"an output is of type(.|\n)*in a list, or a dict"):
        gw.predict(g, outputs, {"x": np.zeros((1, 2))})


@pytest.mark.parametrize("settings", [{"precision": "bfloat16"}, {"fp8": True}, {}])
def test_a_trainer_predicts_in_the_precision_that_it_evaluates_in(settings):
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 6)), g.placeholder("t", (None,), "int64")
    w = g.variable("w", (6, 12), init=gw.init.he_normal(seed=1))
    logits = gw.nn.relu(x @ w) @ g.variable("v", (12, 3), init=gw.init.he_normal(seed=2))
    loss = gw.loss.sparse_softmax_cross_entropy(t, logits)
    trainer = gw.Trainer(g, loss, **settings)
    values = np.random.default_rng(0).standard_normal((64, 6)).astype("float32")
    data = {"x": values, "t": values[:, :3].argmax(1)}
    trainer.fit(data, progress=False)

    def cross_entropy(model):
        p = gw.predict(model, {"p": gw.nn.softmax(logits)}, data, progress=False)["p"]
        return -np.log(np.take_along_axis(p, data["t"][:, None], 1)).mean()

    evaluated = trainer.evaluate(data)["loss"]
    assert cross_entropy(trainer) == pytest.approx(evaluated, rel=1e-6)
    exact = cross_entropy(trainer.session)
    assert (exact == pytest.approx(evaluated, rel=1e-5)) == (not settings)
    p = gw.nn.softmax(logits, name="p")
    asked = [gw.predict(m, p, data)["p"] for m in (trainer.session, trainer) * 2]
    assert (asked[0] == asked[2]).all() and (asked[1] == asked[3]).all()
    assert (asked[0] == asked[1]).all() == (not settings)
    before = trainer.parts.taker.current()
    trainer.fit(data, progress=False)
    assert trainer.parts.taker.current() is before
