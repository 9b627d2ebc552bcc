"""Images as a column of data: every objective feeds each row its own, as often as it has parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, TrainingError
from gradwright.models import DecoderConfig, VisionLanguage, VisionLanguageConfig

align = gw.align
N = 6
IMAGES = np.random.default_rng(1).random((N, 4, 4)).astype("float32")
PROMPTS = [[1], [1, 2], [3], [1, 2], [2], [1]]
DECODER = DecoderConfig(vocabulary=9, width=16, layers=1, heads=2, context=16)


def sees() -> VisionLanguage:
    return VisionLanguage(VisionLanguageConfig(DECODER, image=4, patch=2), eos=0)


def rows(**columns: Any) -> list[dict[str, Any]]:
    return [
        {"prompt": p, "images": image, **{name: of[i] for name, of in columns.items()}}
        for i, (p, image) in enumerate(zip(PROMPTS, IMAGES, strict=True))
    ]


SINGLE = rows(completion=[[3 + i % 4] for i in range(N)])
PAIRS = rows(chosen=[[3 + i % 4] for i in range(N)], rejected=[[7, 8]] * N)
LABELLED = [{**row, "label": i != 1} for i, row in enumerate(SINGLE)]
QUIET = {"batch_size": 3, "progress": False}


def trained(method: Any, data: Any, **settings: Any) -> Any:
    made = align.trainer(sees(), method, optimizer=gw.optim.Adam(0.02), **settings)
    made.fit(data, epochs=2, **QUIET)
    return made


def test_sft_says_what_it_would_say_of_each_image_alone() -> None:
    model = sees()
    objective = align.SFT().objective(model)
    feeds = objective.feeds(SINGLE)
    said = model.graph.output(feeds, objective.asked.said.log_probs)
    (whole,) = said.values()
    for i, row in enumerate(SINGLE):
        alone = objective.feeds([row])
        (one,) = model.graph.output(alone, objective.asked.said.log_probs).values()
        np.testing.assert_allclose(whole[i].sum(), one.sum(), rtol=1e-5)
    swapped = {**feeds, model.images: IMAGES[::-1]}
    (other,) = model.graph.output(swapped, objective.asked.said.log_probs).values()
    assert np.abs(other - whole).max() > 1e-3


@pytest.mark.parametrize(
    ("method", "data"),
    [(align.DPO, PAIRS), (align.KTO, LABELLED)],
    ids=["pairs", "labels, with others' completions"],
)
def test_a_reference_that_is_asked_before_sees_the_same_images(method: Any, data: Any) -> None:
    now, early = (
        trained(method(precompute_ref_log_probs=x), data).history.epochs["loss"]
        for x in (False, True)
    )
    np.testing.assert_allclose(now, early, rtol=1e-5)


def test_rows_of_other_images_are_other_data() -> None:
    objective = align.DPO(precompute_ref_log_probs=True).objective(sees())
    first, second = (
        objective.feeds([{**row, "images": row["images"] * scale} for row in PAIRS])
        for scale in (1, 3)
    )
    known = objective.asked.fed["reference"]
    assert np.abs(first[known] - second[known]).max() > 1e-4


def test_prompts_are_sampled_with_their_images() -> None:
    data = rows(answer=list(range(N)))
    method = align.GRPO(num_generations=3, max_completion_length=2)
    reward = lambda answer, **_: [float(a % 2) for a in answer]  # noqa: E731
    made = trained(method, data, rewards=reward)
    rollout = made.objective.experience.rollout
    for prompt in rollout.prompts:
        assert (prompt.feeds["images"] == IMAGES[prompt.columns["answer"]]).all()
        assert set(prompt.columns) == {"answer"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"images": None}, "row 5, 'images'"),
        ({"images": "seven"}, "row 5, 'images'"),
        ({"images": np.zeros((3, 4))}, r"an array of shape \(3, 4\)"),
        ({"images": [[1.0, 2.0], [3.0]]}, "row 5, 'images'"),
    ],
)
def test_images_that_are_none_are_named_by_their_row(change: Any, said: str) -> None:
    made = align.trainer(sees(), align.SFT())
    with pytest.raises(FeedError, match=said):
        made.fit([*SINGLE[:-1], SINGLE[-1] | change], **QUIET)
    assert made.steps_done == 0


def test_what_does_not_go_together_is_refused() -> None:
    model = sees()
    bare = [{k: v for k, v in row.items() if k != "images"} for row in SINGLE]
    with pytest.raises(FeedError, match="no column 'images'"):
        align.trainer(model, align.SFT()).fit(bare, **QUIET)
    with pytest.raises(TrainingError, match="examples without images"):
        align.trainer(model, align.SFT()).fit(align.examples(bare, eos=0), **QUIET)
    long = [{**SINGLE[0], "prompt": [1] * 20}]
    with pytest.raises(FeedError, match="no row of the data is left"):
        align.trainer(model, align.SFT()).fit(long, **QUIET)
    with pytest.raises(FeedError, match="at most 12"):
        held = align.examples(long, eos=0, feeds=["images"])
        align.trainer(model, align.SFT()).fit(held, **QUIET)
