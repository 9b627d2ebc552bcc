"""The short form of ``python -m tests.learning.vision``: a model of 60,000 weights, in seconds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import Prompt, Rollout
from gradwright.align.objectives.drawing import fed

pytest.importorskip("sklearn", reason="pip install -e '.[test]'")

from tests.learning import vision

COURSE = vision.Course(
    width=64, layers=1, sft_steps=150, sft_rows=48, sft_rate=6e-3, rollouts=8, group=8, rate=1e-3
)


def test_grpo_names_what_a_sloppy_teacher_misnamed_and_only_by_looking() -> None:
    digits, some = vision.Digits(3), slice(200)
    model = COURSE.start(digits, 0)
    held = {v.name: model.graph.values[v.name].copy() for v in model.graph.variables}
    before = vision.judge(model, digits.held_out()[some], 0)
    trainer = COURSE.align(model, digits, 0)
    after = vision.judge(model, digits.held_out()[some], 0)
    assert gw.align.compare(before, after).mcnemar().z > 4, (before, after)
    assert vision.judge(model, digits.held_out("shuffled")[some], 0).rate() < 0.2
    assert trainer.objective.history["reward"][0] > 0.3
    other = COURSE.model(values=held)
    with vision.others_images():
        mutant = replace(COURSE, rollouts=1).align(other, digits, 0)
    assert mutant.objective.history["reward"][0] < 0.2


def test_each_completion_is_trained_with_the_image_that_it_was_drawn_for() -> None:
    model, digits = COURSE.model(), vision.Digits(3)
    trainer = replace(COURSE, rollouts=1, images=3, group=2).align(
        model, digits, 0, vision.by_chance
    )
    made, start = trainer.objective.experience, COURSE.model()
    said = gw.align.model_log_probs(start).log_probs
    for row, ids in enumerate(made.ids):
        image = made.rollout.prompt(row).feeds["images"]
        feeds = {"ids": ids[None], "labels": made.labels[row : row + 1], "images": image[None]}
        alone = start.graph.output(feeds, said)[said.name][0]
        np.testing.assert_allclose(made.log_probs[row], alone, rtol=1e-4, atol=1e-5)


def test_images_are_repeated_with_their_groups_one_after_another() -> None:
    model = COURSE.model()
    images = [np.full((8, 8), i, np.float32) for i in range(3)]
    prompts = [Prompt([1], feeds={"images": image}) for image in images]
    rollout = Rollout(prompts, 2, [[0]] * 6, [""] * 6, ["eos"] * 6, list(range(6)))
    (rows,) = fed(model.graph, rollout).values()
    assert rows[:, 0, 0].tolist() == [0, 0, 1, 1, 2, 2]
    with vision.others_images():
        (wrong,) = vision.drawing.fed(model.graph, rollout).values()
    assert wrong[:, 0, 0].tolist() == [0, 1, 2, 0, 1, 2]
