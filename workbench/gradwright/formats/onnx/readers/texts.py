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


@reads("Tokenizer", since=1, domain="com.microsoft")
def tokenizer(node: OnnxNode, x: Any) -> Any:
    """Return tokens as ONNX Runtime's own operator does, which skl2onnx writes for texts."""
    return op(
        "tokenize",
        pattern=node.get("tokenexp", ""),
        separators=() if node.get("tokenexp") else node["separators"],
        pad=node["pad_value"],
        least=node["mincharnum"],
        mark=node.flag("mark"),
    )(x)


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
