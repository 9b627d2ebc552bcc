"""Random tensors: their distribution is ONNX's, their numbers are our own streams'."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import ArchiveError
from ....graph import active_graph
from ....spec import kind
from ..dtypes import from_element_type
from ..folding import fold
from ..node import OnnxNode, cast, op, reads


def _drawn(name: str, shape: Any, dtype: Any, **attrs: Any) -> Any:
    graph = active_graph()
    if graph is None:
        raise ArchiveError("random numbers need a graph")
    drawn = op(name, shape=tuple(shape), stream=graph.next_stream(), dtype=dtype, **attrs)
    return drawn(graph.rng)


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
    known = fold(p)
    if known is not None and known.size and (known == known.flat[0]).all():
        return _drawn("bernoulli", p.shape, dtype, p=float(known.flat[0]))
    return cast(cast(_drawn("uniform", p.shape, "float32"), p.dtype) < p, dtype)


@reads("Multinomial", since=7)
def multinomial(node: OnnxNode, x: Any) -> Any:
    dtype = from_element_type(node.get("dtype", 6))
    attrs = {"num_samples": node.get("sample_size", 1), "stream": x.graph.next_stream()}
    return op("categorical", **attrs, dtype=dtype)(x.graph.rng, x)
