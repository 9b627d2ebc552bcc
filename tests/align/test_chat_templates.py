"""Chat templates beside transformers: the same text, the same tokens, the same assistant's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import ChatTemplate, Codec
from gradwright.align.data.codec import Encoder
from gradwright.align.data.columns import Row
from gradwright.align.data.template import template_of
from tests.align.chat_templates import CHATML, STYLES
from tests.align.texts import conversation, theirs, tokenizer

TOOLS = [{"name": "add", "description": "adds <b>two</b> & more", "parameters": {"x": [1, None]}}]
VARIABLES = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"}
USER = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("last", ["user", "assistant"])
def test_text_tokens_and_mask_are_those_of_transformers(style: str, last: str) -> None:
    pytest.importorskip("transformers")
    other, rng = theirs(STYLES[style]), np.random.default_rng(len(style))
    template = ChatTemplate(STYLES[style], VARIABLES)
    encoder = Encoder(Codec(template=STYLES[style], assistant_only_loss=True), other)
    mine = Encoder(Codec(template=STYLES[style], assistant_only_loss=True), tokenizer())
    for turns in range(1, 6):
        messages = conversation(rng, turns, last)
        given = {"tools": TOOLS if turns % 2 else None, "add_generation_prompt": last == "user"}
        ours = template.render(messages, **given)
        assert ours.text == other.apply_chat_template(messages, tokenize=False, **given)
        wanted = other.apply_chat_template(
            messages, return_dict=True, return_assistant_tokens_mask=True, tools=given["tools"]
        )
        row = Row(
            0, {"messages": messages}, given["tools"], {"bos_token": "<bos>", "eos_token": "<eos>"}
        )
        for found in (encoder.alone(row, "messages"), mine.alone(row, "messages")):
            assert found.tokens == wanted["input_ids"]
            assert [int(c) for c in found.counts] == wanted["assistant_masks"]
    assert sum(wanted["assistant_masks"]) > 3


def test_template_and_special_tokens_are_those_of_a_folder(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    other = theirs(CHATML)
    other.save_pretrained(tmp_path)
    from gradwright.models.huggingface.tokenizer import PretrainedTokenizer

    found = PretrainedTokenizer(tmp_path / "tokenizer.json")
    again = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    assert found.chat_template == again.chat_template == CHATML
    assert found.special_tokens_map.items() <= again.special_tokens_map.items()
    (tmp_path / "chat_template.jinja").unlink()
    config = tmp_path / "tokenizer_config.json"
    told = [{"name": "tool", "template": "x"}, {"name": "default", "template": CHATML}]
    config.write_text(json.dumps({"eos_token": {"content": "<eos>"}, "chat_template": told}))
    older = PretrainedTokenizer(tmp_path / "tokenizer.json")
    assert older.chat_template == CHATML
    assert template_of(older).variables["eos_token"] == "<eos>"


def test_template_of_a_gguf_file() -> None:
    keys = {"model": "gpt2", "pre": "gpt-2", "tokens": ["a", "b", "<e>"], "merges": []}
    keys |= {"token_type": np.array([1, 1, 3], np.int32), "eos_token_id": 2}
    held = {f"tokenizer.ggml.{key}": value for key, value in keys.items()}
    held |= {"tokenizer.chat_template": "a{{ eos_token }}"}
    found = gw.models.tokenizer_from_gguf(held)
    assert found.special_tokens_map == {"eos_token": "<e>"}
    assert template_of(found).render(USER).text == "a<e>"
    data = [{"messages": USER}]
    assert gw.align.examples(data, "text", found).rows[0].tokens == [0, 2]


NS = "{% set ns = namespace(x=['a'], n=9) %}"
MACRO = "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}"
DOUBLE = (
    "{% for i in range(50) %}{% set ns.x = (ns.x, ns.x) %}{% set ns.y = (ns.y, ns.y) %}{% endfor %}"
)
TUPLES = "{% set ns = namespace(x=1, y=1) %}" + DOUBLE
LISTS = TUPLES.replace("(ns.x, ns.x)", "[ns.x, ns.x]").replace("(ns.y, ns.y)", "[ns.y, ns.y]")
HOSTILE = {
    "repeats": "{{ 'a' * 10**10 }}",
    "power": "{{ (10**10000)**10000 }}",
    "digits": NS + "{% for i in range(99) %}{% set ns.n = ns.n * ns.n %}{% endfor %}",
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "macros": MACRO + "{{ f(60) }}",
    "doubles": NS + "{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "blocks": "{% block a %}{% set x = self.a() %}{% set x = self.a() %}{% endblock %}",
    "compares": LISTS + "{{ ns.x == ns.y }}",
    "views": LISTS + "{{ {'a': ns.x}.items() == {'a': ns.y}.items() }}",
    "hashes": TUPLES + "{{ {ns.x: 1} }}",
    "looks_up": TUPLES + "{{ {'a': 1}[ns.x] }}",
    "tests": LISTS + "{{ ns.x is eq(ns.y) }}",
    "refuses": LISTS + "{{ raise_exception(ns.x) }}",
    "joins": "{{ ('b' * 10000).join(['a'] * 90000) }}",
    "joins_filter": "{{ range(90000) | join(d='b' * 10000) }}",
    "translates": "{{ ('a' * 100000).translate({97: 'b' * 100000}) }}",
    "fields": "{{ ('{0}' * 100000).format('b' * 100000) }}",
    "keys": "{{ ('%(a)s' * 100000) % {'a': 'b' * 100000} }}",
    "indents": "{{ ('\n' * 100000) | indent('b' * 100000) }}",
    "json": "{% set ns = namespace(x=range(90000) | list) %}{% for i in range(300) %}"
    "{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | tojson(indent=600) }}",
    "replaces": "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}",
    "method": "{{ 'a'.ljust(10**10) }}",
    "bytes": "{{ (1).to_bytes(10**10) }}",
    "filter": "{{ 'a' | center(10**10) }}",
    "format": "{{ '%99999999d' % 3 }}",
    "format_filter": "{{ '%99999999d' | format(3) }}",
    "format_method": "{{ '{:99999999}'.format(3) }}",
    "format_nested": "{{ '{:{}}'.format(3, 10**10) }}",
    "format_told": "{{ '{:{}{}}'.format(3, 9999, 9999) }}",
    "format_often": "{{ ('{0:9999}' * 100000).format(3) }}",
    "date": "{{ strftime_now('%99999999Y') }}",
    "captured": "{% set x %}{% for i in range(99999) %}{{ 'a' * 99999 }}{% endfor %}{% endset %}",
    "slices": NS + "{% set x = 'a' * 4000000 %}" + "{% set y = x[1:] %}" * 10,
    "class": "{{ ''.__class__.__mro__ }}",
    "globals": "{{ raise_exception.__globals__.os }}",
    "context": "{{ self.__init__.__globals__ }}",
    "changes": "{{ messages.append(1) }}",
    "namespace": "{% set ns = namespace(__class__=1) %}",
    "includes": "{% include '/etc/passwd' %}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_template_cannot_reach_out_or_take_for_ever(name: str, monkeypatch) -> None:
    for limit, value in {"SECONDS": 0.1, "ELEMENTS": 1 << 14}.items():
        monkeypatch.setattr(f"gradwright.align.data.metering.{limit}", value)
    with pytest.raises(gw.errors.FeedError, match="does not take the messages"):
        ChatTemplate(HOSTILE[name]).render(USER)


@pytest.mark.parametrize(
    "source", ["{{", "{% for %}", "{{ x | nothing }}", "{{ x | random }}", "{{ " + "(" * 5000]
)
def test_source_that_is_no_template_is_refused(source: str) -> None:
    with pytest.raises(gw.errors.FeedError, match="no template of jinja2"):
        ChatTemplate(source)


def test_what_a_template_refuses_is_told_by_row() -> None:
    two = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    with pytest.raises(gw.errors.FeedError) as raised:
        gw.align.examples(
            {"messages": [USER, two]}, template=STYLES["brackets"], tokenizer=tokenizer()
        )
    (fact,) = raised.value.facts
    assert fact.startswith("row 1, 'messages'") and "Roles must alternate: a" in fact


def test_objects_reach_a_template_only_by_name() -> None:
    class Image:
        def save(self) -> None:
            raise AssertionError

    content = [{"type": "image", "image": Image()}, {"type": "text", "text": "what?"}]
    source = "{{ messages[0].content[0].image }} {{ messages[0].content[0].image.save is defined }}"
    said = ChatTemplate(source).render([{"role": "user", "content": content}])
    assert said.text == "<Image> False"
