"""Random numbers: the published generator, the documented layout, the right distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from gradwright.ops.core.special import normal_cdf, normal_quantile
from gradwright.ops.draws import philox
from tests.ops.distributions import CRITICAL, distance, gaussian

KEY = np.array([0x123456789ABCDEF0, 0xFEDCBA9876543210], np.uint64)
MASK = 0xFFFFFFFF
N = 40_000


def scalar_philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> list[int]:
    """Philox4x32-10 on Python ints, written from the paper's figures."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        left, right = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (right >> 32) ^ c1 ^ k0, right & MASK, (left >> 32) ^ c3 ^ k1, left & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return [c0, c1, c2, c3]


# -- the generator -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        (0x0000000000000000, "00000000" * 4, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (0xFFFFFFFFFFFFFFFF, "ffffffff" * 4, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            0x299F31D0A4093822,
            "243f6a8885a308d313198a2e03707344",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_known_answers(key: int, counter: str, expected: str) -> None:
    """The vectors that Random123 ships for philox4x32 with ten rounds."""
    words = [int(counter[i : i + 8], 16) for i in range(0, 32, 8)]
    found = philox.philox((key & MASK, key >> 32), np.array([words], np.uint32))[0]
    assert " ".join(f"{w:08x}" for w in found) == expected
    assert scalar_philox((key & MASK, key >> 32), tuple(words)) == found.tolist()  # type: ignore[arg-type]


def test_layout() -> None:
    """Element i of a draw is word i mod 4 of the block i div 4, under (block, stream, step)."""
    seed, step, stream = int(KEY[0]), int(KEY[1]), 7
    drawn = philox.words(KEY, stream, 4 * philox._CHUNK + 6)
    for i in (0, 1, 6, 4 * philox._CHUNK - 1, 4 * philox._CHUNK, len(drawn) - 1):
        counter = i // 4, stream, step & MASK, step >> 32
        assert scalar_philox((seed & MASK, seed >> 32), counter)[i % 4] == drawn[i]
    pairs = philox.words64(KEY, stream, 3)
    assert [int(p) for p in pairs] == [
        int(drawn[2 * i]) | int(drawn[2 * i + 1]) << 32 for i in range(3)
    ]


def test_a_shorter_draw_is_a_prefix() -> None:
    for draw in (philox.words, philox.words64):
        assert np.array_equal(draw(KEY, 3, 1001)[:17], draw(KEY, 3, 17))


def test_normals_are_box_muller_of_the_words() -> None:
    w = philox.words(KEY, 2, 2)
    radius, angle = (
        math.sqrt(-2 * math.log((int(w[0]) + 1) / 2**32)),
        2 * math.pi * int(w[1]) / 2**32,
    )
    expected = [radius * math.cos(angle), radius * math.sin(angle)]
    found = philox.normal(KEY, 2, 2, np.dtype("float32"))
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_largest_draw_and_stream() -> None:
    with pytest.raises(GraphError, match=r"cannot draw 17179869185 words"):
        philox.words(KEY, 0, (1 << 34) + 1)
    with pytest.raises(GraphError, match="of stream -1"):
        philox.words(KEY, -1, 1)


# -- distributions -------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "bits"), [("float64", 53), ("float32", 24), ("float16", 11)])
def test_uniforms(dtype: str, bits: int) -> None:
    u = philox.uniform(KEY, 0, N, np.dtype(dtype))
    assert u.dtype == dtype and u.min() >= 0 and u.max() < 1
    scaled = u.astype(np.float64) * 2.0**bits
    assert np.array_equal(scaled, np.floor(scaled))
    fine = (scaled + 0.5) / 2.0**bits  # the middle of the cell that the number stands for
    if bits > 16:
        assert distance(fine, lambda x: x) < CRITICAL
    assert abs(fine.mean() - 0.5) < 4 * math.sqrt(1 / 12 / N)


def test_bfloat16_uniforms_stay_below_one() -> None:
    u = philox.uniform(KEY, 0, N, gw.spec.dtype("bfloat16")).astype(np.float64)
    assert u.max() == 1 - 2.0**-8
    assert len(np.unique(u)) == 256


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_normals(dtype: str) -> None:
    z = philox.normal(KEY, 0, N, np.dtype(dtype)).astype(np.float64)
    assert distance(z, gaussian) < CRITICAL
    assert abs((z**4).mean() - 3) < 4 * math.sqrt(96 / N)
    pairs = z.reshape(-1, 2)
    assert abs((pairs[:, 0] * pairs[:, 1]).mean()) < 4 / math.sqrt(N / 2)
    assert abs((z[:-2] * z[2:]).mean()) < 4 / math.sqrt(N)


@pytest.mark.parametrize(("lower", "upper"), [(-2.0, 2.0), (0.5, 0.7), (-9.0, -1.0), (2.0, 6.0)])
def test_truncated_normals(lower: float, upper: float) -> None:
    z = philox.truncated_normal(KEY, 0, N, np.dtype("float64"), lower, upper)
    assert z.min() >= lower and z.max() <= upper
    low, high = gaussian([lower, upper])
    assert distance(z, lambda x: (gaussian(x) - low) / (high - low)) < CRITICAL


