"""Rollouts of a training without a browser: tokens in their numbers, rewards weighed, alarms."""

from __future__ import annotations

import gc
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import Failure, Prompt, Rollout, Scores
from gradwright.align.alarm import alarms, length_bias
from gradwright.errors import FeedError, GraphError
from gradwright_widgets import RolloutPanel, Workbench
from gradwright_widgets.panels.rollouts.order import groups_shown, rows_of
from gradwright_widgets.panels.rollouts.panel import RolloutsPanel
from gradwright_widgets.panels.rollouts.rows import AT_ONCE
from tests.support.panels import EVIL, sent, wait_for
from tests.support.rollouts import adding, digits, near, sums

PROMPTS = sums(6)


def fit(trainer, steps=2):
    trainer.fit(PROMPTS, batch_size=24, steps=steps, progress=False)


@pytest.fixture(scope="module")
def trained():
    trainer = adding()
    panel = RolloutPanel(trainer)
    fit(trainer, 4)
    yield panel
    panel.close()


@pytest.fixture
def panel(trained):
    trained.rollout_live = True
    trained.rollout_sort, trained.rollout_show = "drawn", "all"
    return trained


def told(panel):
    """Return content and buffers of what a new page is told, by kind."""
    found = panel.part(RolloutsPanel).new_view_messages()
    return {content["kind"]: (content, buffers) for content, buffers in found}


def token_numbers(panel):
    """Return the number of each token that a page has, by row and place."""
    content, (data,) = told(panel)["rollouts.page"]
    values, at, found = np.frombuffer(data, "<f4"), 0, {}
    for row in (row for group in content["groups"] for row in group["rows"]):
        for k in range(len(row["tokens"])):
            found[row["row"], row["start"] + k] = values[at]
            at += 1
    assert at == len(values), "of what is not shown nothing is sent"
    return found


def expected(trainer, measure):
    """Return what each token should have, from the numbers of the objective alone."""
    seen = trainer.objective.experience
    like = np.zeros_like(seen.log_probs)
    r = seen.ref_log_probs.astype(np.float64) - seen.log_probs
    return {
        "advantage": like + seen.advantages[:, None],
        "ratio": trainer.objective.ratios(),
        "kl": np.exp(r) - r - 1,
        "entropy": seen.entropy,
        "reward": like + seen.scores.total[:, None],
    }[measure]


@pytest.mark.parametrize("measure", ["advantage", "ratio", "kl", "entropy", "reward"])
def test_each_token_of_the_page_has_its_number(panel, measure):
    panel.rollout_measure = measure
    content, _ = told(panel)["rollouts.page"]
    seen = panel.trainer.objective.experience
    assert content["known"] and content["measure"] == measure and len(content["groups"]) == AT_ONCE
    values, found = expected(panel.trainer, measure), token_numbers(panel)
    rows = range(AT_ONCE * 4)
    places = {(row, t) for row in rows for t in np.flatnonzero(seen.mask[row])}
    assert set(found) == places
    for (row, t), value in found.items():
        assert value == pytest.approx(values[row, t], rel=1e-4, abs=1e-5)
    text = "".join(content["groups"][0]["rows"][0]["tokens"])
    assert text.removesuffix(" ") == seen.rollout.texts[0]


def test_a_token_says_all_that_is_known_of_it_and_where_it_was_made(panel):
    seen = panel.trainer.objective.experience
    t = int(np.flatnonzero(seen.mask[5])[0])
    facts = panel.look_at_token(5, t)
    assert facts["log π as it drew"] == pytest.approx(seen.log_probs[5, t])
    assert facts["log π of the reference"] == pytest.approx(seen.ref_log_probs[5, t])
    content, _ = told(panel)["rollouts.token"]
    assert (content["row"], content["place"], content["at"]) == (5, t, 0)
    assert (content["step"], content["seed"]) == (seen.step, seen.rollout.seeds[5])
    assert panel.graph[panel.selected].node.op.name == "head_log_probs"
    assert panel.rollout_token == [5, t] and not panel.rollout_live
    stepper = panel.step_to_token(5, t)
    moved = np.log(expected(panel.trainer, "ratio")[5, t])
    now = stepper.value(panel.selected)[0, t]
    assert now == pytest.approx(seen.log_probs[5, t] + moved, abs=1e-5)
    assert panel.rollout_page == "step"
    for row, place in ((5, 0), (99, t), (5, 10**9), (-1, t)):
        with pytest.raises(GraphError, match="there is no token"):
            panel.look_at_token(row, place)


