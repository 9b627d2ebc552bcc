"""Folders of bottleneck adapters as the library adapters 1.3 writes them, but for its pickles."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gradwright as gw
from gradwright import adapters
from gradwright.errors import ArchiveError
from gradwright.models import Decoder, DecoderConfig
from tests.adapters.folders import CONFIG, distance, ours_says
from tests.adapters.test_gguf_adapters import drawn

STORED = Path(__file__).parent / "stored" / "bottleneck.npz"
PRESETS = {"seq_bn": "pfeiffer", "double_seq_bn": "houlsby", "par_bn": "parallel"}
SAID = {
    "seq_bn": {"mh_adapter": False, "original_ln_before": True, "non_linearity": "relu"},
    "double_seq_bn": {"mh_adapter": True, "original_ln_before": False, "non_linearity": "swish"},
    "par_bn": {"is_parallel": True, "scaling": 4.0, "init_weights": "mam_adapter"},
}
SIZES = {"vocabulary": 20, "width": 32, "layers": 2, "heads": 4, "inner": 24}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_folder_is_as_the_library_has_it_and_comes_back(preset, tmp_path):
    model = Decoder(DecoderConfig(**SIZES), seed=1)
    before = ours_says(model)
    adapted = adapters.add(model, adapters.Bottleneck(PRESETS[preset]), name="a")
    drawn(adapted)
    want = ours_says(model)
    adapters.save(adapted, tmp_path)
    told = json.loads((tmp_path / CONFIG).read_text())
    assert told["config"].items() >= SAID[preset].items() and len(told["config"]) == 33
    assert (told["model_class"], told["hidden_size"]) == ("LlamaForCausalLM", 32)
    first = f"{preset}/grad/"
    names = {n.removeprefix(first) for n in np.load(STORED) if n.startswith(first)}
    assert set(gw.open(tmp_path / "adapter.safetensors")) == names
    info = gw.inspect(tmp_path)
    assert (info.architecture, info.producer) == ("Bottleneck", "adapters 1.3.0")
    assert not info.findings
    adapted.remove()
    back = adapters.load(model, tmp_path)
    assert distance(ours_says(model), want) < 1e-6 < 0.01 < distance(before, want)
    adapters.save(back, tmp_path / "again")
    again = json.loads((tmp_path / "again" / CONFIG).read_text())
    assert again == told | {"name": "default"}
    adapters.save(back, tmp_path / "again", base="owner/name")
    assert gw.open(tmp_path / "again").base == "owner/name"


def test_layers_may_be_left_out(tmp_path):
    model = Decoder(DecoderConfig(**SIZES), seed=1)
    adapted = adapters.add(model, adapters.Bottleneck(), layers=[1])
    drawn(adapted)
    want = ours_says(model)
    adapters.save(adapted, tmp_path)
    adapted.remove()
    told = json.loads((tmp_path / CONFIG).read_text())
    assert told["config"]["leave_out"] == [0]
    adapters.load(model, tmp_path)
    assert distance(ours_says(model), want) < 1e-6


def changed(folder, **config):
    told = json.loads((folder / CONFIG).read_text())
    told["config"] |= config
    (folder / CONFIG).write_text(json.dumps(told))


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"use_gating": True}, r"not computed here\n *use_gating: True"),
        ({"phm_layer": True}, "phm_layer: True"),
        ({"mh_adapter": True, "original_ln_before": True}, "no placement has mh_adapter = True"),
        ({"reduction_factor": {"1": 8}}, "reduction_factor is"),
        ({"scaling": "learned"}, "scaling is 'learned'"),
        ({"non_linearity": "maxout"}, "'maxout' is not known"),
        ({"architecture": "lora"}, "adapters of the kind 'lora' of this library are not read"),
    ],
)
def test_what_is_not_computed_is_refused_by_name(config, match, tmp_path):
    model = Decoder(DecoderConfig(**SIZES), seed=1)
    adapted = adapters.add(model, adapters.Bottleneck())
    adapters.save(adapted, tmp_path)
    adapted.remove()
    changed(tmp_path, **config)
    with pytest.raises(ArchiveError, match=match):
        adapters.load(model, tmp_path)
    assert not adapters.of(model)
    assert config.keys() == {"non_linearity"} or gw.inspect(tmp_path).findings


def test_pickles_and_other_models_are_refused(tmp_path):
    model = Decoder(DecoderConfig(**SIZES), seed=1)
    adapters.save(adapters.add(model, adapters.Bottleneck()), tmp_path)
    other = Decoder(DecoderConfig(**SIZES | {"width": 16, "layers": 1}))
    match = r"unexpected: model.layers.1.output_adapters[\s\S]*other shapes: layer0/mlp"
    with pytest.raises(ArchiveError, match=match):
        adapters.load(other, tmp_path)
    (tmp_path / "adapter.safetensors").rename(tmp_path / "pytorch_adapter.bin")
    with pytest.raises(ArchiveError, match=r"are a pickle[\s\S]*use_safetensors=True"):
        gw.open(tmp_path)
    assert "pickle" in str(gw.inspect(tmp_path).findings[0])
