"""What a decoder makes of a text, against transformers, autograd and finite differences."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GraphError
from gradwright.models import (
    CharTokenizer,
    Decoder,
    DecoderConfig,
    Greedy,
    Interpretation,
    RopeScaling,
    Temperature,
    TopK,
)
from tests.models.theirs import loaded, model_of, saved, torch_of

TEXT = [5, 9, 2, 33, 17, 9, 30, 11]
CONFIG = DecoderConfig(vocabulary=11, width=16, layers=2, heads=4, kv_heads=2, context=32)


def lively(config: DecoderConfig = CONFIG, **more) -> Decoder:
    """Return a decoder with weights so large that tokens differ."""
    rng = np.random.default_rng(3)
    values = {
        name: (rng.standard_normal(shape) * 0.4 + (len(shape) == 1)).astype("f")
        for name, shape in config.weights()
    }
    return Decoder(config, values=values, **more)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "qwen3", "mistral"])
def test_it_sees_what_transformers_sees(kind, tmp_path):
    torch = torch_of()
    folder = saved(model_of(kind), tmp_path / "theirs")
    theirs, look = loaded(folder), Interpretation(gw.open(folder))
    embedded = theirs.get_input_embeddings()(torch.tensor([TEXT])).detach().requires_grad_()
    out = theirs(inputs_embeds=embedded, output_attentions=True, use_cache=True)
    for layer, weights in enumerate(out.attentions):
        ours, kept = look.attends(TEXT, layer), out.past_key_values.layers[layer]
        n = kept.keys.shape[2]  # theirs keep no more than a window
        for mine, their in (
            (ours.weights, weights),
            (ours.keys[:, -n:], kept.keys),
            (ours.values[:, -n:], kept.values),
        ):
            np.testing.assert_allclose(mine, their[0].detach().numpy(), rtol=1e-4, atol=1e-5)
    sure = torch.log_softmax(out.logits[0].double(), -1)
    wanted = [float(sure[t, token].exp().detach()) for t, token in enumerate(TEXT[1:])]
    score = look.score(TEXT)
    np.testing.assert_allclose([t.probability for t in score.tokens[1:]], wanted, rtol=1e-3)
    (dx,) = torch.autograd.grad(out.logits[0, -1, 7], embedded)
    found = look.attributions(TEXT, 7)
    expected = (dx * embedded)[0].sum(-1).detach().numpy()
    np.testing.assert_allclose(found.scores, expected, rtol=1e-3, atol=1e-4 * abs(expected).max())
    assert found.chosen.logit == pytest.approx(float(out.logits[0, -1, 7].detach()), rel=1e-4)


def test_attributions_are_slopes_along_embeddings():
    model = lively()
    look, text = Interpretation(model), [1, 4, 7]
    found, step = look.attributions(text, 3), 1e-2

    def logit(token: int, factor: float) -> float:
        values = {n: np.array(model.graph.values[n]) for n, _ in CONFIG.weights()}
        values["embed"][token] *= factor
        return Interpretation(Decoder(CONFIG, values=values)).attributions(text, 3).chosen.logit

    for token, score in zip(text, found.scores, strict=True):
        slope = (logit(token, 1 + step) - logit(token, 1 - step)) / (2 * step)
        assert score == pytest.approx(slope, rel=2e-2, abs=2e-3)
    np.testing.assert_allclose(found.shares, abs(found.scores) / abs(found.scores).sum(), rtol=1e-6)
    best = look.attributions(text)
    assert best.chosen.token == look.score([*text, 0]).tokens[-1].choices[0].token


def test_a_score_is_that_of_the_text():
    model = lively(tokenizer=CharTokenizer("abcdefghijk"))
    score = Interpretation(model, choices=4).score("abacab")
    logits = model.graph.output(model.examples([[0, 1, 0, 2, 0, 1]]), "logits", "loss")
    y = logits["logits"][0].astype("f8")
    p = np.exp(y) / np.exp(y).sum(-1, keepdims=True)
    assert [t.text for t in score.tokens] == list("abacab")
    first, *rest = score.tokens
    assert (first.probability, first.rank, first.choices) == (None, None, ())
    for t, token in enumerate(rest):
        assert token.probability == pytest.approx(p[t, token.token], rel=1e-4)
        order = np.argsort(-p[t])
        assert [c.token for c in token.choices] == order[:4].tolist()
        assert token.rank == order.tolist().index(token.token)
    assert score.log_likelihood == pytest.approx(-5 * logits["loss"], rel=1e-4)
    assert score.perplexity == pytest.approx(math.exp(logits["loss"]), rel=1e-4)
    assert "'b'" in str(score) and "perplexity" in score._repr_html_()
    assert math.isnan(Interpretation(model).score("a").perplexity)


BY_LENGTH = RopeScaling("dynamic", factor=2.0, original_length=8)


@pytest.mark.parametrize(
    "more", [{}, {"positions": "learned"}, {"window": 4}, {"rope_scaling": BY_LENGTH}]
)
def test_a_text_is_read_in_parts(more):
    look = Interpretation(lively(replace(CONFIG, **more)))
    text = [k * 7 % 11 for k in range(30)]
    (whole,), parts = look.readings(text), list(look.readings(text, 8))
    assert [len(part) for part in parts] == [9, 8, 8, 5]
    read = [token for part in parts for token in part]
    assert [(t.token, t.rank) for t in read] == [(t.token, t.rank) for t in whole]
    for mine, expected in zip(read[1:], whole[1:], strict=True):
        assert mine.probability == pytest.approx(expected.probability, rel=1e-4)


def test_a_stream_is_the_generation_s_with_what_was_thought():
    model = lively(tokenizer=CharTokenizer("abcdefghijk"))
    look = Interpretation(model)
    rules = [Temperature(0.7), TopK(4)]
    said = list(look.stream("ab", 8, sampling=rules, seed=5))
    (row,) = model.generate("ab", 8, sampling=rules, seed=5)
    assert [t.token for t in said] == row.tokens
    assert "".join(t.text for t in said) == row.text
    again = look.score([0, 1, *row.tokens]).tokens[2:]
    for one, other in zip(said, again, strict=True):
        assert one.probability == pytest.approx(other.probability, rel=1e-3)
        assert one.rank == other.rank
    assert all(t.rank == 0 for t in look.stream("ab", 4, sampling=Greedy()))


def test_weights_are_those_of_now_and_the_graph_stays():
    model = lively()
    look, nodes = Interpretation(model), len(model.graph.nodes)
    before = look.score([5, 3]).tokens[1].probability
    model.graph.values["norm"] = 2 * np.array(model.graph.values["norm"])
    after = look.score([5, 3]).tokens[1].probability
    assert before != after and len(model.graph.nodes) == nodes


@pytest.mark.parametrize("method", [gw.adapters.Prefix(5), gw.adapters.Prompt(5)])
def test_what_stands_before_a_text_is_read_first(method):
    model = lively()
    adapted = gw.adapters.add(model, method)
    rng = np.random.default_rng(0)
    state = {n: rng.standard_normal(v.shape, "f4") for n, v in adapted.state().items()}
    adapted.load_state(state)
    tokens = [5, 3, 8, 1, 2]
    logits = model.graph.output({"ids": [tokens]}, model.logits)["logits"][0].astype("f8")
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = [p[t, token] for t, token in enumerate(tokens[1:])]
    look = Interpretation(model)
    for at_once in (2, 256):
        parts = list(look.readings(tokens, at_once))
        assert all(parts)
        found = [token.probability for part in parts for token in part]
        assert found[0] is None
        np.testing.assert_allclose(found[1:], expected, rtol=1e-4)


def test_packed_weights_are_looked_through():
    config = DecoderConfig(vocabulary=40, width=32, layers=1, heads=2, context=32)
    whole = lively(config)
    packed = whole.quantized("q8_0", {}).model
    one, other = Interpretation(whole), Interpretation(packed)
    np.testing.assert_allclose(one.attention(TEXT, 0), other.attention(TEXT, 0), atol=0.02)
    exact = one.attributions(TEXT, 1).scores
    found = other.attributions(TEXT, 1).scores
    np.testing.assert_allclose(found, exact, atol=0.1 * abs(exact).max())


def test_what_makes_no_sense_is_refused():
    look = Interpretation(lively())
    with pytest.raises(GraphError, match="no layer 2"):
        look.attention([1], 2)
    with pytest.raises(FeedError, match="empty"):
        look.score([])
    with pytest.raises(FeedError, match="33 tokens"):
        look.score([1] * 33)
    with pytest.raises(FeedError, match="not in the vocabulary"):
        look.attributions([1], 11)
    with pytest.raises(FeedError, match="no tokenizer"):
        look.score("text")
    with pytest.raises(GraphError, match="no decoder"):
        Interpretation(gw.Graph())
