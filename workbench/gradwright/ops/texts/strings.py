"""Joining, splitting, cleaning and matching texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import Cotangent, ErrorSample, NotDifferentiable, OnnxRule, Op, Sample, attr
from ...spec import Dim, TensorSpec, broadcast, dtype, kind
from .regex import compiled

Array = np.ndarray[Any, Any]
TEXT = dtype("str")


def check_text(op: Op, *xs: TensorSpec) -> None:
    """Refuse what is not text."""
    for x in xs:
        if kind(x.dtype) != "s":
            raise DTypeError(f"{op.name} takes text, not {x.dtype}", need="str[...]")


def per_text(function: Any, x: Array, result: Any) -> Array:
    """Apply a function of a text to each different text of an array."""
    different, places = np.unique(x.astype(object).ravel(), return_inverse=True)
    values = np.array([function(text) for text in different], result)
    return values[places].reshape(x.shape) if x.size else np.empty(x.shape, result)


class StringConcat(Op):
    """Texts of two tensors, joined element by element.

    y = a + b, where both broadcast: str[...]; ``+`` of tensors of text is this op. Raises
    DTypeError for what is no text (ONNX StringConcat-20).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a = g.placeholder("a", (2,), "str")
    >>> y = gw.strings.string_concat(a, np.array("!", "T"), name="y")
    >>> list(g.output({"a": ["ho", ""]}, y, "hey " + a).values())[1].tolist()
    ['hey ho', 'hey ']
    """

    namespace = "strings"
    by_reference = "s"
    onnx = OnnxRule("StringConcat", since=20)

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        check_text(self, a, b)
        return TensorSpec(broadcast(a.shape, b.shape), TEXT)

    def forward(self, a: Any, b: Any) -> Any:
        return np.asarray(np.strings.add(a, b), TEXT)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (NotDifferentiable("text has no gradient"),) * 2

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([["a"], ["bc"]], TEXT), np.array(["", "d"], TEXT)))
        yield Sample((np.array("x", TEXT), np.empty((0, 2), TEXT)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2,), "str")), {}, "takes text")


class StringSplit(Op):
    """Texts taken apart at a delimiter, and how many parts each has.

    y[…, k] = part k of x[…], "" where there are fewer; n[…] = number of parts

    x: str[...] -> y: str[..., most], n: i64[...]. Without a delimiter runs of whitespace part the
    texts, and none stands at either end. Raises DTypeError for what is no text (ONNX
    StringSplit-20).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (2,), "str")
    >>> y, n = gw.strings.string_split(x, ",")
    >>> [a.tolist() for a in g.output({"x": ["a,b", "c"]}, y, n).values()]
    [[['a', 'b'], ['c', '']], [2, 1]]
    """

    namespace = "strings"
    returns = "parts", "counts"
    by_reference = "s"
    delimiter: str = attr("", doc="What stands between parts; empty: whitespace.")
    maxsplit: int | None = attr(None, doc="How many times to split at most, from the left.")
    onnx = OnnxRule("StringSplit", since=20)

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        check_text(self, x)
        most = Dim.fresh("parts")
        return TensorSpec((*x.shape, most), TEXT), TensorSpec(x.shape, "int64")

    def forward(self, x: Any) -> Any:
        limit = -1 if self.maxsplit is None else self.maxsplit
        parts = [text.split(self.delimiter or None, limit) for text in x.ravel()]
        n = np.array([len(p) for p in parts], np.int64)
        y = np.zeros((x.size, n.max(initial=0)), TEXT)
        y[np.arange(y.shape[1]) < n[:, None]] = [p for row in parts for p in row]
        return y.reshape(*x.shape, y.shape[1]), n.reshape(x.shape)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([["a.b", ""], ["c", ".d.e"]], TEXT),), {"delimiter": "."})
        yield Sample((np.array([" a  b c", ""], TEXT),), {"maxsplit": 1})
        yield Sample((np.empty((0,), TEXT),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "takes text")


class StringNormalizer(Op):
    """Texts without stop words, in upper or lower case.

    y = [case(t) for t in x if t is no stop word]

    x: str[C] or str[1, C] -> y: str[n] or str[1, n]; one empty text where nothing is left. Raises
    DTypeError and ShapeError for other tensors (ONNX StringNormalizer-10).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (3,), "str")
    >>> y = gw.strings.string_normalizer(x, stopwords=("The",), case_change_action="UPPER")
    >>> g.output({"x": ["the", "red", "fox"]}, y)["string_normalizer"].tolist()
    ['RED', 'FOX']
    """

    namespace = "strings"
    by_reference = "s"
    case_change_action: str = attr(
        "NONE", doc="Case of the result.", choices=("NONE", "LOWER", "UPPER")
    )
    is_case_sensitive: bool = attr(False, doc="Whether stop words are told apart by case.")
    stopwords: tuple[str, ...] = attr((), doc="Texts to leave out.")
    locale: str = attr("", doc="Not used: case is Unicode's.")
    onnx = OnnxRule("StringNormalizer", since=10)

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_text(self, x)
        if x.rank not in (1, 2) or (x.rank == 2 and x.shape[0] != 1):
            raise ShapeError("string_normalizer takes one list of texts", need="str[C], str[1, C]")
        n = x.shape[-1]
        n = max(n, 1) if isinstance(n, int) and not self.stopwords else Dim.fresh("kept")
        return TensorSpec((*x.shape[:-1], n), TEXT)

    def forward(self, x: Any) -> Any:
        row = x.reshape(-1)
        if self.stopwords:
            fold = (lambda t: t) if self.is_case_sensitive else str.lower
            words = set(map(fold, self.stopwords))
            row = row[~per_text(lambda t: fold(t) in words, row, bool)]
        if self.case_change_action != "NONE":
            row = per_text(getattr(str, self.case_change_action.lower()), row, TEXT)
        if not row.size:
            row = np.zeros(1, TEXT)
        return row.reshape(*(1,) * (x.ndim - 1), -1)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = np.array(["Straße", "a", "B"], TEXT)
        yield Sample((x,), {"stopwords": ("b",), "case_change_action": "UPPER"})
        yield Sample((x[None],), {"stopwords": ("b", "A"), "is_case_sensitive": True})
        yield Sample((x[1:],), {"stopwords": ("A", "b"), "case_change_action": "LOWER"})
        yield Sample((x[:0],), {})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "takes text")
        yield ErrorSample((TensorSpec((2, 2), "str"),), {}, "one list")


class RegexFullMatch(Op):
    """Whether texts match a regular expression from end to end.

    y = [x ∈ L(pattern)]

    The syntax is RE2's; time grows linearly with the text, whatever the pattern (``regex.py``).
    Raises DTypeError for what is no text, GraphError for a pattern that is none (ONNX
    RegexFullMatch-20; Thompson 1968).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (2,), "str")
    >>> y = gw.strings.regex_full_match(x, r"[a-z]+@[a-z.]+", name="y")
    >>> g.output({"x": ["me@here.org", "me@"]}, y)["y"].tolist()
    [True, False]
    """

    namespace = "strings"
    by_reference = "s"
    pattern: str = attr(doc="The regular expression.")
    onnx = OnnxRule("RegexFullMatch", since=20)

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_text(self, x)
        compiled(self.pattern)
        return TensorSpec(x.shape, "bool")

    def forward(self, x: Any) -> Any:
        return per_text(compiled(self.pattern).matches, x, bool)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([["ab", ""], ["aab", "b"]], TEXT),), {"pattern": "a*b"})
        yield Sample((np.empty((0,), TEXT),), {"pattern": ".*"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"pattern": "a"}, "takes text")
        yield ErrorSample((TensorSpec((2,), "str"),), {"pattern": "(a"}, "not understood")
        yield ErrorSample((TensorSpec((2,), "str"),), {"pattern": r"(a)\1"}, "not understood")
