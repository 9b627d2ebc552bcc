"""Settings of folders, all of them; and what does not fit a model, listed and not taken over."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import gradwright as gw
from gradwright import adapters
from gradwright.errors import ArchiveError, GraphError
from tests.adapters import folders
from tests.adapters.folders import QV, settings

place = pytest.fixture(scope="module")(folders.place)
OPTIONS = {
    "LoraConfig": [
        {"r": 3, "lora_alpha": 7, "lora_dropout": 0.25, "use_rslora": True, "fan_in_fan_out": True},
        {"bias": "lora_only", "revision": "main", "base_model_name_or_path": "owner/name"},
        {"init_lora_weights": "pissa_niter_4", "target_modules": "all-linear"},
        {"init_lora_weights": False, "layers_to_transform": [0], "layers_pattern": "layers"},
        {"target_modules": r".*\.q_proj", "exclude_modules": r".*\.1\..*", "lora_bias": True},
        {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {r"^model\.layers\.0.*": 3.5}},
        {"modules_to_save": ["lm_head"], "trainable_token_indices": {"embed_tokens": [1, 2]}},
        {"init_lora_weights": "olora", "ensure_weight_tying": True, "megatron_core": "mine"},
    ],
    "AdaLoraConfig": [
        {"init_r": 5, "target_r": 3, "tinit": 2, "tfinal": 3, "deltaT": 4, "total_step": 90},
        {"total_step": 10, "beta1": 0.5, "beta2": 0.6, "orth_reg_weight": 0.1, "lora_alpha": 3},
    ],
    "LoHaConfig": [
        {"r": 3, "alpha": 5, "rank_dropout": 0.1, "module_dropout": 0.2, "init_weights": False},
        {"use_effective_conv2d": True, "rank_pattern": {"q_proj": 2}, "alpha_pattern": {"v": 1}},
    ],
    "LoKrConfig": [
        {"r": 3, "alpha": 5, "decompose_both": True, "decompose_factor": 4},
        {"rank_dropout_scale": True, "rank_dropout": 0.5, "init_weights": "lycoris"},
    ],
    "IA3Config": [{"feedforward_modules": ["q_proj"], "init_ia3_weights": False}],
    "VeraConfig": [{"r": 5, "projection_prng_key": 3, "save_projection": False, "d_initial": 0.3}],
    "LNTuningConfig": [{"exclude_modules": ["norm"]}],
    "PrefixTuningConfig": [{"num_virtual_tokens": 4, "init_weights": "zero"}],
    "PromptTuningConfig": [{"num_virtual_tokens": 4, "prompt_tuning_init": "RANDOM"}],
    "PromptEncoderConfig": [
        {
            "num_virtual_tokens": 4,
            "encoder_hidden_size": 6,
            "encoder_reparameterization_type": "LSTM",
        }
    ],
}
REFUSED = {
    **{"use_qalora": True, "alora_invocation_tokens": [1], "layer_replication": [[0, 1]]},
    **{"target_parameters": ["experts.w"], "megatron_config": {"a": 1}, "arrow_config": {"k": 2}},
    **{"kasa_config": {"a": 1}, "velora_config": {"a": 1}, "monteclora_config": {"a": 1}},
    **{"use_bdlora": {"a": 1}, "of_tomorrow": 5},
}


def folder_of(path, told, arrays=None):
    """Write a folder with settings, and arrays that need not belong to them."""
    path.mkdir(exist_ok=True)
    (path / folders.CONFIG).write_text(json.dumps(told))
    key = "base_model.model.model.layers.0.self_attn.q_proj"
    lora = {
        f"{key}.lora_A.weight": np.ones((2, 32), "f4"),
        f"{key}.lora_B.weight": np.ones((32, 2)),
    }
    gw.safetensors.save(lora if arrays is None else arrays, path / folders.WEIGHTS)
    return path


@pytest.mark.parametrize(("name", "given"), [(n, g) for n, each in OPTIONS.items() for g in each])
def test_all_settings_come_back_as_they_were(name, given, tmp_path):
    made = getattr(folders.peft(), name)
    where = {} if "num_virtual_tokens" in given else {"target_modules": ["q_proj"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made(**{**where, **given}).save_pretrained(tmp_path)
    folder_of(tmp_path, json.loads((tmp_path / folders.CONFIG).read_text()))
    found = gw.open(tmp_path)
    adapters.save(found, tmp_path / "again")
    assert settings(tmp_path / "again") == settings(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = [made.from_pretrained(f).to_dict() for f in (tmp_path / "again", tmp_path)]
    assert both[0] == both[1]
    row, others = found.options, ("bias", "feedforward_modules")
    for key, field in row.fields.items():
        if key in given and key not in others and hasattr(found.method, field):
            assert getattr(found.method, field) == given[key]


@pytest.mark.parametrize("key", REFUSED)
def test_an_option_that_is_not_computed_is_refused_by_name_and_kept(key, place, tmp_path):
    told = {"peft_type": "LORA", "r": 2, "target_modules": ["q_proj"], key: REFUSED[key]}
    folder = folder_of(tmp_path, told)
    with pytest.raises(ArchiveError, match=rf"not computed here\n *{key}: "):
        adapters.load(folders.ours(place), folder)
    (finding,) = gw.inspect(folder).findings
    assert key in str(finding) and finding.grave
    adapters.save(gw.open(folder), tmp_path / "again")
    assert settings(tmp_path / "again") == told


def test_an_option_that_says_nothing_is_no_reason_to_refuse():
    told = {"peft_type": "IA3", "of_tomorrow": None, "of_the_day_after": False, "megatron": {}}
    saved = adapters.SavedAdapter(folders.CONFIG, told, {})
    assert saved.method == adapters.IA3()


# -- what does not fit -----------------------------------------------------------------------------


def their_lora(place, folder, base=None):
    theirs = folders.wrapped(folders.at(place), folders.peft().LoraConfig(r=2, **QV))
    folders.saved(theirs, folder)
    told = settings(folder) | {"base_model_name_or_path": base}
    (folder / folders.CONFIG).write_text(json.dumps(told))
    return folder


def changed(folder, change):
    """Write other arrays into a folder."""
    held = {name: np.array(array) for name, array in gw.open(folder / folders.WEIGHTS).items()}
    change(held)
    gw.safetensors.save(held, folder / folders.WEIGHTS)


KEY = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"
CHANGES = {
    "missing: layer1/q/lora_A": lambda held: held.pop(KEY),
    "missing: model.layers.1.self_attn.q_proj": lambda held: [
        held.pop(key) for key in list(held) if ".1.self_attn.q_proj" in key
    ],
    "unexpected: layer1/q/lora_E": lambda held: held.update(
        {KEY.replace("lora_A.weight", "lora_E"): np.ones((2, 1), "f4")}
    ),
    "unexpected: model.layers.9.self_attn.q_proj.lora_A": lambda held: held.update(
        {KEY.replace(".1.", ".9."): held[KEY]}
    ),
    r"other shapes: layer1/q/lora_A \[2, 31\], and not \[2, 32\]": lambda held: held.update(
        {KEY: held[KEY][:, 1:]}
    ),
    "are none of an adapter": lambda held: held.update({"model.lm_head": held[KEY]}),
    "is there in two spellings": lambda held: held.update({KEY.removesuffix(".weight"): held[KEY]}),
    r"lora_A.weight is i32\[2, 32\]": lambda held: held.update({KEY: held[KEY].astype("i4")}),
}


@pytest.mark.parametrize("match", CHANGES)
def test_what_does_not_fit_is_listed_and_nothing_is_taken_over(match, place, tmp_path):
    folder = their_lora(place, tmp_path)
    changed(folder, CHANGES[match])
    model = folders.ours(place)
    before = {n: a.copy() for n, a in model.graph.values.items()}
    nodes = len(model.graph.nodes)
    with pytest.raises(ArchiveError, match=match):
        adapters.load(model, folder)
    assert not adapters.of(model) and len(model.graph.nodes) == nodes
    assert all(np.array_equal(model.graph.values[n], a) for n, a in before.items())


def test_without_strict_what_fits_is_taken(place, tmp_path):
    folder = their_lora(place, tmp_path)
    changed(folder, CHANGES["unexpected: model.layers.9.self_attn.q_proj.lora_A"])
    changed(folder, CHANGES["missing: layer1/q/lora_A"])
    model = folders.ours(place)
    adapted = adapters.load(model, folder, strict=False)
    held = gw.open(folder).arrays["model.layers.1.self_attn.v_proj"]
    assert np.array_equal(adapted.state()["layer1/v/lora_B"], held["lora_B"])
    changed(folder, lambda held: held.update({KEY: np.ones((2, 3), "f4")}))
    with pytest.raises(ArchiveError, match="other shapes"):
        adapters.load(model, folder, name="other", strict=False)


def test_an_adapter_of_another_model_is_refused(place, tmp_path):
    folder = their_lora(place, tmp_path, base="owner/large")
    model = folders.ours(place)
    with pytest.raises(ArchiveError, match=r"for the model 'owner/large', and this is 'tiny'"):
        adapters.load(model, folder)
    adapters.load(model, folder, strict=False).remove()
    folder = their_lora(place, tmp_path, base="somebody/tiny")
    adapters.load(model, folder).remove()
    smaller = gw.models.Decoder(gw.models.DecoderConfig(vocabulary=37, width=16, layers=2, heads=2))
    with pytest.raises(ArchiveError, match=r"other shapes: layer0/q/lora_A \[2, 32\], and not"):
        adapters.load(smaller, folder)


def test_names_that_are_taken_pickles_and_what_is_no_adapter(place, tmp_path):
    folder = their_lora(place, tmp_path / "a")
    model = folders.ours(place)
    adapters.load(model, folder)
    with pytest.raises(GraphError, match="has an adapter 'default' already"):
        adapters.load(model, folder)
    (folder / folders.WEIGHTS).rename(folder / "adapter_model.bin")
    with pytest.raises(ArchiveError, match=r"are a pickle[\s\S]*save_file"):
        adapters.load(model, folder, name="other")
    assert "pickle" in str(gw.inspect(folder).findings[0])
    with pytest.raises(ArchiveError, match=r"'XLORA' are not here[\s\S]*AdaLoRA"):
        adapters.load(model, folder_of(tmp_path / "x", {"peft_type": "XLORA"}), name="x")
    with pytest.raises(ArchiveError, match="this is no adapter"):
        adapters.load(model, place, name="other")
    with pytest.raises(FileNotFoundError):
        adapters.load(model, tmp_path / "nowhere", name="other")


def test_projections_are_read_and_never_drawn(place, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = folders.peft().VeraConfig(r=4, save_projection=False, **QV)
    folder = folders.saved(folders.wrapped(folders.at(place), config), tmp_path)
    with pytest.raises(ArchiveError, match=r"not in the file: they are random numbers of torch"):
        adapters.load(folders.ours(place), folder)


def test_values_that_change_the_model_by_data_are_refused(place, tmp_path):
    told = {"peft_type": "LORA", "r": 2, "target_modules": ["q_proj"]}
    folder = folder_of(tmp_path, told | {"init_lora_weights": "corda"})
    with pytest.raises(ArchiveError, match=r"changed by data of no file[\s\S]*plain LoRA"):
        adapters.load(folders.ours(place), folder)


def test_methods_that_peft_has_not_are_refused_by_name(tmp_path):
    model = gw.models.Decoder(gw.models.DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    adapted = adapters.add(model, adapters.DyLoRA(r=2), "q")
    with pytest.raises(GraphError, match=r"peft has no DyLoRA[\s\S]*to_lora"):
        adapters.save(adapted, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_folder_tells_what_it_is(place, tmp_path):
    info = gw.inspect(their_lora(place, tmp_path, base="owner/tiny"))
    assert (info.format, info.architecture, info.producer[:4]) == ("an adapter", "LoRA", "peft")
    told = {"rank": "2", "alpha": "8", "modules": "6", "base": "owner/tiny", "task": "CAUSAL_LM"}
    assert dict(info.metadata).items() >= told.items() and not info.findings
    assert sorted(info.metadata["targets"].split(", ")) == ["q_proj", "v_proj"]
    assert str(gw.open(tmp_path)) == "<LoRA of rank 2 in 6 modules, 2.69 kB: q_proj, v_proj>"
