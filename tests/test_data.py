"""Data sets: order, resume, stages, errors, and what the trainer makes of them."""

from __future__ import annotations

import gc
import itertools
import signal
import threading
import time

import numpy as np
import pytest

import gradwright as gw
from gradwright.data import Table, batches, order
from gradwright.errors import FeedError, TrainingError

X = np.arange(23, dtype="float32")[:, None] * [1, 10, 100]
T = np.arange(23) % 3


def rows():
    return {"x": X.astype("float32"), "t": T}


def stream(n=23):
    return gw.data.stream(lambda: ({"x": X[i].astype("float32"), "t": T[i]} for i in range(n)))


def plain(items):
    """Return items as what == compares."""
    return [{k: np.asarray(v).tolist() for k, v in item.items()} for item in items]


def seen(data, epoch=0, skip=0):
    """Return the first numbers of the rows, batch by batch."""
    return [np.asarray(b["x"])[:, 0].astype(int).tolist() for b in data.epoch(epoch, skip)]


def flat(data, epoch=0):
    return list(itertools.chain(*seen(data, epoch)))


def line(**options):
    g = gw.Graph("line")
    x, t = g.placeholder("x", (None, 3)), g.placeholder("t", (None,))
    w = g.variable("w", (3,), init=[0.1, -0.1, 0.05])
    options.setdefault("session", gw.Session(g, deterministic=True))
    return gw.Trainer(g, gw.mean((x @ w - t) ** 2.0), gw.optim.SGD(1e-7), **options)


def fed(trainer, data, batch_size=None, **options):
    """Return data as the batches that ``fit`` makes of it."""
    needed = list(trainer.graph.placeholders)
    return batches(trainer.graph, data, needed, batch_size, **options)


def taken(source, epoch=0, skip=0):
    return [
        plain([{t.name: a for t, a in feeds.items()}])[0] for feeds, _ in source.epoch(epoch, skip)
    ]


def threads():
    return [t for t in threading.enumerate() if t.name == "gradwright-prefetch"]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    if threads():
        gc.collect()
    assert not threads()


# -- resume ----------------------------------------------------------------------------------------


def augmented(example, rng):
    return {**example, "x": example["x"] + rng.integers(1000)}


