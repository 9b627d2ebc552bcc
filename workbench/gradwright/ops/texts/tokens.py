"""From tokens to numbers: labels, and weighted counts of n-grams."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import Cotangent, ErrorSample, NotDifferentiable, OnnxRule, Op, Sample, attr
from ...spec import Dim, TensorSpec, dtype, kind
from .regex import Pattern, compiled
from .strings import TEXT, check_text

Array = np.ndarray[Any, Any]


class Tokenize(Op):
    r"""Texts taken apart into tokens, by what tokens are like or by what stands between them.

    y[…, k] = token k of x[…], ``pad`` where there are fewer

    x: str[...] -> y: str[..., most]. Either ``pattern`` is what a token is, the longest match at
    the first place where there is one, or ``separators`` part the text, one after the other; an
    empty one parts all characters. Patterns are RE2's. No width where no text has a token. Raises
    DTypeError for what is no text, GraphError for both or neither (ONNX Runtime's Tokenizer).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (2,), "str")
    >>> y = gw.strings.tokenize(x, r"\w+", name="y")
    >>> g.output({"x": ["a cat!", "dog"]}, y)["y"].tolist()
    [['a', 'cat'], ['dog', '']]
    """

    namespace = "strings"
    by_reference = "s"
    pattern: str = attr("", doc="What a token is, as a regular expression.")
    separators: tuple[str, ...] = attr((), doc="What stands between tokens, each an expression.")
    pad: str = attr("", doc="What stands where a text has fewer tokens.")
    least: int = attr(1, doc="Characters that a token has at least.", least=1)
    mark: bool = attr(False, doc="Whether U+0002 and U+0003 stand before and after the tokens.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_text(self, x)
        if bool(self.pattern) == bool(self.separators):
            raise GraphError("tokenize needs a pattern or separators", need="one of both")
        for pattern in filter(None, (self.pattern, *self.separators)):
            compiled(pattern)
        return TensorSpec((*x.shape, Dim.fresh("tokens")), TEXT)

    def forward(self, x: Any) -> Any:
        rows = [self._tokens(text) for text in x.ravel()]
        if self.mark and any(rows):
            rows = [["\x02", *row, "\x03"] for row in rows]
        most = max(map(len, rows), default=0)
        padded = [token for row in rows for token in (*row, *[self.pad] * (most - len(row)))]
        return np.array(padded, TEXT).reshape(*x.shape, most)

    def _tokens(self, text: str) -> list[str]:
        if self.pattern:
            parts = [text[a:b] for a, b in _places(compiled(self.pattern), text)]
        else:
            parts = [text]
            for separator in self.separators:
                parts = [p for part in parts for p in _parted(separator, part)]
        return [part for part in parts if len(part) >= self.least]

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (NotDifferentiable("text has no gradient"),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = np.array([["the cat, a dög", ""], ["ab  c", "?"]], TEXT)
        yield Sample((x,), {"pattern": "[a-z]+", "pad": "#", "mark": True})
        yield Sample((x,), {"separators": (", ", " "), "least": 2})
        yield Sample((x[:0],), {"separators": ("",)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"pattern": "a"}, "takes text")
        yield ErrorSample((TensorSpec((2,), "str"),), {}, "a pattern or separators")
        yield ErrorSample((TensorSpec((2,), "str"),), {"pattern": "(a"}, "not understood")


def _places(pattern: Pattern, text: str) -> Iterator[tuple[int, int]]:
    """Yield where a pattern is found, one place behind the other."""
    at = 0
    while (found := pattern.find(text, at)) is not None:
        yield found
        at = max(found[1], found[0] + 1)


def _parted(separator: str, text: str) -> Iterator[str]:
    """Yield what stands before, between and behind separators."""
    if not separator:
        yield from text
        return
    at = 0
    for a, b in _places(compiled(separator), text):
        if b > a:
            yield text[at:a]
            at = b
    yield text[at:]


class LabelEncoder(Op):
    """Values looked up in a table of keys.

    y = values[k] where x = keys[k], the first such k; ``default`` where there is none

    Keys and values are numbers or texts; a key that is NaN finds NaN. Raises DTypeError for an
    input of another kind than the keys, GraphError for a table that is none (ONNX ML
    LabelEncoder-4).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (3,), "str")
    >>> y = gw.strings.label_encoder(x, ("cat", "dog"), (0, 1), default=-1, dtype="int64", name="y")
    >>> g.output({"x": ["dog", "cow", "cat"]}, y)["y"].tolist()
    [1, -1, 0]
    """

    namespace = "strings"
    by_reference = "s"
    keys: tuple[Any, ...] = attr(doc="What is looked up.")
    values: tuple[Any, ...] = attr(doc="What stands for it.")
    default: Any = attr(doc="What stands for everything else.")
    dtype: np.dtype[Any] = attr(doc="Dtype of the values.")
    onnx = OnnxRule("LabelEncoder", since=2, domain="ai.onnx.ml")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if not self.keys or len(self.keys) != len(self.values):
            raise GraphError(
                f"a table of {len(self.keys)} keys and {len(self.values)} values",
                need="as many of both, one at least",
            )
        if isinstance(self.keys[0], str) != (kind(x.dtype) == "s"):
            raise DTypeError(f"the keys are no {x.dtype}", need="keys of the input's kind")
        return TensorSpec(x.shape, self.dtype)

    def forward(self, x: Any) -> Any:
        text = isinstance(self.keys[0], str)
        keys = np.array(self.keys, object) if text else np.array(self.keys).astype(x.dtype)
        values = np.array((*self.values, self.default), self.dtype)
        known, first = np.unique(keys, return_index=True)
        sought = x.astype(object) if text else x
        place = np.minimum(np.searchsorted(known, sought), len(known) - 1)
        found = known[place] == sought
        if not text and x.dtype.kind == "f":
            found |= np.isnan(known[place]) & np.isnan(sought)
        return values[np.where(found, first[place], len(self.values))]

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (NotDifferentiable("a table has no gradient"),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        table = {"keys": ("b", "a", "b"), "values": (1.5, 2.0, 3.0), "default": -0.5}
        x = np.array([["a", "b"], ["c", ""]], dtype("str"))
        yield Sample((x,), {**table, "dtype": "float64"})
        numbers = {"keys": (3, 1), "values": ("x", "y"), "default": "none", "dtype": "str"}
        yield Sample((np.array([1, 2, 3]),), numbers)
        yield Sample((np.empty((0,), np.int64),), numbers)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        table = {"keys": (1,), "values": (), "default": 0, "dtype": "int64"}
        yield ErrorSample((TensorSpec((2,), "int64"),), table, "1 keys and 0 values")
        table = {**table, "values": (2,)}
        yield ErrorSample((TensorSpec((2,), "str"),), table, "the keys are no")


class TfIdfVectorizer(Op):
    """Weighted counts of given n-grams in rows of tokens.

    tf[r, j] = how often n-gram j occurs in row r, y = tf, [tf > 0]·w or tf·w by ``mode``

    x: integers or str[C] or [R, C] -> y: f32[M] or [R, M]. The tokens of an n-gram stand s + 1
    apart, for every s up to ``max_skip_count``. Raises DTypeError and ShapeError for inputs that do
    not fit, GraphError for a pool that is none (ONNX TfIdfVectorizer-9).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (5,), "int64")
    >>> y = gw.strings.tf_idf_vectorizer(x, pool=(7, 8, 7, 8), ngram_counts=(0, 2),
    ...     ngram_indexes=(0, 1, 2), max_gram_length=2, name="y")
    >>> g.output({"x": [7, 8, 9, 7, 8]}, y)["y"].tolist()
    [2.0, 2.0, 2.0]
    """

    namespace = "strings"
    by_reference = "s"
    pool: tuple[Any, ...] = attr(doc="Tokens of all n-grams, the shorter n-grams first.")
    ngram_counts: tuple[int, ...] = attr(doc="Where in the pool the n-grams of each n begin.")
    ngram_indexes: tuple[int, ...] = attr(doc="Per n-gram its column of the result.")
    min_gram_length: int = attr(1, doc="Least n.")
    max_gram_length: int = attr(1, doc="Largest n.")
    max_skip_count: int = attr(0, doc="Largest number of tokens between two of an n-gram.")
    mode: str = attr("TF", doc="What the result is.", choices=("TF", "IDF", "TFIDF"))
    weights: tuple[float, ...] | None = attr(None, doc="Per n-gram its weight; None is 1.")
    onnx = OnnxRule("TfIdfVectorizer", since=9)

    def grams(self) -> list[tuple[int, int, int]]:
        """Return per n its place in the pool and the number of its first n-gram."""
        found, first = [], 0
        ends = (*self.ngram_counts[1:], len(self.pool))
        for n, (begin, end) in enumerate(zip(self.ngram_counts, ends, strict=True), 1):
            if not 0 <= begin <= end <= len(self.pool) or (end - begin) % n:
                raise GraphError(f"the pool has no whole {n}-grams from {begin} to {end}")
            found.append((n, begin, first))
            first += (end - begin) // n
        if first != len(self.ngram_indexes) or len(self.weights or self.ngram_indexes) != first:
            raise GraphError(f"{first} n-grams", need="as many indexes, and weights")
        if min(self.ngram_indexes, default=0) < 0:
            raise GraphError("a column of the result is negative")
        return found

    def infer(self, x: TensorSpec) -> TensorSpec:
        if x.rank not in (1, 2):
            raise ShapeError(f"tokens of rank {x.rank}", need="[C] or [R, C]")
        text = bool(self.pool) and isinstance(self.pool[0], str)
        if kind(x.dtype) not in ("s" if text else "iu"):
            raise DTypeError(f"the pool has no {x.dtype}", need="tokens like those of the pool")
        if not 1 <= self.min_gram_length <= self.max_gram_length:
            raise GraphError(
                f"n from {self.min_gram_length} to {self.max_gram_length}", need="1 <= min <= max"
            )
        self.grams()
        return TensorSpec((*x.shape[:-1], max(self.ngram_indexes, default=-1) + 1), "float32")

    def forward(self, x: Any) -> Any:
        tokens, numbers = np.unique(np.array(self.pool, object), return_inverse=True)
        rows = np.atleast_2d(x).astype(object)
        place = np.minimum(np.searchsorted(tokens, rows), len(tokens) - 1)
        ids = np.where(tokens[place] == rows, place, -1)
        counts = np.zeros((len(rows), max(self.ngram_indexes, default=-1) + 1), np.float32)
        weights = np.ones(counts.shape[1], np.float32)
        columns = np.array(self.ngram_indexes, np.intp)
        if self.weights is not None:
            weights[columns] = self.weights
        starts = [*self.grams(), (0, len(self.pool), len(self.ngram_indexes))]
        for (n, begin, first), (_, end, after) in itertools.pairwise(starts):
            if not self.min_gram_length <= n <= self.max_gram_length or begin == end:
                continue
            known = numbers[begin:end].reshape(-1, n)
            for skip in range(self.max_skip_count + 1 if n > 1 else 1):
                found, row = _found(ids, known, skip + 1)
                np.add.at(counts, (row, columns[first:after][found]), 1.0)
        if self.mode == "IDF":
            counts = (counts > 0).astype(np.float32)
        y = counts if self.mode == "TF" else counts * weights
        return y.reshape(*x.shape[:-1], counts.shape[1])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        pool = {"pool": (2, 3, 5, 5, 4, 2, 3), "ngram_counts": (0, 3), "max_gram_length": 2}
        pool["ngram_indexes"] = (0, 1, 2, 4, 3)
        x = np.array([[2, 3, 5, 5], [4, 1, 2, 3]])
        yield Sample((x,), {**pool, "max_skip_count": 2})
        weights = (0.5, 1.0, 2.0, 3.0, 4.0)
        yield Sample((x[0],), {**pool, "mode": "TFIDF", "weights": weights})
        yield Sample((x[:, :0],), {**pool, "mode": "IDF", "weights": weights})
        text = np.array(["a", "b", "a"], dtype("str"))
        pool = {"pool": ("a", "a", "b"), "ngram_counts": (0, 1), "ngram_indexes": (1, 0)}
        yield Sample((text,), {**pool, "max_gram_length": 2, "min_gram_length": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        pool = {"pool": (1, 2), "ngram_counts": (0,), "ngram_indexes": (0, 1)}
        x = TensorSpec((3,), "int64")
        yield ErrorSample((TensorSpec((3,)),), pool, "the pool has no")
        yield ErrorSample((TensorSpec((), "int64"),), pool, "of rank 0")
        yield ErrorSample((x,), {**pool, "ngram_indexes": (0,)}, "2 n-grams")
        yield ErrorSample((x,), {**pool, "ngram_counts": (0, 1)}, "no whole 2-grams")
        yield ErrorSample((x,), {**pool, "min_gram_length": 2}, "n from 2 to 1")


def _found(ids: Array, known: Array, step: int) -> tuple[Array, Array]:
    """Return which known n-grams stand in the rows, tokens ``step`` apart, and in which row."""
    n = known.shape[1]
    room = ids.shape[1] - (n - 1) * step
    if room <= 0:
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    windows = np.stack([ids[:, k * step : k * step + room] for k in range(n)], -1).reshape(-1, n)
    _, names = np.unique(np.concatenate([known, windows]), axis=0, return_inverse=True)
    names = names.reshape(-1)
    number = np.full(names.max() + 1, -1)
    number[names[: len(known)][::-1]] = np.arange(len(known))[::-1]
    found = number[names[len(known) :]]
    return found[found >= 0], np.repeat(np.arange(len(ids)), room)[found >= 0]
