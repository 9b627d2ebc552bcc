"""The contract of adapters, tried on four that ask for different things before any is written.

The methods are sketches (`adapter_sketches`); what they need of a graph is what is tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

import gradwright as gw
from gradwright.graph import Tensor
from gradwright.ops.attention.scaled import ScaledDotProductAttention
from tests.adapter_sketches import (
    AdaLoRA,
    Adapted,
    Allocate,
    Array,
    LoRA,
    Made,
    Place,
    Prefix,
    Prompt,
    Site,
)

B, T, D, HEADS, WORDS = 2, 5, 8, 2, 11

# -- a small transformer ---------------------------------------------------------------------------


def model() -> tuple[gw.Graph, Tensor, Tensor, dict[str, Tensor]]:
    """Return a graph of one causal block over words and positions: logits, loss, marked tensors."""
    g = gw.Graph("block")
    words, labels = (g.placeholder(n, ("B", "T"), dtype="int64") for n in ("words", "labels"))
    draw = iter(range(100))

    def variable(name: str, *shape: int) -> Tensor:
        return g.variable(name, shape, init=gw.init.normal(std=0.4, seed=next(draw)))

    def split(t: Tensor) -> Tensor:
        return t.reshape((t.shape[0], -1, HEADS, D // HEADS)).transpose((0, 2, 1, 3))

    with g.scope("block"):
        x = gw.nn.embedding(words, variable("table", WORDS, D), name="embedded")
        q, k, v = (
            split(gw.matmul(x, variable(f"w_{n}", D, D), name=n)) for n in ("query", "key", "value")
        )
        seen = gw.nn.scaled_dot_product_attention(q, k, v, is_causal=True, name="attention")
        joined = seen.transpose((0, 2, 1, 3)).reshape((x.shape[0], -1, D))
        y = x + gw.matmul(joined, variable("w_out", D, D), name="out")
        h = gw.nn.linear(y, variable("w_up", D, 2 * D), variable("b_up", 2 * D), name="up")
        y = y + gw.matmul(gw.nn.gelu(h), variable("w_down", 2 * D, D), name="down")
    logits = gw.matmul(y, variable("head", D, WORDS), name="logits")
    loss = gw.loss.sparse_softmax_cross_entropy(labels, logits, name="loss")
    return g, logits, loss, {"input": x, "output": logits}


def places(graph: gw.Graph, marked: Mapping[str, Tensor]) -> Iterator[Place]:
    """Yield where adapters may stand: what ops say of their weights, and what the model marks."""
    for node in graph.nodes:
        if isinstance(node.op, ScaledDotProductAttention):
            yield Place("attention", node.name, node, node.outputs[0])
        for site in node.op.weight_sites():
            weight, axes = node.inputs[site.input], site.layout.split(",")
            if weight is not None and weight.kind == "variable" and site.kind == "linear":
                at = axes.index("in"), axes.index("out")
                yield Site("weight", node.name, node, node.outputs[0], site.input, weight, *at)
    for kind, t in marked.items():
        yield Place(kind, t.name, t.node, t)  # type: ignore[arg-type]


RNG = np.random.default_rng(0)
FEEDS = {name: RNG.integers(0, WORDS, (B, T)) for name in ("words", "labels")}


def adapted(*names: str) -> tuple[Adapted, Tensor, Array, Array]:
    """Return a model with adapters, its loss, and its logits before and after they came."""
    g, logits, loss, marked = model()
    before = g.output(FEEDS, logits)[logits.name]
    found = {"lora": LoRA(), "ada": AdaLoRA(), "prefix": Prefix(), "prompt": Prompt()}

    def choose(name: str, place: Place) -> bool:
        up = place.name in ("block/up", "block/down")
        return {"lora": not up and place.name != "logits", "ada": up}.get(name, True)

    both = Adapted(g, list(places(g, marked)), {n: found[n] for n in names}, choose)
    (scores,) = (t for t in loss.node.inputs[1:2] if t is not None)
    return both, loss, before, g.output(FEEDS, scores)[scores.name]


ALL = ("lora", "ada", "prefix", "prompt")


def test_weights_are_found_by_what_ops_say_of_them() -> None:
    g, _, _, marked = model()
    found = [p for p in places(g, marked) if p.kind == "weight"]
    up = next(p for p in found if p.name == "block/up")
    assert isinstance(up, Site) and (up.weight.name, up.factors()) == ("block/w_up", (D, 2 * D))
    assert [p.name for p in found] == [
        *(f"block/{n}" for n in ("query", "key", "value", "out", "up", "down")),
        "logits",
    ]


def test_lora_begins_as_nothing_and_the_others_change_what_the_model_says() -> None:
    _, _, before, after = adapted("lora")
    assert np.array_equal(before, after)
    for name in ("ada", "prefix", "prompt"):
        _, _, before, after = adapted(name)
        assert after.shape == before.shape and np.abs(after - before).max() > 1e-3, name


@pytest.mark.parametrize("names", [(n,) for n in ALL] + [ALL, ALL[::-1]])
def test_only_adapters_learn(names: tuple[str, ...]) -> None:
    both, loss, _, _ = adapted(*names)
    g = both.graph
    base = {n: np.array(a) for n, a in g.values.items() if not any(f"/{k}/" in n for k in ALL)}
    assert {t.name.split("/")[-2] for t in g.trainable} == {*names}
    losses = {"task": loss, **both.penalties()}
    assert len(losses) == 1 + 2 * ("ada" in names)
    trainer = gw.Trainer(
        g, losses, optimizer=gw.optim.Adam(0.05), metrics={"nll": loss}, callbacks=[Allocate(both)]
    )
    history = trainer.fit([FEEDS] * 15, epochs=1, progress=False)
    nll = history.steps["nll"]
    assert nll[-1] < nll[0]
    assert all(np.array_equal(base[n], g.values[n]) for n in base)
    for t in g.trainable:
        gradient = gw.gradients(loss, [t])[0]
        assert gradient.spec.shape == t.spec.shape


def test_adalora_keeps_the_most_important() -> None:
    both, loss, _, _ = adapted("ada")
    trainer = gw.Trainer(
        both.graph, loss, optimizer=gw.optim.Adam(0.05), callbacks=[Allocate(both)]
    )
    trainer.fit([FEEDS] * 3, epochs=1, progress=False)
    for _, _, p in both.parts:
        assert np.count_nonzero(both.graph.values[p["lam"].name]) == AdaLoRA().kept
        assert both.graph.values[p["importance"].name].min() > 0


def test_merged_weights_say_the_same_and_a_prefix_cannot_be_merged() -> None:
    both, loss, _, _ = adapted("lora", "ada")
    trainer = gw.Trainer(both.graph, loss, optimizer=gw.optim.Adam(0.05))
    trainer.fit([FEEDS] * 3, epochs=1, progress=False)
    want = both.graph.output(FEEDS, loss)["loss"]
    plain, _, alone, _ = model()
    assert abs(plain.output(FEEDS, alone)["loss"] - want) > 1e-3
    merged = both.merged()
    assert len(merged) == 6
    for name, w in merged.items():
        plain.values[name] = w
    assert np.allclose(plain.output(FEEDS, alone)["loss"], want, rtol=1e-5)
    assert Prefix().merge(both.parts[0][1], np.zeros(1), {}) is None


def test_an_edit_that_fails_leaves_nothing_behind() -> None:
    g, logits, _, marked = model()
    before, names = g.output(FEEDS, logits)[logits.name], [n.name for n in g.nodes]

    class Bad(LoRA):
        def variables(self, place: Place) -> Mapping[str, Made]:
            return {**super().variables(place), "b": Made((self.rank + 1, 4))}

    with pytest.raises(gw.errors.ShapeError):
        Adapted(g, list(places(g, marked)), {"lora": LoRA(), "bad": Bad()})
    assert [n.name for n in g.nodes] == names and len(g.trainable) == 9
    assert np.array_equal(g.output(FEEDS, logits)[logits.name], before)
