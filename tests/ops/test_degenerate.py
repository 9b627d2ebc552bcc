"""Arguments and sizes at the edge of meaning: what they give, or the error that names them."""

import math
import warnings

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError, GraphError, ShapeError
from gradwright.op import OPS, infer_specs, run_forward
from gradwright.ops.draws import philox
from gradwright.ops.loading import load
from gradwright.spec import spec_of

load()


def run(f, *arrays, **more):
    """Return f's value and the gradients of its sum, on placeholders of the arrays."""
    g = gw.Graph()
    xs = [g.placeholder(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
    y = f(*xs)
    slopes = gw.gradients(y.sum(), [x for x in xs if x.spec.differentiable])
    with gw.Session(g, **more) as session:
        return session.run([y, *slopes], dict(zip(("x0", "x1", "x2"), arrays, strict=False)))


# -- bounds ----------------------------------------------------------------------------------------

BOUNDED = [
    (name, attr)
    for name, op in sorted(OPS.items())
    if op.__module__.startswith("gradwright.")
    for attr, declared in op.attrs.items()
    if declared.bounded
]


@pytest.mark.parametrize(("name", "attr"), BOUNDED)
def test_what_lies_out_of_bounds_is_refused_by_its_name(name, attr):
    declared = OPS[name].attrs[attr]
    needed = {k: 1 for k, v in OPS[name].attrs.items() if v.default is gw.op.REQUIRED}
    outside = [math.nan] if "float" in declared.type else []
    outside += [] if declared.least is None else [type(declared.least)(declared.least - 1)]
    outside += [] if declared.most is None else [type(declared.most)(declared.most + 1)]
    for value in outside:
        with pytest.raises(GraphError, match=f"{attr}={value} is out of bounds"):
            OPS[name](**{**needed, attr: value})


def test_every_epsilon_has_a_bound():
    bounded = {n for n, a in BOUNDED if a == "eps"}
    for name, op in OPS.items():
        if op.__module__.startswith("gradwright.") and "eps" in op.attrs:
            assert name in bounded or "float" not in op.attrs["eps"].type, name


# -- statistics ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("ddof", [0, 1, 2, 3, 7])
def test_more_degrees_of_freedom_than_elements_divide_by_zero(ddof, kernels):
    x = np.array([1.0, 2.0, 4.0])
    with warnings.catch_warnings(action="ignore"):
        wants = np.var(x, ddof=ddof), np.std(x, ddof=ddof), np.var(x[:0], ddof=ddof)
    for f, a, want in zip((gw.var, gw.std, gw.var), (x, x, x[:0]), wants, strict=True):
        value, _ = run(lambda t, f=f: f(t, ddof=ddof), a, kernels=kernels)
        assert np.allclose(value, want, equal_nan=True)


# -- losses ----------------------------------------------------------------------------------------

INFINITE = [
    (np.inf, 1.0, 0.0, 0.0),
    (-np.inf, 0.0, 0.0, 0.0),
    (np.inf, 0.0, np.inf, 1.0),
    (-np.inf, 1.0, np.inf, -1.0),
    (np.inf, 0.5, np.inf, 0.5),
    (800.0, 0.0, 800.0, 1.0),
]


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize(("logit", "label", "loss", "slope"), INFINITE)
def test_infinite_logits_cost_nothing_where_they_are_right(logit, label, loss, slope, kernels):
    label, logit = np.array([label]), np.array([logit])
    value, _, of_logit = run(gw.loss.sigmoid_cross_entropy, label, logit, kernels=kernels)
    assert value == loss and of_logit == slope


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("name", [
    "mean_squared_error", "absolute_difference", "huber", "hinge", "log_loss", "log_cosh",
    "sigmoid_cross_entropy", "smooth_l1", "poisson_nll", "pinball", "softmax_cross_entropy",
    "kl_divergence", "cosine_distance", "mean_pairwise_squared_error", "feature_distillation",
])  # fmt: skip
def test_what_has_no_weight_poisons_nothing(name, kernels):
    rng = np.random.default_rng(4)
    labels, predictions = rng.uniform(0.1, 0.9, (2, 4, 3))
    rows = np.array([1.0, 0.0, 2.0, 0.0])
    f = getattr(gw.loss, name)
    each = OPS[name]().shape_of_each(*(spec_of(a) for a in (labels, predictions)))
    weights = rows.reshape(4, *(1 for _ in each[1:]))
    want = run(f, labels[::2], predictions[::2], weights[::2])
    labels[1], labels[3, 0], predictions[3] = np.nan, np.inf, np.nan
    loss, of_labels, of_predictions, _ = run(f, labels, predictions, weights, kernels=kernels)
    assert np.allclose(loss, want[0], rtol=1e-12)
    assert np.allclose(of_labels[::2], want[1]) and not of_labels[1::2].any()
    assert np.allclose(of_predictions[::2], want[2]) and not of_predictions[1::2].any()
    nothing, *slopes = run(f, labels, predictions, weights * 0, kernels=kernels)
    assert nothing == 0 and not slopes[0].any() and not slopes[1].any()


OF_WEIGHTS = [
    name
    for name, op in sorted(OPS.items())
    if op.namespace == "loss" and "weights" in (p.name for p in op.inputs)
]


def _weighted(name):
    """Yield a loss's samples with weights 1, 0, 1, … by example, and places that have examples."""
    names = [p.name for p in OPS[name].inputs]
    at = names.index("weights")
    for sample in OPS[name].samples(np.random.default_rng(0)):
        xs = [None if x is None else np.asarray(x) for x in sample.inputs]
        xs += [None] * (len(names) - len(xs))
        xs[at] = None
        op = OPS[name](**{**sample.attrs, "reduction": "none"})
        shape = op.infer(*(None if x is None else spec_of(x) for x in xs)).shape
        weights = np.ones((shape[0], *(1 for _ in shape[1:])))
        weights[1 % shape[0]] = 0
        xs[at] = weights
        yield sample.attrs, at, xs, [
            i
            for i, x in enumerate(xs)
            if x is not None and i != at and x.dtype.kind == "f" and x.shape[:1] == shape[:1]
            and names[i] != "projection" and names[i] != "class_weights"
        ]  # fmt: skip


@pytest.mark.parametrize("name", OF_WEIGHTS)
def test_every_loss_leaves_out_what_has_no_weight(name):
    """Values are those of 0.5, a number as good as any, and its slopes are 0.

    But of a contrastive loss, where a row of numbers is a rival of the others in any case.
    """
    for attrs, at, xs, places in _weighted(name):
        row = 1 % len(xs[at])
        for reduction in ("mean_by_weight", "none"):
            op = OPS[name](**{**attrs, "reduction": reduction})
            g = gw.Graph()
            ins = [None if x is None else g.placeholder(f"x{i}", x.shape, x.dtype)
                   for i, x in enumerate(xs)]  # fmt: skip
            y = op(*ins)
            floats = [i for i, x in enumerate(xs) if x is not None and x.dtype.kind == "f"]
            by = [i for i in floats if i != at]
            slopes = gw.gradients(y.sum(), [ins[i] for i in by], unreachable="zero")
            wants = []
            with gw.Session(g, kernels="off") as session:
                for bad in (0.5, np.nan, np.inf, -np.inf)[name == "contrastive" :]:
                    feeds = {f"x{i}": x.copy() for i, x in enumerate(xs) if x is not None}
                    for i in places:
                        feeds[f"x{i}"][row] = bad
                    found, *of_each = session.run([y, *slopes], feeds)
                    wants.append(found)
                    for i, slope in zip(by, of_each, strict=True):
                        assert np.isfinite(slope).all(), (attrs, bad)
                        assert i not in places or not slope[row].any(), (attrs, bad)
            assert all(np.allclose(found, wants[0], rtol=1e-10) for found in wants), attrs


def test_rows_of_no_number_and_no_weight_are_no_rivals():
    a, b = np.random.default_rng(5).standard_normal((2, 4, 3))
    weights = np.array([1.0, 1.0, 0.0, 2.0])
    kept = [0, 1, 3]
    want = run(gw.loss.contrastive, a[kept], b[kept], weights[kept])
    a[2, 0] = np.nan
    found = run(gw.loss.contrastive, a, b, weights)
    assert np.allclose(found[0], want[0])
    for slope, right in zip(found[1:], want[1:], strict=True):
        assert np.allclose(slope[kept], right) and not slope[2].any()


@pytest.mark.parametrize("kernels", ["off", "wait"])
def test_classes_without_weight_may_be_impossible(kernels):
    """A logit of −∞ for one, a label of one beside a NaN, and an ignored example of NaN."""
    labels, of_class = np.array([0, 2, 1]), np.array([1.0, 2.0, 0.0])
    logits = np.array([[0.3, -0.2, -np.inf], [np.nan, 1.0, 2.0], [0.5, 0.1, -np.inf]])
    for f in (gw.loss.sparse_softmax_cross_entropy, gw.loss.nll, gw.loss.multi_margin):
        g = gw.Graph()
        y, x, w = (g.constant(v) for v in (labels, logits, of_class))
        loss = f(y, x, None, w, reduction="sum")
        (slope,) = gw.gradients(loss, [x])
        ignored = f(g.constant([0, -1, 1]), x, ignore_index=-1, reduction="sum")
        (other,) = gw.gradients(ignored, [x])
        with gw.Session(g, kernels=kernels) as session:
            *values, a, b = session.run([loss, ignored, slope, other])
        assert np.isfinite(values).all() and np.isfinite(a).all() and np.isfinite(b).all()
        assert not a[1].any() and not b[1].any()
    g = gw.Graph()
    y, x, w = (g.constant(v) for v in (labels[::2], logits[::2], of_class))
    loss = gw.loss.sparse_softmax_cross_entropy(y, x, None, w, label_smoothing=0.1)
    assert np.isfinite(g.output({}, loss)[loss.name])


def test_sequences_that_do_not_fit_and_have_no_weight():
    labels, x = np.array([[1, 1, 1], [2, 1, 2]]), np.zeros((2, 3, 3))
    g = gw.Graph()
    given = g.constant(x)
    loss = gw.loss.ctc(g.constant(labels), given, g.constant([0.0, 1.0]))
    (slope,) = gw.gradients(loss, [given])
    found = g.output({}, loss, slope)
    assert np.isclose(found[loss.name], 3 * np.log(3)) and not found[slope.name][0].any()


# -- draws and numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(0, 2**32, "uint32"), (0, 2**33, "int64"), (-(2**63), 2**63, "int64"), (0, 2**64, "uint64"),
     (-128, 128, "int8"), (0, 256, "uint8"), (-(2**31), 2**31, "int32"), (2**63, 2**64, "uint64")],
)  # fmt: skip
def test_whole_numbers_of_all_ranges_reach_both_ends(low, high, dtype):
    with gw.Graph() as g:
        y = gw.random.randint((4000,), low, high, dtype=dtype)
    drawn = [int(v) for v in g.output({}, y)[y.name]]
    assert low <= min(drawn) < low + (high - low) // 50
    assert high - (high - low) // 50 - 1 <= max(drawn) < high
    assert abs(sum((v - low) / (high - low) for v in drawn) / 4000 - 0.5) < 0.03


