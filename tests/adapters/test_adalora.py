"""AdaLoRA against peft: the penalty, the masks of every step, and what is left at the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.adapters import AdaLoRA, Adapted, Site, add
from gradwright.errors import GraphError

torch: Any = pytest.importorskip("torch")
peft: Any = pytest.importorskip("peft")

RNG = np.random.default_rng(0)
X, T = RNG.standard_normal((16, 6)).astype("f"), RNG.standard_normal((16, 4)).astype("f")
SETTINGS: dict[str, Any] = {"init_r": 4, "target_r": 2, "total_step": 12, "tinit": 2, "tfinal": 3}


class Net(torch.nn.Module):  # type: ignore[misc]
    """What peft adapts; it gives its loss, so that peft adds the penalty."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(6, 5), torch.nn.Linear(5, 4)

    def forward(self, x: Any) -> Any:
        y = self.down(torch.tanh(self.up(x)))
        return SimpleNamespace(loss=((y - torch.from_numpy(T)) ** 2).mean(), y=y)


def pair(**more: Any) -> tuple[Any, gw.Graph, Any, Adapted]:
    torch.manual_seed(0)
    model = Net()
    g = gw.Graph()
    held = {n: g.variable(n, init=p.detach().numpy().copy()) for n, p in model.named_parameters()}
    h = gw.tanh(g.placeholder("x", ("B", 6)) @ held["up.weight"].mT + held["up.bias"])
    y = h @ held["down.weight"].mT + held["down.bias"]
    loss = gw.mean((y - g.placeholder("t", ("B", 4))) ** 2.0, name="loss")
    given = {"deltaT" if k == "delta_t" else k: v for k, v in (SETTINGS | more).items()}
    config = peft.AdaLoraConfig(target_modules=["up", "down"], lora_alpha=8, **given)
    wrapped = peft.get_peft_model(model, config)
    adapted = add(g, AdaLoRA(**(SETTINGS | more)), "up|down")
    adapted.load_state({ours(n): p.detach().numpy() for n, p in lora(wrapped)})
    return wrapped, g, loss, adapted


def lora(model: Any) -> list[tuple[str, Any]]:
    return [(n, p) for n, p in model.named_parameters() if p.requires_grad]


def ours(name: str) -> str:
    place, _, leaf = name.removeprefix("base_model.model.").partition(".lora_")
    return f"{place}.weight/lora_{leaf.removesuffix('.default')}"


@pytest.mark.parametrize("more", [{}, {"delta_t": 2, "beta1": 0.5, "tfinal": 0}], ids=str)
def test_each_step_as_peft(more: dict[str, Any]) -> None:
    model, g, loss, adapted = pair(**more)
    optimizer = torch.optim.AdamW([p for _, p in lora(model)], lr=0.05)
    trainer = gw.Trainer(g, loss, gw.optim.AdamW(0.05))
    feeds = {"x": X, "t": T}
    masked = 0
    for step in range(1, 13):
        wanted = model.base_model(torch.from_numpy(X)).loss
        wanted.backward()
        optimizer.step()
        model.base_model.update_and_allocate(step)
        optimizer.zero_grad()
        record = trainer.step(feeds)
        assert record is not None
        found = record.metrics["loss"] + record.metrics["default_penalty"]
        assert found == pytest.approx(wanted.item(), rel=1e-5)
        state = adapted.state()
        for name, p in lora(model):
            theirs, here = p.detach().numpy(), state[ours(name)]
            np.testing.assert_allclose(here, theirs, rtol=2e-3, atol=1e-4)
            if "lora_E" in name:
                np.testing.assert_array_equal(here == 0, theirs == 0)
                masked += int((here == 0).sum())
    assert masked
    pattern = model.peft_config["default"].rank_pattern
    kept = adapted.adapter.kept(adapted)  # type: ignore[attr-defined]
    for name, mask in pattern.items():
        assert kept[ours(name).rpartition("/")[0]].tolist() == mask
    assert sum(adapted.adapter.ranks(adapted).values()) == 4  # type: ignore[attr-defined]
    merged(model, adapted)
    shrunk(g, adapted)


def merged(model: Any, adapted: Adapted) -> None:
    """Compare merges."""
    for place in adapted.places:
        assert isinstance(place, Site)
        values = adapted.graph.values
        leaves = {k: values[t.name] for k, t in adapted.variables[place.name].items()}
        found = adapted.adapter.merge(place, place.array(), None, leaves)
        layer = model.get_submodule("base_model.model." + place.name.removesuffix(".weight"))
        layer.merge()
        assert found is not None
        wanted = layer.base_layer.weight.detach().numpy()
        np.testing.assert_allclose(found[0], wanted, rtol=1e-3, atol=1e-4)


