"""Methods on layers of all kinds against peft; those that peft has not against what has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright import adapters
from gradwright.errors import GraphError
from tests.adapters.stored import given

torch: Any = pytest.importorskip("torch")
peft: Any = pytest.importorskip("peft")

from tests.adapters import peft_models as other  # noqa: E402
from tests.adapters.nets import Images, Net, feeds_of, images, net  # noqa: E402

Array = np.ndarray[Any, Any]
STORED = Path(__file__).parent / "stored"
CASES: dict[str, tuple[type, Any, Any, list[str]]] = {
    "DoRA, biased": (
        Net,
        lambda: peft.LoraConfig(r=2, use_dora=True, target_modules=["up", "down", "table"]),
        adapters.DoRA(r=2),
        ["up", "down", "table"],
    ),
    "DoRA, convolution": (
        Images,
        lambda: peft.LoraConfig(r=2, use_dora=True, target_modules=["wide"]),
        adapters.DoRA(r=2),
        ["wide"],
    ),
    "IA3, biased": (
        Net,
        lambda: peft.IA3Config(target_modules=["up", "down"], feedforward_modules=["down"]),
        adapters.IA3(feedforward="down"),
        ["up", "down"],
    ),
    "IA3, feedforward": (
        Net,
        lambda: peft.IA3Config(target_modules=["up"], feedforward_modules=["up"]),
        adapters.IA3(feedforward=("up", "down")),
        ["up"],
    ),
    "IA3, convolutions": (
        Images,
        lambda: peft.IA3Config(target_modules=["wide", "split"], feedforward_modules=["split"]),
        adapters.IA3(feedforward="split"),
        ["wide", "split"],
    ),
    "LoHa, convolution": (
        Images,
        lambda: peft.LoHaConfig(r=2, alpha=3, target_modules=["wide"]),
        adapters.LoHa(r=2, alpha=3),
        ["wide"],
    ),
    "LoHa, decomposed": (
        Images,
        lambda: peft.LoHaConfig(r=2, alpha=3, target_modules=["wide"], use_effective_conv2d=True),
        adapters.LoHa(r=2, alpha=3, effective_conv2d=True),
        ["wide"],
    ),
    "LoKr, convolution": (
        Images,
        lambda: peft.LoKrConfig(r=2, alpha=3, target_modules=["wide"]),
        adapters.LoKr(r=2, alpha=3),
        ["wide"],
    ),
}


class Pair:
    """A network with an adapter of peft, and with ours of the same numbers."""

    def __init__(self, case: str) -> None:
        module, config, method, where = CASES[case]
        torch.manual_seed(0)
        model = module()
        self.g, self.y, self.loss = (net if module is Net else images)(model)
        self.feeds = feeds_of(module)
        self.theirs = other.with_peft(model, config()).eval()
        other.put(self.theirs, other.drawn(self.theirs))
        self.adapted = adapters.add(self.g, method, where)
        self.names = {name: ours(self.adapted, name) for name, _ in other.trained(self.theirs)}
        self.adapted.load_state(
            {self.names[n]: p.detach().numpy() for n, p in other.trained(self.theirs)}
        )

    def outputs(self) -> tuple[Array, Any, Any]:
        """Return ours, theirs and their loss."""
        x = torch.from_numpy(self.feeds["ids" if "ids" in self.feeds else "x"])
        wanted = self.theirs(x)
        found = gw.Session(self.g).run(self.y, {k: v for k, v in self.feeds.items() if k != "t"})
        return found, wanted, ((wanted - torch.from_numpy(self.feeds["t"])) ** 2).mean()


def ours(adapted: adapters.Adapted, name: str) -> str:
    """Return our name of a parameter of theirs, ``place/leaf``."""
    place, _, leaf = name.rpartition("/")
    return f"{place}.weight/{leaf}"


def _of_its_core(t1: Any, a1: Any, b1: Any, t2: Any, a2: Any, b2: Any, scale: Any) -> Any:
    halves = [torch.einsum("ijkl,jr,ip->prkl", t, b, a) for t, b, a in ((t1, b1, a1), (t2, b2, a2))]
    return halves[0] * halves[1] * scale


@pytest.mark.parametrize("case", CASES)
def test_as_peft(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # peft 0.21's own backward takes the other product for both a: 2.7 times the largest number off
    monkeypatch.setattr("peft.tuners.loha.layer.make_weight_cp", _of_its_core)
    pair = Pair(case)
    found, wanted, loss = pair.outputs()
    np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-5, atol=1e-5)
    loss.backward()
    trained = {f"{place}/{leaf}": t for place, leaves in pair.adapted.variables.items()
               for leaf, t in leaves.items() if t.trainable}  # fmt: skip
    grads = gw.Session(pair.g).run(gw.gradients(pair.loss, list(trained.values())), pair.feeds)
    held = {pair.names[n]: p.grad.numpy() for n, p in other.trained(pair.theirs)}
    assert held.keys() == trained.keys()
    for name, grad in zip(trained, grads, strict=True):
        other.close(grad, held[name], 1e-4)


@pytest.mark.parametrize("case", CASES)
def test_merged_as_peft(case: str) -> None:
    pair = Pair(case)
    for place in pair.adapted.places:
        if place.name.startswith("split"):  # peft multiplies weights of groups by all channels
            continue
        layer = pair.theirs.get_submodule("base_model.model." + place.name.removesuffix(".weight"))
        bias = getattr(layer.base_layer, "bias", None)
        leaves = pair.adapted.numbers(place)
        before = None if bias is None else bias.detach().numpy().copy()
        done = pair.adapted.adapter.merge(place, place.array(), before, leaves)
        assert done is not None
        layer.merge()
        wanted = layer.base_layer.weight.detach().numpy()
        wanted = wanted.T if place.kind == "embedding" else wanted
        np.testing.assert_allclose(done[0], wanted, rtol=1e-5, atol=1e-6)
        if bias is not None and done[1] is not None:
            np.testing.assert_allclose(done[1], bias.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_factors_of_grouped_inputs_are_merged() -> None:
    pair = Pair("IA3, convolutions")
    found, *_ = pair.outputs()
    merged = {}
    for place in pair.adapted.places:
        leaves = pair.adapted.numbers(place)
        name = place.name.replace("weight", "bias")
        bias = pair.g.values[name] if name in pair.g else None
        done = pair.adapted.adapter.merge(place, place.array(), bias, leaves)
        assert done is not None
        merged[place.name] = place.stored(done[0])
        if done[1] is not None:
            merged[name] = done[1]
    assert len(merged) == 3
    pair.adapted.remove()
    pair.g.values.commit(merged)
    again = gw.Session(pair.g).run(pair.y, {"x": pair.feeds["x"]})
    np.testing.assert_allclose(again, found, rtol=1e-4, atol=1e-5)


# -- DyLoRA --------------------------------------------------------------------------------------


def _dylora(**settings: Any) -> tuple[gw.Graph, gw.Tensor, adapters.Adapted, dict[str, Array]]:
    """Return the product of the stored outputs, with an adapter of their numbers."""
    x, dy = given.inputs()
    g = gw.Graph()
    w = g.variable("w", init=given.drawn("weight", (20, 24)))
    y = g.placeholder("x", x.shape) @ w.mT + g.variable("b", init=given.drawn("bias", (20,)))
    method = adapters.DyLoRA(r=given.RANK, alpha=given.ALPHA, **settings)
    adapted = adapters.add(g, method, "w")
    a, b = given.drawn("A", (given.RANK, 24)), given.drawn("B", (20, given.RANK))
    adapted.load_state({"w/lora_A": a, "w/lora_B": b})
    return g, y, adapted, {"x": x, "dy": dy}


def _drawn_ranks(**settings: Any) -> Mapping[int, tuple[Array, ...]]:
    """Return y, dA and dB at each rank, or number of blocks, that training draws."""
    g, y, adapted, feeds = _dylora(**settings)
    total = (y * g.placeholder("dy", feeds["dy"].shape)).sum()
    [drawn] = [n.outputs[0] for n in g.nodes if n.op.name == "randint"]
    fetches = [drawn, y, *gw.gradients(total, adapted.parameters)]
    found: dict[int, tuple[Array, ...]] = {}
    with gw.Session(g, seed=0) as session:
        for _ in range(60):
            rank, *rest = session.run(fetches, feeds, training=True)
            found[int(rank)] = tuple(rest)
    return found


@pytest.mark.parametrize("frozen", [True, False])
def test_dylora_trains_each_rank_as_the_paper(frozen: bool) -> None:
    stored = np.load(STORED / "dylora.npz")
    found = _drawn_ranks(frozen=frozen)
    assert sorted(found) == list(range(1, given.RANK + 1))
    for rank, arrays in found.items():
        for name, array in zip(("y", "dA", "dB"), arrays, strict=True):
            other.close(array, stored[f"paper/{rank}/{frozen}/{name}"], 1e-5)


def test_dylora_in_blocks_as_lycoris() -> None:
    stored = np.load(STORED / "dylora.npz")
    found = _drawn_ranks(block=given.BLOCK)
    assert sorted(found) == list(range(1, given.RANK // given.BLOCK + 1))
    for blocks, arrays in found.items():
        for name, array in zip(("y", "dA", "dB"), arrays, strict=True):
            other.close(array, stored[f"lycoris/{blocks}/{name}"], 1e-5)


@pytest.mark.parametrize("active", [3, None])
def test_dylora_is_nested(active: int | None) -> None:
    """At a fixed rank it is the LoRA of the first parts, and merges as that."""
    g, y, adapted, feeds = _dylora(active=active)
    n = active or given.RANK
    a, b = given.drawn("A", (given.RANK, 24))[:n], given.drawn("B", (20, given.RANK))[:, :n]
    delta = given.ALPHA / n * (b @ a)
    whole = given.drawn("weight", (20, 24)) + delta
    wanted = feeds["x"] @ whole.T + given.drawn("bias", (20,))
    other.close(gw.Session(g).run(y, {"x": feeds["x"]}), wanted, 1e-5)
    [place] = adapted.places
    leaves = {k: g.values[t.name] for k, t in adapted.variables["w"].items()}
    done = adapted.adapter.merge(place, place.array(), None, leaves)
    assert done is not None
    other.close(done[0], whole, 1e-6)
    for wrong in ({"active": 9}, {"block": 3}, {"rslora": True}):
        with pytest.raises(GraphError):
            adapters.DyLoRA(r=8, **wrong)


# -- what trains what there is -------------------------------------------------------------------


def test_bitfit_is_training_biases_in_torch() -> None:
    torch.manual_seed(0)
    model = Net()
    g, _, loss = net(model)
    for name, p in model.named_parameters():
        p.requires_grad_(name.endswith("bias"))
    adapted = adapters.add(g, adapters.BitFit())
    assert [t.name for t in adapted.parameters] == [t.name for t in g.trainable] == ["up.bias"]
    feeds = feeds_of(Net)
    optimizer = torch.optim.AdamW([model.up.bias], 0.1)
    trainer = gw.Trainer(g, loss, gw.optim.AdamW(0.1))
    for _ in range(5):
        optimizer.zero_grad()
        wanted = (
            (model(torch.from_numpy(feeds["ids"])) - torch.from_numpy(feeds["t"])) ** 2
        ).mean()
        wanted.backward()
        optimizer.step()
        record = trainer.step(feeds)
        assert record is not None and record.metrics["loss"] == pytest.approx(wanted.item(), 1e-5)
    np.testing.assert_allclose(adapted.state()["up.bias"], model.up.bias.detach(), rtol=1e-5)
    adapted.remove()
    assert len(g.trainable) == 4
    llama = gw.models.Decoder(gw.models.DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    with pytest.raises(GraphError, match="no biases"):
        adapters.add(llama, adapters.BitFit())


def test_norms_are_trained_as_by_peft() -> None:
    theirs = other.llama()
    ours = other.decoder(theirs)
    config = peft.LNTuningConfig(
        task_type="CAUSAL_LM",
        target_modules=["input_layernorm", "post_attention_layernorm", "norm"],
    )
    model = other.with_peft(theirs, config)
    adapted = adapters.add(ours, adapters.NormTuning())
    trained = [p for p in model.parameters() if p.requires_grad]
    assert len(adapted.parameters) == len(trained) == 5
    ids = np.random.default_rng(7).integers(1, 37, (5, 2, 12))
    optimizer = torch.optim.AdamW(trained, 0.05)
    trainer = gw.Trainer(ours.graph, ours.loss, gw.optim.AdamW(0.05))
    for batch in ids:
        optimizer.zero_grad()
        wanted = model(input_ids=torch.tensor(batch), labels=torch.tensor(batch)).loss
        wanted.backward()
        optimizer.step()
        record = trainer.step({"ids": batch, "labels": batch})
        assert record is not None and record.metrics["loss"] == pytest.approx(wanted.item(), 1e-5)
    g = gw.Graph()
    _ = g.placeholder("x", (None, 3)) @ g.variable("w", (3, 2))
    with pytest.raises(GraphError, match="no norms"):
        adapters.add(g, adapters.NormTuning())


def test_running_statistics_are_no_norms() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 4, 5, 5))
    h = gw.nn.batch_norm(gw.cnn.conv2d(x, g.variable("w", (4, 4, 1, 1))))
    _ = (h * h).mean()
    adapted = adapters.add(g, adapters.NormTuning())
    assert [t.name for t in adapted.parameters] == ["batch_norm/weight", "batch_norm/bias"]


# -- dropping ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [
        adapters.LoHa(r=2, rank_dropout=0.5),
        adapters.LoKr(r=2, rank_dropout=0.5, init=False),
        adapters.LoKr(r=2, rank_dropout=0.5, rank_dropout_scale=True, init=False),
    ],
    ids=["loha", "lokr", "lokr scaled"],
)
def test_rows_are_dropped_in_training_alone(method: adapters.Adapter) -> None:
    g = gw.Graph()
    y = g.placeholder("x", (1, 6)) @ g.variable("w", (6, 32), init=0.0)
    adapted = adapters.add(g, method, "w")
    rng = np.random.default_rng(0)
    adapted.load_state({k: rng.standard_normal(v.shape) for k, v in adapted.state().items()})
    feeds = {"x": np.ones((1, 6))}
    session = gw.Session(g, seed=3)
    still = session.run(y, feeds)
    trained = session.run(y, feeds, training=True)
    dropped = trained == 0
    assert 6 < dropped.sum() < 26 and (still != 0).all()
    scaled = getattr(method, "rank_dropout_scale", True)
    factor = 1 / (1 - dropped.mean()) if scaled else 1.0
    np.testing.assert_allclose(trained[~dropped], factor * still[~dropped], rtol=1e-5)


@pytest.mark.parametrize("method", [adapters.LoHa, adapters.LoKr])
def test_all_of_it_is_dropped_for_a_step(method: Any) -> None:
    g = gw.Graph()
    y = g.placeholder("x", (1, 6)) @ g.variable("w", (6, 4), init=0.0)
    adapted = adapters.add(g, method(r=1, module_dropout=0.5), "w")
    adapted.load_state({k: np.ones(v.shape) for k, v in adapted.state().items()})
    session = gw.Session(g, seed=0)
    still = session.run(y, {"x": np.ones((1, 6))})
    found = [session.run(y, {"x": np.ones((1, 6))}, training=True) for _ in range(30)]
    assert {tuple(f.ravel()) for f in found} == {tuple(still.ravel()), (0.0,) * 4}


def test_dora_sees_dropped_inputs_in_base_and_adapter() -> None:
    """y = base(x) + (m/n - 1)·(d·Wᵀ) + m/n·s·(d·Aᵀ)·Bᵀ with d = dropout(x)."""
    rng = np.random.default_rng(0)
    g = gw.Graph()
    w = rng.standard_normal((6, 4)).astype("f")
    y = g.placeholder("x", (8, 6)) @ g.variable("w", init=w)
    adapted = adapters.add(g, adapters.DoRA(r=2, alpha=2, dropout=0.5), "w")
    state = {k: rng.standard_normal(v.shape).astype("f") for k, v in adapted.state().items()}
    adapted.load_state(state)
    a, b, m = (state[f"w/{leaf}"] for leaf in ("lora_A", "lora_B", "lora_magnitude_vector"))
    x = rng.standard_normal((8, 6)).astype("f")
    [dropped] = [n.outputs[0] for n in g.nodes if n.op.name == "dropout"]
    found, d = gw.Session(g, seed=1).run([y, dropped], {"x": x}, training=True)
    assert (d == 0).any()
    ratio = m / np.linalg.norm(w.T + b @ a, axis=1)
    wanted = x @ w + (ratio - 1) * (d @ w) + ratio * (d @ a.T @ b.T)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: adapters.LoRA(alpha=float("nan")), "alpha=nan"),
        (lambda: adapters.LoRA(alpha_pattern={"q": "4"}), "alpha='4'"),
        (lambda: adapters.LoHa(r=2.0), "r=2.0"),
        (lambda: adapters.VeRA(d_initial=float("inf")), "d_initial=inf"),
        (lambda: adapters.AdaLoRA(init_r=True, total_step=5), "init_r=True"),
        (lambda: adapters.Prompt(tokens=2.5), "tokens=2.5"),
        (lambda: adapters.PTuning(layers=0, encoder="lstm"), "layers=0"),
        (lambda: adapters.DyLoRA(r=4, block=0), "block=0"),
        (lambda: adapters.HeadLoRA(heads=0), "heads=0"),
    ],
)
def test_settings_that_are_no_numbers(make: Any, said: str) -> None:
    with pytest.raises(GraphError, match=re.escape(f"{said} makes no sense")):
        make()


def test_blocks_that_count_are_no_more_than_a_place_has() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (None, 6))
    y = x @ g.variable("w", (6, 4))
    method = adapters.DyLoRA(r=4, alpha=4, active=3, rank_pattern={"w": 2}, init=False)
    adapted = adapters.add(g, method, "w")
    a, b = (adapted.state()[f"w/lora_{part}"] for part in "AB")
    rows = np.eye(6, dtype=np.float32)
    found = g.output({"x": rows}, y)[y.name] - rows @ g.values["w"]
    np.testing.assert_allclose(found, 4 / 2 * (b @ a).T, rtol=1e-5, atol=1e-6)
