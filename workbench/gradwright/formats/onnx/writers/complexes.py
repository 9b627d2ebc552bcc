"""Complex tensors, which ONNX's operators do not take: pairs of numbers on a last axis.

What is linear goes through both parts alike; the rest is arithmetic of parts.
"""

from __future__ import annotations

from typing import Any

from ....graph import Tensor
from ....spec import kind, normalize_axis
from ..node import cast, op
from ..nodes import Parts, paired, spelled

_LINEAR = (
    *("add", "sub", "neg", "add_n", "identity", "stop_gradient", "copy", "sum", "mean", "cumsum"),
    *("reshape", "reshape_like", "flatten", "transpose", "swapaxes", "expand_dims", "squeeze"),
    *("concat", "stack", "split", "unstack", "split_like", "strided_slice", "strided_slice_grad"),
    *("put_slice", "pad", "pad_grad", "tile", "tile_grad", "flip", "roll", "shift", "where"),
    *("gather", "gather_grad", "gather_nd", "gather_nd_grad", "take_along_axis"),
    *("take_along_axis_grad", "broadcast_to", "broadcast_like", "sum_like", "zeros_like", "diag"),
    *("diag_grad", "set_diag", "tril", "triu", "band_part", "frame", "overlap_add", "repeat"),
    *("cut_or_pad_like", "boolean_mask", "boolean_mask_grad", "im2col", "col2im"),
)


@paired(*_LINEAR)
def linear(of: Any, *xs: Any) -> Any:
    """Apply an op to the real and to the imaginary parts; a real tensor has no imaginary one."""

    def part(x: Any, i: int) -> Any:
        if isinstance(x, Parts):
            return x[i]
        if x is None or i == 0 or kind(x.dtype) not in "f":
            return x
        return op("zeros_like")(x)

    re, im = (of(*(part(x, i) for x in xs)) for i in (0, 1))
    if isinstance(re, tuple):
        return [Parts(a, b) for a, b in zip(re, im, strict=True)]
    return Parts(re, im)


