"""The rows of the benchmark: ops on 100,000 to a million elements, by three libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """An op by three libraries: each function takes the library's own tensors."""

    inputs: Callable[[], Sequence[Any]]
    ours: Callable[..., Any]
    torch: Callable[..., Any] | None
    jax: Callable[..., Any] | None = None
    is_differentiated: bool = False


def f32(*shape: int) -> Any:
    """Return normal numbers."""
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def ids(high: int, *shape: int) -> Any:
    """Return integers below ``high``."""
    return np.random.default_rng(1).integers(0, high, shape)


def power(high: int, *shape: int) -> Any:
    """Return integers below ``high`` of which small ones are many, as words and hubs are."""
    return (high * np.random.default_rng(1).random(shape) ** 3).astype(np.int64)


def lengths(high: int, n: int) -> Any:
    """Return lengths up to ``high``."""
    return np.random.default_rng(2).integers(1, high + 1, n)


def rows() -> dict[str, Row]:
    """Return all rows; libraries that are not there are not asked."""
    import gradwright as gw

    try:
        import torch as t
    except ImportError:
        t = None  # type: ignore[assignment]
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        jnp = jax = None  # type: ignore[assignment]
    N, M = 1_000_000, 1000
    found: dict[str, Row] = {}

    def row(
        name: str,
        inputs: Callable[[], Sequence[Any]],
        ours: Callable[..., Any],
        torch: Callable[..., Any] | None,
        jax: Callable[..., Any] | None = None,
        *,
        slope: bool = False,
    ) -> None:
        found[name] = Row(inputs, ours, torch, jax)
        if slope:
            found[f"{name}, gradient"] = Row(inputs, ours, torch, jax, True)

    def edges(*shape: int) -> Callable[[], Sequence[Any]]:
        return lambda: [f32(*shape), ids(10_000, shape[0])]

    # fmt: off
    # places that indices name
    row("gather rows", lambda: [f32(100_000, 64), ids(100_000, 100_000)],
        gw.gather, lambda x, i: x[i], lambda x, i: x[i], slope=True)
    row("gather numbers", lambda: [f32(N), ids(N, N)],
        gw.gather, lambda x, i: x[i], lambda x, i: x[i], slope=True)
    row("gather columns", lambda: [f32(M, M), ids(M, M)],
        lambda x, i: gw.gather(x, i, 1), lambda x, i: x[:, i], lambda x, i: x[:, i], slope=True)
    row("take along", lambda: [f32(M, M), ids(M, M, M)],
        lambda x, i: gw.take_along_axis(x, i, 1), lambda x, i: t.gather(x, 1, i),
        lambda x, i: jnp.take_along_axis(x, i, 1), slope=True)
    row("gather pairs", lambda: [f32(M, M), ids(M, N, 2)],
        gw.gather_nd, lambda x, i: x[i[:, 0], i[:, 1]], lambda x, i: x[i[:, 0], i[:, 1]],
        slope=True)
    row("add rows", lambda: [f32(10_000, 64), ids(10_000, 100_000), f32(100_000, 64)],
        gw.index_add, lambda x, i, u: x.index_add(0, i, u), lambda x, i, u: x.at[i].add(u),
        slope=True)
    row("scatter add", lambda: [f32(100_000), ids(100_000, N), f32(N)],
        gw.scatter_add, lambda x, i, u: x.scatter_add(0, i, u), lambda x, i, u: x.at[i].add(u),
        slope=True)
    for how, reduce in (("max", "amax"), ("min", "amin"), ("mul", "prod")):
        row(f"scatter {how}", lambda: [f32(100_000), ids(100_000, N), f32(N)],
            getattr(gw, f"scatter_{how}"),
            lambda x, i, u, reduce=reduce: x.scatter_reduce(0, i, u, reduce),
            lambda x, i, u, how=how: getattr(x.at[i], how)(u), slope=how == "max")
    row("scatter max along", lambda: [f32(M, 100), ids(100, M, M), f32(M, M)],
        lambda x, i, u: gw.scatter_max(x, i, u, axis=1),
        lambda x, i, u: x.scatter_reduce(1, i, u, "amax"),
        lambda x, i, u: x.at[jnp.arange(M)[:, None], i].max(u))
    row("scatter write", lambda: [f32(N), np.random.default_rng(3).permutation(N), f32(N)],
        gw.scatter_update, lambda x, i, u: x.scatter(0, i, u), lambda x, i, u: x.at[i].set(u),
        slope=True)
    row("write rows", lambda: [f32(10_000, 64), np.random.default_rng(3).permutation(10_000),
                               f32(10_000, 64)],
        lambda x, i, u: gw.scatter_nd_update(x, gw.expand_dims(i, 1), u),
        lambda x, i, u: x.index_put((i,), u), lambda x, i, u: x.at[i].set(u))

    # segments
    for width in (1, 8, 64):
        shape = (N // width, *(width,) * (width > 1))
        for how, name in (("sum", "sum"), ("max", "amax"), ("mean", "mean"), ("prod", "prod")):
            def theirs(x: Any, i: Any, name: str = name) -> Any:
                y = x.new_zeros((10_000, *x.shape[1:]))
                if name == "sum":
                    return y.index_add(0, i, x)
                return y.index_reduce(0, i, x, name, include_self=False)

            def jaxs(x: Any, i: Any, how: str = how) -> Any:
                y = jnp.zeros((10_000, *x.shape[1:]), x.dtype)
                if how == "mean":
                    n = jnp.maximum(jnp.zeros(10_000).at[i].add(1.0), 1.0)
                    return y.at[i].add(x) / (n if x.ndim == 1 else n[:, None])
                return getattr(jax.ops, f"segment_{how}")(x, i, 10_000)

            op = getattr(gw, f"unsorted_segment_{how}")
            row(f"segment {how} of {width}", edges(*shape),
                lambda x, i, op=op: op(x, i, 10_000), theirs, jaxs,
                slope=(how in ("sum", "max") and width == 64) or (how == "prod" and width == 8))
    row("sorted segments of 8", lambda: [f32(N // 8, 8), np.sort(ids(10_000, N // 8))],
        gw.segment_sum, lambda x, i: x.new_zeros(10_000, 8).index_add(0, i, x),
        lambda x, i: jax.ops.segment_sum(x, i, 10_000, indices_are_sorted=True), slope=True)

    # counts
    row("bincount", lambda: [power(10_000, N)],
        lambda i: gw.bincount(i, minlength=10_000), lambda i: t.bincount(i, minlength=10_000),
        lambda i: jnp.bincount(i, length=10_000))
    row("weighted bincount", lambda: [power(10_000, N), f32(N)],
        lambda i, w: gw.bincount(i, w, minlength=10_000),
        lambda i, w: t.bincount(i, w, minlength=10_000),
        lambda i, w: jnp.bincount(i, w, length=10_000))
    row("histogram", lambda: [f32(N)],
        lambda x: gw.histogram(x, 100, (-5.0, 5.0))[0], lambda x: t.histc(x, 100, -5.0, 5.0),
        lambda x: jnp.histogram(x, 100, (-5.0, 5.0))[0])
    row("confusion", lambda: [ids(100, N), ids(100, N)],
        lambda a, b: gw.math.confusion_matrix(a, b, num_classes=100),
        lambda a, b: t.bincount(a * 100 + b, minlength=10_000).reshape(100, 100),
        lambda a, b: jnp.bincount(a * 100 + b, length=10_000).reshape(100, 100))
    row("one hot", lambda: [ids(128, 20_000)],
        lambda i: gw.one_hot(i, 128), lambda i: t.nn.functional.one_hot(i, 128).float(),
        lambda i: jax.nn.one_hot(i, 128))

    # orders
    row("sort", lambda: [f32(N)], gw.sort, lambda x: x.sort()[0], lambda x: jnp.sort(x),
        slope=True)
    row("sort rows", lambda: [f32(M, M)], gw.sort, lambda x: x.sort()[0], lambda x: jnp.sort(x))
    row("sort columns", lambda: [f32(M, M)], lambda x: gw.sort(x, 0), lambda x: x.sort(0)[0],
        lambda x: jnp.sort(x, 0))
    row("sort integers", lambda: [ids(1 << 40, N)], gw.sort, lambda x: x.sort()[0],
        lambda x: jnp.sort(x))
    row("argsort", lambda: [f32(N)], gw.argsort, lambda x: x.argsort(stable=True),
        lambda x: jnp.argsort(x))
    row("argsort integers", lambda: [power(10_000, N)], gw.argsort,
        lambda x: x.argsort(stable=True), lambda x: jnp.argsort(x))
    row("argsort rows", lambda: [f32(M, M)], gw.argsort, lambda x: x.argsort(stable=True),
        lambda x: jnp.argsort(x))
    row("top 2 of 16", lambda: [f32(N // 16, 16)], lambda x: gw.top_k(x, 2)[0],
        lambda x: x.topk(2)[0], lambda x: jax.lax.top_k(x, 2)[0], slope=True)
    row("top 10 of 1000", lambda: [f32(M, M)], lambda x: gw.top_k(x, 10)[0],
        lambda x: x.topk(10)[0], lambda x: jax.lax.top_k(x, 10)[0])
    row("top 50 of 32000", lambda: [f32(32, 32_000)], lambda x: gw.top_k(x, 50)[0],
        lambda x: x.topk(50)[0], lambda x: jax.lax.top_k(x, 50)[0])
    row("top 1000 of a million", lambda: [f32(N)], lambda x: gw.top_k(x, 1000)[0],
        lambda x: x.topk(1000)[0], lambda x: jax.lax.top_k(x, 1000)[0])
    row("top 10 of columns", lambda: [f32(M, M)], lambda x: gw.top_k(x, 10, axis=0)[0],
        lambda x: x.topk(10, 0)[0], lambda x: jax.lax.top_k(x.T, 10)[0].T)
    row("unique", lambda: [power(100_000, N)], lambda x: gw.unique(x)[0], lambda x: x.unique())
    row("searchsorted", lambda: [np.sort(f32(10_000)), f32(N)],
        gw.searchsorted, lambda a, x: t.searchsorted(a, x), lambda a, x: jnp.searchsorted(a, x))
    row("argmax rows", lambda: [f32(M, M)], lambda x: gw.argmax(x, 1), lambda x: x.argmax(1),
        lambda x: x.argmax(1))
    row("argmax columns", lambda: [f32(M, M)], lambda x: gw.argmax(x, 0), lambda x: x.argmax(0),
        lambda x: x.argmax(0))

    # running
    row("cumsum", lambda: [f32(N)], lambda x: gw.cumsum(x, 0), lambda x: x.cumsum(0),
        lambda x: x.cumsum(0))
    row("cumsum rows", lambda: [f32(M, M)], lambda x: gw.cumsum(x, 1), lambda x: x.cumsum(1),
        lambda x: x.cumsum(1), slope=True)
    row("cumsum columns", lambda: [f32(M, M)], lambda x: gw.cumsum(x, 0), lambda x: x.cumsum(0),
        lambda x: x.cumsum(0))
    row("cumsum integers", lambda: [ids(100, N)], lambda x: gw.cumsum(x, 0),
        lambda x: x.cumsum(0), lambda x: x.cumsum(0))
    row("cumprod rows", lambda: [1 + np.float32(0.01) * f32(M, M)],
        lambda x: gw.cumprod(x, 1), lambda x: x.cumprod(1), lambda x: x.cumprod(1), slope=True)
    row("cummax rows", lambda: [f32(M, M)], lambda x: gw.cummax(x, 1)[0],
        lambda x: x.cummax(1)[0], lambda x: jax.lax.cummax(x, 1), slope=True)
    row("logcumsumexp rows", lambda: [f32(M, M)], lambda x: gw.logcumsumexp(x, 1),
        lambda x: x.logcumsumexp(1), lambda x: jax.lax.cumlogsumexp(x, 1), slope=True)

    # masks and ragged batches
    row("sequence mask", lambda: [lengths(M, M)],
        lambda n: gw.sequence_mask(n, maxlen=M), lambda n: t.arange(M) < n[:, None],
        lambda n: jnp.arange(M) < n[:, None])
    row("masked mean", lambda: [f32(128, 128, 64), lengths(128, 128)],
        lambda x, n: (lambda m: (x * gw.expand_dims(m, 2)).sum(1) / gw.expand_dims(m.sum(1), 1))(
            gw.sequence_mask(n, maxlen=128, dtype="float32")),
        lambda x, n: (lambda m: (x * m[:, :, None]).sum(1) / m.sum(1)[:, None])(
            (t.arange(128) < n[:, None]).float()),
        lambda x, n: (lambda m: (x * m[:, :, None]).sum(1) / m.sum(1)[:, None])(
            (jnp.arange(128) < n[:, None]).astype("float32")), slope=True)
    row("masked max", lambda: [f32(128, 128, 64), lengths(128, 128)],
        lambda x, n: gw.where(gw.expand_dims(gw.sequence_mask(n, maxlen=128), 2), x, -1e9).max(1),
        lambda x, n: t.where((t.arange(128) < n[:, None])[:, :, None], x, -1e9).amax(1),
        lambda x, n: jnp.where((jnp.arange(128) < n[:, None])[:, :, None], x, -1e9).max(1),
        slope=True)
    row("masked numbers", lambda: [f32(N)], lambda x: gw.boolean_mask(x, x > 0.5),
        lambda x: x[x > 0.5], slope=True)
    row("nonzero", lambda: [f32(N)], lambda x: gw.nonzero(x > 0.5)[0],
        lambda x: (x > 0.5).nonzero(as_tuple=True)[0])
    row("pack", lambda: [f32(128, 128, 64), lengths(128, 128)],
        lambda x, n: gw.boolean_mask(x, gw.sequence_mask(n, maxlen=128)),
        lambda x, n: x[t.arange(128) < n[:, None]], slope=True)
    row("reverse", lambda: [f32(128, 128, 64), lengths(128, 128)],
        gw.reverse_sequence,
        lambda x, n: t.take_along_dim(x, (lambda a: t.where(
            a < n[:, None], n[:, None] - 1 - a, a))(t.arange(128))[:, :, None], 1),
        lambda x, n: jnp.take_along_axis(x, (lambda a: jnp.where(
            a < n[:, None], n[:, None] - 1 - a, a))(jnp.arange(128))[:, :, None], 1), slope=True)
    row("partition", lambda: [f32(100_000, 8), ids(4, 100_000)],
        lambda x, i: gw.dynamic_partition(x, i, num_partitions=4)[1],
        lambda x, i: [x[i == k] for k in range(4)][1])
    # fmt: on
    return found
