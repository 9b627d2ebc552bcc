"""Programs whose bits are compared: between counts of threads, places of arrays, and processes.

They are long enough to be cut among threads as they are. ``digests`` runs them in deterministic
sessions, in processes of their own as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.cpu.llvm.blas import Limit, blas
from gradwright.cpu.llvm.chain import chain
from gradwright.cpu.llvm.gemm import bind_matmul
from gradwright.cpu.threads.tuning import pieces

Array = np.ndarray[Any, Any]
Program = tuple[gw.Graph, list[Any], dict[str, Array], dict[Any, Any]]
"""A graph, what is fetched, feeds, and updates."""
THREADS = 1, 2, 3
PLACES = 0, 8, 40
"""Bytes behind the start of a cache line."""


def drawn(seed: int, *shape: int, dtype: str = "f4") -> Array:
    """Return normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def descent(g: gw.Graph, y: Any, feeds: dict[str, Array], variables: Sequence[Any]) -> Program:
    """Return the program of a step down the gradient of mean(y²)."""
    loss = gw.mean(y * y)
    grads = gw.gradients(loss, list(variables))
    return g, [loss, y], feeds, {v: v - 0.1 * d for v, d in zip(variables, grads, strict=True)}


def layers(dtype: str) -> Program:
    """Products of all transpositions, tall, wide and square, with norms and column sums."""
    g = gw.Graph()
    x = g.placeholder("x", (252, 301), dtype=dtype)
    sizes = {"w": (301, 259), "v": (259, 130), "u": (130, 12)}
    made = [g.variable(k, s, init=drawn(1, *s, dtype=dtype) / 16) for k, s in sizes.items()]
    bias = g.variable("b", (259,), init=drawn(2, 259, dtype=dtype))
    h = gw.nn.layer_norm(gw.nn.gelu(x @ made[0] + bias))
    y = gw.nn.softmax(h @ made[1], axis=-1) @ made[2]
    return descent(g, y, {"x": drawn(3, 252, 301, dtype=dtype)}, [*made, bias])


def wide(dtype: str) -> Program:
    """Few rows and many columns, whose pieces have other bits in some sets of kernels."""
    g = gw.Graph()
    x = g.placeholder("x", (40, 260), dtype=dtype)
    w = g.variable("w", (260, 900), init=drawn(1, 260, 900, dtype=dtype) / 16)
    return descent(g, gw.tanh(x @ w), {"x": drawn(2, 40, 260, dtype=dtype)}, [w])


def attention() -> Program:
    """Batches of small products, one matrix for all, and softmax."""
    g = gw.Graph()
    x = g.placeholder("x", (6, 70, 64))
    w, v = (g.variable(k, (64, 64), init=drawn(n, 64, 64) / 8) for n, k in enumerate("wv"))
    h = x @ w
    y = gw.nn.softmax(h @ gw.transpose(h, (0, 2, 1)), axis=-1) @ (x @ v)
    return descent(g, y, {"x": drawn(3, 6, 70, 64)}, [w, v])


def images() -> Program:
    """Convolutions with a pooling."""
    g = gw.Graph()
    x = g.placeholder("x", (6, 3, 20, 20))
    w = g.variable("w", (8, 3, 3, 3), init=drawn(1, 8, 3, 3, 3))
    y = gw.cnn.max_pool2d(gw.nn.relu(gw.cnn.conv2d(x, w, padding=1)), 2)
    return descent(g, y, {"x": drawn(2, 6, 3, 20, 20)}, [w])


def vectors() -> Program:
    """Products with a vector, which are sums of their own in BLAS."""
    g = gw.Graph()
    x, w = g.placeholder("x", (301, 77)), g.variable("w", (77, 1), init=drawn(1, 77, 1))
    return descent(g, x @ w, {"x": drawn(2, 301, 77)}, [w])