@paired("mul")
def mul(of: Any, a: Any, b: Any) -> Parts:
    if not isinstance(a, Parts):
        a, b = b, a
    if not isinstance(b, Parts):
        return Parts(a.re * b, a.im * b)
    return Parts(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


@paired("matmul")
def matmul(of: Any, a: Any, b: Any) -> Parts:
    if isinstance(a, Parts) and isinstance(b, Parts):
        return Parts(a.re @ b.re - a.im @ b.im, a.re @ b.im + a.im @ b.re)
    if isinstance(a, Parts):
        return Parts(a.re @ b, a.im @ b)
    return Parts(a @ b.re, a @ b.im)


@paired("square")
def square(of: Any, x: Parts) -> Parts:
    return mul(of, x, x)


@paired("div")
def div(of: Any, a: Any, b: Any) -> Parts:
    """Multiply by the conjugate; the divisor is scaled, so that its square does not overflow."""
    if not isinstance(b, Parts):
        return Parts(a.re / b, a.im / b)
    scale = op("maximum")(abs(b.re), abs(b.im))
    scale = op("where")(scale == 0.0, 1.0, scale)
    re, im = b.re / scale, b.im / scale
    down = (re * re + im * im) * scale
    if not isinstance(a, Parts):
        return Parts(a * re / down, -(a * im) / down)
    return Parts((a.re * re + a.im * im) / down, (a.im * re - a.re * im) / down)


@paired("reciprocal")
def reciprocal(of: Any, x: Parts) -> Parts:
    return div(of, op("ones_like")(x.re), x)


@paired("exp")
def exp(of: Any, x: Parts) -> Parts:
    size = op("exp")(x.re)
    return Parts(size * op("cos")(x.im), size * op("sin")(x.im))


@paired("conj")
def conj(of: Any, x: Parts) -> Parts:
    return Parts(op("identity")(x.re), -x.im)


@paired("real", "imag")
def one_part(of: Any, x: Parts) -> Any:
    return op("identity")(x.re if of.name == "real" else x.im)


@paired("abs")
def modulus(of: Any, x: Parts) -> Any:
    return op("hypot")(x.re, x.im)


@paired("sign")
def direction(of: Any, x: Parts) -> Parts:
    size = op("hypot")(x.re, x.im)
    safe = op("where")(size == 0.0, 1.0, size)
    return Parts(x.re / safe, x.im / safe)


@paired("ones_like")
def ones_like(of: Any, x: Parts) -> Parts:
    return Parts(of(x.re), op("zeros_like")(x.re))


@paired("equal", "not_equal")
def equal(of: Any, a: Any, b: Any) -> Any:
    (p, q), (r, s) = (
        x if isinstance(x, Parts) else (x, op("zeros_like")(x)) for x in (a, b)
    )  # fmt: skip
    both = op("logical_and" if of.name == "equal" else "logical_or")
    return both(of(p, r), of(q, s))


@paired("complex")
def from_parts(of: Any, re: Tensor, im: Tensor) -> Parts:
    shape = of.infer(re.spec, im.spec).shape
    whole = op("broadcast_to", shape=shape)
    return Parts(*(t if t.shape == shape else whole(t) for t in (re, im)))


@paired("view_as_real", "view_as_complex")
def as_they_are(of: Any, x: Any) -> Any:
    """Hand pairs on: they are the same numbers."""
    if isinstance(x, Parts):
        return op("stack", axis=-1)(x.re, x.im)
    return Parts(x[..., 0], x[..., 1])


@paired("cast")
def converted(of: Any, x: Any) -> Any:
    wide = "float64" if of.dtype.name == "complex128" else "float32"
    if not isinstance(x, Parts):
        re = cast(x, wide)
        return Parts(re, op("zeros_like")(re))
    return Parts(cast(x.re, wide), cast(x.im, wide)) if of.dtype.kind == "c" else of(x.re)


# -- Fourier transforms ----------------------------------------------------------------------------


@paired("fft", "ifft", "rfft")
def transform(of: Any, x: Any) -> Any:
    """Write a DFT, which takes pairs, or single numbers on a last axis."""
    re = x.re if isinstance(x, Parts) else x
    axis = normalize_axis(of.axis, re.rank)
    n = of.length(re.shape[axis])
    pairs = op("stack", axis=-1)(*x) if isinstance(x, Parts) else op("expand_dims", axis=-1)(x)
    pairs = _fitted(pairs, axis, n)
    inverse = of.name == "ifft"
    made = op("dft", axis=axis, inverse=inverse, onesided=of.name == "rfft")(pairs)
    made = _scaled(made, n, of.norm, inverse)
    return Parts(made[..., 0], made[..., 1])


def _fitted(x: Any, axis: int, n: Any) -> Any:
    """Return an axis cut or filled up to n elements."""
    if x.shape[axis] == n:
        return x
    like = op("full", shape=(*x.shape[:axis], n, *x.shape[axis + 1 :]), dtype=x.dtype)()
    return op("cut_or_pad_like", axis=axis)(x, like)


def _scaled(x: Any, n: Any, norm: str, inverse: bool) -> Any:
    """Divide by n, or its root, where the norm says so and DFT does not; or undo it."""
    if norm == ("forward" if inverse else "backward"):
        return x * _count(n, x) if inverse else x
    if norm == "ortho":
        root = op("sqrt")(_count(n, x))
        return x * root if inverse else x / root
    return x if inverse else x / _count(n, x)


def _count(n: Any, x: Any) -> Any:
    return cast(op("full", shape=(), fill_value=n, dtype="int64")(), x.dtype)


@paired("irfft")
def irfft(of: Any, x: Parts) -> Any:
    """Transform the bins back, of which all but the first and a middle one stand for two."""
    axis = normalize_axis(of.axis, x.re.rank)
    n = of.length(x.re.shape[axis])
    bins = _weighted(Parts(*(_fitted(p, axis, n // 2 + 1) for p in x)), axis, n)
    return _back(bins, axis, n, of.norm)


@paired("rfft_grad")
def rfft_grad(of: Any, g: Parts, x: Any) -> Any:
    axis = normalize_axis(of.axis, x.rank)
    n = of.length(x.shape[axis])
    y = _back(g, axis, n, {"backward": "forward", "forward": "backward"}.get(of.norm, of.norm))
    return _fitted(y, axis, x.shape[axis])


def _back(bins: Parts, axis: int, n: Any, norm: str) -> Any:
    """Return the real part of the inverse transform of n bins, of which some are given."""
    whole = op("stack", axis=-1)(*(_fitted(p, axis, n) for p in bins))
    made = op("dft", axis=axis, inverse=True)(whole)
    return _scaled(made[..., 0], n, norm, True)


@paired("irfft_grad")
def irfft_grad(of: Any, g: Tensor, x: Any) -> Parts:
    axis = normalize_axis(of.axis, g.rank)
    n = g.shape[axis]
    norm = {"backward": "forward", "forward": "backward"}.get(of.norm, of.norm)
    bins = _weighted(transform(op("rfft", axis=axis, norm=norm), g), axis, n)
    like = x.re if isinstance(x, Parts) else x
    return Parts(*(_fitted(p, axis, like.shape[axis]) for p in bins))


def _weighted(bins: Parts, axis: int, n: Any) -> Parts:
    """Double the bins that stand for two."""
    m = n // 2 + 1
    number = op("arange", start=m, dtype="int64")()
    size = op("full", shape=(), fill_value=n, dtype="int64")()
    alone = (number == 0) | (number * 2 == size)
    weight = op("where")(alone, cast(op("ones_like")(number), bins.re.dtype), 2.0)
    after = bins.re.rank - axis - 1
    weight = op("reshape", shape=(-1, *(1,) * after))(weight)
    return Parts(bins.re * weight, bins.im * weight)


@spelled("irfft")
def irfft_of_real(of: Any, x: Tensor) -> Any:
    return irfft(of, Parts(x, op("zeros_like")(x)))
