"""FP8: quantisation, products, delayed and current scales, training of digits."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.train.precision import lowered
from gradwright.train.slots import Slots
from gradwright.words.jsonable import from_json, to_json
from tests.support.networks import classifier, digits

TOP = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
F32 = np.float32


# -- an independent statement of the rules, in numpy and ml_dtypes -------------------------------


def quantised(x, scale, name):
    """Return what x·scale is in 8 bits, too large numbers clipped, as float32."""
    y = np.clip((x.astype(F32) * F32(scale)).astype(F32), -TOP[name], TOP[name])
    return y.astype(getattr(ml_dtypes, name)).astype(F32)


def own_scale(x, name, margin=0):
    amax = np.abs(x).max()
    return F32(TOP[name] * 2.0**-margin) / F32(amax) if amax > 0 else F32(1)


def rescaled(history, scale, amax, tops, margin=0, algorithm="max"):
    """Return the history and scale after a step, column by column, as DelayedScaling has them."""
    history, scale = history.copy(), scale.copy()
    for j, top in enumerate(tops):
        column = history[:, j]
        column[0] = amax[j]
        most = column.max() if algorithm == "max" else column[0]
        if np.isfinite(most) and most > 0:
            new = np.float64(top * 2.0**-margin) / np.float64(most)
            scale[j] = min(new, np.finfo(F32).max)
        if amax[j] != 0 and len(column) > 1:
            column[:] = np.roll(column, -1)
        column[0] = 0
    return history, scale


def run(*tensors, feeds=None):
    graph = tensors[0].graph
    with gw.Session(graph, kernels="off") as session:
        return session.run(list(tensors), feeds or {})


# -- quantisation --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOP)
def test_all_codes_and_all_ties_between_them_round_as_ml_dtypes_does(name):
    codes = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name)).astype(F32)
    codes = np.unique(codes[np.isfinite(codes)])
    between = (codes[1:] + codes[:-1]) / 2
    near = np.concatenate([np.nextafter(between, F32(-np.inf)), np.nextafter(between, F32(np.inf))])
    tiny = np.array([1e-45, -1e-45, 1e-38, 2.0**-17, 2.0**-17 * 1.0001], F32)
    x = np.concatenate([codes, between, near, tiny, F32([1e30, -1e30])])
    g = gw.Graph()
    q, inverse, amax = gw.quant.quantize_fp8(g.constant(x), 1.0, dtype=name)
    found = run(q, inverse, amax)
    assert found[0].dtype == getattr(ml_dtypes, name)
    np.testing.assert_array_equal(found[0].astype(F32), quantised(x, 1.0, name))
    assert (found[1], found[2]) == (1.0, F32(1e30))


@pytest.mark.parametrize("name", TOP)
def test_random_numbers_round_as_ml_dtypes_does(name):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(20000) * 2.0 ** rng.integers(-30, 20, 20000)).astype(F32)
    g = gw.Graph()
    q, _, _ = gw.quant.quantize_fp8(g.constant(x), 3.7, dtype=name)
    np.testing.assert_array_equal(run(q)[0].astype(F32), quantised(x, 3.7, name))


@pytest.mark.parametrize("name", TOP)
def test_quantised_products_are_those_of_torch(torch, name):
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(s).astype(F32) for s in ((5, 40), (40, 3)))
    kind = getattr(torch, name)
    p, q = (torch.tensor(x * F32(s)).clamp(-TOP[name], TOP[name]).to(kind)
            for x, s in ((a, 50.0), (b, 200.0)))  # fmt: skip
    theirs = p.float() @ q.float() * (1 / F32(50)) * (1 / F32(200))
    g = gw.Graph()
    scales = [g.constant(F32(s)) for s in (50.0, 200.0)]
    y, _, _ = gw.nn.fp8_product(g.constant(a), g.constant(b), *scales, a_dtype=name, b_dtype=name)
    np.testing.assert_allclose(run(y)[0], theirs.numpy(), rtol=2e-6, atol=1e-5)


def test_current_scaling_uses_the_own_maximum_and_leaves_a_margin():
    g, x = gw.Graph(), np.array([0.3, -7.0, 1e-3], F32)
    q, inverse, amax = gw.quant.quantize_fp8(g.constant(x), margin=1)
    q, inverse, amax = run(q, inverse, amax)
    assert float(amax) == 7.0 and inverse == F32(1) / (F32(224) / F32(7))
    np.testing.assert_array_equal(q.astype(F32), quantised(x, F32(224) / F32(7), "float8_e4m3fn"))


def test_zeros_keep_the_scale_one_and_tiny_numbers_the_largest():
    g = gw.Graph()
    _, one, _ = gw.quant.quantize_fp8(g.constant(np.zeros(3, F32)))
    _, least, _ = gw.quant.quantize_fp8(g.constant(np.array([1e-42], F32)))
    one, least = run(one, least)
    assert one == 1.0 and least == F32(1) / np.finfo(F32).max


def test_what_is_not_finite_stays_visible():
    g = gw.Graph()
    q, _, amax = gw.quant.quantize_fp8(g.constant(np.array([np.inf, -1.0, np.nan], F32)), 2.0)
    q, amax = run(q, amax)
    assert np.isnan(q.astype(F32)).tolist() == [True, False, True] and np.isnan(amax)


# -- products ------------------------------------------------------------------------------------


def product(xs, scales, **attrs):
    """Return a graph's fp8_product of two arrays, its gradients for a cotangent, and all maxima."""
    g = gw.Graph()
    a, b, cot = (g.placeholder(n, x.shape) for n, x in zip("abg", xs, strict=True))
    given = [None if s is None else g.constant(F32(s)) for s in scales]
    y, most_a, most_b = gw.nn.fp8_product(a, b, *given, **attrs)
    da, db = gw.gradients(y, [a, b], [cot])
    return run(y, da, db, most_a, most_b, feeds=dict(zip("abg", xs, strict=True)))


