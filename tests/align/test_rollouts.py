"""Rollouts: each row is what its prompt and seed draw alone, whatever runs beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import GenerationSampler, Progress, Prompt, Rollout, complete
from gradwright.align.rewards.judge import judge
from gradwright.errors import FeedError, GraphError
from gradwright.models import CharTokenizer, Decoder, DecoderConfig, Generation
from gradwright.models.reading import Reader
from tests.models.test_generation import loud

CONFIG = DecoderConfig(vocabulary=12, width=16, layers=2, heads=2, inner=32, context=256)
EOS = 11
QUICK = {"kernels": "off"}
PROMPTS = [Prompt([1, 2, 3]), Prompt([4]), Prompt([5, 6, 7, 8, 9])]


@pytest.fixture(scope="module")
def model() -> Decoder:
    made = loud(CONFIG)
    made.eos = EOS
    return made


def by_row(
    model: Decoder, rollout: Rollout, n: int, rows: Any = None, **sampling: Any
) -> list[list[int]]:
    """Return the tokens of rows, or of all, each drawn by itself."""
    sampler = GenerationSampler(model, session=QUICK, max_new_tokens=n, **sampling)
    return [
        sampler.generation.generate(
            [rollout.prompt(i).tokens], n, sampling=sampler.sampling, seed=rollout.seeds[i]
        )[0].tokens
        for i in (range(len(rollout)) if rows is None else rows)
    ]


def nothing(completion_ids: Any) -> list[float]:
    """Return what all completions are worth to nobody."""
    return [0.0] * len(completion_ids)


def are_likeliest(model: Decoder, rollout: Rollout) -> bool:
    """Tell whether each token is the likeliest by the graph that is trained."""
    feeds = rollout.arrays()
    with gw.Session(model.graph, kernels="off") as session:
        best = session.run(model.logits, {"ids": feeds["ids"]})[:, :-1].argmax(-1)
    labels = feeds["labels"][:, 1:]
    return bool((best == labels)[labels != -100].all())


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.7, "top_k": 6, "top_p": 0.9}])
def test_rows_of_groups_are_those_of_their_seeds(model, sampling) -> None:
    rollout = GenerationSampler(model, session=QUICK, max_new_tokens=20, **sampling).sample(
        PROMPTS, 4, seed=30
    )
    assert rollout.seeds == list(range(30, 42))
    assert rollout.completions == by_row(model, rollout, 20, **sampling)
    assert len({tuple(row) for row in rollout.completions[:4]}) > 1
    for row, reason in zip(rollout.completions, rollout.reasons, strict=True):
        assert (row[-1] == EOS) == (reason == "eos") and EOS not in row[:-1]
        assert reason == "eos" or len(row) == 20
    cut = GenerationSampler(model, session=QUICK, max_new_tokens=20, rows_at_once=5, **sampling)
    assert cut.sample(PROMPTS, 4, seed=30).completions == rollout.completions


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.7, "top_k": 6}])
def test_what_a_rollout_tells_of_its_tokens_is_what_training_says(model, sampling) -> None:
    """Of the whole softmax, whatever strategies left out; what is off is measured instead."""
    t = sampling.get("temperature", 1.0)
    sampler = GenerationSampler(
        model, session=QUICK, max_new_tokens=20, said_at=t, rows_at_once=5, **sampling
    )
    rollout = sampler.sample(PROMPTS, 4, seed=30)
    method = gw.align.GRPO(num_generations=4, max_completion_length=20, temperature=t)
    drawing = method.objective(model, rewards=nothing).drawing
    scores = judge(nothing, rollout)
    told = drawing.experience(rollout, scores, number=0, step=0)
    assert rollout.log_probs is not None
    others = [[x + 1e-3 for x in row] for row in rollout.log_probs], None
    for log_probs in others:
        other = replace(rollout, log_probs=log_probs)
        measured = drawing.experience(other, scores, number=0, step=0)
        for name in ("log_probs", "entropy"):
            a, b = getattr(told, name), getattr(measured, name)
            np.testing.assert_allclose(a, b, 1e-5, 1e-5)
            assert a.any() and not a[~told.mask].any()


def test_many_rows_leave_and_grow_and_stay_what_they_are(model) -> None:
    """66 rows, of which most end early and some go beyond the room that there is at first."""
    sampler, shapes = GenerationSampler(model, session=QUICK, max_new_tokens=120), set()
    run = sampler.generation.run

    def seen(*feeds: Any) -> Any:
        shapes.add(feeds[3].shape[2:5:2])
        return run(*feeds)

    sampler.generation.run = seen
    rollout = sampler.sample(PROMPTS, 22, seed=5)
    sampler.generation.run = run
    assert {rows for rows, _ in shapes} >= {3, 66, 33}  # prompts, rows, and what is left
    assert len({room for _, room in shapes if room}) == 2
    assert rollout.lengths.min() < 20 and rollout.lengths.max() > 91
    some = [*range(0, 66, 9), *np.argsort(rollout.lengths)[-3:]]
    assert [rollout.completions[i] for i in some] == by_row(model, rollout, 120, some)


class Seeing:
    """A model that repeats the token which its image names."""

    def __init__(self) -> None:
        inner = loud(CONFIG)
        self.graph, self.eos, self.tokenizer = inner.graph, (), None
        made = inner.generation().graph
        with made:
            image = made.placeholder("image", ("B", 2))
            token = gw.cast(gw.sum(image, axis=-1), "int64")
            made["logits"].rename("before")
            gw.add(made["before"], 1e3 * gw.one_hot(token, 12), name="logits")
        self._graph = made

    def generation(self, **settings: Any) -> Generation:
        return Generation(self._graph, session=gw.Session(self._graph, **settings))


def images_hold() -> bool:
    seen = [Prompt([i], feeds={"image": np.array([i, 1.0], "f4")}) for i in range(3)]
    rollout = GenerationSampler(Seeing(), session=QUICK, max_new_tokens=2).sample(seen, 2, 0)
    return rollout.completions == [[i + 1] * 2 for i in (0, 0, 1, 1, 2, 2)]


def test_images_stay_with_their_groups(monkeypatch) -> None:
    assert images_hold()
    spread = Reader.spread

    def tiled(self: Reader, times: int) -> None:  # images in the order 0 1 2 0 1 2
        own = [np.concatenate([array] * times) for array in self._feeds]
        spread(self, times)
        self._feeds = own

    monkeypatch.setattr(Reader, "spread", tiled)
    assert not images_hold()


def test_a_rollout_has_the_weights_of_the_last_step_and_makes_no_plan() -> None:
    model = loud(CONFIG)
    trainer = gw.Trainer(model.graph, model.loss, gw.optim.Adam(0.05))
    sampler, drawn = GenerationSampler(model, session=QUICK, max_new_tokens=6, temperature=0.0), []
    for _ in range(3):
        rollout = sampler.sample(PROMPTS, 2, 0)
        assert are_likeliest(model, rollout)
        drawn.append(rollout.completions)
        trainer.step(model.examples([[1, 2, 3, 4, 5, 6]] * 2))
    assert drawn[0] != drawn[2]
    assert len(sampler.generation.session.plan_cache) == 2
    assert (
        complete(model, PROMPTS, session=QUICK, group=2, max_new_tokens=6).completions != drawn[2]
    )
    assert len(sampler.generation.session.plan_cache) == 2


@pytest.mark.parametrize("name", ["LoRA", "Prefix"])
def test_a_policy_with_adapters_draws_by_them(name) -> None:
    model, adapter = loud(CONFIG), getattr(gw.adapters, name)
    sampler = GenerationSampler(model, session=QUICK, max_new_tokens=8, temperature=0.0)
    base = sampler.sample(PROMPTS[:2], 2, 0).completions
    method = adapter(r=2, alpha=64) if name == "LoRA" else adapter(tokens=2)
    adapted = gw.adapters.add(model, method)
    rng = np.random.default_rng(0)
    for v in model.graph.variables:
        if v.trainable:
            model.graph.values[v.name] = 0.5 * rng.standard_normal(v.shape)
    rollout = sampler.sample(PROMPTS[:2], 2, 0)
    own = rollout.completions
    assert are_likeliest(model, rollout)
    assert own != base
    adapted.disable()
    assert sampler.sample(PROMPTS[:2], 2, 0).completions == base
    adapted.enable()
    assert sampler.sample(PROMPTS[:2], 2, 0).completions == own


def test_an_interrupted_rollout_is_drawn_again_the_same(model) -> None:
    sampler, seen = GenerationSampler(model, session=QUICK, max_new_tokens=12), []
    wanted = sampler.sample(PROMPTS, 3, 1)

    def interrupt(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == 4:
            raise KeyboardInterrupt

    sampler.watchers.append(interrupt)
    with pytest.raises(KeyboardInterrupt):
        sampler.sample(PROMPTS, 3, 1)
    assert len(seen) == 4 and seen[0] == (seen[0].ended, 9, 9, seen[0].seconds)
    assert sampler.sample(PROMPTS, 3, 1).completions == wanted.completions
    assert seen[-1].ended == 9 and seen[-1].tokens == wanted.lengths.sum()


def test_rows_stop_at_texts_and_tokens_and_are_read_without_them() -> None:
    model = loud(CONFIG)
    model.tokenizer, model.eos = CharTokenizer("abcdefghijkl"), EOS
    plain = complete(model, PROMPTS, session=QUICK, group=4, temperature=1.0, max_new_tokens=16)
    for text, row in zip(plain.texts, plain.completions, strict=True):
        assert text == model.tokenizer.decode([token for token in row if token != EOS])
    stop = plain.texts[0][3:5]
    cut = complete(
        model, PROMPTS, session=QUICK, group=4, temperature=1.0, max_new_tokens=16, stop=[stop, 4]
    )
    for whole, found, row in zip(plain.texts, cut.texts, cut.completions, strict=True):
        ends = [at for at in (whole.find(stop), whole.find("e")) if at >= 0]
        assert found == whole[: min(ends, default=len(whole))]
        assert len(row) > len(found) or len(row) == 16
    assert cut.reasons[0] == "stop" and cut.ended[0]


def test_settings_and_prompts_that_make_no_sense_are_told(model) -> None:
    for settings, match in (
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"rows_at_once": 0}, "rows_at_once is 0"),
        ({"temperature": -1.0}, "makes no sense"),
        ({"top_k": -1}, "makes no sense"),
        ({"top_p": 1.5}, "makes no sense"),
    ):
        with pytest.raises(GraphError, match=match):
            GenerationSampler(model, **settings)
    sampler = GenerationSampler(model, session=QUICK, max_new_tokens=250)
    for prompts, group, match in (
        ([], 2, "there is no prompt"),
        (PROMPTS, 0, "a group of 0"),
        ([Prompt([])], 1, "prompt 0 is empty"),
        ([Prompt([1] * 9)], 1, "exceed the context"),
        ([Prompt([1]), Prompt([1], feeds={"image": 1})], 1, "prompt 1 feeds"),
        ([Prompt([1], feeds={"image": 1})], 1, "rows feed nothing to 'image'"),
    ):
        with pytest.raises((FeedError, GraphError), match=match):
            sampler.sample(prompts, group, 0)


class Resumes(gw.Callback):
    """Notes where a training pauses, and has it go on."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def on_pause(self, trainer: Any) -> None:
        self.seen.append("pause")
        trainer.resume()


