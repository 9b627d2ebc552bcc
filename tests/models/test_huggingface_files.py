"""Folders of Hugging Face without transformers: what is told apart, refused, read lazily."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
from dataclasses import replace

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GraphError
from gradwright.formats import registry, source
from gradwright.models import (
    Decoder,
    DecoderConfig,
    RopeScaling,
    from_pretrained,
    load_state_dict,
    save_pretrained,
    state_dict,
)
from gradwright.models.huggingface.config import fitting, read_config, tells, written_config
from gradwright.models.huggingface.families import FAMILIES
from gradwright.ops.quantised.blocks import packed_ggml
from tests.models.test_decoder_kinds import KINDS, SIZES

LLAMA = {
    **{"model_type": "llama", "vocab_size": 29, "hidden_size": 32, "intermediate_size": 48},
    **{"num_hidden_layers": 2, "num_attention_heads": 4},
}


@pytest.fixture
def folder(tmp_path):
    """A folder of a small Llama."""
    model = Decoder(DecoderConfig(**SIZES), seed=4)
    save_pretrained(model, tmp_path / "net")
    return tmp_path / "net"


def changed(folder, **keys) -> None:
    """Change keys of a folder's config; None takes one away."""
    path = folder / "config.json"
    data = {**json.loads(path.read_text()), **keys}
    path.write_text(json.dumps({k: v for k, v in data.items() if v is not None}))


def test_older_spellings_are_the_same_positions() -> None:
    old = {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.0}}
    new = {"rope_parameters": {"rope_theta": 500.0, "rope_type": "linear", "factor": 2.0}}
    one, other = (read_config({**LLAMA, **told}) for told in (old, new))
    assert one == other
    assert one.rope_base == 500.0
    assert one.rope_scaling == RopeScaling("linear", 2.0)
    phi = {**LLAMA, "model_type": "phi3", "original_max_position_embeddings": 16}
    lists = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    found = {read_config({**phi, "rope_scaling": {"type": name, **lists}}).rope_scaling
             for name in ("su", "yarn", "longrope")}  # fmt: skip
    assert len(found) == 1
    assert found.pop().factor == 4096 / 16


def test_what_older_files_leave_out_is_what_transformers_takes() -> None:
    assert read_config(LLAMA) == DecoderConfig(**{**SIZES, "context": 2048})
    mistral = read_config({**LLAMA, "model_type": "mistral", "num_key_value_heads": 2})
    assert (mistral.window, mistral.full_layers) == (4096, ())
    assert read_config({**LLAMA, "model_type": "mistral", "num_key_value_heads": 2,
                        "sliding_window": None}).window is None  # fmt: skip
    qwen = {**LLAMA, "model_type": "qwen2", "sliding_window": 8, "max_window_layers": 1}
    assert read_config(qwen).window is None
    untold = {k: v for k, v in qwen.items() if k != "sliding_window"}
    assert read_config({**untold, "use_sliding_window": True}).window == 4096
    used = read_config({**qwen, "use_sliding_window": True})
    assert (used.window, used.full_layers, used.qkv_bias) == (8, (0,), True)
    gemma = {**LLAMA, "model_type": "gemma2", "head_dim": 8, "num_hidden_layers": 4}
    found = read_config(gemma)
    assert (found.window, found.full_layers, found.tied) == (4096, (1, 3), True)
    assert (found.embedding_scale, found.attention_scale) == (32**0.5, 1 / 16)


