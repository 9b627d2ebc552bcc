"""Decoders in GGUF files of ours: what is mapped, becomes floats, is refused, and is told."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GradwrightError, GraphError
from gradwright.formats import registry, source
from gradwright.formats.gguf.mapped import Gguf
from gradwright.formats.gguf.writing import write
from gradwright.models import Decoder, DecoderConfig, RopeScaling, from_gguf, save_gguf
from gradwright.models.decoder.pairs import by_neighbours
from gradwright.models.gguf.architectures import ARCHITECTURES, architecture_of, keys_of
from tests.formats.every_format import Counted

SIZES = {"vocabulary": 64, "width": 256, "layers": 2, "heads": 4, "kv_heads": 2, "inner": 256}
IDS = np.random.default_rng(0).integers(0, 64, (2, 12))
GPT2 = {
    **{"norm": "layer", "positions": "learned", "activation": "gelu_tanh", "gated": False},
    **{"qkv_bias": True, "out_bias": True, "mlp_bias": True, "kv_heads": 4, "tied": True},
}
GEMMA2 = {
    **{"norm": "rms_plus_one", "activation": "gelu_tanh", "post_norms": True, "tied": True},
    **{"attention_cap": 50.0, "logit_cap": 30.0, "window": 8, "full_layers": (1,)},
    **{"embedding_scale": 16.0},
}


def decoder(**changes) -> Decoder:
    model = Decoder(DecoderConfig(**{**SIZES, **changes}), seed=2)
    rng = np.random.default_rng(1)
    for name, shape in model.config.weights():
        if len(shape) == 1:
            model.graph.values[name] = rng.standard_normal(shape).astype("f4") / 8 + 1
    return model


def logits(model: Decoder, ids: np.ndarray = IDS) -> np.ndarray:
    return model.graph.output({"ids": ids}, model.logits)["logits"]


# -- both ways -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "architecture"),
    [
        ({}, "llama"),
        ({"interleaved": True, "head_size": 32, "tied": True}, "llama"),
        ({"qkv_bias": True, "out_bias": True, "mlp_bias": True}, "llama"),
        ({"experts": 4}, "llama"),
        ({"rope_scaling": RopeScaling("linear", 2.0, 1024)}, "llama"),
        ({"rope_scaling": RopeScaling("yarn", 4.0, 16, beta_fast=16.0)}, "llama"),
        ({"rope_scaling": RopeScaling("yarn", 0.5, 16, attention_factor=1.25)}, "llama"),
        ({"rope_scaling": RopeScaling("llama3", 8.0, 16)}, "llama"),
        ({"qkv_bias": True}, "qwen2"),
        ({"qk_norm": True, "head_size": 32}, "qwen3"),
        ({"activation": "gelu_tanh", "embedding_scale": 16.0, "tied": True}, "gemma"),
        (GEMMA2, "gemma2"),
        ({"rotary_size": 32, "window": 8}, "phi3"),
        (GPT2, "gpt2"),
    ],
)
def test_what_is_written_is_read_again(changes, architecture, tmp_path):
    model = decoder(**changes)
    assert architecture_of(model.config) == architecture
    save_gguf(model, tmp_path / "m.gguf")
    held = from_gguf(tmp_path / "m.gguf")
    assert Gguf(tmp_path / "m.gguf").facts["general.architecture"] == architecture
    a, b = logits(model), logits(held)
    assert np.abs(a - b).max() < 2e-5 * np.abs(a).max()
    save_gguf(held, tmp_path / "again.gguf")
    first, again = Gguf(tmp_path / "m.gguf"), Gguf(tmp_path / "again.gguf")
    assert {n: t.data.tobytes() for n, t in first.items()} == {
        n: t.data.tobytes() for n, t in again.items()
    }


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"rope_scaling": RopeScaling("dynamic", 2.0)}, "no rotary positions of kind 'dynamic'"),
        ({"activation": "relu"}, "llama cannot say activation='relu'"),
        ({"embedding_scale": 2.0}, "llama cannot say embedding_scale=2.0"),
        ({"logit_cap": 30.0}, "llama cannot say logit_cap"),
        ({"gated": False}, "llama cannot say gated=False"),
        ({"renormalize": False, "experts": 4}, "renormalize=False"),
        ({**GEMMA2, "full_layers": (0,)}, "full_layers"),
    ],
)
def test_what_no_file_can_say_is_refused_before_one_is_written(changes, match, tmp_path):
    with pytest.raises(GraphError, match=match):
        save_gguf(decoder(**changes), tmp_path / "m.gguf")
    assert not list(tmp_path.iterdir())


def test_llama3_turns_as_its_factors_do():
    config = DecoderConfig(**SIZES, rope_scaling=RopeScaling("llama3", 8.0, 64), interleaved=True)
    _, factors = keys_of(config, "llama")
    each = tuple(factors["rope_freqs.weight"].tolist())
    assert each[0] == 1.0 and each[-1] == 8.0 and any(1 < f < 8 for f in each)
    pairs = RopeScaling("longrope", 1.0, 64, 1.0, short_factor=each, long_factor=each)
    a, b = Decoder(config, seed=3), Decoder(replace(config, rope_scaling=pairs), seed=3)
    np.testing.assert_allclose(logits(a), logits(b), atol=1e-5)


def test_packed_rows_are_written_in_their_order(tmp_path):
    model = gw.quant.quantize(decoder(), "q4_k").model
    save_gguf(model, tmp_path / "m.gguf")
    held = Gguf(tmp_path / "m.gguf")["blk.0.attn_k.weight"]
    assert held.kind == "q4_k"
    assert np.array_equal(held.data, by_neighbours(model.graph.values["layer0/k"], 2))
    again = from_gguf(tmp_path / "m.gguf")
    assert np.abs(logits(again) - logits(model)).max() < 1e-4 * np.abs(logits(model)).max()


def test_parts_of_a_fused_tensor_of_several_kinds_become_floats(tmp_path):
    formats = {"q": "q8_0", "k": "q4_0", "v": "q4_0", "gate": "q4_0", "up": "q4_0"}
    model = gw.quant.quantize(decoder(rotary_size=32), "float32", formats=formats).model
    save_gguf(model, tmp_path / "m.gguf")
    held = from_gguf(tmp_path / "m.gguf")
    assert {n.partition("/")[2] for n in held.packed} == {"gate", "up"}
    assert np.abs(logits(held) - logits(model)).max() < 1e-4 * np.abs(logits(model)).max()


# -- mapped ----------------------------------------------------------------------------------------


def test_weights_are_views_of_the_file(tmp_path):
    model = gw.quant.quantize(decoder(vocabulary=4096, rotary_size=32), "q8_0").model
    save_gguf(model, tmp_path / "m.gguf")
    size = (tmp_path / "m.gguf").stat().st_size
    from_gguf(tmp_path / "m.gguf").generation()  # which imports what it needs
    tracemalloc.start()
    held = from_gguf(tmp_path / "m.gguf")
    kept, most = tracemalloc.get_traced_memory()
    held.generation()  # its weights come when it begins
    more = tracemalloc.get_traced_memory()[1] - kept
    tracemalloc.stop()
    assert max(most, more) < size / 8
    q, k = (held.graph.values[f"layer0/{n}"] for n in "qk")
    assert q.dtype == np.uint8 and not q.flags.writeable
    assert k.ctypes.data == q.ctypes.data + q.nbytes  # rows of one tensor, one after another
    assert not held.graph["layer0/q"].node.trainable
    with pytest.raises(GradwrightError):
        held.graph.values["layer0/q"] = np.zeros((1, 1), np.uint8)


def test_what_no_product_reads_becomes_floats(tmp_path):
    model = decoder()
    save_gguf(model, tmp_path / "m.gguf", kind="f16")
    held = Gguf(tmp_path / "m.gguf")
    assert {t.kind for t in held.values()} == {"f16", "f32"}
    arrays, kinds = {n: t.data for n, t in held.items()}, {n: t.kind for n, t in held.items()}
    name = "blk.0.ffn_up.weight"
    rng = np.random.default_rng(0)
    arrays[name] = rng.integers(0, 60, (256, 136), dtype=np.uint8)
    kinds[name] = "iq4_xs"
    arrays["blk.1.ffn_up.weight"], kinds["blk.1.ffn_up.weight"] = arrays[name][:, :110], "q3_k"
    write(tmp_path / "iq.gguf", held.facts, arrays, kinds)
    again = from_gguf(tmp_path / "iq.gguf")
    assert again.packed == {"layer1/up": "q3_k"}
    up = again.graph.values["layer0/up"]
    assert up.dtype == np.float32 and np.array_equal(up, Gguf(tmp_path / "iq.gguf")[name].floats())
    assert again.graph.values["layer0/q"].dtype == np.float32


# -- what is refused -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "m.gguf"
    save_gguf(decoder(width=32, inner=32), path)
    held = Gguf(path)
    return dict(held.facts), {n: t.data for n, t in held.items()}


@pytest.mark.parametrize(
    ("keys", "tensors", "match"),
    [
        ({"general.architecture": "mamba"}, {}, r"'mamba' are not read[\s\S]*llama, qwen2"),
        ({"general.architecture": None}, {}, "no key general.architecture"),
        ({"general.architecture": 3}, {}, "general.architecture is 3"),
        ({"llama.block_count": None}, {}, "no key llama.block_count"),
        ({"llama.block_count": 1 << 30}, {}, "block_count is 1073741824"),
        ({"llama.block_count": 3}, {}, "'blk.2.attn_norm.weight' is missing"),
        ({"llama.block_count": 1}, {}, "'blk.1.attn_k.weight' has no place"),
        ({"llama.block_count": "2"}, {}, "block_count is '2'"),
        ({"llama.block_count": 2.0}, {}, "block_count is 2.0"),
        ({"llama.embedding_length": 64}, {}, "shape"),
        ({"llama.attention.head_count": 0}, {}, "head_count is 0"),
        ({"llama.attention.head_count": 3}, {}, "."),
        ({"llama.attention.head_count_kv": np.array([2, 1], "u4")}, {}, "all layers"),
        ({"llama.attention.value_length": 9}, {}, "value_length is 9"),
        ({"llama.rope.scaling.type": "su"}, {}, "type is 'su'"),
        ({"llama.rope.freq_base": float("nan")}, {}, "freq_base is nan"),
        ({"tokenizer.ggml.eos_token_id": 64}, {}, "eos_token_id is 64"),
        ({"general.type": "mmproj"}, {}, "type 'mmproj'"),
        ({}, {"blk.0.attn_q.weight": None}, "'blk.0.attn_q.weight' is missing"),
        ({}, {"blk.0.attn_q.weight": np.zeros((32, 16), "f4")}, r"shape \(32, 16\)"),
        ({}, {"blk.0.attn_q.weight": np.zeros(32, "f4")}, r"shape \(32,\)"),
        ({}, {"blk.0.ssm_a": np.zeros(4, "f4")}, "'blk.0.ssm_a' has no place"),
        ({}, {"token_embd.weight": np.zeros((9, 32), "f4")}, r"shape \(64, 32\)"),
        ({}, {"blk.0.attn_q.weight": np.zeros((32, 32), "i4")}, "holds i32"),
        ({}, {"rope_freqs.weight": np.ones((128, 64), "f4")}, r"freqs.weight' has the shape \(128"),
        ({}, {"rope_freqs.weight": np.array([1, np.nan, 2, 2], "f4")}, "no factors of pairs"),
        ({}, {"rope_freqs.weight": np.array([1, 2, -1, 2], "f4")}, "no factors of pairs"),
    ],
)
def test_files_whose_keys_and_tensors_differ_are_refused(good, keys, tensors, match, tmp_path):
    facts = {k: v for k, v in (good[0] | keys).items() if v is not None}
    arrays = {k: v for k, v in (good[1] | tensors).items() if v is not None}
    write(tmp_path / "m.gguf", facts, arrays)
    if match == ".":
        with pytest.raises(GradwrightError):
            from_gguf(tmp_path / "m.gguf")
        return
    with pytest.raises(ArchiveError, match=match) as caught:
        from_gguf(tmp_path / "m.gguf")
    assert str(caught.value).startswith(str(tmp_path))


# -- what headers tell -----------------------------------------------------------------------------


def test_inspecting_tells_the_truth_to_the_byte(tmp_path):
    model = gw.quant.quantize(decoder(), "q4_k", formats={"head": "q6_k", "v": "float32"}).model
    model.graph.name = "small"
    save_gguf(model, tmp_path / "m.gguf")
    info = gw.inspect(tmp_path / "m.gguf")
    assert (info.format, info.name, info.architecture) == ("a GGUF file", "small", "llama")
    assert info.parameters == model.n_weights
    by_kind: dict[str, int] = {}
    for name, _ in model.config.weights():
        kind = model.packed.get(name, "float32")
        by_kind[kind] = by_kind.get(kind, 0) + model.graph.values[name].nbytes
    assert info.dtypes == by_kind and set(by_kind) == {"q4_k", "q6_k", "float32"}
    shape = info.language
    assert (shape.layers, shape.width, shape.heads, shape.kv_heads) == (2, 256, 4, 2)
    assert (shape.features, shape.inner, shape.vocabulary, shape.context) == (64, 256, 64, 1024)
    assert not info.findings and "llama" in str(info) and info.memory is not None
    held = gw.inspect(tmp_path / "m.gguf", sizes={"length": 100}).memory
    assert held.weights == sum(by_kind.values())


def test_inspecting_says_what_cannot_be_opened(tmp_path, good):
    keys = {k.replace("llama.", "mamba."): v for k, v in good[0].items()}
    keys |= {"general.architecture": "mamba", "tokenizer.ggml.model": "rwkv", "t": "x" * 5000}
    keys |= {"tokenizer.ggml.tokens": ["a"] * 7}
    write(tmp_path / "m.gguf", keys, good[1])
    info = gw.inspect(tmp_path / "m.gguf")
    said = " ".join(f.what for f in info.findings)
    assert "'mamba' is not read here" in said and "'rwkv'" in said
    assert info.tokenizer == "rwkv, 7 tokens" and info.language.layers == 2
    assert info.metadata["t"].endswith("5,000 characters") and len(info.metadata["t"]) < 300
    assert info.metadata["tokenizer.ggml.tokens"] == "7 elements"
    with pytest.raises(ArchiveError, match="'mamba' are not read"):
        gw.open(tmp_path / "m.gguf")


def test_every_architecture_has_its_name_in_the_package():
    gguf = pytest.importorskip("gguf")
    assert set(ARCHITECTURES) <= set(gguf.MODEL_ARCH_NAMES.values())


def test_a_file_is_drawn_from_its_header_alone(tmp_path):
    model = gw.quant.quantize(decoder(vocabulary=4096, rotary_size=32), "q8_0").model
    model.graph.name = "small model"
    save_gguf(model, tmp_path / "m.gguf", name="small model")
    counted = Counted(source.at(tmp_path / "m.gguf"))
    graph = registry.named("gguf").outline(counted).graph
    assert counted.total[0] < 20_000 < counted.size and graph.name == "small_model"
    assert not {"embed", "norm"} & set(graph.values)  # and no zeros in their place
    assert [n.name for n in graph.nodes] == [n.name for n in model.graph.nodes]
    assert graph["layer0/o"].spec == model.graph["layer0/o"].spec
    assert graph.known_as["blk.0.attn_output.weight"] is graph["layer0/o"]
    assert set(graph.known_as) <= set(registry.named("gguf").tensors(counted))
    with pytest.raises(ArchiveError, match="block_count is 1001"):
        keys = dict(Gguf(tmp_path / "m.gguf").facts) | {"phi3.block_count": 1001}
        write(tmp_path / "deep.gguf", keys, {f"t{i}": np.zeros(1, "f4") for i in range(1200)})
        registry.named("gguf").outline(source.at(tmp_path / "deep.gguf"))