def resuming(seen: list[Any], longest: int) -> Any:
    """Return a trainer of GRPO that goes on after each pause."""
    model = Decoder(CONFIG, eos=EOS)
    return gw.align.trainer(
        model,
        gw.align.GRPO(num_generations=2, max_completion_length=longest),
        rewards=length,
        callbacks=[Resumes(seen)],
        sampler=GenerationSampler(model, session=QUICK, max_new_tokens=longest, said_at=1.0),
        kernels="off",
    )


def begins(trainer: Any) -> Callable[[], None]:
    """Return what puts a trainer back to where it begins: plans stay."""
    state, values = trainer.state_dict(), trainer.values.snapshot()
    watchers = trainer.objective.drawing.sampler.watchers
    own = [*watchers]

    def begin() -> None:
        watchers[:] = own
        trainer.values.restore(values)
        trainer.load_state_dict(state)

    return begin


def test_a_pause_or_stop_ends_a_rollout_within_a_token_and_changes_nothing() -> None:
    seen: list[Any] = []
    trainer = resuming(seen, 8)
    begin = begins(trainer)

    def learnt(wish: str) -> tuple[list[Any], list[Any]]:
        seen.clear()
        begin()

        def wishes(progress: Progress) -> None:
            seen.append(progress.tokens)
            if len(seen) == 11 and wish:  # the third token of the second rollout
                getattr(trainer, wish)()

        trainer.objective.drawing.sampler.watchers.insert(0, wishes)
        how = {"batch_size": 2, "progress": False}
        trainer.fit(PROMPTS, epochs=1, **how)
        if wish == "stop":
            assert trainer.steps_done == 1
            seen.append("stop")
            trainer.fit(PROMPTS, epochs=1, **how)
        return [*seen], [trainer.values[v.name].tobytes() for v in trainer.graph.variables]

    whole, values = learnt("")
    for wish in ("pause", "stop"):
        seen, same = learnt(wish)
        assert seen[:12] == [*whole[:11], wish] and seen[12:] == whole[8:]
        assert same == values


