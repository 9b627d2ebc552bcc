"""LoRA on graphs of all kinds, held against peft: forward, gradients, steps, merges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.adapters import Adapted, LoRA, Site, add, sites
from gradwright.errors import GraphError, ShapeError

torch: Any = pytest.importorskip("torch")
peft: Any = pytest.importorskip("peft")

from tests.adapters.nets import Images, Net, feeds_of, images, net, parameters  # noqa: E402

Array = np.ndarray[Any, Any]


def taken_over(adapted: Adapted, theirs: Any) -> None:
    """Give our adapter the values of theirs, moved a little so that nothing is zero."""
    generator = torch.Generator().manual_seed(3)
    state = {}
    with torch.no_grad():
        for name, p in theirs.named_parameters():
            if p.requires_grad:
                p += 0.1 * torch.randn(p.shape, generator=generator)
                state[ours(name)] = p.numpy().copy()
    adapted.load_state(state)


def ours(name: str) -> str:
    """Return our name of a parameter of theirs."""
    name = name.removeprefix("base_model.model.").replace(".default", "")
    if name.endswith(".bias") and "lora_B" not in name:
        return name.replace("base_layer.", "")
    place, _, leaf = name.partition(".lora_")
    leaf = leaf.removesuffix(".weight")
    return f"{place}.weight/lora_{leaf}"


CASES: dict[str, tuple[type, Mapping[str, Any], Mapping[str, Any], Any]] = {
    "linear": (Net, {"lora_alpha": 3}, {"alpha": 3}, ["up", "down"]),
    "rslora": (Net, {"use_rslora": True}, {"rslora": True}, ["up", "down"]),
    "embedding": (Net, {"lora_alpha": 3}, {"alpha": 3}, ["table", "up"]),
    "biases": (Net, {"bias": "lora_only"}, {"bias": "only"}, ["up", "down"]),
    "all biases": (Net, {"bias": "all"}, {"bias": "all"}, ["down"]),
    "patterns": (
        Net,
        {"rank_pattern": {"up": 3}, "alpha_pattern": {"down": 1}},
        {"rank_pattern": {"up": 3}, "alpha_pattern": {"down": 1}},
        ["up", "down"],
    ),
    "lora_bias": (Net, {"lora_bias": True}, {"lora_bias": True}, ["up"]),
    "convolution": (Images, {"lora_alpha": 3}, {"alpha": 3}, ["wide", "split"]),
}


def pair(case: str) -> tuple[Any, gw.Graph, gw.Tensor, gw.Tensor, Adapted, dict[str, Array]]:
    module, theirs, own, where = CASES[case]
    torch.manual_seed(0)
    model = module()
    g, y, loss = (net if module is Net else images)(model)
    config = peft.LoraConfig(r=2, target_modules=where, **theirs)
    wrapped = peft.get_peft_model(model, config)
    adapted = add(g, LoRA(r=2, **own), where)
    taken_over(adapted, wrapped)
    return wrapped, g, y, loss, adapted, feeds_of(module)


def theirs_loss(model: Any, feeds: Mapping[str, Array]) -> tuple[Any, Any]:
    x = torch.from_numpy(feeds["ids"] if "ids" in feeds else feeds["x"])
    y = model(x)
    return y, ((y - torch.from_numpy(feeds["t"]).to(y.dtype)) ** 2).mean()


@pytest.mark.filterwarnings("ignore:LoRA adapter added to ConvNd")
@pytest.mark.parametrize("case", CASES)
def test_as_peft(case: str) -> None:
    model, g, y, loss, adapted, feeds = pair(case)
    wanted, wanted_loss = theirs_loss(model, feeds)
    found = gw.Session(g).run(y, {k: v for k, v in feeds.items() if k != "t"})
    np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-5, atol=1e-5)
    wanted_loss.backward()
    held = {ours(n): p.grad.numpy() for n, p in model.named_parameters() if p.requires_grad}
    assert held.keys() == adapted.state().keys()
    keys = {t.name: key for key, t in adapted._keys().items()}
    assert {t.name for t in g.trainable} == keys.keys()
    grads = gw.Session(g).run(gw.gradients(loss, g.trainable), feeds)
    for t, grad in zip(g.trainable, grads, strict=True):
        wanted_grad = held[keys[t.name]]
        np.testing.assert_allclose(grad, wanted_grad, rtol=1e-4, atol=1e-4 * abs(wanted_grad).max())


@pytest.mark.filterwarnings("ignore:LoRA adapter added to ConvNd")
@pytest.mark.parametrize("case", ["embedding", "biases", "convolution"])
def test_five_steps_as_peft(case: str) -> None:
    model, g, _, loss, _, feeds = pair(case)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.01)
    trainer = gw.Trainer(g, loss, gw.optim.AdamW(0.01))
    for _ in range(5):
        optimizer.zero_grad()
        _, wanted = theirs_loss(model, feeds)
        wanted.backward()
        optimizer.step()
        record = trainer.step(feeds)
        assert record is not None
        assert record.metrics["loss"] == pytest.approx(wanted.item(), rel=1e-5)


def test_b_is_trained_faster_as_by_the_optimizer_of_peft() -> None:
    from peft.optimizers import create_loraplus_optimizer

    model, g, _, loss, adapted, feeds = pair("linear")
    optimizer = create_loraplus_optimizer(
        model, torch.optim.AdamW, lr=0.01, loraplus_lr_ratio=8.0, weight_decay=0.0
    )
    rates = gw.adapters.lora_plus(adapted, 8.0)
    trainer = gw.Trainer(g, loss, gw.optim.AdamW(0.01, weight_decay=0.0), lr_multipliers=rates)
    for _ in range(5):
        optimizer.zero_grad()
        _, wanted = theirs_loss(model, feeds)
        wanted.backward()
        optimizer.step()
        record = trainer.step(feeds)
        assert record is not None
        assert record.metrics["loss"] == pytest.approx(wanted.item(), rel=1e-5)


@pytest.mark.parametrize("case", ["linear", "embedding", "convolution"])
@pytest.mark.filterwarnings("ignore:LoRA adapter added to ConvNd")
def test_merge_as_peft(case: str) -> None:
    model, _, _, _, adapted, _ = pair(case)
    for place in adapted.places:
        assert isinstance(place, Site)
        leaves = adapted.numbers(place)
        if place.name.startswith("split"):
            with pytest.raises(GraphError, match="2 groups"):
                adapted.adapter.merge(place, place.array(), None, leaves)
            continue
        merged = adapted.adapter.merge(place, place.array(), None, leaves)
        assert merged is not None
        layer = model.get_submodule("base_model.model." + place.name.removesuffix(".weight"))
        layer.merge()
        wanted = layer.base_layer.weight.detach().numpy()
        wanted = wanted.T if place.kind == "embedding" else wanted
        np.testing.assert_allclose(merged[0], wanted, atol=1e-6)


def test_half_base_has_float32_adapters_as_peft() -> None:
    torch.manual_seed(0)
    model = Net().to(torch.bfloat16)
    g, y, _ = net(Net().to(torch.float32))
    for name, p in parameters(model.float()).items():
        g.values[name] = p.T if name == "up.weight" else p
    model.to(torch.bfloat16)
    g.convert({t.name: "bfloat16" for t in (*g.variables, g["t"])})
    wrapped = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["up", "down"]))
    adapted = add(g, LoRA(r=2), "up|down")
    assert {t.dtype.name for t in adapted.parameters} == {"float32"}
    taken_over(adapted, wrapped)
    ids = feeds_of(Net)["ids"]
    found = gw.Session(g).run(y, {"ids": ids})
    assert found.dtype.name == "bfloat16"
    wanted = wrapped(torch.from_numpy(ids)).float().detach().numpy()
    np.testing.assert_allclose(found.astype("f"), wanted, rtol=2e-2, atol=2e-2)
    half = add(g, LoRA(r=2), "down", name="half", dtype="bfloat16")
    assert {t.dtype.name for t in half.parameters} == {"bfloat16"}


def test_first_values() -> None:
    torch.manual_seed(0)
    model = Net()
    feeds = feeds_of(Net)
    for init in (True, "gaussian"):
        g, y, _ = net(model)
        before = gw.Session(g).run(y, {"ids": feeds["ids"]})
        adapted = add(g, LoRA(r=4, init=init), "up|down")
        assert abs(gw.Session(g).run(y, {"ids": feeds["ids"]}) - before).max() == 0
        a = adapted.state()["up.weight/lora_A"]
        assert abs(a).max() > 0 and (init == "gaussian" or abs(a).max() <= 6**-0.5)
        again = add(net(model)[0], LoRA(r=4, init=init), "up|down")
        assert all(np.array_equal(v, again.state()[k]) for k, v in adapted.state().items())
    g, y, _ = net(model)
    before = gw.Session(g).run(y, {"ids": feeds["ids"]})
    add(g, LoRA(r=4, init=False), "up|down")
    assert abs(gw.Session(g).run(y, {"ids": feeds["ids"]}) - before).max() > 1e-3


def test_gradient_check() -> None:
    torch.manual_seed(0)
    g, _, loss = net(Net(), "float64")
    add(g, LoRA(r=2, init=False), "table|up|down")
    feeds = feeds_of(Net)
    report = gw.gradient_check(g, loss, {"ids": feeds["ids"], "t": feeds["t"].astype("d")})
    assert report.passed, report


def test_dropout_is_on_the_way_of_the_adapter_alone() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (64, 8))
    y = x @ g.variable("w", (8, 4), init=gw.init.normal(seed=0))
    adapted = add(g, LoRA(r=2, dropout=0.5), "w")
    ones = np.ones((64, 8), "f")
    base = ones @ g.values["w"]
    session = gw.Session(g)
    np.testing.assert_array_equal(session.run(y, {"x": ones}, training=True), base)
    adapted.load_state({"w/lora_A": np.ones((2, 8)), "w/lora_B": np.ones((4, 2))})
    trained, still = (session.run(y, {"x": ones}, training=mode) for mode in (True, False))
    assert len(np.unique((trained - base).round(3))) > 2 and (still - base).std() < 1e-5


def test_a_weight_used_twice_has_one_adapter() -> None:
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 3)), g.variable("w", (3, 3), init=gw.init.normal(seed=0))
    y = gw.tanh(x @ w) @ w
    adapted = add(g, LoRA(r=1, alpha=1), "w")
    a, b = np.array([[1.0, 2, 3]]), np.array([[1.0], [0], [-1]])
    adapted.load_state({"w/lora_A": a, "w/lora_B": b})
    whole = g.values["w"] + (b @ a).T
    xs = np.eye(3)
    np.testing.assert_allclose(
        gw.Session(g).run(y, {"x": xs}), np.tanh(xs @ whole) @ whole, rtol=1e-5
    )
    adapted.remove()
    np.testing.assert_allclose(
        gw.Session(g).run(y, {"x": xs}), np.tanh(xs @ g.values["w"]) @ g.values["w"], rtol=1e-5
    )


def test_ops_that_do_more_than_multiply_read_the_sum() -> None:
    rng = np.random.default_rng(0)
    g = gw.Graph()
    x = g.placeholder("x", (2, 5, 4))
    ws = [g.variable(n, init=rng.standard_normal((4, 4)).astype("f")) for n in "qkvo"]
    y = gw.nn.multi_head_dot_product_attention(x, x, x, *ws, num_heads=2)
    feeds = {"x": rng.standard_normal((2, 5, 4)).astype("f")}
    adapted = add(g, LoRA(r=2, init=False), "q|o")
    found = gw.Session(g).run(y, feeds)
    merged = {}
    for place in adapted.places:
        assert isinstance(place, Site)
        leaves = adapted.numbers(place)
        done = adapted.adapter.merge(place, place.array(), None, leaves)
        assert done is not None
        merged[place.name] = place.stored(done[0])
    adapted.disable()
    assert abs(gw.Session(g).run(y, feeds) - found).max() > 1e-3
    g.values.restore(merged)
    np.testing.assert_allclose(gw.Session(g).run(y, feeds), found, rtol=1e-5, atol=1e-5)


def test_a_model_of_onnx(tmp_path: Any) -> None:
    pytest.importorskip("onnx")
    torch.manual_seed(0)
    g, y, _ = images(Images())
    y.rename("y")
    read = gw.onnx.load(gw.onnx.to_model(g, ["y"]))
    feeds = {"x": feeds_of(Images)["x"]}
    before = read.output(feeds, "y")["y"]
    adapted = add(read, LoRA(r=2, init=False), "wide|split")
    assert [p.kind for p in adapted.places] == ["conv", "conv"]
    after = read.output(feeds, "y")["y"]
    assert abs(after - before).max() > 1e-3
    adapted.disable()
    np.testing.assert_array_equal(read.output(feeds, "y")["y"], before)


@pytest.mark.parametrize("format", ["q8_0", "q4_0"])
def test_a_packed_decoder(format: str) -> None:
    config = gw.models.DecoderConfig(vocabulary=20, width=32, layers=2, heads=2)
    model = gw.quant.quantize(gw.models.Decoder(config), format).model
    feeds = model.examples([[1, 2, 3, 4]])
    adapted = add(model, LoRA(r=2), "all-linear")
    assert {p.packed for p in adapted.places} == {format}  # type: ignore[attr-defined]
    assert len(adapted.places) == 14 and adapted.trainable.n_all > 20_000
    trainer = gw.Trainer(model.graph, model.loss, gw.optim.AdamW(1e-2))
    losses = [trainer.step(feeds).metrics["loss"] for _ in range(6)]  # type: ignore[union-attr]
    assert losses[-1] < losses[0] - 0.2
    [first, *_] = sites(model.graph)
    assert first.packed == format and first.array().shape == (32, 20)


def test_ranks_that_do_not_fit() -> None:
    g, *_ = images(Images())
    with pytest.raises(ShapeError, match=r"rank 9 is larger.*\n.*\n.*r <= 4"):
        add(g, LoRA(r=9), "split")
    with pytest.raises(ShapeError, match="does not split into the 2 groups"):
        add(g, LoRA(r=3), "split")
    assert not gw.adapters.of(g) and [t.name for t in g.trainable] == [v.name for v in g.variables]
    for wrong in ({"r": 0}, {"dropout": 1.0}, {"bias": "some"}, {"init": "olara"}):
        with pytest.raises(GraphError):
            LoRA(**wrong)
    with pytest.raises(TypeError, match="did you mean 'alpha'"):
        LoRA(alhpa=3)
