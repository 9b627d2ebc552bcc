"""Mixed precision: numbers and dtypes against torch.autocast, training of digits, settings."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.graph import Tensor
from gradwright.words.jsonable import from_json, to_json
from tests.support.networks import classifier, digits
from tests.train.lowered import copy_of, products, run

F32 = np.float32


# -- against torch.autocast ------------------------------------------------------------------------


def mlp(torch, rng):
    """Return a graph and torch's twin: loss as a function of the parameters, and the data."""
    g = gw.Graph()
    x, t = g.placeholder("x", ("B", 12)), g.placeholder("t", ("B",), "int64")
    params, h = {}, x
    for i, (a, b) in enumerate([(12, 32), (32, 24), (24, 5)]):
        params[f"w{i}"] = rng.standard_normal((a, b)).astype(F32) / np.sqrt(a).astype(F32)
        params[f"b{i}"] = rng.standard_normal(b).astype(F32) * F32(0.1)
        w, c = (g.variable(n, init=params[n]) for n in (f"w{i}", f"b{i}"))
        h = gw.nn.linear(h, w, c) if i != 1 else h @ w + c
        h = gw.tanh(h) if i < 2 else h
    gw.loss.sparse_softmax_cross_entropy(t, h, name="loss")

    def twin(p, x, t):
        h = x
        for i in range(3):
            w, c = p[f"w{i}"], p[f"b{i}"]
            h = torch.nn.functional.linear(h, w.T, c) if i != 1 else h @ w + c
            h = torch.tanh(h) if i < 2 else h
        return torch.nn.functional.cross_entropy(h, t)

    data = {"x": rng.standard_normal((16, 12)).astype(F32), "t": rng.integers(0, 5, 16)}
    return g, params, twin, data


def convnet(torch, rng):
    g = gw.Graph()
    x, t = g.placeholder("x", ("B", 1, 8, 8)), g.placeholder("t", ("B",), "int64")
    shapes = {"k": (6, 1, 3, 3), "kb": (6,), "l": (8, 6, 3, 3), "w": (32, 4), "wb": (4,)}
    params = {n: rng.standard_normal(s).astype(F32) * F32(0.3) for n, s in shapes.items()}
    v = {n: g.variable(n, init=p) for n, p in params.items()}
    h = gw.cnn.max_pool2d(gw.tanh(gw.cnn.conv2d(x, v["k"], v["kb"], padding=1)), 2)
    h = gw.cnn.avg_pool2d(gw.tanh(gw.cnn.conv2d(h, v["l"], padding=1)), 2)
    y = gw.nn.linear(gw.flatten(h, 1), v["w"], v["wb"])
    gw.loss.sparse_softmax_cross_entropy(t, y, name="loss")
    f = torch.nn.functional

    def twin(p, x, t):
        h = f.max_pool2d(torch.tanh(f.conv2d(x, p["k"], p["kb"], padding=1)), 2)
        h = f.avg_pool2d(torch.tanh(f.conv2d(h, p["l"], padding=1)), 2)
        return f.cross_entropy(f.linear(h.flatten(1), p["w"].T, p["wb"]), t)

    data = {"x": rng.standard_normal((6, 1, 8, 8)).astype(F32), "t": rng.integers(0, 4, 6)}
    return g, params, twin, data


