"""Arithmetic beside PyTorch: elementwise functions, distances, norms, bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.rows import (
    SHAPES,
    Case,
    Row,
    binary,
    complexes,
    integers,
    ints,
    normal,
    over_axes,
    probabilities,
    unary,
    uniform,
)

ODD = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0])
HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
WHOLE: list[Case] = [(ints(-9, 9, 3, 4, dtype=d), {}) for d in ("int64", "int32")]
FLOATS = [normal(*s) for s in SHAPES]


def axes(x: Any, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    return axis if isinstance(axis, tuple) else (axis,)


def total(x: Any, axis: Any, keepdims: bool) -> Any:
    """Return a sum that torch takes over no axes, too."""
    over = axes(x, axis)
    return x.sum(over, keepdims) if over else x


def reduction(function: Any) -> Any:
    """Return torch's reduction: a function of (torch, x, axes, keepdims)."""

    def theirs(t: Any, x: Any, axis: Any = None, keepdims: bool = False, **attrs: Any) -> Any:
        return function(t, x, axes(x, axis), keepdims, **attrs)

    return theirs


def distance(function: Any) -> Any:
    """Return a distance: a sum over axes of what a function makes of two tensors."""

    def theirs(t: Any, a: Any, b: Any, axis: Any = None, keepdims: bool = False) -> Any:
        a, b = t.broadcast_tensors(a, b)
        return function(t, a, b, lambda x: total(x, axis, keepdims))

    return theirs


def apart() -> list[Case]:
    """Return pairs of positive tensors with the axes of a distance."""
    return [
        (uniform(0.2, 2, 3, 4), uniform(0.2, 2, 3, 4), {}),
        (uniform(0.2, 2, 3, 4), uniform(0.2, 2, 4), {"axis": -1}),
        (uniform(0.2, 2, 2, 3, 4), uniform(0.2, 2, 3, 1), {"axis": (0, -1), "keepdims": True}),
        (uniform(0.2, 2, 0, 3), uniform(0.2, 2, 0, 3), {"axis": 1}),
        (uniform(0.2, 2, 2, 1, 2, 1, 2), uniform(0.2, 2, 2, 1), {"axis": 2}),
    ]


def cosine(t: Any, a: Any, b: Any, total: Any) -> Any:
    return total(a * b) / (total(a * a) * total(b * b)).sqrt().clamp(min=1e-8)


