"""Losses beside plain sums in float64, their slopes beside differences, and their mistakes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import gradwright as gw

B, T = 4, 5
MASK = np.array([[0, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 1, 0, 0], [1, 1, 0, 0, 0.0]])


def number(g: Any, x: Any) -> Any:
    (found,) = g.output({}, x).values()
    return found


def drawn(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(-1, 0.6, shape)


def test_log_probs_are_shifted_and_masked() -> None:
    """Place t is about token t + 1; prompts and padding say nothing; the end token counts."""
    rng = np.random.default_rng(0)
    h, w, ids = rng.normal(size=(B, T, 3)), rng.normal(size=(6, 3)), rng.integers(0, 6, (B, T))
    g = gw.Graph()
    said = gw.align.token_log_probs(*map(g.constant, (h, w, ids, MASK)), temperature=0.8)
    x = h @ w.T / 0.8
    p = np.exp(x - x.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    expected = np.zeros((4, B, T - 1))
    for b in range(B):
        for t in range(1, T):
            if MASK[b, t]:
                q = p[b, t - 1]
                of = np.log(q[ids[b, t]]), -(q * np.log(q)).sum(), np.log((q * q).sum())
                expected[:, b, t - 1] = *of, x[b, t - 1].mean()
    for found, like in zip(said[:4], expected, strict=True):
        np.testing.assert_allclose(number(g, found), like, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(number(g, said.mask), MASK[:, 1:])


def test_head_is_computed_in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and slopes do not depend on how many rows of logits are held at once."""
    rng = np.random.default_rng(1)
    arrays = rng.normal(size=(7, 3)), rng.normal(size=(5, 3)), rng.integers(0, 5, 7)
    found = []
    for held in (1 << 22, 10):
        monkeypatch.setattr("gradwright.ops.losses.head.LOGITS", held)
        g = gw.Graph()
        h, w = g.placeholder("h", (7, 3), "float64"), g.placeholder("w", (5, 3), "float64")
        lp, entropy, *_ = gw.nn.head_log_probs(h, w, g.constant(arrays[2]))
        slopes = gw.gradients((lp * lp + entropy).sum(), [h, w])
        found.append(list(g.output({h: arrays[0], w: arrays[1]}, lp, *slopes).values()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_whole_logits_are_never_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 512 tokens out of 4,000 logits are 8 MB in float32; here they come 64 rows at a time."""
    monkeypatch.setattr("gradwright.ops.losses.head.LOGITS", 64 * 4000)
    rng = np.random.default_rng(2)
    h, w = rng.normal(size=(1, 512, 8)).astype("f4"), rng.normal(size=(4000, 8)).astype("f4")
    g = gw.Graph()
    x, head = g.placeholder("h", h.shape), g.placeholder("w", w.shape)
    said = gw.align.token_log_probs(x, head, g.constant(rng.integers(0, 4000, (1, 512))))
    slopes = gw.gradients(said.log_probs.sum(), [x, head])
    g.output({x: h, head: w}, *slopes)  # compiled
    tracemalloc.start()
    g.output({x: h, head: w}, *slopes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 512 * 4000 * 4 * 0.7


def losses(x: Any, other: Any, mask: Any, gain: Any) -> dict[str, Any]:
    a = gw.align
    return {
        "sft": a.sft(x, mask),
        "dpo": a.dpo(x, other, mask, loss_type=["sigmoid", "ipo", "sft", "discopop"]),
        "kto": a.kto(x, other, mask, gain > 0, gain),
        "cpo": a.cpo(x, mask),
        "simpo": a.simpo(x, mask),
        "orpo": a.orpo(x, mask),
        "rloo": a.rloo(x, other, mask, gain),
        "grpo": a.grpo(x, mask, gain, other, other, beta=0.1),
        "sapo": a.grpo(x, mask, gain, other, loss_type="sapo"),
        "reward": a.reward(x.sum(-1), center_rewards_coefficient=0.1),
        "ppo": a.ppo(x, other, mask, other, x * 0.5, other, other * 2),
    }


NAMES = (
    "sft", "dpo", "kto", "cpo", "simpo", "orpo", "rloo", "grpo", "sapo", "reward", "ppo",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_slopes(name: str) -> None:
    g = gw.Graph()
    x = g.variable("x", init=drawn(2, B, T))
    rest = map(g.constant, (drawn(3, B, T), MASK, drawn(4, B) + 1))
    report = gw.gradient_check(g, losses(x, *rest)[name].value)
    assert report.passed, report


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("reward", "ppo")])
def test_what_the_mask_leaves_out_counts_for_nothing(name: str) -> None:
    found = []
    for outside in (0.0, np.nan, 1e9):
        g = gw.Graph()
        x = g.variable("x", init=np.where(MASK, drawn(2, B, T), outside))
        other = g.constant(np.where(MASK, drawn(3, B, T), 0))
        loss = losses(x, other, g.constant(MASK), g.constant(drawn(4, B) + 1))[name]
        (dx,) = gw.gradients(loss.value, [x])
        found.append(list(g.output({}, loss.value, dx).values()))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0][0], other[0])
        np.testing.assert_array_equal(found[0][1], other[1])


def test_gae_by_its_recurrence() -> None:
    r, v = drawn(5, B, T), drawn(6, B, T)
    expected, last = np.zeros((B, T)), np.zeros(B)
    for t in reversed(range(T)):
        later = v[:, t + 1] if t + 1 < T else 0
        last = r[:, t] + 0.9 * later - v[:, t] + 0.9 * 0.8 * last
        expected[:, t] = last
    g = gw.Graph()
    found = gw.align.gae(g.constant(r), g.constant(v), gamma=0.9, lam=0.8)
    np.testing.assert_allclose(number(g, found), expected, rtol=1e-12)


def test_whitening() -> None:
    x = drawn(7, B, T)
    seen = x[MASK > 0]
    g = gw.Graph()
    for shift in (True, False):
        found = number(g, gw.align.whiten(g.constant(x), g.constant(MASK), shift_mean=shift))
        y = (seen - seen.mean()) / np.sqrt(seen.var(ddof=1) + 1e-8)
        np.testing.assert_allclose(found[MASK > 0], y + (0 if shift else seen.mean()), rtol=1e-9)
        assert not found[MASK == 0].any()


def test_ppo_by_its_rule() -> None:
    x, old, gain, v, v0, goal = (drawn(i, B, T) for i in range(8, 14))
    near = v0 + np.clip(v - v0, -0.2, 0.2)
    ratio = np.exp(x - old)
    each = np.maximum(-gain * ratio, -gain * np.clip(ratio, 0.8, 1.2))
    far = np.maximum((v - goal) ** 2, (near - goal) ** 2)
    expected = (each * MASK).sum() / MASK.sum() + 0.05 * (far * MASK).sum() / MASK.sum()
    g = gw.Graph()
    loss = gw.align.ppo(*map(g.constant, (x, old, MASK, gain, v, v0, goal)))
    np.testing.assert_allclose(number(g, loss.value), expected, rtol=1e-12)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_advantages_of_groups(scale: str) -> None:
    r = np.array([1.0, 2, 2, 5, 3, 3, 3, 3])
    groups = r.reshape(2, 4)
    by = {"group": groups.std(-1, ddof=1, keepdims=True), "batch": r.std(ddof=1), "none": 1 - 1e-4}
    expected = (groups - groups.mean(-1, keepdims=True)) / (by[scale] + 1e-4)
    g = gw.Graph()
    found = number(g, gw.align.group_advantages(g.constant(r), 4, scale_rewards=scale))
    np.testing.assert_allclose(found, expected.ravel(), rtol=1e-12, atol=1e-15)
    assert not found[4:].any()  # all alike: nothing to learn
    out = number(g, gw.align.leave_one_out(g.constant(r), 4))
    np.testing.assert_allclose(out[:4], (groups[0] - groups[0].mean()) * 4 / 3, rtol=1e-12)


def test_the_reference_gets_no_gradient() -> None:
    """Where the policy is its own reference, the slope is that of the policy alone."""
    g = gw.Graph()
    x, mask = g.variable("x", init=drawn(2, B, T)), g.constant(MASK)
    (dx,) = gw.gradients(gw.align.dpo(x, x, mask).value, [x])
    expected = MASK * 0.1 / 2 / (B / 2) * np.array([-1, -1, 1, 1])[:, None]
    np.testing.assert_allclose(number(g, dx), expected, rtol=1e-12)


def test_what_is_refused() -> None:
    g = gw.Graph()
    x, mask, gain = map(g.constant, (drawn(2, B, T), MASK, drawn(4, B)))
    a = gw.align
    with pytest.raises(gw.errors.GraphError, match="loss_type='dpo' is not known"):
        a.dpo(x, x, mask, loss_type="dpo")
    with pytest.raises(gw.errors.GraphError, match="no share of wrong labels for robust"):
        a.dpo(x, x, mask, loss_type="robust", label_smoothing=0.5)
    with pytest.raises(gw.errors.GraphError, match="2 losses with 1 weights"):
        a.dpo(x, x, mask, loss_type=["sigmoid", "sft"], loss_weights=[1.0])
    with pytest.raises(gw.errors.ShapeError, match=r"mask .* does not fit logps"):
        a.sft(x, gain)
    with pytest.raises(gw.errors.GraphError, match="beta needs ref_logps"):
        a.grpo(x, mask, gain, beta=0.1)
    with pytest.raises(gw.errors.GraphError, match="needs max_completion_length"):
        a.grpo(x, mask, gain, loss_type="dr_grpo")
    with pytest.raises(gw.errors.GraphError, match="a group of 1"):
        a.group_advantages(gain, 1)
    with pytest.raises(gw.errors.GraphError, match="kto needs kl"):
        a.kto(x, x, mask, gain > 0)
