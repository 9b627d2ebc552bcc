"""Random numbers of machine code: to the bit those of numpy, in any number of threads."""

from __future__ import annotations

import threading
import types
import weakref
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.draws import drawn as draws
from gradwright.cpu.draws import philox as written
from gradwright.cpu.llvm.compiler import available
from gradwright.ops.draws import philox

FLOAT32 = np.dtype(np.float32)
SCALED = (0.3, -0.1, 2.0)
pytestmark = pytest.mark.skipif(not available(), reason="no llvmlite")


@pytest.fixture
def numpy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be drawn by machine code but what asks it."""
    monkeypatch.setattr(philox._Count, "drawn", -(1 << 60))


@pytest.mark.parametrize(
    ("seed", "step", "stream"), [(3, 0, 0), (2**63 + 12_345, 2**40 + 7, 2**32 - 1)]
)
@pytest.mark.parametrize("n", [1, 32, 33, 50_000])
def test_machine_code_draws_numpy_s_bits(
    numpy_alone: None, seed: int, step: int, stream: int, n: int
) -> None:
    key = np.array([seed, step], np.uint64)
    expected = {
        ("words", 0): philox.words(key, stream, n),
        ("bernoulli", round(0.3 * 2**32)): philox.bernoulli(key, stream, n, 0.3),
        ("bernoulli", 2**32): np.ones(n, np.bool_),
        ("uniform", philox.AS_DRAWN): philox.uniform(key, stream, n, FLOAT32),
        ("uniform", SCALED): philox.uniform(key, stream, n, FLOAT32, SCALED),
        ("normal", philox.AS_DRAWN): philox.normal(key, stream, n, FLOAT32),
        ("normal", SCALED): philox.normal(key, stream, n, FLOAT32, SCALED),
    }
    for lower, upper in ((-2.0, 2.0), (1.0, 2.0), (-np.inf, -3.0), (-0.1, 0.2)):
        call = (key, stream, n, FLOAT32, lower, upper, SCALED)
        array = philox.truncated_normal(*call)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(philox._Count, "drawn", 1 << 60)
            patch.setattr(philox, "_LEAST", 0)
            assert philox.truncated_normal(*call).tobytes() == array.tobytes(), (lower, upper)
    for (kind, numbers), array in expected.items():
        found = draws.drawn(kind, key, stream, n, numbers)
        assert found is not None and found.dtype == array.dtype, kind
        assert found.tobytes() == array.tobytes(), kind


def test_doubtful_normals_are_drawn_by_numpy(
    numpy_alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a hundred million units of doubt, a fifth of all numbers is; bits stay."""
    monkeypatch.setattr(written, "CLOSE", 10**8)
    monkeypatch.setattr(draws, "function", written.function.__wrapped__)
    monkeypatch.setattr(written, "text", written.text.__wrapped__)
    asked: list[int] = []
    plain = philox.plain_words

    def counted(*args: Any) -> Any:
        asked.append(args[-1])
        return plain(*args)

    monkeypatch.setattr(philox, "plain_words", counted)
    key = np.array([1, 2], np.uint64)
    found = draws.drawn("normal", key, 0, 3200, SCALED)
    assert len(asked) > 50
    monkeypatch.setattr(philox, "plain_words", plain)
    expected = philox.normal(key, 0, 3200, FLOAT32, SCALED)
    assert found is not None and found.tobytes() == expected.tobytes()


def test_threads_do_not_change_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    key = np.array([5, 6], np.uint64)
    one = draws.drawn("normal", key, 1, 10_007, philox.AS_DRAWN)
    monkeypatch.setattr(draws, "APART", 1000)

    class Library:
        @staticmethod
        def get_threads() -> int:
            return 4

    monkeypatch.setattr(draws, "blas", Library)
    several = draws.drawn("normal", key, 1, 10_007, philox.AS_DRAWN)
    assert one is not None and several is not None and one.tobytes() == several.tobytes()


def test_threads_hold_what_they_write_when_others_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays: list[Any] = []
    go = threading.Event()

    def address(array: Any) -> int:
        arrays.append(weakref.ref(array if array.base is None else array.base))
        return int(array.ctypes.data)

    def call(block: int) -> None:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        go.wait()

    monkeypatch.setattr(draws, "APART", 1000)
    monkeypatch.setattr(draws, "blas", lambda: types.SimpleNamespace(get_threads=lambda: 2))
    monkeypatch.setattr(draws, "function", lambda kind: call)
    monkeypatch.setattr(draws, "address", address)
    try:
        with pytest.raises(KeyboardInterrupt):
            draws.drawn("words", np.array([5, 6], np.uint64), 1, 3200, 0)
        assert all(array() is not None for array in arrays[:3])
    finally:
        go.set()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_initialisers_and_masks_are_the_same_on_machine_code(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    g = gw.Graph()
    x = g.placeholder("x", (40, 50))
    dropped = gw.nn.dropout(x, 0.3)
    found = []
    for drawn in (-(1 << 60), 1 << 30):
        monkeypatch.setattr(philox._Count, "drawn", drawn)
        with gw.Session(g, seed=7) as session:
            mask = session.run(dropped, {x: np.ones((40, 50))}, training=True)
        arrays = [
            make((40, 50), dtype, seed=3)
            for make in (
                *(gw.init.uniform, gw.init.normal, gw.init.truncated_normal, gw.init.he_normal),
                *(gw.init.xavier_uniform, gw.init.variance_scaling, gw.init.orthogonal),
            )
        ]
        found.append([a.tobytes() for a in (mask, *arrays)])
    assert found[0] == found[1]
