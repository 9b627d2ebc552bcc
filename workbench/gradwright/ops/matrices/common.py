"""What ops on matrices share: what they accept, the dtype they compute in, adjoints."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import Op
from ...spec import AnyDim, Dim, TensorSpec, differ, kind, promote
from ..core.elementwise import conj
from ..core.special import widened

Array = np.ndarray[Any, Any]


class MatrixOp(Op, abstract=True):
    """An op on the last two axes, computed in float32 at least."""

    namespace = "linalg"
    accepts: ClassVar[str] = "fc"
    finite: ClassVar[bool] = False
    """Whether NaN and infinity are refused: LAPACK's iterations do not end, or end anywhere."""
    remedy: ClassVar[str] = ""
    """What to try where a matrix has no result."""

    def compute(self, *xs: Array) -> Any:
        """Return the outputs for arrays of float32, float64 or complex numbers."""
        raise NotImplementedError

    def alone(self, x: Array) -> Any:
        """Compute for one of the matrices, to find the one that has no result."""
        return self.compute(x)

    def checked(self, *xs: Array) -> Any:
        """Return the outputs, or say which matrix has none."""
        if self.finite:
            _refuse_not_finite(xs[0])
        try:
            return self.compute(*xs)
        except np.linalg.LinAlgError as error:
            _refuse_not_finite(xs[0])
            problem, at = str(error), ""
            for index in np.ndindex(xs[0].shape[:-2]):
                try:
                    self.alone(xs[0][index])
                except np.linalg.LinAlgError:
                    at = f", at {list(index)}" if index else ""
                    break
            facts = [f"inputs: {', '.join(str(TensorSpec(x.shape, x.dtype)) for x in xs)}"]
            problem = f"{problem[0].lower()}{problem[1:]}{at}"
            raise GraphError(problem, facts=facts, hint=self.remedy) from None

    def forward(self, *xs: Any) -> Any:
        ys = self.checked(*map(widened, xs))
        joint = functools.reduce(promote, (x.dtype for x in xs))
        if joint.itemsize >= 4:
            return ys
        found = tuple(
            y.astype(joint) if y.dtype == np.float32 else y
            for y in (ys if isinstance(ys, tuple) else (ys,))
        )
        return found if isinstance(ys, tuple) else found[0]

    def check(self, x: TensorSpec, *, square: bool = False, name: str = "x") -> tuple[AnyDim, ...]:
        """Return the sizes of a matrix, or refuse what is none."""
        if kind(x.dtype) not in self.accepts:
            raise DTypeError(f"{self.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        if x.rank < 2:
            raise ShapeError(f"{self.name} needs matrices", need=f"{name} of rank 2 or more")
        m, n = x.shape[-2:]
        if square and differ(m, n):
            raise ShapeError(
                f"{self.name} needs square matrices",
                need=f"{name}.shape[-2] == {name}.shape[-1], got {m} and {n}",
            )
        return m, n


def _refuse_not_finite(x: Array) -> None:
    """Refuse matrices that hold NaN or infinity; name the first one."""
    fits = np.isfinite(x).all((-2, -1))
    if not fits.all():
        at = [int(i) for i in np.argwhere(~fits)[0]]
        raise GraphError(
            f"the matrix{f' at {at}' if at else ''} holds NaN or infinity",
            facts=[f"input: {TensorSpec(x.shape, x.dtype)}"],
            need="finite numbers",
        )


def where_finite(function: Callable[..., Array], *xs: Array) -> Array:
    """Return a function of matrices, NaN for those that hold NaN or infinity.

    LAPACK's iterations never see these: they would not end.
    """
    fits = np.asarray(functools.reduce(operator.and_, (np.isfinite(x).all((-2, -1)) for x in xs)))
    if fits.all():
        return function(*xs)
    y = function(*(np.where(fits[..., None, None], x, x.dtype.type(0)) for x in xs))
    y[~fits] = np.nan
    return y


def adjoint(x: Any) -> Any:
    """Return the conjugate transpose of tensors."""
    return conj(x.mT)


def hermitian(x: Array) -> Array:
    """Return the Hermitian part of arrays, (x + xᴴ)/2."""
    half = x * x.dtype.type(0.5)  # first, or the sum of the largest numbers were infinite
    turned = half.swapaxes(-1, -2)
    part: Array = half + (turned if x.dtype.kind == "f" else turned.conj())
    return part


def excess(op: Op, m: AnyDim, n: AnyDim) -> int:
    """Return m − n; refuse sizes that cannot be compared while building."""
    rest = m - n
    if isinstance(rest, Dim):
        raise ShapeError(
            f"{op.name} cannot tell which of {m} and {n} is larger",
            need="the last two sizes as numbers; leading axes may be symbolic",
        )
    return rest