def transformer(torch, rng):
    d, heads, n_tokens = 16, 2, 11
    g = gw.Graph()
    x, t = (g.placeholder(n, ("B", 6), "int64") for n in ("x", "t"))
    shapes = {"e": (n_tokens, d), "q": (d, 3 * d), "o": (d, d), "u": (d, 32), "ub": (32,)}
    shapes |= {"v": (32, d), "g1": (d,), "g2": (d,), "h1": (d,), "h2": (d,), "out": (d, n_tokens)}
    params = {n: rng.standard_normal(s).astype(F32) * F32(0.25) for n, s in shapes.items()}
    v = {n: g.variable(n, init=p) for n, p in params.items()}
    h = gw.nn.embedding(x, v["e"])
    parts = gw.split(gw.nn.layer_norm(h, v["g1"], v["h1"]) @ v["q"], 3, axis=-1)
    q, k, w = (p.reshape((-1, 6, heads, d // heads)).transpose((0, 2, 1, 3)) for p in parts)
    a = gw.nn.scaled_dot_product_attention(q, k, w, is_causal=True)
    h = h + a.transpose((0, 2, 1, 3)).reshape((-1, 6, d)) @ v["o"]
    m = gw.nn.gelu(gw.nn.linear(gw.nn.layer_norm(h, v["g2"], v["h2"]), v["u"], v["ub"]))
    y = (h + m @ v["v"]) @ v["out"]
    gw.loss.sparse_softmax_cross_entropy(t, y, name="loss")
    f = torch.nn.functional

    def twin(p, x, t):
        h = p["e"][x]
        parts = (f.layer_norm(h, (d,), p["g1"], p["h1"]) @ p["q"]).chunk(3, -1)
        q, k, w = (c.reshape(-1, 6, heads, d // heads).transpose(1, 2) for c in parts)
        a = f.scaled_dot_product_attention(q, k, w, is_causal=True)
        h = h + a.transpose(1, 2).reshape(-1, 6, d) @ p["o"]
        m = f.gelu(f.linear(f.layer_norm(h, (d,), p["g2"], p["h2"]), p["u"].T, p["ub"]))
        y = (h + m @ p["v"]) @ p["out"]
        return f.cross_entropy(y.flatten(0, 1), t.flatten())

    data = {n: rng.integers(0, n_tokens, (5, 6)) for n in ("x", "t")}
    return g, params, twin, data


NETWORKS = {"mlp": mlp, "convnet": convnet, "transformer": transformer}


@pytest.mark.parametrize("network", NETWORKS)
def test_loss_and_gradients_are_as_near_to_autocast_as_that_is_to_float32(torch, network):
    g, params, twin, data = NETWORKS[network](torch, np.random.default_rng(0))
    copy = copy_of(g, "loss")
    wrt = [g[n] for n in params]
    grads = gw.gradients(copy.of(g["loss"]), wrt)
    assert {t.dtype.name for t in (copy.of(g["loss"]), *grads)} == {"float32"}
    ours = run([copy.of(g["loss"]), *grads], data)

    def theirs(enabled):
        p = {n: torch.tensor(v, requires_grad=True) for n, v in params.items()}
        fed = {n: torch.tensor(v) for n, v in data.items()}
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = twin(p, **fed)
        loss.backward()
        return [loss.detach().numpy(), *(v.grad.numpy() for v in p.values())]

    for name, a, b, exact in zip(("loss", *params), ours, theirs(True), theirs(False), strict=True):
        rounding = np.linalg.norm(b - exact)
        assert np.linalg.norm(a - exact) <= 2.5 * rounding + 1e-3 * np.linalg.norm(exact), name
        assert np.linalg.norm(a - b) <= 0.05 * np.linalg.norm(exact) + 1e-6, name


@pytest.mark.parametrize("network", NETWORKS)
def test_the_same_products_run_in_16_bits_as_under_autocast(torch, network):
    from torch.utils._python_dispatch import TorchDispatchMode

    g, params, twin, data = NETWORKS[network](torch, np.random.default_rng(0))
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            made = op(*args, **(kwargs or {}))
            name = op.overloadpacket.__name__
            if name in ("mm", "bmm", "addmm", "convolution", "_log_softmax"):
                seen.append((name, str(made.dtype).removeprefix("torch.")))
            elif "scaled_dot_product" in name:
                seen.append(("attention", str(made[0].dtype).removeprefix("torch.")))
            return made

    p = {n: torch.tensor(v) for n, v in params.items()}
    with torch.autocast("cpu", dtype=torch.bfloat16), Watch():
        twin(p, **{n: torch.tensor(v) for n, v in data.items()})
    rows = copy_of(g, "loss").table().rows
    ours = [
        ("loss" if op.endswith("entropy") else "product", dtype)
        for _, op, dtype, *_ in rows
        if op in ("linear", "matmul", "conv2d", "sparse_softmax_cross_entropy")
        or op == "scaled_dot_product_attention"
    ]
    theirs = [("loss" if "log_softmax" in op else "product", dtype) for op, dtype in seen]
    assert ours == theirs


@pytest.mark.parametrize("network", NETWORKS)
def test_no_product_of_the_step_is_in_float32(torch, network):
    g, params, _, _ = NETWORKS[network](torch, np.random.default_rng(0))
    loss = copy_of(g, "loss").of(g["loss"])
    grads = gw.gradients(loss, [g[n] for n in params])
    found = products([loss, *grads])
    assert len(found) >= 8 and all(dtypes == ["bfloat16"] * 2 for _, dtypes in found)
    assert all(dtypes == ["float32"] * 2 for _, dtypes in products([g["loss"]]))


def test_sensitive_ops_stay_in_float32():
    g = gw.Graph()
    x, w = g.placeholder("x", (4, 8)), g.variable("w", (8, 8))
    h = x @ w
    made = {
        "softmax": gw.nn.softmax(h), "logsumexp": gw.logsumexp(h), "exp": gw.exp(h),
        "log": gw.log(h * h + 1.0), "pow": h**3.0, "sum": gw.sum(h), "mean": gw.mean(h),
        "layer_norm": gw.nn.layer_norm(h), "rms_norm": gw.nn.rms_norm(h),
        "mean_squared_error": gw.loss.mean_squared_error(x, h),
    }  # fmt: skip
    copy = copy_of(g, *made.values())
    rows = {op: (computes, gives) for _, op, computes, gives, _ in copy.table().rows}
    assert {op: rows[op] for op in made} == dict.fromkeys(made, ("float32", "float32"))
    assert rows["matmul"] == ("bfloat16", "bfloat16")


# -- training --------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_digits_train_in_16_bits(precision):
    pytest.importorskip("sklearn", reason="no scikit-learn: pip install -e '.[lab]'")
    x, t = digits()
    g = classifier()
    trainer = gw.Trainer(
        g, "loss", gw.optim.Adam(3e-3), precision=precision, seed=1, nonfinite="skip",
        loss_scale=gw.LossScale(initial=2.0**24, interval=100) if precision == "float16" else None,
    )  # fmt: skip
    trainer.fit({"x": x[:1400], "t": t[:1400]}, epochs=25, batch_size=64, progress=False)
    assert all(v.dtype == np.float32 for v in g.variables)
    found = g.output({"x": x[1400:]}, "logits")["logits"].argmax(1)
    assert 100 * float((found == t[1400:]).mean()) > 97.0
    if precision == "float16":
        assert trainer.skipped >= 4  # the first scales overflow 16 bits, and the scale comes down
        assert trainer.scaler.scale < 2.0**24


def test_gradients_too_small_for_float16_arrive_with_a_loss_scale():
    g = gw.Graph()
    x, w = g.placeholder("x", (1, 1)), g.variable("w", (1, 1), init=1.0)
    gw.sum((x @ w) * 1e-9, name="loss")
    for scale, moved in ((None, False), (gw.LossScale("static", initial=2.0**20), True)):
        g.values["w"] = np.ones((1, 1), F32)
        trainer = gw.Trainer(
            g, "loss", gw.optim.SGD(1e7), precision="float16",
            loss_scale=scale or gw.LossScale("none"),
        )  # fmt: skip
        trainer.step({"x": np.ones((1, 1), F32)})
        assert (g.values["w"].item() != 1.0) == moved
    np.testing.assert_allclose(g.values["w"].item(), 1 - 1e-2, rtol=1e-4)


def test_an_overflow_moves_the_loss_scale_and_nothing_else():
    rng = np.random.default_rng(0)
    g = gw.Graph()
    x, w = g.placeholder("x", (8, 4)), g.variable("w", init=rng.standard_normal((4, 3)).astype(F32))
    gw.mean((x @ w) ** 2.0, name="loss")
    trainer = gw.Trainer(
        g, "loss", precision="float16", nonfinite="skip",
        loss_scale=gw.LossScale(initial=2.0**60, interval=2),
    )  # fmt: skip
    batch = {"x": rng.standard_normal((8, 4)).astype(F32)}
    variables = [n.name for n in g.all_nodes if n.kind == "variable"]
    before = {n: g.values.array(n).tobytes() for n in variables}
    scales = []
    while trainer.skipped == len(scales):
        assert {n: g.values.array(n).tobytes() for n in variables} == before
        scales.append(trainer.scaler.scale)
        trainer.step(batch)
    assert scales == [2.0 ** (60 - i) for i in range(len(scales))] and len(scales) > 20
    assert g.values.array("w").tobytes() != before["w"]


def test_evaluation_and_metrics_follow_the_policy():
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 1)), g.variable("w", (1, 1), init=1.001)
    y = gw.mean(x @ w, name="loss")
    trainer = gw.Trainer(g, "loss", metrics={"same": y * 1.0}, precision="bfloat16")
    found = trainer.evaluate({"x": np.ones((4, 1), F32)})
    assert found == {"loss": 1.0, "same": 1.0}  # 1.001 rounds to 1 in bfloat16
    assert float(g.output({"x": np.ones((4, 1), F32)}, "loss")["loss"]) == F32(1.001)


def test_running_means_come_from_the_same_forward():
    g = gw.Graph()
    x, w = g.placeholder("x", ("B", 4)), g.variable("w", (4, 3), init=gw.init.he_normal(seed=0))
    h = gw.nn.batch_norm(x @ w, name="bn")
    gw.mean(h * h * x[:, :3], name="loss")
    trainer = gw.Trainer(g, "loss", precision="bfloat16")
    data = np.random.default_rng(0).standard_normal((16, 4)).astype(F32)
    (low,) = run([copy_of(g, "matmul").of(g["matmul"])], {"x": data})
    (mean,) = (v for v in g.updates if v.name.endswith("mean"))
    trainer.step({"x": data})
    np.testing.assert_allclose(g.values.array(mean.name), 0.1 * low.mean(0), rtol=1e-5)


# -- settings and errors ---------------------------------------------------------------------------


def test_settings_go_through_json():
    precision = gw.Precision("float16", keep=("head/*", "norm"))
    assert from_json(json.loads(json.dumps(to_json(precision)))) == precision


def test_unknown_dtypes_are_refused():
    with pytest.raises(TrainingError, match=r"(?s)'float8'.*gw\.FP8"):
        gw.Precision("float8")
    with pytest.raises(TrainingError, match="no names of nodes"):
        gw.Precision(keep=(3,))


def test_the_table_says_why():
    g = gw.Graph()
    x, w = g.placeholder("x", (4, 3)), g.variable("w", (3, 2))
    copy = copy_of(g, gw.nn.softmax(gw.matmul(x, w, name="scores"), name="weights"))
    first, second = copy.table().rows
    assert first[:4] == ["scores", "matmul", "bfloat16", "bfloat16"] and "products" in first[4]
    assert second[:4] == ["weights", "softmax", "float32", "float32"] and second[4]
    assert isinstance(copy.of(g["weights"]), Tensor)


def test_a_trainer_tells_what_computes_in_which_dtype():
    g = gw.Graph()
    x, w = g.placeholder("x", (4, 3)), g.variable("w", (3, 2))
    loss = gw.mean(gw.matmul(x, w, name="product"), name="loss")
    assert gw.Trainer(g, loss).precision_table().rows == []
    mixed = gw.Trainer(g, loss, precision="bfloat16", fp8=gw.FP8()).precision_table()
    assert [row[:4] for row in mixed.rows] == [
        ["product", "matmul", "float8_e4m3fn", "bfloat16"],
        ["loss", "mean", "float32", "float32"],
    ]
    assert "<table>" in mixed._repr_html_() and "8 bits" in str(mixed)


# -- dtypes by pattern -----------------------------------------------------------------------------


def two_parts():
    """Return a graph of an encoder and a head, and its loss."""
    g = gw.Graph()
    h = g.placeholder("x", (None, 6))
    t = g.placeholder("t", (None, 2))
    for scope, width in (("encoder", 5), ("head", 2)):
        with g.scope(scope):
            w = g.variable("w", (h.shape[1], width), init=gw.init.normal(seed=width))
            h = gw.tanh(h @ w)
    return g, gw.loss.mean_squared_error(t, h, name="loss")


def by_hand(encoder, head):
    """Return the same with the casts that these dtypes mean, and its gradients."""
    g = gw.Graph()
    h = g.placeholder("x", (None, 6))
    t = g.placeholder("t", (None, 2))
    for scope, width, dtype in (("encoder", 5, encoder), ("head", 2, head)):
        with g.scope(scope):
            w = g.variable("w", (h.shape[1], width), init=gw.init.normal(seed=width))
            h = gw.tanh(gw.cast(h, dtype) @ gw.cast(w, dtype))
    loss = gw.loss.mean_squared_error(t, gw.cast(h, "float32"), name="loss")
    return loss, gw.gradients(loss, [g["encoder/w"], g["head/w"]])


@pytest.mark.parametrize(
    ("precision", "encoder", "head"),
    [
        ({"encoder/*": "bfloat16"}, "bfloat16", "float32"),
        ({"encoder/*": "bfloat16", "head/*": "float16"}, "bfloat16", "float16"),
        (gw.Precision("float16", dtypes={"encoder/*": "float32"}), "float32", "float16"),
        (
            gw.Precision("bfloat16", dtypes={"head/mat*": "float16", "head/*": "float32"}),
            *("bfloat16", "float16"),
        ),
    ],
)
def test_each_product_has_the_dtype_of_the_first_pattern_that_fits(precision, encoder, head):
    rng = np.random.default_rng(0)
    data = {"x": rng.standard_normal((8, 6)), "t": rng.standard_normal((8, 2))}
    data = {name: a.astype(np.float32) for name, a in data.items()}
    g, loss = two_parts()
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(1.0), precision=precision, loss_scale=1.0)
    computes = {row[0]: row[2] for row in trainer.precision_table().rows}
    assert (computes["encoder/matmul"], computes["head/matmul"]) == (encoder, head)
    before = {name: g.values[name].copy() for name in ("encoder/w", "head/w")}
    record = trainer.step(data)
    expected, grads = by_hand(encoder, head)
    assert record.metrics["loss"] == pytest.approx(float(expected.eval(data)), rel=2e-3)
    for (name, held), grad in zip(before.items(), grads, strict=True):
        np.testing.assert_allclose(held - g.values[name], grad.eval(data), rtol=0.02, atol=2e-3)


def test_dtypes_by_pattern_are_settings():
    config = gw.TrainingConfig(precision={"encoder/*": "bfloat16"})
    assert config.precision == gw.Precision("float32", dtypes={"encoder/*": "bfloat16"})
    assert gw.TrainingConfig.from_json(config.to_json()) == config and config.scaler is None
    half = gw.TrainingConfig(precision={"encoder/*": "float16"})
    assert half.scaler == gw.LossScale()  # as with float16 everywhere
    with pytest.raises(TrainingError, match="cannot be computed in 'int8'"):
        gw.TrainingConfig(precision={"encoder/*": "int8"})
