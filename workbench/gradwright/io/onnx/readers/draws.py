"""Random tensors: their distribution is ONNX's, their numbers are our own streams'."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import ArchiveError
from ....graph import active_graph
from ....spec import kind
from ..dtypes import from_element_type
from ..node import OnnxNode, cast, op, reads


def _drawn(name: str, shape: Any, dtype: Any, **attrs: Any) -> Any:
    graph = active_graph()
    if graph is None:
        raise ArchiveError("random numbers need a graph")
    y = op(name, shape=tuple(shape), stream=graph.next_stream(), **attrs)(graph.rng)
    return cast(y, dtype)


def _dtype(node: OnnxNode, like: Any = None) -> np.dtype[Any]:
    if "dtype" in node.attributes:
        return from_element_type(node["dtype"])
    return np.dtype("float32") if like is None or kind(like.dtype) != "f" else like.dtype


def _limits(node: OnnxNode) -> dict[str, float]:
    return {"low": node.get("low", 0.0), "high": node.get("high", 1.0)}


def _moments(node: OnnxNode) -> dict[str, float]:
    return {"mean": node.get("mean", 0.0), "std": node.get("scale", 1.0)}


@reads("RandomUniform", since=1)
def random_uniform(node: OnnxNode) -> Any:
    return _drawn("uniform", node["shape"], _dtype(node), **_limits(node))


@reads("RandomUniformLike", since=1)
def random_uniform_like(node: OnnxNode, x: Any) -> Any:
    return _drawn("uniform", x.shape, _dtype(node, x), **_limits(node))


@reads("RandomNormal", since=1)
def random_normal(node: OnnxNode) -> Any:
    return _drawn("normal", node["shape"], _dtype(node), **_moments(node))


@reads("RandomNormalLike", since=1)
def random_normal_like(node: OnnxNode, x: Any) -> Any:
    return _drawn("normal", x.shape, _dtype(node, x), **_moments(node))


@reads("Bernoulli", since=15)
def bernoulli(node: OnnxNode, p: Any) -> Any:
    dtype = from_element_type(node["dtype"]) if "dtype" in node.attributes else p.dtype
    return cast(cast(_drawn("uniform", p.shape, "float32"), p.dtype) < p, dtype)


@reads("Multinomial", since=7)
def multinomial(node: OnnxNode, x: Any) -> Any:
    """Draw classes by log-probabilities, as the largest of scores with Gumbel noise."""
    n = node.get("sample_size", 1)
    dtype = from_element_type(node.get("dtype", 6))
    draw = _drawn("uniform", (x.shape[0], n, x.shape[1]), x.dtype, low=1e-20)
    noise = -op("log")(-op("log")(draw))
    return cast(op("argmax", axis=-1)(op("expand_dims", axis=1)(x) + noise), dtype)
