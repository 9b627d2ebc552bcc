"""Tokenizers of GGUF files beside the library's own, and beside transformers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GraphError
from gradwright.formats.gguf.mapped import Gguf
from gradwright.models import CharTokenizer, Decoder, DecoderConfig, Tokenizer, from_gguf, save_gguf
from gradwright.models.gguf.splits import SPLITS, name_of
from gradwright.models.gguf.tokenizers import SPACE, describe, tokenizer_from_gguf
from gradwright.models.gguf.vocabularies import tokenizer_keys

library = pytest.importorskip("tokenizers")
TEXTS = [
    "Hello, world! It's 2024's 12345th lower-case TeSt; don't won't I'LL",
    "  two  spaces\t\ttabs\n\n  newlines \r\n end   ",
    "naïve café — ½ №5 你好世界 ﷽ 🙂👍🏽 \u200d x̂",
    "def f(x):\n    return x**2  # CamelCaseWord HTTPServer2 a_b\n\n\n",
    "",
    " ",
    "<s>not special</s>",
]
CORPUS = ["lower lowest newer wider don't it's " * 3, *TEXTS, "The quick brown fox 123 4567 " * 4]


def byte_pairs(rule: str, size: int = 400, special: tuple[str, ...] = ("<bos>", "<eos>")):
    """Return a tokenizer of the library that splits by a rule, trained."""
    split, pre = SPLITS[rule], library.pre_tokenizers
    inner = library.Tokenizer(library.models.BPE(ignore_merges=split.ignore_merges))
    cuts = [pre.Split(library.Regex(p), "isolated") for p in split.patterns]
    inner.pre_tokenizer = pre.Sequence([*cuts, pre.ByteLevel(False, use_regex=False)])
    inner.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(special),
        initial_alphabet=sorted(pre.ByteLevel.alphabet()),
        show_progress=False,
    )
    inner.train_from_iterator(CORPUS, trainer)
    return inner


def again(tokenizer: Tokenizer, tmp_path, size: int = 0):
    """Return a tokenizer after it has been written with a model, and read."""
    config = DecoderConfig(vocabulary=size or len(tokenizer), width=8, layers=1, heads=2, inner=8)
    model = Decoder(config, tokenizer=tokenizer)
    save_gguf(model, tmp_path / "m.gguf")
    return from_gguf(tmp_path / "m.gguf").tokenizer


# -- byte pairs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", sorted({split: name for name, split in SPLITS.items()}.values()))
def test_texts_are_split_by_the_rule(rule, tmp_path):
    inner = byte_pairs(rule)
    read = again(Tokenizer(inner), tmp_path)
    assert name_of(SPLITS[rule].patterns, SPLITS[rule].ignore_merges) is not None
    for text in TEXTS:
        ids = read.encode(text, special=False)
        assert ids == inner.encode(text, add_special_tokens=False).ids
        assert read.decode(ids) == inner.decode(ids) == text
    assert len(read) == inner.get_vocab_size()


def test_rules_differ_in_what_they_split():
    """Words that were cut by one rule give other tokens by another: names are no ornament."""
    texts = " ".join(TEXTS)
    cuts = {}
    for split in set(SPLITS.values()):
        pre = library.pre_tokenizers
        inner = pre.Sequence([pre.Split(library.Regex(p), "isolated") for p in split.patterns])
        cuts[split.patterns] = tuple(piece for piece, _ in inner.pre_tokenize_str(texts))
    assert len(set(cuts.values())) == len(cuts) >= 7


def test_ours_is_read_by_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("gguf")
    ours = Tokenizer.train(CORPUS, vocabulary=420, special=["<eos>"])
    model = Decoder(
        DecoderConfig(vocabulary=420, width=8, layers=1, heads=2, inner=8, qkv_bias=True),
        tokenizer=ours,
        eos=0,
    )
    save_gguf(model, tmp_path / "m.gguf")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, gguf_file="m.gguf")
    read = from_gguf(tmp_path / "m.gguf")
    for text in TEXTS:
        ids = ours.encode(text)
        assert read.tokenizer.encode(text) == ids == theirs(text)["input_ids"]
    assert list(read.eos) == [0] and read.tokenizer.inner.token_to_id("<eos>") == 0


def test_tokens_around_a_text_and_control_ones_in_it(tmp_path):
    inner = byte_pairs("llama-bpe")
    inner.post_processor = library.processors.TemplateProcessing(
        single="<bos> $A <eos>", special_tokens=[("<bos>", 0), ("<eos>", 1)]
    )
    read = again(Tokenizer(inner), tmp_path)
    plain = inner.encode("newer", add_special_tokens=False).ids
    assert read.encode("newer") == [0, *plain, 1] and read.encode("newer", special=False) == plain
    assert read.encode("<eos>", special=False) == [1] and read.decode([0, *plain]) == "newer"


def test_a_model_larger_than_its_tokenizer_has_unused_tokens(tmp_path):
    inner = byte_pairs("gpt-2")
    read = again(Tokenizer(inner), tmp_path, size=450)
    assert len(read) == 450
    assert read.encode(TEXTS[0]) == inner.encode(TEXTS[0]).ids
    with pytest.raises(GraphError, match="the model 300"):
        tokenizer_keys(Tokenizer(inner), 300)


# -- SentencePiece ---------------------------------------------------------------------------------


def merged(text: str, vocabulary: dict[str, int], scores: np.ndarray, prefix: bool) -> list[int]:
    """Return tokens as SentencePiece finds them: the neighbours of the best score are joined."""
    pieces = list((SPACE if prefix else "") + text.replace(" ", SPACE)) if text else []
    while True:
        pairs = [
            (scores[vocabulary[a + b]], -i)
            for i, (a, b) in enumerate(pairwise(pieces))
            if a + b in vocabulary
        ]
        if not pairs:
            break
        i = -max(pairs)[1]
        pieces[i : i + 2] = ["".join(pieces[i : i + 2])]
    found: list[int] = []
    for piece in pieces:
        if piece in vocabulary:
            found.append(vocabulary[piece])
        else:
            found += [vocabulary[f"<0x{b:02X}>"] for b in piece.encode()]
    return found


@pytest.mark.parametrize("prefix", [True, False])
def test_pieces_are_joined_by_their_scores(prefix, tmp_path):
    rng = np.random.default_rng(0)
    words = {w for text in CORPUS for w in (SPACE + text.replace(" ", SPACE)).split(SPACE)}
    parts = sorted({w[:n] for w in words for n in range(2, 5)} - {""})[:150]
    letters = sorted({c for part in parts for c in part})
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    tokens += [t for t in dict.fromkeys([*letters, SPACE, *parts, *(SPACE + p for p in parts)])
               if t not in tokens]  # fmt: skip
    types = np.array([2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259), "i4")
    scores = np.where(types == 1, -rng.permutation(len(tokens)), 0).astype("f4")
    keys = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_space_prefix": prefix,
    }
    read = tokenizer_from_gguf(keys)
    vocabulary = {t: i for i, t in enumerate(tokens)}
    for text in TEXTS[:6]:
        ids = read.encode(text)
        assert ids == [1, *merged(text, vocabulary, scores, prefix)]
        assert read.decode(ids) == text
    assert read.encode("</s>", special=False) == [2]


def test_pieces_of_the_library_are_written(tmp_path):
    inner = library.Tokenizer(library.models.BPE(unk_token="<unk>", byte_fallback=True))
    inner.normalizer = library.normalizers.Sequence(
        [library.normalizers.Prepend(SPACE), library.normalizers.Replace(" ", SPACE)]
    )
    trainer = library.trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<unk>", "<s>", *(f"<0x{b:02X}>" for b in range(256))],
        show_progress=False,
    )
    inner.train_from_iterator(CORPUS, trainer)
    inner.post_processor = library.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    read = again(Tokenizer(inner), tmp_path)
    keys = Gguf(tmp_path / "m.gguf").facts
    assert (keys["tokenizer.ggml.model"], keys["tokenizer.ggml.bos_token_id"]) == ("llama", 1)
    assert describe(keys) == f"SentencePiece BPE, {inner.get_vocab_size():,} tokens"
    for text in TEXTS[:4]:
        assert read.encode(text) == inner.encode(text).ids
        assert read.decode(read.encode(text)) == text


# -- WordPiece -------------------------------------------------------------------------------------


def test_word_pieces_are_spelt_with_a_mark_at_the_begin(tmp_path):
    inner = library.Tokenizer(library.models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = library.normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=160, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], show_progress=False
    )
    inner.train_from_iterator(CORPUS, trainer)
    inner.post_processor = library.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    read = again(Tokenizer(inner), tmp_path)
    tokens = list(Gguf(tmp_path / "m.gguf").facts["tokenizer.ggml.tokens"])
    assert not any(t.startswith("##") for t in tokens) and tokens[2] == "[CLS]"
    assert sum(t.startswith(SPACE) for t in tokens) > 20
    for text in (*TEXTS[:2], "Unbelievable ☃ lowest"):
        assert read.encode(text) == inner.encode(text).ids


# -- what is refused -------------------------------------------------------------------------------

GOOD = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": ["a", "b", "ab"],
    "tokenizer.ggml.merges": ["a b"],
}


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"model": None}, "has no tokenizer"),
        ({"model": "none"}, "has no tokenizer"),
        ({"model": ["gpt2"]}, r"kind \['gpt2'\]"),
        ({"model": "rwkv"}, "kind 'rwkv'; read are gpt2, llama, bert"),
        ({"model": 3}, "kind 3"),
        ({"pre": "mystery"}, r"pre is 'mystery'[\s\S]*llama-bpe"),
        ({"pre": None}, "pre is ''"),
        ({"pre": 7}, "pre is 7"),
        ({"tokens": None}, "no key tokenizer.ggml.tokens"),
        ({"tokens": "abc"}, "tokens is 'str'"),
        ({"tokens": np.arange(3)}, "tokens is 'ndarray'"),
        ({"merges": np.arange(3)}, "merges is 'ndarray'"),
        ({"token_type": np.ones(3, "f4")}, "token_type is 'ndarray'"),
        ({"model": "llama", "scores": None}, "no key tokenizer.ggml.scores"),
        ({"model": "llama", "scores": np.ones(3, "i4")}, "scores is 'ndarray'"),
    ],
)
def test_keys_that_tell_of_no_tokenizer_are_refused(changes, match, tmp_path):
    keys = GOOD | {f"tokenizer.ggml.{k}": v for k, v in changes.items()}
    keys = {k: v for k, v in keys.items() if v is not None}
    with pytest.raises(ArchiveError, match=match):
        tokenizer_from_gguf(keys)


def test_a_file_whose_tokenizer_is_not_known_opens_without_one_and_says_so(tmp_path):
    from gradwright.formats.gguf.writing import write

    config = DecoderConfig(vocabulary=420, width=8, layers=1, heads=2, inner=8)
    save_gguf(Decoder(config, tokenizer=Tokenizer(byte_pairs("gpt-2"))), tmp_path / "m.gguf")
    held = Gguf(tmp_path / "m.gguf")
    keys = dict(held.facts) | {"tokenizer.ggml.pre": "mystery"}
    write(tmp_path / "odd.gguf", keys, {n: t.data for n, t in held.items()})
    assert from_gguf(tmp_path / "odd.gguf").tokenizer is None
    info = gw.inspect(tmp_path / "odd.gguf")
    assert info.tokenizer == "byte BPE, 420 tokens, split as mystery"
    assert any("mystery" in f.what for f in info.findings)


def test_a_file_without_a_tokenizer_says_so(tmp_path):
    """llama.cpp opens it: without a word it would not."""
    config = DecoderConfig(vocabulary=20, width=8, layers=1, heads=2, inner=8)
    save_gguf(Decoder(config), tmp_path / "m.gguf")
    held = Gguf(tmp_path / "m.gguf")
    assert held.facts["tokenizer.ggml.model"] == "none" and held.facts["llama.vocab_size"] == 20
    assert from_gguf(tmp_path / "m.gguf").tokenizer is None
    info = gw.inspect(tmp_path / "m.gguf")
    assert not info.tokenizer and not info.findings


def test_a_tokenizer_that_files_have_no_words_for_is_refused():
    with pytest.raises(GraphError, match="no words for a CharTokenizer"):
        tokenizer_keys(CharTokenizer("ab"), 2)
    inner = byte_pairs("gpt-2")
    inner.pre_tokenizer = library.pre_tokenizers.Sequence(
        [
            library.pre_tokenizers.Split(library.Regex("[aeiou]"), "isolated"),
            library.pre_tokenizers.ByteLevel(False, use_regex=False),
        ]
    )
    with pytest.raises(GraphError, match=r"split rule \['\[aeiou\]'\]"):
        tokenizer_keys(Tokenizer(inner), 500)
    unigram = library.Tokenizer(library.models.Unigram([("a", 0.0)]))
    with pytest.raises(GraphError, match="of kind Unigram"):
        tokenizer_keys(Tokenizer(unigram), 500)


def test_broken_merges_are_an_error_of_ours_when_first_used():
    read = tokenizer_from_gguf(GOOD | {"tokenizer.ggml.merges": ["a c"]})
    with pytest.raises(ArchiveError, match="cannot be built"):
        read.encode("ab")
