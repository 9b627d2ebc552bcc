"""Linear models, support vectors and what prepares features for them (``ai.onnx.ml``)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....errors import ArchiveError
from ....ops.control import loop as loops
from ....spec.rounding import rounded
from ...foreign import attribute
from ..node import OnnxNode, op, reads

Array = np.ndarray[Any, Any]
ML = "ai.onnx.ml"
POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def transformed(how: str, y: Any) -> Any:
    """Return scores as one of ``POST_TRANSFORMS`` wants them."""
    match how:
        case "NONE":
            return y
        case "SOFTMAX":
            return op("softmax", axis=-1)(y)
        case "LOGISTIC":
            return op("sigmoid")(y)
        case "SOFTMAX_ZERO":
            share = op("softmax", axis=-1)(op("where")(y == 0.0, -np.inf, y))
            return op("where")(y == 0.0, 0.0, share)
        case "PROBIT":
            return op("erfinv")(2.0 * y - 1.0) * math.sqrt(2)
    raise ArchiveError(f"post_transform {how!r} is not known")


def class_names(node: OnnxNode, numbers: str) -> tuple[Callable[[Any], Any], int]:
    """Return what turns places of classes into their labels, and how many classes there are."""
    labels = node.get("classlabels_strings") or node.get(numbers)
    if not labels:
        raise ArchiveError(
            f"{node.op_type} has no labels", need=f"classlabels_strings or {numbers}"
        )
    return lambda places: _table(tuple(range(len(labels))), labels)(places), len(labels)


def _table(keys: Any, values: Any, default: Any = None) -> Any:
    """Return the op that puts values in place of keys."""
    text = isinstance(values[0], str)
    fill = ("_Unused" if text else -1) if default is None else default
    dtype = "str" if text else "int64"
    return op("label_encoder", keys=tuple(keys), values=tuple(values), default=fill, dtype=dtype)


def _floats(x: Any) -> Any:
    return x if x.dtype.kind == "f" else op("cast", dtype="float32")(x)


def _constant(x: Any, value: Any) -> Any:
    return x.graph.constant(rounded(value, x.dtype))


# -- features ------------------------------------------------------------------------------------


@reads("Binarizer", since=1, domain=ML)
def binarizer(node: OnnxNode, x: Any) -> Any:
    return op("cast", dtype=x.dtype)(x > node.get("threshold", 0.0))


@reads("ArrayFeatureExtractor", since=1, domain=ML)
def array_feature_extractor(node: OnnxNode, x: Any, places: Any) -> Any:
    flat = op("reshape", shape=(-1,))(places)
    x = op("reshape", shape=(1, -1))(x) if x.rank == 1 else x
    return op("gather", axis=-1)(x, flat)


@reads("Scaler", since=1, domain=ML)
def scaler(node: OnnxNode, x: Any) -> Any:
    x = op("cast", dtype="float32")(x)
    offset, scale = (np.array(node[key], np.float32) for key in ("offset", "scale"))
    return (x - offset) * scale


@reads(
    "Normalizer", since=1, domain=ML,
    attributes={"norm": attribute(str, "MAX", choices=("MAX", "L1", "L2"))},
)  # fmt: skip
def normalizer(node: OnnxNode, x: Any) -> Any:
    x = op("cast", dtype="float32")(x)
    norm = node["norm"]
    if norm == "MAX":
        size = op("max", axis=-1, keepdims=True)(op("abs")(x))
    elif norm == "L1":
        size = op("sum", axis=-1, keepdims=True)(op("abs")(x))
    else:
        size = op("sqrt")(op("sum", axis=-1, keepdims=True)(x * x))
    return x / op("where")(size == 0.0, 1.0, size)


@reads("OneHotEncoder", since=1, domain=ML)
def one_hot_encoder(node: OnnxNode, x: Any) -> Any:
    categories = node.get("cats_strings") or node.get("cats_int64s") or ()
    ids = _table(categories, range(len(categories)))(x)
    return op("one_hot", depth=len(categories))(ids)


@reads("CategoryMapper", since=1, domain=ML)
def category_mapper(node: OnnxNode, x: Any) -> Any:
    """Return numbers for texts, or texts for numbers."""
    texts, numbers = node["cats_strings"], node["cats_int64s"]
    if x.dtype.kind == "T":
        return _table(texts, numbers, node.get("default_int64"))(x)
    return _table(numbers, texts, node.get("default_string"))(x)


@reads("Imputer", since=1, domain=ML)
def imputer(node: OnnxNode, x: Any) -> Any:
    """Put values in place of those that are missing."""
    whole = "imputed_value_int64s" in node.attributes
    kind = "int64s" if whole else "floats"
    values = np.array(node[f"imputed_value_{kind}"], x.dtype)
    missing = node.get("replaced_value_int64" if whole else "replaced_value_float", 0)
    gone = op("is_nan")(x) if missing != missing else op("equal")(x, missing)
    return op("where")(gone, x.graph.constant(values), x)


@reads("ZipMap", since=1, domain=ML)
def zip_map(node: OnnxNode, x: Any) -> Any:
    """Return the columns themselves: there are no dicts here, of which each row would be one."""
    return x


@reads("FeatureVectorizer", since=1, domain=ML)
def feature_vectorizer(node: OnnxNode, *xs: Any) -> Any:
    return op("concat", axis=-1)(*(op("cast", dtype="float32")(x) for x in xs))


# -- linear models -------------------------------------------------------------------------------


def _product(node: OnnxNode, x: Any, rows: int) -> Any:
    given = np.array(node["coefficients"])
    width = x.shape[-1]
    if isinstance(width, int) and width * rows < given.size:
        given = given[: width * rows]  # so does ONNX Runtime, for a model in its own wheel
    y = op("matmul")(x, _constant(x, given.reshape(rows, -1).T))
    return y + _constant(x, node["intercepts"]) if node.get("intercepts") else y


@reads("LinearRegressor", since=1, domain=ML)
def linear_regressor(node: OnnxNode, x: Any) -> Any:
    y = _product(node, op("cast", dtype="float32")(x), node.get("targets", 1))
    return transformed(node.get("post_transform", "NONE"), y)


@reads("LinearClassifier", since=1, domain=ML)
def linear_classifier(node: OnnxNode, x: Any) -> Any:
    """Return labels and scores; one score for two classes is that of the second."""
    x = op("cast", dtype="float32")(x)
    named, n_classes = class_names(node, "classlabels_ints")
    n_features = x.shape[-1]
    one_score = n_classes == 2 and len(node["coefficients"]) == n_features
    scores = _product(node, x, 1 if one_score else n_classes)
    if one_score:
        scores = op("concat", axis=1)(-scores, scores)
    scores = transformed(node.get("post_transform", "NONE"), scores)
    return named(op("argmax", axis=1)(scores)), scores


# -- support vectors -----------------------------------------------------------------------------


def _kernel(node: OnnxNode, x: Any, vectors: Array) -> Any:
    """Return the kernel of each row and support vector."""
    gamma, shift, degree = node.get("kernel_params") or (0.0, 0.0, 0.0)
    name = node.get("kernel_type", "LINEAR")
    if name == "RBF":
        apart = op("expand_dims", axis=1)(x) - _constant(x, vectors)
        return op("exp")(op("sum", axis=2)(apart * apart) * -gamma)
    dots = op("matmul")(x, _constant(x, vectors.T))
    if name == "LINEAR":
        return dots
    if name not in ("POLY", "SIGMOID"):
        raise ArchiveError(f"kernel_type {name!r} is not known")
    moved = dots * gamma + shift
    return op("tanh")(moved) if name == "SIGMOID" else op("pow")(moved, float(int(degree)))


@reads("SVMRegressor", since=1, domain=ML)
def svm_regressor(node: OnnxNode, x: Any) -> Any:
    x, n = op("cast", dtype="float32")(x), node.get("n_supports", 0)
    weight = np.array(node["coefficients"]).reshape(-1, 1)
    found = _kernel(node, x, np.array(node["support_vectors"]).reshape(n, -1)) if n else x
    y = op("matmul")(found, _constant(x, weight)) + node["rho"][0]
    if node.get("one_class"):
        y = op("where")(y > 0.0, _constant(x, 1.0), -1.0)
    return transformed(node.get("post_transform", "NONE"), y)


@reads("SVMClassifier", since=1, domain=ML)
def svm_classifier(node: OnnxNode, x: Any) -> Any:
    """Return labels by votes of all pairs of classes, and scores or probabilities."""
    x = op("cast", dtype="float32")(x)
    named, n = class_names(node, "classlabels_ints")
    how, rho = node.get("post_transform", "NONE"), np.array(node["rho"])
    sizes = node.get("vectors_per_class") or ()
    if not sum(sizes):
        weight = np.array(node["coefficients"]).reshape(n, -1)
        scores = op("matmul")(x, _constant(x, weight.T)) + float(rho[0])
        return named(op("argmax", axis=1)(scores)), transformed(how, scores)
    pairs = list(itertools.combinations(range(n), 2))
    weights = _pair_weights(np.array(node["coefficients"]).reshape(n - 1, -1), sizes, pairs)
    kernels = _kernel(node, x, np.array(node["support_vectors"]).reshape(sum(sizes), -1))
    scores = op("matmul")(kernels, _constant(x, weights)) + _constant(x, rho)
    first, second = (np.eye(n)[[pair[k] for pair in pairs]] for k in (0, 1))
    wins = op("cast", dtype=x.dtype)(scores > 0.0)
    votes = op("matmul")(wins, _constant(x, first)) + op("matmul")(1.0 - wins, _constant(x, second))
    labels = named(op("argmax", axis=1)(votes))
    if node.get("prob_a"):
        val = scores * _constant(x, node["prob_a"]) + _constant(x, node["prob_b"])
        scores = _coupled(1.0 - op("sigmoid")(val), n, pairs)
    elif n == 2:
        scores = op("concat", axis=1)(-scores, scores)
    return labels, transformed(how, scores)


def _pair_weights(coefficients: Array, sizes: Any, pairs: Any) -> Array:
    """Return per support vector and pair of classes how much the vector counts."""
    ends = np.cumsum(sizes)
    of = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    weights = np.zeros((coefficients.shape[1], len(pairs)))
    for p, (i, j) in enumerate(pairs):
        weights[of[i], p] = coefficients[j - 1, of[i]]
        weights[of[j], p] = coefficients[i, of[j]]
    return weights


def _coupled(won: Any, n: int, pairs: Any) -> Any:
    """Return class probabilities from those of pairs, as Wu, Lin and Weng (2004) find them.

    min Σᵢⱼ (rⱼᵢ·pᵢ − rᵢⱼ·pⱼ)² with Σ p = 1 by their second method, which goes on until no row of
    the conditions is off by 0.005 / n, 100 times at most: what LIBSVM and ONNX Runtime return.
    """
    won = op("minimum")(op("maximum")(won, 1e-7), 1.0 - 1e-7)
    columns = {pair: won[:, k] for k, pair in enumerate(pairs)}
    columns |= {(j, i): 1.0 - won[:, k] for k, (i, j) in enumerate(pairs)}
    rows = []
    for i in range(n):
        others = [columns[j, i] for j in range(n) if j != i]
        square = sum((r * r for r in others[1:]), others[0] * others[0])
        row = [square if i == j else -columns[j, i] * columns[i, j] for j in range(n)]
        rows.append(op("stack", axis=1)(*row))
    matrix = op("stack", axis=1)(*rows)

    def conditions(p: Any) -> tuple[Any, Any]:
        """Return ``Q·p`` and ``pᵀ·Q·p`` of each row."""
        each = op("squeeze", axis=2)(op("matmul")(matrix, op("expand_dims", axis=2)(p)))
        return each, op("sum", axis=1, keepdims=True)(p * each)

    def step(_: Any, carry: Any) -> Any:
        (p,) = carry
        each, whole = conditions(p)
        off = op("max", axis=1, keepdims=True)(op("abs")(each - whole)) >= 0.005 / n
        before = p
        for t in range(n):
            square, here = matrix[:, t, t : t + 1], each[:, t : t + 1]
            by = (whole - here) / square
            scale = 1.0 + by
            whole = (whole + by * (by * square + 2.0 * here)) / scale / scale
            each = (each + by * matrix[:, t]) / scale
            p = op("concat", axis=1)(p[:, :t], p[:, t : t + 1] + by, p[:, t + 1 :]) / scale
        return op("any")(off), [op("where")(off, p, before)], []

    start = op("ones_like")(matrix[:, 0]) / n
    (found,), _ = loops.loop(step, [start], trip=max(100, n), go=True)
    return found
