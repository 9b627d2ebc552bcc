"""Written-out forms that overflow, cancel or underflow become the op that does not.

Wherever the plain formula is right, the result is that up to rounding; where it overflows, cancels
or gives log 0, the result is the right one. 1/√x stays as it is: numpy's reciprocal takes longer
than its division.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .algebra import is_float, x
from .editor import Editor
from .stand_ins import FORMS, Form
from .table import formula
from .terms import INNER, Any_, Bind, Binds, Call, Either, Number, Term

c = Number("c", sample=4.0)
A = Bind("axes", -1)
_first: dict[str, Any] = {"axis": lambda b: b["axes"][0]}


def _one_axis(at: Editor, b: Binds) -> bool:
    return len(b["axes"]) == 1 and is_float(at, b)


def stable(
    name: str,
    before: Term,
    after: Term,
    doc: str,
    when: Callable[[Editor, Binds], bool] | None = None,
    lowers: tuple[str, ...] = (),
) -> None:
    """Declare a rule for values, and its form for gradients.

    It fires whoever else reads what is in between, so that a value never depends on that.
    """
    assert isinstance(before, Call)
    formula(name, before, after, doc, when=when, exact=False, lowers=lowers)
    FORMS.setdefault(before.name, []).append(Form(name, before, after, when))


_exp = Call("exp", x)
stable(
    "log1p",
    Call("log", 1.0 + x),
    Call("log1p", x),
    "Near 0 the sum loses what the logarithm tells.",
    when=is_float,
)
stable(
    "expm1",
    _exp - 1.0,
    Call("expm1", x),
    "Near 0 the difference cancels.",
    when=is_float,
)
stable(
    "softplus",
    Call("log1p", _exp),
    Call("softplus", x),
    "The exponential overflows.",
    when=is_float,
)
stable(
    "softplus_of_parts",
    Either(Call("maximum", x, 0.0), Call("relu", x)) + Call("softplus", -Call("abs", x)),
    Call("softplus", x),
    "max(x, 0) + log(1 + exp(−|x|)) is how softplus is written not to overflow.",
    when=is_float,
)
stable(
    "sigmoid",
    1.0 / (1.0 + Call("exp", -x)),
    Call("sigmoid", x),
    "The logistic function in one op.",
    when=is_float,
)
stable(
    "log_sigmoid",
    Call("log", Call("sigmoid", x)),
    -Call("softplus", -x),
    "The sigmoid underflows, its logarithm does not.",
    when=is_float,
)
_share = Call("sigmoid", x)
stable(
    "log_sigmoid_rest",
    Call("log", 1.0 - _share),
    -Call("softplus", x),
    "What the sigmoid leaves of 1 underflows, its logarithm does not.",
    when=is_float,
)
stable(
    "log_sigmoid_rest_by_log1p",
    Call("log1p", -_share),
    -Call("softplus", x),
    "What the sigmoid leaves of 1 underflows, its logarithm does not.",
    when=is_float,
)
stable(
    "erfc",
    1.0 - Call("erf", x),
    Call("erfc", x),
    "In the upper tail the difference cancels.",
)
stable(
    "erfc_of_negative",
    1.0 + Call("erf", x),
    Call("erfc", -x),
    "In the lower tail the sum cancels.",
)

# -- sums of exponentials -------------------------------------------------------------------------

_kept: dict[str, Any] = {"axes": A, "keepdims": True}
K = Bind("keepdims", False)
stable(
    "logsumexp",
    Call("log", Call("sum", _exp, axes=A, keepdims=K)),
    Call("logsumexp", x, axis=A, keepdims=K),
    "The exponentials overflow, the logarithm of their sum does not.",
    when=is_float,
)
stable(
    "logsumexp_shifted",
    Call("max", x, axes=A, keepdims=K)
    + Call("logsumexp", x - Call("max", x, **_kept), axes=A, keepdims=K),
    Call("logsumexp", x, axis=A, keepdims=K),
    "Subtracting the largest by hand is not needed.",
)
stable(
    "softmax",
    _exp / Call("sum", _exp, **_kept),
    Call("softmax", x, **_first),
    "The exponentials overflow, their shares do not.",
    when=_one_axis,
)
stable(
    "log_softmax",
    Call("log", Call("softmax", x, axis=Bind("axis", -1))),
    Call("log_softmax", x, axis=Bind("axis", -1)),
    "Small shares underflow, their logarithms do not.",
)
stable(
    "log_softmax_of_sum",
    x - Call("logsumexp", x, **_kept),
    Call("log_softmax", x, **_first),
    "A log softmax, as it is written.",
    when=_one_axis,
)
for _name in ("softmax", "log_softmax"):
    stable(
        f"{_name}_shifted",
        Call(_name, x - Call("max", x, **_kept), axis=Bind("axis", -1)),
        Call(_name, x, axis=Bind("axis", -1)),
        "Subtracting the largest by hand is not needed.",
        when=lambda at, b: b["axes"] == (b["axis"],),
    )

# -- their gradients ------------------------------------------------------------------------------

_g = Any_("y")
_softmax = Call("softmax", x, axis=Bind("axis", -1))
_log_grad = Call(
    "log_softmax_grad",
    _g,
    Call("log_softmax", x, axis=Bind("axis", -1)),
    axis=Bind("axis", -1),
)
stable(
    "log_softmax_grad",
    Call("softmax_grad", _g / _softmax, _softmax, axis=Bind("axis", -1)),
    _log_grad,
    "The gradient of log(softmax(x)) has no share to divide by, which may be 0.",
    lowers=("softmax_grad",),
)
stable(
    "log_softmax_grad_of_parts",
    (_g / _softmax - Call("sum", (_g / _softmax) * _softmax, **_kept)) * _softmax,
    _log_grad,
    "The same gradient, where the device takes it apart.",
    when=lambda at, b: b["axes"] == (b["axis"],),
)

# -- lengths --------------------------------------------------------------------------------------

eps = Number("ε", sample=1e-5)
_squares = Either(Call("square", x), x * x, x**2.0)
_centred_squares = Call("var", x, axes=A, keepdims=K, ddof=0)
_away: Term = x - Call("mean", x, axis=A, keepdims=True)
_added: dict[str, Any] = {"eps": lambda b: float(b["ε"])}
_mean: dict[str, Any] = {"mean": True}
for _kind, _inner, _of, _as in (
    ("of_sum", Call("sum", _squares, axes=A, keepdims=K), x, {}),
    ("of_mean", Call("mean", _squares, axes=A, keepdims=K), x, _mean),
    ("of_var", _centred_squares, _away, _mean),
):
    for _suffix, _below, _more in (("", _inner, {}), ("_plus", _inner + eps, _added)):
        _length = Call("root_sum_squares", _of, axis=A, keepdims=K, **_as, **_more)
        for _root, _outer, _made in (
            ("root", Call("sqrt", _below), _length),
            ("power", _below**0.5, _length),
            ("inverse_root", Call("rsqrt", _below), 1.0 / _length),
            ("inverse_power", _below ** (-0.5), 1.0 / _length),
        ):
            stable(
                f"{_root}_{_kind}{_suffix}",
                _outer,
                _made,
                "The squares may be no numbers of the dtype where their root is one.",
                when=is_float,
                lowers=("var",),
            )

# -- means ----------------------------------------------------------------------------------------


def _is_count(at: Editor, b: Binds) -> bool:
    """Tell whether c is the number of terms, whatever the sizes of a run are."""
    node = b[INNER][-1].origin
    stated = node.inputs[0].shape if node.op.name == "sum" else ()
    sizes: list[Any] = (
        [stated[a] for a in b["axes"]] if len(stated) == at.specs[b["x"]].rank else [None]
    )
    return all(isinstance(n, int) for n in sizes) and bool(math.prod(sizes) == b["c"])


formula(
    "mean",
    Call("sum", x, axes=A, keepdims=K) / c,
    Call("mean", x, axis=A, keepdims=K),
    "A sum over the number of its terms is a mean; of halves the sum may overflow, the mean not.",
    when=_is_count,
    exact=False,
)
