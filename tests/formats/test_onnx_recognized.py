"""Layers as exporters write them, read with and without recognition, beside ONNX Runtime.

The node sequences are those of torch's two exporters (a decoder layer, by TorchDynamo at opset 20
and by TorchScript at opset 17), and what was usual before ONNX had LayerNormalization (opset 13).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from tests.formats.onnx_models import numpy_helper

ort = pytest.importorskip("onnxruntime")
from onnx import helper, parser  # noqa: E402

DRAW = np.random.default_rng(0)
LAYERS = 2

NORM = """
 {i}p = Pow({x}, two)  {i}m = {mean}  {i}e = Add({i}m, eps)  {i}s = Sqrt({i}e)
 {i}r = {inverse}({i}s)  {i}h = Mul({x}, {i}r)  {i}n = Mul({i}w, {i}h)"""
TURN = """
 {i}c = Mul({x}, cos4)  {i}2 = {second}  {i}1 = {first}  {i}neg = Neg({i}2)
 {i}t = Concat <axis = -1> ({i}neg, {i}1)  {i}ts = Mul({i}t, sin4)  {i}r = Add({i}c, {i}ts)"""

DYNAMO_HEAD = """
 b = Shape <start = 0, end = 1> (x)  t = Shape <start = 1, end = 2> (x)  n = Squeeze(t)
 places = Range(i0, n, i1)  keys = Unsqueeze(places, a012)  queries = Unsqueeze(places, a013)
 le = LessOrEqual(keys, queries)  own = And(yes, le)  padded = Cast <to = 9> (mask)
 pad = Unsqueeze(padded, a12)  seen = And(own, pad)  bias = Where(seen, zero, lowest)
 at = Unsqueeze(places, a02)  atf = Cast <to = 1> (at)  half = Mul(atf, speeds)
 angles = Concat <axis = -1> (half, half)  cos = Cos(angles)  sin = Sin(angles)
 cos4 = Unsqueeze(cos, a1)  sin4 = Unsqueeze(sin, a1)
 apart = Concat <axis = 0> (b, t, minus, d)  wide = Concat <axis = 0> (b, two1, two1, t, d)
 all = Concat <axis = 0> (b, four, t, d)  flat = Concat <axis = 0> (b, t, minus)"""
DYNAMO_LAYER = (
    NORM.format(
        x="{x}", i="{i}n", mean="ReduceMean <keepdims = 1> ({i}np, last)", inverse="Reciprocal"
    )
    + """
 {i}q = MatMul({i}nn, {i}wq)  {i}qs = Reshape({i}q, apart)
 {i}qt = Transpose <perm = [0, 2, 1, 3]> ({i}qs)
 {i}k = MatMul({i}nn, {i}wk)  {i}ks = Reshape({i}k, apart)
 {i}kt = Transpose <perm = [0, 2, 1, 3]> ({i}ks)
 {i}v = MatMul({i}nn, {i}wv)  {i}vs = Reshape({i}v, apart)
 {i}vt = Transpose <perm = [0, 2, 1, 3]> ({i}vs)"""
    + "".join(
        TURN.format(
            x="{i}" + n + "t",
            i="{i}" + n + "t",
            first="Slice({i}" + n + "t, s0, s2, a3, a1)",
            second="Slice({i}" + n + "t, s2, end, a3, a1)",
        )
        for n in "qk"
    )
    + """
 {i}k5 = Unsqueeze({i}ktr, a2)  {i}ke = Expand({i}k5, wide)  {i}k4 = Reshape({i}ke, all)
 {i}v5 = Unsqueeze({i}vt, a2)  {i}ve = Expand({i}v5, wide)  {i}v4 = Reshape({i}ve, all)
 {i}kT = Transpose <perm = [0, 1, 3, 2]> ({i}k4)  {i}qk = MatMul({i}qtr, {i}kT)
 {i}sc = Mul({i}qk, scale)  {i}sb = Add({i}sc, bias)  {i}sm = Softmax <axis = -1> ({i}sb)
 {i}a = MatMul({i}sm, {i}v4)  {i}at = Transpose <perm = [0, 2, 1, 3]> ({i}a)
 {i}af = Reshape({i}at, flat)  {i}o = MatMul({i}af, {i}wo)  {i}x1 = Add({x}, {i}o)
 {i}g = MatMul({i}x1, {i}wg)  {i}gs = Sigmoid({i}g)  {i}gg = Mul({i}g, {i}gs)
 {i}u = MatMul({i}x1, {i}wu)  {i}gu = Mul({i}gg, {i}u)  {i}dn = MatMul({i}gu, {i}wd)
 {y} = Add({i}x1, {i}dn)"""
)

SCRIPT_HEAD = """
 xs = Shape(x)  b = Gather <axis = 0> (xs, i0)  t = Gather <axis = 0> (xs, i1)
 places = Range(i0, t, i1)  keys = Unsqueeze(places, a012)  queries = Unsqueeze(places, a013)
 le = LessOrEqual(keys, queries)  padded = Cast <to = 9> (mask)  pad = Unsqueeze(padded, a12)
 some = And(le, pad)  ss = Shape(some)  ones = ConstantOfShape <value = int64[1] {{1}}> (r4)
 neg = Mul(ones, i_1)  eq = Equal(ss, neg)  sw = Where(eq, ones, ss)  seen = Expand(some, sw)
 at = Unsqueeze(places, a02)  atf = Cast <to = 1> (at)  half = Mul(atf, speeds)
 angles = Concat <axis = -1> (half, half)  c = Cos(angles)  s = Sin(angles)
 c1 = Mul(c, one)  s1 = Mul(s, one)  cos = Cast <to = 1> (c1)  sin = Cast <to = 1> (s1)
 cos4 = Unsqueeze(cos, a1)  sin4 = Unsqueeze(sin, a1)
 b1 = Unsqueeze(b, a0)  t1 = Unsqueeze(t, a0)  apart = Concat <axis = 0> (b1, t1, minus, d)
 wide = Concat <axis = 0> (b1, two1, two1, t1, d)  all = Concat <axis = 0> (b1, four, t1, d)
 flat = Concat <axis = 0> (b1, t1, minus)"""
SCRIPT_LAYER = (
    DYNAMO_LAYER.replace(
        "{i}nr = Reciprocal({i}ns)", "{i}nc = Cast <to = 1> ({i}ns)  {i}nr = Div(one, {i}nc)"
    )
    .replace(
        "ReduceMean <keepdims = 1> ({i}np, last)", "ReduceMean <axes = [-1], keepdims = 1> ({i}np)"
    )
    .replace(
        " {i}sc = Mul({i}qk, scale)  {i}sb = Add({i}sc, bias)  {i}sm = Softmax <axis = -1> ({i}sb)",
        " {i}mb = Where(seen, zero, inf)  {i}sb = Add({i}qk, {i}mb)"
        "\n {i}s0 = Softmax <axis = -1> ({i}sb)  {i}nan = IsNaN({i}s0)"
        "  {i}sm = Where({i}nan, zero, {i}s0)",
    )
    .replace(
        "{i}qk = MatMul({i}qtr, {i}kT)",
        "{i}q2 = Mul({i}qtr, root)  {i}k2 = Mul({i}kT, root)  {i}qk = MatMul({i}q2, {i}k2)",
    )
)
for _n in "qk":
    SCRIPT_LAYER = SCRIPT_LAYER.replace(
        f"Slice({{i}}{_n}t, s0, s2,", f"Slice({{i}}{_n}t, s0, {{i}}{_n}h1,"
    ).replace(f"Slice({{i}}{_n}t, s2, end,", f"Slice({{i}}{_n}t, {{i}}{_n}h1, end,")
    SCRIPT_LAYER = SCRIPT_LAYER.replace(
        f"\n {{i}}{_n}tc = Mul",
        f"\n {{i}}{_n}sh = Shape({{i}}{_n}t)  {{i}}{_n}w = Gather <axis = 0> ({{i}}{_n}sh, i3)"
        f"  {{i}}{_n}h = Div({{i}}{_n}w, i2)  {{i}}{_n}h1 = Unsqueeze({{i}}{_n}h, a0)"
        f"\n {{i}}{_n}tc = Mul",
    )

OLD_HEAD = """
 maskf = Cast <to = 1> (mask)  pad = Unsqueeze(maskf, a12)  away = Sub(one, pad)
 bias = Mul(away, low)"""
OLD_LAYER = """
 {i}q = MatMul({x}, {i}wq)  {i}qs = Reshape({i}q, apart)
 {i}qt = Transpose <perm = [0, 2, 1, 3]> ({i}qs)
 {i}k = MatMul({x}, {i}wk)  {i}ks = Reshape({i}k, apart)
 {i}kt = Transpose <perm = [0, 2, 3, 1]> ({i}ks)
 {i}v = MatMul({x}, {i}wv)  {i}vs = Reshape({i}v, apart)
 {i}vt = Transpose <perm = [0, 2, 1, 3]> ({i}vs)
 {i}qk = MatMul({i}qt, {i}kt)  {i}sc = Div({i}qk, root2)  {i}sb = Add({i}sc, bias)
 {i}sm = Softmax <axis = -1> ({i}sb)  {i}a = MatMul({i}sm, {i}vt)
 {i}at = Transpose <perm = [0, 2, 1, 3]> ({i}a)  {i}af = Reshape({i}at, flat)
 {i}o = MatMul({i}af, {i}wo)  {i}x1 = Add({i}o, {x})
 {i}m = ReduceMean <axes = [-1]> ({i}x1)  {i}d = Sub({i}x1, {i}m)  {i}d2 = Pow({i}d, two)
 {i}var = ReduceMean <axes = [-1]> ({i}d2)  {i}ve = Add({i}var, eps)  {i}sd = Sqrt({i}ve)
 {i}z = Div({i}d, {i}sd)  {i}zw = Mul({i}z, {i}nw)  {i}zb = Add({i}zw, {i}nb)
 {i}u = MatMul({i}zb, {i}wu)  {i}ud = Div({i}u, root_2)  {i}ue = Erf({i}ud)
 {i}u1 = Add({i}ue, one)  {i}uu = Mul({i}u, {i}u1)  {i}ug = Mul({i}uu, half)
 {i}dn = MatMul({i}ug, {i}wd)  {y} = Add({i}dn, {i}zb)"""

FOUND = {
    "dynamo": {"rms_norm": LAYERS, "rope": 2 * LAYERS, "attention": LAYERS, "silu": LAYERS},
    "script": {"rms_norm": LAYERS, "rope": 2 * LAYERS, "attention": LAYERS, "silu": LAYERS},
    "old": {"attention": LAYERS, "layer_norm": LAYERS, "gelu": LAYERS},
}
PARTS = {
    "dynamo": (20, DYNAMO_HEAD, DYNAMO_LAYER),
    "script": (17, SCRIPT_HEAD, SCRIPT_LAYER),
    "old": (13, OLD_HEAD, OLD_LAYER),
}


def stored(kind: str) -> dict[str, Any]:
    """Return the numbers and weights of a model of 16 features in 4 heads, 2 of them for keys."""
    axes = {"a0": [0], "a1": [1], "a2": [2], "a3": [3], "a02": [0, 2], "a12": [1, 2]}
    axes |= {"a012": [0, 1, 2], "a013": [0, 1, 3], "last": [-1], "s0": [0], "s2": [2]}
    axes |= {"end": [2**63 - 1], "minus": [-1], "two1": [2], "four": [4], "r4": [4]}
    axes |= {"d": [4], "i0": 0, "i1": 1, "i2": 2, "i3": 3, "i_1": -1}
    floats = {"zero": 0, "one": 1, "two": 2, "half": 0.5, "eps": 1e-6, "lowest": -3.4028235e38}
    floats |= {"inf": -np.inf, "scale": 0.5, "root": 0.5**0.5, "root2": 2, "root_2": 2**0.5}
    floats |= {"low": -1e4, "speeds": [1.0, 0.1]}
    if kind == "old":
        axes |= {"apart": [0, 0, 4, 4], "flat": [0, 0, 16]}
    else:
        del floats["half"]
    narrow = 16 if kind == "old" else 8
    draw = np.random.default_rng(1)
    weights: dict[str, Any] = {}
    for i in (f"l{n}" for n in range(LAYERS)):
        for name, shape in {
            **{"wq": (16, 16), "wk": (16, narrow), "wv": (16, narrow), "wo": (16, 16)},
            **{"wg": (16, 24), "wu": (16, 24), "wd": (24, 16), "nw": (16,), "nb": (16,)},
        }.items():
            weights[i + name] = draw.standard_normal(shape).astype(np.float32) / 4
    held = {k: np.array(v, np.int64) for k, v in axes.items()}
    held |= {k: np.array(v, np.float32) for k, v in floats.items()}
    return held | weights | {"yes": np.array(True)}


def written(kind: str, parts: tuple[int, str, str] | None = None) -> Any:
    """Return the model."""
    opset, head, layer = parts or PARTS[kind]
    names = ["x", *(f"x{n}" for n in range(1, LAYERS)), "y"]
    body = head.replace("{{", "{").replace("}}", "}") + "".join(
        layer.format(i=f"l{n}", x=names[n], y=names[n + 1]) for n in range(LAYERS)
    )
    text = (
        f'<ir_version: 8, opset_import: ["" : {opset}]>\n'
        f"test (float[batch, seq, 16] x, int64[batch, seq] mask) => (float[batch, seq, 16] y) {{"
        f"{body}\n}}"
    )
    proto = parser.parse_model(text)
    read = {name for node in proto.graph.node for name in node.input}
    for name, array in stored(kind).items():
        if name in read:
            proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return proto


FEEDS = {
    "x": DRAW.standard_normal((2, 5, 16)).astype(np.float32),
    "mask": np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
}


def theirs(proto: Any) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(proto.SerializeToString(), options)
    return session.run(["y"], FEEDS)[0]


@pytest.mark.parametrize("kind", PARTS)
def test_layers_are_recognised_and_the_same(kind: str) -> None:
    proto = written(kind)
    g = gw.onnx.load(proto)
    before = len(g.nodes)
    np.testing.assert_allclose(g.output(FEEDS, "y")["y"], theirs(proto), rtol=1e-5, atol=1e-5)
    made = gw.recognize(g, outputs=["y"])
    assert made.counts == FOUND[kind], made
    assert not made.missed
    assert made.nodes[1] < 0.6 * made.nodes[0]
    assert len(g.nodes) < before
    np.testing.assert_allclose(g.output(FEEDS, "y")["y"], theirs(proto), rtol=1e-5, atol=1e-5)
    again = gw.onnx.load(proto, recognize=True)
    assert [(n.name, n.op) for n in again.nodes] == [(n.name, n.op) for n in g.nodes]


@pytest.mark.parametrize("kind", PARTS)
def test_what_was_recognised_can_be_written(kind: str) -> None:
    proto = written(kind)
    g = gw.onnx.load(proto, recognize=True)
    made = gw.onnx.to_model(g, ["y"])
    np.testing.assert_allclose(theirs(made), theirs(proto), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", PARTS)
def test_gradients_are_the_same(kind: str) -> None:
    found = []
    for recognize in (False, True):
        g = gw.onnx.load(written(kind), trainable=True, recognize=recognize)
        wrt = [g[name] for name in ("l0wq", "l0wv", "l0nw", "l1wd")]
        slopes = gw.gradients(gw.sin(g["y"]).sum(), wrt)
        found.append(list(g.output(FEEDS, *slopes).values()))
    for before, after in zip(*found, strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5 * np.abs(before).max())


@pytest.mark.parametrize("opset", [11, 12])
def test_softmax_of_older_opsets(opset: int) -> None:
    """Before opset 13 a softmax joined all axes from its own on, of which the last is alone."""
    head = OLD_HEAD.replace("(maskf, a12)", "<axes = [1, 2]> (maskf)")
    layer = OLD_LAYER.replace("Softmax <axis = -1>", "Softmax <axis = 3>")
    proto = written("old", (opset, head, layer))
    g = gw.onnx.load(proto)
    assert gw.recognize(g, outputs=["y"]).counts == FOUND["old"]
    np.testing.assert_allclose(g.output(FEEDS, "y")["y"], theirs(proto), rtol=1e-5, atol=1e-5)


def test_kinds_are_chosen_where_a_model_is_read() -> None:
    proto = written("old")
    assert "l0ud" in gw.onnx.load(proto)
    g = gw.onnx.load(proto, recognize={"gelu"})
    ops = [n.op.name for n in g.nodes]
    assert (ops.count("gelu"), ops.count("softmax")) == (LAYERS, LAYERS)
    assert "l0ud" not in g
    with pytest.raises(GraphError, match="nothing called 'Gelu' is looked for"):
        gw.onnx.load(proto, recognize={"Gelu"})


def test_outputs_and_inputs_keep_their_names() -> None:
    proto = written("old")
    proto.graph.output.append(type(proto.graph.output[0])(name="l0sm"))
    g = gw.onnx.load(proto, recognize=True)
    assert [t.name for t in g.placeholders] == ["x", "mask"]
    assert g["l0sm"].op.name == "softmax"  # what a model shows is not taken away
    assert [n.op.name for n in g.nodes].count("scaled_dot_product_attention") == LAYERS - 1


def test_single_numbers_of_constant_nodes_are_not_trained() -> None:
    """TorchScript writes what a mask hides by as a Constant of one element, [-inf]."""
    proto = written("script")
    for i, tensor in enumerate(proto.graph.initializer):
        if tensor.name in ("inf", "zero"):
            held = numpy_helper.to_array(tensor).reshape(1)
            node = helper.make_node(
                "Constant", [], [tensor.name], value=numpy_helper.from_array(held)
            )
            proto.graph.node.insert(0, node)
            proto.graph.initializer[i].name += "_as_it_was"
    g = gw.onnx.load(proto, trainable=True, recognize=True)
    assert not {t.name for t in g.trainable} & {"inf", "zero"}
    assert [n.op.name for n in g.nodes].count("grouped_query_attention") == LAYERS
