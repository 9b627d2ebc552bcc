"""What the trainer makes of data sets, and data that do not fit."""

from __future__ import annotations

import time

import numpy as np
import pytest

import gradwright as gw
from gradwright.data import Table, batches
from gradwright.errors import FeedError, TrainingError
from tests.support import data_sets
from tests.support.data_sets import T, X, fed, line, rows, seen, stream, taken

no_thread_is_left = pytest.fixture(autouse=True)(data_sets.no_thread_is_left)


# -- what the trainer makes of it ------------------------------------------------------------------


def test_all_ways_to_give_the_same_data_train_to_the_same_numbers():
    parts = [{k: a[i : i + 4] for k, a in rows().items()} for i in range(0, 23, 4)]
    tuples = [(p["x"], p["t"]) for p in parts]
    data = gw.data.dataset(rows())
    ways = {
        "dict": (rows(), 4),
        "data set": (data, 4),
        "batched": (data.batch(4), None),
        "prefetched examples": (data.prefetch(2), 4),
        "prefetched batches": (data.batch(4).prefetch(2), None),
        "stream": (stream(), 4),
        "list": (parts, None),
        "generator": ((p for p in parts), None),
        "function": (lambda: iter(parts), None),
        "tuples": (gw.data.dataset(tuples, names=("x", "t")), None),
        "doubles": ({"x": X.astype("float64"), "t": T.tolist()}, 4),
    }
    results = {}
    for name, (source, size) in ways.items():
        trainer = line()
        trainer.fit(source, batch_size=size, shuffle=False, progress=False)
        results[name] = trainer.values["w"].tobytes(), trainer.steps_done
    assert all(result == results["dict"] for result in results.values()), results
    shuffled = [line(seed=3) for _ in range(3)]
    for trainer, source in zip(shuffled, (rows(), data, data.prefetch()), strict=True):
        trainer.fit(source, batch_size=4, progress=False)
    assert len({trainer.values["w"].tobytes() for trainer in shuffled}) == 1


@pytest.mark.parametrize("rows", [4, None])
def test_each_batch_has_to_fit_though_the_one_before_did(rows):
    g = gw.Graph()
    x = g.placeholder("x", (rows, 3))
    good = np.ones((4, 3), np.float32)
    for bad in (np.ones((4, 2), np.float32), np.ones((4, 3), np.complex64)):
        taken = batches(g, [{"x": good}, {"x": good}, {"x": bad}], [x], None).epoch(0)
        assert [next(taken)[0][x] is good for _ in range(2)] == [True, True]
        with pytest.raises(FeedError, match="placeholder 'x'"):
            next(taken)
    short = batches(g, [{"x": good}, {"x": good[:3]}], [x], None).epoch(0)
    next(short)
    if rows is None:
        assert next(short)[1] == 3
    else:
        with pytest.raises(FeedError, match="size 3 on axis 0"):
            next(short)


def test_positional_data_takes_its_names_from_the_caller():
    trainer, names = line(), ("x", "t")
    x, t = X[:6].astype("float32"), T[:6]
    expected = taken(fed(trainer, {"x": x, "t": t}, 3))
    for data in ((x, t), gw.data.dataset((x, t), names), (x.tolist(), t.tolist())):
        assert taken(fed(trainer, data, 3, names=names)) == expected
    pairs = [[x[i : i + 3], t[i : i + 3]] for i in (0, 3)]
    assert taken(fed(trainer, pairs, names=names)) == expected
    nested = [((x[:3], t[:3]), t[:3])]
    assert gw.data.dataset(nested, names=("a", "b", "c")).epoch().__next__().keys() == {
        "a",
        "b",
        "c",
    }
    with pytest.raises(FeedError, match="3 parts, but there are 2 names"):
        fed(trainer, (x, t, t), 3, names=names)
    with pytest.raises(FeedError, match="a data set is a tuple, not a dict"):
        fed(trainer, (x, t), 3)


def test_fit_holds_out_a_part_of_its_rows():
    trainer, by_hand = line(seed=4), line(seed=4)
    train, held_out = gw.data.split(rows(), 0.3, seed=4)
    trainer.fit(rows(), epochs=2, batch_size=4, validation=0.3, progress=False)
    by_hand.fit(train, epochs=2, batch_size=4, validation=held_out, progress=False)
    for name in ("loss", "val_loss"):
        losses = [t.history.epochs[name].tolist() for t in (trainer, by_hand)]
        assert losses[0] == losses[1]
    assert trainer.steps_done == 2 * 4  # 16 of 23 rows
    named = line(seed=4, features=("x",), labels=("t",))
    named.fit(X, T, epochs=2, batch_size=4, validation=0.3, progress=False)
    assert named.values["w"].tobytes() == trainer.values["w"].tobytes()
    assert named.evaluate((X, T)) == trainer.evaluate(rows())
    with pytest.raises(FeedError, match="cannot be split by a fraction"):
        line().fit([rows()], validation=0.3, progress=False)


def test_an_order_of_the_user_s_own_is_kept():
    trainer = line()
    own = gw.data.dataset(rows()).shuffle(seed=9)
    expected = seen(own.batch(4))
    for data in (own, own.map(lambda e: e), own.columns("x", "t")):
        source = fed(trainer, data, 4, shuffle=True, seed=1)
        assert [[int(x[0]) for x in b["x"]] for b in taken(source)] == expected
    assert source.origin(0, 1, 2) == f"row {expected[1][2]} of the data"


