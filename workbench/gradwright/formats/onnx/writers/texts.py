"""Texts and tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....spec import kind
from ..node import writes
from ..output import Call, to_tensor
from ..versions import CannotExport

_SUFFIXES = {"int64": "int64", "float32": "float"}
"""Dtypes of tables that are lists of numbers; others are tensors."""


@writes("label_encoder")
def label_encoder(call: Call) -> list[str]:
    attrs = _table("keys_{}s", call.keys, call.x.dtype) | _table(
        "values_{}s", call.values, call.dtype
    )
    attrs |= _table("default_{}", (call.default,), call.dtype)
    return call.out.add("LabelEncoder", call.xs, base=call.name, domain="ai.onnx.ml", **attrs)


def _table(key: str, values: tuple[Any, ...], d: np.dtype[Any]) -> dict[str, Any]:
    """Return numbers or texts as the attribute that is for their dtype; one default is no list."""
    suffix = "string" if kind(d) == "s" else _SUFFIXES.get(d.name)
    if suffix is not None:
        return {key.format(suffix): list(values) if key.endswith("s") else values[0]}
    if d.name not in ("float64", "int32", "int16"):
        raise CannotExport
    return {key.format("tensor").removesuffix("s"): to_tensor(np.array(values, d), "table")}


@writes("tokenize")
def tokenize(call: Call) -> list[str]:
    """Write ONNX Runtime's own operator: ONNX has none."""
    how = {"tokenexp": call.pattern} if call.pattern else {"separators": list(call.separators)}
    attrs = {"mark": int(call.mark), "mincharnum": call.least, "pad_value": call.pad, **how}
    return call.out.add("Tokenizer", call.xs, base=call.name, domain="com.microsoft", **attrs)


@writes("tf_idf_vectorizer")
def tf_idf_vectorizer(call: Call) -> str:
    attrs = {k: list(v) if isinstance(v, tuple) else v for k, v in call.op.attributes().items()}
    pool = attrs.pop("pool")
    attrs["pool_strings" if isinstance(pool[0], str) else "pool_int64s"] = pool
    x = call.xs[0]
    if kind(call.x.dtype) != "s" and call.x.dtype.name not in ("int32", "int64"):
        x = call.cast(x, call.x.dtype, np.dtype("int64"))
    return call.add("TfIdfVectorizer", x, **attrs)