@pytest.mark.parametrize("span", [3, 2**32, 2**33 + 7, 2**63 + 1, 2**64 - 1])
def test_the_upper_half_of_a_product_is_exact(span):
    words = np.random.default_rng(5).integers(0, 2**64, 100, np.uint64)
    found = philox.upper_half(words, np.uint64(span)).tolist()
    assert found == [int(w) * span >> 64 for w in words]


@pytest.mark.parametrize(("stop", "what"), [(math.nan, "stop=nan"), (math.inf, "stop=inf")])
def test_a_range_to_no_number_names_it(stop, what):
    with gw.Graph(), pytest.raises(ShapeError, match=what):
        gw.arange(0.0, stop)


# -- empty batches ---------------------------------------------------------------------------------


def _of_batches(name):
    """Yield samples of an op whose inputs have one leading size, cut to none."""
    for sample in OPS[name].samples(np.random.default_rng(6)):
        xs = [None if x is None else np.asarray(x) for x in sample.inputs]
        if xs and xs[0] is not None and xs[0].ndim and xs[0].dtype.kind not in "OT":
            n = xs[0].shape[0]
            rows = [x is not None and x.ndim > 1 and x.shape[0] == n for x in xs]
            yield sample, [x[:0] if r else x for x, r in zip(xs, rows, strict=True)]


