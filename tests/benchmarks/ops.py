"""Forward and backward of 40 ops beside torch on one thread: ``python -m tests.benchmarks.ops``.

Each side computes the result and the gradients of all float inputs for one fixed cotangent, in
float32. Ours runs as a plan of a session, torch's eagerly. An op whose results differ is not timed:
the run ends there. ``python -m tests.benchmarks.ops conv`` runs those with "conv" in their name.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.timing import race

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """One op: its inputs, and how both sides compute it.

    Where torch lays inputs out otherwise, ``translate`` gives our inputs, or the gradients by them,
    in its layout; that is not timed.
    """

    name: str
    inputs: Sequence[Any]
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    translate: Callable[[Sequence[Any]], Sequence[Any]] = list


def f32(*shape: int, low: float | None = None) -> Any:
    """Return normal numbers, or uniform ones in [low, low + 1)."""
    x = RNG.standard_normal(shape) if low is None else RNG.uniform(low, low + 1, shape)
    return x.astype(np.float32)


def index(high: int, *shape: int) -> Any:
    """Return integers below ``high``."""
    return RNG.integers(0, high, shape)


def cases(torch: Any) -> Iterator[Case]:
    """Yield the 40 ops, in sizes of a small network on a laptop."""
    F, wide, rows = torch.nn.functional, (256, 1024), (2048, 128)
    yield Case("exp", [f32(*wide)], gw.exp, torch.exp)
    yield Case("tanh", [f32(*wide)], gw.tanh, torch.tanh)
    yield Case("pow", [f32(*wide, low=0.5), f32(*wide)], gw.pow, torch.pow)
    yield Case("mul, broadcast", [f32(*wide), f32(1024)], gw.mul, torch.mul)
    yield Case("div", [f32(*wide), f32(*wide, low=0.5)], gw.div, torch.div)
    yield Case("maximum", [f32(*wide), f32(*wide)], gw.maximum, torch.maximum)
    yield Case("gelu", [f32(*wide)], gw.nn.gelu, F.gelu)
    yield Case("silu", [f32(*wide)], gw.nn.silu, F.silu)
    yield Case("softplus", [f32(*wide)], gw.nn.softplus, F.softplus)
    yield Case("sum", [f32(*wide)], lambda x: gw.sum(x, 1), lambda x: x.sum(1))
    yield Case("max", [f32(*wide)], lambda x: gw.max(x, 1), lambda x: x.amax(1))
    yield Case("var", [f32(*wide)], lambda x: gw.var(x, 1), lambda x: x.var(1, correction=0))
    yield Case("logsumexp", [f32(*wide)], lambda x: gw.logsumexp(x, 1), lambda x: x.logsumexp(1))
    yield Case("cumsum", [f32(*wide)], lambda x: gw.cumsum(x, 1), lambda x: x.cumsum(1))
    yield Case("matmul", [f32(256, 256), f32(256, 256)], gw.matmul, torch.matmul)
    yield Case("matmul, batched", [f32(32, 64, 64), f32(32, 64, 64)], gw.matmul, torch.matmul)
    yield Case(
        "einsum",
        [f32(8, 32, 64), f32(8, 48, 64)],
        lambda a, b: gw.einsum("bid,bjd->bij", a, b),
        lambda a, b: torch.einsum("bid,bjd->bij", a, b),
    )
    yield Case("softmax", [f32(*rows)], gw.nn.softmax, lambda x: F.softmax(x, -1))
    yield Case("log_softmax", [f32(*rows)], gw.nn.log_softmax, lambda x: F.log_softmax(x, -1))
    yield Case(
        "layer_norm",
        [f32(*rows), f32(128), f32(128)],
        gw.nn.layer_norm,
        lambda x, w, b: F.layer_norm(x, (128,), w, b),
    )
    yield Case(
        "rms_norm",
        [f32(*rows), f32(128)],
        gw.nn.rms_norm,
        lambda x, w: F.rms_norm(x, (128,), w, 1e-5),
    )
    yield Case(
        "sparse_softmax_cross_entropy",
        [index(128, 2048), f32(*rows)],
        gw.loss.sparse_softmax_cross_entropy,
        lambda t, x: F.cross_entropy(x, t),
    )
    yield Case(
        "gather", [f32(5000, 64), index(5000, 4096)], gw.gather, lambda x, i: F.embedding(i, x)
    )
    yield Case(
        "index_add",
        [f32(1000, 64), index(1000, 4096), f32(4096, 64)],
        gw.index_add,
        lambda x, i, u: x.index_add(0, i, u),
    )
    yield Case("sort", [f32(*wide)], gw.sort, lambda x: x.sort(stable=True, dim=-1).values)
    yield Case("top_k", [f32(*wide)], lambda x: gw.top_k(x, 8)[0], lambda x: x.topk(8).values)
    yield Case("concat", [f32(*wide), f32(*wide)], gw.concat, lambda a, b: torch.concat([a, b]))
    x, w = f32(8, 32, 32, 32), f32(64, 32, 3, 3)
    yield Case("conv1d", [f32(16, 32, 256), f32(64, 32, 5)], gw.cnn.conv1d, F.conv1d)
    yield Case("conv2d", [x, w], gw.cnn.conv2d, F.conv2d)
    yield Case(
        "conv2d, stride 2",
        [x, w],
        lambda x, w: gw.cnn.conv2d(x, w, stride=2, padding=1),
        lambda x, w: F.conv2d(x, w, stride=2, padding=1),
    )
    yield Case(
        "depthwise_conv2d",
        [x, f32(32, 1, 3, 3)],
        lambda x, w: gw.cnn.conv2d(x, w, groups=32),
        lambda x, w: F.conv2d(x, w, groups=32),
    )
    yield Case(
        "conv_transpose2d",
        [f32(8, 64, 16, 16), f32(64, 32, 3, 3)],
        lambda x, w: gw.cnn.conv_transpose2d(x, w, stride=2),
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
    )
    yield Case("conv3d", [f32(2, 16, 12, 12, 12), f32(32, 16, 3, 3, 3)], gw.cnn.conv3d, F.conv3d)
    yield Case("max_pool2d", [x], lambda x: gw.cnn.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 2))
    yield Case("avg_pool2d", [x], lambda x: gw.cnn.avg_pool2d(x, 2), lambda x: F.avg_pool2d(x, 2))
    yield Case(
        "resize, bilinear",
        [x],
        lambda x: gw.image.resize(x, sizes=(8, 32, 64, 64), mode="linear"),
        lambda x: F.interpolate(x, (64, 64), mode="bilinear"),
    )
    heads = [f32(4, 4, 128, 32) for _ in range(3)]
    yield Case(
        "scaled_dot_product_attention",
        heads,
        gw.nn.scaled_dot_product_attention,
        F.scaled_dot_product_attention,
    )
    spd = np.eye(64, dtype=np.float32) * 4 + np.float32(0.1) * (lambda a: a @ a.T)(f32(64, 64))
    yield Case("cholesky", [spd], gw.linalg.cholesky, torch.linalg.cholesky)
    yield Case("solve", [spd, f32(64, 16)], gw.linalg.solve, torch.linalg.solve)
    yield _lstm(torch)


def _lstm(torch: Any) -> Case:
    T, B, N, H = 64, 32, 64, 128
    weights = [f32(1, 4 * H, N) * 0.1, f32(1, 4 * H, H) * 0.1, f32(1, 8 * H)]
    zeros = torch.zeros(1, B, H)
    i, o, f, g = np.arange(4 * H).reshape(4, H)
    order = np.concatenate([i, f, g, o])

    def translate(arrays: Sequence[Any]) -> Sequence[Any]:
        x, w, r, b = arrays
        return [x, *(part[order] for part in (w[0], r[0], b[0, : 4 * H], b[0, 4 * H :]))]

    def theirs(x: Any, *w: Any) -> Any:
        return torch.lstm(x, (zeros, zeros), w, True, 1, 0.0, False, False, False)[0][:, None]

    inputs = [f32(T, B, N), *weights]
    return Case("lstm", inputs, lambda *a: gw.rnn.lstm(*a)[0], theirs, translate)


def sides(case: Case, torch: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return both sides of a case as calls that give result and gradients."""
    g = gw.Graph()
    xs = [g.constant(x) if x.dtype.kind == "i" else g.variable(f"x{i}", init=x)
          for i, x in enumerate(case.inputs)]  # fmt: skip
    with g:
        y = case.ours(*xs)
    leaves = [
        torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in case.translate(case.inputs)
    ]
    wanted = [t for t in leaves if t.requires_grad]
    made = case.theirs(*leaves)
    seed = f32(*made.shape)
    with g:
        grads = gw.gradients(y, [x for x in xs if x.dtype.kind == "f"], g.constant(seed))
    session, cotangent = gw.Session(g), torch.tensor(seed)

    def theirs() -> Any:
        z = case.theirs(*leaves)
        return [z, *torch.autograd.grad(z, wanted, cotangent)]

    return lambda: session.run([y, *grads]), theirs


