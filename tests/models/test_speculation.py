"""Speculative decoding and prompts in chunks: the same tokens, by other ways."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GraphError
from gradwright.models import (
    Decoder,
    DecoderConfig,
    Draft,
    Generation,
    Greedy,
    NoRepeatNgram,
    RepetitionPenalty,
    RopeScaling,
    Temperature,
    TopK,
    TopP,
    probabilities,
)
from gradwright.models.generation import ALL
from tests.models.test_generation import loud

CONFIG = DecoderConfig(
    vocabulary=23, width=32, layers=2, heads=4, kv_heads=2, inner=48, context=128, eps=1e-5
)
PROMPTS = [[5, 9, 2], [7], list(range(20)), [20, 1, 1, 4, 9]]
DRAWN = [Temperature(1.1), TopK(15), TopP(0.95)]
WAYS = {
    "greedy": Greedy(),
    "drawn": DRAWN,
    "plain": [],
    "penalised": [Greedy(), RepetitionPenalty(1.3), NoRepeatNgram(3)],
}


@pytest.fixture(scope="module")
def model() -> Decoder:
    return loud(CONFIG)


@pytest.fixture(scope="module")
def large(model) -> Generation:
    return model.generation()


@pytest.fixture(scope="module")
def near(model) -> Generation:
    """A draft that is right now and then: the model itself, a little disturbed."""
    small, rng = Decoder(CONFIG), np.random.default_rng(5)
    for v in model.graph.variables:
        held = np.asarray(model.graph.values[v.name])
        small.graph.values[v.name] = held + 0.004 * rng.standard_normal(held.shape)
    return small.generation()


@pytest.fixture(scope="module")
def far() -> Generation:
    """A draft that has nothing to do with the model."""
    return loud(DecoderConfig(vocabulary=23, width=16, layers=1, heads=2), seed=9).generation()


# -- drafts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [1, 4])
@pytest.mark.parametrize("way", WAYS)
def test_a_draft_changes_no_token(large, near, far, way, tokens) -> None:
    wanted = large.generate(PROMPTS, 30, sampling=WAYS[way], seed=11)
    for small in (near, far, large):
        draft = Draft(small, tokens)
        assert large.generate(PROMPTS, 30, sampling=WAYS[way], seed=11, draft=draft) == wanted
        assert draft.guessed >= draft.held >= 0 and f"{draft.held:,} of" in repr(draft)
        if small is large:
            assert draft.share == 1
    assert Draft(far).share == 0


def test_guesses_of_a_near_model_hold_and_save_runs(model, near, far) -> None:
    shares = {}
    for small in (near, far):
        large, draft = model.generation(), Draft(small, 4)
        runs = []
        run = large.fed(ALL, ())
        large._runs[(ALL,)] = lambda *feeds, runs=runs, run=run: runs.append(1) or run(*feeds)
        large.generate(PROMPTS[:1], 60, draft=draft)
        shares[small] = draft.share
        assert len(runs) + draft.held + 1 == 60  # each run gives a token besides those that held
    assert shares[near] > 0.5 > 0.3 > shares[far]


def test_what_is_drawn_with_a_draft_has_the_models_distribution(model, near) -> None:
    """The first two tokens of many rows, beside the probabilities of all pairs (chi squared)."""
    large, n, top = model.generation(), 3000, [Temperature(1.2), TopK(4)]
    found = large.generate([[5, 9]] * n, 3, sampling=top, draft=Draft(near, 2))
    with gw.Session(model.graph) as session:
        first = probabilities(session.run(model.logits, {"ids": [[5, 9]]})[0, -1], top)
        likely = np.flatnonzero(first)
        after = session.run(model.logits, {"ids": [[5, 9, t] for t in likely]})[:, -1]
    pairs = {
        (int(t), int(u)): first[t] * p
        for t, logits in zip(likely, after, strict=True)
        for u, p in enumerate(probabilities(logits, top))
        if p
    }
    seen = dict.fromkeys(pairs, 0)
    for row in found:
        seen[tuple(row.tokens[:2])] += 1  # and no other pair
    expected = np.array([n * p for p in pairs.values()])
    chi = float((((np.array([*seen.values()]) - expected) ** 2) / expected).sum())
    assert len(pairs) == 16 and 3 < chi < 37.7  # 15 degrees: 99.9 % are below


def test_rows_end_as_they_would_alone(model, large, near) -> None:
    whole = large.generate(PROMPTS, 40, sampling=DRAWN)
    eos = next(t for t in whole[0].tokens[3:] if t not in whole[0].tokens[:3])
    ending = model.generation(eos=eos)
    wanted = ending.generate(PROMPTS, 40, sampling=DRAWN)
    assert ending.generate(PROMPTS, 40, sampling=DRAWN, draft=Draft(near)) == wanted
    assert any(row.reason == "eos" for row in wanted)
    stop = whole[1].tokens[7]
    rows = large.generate(PROMPTS, 40, sampling=DRAWN, stop=stop, draft=Draft(near))
    for row, full in zip(rows, whole, strict=True):
        n = full.tokens.index(stop) + 1 if stop in full.tokens else 40
        assert row.tokens == full.tokens[:n]
        assert row.reason == ("stop" if stop in full.tokens else "length")
    for n in (1, 2, 3):
        found = large.generate(PROMPTS, n, draft=Draft(near))
        assert found == large.generate(PROMPTS, n)
    begun = large.generate(PROMPTS, 9, sampling=DRAWN, draft=Draft(near))
    again = large.generate(begun, 31, sampling=DRAWN, draft=Draft(near))
    assert again == whole


def test_a_stream_with_a_draft_brings_each_token(large, near) -> None:
    wanted = large.generate(PROMPTS, 12)
    pieces = list(large.stream(PROMPTS, 12, draft=Draft(near)))
    for i, row in enumerate(wanted):
        assert [p.token for p in pieces if p.row == i] == row.tokens
    assert sum(p.reason == "length" for p in pieces) == 4


def test_few_plans_are_enough(model, near) -> None:
    large, small = model.generation(), near
    for n in (23, 25, 27):
        large.generate([[1, 2, 3], [4]], n, draft=Draft(small, 3))
    assert len(large.session.plan_cache) == 2


def test_drafts_that_make_no_sense(model, large, near) -> None:
    other = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2)).generation()
    with pytest.raises(GraphError, match="a draft of 9 tokens guesses for a model of 23"):
        large.generate([[1]], 3, draft=Draft(other))
    short = loud(DecoderConfig(vocabulary=23, width=8, layers=1, heads=2, context=10)).generation()
    with pytest.raises(FeedError, match="3 tokens and 9 more exceed"):
        large.generate([[1, 2, 3]], 9, draft=Draft(short))
    with pytest.raises(GraphError, match=r"Generation is no draft\n.*Draft\(smaller"):
        large.generate([[1]], 3, draft=near)
    for tokens in (0, -1, 1.5):
        with pytest.raises(GraphError, match="a draft of"):
            Draft(near, tokens)  # type: ignore[arg-type]


def test_a_graph_without_all_logits_says_so(model, near) -> None:
    bare = gw.models.generation_graph(CONFIG)
    bare.rename("all_logits", "something")
    with pytest.raises(GraphError, match="does not tell the logits of all positions"):
        Generation(bare).generate([[1]], 3, draft=Draft(near))


# -- chunks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 16, 500])
def test_prompts_in_chunks_give_the_same_tokens(large, near, chunk) -> None:
    rng = np.random.default_rng(0)
    prompts = [*PROMPTS, rng.integers(0, 23, 60).tolist(), rng.integers(0, 23, 33).tolist()]
    wanted = large.generate(prompts, 12, sampling=DRAWN)
    assert large.generate(prompts, 12, sampling=DRAWN, prefill_chunk=chunk) == wanted
    found = large.generate(prompts, 12, sampling=DRAWN, prefill_chunk=chunk, draft=Draft(near))
    assert found == wanted


def test_factors_of_all_lengths_leave_prompts_in_chunks() -> None:
    """As a GGUF file tells Llama 3.1's: a factor for each pair, however long a row is."""
    each = (1.0, 1.5, 4.0, 8.0)
    scaling = RopeScaling("longrope", 1.0, 128, 1.0, short_factor=each, long_factor=each)
    generation, shapes = loud(replace(CONFIG, rope_scaling=scaling)).generation(), []
    run, prompts = generation.run, [list(range(20)), [1]]
    wanted = generation.generate(prompts, 3)
    generation.run = lambda ids, *rest: shapes.append(ids.shape) or run(ids, *rest)
    assert generation.generate(prompts, 3, prefill_chunk=8) == wanted
    assert shapes == [(2, 8)] * 3 + [(2, 1)] * 2


