"""Random tensors: their distribution is ours, their numbers are those of whoever runs the model."""

from __future__ import annotations

import numpy as np

from ..by_rule import takes
from ..dtypes import element_type
from ..node import writes
from ..output import Call
from ..versions import CannotExport, schema_of


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
    if logits is None or logits.rank != 2 or not call.replacement:
        raise CannotExport
    if not takes(schema, 0, logits) or not takes(schema, 0, call.y, output=True):
        raise CannotExport
    attrs = {"sample_size": call.num_samples or 1, "dtype": element_type(call.y.dtype)}
    y = call.add("Multinomial", call.xs[1], **attrs)
    return y if call.num_samples is not None else call.add("Squeeze", y, call.out.ints([1]))


@writes("dropout")
def dropout(call: Call) -> list[str]:
    """Write what dropout is outside training, mostly nothing; unless it is told to drop always.

    The mask is what gradients read.
    """
    x, factor = call.xs[1], 1.0 if call.inverted else 1.0 - call.p
    if not call.training:
        y = call.add("Identity", x) if call.inverted else call.add("Mul", x, _number(call, factor))
        return [y, call.add("Expand", _number(call, factor), call.add("Shape", x))]
    if not call.inverted or call.p >= 1:
        raise CannotExport
    ratio, always = call.out.constant(np.float32(call.p)), call.out.constant(np.bool_(True))
    y, kept = call.out.add("Dropout", [x, ratio, always], n=2, base=f"{call.name}/dropout")
    kept = call.cast(kept, np.dtype(bool), call.y.dtype)
    return [y, call.add("Mul", kept, _number(call, 1 / (1 - call.p)))]


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
