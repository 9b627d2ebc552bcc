"""Threads: calls in pieces, the pool that runs them, OpenBLAS's count, and what a record fixes."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.call import Call, Cut
from gradwright.cpu.llvm import bind, gemm
from gradwright.cpu.llvm.blas import Limit, blas, default_threads
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.llvm.gemm import bind_matmul
from gradwright.cpu.threads import tuning
from gradwright.cpu.threads.forks import PARALLEL, SERIAL, TURNS
from gradwright.cpu.threads.threads import POOL, can_fork
from gradwright.cpu.threads.tuning import Tuning, pieces
from gradwright.errors import GraphError

native = pytest.mark.skipif(not available(), reason="no llvmlite here")
threaded = pytest.mark.skipif(not can_fork(), reason="no threads of machine code here")
counted = pytest.mark.skipif(blas() is None, reason="numpy has another BLAS")


@pytest.fixture
def small(monkeypatch):
    """Let small calls be cut, too: tests are about results."""
    monkeypatch.setattr(tuning, "CUT", 0)
    monkeypatch.setattr("gradwright.cpu.binder.ASKED", 0)
    monkeypatch.setattr(bind, "_LEAST", 8)
    monkeypatch.setattr(gemm, "_SMALL", 64)  # pieces that keep their bits are found all the same
    monkeypatch.setattr(tuning, "_known", dict)  # neither the disk nor other tests know anything
    monkeypatch.setattr(tuning, "_unsaved", {})


def network(seed=0):
    """Return a graph with products, norms, softmax and sums, what is fetched, feeds and updates."""
    rng = np.random.default_rng(seed)
    g = gw.Graph()
    x, t = g.placeholder("x", (6, 10, 16)), g.placeholder("t", (6, 10), dtype="int64")
    made = {
        name: g.variable(name, shape, init=rng.normal(size=shape).astype(np.float32) / 4)
        for name, shape in {"w": (16, 48), "b": (48,), "v": (48, 12), "s": (16,)}.items()
    }
    h = gw.nn.layer_norm(x, made["s"])
    h = gw.nn.gelu(h @ made["w"] + made["b"])
    scores = gw.nn.softmax(h @ gw.transpose(h, (0, 2, 1)), axis=-1)
    loss = gw.loss.sparse_softmax_cross_entropy(t, (scores @ h) @ made["v"])
    grads = gw.gradients(loss, list(made.values()))
    updates = {v: v - 0.1 * d for v, d in zip(made.values(), grads, strict=True)}
    feeds = {
        "x": rng.normal(size=(6, 10, 16)).astype(np.float32),
        "t": rng.integers(0, 12, (6, 10)),
    }
    return g, loss, feeds, updates


def trained(steps=4, seed=0, **options):
    """Return losses and variables after some steps of a new session, and the session."""
    g, loss, feeds, updates = network(seed)
    session = gw.Session(g, kernels="wait", **options)
    losses = [session.run(loss, feeds, updates) for _ in range(steps)]
    return [np.stack(losses), *(g.values[v.name] for v in updates)], session


def same(found, expected):
    return all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def close(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


# -- pieces ---------------------------------------------------------------------------------------


def run(call):
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(call.address)(call.block.ctypes.data)


@native
@counted
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((400, 96), (96, 128)),
        ((128, 784), (784, 256)),
        ((64, 96), (96, 900)),
        ((4, 8, 64, 32), (4, 8, 32, 64)),
        ((7, 120, 130), (7, 130, 90)),
        ((2, 3, 200, 64), (64, 128)),
    ],
)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)])
def test_pieces_of_a_product_have_its_bits(a, b, turned, n):
    rng = np.random.default_rng(0)
    x, y = (
        np.swapaxes(made.swapaxes(-1, -2).copy(), -1, -2) if swaps else made
        for swaps, shape in zip(turned, (a, b), strict=True)
        for made in [rng.normal(size=shape).astype(np.float32)]
    )
    whole = np.zeros((x @ y).shape, np.float32)
    parts = np.full_like(whole, np.nan)
    with Limit(1):
        for call in bind_matmul([x, y], [whole]) or []:
            run(call)
        [call] = bind_matmul([x, y], [parts]) or []
        cut = pieces(call, n, alike=True)
        assert 2 <= len(cut) <= n
        for piece in reversed(cut):
            run(piece)
    np.testing.assert_array_equal(parts, whole)
    np.testing.assert_allclose(parts, x.astype(float) @ y, rtol=1e-3, atol=1e-3)


def test_pieces_cover_a_range_once():
    for length, least, grain, n in [(100, 10, 4, 2), (100, 10, 4, 3), (65, 1, 64, 2), (7, 1, 1, 5)]:
        cut = Cut(1, length, [(0, 8)], least, grain)
        found = pieces(Call(0, np.array([0, length]), [(0, 0)], cut=cut), n)
        spans = [(int(p.block[0]) // 8, int(p.block[1])) for p in found]
        if not spans:
            assert length < 2 * (least + grain - 1)
            continue
        ends = [start + size for start, size in spans]
        assert [start for start, _ in spans] == [0, *ends[:-1]] and ends[-1] == length
        assert len(spans) <= n and all(size >= least for _, size in spans)
        assert all(start % grain == 0 for start, _ in spans)


# -- sessions -------------------------------------------------------------------------------------


@threaded
@pytest.mark.parametrize("n", [2, 3, 5])
def test_threads_change_no_bits(small, n):
    expected, _ = trained(threads=1, deterministic=True)
    found, session = trained(threads=n, deterministic=True)
    assert n in session.tuning["choices"].values() and POOL.n_workers >= n - 1
    assert same(found, expected)
    close(trained(threads=n)[0], expected)


@threaded
def test_measuring_is_right_in_every_turn_and_ends_in_a_choice(small):
    expected, _ = trained(TURNS + 4, threads=1)
    found, session = trained(TURNS + 4, threads=2)
    close(found, expected)
    choices = session.tuning["choices"]
    assert choices and set(choices.values()) <= {1, 2}
    assert blas() is None or any(name.startswith("product") for name in choices)
    assert any(name.startswith("kernel") for name in choices)


@threaded
def test_a_pool_that_is_taken_is_not_waited_for(small):
    expected, _ = trained(threads=2, deterministic=True)
    POOL.is_taken = True
    try:
        found, _ = trained(threads=2, deterministic=True)
    finally:
        POOL.is_taken = False
    assert same(found, expected)


@threaded
def test_without_workers_the_owner_does_all(small, monkeypatch):
    expected, _ = trained(threads=2, deterministic=True)
    POOL.stop()

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    found, _ = trained(threads=2, deterministic=True)
    assert POOL.n_workers == 0 and same(found, expected)


@threaded
def test_sessions_with_other_counts_at_the_same_time(small):
    before = default_threads()
    expected = {(n, seed): trained(60, seed, threads=n, deterministic=True)[0]
                for n in (1, 2, 3) for seed in (1, 2)}  # fmt: skip
    found: dict[tuple[int, int], list[bool]] = {}

    def work(n: int, seed: int) -> None:
        made = [trained(60, seed, threads=n, deterministic=True)[0] for _ in range(3)]
        found[n, seed] = [same(one, expected[n, seed]) for one in made]

    workers = [threading.Thread(target=work, args=key) for key in expected]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == dict.fromkeys(expected, [True] * 3)
    assert default_threads() == before


def test_without_machine_code_threads_are_openblas_own(monkeypatch):
    monkeypatch.setattr("gradwright.cpu.llvm.compiler.available", lambda: False)
    close(trained(threads=2)[0], trained(threads=1)[0])


@threaded
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # JAX's, if loaded
def test_a_fork_has_workers_of_its_own(small):
    g, loss, feeds, updates = network()
    session = gw.Session(g, threads=2, deterministic=True)
    session.run(loss, feeds, updates)
    assert POOL.n_workers
    child = os.fork()
    if not child:  # what it finds is told by its exit code alone
        fine = POOL.n_workers == 0 and np.isfinite(session.run(loss, feeds, updates))
        os._exit(0 if fine and POOL.n_workers else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    expected, _ = trained(2, threads=2, deterministic=True)
    session.run(loss, feeds, updates)
    assert same([g.values[v.name] for v in updates], expected[1:])


@threaded
def test_the_interpreter_ends_with_workers_at_hand():
    code = """