@pytest.mark.parametrize("kind", KINDS)
def test_a_config_is_written_as_a_family_that_tells_it_all(kind) -> None:
    config = DecoderConfig(**SIZES, **KINDS[kind])
    if kind in ("grouped", "gpt2", "partial"):
        config = replace(config, tied=False, **({"qkv_bias": True, "out_bias": True,
                         "mlp_bias": True} if kind == "gpt2" else {}))  # fmt: skip
    if kind == "dynamic":
        config = replace(config, context=18)
    if kind == "biases":  # queries and keys that are normed, and biases elsewhere: nobody has it
        with pytest.raises(GraphError, match="no family of Hugging Face"):
            fitting(config)
        return
    if kind == "windows":  # layers that see all among them: of families with biases of queries
        assert not tells(config, FAMILIES["mistral"])
        config = replace(config, qkv_bias=True)
    family = fitting(config)
    wanted = {"windows": "qwen2", "gemma2": "gemma2", "gpt2": "gpt2", "experts": "mixtral"}
    assert family.name == wanted.get(kind, "llama")
    data = json.loads(json.dumps(written_config(config, family)))
    assert tells(read_config(data), family)


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"model_type": "bloom", "auto_map": {"AutoModel": "x.Y"}}, "kind 'bloom'"),
        ({"model_type": None}, "kind 'None'"),
        ({"model_type": ["llama"]}, "kind"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised by 'gptq'"),
        ({"rope_parameters": {"rope_type": "spiral"}}, "scaled by 'spiral'"),
        ({"rope_parameters": [1]}, "rope_parameters is list"),
        ({"rope_parameters": {"rope_type": "yarn", "truncate": False, "factor": 2.0,
          "original_max_position_embeddings": 8}}, "truncate"),
        ({"rope_parameters": {"rope_type": "longrope", "factor": 2.0}}, "short_factor"),
        ({"rope_parameters": {"rope_type": "linear"}}, "factor of rotary"),
        ({"rope_parameters": {"rope_theta": "x"}}, "rope_theta is 'x'"),
        ({"hidden_act": "mish"}, "activation 'mish'"),
        ({"hidden_size": 33}, "tells of no model"),
        ({"hidden_size": True}, "hidden_size is 'True'"),
        ({"vocab_size": None}, "no 'vocab_size'"),
        ({"num_hidden_layers": 10**9}, "1000000000 layers"),
        ({"vocab_size": 10**9}, r"model\.embed_tokens\.weight is f32\[29, 32\]"),
        ({"num_attention_heads": 0}, "heads=0 is no size"),
        ({"rms_norm_eps": 1e308}, "rms_norm_eps"),
        ({"attention_bias": True}, r"missing: model\.layers\.0\.self_attn\.q_proj\.bias"),
        ({"num_hidden_layers": 1}, r"left over: model\.layers\.1"),
        ({"pretraining_tp": 2}, "pretraining_tp is 2"),
        ({"eos_token_id": "x"}, "eos_token_id is 'x'"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_known_is_refused_by_name(folder, keys, what) -> None:
    (folder / "generation_config.json").unlink()
    changed(folder, **keys)
    with pytest.raises(ArchiveError, match=what):
        from_pretrained(folder)


def test_folders_that_are_none(folder, tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        from_pretrained(tmp_path / "elsewhere")
    with pytest.raises(ArchiveError, match=r"no config\.json"):
        from_pretrained(tmp_path)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ArchiveError, match=r"no model\.safetensors"):
        from_pretrained(folder)

    class Trap:
        def __reduce__(self):
            return open, (str(tmp_path / "sprung"), "w")

    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ArchiveError, match="save_file") as error:
        from_pretrained(folder)
    assert "weights_only=True" in str(error.value)
    assert not (tmp_path / "sprung").exists()
    (folder / "config.json").write_text('{"model_type": NaN}')
    with pytest.raises(ArchiveError, match="NaN is not JSON"):
        from_pretrained(folder)


def test_code_of_a_folder_is_not_run(folder, tmp_path) -> None:
    (folder / "modeling.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')")
    changed(folder, auto_map={"AutoModelForCausalLM": "modeling.Net"})
    model = from_pretrained(folder)
    assert model.config == DecoderConfig(**SIZES, kv_heads=4)
    assert not (tmp_path / "sprung").exists()
    save_pretrained(model, tmp_path / "out")
    assert "auto_map" not in json.loads((tmp_path / "out/config.json").read_text())


def test_weights_are_mapped_where_they_lie_and_read_when_they_are_used(folder) -> None:
    """Opening reads headers; float32 matrices stay in it, and are written back."""
    model = from_pretrained(folder)
    held = model.graph.values._arrays
    assert not list(held.keys() & {name for name, _ in model.config.weights()})
    q = model.graph.values["layer0/q"]
    assert not q.flags.owndata
    assert not q.flags.writeable
    first = Decoder(DecoderConfig(**SIZES), seed=4)
    for name, _ in model.config.weights():
        np.testing.assert_array_equal(model.graph.values[name], first.graph.values[name])
    save_pretrained(model, folder)  # over what is mapped
    np.testing.assert_array_equal(from_pretrained(folder).graph.values["layer0/q"], q)


def test_a_model_without_a_head_and_old_tensors(folder) -> None:
    """Names without the prefix, speeds of rotary positions, and a head that is tied."""
    arrays = dict(gw.open(folder / "model.safetensors"))
    arrays = {n.removeprefix("model."): a for n, a in arrays.items() if n != "lm_head.weight"}
    arrays["layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(4, np.float32)
    gw.safetensors.save(arrays, folder / "model.safetensors")
    changed(folder, tie_word_embeddings=True)
    model = from_pretrained(folder)
    assert model.config.tied
    np.testing.assert_array_equal(model.graph.values["embed"], arrays["embed_tokens.weight"])


def test_what_no_family_has_is_not_written(tmp_path) -> None:
    odd = Decoder(DecoderConfig(**SIZES, norm="layer"))
    with pytest.raises(GraphError, match="no family of Hugging Face has such a decoder"):
        save_pretrained(odd, tmp_path / "odd")
    plain = Decoder(DecoderConfig(**SIZES))
    with pytest.raises(GraphError, match="kind 'gpt2' cannot be such a decoder"):
        save_pretrained(plain, tmp_path / "odd", family="gpt2")
    with pytest.raises(GraphError, match="no weights of int8"):
        save_pretrained(plain, tmp_path / "odd", dtype="int8")
    packed = Decoder(DecoderConfig(**SIZES), packed={"embed": "q8_0"})
    with pytest.raises(GraphError, match="'embed' lies in blocks"):
        load_state_dict(packed, state_dict(plain))
    assert not (tmp_path / "odd").exists()


@pytest.mark.parametrize("fails", ["json.dumps", "shutil.copyfile", "Row.data"])
def test_a_folder_is_written_whole_or_stays_as_it_was(fails, tmp_path, monkeypatch) -> None:
    """Several files become one, and back; what fails in between changes nothing."""
    config = DecoderConfig(vocabulary=20, width=16, layers=1, heads=2)
    source = tmp_path / "source"
    save_pretrained(Decoder(config, seed=5), source)
    (source / "tokenizer_config.json").write_text("{}")
    folder = tmp_path / "ours"
    save_pretrained(Decoder(config, seed=1), folder, max_file_bytes=2000)
    (folder / "README.md").write_text("mine")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(before) > 6
    model = from_pretrained(source)
    said = {
        "json.dumps": "gradwright.models.huggingface.writing._text",
        "shutil.copyfile": "shutil.copyfile",
        "Row.data": "gradwright.formats.safetensors.writing.Row.data",
    }[fails]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(said, full)
        for there in (folder, tmp_path / "new" / "one"):
            with pytest.raises(OSError, match="No space"):
                save_pretrained(model, there)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert not (tmp_path / "new").exists()
    save_pretrained(model, folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        *("README.md", "config.json", "generation_config.json", "model.safetensors"),
        "tokenizer_config.json",
    ]
    for name, _ in config.weights():
        found = from_pretrained(folder).graph.values[name]
        np.testing.assert_array_equal(found, model.graph.values[name])
    save_pretrained(from_pretrained(folder), folder)  # onto the files that it reads
    assert np.array_equal(
        from_pretrained(folder).graph.values["embed"], model.graph.values["embed"]
    )


def test_a_folder_is_opened_and_inspected_by_its_headers(folder) -> None:
    info = gw.inspect(folder, sizes={"length": 64, "batch": 2})
    assert (info.format, info.architecture) == ("a folder of Hugging Face", "llama")
    assert info.parameters == Decoder(DecoderConfig(**SIZES)).n_weights
    assert info.memory.cache == 4 * 2 * 2 * 2 * 64 * 32
    assert not info.findings
    assert gw.open(folder).config == from_pretrained(folder).config
    found = registry.named("huggingface").outline(source.at(folder))
    wanted = from_pretrained(folder).graph
    assert [(n.name, repr(n.op)) for n in found.graph.nodes] == [
        (n.name, repr(n.op)) for n in wanted.nodes
    ]
    assert found.graph.known_as["lm_head.weight"].name == "head"
    assert "head" not in found.graph.values  # and no zeros in its place
    changed(folder, auto_map={"x": "y"}, model_type="odd")
    findings = [str(f) for f in gw.inspect(folder).findings]
    assert findings == [
        "config.json: brings code of its own, which is never run",
        "config.json: a model of the kind 'odd' is not read here",
    ]
    changed(folder, auto_map=None, model_type="llama", num_hidden_layers=1)
    (finding,) = gw.inspect(folder).findings
    assert finding.grave
    assert "not those of a model of the kind 'llama'" in finding.what
    model = Decoder(DecoderConfig(**SIZES), seed=4)
    save_pretrained(model, folder, max_file_bytes=20_000)
    several = gw.inspect(folder)
    assert several.parameters == info.parameters
    assert sum(several.files.values()) == several.nbytes - sum(
        (folder / name).stat().st_size
        for name in ("config.json", "generation_config.json", "model.safetensors.index.json")
    )


def test_blocks_and_pairs_side_by_side_are_written_as_transformers_reads_them(tmp_path) -> None:
    """What a GGUF file of a Llama is: unpacked, its rows of queries and keys put by halves."""
    config = DecoderConfig(**SIZES, kv_heads=2, qkv_bias=True, out_bias=True)
    beside = replace(config, interleaved=True)
    halves = Decoder(config, seed=2)
    rng = np.random.default_rng(0)
    for v in halves.graph.variables:
        halves.graph.values[v.name] = halves.graph.values[v.name] + rng.standard_normal(v.shape)
    neighbours = Decoder(beside)
    load_state_dict(neighbours, state_dict(halves))
    q = halves.graph.values["layer0/q"]
    assert not np.array_equal(neighbours.graph.values["layer0/q"], q)
    ids = [[1, 2, 3, 4, 5]]
    runs = []
    for model in (halves, neighbours):
        with gw.Session(model.graph) as session:
            runs.append(session.run(model.logits, {"ids": ids}))
    np.testing.assert_allclose(runs[0], runs[1], 1e-4, 1e-5)
    blocks = packed_ggml(neighbours.graph.values["layer0/q"], "q8_0")
    values = {v.name: neighbours.graph.values[v.name] for v in neighbours.graph.variables}
    model = Decoder(beside, values=values | {"layer0/q": blocks}, packed={"layer0/q": "q8_0"})
    save_pretrained(model, tmp_path)
    back = from_pretrained(tmp_path)
    assert back.config == config
    assert np.abs(back.graph.values["layer0/q"] - q).max() <= np.abs(q).max() / 127
    np.testing.assert_array_equal(back.graph.values["layer1/k"], halves.graph.values["layer1/k"])


ODD = [
    *(None, -1, 0, 2, 2.5, 10**30, 10**9, 1e308, 1e-300, True, "", "x", [], {}, [1], [None]),
    *({"a": 1}, ["sliding_attention", "full_attention"]),
    *({"rope_type": "dynamic", "factor": -2.0, "rope_theta": 0.5}, {"rope_type": "yarn"}),
    {"rope_type": "longrope", "short_factor": [1], "long_factor": ["a"]},
    {"rope_type": "yarn", "factor": 1e300, "mscale": 5, "mscale_all_dim": 1e-300},
    *({"rope_type": "yarn", "factor": 2.0, "beta_fast": 0}, {"rope_type": "llama3", "factor": 8.0}),
]
MORE = ("sliding_window", "layer_types", "rope_scaling", "partial_rotary_factor", "architectures",
        "quantization_config", "original_max_position_embeddings", "max_window_layers")  # fmt: skip


@pytest.mark.parametrize("kind", ["gemma2", "longrope", "experts"])
def test_a_config_that_says_anything_is_read_or_refused(kind, tmp_path) -> None:
    """One or two keys of each of 100 configs hold what they should not, or are not there."""
    save_pretrained(Decoder(DecoderConfig(**SIZES, **KINDS[kind])), tmp_path)
    path, rng = tmp_path / "config.json", random.Random(1)
    data, refused = json.loads(path.read_text()), 0
    for _ in range(100):
        odd = dict(data)
        for key in rng.sample([*data, *MORE], rng.choice((1, 1, 2))):
            odd[key] = rng.choice(ODD)
        path.write_text(json.dumps({k: v for k, v in odd.items() if v != "" or k in MORE}))
        try:
            from_pretrained(tmp_path)
        except ArchiveError:
            refused += 1
        with contextlib.suppress(ArchiveError):
            gw.inspect(tmp_path)
    assert 20 < refused < 100
