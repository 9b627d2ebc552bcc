"""Mixed precision: which dtype the products of a training step are computed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
        dtypes: other dtypes of products, by name or pattern of nodes; of several patterns that fit
            a node the first counts.

    Raises TrainingError for another dtype.

    >>> import gradwright as gw
    >>> gw.Precision("bfloat16", keep=("head/*",))
    Precision(dtype='bfloat16', keep=('head/*',), dtypes={})
    """

    dtype: str = "bfloat16"
    keep: tuple[str, ...] = ()
    dtypes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (self.dtype, *self.dtypes.values()):
            if name not in DTYPES:
                raise TrainingError(
                    f"products cannot be computed in {name!r}",
                    need=" or ".join(map(repr, DTYPES)),
                    hint="gw.FP8() for inputs of 8 bits" if "8" in str(name) else "",
                )
        object.__setattr__(self, "keep", patterns(self.keep, "keep"))
        object.__setattr__(self, "dtypes", dict(self.dtypes))

    @property
    def low(self) -> np.dtype[np.generic]:
        """The dtype of the products, where nothing else is said by name."""
        return dtype(self.dtype)

    @property
    def narrow(self) -> frozenset[np.dtype[np.generic]]:
        """The dtypes of 16 bits that some products have."""
        return frozenset(map(dtype, {self.dtype, *self.dtypes.values()} - {"float32"}))

    def keeps(self, name: str) -> bool:
        """Return whether a node stays in float32.

        >>> import gradwright as gw
        >>> gw.Precision(keep=("head/*",)).keeps("head/matmul")
        True
        """
        by_name = any(fnmatchcase(name, pattern) for pattern in self.keep)
        return by_name or self.named(name) == "float32"

    def named(self, name: str) -> str | None:
        """Return the dtype that is stated for the products of a node; None where none is.

        >>> import gradwright as gw
        >>> gw.Precision(dtypes={"head/*": "float16"}).named("head/matmul")
        'float16'
        """
        fits = (to for pattern, to in self.dtypes.items() if fnmatchcase(name, pattern))
        return next(fits, None)

    def low_of(self, name: str) -> np.dtype[np.generic]:
        """Return the dtype of the products of a node."""
        return dtype(self.named(name) or self.dtype)


def checked(precision: Any, fp8: Any) -> tuple[Precision | None, FP8 | None]:
    """Return settings as they are kept: a dtype alone is a precision, True is ``FP8()``.

    Dtypes by pattern are a precision in which all else stays in float32.

    >>> from gradwright.train.precision import checked
    >>> checked("bfloat16", True)[0]
    Precision(dtype='bfloat16', keep=(), dtypes={})
    """
    precision = Precision(precision) if isinstance(precision, str) else precision
    if isinstance(precision, Mapping):
        precision = Precision("float32", dtypes=precision)
    if not isinstance(precision, Precision | None):
        raise TrainingError(
            f"precision={precision!r} is none", need='gw.Precision("bfloat16"), or "bfloat16"'
        )
    fp8 = FP8() if fp8 is True else None if fp8 is False else fp8
    if not isinstance(fp8, FP8 | None):
        raise TrainingError(f"fp8={fp8!r} is none", need="gw.FP8(), or True")
    return precision, fp8