@pytest.mark.parametrize("p", [0.0, 0.03, 0.5, 1.0])
def test_bernoulli(p: float) -> None:
    hits = philox.bernoulli(KEY, 0, N, p)
    assert abs(hits.mean() - p) <= 4 * math.sqrt(p * (1 - p) / N)
    assert np.array_equal(hits, philox.words(KEY, 0, N) < p * 2**32)


def test_quantile_inverts_distribution() -> None:
    x = np.linspace(-8, 5, 1001)
    np.testing.assert_allclose(normal_quantile(normal_cdf(x)), x, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(normal_cdf(x), gaussian(x), rtol=1e-13)


def test_streams_and_steps_are_independent() -> None:
    draws = [
        philox.normal(np.array([seed, step], np.uint64), stream, N, np.dtype("float64"))
        for seed, step, stream in ((1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 0, 0))
    ]
    correlations = np.corrcoef(draws)
    assert np.abs(correlations - np.eye(4)).max() < 4.5 / math.sqrt(N)


# -- in graphs -----------------------------------------------------------------------------------


def test_runs_repeat_by_seed_and_step() -> None:
    with gw.Graph() as g:
        a, b = gw.random.normal((100,)), gw.random.normal((100,))
    with gw.Session(g, seed=3) as first, gw.Session(g, seed=3) as second:
        for _ in range(2):
            xs, ys = first.run([a, b]), second.run([a, b])
            assert np.array_equal(xs, ys)
            assert not np.any(xs[0] == xs[1])
        assert not np.any(first.run(a, step=0) == first.run(a, step=1))
        assert np.array_equal(first.run(a, step=1), ys[0])


def test_symbolic_shape() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 3))
    with g:
        noisy = x + gw.random.uniform(x.shape, 1.0, 2.0)
    found = g.output({"x": np.zeros((5, 3))}, noisy)["add"]
    assert found.shape == (5, 3)
    assert found.min() >= 1 and found.max() < 2


def test_uniform_never_reaches_high() -> None:
    """In float32, 1 + u·2⁻²² rounds to its upper end for a quarter of all u."""
    high = 1 + 2.0**-22
    with gw.Graph() as g:
        y = gw.random.uniform((1000,), 1.0, high, name="y")
    found = g.output({}, y)["y"]
    assert found.max() < np.float32(high)
    assert found.min() == 1


def test_gradients_do_not_draw_again() -> None:
    """d Σ x·noise / dx is the noise of the same run."""
    g = gw.Graph()
    x = g.placeholder("x", (50,))
    with g:
        noise = gw.random.normal((50,))
    (dx,) = gw.gradients((x * noise).sum(), [x])
    with gw.Session(g, seed=1) as session:
        for _ in range(2):
            drawn, found = session.run([noise, dx], {"x": np.ones(50)})
            assert np.array_equal(drawn, found)


def test_random_ops_need_a_graph() -> None:
    with pytest.raises(GraphError, match="normal has no graph to go to"):
        gw.random.normal((2,))


# -- dropout -------------------------------------------------------------------------------------


def test_dropout_scales_what_it_keeps() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (N,))
    y = gw.nn.dropout(x, p=0.2)
    (dx,) = gw.gradients(y, [x])
    feeds = {"x": np.full(N, 4.0)}
    with gw.Session(g, seed=1) as session:
        kept, slope = session.run([y, dx], feeds, training=True)
        other = session.run(y, feeds, training=True)
        rested, identity = session.run([y, dx], feeds)
    assert set(np.unique(kept)) == {0.0, 5.0}
    assert abs((kept == 0).mean() - 0.2) < 4 * math.sqrt(0.16 / N)
    assert np.array_equal(slope, kept / 4)
    assert 0 < (kept != other).mean() < 1
    assert np.all(rested == 4) and np.all(identity == 1)


def test_dropout_that_is_not_inverted() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (1000,))
    y = gw.nn.dropout(x, p=0.25, inverted=False)
    (dx,) = gw.gradients(y, [x])
    with gw.Session(g) as session:
        trained = session.run(y, {"x": np.ones(1000)}, training=True)
        rested, slope = session.run([y, dx], {"x": np.ones(1000)})
    assert set(np.unique(trained)) == {0.0, 1.0}
    assert np.all(rested == 0.75) and np.all(slope == 0.75)


@pytest.mark.parametrize(("p", "expected"), [(0.0, 1.0), (1.0, 0.0)])
def test_dropout_of_nothing_and_all(p: float, expected: float) -> None:
    g = gw.Graph()
    y = gw.nn.dropout(g.constant(np.ones(100, np.float32)), p)
    with gw.Session(g) as session:
        assert np.all(session.run(y, training=True) == expected)


def test_dropout_mode_can_be_fixed() -> None:
    g = gw.Graph()
    x = g.constant(np.ones(100, np.float32))
    always, never = gw.nn.dropout(x, training=True), gw.nn.dropout(x, training=False)
    with gw.Session(g) as session:
        assert session.run(always).min() == 0
        assert session.run(never, training=True).min() == 1


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_dropout_refuses(p: float) -> None:
    g = gw.Graph()
    with pytest.raises(GraphError, match="is no probability"):
        gw.nn.dropout(g.placeholder("x", (2,)), p)
