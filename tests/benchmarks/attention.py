"""``python -m tests.benchmarks.attention [length ...]``: attention beside torch and JAX.

Eight heads of 64 features (``--width``) and 4,096 positions in all, or one sample: inference and
step (results, then cotangents of queries, keys and values), through whole sessions, on one thread
or ``--threads``. All see all, or those before; or samples are padded (bool[B, 1, 1, T]), have a
bias for each pair (f32[1, 8, T, T]), or see 128 back, which others are told as bool[T, T]. Calls
take turns, times are medians: of the processor for one thread, of the clock for more. Above 1, ours
is faster. The bound is the time of the products of scores that are seen, at the rate of one product
of a tile by our own machine code, times threads.
"""

from __future__ import annotations

import os
import sys

THREADS = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv else "1"
for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", THREADS)
if THREADS == "1":
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse  # noqa: E402
import itertools  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

import gradwright as gw  # noqa: E402

Array = np.ndarray[Any, Any]
LENGTHS = 128, 512, 1024, 2048, 4096
KINDS = "all", "causal", "padded", "bias", "window"
HEADS, WINDOW, ROUNDS = 8, 128, 7


def mask_of(kind: str, b: int, t: int) -> Array | None:
    """Return the mask of a kind, as others take it; None where there is none."""
    rng, at = np.random.default_rng(t), np.arange(t)
    if kind == "padded":
        return (at < rng.integers(t // 2, t + 1, b)[:, None])[:, None, None]
    if kind == "bias":
        return rng.standard_normal((1, HEADS, t, t), np.float32)
    away = at[:, None] - at
    return (away >= 0) & (away < WINDOW) if kind == "window" else None


def ours(arrays: Sequence[Array], kind: str, trains: bool) -> Callable[[], Any]:
    """Return a call of a session."""
    g, (b, _, t, _) = gw.Graph(), arrays[0].shape
    mask = None if kind == "window" else mask_of(kind, b, t)
    given = [*arrays, *([] if mask is None else [mask])]
    xs = [g.placeholder(f"x{n}", x.shape, str(x.dtype)) for n, x in enumerate(given)]
    q, k, v = xs[:3]
    if kind == "window":
        y = gw.nn.sliding_window_attention(q, k, v, window_size=WINDOW)
    else:
        more = xs[len(arrays) :]
        y = gw.nn.scaled_dot_product_attention(q, k, v, *more, is_causal=kind == "causal")
    targets = [y, *gw.gradients((y * xs[3]).sum(), xs[:3])] if trains else [y]
    session = gw.Session(g, threads=int(THREADS))
    run = session.prepare(targets, [x.name for x in xs])
    for _ in range(3):  # kernels are compiled from the third run on
        run(*given)
    session.wait_for_kernels()
    return lambda: run(*given)


def of_torch(arrays: Sequence[Array], kind: str, trains: bool) -> Callable[[], Any]:
    """Return the same of torch, whose kernel on the CPU is flash attention, too."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    torch.set_num_threads(int(THREADS))
    q, k, v, *g = (torch.tensor(x) for x in arrays)
    mask = mask_of(kind, len(q), q.shape[2])
    settings: dict[str, Any] = {"is_causal": kind == "causal"}
    if mask is not None:
        settings["attn_mask"] = torch.tensor(mask)
    if not trains:
        return torch.no_grad()(lambda: scaled_dot_product_attention(q, k, v, **settings))
    xs = [x.requires_grad_() for x in (q, k, v)]

    def step() -> Any:
        return torch.autograd.grad(scaled_dot_product_attention(*xs, **settings), xs, g[0])

    return step


def of_jax(arrays: Sequence[Array], kind: str, trains: bool) -> Callable[[], Any]:
    """Return the same of JAX, compiled."""
    import jax
    from jax.nn import dot_product_attention

    q, k, v, *g = (jax.numpy.asarray(x.swapaxes(1, 2)) for x in arrays)
    mask = mask_of(kind, len(q), q.shape[1])
    name = "bias" if kind == "bias" else "mask"
    settings: dict[str, Any] = {"is_causal": kind == "causal"}
    if mask is not None:
        settings[name] = jax.numpy.asarray(mask.reshape((1,) * (4 - mask.ndim) + mask.shape))

    def attend(*xs: Any) -> Any:
        return dot_product_attention(*xs, **settings)

    def pulled(*xs: Any) -> Any:
        y, back = jax.vjp(attend, *xs)
        return y, back(g[0])

    run = jax.jit(pulled if trains else attend)
    return lambda: jax.block_until_ready(run(q, k, v))


def medians(runs: Sequence[Callable[[], Any]]) -> list[float]:
    """Return the median time that each takes, in turns."""
    clock = time.process_time if THREADS == "1" else time.perf_counter
    taken: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()
    for _ in range(ROUNDS):
        for run, held in zip(runs, taken, strict=True):
            began = clock()
            run()
            held.append(clock() - began)
    return [float(np.median(held)) for held in taken]


def rate(width: int) -> float:
    """Return how many operations a second the product of a tile does on all threads."""
    from gradwright.cpu.llvm.chain import chain
    from gradwright.cpu.llvm.unpacked import bind_product

    rng = np.random.default_rng(0)
    q, k = rng.random((128, width), np.float32), rng.random((width, 128), np.float32)
    (call,) = bind_product(q, k, np.empty((128, 128), np.float32), adds=False)
    many = chain([(call.address, call.block.ctypes.data)] * 200)
    return int(THREADS) * 200 * 2 * 128 * 128 * width / medians([many])[0]


def seen(kind: str, b: int, t: int) -> float:
    """Return how many pairs of a query and a key are seen in all heads of b samples."""
    if kind == "causal":
        return b * HEADS * t * (t + 1) / 2
    mask = mask_of(kind, b, t)
    share = mask.mean() if mask is not None and mask.dtype == bool else 1
    return float(b * HEADS * t * t * share)


def main() -> None:
    """Print a row for each length, direction and mask."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.attention")
    parser.add_argument("lengths", nargs="*", type=int, default=LENGTHS)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--width", type=int, default=64, help="features of a head")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    per_second = rate(min(asked.width, 128))
    print(f"{'':>24}      ours    bound     torch       JAX")
    for trains, n, kind in itertools.product((False, True), asked.lengths, asked.kinds):
        rng = np.random.default_rng(n)
        shape = max(4096 // n // HEADS, 1), HEADS, n, asked.width
        arrays = [rng.standard_normal(shape, np.float32) for _ in range(3 + trains)]
        makers = (ours, of_torch, of_jax)
        mine, *others = medians([make(arrays, kind, trains) for make in makers])
        bound = (14 if trains else 4) * seen(kind, shape[0], n) * asked.width / per_second
        what = f"{'step' if trains else 'inference'} {n} {kind}"
        ratios = "".join(f"{other / mine:9.2f}x" for other in others)
        print(f"{what:>24} {mine * 1e3:7.2f} ms {bound / mine:7.0%}{ratios}", flush=True)


if __name__ == "__main__":
    main()