PIPELINES = {
    "arrays": lambda: gw.data.dataset(rows()).batch(4),
    "shuffled": lambda: gw.data.dataset(rows()).shuffle(seed=7).batch(4),
    "drop_last": lambda: gw.data.dataset(rows()).shuffle(seed=7).batch(4, drop_last=True),
    "augmented": lambda: gw.data.dataset(rows()).shuffle(1).map(augmented, seed=3).batch(4),
    "batches augmented": lambda: gw.data.dataset(rows()).batch(4).map(augmented, seed=3),
    "filtered": lambda: gw.data.dataset(rows()).shuffle(2).filter(lambda e: e["t"] != 1).batch(4),
    "taken": lambda: gw.data.dataset(rows()).shuffle(2).take(13).batch(4),
    "stream": lambda: stream().batch(4),
    "stream shuffled": lambda: stream().shuffle(seed=5, buffer=6).batch(4),
    "stream augmented": lambda: stream().map(augmented, seed=9).batch(4),
    "stream taken": lambda: stream().shuffle(1, buffer=4).take(10).batch(4),
    "joined": lambda: (
        (gw.data.dataset(rows()) + gw.data.dataset(rows()).take(5)).shuffle(1).batch(4)
    ),
    "chained": lambda: (stream(7) + gw.data.dataset(rows())).batch(4),
    "chained batches": lambda: gw.data.dataset(rows()).batch(4) + stream().batch(5),
    "prefetched": lambda: stream().shuffle(4, buffer=8).batch(4).prefetch(3),
    "batches shuffled": lambda: gw.data.dataset(rows()).batch(4).shuffle(3, buffer=3),
    "list of batches": lambda: gw.data.dataset(
        [{k: a[i : i + 4] for k, a in rows().items()} for i in range(0, 23, 4)]
    ),
    "columns": lambda: gw.data.dataset(rows()).columns("t", x="x").shuffle(3).batch(4),
    "windows": lambda: gw.data.windows(np.arange(50), 3).shuffle(2).batch(4),
    "split": lambda: gw.data.split(rows(), 0.4, seed=1)[0].shuffle(3).batch(4),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_an_epoch_is_a_function_of_its_number_and_goes_on_anywhere(name):
    first, again = PIPELINES[name](), PIPELINES[name]()
    assert first.signature() == again.signature()
    for epoch in (0, 3):
        whole = plain(first.epoch(epoch))
        assert first.n in (None, len(whole))
        for skip in range(len(whole) + 1):
            assert plain(again.epoch(epoch, skip)) == whole[skip:]
    changes = any(word in name for word in ("shuffled", "augmented", "filtered", "joined"))
    assert not changes or plain(first.epoch(0)) != plain(first.epoch(1))


def test_shuffling_a_table_is_a_permutation_by_seed_and_epoch():
    data = gw.data.dataset(rows()).shuffle(seed=11).batch(23)
    assert flat(data, 2) == X[order(11, 2, 23), 0].astype(int).tolist()
    assert sorted(flat(data, 2)) == list(range(23))
    assert data.where(2, 0, 5) == f"row {flat(data, 2)[5]} of the data"


def test_shuffling_a_stream_loses_nothing_and_looks_a_buffer_ahead():
    data = stream().shuffle(seed=1, buffer=5).batch(1)
    for epoch in range(3):
        found = flat(data, epoch)
        assert sorted(found) == list(range(23)) and found != list(range(23))
        assert all(number <= place + 5 for place, number in enumerate(found))


def test_what_is_skipped_is_not_read_where_rows_can_be_read_at_random():
    class Rows:
        read = ()

        def __len__(self):
            return 23

        def __getitem__(self, i):
            self.read += (i,)
            return {"x": X[i]}

    source = Rows()
    data = gw.data.dataset(source).shuffle(seed=2).map(lambda e: e).batch(4)
    list(data.epoch(1, skip=4))
    assert sorted(source.read) == sorted(order(2, 1, 23)[16:].tolist())


def test_a_fit_that_stops_within_an_epoch_goes_on_to_the_same_numbers():
    for data, size in (
        (gw.data.dataset(rows()).shuffle(5), 4),
        (stream().shuffle(5, buffer=7).batch(4).prefetch(), None),
        (lambda: ({k: a[i : i + 4] for k, a in rows().items()} for i in range(0, 23, 4)), None),
    ):
        whole, parts = line(), line()
        whole.fit(data, epochs=3, batch_size=size, progress=False)
        for _ in range(9):
            parts.fit(data, epochs=9, steps=2, batch_size=size, progress=False)
        assert parts.steps_done == whole.steps_done == 18
        assert parts.values["w"].tobytes() == whole.values["w"].tobytes()
        losses = [trainer.history.epochs["loss"].tolist()[:2] for trainer in (whole, parts)]
        assert losses[0] == losses[1]


def test_an_iterator_that_runs_once_goes_on_where_it_stands_and_prefetching_loses_nothing():
    for make in (lambda d: d, lambda d: d.prefetch(3)):
        once = make(gw.data.dataset({"x": X[i : i + 1]} for i in range(23)))
        found = []
        for skip in (0, 3, 8):
            items = once.epoch(0, skip)
            found += [int(b["x"][0, 0]) for b in itertools.islice(items, 4)]
            items.close()
        assert found == list(range(12))


# -- stages ----------------------------------------------------------------------------------------


def test_stages_change_what_they_say():
    data = gw.data.dataset(rows())
    assert flat(data.filter(lambda e: e["t"] == 0).batch(5)) == list(range(0, 23, 3))
    assert flat(data.map(lambda e: {"x": -e["x"]}).batch(5)) == [-i for i in range(23)]
    assert flat(data.batch(5).map(lambda b: {"x": b["x"][::-1]}))[:5] == [4, 3, 2, 1, 0]
    assert flat(data.take(3).batch(2)) == flat(stream().take(3).batch(2)) == [0, 1, 2]
    assert flat((data.take(2) + data.take(3)).batch(4)) == [0, 1, 0, 1, 2]
    assert [len(b) for b in seen(data.batch(5))] == [5, 5, 5, 5, 3]
    assert [len(b) for b in seen(stream().batch(5, drop_last=True))] == [5, 5, 5, 5]
    assert len(data.batch(5)) == 5 and len(data.batch(5, drop_last=True)) == 4
    assert data.filter(bool).n is None and stream().n is None
    with pytest.raises(TypeError, match="how many items"):
        len(stream())


def test_joined_tables_read_rows_of_both_in_any_order():
    both = gw.data.dataset(rows()) + gw.data.dataset({"x": -X, "t": T})
    at = np.array([40, 2, 25, 0, 22, 23])
    expected = np.concatenate([X, -X])[at]
    np.testing.assert_array_equal(both.rows(0, at)["x"], expected)
    assert both.where(0, 25) == "row 2 of the data, of the second of two data sets"
    with pytest.raises(FeedError, match="different columns"):
        (gw.data.dataset({"a": [1]}) + gw.data.dataset({"b": [2]})).rows(0, slice(0, 2))
    with pytest.raises(TrainingError, match="examples and batches cannot be joined"):
        gw.data.dataset({"a": [1]}) + gw.data.dataset([{"a": [1]}])


def test_columns_are_chosen_renamed_and_put_together():
    table = {"a": [1, 2], "b": [3, 4], "c": [5, 6]}
    data = gw.data.dataset(table).columns("c", x=["b", "a"])
    assert plain([data.rows(0, slice(0, 2))]) == [{"c": [5, 6], "x": [[3, 1], [4, 2]]}]
    made = gw.data.stream([{"a": 1, "b": 2}]).columns(x="b")
    assert plain(made) == [{"x": 2}]
    with pytest.raises(FeedError, match=r"no column 'd'(.|\n)*columns: 'a', 'b', 'c'"):
        gw.data.dataset(table).columns("d").rows(0, slice(0, 1))


def test_padding_fills_up_and_masks_what_is_there():
    data = gw.data.dataset({"ids": [[1, 2, 3], [4], [], [5, 6]], "t": [0, 1, 2, 3]})
    options = {"pad": {"ids": -1}, "masks": {"ids": "mask"}}
    first, second = data.batch(2, **options)
    assert first["ids"].tolist() == [[1, 2, 3], [4, -1, -1]]
    assert first["mask"].tolist() == [[True] * 3, [True, False, False]]
    assert second["ids"].tolist() == [[-1, -1], [5, 6]] and second["ids"].dtype.kind == "i"
    array, mask = gw.data.pad([np.ones((2, 3)), np.ones((1, 3))], length=4)
    assert array.shape == (2, 4, 3) and array.sum() == 9 and mask.sum() == 3
    with pytest.raises(FeedError, match="row 0 has 3 steps"):
        gw.data.pad([[1, 2, 3]], length=2)
    with pytest.raises(FeedError, match="different shapes"):
        gw.data.pad([np.ones((2, 3)), np.ones((1, 2))])
    with pytest.raises(FeedError, match="row 1 is a single value"):
        gw.data.pad([[1], 2])
    with pytest.raises(FeedError, match="column 'id' cannot be padded"):
        list(data.batch(2, pad={"id": 0}))


# -- prefetching -----------------------------------------------------------------------------------


def test_prefetching_works_ahead_and_never_further_than_asked():
    made, resume = [], threading.Event()

    def slow():
        for i in range(10):
            made.append(i)
            yield {"x": [i]}

    items = gw.data.dataset(slow).prefetch(3).epoch()
    assert next(items)["x"] == [0]
    for _ in range(200):  # the consumer rests; the thread goes on
        if len(made) == 4:
            break
        resume.wait(0.01)
    resume.wait(0.05)
    assert made == [0, 1, 2, 3]
    assert [b["x"][0] for b in items] == list(range(1, 10))


def test_errors_of_the_source_arrive_after_what_it_gave_before():
    def breaks():
        yield {"x": [1]}
        yield {"x": [2]}
        raise RuntimeError("the disk is gone")

    items = gw.data.dataset(breaks).prefetch(4).epoch()
    assert [next(items)["x"], next(items)["x"]] == [[1], [2]]
    with pytest.raises(RuntimeError, match="the disk is gone") as caught:
        next(items)
    assert any(frame.name == "breaks" for frame in caught.traceback)


def test_a_prefetching_thread_ends_however_the_iteration_does():
    data = stream(1000).batch(1).prefetch(2)
    items = data.epoch()
    next(items)
    assert len(threads()) == 1
    items.close()
    assert not threads()
    given_up = data.epoch()
    next(given_up)
    del given_up
    assert not threads()
    with pytest.raises(KeyboardInterrupt):
        for _ in data.epoch():
            raise KeyboardInterrupt
    gc.collect()
    assert not threads()
    assert data.epoch() is not None and not threads()  # none before the first item is asked for


def test_a_source_that_never_answers_does_not_hold_up_the_end():
    free = threading.Event()

    def stuck():
        yield {"x": [1]}
        free.wait(30)

    items = gw.data.dataset(stuck).prefetch(2).epoch()
    next(items)
    began = time.monotonic()
    items.close()
    assert time.monotonic() - began < 20
    free.set()
    for thread in threads():
        thread.join(5)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
def test_ctrl_c_is_heard_while_data_is_awaited():
    free, main = threading.Event(), threading.main_thread().ident

    def stuck():
        yield {k: a[:4] for k, a in rows().items()}
        signal.pthread_kill(main, signal.SIGINT)
        free.wait(30)

    trainer = line()
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(gw.data.dataset(stuck).prefetch(), progress=False)
    free.set()
    assert trainer.steps_done <= 1 and trainer.status == "idle"
    for thread in threads():
        thread.join(5)


def test_a_fit_that_fails_or_stops_leaves_no_thread():
    trainer = line()
    bad = stream().map(lambda e: {**e, "x": e["x"] * np.nan}).batch(4).prefetch(2)
    with pytest.raises(TrainingError, match="the data of placeholder 'x' is not finite") as caught:
        trainer.fit(bad, progress=False)
    assert caught.tb is not None and not threads()
    trainer.fit(stream().batch(4).prefetch(2), steps=2, progress=False)
    gc.collect()
    assert not threads() and trainer.steps_done == 2


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