BATCHED = [
    "relu", "gelu", "softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm",
    "instance_norm", "linear", "bias_add", "conv1d", "conv2d", "conv3d", "depthwise_conv2d",
    "conv_transpose2d", "max_pool2d", "avg_pool2d", "lp_pool2d", "adaptive_avg_pool2d",
    "global_avg_pool", "upsampling2d", "resize", "resize_bilinear", "dot_product_attention",
    "scaled_dot_product_attention", "sum", "mean", "var", "std", "cumsum", "sort", "argsort",
    "top_k", "one_hot", "unique", "segment_sum", "matmul", "einsum", "cholesky", "eigh", "svd",
    "qr", "inv", "solve", "det", "rfft", "fft", "ifft", "stft", "rgb_to_grayscale",
    "adjust_contrast", "image_resize", "embedding", "pad", "flip", "roll", "tile", "repeat",
    "concat", "stack", "split", "strided_slice", "mean_squared_error", "softmax_cross_entropy",
    "sparse_softmax_cross_entropy", "huber", "im2col", "local_response_norm", "lrn", "roi_align",
    "dropout", "crop_and_resize",
]  # fmt: skip


@pytest.mark.parametrize("name", [n for n in BATCHED if n in OPS])
def test_batches_of_none_keep_the_shapes_that_are_inferred(name):
    for sample, xs in _of_batches(name):
        op = OPS[name](**sample.attrs)
        try:
            outs = infer_specs(op, [None if x is None else spec_of(x) for x in xs])
        except GradwrightError:
            continue  # a weight or a matrix was cut, too
        if any(x is not None and x.dtype == np.uint64 for x in xs):
            continue
        with np.errstate(all="ignore"):
            ys = run_forward(op, xs)
        for spec, y in zip(outs, ys, strict=True):
            assert y.dtype == spec.dtype
            assert all(
                d == n or not isinstance(d, int) for d, n in zip(spec.shape, y.shape, strict=True)
            )


