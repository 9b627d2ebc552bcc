"""Images and windows: what no other library has, or tells otherwise."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import LoweringError, ShapeError

CNN, IMAGE = gw.cnn, gw.image


def run(function: Any, *arrays: Any, **attrs: Any) -> Any:
    g = gw.Graph()
    y = function(*(g.constant(np.asarray(a)) for a in arrays), **attrs)
    found = list(g.output({}, *(y if isinstance(y, tuple) else (y,))).values())
    return found if isinstance(y, tuple) else found[0]


def slope(function: Any, x: Any, **attrs: Any) -> Any:
    g = gw.Graph()
    v = g.constant(np.asarray(x))
    (dx,) = gw.gradients(function(v, **attrs).sum(), [v])
    return g.output({}, dx)[dx.name]


# -- random crops ------------------------------------------------------------------------------


def test_random_crops_are_parts_and_reach_all_places() -> None:
    x = np.arange(20.0).reshape(4, 5)
    g = gw.Graph()
    y = IMAGE.random_crop(g.constant(x), (3, 2))
    seen = {(r, c): 0 for r in range(2) for c in range(4)}
    with gw.Session(g, seed=5) as session:
        for step in range(400):
            part = session.run(y, step=step)
            row, column = divmod(int(part[0, 0]), 5)
            np.testing.assert_array_equal(part, x[row : row + 3, column : column + 2])
            seen[row, column] += 1
    expected, deviation = 400 / 8, (400 / 8 * 7 / 8) ** 0.5
    assert all(abs(n - expected) < 5 * deviation for n in seen.values())


def test_random_crops_of_one_step_and_their_gradient_agree() -> None:
    g = gw.Graph()
    x = g.variable("x", (6,), init=2.0)
    y = IMAGE.random_crop(x, (2,))
    (dx,) = gw.gradients((y * y).sum(), [x])
    other = IMAGE.random_crop(g.constant(np.arange(600)), (2,))
    first = IMAGE.random_crop(g.constant(np.arange(600)), (2,))
    with gw.Session(g, seed=1) as session:
        assert sorted(session.run(dx, step=3).tolist()) == [0, 0, 0, 0, 4, 4]
        assert session.run(other, step=3).tolist() != session.run(first, step=3).tolist()


# -- windows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("after", [0, 1])
def test_ceil_mode_has_no_window_that_starts_behind_the_image(
    n: int, kernel: int, stride: int, after: int
) -> None:
    before = int(kernel > 1)
    if kernel > n + before + after or after >= kernel:
        return
    attrs = {"stride": stride, "padding": ((before, after),), "ceil_mode": True}
    found = run(CNN.avg_pool1d, np.ones((1, 1, n)), kernel_size=kernel, **attrs)[0, 0]
    starts = list(range(-before, n, stride))
    full = [s for s in starts if s + kernel <= n + after]
    rest = full[-1] + kernel < n + after  # then one more window, if it starts in the image
    reach = starts[: len(full) + rest]
    wanted = [
        sum(0 <= i < n for i in range(s, s + kernel))
        / sum(i < n + after for i in range(s, s + kernel))
        for s in reach
    ]
    np.testing.assert_allclose(found, wanted)


def test_a_window_of_padding_only_is_refused_once_sizes_are_known() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (1, 1, "L"))
    y = CNN.max_pool1d(x, 2, stride=1, dilation=3, padding=2)
    assert g.output({"x": np.zeros((1, 1, 4), np.float32)}, y)[y.name].shape == (1, 1, 5)
    with pytest.raises(ShapeError, match="padding only"):
        g.output({"x": np.zeros((1, 1, 1), np.float32)}, y)


def test_with_ceil_mode_the_only_window_may_be_larger_than_the_image() -> None:
    x = np.array([[[1.0, 3.0, 2.0]]])
    assert run(CNN.max_pool1d, x, kernel_size=4, stride=2, ceil_mode=True).tolist() == [[[3.0]]]
    assert run(CNN.avg_pool1d, x, kernel_size=4, stride=2, ceil_mode=True).tolist() == [[[2.0]]]
    with pytest.raises(ShapeError, match="beyond the padded image"):
        run(CNN.max_pool1d, x, kernel_size=5, stride=2, ceil_mode=True)


@pytest.mark.parametrize("stride", [1, 2])
def test_an_infinite_cotangent_stays_where_the_largest_element_was(stride: int) -> None:
    g = gw.Graph()
    x = g.constant([[[1.0, 2.0, 4.0, 3.0]]])
    y = CNN.max_pool1d(x, 2, stride=stride)
    seed = np.full(y.shape, np.inf)
    (dx,) = gw.gradients((y * seed).sum(), [x])
    assert g.output({}, dx)[dx.name].tolist() == [[[0.0, np.inf, np.inf, 0.0]]]


def test_norms_over_channels_square_halves_in_float32() -> None:
    x = np.full((1, 1, 2), 300.0, np.float16)  # 300² is beyond float16
    y = run(CNN.local_response_norm, x, size=1, alpha=1.0, beta=0.5)
    np.testing.assert_allclose(y, 1.0, rtol=1e-3)


def test_pooling_of_integers() -> None:
    x = np.array([[[-5, -7, -128, -128]]], np.int8)
    assert run(CNN.max_pool1d, x, kernel_size=2, padding=1).tolist() == [[[-5, -7, -128]]]


def test_nan_is_the_largest_and_gets_the_gradient() -> None:
    x = np.array([[[1.0, np.nan, 3.0]]])
    assert slope(CNN.max_pool1d, x, kernel_size=3).tolist() == [[[0, 1, 0]]]


def test_unpooling_undoes_pooling_with_overlaps() -> None:
    x = np.array([[[1.0, 9.0, 3.0, 4.0]]])
    y, at = run(CNN.max_pool_with_argmax, x, kernel_size=2, stride=1)
    back = run(CNN.max_unpool, y, at, kernel_size=2, stride=1)
    assert back.tolist() == [[[0, 9, 0, 4]]]


def test_transposed_convolution_of_a_stated_size() -> None:
    """The size need not be one that the stride gives; it is a linear map and its transpose."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 2, 3)), rng.standard_normal((2, 1, 4))
    for size in (8, 9, 10, 11):
        y = run(CNN.conv_transpose1d, x, w, stride=3, output_shape=(size,))
        full = run(CNN.conv_transpose1d, x, w, stride=3)
        total = 10 - size
        before = total - total // 2
        padded = np.pad(full, ((0, 0), (0, 0), (3, 3)))[:, :, 3 + before :][:, :, :size]
        np.testing.assert_allclose(y, padded)


