"""Activations written out."""

from __future__ import annotations

import math

from ..algebra import x
from ..terms import Call, Either, Term
from .products import Power, Product
from .table import pattern

_exp_minus = Call("exp", Product(-1.0, x))
_cube = Product(0.044715, x, x, x)


def _bent(steep: float) -> Term:
    """Return steep·(x + 0.044715·x³), in either form."""
    square = Product(0.044715, x, x)
    return Either(Product(steep, x + _cube), Product(steep, x, square + 1.0))


_erf = Call("erf", Product(math.sqrt(0.5), x))
for _form in (Product(0.5, x, 1.0 + _erf), Product(x, Product(0.5, _erf) + 0.5)):
    pattern("gelu", "erf", _form, Call("gelu", x))
pattern(
    "gelu",
    "erfc",
    Product(0.5, x, Call("erfc", Product(-math.sqrt(0.5), x))),
    Call("gelu", x),
)
_tanh = Call("tanh", _bent(math.sqrt(2 / math.pi)))
for _form in (Product(0.5, x, 1.0 + _tanh), Product(x, Product(0.5, _tanh) + 0.5)):
    pattern("gelu", "tanh", _form, Call("gelu", x, approximate="tanh"))
pattern(
    "gelu",
    "sigmoid",
    Product(x, Call("sigmoid", _bent(math.sqrt(8 / math.pi)))),
    Call("gelu", x, approximate="tanh"),
)
pattern("silu", "sigmoid", Product(x, Call("sigmoid", x)), Call("silu", x))
pattern("silu", "exp", Product(x, Power(1.0 + _exp_minus, -1.0)), Call("silu", x))
pattern(
    "quick_gelu",
    "sigmoid",
    Product(x, Call("sigmoid", Product(1.702, x))),
    Call("quick_gelu", x),
)
pattern("mish", "softplus", Product(x, Call("tanh", Call("softplus", x))), Call("mish", x))
pattern(
    "hard_swish",
    "clip",
    Product(1 / 6, x, Call("clip", x + 3.0, 0.0, 6.0)),
    Call("hard_swish", x),
)
pattern("hard_swish", "relu6", Product(1 / 6, x, Call("relu6", x + 3.0)), Call("hard_swish", x))