def shrunk(g: gw.Graph, adapted: Adapted) -> None:
    """Drop what is off: the model stays, and has fewer variables."""
    feeds = {"x": X, "t": T}
    before, n = g.output(feeds, "loss")["loss"], adapted.trainable.n_trained
    adapted.compact()
    assert g.output(feeds, "loss")["loss"] == pytest.approx(before, rel=1e-6)
    ranks = {p: int(v["lora_E"].shape[0]) for p, v in adapted.variables.items()}
    assert sum(ranks.values()) == 4 and adapted.trainable.n_trained < n
    trainer = gw.Trainer(g, g["loss"], gw.optim.AdamW(0.01))
    assert trainer.step(feeds) is not None


def test_unrolled_and_resumed_steps_are_the_same() -> None:
    whole = []
    for unroll in (1, 3):
        _, g, loss, adapted = pair()
        trainer = gw.Trainer(g, loss, gw.optim.AdamW(0.05))
        trainer.fit([{"x": X, "t": T}] * 12, unroll=unroll, progress=False)
        whole.append(adapted.state())
    for key in whole[0]:
        np.testing.assert_allclose(whole[0][key], whole[1][key], rtol=1e-5, atol=1e-6)
    _, g, loss, adapted = pair()
    trainer = gw.Trainer(g, loss, gw.optim.AdamW(0.05))
    for _ in range(6):
        trainer.step({"x": X, "t": T})
    values, state = {t.name: g.values[t.name].copy() for t in g.variables}, trainer.state_dict()
    _, again, loss, adapted = pair()
    again.values.restore(values)
    trainer = gw.Trainer(again, loss, gw.optim.AdamW(0.05))
    trainer.load_state_dict(state)
    for _ in range(6):
        trainer.step({"x": X, "t": T})
    for key, array in adapted.state().items():
        np.testing.assert_allclose(array, whole[0][key], rtol=1e-5, atol=1e-6)


def test_gradients_of_the_penalty() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (5, 3), "float64")
    y = gw.mean((x @ g.variable("w", (3, 4), dtype="float64")) ** 2.0)
    adapted = add(g, AdaLoRA(init_r=3, target_r=1, total_step=5), "w")
    adapted.load_state({k: RNG.standard_normal(v.shape) for k, v in adapted.state().items()})
    assert adapted.penalty is not None
    report = gw.gradient_check(g, y + adapted.penalty, {"x": RNG.standard_normal((5, 3))})
    assert report.passed, report


def test_a_convolution() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (2, 4, 5, 5))
    y = gw.cnn.conv2d(x, g.variable("w", (6, 2, 3, 3), init=gw.init.normal(seed=0)), groups=2)
    adapted = add(g, AdaLoRA(init_r=3, target_r=1, total_step=5), "w")
    adapted.load_state({k: RNG.standard_normal(v.shape) for k, v in adapted.state().items()})
    feeds = {"x": RNG.standard_normal((2, 4, 5, 5)).astype("f")}
    found = g.output(feeds, y)[y.name]
    [place] = adapted.places
    assert isinstance(place, Site)
    leaves = {k: g.values[t.name] for k, t in adapted.variables["w"].items()}
    done = adapted.adapter.merge(place, place.array(), None, leaves)
    assert done is not None
    adapted.remove()
    g.values["w"] = done[0]
    np.testing.assert_allclose(g.output(feeds, y)[y.name], found, rtol=1e-4, atol=1e-4)


def test_compacted_on_the_way_the_budget_stays() -> None:
    g = gw.Graph()
    h = g.placeholder("x", ("B", 6))
    for i in range(2):
        h = gw.tanh(h @ g.variable(f"w{i}", (6, 6), init=gw.init.normal(seed=i)))
    loss = (h - g.placeholder("t", ("B", 6))).square().mean()
    method = AdaLoRA(**SETTINGS)
    adapted, feeds = add(g, method, "w0|w1"), {"x": X, "t": X[::-1].copy()}
    for steps in (6, 6):
        trainer = gw.Trainer(g, loss, gw.optim.Adam(0.05))
        for _ in range(steps):
            trainer.step(feeds)
        adapted.compact()
        assert int(g.values[adapted.shared["step"].name]) in (6, 12)
    assert sum(method.ranks(adapted).values()) == 2 * method.target_r


def test_settings_that_make_no_sense() -> None:
    for wrong in (
        {"total_step": 0},
        {"total_step": 5, "init_r": 8},
        {"total_step": 5, "tinit": 5},
        {"total_step": 5, "beta1": 1.0},
    ):
        with pytest.raises(GraphError):
            AdaLoRA(**wrong)


def test_what_is_trained_is_a_share_as_peft_counts_it() -> None:
    """Importances are variables, too, but numbers of neither the model nor the adapter."""
    model, _, _, adapted = pair()
    n, n_all = model.get_nb_trainable_parameters()
    ranknum = sum(p.numel() for name, p in model.named_parameters() if "ranknum" in name)
    assert (adapted.trainable.n_trained, adapted.trainable.n_all) == (n, n_all - ranknum)
