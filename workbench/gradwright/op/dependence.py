"""How an op depends on one of its inputs: so a gradient check may measure many slopes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["affine", "element", "linear", "rows", "windows", "opaque"]


@dataclass(frozen=True)
class Dependence:
    """What the outputs do when one input moves and the others are held.

    - ``affine``: element by element, with broadcasting: y[k] = a[k]·x[k] + b[k];
    - ``element``: element by element, with broadcasting, by any function;
    - ``linear``: f(x + v) − f(x) is a linear map of v, the same at all x;
    - ``rows``: what lies along ``axis`` of x meets there and nowhere else, as in a softmax;
    - ``windows``: disjoint windows over the last ``len(size)`` axes of x give one output element
      each, as in a pool whose stride is its kernel;
    - ``opaque``: nothing is known.

    Claims are about real numbers in float64, of all outputs that are public and floating. Kinks are
    allowed, but for ``affine`` and ``linear``. ``axis`` is one of x, which the outputs have at the
    same place, of any length, or lack.

    A claim is held against the op's own forward before anything rests on it, so a wrong one costs
    time and never a verdict.

    >>> from gradwright.op import find_op
    >>> find_op("softmax")(axis=1).depends(0)
    Dependence(kind='rows', axis=1, size=())
    >>> [find_op("div")().depends(i).kind for i in (0, 1)]
    ['affine', 'element']
    """

    kind: Kind = "opaque"
    axis: int | None = None
    size: tuple[int, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether anything is said."""
        return self.kind != "opaque"


Claims = Dependence | tuple[Dependence, ...]
"""One for all inputs, or one each."""
AFFINE, ELEMENT, LINEAR = Dependence("affine"), Dependence("element"), Dependence("linear")
OPAQUE = Dependence()
ROWS = Dependence("rows")
"""Along the attribute ``axis`` of the op; ``opaque`` where that names several axes, or all."""


def settled(claim: Dependence, axis: Any) -> Dependence:
    """Return a claim as it is for an op with this attribute ``axis``."""
    if claim is not ROWS:
        return claim
    if isinstance(axis, tuple) and len(axis) == 1:
        (axis,) = axis
    return Dependence("rows", axis) if isinstance(axis, int) else OPAQUE
