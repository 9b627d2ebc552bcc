"""Pipelines: planned before, resumed where they were killed, judged after."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import ExactMatch, Pipeline, Stage
from gradwright.align.evaluation.held_out import Answers, HeldOut
from gradwright.align.pipeline import pipeline as running
from gradwright.align.pipeline.controls import coin_flip
from gradwright.align.pipeline.report import Report, Trained
from gradwright.errors import TrainingError
from tests.align.pipelines import (
    DRAW,
    LETTERS,
    NEXT,
    PREFER,
    TUNE,
    make,
    make_adapted,
    pipeline,
    right,
    values,
)

# -- before ----------------------------------------------------------------------------------------


def test_a_plan_tells_what_will_be_done_and_does_nothing(tmp_path: Path) -> None:
    made = pipeline(TUNE, PREFER, replace(DRAW, controls=("frozen",)))
    plan = made.plan(tmp_path / "none")
    assert [(p.stage, p.control, p.method, p.rows, p.steps) for p in plan.trainings] == [
        ("tune", "", "SFT", 6, 6),
        ("prefer", "", "DPO", 4, 4),
        ("draw", "", "GRPO", 8, 8),
        ("draw", "frozen", "GRPO", 8, 8),
    ]
    tune, weights = plan.trainings[0], sum(int(np.prod(v.shape)) for v in make().graph.variables)
    assert tune.weights == weights and tune.tokens == 6 * 4 * 2  # rows of two letters
    assert tune.flops == 6 * weights * tune.tokens
    assert plan.arrows[:4] == (
        ("data:tune", "tune", "data"),
        ("start:policy", "tune", "weights"),
        ("data:prefer", "prefer", "data"),
        ("tune", "prefer", "weights"),
    )
    assert json.loads(json.dumps(plan.to_json()))["prompts"] == len(LETTERS)
    assert not (tmp_path / "none").exists()


# -- running ---------------------------------------------------------------------------------------


def test_stages_go_on_from_each_other_and_are_judged(tmp_path: Path) -> None:
    made = pipeline(TUNE, PREFER, samples=2)
    with pytest.raises(TrainingError, match="no stage is called 'draw'") as error:
        made.run(tmp_path, until="draw")
    assert error.value.need == "tune, prefer"
    half = made.run(tmp_path, until="tune", progress=False)
    assert not half.is_done and [t.stage for t in half.trainings] == ["tune"]
    report = made.run(tmp_path, progress=False)
    assert report.is_done and [t.stage for t in report.trainings] == ["tune", "prefer"]
    tune, prefer = report.trainings
    assert tune.after == prefer.before and tune.before == report.start
    assert tune.course.steps.rows == 6 and prefer.course.steps.rows == 4
    whole = report.comparison()
    assert (whole.before, whole.after) == (report.start, prefer.after)
    assert whole.after.rate() > whole.before.rate()
    for last, left in {"": prefer, "tune": tune}.items():
        model, how = made.model(tmp_path, after=last), {"session": {"deterministic": True}}
        seen = gw.align.evaluate(model, made.prompts, made.verifier, **how, **made.exam)
        assert seen == left.after, "the weights are those that were judged"
    with pytest.raises(TrainingError, match="no stage 'draw' is done"):
        made.model(tmp_path, after="draw")
    assert json.loads(json.dumps(report.to_json()))["faults"] == []
    assert len(report.plot().data) >= 2 and "late=True" in str(report)


def test_what_is_done_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pipeline(TUNE).run(tmp_path, progress=False)
    plan = pipeline(TUNE).plan(tmp_path)
    assert plan.trainings[0].is_done and "all is done" in str(plan)
    monkeypatch.setattr(running, "trainer", lambda *_, **__: pytest.fail("it trains again"))
    again = pipeline(TUNE).run(tmp_path, progress=False)
    assert str(again) == str(first)
    with pytest.raises(TrainingError, match="a run of another pipeline") as error:
        pipeline(replace(TUNE, steps=7)).run(tmp_path, progress=False)
    assert error.value.facts == ["stages[0].steps: 6 there, 7 here"]
    with pytest.raises(TrainingError, match="weights that its stage has not left"):
        pipeline(TUNE, maker=make_adapted).model(tmp_path)


def test_one_that_was_killed_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    draw = replace(DRAW, steps=6)
    whole = pipeline(TUNE, draw)
    whole.run(tmp_path / "whole", progress=False)
    command = [sys.executable, "-m", "tests.align.pipelines", str(tmp_path / "killed"), "2"]
    root = Path(__file__).parents[2]
    assert subprocess.run(command, cwd=root, timeout=300).returncode == -signal.SIGKILL
    done = [(tmp_path / "killed" / name / "done.json").exists() for name in ("1-tune", "2-draw")]
    assert done == [True, False], "killed in the midst of the last stage"
    went_on = pipeline(TUNE, draw)
    report = went_on.run(tmp_path / "killed", progress=False)
    assert report.is_done
    assert values(went_on.model(tmp_path / "killed")) == values(whole.model(tmp_path / "whole"))
    assert report.comparison() == whole.report(tmp_path / "whole").comparison()


def test_one_that_is_stopped_ends_with_the_step_and_goes_on(tmp_path: Path) -> None:
    def stopping(prompts, completions, **columns):
        if made.trainer.steps_done:
            made.trainer.stop()
        return right(prompts, completions, **columns)

    made = pipeline(draw := replace(DRAW, steps=4), reward=stopping)
    report = made.run(tmp_path, progress=False)
    assert not report.is_done and "0 of 1 trainings are done" in str(report)
    assert made.trainer is None
    for _ in range(draw.steps):
        report = report if report.is_done else made.run(tmp_path, progress=False)
    assert report.is_done and report.trained("draw").course.steps.rows == draw.steps


def test_adapters_are_handed_on_and_the_base_stays(tmp_path: Path) -> None:
    made = pipeline(TUNE, PREFER, maker=make_adapted)
    made.run(tmp_path, progress=False)
    first, last = make_adapted(), made.model(tmp_path)
    before, after = values(first), values(last)
    moved = {name for name in before if before[name] != after[name]}
    assert moved and moved <= {v.name for v in first.graph.trainable}


def test_a_model_of_rewards_is_trained_before_and_judges_after(tmp_path: Path) -> None:
    """From a stage's weights, in a model of its own, which the next stage is given."""
    seen = []

    def given(models):
        critic = models["critic"]
        score = gw.align.reward_head(critic)
        seen.append(np.asarray(critic.graph.values["score/weight"]).copy())
        session = gw.Session(critic.graph)

        def judge(prompt_ids, completion_ids):
            rows = [[*p, *c] for p, c in zip(prompt_ids, completion_ids, strict=True)]
            return session.run(score, critic.examples(rows, [len(p) for p in prompt_ids]))

        return {"rewards": judge}

    rank = Stage(
        *("rank", gw.align.RewardModel()),
        **{"steps": 4, "batch_size": 4, "model": "critic", "start": "policy"},
        training={"optimizer": gw.optim.Adam(0.02)},
    )
    data = {"tune": pipeline(TUNE).data["tune"], "draw": pipeline(DRAW).data["draw"]}
    data["rank"] = pipeline(PREFER).data["prefer"]
    models = {"policy": make, "critic": make}
    short = replace(DRAW, steps=2)
    made = Pipeline([TUNE, rank, short], models, data, given={"draw": given})
    assert ("tune", "rank", "weights") in made.plan().arrows
    report = made.run(tmp_path, progress=False)
    assert report.is_done and report.trained("rank").course.steps.rows == 4
    held = made.model(tmp_path, "critic").graph.values["score/weight"]
    assert np.array_equal(seen[0], held), "it judges with the weights that it was trained to"


