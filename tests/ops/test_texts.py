"""Ops on text beside Python's own: str, re, dict and plain counting."""

from __future__ import annotations

import collections
import itertools
import random
import re
import string
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, GradientError, GraphError
from gradwright.ops.texts.regex import Pattern

TEXT = np.dtypes.StringDType()


def run(op: Any, feeds: Any, given: Any = "str", **attrs: Any) -> Any:
    graph = gw.Graph()
    array = np.array(feeds, TEXT if given == "str" else given)
    x = graph.placeholder("x", array.shape, given)
    found = op(x, **attrs)
    tensors = list(found) if isinstance(found, tuple) else [found]
    values = list(graph.output({"x": array}, *tensors).values())
    return values if isinstance(found, tuple) else values[0]


def drawn_pattern(draw: random.Random, depth: int = 3) -> str:
    """Return a regular expression that means the same to ``re``."""
    if not depth or draw.random() < 0.3:
        return draw.choice([*"abc", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\w", r"\.", r"[\d_]"])
    parts = [drawn_pattern(draw, depth - 1) for _ in range(draw.randint(1, 3))]
    kind = draw.randrange(3)
    if kind == 0:
        return "".join(parts)
    if kind == 1:
        return "(?:" + "|".join(parts) + ")"
    return f"(?:{parts[0]})" + draw.choice(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?"])


def test_random_patterns_match_what_re_matches() -> None:
    draw = random.Random(7)
    n_matches = 0
    for _ in range(300):
        pattern = drawn_pattern(draw)
        ours, theirs = Pattern(pattern), re.compile(pattern, re.ASCII)
        for _ in range(20):
            text = "".join(draw.choices("abc1_.", k=draw.randint(0, 6)))
            expected = theirs.fullmatch(text) is not None
            n_matches += expected
            assert ours.matches(text) == expected, (pattern, text)
    assert n_matches > 500


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (r"(?i)straße|x", ["STRAßE", "X"], ["y"]),
        (r"(?i:a)b", ["Ab", "ab"], ["AB"]),
        (r"^a\b.*\bz$", ["a z", "a-z"], ["az", "ab z"]),
        (r"\Aa\z", ["a"], ["a\n"]),
        (r"a.b", ["axb"], ["a\nb"]),
        (r"(?s)a.b", ["a\nb"], ["ab"]),
        (r"(?m)a$\n^b", ["a\nb"], ["a b"]),
        (r"[[:alpha:]]+[[:^digit:]]", ["ab", "a-"], ["a1", "é-"]),
        (r"\p{Lu}\pL*\P{L}", ["Éa1"], ["éa1"]),
        (r"(?P<year>\d{4})-(\d\d)", ["2024-01"], ["24-1"]),
        (r"\x41\x{1F600}", ["A\U0001f600"], ["A"]),
        (r"\Q(a+)\E+", ["(a+)", "(a+)))"], ["aa"]),
        (r"a{,2}", ["a{,2}"], ["aa"]),
        (r"[]a]", ["]", "a"], ["b"]),
        (r"[a\-z]", ["-", "z"], ["b"]),
        ("", [""], ["a"]),
        ("a||b", ["a", "", "b"], ["ab"]),
    ],
)
def test_the_syntax_of_re2(pattern: str, matching: list[str], other: list[str]) -> None:
    found = run(gw.strings.regex_full_match, [*matching, *other], pattern=pattern)
    assert found.tolist() == [True] * len(matching) + [False] * len(other)


@pytest.mark.parametrize(
    "pattern",
    ["(a", "a)", "[a", "a**", "*a", r"(a)\1", "(?=a)", "(?<!a)b", "a{3,2}", "a{1001}", "[b-a]",
     r"\x{110000}", r"\p{Greek}", "[[:nope:]]", "(?z)a", "a\\", "(" * 300 + ")" * 300,
     "((a{100}){100}){100}", "(?P<1>a)", "(?"],
)  # fmt: skip
def test_patterns_that_are_refused(pattern: str) -> None:
    with pytest.raises(GraphError):
        Pattern(pattern)


def test_time_is_linear_where_backtracking_is_exponential() -> None:
    # re takes 2^n steps for n = 30 on these; here each character visits each state once.
    for pattern in ("(a+)+b", "(a|a)*b", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)b"):
        assert not Pattern(pattern).matches("a" * 200)
        assert Pattern(pattern).matches("a" * 200 + "b")


@pytest.mark.parametrize(
    "pattern",
    ["a|ab", "a*b", "(ab|a)(bc)?", "[ab]+c|b", "b*", "(a|b)*abb", "c?a{2,3}", "abc|bcd?", r"\bab*"],
)
def test_the_longest_of_the_first_matches_is_found(pattern: str) -> None:
    draw, compiled = random.Random(1), Pattern(pattern)
    for _ in range(100):
        text = "".join(draw.choices("abcd ", k=draw.randrange(9)))
        for at in range(len(text) + 1):
            ends = {
                a: [
                    b
                    for b in range(a, len(text) + 1)
                    if re.compile(f"(?:{pattern})$").match(text[:b], a)
                ]
                for a in range(at, len(text) + 1)
            }
            wanted = next(((a, max(bs)) for a, bs in ends.items() if bs), None)
            assert compiled.find(text, at) == wanted


def test_nothing_is_found_in_linear_time() -> None:
    assert Pattern("(a+)+b").find("a" * 10_000) is None


def test_concat_and_split_as_python_does() -> None:
    draw = random.Random(3)
    texts = ["".join(draw.choices("ab, ", k=draw.randint(0, 8))) for _ in range(40)]
    for delimiter, limit in itertools.product(["", ",", "ab"], [None, 0, 1, 2]):
        parts, n = run(gw.strings.string_split, texts, delimiter=delimiter, maxsplit=limit)
        expected = [t.split(delimiter or None, -1 if limit is None else limit) for t in texts]
        assert n.tolist() == list(map(len, expected))
        assert parts.shape == (40, max(map(len, expected)))
        for row, theirs in zip(parts.tolist(), expected, strict=True):
            assert row == theirs + [""] * (len(row) - len(theirs))
    graph = gw.Graph()
    a, b = graph.placeholder("a", (2, 1), "str"), graph.placeholder("b", (3,), "str")
    y = gw.strings.string_concat(a, b)
    feeds = {"a": np.array([["x"], ["ß"]], TEXT), "b": np.array(["1", "", "\U0001f600"], TEXT)}
    assert graph.output(feeds, y)[y.name].tolist() == [
        [p + q for q in feeds["b"].tolist()] for (p,) in feeds["a"].tolist()
    ]


def test_plus_joins_texts_element_by_element() -> None:
    """Tensors, arrays, lists and texts on either side, broadcast; in plans and node by node."""
    graph = gw.Graph()
    a, b = graph.placeholder("a", (2, 1), "str"), graph.placeholder("b", ("N",), "str")
    feeds = {"a": [["x"], ["é"]], "b": ["", "y", "zz"]}
    sums = [a + b, a + "!", "<" + b, a + np.array(["p", "q"]), np.array(["r"], TEXT) + a, a + b + a]
    lists = [
        [["x", "xy", "xzz"], ["é", "éy", "ézz"]],
        [["x!"], ["é!"]],
        ["<", "<y", "<zz"],
        [["xp", "xq"], ["ép", "éq"]],
        [["rx"], ["ré"]],
        [["xx", "xyx", "xzzx"], ["éé", "éyé", "ézzé"]],
    ]
    assert [v.tolist() for v in graph.output(feeds, *sums).values()] == lists
    with gw.Session(graph) as session:
        for _ in range(4):  # once numpy has been left, too
            assert [v.tolist() for v in session.run(sums, feeds)] == lists
    for wrong in (1, graph.placeholder("f", (2,))):
        with pytest.raises(DTypeError, match="string_concat takes text"):
            a + wrong
    loss = graph.placeholder("w", (2,)).sum()
    with pytest.raises(GradientError, match="not floating"):
        gw.gradients(loss, [a + b])


def test_normalizer_leaves_out_stop_words() -> None:
    words = ["The", "the", "Fox", "THE", "jumps"]
    normalize = gw.strings.string_normalizer
    assert run(normalize, words, stopwords=("the",)).tolist() == ["Fox", "jumps"]
    kept = run(normalize, words, stopwords=("the",), is_case_sensitive=True)
    assert kept.tolist() == ["The", "Fox", "THE", "jumps"]
    assert run(normalize, [words], case_change_action="UPPER").tolist() == [
        [w.upper() for w in words]
    ]
    assert run(normalize, ["a", "A"], stopwords=("a",)).tolist() == [""]
    assert run(normalize, [["a"]], stopwords=("a",)).tolist() == [[""]]


def test_label_encoder_is_a_dictionary() -> None:
    draw = random.Random(1)
    keys = draw.sample(range(1000), 50)
    table = {"keys": keys, "values": [k % 7 for k in keys], "default": -1, "dtype": "int64"}
    x = [draw.randrange(1000) for _ in range(500)]
    lookup = dict(zip(keys, table["values"], strict=True))
    found = run(gw.strings.label_encoder, x, "int64", **table)
    assert found.tolist() == [lookup.get(v, -1) for v in x]
    table = {
        "keys": (1.5, float("nan"), 1.5),
        "values": ("a", "b", "c"),
        "default": "?",
        "dtype": "str",
    }
    found = run(gw.strings.label_encoder, [np.nan, 1.5, 2.0], "float32", **table)
    assert found.tolist() == ["b", "a", "?"]


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_tf_idf_counts_n_grams(mode: str) -> None:
    draw = random.Random(2)
    letters = string.ascii_lowercase[:4]
    grams = {
        n: draw.sample(list(itertools.product(letters, repeat=n)), min(6, 4**n)) for n in (1, 2, 3)
    }
    pool = [token for n in (1, 2, 3) for gram in grams[n] for token in gram]
    n_grams = sum(map(len, grams.values()))
    starts = [0, len(grams[1]), len(grams[1]) + 2 * len(grams[2])]
    columns = draw.sample(range(n_grams), n_grams)
    weights = [draw.random() for _ in range(n_grams)]
    rows = [draw.choices(letters, k=9) for _ in range(4)]
    found = run(
        gw.strings.tf_idf_vectorizer, rows, pool=pool, ngram_counts=starts, ngram_indexes=columns,
        min_gram_length=2, max_gram_length=3, max_skip_count=2, mode=mode, weights=weights,
    )  # fmt: skip
    everything = [(n, gram) for n in (1, 2, 3) for gram in grams[n]]
    for row, ours in zip(rows, found, strict=True):
        counts: collections.Counter[int] = collections.Counter()
        for number, (n, gram) in enumerate(everything):
            for step in range(1, 4):
                last = len(row) - (n - 1) * step
                if n > 1:
                    counts[number] += sum(
                        all(row[i + k * step] == gram[k] for k in range(n)) for i in range(last)
                    )
        for number in range(n_grams):
            tf = counts[number]
            factor = {"TF": tf, "IDF": tf > 0, "TFIDF": tf}[mode]
            weight = 1.0 if mode == "TF" else weights[number]
            assert ours[columns[number]] == pytest.approx(factor * weight, rel=1e-6)
