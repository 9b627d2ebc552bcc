"""Functions of the namespace strings; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike, DTypeLike

from gradwright.graph import Tensor

def label_encoder(
    x: Tensor | ArrayLike,
    keys: Sequence[Any],
    values: Sequence[Any],
    default: Any,
    dtype: DTypeLike,
    *,
    name: str | None = None,
) -> Tensor:
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

    Attributes:
        keys: What is looked up.
        values: What stands for it.
        default: What stands for everything else.
        dtype: Dtype of the values.
    """

def regex_full_match(x: Tensor | ArrayLike, pattern: str, *, name: str | None = None) -> Tensor:
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

    Attributes:
        pattern: The regular expression.
    """

def string_concat(
    a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Texts of two tensors, joined element by element.

    y = a + b, where both broadcast: str[...]. Raises DTypeError for what is no text (ONNX
    StringConcat-20).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a = g.placeholder("a", (2,), "str")
    >>> y = gw.strings.string_concat(a, np.array("!", "T"), name="y")
    >>> g.output({"a": ["ho", ""]}, y)["y"].tolist()
    ['ho!', '!']
    """

def string_normalizer(
    x: Tensor | ArrayLike,
    case_change_action: str = "NONE",
    is_case_sensitive: bool = False,
    stopwords: Sequence[str] = (),
    locale: str = "",
    *,
    name: str | None = None,
) -> Tensor:
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

    Attributes:
        case_change_action: Case of the result. One of 'NONE', 'LOWER', 'UPPER'.
        is_case_sensitive: Whether stop words are told apart by case.
        stopwords: Texts to leave out.
        locale: Not used: case is Unicode's.
    """

def string_split(
    x: Tensor | ArrayLike,
    delimiter: str = "",
    maxsplit: int | None = None,
    *,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
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

    Attributes:
        delimiter: What stands between parts; empty: whitespace.
        maxsplit: How many times to split at most, from the left.
    """

def tf_idf_vectorizer(
    x: Tensor | ArrayLike,
    pool: Sequence[Any],
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    min_gram_length: int = 1,
    max_gram_length: int = 1,
    max_skip_count: int = 0,
    mode: str = "TF",
    weights: Sequence[float] | None = None,
    *,
    name: str | None = None,
) -> Tensor:
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

    Attributes:
        pool: Tokens of all n-grams, the shorter n-grams first.
        ngram_counts: Where in the pool the n-grams of each n begin.
        ngram_indexes: Per n-gram its column of the result.
        min_gram_length: Least n.
        max_gram_length: Largest n.
        max_skip_count: Largest number of tokens between two of an n-gram.
        mode: What the result is. One of 'TF', 'IDF', 'TFIDF'.
        weights: Per n-gram its weight; None is 1.
    """
