"""Generation: tokens of transformers, rows on their own, ends, streams, seeds, interruptions."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GraphError
from gradwright.models import (
    CharTokenizer,
    Completion,
    Decoder,
    DecoderConfig,
    Draft,
    Generation,
    Greedy,
    RepetitionPenalty,
    Temperature,
    Tokenizer,
    TopK,
    TopP,
    load_state_dict,
)
from tests.models.test_decoder import llama
from tests.models.theirs import greedy

CONFIG = DecoderConfig(
    vocabulary=37, width=32, layers=2, heads=4, kv_heads=2, inner=48, context=128, eps=1e-5
)
PROMPTS = [[5, 9, 2], [7], list(range(20)), [30, 1, 1, 4, 9]]
DRAWN = [Temperature(1.1), TopK(30), TopP(0.95)]


def loud(config: DecoderConfig, seed: int = 3) -> Decoder:
    """Return a model of weights large enough for its text to be varied."""
    model, rng = Decoder(config), np.random.default_rng(seed)
    for v in model.graph.variables:
        if len(v.shape) == 2:
            model.graph.values[v.name] = 0.3 * rng.standard_normal(v.shape)
    return model


@pytest.fixture(scope="module")
def model() -> Decoder:
    return loud(CONFIG)


@pytest.fixture
def generation(model) -> Generation:
    return model.generation()


def naive(model: Decoder, prompt: list[int], n: int) -> list[int]:
    """Return greedy tokens by running the training graph on everything, again and again."""
    tokens = list(prompt)
    with gw.Session(model.graph, kernels="off") as session:
        for _ in range(n):
            logits = session.run(model.logits, {"ids": [tokens]})
            tokens.append(int(logits[0, -1].argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_greedy_tokens_are_those_of_transformers(kv_heads) -> None:
    config = DecoderConfig(**{**CONFIG.__dict__, "kv_heads": kv_heads})
    theirs, _ = llama(config)
    model = Decoder(config)
    load_state_dict(model, theirs.state_dict())
    rows = model.generation().generate(PROMPTS, 40)
    for row in rows:
        assert row.tokens == greedy(theirs, row.prompt, 40)


def test_penalised_greedy_tokens_are_those_of_transformers() -> None:
    theirs, _ = llama(CONFIG)
    model = Decoder(CONFIG)
    load_state_dict(model, theirs.state_dict())
    row = model.generation().generate([[3, 4]], 30, sampling=[Greedy(), RepetitionPenalty(1.4)])[0]
    assert row.tokens == greedy(theirs, [3, 4], 30, repetition_penalty=1.4)
    assert len(set(row.tokens)) > 10


def test_tokens_are_those_of_the_training_graph(model, generation) -> None:
    rows = generation.generate(PROMPTS, 12)
    assert [row.tokens for row in rows] == [naive(model, p, 12) for p in PROMPTS]
    assert len({tuple(row.tokens) for row in rows}) == 4


@pytest.mark.parametrize("sampling", [Greedy(), DRAWN, []], ids=["greedy", "drawn", "plain"])
def test_a_row_is_its_single_run(generation, sampling) -> None:
    together = generation.generate(PROMPTS, 30, sampling=sampling, seed=11)
    for i, row in enumerate(together):
        alone = generation.generate([row.prompt], 30, sampling=sampling, seed=11 + i)[0]
        assert alone == row
    mixed = generation.generate(PROMPTS[::-1], 30, sampling=sampling, seed=[14, 13, 12, 11])
    assert [row.tokens for row in mixed] == [row.tokens for row in together[::-1]]


def test_rows_that_end_early_leave_the_others_alone(model) -> None:
    whole = model.generation().generate(PROMPTS, 30)
    eos = next(t for t in whole[0].tokens if t not in whole[2].tokens)
    rows = model.generation(eos=eos).generate(PROMPTS, 30)
    for row, full in zip(rows, whole, strict=True):
        n = full.tokens.index(eos) + 1 if eos in full.tokens else 30
        assert row.tokens == full.tokens[:n]
        assert row.reason == ("eos" if eos in full.tokens else "length")
    assert {row.reason for row in rows} == {"eos", "length"}


def test_a_group_is_as_many_rows_of_its_prompt(generation) -> None:
    group = generation.generate(PROMPTS, 12, sampling=DRAWN, seed=11, group=3)
    wanted = generation.generate([p for p in PROMPTS for _ in "abc"], 12, sampling=DRAWN, seed=11)
    assert group == wanted and len({tuple(row.tokens) for row in group}) > 6


def test_draws_are_those_of_the_seed(generation) -> None:
    def drawn(seed):
        return generation.generate([[1, 2]], 40, sampling=DRAWN, seed=seed)[0].tokens

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_deterministic_session_gives_the_same_bits_again(model) -> None:
    def logits():
        generation, found = model.generation(deterministic=True), []
        run = generation.run

        def kept(*feeds):
            found.append(run(*feeds))
            return found[-1]

        generation.run = kept
        generation.generate(PROMPTS, 12, sampling=DRAWN)
        return [a for pair in found for a in pair]

    for a, b in zip(logits(), logits(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_completion_goes_on_as_if_it_had_not_ended(generation) -> None:
    whole = generation.generate(PROMPTS, 24, sampling=[*DRAWN, RepetitionPenalty(1.1)], seed=5)
    begun = generation.generate(PROMPTS, 9, sampling=[*DRAWN, RepetitionPenalty(1.1)], seed=5)
    again = generation.generate(begun, 15, sampling=[*DRAWN, RepetitionPenalty(1.1)])
    assert [row.tokens for row in again] == [row.tokens for row in whole]
    assert again == whole and all(len(row.tokens) == 9 for row in begun)


def test_two_plans_and_few_for_other_lengths(generation) -> None:
    generation.generate([[1, 2, 3]], 10)
    assert len(generation.session.plan_cache) == 2
    for n in range(1, 14):
        generation.generate([[1] * n], 16 - n)
    assert len(generation.session.plan_cache) == 2
    generation.generate([[1] * 20], 30)
    assert len(generation.session.plan_cache) == 4


def test_a_stream_gives_what_generate_gives(generation) -> None:
    rows = generation.generate(PROMPTS, 9, sampling=DRAWN)
    pieces = list(generation.stream(PROMPTS, 9, sampling=DRAWN))
    assert [[p.token for p in pieces if p.row == i] for i in range(4)] == [r.tokens for r in rows]
    assert [p.reason for p in pieces] == [None] * 32 + ["length"] * 4


def test_streams_of_one_generation_do_not_mix(generation) -> None:
    a = generation.stream([[1, 2]], 12, sampling=DRAWN, seed=1)
    b = generation.stream([[3]], 12, sampling=DRAWN, seed=2)
    both = [(x.token, y.token) for x, y in zip(a, b, strict=True)]
    alone = [generation.generate([p], 12, sampling=DRAWN, seed=s)[0].tokens
             for p, s in (([1, 2], 1), ([3], 2))]  # fmt: skip
    assert [list(t) for t in zip(*both, strict=True)] == alone


# -- ends ------------------------------------------------------------------------------------------

LETTERS = CharTokenizer("abcdefghijklmnopqrstuvwxyz ,.!?'-\n123")


def test_stop_strings_end_a_row_and_are_not_in_its_text(model) -> None:
    generation = model.generation(tokenizer=LETTERS)
    whole = generation.generate(["once", "upon a"], 30, sampling=DRAWN, seed=3)
    stop = whole[0].text[6:9]
    rows = generation.generate(["once", "upon a"], 30, sampling=DRAWN, seed=3, stop=[stop, "zz9"])
    assert rows[0].reason == "stop" and rows[0].text == whole[0].text[: whole[0].text.index(stop)]
    assert LETTERS.decode(rows[0].tokens) == rows[0].text + stop
    assert rows[1].text == whole[1].text.split(stop)[0]
    pieces = list(generation.stream(["once"], 30, sampling=DRAWN, seed=3, stop=stop))
    assert "".join(p.text for p in pieces) == rows[0].text
    held = [p.text for p in pieces if p.reason is None]
    assert len(held) == len(rows[0].tokens) - 1


def test_what_begins_like_a_stop_string_comes_when_it_is_none(model) -> None:
    generation = model.generation(tokenizer=LETTERS)
    text = generation.generate(["once"], 20, sampling=DRAWN, seed=3)[0].text
    never = text[4:6] + "#"
    pieces = list(generation.stream(["once"], 20, sampling=DRAWN, seed=3, stop=never))
    assert pieces[4].text == "" and "".join(p.text for p in pieces) == text
    last = text[-1] + "#"  # the end comes though it may have been a beginning
    row = generation.generate(["once"], 20, sampling=DRAWN, seed=3, stop=last)[0]
    assert row.text == text and row.reason == "length"


def test_text_of_many_bytes_comes_whole(model) -> None:
    pytest.importorskip("tokenizers", reason="pip install -e '.[text]'")
    tokenizer = Tokenizer.train(["é日🙂"], vocabulary=256 + 1, special=["<eos>"])
    wide = Decoder(DecoderConfig(vocabulary=len(tokenizer), width=16, layers=1, heads=2))
    generation = wide.generation(tokenizer=tokenizer)
    smile = tokenizer.encode("🙂é")
    steps = itertools.count()

    def forced(ids, *rest):
        n, logits = next(steps), np.full((1, len(tokenizer)), -9.0, "float32")
        logits[0, smile[n]] = 9.0
        return logits, run(ids, *rest)[1]

    run, generation.run = generation.run, forced
    pieces = [p.text for p in generation.stream("x", len(smile))]
    assert pieces == ["", "", "", "🙂", "", "é"]


def test_a_row_ends_by_a_function_by_time_and_by_stop(generation) -> None:
    rows = generation.generate(PROMPTS, 50, until=lambda r: len(r.tokens) == len(r.prompt) + 1)
    assert [(len(r.tokens), r.reason) for r in rows] == [(len(p) + 1, "until") for p in PROMPTS]
    assert [
        (len(r.tokens), r.reason) for r in generation.generate(PROMPTS, 50, max_seconds=0.0)
    ] == [(1, "time")] * 4
    pieces = []
    for piece in generation.stream([[1, 2]], 100):
        pieces.append(piece)
        if len(pieces) == 5:
            threading.Thread(target=generation.stop).start()
        if len(pieces) > 5:
            assert piece.reason in (None, "stopped")
    assert pieces[-1].reason == "stopped"
    assert generation.generate([[1, 2]], 3)[0].reason == "length"  # only what was running


def test_an_interrupted_generation_leaves_the_next_one_whole(generation) -> None:
    wanted = generation.generate(PROMPTS, 20, sampling=DRAWN)

    def interrupt(row):
        if len(row.tokens) == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generation.generate(PROMPTS, 20, sampling=DRAWN, until=interrupt)
    assert generation.generate(PROMPTS, 20, sampling=DRAWN) == wanted
    begun = generation.stream(PROMPTS, 20)
    next(begun), next(begun)
    begun.close()
    assert generation.generate(PROMPTS, 20, sampling=DRAWN) == wanted


# -- weights ---------------------------------------------------------------------------------------


def test_a_generation_reads_the_weights_when_it_begins() -> None:
    model = Decoder(DecoderConfig(vocabulary=7, width=16, layers=1, heads=2))
    generation = model.generation()
    trainer = gw.Trainer(model.graph, model.loss, gw.optim.Adam(0.02))
    rows = np.tile(np.arange(7), (8, 3))
    generation.generate([[0]], 3)
    for _ in range(40):
        trainer.step({"ids": rows, "labels": rows})
    begun = generation.stream([[2]], 6)
    found = [next(begun).token]
    model.graph.values["head"] = np.zeros((7, 16))
    found += [piece.token for piece in begun]
    assert found == [3, 4, 5, 6, 0, 1]  # those of the start, to the end
    assert generation.generate([[2]], 3)[0].tokens == [0, 0, 0]
    assert not any("cache" in name for name in model.graph.values)


def test_a_graph_that_was_saved_generates_alone(model, generation, tmp_path) -> None:
    wanted = generation.generate(PROMPTS, 8)
    generation.graph.save(tmp_path / "decoder.gw")
    again = Generation(gw.load(tmp_path / "decoder.gw"))
    assert again.generate(PROMPTS, 8) == wanted


def test_errors_say_what_is_wrong_before_anything_runs(model) -> None:
    generation = model.generation(tokenizer=LETTERS)
    for prompts, n, more, what in (
        ([], 5, {}, "there is no prompt"),
        ([[1], []], 5, {}, "prompt 1 is empty"),
        ("", 5, {}, "prompt 0 is empty"),
        ([[1, 99]], 5, {}, "token 99 of prompt 0 is not in the vocabulary"),
        ([[-1]], 5, {}, "token -1 of prompt 0"),
        ([5], 5, {}, "prompt 0 is 5"),
        ([[1.5]], 5, {}, r"prompt 0 is \[1.5\]"),
        ([[1], [[1], [2, 3]]], 5, {}, "prompt 1 is"),
        ([Completion([1], [99])], 5, {}, "token 99 of prompt 0"),
        ([[1] * 100], 29, {}, "100 tokens and 29 more exceed the context"),
        ([[1]], 0, {}, "0 tokens cannot be generated"),
        ([[1]], 5, {"stop": ""}, "are no stops"),
        ([[1]], 5, {"seed": [1, 2]}, "are no seeds of 1 prompts"),
        ([[1]], 5, {"sampling": [3]}, "3 is no sampling strategy"),
        ([[1]], 5, {"group": 0}, "0 rows are no group"),
        ([[1]], 5, {"group": 3, "seed": [1]}, "are no seeds of 1 prompts of 3 rows"),
        ([Completion([1], [2])], 5, {"group": 2}, "prompt 0 is a completion, which is one row"),
    ):
        for begin in (generation.generate, generation.stream):
            with pytest.raises((FeedError, GraphError), match=what):
                begin(prompts, n, **more)
    with pytest.raises(FeedError, match="is text, and there is no tokenizer"):
        model.generation().generate("hello")
    with pytest.raises(GraphError, match="stop strings need a tokenizer"):
        model.generation().generate([[1]], stop="x")
    with pytest.raises(GraphError, match="it has no ids, position, last, past"):
        Generation(gw.Graph())
    assert len(generation.session.plan_cache) == 0


def test_logits_that_are_nan_are_told(model) -> None:
    broken = Decoder(CONFIG)
    broken.graph.values["head"] = np.full((37, 32), np.nan)
    with pytest.raises(GraphError, match="the largest logit of a row is nan"):
        broken.generation().generate([[1]], 3)


def test_a_completion_as_a_prompt_is_not_changed(generation) -> None:
    row = Completion([1, 2], [3], seed=8)
    found = generation.generate(row, 2)[0]
    assert found.prompt == [1, 2] and found.tokens[0] == 3 and len(found.tokens) == 3
    assert row.tokens == [3] and found.seed == 8


def test_a_completion_that_is_over_stays_as_it_is(model, generation) -> None:
    whole = generation.generate(PROMPTS, 30)
    eos = next(t for t in whole[0].tokens if t not in whole[2].tokens)
    ending = model.generation(eos=eos)
    begun = ending.generate(PROMPTS, 20)
    again = ending.generate(begun, 10)
    assert again == ending.generate(PROMPTS, 30) and again[0] == begun[0]
    assert ending.generate(again[0], 5) == [begun[0]]


def test_rows_feed_other_placeholders_of_the_graph() -> None:
    """A row's number is a token whose logit is raised: it repeats that, whatever the others do."""
    graph = loud(CONFIG).generation().graph
    with graph:
        token = graph.placeholder("token", ("B",), "int64")
        for name, at in (("logits", token), ("all_logits", token[:, None])):
            graph[name].rename(f"{name}_before")
            gw.add(graph[f"{name}_before"], 1e3 * gw.one_hot(at, 37), name=name)
    generation = Generation(graph)
    for draft in (None, Draft(loud(CONFIG).generation(), 2)):
        for tokens in ([7, 3], np.array([1, 2])):
            rows = generation.generate([[5], [9, 2]], 3, feeds={"token": tokens}, draft=draft)
            assert [row.tokens for row in rows] == [[int(n)] * 3 for n in tokens]
    for feeds, match in (
        ({}, "'token'"),
        ({"token": [1]}, r"token is given as \(1,\)"),
        ({"token": [1, 2], "ids": [1, 2]}, "rows feed nothing to 'ids'"),
    ):
        with pytest.raises(FeedError, match=match):
            generation.generate([[5], [9, 2]], 3, feeds=feeds)
