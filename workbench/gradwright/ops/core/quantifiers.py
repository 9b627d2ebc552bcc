"""Whether any, whether all, how many, and where the largest and the smallest stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...op import OnnxRule, Sample, attr
from ...spec import TensorSpec
from ..numerics.standard import library
from .reduce import _Reduction


class _Quantifier(_Reduction):
    """A statement about several bools."""

    drawing = "reduce"
    accepts = "b"
    array_api = True

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[True, False], [True, True]]),), {"axis": 1, "keepdims": True})
        yield Sample((np.zeros((2, 0), bool),), {"axis": -1})
        yield Sample((np.array(False),))


class AnyTrue(_Quantifier):
    """Whether at least one holds.

    y = ∃ x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.any(g.constant([True, False]))
    >>> g.output({}, y)["any"].tolist()
    True
    """

    name = "any"

    def forward(self, x: Any) -> Any:
        return library(x).any(x, axis=self.axes(x.ndim), keepdims=self.keepdims)


class All(_Quantifier):
    """Whether all hold.

    y = ∀ x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.all(g.constant([True, False]))
    >>> g.output({}, y)["all"].tolist()
    False
    """

    def forward(self, x: Any) -> Any:
        return library(x).all(x, axis=self.axes(x.ndim), keepdims=self.keepdims)


class CountNonzero(_Reduction):
    """Number of elements that are not 0.

    y = Σ [x ≠ 0] : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.count_nonzero(g.constant([0, 5, 7]))
    >>> g.output({}, y)["count_nonzero"].tolist()
    2
    """

    drawing = "shape"
    accepts = "buifc"

    def infer(self, x: TensorSpec) -> TensorSpec:
        return super().infer(x).with_dtype("int64")

    def forward(self, x: Any) -> Any:
        return np.asarray(np.count_nonzero(x, self.axes(x.ndim), keepdims=self.keepdims), np.int64)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[0.0, 1.0], [np.nan, -0.0]]),), {"axis": 0})
        yield Sample((np.array([True, False]),), {"keepdims": True})
        yield Sample((np.zeros((0, 2), np.uint8),))


class _Place(_Reduction):
    """The place of an extreme element along one axis; the first of equal ones, or the last."""

    accepts = "buif"
    needs_elements = True
    axis: int | None = attr(None, doc="Axis to search; None searches the flattened tensor.")
    last: bool = attr(False, doc="Take the last of equal ones, not the first.")

    def forward(self, x: Any) -> Any:
        xp = library(x)
        place = getattr(xp, self.name)
        if not self.last:
            return place(x, axis=self.axis, keepdims=self.keepdims)
        n = x.size if self.axis is None else x.shape[self.axis]
        flipped = xp.flip(x, axis=self.axis)
        return n - 1 - place(flipped, axis=self.axis, keepdims=self.keepdims)

    def infer(self, x: TensorSpec) -> TensorSpec:
        return super().infer(x).with_dtype("int64")

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((3, 4)),))
        yield Sample((np.array([[1, 1, 0], [2, 3, 3]]),), {"axis": -1, "keepdims": True})
        yield Sample((np.array([[1, 1, 0], [0, 3, 3]]),), {"axis": 1, "last": True})
        yield Sample((rng.standard_normal((3, 0)),), {"axis": 0})


class Argmax(_Place):
    """Place of the largest element; the first of equal ones, unless the last is asked for.

    y = argmax x : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.argmax(g.constant([3, 9, 5]))
    >>> g.output({}, y)["argmax"].tolist()
    1
    """

    drawing = "reduce"
    array_api = True
    onnx = OnnxRule("ArgMax", since=13, rename={"last": "select_last_index"})


class Argmin(_Place):
    """Place of the smallest element; the first of equal ones, unless the last is asked for.

    y = argmin x : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.argmin(g.constant([3, 9, 5]))
    >>> g.output({}, y)["argmin"].tolist()
    0
    """

    drawing = "reduce"
    array_api = True
    onnx = OnnxRule("ArgMin", since=13, rename={"last": "select_last_index"})
