"""Policies beside the papers' rules in float64, written plainly, and mistakes that must be seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import DAPO, GRPO, PPO, Prompt, Rollout, Scores
from gradwright.align.objectives.drawing import fed
from gradwright.align.objectives.policy import PolicyObjective
from gradwright.align.objectives.valuation import Valuation
from gradwright.errors import TrainingError
from gradwright.models import Decoder, DecoderConfig

EOS, GROUP, BETA, CLIP = 0, 3, 0.3, 0.2
PROMPTS = [Prompt([1, 2], "12"), Prompt([3], "3")]
ROWS = [[4, 5, EOS], [6, 6], [EOS], [5, EOS], [4, 4, 4, EOS], [6, 5, 4, 4]]
WORTH = [1.0, 0.0, 2.0, 0.5, 0.5, 3.0]


class Fixed:
    """A sampler that always draws the same."""

    def sample(self, prompts: Any, group: int, seed: int) -> Rollout:
        ends = ["eos" if row[-1] == EOS else "length" for row in ROWS]
        return Rollout(prompts, group, ROWS, [""] * len(ROWS), ends, list(range(len(ROWS))))


def worth(completion_ids: Any) -> list[float]:
    return [WORTH[ROWS.index(list(row))] for row in completion_ids]


def made() -> gw.Trainer:
    config = DecoderConfig(vocabulary=8, width=16, layers=1, heads=2)
    method = GRPO(
        num_generations=GROUP,
        max_completion_length=4,
        num_iterations=2,
        steps_per_generation=2,
        beta=BETA,
        epsilon=CLIP,
        use_bias_correction_kl=False,
        shuffle_dataset=False,
    )
    return gw.align.trainer(
        Decoder(config, eos=EOS, seed=1),
        method,
        rewards=worth,
        sampler=Fixed(),
        optimizer=gw.optim.SGD(0.5),
        clip_norm=None,
    )


def log_probs(model: Any) -> list[Any]:
    """Return log-probabilities of each row's own tokens, from whole logits of each row alone."""
    found = []
    for i, row in enumerate(ROWS):
        prompt = PROMPTS[i // GROUP].tokens
        ids = np.array([[*prompt, *row]])
        feeds = {"ids": ids}
        (x,) = model.graph.output(feeds, model.logits).values()
        x = np.float64(x[0])
        p = x - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True))
        p = p - x.max(-1, keepdims=True)
        found.append(np.array([p[len(prompt) - 1 + t, token] for t, token in enumerate(row)]))
    return found


def loss_of(now: Any, old: Any, ref: Any, rows: Any) -> float:
    """Return Σ over tokens of −min(ρA, clip(ρ)A) + β(e^d − d − 1), over the tokens of half."""
    total, groups = 0.0, np.array(WORTH).reshape(-1, GROUP)
    gain = (groups - groups.mean(1, keepdims=True)) / (groups.std(1, ddof=1, keepdims=True) + 1e-4)
    for i in rows:
        for t in range(len(ROWS[i])):
            ratio, d, a = np.exp(now[i][t] - old[i][t]), ref[i][t] - now[i][t], gain.flat[i]
            total -= min(ratio * a, np.clip(ratio, 1 - CLIP, 1 + CLIP) * a)
            total += BETA * (np.exp(d) - d - 1)
    return total / (sum(map(len, ROWS)) / 2)


def check() -> None:
    """Hold the losses of four steps on a rollout, and of one on the next, against the rule."""
    trainer = made()
    model, objective = trainer.objective.model, trainer.objective
    old = ref = log_probs(model)
    clipped = []
    for step in range(5):
        now = log_probs(model)
        old = now if step == 4 else old
        trainer.fit(PROMPTS, steps=1, batch_size=3, progress=False)
        rows = objective.rows_of(*divmod(step % 4, 2))
        found = trainer.history.steps["loss"][step]
        np.testing.assert_allclose(found, loss_of(now, old, ref, rows), rtol=2e-5, atol=1e-6)
        clipped.append(trainer.history.steps["clip_ratio/region_mean"][step])
    assert clipped[0] == 0 and max(clipped) > 0, "the case is one in which ratios matter"


def recomputed(patch: pytest.MonkeyPatch) -> None:
    right = PolicyObjective.minibatch

    def wrong(self: Any, *at: int) -> Any:
        now = np.log(self.ratios()) + self.experience.log_probs
        self.experience = replace(self.experience, log_probs=np.float32(now))
        return right(self, *at)

    patch.setattr(PolicyObjective, "minibatch", wrong)