def test_a_student_follows_what_an_earlier_stage_has_taught(tmp_path: Path) -> None:
    method = gw.align.Distill(lmbda=1.0, max_new_tokens=2)
    # From 0.028 on last bits decide whether a letter is missed; up to 0.025 none was in 36 runs.
    rate = {"optimizer": gw.optim.Adam(0.015)}
    follow = Stage("follow", method, steps=100, batch_size=4, training=rate, every_steps=50)
    teach = replace(TUNE, model="teacher", steps=60, every_steps=30)
    made = Pipeline(
        [teach, follow],
        {"policy": make, "teacher": make},
        {"tune": pipeline(TUNE).data["tune"], "follow": pipeline(TUNE).data["tune"]},
        given={"follow": lambda models: {"teacher": models["teacher"]}},
    )
    assert made.run(tmp_path, progress=False).is_done
    asked = list(LETTERS[:6])
    teacher, student = (made.model(tmp_path, name) for name in ("teacher", "policy"))
    assert [c.text for c in teacher.generate(asked, 2)] == [NEXT[c] for c in asked]
    assert [c.text for c in student.generate(asked, 2)] == [NEXT[c] for c in asked]


# -- controls --------------------------------------------------------------------------------------


def test_controls_are_run_beside_their_stage(tmp_path: Path) -> None:
    """Each has as many rewards as the stage, which may have weights for them."""
    weighed = replace(DRAW.method, reward_weights=(1.0, 0.0))
    stage = replace(DRAW, method=weighed, steps=2, controls=("random", "flipped", "frozen"))
    rewards = [right, ExactMatch("answer")]
    report = pipeline(TUNE, stage, reward=rewards).run(tmp_path, progress=False)
    assert [t.title for t in report.trainings[1:]] == [
        *("draw", "draw, random", "draw, flipped", "draw, frozen"),
    ]
    frozen = report.trained("draw", "frozen")
    assert frozen.after == frozen.before == report.trained("tune").after
    totals = report.trained("draw", "flipped").course.steps["reward"]
    assert (totals <= 0).all() and not report.faults
    assert "rewards/coin_flip/mean" in report.trained("draw", "random").course.steps


