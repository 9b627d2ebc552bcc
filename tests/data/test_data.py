"""Data sets: order, resume, stages, prefetching."""

from __future__ import annotations

import gc
import itertools
import signal
import threading
import time

import numpy as np
import pytest

import gradwright as gw
from gradwright.data import order
from gradwright.errors import FeedError, TrainingError
from tests.support import data_sets
from tests.support.data_sets import T, X, fed, flat, line, plain, rows, seen, stream, threads

no_thread_is_left = pytest.fixture(autouse=True)(data_sets.no_thread_is_left)


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


class Opaque:
    """Something of which no more is known than its type."""


def test_a_signature_tells_other_values_of_the_same_shape():
    def signed(**columns):
        return gw.data.dataset(columns).signature()

    texts = np.array(["graph", "of", "ops"])
    boxed = np.empty(3, object)
    boxed[:] = [np.array([1]), np.array([2.0, 3.0]), ["some", "text"]]
    mixed = np.empty(3, object)
    mixed[:] = [2**100, "text", None]
    for column, other in (
        (X, -X),
        (X[:, 0], X[::-1, 0]),
        (np.zeros((200, 3, 64, 64)), np.ones((200, 3, 64, 64))),
        (np.array([1j, 2]), np.array([-1j, 2])),
        (texts, texts[::-1]),
        (texts.astype(bytes), texts[::-1].astype(bytes)),
        (np.array(["2024-01-01", "2025-01-01"], "M8[D]"), np.array(["2024-01-01"] * 2, "M8[D]")),
        (np.array([(1, 2.0)], "i4, f4"), np.array([(1, 3.0)], "i4, f4")),
        (boxed, boxed[::-1]),
        (mixed, mixed[::-1]),
    ):
        assert signed(x=column) == signed(x=column.copy()) != signed(x=other)
    assert signed(x=X, t=T) == signed(t=T, x=X) != signed(x=T, t=X)
    assert signed(x=np.array([Opaque()])) == signed(x=np.array([Opaque()]))
    assert signed(x=X, rate=0.1) == signed(x=X, rate=0.2)


def test_a_signature_is_that_of_values_whatever_their_dtype(tmp_path):
    whole = np.random.default_rng(0).normal(size=(40, 3)) * [1, 1e-3, 1e300]
    np.save(tmp_path / "x.npy", whole)
    with np.errstate(over="ignore"):
        single = whole.astype("float32")
    ways = [whole, single, gw.data.memmap(tmp_path / "x.npy"), whole.T.copy().T]
    trainer = line()
    for options in ({}, {"shuffle": True}):
        found = [
            fed(trainer, {"x": way, "t": np.arange(40)}, 8, **options).signature() for way in ways
        ]
        assert found == found[:1] * 4
    assert len({tuple(gw.data.dataset({"x": way}).signature()) for way in ways}) == 1


def test_windows_and_stages_tell_other_values():
    tokens = np.arange(500) % 7
    for stage in (lambda d: d, lambda d: d.shuffle(1).batch(4), lambda d: d.take(9) + d):
        first, other = (stage(gw.data.windows(t, 9)).signature() for t in (tokens, tokens[::-1]))
        assert first == stage(gw.data.windows(tokens.copy(), 9)).signature() != other


def test_shuffling_a_table_is_a_permutation_by_seed_and_epoch():
    data = gw.data.dataset(rows()).shuffle(seed=11).batch(23)
    assert flat(data, 2) == X[order(11, 2, 23), 0].astype(int).tolist()
    assert sorted(flat(data, 2)) == list(range(23))
    assert data.where(2, 0, 5) == f"row {flat(data, 2)[5]} of the data"