def shares(which: str) -> Any:
    def theirs(t: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        y = total(t.special.entr(x), axis, keepdims)
        return {"nats": y, "bits": y / np.log(2), "log": y.log()}[which]

    return theirs


def chances() -> list[Case]:
    return [
        (probabilities(3, 4), {"axis": -1}),
        (probabilities(4), {}),
        (probabilities(2, 3, 4), {"axis": (0, 2), "keepdims": True}),
    ]


def quantile(t: Any, x: Any, q: Any, axis: Any = None, keepdims: bool = False, **k: Any) -> Any:
    q = t.tensor(q, dtype=x.dtype) if isinstance(q, tuple) else q
    return t.quantile(x, q, axis, keepdims, interpolation=k.get("method", "linear"))


def clipped(t: Any, x: Any, c: Any, axis: Any = None, per: bool = False) -> Any:
    over = axes(x, axis)
    n = t.linalg.vector_norm(x, dim=over, keepdim=True)
    if per:
        n = n / np.prod([x.shape[a] for a in over])
    return t.where(n > c, x * (c / n), x)


def shift(name: str) -> Row:
    cases: list[Case] = [
        (ints(-99, 99, 2, 3), ints(0, 9, 3)),
        (ints(0, 200, 4, dtype="uint8"), ints(0, 7, 4, dtype="uint8")),
        (ints(-99, 99, 5, dtype="int16"), ints(0, 12, 2, 1, dtype="int16")),
        (ints(-99, 99, 0, 2, dtype="int32"), ints(0, 9, dtype="int32")),
    ]
    return Row(name, cases)


def rotated(t: Any, x: Any, n: Any, left: bool) -> Any:
    """Rotate by writing out all bits."""
    width = 8 * x.element_size()
    places = t.arange(width)
    source = (places - n[..., None]) % width if left else (places + n[..., None]) % width
    bits = (x[..., None].to(t.int64) >> source) & 1
    value = (bits[..., :-1] << places[:-1]).sum(-1)
    top = bits[..., -1] * (-(1 << 62) * 2 if width == 64 else 1 << (width - 1))
    return (value + top).to(x.dtype)


ROTATIONS: list[Case] = [
    (ints(-99, 99, 2, 3), ints(0, 64, 3)),
    (ints(0, 200, 5, dtype="uint8"), ints(0, 9, 5)),
    (ints(-99, 99, 4, dtype="int32"), ints(0, 32, 4)),
]


def popcount(t: Any, x: Any) -> Any:
    places = t.arange(8 * x.element_size())
    return ((x[..., None].to(t.int64) >> places) & 1).sum(-1)


FUNCTIONS: dict[str, Row] = {
    "cube": Row(lambda t, x: x**3, unary(-2, 2, complexes(3), ints(-4, 4, 3))),
    "exp2": Row("exp2", unary(-2, 2)),
    "rational_tanh": Row(
        lambda t, x: (
            1.7159
            * x.sgn()
            * (1 - 1 / (1 + (2 / 3 * x).abs() + (2 / 3 * x) ** 2 + 1.41645 * (2 / 3 * x) ** 4))
        ),
        unary(-3, 3),
    ),
    "rectified_tanh": Row(lambda t, x: x.tanh().relu(), unary(-3, 3)),
    "step": Row(
        lambda t, x, cutoff=0.0: (x > cutoff).to(x.dtype),
        [(x, {"cutoff": c}) for x in (*FLOATS, ints(-3, 3, 5)) for c in (0.0, 1.0)],
    ),
    "trunc": Row("trunc", unary(-3, 3, HALVES)),
    "sinc": Row("sinc", [*unary(0.2, 3), (np.array([0.0, -0.02, 1.0]),)]),
    "erfinv": Row("erfinv", unary(-0.99, 0.99, np.array([1e-9, -1e-300, 0.999999, 0.0]))),
    "logit": Row(
        lambda t, x, eps=None: t.logit(x, eps),
        [*unary(0.1, 0.9), (np.array([0.0, 0.3, 1.0]), {"eps": 0.1})],
    ),
    "nan_to_num": Row(
        lambda t, x, **k: t.nan_to_num(x, **k),
        [(x, {}) for x in FLOATS] + [(ODD, {"nan": 7.0, "posinf": 9.0, "neginf": -9.0})],
    ),
    "lgamma": Row(
        "lgamma",
        unary(0.1, 9, np.array([-0.6, -3.4, 30.0, 1e-3, 1e8, 1 + 1e-9, 2 - 1e-9, 1.15, 2.2])),
    ),
    "digamma": Row(
        "scipy.special.digamma",
        unary(0.1, 9, np.array([-0.6, -3.4, 30.0, 1e-3, 1e8, 1.4616])),
        library="jax",
    ),
    "polygamma": Row(
        lambda j, x, n: j.scipy.special.polygamma(n, x),
        [(uniform(0.3, 9, *s), {"n": n}) for s in SHAPES for n in (1, 2)]
        + [(np.array([0.5, 40.0, 1e4]), {"n": 3})],
        library="jax",
    ),
    "betaln": Row(lambda t, a, b: t.lgamma(a) + t.lgamma(b) - t.lgamma(a + b), binary(0.3, 4)),
    "rsub": Row(lambda t, a, b: b - a, binary(-2, 2, *integers(2))),
    "rdiv": Row(lambda t, a, b: b / a, binary(0.5, 2, *integers(2, 1))),
    "div_no_nan": Row(
        lambda t, a, b: t.where(b == 0, 0.0, a / t.where(b == 0, 1.0, b)),
        binary(0.5, 2, (np.array([1.0, 0.0, 2.0]), np.array([0.0, 0.0, 4.0]))),
    ),
    "fmod": Row(
        lambda t, a, b: t.fmod(a, b),
        binary(0.5, 2, *integers(2, 1), (ints(-9, 9, 8), ints(1, 4, 8)), (normal(9), normal(9))),
    ),
    "copysign": Row("copysign", binary(-2, 2), fixed=(1,)),
    "hypot": Row("hypot", binary(0.5, 2, (np.array([1e30, 3e-30]), np.array([1e30, 4e-30])))),
    "logaddexp": Row(
        "logaddexp", binary(-2, 2, (np.array([1000.0, -1000.0]), np.array([999.0, -1e4])))
    ),
    "xlogy": Row("xlogy", binary(0.5, 2, (np.array([0.0, 1.0]), np.array([2.0, 3.0])))),
    "heaviside": Row(
        lambda t, x, v: t.heaviside(x.detach(), v.detach()),
        binary(-2, 2, (np.array([-0.0, 0.0, 1.0, -3.0]), np.array([0.5, 2.0, 2.0, 2.0]))),
    ),
    "is_close": Row(
        lambda t, a, b, **k: t.isclose(*t.broadcast_tensors(a, b), **k),
        [
            *binary(-1, 1),
            (ODD, ODD, {"equal_nan": True}),
            (np.array([1.0, 1.1]), np.array([1.05, 1.05]), {"rtol": 0.049, "atol": 0.0}),
        ],
    ),
    "gcd": Row("gcd", [(a, b) for a, b in integers(2) if a.dtype == b.dtype]),
    "lcm": Row("lcm", [(a, b) for a, b in integers(2) if a.dtype == b.dtype]),
    "lerp": Row(
        "lerp",
        [
            (normal(3, 4), normal(3, 4), uniform(0, 1, 3, 4)),
            (normal(3, 1), normal(4), normal()),
            (normal(0, 2), normal(2), normal(1)),
        ],
    ),
}

REDUCTIONS: dict[str, Row] = {
    "norm1": Row(
        reduction(lambda t, x, a, k: x.abs().sum(a, k) if a else x.abs()), over_axes(normal)
    ),
    "norm_max": Row(
        reduction(lambda t, x, a, k: x.abs().amax(a, k)), over_axes(normal, empty=False)
    ),
    "abs_min": Row(
        reduction(lambda t, x, a, k: x.abs().amin(a, k)), over_axes(normal, empty=False)
    ),
    "abs_mean": Row(
        reduction(lambda t, x, a, k: x.abs().mean(a, k) if a else x.abs()),
        over_axes(normal, empty=False),
    ),
    "squared_norm": Row(
        reduction(lambda t, x, a, k: (x * x).sum(a, k) if a else x * x), over_axes(normal)
    ),
    "count_zero": Row(
        reduction(lambda t, x, a, k: (x == 0).sum(a, k) if a else (x == 0).long()),
        [*over_axes(lambda *s: ints(0, 3, *s)), (ODD, {})],
    ),
    "zero_fraction": Row(
        reduction(lambda t, x, a, k: (x == 0).float().mean(a, k) if a else (x == 0).float()),
        [(ints(0, 2, 3, 4), {"axis": 1}), (ODD, {}), (ints(0, 2, 2, 3, 2), {"keepdims": True})],
    ),
    "arg_abs_max": Row(
        lambda t, x, axis=None, keepdims=False: x.abs().argmax(axis, keepdims),
        [(normal(3, 4), {}), *over_axes(normal, empty=False, several=False)[3:]],
    ),
    "arg_abs_min": Row(
        lambda t, x, axis=None, keepdims=False: x.abs().argmin(axis, keepdims),
        [(normal(3, 4), {}), *over_axes(normal, empty=False, several=False)[3:]],
    ),
    "nansum": Row(
        reduction(lambda t, x, a, k: t.nansum(x, a, k)),
        [*over_axes(normal)[3:], (np.array([[1.0, np.nan], [np.nan, 2.0]]), {"axis": 1})],
    ),
    "nanmean": Row(
        reduction(lambda t, x, a, k: t.nanmean(x, a, k)),
        [
            *over_axes(normal, empty=False)[3:],
            (np.array([[1.0, np.nan], [3.0, 2.0]]), {"axis": 1}),
        ],
    ),
    "quantile": Row(
        quantile,
        [
            (normal(3, 5), {"q": 0.3}),
            (normal(3, 4), {"q": (0.0, 0.4, 1.0), "axis": 0}),
            (normal(3, 4), {"q": 0.4, "axis": -1, "keepdims": True, "method": "midpoint"}),
            (normal(3, 4), {"q": 0.7, "axis": 1, "method": "lower"}),
            (normal(3, 4), {"q": 0.7, "axis": 1, "method": "higher"}),
            (normal(3, 4), {"q": 0.7, "axis": 1, "method": "nearest"}),
        ],
    ),
    "median": Row(
        lambda t, x, axis=None, keepdims=False: t.quantile(x, 0.5, axis, keepdims),
        [(normal(3, 4), {}), (normal(3, 5), {"axis": 1}), (normal(4, 2), {"axis": 0})],
    ),
    "min_max": Row(
        reduction(lambda t, x, a, k: (x.amin(a, k), x.amax(a, k))),
        [*over_axes(normal, empty=False)[3:], *WHOLE],
    ),
    "moments": Row(
        reduction(lambda t, x, a, k: (x.mean(a, k), x.var(a, correction=0, keepdim=k))),
        over_axes(normal, empty=False)[3:],
    ),
    "normalize_moments": Row(
        lambda t, n, s, q, shift=0.0: (s / n + shift, q / n - (s / n) ** 2),
        [
            (uniform(2, 4), normal(3), uniform(9, 12, 3)),
            (uniform(2, 4, 3), normal(3), uniform(9, 12, 2, 3), normal()),
        ],
    ),
    "standardize": Row(
        lambda t, x, axis=None, eps=0.0: (
            (x - x.mean(axes(x, axis), True))
            / (x.std(axes(x, axis), correction=0, keepdim=True) + eps)
        ),
        [
            (normal(3, 4), {}),
            (normal(2, 3, 4), {"axis": (0, -1), "eps": 0.1}),
            (normal(2, 3), {"axis": 1}),
        ],
    ),
    "clip_by_norm": Row(
        clipped,
        [
            (normal(3, 4), np.array(0.5), {}),
            (normal(3, 4), np.array(50.0), {}),
            (normal(2, 3, 4), np.array(2.0), {"axis": (0, 2)}),
        ],
    ),
    "clip_by_avg_norm": Row(
        lambda t, x, c, axis=None: clipped(t, x, c, axis, True),
        [(normal(3, 4), np.array(0.1), {}), (normal(2, 3, 4), np.array(0.3), {"axis": 1})],
    ),
    "entropy": Row(shares("nats"), chances()),
    "shannon_entropy": Row(shares("bits"), chances()),
    "log_entropy": Row(shares("log"), chances()),
    "euclidean_distance": Row(distance(lambda t, a, b, total: total((a - b) ** 2).sqrt()), apart()),
    "manhattan_distance": Row(distance(lambda t, a, b, total: total((a - b).abs())), apart()),
    "jaccard_distance": Row(
        distance(lambda t, a, b, total: 1 - total(a.minimum(b)) / total(a.maximum(b))), apart()
    ),
    "cosine_similarity": Row(distance(cosine), apart()),
    "cosine_separation": Row(distance(lambda t, a, b, total: 1 - cosine(t, a, b, total)), apart()),
    "hamming_distance": Row(
        distance(lambda t, a, b, total: total((a != b).long())),
        [
            (ints(0, 3, 3, 4), ints(0, 3, 3, 4), {}),
            (ints(0, 3, 3, 4), ints(0, 3, 4), {"axis": -1, "keepdims": True}),
            (normal(0, 2), normal(2), {}),
        ],
    ),
    "merge_avg": Row(
        lambda t, *xs: sum(xs[1:], xs[0]) / len(xs),
        [(normal(2, 3), normal(3), normal()), (normal(0, 2),), (ints(0, 9, 3), ints(0, 9, 3))],
    ),
    "merge_max": Row(
        lambda t, *xs: t.stack(xs).amax(0),
        [
            (normal(2, 3), normal(2, 3), normal(2, 3)),
            (np.array([1.0, 2.0]), np.array([1.0, 0.0]), np.array([1.0, 2.0])),
            (ints(0, 9, 3), ints(0, 9, 3)),
        ],
    ),
    "merge_max_index": Row(
        lambda t, *xs: t.stack(xs).argmax(0),
        [(normal(2, 3), normal(2, 3), normal(2, 3)), (ints(0, 99, 3), ints(0, 99, 3))],
    ),
}


def grid(t: Any, *xs: Any, indexing: str = "xy") -> Any:
    return t.meshgrid(*xs, indexing=indexing)


MATRICES: dict[str, Row] = {
    "diag_part": Row(
        lambda t, x, k=0: x.diagonal(k, -2, -1),
        [(normal(3, 4), {}), (normal(2, 3, 3), {"k": -1}), (normal(0, 2), {})],
    ),
    "trace": Row(
        lambda t, x, k=0: x.diagonal(k, -2, -1).sum(-1),
        [(normal(3, 3), {}), (normal(2, 3, 4), {"k": 1}), (ints(0, 9, 2, 2), {})],
    ),
    "set_diag": Row(
        lambda t, x, d, k=0: t.diagonal_scatter(x, d, k, -2, -1),
        [
            (normal(3, 3), normal(3), {}),
            (normal(2, 3, 4), normal(2, 3), {"k": 1}),
            (normal(4, 2), normal(2), {"k": -2}),
        ],
    ),
    "meshgrid": Row(
        grid,
        [
            (normal(2), normal(3), {}),
            (normal(2), normal(3), normal(4), {"indexing": "ij"}),
            (normal(2), normal(), normal(0), {}),
            (normal(3), {}),
        ],
    ),
    "kron": Row(
        "kron",
        [
            (normal(2, 3), normal(2, 2)),
            (normal(2), normal(2, 2)),
            (normal(2, 1, 2), normal(3)),
            (normal(), normal(0, 2)),
        ],
    ),
    "eye_like": Row(
        lambda t, x, k=0: t.ones_like(x).triu(k).tril(k),
        [(normal(3, 4), {}), (normal(3, 3), {"k": -1}), (ints(0, 2, 0, 2), {})],
    ),
    "diff": Row(
        lambda t, x, n=1, axis=-1: t.diff(x, n, axis),
        [
            (normal(3, 4), {}),
            (normal(4, 2), {"n": 2, "axis": 0}),
            (normal(2, 1), {}),
            (ints(0, 9, 5), {}),
        ],
    ),
}

BITS: dict[str, Row] = {
    "bitwise_and": Row("bitwise_and", integers(2)),
    "bitwise_or": Row("bitwise_or", integers(2)),
    "bitwise_xor": Row("bitwise_xor", integers(2)),
    "bitwise_not": Row(
        "bitwise_not", [(a,) for (a,) in integers(1)] + [(np.array([True, False]),)]
    ),
    "left_shift": shift("bitwise_left_shift"),
    "right_shift": shift("bitwise_right_shift"),
    "rotate_left": Row(lambda t, x, n: rotated(t, x, n, True), ROTATIONS),
    "rotate_right": Row(lambda t, x, n: rotated(t, x, n, False), ROTATIONS),
    "popcount": Row(
        lambda t, x: popcount(t, x).to(x.dtype),
        [
            (ints(-99, 99, 3, 4),),
            (ints(-99, 99, 5, dtype="int8"),),
            (ints(0, 255, 5, dtype="uint8"),),
        ],
    ),
    "bits_hamming_distance": Row(
        lambda t, a, b, axis=None, keepdims=False: total(popcount(t, a ^ b), axis, keepdims),
        [
            (ints(-99, 99, 3, 4), ints(-99, 99, 4), {}),
            (ints(0, 99, 2, 3, dtype="uint8"), ints(0, 99, 3, dtype="uint8"), {"axis": 1}),
        ],
    ),
    "bit_cast": Row(
        lambda t, x, dtype: x.view(getattr(t, dtype)),
        [
            (ints(-99, 99, 2, 3), {"dtype": "float64"}),
            (ints(0, 99, 3, dtype="int16"), {"dtype": "uint16"}),
        ],
    ),
}

ROWS = {**FUNCTIONS, **REDUCTIONS, **MATRICES, **BITS}
