"""Mixed precision: which dtype the products of a training step are computed in."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ...errors import TrainingError
from ...spec import dtype
from ...words.jsonable import jsonable
from .fp8 import FP8, patterns

DTYPES = ("float32", "bfloat16", "float16")


@jsonable
@dataclass(frozen=True)
class Precision:
    """Dtype of the products in a step; parameters, their gradients and losses stay in float32.

    Inputs of products, convolutions and attention are cast; softmax, norms, losses, exponentials,
    logarithms and sums compute in float32; all other ops take what comes, as in torch.autocast
    (Micikevicius et al. 2018). Gradients go through the same casts back to the float32 parameters.

    Args:
        dtype: ``"bfloat16"``, ``"float16"``, which needs a loss scale, or ``"float32"``.
        keep: names or patterns of nodes that stay in float32, such as ``"head/*"``.

    Raises TrainingError for another dtype.

    >>> import gradwright as gw
    >>> gw.Precision("bfloat16", keep=("head/*",))
    Precision(dtype='bfloat16', keep=('head/*',))
    """

    dtype: str = "bfloat16"
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise TrainingError(
                f"products cannot be computed in {self.dtype!r}",
                need=" or ".join(map(repr, DTYPES)),
                hint="gw.FP8() for inputs of 8 bits" if "8" in str(self.dtype) else "",
            )
        object.__setattr__(self, "keep", patterns(self.keep, "keep"))

    @property
    def low(self) -> np.dtype[np.generic]:
        """The dtype of the products."""
        return dtype(self.dtype)

    def keeps(self, name: str) -> bool:
        """Return whether a node stays in float32.

        >>> import gradwright as gw
        >>> gw.Precision(keep=("head/*",)).keeps("head/matmul")
        True
        """
        return any(fnmatchcase(name, pattern) for pattern in self.keep)


def checked(precision: Any, fp8: Any) -> tuple[Precision | None, FP8 | None]:
    """Return settings as they are kept: a dtype alone is a precision, True is ``FP8()``.

    >>> from gradwright.train.precision import checked
    >>> checked("bfloat16", True)[0]
    Precision(dtype='bfloat16', keep=())
    """
    precision = Precision(precision) if isinstance(precision, str) else precision
    if not isinstance(precision, Precision | None):
        raise TrainingError(
            f"precision={precision!r} is none", need='gw.Precision("bfloat16"), or "bfloat16"'
        )
    fp8 = FP8() if fp8 is True else None if fp8 is False else fp8
    if not isinstance(fp8, FP8 | None):
        raise TrainingError(f"fp8={fp8!r} is none", need="gw.FP8(), or True")
    return precision, fp8