def test_the_page_stays_where_one_looks_while_training_goes_on():
    trainer = adding()
    panel = RolloutPanel(trainer)
    fit(trainer)
    first = trainer.objective.experience
    panel.look_at_token(0, len(first.rollout.prompt(0).tokens) - 1)
    fit(trainer)
    content, _ = told(panel)["rollouts.page"]
    assert content["number"] == first.number < panel.rollout["latest"]
    panel.rollout_live = True
    content, _ = told(panel)["rollouts.page"]
    assert content["number"] == trainer.objective.experience.number
    assert "rollouts.token" not in told(panel), "it was of another rollout"
    figures, (data,) = told(panel)["rollouts.figures"]
    curves = np.frombuffer(data, "<f4").reshape(len(figures["curves"]), -1)
    history = trainer.objective.history
    np.testing.assert_allclose(curves[0], history["reward"], rtol=1e-6)
    at = figures["curves"].index("rewards/digits")
    np.testing.assert_allclose(curves[at], history["rewards/digits/mean"], rtol=1e-6)
    counts = {h["name"]: sum(h["counts"]) for h in figures["histograms"]}
    assert counts["reward"] == counts["length"] == counts["advantage"] == 24


# -- rewards ---------------------------------------------------------------------------------------


class PauseOnce(gw.Callback):
    def on_step_end(self, trainer, record):
        if record.step == 2:
            trainer.pause()


def test_a_paused_training_goes_on_with_other_rewards():
    trainer = adding()
    panel = RolloutPanel(trainer, rollout_measure="ratio")
    thread = threading.Thread(target=fit, args=(trainer, 6))
    trainer.add_callback(PauseOnce())
    thread.start()
    wait_for(lambda: trainer.status == "paused")
    wait_for(lambda: panel.rollout["status"] == "paused")
    before = trainer.objective.experience
    panel._receive(panel, {"kind": "rollouts.weigh", "name": "near", "weight": 3}, [])
    panel._receive(panel, {"kind": "rollouts.switch", "name": "digits", "on": False}, [])
    rows = [
        {"name": "near", "weight": 3.0, "on": True},
        {"name": "digits", "weight": 1.0, "on": False},
    ]
    assert panel.rollout_rewards == rows and trainer.objective.experience is before
    assert [edit["text"] for edit in panel.edits] == [
        "weight of reward near 1 → 3", "weight of reward digits 1 → 0"
    ]  # fmt: skip
    panel._receive(panel, {"kind": "rollouts.resume", "id": 1}, [])
    thread.join(60)
    after = trainer.objective.experience.scores
    assert after.names == ("near", "digits"), "curves keep their names"
    np.testing.assert_allclose(after.total, 3 * after.each[:, 0])
    panel.undo_edits()
    assert [(row["weight"], row["on"]) for row in panel.rollout_rewards] == [(1, True), (1, True)]

    def shouted(completions):
        return [text.count("9") for text in completions]

    panel.rewards = {"nines": shouted}
    assert [row["name"] for row in panel.rollout_rewards] == ["nines"]
    panel.weigh_reward("nines", -1.0)
    fit(trainer)
    scores = trainer.objective.experience.scores
    assert scores.names == ("nines",)
    np.testing.assert_allclose(scores.total, -scores.each[:, 0])
    assert panel.rollout["status"] == "idle"


def test_what_is_no_reward_changes_nothing(panel):
    held = panel.rewards
    for wrong in (None, [], [3], "near"):
        with pytest.raises((FeedError, TypeError)):
            panel.rewards = wrong
    with pytest.raises(GraphError, match="no reward is called"):
        panel.weigh_reward("far", 1.0)
    for weight in (np.nan, np.inf):
        with pytest.raises(GraphError, match="makes no sense"):
            panel.weigh_reward("near", weight)
    assert panel.rewards is held == [near, digits]


# -- order and alarms ------------------------------------------------------------------------------


