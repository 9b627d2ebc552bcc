"""Formats: the order of axes in which images and kernels come, such as NHWC and HWIO.

Ops of images are written for channels that come first, f32[N, C, *size], and kernels
f32[O, C/groups, *size]. An op of another format is that op between permutations, which are views in
numpy; in plans a rewrite writes them out, so that those of neighbours cancel
(``rewrite/formats.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ...errors import ShapeError
from ...op import ZERO, Cotangent, NotDifferentiable, Op, WeightSite, attr
from ...spec import TensorSpec

AXES = {1: "W", 2: "HW", 3: "DHW"}
IMAGES = {
    n: attr(f"NC{axes}", doc="Axes of the images.", choices=(f"NC{axes}", f"N{axes}C"))
    for n, axes in AXES.items()
}
"""By number of spatial axes: whether channels come first or last."""
KERNELS = {
    n: attr(f"OI{axes}", doc="Axes of the weight.", choices=(f"OI{axes}", f"{axes}IO", f"O{axes}I"))
    for n, axes in AXES.items()
}
"""By number of spatial axes: output channels, input channels (of a group), and the kernel's own."""
TRANSPOSED = {
    n: attr(f"IO{axes}", doc="Axes of the weight.", choices=(f"IO{axes}", f"{axes}OI", f"I{axes}O"))
    for n, axes in AXES.items()
}
"""Of a transposed convolution."""
NAMES = {"O": "out", "I": "in", "D": "d", "H": "h", "W": "w"}
FORMATS = ("data_format", "weights_format")


class Formatted(Op, abstract=True):
    """An op of images that may come with their channels last, and kernels in other orders.

    Its rules, ``infer``, ``forward``, ``vjp`` and ``expand``, are those for channels first.
    """

    kernels: ClassVar[tuple[int, ...]] = ()
    """Inputs that are kernels; the first input, and all outputs, are images."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("infer", "forward", "expand", "vjp"):
            rule, wrap = getattr(cls, name), _pulled if name == "vjp" else _moved
            if rule is not getattr(Op, name) and not hasattr(rule, "of_first"):
                made = functools.wraps(rule)(wrap(rule))
                made.of_first = rule  # type: ignore[attr-defined]
                setattr(cls, name, made)

    def first(self) -> Op:
        """Return the op for channels first."""
        attrs = type(self).attrs
        return self.replace(**{k: attrs[k].default for k in FORMATS if k in attrs})

    @functools.cached_property
    def is_first(self) -> bool:
        """Whether channels come first, and kernels as they are here."""
        attrs = type(self).attrs
        return all(self.__dict__[k] == attrs[k].default for k in FORMATS if k in attrs)

    def order(self, i: int | None) -> tuple[int, ...] | None:
        """Return where the axes of an input are that it has first; of an output for None."""
        name = "data_format" if not i else "weights_format" if i in self.kernels else ""
        if name not in type(self).attrs:
            return None
        given, wanted = self.__dict__[name], type(self).attrs[name].default
        return None if given == wanted else tuple(map(given.index, wanted))

    def settings(self) -> dict[str, Any]:
        """Return the attributes that are no formats."""
        return settings(self)

    def weight_sites(self) -> tuple[WeightSite, ...]:
        """Return where the kernels are."""
        layout = ",".join(NAMES[a] for a in self.__dict__.get("weights_format", ""))
        return tuple(WeightSite(i, layout, self.name) for i in self.kernels)


def is_first(op: Op) -> bool:
    """Tell whether an op takes channels first, as all do that have no format."""
    return not isinstance(op, Formatted) or op.is_first


def settings(op: Op) -> dict[str, Any]:
    """Return the attributes of an op that are no formats."""
    return {k: v for k, v in op.attributes().items() if k not in FORMATS}


def moved(x: Any, order: Sequence[int] | None) -> Any:
    """Return an array, a tensor or a spec with its axes in an order."""
    if x is None or order is None:
        return x
    if isinstance(x, TensorSpec):
        return x.with_shape([x.shape[a] for a in order])
    return x.transpose(order)


def back(order: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the order that undoes another."""
    return None if order is None else tuple(sorted(range(len(order)), key=order.__getitem__))


def _moved(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule from inputs to outputs for any format."""

    def of_format(self: Formatted, *xs: Any) -> Any:
        if self.is_first:
            return rule(self, *xs)
        orders = [self.order(i) for i in range(len(xs))]
        for i, (x, order) in enumerate(zip(xs, orders, strict=True)):
            if order is not None and len(x.shape) != len(order):
                name = "weights_format" if i else "data_format"
                raise ShapeError(
                    f"input {i} of {self.name} has {len(x.shape)} axes",
                    need=f"those of {name}={self.__dict__[name]!r}",
                )
        found = rule(self.first(), *map(moved, xs, orders))
        undo = back(self.order(None))
        if isinstance(found, tuple):
            return tuple(moved(y, undo) for y in found)
        return moved(found, undo)

    return of_format


def _pulled(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a vjp for any format."""

    def of_format(self: Formatted, gs: Sequence[Any], ys: Sequence[Any], xs: Sequence[Any]) -> Any:
        if self.is_first:
            return rule(self, gs, ys, xs)
        out = self.order(None)
        given = [g if g is ZERO else moved(g, out) for g in gs]
        held = [moved(x, self.order(i)) for i, x in enumerate(xs)]
        found = rule(self.first(), given, _Late(ys, out), held)
        return [_restored(g, back(self.order(i))) for i, g in enumerate(found)]

    return of_format


class _Late(Sequence[Any]):
    """Tensors that are permuted when they are asked for: few outputs are."""

    def __init__(self, tensors: Sequence[Any], order: Sequence[int] | None) -> None:
        self._tensors, self._order = tensors, order

    def __len__(self) -> int:
        return len(self._tensors)

    def __getitem__(self, i: Any) -> Any:
        return moved(self._tensors[i], self._order)


def _restored(g: Cotangent, order: Sequence[int] | None) -> Cotangent:
    if g is ZERO or isinstance(g, NotDifferentiable):
        return g
    return (lambda: moved(g(), order)) if callable(g) else moved(g, order)