def test_a_pause_ends_held_out_answers_and_they_are_drawn_again() -> None:
    """From the first on, with the rewards that there are then; a stop leaves the epoch open."""

    seen: list[Any] = []
    trainer = resuming(seen, 4)
    begin = begins(trainer)

    def validated(wish: str) -> tuple[list[Any], float]:
        seen.clear()
        begin()

        def wishes(progress: Progress) -> None:
            if trainer.steps_done == 2:  # both of the epoch
                seen.append(progress.tokens)
                if len(seen) == 2 and wish:
                    getattr(trainer, wish)()

        trainer.objective.drawing.sampler.watchers.insert(0, wishes)
        how = {"batch_size": 4, "progress": False, "validation": PROMPTS, "epochs": 1}
        trainer.fit([PROMPTS[0]] * 4, **how)
        if wish == "stop":
            assert trainer.epochs_done == 0 and trainer.history.end.outcome == "stopped"
            trainer.fit([PROMPTS[0]] * 4, **how)
        assert (trainer.steps_done, trainer.epochs_done) == (2, 1)
        return [*seen], trainer.history.last()["val_reward"]

    whole, reward = validated("")
    for wish, told in (("pause", ["pause"]), ("stop", [])):
        seen, same = validated(wish)
        assert seen == [*whole[:2], *told, *whole] and same == reward


def length(completion_ids: Any) -> list[float]:
    return [float(len(row) + sum(row) % 5) for row in completion_ids]
