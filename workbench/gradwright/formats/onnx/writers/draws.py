"""Random tensors: their distribution is ours, their numbers are those of whoever runs the model."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ....graph import Tensor
from ....spec import TensorSpec
from ..by_rule import takes
from ..dtypes import element_type
from ..node import op, writes
from ..nodes import spell, spelled
from ..output import Call
from ..versions import CannotExport, schema_of

FLOAT32 = np.dtype("float32")


@writes("uniform", "normal")
def drawn(call: Call) -> str:
    op_type = "RandomUniform" if call.op.name == "uniform" else "RandomNormal"
    if not takes(schema_of("", op_type, call.out.opset), 0, call.y, output=True):
        raise CannotExport
    given = call.op.attributes()
    names = {"low": "low", "high": "high", "mean": "mean", "std": "scale"}
    attrs = {theirs: float(given[ours]) for ours, theirs in names.items() if ours in given}
    attrs["dtype"] = element_type(call.y.dtype)
    if call.y.rank and call.y.is_concrete:
        return call.add(op_type, shape=list(call.y.shape), **attrs)
    return call.add(op_type + "Like", _filled(call, 0.0), **attrs)


@writes("bernoulli")
def bernoulli(call: Call) -> str:
    if not takes(schema_of("", "Bernoulli", call.out.opset), 0, call.y, output=True):
        raise CannotExport
    return call.add("Bernoulli", _filled(call, call.p), dtype=element_type(call.y.dtype))


def _filled(call: Call, value: float) -> str:
    """Return a tensor of the shape of the result."""
    number = call.out.constant(np.float32(value))
    return call.add("Expand", number, call.out.shape(call.y.shape)) if call.y.rank else number


@writes("categorical")
def categorical(call: Call) -> str:
    """Draw with replacement for the rows of a matrix."""
    logits = call.specs[1]
    schema = schema_of("", "Multinomial", call.out.opset)
    if logits is not None and not call.replacement:
        return _distinct(call, logits)
    if logits is None or logits.rank != 2:
        raise CannotExport
    if not takes(schema, 0, logits) or not takes(schema, 0, call.y, output=True):
        raise CannotExport
    attrs = {"sample_size": call.num_samples or 1, "dtype": element_type(call.y.dtype)}
    y = call.add("Multinomial", call.xs[1], **attrs)
    return y if call.num_samples is not None else call.add("Squeeze", y, call.out.ints([1]))


def _distinct(call: Call, logits: TensorSpec) -> str:
    """Take the largest of logits with Gumbel noise (Kool et al. 2019)."""
    waiting = call.add("Neg", call.add("Log", _below_one(call, logits.shape)))
    noise = call.add("Neg", call.add("Log", waiting))
    scores = call.add("Add", call.cast(call.xs[1], logits.dtype, FLOAT32), noise)
    n = call.out.dim(call.num_samples or 1)
    _, places = call.out.add("TopK", [scores, n], n=2)
    y = call.cast(places, np.dtype("int64"), call.y.dtype)
    return y if call.num_samples is not None else call.add("Squeeze", y, call.out.ints([-1]))


@writes("dropout")
def dropout(call: Call) -> list[str]:
    """Write what dropout is outside training, mostly nothing; unless it is told to drop always.

    The mask is what gradients read.
    """
    x, factor = call.xs[1], 1.0 if call.inverted else 1.0 - call.p
    if not call.training:
        y = call.add("Identity", x) if call.inverted else call.add("Mul", x, _number(call, factor))
        return [y, call.add("Expand", _number(call, factor), call.add("Shape", x))]
    if call.p >= 1:
        zeros = call.add("Expand", _number(call, 0.0), call.add("Shape", x))
        return [call.add("Mul", x, zeros), zeros]
    ratio, always = call.out.constant(np.float32(call.p)), call.out.constant(np.bool_(True))
    y, kept = call.out.add("Dropout", [x, ratio, always], n=2, base=f"{call.name}/dropout")
    mask = call.cast(kept, np.dtype(bool), call.y.dtype)
    if not call.inverted:
        return [call.add("Mul", x, mask), mask]
    return [y, call.add("Mul", mask, _number(call, 1 / (1 - call.p)))]


def _number(call: Call, value: float) -> str:
    return call.out.constant(np.asarray(value).astype(call.y.dtype))


@writes("exponential", "gumbel", "log_normal")
def transformed(call: Call) -> str:
    """Write what is a function of uniform or normal numbers as that."""
    if not takes(schema_of("", "RandomUniform", call.out.opset), 0, call.y, output=True):
        raise CannotExport

    def constant(value: float) -> str:
        return call.out.constant(np.asarray(value).astype(call.y.dtype))

    like, dtype = _filled(call, 0.0), element_type(call.y.dtype)
    if call.op.name == "log_normal":
        attrs = {"mean": float(call.mean), "scale": float(call.std), "dtype": dtype}
        return call.add("Exp", call.add("RandomNormalLike", like, **attrs))
    least = float(np.finfo(np.float16 if call.y.dtype.itemsize < 4 else np.float32).tiny)
    u = call.add("RandomUniformLike", like, low=least, high=1.0, dtype=dtype)
    waiting = call.add("Neg", call.add("Log", u))
    if call.op.name == "exponential":
        return call.add("Div", waiting, constant(call.rate))
    unit = call.add("Log", call.add("Max", waiting, constant(least)))
    return call.add("Sub", constant(call.loc), call.add("Mul", unit, constant(call.scale)))


def _like(call: Call, op_type: str, shape: Any = None, **attrs: Any) -> str:
    """Return random numbers of float32, of the shape of the result or another."""
    dims = call.y.shape if shape is None else shape
    if not dims:
        return call.add("Squeeze", call.add(op_type, shape=[1], **attrs))
    zeros = call.add("Expand", call.out.constant(np.float32(0)), call.out.shape(dims))
    return call.add(op_type + "Like", zeros, **attrs)


def _below_one(call: Call, shape: Any = None) -> str:
    """Return uniform numbers from 0 to 1, without either."""
    tiny = float(np.finfo(np.float32).tiny)
    return _like(call, "RandomUniform", shape, low=tiny, high=1.0)


@writes("laplace")
def laplace(call: Call) -> str:
    """Write the difference of two exponential numbers."""
    one, other = (call.add("Log", _below_one(call)) for _ in range(2))
    size = call.add("Mul", call.add("Sub", one, other), call.out.constant(np.float32(call.scale)))
    return call.cast(
        call.add("Add", size, call.out.constant(np.float32(call.loc))), FLOAT32, call.y.dtype
    )


@writes("randint")
def randint(call: Call) -> str:
    """Write whole numbers of uniform ones; of more than float32 tells apart, ONNX has none."""
    span = call.high - call.low
    if span > 1 << 24 or not -(1 << 63) <= call.low <= call.high < 1 << 63:
        raise CannotExport
    u = call.add("Mul", _like(call, "RandomUniform"), call.out.constant(np.float32(span)))
    most = call.out.constant(np.float32(span - 1))
    whole = call.cast(call.add("Min", call.add("Floor", u), most), FLOAT32, np.dtype("int64"))
    y = call.add("Add", whole, call.out.constant(np.int64(call.low)))
    return call.cast(y, np.dtype("int64"), call.y.dtype)


@writes("permutation")
def permutation(call: Call) -> str:
    """Write the order of uniform numbers."""
    size = call.out.dim(call.y.shape[0])
    _, places = call.out.add("TopK", [_like(call, "RandomUniform"), size], n=2)
    return call.cast(places, np.dtype("int64"), call.y.dtype)


@writes("binomial")
def binomial(call: Call) -> str:
    """Count trials; many are none that a model writes out."""
    if call.n > 1024:
        raise CannotExport
    u = _like(call, "RandomUniform", (call.n, *call.y.shape))
    hit = call.add("Less", u, call.out.constant(np.float32(call.p)))
    hits = call.cast(hit, np.dtype(bool), FLOAT32)
    return call.cast(
        call.add("ReduceSum", hits, call.out.ints([0]), keepdims=0), FLOAT32, call.y.dtype
    )


@writes("truncated_normal")
def truncated_normal(call: Call) -> list[str]:
    """Write the inverse of the distribution function at uniform numbers."""
    if call.y.dtype.itemsize > 4:
        raise CannotExport
    low, high = (math.erf(v / math.sqrt(2)) for v in (call.lower, call.upper))
    if high - low < 1e-3:
        raise CannotExport  # float32 tells too few numbers apart
    u = _like(call, "RandomUniform", low=low, high=high)

    def build(of: Any, u: Tensor) -> Any:
        z = op("erfinv")(u) * math.sqrt(2)
        z = op("maximum")(op("minimum")(z, of.upper), of.lower)
        return op("cast", dtype=of.dtype)(z * of.std + of.mean)

    flat = TensorSpec(call.y.shape, "float32")
    return spell(dataclasses.replace(call, xs=[u], specs=[flat]), build)


# -- tokens ----------------------------------------------------------------------------------------


def _among_top_k(p: Tensor, k: int) -> Any:
    size = p.shape[-1]
    values, _ = op("top_k", k=min(k, size) if isinstance(size, int) else k)(p)
    return p >= values[..., -1:]


def _among_top_p(p: Tensor, mass: float) -> Any:
    """Keep the largest until those before one have the mass."""
    order = op("argsort", axis=-1, descending=True)(p)
    ranked = op("take_along_axis", axis=-1)(p, order)
    kept = op("cumsum", axis=-1)(ranked) - ranked < mass
    first = op("cast", dtype="bool")(
        op("one_hot", depth=p.shape[-1])(op("zeros_like")(order[..., 0]))
    )
    kept = op("cast", dtype="int32")(kept | first)
    zeros = op("zeros_like")(kept)
    return op("scatter_update", axis=-1)(zeros, order, kept) > 0


@spelled("token_sample", "top_k_sample", "top_p_sample")
def token_sample(of: Any, rng: Tensor, logits: Tensor) -> Any:
    """Filter, then draw one of what is left."""
    if of.temperature == 0:
        return op("argmax", axis=-1)(logits)
    wide = logits / of.temperature
    p, held = op("softmax", axis=-1)(wide), of.attributes()
    k, mass = held.get("top_k") or held.get("k"), held.get("top_p", held.get("p", 1.0))
    seen = None if not k else _among_top_k(p, k)
    if mass < 1:
        left = p if seen is None else op("where")(seen, p, 0.0)
        left = left / op("sum", axis=-1, keepdims=True)(left)
        among = _among_top_p(left, mass)
        seen = among if seen is None else seen & among
    if held.get("min_p", 0.0) > 0:
        likely = p >= op("max", axis=-1, keepdims=True)(p) * held["min_p"]
        seen = likely if seen is None else seen & likely
    kept = wide if seen is None else op("where")(seen, wide, -np.inf)
    return op("categorical", replacement=False)(rng, kept)


@spelled("typical_p_filter")
def typical_p_filter(of: Any, logits: Tensor) -> Any:
    """Keep what surprises as much as is expected, up to the mass (Meister et al. 2023)."""
    p = op("softmax", axis=-1)(logits)
    possible = p > 0.0
    surprise = -op("log")(op("where")(possible, p, 1.0))
    away = abs(surprise - op("sum", axis=-1, keepdims=True)(p * surprise))
    away = op("where")(possible, away, np.inf)
    order = op("argsort", axis=-1)(away)
    total = op("cumsum", axis=-1)(op("take_along_axis", axis=-1)(p, order))
    below = op("cast", dtype="int64")(total < of.p)
    last = op("minimum")(op("sum", axis=-1, keepdims=True)(below), p.shape[-1] - 1)
    take = op("take_along_axis", axis=-1)
    return op("where")(away <= take(away, take(order, last)), logits, -np.inf)
