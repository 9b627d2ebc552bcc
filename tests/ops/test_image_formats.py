"""Formats of images and kernels: NHWC and HWIO beside channels first, torch, and ONNX."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, ShapeError
from gradwright.op import OPS, Op, Sample
from gradwright.ops.convolutions.formats import FORMATS, Formatted, back, moved
from gradwright.ops.loading import load
from tests.support.op_values import value

load()
CLASSES = sorted(
    (c for c in OPS.values() if issubclass(c, Formatted) and "/" not in c.name),
    key=lambda c: c.name,
)


def cases(cls: type[Op]) -> Iterator[tuple[Sample, dict[str, str]]]:
    """Yield samples of an op with each of its formats that fits their ranks."""
    names = [k for k in FORMATS if k in cls.attrs]
    options = list(itertools.product(*(cls.attrs[k].choices for k in names)))[1:]
    for n, sample in enumerate(cls.samples(np.random.default_rng(0))):
        for chosen in options if n == 0 else options[-1:]:
            formats = dict(zip(names, chosen, strict=True))
            if len(formats["data_format"]) == sample.inputs[0].ndim:
                yield sample, formats


def test_which_ops_have_formats() -> None:
    names = {c.name for c in CLASSES}
    for n in "123":
        assert {f"conv{n}d", f"conv_transpose{n}d", f"max_pool{n}d", f"avg_pool{n}d"} <= names
        assert {f"lp_pool{n}d", f"adaptive_avg_pool{n}d", f"upsampling{n}d"} <= names
    assert {"depthwise_conv2d", "separable_conv2d", "space_to_depth", "batch_to_space"} <= names
    for cls in CLASSES:
        assert any(True for _ in cases(cls)), cls


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.name)
def test_a_format_is_a_permutation_and_no_more(cls: type[Op]) -> None:
    """Specs, values and gradients are those for channels first, with axes moved; in plans, too."""
    for sample, formats in cases(cls):
        first, op = cls(**sample.attrs), cls(**sample.attrs, **formats)
        orders = [back(op.order(i)) for i in range(len(sample.inputs))]
        g = gw.Graph()
        xs = [
            None if x is None else g.variable(f"x{i}", init=x) for i, x in enumerate(sample.inputs)
        ]
        zs = [
            None if x is None else g.variable(f"z{i}", init=np.ascontiguousarray(moved(x, order)))
            for i, (x, order) in enumerate(zip(sample.inputs, orders, strict=True))
        ]
        (y, *_), (z, *_) = (t if isinstance(t, tuple) else (t,) for t in (first(*xs), op(*zs)))
        assert z.shape == moved(y.spec, back(op.order(None))).shape and len(z.node.outputs) == len(
            y.node.outputs
        )
        seed = g.constant(np.random.default_rng(1).standard_normal(y.shape))
        mirrored = moved(seed, back(op.order(None)))
        wrt = [i for i, x in enumerate(xs) if x is not None]
        dxs = gw.gradients((y * seed).sum(), [xs[i] for i in wrt])
        dzs = gw.gradients((z * mirrored).sum(), [zs[i] for i in wrt])
        for skipped in ((), ("channels_first",)):
            found = gw.Session(g, kernels="off", skip_rewrites=skipped).run([y, z, *dxs, *dzs])
            np.testing.assert_allclose(
                moved(found[1], op.order(None)), found[0], rtol=1e-12, atol=1e-12
            )
            pairs = zip(wrt, found[2 : 2 + len(wrt)], found[2 + len(wrt) :], strict=True)
            for i, dx, dz in pairs:
                np.testing.assert_allclose(moved(dz, op.order(i)), dx, rtol=1e-9, atol=1e-12)


HWIO: dict[str, Any] = {"data_format": "NHWC", "weights_format": "HWIO"}
TORCH = [
    ("NHWC", "HWIO", (3, 2, 0, 1)),
    ("NCHW", "OHWI", (0, 3, 1, 2)),
    ("NHWC", "OIHW", (0, 1, 2, 3)),
]


@pytest.mark.parametrize(("images", "kernels", "to_torch"), TORCH)
@pytest.mark.parametrize("groups", [1, 2])
def test_a_network_beside_torch(
    images: str, kernels: str, to_torch: tuple[int, ...], groups: int, rng: np.random.Generator
) -> None:
    """Convolution, pooling, upsampling and batch norm along the last axis, trained by kernels."""
    torch = pytest.importorskip("torch")
    F = torch.nn.functional
    last = images == "NHWC"
    x_is, b_is = rng.standard_normal((2, 4, 6, 5)), rng.standard_normal(6)
    w_is = rng.standard_normal((6, 4 // groups, 3, 2))
    X = x_is.transpose(0, 2, 3, 1) if last else x_is
    W = w_is.transpose(np.argsort(to_torch))
    g = gw.Graph()
    x = g.placeholder("x", X.shape, "float64")
    w, b = g.variable("w", init=np.ascontiguousarray(W)), g.variable("b", init=b_is)
    h = gw.cnn.conv2d(x, w, b, padding=1, groups=groups, data_format=images, weights_format=kernels)
    h = gw.nn.relu(gw.nn.batch_norm(h, axis=-1 if last else 1, name="bn"))
    h = gw.cnn.avg_pool2d(gw.cnn.max_pool2d(h, 2, data_format=images), 2, data_format=images)
    y = gw.cnn.upsampling2d(h, 2, data_format=images)
    loss = (y * y).sum()
    tx, tw, tb = (torch.tensor(a, requires_grad=True) for a in (x_is, w_is, b_is))
    t = F.conv2d(tx, tw, tb, padding=1, groups=groups)
    t = F.relu(F.batch_norm(t, None, None, training=True))
    t = F.interpolate(F.avg_pool2d(F.max_pool2d(t, 2), 2), scale_factor=2)
    (t * t).sum().backward()
    grads = gw.gradients(loss, [x, w, b])
    expected = [t.detach().numpy(), tx.grad.numpy(), tw.grad.numpy(), tb.grad.numpy()]
    with gw.Session(g, kernels="wait") as session:
        for _ in range(4):
            found = session.run([y, *grads], {"x": X}, training=True)
        for ours, torchs, order in zip(found, expected, ["i", "i", "w", ""], strict=True):
            if order == "i" and last:
                ours = ours.transpose(0, 3, 1, 2)
            ours = ours.transpose(to_torch) if order == "w" else ours
            np.testing.assert_allclose(ours, torchs, rtol=1e-8, atol=1e-9)
    assert gw.gradient_check(g, loss, {"x": X}).passed


def test_permutations_between_layers_cancel() -> None:
    """Two layers of channels last are two of channels first with one permutation at each end."""
    g = gw.Graph()
    x = g.placeholder("x", (2, 8, 8, 3))
    init = gw.init.he_normal(seed=0)
    h = gw.nn.relu(gw.cnn.conv2d(x, g.variable("a", (3, 3, 3, 4), init), **HWIO))
    y = gw.cnn.conv2d(
        gw.cnn.max_pool2d(h, 2, data_format="NHWC"), g.variable("b", (3, 3, 4, 4), init), **HWIO
    )
    with gw.Session(g, kernels="off") as session:
        plan = session.plan(y, {"x": x.shape})
    ops = [i.op.name for i in plan.program.instrs]
    assert ops.count("transpose") == 4 and ops.count("conv2d") == 2  # x, y and two kernels
    assert all(i.op.is_first for i in plan.program.instrs if isinstance(i.op, Formatted))


@pytest.mark.parametrize("settings", [{}, {"padding": 1, "stride": 2}])
def test_kernels_take_permuted_images(settings: Any, rng: np.random.Generator) -> None:
    """A pooling whose images are views takes them as machine code, too."""
    pytest.importorskip("llvmlite", reason="no llvmlite: pip install 'gradwright[fast]'")
    g = gw.Graph()
    x = g.placeholder("x", (3, 9, 8, 5))
    h = gw.cnn.conv2d(x, g.variable("w", (2, 2, 5, 4), gw.init.he_normal(seed=0)), **HWIO)
    y = gw.cnn.max_pool2d(gw.nn.relu(h), 3, data_format="NHWC", **settings)
    (dx,) = gw.gradients((y * y).sum(), [x])
    feeds = {"x": rng.standard_normal(x.shape).astype(np.float32)}
    expected = gw.Session(g, kernels="off").run([y, dx], feeds)
    with gw.Session(g, kernels="wait") as session:
        for _ in range(3):
            found = session.run([y, dx], feeds)
        rows = str(session.plan([y, dx], {"x": x.shape}).kernels).splitlines()
    assert any(row.split()[1:4] == ["machine", "code", "max_pool2d"] for row in rows)
    for ours, numpys in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, numpys, rtol=1e-5, atol=1e-6)


def test_onnx_has_channels_first(rng: np.random.Generator) -> None:
    pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    g = gw.Graph()
    x = g.placeholder("x", ("B", 6, 6, 4))
    w = g.variable("w", init=rng.standard_normal((2, 2, 4, 4)).astype(np.float32))
    h = gw.cnn.conv2d(x, w, data_format="NHWC", weights_format="HWIO")
    h = gw.cnn.conv_transpose2d(h, w, data_format="NHWC", weights_format="HWOI")
    gw.cnn.max_pool2d(h, 2, data_format="NHWC", name="y")
    proto = gw.onnx.to_model(g, ["y"])
    feeds = {"x": rng.standard_normal((2, 6, 6, 4)).astype(np.float32)}
    (theirs,) = ReferenceEvaluator(proto).run(None, feeds)
    np.testing.assert_allclose(theirs, g.output(feeds, "y")["y"], rtol=1e-5, atol=1e-6)


def test_weights_are_found_and_saved_with_their_format(tmp_path: Any) -> None:
    op: Any = OPS["conv2d"](weights_format="HWIO")
    assert [(s.input, s.layout) for s in op.weight_sites()] == [(1, "h,w,in,out")]
    sites = OPS["separable_conv2d"]().weight_sites()
    assert [(s.input, s.layout) for s in sites] == [(1, "out,in,h,w"), (2, "out,in,h,w")]
    g = gw.Graph()
    x = g.placeholder("x", ("B", 4, 4, 2))
    gw.cnn.conv2d(
        x, g.variable("w", (2, 2, 2, 3), 1.0), data_format="NHWC", weights_format="HWIO", name="y"
    )
    g.save(tmp_path / "g.gw")
    again = gw.load(tmp_path / "g.gw")
    assert again["y"].op.data_format == "NHWC" and str(again["y"].spec) == "f32[B, 3, 3, 3]"
    assert (
        value(again["y"], {"x": np.ones((1, 4, 4, 2))}).tolist()
        == np.full((1, 3, 3, 3), 8.0).tolist()
    )


def test_what_does_not_fit_is_refused() -> None:
    g = gw.Graph()
    x, w = g.placeholder("x", ("B", 8, 8, 3)), g.variable("w", (2, 2, 3, 4))
    with pytest.raises(GraphError, match="one of 'NCHW', 'NHWC'"):
        gw.cnn.conv2d(x, w, data_format="NWC")
    with pytest.raises(GraphError, match="one of 'OIHW', 'HWIO', 'OHWI'"):
        gw.cnn.conv2d(x, w, weights_format="HWOI")
    with pytest.raises(ShapeError, match="channels differ"):
        gw.cnn.conv2d(x, w, data_format="NHWC")
    with pytest.raises(ShapeError, match="input 0 of max_pool2d has 3 axes"):
        gw.cnn.max_pool2d(x[0], 2, data_format="NHWC")
    with pytest.raises(ShapeError, match="those of weights_format='HWIO'"):
        gw.cnn.conv2d(x, w[0], data_format="NHWC", weights_format="HWIO")