@pytest.mark.parametrize("turned_a", [False, True])
@pytest.mark.parametrize("turned_b", [False, True])
@pytest.mark.parametrize("scales", [(None,) * 3, (50.0, 30.0, 9000.0)])
def test_products_and_both_gradients_are_products_of_quantised_factors(turned_a, turned_b, scales):
    rng = np.random.default_rng(3)
    a, b, cot = (rng.standard_normal(s).astype(F32) for s in ((5, 7), (7, 4), (5, 4)))
    given = a.T.copy() if turned_a else a, b.T.copy() if turned_b else b, cot
    y, da, db, most_a, most_b = product(
        given, scales, transpose_a=turned_a, transpose_b=turned_b, margin=1
    )
    formats = ("float8_e4m3fn", "float8_e4m3fn", "float8_e5m2")
    used = [
        F32(own_scale(x, f, 1) if s is None else s)
        for x, s, f in zip((a, b, cot), scales, formats, strict=True)
    ]
    p, q, r = (quantised(x, s, f) for x, s, f in zip((a, b, cot), used, formats, strict=True))
    s_a, s_b, s_g = used
    np.testing.assert_allclose(y, p @ q / (s_a * s_b), rtol=1e-6, atol=1e-6)
    da, db = da.T if turned_a else da, db.T if turned_b else db
    np.testing.assert_allclose(da, r @ q.T / (s_g * s_b), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(db, p.T @ r / (s_a * s_g), rtol=1e-6, atol=1e-6)
    assert (most_a, most_b) == (np.abs(a).max(), np.abs(b).max())


def test_a_gradient_has_a_gradient():
    """Of y = a·b, d(Σ ∂a²)/db = 2·gᵀ·∂a up to the rounding of 8 bits."""
    rng = np.random.default_rng(5)
    g = gw.Graph()
    a, b = (g.constant(rng.standard_normal(s).astype(F32)) for s in ((6, 5), (5, 3)))
    cot = g.constant(rng.standard_normal((6, 3)).astype(F32))
    y, _, _ = gw.nn.fp8_product(a, b)
    (da,) = gw.gradients(y, [a], [cot])
    (second,) = gw.gradients(da * da, [b])
    found, c, w = run(second, cot, b)
    exact = 2 * (c @ w.T).T @ c
    assert np.linalg.norm(found - exact) < 0.12 * np.linalg.norm(exact)


# -- delayed scales ------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["max", "most_recent"])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_scales_and_histories_follow_the_rule_of_delayed_scaling(algorithm, length):
    rng = np.random.default_rng(length)
    tops, margin = (448.0, 57344.0), 1
    g = gw.Graph()
    h, s = g.placeholder("h", (length, 2)), g.placeholder("s", (2,))
    m = [g.placeholder(f"m{i}", ()) for i in range(2)]
    found = gw.training.update_fp8_scale(h, s, *m, tops=tops, margin=margin, algorithm=algorithm)
    history, scale = np.zeros((length, 2), F32), np.ones(2, F32)
    special = [0.0, np.inf, np.nan, 1e-42, 1e30]
    with gw.Session(g, kernels="off") as session:
        for step in range(25):
            amax = np.abs(rng.standard_normal(2)).astype(F32)
            if step % 4 == 3:
                amax[step % 2] = special[step // 4 % 5]
            feeds = {h: history, s: scale, m[0]: amax[0], m[1]: amax[1]}
            got = session.run(list(found), feeds)
            history, scale = rescaled(history, scale, amax, tops, margin, algorithm)
            np.testing.assert_array_equal(got[0], history)
            np.testing.assert_allclose(got[1], scale, rtol=2e-7)


def network(rng, batch=("B",), linear=True):
    """Return a graph of two products, with data for it."""
    g = gw.Graph()
    x, t = g.placeholder("x", (*batch, 6)), g.placeholder("t", (*batch, 2))
    u = g.variable("u", init=rng.standard_normal((6, 5)).astype(F32))
    w = g.variable("w", init=rng.standard_normal((5, 2)).astype(F32))
    b = g.variable("b", (2,))
    h = gw.tanh(gw.matmul(x, u, name="first"))
    y = gw.nn.linear(h, w, b, name="second") if linear else h @ w + b
    gw.mean((y - t) ** 2.0, name="loss")
    return g


def test_scales_of_a_step_come_from_the_steps_before_it():
    rng = np.random.default_rng(0)
    g = network(rng)
    state = Slots(g, g.values)
    copy = lowered([g["loss"]], None, gw.FP8(history=3), state)
    params = [g["u"], g["w"]]
    grads = gw.gradients(copy.of(g["loss"]), params)
    updates = copy.updates
    names = sorted(v.name.removeprefix(state.scope + "/") for v in updates)
    assert names == [
        f"fp8/{n}/{part}" for n in ("first", "second/matmul") for part in ("history", "scale")
    ]
    scales = {"first": np.ones(3, F32), "second": np.ones(3, F32)}
    history = {k: np.zeros((3, 3), F32) for k in scales}
    tops = (448.0, 448.0, 57344.0)
    formats = ("float8_e4m3fn", "float8_e4m3fn", "float8_e5m2")
    u, w = (g.values.array(n) for n in "uw")

    def times(a, b, s, formats):
        p, q = (quantised(v, k, f) for v, k, f in zip((a, b), s, formats, strict=True))
        return p @ q / (s[0] * s[1])

    with gw.Session(g, kernels="off") as session:
        for _ in range(6):
            x, t = (rng.standard_normal((4, n)).astype(F32) for n in (6, 2))
            got = session.run([copy.of(g["loss"]), *grads], {"x": x, "t": t}, updates=updates)
            one, two = scales["first"], scales["second"]
            h = np.tanh(times(x, u, one[:2], formats[:2]))
            y = times(h, w, two[:2], formats[:2])
            gy = 2 * (y - t) / y.size
            dw = times(h.T, gy, two[[0, 2]], formats[1:])
            dh = times(gy, w.T, two[[2, 1]], formats[2:] + formats[:1])
            gz = dh * (1 - h * h)
            du = times(x.T, gz, one[[0, 2]], formats[1:])
            for ours, theirs in zip(got, (((y - t) ** 2).mean(), du, dw), strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-6)
            maxima = {"first": (x, u, gz), "second": (h, w, gy)}
            for k in scales:
                amax = [np.abs(m).max() for m in maxima[k]]
                history[k], scales[k] = rescaled(history[k], scales[k], amax, tops)
                at = f"{state.scope}/fp8/{'first' if k == 'first' else 'second/matmul'}"
                np.testing.assert_allclose(g.values.array(f"{at}/scale"), scales[k], rtol=1e-3)
                np.testing.assert_allclose(
                    g.values.array(f"{at}/history"), history[k], rtol=1e-3, atol=1e-7
                )
                scales[k] = g.values.array(f"{at}/scale").copy()  # no drift of the comparison
                history[k] = g.values.array(f"{at}/history").copy()


def test_above_frozen_layers_no_cotangent_flows_and_its_scale_stays():
    g = network(np.random.default_rng(0))
    state = Slots(g, g.values)
    copy = lowered([g["loss"]], None, gw.FP8(history=4), state)
    gw.gradients(copy.of(g["loss"]), [g["w"]])
    data = {"x": np.ones((3, 6), F32), "t": np.ones((3, 2), F32)}
    with gw.Session(g, kernels="off") as session:
        session.run([copy.of(g["loss"])], data, updates=copy.updates)
    scale = g.values.array("optimizer/fp8/first/scale")
    assert scale[0] == 448.0 and scale[1] != 1.0 and scale[2] == 1.0
    assert not g.values.array("optimizer/fp8/first/history")[:, 2].any()


def test_batches_of_rows_keep_their_shape():
    g = network(np.random.default_rng(0), batch=("B", 3), linear=False)
    copy = lowered([g["matmul"]], None, gw.FP8(recipe="current"), Slots(g, g.values))
    x = np.random.default_rng(1).standard_normal((2, 3, 6)).astype(F32)
    h = np.tanh(x @ g.values.array("u"))
    (got,) = run(copy.of(g["matmul"]), feeds={"x": x})
    exact = h @ g.values.array("w")
    assert got.shape == (2, 3, 2) and np.abs(got - exact).max() < 0.1 * np.abs(exact).max()


def test_only_the_chosen_layers_are_quantised():
    g = network(np.random.default_rng(0))
    copy = lowered([g["loss"]], None, gw.FP8(layers="second", recipe="current"), Slots(g, g.values))
    low = {row[0] for row in copy.table().rows if row[2].startswith("float8")}
    assert low == {"second/matmul"}


def test_delayed_scales_inside_a_loop_are_refused_and_current_ones_run():
    g = gw.Graph()
    c0, xs, w = (
        g.constant(np.zeros((2, 3), F32)),
        g.placeholder("xs", (4, 2, 3)),
        g.variable("w", (3, 3)),
    )

    def step(c, x):
        new = gw.tanh(x + c @ w)
        return new, new

    _, ys = gw.scan(step, c0, xs)
    state = Slots(g, g.values)
    with pytest.raises(TrainingError, match="inside a loop or a branch"):
        lowered([ys], None, gw.FP8(), state)
    state.clear_graph()
    copy = lowered([ys], None, gw.FP8(recipe="current"), state)
    assert run(copy.of(ys), feeds={"xs": np.ones((4, 2, 3), F32)})[0].shape == (4, 2, 3)


# -- training ------------------------------------------------------------------------------------


def accuracy(x, t, **settings):
    """Return the share of held-out digits that are right after training, in percent."""
    g = classifier()
    trainer = gw.Trainer(g, "loss", gw.optim.Adam(3e-3), seed=1, **settings)
    trainer.fit({"x": x[:1400], "t": t[:1400]}, epochs=25, batch_size=64, progress=False)
    found = g.output({"x": x[1400:]}, "logits")["logits"].argmax(1)
    return 100 * float((found == t[1400:]).mean())


def test_digits_train_in_8_bits_as_well_as_in_32():
    pytest.importorskip("sklearn", reason="no scikit-learn: pip install -e '.[lab]'")
    x, t = digits()
    exact = accuracy(x, t)
    assert exact > 97.0
    for fp8 in (gw.FP8(), gw.FP8(recipe="current"), gw.FP8(history=16, algorithm="most_recent")):
        assert accuracy(x, t, fp8=fp8) >= exact - 0.5
    assert accuracy(x, t, fp8=gw.FP8(), precision="bfloat16") >= exact - 0.5


def test_a_skipped_step_leaves_everything_as_it_was_to_the_bit():
    rng = np.random.default_rng(0)
    g = network(rng)
    trainer = gw.Trainer(
        g, "loss", gw.optim.Adam(1e-2), fp8=gw.FP8(history=4), nonfinite="skip", seed=0
    )
    good = {"x": rng.standard_normal((4, 6)).astype(F32), "t": np.zeros((4, 2), F32)}
    for _ in range(3):
        trainer.step(good)

    def everything():
        arrays = {n.name: g.values.array(n.name) for n in g.all_nodes if n.kind == "variable"}
        return {k: v.tobytes() for k, v in arrays.items()}

    before = everything()
    assert any("/fp8/" in name for name in before)
    for bad in (np.nan, np.inf):
        x = good["x"].copy()
        x[1, 2] = bad
        trainer.step({**good, "x": x})
        assert everything() == before
    assert trainer.skipped == 2
    trainer.step(good)
    assert everything() != before


@pytest.mark.parametrize("precision", [None, "bfloat16"])
def test_a_continued_training_is_the_uninterrupted_one_to_the_bit(precision):
    rng = np.random.default_rng(0)
    data = {"x": rng.standard_normal((32, 6)).astype(F32), "t": rng.random((32, 2)).astype(F32)}

    def trainer():
        g = network(np.random.default_rng(1))
        settings = {"fp8": gw.FP8(history=3), "precision": precision, "deterministic": True}
        return g, gw.Trainer(g, "loss", gw.optim.Adam(1e-2), seed=0, **settings)

    def go(t):
        t.fit(data, epochs=2, batch_size=8, progress=False)

    g, whole = trainer()
    go(whole)
    saved = whole.state_dict()
    values = {v.name: g.values.array(v.name).copy() for v in g.variables}
    go(whole)
    other, part = trainer()
    for name, value in values.items():
        other.values[name] = value
    part.load_state_dict(saved)
    go(part)
    ours, theirs = ({k: np.asarray(v) for k, v in t.state_dict().items()} for t in (whole, part))
    assert any("fp8/" in k for k in ours) and ours.keys() == theirs.keys()
    states = [k for k in ours if k.startswith("optimizer") or "fp8/" in k]
    assert all(ours[k].tobytes() == theirs[k].tobytes() for k in states)
    assert all((g.values[v.name] == other.values[v.name]).all() for v in g.variables)


# -- settings ------------------------------------------------------------------------------------


def test_settings_go_through_json():
    fp8 = gw.FP8("e4m3", "current", margin=2, history=16, algorithm="most_recent", layers=("a/*",))
    assert from_json(json.loads(json.dumps(to_json(fp8)))) == fp8


@pytest.mark.parametrize(
    "settings",
    [
        {"format": "e5m2"},
        {"recipe": "late"},
        {"algorithm": "mean"},
        {"margin": -1},
        {"history": 0},
        {"layers": (1,)},
    ],
)
def test_senseless_settings_are_refused(settings):
    (name,) = settings
    with pytest.raises(TrainingError, match=name):
        gw.FP8(**settings)
