"""Norms and softmax written out, their weights, and what halves are widened for on the way."""

from __future__ import annotations

from typing import Any

from ...spec import is_half
from ..algebra import x
from ..patterns import bias, weight
from ..terms import INNER, Bind, Binds, Call, Either, Number, Term
from .products import Maybe, Power, Product
from .table import pattern
from .view import View

axes, eps = Bind("axes", -1), Number("eps")
given: dict[str, Any] = {
    "axis": lambda b: -len(b["axes"]),
    "eps": lambda b: float(str(b["eps"])),  # 1e-6 rather than the float32 next to it
}
held: dict[str, Any] = {"axis": lambda b: _norm(b).axis, "eps": lambda b: _norm(b).eps}


def _norm(b: Binds) -> Any:
    """Return the norm that was matched."""
    return next(step.op for step in b[INNER] if step.op.name in ("rms_norm", "layer_norm"))


def _mean(of: Term) -> Term:
    return Call("mean", of, axes=axes, keepdims=True)


def trailing(at: View, b: Binds) -> str:
    """Say what is wrong with the axes of a norm: it takes the last ones."""
    rank, found = at.spec(b["x"]).rank, b["axes"]
    wrong = not found or found != tuple(range(found[0], rank))
    return f"the mean is over axes {found} of {rank}, not over the last ones" if wrong else ""


def fitting(at: View, b: Binds) -> str:
    """Say what is wrong with a weight or bias: it is of the normalised axes, and no half."""
    spec = at.spec(b["x"])
    axes = b["axes"] if "axes" in b else _norm(b).axes(spec.rank)
    for name in ("weight", "bias"):
        if name in b:
            own = at.spec(b[name])
            if own.shape != spec.shape[axes[0] :]:
                return f"the {name} is {own}, not of the normalised axes"
            if own.dtype != spec.dtype or is_half(own.dtype):
                return f"the norm is rounded before its {name} of {own}"
    return ""


def written_out(at: View, b: Binds) -> str:
    """Say what is wrong with a layer norm whose parameters are inside."""
    return trailing(at, b) or fitting(at, b)


# -- norms ----------------------------------------------------------------------------------------

_mu = _mean(x)
_centred = x - _mu
_deviation = Power(_mean(Product(_centred, _centred)) + eps, -0.5)
pattern(
    "layer_norm",
    "mean",
    Product(_centred, _deviation),
    Call("layer_norm", x, **given),
    when=trailing,
)
pattern(
    "layer_norm",
    "mean",
    Product(x, weight, _deviation) + (bias - Product(_mu, weight, _deviation)),
    Call("layer_norm", x, weight, bias, **given),
    when=written_out,
)

_square = _mean(Product(x, x))
pattern(
    "rms_norm",
    "mean",
    Product(x, Power(_square + eps, -0.5)),
    Call("rms_norm", x, **given),
    when=trailing,
)
pattern(
    "rms_norm",
    "mean",
    Product(x, Power(Product(Power(_square, 0.5)) + eps, -1.0)),
    Call("rms_norm", x, **given),
    when=lambda at, b: "ε is added outside of the root",
)

# -- what stands around them ----------------------------------------------------------------------


def halves(at: View, b: Binds) -> str:
    """Say what is wrong with casts around a norm: it widens halves, and rounds to them again."""
    held = at.spec(b["x"]).dtype
    wrong = not is_half(held) or b["dtype"] != held
    return f"{held} is widened and rounded to {b['dtype']}" if wrong else ""


for _name in ("rms_norm", "layer_norm"):
    pattern(
        _name,
        _name,
        Call("cast", Call(_name, Call("cast", x)), dtype=Bind("dtype", None)),
        Call(_name, x, **held),
        when=halves,
    )
    pattern(
        _name,
        _name,
        Call(_name, x) * weight,
        Call(_name, x, weight, **held),
        when=fitting,
    )
pattern(
    "layer_norm",
    "layer_norm",
    Call("layer_norm", x, weight) + bias,
    Call("layer_norm", x, weight, bias, **held),
    when=fitting,
)

# -- along one axis -------------------------------------------------------------------------------


def one(at: View, b: Binds) -> str:
    """Say what is wrong where something is done along several axes at once, or divides by zero."""
    if not b.get("eps", 1.0) > 0:
        return "what has no length would be NaN, not 0"
    return "" if len(b["axes"]) == 1 else f"it is over axes {b['axes']}, not along one"


alone: dict[str, Any] = {"axis": lambda b: b["axes"][0]}
_exp = Call("exp", x - Call("max", x, axes=axes, keepdims=True))
pattern(
    "softmax",
    "exp",
    Product(_exp, Power(Call("sum", _exp, axes=axes, keepdims=True), -1.0)),
    Call("softmax", x, **alone),
    when=one,
)
_size = Power(Call("sum", Product(x, x), axes=axes, keepdims=True), 0.5)
_length = Either(Product(_size), Call("norm", x, axes=axes, keepdims=True, ord=2.0))
for _name in ("maximum", "clip"):
    pattern(
        "normalize",
        _name,
        Product(x, Power(Maybe("broadcast_to", Call(_name, _length, eps)), -1.0)),
        Call("lp_normalize", x, axis=alone["axis"], eps=given["eps"]),
        when=one,
    )
