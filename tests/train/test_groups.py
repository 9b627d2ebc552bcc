"""Groups, penalties and clipping: held against torch and against numpy, step by step."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError

START = {
    "w": np.random.default_rng(0).standard_normal((4, 3)),
    "b": np.array([0.3, -0.2, 0.1]),
    "v": np.random.default_rng(1).standard_normal(3),
}


def net(**options):
    """Return a float64 trainer of tanh(x·w + b)·v."""
    g = gw.Graph("net")
    x, t = g.placeholder("x", (None, 4), "float64"), g.placeholder("t", (None,), "float64")
    w, b, v = (g.variable(name, init=value) for name, value in START.items())
    loss = gw.mean((gw.tanh(x @ w + b) @ v - t) ** 2.0, name="loss")
    options.setdefault("optimizer", gw.optim.SGD(0.1))
    return gw.Trainer(g, loss, **options)


def batch(i):
    x = np.random.default_rng(10 + i).standard_normal((8, 4))
    return {"x": x, "t": 3 * x[:, 0] - x[:, 1]}


def torch_net(torch):
    return {n: torch.nn.Parameter(torch.tensor(a)) for n, a in START.items()}


def torch_loss(torch, p, i):
    x, t = (torch.tensor(a) for a in batch(i).values())
    return ((torch.tanh(x @ p["w"] + p["b"]) @ p["v"] - t) ** 2).mean()


def same(trainer, params, rtol=1e-11):
    for name, p in params.items():
        np.testing.assert_allclose(
            trainer.values[name], p.detach().numpy(), rtol=rtol, err_msg=name
        )


# -- groups ----------------------------------------------------------------------------------------


def test_groups_are_param_groups_of_torch(torch):
    """AdamW with another rate and no decay for the bias, and a group with its own optimizer."""
    trainer = net(
        optimizer=gw.optim.AdamW(0.05, weight_decay=0.1),
        groups=[
            gw.Group("b", lr_multiplier=0.5, weight_decay=0.0),
            gw.Group("v", optimizer=gw.optim.SGD(0.02, momentum=0.9)),
        ],
    )
    p = torch_net(torch)
    adam = torch.optim.AdamW(
        [{"params": [p["w"]]}, {"params": [p["b"]], "lr": 0.025, "weight_decay": 0.0}],
        lr=0.05,
        weight_decay=0.1,
    )
    sgd = torch.optim.SGD([p["v"]], lr=0.02, momentum=0.9)
    for i in range(6):
        record = trainer.step(batch(i))
        adam.zero_grad(), sgd.zero_grad()
        torch_loss(torch, p, i).backward()
        adam.step(), sgd.step()
        same(trainer, p)
    assert record.metrics["learning_rate"] == 0.05
    assert record.metrics["learning_rate_1"] == 0.02


def test_matrices_by_muon_and_the_rest_by_adamw():
    plain = net(optimizer=gw.optim.Muon(0.02), parameters=["w"])
    both = net(
        optimizer=gw.optim.AdamW(0.01), groups=[gw.Group("w", optimizer=gw.optim.Muon(0.02))]
    )
    alone = net(optimizer=gw.optim.AdamW(0.01), parameters=["b", "v"])
    for trainer in (plain, both, alone):
        trainer.step(batch(0))
    np.testing.assert_allclose(both.values["w"], plain.values["w"], rtol=1e-12)
    for name in ("b", "v"):
        np.testing.assert_allclose(both.values[name], alone.values[name], rtol=1e-12)


def test_groups_are_unrolled_and_saved_to_the_bit():
    def fresh():
        groups = [gw.Group("v", optimizer=gw.optim.SGD(gw.schedules.Cosine(0.1, 20), momentum=0.9))]
        return net(
            optimizer=gw.optim.Adam(0.01),
            groups=groups,
            lr_multipliers={"b": 0.1},
            deterministic=True,
        )

    def everything(trainer):
        state = {k: v for k, v in trainer.state_dict().items() if not k.endswith("seconds")}
        state |= {name: trainer.values[name] for name in START}
        return {k: np.asarray(v).tobytes() for k, v in state.items()}

    parts = [batch(i) for i in range(6)]
    whole, grouped, first, second = (fresh() for _ in range(4))
    whole.fit(parts, epochs=2, progress=False)
    grouped.fit(parts, epochs=2, unroll=3, progress=False)
    assert everything(whole) == everything(grouped)
    first.fit(parts, epochs=1, progress=False)
    for name in START:
        second.values[name] = first.values[name]
    second.load_state_dict(first.state_dict())
    second.fit(parts, epochs=1, progress=False)
    assert everything(second) == everything(whole)


def test_multipliers_scale_the_rate_of_each_variable():
    scaled = net(lr_multipliers={"w": 0.5, "v": 0.0}, groups=[gw.Group("w", lr_multiplier=0.2)])
    plain = net()
    scaled.step(batch(0)), plain.step(batch(0))
    for name, factor in (("w", 0.1), ("b", 1.0), ("v", 0.0)):
        moved, whole = (t.values[name] - START[name] for t in (scaled, plain))
        np.testing.assert_allclose(moved, factor * whole, rtol=1e-9, atol=1e-15)


def test_groups_that_overlap_or_fit_nothing_are_named():
    for options, message in (
        ({"groups": [gw.Group(["w", "b"]), gw.Group("*")]}, r"'w' is in two groups(.|\n)*'\*'"),
        ({"groups": [gw.Group("u*")]}, r"no variable fits 'u\*'"),
        ({"lr_multipliers": {"w": 1.0, "[w]": 2.0}}, "'w' has two learning rate multipliers"),
    ):
        with pytest.raises(TrainingError, match=message):
            net(**options).step(batch(0))
    with pytest.raises(TrainingError, match=r"a group's l2=-1 is out of range"):
        gw.Group("w", l2=-1)
    with pytest.raises(TrainingError, match=r"a group cannot be \[\]"):
        gw.Group([])
    with pytest.raises(TrainingError, match="'adamm' is no optimizer"):
        gw.Group("w", optimizer="adamm")


def test_settings_that_a_group_has_not_are_named():
    with pytest.raises(TypeError, match=r"Group has no 'lr'; .*gw.optim.Adam.*lr_multiplier=0.1"):
        gw.Group("w", lr=1e-4)
    with pytest.raises(TypeError, match="did you mean 'weight_decay'"):
        gw.Group("w", weight_decy=0.1)
    assert list(inspect.signature(gw.Group).parameters)[:2] == ["variables", "optimizer"]


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": gw.optim.Lion(0.01)},
        {"optimizer": gw.optim.AMSGrad(0.01)},
        {"l1": 0.01, "l2": 0.1},
        {"clip_tensor_norm": 0.1},
        {"clip_value": 0.01},
        {"weight_decay": 0.1},
        {"minimize": False, "lr_multipliers": {"v": 0.5}},
        {"groups": [gw.Group("v", optimizer=gw.optim.Lion(0.01))]},
        {"precision": "bfloat16"},
        {"fp8": True},
        {"ema": gw.EMA(0.9)},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_all_settings_are_single_steps_to_the_bit_in_groups(settings):
    def trained(unroll):
        rng = np.random.default_rng(0)
        g = gw.Graph()
        x = g.placeholder("x", (None, 3))
        v = g.variable("v", init=rng.standard_normal((32, 3)).astype("float32"))
        loss = gw.mean((x @ v.T) ** 2.0)
        trainer = gw.Trainer(g, loss, deterministic=True, **settings)
        data = {"x": rng.standard_normal((72, 3)).astype("float32")}
        trainer.fit(data, batch_size=8, unroll=unroll, progress=False)
        found = {k: v for k, v in trainer.state_dict().items() if not k.endswith("seconds")}
        found["v"] = trainer.values["v"]
        return {k: np.asarray(v).tobytes() for k, v in found.items()}

    assert trained(3) == trained(1)


# -- penalties -------------------------------------------------------------------------------------


def test_penalties_are_coupled_and_recorded_each_for_itself(torch):
    trainer = net(
        optimizer=gw.optim.Adam(0.05), l1=0.01, l2=0.1, groups=[gw.Group("b", l1=0, l2=0)]
    )
    p = torch_net(torch)
    oracle = torch.optim.Adam(p.values(), lr=0.05)
    for i in range(5):
        l1 = 0.01 * sum(p[n].abs().sum() for n in "wv")
        l2 = 0.05 * sum((p[n] ** 2).sum() for n in "wv")
        loss = torch_loss(torch, p, i)
        record = trainer.step(batch(i))
        assert record.metrics["loss"] == pytest.approx(loss.item(), rel=1e-11)
        assert record.metrics["l1_penalty"] == pytest.approx(l1.item(), rel=1e-11)
        assert record.metrics["l2_penalty"] == pytest.approx(l2.item(), rel=1e-11)
        oracle.zero_grad()
        (loss + l1 + l2).backward()
        oracle.step()
        same(trainer, p)


@pytest.mark.parametrize("optimizer", [gw.optim.SGD(0.1, weight_decay=0.5), gw.optim.AdamW(0.1)])
@pytest.mark.parametrize("scaled", [True, False])
def test_decoupled_decay_takes_the_place_of_the_optimizer_s_own(optimizer, scaled):
    def fresh(**fields):
        return net(optimizer=type(optimizer)(0.1, weight_decay=0.0), **fields)

    plain = fresh()
    decayed = net(optimizer=optimizer, weight_decay=0.02, decay_scaled_by_rate=scaled)
    plain.step(batch(0)), decayed.step(batch(0))
    share = 0.02 * (0.1 if scaled else 1.0)
    for name, start in START.items():
        expected = plain.values[name] - share * start
        np.testing.assert_allclose(decayed.values[name], expected, rtol=1e-12, atol=1e-15)


# -- clipping --------------------------------------------------------------------------------------


def test_clipping_is_torch_s_by_value_and_by_the_joint_norm(torch):
    trainer = net(clip_value=0.8, clip_norm=0.5)
    p = torch_net(torch)
    oracle = torch.optim.SGD(p.values(), lr=0.1)
    for i in range(4):
        oracle.zero_grad()
        torch_loss(torch, p, i).backward()
        norm = torch.nn.utils.get_total_norm([q.grad for q in p.values()])
        torch.nn.utils.clip_grad_value_(p.values(), 0.8)
        left = torch.nn.utils.get_total_norm([q.grad for q in p.values()])
        for q in p.values():  # clip_grad_norm_ divides by the norm plus 1e-6
            q.grad *= min(1.0, 0.5 / left)
        oracle.step()
        record = trainer.step(batch(i))
        same(trainer, p)
        assert record.metrics["grad_norm"] == pytest.approx(norm.item(), rel=1e-9)


def test_each_tensor_s_norm_is_bounded_by_itself():
    trainer, plain = net(clip_tensor_norm=0.3), net()
    trainer.step(batch(0)), plain.step(batch(0))
    for name, start in START.items():
        grad = (start - plain.values[name]) / 0.1
        norm = np.linalg.norm(grad)
        expected = start - 0.1 * grad * min(1.0, 0.3 / norm)
        np.testing.assert_allclose(trainer.values[name], expected, rtol=1e-9)


# -- goals -----------------------------------------------------------------------------------------


def test_a_score_is_maximized():
    g = gw.Graph()
    w = g.variable("w", init=np.float64(0.0))
    trainer = gw.Trainer(
        g, 1.0 - (w - 3.0) ** 2.0, optimizer=gw.optim.SGD(0.25), minimize=False, l2=0.0
    )
    losses = [trainer.step({}).metrics["loss"] for _ in range(3)]
    assert losses == [-8.0, 1.0 - 1.5**2, 1.0 - 0.75**2]


def test_several_losses_are_added_and_recorded_by_name():
    g = gw.Graph()
    w, b = g.variable("w", init=np.float64(2.0)), g.variable("b", init=np.float64(1.0))
    fit, aux = gw.identity(w * w, name="fit"), gw.identity(w * b, name="aux")
    trainer = gw.Trainer(g, [fit, aux], optimizer=gw.optim.SGD(0.1))
    record = trainer.step({})
    assert {k: record.metrics[k] for k in ("loss", "fit", "aux")} == {
        "loss": 6.0,
        "fit": 4.0,
        "aux": 2.0,
    }
    assert (trainer.values["w"], trainer.values["b"]) == (2.0 - 0.1 * 5.0, 1.0 - 0.1 * 2.0)
    assert g.output({}, trainer.loss)[trainer.loss.name] == pytest.approx(1.5**2 + 1.5 * 0.8)
    history = trainer.fit([{}], epochs=2, validation=[{}], progress=False)
    np.testing.assert_allclose(
        history.epochs["val_loss"], history.epochs["val_fit"] + history.epochs["val_aux"]
    )
    named = gw.Trainer(g, {"a": "fit", "b": aux})
    assert set(named.step({}).metrics) >= {"loss", "a", "b"}
    g2 = gw.Graph()
    w = g2.variable("w", ())
    loss = gw.identity(w * w, name="loss")
    with pytest.raises(TrainingError, match=r"cannot be called 'loss'(.|\n)*several losses"):
        gw.Trainer(g2, [loss, gw.identity(w, name="aux")])
