"""Texts as the numbers that they spell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError
from ...op import Cotangent, ErrorSample, NotDifferentiable, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, dtype, kind
from ...spec.rounding import rounded
from .strings import TEXT, check_text, per_text

_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|infinity|nan)", re.I | re.A)
_WHOLE = re.compile(r"([+-]?\d+)(\.\d*)?", re.A)


class ToNumber(Op):
    """Numbers that texts spell, as ``dtype``.

    y = number(x): ``"3.14"``, ``"1e-5"``, ``"-INF"`` and ``"nan"`` as floats; for integers whole
    numbers, of which a decimal fraction is cut off; for bools whether that is not 0. Spaces around
    are left out. An integer that does not fit loses its higher bits, a float becomes infinite.

    Raises DTypeError for what is no text, GraphError, when run, for a text that is no number (ONNX
    Cast-19).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (3,), "str")
    >>> y = gw.strings.to_number(x, "float32", name="y")
    >>> g.output({"x": ["1.5", " -2 ", "1e3"]}, y)["y"].tolist()
    [1.5, -2.0, 1000.0]
    """

    namespace = "strings"
    by_reference = "s"
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")
    onnx = OnnxRule("Cast", since=13, rename={"dtype": "to"})

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_text(self, x)
        if kind(self.dtype) not in "fiub":
            raise DTypeError(f"text spells no {self.dtype}", need="a dtype of real numbers")
        return TensorSpec(x.shape, self.dtype)

    def forward(self, x: Any) -> Any:
        if kind(self.dtype) == "f":
            return rounded(per_text(_float, x, np.float64), self.dtype)
        if kind(self.dtype) == "b":
            return per_text(lambda t: _whole(t, True) != 0, x, bool)
        wide = np.uint64 if kind(self.dtype) == "u" else np.int64
        return per_text(lambda t: _whole(t, wide is np.uint64), x, wide).astype(self.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (NotDifferentiable("text has no gradient"),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        numbers = np.array([["3.14", " 1e3"], ["-INF", "NaN"]], TEXT)
        for name in ("float32", "bfloat16", "float64"):
            yield Sample((numbers,), {"dtype": dtype(name)})
        for name in ("int64", "int8", "uint8", "bool"):
            yield Sample((np.array(["12", "-5", "300", "7.9"], TEXT),), {"dtype": dtype(name)})
        yield Sample((np.empty((0, 2), TEXT),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "takes text")
        yield ErrorSample((TensorSpec((2,), "str"),), {"dtype": "complex64"}, "spells no complex")


def _float(text: str) -> float:
    if not _DECIMAL.fullmatch(text.strip()):
        raise GraphError(f"{text[:40]!r} is no number", need='such as "3.14", "1e-5", "inf"')
    return float(text)


def _whole(text: str, unsigned: bool) -> int:
    found = _WHOLE.fullmatch(text.strip())
    number = None if found is None or len(found[1]) > 20 else int(found[1])
    if number is None or not -(1 << 63) <= number < (1 << 64 if unsigned else 1 << 63):
        raise GraphError(
            f"{text[:40]!r} is no whole number of 64 bits", need='such as "12", "-5"',
            hint='gw.strings.to_number(x, "float64") reads "1e3" too',
        )  # fmt: skip
    return number % (1 << 64) if unsigned else number