def optimizers() -> Program:
    """Adam with moments of 32 and of 8 bits."""
    g, n = gw.Graph(), 20_003
    feeds = {k: np.abs(drawn(i, n)) for i, k in enumerate("pgmv")}
    p, d, m, v = (g.placeholder(k, (n,)) for k in feeds)
    rest = 3, 0.01, 0.9, 0.999, 1e-8, 0.01
    blocks = -(-n // 256)
    codes = [g.constant((np.arange(n) * k % 256).astype("u1")) for k in (7, 11)]
    scales = [g.constant(np.abs(drawn(i, blocks))) for i in (5, 6)]
    small = gw.training.adam8bit_update(p, d, codes[0], scales[0], codes[1], scales[1], *rest)
    return g, [*gw.training.adam_update(p, d, m, v, *rest), *small], feeds, {}


PROGRAMS: dict[str, Callable[[], Program]] = {
    "layers": lambda: layers("float32"),
    "layers_64": lambda: layers("float64"),
    "wide": lambda: wide("float32"),
    "wide_64": lambda: wide("float64"),
    "attention": attention,
    "images": images,
    "vectors": vectors,
    "optimizers": optimizers,
}
MULTIPLIED = "layers", "layers_64", "wide", "wide_64", "attention", "vectors"
"""Those that BLAS multiplies in."""


def placed(x: Array, offset: int) -> Array:
    """Return a copy that begins ``offset`` bytes behind the start of a cache line."""
    raw = np.empty(x.nbytes + 128, np.uint8)
    made = np.ndarray(x.shape, x.dtype, raw, -raw.ctypes.data % 64 + offset)
    made[...] = x
    return made


def digest(program: Program, offset: int = 0, steps: int = 3, **options: Any) -> str:
    """Return a hash of what is fetched, and of the variables, after some steps."""
    g, fetched, feeds, updates = program
    feeds = {k: placed(x, offset) for k, x in feeds.items()}
    seen = hashlib.sha256()
    values = g.values
    values.commit({v.name: placed(values[v.name], offset) for v in updates})
    with gw.Session(g, deterministic=True, **options) as session:
        for _ in range(steps):
            for y in session.run(fetched, feeds, updates):
                seen.update(np.ascontiguousarray(y).tobytes())
        for v in updates:
            seen.update(values[v.name].tobytes())
    return seen.hexdigest()[:16]


def by_threads(names: Iterable[str] = tuple(PROGRAMS), **options: Any) -> dict[str, list[str]]:
    """Return the digests of programs for each count of threads."""
    return {
        name: [digest(PROGRAMS[name](), threads=n, **options) for n in THREADS] for name in names
    }


def by_place(names: Iterable[str] = tuple(PROGRAMS), **options: Any) -> dict[str, list[str]]:
    """Return the digests of programs whose arrays begin anywhere."""
    return {name: [digest(PROGRAMS[name](), at, **options) for at in PLACES] for name in names}


def by_both(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the digests of programs for counts of threads, each with its place of arrays."""
    ways = [*zip(THREADS, PLACES, strict=True)]
    return {name: [digest(PROGRAMS[name](), at, threads=n) for n, at in ways] for name in names}


LONG = [
    (3001, 40, 300),
    (130, 2500, 90),
    (70, 80, 2600),
    (130_003, 9, 17),
    (24, 1501, 300),
]
"""Products that are longer on one side than what OpenBLAS takes at a time, or flat."""


def products(n: int = 24) -> tuple[int, int]:
    """Return how many products were cut where their bits allow it, and how many changed."""
    rng = np.random.default_rng(0)
    sizes = [*LONG, *([int(16 * 40 ** rng.random()) for _ in range(3)] for _ in range(n))]
    done = changed = 0
    for i, (m, n, k) in enumerate(sizes):
        char, of_a, of_b = "fd"[i % 2], i // 2 % 2, i // 4 % 2
        x = drawn(i, *((k, m) if of_a else (m, k)), dtype=char)
        y = drawn(-i - 1 & 0xFFFF, *((n, k) if of_b else (k, n)), dtype=char)
        operands = [x.T if of_a else x, y.T if of_b else y]
        found = [np.zeros((m, n), char) for _ in range(2)]
        for adds in (False, True):
            [whole] = bind_matmul(operands, found[:1], adds=adds) or [None]
            [call] = bind_matmul(operands, found[1:], adds=adds) or [None]
            assert whole is not None and call is not None
            cut = pieces(call, 2 + i % 3, alike=True)
            with Limit(1):
                for one in (whole, *(cut or [call])):
                    chain([(one.address, one.block.ctypes.data)])()
            done += bool(cut)
            changed += not np.array_equal(*found)
    return done, changed


def of_this_set(known: Sequence[str]) -> dict[str, Any]:
    """Return what OpenBLAS's kernels are called, and what they compute if that is not known."""
    library = blas()
    core = library.version.split()[-2] if library else ""
    found: dict[str, Any] = {"core": core}
    if core not in known:
        found |= {"products": products(), "programs": by_both(MULTIPLIED)}
    return found
