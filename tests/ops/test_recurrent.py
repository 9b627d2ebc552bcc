"""Recurrent layers: every activation, lengths and directions, and what they are refused for."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, ShapeError
from gradwright.op import run_forward
from gradwright.ops.recurrent.activations import _KNOWN
from gradwright.ops.recurrent.gru import Gru
from gradwright.ops.recurrent.layer import RecurrentGrad, RecurrentSteps
from gradwright.ops.recurrent.lstm import Lstm
from gradwright.ops.recurrent.rnn import Rnn

LAYERS = {"rnn": Rnn, "gru": Gru, "lstm": Lstm}


def padded(sample, op):
    return [*sample.inputs, *[None] * (op.n_inputs - len(sample.inputs))]


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("name", _KNOWN)
def test_loops_agree_with_the_layer_written_out(kind, name, rng):
    cls = LAYERS[kind]
    attrs = {
        "activations": (name,) * len(cls.functions) * 2,
        "direction": "bidirectional",
        "activation_alpha": (0.7,) * 3,
        "activation_beta": (0.4,) * 3,
        "clip": 2.5,
    }
    given = "b", "initial_h", "initial_c", "p"
    sample = cls.sample(rng, *given, lengths=[2, 3], **attrs)
    op = cls(**attrs)
    xs = padded(sample, op)
    fast = op.forward(*xs)
    slow = run_forward(RecurrentSteps(op=op), xs)
    for a, b in zip(fast, slow, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)

    gs = [rng.standard_normal(y.shape) for y in fast]
    wrt = tuple(i for i, x in enumerate(xs) if x is not None and x.dtype == np.float64)
    found = RecurrentGrad(op=op, wrt=wrt).forward(*xs, *fast, *gs)
    g = gw.Graph()
    ins = [
        None if x is None else g.placeholder(f"x{i}", x.shape, x.dtype) for i, x in enumerate(xs)
    ]
    with g:
        ys = RecurrentSteps(op=op)(*ins)
    wrt = [t for t in ins if t is not None and t.dtype == np.float64]
    exact = gw.gradients(list(ys), wrt, [g.constant(v) for v in gs], unreachable="zero")
    feeds = {t: x for t, x in zip(ins, xs, strict=True) if t is not None}
    with gw.Session(g) as session:
        for a, b in zip(found, session.run(exact, feeds), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-11)


@pytest.mark.parametrize("kind", LAYERS)
def test_reverse_is_forward_on_the_sequence_turned_round(kind, rng):
    cls = LAYERS[kind]
    x, *rest = cls.sample(rng, "b", "initial_h", "initial_c").inputs
    forward = cls(direction="reverse").forward(x, *rest)
    turned = cls().forward(x[::-1], *rest)
    np.testing.assert_array_equal(forward[0], turned[0][::-1])
    np.testing.assert_array_equal(forward[1], turned[1])


@pytest.mark.parametrize("kind", LAYERS)
def test_what_stands_behind_the_end_of_a_sequence_does_not_matter(kind, rng):
    cls = LAYERS[kind]
    attrs = {"direction": "bidirectional"}
    x, *rest = cls.sample(rng, "b", lengths=[1, 3], **attrs).inputs
    other = x.copy()
    other[1:, 0] = 100.0
    n = cls.n_public
    for a, b in zip(
        cls(**attrs).forward(x, *rest)[:n], cls(**attrs).forward(other, *rest)[:n], strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert not cls(**attrs).forward(x, *rest)[0][1:, :, 0].any()


@pytest.mark.parametrize("kind", LAYERS)
def test_behind_the_end_of_a_sequence_may_stand_nan(kind, rng):
    """Nor do gradients of order 1 and 2 see it."""
    cls = LAYERS[kind]
    attrs = {"direction": "bidirectional", "layout": 1}
    x, w, r, b, lengths = cls.sample(rng, "b", lengths=[1, 3], **attrs).inputs
    found = []
    for behind in (0.0, np.nan, np.inf):
        x[0, 1:] = behind
        g = gw.Graph()
        feeds = {"x": x, "w": w, "r": r, "b": b}
        xs = [g.placeholder(k, v.shape, "float64") for k, v in feeds.items()]
        y = getattr(gw.rnn, kind)(*xs, g.constant(lengths), **attrs)[0]
        once = gw.gradients((y * y).sum(), xs)
        twice = gw.gradients(sum((d * d).sum() for d in once), xs)
        found.append(gw.Session(g, deterministic=True).run([y, *once, *twice], feeds))
    for same in zip(*found, strict=True):
        np.testing.assert_allclose(same[1], same[0], rtol=1e-12)
        np.testing.assert_array_equal(same[2], same[1])


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("length", [-1, 4])
def test_a_length_that_no_sequence_has_is_named(kind, length, rng):
    cls = LAYERS[kind]
    x, w, r = cls.sample(rng).inputs
    with pytest.raises(GraphError, match=f"a length of {length}"):
        cls().forward(x, w, r, None, np.array([2, length]))


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("sizes", [(0, 2), (2, 0)])
def test_layers_without_features_or_units_have_gradients(kind, sizes):
    width, units = sizes
    n = LAYERS[kind].n_gates * units
    shapes = (3, 2, width), (1, n, width), (1, n, units), (1, 2 * n)
    g = gw.Graph()
    xs = [g.constant(np.ones(s)) for s in shapes]
    y = getattr(gw.rnn, kind)(*xs)[0]
    found = gw.Session(g).run(gw.gradients(y.sum(), xs), {})
    assert [d.shape for d in found] == list(shapes)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_sequence_without_steps_leaves_the_states(kind, rng):
    cls = LAYERS[kind]
    x, *rest = cls.sample(rng, "initial_h", "initial_c").inputs
    y, h, *_ = cls().forward(x[:0], *rest)
    assert y.shape[0] == 0
    np.testing.assert_array_equal(h, rest[4])


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_computed_in_float32(kind, dtype, rng):
    cls = LAYERS[kind]
    exact = [None if x is None else x.astype(dtype) for x in cls.sample(rng, "b").inputs]
    y, *_ = cls().forward(*exact)
    wide = [None if x is None else x.astype("f4") for x in exact]
    expected, *_ = cls().forward(*wide)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, expected.astype(dtype))


def test_training_through_time_learns_to_remember():
    """The sign of the first number, 12 steps later."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 64, 1)).astype("f4")
    t = np.sign(x[0])
    g = gw.Graph()
    shapes = {"w": (1, 32, 1), "r": (1, 32, 8), "b": (1, 64), "out": (8, 1)}
    w, r, b, out = (
        g.variable(k, s, init=(rng.standard_normal(s) * 0.3).astype("f4"))
        for k, s in shapes.items()
    )
    _, h, _ = gw.rnn.lstm(g.placeholder("x", (12, 64, 1)), w, r, b)
    loss = ((h[0] @ out - g.placeholder("t", (64, 1))) ** 2).mean()
    gw.Trainer(g, loss, gw.optim.Adam(0.03)).fit([{"x": x, "t": t}], epochs=120)
    assert float(g.output({"x": x, "t": t}, loss)[loss.name]) < 0.1


