"""Settings that are none: an error of ours that names them, and a model that is as it was."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import gradwright as gw
from gradwright import adapters
from gradwright.errors import ArchiveError, GraphError
from tests.adapters.folders import CONFIG
from tests.formats.damaged_weights import _base

ODD = [None, True, -1, 2.5, 10**30, "(", [1], ["("], [None], {"(": 1}, {"q_proj": "x"}, {"q": None}]
METHODS = {
    "LoRA": (adapters.LoRA(r=2), "q|up"),
    "AdaLoRA": (adapters.AdaLoRA(init_r=3, target_r=2, total_step=9), "q"),
    "LoKr": (adapters.LoKr(r=2), "q"),
    "IA3": (adapters.IA3(feedforward="down"), "q|down"),
    "VeRA": (adapters.VeRA(r=2), "q"),
    "Prefix": (adapters.Prefix(tokens=2), None),
    "Bottleneck": (adapters.Bottleneck(), None),
}


@pytest.mark.parametrize("name", METHODS)
def test_odd_settings_are_refused_or_mean_nothing(name, tmp_path):
    method, where = METHODS[name]
    adapters.save(adapters.add(_base(), method, where), tmp_path)
    told = json.loads((tmp_path / CONFIG).read_text())
    options = told.get("config", told)
    draw, refused = random.Random(5), 0
    for _ in range(12):
        key, odd = draw.choice(list(options)), draw.choice(ODD)
        was, options[key] = options[key], odd
        (tmp_path / CONFIG).write_text(json.dumps(told))
        options[key] = was
        model = _base()
        before = {n: a.copy() for n, a in model.graph.values.items()}
        try:
            gw.inspect(tmp_path).to_json()
            repr(gw.open(tmp_path))
            adapters.load(model, tmp_path)
        except ArchiveError:
            refused += 1
            assert not adapters.of(model) and before.keys() == dict(model.graph.values).keys()
            assert all(np.array_equal(model.graph.values[n], a) for n, a in before.items())
    assert refused


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "adapter_config.json: .*JSON"),
        ("[1]", "adapter_config.json"),
        ({"layers_to_transform": [0], "layers_pattern": "("}, "'\\(' is no regular expression"),
        ({"target_modules": "("}, "'\\(' is no regular expression"),
        ({"rank_pattern": {"(": 2}}, "'\\(' is no regular expression"),
    ],
)
def test_damaged_settings_are_told_by_what_is_wrong(text, match, tmp_path):
    adapters.save(adapters.add(_base(), adapters.LoRA(r=2), "q"), tmp_path)
    if not isinstance(text, str):
        text = json.dumps({**json.loads((tmp_path / CONFIG).read_text()), **text})
    (tmp_path / CONFIG).write_text(text)
    with pytest.raises(ArchiveError, match=match):
        adapters.load(_base(), tmp_path)


def test_a_folder_without_arrays_says_so(tmp_path):
    adapters.save(adapters.add(_base(), adapters.LoRA(r=2), "q"), tmp_path)
    (tmp_path / "adapter_model.safetensors").unlink()
    with pytest.raises(ArchiveError, match=r"the folder has no adapter_model\.safetensors"):
        gw.open(tmp_path)
    assert [finding.what for finding in gw.inspect(tmp_path).findings] == ["it has no arrays"]


def test_a_folder_is_written_as_a_whole_or_stays_as_it_was(tmp_path):
    adapted = adapters.add(_base(), adapters.LoRA(r=2), "q")
    adapters.save(adapted, tmp_path)
    held = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (name,) = (n for n in adapted.state() if n.startswith("layer0/") and n.endswith("lora_B"))
    adapted.load_state({**adapted.state(), name: adapted.state()[name] + 1e5})
    for path in (tmp_path, tmp_path / "small.gguf"):
        with pytest.raises(GraphError, match="numbers beyond float16"):
            adapters.save(adapted, path, dtype="float16")
    adapters.save(adapted, tmp_path / "other")
    (tmp_path / "other" / CONFIG).unlink()
    (tmp_path / "other" / CONFIG).mkdir()
    before = (tmp_path / "other" / "adapter_model.safetensors").read_bytes()
    with pytest.raises(OSError):
        adapters.save(adapters.add(_base(), adapters.LoRA(r=3), "q"), tmp_path / "other")
    assert (tmp_path / "other" / "adapter_model.safetensors").read_bytes() == before
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == held


@pytest.mark.parametrize("target", [{"path": "x.gguf"}, {"plain": True}, {"family": "llama"}])
def test_what_was_opened_is_written_as_it_is(target, tmp_path):
    adapters.save(adapters.add(_base(), adapters.LoRA(r=2), "q"), tmp_path / "one")
    saved, settings = gw.open(tmp_path / "one"), {"path": "x", **target}
    with pytest.raises(GraphError, match="is written as it is"):
        adapters.save(saved, tmp_path / settings.pop("path"), **settings)
    adapters.save(saved, tmp_path / "two", base="mine")
    assert gw.open(tmp_path / "two").base == "mine"