def test_norms_of_windows_of_zeros_have_no_slope() -> None:
    assert slope(CNN.lp_pool1d, np.zeros((1, 1, 4)), kernel_size=2).tolist() == [[[0, 0, 0, 0]]]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("attrs", [{}, {"dilation": 2, "padding": 3}, {"padding": "same"}])
def test_channels_of_their_own_are_convolved_as_one_by_one(n: int, attrs: dict[str, Any]) -> None:
    rng = np.random.default_rng(n)
    conv = getattr(CNN, f"conv{n}d")
    x, w = rng.standard_normal((2, 3, *(5, 4, 3)[:n])), rng.standard_normal((3, 1, *(2, 2, 2)[:n]))
    whole = run(conv, x, w, groups=3, **attrs)
    parts = [run(conv, x[:, i : i + 1], w[i : i + 1], **attrs) for i in range(3)]
    np.testing.assert_allclose(whole, np.concatenate(parts, 1), atol=1e-12)


@pytest.mark.parametrize(("channels", "out"), [(1, 6), (6, 1)])
def test_both_ways_back_through_a_convolution_agree(channels: int, out: int) -> None:
    """With few results per image columns are added up, else kernels are turned."""
    rng = np.random.default_rng(5)
    x, h = rng.standard_normal((2, 2, channels, 5, 4))
    w = rng.standard_normal((out, channels, 3, 2))
    attrs = {"padding": ((1, 2), (0, 1)), "dilation": (1, 2)}
    g = gw.Graph()
    v = g.constant(x)
    y = CNN.conv2d(v, g.constant(w), **attrs)
    seed = rng.standard_normal(y.shape)
    (dx,) = gw.gradients([y], [v], [g.constant(seed)])
    found = g.output({}, dx)[dx.name]
    np.testing.assert_allclose((found * h).sum(), (seed * run(CNN.conv2d, h, w, **attrs)).sum())


