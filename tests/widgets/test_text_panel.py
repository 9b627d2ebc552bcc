"""The text of a language model without a browser: written, scored, looked into, refused."""

from __future__ import annotations

import re
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GradwrightError, GraphError
from gradwright.models import (
    CharTokenizer,
    Decoder,
    DecoderConfig,
    Interpretation,
    Temperature,
    generation_graph,
)
from gradwright_widgets import TextPanel
from gradwright_widgets.drawing.grouping import groups_of
from gradwright_widgets.panels.text.panel import WritingPanel
from tests.support.panels import sent, wait_for

LETTERS = "abcdefgh <&"


def decoder(tokenizer: bool = True) -> Decoder:
    config = DecoderConfig(vocabulary=11, width=16, layers=2, heads=4, kv_heads=2, context=40)
    rng = np.random.default_rng(3)
    values = {
        name: (rng.standard_normal(shape) * 0.4 + (len(shape) == 1)).astype("f")
        for name, shape in config.weights()
    }
    made = CharTokenizer(LETTERS) if tokenizer else None
    return Decoder(config, name="small", values=values, tokenizer=made)


def told(panel: TextPanel) -> dict[str, dict]:
    return {c["kind"]: c for c, _ in panel.part(WritingPanel).new_view_messages()}


def test_a_text_is_written_as_the_model_writes_it(monkeypatch):
    model = decoder()
    panel = TextPanel(model, text_length=12, text_temperature=0.9, text_seed=4)
    messages = sent(panel, monkeypatch)
    new = panel.write("abc", wait=True)
    (row,) = model.generate("abc", 12, sampling=Temperature(0.9), seed=4)
    assert [t.token for t in new] == row.tokens
    assert (panel.text_state, panel.text_prompt, panel.message) == ("done", "abc", "")
    facts = told(panel)["text.tokens"]
    assert (facts["prompt"], facts["wanted"], len(facts["rows"])) == (3, 12, 15)
    assert "".join(r["text"] for r in facts["rows"]) == "abc" + row.text
    assert facts["rows"][0]["p"] is None and 0 < facts["rows"][3]["p"] <= 1
    prompt = Interpretation(model).score("abc").tokens
    assert [r["p"] for r in facts["rows"][1:3]] == pytest.approx(
        [t.probability for t in prompt[1:]]
    )
    assert len(facts["rows"][3]["choices"]) == 10
    shown: list = []
    for content, _ in messages:
        if content["kind"] == "text.tokens":
            assert content["start"] <= len(shown)
            stop = content["start"] + len(content["rows"])
            shown[content["start"] : stop] = content["rows"]
    assert shown == facts["rows"], "what came in parts is the whole"


def test_greedy_and_short_by_the_context():
    panel = TextPanel(decoder(), text_temperature=0)
    assert all(t.rank == 0 for t in panel.write([1, 2, 3], wait=True))
    assert len(panel.readings) == 40, "the context is full"
    with pytest.raises(GraphError, match="fills the context"):
        panel.write([1] * 40)


def test_a_text_is_scored():
    model = decoder()
    panel = TextPanel(model)
    score = panel.score("abba")
    assert score.perplexity == pytest.approx(Interpretation(model).score("abba").perplexity)
    facts = told(panel)["text.tokens"]
    assert facts["scored"] and facts["perplexity"] == pytest.approx(score.perplexity)
    assert facts["likelihood"] == pytest.approx(score.log_likelihood)
    panel.text_prompt, panel.text_mode = "cab", "score"
    panel._receive(panel, {"kind": "text.start", "id": 1}, [])
    wait_for(lambda: panel.text_state == "done")
    assert [t.text for t in panel.readings] == ["c", "a", "b"]
    panel.score("a<&")
    assert "&lt;" in panel.to_table() and "<&" not in panel.to_table()


def test_a_token_is_looked_into():
    model = decoder()
    panel, look = TextPanel(model), Interpretation(model)
    panel.score("abcab")
    weights = panel.look_at(3, layer=1, head=2)
    np.testing.assert_allclose(weights, look.attention("abca", 1)[:, -1], rtol=1e-5)
    (content, (data, cache)) = panel.part(WritingPanel)._looks["text.attention"]
    assert (content["at"], content["layer"], content["head"], content["rows"]) == (3, 1, 2, 4)
    shown = np.frombuffer(data, "f").reshape(4, 4)
    np.testing.assert_allclose(shown, look.attention("abca", 1)[2], rtol=1e-5)
    assert (panel.text_chosen, panel.text_layer, panel.text_head) == (3, 1, 2)
    keys, values = np.frombuffer(cache, "f").reshape(2, content["kv_heads"], 4)
    kept = look.attends("abca", 1)
    np.testing.assert_allclose(keys, kept.keys[:, 3], rtol=1e-5)
    np.testing.assert_allclose(values, kept.values[:, 3], rtol=1e-5)
    assert content["kept"] == 2 * 2 * 4 * 4 * 4, "keys and values, heads, tokens, features, bytes"
    found = panel.why(4)
    expected = look.attributions("abca", "b")
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
    facts = told(panel)["text.why"]
    assert facts["at"] == 4 and facts["chosen"][0] == "b" and len(facts["shares"]) == 4
    panel.score("ab")
    assert set(told(panel)) == {"text.tokens"}, "what was known of another text is gone"


