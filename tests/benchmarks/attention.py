"""``python -m tests.benchmarks.attention``: attention beside torch and JAX, on one thread.

Eight heads of 64 features and 4,096 positions in all, or one sample: inference and step (results,
then cotangents of queries, keys and values), causal and not, through whole sessions. Times are of
the processor, in turns, the shortest counts. Above 1, ours is faster. The bound is what OpenBLAS
alone would take for the products of scores that are seen, at the rate of a tile of 256 by 512.
"""

from __future__ import annotations

import os

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

import gradwright as gw  # noqa: E402

Array = np.ndarray[Any, Any]
LENGTHS = 128, 256, 512, 1024, 2048, 4096
HEADS, WIDTH, ROUNDS = 8, 64, 7
TILE = 256, 512


def ours(arrays: Sequence[Array], is_causal: bool, trains: bool) -> Callable[[], Any]:
    """Return a call of a session."""
    g = gw.Graph()
    names = ("q", "k", "v", "g")[: len(arrays)]
    xs = [g.placeholder(n, x.shape) for n, x in zip(names, arrays, strict=True)]
    y = gw.nn.scaled_dot_product_attention(*xs[:3], is_causal=is_causal)
    targets = [y, *gw.gradients((y * xs[3]).sum(), xs[:3])] if trains else [y]
    session = gw.Session(g, threads=1)
    run = session.prepare(targets, names)
    for _ in range(3):  # kernels are compiled from the third run on
        run(*arrays)
    session.wait_for_kernels()
    return lambda: run(*arrays)


def of_torch(arrays: Sequence[Array], is_causal: bool, trains: bool) -> Callable[[], Any]:
    """Return the same of torch, whose kernel on the CPU is flash attention, too."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    torch.set_num_threads(1)
    q, k, v, *g = (torch.tensor(x) for x in arrays)
    if not trains:
        return torch.no_grad()(lambda: scaled_dot_product_attention(q, k, v, is_causal=is_causal))
    xs = [x.requires_grad_() for x in (q, k, v)]

    def step() -> Any:
        return torch.autograd.grad(scaled_dot_product_attention(*xs, is_causal=is_causal), xs, g[0])

    return step


def of_jax(arrays: Sequence[Array], is_causal: bool, trains: bool) -> Callable[[], Any]:
    """Return the same of JAX, compiled."""
    import jax
    from jax.nn import dot_product_attention

    q, k, v, *g = (jax.numpy.asarray(x.swapaxes(1, 2)) for x in arrays)

    def attend(*xs: Any) -> Any:
        return dot_product_attention(*xs, is_causal=is_causal)

    def pulled(*xs: Any) -> Any:
        y, back = jax.vjp(attend, *xs)
        return y, back(g[0])

    run = jax.jit(pulled if trains else attend)
    return lambda: jax.block_until_ready(run(q, k, v))


def shortest(runs: Sequence[Callable[[], Any]]) -> list[float]:
    """Return the shortest time of the process that each takes, in turns."""
    taken: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()
    for _ in range(ROUNDS):
        for run, held in zip(runs, taken, strict=True):
            began = time.process_time()
            run()
            held.append(time.process_time() - began)
    return [min(held) for held in taken]


def rate() -> float:
    """Return how many operations a second OpenBLAS does in the products of a tile."""
    rng = np.random.default_rng(0)
    q, k = (rng.random((n, WIDTH), np.float32) for n in TILE)
    scores, y = rng.random(TILE, np.float32), np.empty_like(q)

    def products() -> None:
        for _ in range(50):
            np.matmul(q, k.T, out=scores)
            np.matmul(scores, k, out=y)

    return 50 * 4 * scores.size * WIDTH / shortest([products])[0]


def main() -> None:
    """Print a row for each length, direction and mask."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.attention")
    parser.add_argument("lengths", nargs="*", type=int, default=LENGTHS)
    lengths, per_second = parser.parse_args().lengths, rate()
    print(f"{'':>24}      ours    bound     torch       JAX")
    for trains in (False, True):
        for n in lengths:
            for is_causal in (True, False):
                rng = np.random.default_rng(n)
                shape = max(4096 // n // HEADS, 1), HEADS, n, WIDTH
                arrays = [rng.standard_normal(shape, np.float32) for _ in range(3 + trains)]
                makers = (ours, of_torch, of_jax)
                mine, *others = shortest([make(arrays, is_causal, trains) for make in makers])
                pairs = shape[0] * HEADS * n * (n + is_causal) / (1 + is_causal)
                bound = (14 if trains else 4) * pairs * WIDTH / per_second
                what = f"{'step' if trains else 'inference'} {n}{' causal' if is_causal else ''}"
                ratios = "".join(f"{other / mine:9.2f}x" for other in others)
                print(f"{what:>24} {mine * 1e3:7.2f} ms {bound / mine:7.0%}{ratios}", flush=True)


if __name__ == "__main__":
    main()
