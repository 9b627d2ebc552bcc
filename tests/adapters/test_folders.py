"""Folders of adapters both ways: peft's load here, ours load in peft, and say the same."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import gradwright as gw
from gradwright import adapters
from gradwright.errors import ArchiveError, GraphError
from tests.adapters import folders
from tests.adapters.folders import CAUSAL, distance, ours_says, settings, theirs_says

QV = {"target_modules": ["q_proj", "v_proj"], **CAUSAL}
KINDS = {
    "LoRA": lambda p: p.LoraConfig(r=2, **QV),
    "LoRA, patterns": lambda p: p.LoraConfig(
        r=2,
        target_modules=r".*\.(q|k|up|down)_proj",
        rank_pattern={"q_proj": 3, "layers.1.self_attn.k_proj": 1},
        alpha_pattern={"up_proj": 5, r"layers\.0\.mlp\.down_proj": 2},
        use_rslora=True,
        **CAUSAL,
    ),
    "LoRA, some layers": lambda p: p.LoraConfig(
        r=2, layers_to_transform=[1], layers_pattern="layers", exclude_modules=["v_proj"], **QV
    ),
    "LoRA, what it trains of the model": lambda p: p.LoraConfig(
        r=2, target_modules=["q_proj", "embed_tokens"], bias="all", modules_to_save=["lm_head"]
    ),
    "LoRA, tokens": lambda p: p.LoraConfig(r=2, trainable_token_indices=[1, 5], **QV),
    "LoRA, biased": lambda p: p.LoraConfig(r=2, lora_bias=True, **QV),
    "DoRA": lambda p: p.LoraConfig(r=2, use_dora=True, **QV),
    "AdaLoRA": lambda p: p.AdaLoraConfig(init_r=4, target_r=2, total_step=9, lora_alpha=5, **QV),
    "LoHa": lambda p: p.LoHaConfig(r=2, rank_dropout=0.1, **QV),
    "LoKr": lambda p: p.LoKrConfig(r=2, alpha=3, decompose_both=True, decompose_factor=4, **QV),
    "IA3": lambda p: p.IA3Config(
        target_modules=["k_proj", "v_proj", "down_proj"],
        feedforward_modules=["down_proj"],
        **CAUSAL,
    ),
    "VeRA": lambda p: p.VeraConfig(r=4, d_initial=0.5, **QV),
    "prefix": lambda p: p.PrefixTuningConfig(num_virtual_tokens=3, **CAUSAL),
    "prefix of a network": lambda p: p.PrefixTuningConfig(
        num_virtual_tokens=3, prefix_projection=True, encoder_hidden_size=7, **CAUSAL
    ),
    "prompt": lambda p: p.PromptTuningConfig(num_virtual_tokens=3, **CAUSAL),
    "P-tuning": lambda p: p.PromptEncoderConfig(
        num_virtual_tokens=3, encoder_hidden_size=8, **CAUSAL
    ),
    "P-tuning, LSTM": lambda p: p.PromptEncoderConfig(
        num_virtual_tokens=3, encoder_reparameterization_type="LSTM", **CAUSAL
    ),
    "LoRA, PiSSA": lambda p: p.LoraConfig(r=2, init_lora_weights="pissa", **QV),
    "LoRA, OLoRA": lambda p: p.LoraConfig(r=2, init_lora_weights="olora", **QV),
    "LoRA, orthogonal": lambda p: p.LoraConfig(r=2, init_lora_weights="orthogonal", **QV),
    "norms": lambda p: p.LNTuningConfig(**CAUSAL),
    "LoRA, all linear": lambda p: p.LoraConfig(r=2, target_modules="all-linear"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the model that adapters are for."""
    folder = tmp_path_factory.mktemp("base") / "tiny"
    folders.base(folder, attention_bias=True)
    return folder


def test_ranks_that_adalora_has_dropped_are_left_out_and_come_back(place, tmp_path):
    """peft cuts tensors by the masks of its settings; ours cuts them, too."""
    config = folders.peft().AdaLoraConfig(init_r=4, target_r=2, total_step=9, **QV)
    theirs = folders.wrapped(their_base(place), config)
    masks, torch = {}, pytest.importorskip("torch")
    for i, (name, p) in enumerate(theirs.named_parameters()):
        if "lora_E" in name:
            on = [(i >> k) & 1 > 0 for k in range(4)]
            masks[name.removeprefix("base_model.model.")] = on
            with torch.no_grad():
                p *= torch.tensor(on)[:, None]
    want = theirs_says(theirs)
    theirs.peft_config["default"].rank_pattern = masks
    there = folders.saved(theirs, tmp_path / "there")
    model = folders.ours(place)
    adapted = adapters.load(model, there)
    assert distance(ours_says(model), want) < 1e-5
    assert sum(adapted.adapter.ranks(adapted).values()) == sum(map(sum, masks.values()))
    adapters.save(adapted, tmp_path / "here")
    told = settings(tmp_path / "here")["rank_pattern"]
    assert {k: sum(v) for k, v in told.items()} == {
        k.removesuffix(".default"): sum(v) for k, v in masks.items() if not all(v)
    }
    again = folders.loaded(their_base(place), tmp_path / "here")
    assert distance(theirs_says(again), want) < 1e-5


