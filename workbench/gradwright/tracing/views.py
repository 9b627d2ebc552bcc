"""Views: lazy arrays that share elements with another one, so that a write is seen by both.

A view is the storage of its base and the steps that lead there. Reading goes along the steps;
writing goes back along them, and gives the storage a new tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..graph import Tensor
from ..ops.arrays.put import PutSlice
from ..ops.core.complex import Complex, Imag
from ..ops.core.elementwise import Real
from ..ops.core.like import BroadcastLike, ReshapeLike
from ..ops.core.movement import Transpose
from ..ops.core.reshape import BroadcastTo, Reshape
from ..ops.core.slicing import StridedSlice
from .refusals import refusal


class Storage:
    """The newest tensor of an array; its views follow it."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.version = tensor, 0

    def replace(self, tensor: Tensor) -> None:
        """Let the array have other elements from now on."""
        self.tensor, self.version = tensor, self.version + 1


class Step:
    """One step from an array to a view of it."""

    def get(self, x: Tensor) -> Tensor:
        """Return the view of ``x``."""
        raise NotImplementedError

    def put(self, x: Tensor, value: Tensor) -> Tensor:
        """Return ``x`` with ``value`` where the view looks."""
        raise NotImplementedError


@dataclass(frozen=True)
class Sliced(Step):
    """``x[index]`` of places, slices and new axes."""

    index: tuple[Any, ...]

    def get(self, x: Tensor) -> Tensor:
        """Take the slice."""
        return StridedSlice(index=self.index)(x)  # type: ignore[no-any-return]

    def put(self, x: Tensor, value: Tensor) -> Tensor:
        """Write the slice."""
        return PutSlice(index=self.index)(x, value)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Permuted(Step):
    """``x.transpose(axes)``."""

    axes: tuple[int, ...]

    def get(self, x: Tensor) -> Tensor:
        """Permute the axes."""
        return Transpose(axes=self.axes)(x)  # type: ignore[no-any-return]

    def put(self, x: Tensor, value: Tensor) -> Tensor:
        """Permute them back."""
        back = tuple(self.axes.index(a) for a in range(len(self.axes)))
        return Transpose(axes=back)(value)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Reshaped(Step):
    """``x.reshape(shape)``."""

    shape: tuple[Any, ...]

    def get(self, x: Tensor) -> Tensor:
        """Give the shape."""
        return Reshape(shape=self.shape)(x)  # type: ignore[no-any-return]

    def put(self, x: Tensor, value: Tensor) -> Tensor:
        """Give the shape that it had."""
        return ReshapeLike()(value, x)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Broadcast(Step):
    """``np.broadcast_to(x, shape)``, which numpy does not write to either."""

    shape: tuple[Any, ...]

    def get(self, x: Tensor) -> Tensor:
        """Give the shape."""
        return BroadcastTo(shape=self.shape)(x)  # type: ignore[no-any-return]

    def put(self, x: Tensor, value: Tensor) -> Tensor:
        """Refuse: several elements are one."""
        raise refusal("a broadcast array is read-only", hint="np.broadcast_to(...).copy()")


@dataclass(frozen=True)
class Part(Step):
    """``x.real`` or ``x.imag`` of complex numbers."""

    imaginary: bool

    def get(self, x: Tensor) -> Tensor:
        """Take the part."""
        return (Imag if self.imaginary else Real)()(x)  # type: ignore[no-any-return]

    def put(self, x: Tensor, value: Tensor) -> Tensor:
        """Keep the other part."""
        value = BroadcastLike()(value, x)
        parts = (Real()(x), value) if self.imaginary else (value, Imag()(x))
        return Complex()(*parts)  # type: ignore[no-any-return]


def read(x: Tensor, steps: tuple[Step, ...]) -> Tensor:
    """Return the view at the end of the steps."""
    for step in steps:
        x = step.get(x)
    return x


def write(x: Tensor, steps: tuple[Step, ...], value: Tensor) -> Tensor:
    """Return ``x`` with ``value`` where the view at the end of the steps looks."""
    on_the_way = [x]
    for step in steps[:-1]:
        on_the_way.append(step.get(on_the_way[-1]))
    for held, step in zip(reversed(on_the_way), reversed(steps), strict=False):
        value = step.put(held, value)
    return value