@pytest.mark.parametrize("include", [False, True])
def test_means_of_large_windows_are_taken_axis_by_axis(
    include: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).standard_normal((2, 2, 9, 11))
    attrs: dict[str, Any] = {"kernel_size": (5, 4), "stride": (2, 3), "padding": (2, 1)}
    attrs |= {"dilation": (1, 2), "ceil_mode": True, "count_include_pad": include}
    g = gw.Graph()
    v = g.constant(x)
    y = CNN.avg_pool2d(v, **attrs)
    found = [y, *gw.gradients((y * y).sum(), [v])]
    fast = g.output({}, *found).values()
    monkeypatch.setattr("gradwright.ops.convolutions.averages.FEW", 100)
    for a, b in zip(fast, g.output({}, *found).values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("odd", [2.0, np.nan, -np.inf])
def test_the_largest_of_large_windows_is_found_axis_by_axis(
    odd: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (2, 2, 9, 11)).astype(np.float64)
    x[rng.uniform(size=x.shape) < (0.7 if odd == -np.inf else 0.05)] = odd
    attrs: dict[str, Any] = {"kernel_size": (5, 4), "stride": (2, 3), "padding": (2, 1)}
    attrs |= {"dilation": (1, 2), "ceil_mode": True}
    g = gw.Graph()
    v = g.constant(x)
    y, places = CNN.max_pool_with_argmax(v, **attrs)
    (dx,) = gw.gradients((y * y * rng.standard_normal(y.shape)).sum(), [v])
    (again,) = gw.gradients((dx * x[::-1]).sum(), [v])  # through Tap, the transpose
    monkeypatch.setattr("gradwright.ops.convolutions.pooling.MANY", 1)
    fast = g.output({}, y, places, dx, again).values()
    monkeypatch.setattr("gradwright.ops.convolutions.pooling.FEW", 100)
    monkeypatch.setattr("gradwright.ops.convolutions.pooling.MANY", 100)
    for a, b in zip(fast, g.output({}, y, places, dx, again).values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_rows_of_large_images_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    attrs: dict[str, Any] = {"stride": (2, 1), "padding": ((1, 0), (2, 1)), "dilation": (1, 2)}
    g = gw.Graph()
    x, w = (g.constant(rng.standard_normal(s)) for s in ((2, 4, 9, 6), (6, 2, 3, 2)))
    y = CNN.conv2d(x, w, groups=2, **attrs)
    found = [y, *gw.gradients((y * y).sum(), [x, w])]
    whole = g.output({}, *found).values()
    monkeypatch.setattr("gradwright.ops.convolutions.windows.LARGEST", 500)
    for a, b in zip(whole, g.output({}, *found).values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_an_infinite_element_reaches_only_the_taps_that_see_it() -> None:
    x = np.ones((1, 2, 4, 4))
    x[0, 0, 0, 3] = np.inf
    g = gw.Graph()
    w = g.constant(np.ones((2, 1, 2, 2)))
    (dw,) = gw.gradients(CNN.conv2d(g.constant(x), w, groups=2).sum(), [w])
    assert g.output({}, dw)[dw.name][0, 0].tolist() == [[9.0, np.inf], [9.0, 9.0]]


# -- resizing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n, m", [(14, 18), (10, 56), (23, 13), (11, 15), (1, 4), (5, 1)])
def test_nearest_takes_the_element_of_exact_arithmetic(n: int, m: int) -> None:
    """Floats of 7·14/18 or of the scale 18/14 fall just below the whole number they stand for."""
    x = np.arange(float(n)).reshape(1, 1, n)
    wanted = {
        "asymmetric": [i * n // m for i in range(m)],
        "half_pixel": [max(((2 * i + 1) * n - m) // (2 * m), 0) for i in range(m)],
        "align_corners": [i * (n - 1) // max(m - 1, 1) for i in range(m)],
    }
    for transform, places in wanted.items():
        attrs: dict[str, Any] = {"mode": "nearest", "nearest_mode": "floor"}
        attrs["coordinate_transformation_mode"] = transform
        assert run(IMAGE.resize, x, sizes=(m,), **attrs).ravel().tolist() == places
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "roi": (0.0, 1.0)}
    y = run(IMAGE.resize, x, sizes=(m,), extrapolation_value=-1.0, **crop)
    assert y.min() >= 0  # the last element lies on the edge, not behind it


@pytest.mark.parametrize("mode", ["linear", "cubic", "lanczos3", "mitchell", "gaussian", "area"])
@pytest.mark.parametrize("antialias", [False, True])
def test_constants_stay_constant(mode: str, antialias: bool) -> None:
    x = np.full((1, 1, 7, 90), 3.0)
    y = run(IMAGE.resize, x, sizes=(90, 7), mode=mode, antialias=antialias)
    np.testing.assert_allclose(y, 3.0, rtol=1e-12)


@pytest.mark.parametrize("sizes", [(200, 33), (31, 150)])
def test_the_gradient_of_resizing_is_its_transpose(sizes: Any) -> None:
    """Sizes that need several blocks of rows."""
    rng = np.random.default_rng(3)
    x, h = rng.standard_normal((2, 1, 70, 91))
    g = gw.Graph()
    v = g.constant(x[None])
    y = IMAGE.resize(v, sizes=sizes, mode="cubic", antialias=True)
    seed = rng.standard_normal((1, 1, *sizes))
    (dx,) = gw.gradients([y], [v], [g.constant(seed)])
    found = g.output({}, dx)[dx.name]
    moved = run(IMAGE.resize, h[None], sizes=sizes, mode="cubic", antialias=True)
    np.testing.assert_allclose((found * h).sum(), (seed * moved).sum(), rtol=1e-12)


def test_resizing_of_symbolic_images() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("N", 3, "H", "W"))
    whole = IMAGE.resize(x, scales=(2.0, 3.0))
    assert gw.spec.substitute(whole.shape, {"N": 1, "H": 4, "W": 5}) == (1, 3, 8, 15)
    part = IMAGE.resize(x, scales=(1.5, 0.5))
    fed = np.zeros((2, 3, 5, 7), np.float32)
    assert g.output({"x": fed}, part)[part.name].shape == (2, 3, 7, 3)


@pytest.mark.parametrize(("policy", "wanted"), [("not_larger", (4, 6)), ("not_smaller", (6, 9))])
def test_aspect_ratio(policy: str, wanted: tuple[int, int]) -> None:
    x = np.zeros((1, 1, 2, 3))
    y = run(IMAGE.resize, x, sizes=(4, 9), keep_aspect_ratio_policy=policy)
    assert y.shape[2:] == wanted


# -- regions and colours -----------------------------------------------------------------------


def test_roi_align_takes_the_largest_weighted_element() -> None:
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    roi = np.array([[0.5, 0.5, 2.5, 2.5]])
    attrs = {"size": (1, 1), "sampling_ratio": 1, "mode": "max"}
    # The one point is (1, 1): all its weight is on the element 5.
    assert run(IMAGE.roi_align, x, roi, np.array([0]), **attrs).item() == 5.0


@pytest.mark.parametrize("number", [2, -3])
def test_an_image_that_is_not_there(number: int) -> None:
    x, boxes = np.zeros((2, 1, 3, 3)), np.array([[0.0, 0.0, 1.0, 1.0]])
    for op in (IMAGE.roi_align, IMAGE.crop_and_resize):
        with pytest.raises((LoweringError, ShapeError), match=f"index {number} is out of range"):
            run(op, x, boxes, np.array([number]), size=(1, 1))


def test_a_region_that_is_nan_is_zero() -> None:
    x, roi = np.ones((1, 1, 4, 4)), np.array([[np.nan, 0, 1, 1], [0, 0, 2, np.inf], [1, 1, 3, 3]])
    y = run(IMAGE.roi_align, x, roi, np.zeros(3, np.int64), size=(1, 1))
    assert y.ravel().tolist() == [0, 0, 1]


def test_a_score_that_is_nan_takes_no_box_and_hides_none() -> None:
    boxes = np.array([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0]]])
    scores = np.array([[[np.nan, 0.5, 0.7]]])
    assert run(IMAGE.non_max_suppression, boxes, scores)[:, 2].tolist() == [2, 1]


def test_roi_align_gives_regions_no_gradient() -> None:
    g = gw.Graph()
    x, rois = g.constant(np.ones((1, 1, 4, 4))), g.constant(np.array([[0.0, 0.0, 2.0, 2.0]]))
    y = IMAGE.roi_align(x, rois, g.constant([0]), (2, 2))
    (d,) = gw.gradients(y.sum(), [rois], unreachable="zero")
    assert not g.output({}, d)[d.name].any()


@pytest.mark.parametrize(
    "there, back", [("rgb_to_hsv", "hsv_to_rgb"), ("rgb_to_yiq", "yiq_to_rgb")]
)
def test_colours_come_back(there: str, back: str) -> None:
    x = np.random.default_rng(1).uniform(0, 1, (5, 3, 4, 4))
    y = run(getattr(IMAGE, back), run(getattr(IMAGE, there), x))
    np.testing.assert_allclose(y, x, atol=1e-12)


def test_grey_has_no_hue_and_a_finite_gradient() -> None:
    x = np.repeat([[0.0, 0.5, 1.0]], 3, 0).reshape(3, 1, 3)
    assert run(IMAGE.rgb_to_hsv, x)[:2].tolist() == [[[0, 0, 0]], [[0, 0, 0]]]
    assert np.isfinite(slope(IMAGE.rgb_to_hsv, x)).all()
    assert np.isfinite(slope(IMAGE.adjust_saturation, x, factor=2.0)).all()


@pytest.mark.parametrize("kind", ["BMP", "PNG", "TIFF", "PPM", "WEBP"])
def test_images_are_decoded_as_they_were_encoded(kind: str) -> None:
    pil = pytest.importorskip("PIL.Image", reason="no Pillow: pip install -e '.[images]'")
    pixels = np.random.default_rng(2).integers(0, 256, (5, 7, 3), np.uint8)
    file = io.BytesIO()
    pil.fromarray(pixels).save(file, kind, **({"lossless": True} if kind == "WEBP" else {}))
    data = np.frombuffer(file.getvalue(), np.uint8)
    graph = gw.Graph()
    x = graph.placeholder("x", (None,), "uint8")
    ys = [gw.image.decode_image(x, f, name=f) for f in ("RGB", "BGR", "Grayscale")]
    colours, turned, grey = graph.output({"x": data}, *ys).values()
    assert (colours == pixels).all() and (turned == pixels[..., ::-1]).all()
    luma = pixels @ [0.299, 0.587, 0.114]
    assert grey.shape == (5, 7, 1) and np.abs(grey[..., 0] - luma).max() <= 1
    with pytest.raises(gw.errors.GraphError, match="are no image"):
        graph.output({"x": data[: len(data) // 3]}, "RGB")


def test_what_is_no_image_is_refused() -> None:
    pytest.importorskip("PIL.Image", reason="no Pillow: pip install -e '.[images]'")
    graph = gw.Graph()
    y = gw.image.decode_image(graph.placeholder("x", (None,), "uint8"), name="y")
    bomb = b"P5 100000 100000 255 "
    for data in (b"", b"GIF89a", b"%!PS-Adobe-3.0 EPSF-3.0", bomb, bytes(100)):
        with pytest.raises(gw.errors.GraphError, match="are no image"):
            graph.output({"x": np.frombuffer(data, "uint8")}, y)
