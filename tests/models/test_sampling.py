"""Tokens are drawn as often as they are likely, from exactly what the filters leave."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError

Array = np.ndarray[Any, Any]
LOGITS = np.array([2.0, 1.0, 0.0, -1.0, 0.5, -3.0, 1.5])
P = np.exp(LOGITS) / np.exp(LOGITS).sum()
N = 40_000


def drawn(sample: Callable[[Any], Any], logits: Array = LOGITS, *, seed: int = 0) -> Array:
    """Return N draws of one run."""
    g = gw.Graph()
    y = sample(g.constant(np.tile(logits, (N, 1))))
    with gw.Session(g, seed=seed) as session:
        found: Array = session.run(y)
    assert found.dtype == np.int64 and found.shape[:1] == (N,)
    return found


def hold(tokens: Array, p: Array) -> None:
    """Compare frequencies with probabilities: Pearson's χ² stays below its 99.99 % quantile."""
    counts = np.bincount(tokens, minlength=p.size)
    assert not counts[p == 0].any()
    live = p > 0
    chi2 = (np.square(counts[live] - N * p[live]) / (N * p[live])).sum()
    assert chi2 < {1: 1e-9, 2: 15.2, 3: 18.5, 4: 21.2, 7: 27.9}[int(live.sum())]


def kept(seen: Array, temperature: float = 1.0) -> Array:
    """Return the probabilities of some tokens among themselves."""
    p = np.where(seen, np.exp(LOGITS / temperature), 0.0)
    return np.asarray(p / p.sum())


def nucleus(torch: ModuleType, mass: float) -> Array:
    """Return what is left of the logits by Hugging Face's rule: cut the tail, rarest first."""
    logits, order = torch.tensor(LOGITS).sort()
    cut = logits.softmax(-1).cumsum(-1) <= 1 - mass
    cut[-1] = False
    found: Array = (~cut.scatter(0, order, cut)).numpy()
    return found


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_tokens_are_drawn_as_often_as_they_are_likely(temperature: float) -> None:
    tokens = drawn(lambda x: gw.nn.token_sample(x, temperature=temperature))
    hold(tokens, kept(np.ones(7, bool), temperature))


@pytest.mark.parametrize("k", [1, 3, 7, 50])
def test_top_k(k: int) -> None:
    seen = np.argsort(np.argsort(-LOGITS)) < k
    hold(drawn(lambda x: gw.nn.top_k_sample(x, k, temperature=0.8)), kept(seen, 0.8))
    hold(drawn(lambda x: gw.nn.token_sample(x, top_k=k)), kept(seen))


@pytest.mark.parametrize("p", [0.0, 0.5, 0.7, 0.9, 1.0])
def test_top_p_is_the_rule_of_others(torch: ModuleType, p: float) -> None:
    seen = nucleus(torch, p)
    hold(drawn(lambda x: gw.nn.top_p_sample(x, p)), kept(seen))
    hold(drawn(lambda x: gw.nn.token_sample(x, top_p=p)), kept(seen))


def test_filters_follow_each_other() -> None:
    """Of the 4 likeliest, the mass 0.8 among them; and no less likely than a third of the first."""
    first = np.where(LOGITS >= 0.5, P, 0.0)
    first /= first.sum()
    order = np.argsort(-first)
    before = np.cumsum(first[order]) - first[order]
    seen = np.zeros(7, bool)
    seen[order[before < 0.8]] = True
    hold(drawn(lambda x: gw.nn.token_sample(x, top_k=4, top_p=0.8)), kept(seen))
    near = P.max() / 3 <= P
    hold(drawn(lambda x: gw.nn.token_sample(x, min_p=1 / 3)), kept(near))


def test_equal_logits_at_the_border_all_count() -> None:
    tokens = drawn(lambda x: gw.nn.top_k_sample(x, 1), np.array([1.0, 3.0, 3.0]))
    assert set(tokens.tolist()) == {1, 2}


def test_temperature_zero_and_certain_tokens() -> None:
    for logits in (LOGITS, np.array([-np.inf, 5.0, -np.inf]), np.array([7.0])):
        for temperature in (0.0, 1e-6):
            tokens = drawn(lambda x, t=temperature: gw.nn.token_sample(x, temperature=t), logits)
            assert (tokens == np.argmax(logits)).all()


def test_draws_differ_by_step_seed_and_op_and_repeat_by_them() -> None:
    g = gw.Graph()
    x = g.constant(np.zeros((200, 9)))
    a, b = gw.nn.token_sample(x), gw.nn.token_sample(x)
    with gw.Session(g, seed=4) as session:
        first, other = session.run([a, b])
        later, again = session.run(a), session.run(a, step=0)
    with gw.Session(g, seed=5) as session:
        seeded = session.run(a)
    assert (first == again).all()
    for tokens in (other, later, seeded):
        assert 0.03 < (tokens == first).mean() < 0.25  # one in nine by chance


def test_xtc_strikes_all_likely_tokens_but_one() -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((3000, 6)) * 2
    g = gw.Graph()
    x = g.constant(logits)
    always, sometimes = (gw.nn.xtc_filter(x, 0.15, probability=p) for p in (1.0, 0.3))
    never = gw.nn.xtc_filter(x, 0.15, probability=0.0)
    with gw.Session(g, seed=1) as session:
        found, some, none = session.run([always, sometimes, never])
    wanted = logits.copy()
    for row, p in zip(wanted, np.exp(logits) / np.exp(logits).sum(1, keepdims=True), strict=True):
        likely = sorted((q, i) for i, q in enumerate(p) if q >= 0.15)
        row[[i for _, i in likely[1:]]] = -np.inf
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(none, logits)
    changes = (wanted != logits).any(1)
    struck = (some == wanted).all(1)[changes]
    assert ((some == logits).all(1) | (some == wanted).all(1)).all()
    assert abs(struck.mean() - 0.3) < 5 * np.sqrt(0.21 / struck.size)


def test_gradients_flow_through_what_is_kept() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (3,), "float64")
    for y in (gw.nn.xtc_filter(x, 0.2, 1.0), gw.nn.typical_p_filter(x, p=0.5)):
        (dx,) = gw.gradients(gw.nn.softmax(y)[1], [x])
        with gw.Session(g) as session:
            found, slope = session.run([y, dx], {x: [1.0, 0.9, -4.0]})
        assert (slope[np.isneginf(found)] == 0).all() and np.isfinite(slope).all()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [[np.nan, 1.0], [-np.inf, -np.inf], [np.inf, 1.0]])
def test_rows_without_a_token_to_draw_are_told(bad: list[float], temperature: float) -> None:
    g = gw.Graph()
    y = gw.nn.token_sample(g.constant([[0.0, 1.0], bad]), temperature=temperature, name="next")
    with gw.Session(g) as session, pytest.raises(GraphError, match="no token to draw") as told:
        session.run(y)
    assert "next" in str(told.value)


def test_the_least_temperature_takes_the_largest() -> None:
    g = gw.Graph()
    y = gw.nn.token_sample(g.constant([[1.0, 5.0, 3.0]]), temperature=1e-320)
    assert gw.Session(g).run(y).tolist() == [1]


def test_settings_that_leave_nothing_are_refused() -> None:
    g = gw.Graph()
    x = g.constant(LOGITS)
    for bad in (
        lambda: gw.nn.top_k_sample(x, 0),
        lambda: gw.nn.top_p_sample(x, 1.2),
        lambda: gw.nn.token_sample(x, temperature=-1.0),
        lambda: gw.nn.xtc_filter(x, probability=2.0),
    ):
        with pytest.raises(GraphError):
            bad()