@pytest.mark.parametrize("drop_last", [False, True])
def test_small_batches_that_are_gathered_together_are_those_of_one_by_one(drop_last):
    """Where they begin at multiples of 64 bytes; else one by one, since bits may depend on it."""
    x, t = np.arange(16 * 103, dtype="f4").reshape(103, 16), np.arange(103.0)
    for columns, lies_apart in (({"x": x, "t": t, "one": 3.0}, False), ({"x": x[:, :3]}, True)):
        data = gw.data.dataset(columns).shuffle(seed=3).batch(8, drop_last=drop_last)
        found = [*data.epoch(1)]
        assert len(found) == (12 if drop_last else 13)
        for at, batch in enumerate(found):
            chosen = order(3, 1, 103)[8 * at : 8 * at + 8]
            for name, column in columns.items():
                given = np.asarray(column)
                np.testing.assert_array_equal(batch[name], given[chosen] if given.ndim else given)
        assert (found[3]["x"].base is None) == lies_apart
        for skip in (1, 5, 12):
            rest = [batch["x"].tolist() for batch in data.epoch(1, skip)]
            assert rest == [batch["x"].tolist() for batch in found[skip:]]


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
    for chosen in ({"x": ["b", "a"], "c": "c"}, {"c": "c", "x": ("b", "a")}):
        np.testing.assert_equal(
            gw.data.dataset(table).columns(chosen).rows(0, slice(0, 2)), data.rows(0, slice(0, 2))
        )
    with pytest.raises(TrainingError, match=r"columns\(x=\['a', 'b'\]\)"):
        gw.data.dataset(table).columns(["a", "b"])
    with pytest.raises(FeedError, match=r"no column 'd'(.|\n)*columns: 'a', 'b', 'c'"):
        gw.data.dataset(table).columns("d").rows(0, slice(0, 1))


def test_text_beside_numbers_makes_no_matrix():
    number, text = np.array([1.5, 2.5]), np.array(["u", "v"])
    for other in (text, text.astype(object), text.astype(bytes)):
        data = gw.data.dataset({"a": number, "cat": other}).columns(x=["a", "cat"])
        with pytest.raises(FeedError, match="'a', 'cat' do not make a matrix") as caught:
            data.rows(0, slice(0, 2))
        assert "'a': float64[2]" in str(caught.value) and "return_inverse" in str(caught.value)
    items = gw.data.stream([{"a": 1.5, "cat": "u"}]).columns(x=["a", "cat"])
    with pytest.raises(FeedError, match="'a', 'cat' do not make a matrix"):
        next(items.epoch())
    wide = gw.data.dataset({"a": number, "b": np.ones((2, 3))}).columns(x=["a", "b"])
    with pytest.raises(FeedError, match=r"'b': float64\[2, 3\]"):
        wide.rows(0, slice(0, 2))
    words = gw.data.dataset({"a": text}).columns(x=["a", "a"])
    assert words.rows(0, slice(0, 1))["x"].tolist() == [["u", "u"]]


def test_padding_that_names_no_column():
    data = gw.data.dataset({"x": [[1, 2], [3]]})
    for options, hint in (({"pad": 0}, 'pad={"x": 0}'), ({"masks": "m"}, 'masks={"x": "m"}')):
        with pytest.raises(TrainingError, match=hint):
            data.batch(2, **options)
    with pytest.raises(FeedError, match="column 'x' cannot be padded or masked"):
        next(data.batch(2, masks={"x": "m"}).epoch())


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
    for _ in range(6000):  # the consumer rests; the thread goes on
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
        thread.join(60)


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
        thread.join(60)


def test_a_fit_that_fails_or_stops_leaves_no_thread():
    trainer = line()
    bad = stream().map(lambda e: {**e, "x": e["x"] * np.nan}).batch(4).prefetch(2)
    with pytest.raises(TrainingError, match="the data of placeholder 'x' is not finite") as caught:
        trainer.fit(bad, progress=False)
    assert caught.tb is not None and not threads()
    trainer.fit(stream().batch(4).prefetch(2), steps=2, progress=False)
    gc.collect()
    assert not threads() and trainer.steps_done == 2
