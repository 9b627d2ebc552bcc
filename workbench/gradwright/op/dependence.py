"""How an op depends on one of its inputs: so a gradient check may measure many slopes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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

    A claim is held against the op's own forward before anything rests on it, so a wrong one costs
    time and never a verdict.
    """

    kind: Kind = "opaque"
    axis: int | None = None
    size: tuple[int, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether anything is said."""
        return self.kind != "opaque"


AFFINE, ELEMENT, LINEAR = Dependence("affine"), Dependence("element"), Dependence("linear")
OPAQUE = Dependence()