def main(only: str = "") -> None:
    """Print a line per op with the ratio torch/ours, and the geometric means."""
    import torch

    torch.set_num_threads(1)
    print(f"\nforward + backward, 1 thread: torch {torch.__version__} / gradwright")
    ratios: dict[str, float] = {}
    for case in cases(torch):
        if only not in case.name:
            continue
        ours, theirs = sides(case, torch)
        y, *grads = ours()
        off = max(
            float(np.abs(a - b.detach().numpy()).max() / max(1.0, float(b.detach().abs().max())))
            for a, b in zip([y, *case.translate(grads)], theirs(), strict=True)
        )
        if off > 1e-4:
            raise SystemExit(f"{case.name}: our result is off by {off:.0e} of the largest number")
        timings = race({"ours": ours, "torch": theirs}, rounds=5)
        ratios[case.name] = timings["torch"].median / timings["ours"].median
        print(f"  {case.name:<30} {timings['ours']}  {ratios[case.name]:6.2f}x   off {off:.0e}")
    for title, part in (("all", ""), ("convolutions", "conv")):
        some = [math.log(r) for name, r in ratios.items() if part in name]
        if some:
            print(f"  geometric mean, {len(some)} {title}: {math.exp(sum(some) / len(some)):.2f}x")


if __name__ == "__main__":
    main(*sys.argv[1:2])