def test_the_stepper_computes_what_comes_at_a_token():
    model = decoder()
    panel = TextPanel(model)
    score = panel.score("abcab")
    stepper = panel.step_to(3)
    stepper.run()
    logits = stepper.value("logits")
    assert logits.shape == (1, 3, 11) and panel.text_page == "step"
    assert logits[0, -1, 0] == pytest.approx(score.tokens[3].logit, rel=1e-4)


def test_a_long_prompt_is_read_while_the_text_is_written(monkeypatch):
    model = decoder()
    panel = TextPanel(model, text_length=3)
    messages = sent(panel, monkeypatch)
    monkeypatch.setattr("gradwright_widgets.panels.text.panel.AT_ONCE", 8)
    panel.write("abcdefgh" * 4, wait=True)
    read = panel.readings
    whole = Interpretation(model).score([t.token for t in read]).tokens
    for each, expected in zip(read[1:], whole[1:], strict=True):
        assert each.probability == pytest.approx(expected.probability, rel=1e-4)
    first = next(c for c, _ in messages if c["kind"] == "text.tokens")
    assert [r["p"] for r in first["rows"]] == [None] * 32, "typed, and not yet read"


def test_it_stops_between_two_tokens(monkeypatch):
    panel = TextPanel(decoder(), text_length=30)
    part = panel.part(WritingPanel)
    gate, reached, real = threading.Event(), threading.Event(), part.interpretation.stream

    def stream(*args, **options):
        for k, token in enumerate(real(*args, **options)):
            if k == 3:
                reached.set()
                gate.wait(30)
            yield token

    monkeypatch.setattr(part.interpretation, "stream", stream)
    panel.write("ab")
    assert reached.wait(30) and panel.text_state == "running"
    with pytest.raises(GradwrightError, match="already"):
        panel.write("ab")
    panel._receive(panel, {"kind": "text.stop", "id": 1}, [])
    gate.set()
    wait_for(lambda: panel.text_state == "stopped")
    assert len(panel.readings) == 2 + 4, "what is there stays"


def test_what_makes_no_sense_is_said():
    panel = TextPanel(decoder(tokenizer=False))
    with pytest.raises(FeedError, match="no tokenizer"):
        panel.write("abc")
    panel.text_prompt = "1, 2 3"
    assert [t.token for t in panel.score().tokens] == [1, 2, 3]
    panel.text_prompt = "one"
    with pytest.raises(GraphError, match="numbers of tokens"):
        panel.write()
    for call, match in (
        (lambda: panel.look_at(3), "no token 3"),
        (lambda: panel.look_at(0, layer=2), "no layer"),
        (lambda: panel.look_at(0, head=4), "no head"),
        (lambda: panel.why(0), "before the first"),
        (lambda: panel.step_to(0), "before the first"),
    ):
        with pytest.raises(GraphError, match=match):
            call()
    with pytest.raises(TypeError, match="shows a"):
        TextPanel(None)
    with pytest.raises(GraphError, match="no decoder"):
        TextPanel(SimpleNamespace(graph=gw.Graph()))


@pytest.mark.parametrize("layers", [3, 24])
def test_the_drawing_of_a_decoder_folds_to_its_layers(layers):
    config = DecoderConfig(vocabulary=16, width=8, layers=layers, heads=2, context=32)
    for graph in (Decoder(config).graph, generation_graph(config)):
        groups = groups_of(graph)
        top = [k for k, around in enumerate(groups.parent) if around < 0]
        (run,) = (k for k in top if groups.kind[k] == 2)
        assert groups.title(run) == f"layer0 … layer{layers - 1}"
        assert groups.about(run).startswith(f"DecoderLayer · {layers} × (attention")
        titles = {groups.title(k) for k in top}
        assert "logits" in titles and not any(re.search(r"\d ops|nothing", t) for t in titles)


def test_what_stands_around_a_loss_has_names():
    config = DecoderConfig(vocabulary=16, width=8, layers=24, heads=2, context=32)
    model = Decoder(config)
    groups = groups_of(model.graph)
    for tensor in (model.loss, model.tokens):
        assert groups.title(groups.outermost(tensor.node)) == tensor.name
    assert all(groups.of(node) >= 0 for node in model.graph.nodes if node.kind == "array")


HOSTILE = (None, True, -1, 10**30, 1.5, float("nan"), "", "</script>", [], {}, [None])


def test_no_message_raises(monkeypatch):
    lost = []
    monkeypatch.setattr(threading, "excepthook", lambda args: lost.append(args.exc_value))
    panel = TextPanel(decoder(), text_length=2)
    panel.score("abc")
    for kind in ("look", "why", "step"):
        for wrong in HOSTILE:
            for facts in ({"at": wrong}, {"at": 1, "layer": wrong, "head": wrong}):
                panel._receive(panel, {"kind": f"text.{kind}", **facts}, [])
    panel._receive(panel, {"kind": "text.sync"}, [])
    panel._receive(panel, {"kind": "text.look", "at": 1, "layer": 0, "head": -1}, [])
    panel.part(WritingPanel)._look_work.join(30)
    assert not lost and len(panel.readings) == 3
    assert '"text.tokens"' in panel.to_html()