def test_unknown_activations_are_named_with_those_that_exist():
    with pytest.raises(GraphError, match=r"'Sine' is no activation[\s\S]*sigmoid, tanh"):
        Rnn(activations=("Sine",)).chosen()
    with pytest.raises(GraphError, match="LeakyRelu with alpha -1"):
        Rnn(activations=("LeakyRelu",), activation_alpha=(-1.0,)).chosen()
    with pytest.raises(GraphError, match=r"1 activations[\s\S]*3 per direction"):
        Lstm(activations=("Tanh",)).chosen()


def test_a_wrong_state_is_named():
    g = gw.Graph()
    x, w, r = (
        g.placeholder(k, s) for k, s in (("x", (5, 2, 3)), ("w", (1, 8, 3)), ("r", (1, 8, 2)))
    )
    h = g.placeholder("h", (1, 3, 2))
    with pytest.raises(ShapeError, match=r"initial_h does not fit[\s\S]*\[1, 2, 2\]"):
        gw.rnn.lstm(x, w, r, None, None, h)


# -- state spaces ----------------------------------------------------------------------------------


def test_chunks_of_any_size_give_the_same(rng):
    n = rng.standard_normal
    q, k, v = n((2, 13, 2, 3)), n((2, 13, 2, 3)), n((2, 13, 2, 4))
    g, beta = -np.abs(n((2, 13, 2))), rng.uniform(0, 1, (2, 13, 2))
    x, delta, a = n((2, 13, 4, 3)), rng.uniform(0, 1, (2, 13, 4)), -rng.uniform(0, 1, 4)
    b, c = n((2, 13, 2, 3)), n((2, 13, 2, 3))
    graph = gw.Graph()
    deltas = [graph.constant(t) for t in (q, k, v, g, beta)]
    spaces = [graph.constant(t) for t in (x, delta, a, b, c)]
    found = {
        size: graph.output(
            {},
            *gw.nn.gated_delta_rule(*deltas, chunk_size=size, normalize=True, name=f"d{size}"),
            *gw.nn.mamba2_ssm(*spaces, chunk_size=size, name=f"s{size}"),
        )
        for size in (1, 4, 13, 64)
    }
    for other in (4, 13, 64):
        for one, two in zip(found[1].values(), found[other].values(), strict=True):
            np.testing.assert_allclose(two, one, atol=1e-10)


def test_a_sequence_in_parts_goes_on_where_it_stopped(rng):
    n = rng.standard_normal
    x, w = n((1, 3, 9)), n((3, 1, 4))
    g = gw.Graph()
    whole, state = gw.nn.causal_conv1d(g.constant(x), g.constant(w), name="whole")
    first, after = gw.nn.causal_conv1d(g.constant(x[..., :2]), g.constant(w), name="first")
    second, last = gw.nn.causal_conv1d(g.constant(x[..., 2:]), g.constant(w), None, after, name="z")
    found = [*g.output({}, whole, state, first, second, last).values()]
    np.testing.assert_allclose(np.concatenate(found[2:4], -1), found[0])
    np.testing.assert_array_equal(found[4], found[1])


def test_a_memory_that_is_overwritten_returns_the_last_value(rng):
    """With β = 1 and no decay, writing to a key replaces what it held (Yang et al. 2024)."""
    k = np.eye(3)[[0, 1, 0, 2]][None, :, None]
    v = rng.standard_normal((1, 4, 1, 2))
    zero, one = np.zeros((1, 4, 1)), np.ones((1, 4, 1))
    g = gw.Graph()
    ins = [g.constant(t) for t in (k, k, v, zero, one)]
    y, memory = gw.nn.gated_delta_rule(*ins, scale=1.0, name="y")
    found = g.output({}, y, memory)
    np.testing.assert_allclose(found[y.name], v, atol=1e-12)
    np.testing.assert_allclose(found[memory.name][0, 0], v[0, [2, 1, 3], 0], atol=1e-12)
