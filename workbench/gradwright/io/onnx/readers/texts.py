"""Texts and tables: what tokens become."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import ArchiveError
from ..node import OnnxNode, op, reads


@reads("TfIdfVectorizer", since=9)
def tf_idf_vectorizer(node: OnnxNode, x: Any) -> Any:
    attrs = dict(node.attributes)
    words, numbers = attrs.pop("pool_strings", ()), attrs.pop("pool_int64s", ())
    return op("tf_idf_vectorizer", pool=words or numbers, **attrs)(x)


@reads("LabelEncoder", since=2, domain="ai.onnx.ml")
def label_encoder(node: OnnxNode, x: Any) -> Any:
    """Read keys, values and default, each stated by an attribute for its own type."""
    key_types = ("keys_int64s", "keys_strings", "keys_floats", "keys_tensor")
    keys = _stated(node, key_types)
    values = _stated(node, ("values_int64s", "values_strings", "values_floats", "values_tensor"))
    d = values.dtype
    if "default_tensor" in node.attributes:
        default = node["default_tensor"].reshape(-1)[0]
    elif d.kind == "T":
        default = node.get("default_string", "_Unused")
    elif d.kind == "f":
        default = node.get("default_float", -0.0)
    else:
        default = node.get("default_int64", -1)
    return op(
        "label_encoder", keys=tuple(keys.tolist()), values=tuple(values.tolist()),
        default=default.item() if isinstance(default, np.generic) else default, dtype=d,
    )(x)  # fmt: skip


def _stated(node: OnnxNode, names: tuple[str, ...]) -> np.ndarray[Any, Any]:
    """Return the one attribute of several that a node has, as an array."""
    found = [name for name in names if name in node.attributes]
    if len(found) != 1:
        raise ArchiveError(f"{node.op_type} has {len(found)} of {', '.join(names)}", need="one")
    value = node[found[0]]
    if isinstance(value, np.ndarray):
        return value.reshape(-1)
    kinds: dict[str, Any] = {"int64s": np.int64, "floats": np.float32}
    return np.array(value, kinds.get(found[0].rpartition("_")[2], np.dtypes.StringDType()))


@reads("Binarizer", since=1, domain="ai.onnx.ml")
def binarizer(node: OnnxNode, x: Any) -> Any:
    return op("cast", dtype=x.dtype)(x > node.get("threshold", 0.0))


@reads("ArrayFeatureExtractor", since=1, domain="ai.onnx.ml")
def array_feature_extractor(node: OnnxNode, x: Any, places: Any) -> Any:
    flat = op("reshape", shape=(-1,))(places)
    x = op("reshape", shape=(1, -1))(x) if x.rank == 1 else x
    return op("gather", axis=-1)(x, flat)


@reads("Scaler", since=1, domain="ai.onnx.ml")
def scaler(node: OnnxNode, x: Any) -> Any:
    x = op("cast", dtype="float32")(x)
    offset, scale = (np.array(node[key], np.float32) for key in ("offset", "scale"))
    return (x - offset) * scale


@reads("Normalizer", since=1, domain="ai.onnx.ml")
def normalizer(node: OnnxNode, x: Any) -> Any:
    x = op("cast", dtype="float32")(x)
    norm = node.get("norm", "MAX")
    if norm == "MAX":
        size = op("max", axis=-1, keepdims=True)(op("abs")(x))
    elif norm == "L1":
        size = op("sum", axis=-1, keepdims=True)(op("abs")(x))
    else:
        size = op("sqrt")(op("sum", axis=-1, keepdims=True)(x * x))
    return x / op("where")(size == 0.0, 1.0, size)


@reads("LinearRegressor", since=1, domain="ai.onnx.ml")
def linear_regressor(node: OnnxNode, x: Any) -> Any:
    targets = node.get("targets", 1)
    weight = np.array(node["coefficients"], np.float32).reshape(targets, -1)
    y = op("matmul")(op("cast", dtype="float32")(x), x.graph.constant(weight.T))
    if "intercepts" in node.attributes:
        y = y + np.array(node["intercepts"], np.float32)
    return y


@reads("OneHotEncoder", since=1, domain="ai.onnx.ml")
def one_hot_encoder(node: OnnxNode, x: Any) -> Any:
    categories = node.get("cats_strings") or node.get("cats_int64s") or ()
    places = tuple(range(len(categories)))
    table = {"keys": categories, "values": places, "default": -1, "dtype": "int64"}
    ids = op("label_encoder", **table)(x)
    return op("one_hot", depth=len(categories))(ids)


@reads("Imputer", since=1, domain="ai.onnx.ml")
def imputer(node: OnnxNode, x: Any) -> Any:
    """Put values in place of those that are missing."""
    whole = "imputed_value_int64s" in node.attributes
    kind = "int64s" if whole else "floats"
    values = np.array(node[f"imputed_value_{kind}"], x.dtype)
    missing = node.get("replaced_value_int64" if whole else "replaced_value_float", 0)
    gone = op("is_nan")(x) if missing != missing else op("equal")(x, missing)
    return op("where")(gone, x.graph.constant(values), x)


@reads("FeatureVectorizer", since=1, domain="ai.onnx.ml")
def feature_vectorizer(node: OnnxNode, *xs: Any) -> Any:
    return op("concat", axis=-1)(*(op("cast", dtype="float32")(x) for x in xs))