def test_chunks_bound_what_is_read_at_once(model) -> None:
    generation, shapes = model.generation(), []
    run = generation.run
    generation.run = lambda ids, *rest: shapes.append(ids.shape) or run(ids, *rest)
    generation.generate([list(range(20)), [1]], 3, prefill_chunk=8)
    assert shapes == [(2, 8)] * 3 + [(2, 1)] * 2
    for chunk in (0, -1, 2.5):
        with pytest.raises(GraphError, match="are no chunk"):
            generation.generate([[1]], 3, prefill_chunk=chunk)  # type: ignore[arg-type]


KINDS = {
    "rows that are read anew": {
        "rope_scaling": RopeScaling(
            "longrope", 4.0, 9, short_factor=(1.0,) * 4, long_factor=(2.0, 3.0, 4.0, 5.0)
        )
    },
    "speeds by the length of a row": {"rope_scaling": RopeScaling("dynamic", 4.0, 9)},
    "learned positions": {"positions": "learned", "norm": "layer", "gated": False},
    "windows": {"window": 5, "full_layers": (1,)},
    "experts": {"experts": 4},
}


@pytest.mark.parametrize("kind", KINDS)
def test_other_kinds_of_decoders_do_not_feel_drafts_and_chunks(kind) -> None:
    """To the end of their context, and where a row gets too long for how it was read."""
    config = DecoderConfig(
        vocabulary=23, width=32, layers=2, heads=4, kv_heads=2, inner=48, context=40, **KINDS[kind]
    )
    large, small = loud(config).generation(), loud(config, seed=4).generation()
    prompts = [[5, 9, 2], [7], list(range(12)), [20, 1, 1, 4, 9, 3, 2]]
    wanted = large.generate(prompts, 28)
    assert [large.generate([p], 28)[0].tokens for p in prompts] == [row.tokens for row in wanted]
    assert len({tuple(row.tokens) for row in wanted}) == 4
    for draft in (Draft(large, 3), Draft(small, 3)):
        assert large.generate(prompts, 28, draft=draft) == wanted
    sizes = []
    run = large.run
    large.run = lambda ids, *rest: sizes.append(ids.shape[1]) or run(ids, *rest)
    assert large.generate(prompts, 28, prefill_chunk=4) == wanted
    assert max(sizes) == 4
    large.run = run
    assert large.generate(prompts, 28, prefill_chunk=5, draft=Draft(large, 3)) == wanted
