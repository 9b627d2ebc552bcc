"""Every op is held against its own samples; adding an op adds its tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, GraphError
from gradwright.graph import Source
from gradwright.op import OPS
from gradwright.ops.core.pullback import Pullback
from gradwright.ops.loading import load as load_ops
from gradwright.testing import OpCheckError, check_op

load_ops()
CLASSES = [
    pytest.param(cls, id=name)
    for name, cls in OPS.items()
    if "/" not in name
    and not issubclass(cls, Source)  # made by the graph
    and cls is not Pullback  # its attribute is another op: checked with each composite
]


@pytest.mark.parametrize("cls", CLASSES)
def test_op(cls: type[gw.Op]) -> None:
    check_op(cls)


# -- the checks themselves: each of these ops breaks one rule --------------------------------------


class Cube(gw.Op):
    """Third power.

    y = x³
    """

    def infer(self, x: Any) -> Any:
        if x.dtype.kind == "c":
            raise DTypeError("cube takes real numbers")
        return x.with_shape(x.shape)

    def forward(self, x: Any) -> Any:
        return x * x * x

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * 3.0 * xs[0] * xs[0],)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[gw.Sample]:
        yield gw.Sample((rng.standard_normal((2, 3)),))


class Undocumented(Cube):
    """No full stop"""


class NoFormula(Cube):
    """Third power."""


class SilentAttribute(Cube):
    """Third power.

    y = x³
    """

    scale: float = gw.attr(1.0, doc="")


class WrongShape(Cube):
    """Third power.

    y = x³
    """

    def infer(self, x: Any) -> Any:
        return x.with_shape(x.shape[::-1])


class WrongDtype(Cube):
    """Third power.

    y = x³
    """

    def forward(self, x: Any) -> Any:
        return (x * x * x).astype(np.float64)


class InPlace(Cube):
    """Third power.

    y = x³
    """

    def forward(self, x: Any) -> Any:
        x **= 3
        return x.copy()


class HiddenView(Cube):
    """The input.

    y = x
    """

    def forward(self, x: Any) -> Any:
        return x

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0],)


class Strided(Cube):
    """Third power of what lies in memory.

    y = x³
    """

    def forward(self, x: Any) -> Any:
        return np.ndarray(x.shape, x.dtype, x.base if x.base is not None else x).copy() ** 3


class Imprecise(Cube):
    """Third power, through half precision.

    y = x³
    """

    def forward(self, x: Any) -> Any:
        return x**3 if x.dtype == np.float64 else (x.astype(np.float16) ** 3).astype(x.dtype)


class WrongVjp(Cube):
    """Third power.

    y = x³
    """

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * 2.0 * xs[0] * xs[0],)


class TakesComplex(Cube):
    """Third power.

    y = x³
    """

    def infer(self, x: Any) -> Any:
        return x.with_shape(x.shape)


class Detached(Cube):
    """Third power, whose gradient forgets that it depends on x.

    y = x³
    """

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * 3.0 * gw.stop_gradient(xs[0] * xs[0]),)


class OneOfTwo(Cube):
    """Square and cube.

    y = x², z = x³
    """

    def infer(self, x: Any) -> Any:
        return super().infer(x), super().infer(x)

    def forward(self, x: Any) -> Any:
        return x * x, x * x * x

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        if gs[0] is gw.ZERO:
            return (gs[1] * xs[0] * xs[0],)
        second = 0.0 if gs[1] is gw.ZERO else gs[1] * 3.0 * xs[0] * xs[0]
        return (gs[0] * 2.0 * xs[0] + second,)


class Override(Cube):
    """Third power, as a composite whose own gradient differs.

    y = x³
    """

    def forward(self, x: Any) -> Any:
        return x * x * x

    def expand(self, x: Any) -> Any:
        return x * x * x * 1.001


class Peeks(Cube):
    """Zeros, made from a value that it promised not to read.

    y = 0·x
    """

    shape_only = (0,)

    def forward(self, x: Any) -> Any:
        return x * 0.5

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * 0.5,)


class WantsSizes(Cube):
    """Third power of a flat view.

    y = x³
    """

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        rows = [int(d) for d in xs[0].shape]
        return ((gs[0] * 3.0 * xs[0] * xs[0]).reshape(*rows).reshape(6).reshape(3, 2).T,)


class OneSize(Cube):
    """Third power of a square matrix, which it tells by the symbols of its sizes.

    y = x³
    """

    def infer(self, x: Any) -> Any:
        if x.shape[0] != x.shape[1]:
            raise ValueError("no square")
        return super().infer(x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[gw.Sample]:
        yield gw.Sample((rng.standard_normal((3, 3)),))


class Accepts(Cube):
    """Third power.

    y = x³
    """

    @classmethod
    def error_samples(cls) -> Iterator[gw.ErrorSample]:
        yield gw.ErrorSample((gw.TensorSpec((2,)),), {}, "too small")


class OddOnnx(Cube):
    """Third power.

    y = x³
    """

    onnx = gw.OnnxRule("Pow", since=13, rename={"power": "exponent"})


def test_a_good_op_passes() -> None:
    check_op(Cube)
    check_op(Cube())


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Undocumented, "full stop"),
        (NoFormula, "formula"),
        (SilentAttribute, "document the attribute scale"),
        (Accepts, "is not refused"),
        (OddOnnx, "unknown attributes"),
        (WrongShape, "infer says f64\\[3, 2\\] for output 0"),
        (WrongDtype, "infer says f32\\[2, 3\\] for output 0"),
        (InPlace, "changes its input 0"),
        (HiddenView, "returns a view of input 0"),
        (Strided, "not contiguous"),
        (Imprecise, "far from float64"),
        (WrongVjp, "vjp differs from finite differences"),
        (TakesComplex, "conj"),
        (Detached, "second order differs"),
        (OneOfTwo, "does not add up"),
        (Override, "forward and expand differ"),
        (Peeks, "reads the values of shape_only"),
        (WantsSizes, "has shape|differs|refuses"),
        (OneSize, "symbolic: .* no square"),
    ],
)
def test_each_broken_rule_is_found(cls: type[gw.Op], message: str) -> None:
    with pytest.raises(OpCheckError, match=message):
        check_op(cls)


def test_checks_can_be_skipped_by_name() -> None:
    check_op(TakesComplex, skip=["complex"])
    with pytest.raises(GraphError, match="no check is called 'compelx'"):
        check_op(TakesComplex, skip=["compelx"])


def test_an_op_without_samples_is_told_to_have_some() -> None:
    class Bare(gw.Op):
        """Nothing.

        y = x
        """

    with pytest.raises(OpCheckError, match="has no samples"):
        check_op(Bare)


def test_an_attribute_cannot_hide_what_every_op_has() -> None:
    with pytest.raises(TypeError, match="every op has a 'replace'; name it otherwise"):

        class Hidden(Cube):
            replace: bool = gw.attr(False, doc="Draw with replacement.")


def test_two_core_ops_cannot_share_a_name() -> None:
    with pytest.raises(TypeError, match=r"gradwright\.ops\.layers\.nn has an op 'dropout' already"):
        type("Dropout", (gw.Op,), {"__module__": "gradwright.elsewhere"})
