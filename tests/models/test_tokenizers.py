"""Tokenizers: round trips, special tokens, text that comes piece by piece, files, errors."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from gradwright.errors import GraphError
from gradwright.models import CharTokenizer, TextStream, Tokenizer, decode_stream

TEXTS = ["The cat sat on the mat.", "A cat is a cat; the mat is a mat.", "naïve café, 日本語 🙂"]


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("tokenizers", reason="pip install -e '.[text]'")


@pytest.fixture(scope="module")
def bpe(library) -> Tokenizer:
    return Tokenizer.train(TEXTS * 3, vocabulary=300, special=["<eos>", "<pad>"])


def test_characters_come_back() -> None:
    tokenizer = CharTokenizer.train("hello 🙂é")
    text = "olé 🙂 he"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text and len(ids) == len(text)
    assert tokenizer.encode("") == [] and tokenizer.decode([]) == ""
    assert tokenizer.decode(np.array(ids)) == text
    assert sorted(tokenizer.characters) == list(tokenizer.characters)


def test_a_character_tokenizer_is_kept_in_a_file(tmp_path) -> None:
    path = tmp_path / "chars.json"
    tokenizer = CharTokenizer.train('a"\\\n🙂')
    tokenizer.save(path)
    assert CharTokenizer.load(path).characters == tokenizer.characters
    path.write_text("[1]")
    with pytest.raises(GraphError, match="holds no character tokenizer"):
        CharTokenizer.load(path)
    path.write_bytes(b"\xff\x00")
    with pytest.raises(GraphError, match="is no JSON"):
        CharTokenizer.load(path)


def test_characters_that_are_not_there_are_named() -> None:
    tokenizer = CharTokenizer("abc")
    with pytest.raises(GraphError, match="'x' at 2 is not in the vocabulary"):
        tokenizer.encode("abx")
    for wrong in (3, -1):
        with pytest.raises(GraphError, match=f"no token {wrong}"):
            tokenizer.decode([0, wrong])
    for wrong in ("", "aa"):
        with pytest.raises(GraphError, match="needs characters"):
            CharTokenizer(wrong)


def test_byte_pairs_come_back_and_are_fewer(bpe) -> None:
    for text in [*TEXTS, "  two  spaces \n", "never seen: ж"]:
        assert bpe.decode(bpe.encode(text)) == text
    assert len(bpe.encode(TEXTS[1])) < len(TEXTS[1]) / 2
    assert len(bpe) <= 300


def test_batches_are_their_rows(bpe) -> None:
    ids = bpe.encode_batch(TEXTS)
    assert ids == [bpe.encode(t) for t in TEXTS] and bpe.decode_batch(ids) == TEXTS


def test_special_tokens_are_numbers_of_their_own(bpe) -> None:
    eos = bpe.id_of("<eos>")
    assert (eos, bpe.id_of("<pad>")) == (0, 1)
    ids = [*bpe.encode("cat"), eos]
    assert bpe.decode(ids) == "cat" and bpe.decode(ids, special=True) == "cat<eos>"
    with pytest.raises(GraphError, match="no token '<bos>'"):
        bpe.id_of("<bos>")


def test_a_tokenizer_json_is_that_of_the_library(bpe, library, tmp_path) -> None:
    path = tmp_path / "tokenizer.json"
    bpe.save(path)
    again = Tokenizer.load(path)
    assert again.encode(TEXTS[2]) == bpe.encode(TEXTS[2])
    assert library.Tokenizer.from_file(str(path)).encode(TEXTS[2]).ids == bpe.encode(TEXTS[2])
    with pytest.raises(GraphError, match="there is no file"):
        Tokenizer.load(tmp_path / "none.json")
    path.write_text("{}")
    with pytest.raises(GraphError, match=r"is no tokenizer\.json"):
        Tokenizer.load(path)
    with pytest.raises(GraphError, match="no room for all bytes"):
        Tokenizer.train(TEXTS, vocabulary=100)
    with pytest.raises(GraphError, match="str is no tokenizer"):
        Tokenizer("gpt2")


def test_streams_give_whole_characters_only(bpe) -> None:
    for text in [*TEXTS, "🙂🙂é", "a"]:
        pieces = list(decode_stream(bpe, bpe.encode(text)))
        assert "".join(pieces) == text and not any("\ufffd" in p for p in pieces)
    smile = bpe.encode("🙂")
    assert len(smile) > 1
    stream = TextStream(bpe)
    assert [stream.push(i) for i in smile] == [""] * (len(smile) - 1) + ["🙂"]


def test_bytes_that_are_no_character_come_at_the_end(bpe) -> None:
    torn = bpe.encode("🙂")[:-1]
    pieces = list(decode_stream(bpe, [*bpe.encode("ok"), *torn]))
    assert "".join(pieces).startswith("ok\ufffd") and pieces[-1].startswith("\ufffd")
    stream = TextStream(bpe)
    for i in [*torn, *bpe.encode("x")]:
        text = stream.push(i)
    assert text.endswith("x") and stream.finish() == ""


def test_without_the_library_the_error_says_what_to_do(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(GraphError, match="is not installed") as caught:
        Tokenizer.load("tokenizer.json")
    assert "pip install tokenizers" in str(caught.value)
