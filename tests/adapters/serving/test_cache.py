"""The cache of adapters and of slots: bounds, order, pins, what is held, and eight threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwright.adapters.serving.cache import Cache, Counts
from gradwright.errors import GraphError


class Shelf:
    """What a cache reads from: it tells how many of its values are outside, and how often read."""

    def __init__(self) -> None:
        self.outside: dict[Any, int] = {}
        self.reads: list[Any] = []
        self.most = 0
        self.lock = threading.Lock()

    def read(self, key: Any) -> list[Any]:
        with self.lock:
            self.reads.append(key)
            self.outside[key] = self.outside.get(key, 0) + 1
            self.most = max(self.most, sum(self.outside.values()))
        return [key]

    def gone(self, key: Any, value: list[Any]) -> None:
        with self.lock:
            self.outside[key] -= 1
            value.clear()  # whoever held it would see

    def cache(self, most: int, most_bytes: int | None = None, **settings: Any) -> Cache[list[Any]]:
        return Cache(self.read, most, most_bytes, gone=self.gone, what="adapters", **settings)


def use(cache: Cache[list[Any]], *keys: Any) -> None:
    with cache.holding(keys) as values:
        assert values == [[key] for key in keys]


def test_the_least_recently_used_goes_before_another_is_read() -> None:
    shelf = Shelf()
    cache = shelf.cache(3)
    for key in "abcadae":
        use(cache, key)
    assert list(cache) == ["d", "a", "e"]
    assert shelf.reads == list("abcde")
    assert shelf.most == 3, "a value was read before another one had gone"
    assert cache.counts == Counts(hits=2, misses=5, evictions=2)


def test_bytes_are_known_before_a_value_is_read() -> None:
    shelf, sizes = Shelf(), {"a": 40, "b": 40, "c": 70, "d": 101}
    cache = shelf.cache(10, 100, size=sizes.__getitem__)
    use(cache, "a")
    use(cache, "b")
    assert cache.nbytes == 80
    use(cache, "c")
    assert (list(cache), cache.nbytes) == (["c"], 70)
    with pytest.raises(GraphError, match="'d' take 101 bytes, and there is room for 100"):
        use(cache, "d")
    assert (list(cache), shelf.reads) == (["c"], ["a", "b", "c"])


def test_what_is_pinned_stays() -> None:
    shelf = Shelf()
    cache = shelf.cache(2)
    cache.pin("a")
    for key in "bcd":
        use(cache, key)
    assert list(cache) == ["a", "d"]
    with pytest.raises(GraphError, match=r"2 adapters are wanted at once.*room for 2"):
        use(cache, "b", "c")
    cache.unpin("a")
    use(cache, "b", "c")
    assert (list(cache), cache.pinned) == (["b", "c"], frozenset())


def test_more_at_once_than_there_is_room_for() -> None:
    cache = Shelf().cache(2)
    with pytest.raises(GraphError, match="3 adapters are wanted at once, and there is room for 2"):
        use(cache, "a", "b", "c")
    assert cache.counts == Counts()
    use(cache, "a", "b", "a")  # one value twice is one value


def test_a_value_of_another_stamp_is_read_anew(tmp_path: Path) -> None:
    path, reads = tmp_path / "a", []

    def read(key: Path) -> str:
        reads.append(key.read_text())
        return reads[-1]

    cache = Cache(read, 2, stamp=lambda key: key.stat().st_size)
    path.write_text("one")
    with cache.holding([path]) as held:
        path.write_text("three")
        with cache.holding([path]) as new:
            assert (held, new) == (["one"], ["three"])
            assert len(cache) == 2, "what is held takes room although nobody else will get it"
    with cache.holding([path]) as new:
        assert new == ["three"]
    assert (reads, len(cache), cache.counts) == (["one", "three"], 1, Counts(1, 2, 0))


def test_forgotten_values_are_read_again() -> None:
    shelf = Shelf()
    cache = shelf.cache(2)
    use(cache, "a")
    cache.forget("a")
    assert (len(cache), shelf.outside) == (0, {"a": 0})
    with cache.holding(["a"]) as values:
        cache.forget("a")
        assert values == [["a"]]
    assert (len(cache), shelf.reads) == (0, ["a", "a"])


def test_what_is_stale_is_not_pinned_although_its_key_is() -> None:
    cache = Shelf().cache(3)
    thread = threading.Thread(target=use, args=(cache, "b", "c"))
    with cache.holding(["a"]):
        cache.forget("a")
        cache.pin("a")
        thread.start()  # there is one place now, and two when the block ends
        while thread.is_alive() and not cache._waiting:
            pass
    thread.join()
    assert list(cache) == ["a", "b", "c"]


def test_a_read_that_fails_leaves_the_cache_as_it_was() -> None:
    bad = {"x"}

    def read(key: str) -> str:
        if key in bad:
            raise OSError(f"{key} is damaged")
        return key

    cache = Cache(read, 2)
    with cache.holding(["a"]):
        pass
    for wanted in (["x"], ["a", "x"]):
        with pytest.raises(OSError, match="x is damaged"), cache.holding(wanted):
            pass
    assert list(cache) == ["a"]
    bad.clear()
    with cache.holding(["x", "a"]) as values:
        assert values == ["x", "a"]


def test_who_holds_all_the_room_is_told_instead_of_waiting_for_itself() -> None:
    cache = Shelf().cache(2)
    with (
        cache.holding(["a", "b"]),
        pytest.raises(GraphError, match=r"no room for 'c'.*all adapters are in use"),
        cache.holding(["c"]),
    ):
        pass
    use(cache, "c")


def test_who_waits_gets_room_when_it_is_released() -> None:
    cache, order = Shelf().cache(2), []
    asked = threading.Event()

    def other() -> None:
        asked.set()
        with cache.holding(["c"]):
            order.append("read")

    thread = threading.Thread(target=other)
    with cache.holding(["a"]), cache.holding(["b"]):
        thread.start()
        asked.wait()
        order.append("released")
    thread.join()
    assert order == ["released", "read"]


def test_a_value_is_read_once_for_all_who_want_it() -> None:
    started, go, reads = threading.Event(), threading.Event(), []

    def read(key: str) -> str:
        reads.append(key)
        started.set()
        go.wait()
        return key

    cache = Cache(read, 2)
    found: list[str] = []

    def want() -> None:
        with cache.holding(["a"]) as values:
            found.extend(values)

    threads = [threading.Thread(target=want) for _ in range(4)]
    threads[0].start()
    started.wait()
    for thread in threads[1:]:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert (reads, found) == (["a"], ["a"] * 4)


def test_who_wants_all_the_room_is_not_passed_by() -> None:
    """Two threads hold one value in turn, always another waits; a third wants both places."""
    cache, done = Shelf().cache(2), threading.Event()

    def keep_busy(keys: str) -> None:
        while not done.is_set():
            for key in keys:
                use(cache, key)

    threads = [threading.Thread(target=keep_busy, args=(keys,)) for keys in ("ab", "ba")]
    for thread in threads:
        thread.start()
    for _ in range(20):
        use(cache, "x", "y")
    done.set()
    for thread in threads:
        thread.join()


@pytest.fixture
def switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("switching")
def test_eight_threads() -> None:
    """What is held is whole, there is never more than there is room for, and nothing is lost."""
    shelf, failed = Shelf(), []
    cache = shelf.cache(4, 100, size=lambda key: 10 + key)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(150):
                keys = rng.choice(20, rng.integers(1, 4), replace=False).tolist()
                with cache.holding(keys) as values:
                    assert values == [[key] for key in keys]
                    assert cache.nbytes <= 100
                match rng.integers(12):
                    case 0:
                        cache.forget(keys[0])
                    case 1 if seed == 0:
                        cache.pin(keys[0])
                        cache.unpin(keys[0])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    assert shelf.most <= 4
    assert sum(shelf.outside.values()) == len(cache) == len(list(cache)) <= 4
    counts = cache.counts
    assert counts.misses == len(shelf.reads)
    assert counts.evictions <= counts.misses
