"""Windows that fade a frame in and out, as sums of cosines (Harris 1978)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ...errors import ShapeError
from ...op import ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import AnyDim, TensorSpec, dtype
from ...spec.rounding import rounded


def cosine_sum(coefficients: tuple[float, ...], size: int, periodic: bool) -> Any:
    """Return a window in float64; of a single element, 1."""
    if size < 2:
        return np.ones(size)
    angle = 2 * np.pi / (size if periodic else size - 1) * np.arange(size)
    return sum(c * np.cos(j * angle) for j, c in enumerate(coefficients))


class _Window(Op):
    """A window, periodic for Fourier transforms or symmetric for filters."""

    namespace = "signal"
    coefficients: ClassVar[tuple[float, ...]]
    size: AnyDim = attr(doc="Number of elements.")
    periodic: bool = attr(True, doc="Whether the window is the start of one that has one more.")
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")

    def infer(self) -> TensorSpec:
        if isinstance(self.size, int) and self.size < 0:
            raise ShapeError(f"{self.name} of {self.size} elements", need="0 or more")
        return TensorSpec((self.size,), self.dtype)

    def forward(self) -> Any:
        size: Any = self.size
        return rounded(cosine_sum(self.coefficients, size, self.periodic), self.dtype)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((), {"size": 5})
        yield Sample((), {"size": 4, "periodic": False, "dtype": "float64"})
        yield Sample((), {"size": 1, "periodic": False})
        yield Sample((), {"size": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((), {"size": -1}, "of -1 elements")


class HannWindow(_Window):
    """Hann window.

    y[k] = ½ − ½·cos(2πk/N), N = size, or size − 1 without ``periodic``

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.signal.hann_window(4, name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.0, 0.5, 1.0, 0.5]
    """

    coefficients = (0.5, -0.5)
    onnx = OnnxRule("HannWindow", 17, rename={"dtype": "output_datatype"}, inputs=("size",))


class HammingWindow(_Window):
    """Hamming window with ONNX's coefficients, which are those of least side lobes.

    y[k] = 25/46 − 21/46·cos(2πk/N), N = size, or size − 1 without ``periodic``

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.signal.hamming_window(3, periodic=False, dtype="float64", name="y")
    >>> g.output({}, y)["y"].round(4).tolist()
    [0.087, 1.0, 0.087]
    """

    coefficients = (25 / 46, -21 / 46)
    onnx = OnnxRule("HammingWindow", 17, rename={"dtype": "output_datatype"}, inputs=("size",))


class BlackmanWindow(_Window):
    """Blackman window.

    y[k] = 0.42 − ½·cos(2πk/N) + 0.08·cos(4πk/N), N = size, or size − 1 without ``periodic``

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.signal.blackman_window(4, dtype="float64", name="y")
    >>> abs(g.output({}, y)["y"]).round(4).tolist()
    [0.0, 0.34, 1.0, 0.34]
    """

    coefficients = (0.42, -0.5, 0.08)
    onnx = OnnxRule("BlackmanWindow", 17, rename={"dtype": "output_datatype"}, inputs=("size",))
