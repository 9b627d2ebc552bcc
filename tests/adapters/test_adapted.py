"""Adapters in a graph: which places are meant, how several live together, and what undoes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.adapters import Adapter, Leaf, LoRA, Place, add, fits, of, sites
from gradwright.errors import GraphBusyError, GraphError, ShapeError, TrainingError
from gradwright.models import Decoder, DecoderConfig

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 6)).astype("f")


def mlp() -> tuple[gw.Graph, gw.Tensor]:
    """Return a graph of three layers, the last of which gives the output itself."""
    g = gw.Graph()
    h = g.placeholder("x", (None, 6))
    for i, (n, m) in enumerate(((6, 5), (5, 5), (5, 3))):
        with g.scope(f"layer{i}"):
            w, b = g.variable("w", (n, m), init=gw.init.normal(seed=i)), g.variable("b", (m,))
            h = h @ w + b
            h = gw.tanh(h) if i < 2 else h
    return g, h


def run(g: gw.Graph, y: gw.Tensor) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = g.output({"x": X}, y)[y.name]
    return found


def drawn(adapted: gw.adapters.Adapted, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    adapted.load_state({k: rng.standard_normal(v.shape) for k, v in adapted.state().items()})


# -- places ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "name", "meant"),
    [
        ("q|v", "layer0/q", True),
        ("q|v", "layer0/qk", False),
        ("q_proj", "model.layers.3.self_attn.q_proj.weight", True),
        ("layer0", "layer0/w", True),
        ("layer0", "layer0/up", False),
        (r"layer[02]/\w", "layer2/w", True),
        ("0.weight", "0.weight", True),
        (".*", "anything/at.all", True),
        (re.compile("self_attn"), "layers.3.self_attn.q", True),
    ],
)
def test_what_a_pattern_means(pattern: Any, name: str, meant: bool) -> None:
    assert fits(pattern, name) is meant


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"where": "layer0"}, [0]),
        ({"where": ["layer0", "layer2/w"]}, [0, 2]),
        ({"where": "all-linear"}, [0, 1]),
        ({"where": None}, [0, 1, 2]),
        ({"where": None, "layers": [1, 2]}, [1, 2]),
        ({"where": None, "exclude": "layer[01]"}, [2]),
        ({"where": lambda place: place.n_in == 5}, [1, 2]),
        ({"where": re.compile("er1")}, [1]),
    ],
    ids=["name", "names", "linear", "all", "layers", "exclude", "predicate", "compiled"],
)
def test_which_places_are_meant(more: Any, found: list[int]) -> None:
    g, _ = mlp()
    adapted = add(g, LoRA(r=2), **more)
    assert [p.name for p in adapted.places] == [f"layer{i}/w" for i in found]


def test_a_tensor_is_a_place_and_a_model_of_one_layer_is_adapted() -> None:
    g, _ = mlp()
    assert [p.name for p in add(g, LoRA(r=2), g["layer1/w"]).places] == ["layer1/w"]
    g = gw.Graph()
    _ = g.placeholder("x", (None, 6)) @ g.variable("w", (6, 3))
    assert [p.name for p in add(g, LoRA(r=2), "all-linear").places] == ["w"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"where": "layer7"}, r"where='layer7' fits no place\n.*'layer0/w', 'layer1/w'.*\n.*layer"),
        ({"where": "w", "layers": [9]}, r"layers=\[9\] leaves nothing.*\n.*some of \[0, 1, 2\]"),
        ({"where": "w", "exclude": "w"}, "exclude='w' leaves nothing"),
        ({"where": "(w"}, "is no regular expression"),
        ({"where": 3}, "where=3 makes no sense"),
        ({"where": "w", "keep": "layer0/c"}, r"keep='layer0/c' fits no.*\n.*did you mean"),
        ({"where": "w", "name": "a/b"}, "is no name of an adapter"),
    ],
    ids=str,
)
def test_selections_that_find_nothing(more: Any, message: str) -> None:
    g, _ = mlp()
    with pytest.raises(GraphError, match=message):
        add(g, LoRA(r=2), **more)
    assert not of(g) and len(g.trainable) == 6


def test_kinds_that_a_method_cannot_stand_at() -> None:
    @dataclass(frozen=True)
    class OnlyTables(Adapter):
        kinds = frozenset({"embedding"})

    g, _ = mlp()
    with pytest.raises(GraphError, match="OnlyTables cannot stand at 'layer0/w', of kind linear"):
        add(g, OnlyTables(), "layer0")
    with pytest.raises(GraphError, match="has no graph to adapt"):
        add(3, LoRA(r=2))
    with pytest.raises(GraphError, match="is no adapter"):
        add(g, "LoRA")  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="has no place for this adapter"):
        add(gw.Graph(), LoRA(r=2))


def test_a_tied_head_is_refused_and_left_out_of_all_linear() -> None:
    model = Decoder(DecoderConfig(vocabulary=20, width=16, layers=2, heads=2, tied=True))
    with pytest.raises(GraphError, match=r"'embed' is table and head.*\n.*'embedded' and 'matmul'"):
        add(model, LoRA(r=2), "embed")
    adapted = add(model, LoRA(r=2), "all-linear")
    assert len(adapted.places) == 14 and "layer1/down" in {p.name for p in adapted.places}


def test_sites_of_views_casts_parts_and_constants() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (None, 4))
    w = g.variable("w", (4, 6))
    a, b = x @ w[:, :3], x @ w[:, 3:]
    c = x @ gw.cast(g.variable("half", (5, 4), dtype="float16"), "float32").transpose(1, 0)
    d = x @ gw.swapaxes(g.constant(np.ones((2, 4)), "fixed", dtype="float32"), 0, 1)
    found = {s.name: (s.shape, s.is_stored) for s in sites(g)}
    assert found == {
        "w": ((3, 4), False),
        "w.part1": ((3, 4), False),
        "half": ((5, 4), True),
        "fixed": ((2, 4), True),
    }
    adapted = add(g, LoRA(r=2, init=False), None)
    feeds = {"x": RNG.standard_normal((2, 4)).astype("f")}
    before = {}
    with adapted.disabled():
        before = {y.name: g.output(feeds, y)[y.name] for y in (a, b, c, d)}
    for y in (a, b, c, d):
        assert abs(g.output(feeds, y)[y.name] - before[y.name]).max() > 1e-3


# -- several, switched, weighed, removed -----------------------------------------------------------


def test_several_add_up_in_any_order_of_switches() -> None:
    g, y = mlp()
    nodes, base = [repr(n) for n in g.nodes], run(g, y)
    first, second = add(g, LoRA(r=2), "all-linear"), add(g, LoRA(r=1), "layer1|layer2", name="b")
    assert {t.name for t in g.trainable} == {t.name for a in (first, second) for t in a.parameters}
    drawn(first)
    drawn(second, 1)
    both = run(g, y)
    first.disable()
    only = run(g, y)
    first.enable()
    second.disable()
    other = run(g, y)
    assert len({round(float(v.sum()), 4) for v in (base, both, only, other)}) == 4
    second.enable()
    np.testing.assert_array_equal(run(g, y), both)
    first.disable()
    second.disable()
    np.testing.assert_array_equal(run(g, y), base)
    second.enable()
    first.remove()
    np.testing.assert_array_equal(run(g, y), only)
    assert [t.name for t in g.trainable] == [t.name for t in second.parameters]
    second.remove()
    assert [repr(n) for n in g.nodes] == nodes and not of(g)
    assert len(g.trainable) == 6
    np.testing.assert_array_equal(run(g, y), base)
    with pytest.raises(GraphError, match="is no adapter of the graph any more"):
        second.remove()


def test_one_is_removed_under_another_that_is_off() -> None:
    g, y = mlp()
    nodes = [repr(n) for n in g.nodes]
    first, second = (add(g, LoRA(r=1, init=False), None, name=name) for name in "ab")
    first.disable()
    only = run(g, y)
    first.enable()
    second.disable()
    first.remove()
    second.enable()
    np.testing.assert_allclose(run(g, y), only, rtol=1e-6)
    second.remove()
    assert [repr(n) for n in g.nodes] == nodes


def test_a_weight_of_1_leaves_the_order_in_which_they_stand() -> None:
    g, y = mlp()
    first = add(g, LoRA(r=1, init=False), "layer0", name="a")
    second = add(g, gw.adapters.IA3(), "layer0", name="b")
    drawn(second)
    both = run(g, y)
    first.weight = 1.0
    np.testing.assert_allclose(run(g, y), both, rtol=1e-5, atol=1e-6)


def test_the_reference_is_the_base_through_all_layers() -> None:
    g, y = mlp()
    base = run(g, y)
    adapted = add(g, LoRA(r=2), None)
    drawn(adapted)
    after = run(g, y)
    reference = adapted.reference(y)
    np.testing.assert_allclose(run(g, reference), base, rtol=1e-6)
    np.testing.assert_array_equal(run(g, y), after)
    more = add(g, LoRA(r=2, init=False), None, name="more")
    np.testing.assert_allclose(run(g, reference), base, rtol=1e-6)
    assert len(more.places) == 3 and all(len(p.uses) == 1 for p in more.places)


def test_a_weight_scales_what_is_added() -> None:
    g, y = mlp()
    base = run(g, y)
    adapted = add(g, LoRA(r=2), "layer2")
    drawn(adapted)
    whole = run(g, y) - base
    assert adapted.weight == 1.0
    for weight in (0.5, -2.0, 0.0, 1.0):
        adapted.weight = weight
        np.testing.assert_allclose(run(g, y) - base, weight * whole, rtol=1e-4, atol=1e-5)
    revision = g.revision
    adapted.weight = 0.25
    assert g.revision == revision and adapted.weight == 0.25
    with pytest.raises(GraphError, match="nan makes no sense"):
        adapted.weight = float("nan")
    adapted.remove()
    np.testing.assert_array_equal(run(g, y), base)


def test_state_is_taken_over_whole_or_not_at_all() -> None:
    g, y = mlp()
    adapted = add(g, LoRA(r=2), "layer0", keep="layer2/b")
    drawn(adapted)
    state, before, revision = adapted.state(), run(g, y), g.revision
    assert state.keys() == {"layer0/w/lora_A", "layer0/w/lora_B", "layer2/b"}
    more = {k: v + 1 for k, v in state.items()}
    with pytest.raises(GraphError, match=r"not that of 'default'\n.*missing: layer2/b\n.*over: c"):
        adapted.load_state({k: v for k, v in more.items() if k != "layer2/b"} | {"c": X})
    with pytest.raises(ShapeError, match=r"layer0/w/lora_A is \[3, 6\]"):
        adapted.load_state(more | {"layer0/w/lora_A": np.zeros((3, 6))})
    np.testing.assert_array_equal(run(g, y), before)
    adapted.load_state({"layer2/b": more["layer2/b"], "c": X}, strict=False)
    assert g.revision == revision
    np.testing.assert_allclose(run(g, y), before + 1, rtol=1e-5)


def test_only_it_and_what_is_kept_learns() -> None:
    g, y = mlp()
    g.freeze("layer0/b")
    loss = gw.mean((y - 1.0) ** 2.0, name="loss")
    adapted = add(g, LoRA(r=2), "layer0", keep=["layer2"])
    held = {t.name: g.values[t.name].copy() for t in g.variables}
    gw.Trainer(g, loss, gw.optim.Adam(0.1)).fit([{"x": X}] * 3, progress=False)
    moved = {n for n, a in held.items() if not np.array_equal(g.values[n], a)}
    assert moved == {"layer0/w/default/lora_A", "layer0/w/default/lora_B", "layer2/w"}
    assert adapted.trainable.n_trained == 22 + 15 and adapted.trainable.n_all == 105
    text = str(adapted.trainable)
    assert "37 of 105 numbers are trained: 35.2381%" in text and "layer2/w" in text
    adapted.remove()
    names = {t.name for t in g.trainable}
    assert names == {"layer0/w", "layer1/w", "layer1/b", "layer2/w", "layer2/b"}


def test_what_is_off_is_not_trained_and_goes_on_where_it_was() -> None:
    g, y = mlp()
    loss = gw.mean((y - 1.0) ** 2.0)
    first, second = add(g, LoRA(r=2), "layer0"), add(g, LoRA(r=2), "layer1", name="b")
    trainer = gw.Trainer(g, loss, gw.optim.Adam(0.1))
    trainer.step({"x": X})
    second.disable()
    held = second.state()
    trainer.step({"x": X})
    assert set(trainer.parameters) == set(first.parameters)
    assert all(np.array_equal(v, held[k]) for k, v in second.state().items())
    assert all(t.trainable for t in second.parameters)
    first.disable()
    with pytest.raises(
        TrainingError, match=r"no trainable.*\n.*switched off.*lora_A(.*\n)*.*enable"
    ):
        trainer.step({"x": X})
    second.enable()
    trainer.step({"x": X})
    assert not np.array_equal(second.state()["layer1/w/lora_B"], held["layer1/w/lora_B"])


# -- what goes wrong -------------------------------------------------------------------------------


def test_added_twice() -> None:
    g, _ = mlp()
    add(g, LoRA(r=2), "layer0")
    with pytest.raises(GraphError, match=r"has an adapter 'default' already\n.*LoRA.*\n.*name="):
        add(g, LoRA(r=2), "layer1")
    assert list(of(g)) == ["default"]


def test_an_edit_that_fails_leaves_nothing_behind() -> None:
    @dataclass(frozen=True)
    class Bad(LoRA):  # type: ignore[misc]
        """Its second place cannot be built."""

        def shift(self, place: Any, use: Any, x: Any, p: Mapping[str, gw.Tensor]) -> gw.Tensor:
            made: gw.Tensor = (
                super().shift(place, use, x, p) if "0" in place.name else x @ p["lora_A"]
            )
            return made

    g, y = mlp()
    first = add(g, LoRA(r=1), "layer0|layer1", name="first")
    drawn(first)
    nodes, before = [repr(n) for n in g.nodes], run(g, y)
    with pytest.raises(ShapeError):
        add(g, Bad(r=1), "layer0|layer1")
    assert [repr(n) for n in g.nodes] == nodes and list(of(g)) == ["first"]
    assert [t.name for t in g.trainable] == [t.name for t in first.parameters]
    np.testing.assert_array_equal(run(g, y), before)
    first.disable()
    first.remove()
    assert len(g.trainable) == 6


def test_a_graph_that_runs_or_is_closed() -> None:
    g, _ = mlp()
    with g.running(), pytest.raises(GraphBusyError):
        add(g, LoRA(r=2), "layer0")
    assert not of(g)
    seen = []

    def body(c: gw.Tensor) -> gw.Tensor:
        seen.append(c.graph)
        return c * 2.0

    _ = gw.cond(g.placeholder("p", (), "bool"), body, body, g["x"])
    with pytest.raises(GraphError, match="adapt the graph around it"):
        add(seen[0], LoRA(r=2))


def test_a_notebook_cell_that_runs_again_adds_it_anew() -> None:
    g, y = mlp()
    with g.cell("adapt"):
        add(g, LoRA(r=2), "layer0")
    with g.cell("adapt"):
        adapted = add(g, LoRA(r=3), "layer0|layer2")
    assert len(adapted.places) == 2 and list(of(g).values()) == [adapted]
    assert len(adapted.parameters) == 4 and run(g, y).shape == (4, 3)
    adapted.remove()
    assert len(g.nodes) == len(mlp()[0].nodes)


def test_a_method_of_the_user_is_one_class() -> None:
    @dataclass(frozen=True)
    class Scaled(Adapter):
        """y·exp(s)."""

        def variables(self, place: Any) -> Mapping[str, Leaf]:
            return {"s": Leaf((place.n_out,))}

        def apply(self, place: Place, use: Any, x: Any, y: gw.Tensor, p: Any) -> gw.Tensor:
            return y * gw.exp(p["s"])

        def changed(self, place: Place, w: gw.Tensor, p: Any) -> gw.Tensor:
            return w * gw.exp(p["s"])[:, None]

    g, y = mlp()
    base = run(g, y)
    adapted = add(g, Scaled(), "layer2")
    adapted.load_state({"layer2/w/s": np.log([1.0, 2.0, 4.0])})
    np.testing.assert_allclose(run(g, y), base * [1, 2, 4], rtol=1e-5)
    adapted.weight = 0.5
    np.testing.assert_allclose(run(g, y), base * [1, 1.5, 2.5], rtol=1e-5)
    [place] = sites(g, but=adapted.parameters)[2:]
    done = adapted.adapter.merge(place, place.array(), None, {"s": np.log([1.0, 2.0, 4.0])})
    assert done is not None
    np.testing.assert_allclose(done[0], place.array() * [[1], [2], [4]], rtol=1e-6)
