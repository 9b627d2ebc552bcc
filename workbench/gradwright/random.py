"""``gw.random``: random tensors of the active graph, ``with g: gw.random.normal((2, 3))``.

Each call gets a stream of its own, so that no two draw the same numbers, and draws anew in every
run: what comes out is a function of the session's seed, the run's step and the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numpy.typing import DTypeLike

from .errors import GraphError
from .graph import Tensor, active_graph
from .op import Op
from .ops import surface
from .ops.random import Bernoulli, Normal, TruncatedNormal, Uniform
from .spec import AnyDim, Dim

if TYPE_CHECKING:
    from .ops.signatures.random import *  # noqa: F403


def uniform(
    shape: AnyDim | Sequence[AnyDim],
    low: float = 0.0,
    high: float = 1.0,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Uniform numbers in [low, high), with as many random bits as the dtype has significant ones.

    y ~ U[low, high)

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.uniform((2, 3), -1.0, 1.0, name="y")
    >>> bool((abs(g.output({}, y)["y"]) <= 1.0).all())
    True
    """
    return _draw(Uniform, shape, dtype, name, low=low, high=high)


def normal(
    shape: AnyDim | Sequence[AnyDim],
    mean: float = 0.0,
    std: float = 1.0,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Gaussian numbers (Box and Muller 1958).

    y ~ N(mean, std²)

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     x = g.placeholder("x", ("B", 3))
    ...     y = x + gw.random.normal(x.shape, std=0.1)
    >>> str(y.spec)
    'f32[B, 3]'
    """
    return _draw(Normal, shape, dtype, name, mean=mean, std=std)


def truncated_normal(
    shape: AnyDim | Sequence[AnyDim],
    mean: float = 0.0,
    std: float = 1.0,
    lower: float = -2.0,
    upper: float = 2.0,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Gaussian numbers conditioned on a range around the mean.

    y ~ N(mean, std²) given lower ≤ (y − mean)/std ≤ upper

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.truncated_normal((2, 3), name="y")
    >>> bool((abs(g.output({}, y)["y"]) <= 2.0).all())
    True
    """
    settings = {"mean": mean, "std": std, "lower": lower, "upper": upper}
    return _draw(TruncatedNormal, shape, dtype, name, **settings)


def bernoulli(
    shape: AnyDim | Sequence[AnyDim],
    p: float = 0.5,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Ones with probability ``p``, else zeros; ``dtype="bool"`` makes masks.

    y ~ B(1, p)

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.bernoulli((2,), p=1.0, name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.0, 1.0]
    """
    return _draw(Bernoulli, shape, dtype, name, p=p)


def _draw(
    cls: type[Op],
    shape: AnyDim | Sequence[AnyDim],
    dtype: DTypeLike,
    name: str | None,
    **settings: float,
) -> Tensor:
    graph = active_graph()
    if graph is None:
        raise GraphError(
            f"{cls.name} has no graph to go to",
            hint=f"with g: gw.random.{cls.name}(...)",
        )
    dims = (shape,) if isinstance(shape, (int, Dim)) else tuple(shape)
    op = cls(shape=dims, dtype=dtype, stream=graph.next_stream(), **settings)
    y: Tensor = op(graph.rng, name=name)
    return y


__getattr__, __dir__ = surface(__name__, "random")