ALONG_ROWS = {
    *("dropout", "fused_bias_dropout_residual", "flex_attention"),  # a key, or a graph
    *("grouped_matmul", "ggml_grouped_matmul"),  # lengths of the batch
    *("mla_attention", "turbo_quant_attention"),
}
LEARNED = [
    name
    for name, op in sorted(OPS.items())
    if op.__module__.startswith("gradwright.")
    and (op.namespace in ("loss", "cnn", "nn") or name in BATCHED)
    and name not in ALONG_ROWS
]


@pytest.mark.parametrize("name", LEARNED)
def test_gradients_of_batches_of_none_are_zeros_of_the_right_shape(name):
    """Without a warning, in training and in evaluation; or a ShapeError that says why not."""
    for sample, xs in _of_batches(name):
        if not any(x is not None and 0 in x.shape for x in xs):
            continue
        for training in (False, True):
            op = OPS[name](**sample.attrs).for_mode(training)
            try:
                infer_specs(op, [None if x is None else spec_of(x) for x in xs])
            except GradwrightError:
                continue
            g = gw.Graph()
            ins = [None if x is None else g.constant(x) for x in xs]
            ys = op(*ins)
            ys = [y for y in (ys if isinstance(ys, tuple) else (ys,)) if y.spec.differentiable]
            by = [i for i, t in enumerate(ins) if t is not None and t.spec.differentiable]
            if not ys or not by or any(0 not in y.shape and y.shape for y in ys):
                continue
            try:
                slopes = gw.gradients(ys, [ins[i] for i in by], unreachable="zero")
            except gw.errors.GradientError:
                continue
            with gw.Session(g, kernels="off") as session:
                values = session.run(slopes, training=training)
            for i, slope in zip(by, values, strict=True):
                assert slope.shape == xs[i].shape and not np.any(slope), (name, sample.attrs)