def their_base(place):
    return folders.base(place, attention_bias=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_peft_says_the_same_here_and_goes_back(kind, place, tmp_path):
    theirs = folders.wrapped(their_base(place), KINDS[kind](folders.peft()))
    there = folders.saved(theirs, tmp_path / "there")
    model = folders.ours(place)
    before = ours_says(model)
    adapted = adapters.load(model, there)
    want = theirs_says(theirs)
    assert distance(ours_says(model), want) < 1e-5 < 0.01 < distance(before, want)
    adapters.save(adapted, tmp_path / "here", base="")
    assert settings(tmp_path / "here") == settings(there)
    ours, other = (gw.open(f / folders.WEIGHTS).specs for f in (tmp_path / "here", there))
    same = "base_model.model.model.embed_tokens.base_layer.weight"  # the model's own, which is kept
    assert ours == {name: spec for name, spec in other.items() if name != same}
    again = folders.loaded(their_base(place), tmp_path / "here")
    assert distance(theirs_says(again), want) < 1e-6
    adapted.remove()
    assert np.array_equal(ours_says(model), before)


# -- settings ------------------------------------------------------------------------------------

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
    if not (row.method in ("LoHa", "LoKr") and given.get("rank_pattern")):
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
    theirs = folders.wrapped(their_base(place), folders.peft().LoraConfig(r=2, **QV))
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
    folder = folders.saved(folders.wrapped(their_base(place), config), tmp_path)
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


# -- first values that change the model, and what a network makes --------------------------------


@pytest.mark.parametrize("init", ["pissa", "olora"])
@pytest.mark.parametrize("rslora", [False, True])
def test_what_changed_the_model_is_a_plain_lora_of_twice_the_rank(init, rslora, place, tmp_path):
    model = folders.ours(place)
    base = {name: model.graph.values[name].copy() for name in ("layer0/q", "layer1/up")}
    method = adapters.LoRA(r=2, init=init, rslora=rslora, rank_pattern={"up": 3})
    adapted = adapters.add(model, method, "q|up")
    rng = np.random.default_rng(0)
    adapted.load_state(
        {k: a + rng.normal(size=a.shape).astype("f4") * 0.1 for k, a in adapted.state().items()}
    )
    want = ours_says(model)
    for name, plain in (("plain", True), ("as it is", False)):
        adapters.save(adapted, tmp_path / name, plain=plain, base="")
    assert settings(tmp_path / "plain")["r"] == 4
    assert set(settings(tmp_path / "plain")["rank_pattern"].values()) == {6}
    assert settings(tmp_path / "as it is")["init_lora_weights"] == init
    adapted.remove()
    assert all(np.array_equal(model.graph.values[n], a) for n, a in base.items())
    for name in ("plain", "as it is"):
        back = adapters.load(folders.ours(place), tmp_path / name)
        assert distance(ours_says(back.model), want) < 1e-5
        assert bool(back.replaced) == (name == "as it is")
        again = folders.loaded(their_base(place), tmp_path / name)
        assert distance(theirs_says(again), want) < 1e-5


def test_what_a_quantisation_changed_is_no_plain_lora(place, tmp_path):
    model = folders.ours(place)
    adapted = adapters.add(model, adapters.LoRA(r=2, init=adapters.LoftQ(iterations=3)), "q")
    with pytest.raises(GraphError, match="changed by more than a matrix of rank 2"):
        adapters.save(adapted, tmp_path / "a", plain=True)
    adapters.save(adapted, tmp_path / "a")
    told = settings(tmp_path / "a")
    assert told["init_lora_weights"] == "loftq"
    assert told["loftq_config"] == {"loftq_bits": 4, "loftq_iter": 3}
    want = ours_says(model)
    back = adapters.load(folders.ours(place), tmp_path / "a")
    assert distance(ours_says(back.model), want) < 1e-5


@pytest.mark.parametrize(
    "method",
    [
        adapters.Prefix(tokens=3, projection=True, hidden=5),
        adapters.PTuning(tokens=3, hidden=6),
        adapters.PTuning(tokens=3, encoder="lstm", hidden=4, layers=1),
        adapters.Prompt(tokens=3),
    ],
)
def test_a_file_has_the_vectors_that_a_network_makes(method, place, tmp_path):
    model = folders.ours(place)
    adapted = adapters.add(model, method)
    want = ours_says(model)
    adapters.save(adapted, tmp_path, base="")
    (array,) = gw.open(tmp_path).arrays[""].values()
    assert array.shape == (3, 32 if not isinstance(method, adapters.Prefix) else array.shape[1])
    again = folders.loaded(their_base(place), tmp_path)
    assert distance(theirs_says(again), want) < 1e-5
    back = adapters.load(folders.ours(place), tmp_path)
    assert distance(ours_says(back.model), want) < 1e-5
    told = settings(tmp_path)
    adapters.save(back, tmp_path / "again", base="")
    assert settings(tmp_path / "again") == told
