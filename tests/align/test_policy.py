"""Training on what a policy samples: what stays, is resumed and refused, and what it learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import DAPO, GRPO, PPO, Prompt, Rollout
from gradwright.errors import FeedError, GraphError, TrainingError
from gradwright.models import Decoder, DecoderConfig

WORDS, EOS = 8, 0
PROMPTS = [Prompt([i], f"<{i}>", {"answer": (i + 1) % WORDS}) for i in range(WORDS)]


def policy(seed: int = 0, **config: Any) -> Decoder:
    sizes = {"vocabulary": WORDS, "width": 16, "layers": 1, "heads": 2, "context": 16} | config
    return Decoder(DecoderConfig(**sizes), eos=EOS, seed=seed)


def right(completion_ids: Any, answer: Any) -> list[float]:
    """1 where the first token is the one after the prompt's."""
    return [float(row[0] == a) for row, a in zip(completion_ids, answer, strict=True)]


def short(completion_ids: Any) -> list[float]:
    return [-float(len(row)) for row in completion_ids]


SMALL: dict[str, Any] = {"num_generations": 4, "max_completion_length": 3}


def trained(method: Any, rewards: Any = right, rate: float = 0.02, **settings: Any) -> gw.Trainer:
    return gw.align.trainer(
        policy(), method, rewards=rewards, optimizer=gw.optim.Adam(rate), callbacks=(), **settings
    )


def fit(trainer: gw.Trainer, epochs: int = 1, **settings: Any) -> Any:
    how = {"batch_size": 16, "progress": False} | settings
    return trainer.fit(PROMPTS, epochs=epochs, **how)


def bits(trainer: gw.Trainer) -> dict[str, bytes]:
    state = {k: v for k, v in trainer.state_dict().items() if not k.endswith("seconds")}
    values = {t.name: trainer.values[t.name] for t in trainer.graph.variables}
    return {k: np.asarray(v).tobytes() for k, v in {**state, **values}.items()}


# -- what it learns --------------------------------------------------------------------------------


def greedy(trainer: gw.Trainer) -> float:
    """Return the share of prompts whose likeliest token is right."""
    drawn = gw.align.complete(trainer.objective.model, PROMPTS, max_new_tokens=1)
    return float(np.mean(right(drawn.completions, [p.columns["answer"] for p in PROMPTS])))


