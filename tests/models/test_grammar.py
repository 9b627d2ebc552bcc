"""Grammars: automata over bytes beside Python's ``re``, spellings of tokens, texts that fit."""

from __future__ import annotations

import itertools
import re
import time
from typing import Any

import numpy as np
import pytest

from gradwright.errors import GraphError
from gradwright.models import (
    CharTokenizer,
    Completion,
    Decoder,
    DecoderConfig,
    Draft,
    Greedy,
    Regex,
    Temperature,
    Tokenizer,
    TopK,
    choose,
)
from gradwright.models.grammar.automaton import DEAD, START, Automaton, code_points
from gradwright.models.grammar.vocabulary import Vocabulary, spellings
from tests.models.test_generation import loud

PATTERNS = [
    "abc", "a*", "(ab)+c?", "a|bc|", "[a-c]{2,3}", "(a|b)*abb", "[^a]b", "x?(a.c)*", "",
    r"\d+(\.\d+)?", r"[é-ü]+|日本?", "(?i)aB", "(?s).{2}", r"\pL\d", "^ab$", "a(b|$)",
    r"[^\x00-\x7f]+",
    "(a?){3}b", "🙂|🙁", r"-?(0|[1-9]\d*)",
]  # fmt: skip


def walked(automaton: Automaton, data: bytes) -> int:
    state = START
    for byte in data:
        state = automaton.step(state, byte)
    return state


def by_re(pattern: str) -> Any:
    return re.compile(pattern.replace(r"\pL", "[a-zA-Zé日本ü]").replace(r"\d", "[0-9]"))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_automaton_takes_what_python_does(pattern) -> None:
    automaton, wanted = Automaton(pattern), by_re(pattern)
    letters = "abcAB1.0-xé日本🙂ü\n"
    texts = ["".join(t) for n in range(4) for t in itertools.product(letters, repeat=n)]
    fits = [text for text in texts if wanted.fullmatch(text)]
    taken = [text for text in texts if automaton.accepts(walked(automaton, text.encode()))]
    assert taken == fits and fits


@pytest.mark.parametrize("pattern", PATTERNS)
def test_from_every_state_the_end_is_reached(pattern) -> None:
    """All states that bytes lead to, breadth first, and back from those that accept."""
    automaton = Automaton(pattern)
    seen, queue = {START}, [START]
    before: dict[int, set[int]] = {}
    while queue and len(seen) < 400:
        state = queue.pop(0)
        automaton.fill([state])
        for follower in set(automaton.table[state].tolist()) - {DEAD}:
            before.setdefault(follower, set()).add(state)
            if follower not in seen:
                seen.add(follower)
                queue.append(follower)
    whole = {state for state in seen if automaton.accepts(state)}
    stack = [*whole, *queue]
    whole |= set(queue)
    while stack:
        for state in before.get(stack.pop(), ()):
            if state not in whole:
                whole.add(state)
                stack.append(state)
    assert whole == seen


def test_bytes_that_are_no_text_are_dead() -> None:
    automaton = Automaton("(?s).*")
    for data in (
        b"\x80",
        b"\xc0\x80",
        b"\xc1",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf5",
        b"\xff",
    ):
        assert walked(automaton, data) == DEAD, data
    for text in ("\x00", "\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\U0010ffff"):
        assert automaton.accepts(walked(automaton, text.encode()))
    for n in range(0, 0x110000, 97):
        if not 0xD800 <= n < 0xE000:
            data = chr(n).encode()
            assert code_points(data) == (n, n)
            low, high = code_points(data[:-1]) if len(data) > 1 else (n, n)
            assert low <= n <= high


def test_characters_cannot_begin_that_do_not_fit() -> None:
    automaton = Automaton("[é日]")  # C3 A9, E6 97 A5
    assert {b for b in range(256) if automaton.step(START, b) != DEAD} == {0xC3, 0xE6}
    half = automaton.step(START, 0xE6)
    assert {b for b in range(256) if automaton.step(half, b) != DEAD} == {0x97}
    assert not automaton.accepts(half)


@pytest.mark.parametrize(
    ("pattern", "what"),
    [("a(", "unclosed"), ("(?=a)", "the group"), (r"\bword", "beside a place"),
     ("(?m)^a", "beside"),
     ("a^b", "no text fits"), (r"[^\x{0}-\x{10FFFF}]", "no text fits")],
)  # fmt: skip
def test_patterns_that_cannot_be_followed_are_refused_at_once(pattern, what) -> None:
    with pytest.raises(GraphError, match=what):
        Regex(pattern)


