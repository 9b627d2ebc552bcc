"""``gw.random``: random tensors of the active graph, ``with g: gw.random.normal((2, 3))``.

Each call gets a stream of its own, so that no two draw the same numbers, and draws anew in every
run: what comes out is a function of the session's seed, the run's step and the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import SupportsIndex

from numpy.typing import DTypeLike

from ...errors import GraphError, ShapeError
from ...graph import Tensor, active_graph
from ...op import Op, find_op, maker
from ...spec import AnyDim, Dim, broadcast, differ, normalize_axis
from ..core.identity import Identity
from ..core.index import Gather
from .random import Bernoulli, Normal, TruncatedNormal, Uniform


@maker("random")
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


@maker("random")
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


@maker("random")
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


@maker("random")
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


@maker("random")
def log_normal(
    shape: AnyDim | Sequence[AnyDim],
    mean: float = 0.0,
    std: float = 1.0,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Numbers whose logarithm is Gaussian.

    y = exp(mean + std·z), z ~ N(0, 1)

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.log_normal((2, 3), std=0.5, name="y")
    >>> bool((g.output({}, y)["y"] > 0).all())
    True
    """
    return _draw("log_normal", shape, dtype, name, mean=mean, std=std)


@maker("random")
def exponential(
    shape: AnyDim | Sequence[AnyDim],
    rate: float | Tensor = 1.0,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Waiting times between events that come at a constant rate.

    y ~ Exp(rate), y = −log(u)/rate with u uniform in (0, 1); a rate that is a tensor, which
    broadcasts to the shape, has the gradient of this formula.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> rate = g.placeholder("rate", ())
    >>> with g:
    ...     y = gw.random.exponential((2, 3), rate)
    >>> slope, = gw.gradients(y.sum(), [rate])
    >>> float(g.output({"rate": 2.0}, slope)[slope.name]) < 0
    True
    """
    if isinstance(rate, Tensor):
        return _named(_each(_draw("exponential", shape, dtype, None), rate=rate) / rate, name)
    return _draw("exponential", shape, dtype, name, rate=rate)


@maker("random")
def gumbel(
    shape: AnyDim | Sequence[AnyDim],
    loc: float | Tensor = 0.0,
    scale: float | Tensor = 1.0,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Extreme values of type I; argmax(logits + gumbel) draws from softmax(logits).

    y = loc − scale·log(−log u), with u uniform in (0, 1); loc and scale may be tensors,
    which broadcast to the shape

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.gumbel((2, 3), name="y")
    >>> g.output({}, y)["y"].shape
    (2, 3)
    """
    return _moved("gumbel", shape, loc, scale, dtype, name)


@maker("random")
def laplace(
    shape: AnyDim | Sequence[AnyDim],
    loc: float | Tensor = 0.0,
    scale: float | Tensor = 1.0,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Differences of two exponential numbers.

    y = loc − scale·sign(v)·log(1 − 2|v|), with v uniform in (−½, ½); loc and scale may be tensors,
    which broadcast to the shape

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.laplace((2, 3), name="y")
    >>> g.output({}, y)["y"].shape
    (2, 3)
    """
    return _moved("laplace", shape, loc, scale, dtype, name)


@maker("random")
def binomial(
    shape: AnyDim | Sequence[AnyDim],
    n: int = 1,
    p: float = 0.5,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """How many of ``n`` independent trials succeed.

    P(y = k) = n!/(k!·(n − k)!)·pᵏ·(1 − p)ⁿ⁻ᵏ

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.binomial((2,), n=10, p=1.0, name="y")
    >>> g.output({}, y)["y"].tolist()
    [10.0, 10.0]
    """
    return _draw("binomial", shape, dtype, name, n=n, p=p)


@maker("random")
def poisson(
    shape: AnyDim | Sequence[AnyDim],
    rate: float = 1.0,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """How many events come in a unit of time at a constant rate.

    P(y = k) = rateᵏ·exp(−rate)/k!

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.poisson((2,), rate=0.0, name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.0, 0.0]
    """
    return _draw("poisson", shape, dtype, name, rate=rate)


@maker("random")
def randint(
    shape: AnyDim | Sequence[AnyDim],
    low: int,
    high: int,
    dtype: DTypeLike = "int64",
    *,
    name: str | None = None,
) -> Tensor:
    """Whole numbers of a range, up to all of 64 bits, equally likely but for (high − low)/2⁶⁴.

    y ~ U{low, …, high − 1}

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.randint((2, 3), 0, 10, name="y")
    >>> bool((g.output({}, y)["y"] < 10).all())
    True
    """
    return _draw("randint", shape, dtype, name, low=low, high=high)


@maker("random")
def permutation(n: AnyDim, *, name: str | None = None) -> Tensor:
    """Numbers from 0 to n − 1 in random order, all orders equally likely.

    y: i64[n]

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.permutation(4, name="y")
    >>> sorted(g.output({}, y)["y"].tolist())
    [0, 1, 2, 3]
    """
    return _draw("permutation", n, "int64", name)


@maker("random")
def shuffle(x: Tensor, axis: int = 0, *, name: str | None = None) -> Tensor:
    """Slices of a tensor along an axis, in random order; gradients go back to where they were.

    y[…, i, …] = x[…, order[i], …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.random.shuffle(g.constant([1.0, 2.0, 3.0]), name="y")
    >>> sorted(g.output({}, y)["y"].tolist())
    [1.0, 2.0, 3.0]
    """
    axis = normalize_axis(axis, x.rank)
    with x.graph:
        order = permutation(x.shape[axis])
    y: Tensor = Gather(axis=axis)(x, order, name=name)
    return y


@maker("random")
def categorical(
    logits: Tensor,
    num_samples: int | None = None,
    *,
    replacement: bool = True,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> Tensor:
    """Class numbers drawn with given logits, with or without replacement.

    P(y = i) = softmax(logits)ᵢ over the last axis, for logits f32[…, C]: i64[…, num_samples], or
    i64[…] for None. ``gw.log(p)`` are the logits of probabilities p.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.random.categorical(g.constant([[0.0, 1000.0]]), 3, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[1, 1, 1]]
    """
    graph = logits.graph
    settings = {"num_samples": num_samples, "replacement": replacement, "dtype": dtype}
    op = find_op("categorical")(stream=graph.next_stream(), **settings)
    y: Tensor = op(graph.rng, logits, name=name)
    return y


@maker("random")
def uniform_like(
    x: Tensor, low: float = 0.0, high: float = 1.0, *, name: str | None = None
) -> Tensor:
    """Uniform numbers in [low, high), as many as ``x`` has and of its dtype.

    y ~ U[low, high)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> str(gw.random.uniform_like(g.placeholder("x", ("B", 3))).spec)
    'f32[B, 3]'
    """
    with x.graph:
        return uniform(x.shape, low, high, x.dtype, name=name)


@maker("random")
def normal_like(
    x: Tensor, mean: float = 0.0, std: float = 1.0, *, name: str | None = None
) -> Tensor:
    """Gaussian numbers, as many as ``x`` has and of its dtype.

    y ~ N(mean, std²)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> str(gw.random.normal_like(g.placeholder("x", ("B", 3))).spec)
    'f32[B, 3]'
    """
    with x.graph:
        return normal(x.shape, mean, std, x.dtype, name=name)


def _moved(
    op: str,
    shape: AnyDim | Sequence[AnyDim],
    loc: float | Tensor,
    scale: float | Tensor,
    dtype: DTypeLike,
    name: str | None,
) -> Tensor:
    """Draw from a distribution with a place and a width; tensors move the standard one."""
    if isinstance(loc, Tensor) or isinstance(scale, Tensor):
        unit = _each(_draw(op, shape, dtype, None), loc=loc, scale=scale)
        return _named(unit * scale + loc, name)
    return _draw(op, shape, dtype, name, loc=loc, scale=scale)


def _each(y: Tensor, **parameters: float | Tensor) -> Tensor:
    """Return what was drawn; refuse parameters that would use a number more than once."""
    for name, given in parameters.items():
        if isinstance(given, Tensor):
            shape = broadcast(y.shape, given.shape)
            if len(shape) != y.rank or any(map(differ, shape, y.shape)):
                raise ShapeError(
                    f"{name} is larger than what is drawn: the same numbers would come again",
                    facts=[f"shape {y.shape}, {name} : {given.spec}"],
                    need=f"{name} broadcastable to the shape",
                    hint=f"shape={shape}",
                )
    return y


def _named(y: Tensor, name: str | None) -> Tensor:
    if name is None:
        return y
    named: Tensor = Identity()(y, name=name)
    return named


def _draw(
    cls: type[Op] | str,
    shape: AnyDim | Sequence[AnyDim],
    dtype: DTypeLike,
    name: str | None,
    **settings: float,
) -> Tensor:
    cls = find_op(cls) if isinstance(cls, str) else cls
    graph = active_graph()
    if graph is None:
        raise GraphError(
            f"{cls.name} has no graph to go to",
            hint=f"with g: gw.random.{cls.name}(...)",
        )
    if not isinstance(shape, (Iterable, Dim, SupportsIndex)):
        raise ShapeError(f"{shape!r} is no shape", need="a size, or a tuple of sizes or dims")
    dims = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    op = cls(shape=dims, dtype=dtype, stream=graph.next_stream(), **settings)
    y: Tensor = op(graph.rng, name=name)
    return y
