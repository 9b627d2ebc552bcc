"""Adapters in GGUF files, both ways: rows of queries and keys, fused ones, scales, embeddings."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright import adapters
from gradwright.errors import ArchiveError, GraphError
from gradwright.formats.gguf.mapped import Gguf
from gradwright.formats.gguf.writing import write
from gradwright.models import Decoder, DecoderConfig, from_gguf, save_gguf
from tests.adapters.folders import distance, ours_says

GPT2 = {"norm": "layer", "positions": "learned", "activation": "gelu_tanh", "gated": False}
GPT2 |= dict.fromkeys(("qkv_bias", "out_bias", "mlp_bias"), True)
LORA = {"general.type": "adapter", "general.architecture": "llama", "adapter.lora.alpha": 1.0}
A, B = np.ones((2, 8), "f4"), np.ones((4, 2), "f4")


def drawn(adapted, seed=0):
    """Give an adapter numbers some way from where it begins."""
    rng = np.random.default_rng(seed)
    adapted.load_state({k: rng.normal(size=a.shape) * 0.3 for k, a in adapted.state().items()})


def test_an_adapter_changes_the_logits_as_it_does_in_transformers(tmp_path):
    torch = pytest.importorskip("torch")
    from tests.models import gguf_of_theirs as theirs

    rng = np.random.default_rng(5)
    ids = np.arange(12).reshape(2, 6) % 11
    their_model = theirs.model("llama")
    theirs.convert(their_model, "llama", tmp_path / "base.gguf")
    base = ours_says(model := from_gguf(tmp_path / "base.gguf"), ids)
    tensors, rank, alpha = {}, 4, 6.0
    for i, layer in enumerate(their_model.model.layers):
        attention = layer.self_attn
        modules = {"q": attention.q_proj, "k": attention.k_proj, "v": attention.v_proj}
        for (label, module), heads in zip(modules.items(), (4, 2, 0), strict=True):
            n_out, n_in = module.weight.shape
            a = rng.standard_normal((rank, n_in)).astype("f4") / 8
            b = rng.standard_normal((n_out, rank)).astype("f4") / 8
            with torch.no_grad():
                module.weight += alpha / rank * torch.tensor(b @ a)
            tensors[f"blk.{i}.attn_{label}.weight.lora_a"] = a
            turned = theirs.neighbours(b, heads) if heads else b
            tensors[f"blk.{i}.attn_{label}.weight.lora_b"] = turned
    write(tmp_path / "lora.gguf", LORA | {"adapter.lora.alpha": alpha}, tensors)
    adapters.load(model, tmp_path / "lora.gguf")
    want = theirs.logits(their_model, ids)
    assert distance(ours_says(model, ids), want) < 1e-5 < 0.05 < distance(base, want)


@pytest.mark.parametrize(
    ("architecture", "more"),
    [("llama", {"kv_heads": 2}), ("phi3", {"kv_heads": 2}), ("gpt2", GPT2)],
)
def test_files_of_both_kinds_go_from_model_to_model(architecture, more, tmp_path):
    config = DecoderConfig(vocabulary=20, width=16, layers=2, heads=4, inner=24, **more)
    by_halves = Decoder(config, seed=3)
    save_gguf(by_halves, tmp_path / "m.gguf", architecture=architecture)
    other = from_gguf(tmp_path / "m.gguf")
    assert other.config.interleaved == (architecture == "llama")
    before = ours_says(by_halves)
    method = adapters.LoRA(r=2, alpha=3, init=False, rslora=True, rank_pattern={"q|up": 3})
    adapted = adapters.add(by_halves, method, "embed|q|v|o|up")
    drawn(adapted)
    want = ours_says(by_halves)
    assert distance(want, before) > 0.05
    files = tmp_path / "a", tmp_path / "a.gguf"
    for file in files:
        adapters.save(adapted, file, family=architecture)
    adapted.remove()
    for model in (by_halves, other):
        for file in files:
            back = adapters.load(model, file)
            assert distance(ours_says(model), want) < 2e-6
            again = tmp_path / f"again{file.suffix}"
            adapters.save(back, again, family=architecture)
            back.remove()
            back = adapters.load(model, again, name="again")
            assert distance(ours_says(model), want) < 2e-6
            back.remove()
        assert distance(ours_says(model), before) < 1e-6


def test_a_prefix_is_turned_as_keys_are(tmp_path):
    """Keys of a file lie by halves; those of a llama of GGUF have their pairs side by side."""
    config = DecoderConfig(vocabulary=20, width=16, layers=2, heads=4, kv_heads=2)
    by_halves = Decoder(config, seed=3)
    save_gguf(by_halves, tmp_path / "m.gguf", architecture="llama")
    other = from_gguf(tmp_path / "m.gguf")
    before = ours_says(other)
    adapted = adapters.add(by_halves, adapters.Prefix(tokens=3))
    drawn(adapted)
    want = ours_says(by_halves)
    adapters.save(adapted, tmp_path / "a")
    back = adapters.load(other, tmp_path / "a")
    assert distance(ours_says(other), want) < 1e-6 < 0.01 < distance(before, want)
    adapters.save(back, tmp_path / "again")
    files = (gw.open(tmp_path / name).arrays[""]["prompt_embeddings"] for name in ("a", "again"))
    assert np.array_equal(*files)


def test_a_file_tells_what_it_is(tmp_path):
    model = Decoder(DecoderConfig(vocabulary=20, width=16, layers=1, heads=4), name="tiny")
    adapted = adapters.add(model, adapters.LoRA(r=2, alpha=6), "q|v|embed", name="mine")
    adapters.save(adapted, tmp_path / "a.gguf", base="tiny", dtype="float16")
    held = Gguf(tmp_path / "a.gguf")
    assert held.facts["adapter.lora.alpha"] == 6.0 and held.facts["general.name"] == "mine"
    assert held["token_embd.weight.lora_a"].shape == (20, 2)  # as its rows are looked up
    assert {tensor.kind for tensor in held.values()} == {"f16"}
    found = gw.open(tmp_path / "a.gguf")
    assert found.method == adapters.LoRA(r=2, alpha=6) and found.base == "tiny"
    assert found.modules == ("attn_q", "attn_v", "token_embd")
    info = gw.inspect(tmp_path / "a.gguf")
    assert (info.format, info.architecture) == ("an adapter in a GGUF file", "LoRA of llama")
    assert info.metadata["rank"] == "2" and info.metadata["modules"] == "3" and not info.findings


def test_alpha_0_is_a_scale_of_1(tmp_path):
    tensors = {"blk.0.attn_v.weight.lora_a": A, "blk.0.attn_v.weight.lora_b": B}
    tensors |= {"blk.1.attn_v.weight.lora_a": A[:1], "blk.1.attn_v.weight.lora_b": B[:, :1]}
    write(tmp_path / "a.gguf", LORA | {"adapter.lora.alpha": 0.0}, tensors)
    model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=2, heads=2, kv_heads=1))
    adapted = adapters.load(model, tmp_path / "a.gguf")
    scales = {place.name: adapted.adapter.scale(place) for place in adapted.places}
    assert scales == {"layer0/v": 1.0, "layer1/v": 1.0}


@pytest.mark.parametrize(
    ("changes", "tensors", "match"),
    [
        ({"adapter.type": "mora"}, {}, "adapter.type is 'mora'"),
        ({"adapter.lora.alpha": "much"}, {}, "alpha is 'much'"),
        ({"general.architecture": "mamba"}, {}, "'mamba' are not read"),
        ({}, {}, "no tensors"),
        ({}, {"blk.0.attn_q.weight.lora_a": A}, "do not go together"),
        ({}, {"blk.0.attn_q.weight.lora_a": A, "blk.0.attn_q.weight.lora_b": A}, "go together"),
        ({}, {"blk.0.attn_z.weight.lora_a": A, "blk.0.attn_z.weight.lora_b": B}, "attn_z"),
    ],
)
def test_what_is_no_adapter_is_refused(changes, tensors, match, tmp_path):
    write(tmp_path / "a.gguf", LORA | changes, tensors)
    with pytest.raises(ArchiveError, match=match):
        gw.open(tmp_path / "a.gguf")


def test_what_such_files_cannot_hold_is_refused(tmp_path):
    model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    adapted = adapters.add(model, adapters.LoRA(r=2, lora_bias=True), "q")
    with pytest.raises(GraphError, match="no biases"):
        adapters.save(adapted, tmp_path / "a.gguf")
    with pytest.raises(ArchiveError, match="this is no adapter"):
        save_gguf(model, tmp_path / "m.gguf")
        adapters.load(model, tmp_path / "m.gguf")
    assert not (tmp_path / "a.gguf").exists()


@pytest.mark.parametrize("architecture", ["bert", "gemma2", "qwen3"])
def test_an_adapter_of_another_architecture_is_refused(architecture, tmp_path):
    path, model = tmp_path / "lora.gguf", Decoder(DecoderConfig(9, width=8, layers=1, heads=2))
    tensors = {"blk.0.attn_q.weight.lora_a": A, "blk.0.attn_q.weight.lora_b": np.ones((8, 2), "f4")}
    write(path, LORA | {"general.architecture": architecture}, tensors)
    with pytest.raises(ArchiveError, match=f"for a model of {architecture}, and this is one of"):
        adapters.load(model, path)
    assert not adapters.of(model)
    (place,) = adapters.load(model, path, strict=False).places
    assert place.name == "layer0/q"


def test_an_adapter_of_scale_0_is_none_in_a_file_too(tmp_path):
    model, other = (Decoder(DecoderConfig(9, width=8, layers=1, heads=2)) for _ in range(2))
    drawn(adapters.add(model, adapters.LoRA(r=2, alpha=0), "q"))
    adapters.save(adapters.of(model)["default"], tmp_path / "lora.gguf")
    base, ids = ours_says(other, np.arange(6)[None]), np.arange(6)[None]
    adapters.load(other, tmp_path / "lora.gguf")
    assert np.array_equal(ours_says(other, ids), base)
