"""PPO beside the last trainer of it that TRL had, 1.12, whose outputs are stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import PPO, Scores
from gradwright.align.objectives.critic import value_mask
from gradwright.align.objectives.valuation import Valuation
from tests.align.stored.given import FILE, SETTINGS

Array = np.ndarray[Any, Any]


@pytest.fixture(params=SETTINGS)
def theirs(request: pytest.FixtureRequest) -> tuple[PPO, dict[str, Array]]:
    """The method and what they computed with its settings."""
    name = request.param
    with np.load(FILE) as kept:
        found = {k.removeprefix(f"{name}/"): kept[k] for k in kept if k.startswith(f"{name}/")}
    return PPO(**SETTINGS[name]), found


def given(found: dict[str, Array]) -> dict[str, Array]:
    """Return a rollout of theirs in our names; places without a token hold 0 here, 1 there."""
    mask = found["mask"]
    logs = {n: np.where(mask, found[t], 0) for n, t in
            (("log_probs", "logprobs"), ("ref_log_probs", "ref_logprobs"))}  # fmt: skip
    return {**logs, "mask": mask, "values": found["values"], "ended": found["ended"]}


def test_rewards_advantages_and_returns(theirs: tuple[PPO, dict[str, Array]]) -> None:
    method, found = theirs
    assert 0 < found["ended"].mean() < 1  # the case is not trivial
    scores = found["scores"]
    ours = Valuation(method, 1).of(Scores(("r",), scores[:, None], scores), given(found))
    seen = found["mask"] | np.pad(found["mask"], ((0, 0), (1, 0)))[:, :-1]
    for name, like in (("token_rewards", "rewards"), ("returns", "returns")):
        np.testing.assert_allclose(ours[name][seen], found[like][seen], rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(ours["advantages"], found["advantages"], rtol=1e-5, atol=2e-6)


def test_losses_gradients_and_metrics_of_all_batches(theirs: tuple[PPO, dict[str, Array]]) -> None:
    method, found = theirs
    steps = []
    for i in range(4):
        batch = {k.removeprefix(f"{i}/"): v for k, v in found.items() if k.startswith(f"{i}/")}
        steps.append(_step(method, found, batch))
    for name in ("policy/approxkl_avg", "policy/clipfrac_avg", "loss/policy_avg",
                 "loss/value_avg", "val/clipfrac_avg", "val/ratio"):  # fmt: skip
        ours = np.mean([told[name] for told in steps])
        np.testing.assert_allclose(ours, found[f"metrics/{name}"], rtol=1e-5, err_msg=name)


def _step(method: PPO, found: dict[str, Array], batch: dict[str, Array]) -> dict[str, float]:
    """Hold the loss of a batch and its gradients against theirs, and return our metrics."""
    rows, g = batch["micro_batch_inds"], gw.Graph()
    mask = found["mask"][rows]
    logps, values = (
        g.variable(name, init=batch[theirs])
        for name, theirs in (("logps", "new_logprobs"), ("values", "vpred"))
    )
    counts = g.constant(mask.astype(np.float32))
    loss = gw.align.ppo(
        logps,
        g.constant(found["logprobs"][rows]),
        counts,
        g.constant(found["advantages"][rows]),
        values,
        g.constant(found["values"][rows]),
        g.constant(found["returns"][rows]),
        value_mask(counts),
        cliprange=method.cliprange,
        cliprange_value=method.cliprange_value,
        vf_coef=method.vf_coef,
    )
    grads = gw.gradients(loss.value, [logps, values])
    told = g.output({}, loss.value, *grads, *loss.metrics.values())
    found_here = list(told.values())
    np.testing.assert_allclose(found_here[0], batch["loss"], rtol=1e-5, atol=1e-7)
    for ours, name in zip(found_here[1:3], ("new_logprobs", "vpred"), strict=True):
        np.testing.assert_allclose(ours, batch[f"{name}_grad"], rtol=1e-5, atol=1e-7)
    return dict(zip(loss.metrics, map(float, found_here[3:]), strict=True))