# -- what tokens spell -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def byte_level() -> Tokenizer:
    pytest.importorskip("tokenizers", reason="pip install -e '.[text]'")
    texts = ["é日🙂 low lower lowest", '{"name": "low", "age": 12}', "2024-05-06 17:00"] * 3
    return Tokenizer.train(texts, vocabulary=320, special=["<eos>"])


def sentencepiece() -> Tokenizer:
    """Return a tokenizer such as Llama 2 has: ``▁`` for spaces, bytes for what is not known."""
    library = pytest.importorskip("tokenizers", reason="pip install -e '.[text]'")
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    pieces += ["▁", "▁yes", "▁no", "yes", "no", "1", "2", "▁1", "é"]
    inner = library.Tokenizer(
        library.models.BPE({p: i for i, p in enumerate(pieces)}, [], byte_fallback=True)
    )
    d = library.decoders
    inner.decoder = d.Sequence(
        [d.Replace("▁", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)]
    )
    inner.add_special_tokens(["<unk>", "<s>", "</s>"])
    return Tokenizer(inner)


def test_spellings_of_byte_level_tokens_are_their_bytes(byte_level) -> None:
    first, later = spellings(byte_level, len(byte_level))
    assert (
        first == later
        and first[0] == b""
        and sorted(first[1:257]) == [bytes([b]) for b in range(256)]
    )
    for text in ("é日🙂 low lower", '{"age": 12}', "🙁"):
        assert b"".join(first[i] for i in byte_level.encode(text)) == text.encode()


def test_spellings_of_sentence_pieces_drop_the_first_space() -> None:
    tokenizer = sentencepiece()
    first, later = spellings(tokenizer, len(tokenizer))
    ids = {tokenizer.inner.id_to_token(i): i for i in range(len(tokenizer))}
    assert first[ids["▁yes"]] == b"yes" and later[ids["▁yes"]] == b" yes"
    assert first[ids["<0xC3>"]] == later[ids["<0xC3>"]] == b"\xc3"
    assert first[ids["</s>"]] == later[ids["</s>"]] == b"" and later[ids["é"]] == "é".encode()


class Bytes:
    """A tokenizer that is none of ours, and has fewer tokens than its model."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Any) -> str:
        return bytes(ids).decode(errors="replace")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_masks_let_through_what_can_go_on(byte_level, pattern) -> None:
    """Beside each token's bytes walked one by one."""
    size = len(byte_level) + 5  # more than the tokenizer has
    allowed = Vocabulary(byte_level, size).allowed(pattern)
    first, later = spellings(byte_level, size)
    automaton = Automaton(pattern)

    def after(state: int, data: bytes) -> int:
        for byte in data:
            state = automaton.step(state, byte)
        return state

    tokens: list[int] = []
    rng = np.random.default_rng(0)
    for n in range(6):
        state = START
        for i, token in enumerate(tokens):
            state = after(state, later[token] if i else first[token])
        wanted = [bool(s) and after(state, s) != DEAD for s in (later if n else first)]
        found = allowed.mask(allowed.state(tokens), n == 0)
        assert found.tolist() == wanted
        if not found.any():
            assert automaton.accepts(state)
            break
        tokens.append(int(rng.choice(np.flatnonzero(found))))


# -- generation ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(byte_level) -> Decoder:
    config = DecoderConfig(vocabulary=len(byte_level), width=32, layers=1, heads=2, context=200)
    return loud(config, seed=1)


JSON = r'\{"name": "[a-zé日🙂]{1,6}", "age": (0|[1-9]\d{0,2})\}'


@pytest.mark.parametrize("sampling", [Greedy(), Temperature(1.5), TopK(5)], ids=repr)
def test_all_that_is_generated_fits(model, byte_level, sampling) -> None:
    generation = model.generation(tokenizer=byte_level)
    for pattern in (JSON, r"(low|lower|🙂)+!", r"\d{4}-(0\d|1[0-2])-[0-3]\d"):
        wanted = re.compile(pattern)
        rows = generation.generate(["a", "low", "{"], 80, sampling=[Regex(pattern), sampling])
        for row in rows:
            if row.reason == "grammar":
                assert wanted.fullmatch(row.text), row.text
            else:
                assert row.reason == "length" and len(row.tokens) == 80
        assert pattern.endswith("!") or {row.reason for row in rows} == {"grammar"}
        pieces = list(generation.stream(["a"], 80, sampling=[Regex(pattern), sampling]))
        assert "".join(p.text for p in pieces) == rows[0].text
        small = Draft(generation)
        assert (
            generation.generate(["a"], 80, sampling=[Regex(pattern), sampling], draft=small)
            == rows[:1]
        )