def labelled(change: Callable[[Any, Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    def patched(patch: pytest.MonkeyPatch) -> None:
        right = Rollout.arrays

        def wrong(self: Any) -> Any:
            made = right(self)
            return {**made, "labels": change(made["ids"], made["labels"])}

        patch.setattr(Rollout, "arrays", wrong)

    return patched


def flipped(patch: pytest.MonkeyPatch) -> None:
    right = Valuation.of
    patch.setattr(
        Valuation, "of", lambda *args: {name: -array for name, array in right(*args).items()}
    )


def tiled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rollout, "prompt", lambda self, row: self.prompts[row % len(self.prompts)])


def of_policy(patch: pytest.MonkeyPatch) -> None:
    path = "gradwright.align.objectives.policy.reference_log_probs"
    said = gw.align.model_log_probs
    patch.setattr(path, lambda model, temperature, **_: said(model, temperature=temperature)[0])


def of_other_rows(patch: pytest.MonkeyPatch) -> None:
    right = PolicyObjective.feeds_of

    def wrong(self: Any, made: Any, *rest: Any) -> Any:
        return right(self, replace(made, log_probs=made.log_probs[::-1]), *rest)

    patch.setattr(PolicyObjective, "feeds_of", wrong)


MUTANTS = {
    "old log-probabilities are recomputed": recomputed,
    "prompts are in the loss": labelled(lambda ids, labels: ids),
    "the end of a row is left out": labelled(
        lambda ids, labels: np.where(labels == EOS, -100, labels)
    ),
    "advantages are flipped": flipped,
    "prompts are repeated in the wrong order": tiled,
    "the reference is the policy": of_policy,
    "log-probabilities are of other rows": of_other_rows,
}


def test_steps_are_those_of_the_rule() -> None:
    check()


BY_ITSELF = {
    "the reference is the policy": "the reference shares 12 weights",
    "log-probabilities are of other rows": "the ratio is not 1",
}
"""What a training itself refuses; the others give other losses."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    error: Any = TrainingError if name in BY_ITSELF else AssertionError
    with pytest.raises(error, match=BY_ITSELF.get(name, "Not equal")):
        check()


def test_what_prompts_feed_is_repeated_with_their_groups() -> None:
    model = Decoder(DecoderConfig(vocabulary=8, width=8, layers=1, heads=2))
    image = model.graph.placeholder("image", (None, 2))
    prompts = [Prompt([1], feeds={"image": [i, -i]}) for i in range(2)]
    rows = fed(model.graph, Rollout(prompts, 2, [[1]] * 4, [""] * 4, ["eos"] * 4, range(4)))
    assert rows[image].tolist() == [[0, 0], [0, 0], [1, -1], [1, -1]]


# -- PPO -------------------------------------------------------------------------------------------


def by_hand(method: PPO, given: dict[str, Any], scores: Any, ended: Any) -> dict[str, Any]:
    """Return rewards, advantages and returns, row by row and token by token (arXiv:1909.08593)."""
    mask = given["mask"]
    rows, width = mask.shape
    rewards, advantages = np.zeros((rows, width)), np.zeros((rows, width))
    seen = np.zeros((rows, width), bool)
    for b in range(rows):
        score = scores[b] - (0 if ended[b] else method.missing_eos_penalty or 0)
        d = given["ref_log_probs"][b] - given["log_probs"][b]
        kl = -d if method.kl_estimator == "k1" else np.exp(d) - d - 1
        rewards[b][mask[b]] = -method.kl_coef * kl[mask[b]]
        end = min(np.flatnonzero(mask[b])[-1] + 1, width - 1)
        rewards[b, end] += score
        seen[b] = mask[b]
        seen[b, end] = True
    if method.whiten_rewards:
        x = rewards[seen]
        rewards[seen] = (x - x.mean()) / np.sqrt(x.var(ddof=1) + 1e-8) + x.mean()
    values = np.where(seen, given["values"], 0)
    for b in range(rows):
        later = 0.0
        for t in reversed(range(width)):
            ahead = values[b, t + 1] if t + 1 < width else 0.0
            delta = rewards[b, t] + method.gamma * ahead - values[b, t]
            advantages[b, t] = later = delta + method.gamma * method.lam * later
    x = advantages[mask]
    white = np.where(mask, (advantages - x.mean()) / np.sqrt(x.var(ddof=1) + 1e-8), 0)
    return {"token_rewards": rewards, "returns": advantages + values, "advantages": white}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"kl_estimator": "k3", "missing_eos_penalty": 1.5, "gamma": 0.9},
        {"whiten_rewards": True, "lam": 0.5, "kl_coef": 0.3},
    ],
    ids=["plain", "k3-penalty", "whitened"],
)
def test_rewards_and_advantages_of_ppo(settings: dict[str, Any]) -> None:
    method, rng, width = PPO(**settings), np.random.default_rng(2), 7
    mask = np.zeros((4, width), bool)
    for row, (start, stop) in zip(mask, ((1, 4), (0, 7), (2, 3), (3, 7)), strict=True):
        row[start:stop] = True
    given: dict[str, Any] = {
        name: np.where(mask, -rng.gamma(1.5, 0.8, mask.shape), 0)
        for name in ("log_probs", "ref_log_probs")
    }
    seen = mask | np.pad(mask, ((0, 0), (1, 0)))[:, :-1]
    given |= {"mask": mask, "values": np.where(seen, rng.normal(size=mask.shape), 0)}
    total, ended = rng.normal(size=4), np.array([True, False, True, False])
    found = Valuation(method, 1).of(
        Scores(("r",), total[:, None], total), {**given, "ended": ended}
    )
    for name, like in by_hand(method, given, total, ended).items():
        np.testing.assert_allclose(
            found[name][seen], np.where(seen, like, 0)[seen], rtol=1e-5, atol=1e-6, err_msg=name
        )
    assert (found["advantages"][~mask] == 0).all()


@pytest.mark.parametrize("critic", ["head", "copy"])
def test_the_critic_learns_what_completions_are_worth(critic: str) -> None:
    """With a policy that stays, values go to the mean reward; the copy is apart from it."""
    config = DecoderConfig(vocabulary=8, width=16, layers=1, heads=2)
    model = Decoder(config, eos=EOS, seed=1)
    method = PPO(
        num_generations=GROUP, response_length=4, num_ppo_epochs=1, critic=critic, kl_coef=0.0,
        vf_coef=1.0, lam=1.0, cliprange_value=9.0, temperature=1.0,
    )  # fmt: skip
    trainer = gw.align.trainer(
        model,
        method,
        rewards=worth,
        sampler=Fixed(),
        optimizer=gw.optim.Adam(0.0),
        groups=[gw.Group("critic/*", optimizer=gw.optim.Adam(0.1))],
        clip_norm=None,
    )
    names = {t.name for t in trainer.graph.trainable}
    assert ("critic/embed" in names) == (critic == "copy") and "critic/value_weight" in names
    before = {n: model.graph.values[n].copy() for n in names if not n.startswith("critic/")}
    history = trainer.fit(PROMPTS, epochs=12, batch_size=6, progress=False)
    losses = history.steps["loss/value_avg"]
    assert losses[-1] < 0.6 * losses[0]
    assert all((model.graph.values[n] == value).all() for n, value in before.items())


# -- DAPO ------------------------------------------------------------------------------------------


class Hard:
    """A sampler of prompts of which some are answered alike in all their completions."""

    def __init__(self, alike: set[int]) -> None:
        self.alike, self.asked = alike, []

    def sample(self, prompts: Any, group: int, seed: int) -> Rollout:
        self.asked.append([p.tokens[0] for p in prompts])
        rows = [[1 + (j * (p.tokens[0] not in self.alike)), EOS] for p in prompts for j in range(2)]
        return Rollout(prompts, group, rows, [""] * len(rows), ["eos"] * len(rows), [0] * len(rows))


def first_token(completion_ids: Any) -> list[float]:
    return [float(row[0]) for row in completion_ids]


@pytest.mark.parametrize(("alike", "refills"), [(set(), 0), ({1, 2, 3}, 2), ({*range(1, 8)}, 3)])
def test_groups_of_equal_rewards_are_replaced_until_the_rollout_is_full(
    alike: set[int], refills: int
) -> None:
    """Sample on until there are n groups with 0 < deviation (arXiv:2503.14476, §3.2)."""
    sampler, prompts = Hard(alike), [Prompt([i]) for i in range(8)]
    model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2), eos=EOS)
    method = DAPO(num_generations=2, max_completion_length=2, max_refills=3, shuffle_dataset=False)
    trainer = gw.align.trainer(model, method, rewards=first_token, sampler=sampler)
    trainer.fit(prompts, steps=1, batch_size=8, progress=False)
    kept: list[int] = []
    left: list[int] = []
    for calls, asked in enumerate(sampler.asked):
        assert len(kept) < 4 and calls <= 3, "no more than it takes"
        kept += [i for i in asked if i not in alike]
        left += [i for i in asked if i in alike]
    assert len(kept) >= 4 or calls == 3, "and no less"
    rollout = trainer.objective.experience.rollout
    assert [p.tokens[0] for p in rollout.prompts] == (kept + left)[:4]
    seen = {name: column[-1] for name, column in trainer.objective.history.items()}
    assert seen["rollout/refills"] == calls <= refills
    assert seen["rollout/left_out"] == len(left) / len([*kept, *left]) * bool(calls)
    assert seen["frac_reward_zero_std"] == max(0, 4 - len(kept)) / 4