def test_an_epoch_that_was_begun_is_finished_on_the_same_values_alone(tmp_path):
    same = {"x": X.astype("float64"), "t": T.tolist()}
    first = line(callbacks=[gw.Checkpoints(tmp_path)])
    first.fit(rows(), batch_size=4, steps=2, progress=False)
    for change, refused in (({"x": X + 1}, True), ({"t": T[::-1]}, True), ({}, False)):
        again = line()
        gw.resume(again, tmp_path)
        if refused:
            with pytest.raises(TrainingError, match="epoch 1 has begun on other data"):
                again.fit({**same, **change}, batch_size=4, progress=False)
            assert again.steps_done == 2
        else:
            again.fit(same, batch_size=4, progress=False)
            assert (again.steps_done, again.epochs_done) == (6, 1)


def test_a_row_that_is_not_finite_is_named_through_all_stages():
    x = X.astype("float32").copy()
    x[13, 1] = np.nan
    train, _ = gw.data.split({"x": x, "t": T}, 0.1, seed=5)
    for data in (train.shuffle(2).batch(4), train.map(lambda e: e).shuffle(2).batch(4).prefetch()):
        with pytest.raises(TrainingError, match="row 13 of the data"):
            line().fit(data, progress=False)


def test_waiting_for_data_is_measured():
    def slow():
        for _ in range(3):
            time.sleep(0.01)
            yield {"x": X[:2].astype("float32"), "t": T[:2]}

    source = fed(line(), slow)
    assert source.seconds == 0.0 and source.n_batches is None
    list(source.epoch(0))
    assert source.seconds >= 0.03


def test_evaluation_takes_batches_as_they_come():
    trainer = line()
    whole = trainer.evaluate(rows())["loss"]
    for data in (gw.data.dataset(rows()).batch(7), stream().batch(5).prefetch(), stream()):
        assert trainer.evaluate(data)["loss"] == pytest.approx(whole, rel=1e-5)
    assert fed(trainer, gw.data.dataset(rows()).batch(7), 4, exact=False).n_batches == 4


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "size", "error", "message"),
    [
        ({"x": X, "t": ["a"] * 23}, 4, FeedError, "cannot hold(.|\n)*row 0 holds 'a'"),
        ({"x": X, "t": [*range(22), "a"]}, 4, FeedError, "'t' cannot hold"),
        ({"x": X, "t": np.array([1] * 20 + ["a"] * 3, object)}, 4, FeedError, "row 20 holds 'a'"),
        (gw.data.dataset({"x": X}), 4, FeedError, r"'t' is not fed(.|\n)*data holds 'x'"),
        (gw.data.dataset({"x": X, "t": T, "u": T}).batch(4), None, FeedError, "no placeholder 'u'"),
        (stream().map(lambda e: 3), 4, FeedError, "made an int of example 0 of the data"),
        (stream(), 0, TrainingError, "batch_size=0 is not a size"),
        (stream(0), 4, FeedError, "gave no batches in epoch 1"),
        (gw.data.stream([{"x": 1}, {"y": 1}]), 2, FeedError, "example 1 of a batch has other col"),
        (gw.data.stream([(1, 2)]), 1, FeedError, "an example is a tuple, not a dict"),
        (lambda: 3, None, FeedError, "the function gave an int"),
        (
            gw.data.stream([{"x": [1.0], "t": 1}, {"x": [1.0, 2.0], "t": 1}]),
            2,
            FeedError,
            r"'x' is no array(.|\n)*row 0 has shape \(1,\), row 1 has \(2,\)(.|\n)*pad=",
        ),
        (gw.data.dataset({"x": X, "t": T}).batch(4), 4, TrainingError, "gives whole batches"),
        (b"text", None, FeedError, "bytes is no data"),
    ],
)
def test_data_that_does_not_fit_is_named(data, size, error, message):
    trainer = line()
    before = trainer.values["w"].tobytes()
    with pytest.raises(error, match=message):
        trainer.fit(data, batch_size=size, progress=False)
    assert trainer.values["w"].tobytes() == before


def test_a_stream_that_has_become_shorter_is_named():
    sizes = iter((23, 5))
    data = gw.data.stream(lambda: ({"x": X[i]} for i in range(next(sizes)))).batch(4)
    assert len(list(data.epoch(0))) == 6
    with pytest.raises(
        FeedError, match=r"ended after 5 items of epoch 1(.|\n)*at least 13 were used"
    ):
        list(data.epoch(0, skip=4))


def test_sizes_and_stages_that_make_no_sense_are_named():
    data = gw.data.dataset(rows())
    for wrong in (0, -1, 2.5, "a", True):
        for method in (data.batch, data.take, data.prefetch):
            with pytest.raises(TrainingError, match="need: an int >= 1"):
                method(wrong)
    with pytest.raises(TrainingError, match="gives batches already"):
        data.batch(4).batch(2)
    with pytest.raises(FeedError, match="int is no data"):
        gw.data.stream(3)
    assert isinstance(data.shuffle().map(dict).columns("x").take(3), Table)
    assert repr(data.shuffle(1).batch(4).prefetch()) == (
        "<23 examples of 'x', 't'>.shuffle(seed=1).batch(4).prefetch(2)"
    )