def test_a_row_may_end_where_the_pattern_does(model, byte_level) -> None:
    """The token that ends rows is allowed behind digits, and nowhere else."""
    eos = byte_level.id_of("<eos>")
    generation = model.generation(tokenizer=byte_level, eos=eos)
    rows = generation.generate(["a"] * 40, 30, sampling=[Regex(r"\d{1,9}x?"), Temperature(2.0)])
    reasons = {row.reason for row in rows}
    assert reasons == {"eos", "grammar"}
    for row in rows:
        assert re.fullmatch(r"\d+x" if row.reason == "grammar" else r"\d+", row.text)


def test_sentence_pieces_fit_from_their_first_token() -> None:
    tokenizer = sentencepiece()
    model = Decoder(DecoderConfig(vocabulary=len(tokenizer), width=16, layers=1, heads=2))
    generation = model.generation(tokenizer=tokenizer)
    rows = generation.generate([[1]] * 30, 20, sampling=[Regex("(yes|no)( 1|é){2}")])
    assert {row.reason for row in rows} == {"grammar"} and len({row.text for row in rows}) > 3
    assert all(re.fullmatch("(yes|no)( 1|é){2}", row.text) for row in rows)


def test_any_tokenizer_will_do() -> None:
    model = Decoder(DecoderConfig(vocabulary=300, width=16, layers=1, heads=2))
    (row,) = model.generation(tokenizer=Bytes()).generate("x", 9, sampling=[Regex("[abé]{3}ok?")])
    assert row.reason == "grammar" or row.text.endswith("o") or len(row.tokens) == 9
    assert set(row.text) <= set("abok")  # é has no token that spells a half of it alone


def test_a_completion_goes_on_in_the_pattern(model, byte_level) -> None:
    generation = model.generation(tokenizer=byte_level)
    rules = [Regex(JSON), Temperature(1.5)]
    (whole,) = generation.generate(["a"], 80, sampling=rules)
    (begun,) = generation.generate(["a"], 7, sampling=rules)
    (again,) = generation.generate(begun, 73, sampling=rules)
    assert again == whole and begun.reason == "length"
    odd = Completion(byte_level.encode("a"), byte_level.encode("nothing"))
    with pytest.raises(GraphError, match="forbid every token"):
        generation.generate(odd, 5, sampling=rules)


def test_a_vocabulary_that_cannot_spell_it_is_told(model) -> None:
    few = CharTokenizer("abc")
    generation = Decoder(DecoderConfig(vocabulary=3, width=8, layers=1, heads=2)).generation(
        tokenizer=few
    )
    with pytest.raises(GraphError, match=r"Regex\(pattern='a1'\).*forbid every token"):
        generation.generate("a", 3, sampling=Regex("a1"))
    with pytest.raises(GraphError, match="needs a tokenizer"):
        model.generation().generate([[1]], 3, sampling=Regex("a"))
    with pytest.raises(GraphError, match="does not know what tokens spell"):
        choose(np.zeros(3), Regex("a"))
    assert choose(np.array([0.0, 1, 2]), Regex("b|a").bound(few, frozenset(), 3)) in (0, 1)


def test_a_large_vocabulary_is_walked_at_once() -> None:
    """128,000 tokens of 6 bytes: coming into a state is a matter of milliseconds."""
    rng = np.random.default_rng(0)
    words = ["".join(map(chr, w)) for w in rng.integers(97, 123, (128_000, 6))]

    class Words:
        def encode(self, text: str) -> list[int]:
            return [words.index(text)]

        def decode(self, ids: Any) -> str:
            return "".join(words[i] for i in ids)

    allowed = Vocabulary(Words(), len(words)).allowed("[a-z ]*")
    begun = time.thread_time()
    assert allowed.mask(START, True).all()
    assert allowed.mask(allowed.state([5, 6]), False).all()
    assert time.thread_time() - begun < 2