@pytest.mark.parametrize("kernels", ["off", "wait"])
def test_the_mean_loss_of_no_examples_is_no_number(kernels):
    """As torch's; the sum is 0, and so is what weights count."""
    empty, none = np.zeros((0, 3)), np.zeros(0, np.int64)
    for f in (gw.loss.mean_squared_error, gw.loss.hinge, gw.loss.softmax_cross_entropy):
        for reduction in ("mean_by_nonzero_weight_count", "sum"):
            loss, *slopes = run(lambda a, b, f=f, r=reduction: f(a, b, reduction=r), empty, empty,
                                kernels=kernels)  # fmt: skip
            assert np.isnan(loss) if reduction != "sum" else loss == 0
            assert all(s.shape == (0, 3) for s in slopes)
    loss, slope = run(
        lambda y, x: gw.loss.sparse_softmax_cross_entropy(y, x), none, empty, kernels=kernels
    )
    assert np.isnan(loss) and slope.shape == (0, 3)


@pytest.mark.parametrize("kernels", ["off", "wait"])
def test_convolutions_by_channel_of_no_images(kernels):
    x, w = np.zeros((0, 3, 8, 8)), np.ones((3, 1, 3, 3))
    y, dx, dw = run(lambda x, w: gw.cnn.conv2d(x, w, groups=3), x, w, kernels=kernels)
    assert y.shape == (0, 3, 6, 6) and dx.shape == x.shape and not dw.any()


def test_a_batch_norm_of_no_values_is_refused():
    with pytest.raises(ShapeError, match="no values per channel"):
        x, p = gw.spec.TensorSpec((0, 3)), gw.spec.TensorSpec((3,))
        OPS["batch_norm"](training=True, unbiased=False).infer(x, p, p, p, p)


def test_places_that_are_none_name_the_node():
    for number, size in ((6, (2, 3)), (-1, (2, 3)), (0, (0, 3))):
        with gw.Graph() as g:
            y = gw.unravel_index(g.constant([0, number]), shape=size, name="node")
        with pytest.raises(GraphError, match=rf"'node'.*{number} at \[\d\] is no element"):
            g.output({}, *y)


@pytest.mark.parametrize("bad", [-1, 2**64, -(2**63), np.int64(-3), 1.5, True])
def test_seeds_and_steps_of_more_than_64_bits_are_refused(bad):
    with gw.Graph() as g:
        y = gw.random.uniform((2,))
    with pytest.raises(GraphError, match="seed="):
        gw.Session(g, seed=bad)
    with pytest.raises(GraphError, match="seed="):
        gw.init.normal(seed=bad)((2,))
    with pytest.raises(gw.errors.TrainingError, match="seed="):
        gw.TrainingConfig(optimizer=gw.optim.SGD(0.1), seed=bad)
    with gw.Session(g) as session, pytest.raises(GraphError, match="step="):
        session.run(y, step=bad)
