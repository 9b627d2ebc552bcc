"""Rows and values: a gradient that touches few rows of a table, told by two ordinary tensors.

Both are tensors like any other, in the arena of a plan and in kernels: ``rows`` names rows of the
table, ``values`` holds what is added to each. A row may be named several times, as a word occurs
several times in a text; what all its values add up to is its gradient. Rows that are not named have
none, so optimizers leave them and their state alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..errors import DTypeError, ShapeError
from .dims import smaller, substitute
from .shapes import shapes_differ
from .tensor import AnyDim, TensorSpec, kind

INT64 = np.dtype(np.int64)


@dataclass(frozen=True)
class RowsSpec:
    """Rows and values that stand for a dense tensor, which is never made.

    >>> from gradwright.spec import Dim, TensorSpec
    >>> from gradwright.spec.rows import RowsSpec
    >>> found = RowsSpec(TensorSpec((50_000, 64)), Dim.symbol("K"))
    >>> found, found.values, found.substitute({"K": 128}).nbytes
    (f32[50000, 64] in K rows, f32[K, 64], 33792)
    """

    dense: TensorSpec
    """What they stand for."""
    count: AnyDim
    """How many rows are named, repeated ones included."""

    def __post_init__(self) -> None:
        if not self.dense.rank:
            raise ShapeError(f"{self.dense} has no rows", need="a table, f32[n, d]")

    @classmethod
    def of(cls, rows: TensorSpec, values: TensorSpec, dense: TensorSpec) -> RowsSpec:
        """Return the spec of two tensors that stand for one, refusing what does not fit."""
        if kind(rows.dtype) not in "iu":
            raise DTypeError(f"rows are named by {rows.dtype}", need="i64[k]")
        if rows.rank != 1 or shapes_differ(values.shape, (*rows.shape, *dense.shape[1:])):
            raise ShapeError(
                "rows and values do not fit",
                need=f"i64[k] and [k, ...] of {dense}",
                facts=[f"rows: {rows}", f"values: {values}"],
            )
        return cls(dense.with_dtype(values.dtype), rows.shape[0])

    @property
    def rows(self) -> TensorSpec:
        """Which rows."""
        return TensorSpec((self.count,), INT64)

    @property
    def values(self) -> TensorSpec:
        """What is added to each."""
        return self.dense.with_shape((self.count, *self.dense.shape[1:]))

    @property
    def nbytes(self) -> int:
        """Bytes of both; needs concrete sizes."""
        return self.rows.nbytes + self.values.nbytes

    @property
    def once(self) -> RowsSpec:
        """The same where each row is named once: there are no more than the table has."""
        return replace(self, count=smaller(self.count, self.dense.shape[0]))

    def joined(self, other: RowsSpec) -> RowsSpec:
        """Return the spec of the sum of two: the rows of both, one after the other."""
        if self.dense != other.dense:
            raise ShapeError("these stand for other tensors", facts=[f"{self}", f"{other}"])
        return replace(self, count=self.count + other.count)

    def substitute(self, sizes: Mapping[str, int]) -> RowsSpec:
        """Return the spec with known symbols replaced."""
        (count,) = substitute((self.count,), sizes)
        return RowsSpec(self.dense.substitute(sizes), count)

    def __repr__(self) -> str:
        return f"{self.dense} in {self.count} rows"
