"""BERT, RoBERTa and DistilBERT in GGUF files, as llama.cpp's converter makes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GraphError
from gradwright.formats import registry, source
from gradwright.formats.gguf.mapped import Gguf
from gradwright.formats.gguf.writing import write
from gradwright.models import Bert, BertConfig, Decoder, DecoderConfig, Tokenizer, save_gguf
from tests.models import theirs as other

gguf = pytest.importorskip("gguf")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES = {"vocab_size": 60, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES |= {"intermediate_size": 96, "max_position_embeddings": 40}
DISTILLED = {"vocab_size": 60, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 96}
DISTILLED |= {"max_position_embeddings": 40}
PAD = 1
KINDS = {
    "BertModel": SIZES,
    "BertForMaskedLM": {**SIZES, "type_vocab_size": 3},
    "RobertaModel": {**SIZES, "type_vocab_size": 1, "pad_token_id": PAD, "layer_norm_eps": 1e-5},
    "RobertaForSequenceClassification": {**SIZES, "type_vocab_size": 1, "num_labels": 3},
    "DistilBertModel": DISTILLED,
}
IDS = np.random.default_rng(0).integers(5, 60, (2, 9))
ROWS = [IDS[0].tolist(), IDS[1, :5].tolist()]
DROPPED = ("pooler.dense.", "cls.", "lm_head.", "vocab_", "embeddings.position_ids")


def made(kind):
    cls = getattr(transformers, kind)
    torch.manual_seed(0)
    return other.drawn(cls(cls.config_class(**KINDS[kind])).eval())


def convert(theirs, path, more=lambda write: None):
    """Write a model by the names of the package, as ``conversion/bert.py`` does."""
    c = theirs.config
    write = gguf.GGUFWriter(str(path), "bert")
    write.add_block_count(c.num_hidden_layers)
    write.add_embedding_length(c.hidden_size)
    write.add_feed_forward_length(getattr(c, "intermediate_size", None) or c.hidden_dim)
    write.add_head_count(c.num_attention_heads)
    write.add_layer_norm_eps(getattr(c, "layer_norm_eps", 1e-12))
    write.add_causal_attention(False)
    write.add_pooling_type(gguf.PoolingType.MEAN)
    write.add_token_type_count(getattr(c, "type_vocab_size", 1))
    cut = PAD + 1 if c.model_type == "roberta" else 0
    write.add_context_length(c.max_position_embeddings - cut)
    more(write)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, c.num_hidden_layers)
    for key, tensor in theirs.state_dict().items():
        key = key.removeprefix(f"{c.model_type}.")
        if key.startswith(DROPPED):
            continue
        data = tensor.numpy().astype("f4")
        if key == "embeddings.position_embeddings.weight":
            data = data[cut:]
        name = names.get_name(key, try_suffixes=(".weight", ".bias"))
        assert name, key
        write.add_tensor(name, np.ascontiguousarray(data))
    write.write_header_to_file()
    write.write_kv_data_to_file()
    write.write_tensors_to_file()
    write.close()


def outputs(model):
    wanted = {n: model.graph[n] for n in ("hidden", "pooled", "logits") if n in model.graph}
    with gw.Session(model.graph) as session:
        return session.run(wanted, model.examples(ROWS))


def outputs_there(theirs):
    feeds = Bert(BertConfig(vocabulary=60, width=8, layers=1, heads=1)).examples(ROWS)
    ids, mask = feeds["ids"].copy(), feeds["attention_mask"]
    ids[mask == 0] = theirs.config.pad_token_id
    with torch.no_grad():
        found = theirs(
            torch.tensor(ids), attention_mask=torch.tensor(mask), output_hidden_states=True
        )
    hidden = found.hidden_states[-1].numpy()
    logits = {"logits": found.logits.numpy()} if theirs.config.num_labels == 3 else {}
    return {"hidden": hidden[mask.astype(bool)], **logits}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_gives_what_transformers_gives(kind, tmp_path):
    theirs = made(kind)
    convert(theirs, tmp_path / "m.gguf")
    model = gw.open(tmp_path / "m.gguf")
    assert isinstance(model, Bert) and model.graph["layer1/up"].shape == (96, 64)
    wanted, found = outputs_there(theirs), outputs(model)
    found["hidden"] = found["hidden"][model.examples(ROWS)["attention_mask"].astype(bool)]
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, 0, 1e-5 * np.abs(array).max(), err_msg=name)
    info = gw.inspect(tmp_path / "m.gguf")
    assert (info.architecture, info.language, list(info.findings)) == ("bert", None, [])
    segments = 64 if kind == "DistilBertModel" else 0  # zeros, which no file holds
    assert info.parameters == model.n_weights - segments
    save_gguf(model, tmp_path / "ours.gguf")
    again = gw.open(tmp_path / "ours.gguf")
    assert again.config == model.config
    for name, array in outputs(model).items():
        assert np.array_equal(outputs(again)[name], array)


def test_blocks_are_read_as_they_lie(tmp_path):
    model = Bert(BertConfig(vocabulary=64, width=64, layers=2, heads=4, head="classes"), seed=3)
    save_gguf(model, tmp_path / "f.gguf")
    save_gguf(model, tmp_path / "q.gguf", kind="q8_0")
    exact, packed = gw.open(tmp_path / "f.gguf"), gw.open(tmp_path / "q.gguf")
    assert exact.packed == {} and len(packed.packed) == 1 + 2 * 6 + 2
    kinds = {name: str(t.kind) for name, t in Gguf(tmp_path / "q.gguf").items()}
    assert kinds["token_types.weight"] == kinds["position_embd.weight"] == "f32"
    assert kinds["blk.0.attn_q.weight"] == kinds["cls.weight"] == "q8_0"
    assert kinds["blk.1.layer_output_norm.bias"] == "f32"
    for name, array in outputs(exact).items():
        assert np.abs(outputs(packed)[name] - array).max() < 0.05 * np.abs(array).max()
        np.testing.assert_array_equal(outputs(model)[name], array)
    outline = registry.named("gguf").outline(source.at(tmp_path / "q.gguf")).graph
    assert [n.name for n in outline.nodes] == [n.name for n in packed.graph.nodes]
    assert outline.known_as["blk.0.attn_output_norm.weight"] is outline["layer0/attention_norm"]


def test_its_tokenizer_goes_along(tmp_path):
    """Of a file of theirs: [CLS] and [SEP] around a text, and pieces of words."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##believ", "##able", "low", "!"]
    words += [f"w{i}" for i in range(50)]
    vocabulary = {word: i for i, word in enumerate(words)}
    text = "Unbelievable LOW! [MASK] w7 what"
    wanted = transformers.BertTokenizer(vocab=vocabulary)(text)["input_ids"]

    def more(write):
        control = gguf.TokenType.CONTROL
        kinds = [control if w.startswith("[") else gguf.TokenType.NORMAL for w in words]
        write.add_tokenizer_model("bert")
        write.add_tokenizer_pre("default")
        write.add_token_list(
            [
                w if k == control else w[2:] if w.startswith("##") else "\u2581" + w
                for w, k in zip(words, kinds, strict=True)
            ]
        )
        write.add_token_types(kinds)
        write.add_bos_token_id(2)
        write.add_sep_token_id(3)
        write.add_unk_token_id(1)

    convert(made("BertModel"), tmp_path / "m.gguf", more)
    model = gw.open(tmp_path / "m.gguf")
    assert model.tokenizer.encode(text) == wanted and wanted[:4] == [2, 5, 6, 7]
    save_gguf(model, tmp_path / "ours.gguf")
    assert gw.open(tmp_path / "ours.gguf").tokenizer.encode(text) == wanted
    gw.models.save_pretrained(model, tmp_path / "folder")
    assert isinstance(gw.open(tmp_path / "folder").tokenizer, Tokenizer)


