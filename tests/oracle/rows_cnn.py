"""Convolutions and poolings of all kinds beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.oracle.rows import Array, Case, Row, normal

SIGNAL, IMAGE, VOLUME = normal(2, 4, 9), normal(2, 4, 6, 5), normal(2, 2, 4, 5, 3)
ANY = {1: SIGNAL, 2: IMAGE, 3: VOLUME}


def F(name: str) -> str:
    return f"nn.functional.{name}"


def convolution(n: int) -> list[Case]:
    """Return convolutions of ``n`` axes."""
    x = ANY[n]
    c = x.shape[1]
    k = (3, 2, 2)[:n]
    return [
        (x, normal(3, c, *k), normal(3)),
        (x, normal(2, c // 2, *k), {"groups": 2, "stride": 2, "padding": (1, 2, 0)[:n]}),
        (x, normal(2, c, *k), {"dilation": 2, "padding": "same"}),
        (x[:0], normal(2, c, *k)),
    ]


def transposed(n: int) -> list[Case]:
    """Return transposed convolutions of ``n`` axes."""
    x = ANY[n]
    c = x.shape[1]
    k = (3, 2, 2)[:n]
    return [
        (x, normal(c, 3, *k), normal(3)),
        (x, normal(c, 2, *k), {"groups": 2, "stride": 2, "output_padding": (1, 0, 1)[:n]}),
        (x, normal(c, 1, *k), {"dilation": 2, "padding": 1, "stride": 3}),
        (x[:0], normal(c, 2, *k)),
    ]


def conv_transpose(n: int) -> Callable[..., Any]:
    def theirs(t: Any, x: Any, w: Any, b: Any = None, **attrs: Any) -> Any:
        return getattr(t.nn.functional, f"conv_transpose{n}d")(x, w, b, **attrs)

    return theirs


def pools(n: int, *more: Case) -> list[Case]:
    """Return poolings of ``n`` axes."""
    x = ANY[n]
    return [
        (x, {"kernel_size": 2}),
        (x, {"kernel_size": (3, 2, 2)[:n], "stride": (2, 1, 1)[:n], "padding": 1}),
        (x, {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
        (x[:0], {"kernel_size": 2}),
        *more,
    ]


def average(n: int) -> list[Case]:
    shared = {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}
    return pools(n, (ANY[n], {**shared, "count_include_pad": False}), (ANY[n], shared))


def adaptive(n: int) -> list[Case]:
    x = ANY[n]
    sizes = ((4, 3, 2)[:n], (1,) * n, (7, 4, 5)[:n], x.shape[2:])
    return [(x, {"output_size": m}) for m in sizes] + [(x[:0], {"output_size": 2})]


def lp_pool(n: int) -> Row:
    def theirs(t: Any, x: Any, p: int = 2, padding: int = 0, **attrs: Any) -> Any:
        x = t.nn.functional.pad(x.abs(), (padding,) * (2 * n))
        return getattr(t.nn.functional, f"lp_pool{n}d")(x, float(p), **attrs)

    x = ANY[n]
    return Row(
        theirs,
        [
            (x, {"kernel_size": 2}),
            (x, {"kernel_size": 3, "stride": 1, "padding": 1, "p": 3}),
            (x, {"kernel_size": 2, "stride": 2, "p": 1}),
        ],
    )


def depthwise(t: Any, x: Any, w: Any, b: Any = None, **attrs: Any) -> Any:
    return t.nn.functional.conv2d(x, w, b, groups=x.shape[1], **attrs)


def separable(t: Any, x: Any, d: Any, p: Any, b: Any = None, **attrs: Any) -> Any:
    return t.nn.functional.conv2d(depthwise(t, x, d, **attrs), p, b)


def deformed(
    t: Any,
    x: Any,
    w: Any,
    offset: Any,
    b: Any = None,
    mask: Any = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    offset_groups: int = 1,
) -> Any:
    """Deformable convolution by one grid_sample per kernel element and group of offsets."""
    n, c, h, wide = x.shape
    kh, kw = w.shape[2:]
    rows, columns = offset.shape[2:]
    parts = []
    for group in range(offset_groups):
        own = x[:, group * c // offset_groups : (group + 1) * c // offset_groups]
        for number in range(kh * kw):
            i, j = divmod(number, kw)
            at = (group * kh * kw + number) * 2
            y = t.arange(rows)[:, None] * stride - padding + i * dilation + offset[:, at]
            z = t.arange(columns) * stride - padding + j * dilation + offset[:, at + 1]
            grid = t.stack([(2 * z + 1) / wide - 1, (2 * y + 1) / h - 1], -1)
            seen = t.nn.functional.grid_sample(own, grid.to(x.dtype), align_corners=False)
            parts.append(seen if mask is None else seen * mask[:, at // 2, None])
    groups_of = [t.stack(parts[g * kh * kw : (g + 1) * kh * kw], 2) for g in range(offset_groups)]
    columns_ = t.cat(groups_of, 1).reshape(n, groups, c // groups, kh * kw, rows, columns)
    kernels = w.reshape(groups, w.shape[0] // groups, c // groups, kh * kw)
    y = t.einsum("ngckpq,gock->ngopq", columns_, kernels).reshape(n, -1, rows, columns)
    return y if b is None else y + b[:, None, None]


def dilated(t: Any, x: Any, w: Any, stride: int = 1, padding: int = 0, dilation: int = 1) -> Any:
    """Grey-scale dilation by unfold."""
    padded = t.nn.functional.pad(x, (padding,) * 4, value=-np.inf)
    views = padded.unfold(2, (w.shape[1] - 1) * dilation + 1, stride)
    views = views.unfold(3, (w.shape[2] - 1) * dilation + 1, stride)[..., ::dilation, ::dilation]
    return (views + w[:, None, None]).amax((-2, -1))


def argmaxed(t: Any, x: Any, column_major: bool = False, **attrs: Any) -> Any:
    """Max pooling whose places count the whole tensor."""
    n = x.ndim - 2
    pool = getattr(t.nn.functional, f"max_pool{n}d")
    y, at = pool(x, return_indices=True, **attrs)
    if column_major:
        rows, columns = at // x.shape[3], at % x.shape[3]
        at = columns * x.shape[2] + rows
    planes = t.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * n)
    return y, at + planes * x[0, 0].numel()


def unpooled(t: Any, x: Any, at: Any, **attrs: Any) -> Any:
    if "output_size" in attrs:
        attrs["output_size"] = list(attrs["output_size"])
    return getattr(t.nn.functional, f"max_unpool{x.ndim - 2}d")(x, at, **attrs)


def response(t: Any, x: Any, size: int, alpha: float, beta: float, bias: float) -> Any:
    """Local response norm by a sum over shifted channels."""
    before, after = (size - 1) // 2, size // 2
    padded = t.cat([x[:, :1] * 0] * before + [x * x] + [x[:, :1] * 0] * after, 1)
    total = sum(padded[:, i : i + x.shape[1]] for i in range(size))
    return x / (bias + alpha / size * total) ** beta


def folded(t: Any, x: Any, image_size: Sequence[int], **attrs: Any) -> Any:
    return t.nn.functional.fold(x, image_size, **attrs)


def depth(t: Any, x: Any, block_size: int, mode: str = "dcr") -> Any:
    b, (n, c, h, w) = block_size, x.shape
    if mode == "crd":
        return t.nn.functional.pixel_shuffle(x, b)
    y = t.einsum("nijchw->nchiwj", x.reshape(n, b, b, c // b**2, h, w))
    return y.reshape(n, c // b**2, h * b, w * b)


def space(t: Any, x: Any, block_size: int, mode: str = "dcr") -> Any:
    b, (n, c, h, w) = block_size, x.shape
    if mode == "crd":
        return t.nn.functional.pixel_unshuffle(x, b)
    y = t.einsum("nchiwj->nijchw", x.reshape(n, c, h // b, b, w // b, b))
    return y.reshape(n, c * b**2, h // b, w // b)


def batched(t: Any, x: Any, block_size: int, padding: Any = None) -> Any:
    """Blocks as images, one strided slice each."""
    b = block_size
    if padding:
        x = t.nn.functional.pad(x, (*padding[1], *padding[0]))
    return t.cat([x[:, :, i::b, j::b] for i in range(b) for j in range(b)])


def unbatched(t: Any, x: Any, block_size: int, crops: Any = None) -> Any:
    """Images as blocks, by the pixel shuffle of images side by side."""
    b, n = block_size, x.shape[0] // block_size**2
    wide = x.reshape(b * b, n, *x.shape[1:]).permute(1, 2, 0, 3, 4)
    y = t.nn.functional.pixel_shuffle(wide.reshape(n, -1, *x.shape[2:]), b)
    if crops:
        (top, bottom), (left, right) = crops
        y = y[:, :, top : y.shape[2] - bottom, left : y.shape[3] - right]
    return y


def upsampled(t: Any, x: Any, scale: int = 2) -> Any:
    return t.nn.functional.interpolate(x, scale_factor=scale, mode="nearest")


def places(x: Array) -> Array:
    """Return where a max pooling of pairs finds its winners."""
    return np.argmax(x.reshape(*x.shape[:-1], -1, 2), -1) + 2 * np.arange(x.shape[-1] // 2)


ROWS: dict[str, Row] = {
    **{f"conv{n}d, {n} axes": Row(F(f"conv{n}d"), convolution(n)) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": Row(conv_transpose(n), transposed(n)) for n in (1, 2, 3)},
    "depthwise_conv2d": Row(
        depthwise,
        [
            (IMAGE, normal(8, 1, 3, 2), normal(8), {"stride": 2, "padding": 1}),
            (IMAGE, normal(4, 1, 2, 2), {"dilation": 2}),
        ],
    ),
    "separable_conv2d": Row(
        separable,
        [
            (IMAGE, normal(8, 1, 3, 2), normal(3, 8, 1, 1), normal(3), {"padding": 1}),
            (IMAGE, normal(4, 1, 2, 2), normal(2, 4, 1, 1), {"stride": 2}),
        ],
    ),
    "deform_conv2d": Row(
        deformed,
        [
            (IMAGE, normal(2, 4, 3, 2), normal(2, 12, 4, 4)),
            (
                *(IMAGE, normal(4, 2, 2, 2), normal(2, 16, 4, 3) * 2),
                *(normal(4), normal(2, 8, 4, 3)),
                {"groups": 2, "offset_groups": 2, "stride": 2, "padding": 1},
            ),
            (IMAGE, normal(1, 4, 2, 2), normal(2, 8, 4, 3), {"dilation": 2}),
        ],
    ),
    "dilation2d": Row(
        dilated,
        [
            (IMAGE, normal(4, 3, 2)),
            (IMAGE, normal(4, 2, 2), {"stride": 2, "padding": 1, "dilation": 2}),
        ],
    ),
    **{f"max_pool{n}d, {n} axes": Row(F(f"max_pool{n}d"), pools(n)) for n in (1, 2, 3)},
    **{f"avg_pool{n}d, {n} axes": Row(F(f"avg_pool{n}d"), average(n)) for n in (1, 2, 3)},
    **{f"lp_pool{n}d": lp_pool(n) for n in (1, 2, 3)},
    "global_lp_pool": Row(
        lambda t, x, p=2: t.linalg.vector_norm(x, p, tuple(range(2, x.ndim)), keepdim=True),
        [(IMAGE,), (VOLUME, {"p": 3}), (SIGNAL, {"p": 1})],
    ),
    **{f"adaptive_avg_pool{n}d": Row(F(f"adaptive_avg_pool{n}d"), adaptive(n)) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": Row(F(f"adaptive_max_pool{n}d"), adaptive(n)) for n in (1, 2, 3)},
    "max_pool_with_argmax": Row(
        argmaxed,
        [
            (SIGNAL, {"kernel_size": 3, "stride": 2, "padding": 1}),
            (IMAGE, {"kernel_size": 2, "column_major": True}),
            (VOLUME, {"kernel_size": 2, "stride": 1, "dilation": (2, 1, 1)}),
        ],
    ),
    "max_unpool": Row(
        unpooled,
        [
            (normal(2, 3, 4), places(normal(2, 3, 8)), {"kernel_size": 2}),
            (normal(1, 1, 2, 2), np.array([[[[1, 3], [12, 15]]]]), {"kernel_size": 2}),
            (
                *(normal(1, 1, 2, 2), np.array([[[[1, 3], [12, 24]]]])),
                {"kernel_size": 2, "output_size": (5, 5)},
            ),
        ],
    ),
    "local_response_norm": Row(
        response,
        [(IMAGE, {"size": size, "alpha": 0.3, "beta": 0.6, "bias": 1.5}) for size in (1, 2, 3, 4)],
    ),
    "local_response_norm, odd": Row(
        lambda t, x, size, alpha, beta, bias: t.nn.functional.local_response_norm(
            x, size, alpha, beta, bias
        ),
        [(SIGNAL, {"size": 3, "alpha": 0.3, "beta": 0.75, "bias": 1.0})],
    ),
    "im2col": Row(
        F("unfold"),
        [
            (IMAGE, {"kernel_size": 2}),
            (IMAGE, {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1, "dilation": 2}),
        ],
    ),
    "col2im": Row(
        folded,
        [
            (normal(2, 12, 20), {"image_size": (5, 6), "kernel_size": (2, 2)}),
            (
                normal(1, 4, 16),
                {"image_size": (6, 5), "kernel_size": 2, "stride": (2, 1), "padding": (1, 0)},
            ),
        ],
    ),
    "depth_to_space": Row(
        depth,
        [(normal(2, 8, 3, 2), {"block_size": 2, "mode": mode}) for mode in ("dcr", "crd")],
    ),
    "space_to_depth": Row(
        space,
        [(normal(2, 3, 4, 6), {"block_size": 2, "mode": mode}) for mode in ("dcr", "crd")],
    ),
    "space_to_batch": Row(
        batched,
        [
            (normal(2, 3, 4, 6), {"block_size": 2}),
            (normal(1, 2, 3, 4), {"block_size": 3, "padding": ((2, 1), (0, 2))}),
        ],
    ),
    "batch_to_space": Row(
        unbatched,
        [
            (normal(8, 3, 2, 3), {"block_size": 2}),
            (normal(9, 2, 2, 2), {"block_size": 3, "crops": ((2, 1), (0, 2))}),
        ],
    ),
    **{f"upsampling{n}d": Row(upsampled, [(ANY[n],), (ANY[n], {"scale": 3})]) for n in (1, 2, 3)},
}
