"""Norms, activations and attention written out, as imported graphs have them, become one op.

They fire where the device runs that op in one piece: elsewhere it would be opened into what is
there already. Products with a bias and an activation stay as they are, and so do optimizer updates:
they are elements of one shape after a product, which fusion takes whole.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ops.attention.scaled import ScaledDotProductAttention
from ..ops.core.activation import Gelu, Silu, Tanh
from ..ops.core.elementwise import Div, Mul
from ..ops.core.movement import Swapaxes
from ..ops.core.special import Erfc
from ..ops.layers.nn import Softmax
from ..program.program import Instr
from ..spec import kind
from .algebra import x
from .editor import Editor
from .stable import A
from .table import formula, rule
from .terms import Any_, Bind, Binds, Call, Either, Number, Term

weight, bias = Any_("weight"), Any_("bias")
PARAMETERS = {"weight": "w", "bias": "v"}
_kept_axis, _kept_eps = Bind("axis", -1), Bind("eps", 1e-5)

# -- norms ----------------------------------------------------------------------------------------


def _over(above: Term, below: Term) -> tuple[Term, ...]:
    """Return the ways to write a quotient."""
    return above / below, above * (1.0 / below), above * Call("reciprocal", below)


def _trailing(at: Editor, b: Binds) -> bool:
    """Tell whether the axes are the last ones, which norms take, of floats."""
    spec, axes = at.specs[b["x"]], b["axes"]
    return kind(spec.dtype) == "f" and axes == tuple(range(axes[0], spec.rank)) if axes else False


_centred = x - Call("mean", x, axes=A, keepdims=True)
for _name, _above in (("layer_norm", _centred), ("rms_norm", x)):
    _deviation = Call("root_sum_squares", _above, axes=A, keepdims=True, mean=True, eps=_kept_eps)
    for _i, _form in enumerate(_over(_above, _deviation)):
        formula(
            _name + ("", "_by_inverse", "_by_reciprocal")[_i],
            _form,
            Call(_name, x, whole=True, axis=lambda b: b["axes"][0], eps=_kept_eps),
            "A norm written out.",
            when=_trailing,
            alone=True,
            exact=False,
            lowers=(_name,),
        )
    _plain = Call(_name, x, axis=_kept_axis, eps=_kept_eps)
    formula(
        f"{_name}_weight",
        _plain * weight,
        Call(_name, x, weight, whole=True, axis=_kept_axis, eps=_kept_eps),
        "A norm takes its weight.",
        alone=True,
        exact=False,
        lowers=(_name,),
        given=PARAMETERS,
    )
formula(
    "layer_norm_bias",
    Call("layer_norm", x, weight, axis=_kept_axis, eps=_kept_eps) + bias,
    Call("layer_norm", x, weight, bias, whole=True, axis=_kept_axis, eps=_kept_eps),
    "A norm takes its bias.",
    alone=True,
    exact=False,
    lowers=("layer_norm",),
    given=PARAMETERS,
)

# -- activations ----------------------------------------------------------------------------------


def factors(at: Editor, root: Instr) -> tuple[float, list[int]]:
    """Return a product as a number and its other factors; inner products only it needs."""
    number, found = 1.0, []
    open_: list[int | None] = list(root.ins)
    while open_:
        value = open_.pop()
        known = at.number(value)
        inner = at.producer(value, "mul")
        if value is None or (known is not None and kind(known.dtype) not in "iuf"):
            return number, []
        if known is not None:
            number *= float(known)
        elif inner is not None and at.is_alone(value):
            open_ += inner.ins
        else:
            found.append(value)
    return number, found


def _near(found: float, wanted: float) -> bool:
    return abs(found - wanted) <= 1e-5 * abs(wanted)


@rule(
    "silu",
    "mul",
    "x·sigmoid(x)",
    "silu(x)",
    needs=("sigmoid",),
    exact=False,
    lowers=("silu",),
    example=lambda x: x * x.sigmoid(),
)
def _silu(at: Editor, instr: Instr) -> int | None:
    """A silu written out."""
    for a, b in (instr.ins, instr.ins[::-1]):
        gate = at.producer(b, "sigmoid")
        if gate is not None and gate.ins[0] == a and at.is_alone(gate.outs[0]):
            return at.make(Silu(), a, whole=True)
    return None


@rule(
    "gelu",
    "mul",
    "x/2·erfc(−x/√2)",
    "gelu(x)",
    exact=False,
    lowers=("gelu",),
    needs=("erfc", "mul"),
    example=lambda x: (x * 0.5) * Erfc()(x * -math.sqrt(0.5)),
)
def _gelu(at: Editor, instr: Instr) -> int | None:
    """An exact gelu written out, in any order; from x/2·(1 + erf(x/√2)) other rules lead here."""
    number, parts = factors(at, instr)
    if len(parts) != 2 or not _near(number, 0.5):
        return None
    for a, b in (parts, parts[::-1]):
        tail = at.producer(b, "erfc")
        scaled = None if tail is None else at.producer(tail.ins[0])
        if scaled is None or scaled.op.name not in ("mul", "div") or not at.is_alone(b):
            continue
        by, known = scaled.ins[0], at.number(scaled.ins[1])
        if known is None and scaled.op.name == "mul":
            by, known = scaled.ins[1], at.number(scaled.ins[0])
        if known is None or by != a:
            continue
        if _near(float(known) ** (1 if scaled.op.name == "mul" else -1), -math.sqrt(0.5)):
            return at.make(Gelu(), a, whole=True)
    return None


@rule(
    "gelu_tanh",
    "mul",
    "x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))",
    "gelu(x) by tanh",
    exact=False,
    lowers=("gelu",),
    needs=("add", "mul"),
    example=lambda x: (
        (x * 0.5) * (1.0 + Tanh()((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)))
    ),
)
def _gelu_tanh(at: Editor, instr: Instr) -> int | None:
    """A gelu by tanh written out, with the cube before or after it is scaled."""
    number, parts = factors(at, instr)
    if len(parts) != 2 or not _near(number, 0.5):
        return None
    for a, b in (parts, parts[::-1]):
        if any(_tanh_part.match(at, b, {"x": a})) and at.is_alone(b):
            return at.make(Gelu(approximate="tanh"), a, whole=True)
    return None


_root, _cubic = math.sqrt(2 / math.pi), Number("0.044715", 0.044715)
_x2 = Call("square", x)
_bent = Either(
    (x + (x * _x2) * _cubic) * _root,
    (x + x * (_x2 * _cubic)) * _root,
    (x + (x * _cubic) * _x2) * _root,
    (x * (_x2 * _cubic + 1.0)) * _root,
    (x * _root) * (_x2 * _cubic + 1.0),
)
_tanh_part = 1.0 + Call("tanh", _bent)

# -- attention ------------------------------------------------------------------------------------


@rule(
    "attention",
    "matmul",
    "softmax(q @ kᵀ·c + mask) @ v",
    "attention(q, k, v, mask)",
    exact=False,
    lowers=("scaled_dot_product_attention",),
    needs=("softmax",),
    example=lambda s: Softmax()((s @ s.mT) * 0.5) @ s,
)
def _attention(at: Editor, instr: Instr) -> int | None:
    """Attention written out, its scores or queries scaled, a floating mask added."""
    weights = at.producer(instr.ins[0], "softmax")
    if weights is None or not at.is_alone(weights.outs[0]):
        return None
    axis: Any = weights.op
    if axis.axis not in (-1, at.spec(weights.ins[0]).rank - 1):
        return None
    mask, scores = None, weights.ins[0]
    added = at.producer(scores, "add")
    if added is not None:
        of_scores = [i for i in added.ins if _is_product(at, i)]
        if len(of_scores) != 1:
            return None
        scores = of_scores[0]
        mask = next(i for i in added.ins if i != scores)
    scale, product = 1.0, at.producer(scores)
    if product is not None and product.op.name in ("mul", "div"):
        scale, product = _scaled(at, product)
    if product is None or product.op.name != "matmul" or not at.is_alone(product.outs[0]):
        return None
    query, key = product.ins
    inner = at.producer(query)
    if inner is not None and inner.op.name in ("mul", "div"):
        by = at.number(inner.ins[1])
        if by is not None:
            scale *= float(by) if inner.op.name == "mul" else 1 / float(by)
            query = inner.ins[0]
    turned = at.make(Swapaxes(axis1=-2, axis2=-1), key)
    op = ScaledDotProductAttention(scale=scale)
    given = (query, turned, instr.ins[1], *(() if mask is None else (mask,)))
    return at.make(op, *given, whole=True)


def _is_product(at: Editor, value: int | None) -> bool:
    made = at.producer(value)
    if made is not None and made.op.name in ("mul", "div"):
        made = _scaled(at, made)[1]
    return made is not None and made.op.name == "matmul"


def _scaled(at: Editor, instr: Instr) -> tuple[float, Instr | None]:
    """Return the number by which a product of matrices is scaled, and that product."""
    by = at.number(instr.ins[1])
    if by is None or np.ndim(by):
        return 1.0, None
    scale = float(by) if isinstance(instr.op, Mul) else 1 / float(by)
    return scale, at.producer(instr.ins[0], "matmul") if isinstance(instr.op, (Mul, Div)) else None