METHODS: dict[str, Any] = {
    "grpo": GRPO(num_generations=8, max_completion_length=1, num_iterations=2),
    "ppo": PPO(num_generations=8, response_length=1, num_ppo_epochs=2, temperature=1.0),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_reward_is_learnt(name: str) -> None:
    """That chance is not, the short form of learning shows (``tests/learning``)."""
    trainer = trained(METHODS[name], seed=1)
    before = greedy(trainer)
    fit(trainer, 8, batch_size=64)
    assert greedy(trainer) - before >= 0.5


# -- what stays ------------------------------------------------------------------------------------


def test_a_rollout_is_measured_once_and_steps_go_through_all_of_it() -> None:
    method = GRPO(**SMALL, num_iterations=2, steps_per_generation=2, beta=0.1)
    trainer = trained(method)
    objective, seen = trainer.objective, []
    objective.watchers.append(seen.append)
    fit(trainer, steps=4)
    made = objective.experience
    assert len(seen) == 1 and seen[0] is made and made.step == 0 and len(made.rollout) == 32
    for iteration in range(2):
        rows = np.concatenate([objective.rows_of(iteration, part) for part in range(2)])
        assert sorted(rows) == list(range(32))
    assert (objective.rows_of(0, 0) != objective.rows_of(1, 0)).any(), "shuffled each time"
    feeds = objective.minibatch(1, 1)
    old = next(a for t, a in feeds.items() if t.name.endswith("old_log_probs"))
    assert (old == made.log_probs[objective.rows_of(1, 1)]).all()
    ratios = objective.ratios()
    assert (ratios[~made.mask] == 1).all() and np.abs(np.log(ratios)).max() > 1e-3
    assert trainer.history.steps["clip_ratio/region_mean"][0] == 0
    fit(trainer, steps=1)
    assert len(seen) == 2 and objective.experience.step == 4


def test_the_first_ratio_must_be_one() -> None:
    method = GRPO(**SMALL)
    trainer = gw.align.trainer(policy(dropout=0.5), method, rewards=short)
    before = {t.name: trainer.values[t.name].copy() for t in trainer.graph.variables}
    with pytest.raises(TrainingError, match=r"ratio is not 1 .*\n.*\n.*dropout"):
        fit(trainer)
    assert trainer.steps_done == 0
    assert all((trainer.values[name] == value).all() for name, value in before.items())
    loose = GRPO(**SMALL, ratio_tolerance=None)
    fit(gw.align.trainer(policy(dropout=0.5), loose, rewards=short), steps=1)


def test_the_first_ratio_is_looked_at_again_where_weights_have_moved() -> None:
    """Generation is held against a few rows; these stand for the first ratio as long as they do."""
    trainer = gw.align.trainer(policy(), GRPO(**SMALL), rewards=short)
    session, asked = trainer.objective._session, []
    run = session.run
    session.run = lambda tensor, *args, **how: asked.append(tensor) or run(tensor, *args, **how)
    fit(trainer, steps=1)
    assert len(asked) == 1

    def move(_: object) -> None:
        for t in trainer.graph.variables:
            trainer.values[t.name] = trainer.values[t.name] * 1.5

    trainer.objective.watchers.append(move)
    with pytest.raises(TrainingError, match="weights that have moved"):
        fit(trainer, steps=4)


@pytest.mark.parametrize("told", [True, False])
def test_log_probs_are_measured_in_the_precision_of_steps(told: bool) -> None:
    """Then the first ratio is 1 to the bit, and the loss of a group −mean A = 0."""
    method = GRPO(**SMALL, loss_type="grpo")
    trainer = trained(method, short, precision="bfloat16")
    if not told:
        trainer.objective.in_its_precision = list
    fit(trainer, steps=1)
    mean = trainer.objective.experience.advantages.mean()
    assert (abs(trainer.history.steps["loss"][0] + mean) < 1e-6) == told


def test_accumulated_gradients_are_those_of_the_whole_rollout() -> None:
    """Of batches with unequal numbers of tokens, for losses that divide by those of all."""
    values = []
    for parts in (1, 2):
        trainer = gw.align.trainer(
            policy(),
            GRPO(**SMALL, steps_per_generation=parts),
            rewards=short,
            optimizer=gw.optim.SGD(1.0),
            clip_norm=None,
            accumulation=None if parts == 1 else parts,
        )
        fit(trainer, batch_size=32 // parts)
        values.append({t.name: trainer.values[t.name] for t in trainer.graph.trainable})
    for name, value in values[0].items():
        np.testing.assert_allclose(values[1][name], value, rtol=1e-4, atol=2e-6)
    assert max(np.abs(x - policy().graph.values[n]).max() for n, x in values[0].items()) > 0.01


def test_an_adapter_is_the_policy_and_its_base_the_reference() -> None:
    model = policy()
    gw.adapters.add(model, gw.adapters.LoRA(r=2), where=("q", "up"))
    weights = len(model.graph.variables)
    trainer = gw.align.trainer(
        model, GRPO(**SMALL, beta=0.1), rewards=right, optimizer=gw.optim.Adam(0.05)
    )
    assert len(model.graph.variables) == weights, "no second copy"
    fit(trainer, 3)
    kl = trainer.objective.history["rollout/kl"]
    assert kl[0] < 1e-12 and kl[-1] > 1e-9

    again = gw.align.trainer(model, GRPO(**SMALL, beta=0.1), rewards=right)
    fit(again)
    assert again.objective.history["rollout/kl"][0] < 1e-12, "the next one begins where it is now"
    gw.adapters.add(model, gw.adapters.LoRA(r=2), where="head", name="late")
    with pytest.raises(TrainingError, match="come to the head"):
        again.objective.batches(PROMPTS, None)


def test_a_reference_follows_the_policy_where_it_shall() -> None:
    follows = {"sync_ref_model": True, "ref_model_sync_steps": 3, "ref_model_mixup_alpha": 1.0}
    trainer = trained(GRPO(**SMALL, beta=0.1, **follows))
    fit(trainer, 2)
    kl = trainer.objective.history["rollout/kl"]
    assert kl[0] < 1e-12 and 1e-12 < kl[1] < kl[2] and kl[3] < 1e-9


# -- resuming --------------------------------------------------------------------------------------

RESUMED = {
    "dapo": DAPO(**SMALL, num_iterations=2, steps_per_generation=2, soft_punish_cache=1, beta=0.1),
    "ppo": PPO(num_generations=4, response_length=3, num_ppo_epochs=2, num_mini_batches=2),
}


@pytest.mark.parametrize("name", RESUMED)
def test_it_goes_on_to_the_bit_from_within_a_rollout(name: str, tmp_path: Path) -> None:
    method = RESUMED[name]
    how: dict[str, Any] = {"batch_size": 8, "validation": PROMPTS[:4]}
    first = trained(method, [right, short], deterministic=True)
    first.add_callback(gw.Checkpoints(tmp_path, every_steps=5))
    fit(first, 2, steps=5, **how)
    second = trained(method, [right, short], deterministic=True)
    gw.resume(second, tmp_path)
    assert bits(second) == bits(first)
    assert second.objective.experience.rollout.prompts == first.objective.experience.rollout.prompts
    for trainer in (first, second):
        fit(trainer, 2 - trainer.epochs_done, **how)
    assert bits(second) == bits(first)


def test_state_of_another_method_is_refused() -> None:
    trainer = trained(GRPO(**SMALL))
    fit(trainer, steps=1)
    state = trainer.state_dict()
    other = trained(GRPO(**SMALL, epsilon=0.1))
    before = bits(other)
    with pytest.raises(TrainingError, match=r"another method(.*\n)*.*epsilon: 0.2, not 0.1"):
        other.load_state_dict(state)
    assert bits(other) == before
    broken = {**state, "objective/rollout/log_probs": np.zeros((3, 2), "float32")}
    with pytest.raises(TrainingError, match="no state of a rollout: log_probs"):
        trained(GRPO(**SMALL)).load_state_dict(broken)


# -- bad input -------------------------------------------------------------------------------------


def test_settings_that_make_no_sense_are_refused() -> None:
    for settings, text in (
        ({"num_generations": 1}, "num_generations=1"),
        ({"loss_type": "cispo"}, "epsilon_high=None"),
        ({"temperature": 0.0}, "temperature=0.0"),
        ({"loss_type": "ppo"}, "loss_type='ppo'"),
        ({"use_vllm": True}, r"GRPO has no use_vllm\n.*completions are drawn by"),
        ({"sync_ref_model": True}, "sync_ref_model=True makes no sense"),
        ({"generation_batch_size": 4}, "batch_size·steps_per_generation"),
    ):
        with pytest.raises(GraphError, match=text):
            GRPO(**settings)
    with pytest.raises(TypeError, match="num_generation"):
        GRPO(num_generation=4)


def test_data_that_make_no_rollout_are_refused() -> None:
    trainer = trained(GRPO(**SMALL))
    for prompts, how, text in (
        (PROMPTS, {"batch_size": 6}, "6 rows is no number of groups of 4"),
        (PROMPTS[:2], {"batch_size": 16}, "2 prompts are too few for a rollout of 4"),
        ([Prompt([1] * 15)] * 4, {"batch_size": 16}, "exceed the context"),
        (PROMPTS, {"batch_size": 16, "unroll": 4}, "need.*unroll=1"),
    ):
        with pytest.raises((FeedError, TrainingError), match=text):
            trainer.fit(prompts, progress=False, **how)
    assert trainer.steps_done <= 1


def test_rewards_that_are_all_equal_or_missing_move_nothing() -> None:
    def same(completion_ids: Any) -> list[float]:
        return [0.5] * len(completion_ids)

    def silent(completion_ids: Any) -> list[None]:
        return [None] * len(completion_ids)

    for reward in (same, silent):
        trainer = trained(GRPO(**SMALL), reward)
        before = {t.name: trainer.values[t.name].copy() for t in trainer.graph.trainable}
        fit(trainer, steps=1)
        assert (trainer.objective.experience.advantages == 0).all()
        assert all((trainer.values[name] == value).all() for name, value in before.items())
        assert trainer.history.steps["frac_reward_zero_std"][0] == 1
    alone = trained(PPO(response_length=3, num_ppo_epochs=1))
    fit(alone, steps=1, batch_size=4)
    told = alone.history.steps["frac_reward_zero_std"][0]
    assert np.isnan(told), "a single completion is no group whose rewards are equal"


class Given:
    """A sampler that gives rows by the number of its call."""

    def __init__(self, *calls: Any) -> None:
        self.calls, self.asked = calls, []

    def sample(self, prompts: Any, group: int, seed: int) -> Rollout:
        rows = self.calls[len(self.asked)](prompts, group)
        self.asked.append([p.tokens[0] for p in prompts])
        ends = ["eos" if row and row[-1] == EOS else "length" for row in rows]
        return Rollout(prompts, group, rows, [""] * len(rows), ends, list(range(len(rows))))


def test_empty_completions_count_for_nothing() -> None:
    def rows(prompts: Any, group: int) -> Any:
        return [[]] * (len(prompts) * group)

    trainer = trained(GRPO(**SMALL), short, sampler=Given(rows))
    fit(trainer, steps=1)
    assert trainer.history.steps["completions/max_length"][0] == 0
    assert trainer.history.steps["grad_norm"][0] == 0


def test_a_reward_may_be_replaced_between_steps() -> None:
    trainer = trained(GRPO(**SMALL), [right])
    fit(trainer)
    trainer.objective.rewards = [short]
    fit(trainer)
    assert set(trainer.objective.experience.scores.names) == {"short"}
    steps = trainer.history.steps
    assert np.isnan(steps["rewards/right/mean"][-1]) and steps["reward"][-1] <= -1
    held = trainer.objective.history
    assert len(held["rewards/short/mean"]) == len(held["rewards/right/mean"]) == 4


def test_held_out_prompts_leave_no_trace() -> None:
    trainer = trained(GRPO(**SMALL))
    fit(trainer)
    before = bits(trainer)
    found = trainer.evaluate(PROMPTS)
    assert repr(found) == repr(trainer.evaluate(PROMPTS)) and 0 <= found["reward"] <= 1
    assert bits(trainer) == before