def test_a_control_that_improves_is_called_a_fault() -> None:
    right_, wrong = (
        Answers((("x",),) * 20, ((b,),) * 20, ((b,),) * 20, ((1,),) * 20) for b in (True, False)
    )
    before, after = (HeldOut(("?",) * 20, {"greedy": a}) for a in (wrong, right_))
    found = [Trained("draw", c, gw.History(), before, after) for c in ("", "random")]
    report = Report(tuple(found), 2, before)
    assert report.faults == ["draw, random"] and "must not" in str(report)


def test_coins_do_not_look_at_what_is_said() -> None:
    ids = [[1, 2], [3], [1, 2], [1, 2]] * 25
    first = coin_flip(["?"] * 100, ["x"] * 100, ids)
    assert np.array_equal(first, coin_flip(["?"] * 100, ["x"] * 100, ids))
    same = first.reshape(-1, 4)[:, [0, 2, 3]]
    assert 0.3 < first.mean() < 0.7 and (same != same[:, :1]).any()


# -- what is refused -------------------------------------------------------------------------------


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(TrainingError, match="stages are called"):
        pipeline(TUNE, TUNE)
    with pytest.raises(TrainingError, match="'tune' has no data"):
        Pipeline([TUNE], make, {})
    with pytest.raises(TrainingError, match="data of 'other'"):
        Pipeline([TUNE], make, {"tune": [], "other": []})
    with pytest.raises(TrainingError, match="asks for a model 'critic'"):
        Pipeline([replace(TUNE, model="critic")], make, {"tune": []})
    with pytest.raises(TrainingError, match="by a verifier"):
        Pipeline([TUNE], make, {"tune": []}, verifier=right)
    with pytest.raises(TrainingError, match="a stage cannot be called"):
        replace(TUNE, name="../x")
    with pytest.raises(TrainingError, match="how long"):
        replace(TUNE, epochs=2)
    with pytest.raises(TrainingError, match="no control 'luck'"):
        replace(TUNE, controls=("luck",))
    with pytest.raises(TypeError, match="learning_rat"):
        replace(TUNE, training={"learning_rat": 1})


def test_controls_of_rewards_need_rewards(tmp_path: Path) -> None:
    made = pipeline(replace(TUNE, steps=1, controls=("random",)))
    with pytest.raises(TrainingError, match="one of rewards, and it has none"):
        made.run(tmp_path, progress=False)
