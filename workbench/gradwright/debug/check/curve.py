"""The loss as a function of one element, with the slopes that a check compares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import GradientError
from ...graph import Graph, Tensor, Values, member
from ..arguments import COUNT, FRACTION, INDEX, check_run, one_of
from ..float64 import Float64Run
from .probe import ElementCheck, Probe, analytic_gradients, check_floating, check_loss

Array = np.ndarray[Any, Any]

SPANS = (1.0, 1e-1, 1e-2, 1e-4, 1e-6)
"""Half widths of the curves, relative to the size of the element."""
SWEEP = 10.0 ** -np.arange(1.0, 12.25, 0.5)
"""Steps of the central differences, relative to the size of the element."""


@dataclass(frozen=True, repr=False)
class LossCurve:
    """The loss along one element, from far to near, and central differences at many steps.

    ``offsets[k]`` are ``P`` distances from the element's value, from ``-spans[k]`` to ``spans[k]``,
    and ``changes[k]`` how much the loss differs there. ``central[m]`` is the central difference at
    ``steps[m]``; below ``noise / steps`` it holds nothing but rounding errors.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", init=[3.0])
    >>> curve = gw.debug.loss_curve(g, gw.square(w).sum(), {}, w, 0)
    >>> curve.value, curve.loss, curve.analytic
    (3.0, 9.0, 6.0)
    >>> curve.text
    'The gradient agrees: 6 beside 6 measured'
    """

    check: ElementCheck
    """The element's verdict, analytic and numeric derivative, and the nodes with a kink here."""
    value: float
    loss: float
    left: float
    right: float
    """Slopes on the two sides; they differ at a kink."""
    spans: Array
    offsets: Array
    changes: Array
    steps: Array
    central: Array
    noise: float

    @property
    def analytic(self) -> float:
        """The derivative that the graph's gradient says."""
        return self.check.comparison.analytic

    @property
    def numeric(self) -> float:
        """The derivative by finite differences."""
        return self.check.comparison.numeric

    @property
    def errors(self) -> Array:
        """Return |central − analytic| relative to the larger derivative: a V if both agree."""
        return np.asarray(np.abs(self.central - self.analytic) / self._size)

    @property
    def floor(self) -> Array:
        """Return the rounding error at each step, relative as ``errors`` are."""
        return np.asarray(self.noise / self.steps / self._size)

    @property
    def text(self) -> str:
        """What the curve shows, in words."""
        c = self.check.comparison
        if c.verdict == "ok":
            return f"The gradient agrees: {c.analytic:.6g} beside {c.numeric:.6g} measured"
        if c.verdict == "kink":
            at = f" of {', '.join(map(repr, self.check.kinks))}" if self.check.kinks else ""
            return (
                f"A kink{at}: slope {self.left:.4g} on the left, {self.right:.4g} on the right; "
                f"the gradient is {c.analytic:.4g}"
            )
        if c.verdict == "fail":
            return (
                f"Wrong: the gradient is {c.analytic:.6g}, the loss has a slope of {c.numeric:.6g}"
            )
        if math.isnan(c.numeric):
            return "At the edge of a domain: the loss has a value on one side only"
        return (
            f"Too noisy to tell: the gradient is {c.analytic:.4g}, "
            f"the measured slope {c.numeric:.4g} ± {c.tolerance:.1g}"
        )

    @property
    def _size(self) -> float:
        size = max(abs(self.analytic), abs(self.numeric))
        return size if 0 < size < math.inf else 1.0

    def __repr__(self) -> str:
        return f"<loss curve of {self.check}>"


def loss_curve(
    graph: Graph,
    loss: Tensor | str,
    feeds: Mapping[Any, Any] | None,
    tensor: Tensor | str,
    index: int | Sequence[int] = (),
    *,
    part: str = "real",
    points: int = 17,
    rtol: float = 1e-5,
    training: bool = False,
    seed: int = 0,
    values: Values | None = None,
) -> LossCurve:
    """Return the loss along one element of a tensor, in float64, beside its derivatives.

    L(w + t·eᵢ) for |t| up to h, and (L(w + h·eᵢ) − L(w − h·eᵢ)) / 2h, for many h

    Args:
        graph: the graph that holds ``loss``.
        loss: a real scalar tensor, or its name.
        feeds: placeholder -> value, as for ``Session.run``.
        tensor: a variable, placeholder or activation, or its name.
        index: which element; an int for a vector, nothing for a scalar.
        part: ``real`` or ``imag``, of a complex tensor.
        points: how many points each curve has; an odd number has the element's value among them.
        rtol: as for ``gradient_check``.
        training: mode of dropout, batch norm and the like.
        seed: of random ops.
        values: where variables are read; default a snapshot of ``graph.values``.

    Raises GradientError for a loss that is not a real scalar, and for an element that is not there.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[3.0, 0.0])
    >>> loss = gw.nn.relu(w).sum(name="loss")
    >>> curve = gw.debug.loss_curve(g, loss, {}, w, 1)
    >>> curve.check.verdict, round(curve.left), round(curve.right), curve.check.kinks
    ('kink', 0, 1, ('relu',))
    """
    call = "loss_curve(graph, loss, feeds, tensor, index)"
    check_run(call, graph, training, values, seed=seed)
    COUNT.check(GradientError, points=points)
    FRACTION.check(GradientError, rtol=rtol)
    target = member(graph, loss)
    check_loss(target)
    given = member(graph, tensor)
    check_floating(given)
    held = graph.values.snapshot() if values is None else values
    run = Float64Run(
        [target, given], {} if feeds is None else feeds, values=held, seed=seed, training=training
    )
    copy = run.copies[given]
    array = run.env[copy]
    at = _index(given, array, index)
    if not one_of(part, ("real", "imag")) or (part == "imag" and not np.iscomplexobj(array)):
        raise GradientError(f"{given.name!r} has no {part!r} part", need='part="real"')
    with np.errstate(all="ignore"):
        (analytic,) = analytic_gradients(run, run.copies[target], [copy])
        probe = Probe(run, copy, run.copies[target], rtol)
        check = probe.part(given.name, at, part, analytic)
        return _curve(probe, check, at, part, points)


def _curve(
    probe: Probe, check: ElementCheck, at: tuple[int, ...], part: str, points: int
) -> LossCurve:
    f, scale = probe.loss(probe.along(at, part)), probe.scale(at)
    here = f(0.0)
    spans = scale * np.array(SPANS)
    offsets = spans[:, None] * np.linspace(-1, 1, points)
    steps = scale * SWEEP
    sides = probe.slope(f, scale)
    return LossCurve(
        check=check,
        value=float(getattr(probe.base[at], part)),
        loss=here,
        left=sides.left,
        right=sides.right,
        spans=spans,
        offsets=offsets,
        changes=np.array([[f(t) - here for t in row] for row in offsets]),
        steps=steps,
        central=np.array([(f(h) - f(-h)) / (2 * h) for h in steps]),
        noise=sides.noise,
    )


def _index(t: Tensor, array: Array, index: int | Sequence[int]) -> tuple[int, ...]:
    at = tuple(index) if isinstance(index, Sequence | np.ndarray) else (index,)
    fits = len(at) == array.ndim and all(
        INDEX.fits(i) and -n <= i < n for i, n in zip(at, array.shape, strict=True)
    )
    if not fits:
        raise GradientError(
            f"{t.name!r} has no element {list(at)}", facts=[f"its shape is {list(array.shape)}"]
        )
    return tuple(i % n for i, n in zip(at, array.shape, strict=True))