SMALL = BertConfig(vocabulary=40, width=32, layers=1, heads=2, pooler=False)


@pytest.mark.parametrize(
    ("keys", "tensors", "match"),
    [
        ({"bert.attention.causal": True}, {}, "attention.causal is True"),
        ({"bert.block_count": 2}, {}, "'blk.1.attn_output_norm.weight' is missing"),
        ({"bert.attention.head_count": 3}, {}, "3 heads"),
        ({"bert.context_length": 7}, {}, r"'position_embd.weight' has the shape \(512, 32\)"),
        ({}, {"cls.output.weight": np.zeros((2, 32), "f4")}, "cls.output, and no cls"),
        ({}, {"cls.weight": np.zeros((2, 32), "f4")}, r"'cls.weight' has the shape \(2, 32\)"),
        ({}, {"blk.0.attn_q_norm.weight": np.zeros(32, "f4")}, "'blk.0.attn_q_norm.weight' has no"),
        ({"general.architecture": "nomic-bert"}, {}, "'nomic-bert' are not read"),
    ],
)
def test_what_is_no_bert_is_refused(keys, tensors, match, tmp_path):
    save_gguf(Bert(SMALL), tmp_path / "good.gguf")
    held = Gguf(tmp_path / "good.gguf")
    arrays = {name: t.data for name, t in held.items()} | tensors
    if "cls.weight" in tensors:
        arrays["cls.bias"] = np.zeros(2, "f4")
    write(tmp_path / "m.gguf", dict(held.facts) | keys, arrays)
    with pytest.raises((ArchiveError, GraphError), match=match):
        gw.open(tmp_path / "m.gguf")


@pytest.mark.parametrize(
    ("config", "architecture", "match"),
    [
        (replace(SMALL, head="tokens"), None, "bert cannot say head='tokens'"),
        (replace(SMALL, activation="relu"), None, "bert cannot say activation='relu'"),
        (SMALL, "llama", "of llama holds no such model"),
        (DecoderConfig(vocabulary=9, width=8, layers=1, heads=2), "bert", "of bert holds no such"),
    ],
)
def test_what_a_file_cannot_say_is_not_written(config, architecture, match, tmp_path):
    model = Bert(config) if isinstance(config, BertConfig) else Decoder(config)
    with pytest.raises(GraphError, match=match):
        save_gguf(model, tmp_path / "m.gguf", architecture=architecture)
    assert not list(tmp_path.iterdir())