import numpy as np, gradwright as gw
g = gw.Graph()
x, w = g.placeholder("x", (256, 256)), g.variable("w", (256, 256), init=0.5)
session = gw.Session(g, threads=2, deterministic=True)
for _ in range(3):
    y = session.run(x @ w, {"x": np.ones((256, 256), "f4")})
from gradwright.cpu.threads.threads import POOL
print(POOL.n_workers, float(y[0, 0]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["1", "128.0"]), done.stderr


# -- OpenBLAS -------------------------------------------------------------------------------------


@counted
def test_the_least_that_is_wanted_counts_and_goes_with_who_wants_it():
    library = blas()
    before = library.get_threads()
    with Limit(3):
        assert library.get_threads() == 3
        with Limit(1), Limit(2):
            assert library.get_threads() == 1 and default_threads() == before
        assert library.get_threads() == 3
        with Limit(None):
            assert library.get_threads() == 3
    assert library.get_threads() == before


@counted
@pytest.mark.parametrize("kernels", ["off", "wait"])
def test_the_count_is_put_back_after_a_run_and_after_an_error(kernels):
    library = blas()
    before, seen = library.get_threads(), []

    @gw.define_op("test/threads_seen", like=0)
    def threads_seen(x):
        seen.append(library.get_threads())
        if x.max() > 5:
            raise ValueError("too large")
        return x

    g = gw.Graph()
    x = g.placeholder("x", (2,))
    session = gw.Session(g, threads=before + 1, kernels=kernels)
    y = threads_seen(x)
    session.run(y, {"x": [1.0, 2.0]})
    assert library.get_threads() == before
    with pytest.raises(Exception, match="too large"):
        session.run(y, {"x": [1.0, 9.0]})
    assert library.get_threads() == before
    assert before + 1 in seen


# -- records --------------------------------------------------------------------------------------


@threaded
def test_a_record_goes_through_json_and_decides(small):
    expected, first = trained(threads=2, deterministic=True)
    record = json.loads(json.dumps(first.tuning))
    assert record == first.tuning and record["threads"] == 2 and record["choices"]
    found, second = trained(tuning=record, deterministic=True)
    assert same(found, expected) and second.tuning == record
    alone = {**record, "choices": dict.fromkeys(record["choices"], 1)}
    _, third = trained(tuning=alone, deterministic=True)
    assert third.tuning == alone


@threaded
def test_what_was_measured_is_kept_on_disk(small, monkeypatch, tmp_path):
    monkeypatch.setenv("GRADWRIGHT_CACHE", str(tmp_path))
    tuning._unsaved["2 product"] = 2
    tuning.save()
    assert not tuning._unsaved
    monkeypatch.undo()
    monkeypatch.setenv("GRADWRIGHT_CACHE", str(tmp_path))
    tuning._known.cache_clear()
    assert tuning._known() == {"2 product": 2}
    call = Call(0, np.zeros(2, np.int64), [], cost=1e6, label="product")
    assert Tuning(2).find(call, 2) == ("product", 2)
    monkeypatch.undo()
    tuning._known.cache_clear()


def test_turns_that_are_done_are_taken_over(small):
    class Measured:
        turn = 3

    tuner, one, other = Tuning(2), Measured(), Measured()
    tuner.watch("a", 2, one)
    tuner.watch("b", 2, other)
    one.turn = PARALLEL
    tuner.settle()
    assert tuner.choices == {"a": 2}
    other.turn = SERIAL
    tuner.settle()
    assert tuner.choices == {"a": 2, "b": 1}


@pytest.mark.parametrize("threads", [0, -1, "x", 1.5, True])
def test_threads_are_a_number(threads):
    with pytest.raises(GraphError, match="no number of threads"):
        gw.Session(gw.Graph(), threads=threads)


@pytest.mark.parametrize(
    "record", [{}, 3, {"choices": {"a": 0}, "threads": 1}, {"choices": {"a": "2"}, "threads": 2}]
)
def test_what_is_no_record_is_refused(record):
    with pytest.raises(GraphError, match="is no record"):
        gw.Session(gw.Graph(), tuning=record)