def seen_of(rewards, lengths, group=2, reasons=None, failures=()):
    n = len(rewards)
    prompts = [Prompt([1])] * (n // group)
    tokens = [[2] * length for length in lengths]
    drawn = Rollout(prompts, group, tokens, [""] * n, reasons or ["eos"] * n, [0] * n)
    total = np.array(rewards, np.float64)
    return SimpleNamespace(rollout=drawn, scores=Scores(("r",), total[:, None], total, failures))


def test_groups_are_sorted_and_filtered():
    seen = seen_of(
        [0, 1, 1, 1, np.nan, np.nan, 0.2, 0.9], [1, 2, 9, 1, 3, 3, 4, 4],
        reasons=["eos"] * 6 + ["length", "eos"], failures=(Failure("r", 4, "it hangs"),),
    )  # fmt: skip
    order = {sort: groups_shown(seen, sort, "all") for sort in
             ("drawn", "best", "worst", "spread", "longest")}  # fmt: skip
    assert order == {
        "drawn": [0, 1, 2, 3], "best": [1, 0, 3, 2], "worst": [0, 3, 1, 2],
        "spread": [0, 3, 1, 2], "longest": [1, 3, 2, 0],
    }  # fmt: skip
    shown = {show: groups_shown(seen, "drawn", show) for show in
             ("mixed", "alike", "cut", "failed")}  # fmt: skip
    assert shown == {"mixed": [0, 2, 3], "alike": [1], "cut": [3], "failed": [2]}
    assert rows_of(seen, 0, "best") == [1, 0] and rows_of(seen, 1, "longest") == [2, 3]


STILL = {"rollout/kl": [0.02] * 12, "rollout/entropy": [2.0] * 12}


@pytest.mark.parametrize(
    ("name", "history", "clipped"),
    [
        ("alike", {"frac_reward_zero_std": [0.1] * 7 + [0.9] * 5}, []),
        ("cut", {"completions/clipped_ratio": [0.8]}, []),
        ("kl", {"rollout/kl": [0.6]}, []),
        ("kl", {"rollout/kl": [0.004] * 6 + [0.06] * 6}, []),
        ("entropy", {"rollout/entropy": [2.0] * 6 + [0.3] * 6}, []),
        ("clip", STILL, [0.1, 0.5, 0.6, 0.4]),
        ("still", STILL, [0.1] * 14 + [0.0] * 10),
    ],
)
def test_what_fails_is_said(name, history, clipped):
    assert [alarm.name for alarm in alarms(history, clipped, None)] == [name]


def test_what_goes_well_is_no_alarm():
    well = {**STILL, "frac_reward_zero_std": [0.9] + [0.2] * 9, "completions/clipped_ratio": [0.1]}
    assert not alarms(well, [0.05] * 5, seen_of([0, 1, 0, 1], [4, 4, 5, 5]))
    assert not alarms(STILL, [0.0] * 12, None), "one step on each rollout meets ratios of 1"
    assert not alarms(STILL, [0.0, 0.01] * 12, None)
    assert not alarms({}, [], None)
    assert not alarms({"rollout/kl": [np.nan], "rollout/entropy": [np.nan] * 9}, [np.nan], None)


def test_rewards_that_follow_length_are_an_alarm():
    longer = {"completions/mean_length": [10.0] * 6 + [20.0] * 6}
    bought = seen_of([1, 2, 3, 5, 6, 7], [5, 10, 14, 1, 4, 9], group=3)
    found = alarms(longer, [], bought)
    assert [alarm.name for alarm in found] == ["length"] and "from 10 to 20" in found[0].text
    x = np.array([5, 10, 14, 1, 4, 9]) - np.repeat([29 / 3, 14 / 3], 3)
    y = np.array([1, 2, 3, 5, 6, 7]) - np.repeat([2.0, 6.0], 3)
    assert length_bias(bought) == pytest.approx(x @ y / np.sqrt(x @ x * (y @ y)))
    assert not alarms(longer, [], seen_of([1, 2, 1, 2], [9, 3, 9, 3])), "shorter is better"
    failed = seen_of([1, 0], [1, 1], failures=(Failure("r", 1, "no"),))
    assert alarms({}, [], failed)[0].text == "1 row could not be judged by r."


# -- the widget ------------------------------------------------------------------------------------


def test_a_panel_that_fails_ends_no_training_and_is_not_kept_alive(monkeypatch):
    trainer = adding()
    panel = RolloutPanel(trainer)
    part = panel.part(RolloutsPanel)
    monkeypatch.setattr(part, "heard", lambda seen: 1 / 0)
    fit(trainer, 1)
    assert trainer.steps_done == 1 and "ZeroDivisionError" in panel.message
    monkeypatch.undo()
    assert len(trainer.objective.watchers) == 1
    panel.close()
    assert not trainer.objective.watchers
    held = weakref.ref(RolloutPanel(trainer).part(RolloutsPanel))
    import ipywidgets

    ipywidgets.Widget.close_all()
    gc.collect()
    assert held() is None
    with pytest.raises(TypeError, match="shows what a gradwright"):
        RolloutPanel(trainer.graph)


def test_texts_are_text_in_all_that_is_written(tmp_path):
    class Marks:
        def encode(self, text):
            return [2] * len(text)

        def decode(self, ids):
            return "".join(EVIL if i % 2 else "</script>" for i in ids)

    trainer = adding()
    trainer.objective.model.tokenizer = trainer.objective.tokenizer = Marks()
    panel = RolloutPanel(trainer)
    fit(trainer, 1)
    assert EVIL in str(told(panel)["rollouts.page"][0])
    page = panel.to_html(tmp_path / "page.html")
    assert EVIL not in page and page.count("</script") == 2
    assert "<img" not in panel.to_table() and "&lt;img" in panel.to_table()
    fit(trainer, 2)
    assert "rewards/near" in panel.to_svg()


def test_the_workbench_has_a_tab_and_asks_for_its_code(trained, monkeypatch):
    bench = Workbench(trained.graph, trained.trainer)
    assert [row["name"] for row in bench.rollout_rewards] == ["near", "digits"]
    messages = sent(bench, monkeypatch)
    bench._receive(bench, {"kind": "rollouts.sync"}, [])
    assert "rollouts.module" not in [content["kind"] for content, _ in messages]
    bench._receive(bench, {"kind": "rollouts.sync", "module": True}, [])
    (module,) = [b[0] for content, b in messages if content["kind"] == "rollouts.module"]
    assert b"export" in module
    whole = [content["kind"] for content, _ in bench.new_view_messages(whole=True)]
    assert "rollouts.module" in whole
    shown = []
    bench.desk.on("tensor", lambda value, name: shown.append((name, value.shape)))
    bench.part(RolloutsPanel).show_measure()
    assert shown[0][1] == trained.trainer.objective.experience.log_probs.shape
    assert bench.tab == "tensor"
    seen = trained.trainer.objective.experience
    bench.step_to_token(0, int(np.flatnonzero(seen.mask[0])[0]))
    assert bench.tab == "step"
    plain = Workbench(gw.Graph("plain"))
    assert plain.rollout_rewards == [] and plain.rewards is None
    assert "rollouts.module" not in [c["kind"] for c, _ in plain.new_view_messages(whole=True)]


HOSTILE = (None, True, -1, 10**30, 1.5, float("nan"), "", "</script>", [], {}, [None])


def test_no_message_raises(panel):
    held = panel.rewards
    for wrong in HOSTILE:
        for kind in ("look", "step"):
            panel._receive(panel, {"kind": f"rollouts.{kind}", "row": wrong, "place": 1}, [])
            panel._receive(panel, {"kind": f"rollouts.{kind}", "row": 0, "place": wrong}, [])
        panel._receive(panel, {"kind": "rollouts.weigh", "name": wrong, "weight": 1}, [])
        panel._receive(panel, {"kind": "rollouts.switch", "name": wrong, "on": wrong}, [])
        panel._receive(panel, {"kind": "rollouts.sync", "module": wrong}, [])
        panel.set_state({"rollout_sort": wrong, "rollout_measure": wrong, "rollout_first": wrong})
    for wrong in (None, "x", [1.0], float("nan"), float("inf"), True):
        panel._receive(panel, {"kind": "rollouts.weigh", "name": "near", "weight": wrong}, [])
    assert panel.rewards is held
    panel.rollout_first = 10**9
    assert told(panel)["rollouts.page"][0]["groups"], "the last page"
    panel.rollout_first = 0
