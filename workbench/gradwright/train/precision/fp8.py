"""FP8: inputs of matrix products in 8-bit floats, with scales that follow the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ...errors import TrainingError
from ...words.jsonable import jsonable

FORMATS = {
    "hybrid": ("float8_e4m3fn", "float8_e5m2"),
    "e4m3": ("float8_e4m3fn", "float8_e4m3fn"),
}
"""What inputs and cotangents are quantised to; E5M2 alone has too few digits for inputs."""
RECIPES = ("delayed", "current")
ALGORITHMS = ("max", "most_recent")


@jsonable
@dataclass(frozen=True)
class FP8:
    """Inputs of matrix products in 8 bits, one scale per tensor (Micikevicius et al. 2022).

    Products of a matrix, or of a batch of rows, with a matrix - ``x @ w`` and ``nn.linear`` - take
    both factors quantised, and their gradients the cotangent. The parameters, sums and gradients
    stay in float32. Attention and convolutions are left to ``Precision``.

    Args:
        format: ``"hybrid"``: E4M3, and E5M2 for cotangents; ``"e4m3"``: E4M3 for all.
        recipe: ``"delayed"``: a step's scales are made of the largest numbers of the steps before,
            as Transformer Engine's DelayedScaling; ``"current"``: of each tensor's own.
        margin: powers of two that are left as room above the largest number.
        history: how many steps are looked back at.
        algorithm: which largest number counts: the ``"max"`` of them or the ``"most_recent"``.
        layers: names or patterns of the products that this is for; those of a composite are found
            by its name.

    Raises TrainingError for settings that are none.

    >>> import gradwright as gw
    >>> gw.FP8(recipe="current", layers=("hidden/*",)).format
    'hybrid'
    """

    format: str = "hybrid"
    recipe: str = "delayed"
    margin: int = 0
    history: int = 1024
    algorithm: str = "max"
    layers: tuple[str, ...] = ("*",)

    def __post_init__(self) -> None:
        for name, known in (
            ("format", tuple(FORMATS)),
            ("recipe", RECIPES),
            ("algorithm", ALGORITHMS),
        ):
            if getattr(self, name) not in known:
                raise TrainingError(
                    f"FP8: {name}={getattr(self, name)!r} is not known",
                    need=" or ".join(map(repr, known)),
                )
        if type(self.margin) is not int or not 0 <= self.margin < 100:
            raise TrainingError(f"FP8: margin={self.margin!r}", need="a small int >= 0")
        if type(self.history) is not int or self.history < 1:
            raise TrainingError(f"FP8: history={self.history!r}", need="a number of steps >= 1")
        object.__setattr__(self, "layers", patterns(self.layers, "layers"))

    def takes(self, name: str) -> bool:
        """Return whether it is for a product of this name, or of this composite.

        >>> import gradwright as gw
        >>> gw.FP8(layers="dense_*").takes("dense_1/matmul")
        True
        """
        parents = [name]
        while "/" in parents[-1]:
            parents.append(parents[-1].rpartition("/")[0])
        return any(fnmatchcase(p, pattern) for p in parents for pattern in self.layers)


def patterns(given: str | Sequence[str], what: str) -> tuple[str, ...]:
    """Return names or patterns of nodes as a tuple."""
    found = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(p, str) for p in found):
        raise TrainingError(
            f"{what}={given!r} are no names of nodes", need='names or patterns, such as "head/*"'
        )
    return found
