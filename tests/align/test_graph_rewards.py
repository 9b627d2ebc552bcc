"""Rewards that are graphs: equal to numpy, blind to padding, current, and with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import (
    GraphReward,
    ModelReward,
    Prompt,
    Rollout,
    judge,
    model_log_probs,
    reward_head,
)
from gradwright.errors import FeedError, GraphError
from gradwright.models import Decoder, DecoderConfig

SETTINGS = DecoderConfig(vocabulary=11, width=8, layers=1, heads=2)


def drawn(seed: int = 0, rows: int = 6) -> Rollout:
    rng = np.random.default_rng(seed)
    prompts, completions = (
        [rng.integers(1, 11, n).tolist() for n in rng.integers(1, 9, rows)] for _ in range(2)
    )
    completions[2] = []
    given = [Prompt(tokens, "", {"weight": 0.5 + i}) for i, tokens in enumerate(prompts)]
    return Rollout(given, 1, completions, [""] * rows, ["eos"] * rows, list(range(rows)))


@pytest.fixture(scope="module")
def model() -> Decoder:
    return Decoder(SETTINGS)


def said(model: Decoder, rollout: Rollout) -> list[float]:
    """Return mean log-probabilities of completions, each row alone, in float64."""
    found = []
    for row in range(len(rollout)):
        prompt, completion = list(rollout.prompt(row).tokens), list(rollout.completions[row])
        ids = np.array([prompt + completion])
        logits = model.graph.output({model.ids: ids}, model.head.logits)
        (x,) = (np.float64(v[0]) for v in logits.values())
        logps = x - np.log(np.exp(x).sum(-1, keepdims=True))
        each = [logps[t - 1, ids[0, t]] for t in range(len(prompt), ids.shape[1])]
        found.append(sum(each) / max(1, len(each)))
    return found


def fluent(model: Decoder) -> GraphReward:
    """A reward in a model's own graph: how likely it finds completions, times a column."""
    logps = model_log_probs(model)
    counts = gw.cast(logps.mask, "float32")
    weight = model.graph.placeholder("weight", ("B",))
    mean = (logps.log_probs * counts).sum(-1) / gw.maximum(counts.sum(-1), 1.0)
    return GraphReward(mean * weight, ids=model.ids.name, labels=model.labels.name, rows_at_once=4)


def test_a_reward_is_a_graph_over_the_models_own(model: Decoder) -> None:
    reward, rollout = fluent(model), drawn()
    weights = np.arange(6) + 0.5
    scores = judge({"fluent": reward}, rollout)
    np.testing.assert_allclose(scores.total, said(model, rollout) * weights, rtol=2e-5)
    assert judge(reward, rollout).total.tobytes() == scores.total.tobytes()

    head = next(t for t in model.graph.variables if t.name.endswith("embed"))
    model.graph.values[head.name] = np.random.default_rng(3).normal(0, 0.5, (11, 8))
    moved = judge(reward, rollout).total
    np.testing.assert_allclose(moved, said(model, rollout) * weights, rtol=2e-5)
    assert np.abs(moved - scores.total).max() > 0.1


def test_a_differentiable_reward_has_a_gradient() -> None:
    """A soft length: tokens count as far as a gate of learned scores opens."""
    g = gw.Graph()
    ids, labels = (g.placeholder(name, ("B", "T"), "int64") for name in ("ids", "labels"))
    table = g.variable("table", (11,), init=np.linspace(-1, 1, 11))
    opened = gw.nn.sigmoid(gw.gather(table, ids)) * gw.cast(labels != -100, "float32")
    reward = GraphReward(1.0 - (opened.sum(-1) - 2.0) ** 2 / 4.0, name="soft")
    rollout = drawn(1)
    values = np.linspace(-1, 1, 11)
    soft = [sum(1 / (1 + np.exp(-values[t])) for t in row) for row in rollout.completions]
    np.testing.assert_allclose(
        judge(reward, rollout).total, [1 - (s - 2) ** 2 / 4 for s in soft], rtol=1e-5
    )
    report = gw.gradient_check(g, reward.tensor.sum(), rollout.arrays())
    assert report.passed, str(report)


class Bytes:
    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Any) -> str:
        return bytes(ids).decode()


def test_a_reward_model_reads_the_last_token_by_its_own_tokenizer() -> None:
    """The score is the id of the last token with a label: that of the end, if it came to one."""
    g = gw.Graph()
    ids, labels = (g.placeholder(name, ("B", "T"), "int64") for name in ("ids", "labels"))
    counts = gw.cast(labels != -100, "int64")
    places = gw.cumsum(ids * 0 + 1, axis=-1)
    is_last = places == (places * counts).max(-1, keepdims=True)
    score = gw.cast(gw.where(is_last, ids, 0), "float32").sum(-1)
    texts, reasons = ["a", "bc", "", ""], ["eos", "length", "length", "eos"]
    prompts = [Prompt([5], "x"), Prompt([6], "yz")]
    rollout = Rollout(prompts, 2, [[7], [8, 9], [], [3]], texts, reasons, [0] * 4)
    theirs = ModelReward(score, tokenizer=Bytes(), eos=1)
    assert judge(theirs, rollout).total.tolist() == [1, ord("c"), ord("z"), 1]
    assert judge(ModelReward(score), rollout).total.tolist() == [7, 9, 6, 3]


def test_a_reward_head_is_asked_in_batches() -> None:
    """Each row's score is that of its last state alone, whatever stands beside it."""
    model, rollout = Decoder(SETTINGS), drawn(4)
    score = reward_head(model)
    reward = ModelReward(score, ids=model.ids.name, labels=model.labels.name, rows_at_once=4)
    weight = np.float64(model.graph.values["score/weight"])
    alone = []
    for row in range(len(rollout)):
        ids = np.array([[*rollout.prompt(row).tokens, *rollout.completions[row]]])
        (states,) = model.graph.output({model.ids: ids}, model.head.states).values()
        alone.append(np.float64(states[0, -1]) @ weight)
    np.testing.assert_allclose(judge(reward, rollout).total, alone, rtol=2e-5, atol=1e-6)


def test_what_is_no_reward_is_refused() -> None:
    g = gw.Graph()
    ids, w = g.placeholder("ids", ("B", 4), "int64"), g.variable("w", (3,), init=0.0)
    good = gw.cast(ids, "float32").sum(-1)
    for tensor, says in (
        (good.sum(), "f32[]"),
        (ids.sum(-1), "i64[B]"),
        (w, "no tokens"),
        (3, "3"),
    ):
        with pytest.raises(GraphError) as caught:
            GraphReward(tensor)
        assert says in str(caught.value)
    with pytest.raises(FeedError, match="a row has 5 tokens"):
        GraphReward(good)([""], [""], prompt_ids=[[1, 2, 3]], completion_ids=[[4, 5]])
    with pytest.raises(FeedError, match="'weight', which is not there"):
        fluent(Decoder(SETTINGS))([""], [""], prompt_ids=[[1]], completion_ids=[[2]])
